"""Plain NumPy loops written straight from the formulas: what the library is tested against.

A kernel here is a function of two points ``p`` and ``q``; a point holds one input ``x [d]`` and the values of the
kernel's functions there, with components a as first axis: ``lengthscale [a, d]``, ``frequency [a, d]``,
``amplitude [a]`` and whatever else the kernel needs. Nothing here uses JAX or the library.
"""

from __future__ import annotations

import cmath
import itertools
import math
from types import SimpleNamespace as Point

import numpy as np


def points(X, **functions):
    """One point for every row of X; a function maps ``X [n, d]`` to values ``[n, ...]``, an array is a constant."""
    values = {
        name: np.asarray(value(X)) if callable(value) else [np.asarray(value)] * len(X)
        for name, value in functions.items()
    }
    return [Point(x=X[i], **{name: value[i] for name, value in values.items()}) for i in range(len(X))]


def matrix(kernel, P, Q):
    """The covariance matrix of a kernel between two lists of points."""
    K = np.empty((len(P), len(Q)))
    for i, p in enumerate(P):
        for j, q in enumerate(Q):
            K[i, j] = kernel(p, q)
    return K


# --- stationary kernels ---


def squared_exponential(p, q):
    """SE: Σ_a σ_i σ_j exp(−½ ‖τ/ℓ‖²)."""
    total = 0.0
    for a in range(len(p.amplitude)):
        D = sum((p.x[d] - q.x[d]) ** 2 / p.lengthscale[a, d] ** 2 for d in range(len(p.x)))
        total += p.amplitude[a] * q.amplitude[a] * math.exp(-D / 2)
    return total


def spectral_mixture(p, q):
    """SM: Σ_a σ_i σ_j exp(−½ ‖τ/ℓ‖²) cos⟨ω, τ⟩."""
    total = 0.0
    for a in range(len(p.amplitude)):
        D = sum((p.x[d] - q.x[d]) ** 2 / p.lengthscale[a, d] ** 2 for d in range(len(p.x)))
        U = sum(p.frequency[a, d] * (p.x[d] - q.x[d]) for d in range(len(p.x)))
        total += p.amplitude[a] * q.amplitude[a] * math.exp(-D / 2) * math.cos(U)
    return total


def deep_squared_exponential(p, q):
    """Deep SE: σ_i σ_j exp(−½ ‖(f(x_i) − f(x_j))/ℓ‖²), for one component; ``warp`` holds f(x)."""
    D = sum((p.warp[d] - q.warp[d]) ** 2 / p.lengthscale[0, d] ** 2 for d in range(len(p.warp)))
    return p.amplitude[0] * q.amplitude[0] * math.exp(-D / 2)


# --- kernels with varying lengthscale and frequency ---


def _Q(p, q, a):
    """Q_ij = Σ_d τ²/(ℓ_i² + ℓ_j²)."""
    total = 0.0
    for d in range(len(p.x)):
        total += (p.x[d] - q.x[d]) ** 2 / (p.lengthscale[a, d] ** 2 + q.lengthscale[a, d] ** 2)
    return total


def _rho(p, q, a):
    """ρ_ij = Π_d sqrt(2 ℓ_i ℓ_j/(ℓ_i² + ℓ_j²))."""
    total = 1.0
    for d in range(len(p.x)):
        li, lj = p.lengthscale[a, d], q.lengthscale[a, d]
        total *= math.sqrt(2 * li * lj / (li**2 + lj**2))
    return total


def nonstationary_quadratic(p, q):
    """NSQ: D = Q, U = 0, σ = ρ."""
    total = 0.0
    for a in range(len(p.amplitude)):
        total += p.amplitude[a] * q.amplitude[a] * _rho(p, q, a) * math.exp(-_Q(p, q, a) / 2)
    return total


def generalized_spectral_mixture(p, q):
    """GSM: D = Q, U = ⟨ω_i, x_i⟩ − ⟨ω_j, x_j⟩, σ = ρ."""
    total = 0.0
    for a in range(len(p.amplitude)):
        U = sum(p.frequency[a, d] * p.x[d] - q.frequency[a, d] * q.x[d] for d in range(len(p.x)))
        total += p.amplitude[a] * q.amplitude[a] * _rho(p, q, a) * math.exp(-_Q(p, q, a) / 2) * math.cos(U)
    return total


def convolutional_spectral(p, q):
    """CSK, diagonal Σ: D = Q + S, U = ⟨ω_ij, τ⟩, σ = ρ."""
    total = 0.0
    for a in range(len(p.amplitude)):
        U = S = 0.0
        for d in range(len(p.x)):
            li, lj = p.lengthscale[a, d] ** 2, q.lengthscale[a, d] ** 2
            wi, wj = p.frequency[a, d], q.frequency[a, d]
            U += (li * wi + lj * wj) / (li + lj) * (p.x[d] - q.x[d])
            S += (wi - wj) ** 2 * li * lj / (li + lj)
        D = _Q(p, q, a) + S
        total += p.amplitude[a] * q.amplitude[a] * _rho(p, q, a) * math.exp(-D / 2) * math.cos(U)
    return total


def full_convolutional_spectral(p, q):
    """CSK with full matrices Σ (``covariance [a, d, d]``), the same with (Σ_i + Σ_j)⁻¹ and (Σ_i⁻¹ + Σ_j⁻¹)⁻¹."""
    total = 0.0
    for a in range(len(p.amplitude)):
        Si, Sj, wi, wj = p.covariance[a], q.covariance[a], p.frequency[a], q.frequency[a]
        tau = p.x - q.x
        inverse = np.linalg.inv(Si + Sj)
        harmonic = np.linalg.inv(np.linalg.inv(Si) + np.linalg.inv(Sj))
        rho = (np.linalg.det(Si) * np.linalg.det(Sj)) ** 0.25 / math.sqrt(np.linalg.det((Si + Sj) / 2))
        D = tau @ inverse @ tau + (wi - wj) @ harmonic @ (wi - wj)
        U = (inverse @ (Si @ wi + Sj @ wj)) @ tau
        total += p.amplitude[a] * q.amplitude[a] * rho * math.exp(-D / 2) * math.cos(U)
    return total


def complex_chirplet(p, q, a):
    """One component of the chirplet kernel before the real part is taken: Π_d sqrt(2/(ℓ_iℓ_jA)) exp(…)."""
    value = complex(p.amplitude[a] * q.amplitude[a])
    for d in range(len(p.x)):
        li, lj = p.lengthscale[a, d], q.lengthscale[a, d]
        wi, wj = p.frequency[a, d], q.frequency[a, d]
        ai, aj = complex(li**-2, -p.chirp[a, d]), complex(lj**-2, q.chirp[a, d])  # a_i and the conjugate of a_j
        A, tau, delta = ai + aj, p.x[d] - q.x[d], wi - wj
        value *= cmath.sqrt(2 / (li * lj * A))
        value *= cmath.exp(-0.5 * (ai * aj * tau**2 + delta**2) / A - 1j * tau * (aj * wi + ai * wj) / A)
    return value


def chirplet(p, q):
    """Chirplet kernel; ``chirp [a, d]`` is c."""
    return sum(complex_chirplet(p, q, a).real for a in range(len(p.amplitude)))


def phase(p, q):
    """Phase kernel: D = Q, U = φ_i − φ_j (``phase [a]``), σ = ρ."""
    total = 0.0
    for a in range(len(p.amplitude)):
        envelope = _rho(p, q, a) * math.exp(-_Q(p, q, a) / 2)
        total += p.amplitude[a] * q.amplitude[a] * envelope * math.cos(p.phase[a] - q.phase[a])
    return total


def matern_phase(order):
    """Phase kernel with a Matérn envelope: Σ_a σ_i σ_j M_ν(|τ_i − τ_j|) cos(φ_i − φ_j) (``time``, ``phase [a]``)."""

    def kernel(p, q):
        total = 0.0
        for a in range(len(p.amplitude)):
            envelope = matern(order, math.sqrt(2 * order) * abs(p.time[a] - q.time[a]))
            total += p.amplitude[a] * q.amplitude[a] * envelope * math.cos(p.phase[a] - q.phase[a])
        return total

    return kernel


# --- kernels from spectral densities over pairs of frequencies ---


def base_squared_exponential(a, b):
    return math.exp(-sum((s - t) ** 2 for s, t in zip(a, b, strict=True)) / 2)


def base_matern32(a, b):
    r = math.sqrt(sum((s - t) ** 2 for s, t in zip(a, b, strict=True)))
    return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)


def base_matern52(a, b):
    r = math.sqrt(sum((s - t) ** 2 for s, t in zip(a, b, strict=True)))
    return (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r)


def generalized_spectral(base):
    """GSK: Σ_p α_p h(γ_p∘x_i, γ_p∘x_j) Ψ_p(x_i)ᵀ Ψ_p(x_j); α = σ_i σ_j, γ = 1/ℓ, ω₁ and ω₂ ``[a, d]``."""

    def features(point, a):
        first = sum(point.first_frequency[a, d] * point.x[d] for d in range(len(point.x)))
        second = sum(point.second_frequency[a, d] * point.x[d] for d in range(len(point.x)))
        return np.array([math.cos(first) + math.cos(second), math.sin(first) + math.sin(second)])

    def kernel(p, q):
        total = 0.0
        for a in range(len(p.amplitude)):
            gamma = 1 / p.lengthscale[a]
            h = base(gamma * p.x, gamma * q.x)
            total += p.amplitude[a] * q.amplitude[a] * h * (features(p, a) @ features(q, a))
        return total

    return kernel


def harmonizable_mixture(centre, mu, Sigma1, Sigma2, B, gamma):
    """HMK: Re Σ_p g(γ_p∘a, γ_p∘b) φ_p(a)ᵀ B_p conj φ_p(b), a = x_i − x_p, b = x_j − x_p.

    ``centre`` and ``gamma`` are [p, d], ``mu [p, q, d]`` in cycles, ``B [p, q, q]`` Hermitian.
    """

    def kernel(p, q):
        total = 0.0 + 0.0j
        for c in range(len(centre)):
            a, b = p.x - centre[c], q.x - centre[c]
            middle, lag = gamma[c] * (a + b) / 2, gamma[c] * (a - b)
            g = math.exp(-2 * math.pi**2 * (middle @ Sigma1 @ middle + lag @ Sigma2 @ lag))
            for one, other in itertools.product(range(mu.shape[1]), repeat=2):
                left = cmath.exp(2j * math.pi * (mu[c, one] @ a))
                right = cmath.exp(2j * math.pi * (mu[c, other] @ b))
                total += g * left * B[c, one, other] * right.conjugate()
        return total.real

    return kernel


# --- basis functions ---


def basis(p, u, a):
    """σ K_x(u) / ‖K_x‖ of one component on points ``u [g, d]``: a Gaussian window, an oscillation and a chirp."""
    value = np.full(len(u), complex(p.amplitude[a]))
    for d in range(len(p.x)):
        v, length = u[:, d] - p.x[d], p.lengthscale[a, d]
        value *= np.exp(-0.5 * (length**-2 - 1j * p.chirp[a, d]) * v**2 + 1j * p.frequency[a, d] * v)
        value /= math.sqrt(math.sqrt(math.pi) * length)  # ∫ exp(−v²/ℓ²) dv = ℓ √π
    return value


def inner_products(P, Q, axes):
    """Re Σ_a ∫ K_p(u) conj K_q(u) du by trapezoidal sums over the product of the grids ``axes``."""
    u = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    cell = math.prod(axis[1] - axis[0] for axis in axes)
    K = np.zeros((len(P), len(Q)))
    for a in range(len(P[0].amplitude)):
        left, right = (np.array([basis(point, u, a) for point in side]) for side in (P, Q))
        K += (left @ right.conj().T).real * cell
    return K


# --- Wigner distributions ---


def wigner(kernel, functions, X, s, reach, count):
    """W(x, s) = ∫ k(x + t/2, x − t/2) exp(−2πi⟨s, t⟩) dt by trapezoidal sums over |t_d| ≤ reach with ``count`` lags.

    ``functions(X)`` gives the points of inputs X; ``s`` is ``[m, d]``.
    """
    D = X.shape[1]
    axis = np.linspace(-reach, reach, count)
    t = np.stack(np.meshgrid(*[axis] * D, indexing="ij"), axis=-1).reshape(-1, D)
    cell = (axis[1] - axis[0]) ** D
    waves = np.exp(-2j * np.pi * s @ t.T) * cell
    W = np.empty((len(X), len(s)))
    for i, x in enumerate(X):
        ahead, behind = functions(x + t / 2), functions(x - t / 2)
        values = np.array([kernel(p, q) for p, q in zip(ahead, behind, strict=True)])
        assert abs(values[[0, -1]]).max() < 1e-12 * abs(values).max(), "the lags do not reach far enough"
        W[i] = (waves @ values).real
    return W


def gaussian(s, mean, covariance):
    """N(s | mean, covariance) at ``s [m, d]``."""
    residual = s - mean
    exponent = -0.5 * np.einsum("md,de,me->m", residual, np.linalg.inv(covariance), residual)
    return np.exp(exponent) / math.sqrt(np.linalg.det(2 * np.pi * covariance))


def mirrored_gaussian(s, xi, covariance):
    """½ [N(s | ξ/2π, C) + N(s | −ξ/2π, C)]."""
    return 0.5 * (gaussian(s, xi / (2 * np.pi), covariance) + gaussian(s, -xi / (2 * np.pi), covariance))


def mirrored_student(s, xi, scale, freedom):
    """The same of two Student-t densities of one frequency ``s [m]``, with squared ``scale`` in the place of C."""
    norm = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(math.pi * freedom * scale)
    z = [(s - centre) ** 2 / scale for centre in (xi / (2 * np.pi), -xi / (2 * np.pi))]
    return 0.5 * norm * sum((1 + square / freedom) ** (-(freedom + 1) / 2) for square in z)


def matern_density(order, omega):
    """∫ M_ν(|t|) exp(−iωt) dt = 2√π Γ(ν + ½)/Γ(ν) (2ν)^ν (2ν + ω²)^(−ν − ½). Rasmussen & Williams (2006), Eq. 4.15."""
    factor = 2 * math.sqrt(math.pi) * math.gamma(order + 0.5) / math.gamma(order)
    return factor * (2 * order) ** order * (2 * order + omega**2) ** (-order - 0.5)


# --- oscillators ---


def matern(order, x):
    """Matérn correlation of order ν = ½, 3/2 or 5/2 over x = √(2ν) |τ|."""
    return math.exp(-x) * {0.5: 1.0, 1.5: 1.0 + x, 2.5: 1.0 + x + x * x / 3.0}[order]


def oscillator_correlations(x, orders):
    """Correlations ``[Q, L, L]`` of oscillators between rows; ``x [L, Q]`` are the decays from row to row."""
    M = np.empty((len(orders), len(x), len(x)))
    for q, order in enumerate(orders):
        for i in range(len(x)):
            for j in range(len(x)):
                M[q, i, j] = matern(order, sum(x[k, q] for k in range(min(i, j) + 1, max(i, j) + 1)))
    return M


def oscillator_posterior(x, h, y, r, orders):
    """Log density of the outputs, and mean ``[L, Q]`` and covariance ``[L, Q, Q]`` of the oscillators given them.

    y = Σ_q h_q u_q + noise of variance r; rows with r = ∞ are not observed.
    """
    M, seen = oscillator_correlations(x, orders), np.flatnonzero(np.isfinite(r))
    C = np.diag(r[seen])
    for q in range(len(orders)):
        C += np.outer(h[seen, q], h[seen, q]) * M[q][np.ix_(seen, seen)]
    density = gaussian_log_density(y[seen], C)
    mean, covariance = np.empty((len(x), len(orders))), np.empty((len(x), len(orders), len(orders)))
    for i in range(len(x)):
        cross = np.stack([h[seen, q] * M[q, i, seen] for q in range(len(orders))])
        mean[i] = cross @ np.linalg.solve(C, y[seen])
        covariance[i] = np.eye(len(orders)) - cross @ np.linalg.solve(C, cross.T)
    return density, mean, covariance


def gaussian_log_density(y, C):
    """log N(y; 0, C)."""
    return -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + len(y) * math.log(2.0 * math.pi))
