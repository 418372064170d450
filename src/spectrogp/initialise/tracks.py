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

from .frames import RATES, REACH, Grid, find_cells, frames, window
from .ridges import LENGTH

JUMP = 0.25  # standard deviation of a jump from what the rates predict, in units of width⁻¹
JUMPS = 10  # bins that a path jumps at most
_NOWHERE = -1
OFF = 0.05, 0.1  # standard deviations of a path's frequency and rate, in units of width⁻¹ and width⁻²
_SAMPLES = 2**19  # of frames fitted at once


class Path(NamedTuple):
    """Where a component is at the centres of frames, ``hop`` cells of the grid apart, all ``[k]``.

    ``frequency`` in cycles per unit, chirp ``rate`` in cycles per unit², ``gain`` in nats, whether it is ``alive``; and
    its ``worth``, all gains less jumps and births.
    """

    hop: int
    frequency: np.ndarray
    rate: np.ndarray
    gain: np.ndarray  # zero where nothing significant was found
    alive: np.ndarray
    worth: float


class Track(NamedTuple):
    """A path, the ``amplitude [k]`` of the sinusoid along it, and the ``signal [n]`` that it explains at the rows."""

    path: Path
    amplitude: np.ndarray
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
    path = np.full(count, _NOWHERE)
    last = int(np.argmax(totals[-1]))
    state = last if totals[-1, last] > 0 else _NOWHERE
    worth = float(np.sum(ended)) + max(float(totals[-1, last]), 0.0)
    for k in range(count - 1, 0, -1):
        path[k] = state
        if state != _NOWHERE:
            low, high = max(state - JUMPS, 0), min(state + JUMPS + 1, size)
            miss = (np.arange(low, high) - state + drift[k - 1, low:high] + drift[k, state]) * scale
            value = totals[k - 1, low:high] - miss * miss
            top = int(value.argmax())
            if value[top] >= ended[k] - birth:
                state = low + top
                continue
        # Before it was nowhere, or another path ended.
        state = int(totals[k - 1].argmax()) if ended[k] > 0 else _NOWHERE
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
    step = cells.frequency[1] - cells.frequency[0]
    bins = grid.rate / (hop * step)  # in width⁻¹
    drift = (0.5 * bins * np.array(RATES)).astype(np.float32)[cells.rate]
    # A window finds something by chance with the probability FALSE_ALARM; all the windows of the record are tried.
    birth = np.log(max(len(cells.gain) / LENGTH, 1.0))
    path, worth = best_track(cells.gain, drift, JUMP * bins, birth)
    alive = path != _NOWHERE
    rows, state = np.arange(len(path)), np.maximum(path, 0)
    gain = np.where(alive, np.maximum(cells.gain[rows, state], 0.0), 0.0)
    rate = np.where(alive, np.array(RATES)[cells.rate[rows, state]], 0.0) * (grid.rate / hop) ** 2
    frequency = cells.frequency[0] + step * _between(cells.gain, drift, path, JUMP * bins)
    return Path(hop, np.clip(frequency, 0.5 * cells.frequency[0], cells.frequency[-1]), rate, gain, alive, worth)


def _between(gain: np.ndarray, drift: np.ndarray, path: np.ndarray, std: float) -> np.ndarray:
    """The path between the bins, ``[k]``: the parabola through each of its cells, and the jumps as they are priced.

    A quadratic form, whose minimum solves a tridiagonal system. Where there is no path, it lies between its ends.
    """
    if np.all(path == _NOWHERE):
        return np.zeros(len(path))
    count, last = len(path), gain.shape[1] - 1
    rows, state = np.arange(count), np.clip(path, 1, last - 1)
    low, middle, high = (gain[rows, state + k] for k in (-1, 0, 1))
    bend = np.where((path == _NOWHERE) | (path == 0) | (path == last), 0.0, np.maximum(2.0 * middle - low - high, 0.0))
    top = np.where(bend > 0, np.clip(0.5 * (high - low) / np.where(bend > 0, bend, 1.0), -0.5, 0.5), 0.0)
    bend = np.where(path == _NOWHERE, 0.0, np.maximum(bend, 1e-3))
    bend[[0, -1]] *= 0.1  # a frame with one side only cannot tell a frequency from its change
    drift = np.where(path == _NOWHERE, 0.0, drift[rows, state])
    moves = drift[1:] + drift[:-1]
    whole = (path[1:] != _NOWHERE) & (path[:-1] != _NOWHERE) & (np.abs(np.diff(path)) <= JUMPS)
    link = np.where(whole, std**-2, 1e-6)
    moves = np.where(whole, moves, 0.0)
    diagonal = bend.copy()
    diagonal[1:] += link
    diagonal[:-1] += link
    right = bend * (path + top)
    right[1:] += link * moves
    right[:-1] -= link * moves
    return np.asarray(solveh_banded(np.stack([np.append(0.0, -link), diagonal]), right))


def fit_path(grid: Grid, t: np.ndarray, y: np.ndarray, weight: np.ndarray, path: Path) -> Track:
    """The waves of a path: amplitude and phase fitted in each frame, and blended between centres."""
    wave, frequency, rate = np.zeros(len(path.gain), complex), path.frequency.copy(), path.rate.copy()
    at = np.flatnonzero(path.alive)
    frequency[at], rate[at], wave[at] = _waves(grid, y, weight, path, at)
    place = (t - grid.start) * (grid.rate / path.hop)
    left = np.minimum(place.astype(np.int64), len(wave) - 2)
    signal = np.zeros_like(t)
    for k, share in ((left, left + 1 - place), (left + 1, place - left)):
        tau = (place - k) * (path.hop / grid.rate)
        theta = 2.0 * np.pi * tau * (frequency[k] + 0.5 * rate[k] * tau)
        signal += share * (wave[k] * np.exp(1j * theta)).real
    return Track(path, np.abs(wave), signal)


def _waves(
    grid: Grid, y: np.ndarray, weight: np.ndarray, path: Path, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frequency, rate and complex amplitude A − iB of A cos θ + B sin θ beside a mean, in frames ``at``.

    The amplitudes are those of least squares; frequency and rate make one Gauss–Newton step from the path, with normal
    priors as wide as the path may be off.
    """
    hop, shape = path.hop, window(path.hop)
    unit, width = np.arange(-REACH * hop, REACH * hop + 1) / hop, hop / grid.rate
    parts = [frames(part, hop) for part in (grid.weight, grid.sums(weight * y), grid.sums(weight * y**2))]
    frequency, rate, wave = path.frequency[at] * width, path.rate[at] * width**2, np.zeros(len(at), complex)
    chunk = max(1, _SAMPLES // len(unit))
    for begin in range(0, len(at), chunk):
        some = slice(begin, begin + chunk)
        weights, products, energy = (part[at[some]] * shape for part in parts)
        basis, solution, rest = _least_squares(unit, frequency[some], rate[some], weights, products, energy)
        slope = solution[:, 2, None] * basis[:, 1] - solution[:, 1, None] * basis[:, 2]
        basis = np.concatenate([basis, (slope * (2.0 * np.pi * unit))[:, None], (slope * (np.pi * unit**2))[:, None]], 1)
        prior = rest[:, None] * np.array([0.0, 0.0, 0.0, *(std**-2 for std in OFF)])
        step = _solve(basis, weights, products, prior)
        frequency[some] += step[:, 3]
        rate[some] += step[:, 4]
        solution = _least_squares(unit, frequency[some], rate[some], weights, products, energy)[1]
        wave[some] = solution[:, 1] - 1j * solution[:, 2]
    frequency = frequency / width
    return frequency, rate / width**2, wave / grid.loss(frequency)


def _least_squares(
    unit: np.ndarray,
    frequency: np.ndarray,
    rate: np.ndarray,
    weights: np.ndarray,
    products: np.ndarray,
    energy: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Basis ``[k, 3, n]`` (mean, cosine, sine), their coefficients ``[k, 3]`` and the variance left over ``[k]``."""
    theta = 2.0 * np.pi * unit * (frequency[:, None] + 0.5 * rate[:, None] * unit)
    basis = np.stack([np.ones_like(theta), np.cos(theta), np.sin(theta)], axis=1)
    solution = _solve(basis, weights, products, np.zeros((1, 3)))
    explained = np.einsum("ka,kan,kn->k", solution, basis, products, optimize=True)
    total = np.maximum(np.sum(weights, axis=1), 1e-300)
    return basis, solution, np.maximum(np.sum(energy, axis=1) - explained, 0.0) / total


def _solve(basis: np.ndarray, weights: np.ndarray, products: np.ndarray, prior: np.ndarray) -> np.ndarray:
    normal = (basis * weights[:, None]) @ basis.transpose(0, 2, 1)
    size = np.maximum(np.sum(weights, axis=1), 1e-300)[:, None]
    index = np.arange(basis.shape[1])
    normal[:, index, index] += prior + 1e-6 * size
    return np.asarray(np.linalg.solve(normal, (basis @ products[..., None])))[..., 0]
