"""Morton's curve: an order of inputs in which those that follow each other are near."""

from __future__ import annotations

import numpy as np

MOST = 16  # inputs: beyond it the curve has less than four steps along each


def place_on_curve(X: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The place of every input ``[n, d]`` on the curve through the box from ``low`` to ``high`` ``[d]``, as integers.

    Each coordinate is a whole number of steps along its side; their bits, interleaved, are the place (Morton 1966).
    Inputs outside of the box have the place of the nearest in it.
    """
    d = X.shape[1]
    bits = min(63 // d, 52)
    side = np.where(high > low, high - low, 1.0)
    steps = np.clip((X - low) / side * 2.0**bits, 0.0, 2.0**bits - 1.0).astype(np.int64)
    place = np.zeros(len(X), np.int64)
    for bit in range(bits):
        for k in range(d):
            place |= ((steps[:, k] >> bit) & 1) << (bit * d + k)
    return place
