"""The air experiment in its quick version: all rows and maps are there; and the parts that maps are made of."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from spectrogp import experiments
from spectrogp.experiments import air
from spectrogp.kernels import ConvolutionalSpectral, SquaredExponential

with_data = pytest.mark.skipif(
    not Path(os.environ.get("SPECTROGP_DATA") or "/nowhere").is_dir(),
    reason="the real data are not here: SPECTROGP_DATA names no directory",
)


def test_coast_lines_cover_the_earth():
    points = np.concatenate(air._coast())
    assert np.all(np.abs(points) <= [180.0, 90.0])
    for name, place in {"Cornwall": (-5.7, 50.1), "Cape Agulhas": (20.0, -34.8), "Cape York": (142.5, -10.7)}.items():
        # Lines are true to a quarter of a degree, but their corners may lie further apart.
        assert np.min(np.hypot(*(points - place).T)) < 1.0, name


def test_correlations_can_be_negative_under_csk_only():
    one, half_a_wave_away = np.zeros((1, 3)), np.array([[1.0, 0.0, 0.0]])
    waves = air._correlation(ConvolutionalSpectral([1.0, 1.0, 1.0], [np.pi, 0.0, 0.0]), half_a_wave_away, one)
    smooth = air._correlation(SquaredExponential([1.0, 1.0, 1.0], 2.0), half_a_wave_away, one)
    np.testing.assert_allclose(waves, -np.exp(-0.25), rtol=1e-12)  # Q = τ²/(2ℓ²)
    np.testing.assert_allclose(smooth, np.exp(-0.5), rtol=1e-12)


def test_correlation_seen_in_readings():
    rng, months = np.random.default_rng(0), np.arange(72)
    here, noise = rng.normal(size=(2, 72))
    there = -0.8 * here + 0.6 * noise
    time = 1988.0 + (months + 0.5) / 12.0
    places = ((52.5, -2.5, here), (12.5, 22.5, there))
    X = np.concatenate([np.column_stack([np.full(72, lat), np.full(72, lon), time]) for lat, lon, _ in places])
    seen = air._seen_correlation(X, np.concatenate([here, there])).reshape(36, 72)
    assert seen[28, 35] == pytest.approx(1.0)
    assert seen[20, 40] == pytest.approx(np.corrcoef(here, there)[0, 1])
    assert np.sum(np.isfinite(seen)) == 2


@pytest.mark.slow
@with_data
def test_quick_version(tmp_path):
    paths, numbers = experiments.reproduce("air", tmp_path, quick=True, seed=0)
    assert np.ptp(imread(paths[0])[..., :3]) > 0.9
    assert [name for name, entry in numbers.items() if isinstance(entry, dict)] == list(air.QUICK_ROWS)
    for name in air.QUICK_ROWS:
        assert np.isfinite(numbers[name]["log_likelihood"]), name
        assert 0.0 < numbers[name]["mse"] < 2.0, name  # of a constant it is about 1
