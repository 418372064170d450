"""Covariance matrices are positive semidefinite whatever the functions: rough, extreme, with repeated inputs.

Functions are callables that return a drawn table, row i for input i: as rough as a function can be. Repeated inputs
come with repeated values, as a function's must.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import spectrogp as sg
from zoo import DIMENSIONS, double

kernels = sg.kernels

N, A = 8, 2
EXAMPLES = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def unit(shape):
    """Arrays of numbers in [−1, 1]: evenly spread, or as hypothesis likes them, extreme, equal and very small."""
    spread = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).uniform(-1, 1, shape))
    return spread | arrays(np.float64, shape, elements=st.floats(-1, 1)) | spread


@st.composite
def uniform(draw, low, high, *shape):
    """An array of numbers in [low, high]: independent; equal along its first axis; or all close to each other.

    Independent numbers alone would give little more than diagonal matrices, where nothing can go wrong.
    """
    table = draw(unit(draw(st.sampled_from([shape, (1, *shape[1:])]))))
    centre, spread = draw(st.just((0.0, 0.0)) | st.tuples(st.floats(-1, 1), st.floats(-8, 0)))
    values = (low + high) / 2 + (high - low) / 2 * np.clip(centre + 10.0**spread * table, -1, 1)
    return np.broadcast_to(values, shape)


def powers(low, high, *shape):
    """10 to a power, so that all magnitudes are equally likely."""
    return uniform(low, high, *shape).map(lambda exponent: 10.0**exponent)


def rotated(scale, angle):
    """Matrices R diag(scale²) Rᵀ [n, a, d, d] with R a product of rotations by the angles [n, a, d]."""
    D = scale.shape[-1]
    R = np.broadcast_to(np.eye(D), (*scale.shape, D))
    for d in range(D - 1):
        turn = np.broadcast_to(np.eye(D), R.shape).copy()
        c, s = np.cos(angle[..., d]), np.sin(angle[..., d])
        turn[..., d, d], turn[..., d, d + 1], turn[..., d + 1, d], turn[..., d + 1, d + 1] = c, -s, s, c
        R = R @ turn
    S = np.einsum("nade,nae,nafe->nadf", R, scale**2, R)
    return (S + np.swapaxes(S, -1, -2)) / 2


# What a kernel may need, in D dimensions: tables over the inputs, and constants.
TABLES = {
    "lengthscale": lambda D: powers(-3, 3, N, A, D),
    "frequency": lambda D: uniform(-1e3, 1e3, N, A, D),
    "chirp": lambda D: uniform(-1e3, 1e3, N, A, D),
    # Often with one component alone: a second one hides what the first does wrong.
    "amplitude": lambda D: st.tuples(uniform(0, 1e3, N, A), st.sampled_from([[1, 1], [1, 0]])).map(
        lambda parts: parts[0] * parts[1]
    ),
    "phase": lambda D: uniform(-1e3, 1e3, N, A),
    # Axes and angles of ellipsoids, axes at most 1:100. A matrix Σ of condition κ gives its smallest axis only to κ
    # times the rounding error, so nothing computed from Σ can be better than κ·1e-16, here 1e-12.
    "axes": lambda D: st.tuples(powers(-2, 2, N, A, 1), powers(-1, 1, N, A, D)).map(lambda parts: parts[0] * parts[1]),
    "angle": lambda D: uniform(0, 4, N, A, D),
    "scale": lambda D: uniform(0, 1e3, N),
    "warp": lambda D: uniform(-10, 10, N, 2),
}
CONSTANTS = {
    "constant_lengthscale": lambda D: powers(-3, 3, A, D),
    "constant_frequency": lambda D: uniform(-1e3, 1e3, A, D),
    "other_frequency": lambda D: uniform(-1e3, 1e3, A, D),
    # ω_d(x) = Σ_k c_k (x_d/10)^k of degree 0 to 3: at most 1000 where |x| ≤ 10.
    "polynomial": lambda D: st.tuples(uniform(-250, 250, 4, A, D), st.integers(0, 3)).map(
        lambda parts: parts[0] * (np.arange(4) <= parts[1])[:, None, None]
    ),
    "extents": lambda D: powers(-3, 3, 2, D),
    "centre": lambda D: uniform(-10, 10, 2, D),
    "wavevectors": lambda D: uniform(-1e3, 1e3, 2, 3, D),
    "factors": lambda D: uniform(-1e3, 1e3, 2, 2, 3, 2).map(lambda parts: parts[0] + 1j * parts[1]),
    "gamma": lambda D: powers(-1, 1, 2, D),
    "short_lengthscale": lambda D: powers(-3, 3, 2),
}


class Drawn:
    """Drawn inputs and parameters as attributes; tables as callables that return them."""

    def __init__(self, values):
        rows = values.pop("rows")
        self.X = values.pop("X")[rows]
        self.tables = {name: table[rows] for name, table in values.items() if name in TABLES}
        self.constants = {name: value for name, value in values.items() if name not in TABLES}

    def __getattr__(self, name):
        if name in self.constants:
            return self.constants[name]
        table = self.tables[name]
        return lambda X: table

    def __repr__(self):
        return f"X = {self.X!r}, {self.tables!r}, {self.constants!r}"

    def frequency_polynomial(self, X):
        return sum(c * (X[:, None, :] / 10) ** k for k, c in enumerate(self.polynomial))

    @property
    def covariance(self):
        return lambda X: rotated(self.tables["axes"], self.tables["angle"])


def drawn(D, names):
    fields = {name: (TABLES | CONSTANTS)[name](D) for name in names}
    # Inputs at any distance, so that some lengthscale always fits.
    fields["X"] = st.tuples(unit((N, D)), st.floats(-3, 1)).map(lambda parts: parts[0] * 10.0 ** parts[1])
    repeated = arrays(np.intp, N, elements=st.integers(0, N - 1), fill=st.nothing())
    fields["rows"] = st.just(np.arange(N)) | repeated
    return st.fixed_dictionaries(fields).map(Drawn)


def generalized(smoothness):
    return lambda v: kernels.GeneralizedSpectral(
        v.constant_lengthscale, v.constant_frequency, v.other_frequency, v.amplitude, smoothness=smoothness
    )


GENERALIZED = ("constant_lengthscale", "constant_frequency", "other_frequency", "amplitude")
FUNCTIONS = ("lengthscale", "frequency", "amplitude")

CASES = {
    "squared exponential": (
        ("constant_lengthscale", "amplitude"),
        lambda v: kernels.SquaredExponential(v.constant_lengthscale, v.amplitude),
    ),
    "spectral mixture": (
        ("constant_lengthscale", "constant_frequency", "amplitude"),
        lambda v: kernels.SpectralMixture(v.constant_lengthscale, v.constant_frequency, v.amplitude),
    ),
    "nonstationary quadratic": (
        ("lengthscale", "amplitude"),
        lambda v: kernels.NonstationaryQuadratic(v.lengthscale, v.amplitude),
    ),
    "generalized spectral mixture": (
        FUNCTIONS,
        lambda v: kernels.GeneralizedSpectralMixture(v.lengthscale, v.frequency, v.amplitude),
    ),
    "convolutional": (FUNCTIONS, lambda v: kernels.ConvolutionalSpectral(v.lengthscale, v.frequency, v.amplitude)),
    "full convolutional": (
        ("axes", "angle", "frequency", "amplitude"),
        lambda v: kernels.FullConvolutionalSpectral(v.covariance, v.frequency, v.amplitude),
    ),
    "chirplet free": (
        (*FUNCTIONS, "chirp"),
        lambda v: kernels.Chirplet(v.lengthscale, v.frequency, v.amplitude, chirp=v.chirp),
    ),
    "chirplet tied": (
        ("lengthscale", "polynomial", "amplitude"),
        lambda v: kernels.Chirplet(v.lengthscale, v.frequency_polynomial, v.amplitude),
    ),
    "phase": (("lengthscale", "phase", "amplitude"), lambda v: kernels.Phase(v.lengthscale, v.phase, v.amplitude)),
    "generalized spectral": (GENERALIZED, generalized(np.inf)),
    "generalized spectral 3/2": (GENERALIZED, generalized(1.5)),
    "generalized spectral 5/2": (GENERALIZED, generalized(2.5)),
    "harmonizable": (
        ("centre", "wavevectors", "extents", "factors", "gamma"),
        lambda v: kernels.HarmonizableMixture(v.centre, v.wavevectors, *v.extents, v.factors, v.gamma),
    ),
    "sum": (
        (*FUNCTIONS, "constant_lengthscale", "constant_frequency"),
        lambda v: (
            kernels.ConvolutionalSpectral(v.lengthscale, v.frequency, v.amplitude)
            + kernels.SpectralMixture(v.constant_lengthscale, v.constant_frequency)
        ),
    ),
    "product": (
        (*FUNCTIONS, "phase", "scale"),
        lambda v: kernels.Scaled(
            kernels.ConvolutionalSpectral(v.lengthscale, v.frequency, v.amplitude)
            * kernels.Phase(v.lengthscale, v.phase),
            v.scale,
        ),
    ),
    "warped": (
        ("warp", "short_lengthscale", "amplitude"),
        lambda v: kernels.Warped(kernels.SquaredExponential(v.short_lengthscale, v.amplitude), v.warp),
    ),
}


def smallest_eigenvalue(K):
    return np.linalg.eigvalsh(K)[0]


@pytest.mark.parametrize("name", CASES, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.parametrize("D", DIMENSIONS)
def test_positive_semidefinite(name, D):
    fields, build = CASES[name]

    @EXAMPLES
    @given(drawn(D, fields))
    def check(values):
        K = build(values)(values.X)
        assert np.all(np.isfinite(K))
        smallest, scale = smallest_eigenvalue(K), N * np.max(np.diag(K))
        assert smallest >= -1e-10 * scale

    check()


@pytest.mark.parametrize("c", [1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("length", [1.0, 10.0, 100.0, 1000.0])
def test_long_chirps_stay_coherent_and_positive(c, length):
    """Windows that follow ω = cx stay correlated over many lengthscales' worth of turns: the largest phases of all.

    By completing the square in K_x(u) = exp(−½((u−x)/ℓ)² + ½ic(u² − x²)) the kernel is a product of features,
    exp(−¼(τ/ℓ)²) cos(½c(x_i² − x_j²)), which needs no difference of large numbers.
    """
    X = np.linspace(-10, 10, N)[:, None] + 0.1
    expected = np.exp(-0.25 * ((X - X.T) / length) ** 2) * np.cos(0.5 * c * (X**2 - X.T**2))
    for kernel in (kernels.Chirplet(length, lambda X: c * X), kernels.Chirplet(length, lambda X: c * X, chirp=c)):
        with double():
            p = kernel.local(jnp.asarray(X))
            by_pair = np.asarray(kernels.AbstractKernel.cross(kernel, p, p))
        for K in (kernel(X), by_pair):
            assert smallest_eigenvalue(K) >= -1e-10 * N
            # The phase itself is of the size c x², so rounding of it is 1e-16 times that.
            assert np.max(np.abs(K - expected)) <= 1e-12 + 1e-15 * c * 100


def test_one_root_for_all_dimensions_would_be_indefinite():
    """The check has teeth: it fails for a known error, the prefactor of NSQ without its power per dimension."""
    # A wide window in the middle of a ring of narrow ones.
    turn = np.arange(8) * np.pi / 4
    X = np.concatenate([np.zeros((1, 2)), np.stack([np.cos(turn), np.sin(turn)], axis=-1)])
    length = np.array([2.0] + 8 * [0.3])
    total = length[:, None] ** 2 + length**2
    wrong = np.sqrt(2 * np.outer(length, length) / total) * np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, -1) / total)
    assert smallest_eigenvalue(wrong) < -0.1
    right = kernels.NonstationaryQuadratic(lambda X: jnp.asarray(length))(X)
    assert smallest_eigenvalue(right) > 0.1
