"""Tracks: components of a long record that begin and end, linked through all its frames by dynamic programming.

A path is at each centre at one of the frequencies of ``frames``, or nowhere. It collects the gains of its cells, less
½ (jump / std)² for jumps of frequency from what the chirp rates at both ends predict, less the price of a birth. Where
there is nothing, being nowhere costs nothing; in a gap, nor does going on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import solveh_banded

from .frames import RATES, REACH, Grid, find_cells, frames, nats, window
from .ridges import CYCLES, LENGTH

JUMP = 0.25  # standard deviation of a jump from what the rates predict, in units of width⁻¹
JUMPS = 10  # bins that a path jumps at most
NOWHERE = -1
OFF = 0.05, 0.1  # standard deviations of a path's frequency and rate, in units of width⁻¹ and width⁻²
_SAMPLES = 2**19  # of frames fitted at once


class Path(NamedTuple):
    """Where a component is at the centres of frames, ``hop`` cells of the grid apart, all ``[k]``.

    ``frequency`` in cycles per unit, chirp ``rate`` in cycles per unit², ``gain`` in nats, whether it is ``alive``; its
    ``worth``, all gains less jumps and births; and its number of ``harmonics``, 1 for a sinusoid.
    """

    hop: int
    frequency: np.ndarray
    rate: np.ndarray
    gain: np.ndarray  # zero where nothing significant was found
    alive: np.ndarray
    worth: float
    harmonics: int = 1


class Track(NamedTuple):
    """A path, its waves, and the ``signal [n]`` that they explain at the rows.

    The real part of ``wave [k, h]`` times e^ihθ is the h-th harmonic near a centre.
    """

    path: Path
    wave: np.ndarray
    signal: np.ndarray


def best_track(gain: np.ndarray, drift: np.ndarray, std: float, birth: float) -> tuple[np.ndarray, float]:
    """The path ``[k]`` of largest worth through cells ``[k, f]``, and its worth; −1 where it is nowhere.

    Args:
        gain: Of the cells.
        drift: Half of what the chirp of a cell moves its frequency from one frame to the next, in bins, ``[k, f]``.
        std: Standard deviation of a jump from what is predicted, in bins.
        birth: Price of a birth.
    """
    count, size = gain.shape
    shift = np.arange(-JUMPS, JUMPS + 1, dtype=np.float32)[:, None]
    scale = np.float32(np.sqrt(0.5) / std)
    totals = np.empty((count, size), np.float32)
    padded, moved = np.full(size + 2 * JUMPS, -1e30, np.float32), np.zeros(size + 2 * JUMPS, np.float32)
    # Row s of these views is the state s − JUMPS bins above.
    before, leaving = (sliding_window_view(part, size) for part in (padded, moved))
    inner = slice(JUMPS, JUMPS + size)
    largest = np.maximum.reduce
    ended = np.zeros(count)  # what the best path gains that ends here; totals are kept relative to being nowhere
    totals[0] = gain[0] - birth
    for k in range(1, count):
        padded[inner], moved[inner] = totals[k - 1], drift[k - 1]
        miss = leaving + shift
        miss += drift[k]
        miss *= scale
        miss *= miss
        ended[k] = max(largest(totals[k - 1]), 0.0)
        totals[k] = gain[k] + np.maximum(largest(before - miss, axis=0) - np.float32(ended[k]), np.float32(-birth))
    # Backwards only the steps of the path itself are looked at again.
    path = np.full(count, NOWHERE)
    last = int(np.argmax(totals[-1]))
    state = last if totals[-1, last] > 0 else NOWHERE
    worth = float(np.sum(ended)) + max(float(totals[-1, last]), 0.0)
    for k in range(count - 1, 0, -1):
        path[k] = state
        if state != NOWHERE:
            low, high = max(state - JUMPS, 0), min(state + JUMPS + 1, size)
            miss = (np.arange(low, high) - state + drift[k - 1, low:high] + drift[k, state]) * scale
            value = totals[k - 1, low:high] - miss * miss
            top = int(value.argmax())
            if value[top] >= ended[k] - birth:
                state = low + top
                continue
        # Before it was nowhere, or another path ended.
        state = int(totals[k - 1].argmax()) if ended[k] > 0 else NOWHERE
    path[0] = state
    return path, worth


def find_path(grid: Grid, y: np.ndarray, weight: np.ndarray, hop: int, highest: float) -> Path:
    """The path of largest worth in a record, through windows of width ``hop``.

    Args:
        grid: Of the record.
        y: Outputs ``[n]``, centred.
        weight: Weights ``[n]`` of the rows, 1 for all of equal precision.
        hop: Width of the windows, in cells of the grid.
        highest: Where the search ends, in cycles per unit.
    """
    cells = find_cells(grid, y, weight, hop, highest)
    gain = nats(cells.share[0], cells.rows[:, None], cells.width, highest)
    bins = 1.0 / (cells.width * cells.step)  # in width⁻¹
    drift = (0.5 * bins * np.array(RATES)).astype(np.float32)[cells.rate]
    states, worth = best_track(gain, drift, JUMP * bins, birth_price(len(gain)))
    rate = np.array(RATES)[cells.rate[np.arange(len(gain)), np.maximum(states, 0)]] / cells.width**2
    place = between_bins(gain, drift, states, JUMP * bins)
    return path_of(states, gain, hop, cells.step * (cells.first + place), rate, worth)


def birth_price(count: int) -> float:
    """A window finds something by chance with the probability FALSE_ALARM; all windows of the record are tried."""
    return float(np.log(max(count / LENGTH, 1.0)))


def path_of(
    states: np.ndarray, gain: np.ndarray, hop: int, frequency: np.ndarray, rate: np.ndarray, worth: float
) -> Path:
    """The path through some states of cells with these gains."""
    alive = states != NOWHERE
    gained = np.maximum(gain[np.arange(len(gain)), np.maximum(states, 0)], 0.0)
    return Path(hop, frequency, np.where(alive, rate, 0.0), np.where(alive, gained, 0.0), alive, worth)


def between_bins(gain: np.ndarray, drift: np.ndarray, path: np.ndarray, std: float) -> np.ndarray:
    """The path between the bins, ``[k]``: the parabola through each of its cells, and the jumps as they are priced.

    A quadratic form, whose minimum solves a tridiagonal system. Where there is no path, it lies between its ends.
    """
    at = np.flatnonzero(path != NOWHERE)
    if len(at) == 0:
        return np.zeros(len(path))
    last = gain.shape[1] - 1
    state = path[at]
    low, middle, high = (gain[at, np.clip(state + k, 0, last)] for k in (-1, 0, 1))
    bend = np.where((state == 0) | (state == last), 0.0, np.maximum(2.0 * middle - low - high, 0.0))
    top = np.where(bend > 0, np.clip(0.5 * (high - low) / np.where(bend > 0, bend, 1.0), -0.5, 0.5), 0.0)
    one_sided = (at == 0) | (at == len(path) - 1)  # such a frame cannot tell a frequency from its change
    bend = np.maximum(np.where(one_sided, 0.1, 1.0) * bend, 1e-3)
    whole = (np.diff(at) == 1) & (np.abs(np.diff(state)) <= JUMPS)
    link = np.where(whole, std**-2, 0.0)
    moves = link * (drift[at, state][1:] + drift[at, state][:-1])
    diagonal, right = bend.copy(), bend * (state + top)
    diagonal[1:] += link
    diagonal[:-1] += link
    right[1:] += moves
    right[:-1] -= moves
    solution = solveh_banded(np.stack([np.append(0.0, -link), diagonal]), right) if len(at) > 1 else right / diagonal
    return np.interp(np.arange(len(path)), at, solution)


def fit_path(grid: Grid, t: np.ndarray, y: np.ndarray, weight: np.ndarray, path: Path, highest: float) -> Track:
    """The waves of a path: fitted in each frame, between bins and rates, and blended between centres."""
    fitted, wave = _fit_waves(grid, y, weight, path, highest)
    alive, width = path.alive, path.hop / grid.rate
    place = (t - grid.start) / width
    left = np.minimum(place.astype(np.int64), len(alive) - 2)
    signal = np.zeros_like(t)
    for k, share in ((left, left + 1 - place), (left + 1, place - left)):
        tau = (place - k) * width
        turn = np.exp(2j * np.pi * tau * (fitted.frequency[k] + 0.5 * fitted.rate[k] * tau))
        power = share.astype(complex)
        for h in range(path.harmonics):
            power *= turn
            signal += (wave[k, h] * power).real
    # A window takes a frequency that bends for ½ width² f″ more than it is.
    bend = np.zeros(len(alive))
    bend[1:-1] = 0.25 * width * (fitted.rate[2:] - fitted.rate[:-2]) * (alive[2:] & alive[1:-1] & alive[:-2])
    frequency = fitted.frequency - np.clip(bend, -0.3 / width, 0.3 / width)
    return Track(fitted._replace(frequency=np.clip(frequency, 0.5 * CYCLES / width, highest)), wave, signal)


def _fit_waves(grid: Grid, y: np.ndarray, weight: np.ndarray, path: Path, highest: float) -> tuple[Path, np.ndarray]:
    """Waves by least squares beside a mean, with one Gauss–Newton step of frequency and rate from the path.

    The step has normal priors as wide as the path may be off.
    """
    hop, shape, count = path.hop, window(path.hop), path.harmonics
    unit, width, order = np.arange(-REACH * hop, REACH * hop + 1) / hop, hop / grid.rate, np.arange(1, count + 1)
    square = frames(grid.square, hop)
    parts = [frames(part, hop) for part in (grid.weight, grid.sums(weight * y), grid.sums(weight * y**2))]
    frequency, rate, gain = path.frequency * width, path.rate * width**2, np.zeros(len(path.gain))
    wave = np.zeros((len(gain), count), complex)
    alive = np.flatnonzero(path.alive)
    chunk = max(1, _SAMPLES // (len(unit) * count))
    for begin in range(0, len(alive), chunk):
        at = alive[begin : begin + chunk]
        weights, products, energy = (part[at] * shape for part in parts)
        total = np.maximum(np.sum(weights, axis=1), 1e-300)
        mean_square, mean = np.sum(energy, axis=1) / total, np.sum(products, axis=1) / total
        basis, solution, explained = _least_squares(unit, frequency[at], rate[at], order, weights, products)
        cosine, sine = (order * solution[:, k : k + count] for k in (1, 1 + count))
        slope = (sine[:, None] @ basis[:, 1 : 1 + count] - cosine[:, None] @ basis[:, 1 + count :])[:, 0]
        turned = np.stack([slope * (2.0 * np.pi * unit), slope * (np.pi * unit**2)], axis=1)
        prior = np.append(np.zeros(1 + 2 * count), np.array(OFF) ** -2.0)
        prior = np.maximum(mean_square - explained, 0.0)[:, None] * prior
        step = _solve(np.concatenate([basis, turned], axis=1), weights, products, prior)
        frequency[at] += step[:, -2]
        rate[at] += step[:, -1]
        basis, solution, explained = _least_squares(unit, frequency[at], rate[at], order, weights, products)
        wave[at] = solution[:, 1 : 1 + count] - 1j * solution[:, 1 + count :]
        variance = mean_square - mean**2
        share = np.where(variance > 0, (explained - mean**2) / np.where(variance > 0, variance, 1.0), 0.0)
        rows = total**2 / np.maximum(square[at] @ shape**2, 1e-300)
        gain[at] = np.maximum(nats(share, rows, width, highest, count), 0.0)
    worth = path.worth + float(np.sum(gain - path.gain))
    path = path._replace(frequency=frequency / width, rate=rate / width**2, gain=gain, worth=worth)
    return path, wave / grid.loss(path.frequency[:, None] * order)


def _least_squares(
    unit: np.ndarray,
    frequency: np.ndarray,
    rate: np.ndarray,
    order: np.ndarray,
    weights: np.ndarray,
    products: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Basis ``[k, 1 + 2h, n]`` (mean, cosines, sines), coefficients, and the mean square ``[k]`` that they explain."""
    theta = 2.0 * np.pi * unit * (frequency[:, None] + 0.5 * rate[:, None] * unit)
    theta = order[:, None] * theta[:, None]
    basis = np.concatenate([np.ones_like(theta[:, :1]), np.cos(theta), np.sin(theta)], axis=1)
    solution = _solve(basis, weights, products, np.zeros((1, 1 + 2 * len(order))))
    explained = np.sum((solution[:, None] @ basis)[:, 0] * products, axis=1)
    return basis, solution, explained / np.maximum(np.sum(weights, axis=1), 1e-300)


def _solve(basis: np.ndarray, weights: np.ndarray, products: np.ndarray, prior: np.ndarray) -> np.ndarray:
    normal = (basis * weights[:, None]) @ basis.transpose(0, 2, 1)
    size = np.maximum(np.sum(weights, axis=1), 1e-300)[:, None]
    index = np.arange(basis.shape[1])
    normal[:, index, index] += prior + 1e-6 * size
    return np.asarray(np.linalg.solve(normal, (basis @ products[..., None])))[..., 0]
