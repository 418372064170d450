"""Simulation-based calibration: its statistics on a conjugate model, its simulator, and a quick run from end to end."""

from __future__ import annotations

import json

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.calibration import pipeline, simulation
from benchmarks.calibration.__main__ import main
from benchmarks.calibration.page import write_part
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


# The default call


def test_signals_turn_at_their_frequency():
    """Positive, as many cycles as was said, none too fast for even rows; and outputs as noisy as was said."""
    drawn = pipeline.draw(0, 0)
    again = pipeline.draw(0, 0)
    np.testing.assert_array_equal(drawn.y, again.y)
    assert drawn.truth.shape == (4, pipeline.PLACES)
    for number in range(8):
        drawn = pipeline.draw(1, number)
        cycles = np.mean(drawn.truth[0]) * pipeline.SPAN
        assert np.all(drawn.truth[:2] > 0.0)
        assert 4.0 < cycles < 120.0
        if drawn.about["even"]:
            assert np.max(drawn.truth[0]) < 0.5 * drawn.about["rows"] / (1.0 - 0.25) / pipeline.SPAN
        # New outputs are as far from the function as the noise says.
        size = np.std(drawn.truth[3] - drawn.truth[2])
        assert 0.4 < size / (drawn.about["noise"] * np.std(drawn.y)) < 2.5


def test_processes_have_their_covariance():
    rng, x = np.random.default_rng(0), np.linspace(0.0, 3.0, 7)
    for alike in (pipeline.squared_exponential, pipeline.three_halves, pipeline.eleven_halves):
        draws = np.array([pipeline._process(rng, x, 0.8, alike) for _ in range(4000)])
        np.testing.assert_allclose(np.cov(draws.T), alike(np.abs(x[:, None] - x) / 0.8), atol=0.08)  # 4 / √4000


def test_coverage_counts_what_is_inside():
    """Shares that are uniform are inside as often as the level says; those at the ends, and none, are outside."""
    rng = np.random.default_rng(0)
    found = pipeline.Coverage.of(rng.uniform(size=(400, 4, 50)))
    np.testing.assert_allclose(found.share, np.broadcast_to(np.array(pipeline.LEVELS)[:, None], (4, 4)), atol=0.02)
    np.testing.assert_allclose(found.error[2], np.sqrt(0.9 * 0.1 / 20_000), rtol=0.2)
    outside = np.stack([np.full((4, 50), 0.99), np.full((4, 50), np.nan)])
    np.testing.assert_array_equal(pipeline.Coverage.of(outside).share, 0.0)


def test_parts_of_a_page_are_replaced_and_others_stay(tmp_path):
    page = tmp_path / "page.md"
    write_part(page, "one", "first")
    write_part(page, "two", "second")
    write_part(page, "one", "third")
    text = page.read_text(encoding="utf-8")
    assert "first" not in text
    assert text.index("third") < text.index("second")
    assert text.count("<!-- one -->") == 1


@pytest.mark.slow
def test_a_quick_run_of_the_default_call(tmp_path, capsys):
    assert pipeline.main(["--quick", "--signals", "2", "--out", str(tmp_path)]) == 0
    assert "| 90% |" in capsys.readouterr().out
    record = json.loads((tmp_path / "results" / "calibration" / "pipeline.json").read_text())
    assert len(record["inside_90"]["frequency"]) == 2
    assert np.mean(record["inside_90"]["function"]) > 0.5
    assert "# Calibration of the default call" in (tmp_path / "calibration.md").read_text(encoding="utf-8")
    assert imread(tmp_path / "images" / "pipeline.png").shape[1] > 1000
