"""Simulation-based calibration: its statistics on a conjugate model, its simulator, and a quick run from end to end."""

from __future__ import annotations

import json

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.calibration import simulation
from benchmarks.calibration.__main__ import main
from benchmarks.calibration.uniformity import CumulativeTest, chi_square, histogram, histogram_band, ranks
from matplotlib.image import imread

import zoo
from spectrogp.kernels import ConvolutionalSpectral

REPLICATIONS, KEPT, BINS = 500, 99, 20


def conjugate_ranks(*, shift=0.0, width=1.0, seed=0):
    """Ranks in θ ~ N(0, 1), y | θ ~ N(θ, 0.5²): draws of the exact posterior N(0.8 y, 0.2), or moved and stretched."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(REPLICATIONS)
    y = theta + 0.5 * rng.standard_normal(REPLICATIONS)
    noise = rng.standard_normal((REPLICATIONS, KEPT))
    return ranks(theta, 0.8 * y[:, None] + np.sqrt(0.2) * (shift + width * noise))


@pytest.fixture(scope="module")
def cumulative():
    return CumulativeTest.of(REPLICATIONS, KEPT)


def p_values(cumulative, found):
    return np.array([chi_square(found, KEPT, BINS), cumulative.p_value(found)])


def test_ranks_of_the_exact_posterior_are_uniform(cumulative):
    """In 100 runs the p-values are uniform themselves: about ten below 0.1 (18 or more: one chance in a hundred)."""
    p = np.array([p_values(cumulative, conjugate_ranks(seed=seed)) for seed in range(100)])
    assert np.all(np.sum(p < 0.1, axis=0) < 18)
    assert np.all(np.sum(p > 0.5, axis=0) > 38)


@pytest.mark.parametrize(
    "wrong", [{"shift": 0.3}, {"shift": -0.3}, {"width": 0.8}, {"width": 1.3}], ids=["high", "low", "narrow", "wide"]
)
def test_ranks_of_a_wrong_posterior_are_not(cumulative, wrong):
    """A shift of 0.3 and a width wrong by a quarter of the posterior's deviation fail both tests at 1 %."""
    assert np.all(p_values(cumulative, conjugate_ranks(**wrong)) < 0.01)


def test_ranks_and_histograms_count():
    draws = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(ranks(np.array([2.5, 7.0]), draws), [2, 3])
    np.testing.assert_array_equal(histogram(np.array([0, 1, 2, 3, 3]), 3, 2), [2, 3])
    with pytest.raises(ValueError, match="100 possible ranks do not fall into 3 equal bins"):
        histogram(np.array([0]), 99, 3)


def test_bands_hold_what_they_promise(cumulative):
    """Of uniform ranks 5 % leave the 5 % bands (Bonferroni's is somewhat wider); 4 errors of 2000 runs are 2 %."""
    rng = np.random.default_rng(1)
    found = rng.integers(0, KEPT + 1, (2000, REPLICATIONS))
    low, high = cumulative.band(0.05)
    lines = np.array([cumulative.cumulative(row) for row in found])
    assert np.mean(np.any((lines < low) | (lines > high), axis=1)) == pytest.approx(0.05, abs=0.02)
    bars = np.array([histogram(row, KEPT, BINS) for row in found])
    low, high = histogram_band(REPLICATIONS, BINS, 0.05)
    assert np.mean(np.any((bars < low) | (bars > high), axis=1)) < 0.06


def test_the_simulator_has_the_covariance_of_the_kernel():
    """Basis functions on the grid give the kernel's matrix, which they never use."""
    x = simulation.problem().X
    lengthscale, frequency = 0.4 + 0.2 * x[:, 0], 7.0 + 3.0 * x[:, 0]
    K = simulation._basis(x, lengthscale, frequency)
    kernel = ConvolutionalSpectral(lambda X: 0.4 + 0.2 * X, lambda X: 7.0 + 3.0 * X)
    np.testing.assert_allclose((K @ K.conj().T).real, kernel(x), atol=1e-7)


def test_the_control_is_the_model_without_the_jacobian():
    """The two log priors differ by the log-Jacobian of the noise, which is its raw value, and a constant."""
    right = simulation.model(simulation.problem())
    noises = [m.likelihood.noise for m in (right, simulation.without_jacobian(right))]
    with zoo.double():
        low, high = (
            [float(eqx.tree_at(lambda p: p.raw, noise, jnp.asarray(raw)).log_prior) for noise in noises]
            for raw in (-3.0, 0.5)
        )
    assert (high[0] - high[1]) - (low[0] - low[1]) == pytest.approx(3.5, abs=1e-12)


@pytest.mark.slow
def test_a_quick_run_writes_the_report(tmp_path, capsys):
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    assert "log likelihood" in capsys.readouterr().out
    record = json.loads((tmp_path / "results" / "calibration" / "results.json").read_text())
    quick = simulation.QUICK
    for name in ("nuts", "control"):
        assert set(record[name]["ranks"]) == set(simulation.QUANTITIES)
        found = np.array(list(record[name]["ranks"].values()))
        assert found.shape == (len(simulation.QUANTITIES), quick.replications)
        assert np.all((found >= 0) & (found <= quick.kept))
        assert len(np.unique(found)) > 4  # neither all at an end nor all the same
    assert record["nuts"]["ranks"]["noise"] != record["control"]["ranks"]["noise"]
    assert "| frequency |" in (tmp_path / "calibration.md").read_text(encoding="utf-8")
    assert imread(tmp_path / "images" / "calibration.png").shape[1] > 1000
