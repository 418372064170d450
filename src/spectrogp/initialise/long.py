"""Components of long records in one dimension: tracks through all the data, for several widths of windows.

How wide a window should be depends on the record: a wide one sees more, a narrow one follows changes. A ladder of
widths is tried, each over the whole record; those that are worth about as much as the best are alternatives, between
which a fit can choose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .frames import ROWS as FEWEST
from .frames import Channel, Grid, even_grid, frames, price, window
from .harmonics import IN_STEP, REPEATED, find_comb, in_step, overtones, with_all_harmonics
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
ONE = 1.1  # times as much are harmonics of one tone worth as several tones
COMB_ROWS = 96.0 * 2.0 ** np.arange(5)  # in the windows that are tried for combs
STRETCHES, FRAMES = 3, 32  # of the record, and frames in each, that are looked at for combs first
APART = 0.6  # in units of width⁻¹, frequencies that a window tells apart


class Tracks(NamedTuple):
    """Components seen through windows of one width: centres ``[k]``, tracks, what they are worth, what is left over."""

    centres: np.ndarray
    width: float
    tracks: list[Track]
    worth: float
    rest: np.ndarray  # [c, n], of every channel

    @property
    def frequency(self) -> np.ndarray:
        """``[k, a]``, in cycles per unit."""
        return np.column_stack([track.path.frequency for track in self.tracks])

    @property
    def amplitude(self) -> np.ndarray:
        """``[k, a, c]``, of the sinusoids in every channel; of all harmonics together."""
        return np.stack([np.linalg.norm(track.wave, axis=1) for track in self.tracks], axis=1)

    @property
    def cycles(self) -> float:
        """How often the fastest of them, or its highest harmonic, turns where it is seen."""
        return float(np.max(np.sum(self.frequency * (self.gain > 0), axis=0) * self.harmonics) * self.width)

    @property
    def harmonics(self) -> np.ndarray:
        """``[a]``, their numbers."""
        return np.array([track.path.harmonics for track in self.tracks])

    @property
    def gain(self) -> np.ndarray:
        """``[k, a]``, in nats."""
        return np.column_stack([track.path.gain for track in self.tracks])

    def noise(self, weight: np.ndarray) -> np.ndarray:
        """Standard deviations ``[c]`` of what is left over, from its median size: single places that were missed do not
        count.

        A local fit has a mean, two amplitudes, a frequency and a rate for each window's length of data.
        """
        lengths = sum(float(np.sum(track.path.alive)) / LENGTH for track in self.tracks)
        share = np.maximum(1.0 - 5.0 * lengths / np.sum(weight > 0, axis=1), 0.1)
        size = [
            float(np.median(np.sqrt(own[own > 0]) * np.abs(rest[own > 0])))
            for own, rest in zip(weight, self.rest, strict=True)
        ]
        return np.asarray(1.4826 * np.array(size) / np.sqrt(share))

    def spectrum(self, span: float) -> Spectrum:
        """Middle, spread and size of the tracks, over a record of a length."""
        frequency, amplitude, share = self.frequency, self.amplitude, self.gain + 1e-300
        share = share / np.sum(share, axis=0)
        middle = np.sum(share * frequency, axis=0)
        spread = np.sqrt(np.sum(share * (frequency - middle) ** 2, axis=0) + (0.1 / span) ** 2)
        return Spectrum(middle[:, None], spread[:, None], np.sqrt(0.5 * np.mean(amplitude**2, axis=0)))


class _Record(NamedTuple):
    """All rows, and the grids that those of each channel are on."""

    t: np.ndarray
    y: np.ndarray  # [c, n]
    weight: np.ndarray  # [c, n]
    highest: float
    grids: list[Grid]

    @classmethod
    def of(cls, t: np.ndarray, y: np.ndarray, weight: np.ndarray, highest: float) -> _Record:
        return cls(t, y, weight, highest, [even_grid(t, own, highest) for own in weight])

    @property
    def grid(self) -> Grid:
        """What all grids have in common."""
        return self.grids[0]

    def rest(self, signals: np.ndarray | float, hop: int) -> np.ndarray:
        """What signals leave over, without what is slower than windows of width ``hop`` see, ``[c, n]``."""
        left = self.channels(self.y - signals)
        return np.stack([own.grid.without_trend(own.y, own.weight, hop) for own in left])

    def channels(self, rest: np.ndarray) -> list[Channel]:
        return [Channel(*parts) for parts in zip(self.grids, rest, self.weight, strict=True)]

    def path(self, rest: np.ndarray, hop: int) -> Path:
        return find_path(self.channels(rest), hop, self.highest)

    def comb(self, rest: np.ndarray, hop: int) -> Path | None:
        return find_comb(self.channels(rest), hop, self.highest)

    def track(self, rest: np.ndarray, path: Path) -> Track:
        return fit_path(self.channels(rest), self.t, path, self.highest)

    def tracks(self, tracks: list[Track]) -> Tracks:
        """Tracks of one width, with what they are worth together."""
        path, signals = tracks[0].path, np.zeros_like(self.y)
        for track in tracks:
            signals += track.signal
        width = path.hop / self.grid.rate
        centres = self.grid.start + np.arange(len(path.gain)) * width
        rest = self.rest(signals, path.hop)
        return Tracks(centres, width, tracks, self.worth(tracks, rest), rest)

    def worth(self, tracks: list[Track], rest: np.ndarray) -> float:
        """Log likelihood that tracks gain together, less what they cost: the gains of each alone do not add up."""
        hop, shape = tracks[0].path.hop, window(tracks[0].path.hop)
        harmonics = sum(track.path.alive * track.path.harmonics for track in tracks)
        cost = sum(
            track.path.alive * price(hop / self.grid.rate, self.highest, track.path.harmonics, len(self.y))
            for track in tracks
        )
        gained, seen = np.zeros(len(tracks[0].path.gain)), np.zeros(len(tracks[0].path.gain), bool)
        for grid, weight, *parts in zip(self.grids, self.weight, self.rest(0.0, hop), rest, strict=True):
            total, square = frames(grid.weight, hop) @ shape, frames(grid.square, hop) @ shape**2
            rows = total**2 / np.maximum(square, 1e-300)
            sizes = []
            for part in parts:
                mean, energy = (frames(grid.sums(weight * part**k), hop) @ shape for k in (1, 2))
                sizes.append(np.maximum(energy - mean**2 / np.maximum(total, 1e-300), 1e-300))
            gained += 0.5 * np.maximum(rows - 1.0 - 2.0 * harmonics, 0.0) * np.log(sizes[0] / sizes[1])
            seen |= rows > FEWEST
        return float(np.sum((gained - cost)[seen & (harmonics > 0)])) / LENGTH

    def stretch(self, start: float, length: float) -> _Record | None:
        """A part of the record, or None where it has few rows."""
        rows = slice(*np.searchsorted(self.t, [start, start + length]))
        if rows.stop - rows.start < ROWS:
            return None
        return _Record.of(self.t[rows], self.y[:, rows], self.weight[:, rows], self.highest)


def find_long(
    t: np.ndarray, y: np.ndarray, weight: np.ndarray, highest: float, count: int | None, max_tracks: int
) -> list[Tracks]:
    """Tracks in a record, for the widths that are worth at least half of the best, best first; none if there are none.

    Args:
        t: Times ``[n]``, sorted.
        y: Outputs ``[c, n]`` of every channel, centred.
        weight: Weights ``[c, n]`` of the rows, 1 for all of equal precision, 0 for those that a channel has not.
        highest: Where the search ends, in cycles per unit.
        count: How many tracks; None for as many as are significant.
        max_tracks: How many of these, at most.
    """
    record = _Record.of(t, y, weight, highest)
    paths = [record.path(record.rest(0.0, hop), hop) for hop in hops(record.grid, t, highest)]
    best = max((path.worth for path in paths), default=0.0)
    if not paths or (count is None and best < SIGNIFICANT):
        return []
    paths = sorted(paths, key=lambda path: -path.worth)[:ALTERNATIVES]
    found = [_all_tracks(record, path, count, max_tracks) for path in paths if path.worth >= WORTH * best]
    if count is None:
        found = [_with_overtones(record, tracks) for tracks in found]
    if count is None or count == 1:
        for hop in _comb_hops(record, best):
            rest = record.rest(0.0, hop)
            comb = record.comb(rest, hop)
            track = None if comb is None else record.track(rest, comb)
            if track is None or in_step(track.wave[track.path.alive]) < IN_STEP:
                continue
            path = with_all_harmonics(track)
            if float(np.sum(path.frequency[path.alive])) * hop / record.grid.rate > REPEATED:
                found.append(record.tracks([track if path is track.path else record.track(rest, path)]))
    found = sorted(found, key=lambda tracks: -tracks.worth * (1.0 if _are_tones(tracks) else ONE))
    best = max(tracks.worth for tracks in found)
    return [tracks for tracks in found[:ALTERNATIVES] if tracks.worth >= WORTH * best]


def _are_tones(found: Tracks) -> bool:
    """Whether there are several tones that have no harmonics."""
    return len(found.tracks) > 1 and not np.any(found.harmonics > 1)


def hops(grid: Grid, t: np.ndarray, highest: float) -> list[int]:
    """Widths of windows to try, in cells of the grid: from a few rows to half of the record."""
    density = len(t) / (len(grid.weight) - 1.0)  # rows in a cell
    ladder, rows = [], ROWS
    while rows <= max(len(t) / WINDOWS, ROWS):
        ladder.append(max(round(rows / (LENGTH * density)), 2))
        rows *= next(growth for limit, growth in GROWTH if rows < limit)
    return [hop for hop in dict.fromkeys(ladder) if 2.0 * CYCLES * grid.rate / hop < highest]


def _all_tracks(record: _Record, path: Path, count: int | None, max_tracks: int) -> Tracks:
    """The first path and those after it, each in what those before leave over; then each again without the others."""
    hop, whole = path.hop, record.rest(0.0, path.hop)
    found = record.tracks([record.track(whole, path)])
    while len(found.tracks) < (max_tracks if count is None else count):
        track = record.track(found.rest, record.path(found.rest, hop))
        if count is None and not _is_there(record, track, found, whole):
            break
        tracks, rest = [*found.tracks, track], found.rest - track.signal
        for k, before in enumerate(tracks):
            alone = rest + before.signal
            tracks[k] = record.track(alone, record.path(alone, hop))
            rest = alone - tracks[k].signal
        found = record.tracks([_apart(track, k) for k, track in enumerate(tracks)])
    return found


def _apart(track: Track, k: int) -> Track:
    """The k-th track; where there is none, at a frequency of its own, so that no two components begin alike."""
    path = track.path
    return track if np.any(path.alive) else track._replace(path=path._replace(frequency=path.frequency * (1.0 + k)))


def _is_there(record: _Record, track: Track, found: Tracks, whole: np.ndarray) -> bool:
    """Whether a further track is significant and not what those before it missed.

    It is apart from them at most places, by as much as a window tells apart, and explains enough where it lives.
    """
    path, rest = track.path, found.rest
    if path.worth < SIGNIFICANT:
        return False
    for other in found.tracks:
        near = np.abs(path.frequency - other.path.frequency) * found.width < APART
        if np.sum(path.gain[near & other.path.alive]) > 0.5 * np.sum(path.gain):
            return False
    place = np.rint((record.t - record.grid.start) / found.width).astype(np.int64)
    lives = record.weight * path.alive[place]
    before, after, all_of_it = (float(np.sum(lives * part**2)) for part in (rest, rest - track.signal, whole))
    return before - after > max(SHARE * before, WHOLE * all_of_it)


def _with_overtones(record: _Record, found: Tracks) -> Tracks:
    """With tracks that are harmonics of one as one track, where that is worth about as much."""
    fundamentals = overtones(found.tracks, found.width)
    if len(fundamentals) == len(found.tracks):
        return found
    rest = found.rest + sum((track.signal for track in found.tracks), np.zeros_like(found.rest))
    tracks = []
    for track, harmonics in fundamentals:
        tracks.append(record.track(rest, track.path._replace(harmonics=harmonics)))
        rest = rest - tracks[-1].signal
    joined = record.tracks(tracks)
    return joined if joined.worth >= JOINED * found.worth else found


def _comb_hops(record: _Record, worth: float) -> list[int]:
    """Widths through which a tone with its harmonics is worth more than a path, as some stretches say; or none."""
    span, density = record.t[-1] - record.t[0], len(record.t) / (len(record.grid.weight) - 1.0)
    best, chosen = worth, 0
    for rows in COMB_ROWS[len(record.t) / WINDOWS >= COMB_ROWS]:
        hop = max(round(rows / (LENGTH * density)), 2)
        length = min(FRAMES * hop / record.grid.rate, span / STRETCHES)
        total = 0.0
        for start in np.linspace(record.t[0], record.t[-1] - length, STRETCHES):
            part = record.stretch(start, length)
            if part is not None:
                near = max(round(hop * part.grid.rate / record.grid.rate), 2)
                comb = part.comb(part.rest(0.0, near), near)
                total += 0.0 if comb is None else comb.worth
        total *= span / (STRETCHES * length)
        if total > best:
            best, chosen = total, hop
    return [chosen, round(chosen * np.sqrt(2.0))] if chosen else []
