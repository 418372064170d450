"""What a fit has to say, gathered once: a report, from which the summary and the figures are made."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..files import printable
from ..posterior import Band, LocalDraws, Prediction

LEVEL = 0.9  # of all bands


class Labels(NamedTuple):
    """What inputs ``x`` and output ``y`` are called, the ``units`` of inputs, and which hold ``times`` (as days)."""

    x: tuple[str, ...]
    y: str
    units: tuple[str, ...]
    times: tuple[bool, ...]

    @property
    def drawn(self) -> Labels:
        """The same as text that matplotlib draws as it is: a dollar sign begins no formula."""
        x, units = (tuple(map(_drawn, names)) for names in (self.x, self.units))
        return Labels(x, _drawn(self.y), units, self.times)


class Along(NamedTuple):
    """What the kernel says (``local``) along input ``axis``: at inputs ``at [g, d]``, the others in their middle."""

    axis: int
    at: np.ndarray
    local: LocalDraws


class Report(NamedTuple):
    """A fit in the units of its data.

    Args:
        labels: How inputs and output are called.
        X: Inputs ``[n, d]`` of (some of) the rows fitted to.
        y: Their outputs ``[n]``.
        error: Known standard deviations ``[n]`` of the outputs.
        rows: Predictions at these rows.
        local: The kernel's local functions at some of the rows.
        along: The same along inputs.
        grid: For one input, predictions along it.
        components: For one input and several components, the part of each along it.
    """

    labels: Labels
    X: np.ndarray
    y: np.ndarray
    error: np.ndarray
    rows: Prediction
    local: LocalDraws
    along: tuple[Along, ...]
    grid: Prediction | None
    components: Band | None


def summary(report: Report) -> dict[str, Any]:
    """What was learned, as plain values: components, noise, quality of the fit.

    The quality is that of the rows fitted to: it says whether the fit follows them, not how well it predicts others.

    Args:
        report: What the fit has to say.
    """
    y, rows = report.y, report.rows
    noise = rows.output.variance - rows.function.variance - report.error**2
    output = Band.normal(rows.output.mean, rows.output.std, LEVEL)
    return {
        "unit": ", ".join(f"cycles per {unit}" for unit in report.labels.units),
        "components": _components(report.local),
        "noise": float(np.sqrt(np.mean(np.maximum(noise, 0.0)))),
        "fit": {
            "r2": float(1.0 - np.mean((y - rows.function.mean) ** 2) / np.var(y)) if np.ptp(y) > 0 else 1.0,
            "mean_log_density": float(np.mean(rows.log_density)),
            "coverage": float(np.mean(output.covers(y))),
        },
    }


def _drawn(name: str) -> str:
    return printable(name).replace("$", r"\$")


def _components(local: LocalDraws) -> list[dict[str, Any]]:
    """Of every component the lowest and highest frequency ``[d]``, half the median width of its band, the amplitude."""
    frequency, amplitude = Band.over(local.frequency, LEVEL), Band.over(local.amplitude, LEVEL).mean
    half = [None] * amplitude.shape[1]
    if frequency.lower is not None:
        half = (0.5 * np.median(frequency.upper - frequency.lower, axis=0)).tolist()
    return [
        {
            "frequency": [values.min(axis=0).tolist(), values.max(axis=0).tolist()],
            "band": half[a],
            "amplitude": [float(amplitude[:, a].min()), float(amplitude[:, a].max())],
        }
        for a, values in enumerate(np.moveaxis(frequency.mean, 1, 0))
        if local.frequency.shape[-1] > 1 or np.any(values)  # of one input, what has no frequency is a background
    ]
