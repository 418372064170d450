"""NUTS: recovers priors and exact posteriors, and agrees with SG-HMC on a convolutional spectral kernel."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
import zoo
from spectrogp.data import Data
from spectrogp.inference import diagnostics, maximise, sample_nuts, sample_sghmc
from spectrogp.models import AbstractModel, ExactGP
from spectrogp.parameters import LogNormal, Normal, Positive, Real, latent
from spectrogp.processes import FunctionGroup


def assert_moments(draws, mean, deviation):
    """Mean and standard deviation within 4.5 Monte-Carlo standard errors."""
    np.testing.assert_array_less(np.abs(draws.mean(axis=(0, 1)) - mean), 4.5 * diagnostics.mean_error(draws))
    error = np.abs(draws.std(axis=(0, 1)) - deviation)
    np.testing.assert_array_less(error, 4.5 * diagnostics.deviation_error(draws))


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
    with zoo.double():
        settings = {"draws": 2000, "warmup": 500, "chains": 2, "key": jax.random.key(0), "leapfrogs": leapfrogs}
        posterior = sample_nuts(model, Data.checked(np.zeros((1, 1)), np.zeros(1)), **settings)
    assert_moments(np.log(posterior.map(lambda m: m.enter().positive)), np.log(2.0), 0.5)
    assert_moments(posterior.draws.real.raw, -1.0, 3.0)
    assert_moments(posterior.draws.white.raw, np.zeros(2), np.ones(2))
    assert diagnostics.check(posterior) == []
    if leapfrogs is not None:
        assert np.all(posterior.statistics["n_steps"] == leapfrogs)


def test_matches_the_exact_posterior_of_a_conjugate_model():
    model, data, mean, covariance = zoo.conjugate()
    with zoo.double():
        posterior = sample_nuts(model, data, draws=1000, key=jax.random.key(0), roles=("latent",))
    assert_moments(posterior.draws.whitened.raw, mean, np.sqrt(np.diag(covariance)))
    assert diagnostics.check(posterior) == []


def test_sghmc_agrees_with_nuts_on_a_convolutional_spectral_kernel():
    """Means within four standard errors, standard deviations within 15 %, of functions and of predictions."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-1.5, 1.5, (40, 1)), axis=0)
    data = Data.checked(X, np.cos(2 * np.pi * (X[:, 0] + 0.1 * X[:, 0] ** 3)) + 0.2 * rng.normal(size=40))
    Z = np.linspace(-1.5, 1.5, 6)[:, None]
    lengthscale = FunctionGroup(Z, [[0.5]], shape=(1, 1), amplitude=0.3)
    frequency = FunctionGroup(Z, [[7.0]], shape=(1, 1), amplitude=0.2)
    model = ExactGP(sg.kernels.ConvolutionalSpectral(lengthscale, frequency), 0.2)
    T = jnp.linspace(-1.4, 1.4, 5)[:, None]
    roles = ("latent",)

    def seen(model):
        entered = model.enter()
        return jnp.concatenate(
            [
                jnp.log(entered.kernel.lengthscale(T)).ravel(),
                jnp.log(entered.kernel.frequency(T)).ravel(),
                entered.predict(data, T).mean,
            ]
        )

    with zoo.double():
        start = maximise(model, data, steps=200, key=jax.random.key(0), roles=roles).model
        ours = sample_nuts(start, data, draws=500, warmup=250, key=jax.random.key(1), roles=roles, warn=False)
        theirs = sample_sghmc(start, data, steps=20000, step_size=0.3, key=jax.random.key(2), warn=False)
    one, two = ours.map(seen), theirs.map(seen)
    assert np.max(diagnostics.rhat(one)) < 1.03
    assert np.max(diagnostics.rhat(two)) < 1.03
    error = np.hypot(diagnostics.mean_error(one), diagnostics.mean_error(two))
    np.testing.assert_array_less(np.abs(one.mean(axis=(0, 1)) - two.mean(axis=(0, 1))), 4.0 * error)
    ratio = two.std(axis=(0, 1)) / one.std(axis=(0, 1))
    assert np.all((ratio > 0.85) & (ratio < 1.15)), ratio
    assert ours.statistics["diverging"].mean() < 0.01


def test_an_interrupt_keeps_the_draws_so_far():
    def stop(done, steps, value):
        if done >= 50:
            raise KeyboardInterrupt

    model = PriorOnly(Positive(3.0, LogNormal(2.0, 0.5)), Real(1.0, Normal(-1.0, 3.0)), latent((2,)))
    with zoo.double(), pytest.warns(UserWarning, match="the draws are worth"):
        posterior = sample_nuts(model, None, draws=500, warmup=20, chains=2, key=jax.random.key(0), progress=stop)
    assert posterior.interrupted
    assert posterior.log_joint.shape == (2, 30)
    assert posterior.draws.white.raw.shape == (2, 30, 2)


def test_input_is_checked():
    model = PriorOnly(Positive(3.0, LogNormal(2.0, 0.5)), Real(1.0), latent((2,)))
    key = jax.random.key(0)
    with zoo.double():
        with pytest.raises(ValueError, match="draws must be at least 1, got 0"):
            sample_nuts(model, None, draws=0, key=key)
        with pytest.raises(ValueError, match="acceptance must lie between 0 and 1, got 1"):
            sample_nuts(model, None, draws=5, key=key, acceptance=1)
        broken = eqx.tree_at(lambda m: m.real.raw, model, np.array(np.nan))
        with pytest.raises(FloatingPointError, match="at step 0: look at the starting parameters"):
            sample_nuts(
                eqx.tree_at(lambda m: m.real.prior, broken, Normal(), is_leaf=lambda x: x is None),
                None,
                draws=5,
                key=key,
            )
