"""What a kernel can begin with, found in data: ridges in one dimension, plane waves in several.

In one dimension the frequencies are ridges of a windowed Lomb–Scargle periodogram (``ridges``), or, where there are
more cycles than these can follow, tracks through all the data (``long``). In several dimensions they are plane waves,
found one after the other in what a smooth fit and the waves before leave over (``waves``). All of it in the units of
the inputs and outputs that are given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc

from ..core import at_least
from ..models import channels_of
from .centres import inducing_inputs
from .initial import InitialValues, Spectrum
from .long import ROWS as NARROWEST
from .long import find_long
from .ridges import CENTRES, LENGTH, WIDTHS, find_ridges, frequency_grid
from .waves import SmoothFit, peaks, smooth_fit, smooth_trend

ROWS = 1500  # of the data are looked at in several dimensions, at most: drawn at random from larger ones
LONG = NARROWEST / (LENGTH * WIDTHS[-1])  # rows beyond which the windows of tracks are narrower than those of ridges
FINEST = 8.0  # cycles to a row in the record, up to which tracks are looked for: their grid would be too large
ENOUGH = 600  # rows that ridges look at, at most: twenty to each of the few cycles that they are for
FEW = 4.0  # times as many cycles are looked for by ridges, where tracks have found no record of many
TURNS = CENTRES / 2.0  # cycles beyond which a record is long: up to here ridges have two centres to a cycle


def find_initial_values(
    X: ArrayLike,
    y: ArrayLike,
    error: ArrayLike | None = None,
    *,
    components: int | None = None,
    max_components: int = 4,
    highest_frequency: Any = None,
    seed: int = 0,
) -> InitialValues:
    """Look at data for what a kernel can begin with.

    Several channels along one input are looked at together: their frequencies are the same, amplitudes, phases and
    noise are their own, so that a tone too weak for each may be found in all.

    Along one input all rows are looked at where there are many cycles, and 600 of them where there are few; several
    inputs are looked at through 1500 rows.

    Args:
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        y: Outputs ``[n]``, or ``[n, c]`` of c channels, not a number where a channel has none.
        error: Known standard deviations of the outputs, ``[n]``, ``[n, c]`` or one number.
        components: Their number, or None for as many as are significant (one when there are none).
        max_components: How many of these, at most.
        highest_frequency: Where the search ends, cycles per unit, a number or ``[d]``; by default at the Nyquist
            frequency of the average spacing.
        seed: Of the rows that are looked at, and of the search in several dimensions.
    """
    if components is not None:
        at_least(1, components=components)
    data = _Rows.of(X, y, error)
    highest = None
    if highest_frequency is not None:
        highest = np.broadcast_to(np.asarray(highest_frequency, float), data.X.shape[1:])
    what = components, max_components, highest
    if data.X.shape[1] == 1 and len(data.y) > LONG:
        rows = np.argsort(data.X[:, 0], kind="stable")
        found = _initial_values(_along_a_long_input, data, rows, *what, np.random.default_rng(seed))
        if found:
            return dataclasses.replace(found[0], others=tuple(found[1:]))
        span = float(np.ptp(data.X))
        if highest is None and span > 0:  # what is left to be found has few cycles
            most = min(float(frequency_grid(np.asarray(data.X)[:, 0])[-1]), FEW * TURNS / span)
            what = components, max_components, np.array([most])
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(data.y))[: ENOUGH if data.X.shape[1] == 1 else ROWS])
    look = _along_one_input if data.X.shape[1] == 1 else _over_several_inputs
    return _initial_values(look, data, rows, *what, rng)[0]


def _initial_values(
    look: Callable[[_Search], list[dict[str, Any]]],
    data: _Rows,
    rows: np.ndarray,
    components: int | None,
    max_components: int,
    highest: np.ndarray | None,
    rng: np.random.Generator,
) -> list[InitialValues]:
    """What is found by looking at some rows in one way."""
    X, y, error = data.X[rows], data.y[rows].T, data.error[rows].T
    extent, scale = np.array([X.min(axis=0), X.max(axis=0)]), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    centred, weight, spread = np.zeros_like(y), np.zeros_like(y), np.zeros(len(y))
    for k, own in enumerate(y):
        there = np.isfinite(own)
        seen = own[there]
        if not len(seen):  # of a channel with few rows none may be among those that are looked at
            spread[k] = max(float(np.nanstd(data.y[:, k])), 1e-12)
            continue
        spread[k] = max(float(seen.std()), 1e-12 * max(1.0, float(np.abs(seen).max())))
        weight[k, there] = 1.0 / (error[k, there] ** 2 + 0.01 * spread[k] ** 2)
        weight[k] /= weight[k, there].mean()
        centred[k, there] = seen - seen.mean()
    found = look(_Search(X, centred, weight, components, max_components, highest, scale, rng))
    same: dict[str, Any] = {"scale": scale, "extent": extent, "spread": spread, "rows": len(data.y)}
    every = [InitialValues(**same, **values) for values in found]
    return every if data.several else [values.channel(0) for values in every]


class _Rows(NamedTuple):
    """Inputs ``[n, d]``, outputs and error bars ``[n, c]``, checked; and whether there were ``several`` channels."""

    X: np.ndarray
    y: np.ndarray
    error: np.ndarray
    several: bool

    @classmethod
    def of(cls, X: Any, y: Any, error: Any) -> _Rows:
        parts = channels_of(X, y, error)
        y = np.asarray(y, float)
        several = y.ndim == 2
        y = y if several else y[:, None]
        errors = np.zeros_like(y)
        for k, part in enumerate(parts):
            errors[np.isfinite(y[:, k]), k] = part.error
        X = np.asarray(X, float)
        return cls(X[:, None] if X.ndim == 1 else X, y, errors, several)


class _Search(NamedTuple):
    """Rows to look at, outputs of every channel, centred, and what to look for."""

    X: np.ndarray
    y: np.ndarray  # [c, n]
    weight: np.ndarray  # [c, n], zero where a channel has no output
    components: int | None
    max_components: int
    highest: np.ndarray | None
    scale: np.ndarray
    rng: np.random.Generator

    @property
    def spread(self) -> np.ndarray:
        """Standard deviations ``[c]``."""
        there = np.maximum(np.sum(self.weight > 0, axis=1), 1)
        return np.asarray(np.sqrt(np.sum(self.y**2, axis=1) / there))

    def smooth(self) -> SmoothFit:
        """Smooth fits to all channels: the geometric mean of their lengthscales, and amplitudes and noise ``[c]``."""
        parts = []
        for y, weight in zip(self.y, self.weight, strict=True):
            there = weight > 0
            parts.append(smooth_fit(self.X[there], y[there], self.scale, self.rng))
        lengthscale, amplitude, noise = zip(*parts, strict=True)
        return SmoothFit(np.exp(np.mean(np.log(lengthscale), axis=0)), np.array(amplitude), np.array(noise))


def _along_a_long_input(seen: _Search) -> list[dict[str, Any]]:
    """One dimension and many cycles: tracks, for several widths of windows; nothing where the record is not long."""
    X, y, weight, components, max_components, highest, *_ = seen
    t, spread = X[:, 0], seen.spread
    distinct = len(np.unique(t))
    if distinct <= LONG or not np.any(y):
        return []
    span = t[-1] - t[0]
    limit = 0.45 * (distinct - 1) / span if highest is None else float(highest[0])
    if limit * span > FINEST * len(t):
        return []
    every = find_long(t, y, weight, limit, components, max_components)
    band = np.array([[1.0 / span], [limit]])
    if not every and len(t) > ROWS:
        return [_nothing(seen, seen.smooth()) | {"band": band}]
    if not every or every[0].cycles < TURNS:
        return []
    smooth = seen.smooth()
    return [
        {
            "centres": found.centres[:, None],
            "frequency": found.frequency[..., None],
            "amplitude": np.clip(found.amplitude / np.sqrt(2.0), 0.05 * spread, 2.0 * spread),
            "lengthscale": np.full((*found.gain.shape, 1), np.inf),
            "gain": found.gain,
            "harmonics": found.harmonics,
            "noise": _noise(found.noise(weight), spread),
            "spectrum": found.spectrum(span),
            "smooth_lengthscale": smooth.lengthscale,
            "band": band,
        }
        for found in every
    ]


def _along_one_input(seen: _Search) -> list[dict[str, Any]]:
    """One dimension: ridges."""
    X, y, weight, components, max_components, highest, *_ = seen
    t, spread = X[:, 0], seen.spread
    smooth = seen.smooth()
    if len(np.unique(t)) < 8 or not np.any(y):
        return [_nothing(seen, smooth)]
    grid = frequency_grid(t, None if highest is None else float(highest[0]))
    centres = np.linspace(t.min(), t.max(), int(np.clip(len(t) // 4, 5, CENTRES)))
    ridges = find_ridges(t, y, weight, centres, grid, components, max_components)
    step = 0.5 / np.ptp(t)
    candidates = np.arange(step, max(grid[-1], 3 * step), step)[: 2 * ROWS, None]
    # That of the strongest channel: it is for stationary kernels, which have one.
    strongest = int(np.argmax(np.sum(weight > 0, axis=1)))
    spectrum = _in_channels(peaks(X, y[strongest], weight[strongest], candidates, max_components, seen.rng), len(y))
    if not ridges:
        return [_nothing(seen, smooth) | {"spectrum": spectrum, "band": grid[[0, -1], None]}]
    frequency, gain = (np.column_stack([getattr(ridge, name) for ridge in ridges]) for name in ("frequency", "gain"))
    amplitude = np.stack([ridge.amplitude for ridge in ridges], axis=1)
    # A local fit has a mean, two amplitudes, a frequency and a rate for each window's length of data.
    rest = y - sum((ridge.signal for ridge in ridges), np.zeros_like(y))
    lengths = sum(float(np.mean(np.ptp(t) / (LENGTH * ridge.width))) for ridge in ridges)
    rows = np.sum(weight > 0, axis=1)
    noise = np.sqrt(np.sum(weight * rest**2, axis=1) / np.maximum(np.maximum(rows - 5.0 * lengths, 0.1 * rows), 1.0))
    values = {
        "centres": centres[:, None],
        "frequency": frequency[..., None],
        "amplitude": np.clip(amplitude / np.sqrt(2.0), 0.05 * spread, 2.0 * spread),
        "lengthscale": np.full((*frequency.shape, 1), np.inf),
        "gain": gain,
        "noise": _noise(noise, spread),
        "spectrum": spectrum,
        "smooth_lengthscale": smooth.lengthscale,
        "band": grid[[0, -1], None],
    }
    return [values]


def _over_several_inputs(seen: _Search) -> list[dict[str, Any]]:
    """Several dimensions: plane waves in what a smooth trend leaves over, and a smooth component beside them.

    Candidates are wavevectors all over the box that the data resolve, N^(1/d) to an axis, and, along each axis alone,
    up to the frequency that all the data together resolve: a cycle along one input shows however the others scatter.
    """
    X, (y,), (weight,), components, max_components, highest, scale, rng = seen
    n, d = X.shape
    span = np.ptp(X, axis=0)
    live = span > 0
    smooth = smooth_fit(X, y, scale, rng)
    if n < 16 or not np.any(y) or not np.any(live):
        return [_nothing(seen, smooth)]
    span = np.where(live, span, np.inf)
    box = np.where(live, 0.45 * n ** (1.0 / live.sum()) / span, 0.0)
    along = np.where(live, 0.45 * np.array([len(np.unique(column)) - 1 for column in X.T]) / span, 0.0)
    if highest is not None:
        box, along = np.minimum(box, highest), np.minimum(along, highest)
    candidates = [(2.0 * qmc.Sobol(d, seed=rng).random_base2(12) - 1.0) * box]
    for axis in np.flatnonzero(live):
        cycles = np.arange(0.5, along[axis] * span[axis], 0.5)[:ROWS]
        candidates.append(cycles[:, None] / span[axis] * np.eye(d)[axis])
    trend = smooth_trend(X, y, scale, 1.0, rng)
    every = np.concatenate(candidates)
    every = every[np.sum((every[:, live] * span[live]) ** 2, axis=1) > 1.0]  # slower ones are the trend's
    waves = peaks(X, y - trend, weight, every, max_components if components is None else components, rng)
    there = waves.amplitude > 0
    rest = max(float(y.std()) ** 2 - float(np.sum(waves.amplitude**2)), 0.05 * float(y.std()) ** 2)
    slow = 0.05 / smooth.lengthscale  # never exactly zero: there the gradient of every kernel is zero
    frequency = np.vstack([slow, waves.frequency[there]])
    amplitude = np.append(np.sqrt(max(rest - smooth.noise**2, 0.05 * rest)), waves.amplitude[there])
    lengthscale = np.vstack([smooth.lengthscale / np.sqrt(2.0), np.full((int(there.sum()), d), np.inf)])
    gain = np.append(1.0, np.ones(int(there.sum())))
    if components is not None:
        order = np.argsort(-amplitude, kind="stable")[:components]
        frequency, amplitude, lengthscale, gain = (part[order] for part in (frequency, amplitude, lengthscale, gain))
        for k in range(components - len(order)):  # smooth ones at other scales
            sign, factor = (-1.0) ** (np.arange(d) + k), (0.3, 3.0)[k % 2] ** (1 + k // 2)
            frequency = np.vstack([frequency, sign * slow / factor])
            lengthscale = np.vstack([lengthscale, smooth.lengthscale * factor / np.sqrt(2.0)])
            amplitude, gain = np.append(amplitude, 0.5 * y.std()), np.append(gain, 0.0)
    centres = inducing_inputs(X, 30, rng)
    shape = len(centres), len(amplitude)
    values = {
        "centres": centres,
        "frequency": np.broadcast_to(frequency, (*shape, d)),
        "amplitude": np.broadcast_to(amplitude, shape)[..., None],
        "lengthscale": np.broadcast_to(lengthscale, (*shape, d)),
        "gain": np.broadcast_to(gain, shape),
        "noise": _noise(smooth.noise, seen.spread),
        "spectrum": _in_channels(waves, 1),
        "smooth_lengthscale": smooth.lengthscale,
        "band": np.array([np.where(live, 1.0 / span, 0.0), np.maximum(box, along)]),
    }
    return [values]


def _nothing(seen: _Search, smooth: SmoothFit) -> dict[str, Any]:
    """Too little to look at, or nothing in it: slow components of different speeds."""
    X, scale, d, a = seen.X, seen.scale, seen.X.shape[1], seen.components or 1
    centres = np.linspace(X.min(axis=0), X.max(axis=0), 5) + np.linspace(0.0, 1e-3, 5)[:, None] * scale
    frequency = np.arange(1, a + 1)[:, None] * 0.25 / (np.sqrt(12.0) * scale)
    return {
        "centres": centres,
        "frequency": np.broadcast_to(frequency, (5, a, d)),
        "amplitude": np.broadcast_to(np.maximum(seen.spread, 1e-6) / np.sqrt(a), (5, a, len(seen.y))),
        "lengthscale": np.broadcast_to(smooth.lengthscale / np.sqrt(2.0), (5, a, d)),
        "gain": np.zeros((5, a)),
        "noise": _noise(smooth.noise, seen.spread),
        "spectrum": Spectrum(frequency, 0.16 / np.broadcast_to(smooth.lengthscale, (a, d)), np.zeros((a, len(seen.y)))),
        "smooth_lengthscale": smooth.lengthscale,
        "band": np.zeros((2, d)),
    }


def _noise(noise: Any, spread: np.ndarray) -> np.ndarray:
    spread = np.maximum(spread, 1e-6)
    return np.asarray(np.clip(noise, 0.01 * spread, spread))


def _in_channels(spectrum: Spectrum, count: int) -> Spectrum:
    """With its amplitudes in so many channels, ``[a, c]``."""
    amplitude = np.repeat(spectrum.amplitude[:, None], count, axis=1)
    return Spectrum(spectrum.frequency, spectrum.bandwidth, amplitude)
