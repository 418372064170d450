"""What a kernel can begin with, found in data: ridges in one dimension, plane waves in several.

In one dimension the frequencies are ridges of a windowed Lomb–Scargle periodogram, tracks through all the data, and
lines of the whole record, above a background (``along``). In several dimensions they are plane waves,
found one after the other in what a smooth fit and the waves before leave over (``waves``). All of it in the units of
the inputs and outputs that are given.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc

from ..core import at_least, one_blas_thread
from ..models import Data
from .along import FAINT, look_along, signal_of
from .beside import SLOW, background_of
from .centres import inducing_inputs
from .channels import find_in_channels
from .covariance import Null
from .initial import InitialValues, Spectrum
from .lines import Lines
from .waves import SmoothFit, peaks, smooth_fit, smooth_trend
from .windows import Record, View

ROWS = 1500  # of the data are looked at in several dimensions, at most: drawn at random from larger ones
SEEN = 600  # of one dimension, for the spectrum of all data that stationary kernels begin with


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

    Along one input all rows are looked at; several inputs are looked at through 1500 rows. Several channels along one
    input are looked at together (``channels``).

    Args:
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        y: Outputs ``[n]``, or ``[n, c]`` of c channels, not a number where a channel has none.
        error: Known standard deviations of the outputs, ``[n]``, ``[n, c]`` or one number.
        components: Their number, or None for as many as are significant (one, without any gain, when there are none).
        max_components: How many of these, at most.
        highest_frequency: Where the search ends, cycles per unit, a number or ``[d]``; by default at the Nyquist
            frequency of the times, which for uneven ones lies far above that of the average spacing.
        seed: Of the rows that are looked at, and of the search in several dimensions.
    """
    if components is not None:
        at_least(1, components=components)
    given = None if highest_frequency is None else np.asarray(highest_frequency, float)
    if np.ndim(y) == 2:
        highest = None if given is None else np.broadcast_to(given, (1,))
        return find_in_channels(X, y, error, components, max_components, highest, seed)
    data = Data(X, y, error)
    highest = None if given is None else np.broadcast_to(given, data.X.shape[1:])
    rng = np.random.default_rng(seed)
    if data.X.shape[1] == 1:
        look, rows = _along_one_input, np.argsort(np.asarray(data.X)[:, 0], kind="stable")
    else:
        look, rows = _over_several_inputs, np.sort(rng.permutation(len(data.y))[:ROWS])
    X, y, error = (np.asarray(part)[rows] for part in (data.X, data.y, data.error))
    extent, scale = np.array([X.min(axis=0), X.max(axis=0)]), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    spread = max(float(y.std()), 1e-12 * max(1.0, float(np.abs(y).max())))
    weight = 1.0 / (error**2 + 0.01 * spread**2)
    weight /= weight.mean()
    with one_blas_thread():
        found = look(_Search(X, y - y.mean(), error, weight, components, max_components, highest, scale, rng))
    same: dict[str, Any] = {"scale": scale, "extent": extent, "spread": spread, "rows": len(data.y)}
    first, *others = (InitialValues(**same, **values) for values in found)
    return dataclasses.replace(first, others=tuple(others) if others else None)


class _Search(NamedTuple):
    """Rows to look at, outputs centred, and what to look for."""

    X: np.ndarray
    y: np.ndarray
    error: np.ndarray
    weight: np.ndarray
    components: int | None
    max_components: int
    highest: np.ndarray | None
    scale: np.ndarray
    rng: np.random.Generator


def _along_one_input(seen: _Search) -> list[dict[str, Any]]:
    """One dimension: components that change, lines, and a background."""
    X, y, error, weight, components, max_components, highest, scale, rng = seen
    t = X[:, 0]
    smooth = smooth_fit(X, y, scale, rng)
    if len(np.unique(t)) < 8 or not np.any(y):
        return [_nothing(X, y, scale, components, smooth)]
    record = Record(t, y, error, weight)
    limit = None if highest is None else float(highest[0])
    views, lines, null, band = look_along(record, components, max_components, limit, rng)
    signal = signal_of(record, views[0], lines)
    changing = any(not component.steady for component in views[0].components)
    blocks = background_of(record, null, signal, changing)
    if not views[0].components and not blocks:
        blocks = [(FAINT * float(y.std()), SLOW * record.span, 1.5)]
    rows = np.sort(rng.permutation(len(t))[:SEEN])
    step = 0.5 / record.span
    end = max(min(0.45 * len(rows) / record.span, float(band[1])), 3 * step)
    candidates = np.arange(step, end, step)[: 2 * ROWS, None]
    same: dict[str, Any] = {
        "noise": _noise(_beside(null, blocks, y - signal), y),
        "spectrum": peaks(X[rows], y[rows], weight[rows], candidates, max_components, rng),
        "smooth_lengthscale": smooth.lengthscale,
        "band": band[:, None],
        "background_amplitude": np.array([amplitude for amplitude, _, _ in blocks]),
        "background_lengthscale": np.array([[lengthscale] for _, lengthscale, _ in blocks]).reshape(-1, 1),
        "background_order": np.array([order for _, _, order in blocks]),
    }
    if not views[0].components:
        return [_nothing(X, y, scale, components, smooth) | same]
    return [_components(view, y) | _aliases(view, lines) | same for view in views]


def _beside(null: Null, blocks: list[tuple[float, float, float]], rest: np.ndarray) -> float:
    """The noise beside components and background: that of the null, if all its processes are in the background.

    One that has a frequency stands for a component; what windows leave of that is noise to begin with, but for single
    places that were missed.
    """
    if len(blocks) or not any(process.frequency for process in null.processes):
        return null.noise
    return 1.4826 * float(np.median(np.abs(rest - np.median(rest))))


def _components(view: View, y: np.ndarray) -> dict[str, Any]:
    frequency, amplitude, gain = (
        np.column_stack([getattr(component, name) for component in view.components])
        for name in ("frequency", "amplitude", "gain")
    )
    steady = np.array([component.steady for component in view.components])
    return {
        "centres": view.centres[:, None],
        "frequency": frequency[..., None],
        "amplitude": np.clip(amplitude / np.sqrt(2.0), np.where(steady, 1e-3, 0.05) * y.std(), 2.0 * y.std()),
        "lengthscale": np.broadcast_to([[component.lengthscale] for component in view.components], (*gain.shape, 1)),
        "gain": gain,
        "harmonics": np.array([component.harmonics for component in view.components]),
        "steady": steady,
    }


def _aliases(view: View, lines: Lines | None) -> dict[str, Any]:
    """What lines, the last components of a view, may be aliases of."""
    rows = []
    if lines is not None:
        first = len(view.components) - len(lines.lines)
        rows = [(first + k, alias) for k, line in enumerate(lines.lines) for alias in line.aliases]
    return {
        "aliases": np.array([[alias.frequency, alias.window] for _, alias in rows]).reshape(-1, 2),
        "aliases_of": np.array([[k, alias.sign, alias.times] for k, alias in rows], int).reshape(-1, 3),
    }


def _over_several_inputs(seen: _Search) -> list[dict[str, Any]]:
    """Several dimensions: plane waves in what a smooth trend leaves over, and a smooth component beside them.

    Candidates are wavevectors all over the box that the data resolve, N^(1/d) to an axis, and, along each axis alone,
    up to the frequency that all the data together resolve: a cycle along one input shows however the others scatter.
    """
    X, y, _, weight, components, max_components, highest, scale, rng = seen
    n, d = X.shape
    span = np.ptp(X, axis=0)
    live = span > 0
    smooth = smooth_fit(X, y, scale, rng)
    if n < 16 or not np.any(y) or not np.any(live):
        return [_nothing(X, y, scale, components, smooth)]
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
        "amplitude": np.broadcast_to(amplitude, shape),
        "lengthscale": np.broadcast_to(lengthscale, (*shape, d)),
        "gain": np.broadcast_to(gain, shape),
        "noise": _noise(smooth.noise, y),
        "spectrum": waves,
        "smooth_lengthscale": smooth.lengthscale,
        "band": np.array([np.where(live, 1.0 / span, 0.0), np.maximum(box, along)]),
    }
    return [values]


def _nothing(
    X: np.ndarray, y: np.ndarray, scale: np.ndarray, components: int | None, smooth: SmoothFit
) -> dict[str, Any]:
    """Too little to look at, or nothing in it: slow components of different speeds."""
    d, a = X.shape[1], components or 1
    centres = np.linspace(X.min(axis=0), X.max(axis=0), 5) + np.linspace(0.0, 1e-3, 5)[:, None] * scale
    frequency = np.arange(1, a + 1)[:, None] * 0.25 / (np.sqrt(12.0) * scale)
    spread = max(float(y.std()), 1e-6)
    return {
        "centres": centres,
        "frequency": np.broadcast_to(frequency, (5, a, d)),
        "amplitude": np.full((5, a), spread / np.sqrt(a)),
        "lengthscale": np.broadcast_to(smooth.lengthscale / np.sqrt(2.0), (5, a, d)),
        "gain": np.zeros((5, a)),
        "noise": _noise(smooth.noise, y),
        "spectrum": Spectrum(frequency, 0.16 / np.broadcast_to(smooth.lengthscale, (a, d)), np.zeros(a)),
        "smooth_lengthscale": smooth.lengthscale,
        "band": np.zeros((2, d)),
    }


def _noise(noise: float, y: np.ndarray) -> float:
    spread = max(float(y.std()), 1e-6)
    return float(np.clip(noise, 0.01 * spread, spread))
