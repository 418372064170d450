"""Fourier sums of values at any times over an even grid of frequencies, by fast Fourier transforms. NumPy, no model.

Every value is spread over the cells of an even grid of time by a smooth window of few cells; the transform of the grid,
divided by that of the window, is the sum, up to images of the window's tail (Dutt & Rokhlin 1993). The window is the
exponential of a semicircle (Barnett, Magland & af Klinteberg 2019), whose tail is below 1e-7 for eight cells on a grid
of twice the highest frequency.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.interpolate import CubicSpline

CELLS = 8  # that a value is spread over
OVER = 2.0  # rate of the grid, in units of the least that holds all frequencies
SHAPE = 2.3 * CELLS  # exponent of the window, for this rate
NODES = 400  # of the window's transform, between which it is a cubic


def fourier_sums(t: np.ndarray, values: np.ndarray, step: float, count: int) -> np.ndarray:
    """Sums ``[count]`` of values · exp(2πi k step t), for k = 0 … count − 1.

    Args:
        t: Times ``[n]``.
        values: Real numbers ``[n]``.
        step: Distance of the frequencies, in cycles per unit; its inverse at least the span of the times.
        count: How many frequencies.
    """
    size = next_fast_len(max(int(np.ceil(2.0 * OVER * count)), 4 * CELLS), real=True)
    place = np.mod(step * t, 1.0) * size
    first = np.ceil(place - 0.5 * CELLS).astype(np.int64)
    grid = np.zeros(size)
    for k in range(CELLS):
        cell = first + k
        grid += np.bincount(np.mod(cell, size), values * _window((cell - place) / (0.5 * CELLS)), size)
    return np.conj(rfft(grid)[:count]) / _transform(np.arange(count) / size)


def _window(z: np.ndarray) -> np.ndarray:
    """exp(β(√(1 − z²) − 1)) for |z| ≤ 1."""
    return np.asarray(np.exp(SHAPE * (np.sqrt(np.maximum(1.0 - z**2, 0.0)) - 1.0)))


def _transform(frequency: np.ndarray) -> np.ndarray:
    """The Fourier transform of the window, for frequencies up to one half in cycles a cell."""
    points, weights = np.polynomial.legendre.leggauss(60)
    nodes = np.linspace(0.0, 0.5 / OVER * 1.01, NODES)
    values = 0.5 * CELLS * np.cos(np.pi * CELLS * np.outer(nodes, points)) @ (weights * _window(points))
    return np.asarray(CubicSpline(nodes, values)(frequency))
