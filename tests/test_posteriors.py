"""The benchmark of reference posteriors: tempered sequential Monte Carlo against what is known, and the page."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from benchmarks import posteriors

import zoo
from spectrogp.parameters import partition

pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_tempered_particles_have_the_moments_of_a_conjugate_posterior():
    """From the prior N(0, I) to a posterior that is known in closed form."""
    model, data, mean, covariance = zoo.conjugate()
    effort = posteriors.Effort(particles=800, moves=4)
    with jax.enable_x64(True):
        found = posteriors.tempered(model, data, effort, seed=0)
    assert found.temperatures[0] == 0.0
    assert found.temperatures[-1] == 1.0
    assert len(found.temperatures) > 2
    latent, _ = partition(model, "latent")
    size = sum(map(np.size, jax.tree.leaves(latent)))
    assert found.particles.shape == (800, size)
    std = np.sqrt(np.diag(covariance))
    # Moves make particles nearly independent: errors are those of 800 draws, within 4.5 of them.
    np.testing.assert_array_less(np.abs(found.particles.mean(axis=0) - mean), 4.5 * std / np.sqrt(800))
    np.testing.assert_allclose(found.particles.std(axis=0), std, rtol=4.5 / np.sqrt(2 * 800))


def test_powers_leave_half_of_the_particles():
    values = np.random.default_rng(0).normal(0.0, 30.0, 400)
    power = posteriors._next_power(values, 0.1)
    weights = np.exp((power - 0.1) * (values - values.max()))
    assert 0.1 < power < 1.0
    assert np.sum(weights) ** 2 / np.sum(weights**2) == pytest.approx(200.0, rel=1e-3)
    assert posteriors._next_power(np.zeros(10), 0.3) == 1.0


def test_comparison_of_draws():
    rng = np.random.default_rng(1)
    reference = rng.normal(size=(4, 5000, 2))
    same = posteriors.compared(rng.normal(size=(4, 5000, 2)), reference)
    assert same["bias_largest"] < 0.05
    assert same["width_median"] == pytest.approx(1.0, abs=0.03)
    assert same["coverage"] == pytest.approx(0.9, abs=0.01)
    narrow = posteriors.compared(0.5 * rng.normal(size=(4, 5000, 2)) + np.array([1.0, 0.0]), reference)
    assert narrow["bias_largest"] == pytest.approx(1.0, abs=0.05)
    assert narrow["width_largest"] == pytest.approx(0.5, abs=0.02)
    assert narrow["coverage"] < 0.7


@pytest.mark.slow
def test_it_runs(tmp_path):
    assert posteriors.main(["--quick", "--only", "two tones", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "results" / "posteriors" / "methods.md").read_text()
    assert "## two tones" in page
    assert "| NUTS, diagonal |" in page
    assert (tmp_path / "results" / "posteriors" / "two-tones.json").exists()
