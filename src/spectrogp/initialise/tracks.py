"""Tracks: components of a long record that begin and end, linked through all its frames by dynamic programming.

A path is at each centre at one of the frequencies of ``frames``, or nowhere. It collects the gains of its cells, less
½ (jump / std)² for jumps of frequency from what the chirp rates at both ends predict, less the price of a birth. Where
there is nothing, being nowhere costs nothing; in a gap, nor does going on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import solveh_banded

from .frames import RATES, REACH, Channel, find_cells, frames, nats, together, window
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
    """A path, its waves, and the ``signal [c, n]`` that they explain at the rows of every channel.

    The real part of ``wave [k, h, c]`` times e^ihθ is the h-th harmonic near a centre.
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


def find_path(channels: Sequence[Channel], hop: int, highest: float) -> Path:
    """The path of largest worth in a record, through windows of width ``hop``.

    Args:
        channels: Of the record.
        hop: Width of the windows, in cells of the grid.
        highest: Where the search ends, in cycles per unit.
    """
    cells = find_cells(channels, hop, highest)
    gain = nats(cells.share[0], cells.rows[:, None], cells.width, highest, channels=cells.channels)
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


def fit_path(channels: Sequence[Channel], t: np.ndarray, path: Path, highest: float) -> Track:
    """The waves of a path: fitted in each frame, between bins and rates, and blended between centres."""
    fitted, wave = _fit_waves(channels, path, highest)
    grid = channels[0].grid
    alive, width = path.alive, path.hop / grid.rate
    place = (t - grid.start) / width
    left = np.minimum(place.astype(np.int64), len(alive) - 2)
    signal = np.zeros((len(channels), len(t)))
    for k, share in ((left, left + 1 - place), (left + 1, place - left)):
        tau = (place - k) * width
        turn = np.exp(2j * np.pi * tau * (fitted.frequency[k] + 0.5 * fitted.rate[k] * tau))
        power = share.astype(complex)
        for h in range(path.harmonics):
            power *= turn
            signal += (wave[k, h].T * power).real
    # A window takes a frequency that bends for ½ width² f″ more than it is.
    bend = np.zeros(len(alive))
    bend[1:-1] = 0.25 * width * (fitted.rate[2:] - fitted.rate[:-2]) * (alive[2:] & alive[1:-1] & alive[:-2])
    frequency = fitted.frequency - np.clip(bend, -0.3 / width, 0.3 / width)
    return Track(fitted._replace(frequency=np.clip(frequency, 0.5 * CYCLES / width, highest)), wave, signal)


def _fit_waves(channels: Sequence[Channel], path: Path, highest: float) -> tuple[Path, np.ndarray]:
    """Waves by least squares beside a mean, with one Gauss–Newton step of frequency and rate from the path.

    The step is that of all channels together, and has normal priors as wide as the path may be off.
    """
    grid, hop, count = channels[0].grid, path.hop, path.harmonics
    unit, width, order = np.arange(-REACH * hop, REACH * hop + 1) / hop, hop / grid.rate, np.arange(1, count + 1)
    every = [
        [frames(part, hop) for part in (own.weight, own.square, own.sums(weight * y), own.sums(weight * y**2))]
        for own, y, weight in channels
    ]
    frequency, rate, gain = path.frequency * width, path.rate * width**2, np.zeros(len(path.gain))
    wave = np.zeros((len(gain), count, len(channels)), complex)
    alive = np.flatnonzero(path.alive)
    chunk = max(1, _SAMPLES // (len(unit) * count))
    for begin in range(0, len(alive), chunk):
        at = alive[begin : begin + chunk]
        some = [_Stretch.of(hop, *(part[at] for part in parts)) for parts in every]
        information = np.broadcast_to(np.diag(np.array(OFF) ** -2.0), (len(at), 2, 2)).copy()
        score = np.zeros((len(at), 2))
        for part in some:
            known, slope = part.turned(unit, frequency[at], rate[at], order)
            information += known
            score += slope
        step = np.linalg.solve(information, score[..., None])[..., 0]
        frequency[at] += step[:, 0]
        rate[at] += step[:, 1]
        shares = []
        for c, part in enumerate(some):
            _, solution, explained = _least_squares(unit, frequency[at], rate[at], order, part.weights, part.products)
            wave[at, :, c] = solution[:, 1 : 1 + count] - 1j * solution[:, 1 + count :]
            shares.append(part.share(explained))
        share, rows = together(shares, [part.rows for part in some])
        gain[at] = np.maximum(nats(share, rows, width, highest, count, len(channels)), 0.0)
    worth = path.worth + float(np.sum(gain - path.gain))
    path = path._replace(frequency=frequency / width, rate=rate / width**2, gain=gain, worth=worth)
    return path, wave / grid.loss(path.frequency[:, None] * order)[..., None]


class _Stretch(NamedTuple):
    """Some frames of one channel, weighted by the window: weights and their products with outputs ``[k, n]``.

    Mean squares and means of the outputs ``[k]``, and the effective number of rows ``[k]``.
    """

    weights: np.ndarray
    products: np.ndarray
    mean_square: np.ndarray
    mean: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, hop: int, weight: np.ndarray, square: np.ndarray, product: np.ndarray, energy: np.ndarray) -> _Stretch:
        shape = window(hop)
        weights, products = weight * shape, product * shape
        total = np.maximum(np.sum(weights, axis=1), 1e-300)
        rows = total**2 / np.maximum(square @ shape**2, 1e-300)
        return cls(weights, products, energy @ shape / total, np.sum(products, axis=1) / total, rows)

    def share(self, explained: np.ndarray) -> np.ndarray:
        """Of the variance, from the mean square that is explained."""
        variance = self.mean_square - self.mean**2
        return np.where(variance > 0, (explained - self.mean**2) / np.where(variance > 0, variance, 1.0), 0.0)

    def turned(
        self, unit: np.ndarray, frequency: np.ndarray, rate: np.ndarray, order: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the frames know of a change of frequency and rate: precision ``[k, 2, 2]``, and that times its mean.

        Amplitudes and the mean of each channel are eliminated.
        """
        count = len(order)
        basis, solution, explained = _least_squares(unit, frequency, rate, order, self.weights, self.products)
        cosine, sine = (order * solution[:, k : k + count] for k in (1, 1 + count))
        slope = (sine[:, None] @ basis[:, 1 : 1 + count] - cosine[:, None] @ basis[:, 1 + count :])[:, 0]
        moves = np.stack([slope * (2.0 * np.pi * unit), slope * (np.pi * unit**2)], axis=1)
        design = np.concatenate([basis, moves], axis=1)
        normal, right = _normal(design, self.weights), (design @ self.products[..., None])[..., 0]
        n = basis.shape[1]
        solved = np.linalg.solve(normal[:, :n, :n], np.concatenate([normal[:, :n, n:], right[:, :n, None]], axis=2))
        across = normal[:, n:, :n]
        noise = np.maximum(self.mean_square - explained, 1e-12 * self.mean_square + 1e-300)[:, None]
        information = (normal[:, n:, n:] - across @ solved[..., :2]) / noise[..., None]
        return information, (right[:, n:] - (across @ solved[..., 2:])[..., 0]) / noise


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
    solution = np.linalg.solve(_normal(basis, weights), basis @ products[..., None])[..., 0]
    explained = np.sum((solution[:, None] @ basis)[:, 0] * products, axis=1)
    return basis, solution, explained / np.maximum(np.sum(weights, axis=1), 1e-300)


def _normal(basis: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Matrices ``[k, b, b]`` of the normal equations."""
    normal = (basis * weights[:, None]) @ basis.transpose(0, 2, 1)
    size = np.maximum(np.sum(weights, axis=1), 1e-300)[:, None]
    index = np.arange(basis.shape[1])
    normal[:, index, index] += 1e-6 * size
    return np.asarray(normal)
