"""The chirp experiment, in its quick version: the frequency is recovered, and nothing but the result is left."""

from __future__ import annotations

import numpy as np
from matplotlib.image import imread

from spectrogp import experiments


def test_quick_version(tmp_path):
    paths, numbers = experiments.reproduce("chirp", tmp_path, quick=True, seed=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chirp.json", "chirp.png"]  # no checkpoints are left
    assert np.ptp(imread(paths[0])[..., :3]) > 0.9
    kernels = [name for name, entry in numbers.items() if isinstance(entry, dict)]
    assert kernels == ["CSK", "Chirplet", "Phase"]
    for name in kernels:
        # CSK flattens the frequency; 80 rows and 60 steps are too few for any kernel to be much better than that.
        assert numbers[name]["map_median_error"] < 0.3, name
        assert numbers[name]["nuts_median_error"] < 0.3, name
        assert 0.0 <= numbers[name]["band_coverage"] <= 1.0
        assert numbers[name]["nuts_cpu_seconds"] > 0.0
    assert numbers["start_median_error"] < 0.15
