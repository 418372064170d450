"""Factors and densities against NumPy and SciPy."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy.stats import multivariate_normal

from spectrogp.core import cholesky, gaussian_log_density, solve_lower, symmetric_root, whitened_kl
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")


def positive(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T + np.eye(n)


def test_factor_without_jitter_where_none_is_needed():
    K = positive(6)
    with double():
        factor = cholesky(jnp.asarray(K))
        np.testing.assert_allclose(factor.L, np.linalg.cholesky(K), atol=1e-13)
        np.testing.assert_allclose(factor.inverse @ factor.L, np.eye(6), atol=1e-13)
        np.testing.assert_allclose(factor.log_determinant, np.linalg.slogdet(K)[1], atol=1e-12)
        assert factor.jitter == 0


@pytest.mark.parametrize("compiled", [False, True])
def test_least_jitter_of_the_ladder(compiled):
    K = np.ones((5, 5))  # rank one: needs some jitter, and the first rungs suffice
    with double():
        factor = (jax.jit(cholesky) if compiled else cholesky)(jnp.asarray(K))
        L, jitter = np.asarray(factor.L), float(factor.jitter)
    assert 0 < jitter <= 1e-10
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(5), atol=1e-14)


def test_failure_is_named_outside_jit_and_nan_inside():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with double():
        with pytest.raises(np.linalg.LinAlgError, match=r"K\(Z, Z\) is not positive definite.*smallest eigenvalue -1"):
            cholesky(jnp.asarray(K), "K(Z, Z)")
        with pytest.raises(FloatingPointError, match="the noisy one has entries that are not finite"):
            cholesky(jnp.asarray(K) * np.nan, "the noisy one")
        assert np.isnan(jax.jit(cholesky)(jnp.asarray(K)).L).any()


@pytest.mark.slow
def test_factor_and_density_have_derivatives_of_both_kinds():
    y = np.linspace(-1.0, 1.0, 5)
    with double():
        K = jnp.asarray(positive(5))
        check_grads(jax.jit(lambda K: cholesky(0.5 * (K + K.T))[:2]), (K,), order=2)  # L and its inverse
        density = jax.jit(lambda y, K: gaussian_log_density(y, 0.5 * (K + K.T)))
        check_grads(density, (jnp.asarray(y), K), order=2)


def test_density_equals_scipy():
    K, y = positive(7), np.linspace(-2.0, 1.0, 7)
    with double():
        np.testing.assert_allclose(
            gaussian_log_density(jnp.asarray(y), jnp.asarray(K)), multivariate_normal(cov=K).logpdf(y), rtol=1e-12
        )


def test_gradient_of_a_density_too_large_for_one_block():
    K, y = positive(301), np.linspace(-2.0, 1.0, 301)
    inverse = np.linalg.inv(K)
    with double():
        dy, dK = jax.jit(jax.grad(gaussian_log_density, argnums=(0, 1)))(jnp.asarray(y), jnp.asarray(K))
        np.testing.assert_allclose(dy, -inverse @ y, atol=1e-11)
        np.testing.assert_allclose(dK, 0.5 * (np.outer(inverse @ y, inverse @ y) - inverse), atol=1e-11)


def test_symmetric_root_of_a_singular_matrix():
    with double():
        R = np.asarray(symmetric_root(jnp.ones((4, 4))))
    np.testing.assert_allclose(R @ R.T, np.ones((4, 4)), atol=1e-14)


def test_whitened_kl_equals_the_general_formula():
    rng = np.random.default_rng(0)
    mean, root = rng.normal(size=4), np.tril(rng.normal(size=(4, 4)))
    S = root @ root.T
    general = 0.5 * (np.trace(S) + mean @ mean - 4 - np.linalg.slogdet(S)[1])
    with double():
        np.testing.assert_allclose(whitened_kl(jnp.asarray(mean), jnp.asarray(root)), general, rtol=1e-12)


def some_factors(batch, n):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(*batch, n, n))
    return A @ A.swapaxes(-1, -2) + n * np.eye(n), rng.normal(size=(*batch, n, 2))


@double()
@pytest.mark.parametrize(("batch", "n"), [((500,), 20), ((3, 50), 30), ((3,), 100), ((7,), 4)])
def test_batches_of_any_size_are_those_of_single_matrices(batch, n):
    """Large ones are taken in parts, of one matrix or more, with some left over."""
    K, B = some_factors(batch, n)

    def solved(K, B):
        L = cholesky(K).L
        return solve_lower(L, B), solve_lower(L, B, True)

    mapped = solved
    for _ in batch:
        mapped = jax.vmap(mapped)
    found = jax.jit(mapped)(K, B)
    L = np.linalg.cholesky(K)
    np.testing.assert_allclose(found[0], np.linalg.solve(L, B), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1], np.linalg.solve(L.swapaxes(-1, -2), B), rtol=1e-9, atol=1e-12)


@double()
@pytest.mark.parametrize("transposed", [False, True])
def test_solutions_have_derivatives_of_both_kinds_also_in_batches(transposed):
    K, B = some_factors((3,), 4)
    L = np.linalg.cholesky(K)
    check_grads(lambda L, B: solve_lower(L, B, transposed), (L[0], B[0]), order=2)
    check_grads(jax.vmap(lambda L, B: solve_lower(L, B, transposed)), (L, B), order=2)
    each = jax.vmap(jax.grad(lambda L, B: jnp.sum(jnp.sin(solve_lower(L, B, transposed)))))(L, B)
    alone = jax.grad(lambda L, B: jnp.sum(jnp.sin(solve_lower(L, B, transposed))))(L[1], B[1])
    np.testing.assert_allclose(each[1], alone, rtol=1e-9)


SIDE_BY_SIDE = """
import jax, numpy as np
from spectrogp.core import cholesky
jax.config.update("jax_enable_x64", True)
A = [np.random.default_rng(k).normal(size=(100 + k, 20, 20)) for k in range(4)]
K = [a @ a.swapaxes(1, 2) + np.eye(20) for a in A]
factors = jax.jit(lambda *every: [jax.vmap(lambda K: cholesky(K).inverse)(K) for K in every])
for _ in range(1000):
    jax.block_until_ready(factors(*K))
"""


def test_batches_side_by_side_end():
    """With LAPACK's own batches of jaxlib 0.10 each would wait for a thread that another one has."""
    subprocess.run([sys.executable, "-c", SIDE_BY_SIDE], timeout=120, check=True)  # noqa: S603
