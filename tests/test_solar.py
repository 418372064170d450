"""The solar experiment, in its quick version: all numbers and the picture are there, and rows are kept."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from spectrogp import datasets, experiments
from spectrogp.experiments import solar
from spectrogp.models import Data

pytestmark = pytest.mark.skipif(
    not Path(os.environ.get("SPECTROGP_DATA") or "/nowhere").is_dir(),
    reason="the real data are not here: SPECTROGP_DATA names no directory",
)


def test_components_start_at_a_trend_and_at_the_solar_cycle():
    split = datasets.solar()
    years = split.input_scale[0] / solar.frequencies(Data(split.X, split.y))
    np.testing.assert_allclose(years[0], 390.0, rtol=1e-6)
    assert np.all((years[1:] > 10.0) & (years[1:] < 12.0))


@pytest.mark.slow
def test_quick_version(tmp_path):
    paths, numbers = experiments.reproduce("solar", tmp_path, quick=True, seed=0)
    assert np.ptp(imread(paths[0])[..., :3]) > 0.9
    assert [name for name, entry in numbers.items() if isinstance(entry, dict)] == list(solar.QUICK_ROWS)
    for name in solar.QUICK_ROWS:
        scores = numbers[name]
        # Far better than the constant prediction, whose error is the variance of the test years, about 1.
        assert scores["mse"] < 0.4, name
        assert np.isfinite(scores["log_likelihood"])
        if solar.ROWS[name][1] in ("NUTS", "SG-HMC"):
            assert scores["rhat_functions"] > 0.9
            assert scores["rhat_predictions"] > 0.9
