"""Components of long records in one dimension: tracks through all the data, for several widths of windows.

How wide a window should be depends on the record: a wide one sees more, a narrow one follows changes. A ladder of widths
is tried, each over the whole record; those that are worth about as much as the best are alternatives, between which a
fit can choose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .frames import Grid, even_grid
from .initial import Spectrum
from .ridges import CYCLES, LENGTH, SIGNIFICANT
from .tracks import Track, find_track

ROWS = 24.0, 200.0  # in the narrowest window; up to here widths grow by √2, beyond by 2
WINDOWS = 2.0  # that the record holds at least
WORTH = 0.5  # of the best width, that an alternative has at least
ALTERNATIVES = 5  # at most
SHARE = 0.1  # of what was left where it lives, that a further track explains
WHOLE = 0.02  # of all there is where it lives, likewise


class Tracks(NamedTuple):
    """Components seen through windows of one width: centres ``[k]``, tracks, what they are worth, what is left over."""

    centres: np.ndarray
    width: float
    tracks: list[Track]
    worth: float
    rest: np.ndarray  # [n]

    def stacked(self, name: str) -> np.ndarray:
        """One field of all tracks, ``[k, a]``."""
        return np.column_stack([getattr(track, name) for track in self.tracks])

    def noise(self, weight: np.ndarray) -> float:
        """Standard deviation of what is left over, from its median size: single places that were missed do not count."""
        return 1.4826 * float(np.median(np.sqrt(weight) * np.abs(self.rest)))

    def spectrum(self, span: float) -> Spectrum:
        """Middle, spread and size of the tracks, over a record of a length."""
        share = self.stacked("gain") + 1e-300
        share = share / np.sum(share, axis=0)
        frequency, amplitude = self.stacked("frequency"), self.stacked("amplitude")
        middle = np.sum(share * frequency, axis=0)
        spread = np.sqrt(np.sum(share * (frequency - middle) ** 2, axis=0) + (0.1 / span) ** 2)
        return Spectrum(middle[:, None], spread[:, None], np.sqrt(0.5 * np.mean(amplitude**2, axis=0)))


def find_long(
    t: np.ndarray, y: np.ndarray, weight: np.ndarray, highest: float, count: int | None, max_tracks: int
) -> list[Tracks]:
    """Tracks in a record, for the widths that are worth at least half of the best, best first; none if there are none.

    Args:
        t: Times ``[n]``, sorted.
        y: Outputs ``[n]``, centred.
        weight: Weights ``[n]`` of the rows, 1 for all of equal precision.
        highest: Where the search ends, in cycles per unit.
        count: How many tracks; None for as many as are significant.
        max_tracks: How many of these, at most.
    """
    grid = even_grid(t, weight, highest)
    first = [(hop, find_track(grid, t, y, weight, hop, highest)) for hop in hops(grid, t, highest)]
    best = max((track.worth for _, track in first), default=0.0)
    if count is None and best < SIGNIFICANT:
        return []
    first = sorted(first, key=lambda pair: -pair[1].worth)[:ALTERNATIVES]
    first = [(hop, track) for hop, track in first if track.worth >= WORTH * best]
    found = [_all_tracks(grid, t, y, weight, highest, hop, track, count, max_tracks) for hop, track in first]
    return sorted(found, key=lambda tracks: -tracks.worth)


def hops(grid: Grid, t: np.ndarray, highest: float) -> list[int]:
    """Widths of windows to try, in cells of the grid: from a few rows to half of the record."""
    density = len(t) / (len(grid.weight) - 1.0)  # rows in a cell
    ladder, rows = [], ROWS[0]
    while rows <= max(len(t) / WINDOWS, ROWS[0]):
        ladder.append(max(round(rows / (LENGTH * density)), 2))
        rows *= np.sqrt(2.0) if rows < ROWS[1] else 2.0
    return [hop for hop in dict.fromkeys(ladder) if 2.0 * CYCLES * grid.rate / hop < highest]


def _all_tracks(
    grid: Grid,
    t: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    highest: float,
    hop: int,
    track: Track,
    count: int | None,
    max_tracks: int,
) -> Tracks:
    """The tracks after the first, each in what those before leave over; then each again without the others."""
    tracks, rest = [track], y - track.signal
    while len(tracks) < (max_tracks if count is None else count):
        track = find_track(grid, t, rest, weight, hop, highest)
        if count is None and not _is_there(track, rest, y, weight, (t - grid.start) * (grid.rate / hop)):
            break
        tracks, rest = [*tracks, track], rest - track.signal
        for k in range(len(tracks)):
            alone = rest + tracks[k].signal
            tracks[k] = find_track(grid, t, alone, weight, hop, highest)
            rest = alone - tracks[k].signal
    centres = grid.start + np.arange(len(track.gain)) * (hop / grid.rate)
    return Tracks(centres, hop / grid.rate, tracks, sum(track.worth for track in tracks), rest)


def _is_there(track: Track, rest: np.ndarray, y: np.ndarray, weight: np.ndarray, place: np.ndarray) -> bool:
    """Whether a further track is significant, and explains enough where it lives: not what those before it missed."""
    if track.worth < SIGNIFICANT:
        return False
    lives = weight * track.alive[np.rint(place).astype(np.int64)]
    before, after, whole = (float(np.sum(lives * part**2)) for part in (rest, rest - track.signal, y))
    return before - after > max(SHARE * before, WHOLE * whole)
