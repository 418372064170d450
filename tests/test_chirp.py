"""The chirp experiment, in its quick version: the frequency is recovered."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.image import imread

from spectrogp import experiments


@pytest.mark.slow
def test_quick_version(tmp_path):
    paths, numbers = experiments.reproduce("chirp", tmp_path, quick=True, seed=0)
    kept = sorted(path.name for path in (tmp_path / "chirp-quick.rows").iterdir())
    assert kept == ["csk.json", "csk.npz"]  # and no checkpoints
    assert np.ptp(imread(paths[0])[..., :3]) > 0.9
    kernels = [name for name, entry in numbers.items() if isinstance(entry, dict)]
    assert kernels == ["CSK"]
    assert numbers["CSK"]["map_median_error"] < 0.3  # it flattens the frequency
    assert numbers["CSK"]["nuts_median_error"] < 0.3
    assert 0.0 <= numbers["CSK"]["band_coverage"] <= 1.0
    assert 0.0 < numbers["CSK"]["map_cpu_seconds"] < numbers["CSK"]["cpu_seconds"]
    assert numbers["initial_median_error"] < 0.15
