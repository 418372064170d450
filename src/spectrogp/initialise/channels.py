"""What several channels along one input have in common: frequencies, found in all of them together.

Their amplitudes, phases and noise are their own, so that a tone too weak for each may be found in all: what it gains in
log likelihood is added up (``ridges``, ``long``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..models import channels_of
from .initial import InitialValues, Spectrum
from .long import find_long
from .ridges import CENTRES, LENGTH, find_ridges, frequency_grid
from .waves import SmoothFit, peaks, smooth_fit
from .windows import ENOUGH, FEW, FINEST, LONG, TURNS

CANDIDATES = 3000  # frequencies of the spectrum of the whole record, at most


def find_in_channels(
    X: Any, y: Any, error: Any, components: int | None, max_components: int, highest: np.ndarray | None, seed: int
) -> InitialValues:
    """Look at channels ``y [n, c]`` along one input; the rest as ``find_initial_values`` has it."""
    data = _Rows.of(X, y, error)
    what = components, max_components, highest
    if len(data.y) > LONG:
        rows = np.argsort(data.X[:, 0], kind="stable")
        found = _initial_values(_tracks, data, rows, *what, np.random.default_rng(seed))
        if found:
            return dataclasses.replace(found[0], others=tuple(found[1:]))
        span = float(np.ptp(data.X))
        if highest is None and span > 0:  # what is left to be found has few cycles
            most = min(float(frequency_grid(data.X[:, 0])[-1]), FEW * TURNS / span)
            what = components, max_components, np.array([most])
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(data.y))[:ENOUGH])
    return _initial_values(_ridges, data, rows, *what, rng)[0]


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
    same["background_amplitude"] = np.zeros((0, len(y)))
    return [InitialValues(**same, **values) for values in found]


class _Rows(NamedTuple):
    """Inputs ``[n, 1]``, outputs and error bars ``[n, c]``, checked."""

    X: np.ndarray
    y: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, X: Any, y: Any, error: Any) -> _Rows:
        parts = channels_of(X, y, error)
        y = np.asarray(y, float)
        errors = np.zeros_like(y)
        for k, part in enumerate(parts):
            errors[np.isfinite(y[:, k]), k] = part.error
        X = np.asarray(X, float)
        return cls(X[:, None] if X.ndim == 1 else X, y, errors)


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


def _tracks(seen: _Search) -> list[dict[str, Any]]:
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
    if not every and len(t) > CANDIDATES // 2:
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


def _ridges(seen: _Search) -> list[dict[str, Any]]:
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
    candidates = np.arange(step, max(grid[-1], 3 * step), step)[:CANDIDATES, None]
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
