"""Frequencies that are multiples of one: of what repeats and is no sinusoid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

OVERTONES = 6  # multiples of the frequency of a line that others are rather than their aliases
MANY = 100  # multiples that are looked at, at most
SEVERAL, OFTEN = 3, 10.0  # lines that have a frequency in common at least, and cycles of it in the record
WITHIN = 0.5  # of a cycle in the record, that they are multiples of it


def multiples(frequencies: Sequence[float]) -> np.ndarray:
    """Multiples of frequencies, from the second on.

    Args:
        frequencies: Some of them.
    """
    return np.outer(np.arange(2, OVERTONES + 1), frequencies).ravel()


def common_frequency(frequencies: Sequence[float], span: float) -> float:
    """The highest frequency of which all of several lines are multiples, or 0: together they are what repeats with it.

    Only what repeats often: in few cycles any frequencies are nearly multiples of another one.

    Args:
        frequencies: Of the lines, three at least.
        span: Of the record, from its first to its last time.
    """
    lines = np.asarray(frequencies, float)
    if len(lines) < SEVERAL:
        return 0.0
    for divisor in np.arange(1.0, OVERTONES + 1.0):
        times = np.round(lines / (np.min(lines) / divisor))
        f0 = float(times @ lines / (times @ times))
        if f0 * span > OFTEN and np.all(np.abs(lines - times * f0) * span < WITHIN):
            return f0
    return 0.0
