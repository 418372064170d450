"""Harmonics in long records: one fundamental and its overtones instead of several tones.

Overtones are recognised in two ways. Tracks that were found one by one belong together if their frequencies are
multiples of one and their phases keep step with it through the whole record. In a train of pulses the fundamental may be
weak itself: there a comb adds what all multiples of a frequency explain.
"""

from __future__ import annotations

import numpy as np

from .frames import Grid, find_cells, nats
from .ridges import CYCLES
from .tracks import JUMPS, Path, Track, best_track, between_bins, birth_price, path_of

COMBS = (3, 5, 8, 12)  # numbers of harmonics that are tried
FINE = 8  # frequencies of a comb to one of a wave
STEP = 0.3  # in units of width⁻¹, frequencies that a window takes for the same
AGREE = 0.9  # of the gain of an overtone, where its frequency is that of one
COHERENT = 0.5  # length of the mean of e^i(difference of phases), likewise: it is 1 in step, and 0 for another tone


def find_comb(grid: Grid, y: np.ndarray, weight: np.ndarray, hop: int, highest: float) -> Path | None:
    """The path of the fundamental of largest worth, through windows of width ``hop``; None where none fits the band."""
    cells = find_cells(grid, y, weight, hop, highest)
    step, last = cells.step / FINE, cells.first + cells.share.shape[1] - 1
    first = int(np.ceil(2.0 * CYCLES / (cells.width * step)))
    paths, total, so_far = [], np.zeros(1, np.float32), 0
    for count in COMBS:
        multiples = np.arange(first, FINE * last // count + 1)  # of the step: all harmonics are in the band
        if len(multiples) < 3:
            break
        total = total[..., : len(multiples)]
        for h in range(so_far + 1, count + 1):
            total = total + cells.share[:, np.rint(h * multiples / FINE).astype(np.int64) - cells.first]
        so_far = count
        gain = nats(total, cells.count[:, None], cells.width, highest, count)
        drift = np.zeros_like(gain, np.float32)
        states, worth = best_track(gain, drift, 0.5 * JUMPS, birth_price(len(gain)))
        frequency = step * (first + between_bins(gain, drift, states, 0.5 * JUMPS))
        path = path_of(states, gain, hop, frequency, np.gradient(frequency, cells.width), worth)
        paths.append(path._replace(harmonics=count))
    return max(paths, key=lambda path: path.worth, default=None)


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
    turned = other.wave[:, 0] * np.conj(base.wave[:, 0]) ** multiple
    turned = turned / np.maximum(np.abs(turned), 1e-300)
    return multiple if np.abs(np.sum(gain * turned)) > COHERENT * np.sum(gain) else 0
