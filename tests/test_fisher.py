"""The Fisher information of neighbour models, and the normal approximation by it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.inference import fisher_information, sample_fisher
from spectrogp.kernels import NonstationaryQuadratic, SquaredExponential
from spectrogp.models import Data, ExactGP, NeighbourGP, Neighbourhoods
from spectrogp.parameters import FunctionGroup, Positive

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (14, 2))


def all_before(data):
    """Every row given all rows before it: then the product of conditionals is the exact joint density."""
    return Neighbourhoods.of(data, np.asarray(data.X), np.arange(data.size), data.size - 1)


def test_with_all_rows_before_each_it_is_that_of_the_exact_process():
    """½ tr(K⁻¹ ∂K K⁻¹ ∂K), on average over outputs of the model: here over 400 draws, within five standard errors."""
    model = ExactGP(SquaredExponential(Positive(0.7), Positive(1.2)), Positive(0.4))

    def covariance(raw):
        lengthscale, amplitude, noise = jnp.exp(raw)
        D = jnp.sum((jnp.asarray(X)[:, None] - jnp.asarray(X)) ** 2, axis=-1) / lengthscale**2
        return amplitude**2 * jnp.exp(-0.5 * D) + noise**2 * jnp.eye(len(X))

    with jax.enable_x64(True):
        raw = jnp.log(jnp.asarray([0.7, 1.2, 0.4]))
        K, slopes = np.asarray(covariance(raw)), np.moveaxis(np.asarray(jax.jacfwd(covariance)(raw)), -1, 0)
    moved = [np.linalg.solve(K, slope) for slope in slopes]
    exact = np.array([[0.5 * np.trace(a @ b) for b in moved] for a in moved])
    root = np.linalg.cholesky(K)
    found = np.array(
        [
            fisher_information(model, all_before(Data(X, root @ RNG.normal(size=len(X)))), roles=("hyperparameter",))
            for _ in range(400)
        ]
    )
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - exact) < 5.0 * error + 1e-6)
    assert np.max(error / np.sqrt(np.outer(np.diag(exact), np.diag(exact)))) < 0.05


@pytest.fixture(scope="module")
def fitted():
    """A model with functions, and outputs of a function that it can follow."""
    data = Data(X, np.sin(3.0 * X[:, 0]) + 0.1 * RNG.normal(size=len(X)))
    windows = FunctionGroup(X[:4], 0.6, shape=(1, 2))
    return NeighbourGP(NonstationaryQuadratic(windows, Positive(1.0)), Positive(0.2)), all_before(data)


def test_draws_have_the_inverse_of_the_precision_as_covariance(fitted):
    model, near = fitted
    information = fisher_information(model, near)
    posterior = sample_fisher(model, near, draws=40_000, key=0)
    (values,) = jax.tree.leaves(posterior.draws)
    values = values.reshape(values.shape[1], -1)
    expected = np.linalg.inv(np.eye(len(information)) + information)
    # The error of a sample covariance is about √(2/n) = 0.7 % of the variances.
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.max(np.abs(np.cov(values.T) - expected) / scale) < 0.04
    assert np.max(np.abs(values.mean(axis=0)) / np.sqrt(np.diag(expected))) < 0.03


def test_every_direction_is_no_wider_than_the_prior(fitted):
    information = fisher_information(*fitted)
    assert np.min(np.linalg.eigvalsh(information)) > -1e-9
    assert np.trace(information) > 1.0  # the data say something
    np.testing.assert_allclose(fisher_information(*fitted, diagonal=True), np.diag(information), rtol=1e-9)


def test_some_rows_stand_for_all(fitted):
    """The halves of the rows, each scaled to all of them, have all of them as their mean."""
    model, near = fitted
    halves = [Neighbourhoods(near.data, near.members[k::2]) for k in (0, 1)]
    mean = np.mean([fisher_information(model, half) for half in halves], axis=0)
    np.testing.assert_allclose(mean, fisher_information(model, near), rtol=1e-9, atol=1e-12)


def test_a_model_without_such_parameters_is_refused(fitted):
    _, near = fitted
    with pytest.raises(ValueError, match="no parameters with a role among 'latent'"):
        sample_fisher(NeighbourGP(sg.kernels.SquaredExponential(0.5), 0.1), near, draws=2, key=0)
