"""The forms of the fast path: (E, U, N) of pairs and their gradients, for each family of kernels with Gaussian windows.

A form takes vectors per input (inputs, squared lengthscales, frequencies …) of the two sides of a matrix, one dimension
after the other; ``pairwise`` makes matrices and gradients from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

import jax.numpy as jnp
from jax import Array

Vectors: TypeAlias = tuple[Array, ...]
# (E, U, N, turn): exp(−E/2 + iU) (turn₀ − i turn₁)/N of pairs; None for U = 0, N = 1, turn = (1, 0)
Polar: TypeAlias = tuple[Any, Any, Any, Any]


class Form(NamedTuple):
    """A kernel family: ``polar`` over all dimensions, and ``slopes``, the gradient along one of them.

    ``slopes`` takes GC and GS and gives, for each vector of the left side, the matrix whose row sums are its gradient,
    and for each of the right side that whose column sums are. The first belongs to x, is the same on both sides and
    enters with opposite signs: T = −∂/∂τ.
    """

    polar: Callable[[Array, Array], Polar]
    slopes: Callable[[Array, Array, Array, Array], tuple[Vectors, Vectors]]


def _stationary_polar(p: Array, q: Array) -> Polar:
    """E = Σ (τ/ℓ_i)², U = ⟨ω_i, τ⟩."""
    E, U = cast(Any, (0.0, 0.0))
    for (x, narrow, *frequency), (y,) in zip(p, q, strict=True):
        E = E + ((x - y) * narrow) ** 2
        U = U + (x - y) * frequency[0] if frequency else None
    return E, U, None, None


def _stationary_slopes(p: Array, q: Array, C: Array, S: Array) -> tuple[Vectors, Vectors]:
    """With n = 1/ℓ: T = n² τ C + ω S, ∂/∂n = −n τ² C, ∂/∂ω = −τ S."""
    x, narrow, *frequency = p
    tau = x - q[0]
    T = narrow**2 * tau * C + sum(w * S for w in frequency)
    return (T, -narrow * tau**2 * C, *(-tau * S for _ in frequency)), (T,)


def _quadratic_polar(p: Array, q: Array) -> Polar:
    """With a = ℓ_i², b = ℓ_j²: E = Q = Σ τ²/(a + b), N = Π sqrt((a + b)/2), h = σ Π sqrt ℓ."""
    E, product = cast(Any, (0.0, 1.0))
    for (x, a), (y, b) in zip(p, q, strict=True):
        E = E + (x - y) ** 2 / (a + b)
        product = product * (a + b)
    # The factor 2^(−D/2) stays outside: XLA turns a division by a bare root into rsqrt, which AVX2 does not vectorise.
    return E, None, 2.0 ** (-0.5 * len(p)) * jnp.sqrt(product), None


def _quadratic_slopes(p: Array, q: Array, C: Array, _: Array) -> tuple[Vectors, Vectors]:
    """With r = 1/(a + b): T = r τ C and ∂/∂a = ∂/∂b = ½ r (r τ² − 1) C."""
    (x, a), (y, b) = p, q
    r, tau = 1.0 / (a + b), x - y
    both = (r * tau * C, 0.5 * r * (r * tau**2 - 1.0) * C)
    return both, both


def _convolutional_polar(p: Array, q: Array) -> Polar:
    """E = Q + S = Σ (τ² + ab δ²)/(a + b) with δ = ω_i − ω_j, U = Σ τ (aω_i + bω_j)/(a + b), N and h as above."""
    E, U, product = cast(Any, (0.0, 0.0, 1.0))
    for (x, a, v), (y, b, w) in zip(p, q, strict=True):
        r = 1.0 / (a + b)
        E = E + ((x - y) ** 2 + (v - w) ** 2 * (a * b)) * r
        U = U + (x - y) * (a * v + b * w) * r
        product = product * (a + b)
    return E, U, 2.0 ** (-0.5 * len(p)) * jnp.sqrt(product), None


def _convolutional_slopes(p: Array, q: Array, C: Array, S: Array) -> tuple[Vectors, Vectors]:
    """With r = 1/(a + b), δ = ω_i − ω_j:

    T = r (τ C + (aω_i + bω_j) S)
    ∂/∂a = ½ r [r ((τ² − b²δ²) C − 2 τbδ S) − C]     ∂/∂ω_i = −a r (bδ C + τ S)
    ∂/∂b = ½ r [r ((τ² − a²δ²) C + 2 τaδ S) − C]     ∂/∂ω_j = b r (aδ C − τ S)

    They hold differences of frequencies only, so they stay accurate when all frequencies are large.
    """
    (x, a, v), (y, b, w) = p, q
    r, tau = 1.0 / (a + b), x - y
    ad, bd = a * (v - w), b * (v - w)
    T = r * (tau * C + (a * v + b * w) * S)
    left = 0.5 * r * (r * ((tau**2 - bd**2) * C - 2.0 * (tau * bd) * S) - C), -a * r * (bd * C + tau * S)
    right = 0.5 * r * (r * ((tau**2 - ad**2) * C + 2.0 * (tau * ad) * S) - C), b * r * (ad * C - tau * S)
    return (T, *left), (T, *right)


def _chirplet_polar(p: Array, q: Array) -> Polar:
    """The complex form of ``Chirplet`` in real numbers.

    With α = ℓ⁻², A = a_i + ā_j = s − ig, s = α_i + α_j, g = c_i − c_j, m = |A|², the dechirped differences
    v_i = δ − c_i τ, v_j = δ − c_j τ, and e the exponent (−½(a_i ā_j τ² + δ²) − iτ(ā_j ω_i + a_i ω_j))/A:

        E = −2 Re e = Σ (α_i v_j² + α_j v_i² + α_i α_j s τ²)/m
        U = −Im e = Σ τ(ω_i + ω_j)/2 + (g v_i v_j − τ(α_i² v_j − α_j² v_i))/(2m)

    sums of terms that do not cancel. sqrt(2/A) = ((√m + s) + ig)/(√m sqrt(√m + s)) is a turn by half the angle of A
    without an arctangent; h = σ Π α^¼ completes the prefactor.
    """
    E, U, c, s, moduli, roots = cast(Any, (0.0, 0.0, 1.0, 0.0, 1.0, 1.0))
    for (x, alpha, v, chirp), (y, beta, w, other) in zip(p, q, strict=True):
        tau, delta, total, g = x - y, v - w, alpha + beta, chirp - other
        r = 1.0 / (total**2 + g**2)
        modulus = jnp.sqrt(total**2 + g**2)
        vi, vj = delta - chirp * tau, delta - other * tau
        E = E + (alpha * vj**2 + beta * vi**2 + alpha * beta * total * tau**2) * r
        U = U + 0.5 * (tau * (v + w) + (g * vi * vj - tau * (alpha**2 * vj - beta**2 * vi)) * r)
        c, s = c * (modulus + total) - s * g, s * (modulus + total) + c * g
        moduli, roots = moduli * modulus, roots * (modulus + total)
    return E, U, moduli * jnp.sqrt(roots), (c, s)


def _chirplet_slopes(p: Array, q: Array, C: Array, S: Array) -> tuple[Vectors, Vectors]:
    """Derivatives of ζ = e − ½ log A, whose exponential is C − iS, by the complex a = a_i and b = ā_j:

        ε_i = (δ + iτb)/A      ∂ζ/∂ω_i = −ε_i      ∂ζ/∂a = ½(ε_i² − 1/A)      ∂ζ/∂τ = i(aε_i − ω_i)
        ε_j = (δ − iτa)/A      ∂ζ/∂ω_j = ε_j       ∂ζ/∂b = ½(ε_j² − 1/A)

    and for a real parameter ∂C/∂θ = Re((C − iS) ∂ζ/∂θ), with a = α_i − ic_i and b = α_j + ic_j.
    """
    (x, alpha, v, chirp), (y, beta, w, other) = p, q
    tau, delta, total, g = x - y, v - w, alpha + beta, chirp - other
    r = 1.0 / (total**2 + g**2)
    real, imaginary = total * r, g * r  # of 1/A

    def side(f: Array, k: Array) -> tuple[Array, Array, Array, Array]:
        """ε = (f + ik)/A and ∂ζ/∂a = ½(ε² − 1/A)."""
        er, ei = f * real - k * imaginary, f * imaginary + k * real
        return er, ei, 0.5 * (er**2 - ei**2 - real), er * ei - 0.5 * imaginary

    er, ei, ar, ai = side(delta - other * tau, tau * beta)
    fr, fi, br, bi = side(delta - chirp * tau, -tau * alpha)
    T = (alpha * ei - chirp * er) * C - (alpha * er + chirp * ei - v) * S
    left = (ar * C + ai * S, -(er * C + ei * S), ai * C - ar * S)
    right = (br * C + bi * S, fr * C + fi * S, br * S - bi * C)
    return (T, *left), (T, *right)


STATIONARY = Form(_stationary_polar, _stationary_slopes)
QUADRATIC = Form(_quadratic_polar, _quadratic_slopes)
CONVOLUTIONAL = Form(_convolutional_polar, _convolutional_slopes)
CHIRPLET = Form(_chirplet_polar, _chirplet_slopes)
