"""The taxi experiment, in its quick version: models of the table are fitted and scored, and the picture drawn."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from spectrogp import datasets, experiments
from spectrogp.experiments import taxi

pytestmark = pytest.mark.skipif(
    not Path(os.environ.get("SPECTROGP_DATA") or "/nowhere").is_dir(),
    reason="the real data are not here: SPECTROGP_DATA names no directory",
)


def test_rows_are_those_of_the_paper_and_more():
    names = list(taxi.table(datasets.taxi().first(100)))
    assert [name for name in names if name in taxi.PAPER] == list(taxi.PAPER)


@pytest.mark.slow
def test_quick_version(tmp_path):
    paths, numbers = experiments.reproduce("taxi", tmp_path, quick=True, seed=0)
    assert np.ptp(imread(paths[0])[..., :3]) > 0.9
    found = {name: entry for name, entry in numbers.items() if isinstance(entry, dict)}
    assert tuple(found) == taxi.QUICK_ROWS
    for name, row in found.items():
        # After ten steps on few rows no worse than a constant (1 and −1.42), but no better than is possible.
        assert 0.1 < row["mse"] < 1.3, name
        assert -2.5 < row["log_likelihood"] < -0.3, name
    assert json.loads(paths[1].read_text(encoding="utf-8"))["command"] == "spectrogp reproduce taxi --quick --seed 0"
    # A second call finds everything done.
    again, same = experiments.reproduce("taxi", tmp_path, quick=True, seed=0, rows=["LINEAR"])
    assert (again, same) == (paths, numbers)
    with pytest.raises(ValueError, match="fig1 has no rows to choose from"):
        experiments.reproduce("fig1", tmp_path, rows=["CSK"])
