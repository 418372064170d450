"""Constraints, priors with their Jacobians, and roles."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import spectrogp as sg
from spectrogp.parameters import (
    FunctionGroup,
    LogNormal,
    Normal,
    Positive,
    Real,
    constrain,
    functions,
    latent,
    log_prior,
    partition,
    realise,
)
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_values_and_raw_numbers():
    with double():
        tree = constrain({"a": Positive([2.0, 3.0]), "b": Real(-1.0), "c": "text"})
        np.testing.assert_allclose(tree["a"], [2.0, 3.0], rtol=1e-15)
        assert tree["b"] == -1.0
    assert tree["c"] == "text"
    np.testing.assert_allclose(Positive(2.0).raw, np.log(2.0))


def test_prior_of_raw_numbers_carries_the_jacobian():
    # log value ~ N(log 2, 0.5²) means that the raw number, log value, has just that density.
    parameter = Positive(3.0, LogNormal(2.0, 0.5))
    with double():
        np.testing.assert_allclose(log_prior(parameter), stats.norm(np.log(2.0), 0.5).logpdf(np.log(3.0)), rtol=1e-12)
        np.testing.assert_allclose(log_prior(Real(0.3, Normal(1.0, 2.0))), stats.norm(1.0, 2.0).logpdf(0.3), rtol=1e-12)
        both = [Real([0.1, 0.2], Normal()), Positive(1.0)]
        np.testing.assert_allclose(log_prior(both), stats.norm.logpdf([0.1, 0.2]).sum(), rtol=1e-12)
        # A density over raw numbers integrates to one over them.
        raw = np.linspace(-12.0, 12.0, 4001)
        along = jax.vmap(lambda r: log_prior(eqx.tree_at(lambda p: p.raw, parameter, r)))
        density = np.exp(along(jnp.asarray(raw[::20])))
    np.testing.assert_allclose(np.trapezoid(density, raw[::20]), 1.0, atol=1e-6)


def test_priors_take_lists():
    assert (
        Positive([1.0, 2.0], LogNormal([1.0, 2.0], 0.5)).log_prior
        == Positive([1.0, 2.0], LogNormal(np.array([1.0, 2.0]), 0.5)).log_prior
    )


def test_partition_by_role():
    tree = {"v": latent((3, 2)), "ell": Positive(1.0), "z": Real(np.zeros(4), role="fixed"), "other": np.ones(2)}
    some, rest = partition(tree, "latent")
    assert [leaf.shape for leaf in jax.tree.leaves(some)] == [(3, 2)]
    some, rest = partition(tree, "latent", "hyperparameter")
    assert sorted(leaf.shape for leaf in jax.tree.leaves(some)) == [(), (3, 2)]
    assert jax.tree.structure(eqx.combine(some, rest)) == jax.tree.structure(tree)


def test_positive_refuses_what_is_not():
    with pytest.raises(ValueError, match="a Positive parameter needs a positive value, got -1"):
        Positive(-1.0)


Z = np.linspace(-1.0, 1.0, 6)[:, None]


@eqx.filter_jit  # one program instead of dozens
def values_of(function, X):
    return function(X)


@pytest.mark.parametrize(("warp", "initial"), [("exp", 0.3), ("softplus", 0.3), ("identity", -2.0)])
def test_functions_begin_at_their_constant(warp, initial):
    group = FunctionGroup(Z, initial, shape=(2, 1), warp=warp)
    with double():
        at = jnp.linspace(-3.0, 3.0, 5)[:, None]
        np.testing.assert_allclose(values_of(group, at), np.full((5, 2, 1), initial), rtol=1e-12)


def test_functions_pass_through_their_inducing_values():
    v = np.random.default_rng(0).normal(size=(6, 2))
    group = FunctionGroup(Z, [[1.0], [2.0]], shape=(2, 1), warp="identity", lengthscale=0.4, amplitude=0.7)
    group = eqx.tree_at(lambda g: g.whitened.raw, group, v)
    K = 0.7**2 * np.exp(-0.5 * ((Z - Z.T) / 0.4) ** 2)
    expected = np.array([1.0, 2.0]) + np.linalg.cholesky(K) @ v
    with double():
        # Up to the nugget of 1e-8 in k(Z, Z), times a moderate inverse.
        np.testing.assert_allclose(values_of(group, jnp.asarray(Z))[..., 0], expected, atol=1e-6)


def test_functions_are_smooth_in_their_parameters_however_close_the_inducing_inputs():
    """k(Z, Z) of 20 inputs within two lengthscales is singular to rounding; a tiny step moves values by as little."""
    Z = np.linspace(-1.0, 1.0, 20)[:, None]
    group = FunctionGroup(Z, 1.0, warp="identity")
    group = eqx.tree_at(lambda g: g.whitened.raw, group, np.random.default_rng(0).normal(size=(20, 1)))
    with double():
        X = jnp.linspace(-1.0, 1.0, 50)[:, None]
        values = jax.jit(jax.vmap(lambda shift: eqx.tree_at(lambda g: g.lengthscale.raw, group, shift)(X)))
        moved = values(1e-9 * jnp.arange(20.0))
    assert np.max(np.abs(moved - moved[0])) < 1e-7  # 3e-6 without the nugget


@pytest.mark.slow
def test_draws_of_functions_have_the_conditional_moments(monkeypatch):
    """Over draws, random waves have exactly the prior's covariance, so Monte-Carlo error is all that remains."""
    group = FunctionGroup(Z[::2], 1.0, warp="identity", lengthscale=0.4, amplitude=0.7)
    group = eqx.tree_at(lambda g: g.whitened.raw, group, np.array([[1.0], [-0.5], [0.3]]))
    X = np.array([[-1.0], [-0.4], [-0.35], [0.9], [2.5]])  # an inducing input, near neighbours, and far outside

    def k(a, b):
        return 0.7**2 * np.exp(-0.5 * ((a - b.T) / 0.4) ** 2)

    L = np.linalg.cholesky(k(Z[::2], Z[::2]))
    A = np.linalg.solve(L, k(Z[::2], X))
    mean, covariance = 1.0 + A.T @ np.array([1.0, -0.5, 0.3]), k(X, X) - A.T @ A

    draws = 20_000
    monkeypatch.setattr(functions, "WAVES", 64)
    with double():
        constrained, at, keys = constrain(group), jnp.asarray(X), jax.random.split(jax.random.key(0), draws)
        whole = np.asarray(jax.jit(jax.vmap(lambda key: constrained.realise(key)(at)))(keys))
        single = np.asarray(jax.jit(jax.vmap(lambda key: constrained.draw_marginals(at, key)))(keys))
        moments = constrained.conditional(at)
    np.testing.assert_allclose(moments[0], mean, atol=1e-7)  # up to the nugget of 1e-8 in k(Z, Z)
    np.testing.assert_allclose(moments[1] ** 2, np.diag(covariance), atol=1e-7)
    for values, expected in ((whole, covariance), (single, np.diag(np.diag(covariance)))):
        # Five standard errors of a mean, and of a product of two normals, of variance at most 2 · 0.49².
        np.testing.assert_allclose(values.mean(axis=0), mean, atol=5 * 0.7 / np.sqrt(draws))
        np.testing.assert_allclose(np.cov(values.T), expected, atol=5 * 0.49 * np.sqrt(2.5 / draws))


def test_a_tree_is_realised_by_draws_that_differ_by_group():
    kernel = sg.kernels.NonstationaryQuadratic(FunctionGroup(Z, 0.3), FunctionGroup(Z, 0.3))
    with double():

        @jax.jit
        def draw(key, X):
            drawn = realise(constrain(kernel), key)
            return drawn.lengthscale(X), drawn.amplitude(X)

        X, key, other = jnp.asarray(Z), jax.random.key(0), jax.random.key(1)
        lengthscale, amplitude = draw(key, X + 5.0)
        assert not np.allclose(lengthscale, amplitude)
        np.testing.assert_array_equal(draw(jax.random.key(0), X + 5.0)[0], lengthscale)
        assert not np.allclose(draw(other, X + 5.0)[0], lengthscale)
        np.testing.assert_allclose(draw(key, X)[0], 0.3, rtol=1e-6)  # the whitened values are zero at Z


def test_a_kernel_takes_functions_and_parameters_alike():
    kernel = sg.kernels.ConvolutionalSpectral(
        FunctionGroup(Z, 0.3, shape=(2, 1)), Real([[1.0], [4.0]]), Positive([1.0, 0.5])
    )
    plain = sg.kernels.ConvolutionalSpectral(0.3, np.array([[1.0], [4.0]]), np.array([1.0, 0.5]))
    with double():
        np.testing.assert_allclose(values_of(realise(constrain(kernel)), jnp.asarray(Z)), plain(Z), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inducing": Z, "initial": -1.0}, "initial must be positive for the warp 'exp'"),
        ({"inducing": Z[None], "initial": 1.0}, r"inducing must have shape \[m, d\].*got \[1, 6, 1\]"),
        ({"inducing": Z, "initial": 1.0, "lengthscale": [1.0, 2.0]}, r"lengthscale must have shape \[\] or \[1\]"),
        ({"inducing": Z, "initial": 1.0, "warp": "square"}, "warp must be one of exp, softplus, identity"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
def test_function_groups_refuse_what_does_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        FunctionGroup(**arguments)


def test_functions_of_a_realised_model_are_read_in_float64():
    """From plain Python too: close inducing inputs make weights so large that float32 would lose the values."""
    close = np.linspace(0.0, 1.0, 20)[:, None]
    group = FunctionGroup(close, 5.0, lengthscale=0.5)
    group = eqx.tree_at(lambda g: g.whitened.raw, group, np.random.default_rng(0).normal(size=(20, 1)))
    model = sg.models.ExactGP(sg.kernels.NonstationaryQuadratic(group), 0.1)
    with jax.enable_x64(True):
        inside = np.asarray(model.realise().kernel.lengthscale(jnp.asarray(close)))
    outside = model.realise().kernel.lengthscale(close)
    assert outside.dtype == np.float64
    np.testing.assert_allclose(outside, inside, rtol=1e-12)
    np.testing.assert_allclose(group(close), inside, rtol=1e-6)  # the factor is computed anew, by another program
