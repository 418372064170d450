"""What is asked of a fit beyond its data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np


def say_if_far(rows: np.ndarray, seen: np.ndarray) -> None:
    """Warn of inputs ``[n, d]`` that lie farther beyond those ``seen`` in the fit than these reach."""
    low, high = seen.min(axis=0), seen.max(axis=0)
    far = np.max(np.maximum(low - rows, rows - high), axis=0, initial=0.0) / np.where(high > low, high - low, np.inf)
    if np.any(far > 1.0):
        column = int(np.argmax(far))
        warnings.warn(
            f"X lies up to {far[column]:.3g} times the range of the data beyond them (column {column}): predictions "
            "there are those of typical frequencies and amplitudes, of the slope of a trend if there is one, else of "
            "the mean; see return_std for how little is known",
            stacklevel=4,
        )


def finite(values: Any) -> Any:
    """Values ``[n, ...]`` at n inputs, if the model has them: beyond all measure its formulas overflow."""
    wrong = ~np.isfinite(values)
    if np.any(wrong):
        row = int(np.argwhere(wrong)[0, 0])
        raise FloatingPointError(f"X lies too far from the inputs of fit for a finite answer, at row {row} first")
    return values
