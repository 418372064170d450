"""Cycles along single inputs, in what a smooth fit of several inputs leaves over.

A cycle of the day shows in a periodogram along the time however the other inputs scatter, since they are averaged over.
Rows are counted into fine bins, so that sums over all rows at all frequencies are Fourier transforms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .ridges import FALSE_ALARM, power

MOST = 4096  # cycles over the range of an input that are looked for
FEWEST = 3.0  # likewise: slower ones are the business of lengthscales
BINS = 8  # to the shortest cycle: the power there falls by a fortieth
OVER = 8  # frequencies to the width of a peak
SHARE = 0.002  # of the variance that a cycle explains, at least: less cannot show in predictions


@dataclass(frozen=True)
class Cycle:
    """A sinusoid along one input.

    Args:
        axis: Number of the input.
        frequency: In cycles per unit of it.
        amplitude: Standard deviation of the cycle, that of the sinusoid over √2.
        gain: Log likelihood that it gains, in nats.
    """

    axis: int
    frequency: float
    amplitude: float
    gain: float


def find_cycles(X: np.ndarray, rest: np.ndarray, *, most: int = 6) -> list[Cycle]:
    """Cycles along the inputs ``X [n, d]``, each in what those before it leave of ``rest [n]``, the largest first.

    A cycle must be beyond chance among all frequencies of all inputs, explain a five-hundredth of the variance, and
    repeat at least three times over the range of its input.

    Args:
        X: Inputs ``[n, d]``.
        rest: What is left of the outputs ``[n]``.
        most: How many cycles, at most.
    """
    axes = {axis: line for axis in range(X.shape[1]) if (line := _line(X[:, axis])) is not None}
    tried = sum(len(frequencies) / OVER for _, _, frequencies in axes.values())
    found: list[Cycle] = []
    rest = _without_trends(rest, X)
    while axes and len(found) < most and np.any(rest):
        best = max((_largest(axis, *line, rest) for axis, line in axes.items()), key=lambda cycle: cycle.gain)
        if best.gain < np.log(tried / FALSE_ALARM) or 2.0 * best.gain < SHARE * len(rest):
            break
        theta = 2.0 * np.pi * best.frequency * X[:, best.axis]
        waves = np.column_stack([np.ones_like(theta), np.cos(theta), np.sin(theta)])
        weights = np.linalg.lstsq(waves, rest, rcond=None)[0]
        rest = rest - waves @ weights
        found.append(Cycle(best.axis, best.frequency, float(np.hypot(*weights[1:]) / np.sqrt(2.0)), best.gain))
    return found


def _without_trends(rest: np.ndarray, X: np.ndarray) -> np.ndarray:
    """What is left by cosines along each input that turn at most twice: else trends would leak into cycles."""
    span = np.ptp(X, axis=0)
    live = span > 0
    u = (X[:, live] - X[:, live].min(axis=0)) / span[live]
    orders = np.arange(1, 5)  # half turns: those of more would take a part of the slowest cycles with them
    waves = np.cos(np.pi * u[:, :, None] * orders).reshape(len(X), -1)
    waves = np.column_stack([np.ones(len(X)), waves])
    return np.asarray(rest - waves @ np.linalg.lstsq(waves, rest, rcond=None)[0])


def _line(x: np.ndarray) -> tuple[np.ndarray, int, np.ndarray] | None:
    """Bins of the rows, their number, and the frequencies to look at; None where there are too few values."""
    distinct, span = len(np.unique(x)), float(np.ptp(x))
    cycles = min(0.45 * (distinct - 1), MOST, len(x) / 8.0)  # over the range: up to the Nyquist frequency
    if cycles <= FEWEST:
        return None
    bins = 2 ** int(np.ceil(np.log2(BINS * cycles)))
    place = np.minimum((x - x.min()) / span * bins, bins - 1).astype(int)
    every = np.arange(int(OVER * cycles) + 1) / (OVER * span)
    return place, bins, every[every * span >= FEWEST]


def _largest(axis: int, place: np.ndarray, bins: int, frequencies: np.ndarray, rest: np.ndarray) -> Cycle:
    """The frequency of largest gain along one input."""
    first, count = int(np.rint(frequencies[0] / (frequencies[1] - frequencies[0]))), len(frequencies)

    def sums(weight: np.ndarray | None, factor: int) -> np.ndarray:
        """Σ weight e^iθ over rows at all frequencies, times a factor of these: bins are 1/OVER of the transform."""
        binned = np.bincount(place, weight, minlength=bins).astype(float)
        transform = np.conj(np.fft.fft(binned, OVER * bins))
        return np.asarray(transform[factor * (first + np.arange(count))])[None]

    ones = np.ones((1, len(rest)))
    share = power(rest, ones, sums(None, 1), sums(rest, 1), sums(None, 2))[0]
    gain = -0.5 * (len(rest) - 3.0) * np.log1p(-np.minimum(share, 1.0 - 1e-9))
    top = int(np.argmax(gain))
    return Cycle(axis, float(frequencies[top]), 0.0, float(gain[top]))
