"""Covariance matrices are positive semidefinite whatever the functions: rough, extreme, with repeated inputs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spectrogp as sg
from zoo import DIMENSIONS, KERNELS
from zoo_fields import N, Wild

kernels = sg.kernels
pytestmark = pytest.mark.usefixtures("compile_quickly")

SEARCH = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def wild(draw, case, D):
    """A kernel of wild functions, and what it was made of."""
    fields = Wild(draw, D)
    return case.wild(fields), fields


def largest_terms(kernel, X):
    """The largest Σ_a |σ_a| of an input: what k(x, x) is the sum of, without signs."""
    p = kernel.local(X)
    return max(
        float(np.sum(np.abs(kernel.pair(one, one).amplitude)))
        for one in (jax.tree.map(lambda leaf, i=i: leaf[i], p) for i in range(len(X)))
    )


def smallest_eigenvalue(K):
    return np.linalg.eigvalsh(K)[0]


@pytest.mark.parametrize(
    "case", [case for case in KERNELS if case.search], ids=lambda case: case.name.replace(" ", "-")
)
@pytest.mark.parametrize(
    ("D", "examples"),
    [*((D, 30) for D in DIMENSIONS), *(pytest.param(D, 300, marks=pytest.mark.slow) for D in (1, 2, 3))],
)
def test_positive_semidefinite(case, D, examples):
    @settings(SEARCH, max_examples=examples)
    @given(wild(case, D))
    def check(drawn):
        kernel, fields = drawn
        K = kernel(fields.X)
        assert np.all(np.isfinite(K))
        smallest, scale = smallest_eigenvalue(K), N * np.max(np.diag(K))
        if smallest < -1e-10 * scale:  # perhaps rounding: the terms of a sum over components may be far above the sum
            scale = N * largest_terms(kernel, fields.X)
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
        p = kernel.local(X)
        by_pair = kernels.AbstractKernel.cross(kernel, p, p)
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
