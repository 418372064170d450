"""Components of long records in one dimension: tracks through all the data, for several widths of windows.

How wide a window should be depends on the record: a wide one sees more, a narrow one follows changes. A ladder of widths
is tried, each over the whole record; those that are worth about as much as the best are alternatives, between which a
fit can choose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .frames import Grid, even_grid
from .harmonics import find_comb, overtones
from .initial import Spectrum
from .ridges import CYCLES, LENGTH, SIGNIFICANT
from .tracks import Path, Track, find_path, fit_path

ROWS = 24.0  # in the narrowest window
GROWTH = ((200.0, np.sqrt(2.0)), (5000.0, 2.0), (np.inf, 4.0))  # of the widths, in windows of fewer rows
WINDOWS = 2.0  # that the record holds at least
WORTH = 0.5  # of the best width, that an alternative has at least
ALTERNATIVES = 5  # at most
SHARE = 0.1  # of what was left where it lives, that a further track explains
WHOLE = 0.02  # of all there is where it lives, likewise
JOINED = 0.9  # of what tracks are worth one by one, that they are as harmonics of one
STRETCHES, FRAMES = 3, 48  # of the record, and frames in each, that are looked at for combs first
COMB_EVERY = 2  # of the widths is tried for combs,
COMB_ROWS = 5000.0  # in windows of up to so many rows;
COMB = 0.8  # widths worth so much of the best are tried on the whole record
APART = 0.6  # in units of width⁻¹, frequencies that a window tells apart


class Tracks(NamedTuple):
    """Components seen through windows of one width: centres ``[k]``, tracks, what they are worth, what is left over."""

    centres: np.ndarray
    width: float
    tracks: list[Track]
    worth: float
    rest: np.ndarray  # [n]

    @property
    def frequency(self) -> np.ndarray:
        """``[k, a]``, in cycles per unit."""
        return np.column_stack([track.path.frequency for track in self.tracks])

    @property
    def amplitude(self) -> np.ndarray:
        """``[k, a]``, of the sinusoids; of all harmonics together."""
        return np.column_stack([np.linalg.norm(track.wave, axis=1) for track in self.tracks])

    @property
    def harmonics(self) -> np.ndarray:
        """``[a]``, their numbers."""
        return np.array([track.path.harmonics for track in self.tracks])

    @property
    def gain(self) -> np.ndarray:
        """``[k, a]``, in nats."""
        return np.column_stack([track.path.gain for track in self.tracks])

    def noise(self, weight: np.ndarray) -> float:
        """Standard deviation of what is left over, from its median size: single places that were missed do not count.

        A local fit has a mean, two amplitudes, a frequency and a rate for each window's length of data.
        """
        lengths = sum(float(np.sum(track.path.alive)) / LENGTH for track in self.tracks)
        share = max(1.0 - 5.0 * lengths / len(weight), 0.1)
        return 1.4826 * float(np.median(np.sqrt(weight) * np.abs(self.rest))) / np.sqrt(share)

    def spectrum(self, span: float) -> Spectrum:
        """Middle, spread and size of the tracks, over a record of a length."""
        frequency, amplitude, share = self.frequency, self.amplitude, self.gain + 1e-300
        share = share / np.sum(share, axis=0)
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
    ladder = hops(grid, t, highest)
    paths = [find_path(grid, grid.without_trend(y, weight, hop), weight, hop, highest) for hop in ladder]
    best = max((path.worth for path in paths), default=0.0)
    if count is None and best < SIGNIFICANT:
        return []
    paths = sorted(paths, key=lambda path: -path.worth)[:ALTERNATIVES]
    found = [
        _all_tracks(grid, t, grid.without_trend(y, weight, path.hop), weight, highest, path, count, max_tracks)
        for path in paths
        if path.worth >= WORTH * best
    ]
    if count is None:
        found = [_with_overtones(grid, t, weight, highest, tracks) for tracks in found]
    if count is None or count == 1:
        for hop in _combs(grid, t, y, weight, highest, ladder, best):
            z = grid.without_trend(y, weight, hop)
            comb = find_comb(grid, z, weight, hop, highest)
            if comb is not None:
                found.append(_gathered(grid, z, [fit_path(grid, t, z, weight, comb, highest)]))
    found = sorted(found, key=lambda tracks: -tracks.worth)[:ALTERNATIVES]
    return [tracks for tracks in found if tracks.worth >= WORTH * found[0].worth]


def hops(grid: Grid, t: np.ndarray, highest: float) -> list[int]:
    """Widths of windows to try, in cells of the grid: from a few rows to half of the record."""
    density = len(t) / (len(grid.weight) - 1.0)  # rows in a cell
    ladder, rows = [], ROWS
    while rows <= max(len(t) / WINDOWS, ROWS):
        ladder.append(max(round(rows / (LENGTH * density)), 2))
        rows *= next(growth for limit, growth in GROWTH if rows < limit)
    return [hop for hop in dict.fromkeys(ladder) if 2.0 * CYCLES * grid.rate / hop < highest]


def _all_tracks(
    grid: Grid,
    t: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    highest: float,
    path: Path,
    count: int | None,
    max_tracks: int,
) -> Tracks:
    """The first path and those after it, each in what those before leave over; then each again without the others."""

    def find(rest: np.ndarray) -> Track:
        return fit_path(grid, t, rest, weight, find_path(grid, rest, weight, path.hop, highest), highest)

    tracks = [fit_path(grid, t, y, weight, path, highest)]
    rest, width = y - tracks[0].signal, path.hop / grid.rate
    while len(tracks) < (max_tracks if count is None else count):
        track = find(rest)
        if count is None and not _is_there(track, tracks, rest, y, weight, (t - grid.start) / width, width):
            break
        tracks, rest = [*tracks, track], rest - track.signal
        for k in range(len(tracks)):
            alone = rest + tracks[k].signal
            tracks[k] = find(alone)
            rest = alone - tracks[k].signal
    return _gathered(grid, y, tracks)


def _gathered(grid: Grid, y: np.ndarray, tracks: list[Track]) -> Tracks:
    path = tracks[0].path
    width = path.hop / grid.rate
    centres = grid.start + np.arange(len(path.gain)) * width
    rest = y - sum((track.signal for track in tracks), np.zeros_like(y))
    return Tracks(centres, width, tracks, sum(track.path.worth for track in tracks), rest)


def _with_overtones(
    grid: Grid, t: np.ndarray, weight: np.ndarray, highest: float, found: Tracks
) -> Tracks:
    """With tracks that are harmonics of one as one track, where that is worth about as much."""
    fundamentals = overtones(found.tracks, found.width)
    if len(fundamentals) == len(found.tracks):
        return found
    y = found.rest + sum((track.signal for track in found.tracks), np.zeros_like(t))
    tracks, rest = [], y
    for track, harmonics in fundamentals:
        tracks.append(fit_path(grid, t, rest, weight, track.path._replace(harmonics=harmonics), highest))
        rest = rest - tracks[-1].signal
    joined = _gathered(grid, y, tracks)
    return joined if joined.worth >= JOINED * found.worth else found


def _combs(
    grid: Grid, t: np.ndarray, y: np.ndarray, weight: np.ndarray, highest: float, ladder: list[int], worth: float
) -> list[int]:
    """Widths through which a fundamental with its harmonics may be worth more than one path, as some stretches say."""
    span, rates = t[-1] - t[0], {}
    for hop in ladder[COMB_EVERY::COMB_EVERY]:
        length = FRAMES * hop / grid.rate
        if len(t) * hop / (grid.rate * span) * LENGTH > COMB_ROWS:
            break
        total = 0.0
        starts = t[0] + (span - length) * np.linspace(0.0, 1.0, STRETCHES) if STRETCHES * length < span else [t[0]]
        length = min(length, span) if len(starts) > 1 else span
        for start in starts:
            rows = slice(*np.searchsorted(t, [start, start + length]))
            if rows.stop - rows.start > ROWS:
                part = even_grid(t[rows], weight[rows], highest)
                near = max(round(hop * part.rate / grid.rate), 2)
                z = part.without_trend(y[rows], weight[rows], near)
                comb = find_comb(part, z, weight[rows], near, highest)
                total += 0.0 if comb is None else comb.worth
        rates[hop] = total * span / (length * len(starts))
    best = max(rates.values(), default=0.0)
    return [hop for hop, rate in rates.items() if rate > max(worth, COMB * best)]


def _is_there(
    track: Track,
    others: list[Track],
    rest: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    place: np.ndarray,
    width: float,
) -> bool:
    """Whether a further track is significant and not what those before it missed.

    It is apart from them at most places, by as much as a window tells apart, and explains enough where it lives.
    """
    path = track.path
    if path.worth < SIGNIFICANT:
        return False
    for other in others:
        near = np.abs(path.frequency - other.path.frequency) * width < APART
        if np.sum(path.gain[near & other.path.alive]) > 0.5 * np.sum(path.gain):
            return False
    lives = weight * path.alive[np.rint(place).astype(np.int64)]
    before, after, whole = (float(np.sum(lives * part**2)) for part in (rest, rest - track.signal, y))
    return before - after > max(SHARE * before, WHOLE * whole)
