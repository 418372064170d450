"""The Laplace approximation: exact where the posterior is normal, and the prior where the data say nothing."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import spectrogp as sg
import zoo
from spectrogp.inference import laplace_marginal_likelihood, maximise_lbfgs, sample_laplace
from spectrogp.inference.laplace import Density, curvature_at
from spectrogp.models import CollapsedGP, Data, ExactGP, NeighbourGP, Refresh
from spectrogp.parameters import FunctionGroup, LogNormal, Normal, Positive, partition

pytestmark = pytest.mark.usefixtures("compile_quickly")

KEY = jax.random.key(0)


def covariance(curvature):
    """(S² + S V λ Vᵀ S)⁻¹ of the approximation."""
    V, s = curvature.V, curvature.s
    return np.linalg.inv(np.diag(s**2) + (s[:, None] * V * curvature.value) @ (s[:, None] * V).T)


def curvature_of(model, data, roles=("latent",), max_products=1000):
    free, rest = partition(model, *roles)
    density = Density(rest, data, KEY)
    rng = np.random.default_rng(0)
    return density, free, curvature_at(density, jax.tree.map(jnp.asarray, free), max_products, rng, None)


@pytest.fixture(scope="module")
def conjugate():
    """A model whose posterior is normal, at its optimum."""
    model, data, mean, covariance = zoo.conjugate()
    return maximise_lbfgs(model, data, roles=("latent",)).model, data, covariance, mean


def test_is_exact_where_the_posterior_is_normal(conjugate):
    model, data, exact, mean = conjugate
    with zoo.double():
        _, _, curvature = curvature_of(model, data)
    posterior = sample_laplace(model, data, draws=4000, key=KEY)
    # Central differences of a quadratic: rounding alone, 1e-16 times a gradient of 1e2 over a step of 1e-4.
    np.testing.assert_allclose(covariance(curvature), exact, atol=1e-7)
    draws = posterior.draws.whitened.raw[0]
    deviation = np.sqrt(np.diag(exact))
    # Independent draws: five standard errors of a mean, and of a standard deviation.
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5.0 * deviation.max() / np.sqrt(4000) + 1e-4)
    np.testing.assert_allclose(draws.std(axis=0) / deviation, 1.0, atol=5.0 / np.sqrt(2 * 4000))
    # The log density of the draws is that of the model, for a normal posterior.
    at = eqx.combine(jax.tree.map(lambda leaf: leaf[0, 7], posterior.draws), posterior.rest)
    top, here = float(model.log_joint(data)), float(at.log_joint(data))
    np.testing.assert_allclose(posterior.log_joint[0, 7], here, atol=1e-4 + 1e-6 * abs(top - here))


def test_marginal_likelihood_is_exact_where_the_posterior_is_normal(conjugate):
    """There it is the collapsed bound, which integrates the inducing values out."""
    model, data, _, _ = conjugate
    exact = CollapsedGP(model.kernel, 0.3, model.inducing).log_joint(data)
    np.testing.assert_allclose(laplace_marginal_likelihood(model, data, key=KEY), exact, atol=1e-5)


def test_few_products_leave_the_prior_where_the_data_say_little(conjugate):
    model, data, exact, _ = conjugate
    with zoo.double():
        _, _, curvature = curvature_of(model, data, max_products=3)
    found = covariance(curvature)
    # Less sure than the whole posterior, but as sure of what the data determine best; never less sure than the prior.
    assert np.trace(exact) + 1.0 < np.trace(found) < 6.0
    assert np.linalg.eigvalsh(np.eye(6) - found).min() > -1e-9
    assert np.linalg.eigvalsh(found).min() < 1.05 * np.linalg.eigvalsh(exact).min()


def test_curvature_of_functions_of_a_kernel():
    """Against the Hessian by differences along every axis, for the functions of a spectral kernel."""
    signal = sg.datasets.signal("chirp", n=30)
    data = Data(signal.X, signal.y)
    Z = np.linspace(-1.5, 1.5, 4)[:, None]
    kernel = sg.kernels.ConvolutionalSpectral(0.5, FunctionGroup(Z, 12.0, shape=(1, 1)), FunctionGroup(Z, 1.0))
    with zoo.double():
        density, free, curvature = curvature_of(ExactGP(kernel, 0.2), data)
        raw, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))
        slope = jax.jit(jax.grad(lambda raw: density(unravel(raw))))
        hessian = np.stack([slope(raw - 1e-5 * e) - slope(raw + 1e-5 * e) for e in jnp.eye(len(raw))]) / 2e-5
    # What curves upwards beside the prior is left out.
    value, V = np.linalg.eigh(hessian - np.eye(len(raw)))
    expected = np.linalg.inv(np.eye(len(raw)) + (V * np.maximum(value, 0.0)) @ V.T)
    # Directions are dropped once they add less than 0.05 to a precision of 1.
    np.testing.assert_allclose(covariance(curvature), expected, atol=0.05)


def test_a_parameter_without_data_keeps_its_prior():
    """Its raw number is normal with the prior's standard deviation; without a prior, with one of 3."""
    data = Data(np.zeros((1, 1)), np.zeros(1))
    kernel = sg.kernels.SquaredExponential(Positive(1.0, LogNormal(1.0, 0.2)), Positive(1e-6, LogNormal(1e-6, 0.7)))
    posterior = sample_laplace(ExactGP(kernel, 1.0), data, draws=2000, key=KEY, roles=("hyperparameter",))
    flat = sg.kernels.SquaredExponential(Positive(1.0), 1.0)
    free = sample_laplace(ExactGP(flat, 1.0), data, draws=2000, key=KEY, roles=("hyperparameter",))
    near = 5.0 / np.sqrt(2 * 2000)  # standard errors of a standard deviation
    np.testing.assert_allclose(np.std(posterior.draws.kernel.lengthscale.raw), 0.2, rtol=near)
    np.testing.assert_allclose(np.std(posterior.draws.kernel.amplitude.raw), 0.7, rtol=near)
    np.testing.assert_allclose(np.std(free.draws.kernel.lengthscale.raw), 3.0, rtol=near)


@pytest.mark.slow
def test_minibatches_estimate_the_curvature():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-2.0, 2.0, (400, 1)), axis=0)
    data = Data(X, np.sin(9 * X[:, 0]) + 0.2 * rng.normal(size=400))
    Z = np.linspace(-2.0, 2.0, 3)[:, None]
    kernel = sg.kernels.SpectralMixture(1.0, 9.0, FunctionGroup(Z, 1.0))
    model = NeighbourGP(kernel, 0.2)
    near = Refresh(data, 10)(model)
    whole, some = (sample_laplace(model, near, draws=2000, key=KEY, batch=batch) for batch in (None, 200))
    ratio = np.std(some.draws.kernel.amplitude.whitened.raw, axis=1) / np.std(
        whole.draws.kernel.amplitude.whitened.raw, axis=1
    )
    # Half of the rows, evenly spread: their sum is off by a tenth or so.
    np.testing.assert_allclose(ratio, 1.0, atol=0.25)


def test_same_key_same_draws_and_refusals(conjugate):
    model, data, _, _ = conjugate
    seen = []
    first, second = (
        sample_laplace(model, data, draws=3, key=key, progress=lambda *step: seen.append(step)) for key in (KEY, 0)
    )
    np.testing.assert_array_equal(first.draws.whitened.raw, second.draws.whitened.raw)
    assert [step[0] for step in seen[: len(seen) // 2]] == list(range(1, len(seen) // 2 + 1))
    with pytest.raises(ValueError, match="draws must be an integer of at least 1, got 0"):
        sample_laplace(model, data, draws=0, key=KEY)
    with pytest.raises(ValueError, match="no parameters with a role among 'variational'"):
        sample_laplace(model, data, draws=1, key=KEY, roles=("variational",))
    broken = eqx.tree_at(lambda m: m.whitened.raw, model, np.full(6, np.nan))
    with pytest.raises(FloatingPointError, match="not finite at product 1"):
        sample_laplace(broken, data, draws=1, key=KEY)


def test_priors_are_leaves():
    """So that a model with other numbers in its priors is no other program."""
    for prior in (Normal(2.0, 0.5), LogNormal(2.0, 0.5)):
        assert len(jax.tree.leaves(eqx.filter(prior, eqx.is_array))) == 2
