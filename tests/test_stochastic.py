"""The doubly stochastic bound: closed forms where there are any, below the marginal likelihood, unbiased gradients."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import spectrogp as sg
import zoo
from spectrogp.inference import Adam, maximise
from spectrogp.models import CollapsedGP, Data, DoublyStochasticGP, ExactGP, SparseGP, VariationalGP
from spectrogp.parameters import FunctionGroup, Positive, log_prior, partition

pytestmark = pytest.mark.usefixtures("compile_quickly")

Z = np.linspace(-1.5, 1.5, 5)[:, None]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-1.5, 1.5, (30, 1)), axis=0)
    return Data(X, np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=30))


def functional(kind=ExactGP, *rest):
    kernel = sg.kernels.ConvolutionalSpectral(FunctionGroup(Z, 0.5), FunctionGroup(Z, 4.0, warp="softplus"))
    return kind(kernel, Positive(0.3), *rest)


def estimates(model, data, draws):
    keys = jax.random.split(jax.random.key(0), draws)
    return np.asarray(_estimates(model, data, keys))


@eqx.filter_jit  # models of one shape share it
def _estimates(model, data, keys):
    return jax.lax.map(lambda key: model.log_joint(data, key), keys)


def test_around_a_sparse_model_it_is_the_variational_bound(data):
    """SparseGP's latents are inducing values: q over them is that of VariationalGP, whose bound is closed."""
    kernel, rng = sg.kernels.SquaredExponential(0.5), np.random.default_rng(1)
    m, R = rng.normal(size=5), np.tril(0.3 * rng.normal(size=(5, 5))) + 0.5 * np.eye(5)
    with zoo.double():
        closed = VariationalGP(kernel, 0.3, Z)
        closed = eqx.tree_at(lambda v: (v.mean.raw, v.root.raw), closed, (m, R))
        random = DoublyStochasticGP(SparseGP(kernel, 0.3, Z))
        random = eqx.tree_at(lambda v: (v.means[0].raw, v.roots[0].raw), random, (m[None], R[None]))
        values = estimates(random, data, 1000)
        np.testing.assert_allclose(values.mean(), closed.log_joint(data), atol=5 * values.std() / np.sqrt(1000))


def test_with_a_certain_q_it_is_the_model_at_its_mean(data):
    """All randomness gone: q is a point, and every data point lies at an inducing input of the functions."""
    kernel = sg.kernels.NonstationaryQuadratic(FunctionGroup(data.X, 0.5, lengthscale=0.3))
    v = np.random.default_rng(0).normal(size=(30, 1))
    with zoo.double():
        model = eqx.tree_at(lambda m: m.kernel.lengthscale.whitened.raw, ExactGP(kernel, Positive(0.3)), v)
        bound = DoublyStochasticGP(model, std=1e-9)
        kl = 0.5 * (np.sum(v**2) - 30) - 30 * np.log(1e-9)
        prior = log_prior(model, "hyperparameter")
        expected = model.realise().log_likelihood(data, None) - kl + prior
        np.testing.assert_allclose(bound.log_joint(data, jax.random.key(0)), expected, rtol=1e-6)


@pytest.mark.slow
def test_the_bound_lies_below_the_marginal_likelihood(data):
    """log p(y) by importance sampling from the prior of the functions; the bound with any q is below it."""
    model = functional()
    with zoo.double():
        bound = DoublyStochasticGP(model, std=0.7)
        prior = eqx.tree_at(
            lambda b: [r.raw for r in b.roots], bound, [np.eye(5)[None] for _ in bound.roots]
        )  # q = prior, as the latent values are zero
        fitted = maximise(
            bound, data, steps=150, key=1, optimiser=Adam(learning_rate=0.05), roles=("variational",)
        ).model
        likelihoods = estimates(prior, data, 800)  # the KL is zero: log p(y | v) + log prior of hyperparameters
        exact = np.logaddexp.reduce(likelihoods) - np.log(800)
        spread = np.exp(likelihoods - exact).std() / np.sqrt(800)
        start, best = estimates(bound, data, 200), estimates(fitted, data, 200)
        assert start.mean() < best.mean() < exact + 5 * np.log1p(spread)
        assert best.mean() > start.mean() + 1.0


@pytest.mark.slow
def test_gradients_are_unbiased(data):
    """Means over keys of minibatch gradients against those of all data, whose draws are the same on average."""
    model = DoublyStochasticGP(functional(SparseGP, Z), std=0.2)
    with zoo.double():
        free, rest = partition(model, "variational", "hyperparameter")
        free = jax.tree.map(jnp.asarray, free)

        def difference(free, key):
            part = data.minibatch(jax.random.fold_in(key, 7), 15)
            return eqx.combine(free, rest).log_joint(part, key) - eqx.combine(free, rest).log_joint(data, key)

        # The same draws for both: what differs is the rows alone, and a few hundred draws tell as much as thousands.
        draws = 200
        keys = jax.random.split(jax.random.key(0), draws)
        slope = jax.jit(lambda keys: jax.lax.map(lambda key: ravel_pytree(jax.grad(difference)(free, key))[0], keys))
        flat = np.asarray(slope(keys))
    # Rows say nothing of the KL and of the priors, whose gradients cancel.
    assert np.all(np.abs(flat.mean(axis=0)) < 5 * flat.std(axis=0) / np.sqrt(draws) + 1e-9)
    assert np.sum(flat.std(axis=0) > 1e-3) > 20


def test_what_it_needs(data):
    with pytest.raises(ValueError, match="the model has no latent values"):
        DoublyStochasticGP(CollapsedGP(sg.kernels.SquaredExponential(1.0), 0.1, Z))
    with pytest.raises(ValueError, match="estimated from random draws: give a key"):
        DoublyStochasticGP(functional()).log_joint(data)
