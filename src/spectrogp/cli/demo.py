"""The demonstration: the paper's chirp, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets
from ..estimator import SpectralGPRegressor
from ..files import Columns, write_table
from ..plots import LEVEL
from . import work
from .printing import print_found
from .tables import Rows
from .terminal import say


def demo(out: Path, *, quick: bool, seed: int) -> tuple[dict[str, Any], dict[str, Any], work.Shown, list[Path]]:
    """How well the frequency of the paper's chirp is recovered, the summary of the fit, its units, and the files."""
    signal = datasets.signal("chirp", seed=seed)
    say(f"data: {len(signal.y)} noisy values of cos 2π(t + 0.6 t³) at irregular times; frequency 1 + 1.8 t²")
    write_table(out / "data.csv", {"t": signal.X[:, 0], "y": signal.y})
    estimator = SpectralGPRegressor(n_components=1, random_state=seed, verbose=True, **(work.QUICK if quick else {}))
    looks, given = work.Looks(), Rows(Columns(("t",), "y"), signal.X, signal.y, None, 0)
    shown = work.shown_for(given, looks)
    fitted = work.fit(estimator, given, shown, print_found)
    initial = estimator.initial_values_
    band = estimator.instantaneous_frequency(signal.X, level=LEVEL)
    relative = np.abs(band.mean / signal.frequency - 1.0)
    first = np.abs(initial.frequency[:, 0] / datasets.true_frequency("chirp", initial.centres) - 1.0)
    numbers: dict[str, Any] = {
        "median relative error of the frequency": float(np.median(relative)),
        "90th percentile of the same": float(np.quantile(relative, 0.9)),
        "median relative error of the initial values": float(np.median(first)),
    }
    if band.lower is not None:
        numbers["coverage of the 90 % band"] = float(np.mean(band.covers(signal.frequency)))
    report = work.report(fitted, looks)
    record = work.summary(fitted, report)

    def truth(X: Any) -> np.ndarray:
        return datasets.true_frequency("chirp", X)

    paths = work.write(fitted, report, record | {"recovery": numbers}, out, looks, truth=truth)
    return numbers, record, shown, [out / "data.csv", *paths]
