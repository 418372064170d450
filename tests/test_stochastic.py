"""The doubly stochastic bound: equal to closed forms where there are any, below the evidence, gradients unbiased."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import spectrogp as sg
import zoo
from spectrogp.data import Data
from spectrogp.inference import maximise
from spectrogp.models import CollapsedGP, DoublyStochasticGP, ExactGP, SparseGP, VariationalGP
from spectrogp.parameters import Positive, log_prior, partition
from spectrogp.processes import FunctionGroup

Z = np.linspace(-1.5, 1.5, 5)[:, None]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-1.5, 1.5, (30, 1)), axis=0)
    return Data.checked(X, np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=30))


def functional(kind=ExactGP, *rest):
    kernel = sg.kernels.ConvolutionalSpectral(FunctionGroup(Z, 0.5), FunctionGroup(Z, 4.0, warp="softplus"))
    return kind(kernel, Positive(0.3), *rest)


def estimates(model, data, draws):
    keys = jax.random.split(jax.random.key(0), draws)
    return np.asarray(jax.jit(lambda keys: jax.lax.map(lambda key: model.log_joint(data, key), keys))(keys))


def test_around_a_sparse_model_it_is_the_variational_bound(data):
    """SparseGP's latents are inducing values: q over them is that of VariationalGP, whose bound is closed."""
    kernel, rng = sg.kernels.SquaredExponential(0.5), np.random.default_rng(1)
    m, R = rng.normal(size=5), np.tril(0.3 * rng.normal(size=(5, 5))) + 0.5 * np.eye(5)
    with zoo.double():
        closed = VariationalGP(kernel, 0.3, Z)
        closed = eqx.tree_at(lambda v: (v.mean.raw, v.root.raw), closed, (m, R))
        random = DoublyStochasticGP(SparseGP(kernel, 0.3, Z))
        random = eqx.tree_at(lambda v: (v.means[0].raw, v.roots[0].raw), random, (m[None], R[None]))
        values = estimates(random, data, 2000)
        np.testing.assert_allclose(values.mean(), closed.log_joint(data), atol=5 * values.std() / np.sqrt(2000))


def test_with_a_certain_q_it_is_the_model_at_its_mean(data):
    """All randomness gone: q is a point, and every data point lies at an inducing input of the functions."""
    kernel = sg.kernels.NonstationaryQuadratic(FunctionGroup(data.X, 0.5, lengthscale=0.3))
    v = np.random.default_rng(0).normal(size=(30, 1))
    with zoo.double():
        model = eqx.tree_at(lambda m: m.kernel.lengthscale.whitened.raw, ExactGP(kernel, Positive(0.3)), v)
        bound = DoublyStochasticGP(model, deviation=1e-9)
        kl = 0.5 * (np.sum(v**2) - 30) - 30 * np.log(1e-9)
        prior = log_prior(model, "hyperparameter")
        expected = model.enter().log_likelihood(data, None) - kl + prior
        np.testing.assert_allclose(bound.log_joint(data, jax.random.key(0)), expected, rtol=1e-6)


def test_the_bound_lies_below_the_evidence(data):
    """log p(y) by importance sampling from the prior of the functions; the bound with any q is below it."""
    model = functional()
    with zoo.double():
        bound = DoublyStochasticGP(model, deviation=0.7)
        prior = eqx.tree_at(
            lambda b: [r.raw for r in b.roots], bound, [np.eye(5)[None] for _ in bound.roots]
        )  # q = prior, as the latent values are zero
        fitted = maximise(
            bound, data, steps=150, key=jax.random.key(1), learning_rate=0.05, roles=("variational",)
        ).model
        likelihoods = estimates(prior, data, 4000)  # the KL is zero: log p(y | v) + log prior of hyperparameters
        evidence = np.logaddexp.reduce(likelihoods) - np.log(4000)
        spread = np.exp(likelihoods - evidence).std() / np.sqrt(4000)
        start, best = estimates(bound, data, 300), estimates(fitted, data, 300)
        assert start.mean() < best.mean() < evidence + 5 * np.log1p(spread)
        assert best.mean() > start.mean() + 1.0


def test_gradients_are_unbiased(data):
    """Means over keys of minibatch gradients against those of all data, whose draws are the same on average."""
    model = DoublyStochasticGP(functional(SparseGP, Z), deviation=0.2)
    with zoo.double():
        free, rest = partition(model, "variational", "hyperparameter")
        free = jax.tree.map(jnp.asarray, free)

        def moments(batch, draws, seed):
            def value(free, key):
                part = data if batch is None else data.minibatch(jax.random.fold_in(key, 7), batch)
                return eqx.combine(free, rest).log_joint(part, key)

            keys = jax.random.split(jax.random.key(seed), draws)
            flat = jax.jit(jax.vmap(lambda key: ravel_pytree(jax.grad(value)(free, key))[0]))(keys)
            return np.mean(flat, axis=0), np.std(flat, axis=0) / np.sqrt(draws)

        whole, whole_error = moments(None, 2000, 0)
        part, part_error = moments(15, 2000, 1)
    error = np.hypot(whole_error, part_error)
    assert np.all(np.abs(part - whole) < 5 * error + 1e-9)


def test_what_it_needs(data):
    with pytest.raises(ValueError, match="the model has no latent values"):
        DoublyStochasticGP(CollapsedGP(sg.kernels.SquaredExponential(1.0), 0.1, Z))
    with pytest.raises(ValueError, match="estimated from random draws: give a key"):
        DoublyStochasticGP(functional()).log_joint(data)
