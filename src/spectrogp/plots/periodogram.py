"""Data without a model: the power of sinusoids in sliding windows, over any band and for any number of rows.

Around a centre c and at a frequency f the data are fitted, by weighted least squares, by

    b + s τ + A cos 2πfτ + B sin 2πfτ,    τ = t − c

in a Gaussian window: a Lomb–Scargle periodogram (Lomb 1976, Scargle 1982) with a floating line, so that a trend hides
no oscillation. Windows are as long as the wave: of ``CYCLES`` cycles, but wide enough to hold ``ROWS`` rows, and no
wider than a share of the record.
"""

from __future__ import annotations

import numpy as np

CYCLES = 0.7  # standard deviation of a window, in cycles: frequencies that differ by a quarter are told apart
ROWS = 30.0  # that a window counts at least: a sinusoid explains 2 in so many of pure noise
WIDEST = 0.2  # standard deviation of a window, as a share of the span, at most
FINE = 12.0  # means of rows to a cycle, where there are more rows
REACH = 3.5  # standard deviations of a window beyond which rows do not count


def window_widths(t: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """Standard deviations ``[m]`` of the windows, in units of the times ``t [n]``, for frequencies ``[m]``."""
    span = float(np.ptp(t))
    shortest = ROWS / (2.0 * np.sqrt(np.pi)) * span / len(t)
    return np.clip(CYCLES / frequency, min(shortest, WIDEST * span), WIDEST * span)


def share_explained(
    t: np.ndarray, y: np.ndarray, centres: np.ndarray, frequency: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """The share ``[c, m]`` of the variance in a window, beside a line, that a sinusoid explains.

    Rows that are many to a cycle are taken together first, so that the time hardly grows with their number; zero where
    a window holds too few rows to tell.

    Args:
        t: Times ``[n]``.
        y: Outputs ``[n]``.
        centres: Times ``[c]`` of the windows.
        frequency: Frequencies ``[m]``, in cycles per unit, rising.
        width: Standard deviation ``[m]`` of the windows at each of them.
    """
    order = np.argsort(t, kind="stable")
    t, y = t[order], y[order] - np.mean(y)
    share = np.zeros((len(centres), len(frequency)))
    octave = np.floor(np.log2(frequency / frequency[0])).astype(int)
    for each in np.unique(octave):
        band = np.flatnonzero(octave == each)
        rows = _together(t, y, float(frequency[band[-1]]))
        reach = REACH * np.max(width[band])
        first, last = (np.searchsorted(rows[0], centres + end) for end in (-reach, reach))
        for k, centre in enumerate(centres):
            near, mean, square, count = (part[first[k] : last[k]] for part in rows)
            share[k, band] = _share(near - centre, mean, square, count, frequency[band], width[band])
    return share


def _together(t: np.ndarray, y: np.ndarray, highest: float) -> tuple[np.ndarray, ...]:
    """Times, means, squares and numbers of rows taken together in cells that are short beside a cycle."""
    cells = int(FINE * highest * (t[-1] - t[0])) + 1
    if 2 * cells > len(t):
        return t, y, y**2, np.ones(len(t))
    cell = np.minimum((cells * (t - t[0]) / (t[-1] - t[0])).astype(int), cells - 1)
    count = np.bincount(cell, minlength=cells)
    held = count > 0
    sums = (np.bincount(cell, part, minlength=cells)[held] / count[held] for part in (t, y, y**2))
    return *sums, count[held].astype(float)


def _share(
    tau: np.ndarray, y: np.ndarray, square: np.ndarray, count: np.ndarray, frequency: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """The share at one centre: rows along the first axis, frequencies along the second."""
    w = count[:, None] * np.exp(-0.5 * (tau[:, None] / width) ** 2)
    W = np.maximum(np.sum(w, axis=0), 1e-300)
    wave = np.exp(2j * np.pi * np.outer(tau, frequency))
    # What is left of the times, the waves and the outputs beside a constant, and then beside a line.
    middle = tau @ w / W
    line = tau[:, None] - middle
    spread = np.maximum(np.sum(w * line**2, axis=0), 1e-300)
    along, constant = np.sum(w * line * wave, axis=0), np.sum(w * wave, axis=0)
    slope, mean = np.sum(w * line * y[:, None], axis=0), y @ w
    variance = square @ w - mean**2 / W - slope**2 / spread
    product = np.sum(w * wave * y[:, None], axis=0) - constant * mean / W - along * slope / spread
    twice = np.sum(w * wave**2, axis=0)
    CC = 0.5 * (W + twice.real) - constant.real**2 / W - along.real**2 / spread
    SS = 0.5 * (W - twice.real) - constant.imag**2 / W - along.imag**2 / spread
    CS = 0.5 * twice.imag - constant.real * constant.imag / W - along.real * along.imag / spread
    determinant = CC * SS - CS**2
    enough = W**2 / np.maximum(np.sum(w**2 / count[:, None], axis=0), 1e-300) > 8.0
    sound = enough & (determinant > 1e-4 * W**2) & (variance > 0)
    explained = SS * product.real**2 + CC * product.imag**2 - 2.0 * CS * product.real * product.imag
    return np.where(sound, explained / np.where(sound, determinant * variance, 1.0), 0.0)
