"""What windows show of a record along one input: components whose frequencies change with time.

They are ridges (``ridges``), or, where there are more cycles than these can follow, tracks through all the data
(``long``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .background import fit_null
from .covariance import Null
from .frames import price
from .long import ROWS as NARROWEST
from .long import Tracks, find_long
from .ridges import CENTRES, FALSE_ALARM, LENGTH, WIDTHS, Ridge, find_ridges, frequency_grid

LONG = NARROWEST / (LENGTH * WIDTHS[-1])  # rows beyond which the windows of tracks are narrower than those of ridges
FINEST = 8.0  # cycles to a row in the record, up to which tracks are looked for: their grid would be too large
ENOUGH = 600  # rows that ridges look at, at most: twenty to each of the few cycles that they are for
FEW = 4.0  # times as many cycles are looked for by ridges, where tracks have found no record of many
TURNS = CENTRES / 2.0  # cycles beyond which a record is long: up to here ridges have two centres to a cycle


class Record(NamedTuple):
    """A record along one input: times ``t`` (sorted), outputs ``y`` (centred), errors and weights, all ``[n]``."""

    t: np.ndarray
    y: np.ndarray
    error: np.ndarray
    weight: np.ndarray

    @property
    def span(self) -> float:
        """From the first to the last time."""
        return float(self.t[-1] - self.t[0])

    def null(self, signal: np.ndarray, near: Null | None = None, **options: Any) -> tuple[Null, float]:
        """The background of what a signal leaves over, and its log likelihood."""
        return fit_null(self.t, self.y - signal, self.error, near=near, **options)

    def means(self, values: np.ndarray, count: int) -> np.ndarray:
        """Means of so many groups of values ``[n]`` that follow each other."""
        starts = np.linspace(0, len(values), count, endpoint=False).astype(int)
        return np.asarray(np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values))))

    def coarse(self, count: int) -> Record:
        """Means of so many groups of rows, which keep what is slow, as a record."""
        t, y, weight = (self.means(part, count) for part in (self.t, self.y, self.weight))
        return Record(t, y, np.sqrt(self.means(self.error**2, count) * count / len(self.t)), weight)


class Component(NamedTuple):
    """One component: ``frequency``, ``amplitude`` (of the sinusoid) and ``gain`` at centres, and its ``signal [n]``.

    ``price`` is what it gains by chance in its ``windows``, in nats, each with the probability FALSE_ALARM; ``steady``
    is a line, whose frequency stays the same.
    """

    frequency: np.ndarray
    amplitude: np.ndarray
    gain: np.ndarray
    signal: np.ndarray
    price: float
    windows: float = 1.0
    harmonics: int = 1
    steady: bool = False
    lengthscale: float = np.inf  # over which it keeps its phase
    overtones: Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None  # of outputs, and their waves

    @property
    def cost(self) -> float:
        """The price by which a component is weighed against others and against none.

        It has the margin against chance once, not in each window.
        """
        return self.price + (max(self.windows, 1.0) - 1.0) * float(np.log(FALSE_ALARM))

    @property
    def typical(self) -> float:
        """Its frequency where it is seen, on average."""
        share = self.gain + 1e-300
        return float(np.sum(share * self.frequency) / np.sum(share))


class View(NamedTuple):
    """Components that were seen at the same centres ``[c]``."""

    centres: np.ndarray
    components: list[Component]


Windows = Callable[[np.ndarray, int | None, int], list[View]]


def windows_of(record: Record, highest: float | None, rng: np.random.Generator) -> tuple[Windows, np.ndarray]:
    """What looks at a record through windows, and the frequencies between which it looks."""
    t, span = record.t, record.span
    distinct = len(np.unique(t))
    average = 0.45 * (distinct - 1) / span
    limit = average if highest is None else highest
    many = distinct > LONG and limit * span <= FINEST * len(t)
    rows = np.sort(rng.permutation(len(t))[:ENOUGH])
    end = highest
    if distinct > LONG and highest is None:  # what tracks leave to be found has few cycles
        end = min(float(frequency_grid(t)[-1]), FEW * TURNS / span)
    grid = frequency_grid(t[rows], end)

    def look(y: np.ndarray, count: int | None, most: int) -> list[View]:
        centred = y - np.average(y, weights=record.weight)
        every = find_long(t, centred[None], record.weight[None], limit, count, most) if many else []
        if every and every[0].cycles >= TURNS:
            return [_of_tracks(found, limit) for found in every]
        return [_of_ridges(record, rows, centred, grid, count, most)]

    return look, np.array([1.0 / span, limit if many else grid[-1]])


def _of_tracks(found: Tracks, highest: float) -> View:
    components = [
        Component(
            track.path.frequency,
            np.linalg.norm(track.wave[..., 0], axis=1),
            track.path.gain,
            track.signal[0],
            float(np.sum(track.path.alive)) / LENGTH * price(found.width, highest, track.path.harmonics),
            float(np.sum(track.path.alive)) / LENGTH,
            track.path.harmonics,
        )
        for track in found.tracks
    ]
    return View(found.centres, components)


def _of_ridges(record: Record, rows: np.ndarray, y: np.ndarray, grid: np.ndarray, count: int | None, most: int) -> View:
    t = record.t[rows]
    centres = np.linspace(t.min(), t.max(), int(np.clip(len(t) // 4, 5, CENTRES)))
    ridges = find_ridges(t, y[None, rows], record.weight[None, rows], centres, grid, count, most)
    components = [
        Component(
            ridge.frequency,
            ridge.amplitude[:, 0],
            ridge.gain,
            (ridge.signal if len(rows) == len(record.t) else ridge.at(record.t, centres))[0],
            ridge.price(centres, float(grid[-1])),
            ridge.windows(centres),
            overtones=partial(_overtones, record, rows, ridge, centres),
        )
        for ridge in ridges
    ]
    return View(centres, components)


def _overtones(
    record: Record, rows: np.ndarray, ridge: Ridge, centres: np.ndarray, count: int, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What a ridge explains of outputs ``y [n]`` with so many harmonics, and their waves."""
    return ridge.overtones(record.t[rows], y[rows], record.weight[rows], centres, count, record.t)
