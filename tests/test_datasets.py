"""The loaders of the real data: counts, units, and standardisation by training rows alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from spectrogp import datasets

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("SPECTROGP_DATA") or "/nowhere").is_dir(),
    reason="the real data are not here: SPECTROGP_DATA names no directory",
)


@needs_data
@pytest.mark.parametrize(
    ("load", "train", "test", "columns"),
    [(datasets.solar, 281, 110, 1), (datasets.air, 26328, 6582, 3), (datasets.taxi, 41268, 18540, 5)],
)
def test_sizes_and_standardisation(load, train, test, columns):
    split = load()
    assert (split.X.shape, split.y.shape) == ((train, columns), (train,))
    assert (split.X_test.shape, split.y_test.shape) == ((test, columns), (test,))
    np.testing.assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(split.X.std(axis=0), 1.0, rtol=1e-8)
    np.testing.assert_allclose([split.y.mean(), split.y.std() - 1.0], 0.0, atol=1e-8)
    # Were the test rows used as well, their mean would be pulled to zero too.
    assert abs(split.y_test.mean()) > 1e-4


@needs_data
def test_units():
    years = datasets.solar()
    year = np.concatenate([years.X, years.X_test])[:, 0] * years.input_scale + years.input_mean
    np.testing.assert_allclose([year.min(), year.max()], [1610.5, 2000.5], atol=1e-6)
    days = datasets.taxi()
    pickup = days.X[:, 4] * days.input_scale[4] + days.input_mean[4]
    january = np.datetime64("2016-01-01").astype("datetime64[D]").astype(int)
    assert january <= pickup.min() < pickup.max() < january + 31


def test_missing_files_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("SPECTROGP_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"solar\.csv is needed: .* set the environment variable SPECTROGP_DATA"
    ):
        datasets.solar()
    with pytest.raises(FileNotFoundError, match=r"no file air_anomaly\.parquet in the data directory"):
        datasets.air(Path(tmp_path))


@pytest.mark.parametrize("name", datasets.SIGNALS)
def test_frequency_of_a_signal_is_the_slope_of_its_phase(name):
    family = datasets.SIGNALS[name]
    t = np.linspace(family.low + 0.01, family.high - 0.01, 50)
    for tone in family.tones:
        slope = (tone.phase(t + 1e-5) - tone.phase(t - 1e-5)) / 2e-5
        np.testing.assert_allclose(slope, tone.frequency(t), rtol=1e-6)
    signal = datasets.signal(name, seed=1, noise=0.0, irregular=False, n=301)
    assert signal.frequency.shape == (len(signal.y), len(family.tones))
    lost = sum(high - low for low, high in family.gaps) / (family.high - family.low)
    np.testing.assert_allclose(len(signal.y) / 301, 1.0 - lost, atol=0.02)


def test_signals_are_named():
    with pytest.raises(ValueError, match="name must be one of chirp, late chirp"):
        datasets.signal("noise")
