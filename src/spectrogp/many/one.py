"""The fit of one signal among many: a row of plain values, or the reason why there is none."""

from __future__ import annotations

import os
import threading
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from ..core import compute_in_callers, keep_freed_memory, share_compilations
from ..estimator import SpectralGPRegressor, amplitudes_at, inputs_along, local_functions, with_times
from ..files import Columns
from ..models import MarkovGP
from ..posterior import Band

LEAST = 8  # different inputs, below which nothing is looked for in a signal
POINTS = 100  # along a signal, at which its frequencies and amplitudes are read

_alone = threading.Lock()  # warnings are caught for a process, and cores are for processes


class Task(NamedTuple):
    """What all signals of a run are fitted with.

    Args:
        columns: Inputs, output and error bars.
        settings: Parameters of ``SpectralGPRegressor``.
        size: How much of an input the unit is that frequencies are told in: 365.25 for years where inputs are days.
        level: Probability of the bands.
        unit: What it is called, if inputs are times and one was asked for; warnings tell frequencies in it.
    """

    columns: Columns
    settings: dict[str, Any]
    size: float
    level: float
    unit: str | None = None


def fit_signal(task: Task, table: dict[str, np.ndarray]) -> dict[str, Any]:
    """A row of what was found in a signal; where its fit failed, the row says why.

    Runs in the processes of workers, one signal after the other.
    """
    # JAX reads it when it starts to compute: threads of a process that fits one signal after the other only wait.
    os.environ.setdefault("NPROC", "1")
    compute_in_callers()
    keep_freed_memory()
    with _alone, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        rows = len(table[task.columns.y])
        row: dict[str, Any] = {"rows": rows}
        try:
            _refuse_hopeless(task.columns, table)
            estimator = SpectralGPRegressor(**task.settings)
            error = None if task.columns.error is None else table[task.columns.error]
            names = (*task.columns.x, task.columns.y)
            estimator.fit(task.columns.inputs(table), table[task.columns.y], error, names=names, unit=task.unit)
            row |= _found(estimator, task)
            row["warnings"] = _told(caught) + estimator.warnings_
        except ImportError:  # of this process, not of the signal
            raise
        except Exception as error:  # whatever it is, the other signals go on
            expected = isinstance(error, ValueError | FloatingPointError)
            said = " ".join(str(error).split())
            row |= {"failure": said if expected and said else f"{type(error).__name__}: {said}"}
            row["warnings"] = _told(caught)
        row["cpu_seconds"] = time.process_time() - began
    share_compilations()
    return row


def _refuse_hopeless(columns: Columns, table: dict[str, np.ndarray]) -> None:
    """Raise where a signal holds nothing that could be found: nobody will look at its figure, and see."""
    values = np.asarray(table[columns.y], float)
    inputs = table[columns.x[0]]
    there = np.isfinite(values) & ~(np.isnat(inputs) if inputs.dtype.kind == "M" else np.isnan(inputs))
    if not np.any(there):
        raise ValueError(f"none of its {len(values)} rows has both an input and an output")
    different = len(np.unique(inputs[there]))
    if different < LEAST:
        raise ValueError(f"too short: expected at least {LEAST} rows at different inputs, got {different}")
    if np.ptp(values[there]) == 0.0:
        raise ValueError(f"constant: all {int(np.sum(there))} outputs are {values[there][0]:.6g}")


def _found(estimator: SpectralGPRegressor, task: Task) -> dict[str, Any]:
    at = inputs_along(estimator, 0, POINTS)
    given = with_times(at, estimator.times_, estimator.X_origin_)
    frequency = estimator.instantaneous_frequency(given, level=task.level)
    frequency = frequency.map(lambda part: part * task.size)
    middle, low, high = (None if part is None else np.median(part, axis=0) for part in frequency)
    count = frequency.mean.shape[1]
    size, weakest, strongest = (
        None if part is None else np.median(part, axis=0) for part in _amplitude(estimator, at, count, task)
    )
    noise = estimator.model_.realise().noise_at((at - estimator.X_mean_) / estimator.X_scale_, 0.0)[1]
    judged = estimator.diagnostics_.get("block_out", {})
    return {
        "rows_left_out": estimator.diagnostics_["rows_left_out"],
        "components": count,
        "frequency": middle,
        "frequency_lower": low,
        "frequency_upper": high,
        "frequency_least": np.min(frequency.mean, axis=0),
        "frequency_most": np.max(frequency.mean, axis=0),
        "amplitude": size,
        "amplitude_lower": weakest,
        "amplitude_upper": strongest,
        "target_transform": estimator.diagnostics_["target_transform"],
        "noise": float(estimator.y_scale_ * np.sqrt(np.mean(np.asarray(noise) ** 2))),
        "r2": judged.get("r2"),
        "coverage": judged.get("coverage"),
    }


def _amplitude(estimator: SpectralGPRegressor, at: np.ndarray, count: int, task: Task) -> Band:
    """Amplitudes ``[n, a]`` of so many components; of kernels without envelopes their σ."""
    if isinstance(estimator.model_, MarkovGP):
        return amplitudes_at(estimator, (at - estimator.X_mean_) / estimator.X_scale_, task.level)
    return Band.over(local_functions(estimator, at, (task.size,)).amplitude[:, :, :count], task.level)


def _told(caught: list[Any]) -> list[str]:
    return list(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
