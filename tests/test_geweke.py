"""Geweke's joint-distribution test: its statistics where the answer is known, and a short run of every sampler."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.torture import samplers

from spectrogp.inference import SAMPLERS
from spectrogp.parameters import log_prior, partition


def simulated(*, width=1.0, bias=0.0, seed=0):
    """θ ~ N(0, 1), y | θ ~ N(θ, 1): draws of the prior, and Gibbs steps with the posterior N(y/2, ½) made wider."""
    rng = np.random.default_rng(seed)
    marginal = rng.standard_normal(20_000)
    theta, draws = rng.standard_normal(100), []
    for _ in range(300):
        y = theta + rng.standard_normal(100)
        theta = 0.5 * y + np.sqrt(0.5) * width * rng.standard_normal(100)
        draws.append(theta)
    marginal, joint = marginal[:, None], np.stack(draws, axis=1)[..., None]
    return samplers.compare(np.hstack([marginal, marginal**2]), np.concatenate([joint, joint**2], axis=2), bias)


def test_exact_conditionals_agree():
    """Autocorrelation ½ leaves 30000 draws worth a third; of 40 runs at a level of 0.001 not one should fail."""
    found = simulated()
    assert found.ess[0] == pytest.approx(10_000, rel=0.4)
    assert not any(simulated(seed=seed).beyond() for seed in range(40))


def test_a_posterior_too_wide_by_a_twentieth_is_seen():
    """The variance v of θ is then ¼(v + 1) + ½·1.05², 1.068: by 0.048 deviations of θ²."""
    found = simulated(width=1.05)
    assert found.beyond() == [1]
    assert simulated(width=1.05, bias=0.1).beyond() == []
    assert samplers.compare(np.zeros((5, 1)), np.full((3, 4, 1), np.nan), 0.0).beyond() == [0]


def test_all_samplers_are_held():
    assert {type(held.sampler) for held in samplers.held().values()} == set(SAMPLERS)


def test_the_prior_is_that_of_the_densities():
    """log prior + Σ½z² of raw numbers, made from the numbers in the priors alone, is the same everywhere."""
    with jax.enable_x64(True):
        right = jax.tree.map(jnp.asarray, samplers.model())
        rest = partition(right, *samplers.ROLES)[1]
        z = np.random.default_rng(0).standard_normal((4, 8))
        models = [eqx.combine(samplers.parameters(row, right), rest) for row in z]
        sums = [float(log_prior(one)) + 0.5 * np.sum(row**2) for one, row in zip(models, z, strict=True)]
    np.testing.assert_allclose(sums, sums[0], atol=1e-9)


@pytest.mark.slow
def test_samplers_agree_with_the_joint_distribution_and_faults_do_not(tmp_path):
    found = list(samplers.section(True, 0, tmp_path))
    assert len(found) == 7
    assert [trials.failures for trials in found] == [()] * 7
