"""Harmonics in long records: one fundamental and its overtones instead of several tones.

Overtones are recognised in two ways. Tracks that were found one by one belong together if their frequencies are
multiples of one and their phases keep step with it through the whole record. In a train of pulses the fundamental may
be weak itself: there a comb adds what all multiples of a frequency explain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .frames import RATES, Cells, Channel, find_cells, nats
from .tracks import JUMPS, Path, Track, best_track, between_bins, birth_price, path_of

COMBS = (3, 5, 8, 12)  # numbers of harmonics that are tried
LOWEST = 0.6  # fundamental, in units of width⁻¹: a window holds two cycles, of one alone any frequency makes a pulse
LOW = 0.25  # of what harmonics explain, that the lower half of them does at least
STEP = 0.3  # in units of width⁻¹, frequencies that a window takes for the same
AGREE = 0.9  # of the gain of an overtone, where its frequency is that of one
REPEATED = 8.0  # cycles from which on they show a waveform
MOST = 0.9  # of what harmonics explain, that every k-th has where these are all there are
IN_STEP = 0.85  # how well harmonics of one tone keep step, at least: 0.95 and more, those that others feign 0.8 at most
COHERENT = 0.5  # length of the mean of e^i(difference of phases), likewise: it is 1 in step, and 0 for another tone


def find_comb(channels: Sequence[Channel], hop: int, highest: float) -> Path | None:
    """The path of the fundamental of largest worth, through windows of width ``hop``; None where none fits the band."""
    cells = find_cells(channels, hop, highest, best=False)
    last = cells.first + cells.share.shape[2] - 1
    paths = []
    for count in COMBS:
        step = cells.step / count
        multiples = np.arange(int(np.ceil(LOWEST / (cells.width * step))), last + 1)  # all harmonics are in the band
        if len(multiples) < 3:
            break
        share, rate = _comb(cells, multiples, count)
        gain = nats(share, cells.rows[:, None], cells.width, highest, count, cells.channels)
        drift = np.float32(0.5 / (cells.width * step)) * rate
        states, worth = best_track(gain, drift, 0.5 * JUMPS, birth_price(len(gain)))
        frequency = step * (multiples[0] + between_bins(gain, drift, states, 0.5 * JUMPS))
        chosen = rate[np.arange(len(gain)), np.maximum(states, 0)] / cells.width**2
        # A frame at an end or in a gap may hold too little for two cycles: there the frequency is that of others.
        sure = frequency * cells.width * cells.rows > LOWEST * np.max(cells.rows)
        if np.any(sure):
            frames = np.arange(len(gain))
            frequency = np.interp(frames, frames[sure], frequency[sure])
            chosen = np.where(sure, chosen, 0.0)
        paths.append(path_of(states, gain, hop, frequency, chosen, worth)._replace(harmonics=count))
    return max(paths, key=lambda path: path.worth, default=None)


def _comb(cells: Cells, multiples: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """What the harmonics of a fundamental explain together, ``[k, f]``, and its chirp rate in units of width⁻².

    Fundamentals are ``multiples`` of the cells' step over ``count``. The rate of the h-th harmonic is h times that of
    the first, and that of the last is one of RATES. Of uneven rows each frequency explains something of every other
    one: what is usual in a frame does not count. Lines at high multiples alone, as those of a tone whose frequency
    swings, are no harmonics.
    """
    usual = np.median(cells.share[0], axis=1, keepdims=True) / np.log(2.0)  # as exponential shares have it: of noise
    shape = len(cells.rows), len(multiples)
    best, rate, grid = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.array(RATES)
    places = [np.rint(multiples * h / count).astype(np.int64) - cells.first for h in range(1, count + 1)]
    for top in RATES:
        total = np.zeros(shape, np.float32)
        for h, at in enumerate(places, 1):
            if h == count // 2 + 1:
                low = total.copy()
            kind = int(np.argmin(np.abs(grid - top * h / count)))
            start = int(np.searchsorted(at, 0))  # lower ones are not in the band
            total[:, start:] += np.take(cells.share[kind], at[start:], axis=1) - usual
        total = np.minimum(total, low / LOW)
        better = total > best
        np.copyto(best, total, where=better)
        np.copyto(rate, np.float32(top / count), where=better)
    return best, rate


def with_all_harmonics(track: Track) -> Path:
    """The path of the fundamental of those harmonics that are there: of a comb that is too fine every k-th is."""
    path, count = track.path, track.path.harmonics
    energy = np.sum(np.abs(track.wave[path.alive]) ** 2, axis=(0, 2))
    for k in range(count, 1, -1):
        if np.sum(energy[k - 1 :: k]) > MOST * np.sum(energy):
            return path._replace(frequency=k * path.frequency, rate=k * path.rate, harmonics=count // k)
    return path


def in_step(wave: np.ndarray) -> float:
    """How well harmonics keep step with each other, from 0 to 1: the bicoherence of their waves ``[k, h, c]``.

    The phase of w_g w_h w̄_{g+h} is that of the waveform, wherever a cycle begins: it stays if they are harmonics of one
    tone, and turns if they are tones of their own.
    """
    count = wave.shape[1]
    pairs = [(g, h) for g in range(1, count) for h in range(g, count - g + 1)]
    products = [wave[:, g - 1] * wave[:, h - 1] * np.conj(wave[:, g + h - 1]) for g, h in pairs]
    whole = sum(float(np.sum(np.abs(product))) for product in products)
    # Each channel has a waveform of its own.
    return sum(float(np.sum(np.abs(np.sum(product, axis=0)))) for product in products) / max(whole, 1e-300)


def overtones(tracks: list[Track], width: float) -> list[tuple[Track, int]]:
    """The fundamentals among tracks, each with the number of its highest harmonic among them; 1 where it has none.

    Args:
        tracks: Components seen through windows of one width.
        width: Of the windows.
    """
    ordered = sorted(tracks, key=lambda track: float(np.median(track.path.frequency)))
    found: list[tuple[Track, int]] = []
    for track in ordered:
        for k, (base, highest) in enumerate(found):
            multiple = _multiple(base, track, width)
            if multiple > 1:
                found[k] = base, max(highest, multiple)
                break
        else:
            found.append((track, 1))
    return found


def _multiple(base: Track, other: Track, width: float) -> int:
    """Which harmonic of one track the other is, or 0."""
    both = base.path.alive & other.path.alive
    gain = np.where(both, other.path.gain, 0.0)
    if np.sum(gain) < AGREE * np.sum(other.path.gain) or not np.any(gain > 0):
        return 0
    multiple = round(float(np.median((other.path.frequency / base.path.frequency)[gain > 0])))
    near = np.abs(other.path.frequency - multiple * base.path.frequency) * width < STEP
    if multiple < 2 or np.sum(gain[near]) < AGREE * np.sum(gain):
        return 0
    turned = other.wave[:, 0] * np.conj(base.wave[:, 0]) ** multiple  # [k, c]
    size = np.sum(np.abs(turned), axis=0)  # channels in which both are strong tell most
    turned = turned / np.maximum(np.abs(turned), 1e-300)
    steady = np.abs(np.sum(gain[:, None] * turned, axis=0)) @ size / max(float(np.sum(size)), 1e-300)
    return multiple if steady > COHERENT * np.sum(gain) else 0
