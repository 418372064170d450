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

from .frames import RATES, Cells, Grid, find_cells, frames, window
from .ridges import LENGTH

JUMP = 0.25  # standard deviation of a jump from what the rates predict, in units of width⁻¹
JUMPS = 10  # bins that a path jumps at most
_NOWHERE = -1
_SAMPLES = 2**21  # of frames fitted at once


class Track(NamedTuple):
    """One component at the centres of frames.

    ``frequency`` in cycles per unit, ``amplitude`` of the sinusoid, ``gain`` in nats, whether it is ``alive``, the
    ``signal`` that it explains at the rows, and its ``worth``: the gain of the path, less its jumps and births.
    """

    frequency: np.ndarray  # [k]
    amplitude: np.ndarray  # [k]
    gain: np.ndarray  # [k], zero where nothing significant was found
    alive: np.ndarray  # [k]
    signal: np.ndarray  # [n]
    worth: float


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
    base = 0.0  # totals are kept relative to being nowhere, which makes single precision enough
    totals[0] = gain[0] - birth
    for k in range(1, count):
        padded[inner], moved[inner] = totals[k - 1], drift[k - 1]
        miss = ((leaving + shift) + drift[k]) * scale
        best = np.max(before - miss * miss, axis=0)
        died = max(float(np.max(totals[k - 1])), 0.0)
        base += died
        totals[k] = gain[k] + np.maximum(best - np.float32(died), np.float32(-birth))
    return _backwards(totals, gain, drift, scale, birth, base)


def _backwards(
    totals: np.ndarray, gain: np.ndarray, drift: np.ndarray, scale: float, birth: float, base: float
) -> tuple[np.ndarray, float]:
    """The path that the totals, relative to being nowhere, come from: only its own steps are looked at again."""
    count, size = totals.shape
    path = np.full(count, _NOWHERE)
    last = int(np.argmax(totals[-1]))
    state = last if totals[-1, last] > 0 else _NOWHERE
    worth = base + max(float(totals[-1, last]), 0.0)
    for k in range(count - 1, -1, -1):
        path[k] = state
        if k == 0:
            break
        if state == _NOWHERE:
            top = int(np.argmax(totals[k - 1]))
            state = top if totals[k - 1, top] > 0 else _NOWHERE
            continue
        low, high = max(state - JUMPS, 0), min(state + JUMPS + 1, size)
        miss = (np.arange(low, high) - state + drift[k - 1, low:high] + drift[k, state]) * scale
        value = totals[k - 1, low:high] - miss * miss
        top = int(np.argmax(value))
        died = max(float(np.max(totals[k - 1])), 0.0)
        if value[top] >= died - birth:
            state = low + top
        else:  # born here, from nowhere or from the best of all that ended
            top = int(np.argmax(totals[k - 1]))
            state = top if totals[k - 1, top] > 0 else _NOWHERE
    return path, worth


def find_track(
    grid: Grid, t: np.ndarray, y: np.ndarray, weight: np.ndarray, hop: int, highest: float
) -> Track:
    """The track of largest worth in a record, through windows of width ``hop``.

    Args:
        grid: Of the record.
        t: Times ``[n]``, sorted.
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
    if np.all(path == _NOWHERE):
        nothing = np.zeros(len(path))
        return Track(nothing + cells.frequency[0], nothing, nothing, nothing > 0, np.zeros_like(y), 0.0)
    between = cells.frequency[0] + step * _between(cells.gain, drift, path, JUMP * bins)
    frequency = np.clip(between, 0.5 * cells.frequency[0], cells.frequency[-1])
    return _fitted(grid, t, weight * y, cells, path, frequency, worth)


def _between(gain: np.ndarray, drift: np.ndarray, path: np.ndarray, std: float) -> np.ndarray:
    """The path between the bins, ``[k]``: the parabola through each of its cells, and the jumps as they are priced.

    A quadratic form, whose minimum solves a tridiagonal system. Where there is no track, it lies between its ends.
    """
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


def _fitted(
    grid: Grid, t: np.ndarray, product: np.ndarray, cells: Cells, path: np.ndarray, frequency: np.ndarray, worth: float
) -> Track:
    """The waves of a path: amplitude and phase fitted in each frame, and blended between centres."""
    alive = path != _NOWHERE
    at = np.flatnonzero(alive)
    hop, state = cells.hop, path[at]
    rate, wave = np.zeros(len(path)), np.zeros(len(path), complex)
    rate[at] = np.array(RATES)[cells.rate[at, state]] * (grid.rate / hop) ** 2
    wave[at] = _waves(grid, product, hop, at, frequency[at], rate[at]) / grid.loss(frequency[at])
    place = (t - grid.start) * (grid.rate / hop)
    left = np.minimum(place.astype(np.int64), len(path) - 2)
    signal = np.zeros_like(t)
    for k, share in ((left, left + 1 - place), (left + 1, place - left)):
        tau = (place - k) * (hop / grid.rate)
        theta = 2.0 * np.pi * tau * (frequency[k] + 0.5 * rate[k] * tau)
        signal += share * (wave[k] * np.exp(1j * theta)).real
    gain = np.zeros(len(path))
    gain[at] = np.maximum(cells.gain[at, state], 0.0)
    return Track(frequency, np.abs(wave), gain, alive, signal, worth)


def _waves(
    grid: Grid, product: np.ndarray, hop: int, at: np.ndarray, frequency: np.ndarray, rate: np.ndarray
) -> np.ndarray:
    """Complex amplitudes A − iB of A cos θ + B sin θ beside a mean, by least squares in frames ``at``."""
    shape, tau = window(hop), np.arange(len(window(hop))) / grid.rate
    tau = tau - tau[len(tau) // 2]
    weights, products = frames(grid.weight, hop), frames(grid.sums(product), hop)
    wave = np.zeros(len(at), complex)
    chunk = max(1, _SAMPLES // len(tau))
    for begin in range(0, len(at), chunk):
        some = slice(begin, begin + chunk)
        theta = 2.0 * np.pi * tau * (frequency[some, None] + 0.5 * rate[some, None] * tau)
        basis = np.stack([np.ones_like(theta), np.cos(theta), np.sin(theta)])
        normal = np.einsum("akn,kn,bkn->kab", basis, weights[at[some]] * shape, basis, optimize=True)
        normal += (1e-6 * normal[:, :1, :1] + 1e-300) * np.eye(3)
        right = np.einsum("akn,kn->ka", basis, products[at[some]] * shape)
        solution = np.linalg.solve(normal, right[..., None])[..., 0]
        wave[some] = solution[:, 1] - 1j * solution[:, 2]
    return wave
