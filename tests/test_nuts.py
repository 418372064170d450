"""NUTS: recovers priors and exact posteriors, and agrees with SG-HMC on a convolutional spectral kernel."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
import zoo
from spectrogp.inference import NUTS, SGHMC, diagnostics, maximise, sample
from spectrogp.models import AbstractModel, Data, ExactGP
from spectrogp.parameters import FunctionGroup, LogNormal, Normal, Positive, Real, latent

pytestmark = pytest.mark.usefixtures("compile_quickly")


def assert_moments(draws, mean, std):
    """Mean and standard deviation within 4.5 Monte-Carlo standard errors."""
    np.testing.assert_array_less(np.abs(draws.mean(axis=(0, 1)) - mean), 4.5 * diagnostics.mean_error(draws))
    error = np.abs(draws.std(axis=(0, 1)) - std)
    np.testing.assert_array_less(error, 4.5 * diagnostics.std_error(draws))


class PriorOnly(AbstractModel):
    """A model that says nothing of the data."""

    positive: Any
    real: Any
    white: Any

    def log_likelihood(self, data, key):
        del data, key
        return jnp.zeros(())

    def moments(self, data, X):
        raise NotImplementedError

    def joint_covariance(self, data, X):
        raise NotImplementedError


# Three steps of about 0.75 turn a normal by 3π/4; whole and half turns, at eight and four, end where they began.
@pytest.mark.parametrize("leapfrogs", [None, 3])
def test_the_prior_alone_is_recovered(leapfrogs):
    """With the log-Jacobian of raw = log value, the logarithm of a log-normal value is normal."""
    model = PriorOnly(Positive(3.0, LogNormal(2.0, 0.5)), Real(1.0, Normal(-1.0, 3.0)), latent((2,)))
    sampler = NUTS(warmup=500, chains=2, leapfrogs=leapfrogs)
    posterior = sample(sampler, model, Data([0.0], [0.0]), draws=2000, key=0)
    assert_moments(np.log(posterior.map(lambda m: m.realise().positive)), np.log(2.0), 0.5)
    assert_moments(posterior.draws.real.raw, -1.0, 3.0)
    assert_moments(posterior.draws.white.raw, np.zeros(2), np.ones(2))
    assert diagnostics.check(posterior) == []
    if leapfrogs is not None:
        assert np.all(posterior.statistics["n_steps"] == leapfrogs)


def test_matches_the_exact_posterior_of_a_conjugate_model():
    model, data, mean, covariance = zoo.conjugate()
    posterior = sample(NUTS(warmup=250), model, data, draws=500, key=0, roles=("latent",))
    assert_moments(posterior.draws.whitened.raw, mean, np.sqrt(np.diag(covariance)))
    assert diagnostics.check(posterior) == []


@pytest.mark.slow
@pytest.mark.usefixtures("compile_fully")  # it runs for long
def test_sghmc_agrees_with_nuts_on_a_convolutional_spectral_kernel():
    """Means within four standard errors, standard deviations within 15 %, of functions and of predictions."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-1.5, 1.5, (40, 1)), axis=0)
    data = Data(X, np.cos(2 * np.pi * (X[:, 0] + 0.1 * X[:, 0] ** 3)) + 0.2 * rng.normal(size=40))
    Z = np.linspace(-1.5, 1.5, 6)[:, None]
    lengthscale = FunctionGroup(Z, [[0.5]], shape=(1, 1), amplitude=0.3)
    frequency = FunctionGroup(Z, [[7.0]], shape=(1, 1), amplitude=0.2)
    model = ExactGP(sg.kernels.ConvolutionalSpectral(lengthscale, frequency), 0.2)
    T = jnp.linspace(-1.4, 1.4, 5)[:, None]
    roles = ("latent",)

    def seen(model):
        realised = model.realise()
        return jnp.concatenate(
            [
                jnp.log(realised.kernel.lengthscale(T)).ravel(),
                jnp.log(realised.kernel.frequency(T)).ravel(),
                realised.predict(data, T).mean,
            ]
        )

    start = maximise(model, data, steps=200, key=0, roles=roles).model
    ours = sample(NUTS(warmup=250), start, data, draws=500, key=1, roles=roles, warn=False)
    theirs = sample(SGHMC(step_size=0.3), start, data, draws=2000, key=2, roles=roles, warn=False)
    one, two = ours.map(seen), theirs.map(seen)
    assert np.max(diagnostics.rhat(one)) < 1.03
    assert np.max(diagnostics.rhat(two)) < 1.03
    error = np.hypot(diagnostics.mean_error(one), diagnostics.mean_error(two))
    np.testing.assert_array_less(np.abs(one.mean(axis=(0, 1)) - two.mean(axis=(0, 1))), 4.0 * error)
    ratio = two.std(axis=(0, 1)) / one.std(axis=(0, 1))
    assert np.all((ratio > 0.85) & (ratio < 1.15)), ratio
    assert ours.statistics["diverging"].mean() < 0.01


def test_input_is_checked():
    model = PriorOnly(Positive(3.0, LogNormal(2.0, 0.5)), Real(1.0), latent((2,)))
    with pytest.raises(ValueError, match="draws must be an integer of at least 1, got 0"):
        sample(NUTS(), model, None, draws=0, key=0)
    with pytest.raises(ValueError, match="acceptance must lie between 0 and 1, got 1"):
        NUTS(acceptance=1)
    broken = eqx.tree_at(lambda m: m.real.raw, model, np.array(np.nan))
    broken = eqx.tree_at(lambda m: m.real.prior, broken, Normal(), is_leaf=lambda x: x is None)
    with pytest.raises(FloatingPointError, match="at step 0: look at the starting parameters"):
        sample(NUTS(leapfrogs=1), broken, None, draws=5, key=0)  # the smaller program
