"""Windowed Lomb–Scargle periodograms of a whole record in one dimension, by fast Fourier transforms. NumPy, no model.

The rows are put on an even grid: each is shared between the two cells next to it (cloud in cell), and a cell holds
sums of weights, of outputs and of their squares. An uneven record so becomes an even one with weights, some of them
zero; its transform is that of the rows times sinc²(f / rate), but for images near the grid's rate. In *frames*,
Gaussian windows of ±3 widths around centres one width apart, the fit is that of ``ridges``: a floating mean and a wave
that may chirp. Channels of one record share the wave's frequency and rate, and have amplitudes, phases and noise of
their own: what they gain in log likelihood adds up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import fft, next_fast_len
from scipy.ndimage import uniform_filter1d
from scipy.special import gammainccinv

from .ridges import CYCLES, FALSE_ALARM, LENGTH

RATES = (0.0, 0.2, -0.2, 0.4, -0.4, 0.6, -0.6)  # of chirps, in units of width⁻²
OVERSAMPLING = 4.0  # of the grid of an uneven record: its rate, in units of the highest frequency
EVEN = 0.02  # of a spacing, that the times of an even record are off at most
BIN = 0.12  # distance of frequencies, in units of width⁻¹
REACH = 3  # of a frame to each side, in widths
ROWS = 8.0  # that a frame holds at least, else nothing is seen in it
SHARE = 0.99  # of the variance in a frame that counts: few rows fit anything, and the grid is not exact
HARMONIC = 2.5  # nats that a further harmonic costs
TREND = 1.5  # width of the smooth trend that windows of width 1 do not see
_CELLS = 2**20  # of transforms made at once


class Grid(NamedTuple):
    """An even grid of cells from time ``start``, ``rate`` cells a unit, and where the rows are in it."""

    start: float
    rate: float
    even: bool  # whether each row is in one cell
    cell: np.ndarray  # [n], of each row
    share: np.ndarray  # [n], of the next cell in each row
    weight: np.ndarray  # [g], sums of the weights
    square: np.ndarray  # [g], sums of their squares

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums ``[g]`` over cells of values ``[n]`` of the rows."""
        return _sums(values, self.cell, self.share, len(self.weight), self.even)

    def without_trend(self, y: np.ndarray, weight: np.ndarray, hop: int) -> np.ndarray:
        """Outputs ``[n]`` without what is slower than windows of width ``hop`` see: less a mean over wider windows."""
        size = 2 * round(TREND * hop) + 1  # three boxes of this length are near a Gaussian of half of it
        smooth = [self.weight, self.sums(weight * y)]
        for _ in range(3):
            smooth = [uniform_filter1d(part, size, mode="constant") for part in smooth]
        trend = smooth[1] / np.maximum(smooth[0], 1e-12)
        return np.asarray(y - trend[self.cell])

    def loss(self, frequency: np.ndarray) -> np.ndarray:
        """What is left of a wave on the grid: sinc²(f / rate)."""
        return np.ones_like(frequency) if self.even else np.sinc(frequency / self.rate) ** 2


class Channel(NamedTuple):
    """Outputs ``y [n]`` (centred) of one channel, ``weight [n]`` of its rows (0 where it has none), and its grid.

    The grids of all channels of a record have the same cells.
    """

    grid: Grid
    y: np.ndarray
    weight: np.ndarray


class Cells(NamedTuple):
    """What frames say of frequencies: the ``share [r, k, f]`` of the variance that a wave explains, for chirp rates.

    The rates are those of RATES, or only the best of them, whose index there is ``rate [k, f]``; ``rows [k]`` is their
    effective number in a frame. Both are what ``together`` makes of those of several ``channels``.
    """

    width: float
    step: float  # distance of frequencies, which are multiples of it
    first: int  # multiple of the step that the lowest frequency is
    share: np.ndarray
    rate: np.ndarray
    rows: np.ndarray
    channels: int

    @property
    def frequency(self) -> np.ndarray:
        """``[f]``, in cycles per unit."""
        return self.step * (self.first + np.arange(self.share.shape[-1]))


def even_grid(t: np.ndarray, weight: np.ndarray, highest: float) -> Grid:
    """The grid of a record with times ``t`` (sorted) and weights, looked at up to the frequency ``highest``.

    It has the rate of the record if that is even, with or without gaps, and not far above the highest frequency.
    """
    start, span = float(t[0]), float(t[-1] - t[0])
    steps = np.diff(t)
    cells = round(span / float(np.median(steps[steps > 0])))
    place = (t - start) * (cells / span)
    even = (
        cells <= 2 * len(t)
        and cells / span <= 2.0 * OVERSAMPLING * highest
        and bool(np.max(np.abs(place - np.rint(place))) < EVEN)
    )
    if even:
        cell, share = np.rint(place).astype(np.int64), np.zeros(0)
    else:
        cells = int(np.ceil(OVERSAMPLING * highest * span))
        place = (t - start) * (cells / span)
        cell = np.minimum(place.astype(np.int64), cells - 1)
        share = place - cell
    sums = [_sums(values, cell, share, cells + 1, even) for values in (weight, weight**2)]
    return Grid(start, cells / span, even, cell, share, *sums)


def _sums(values: np.ndarray, cell: np.ndarray, share: np.ndarray, count: int, even: bool) -> np.ndarray:
    if even:
        return np.bincount(cell, values, count)
    upper = values * share
    return np.bincount(cell, values - upper, count) + np.bincount(cell + 1, upper, count)


def frames(values: np.ndarray, hop: int) -> np.ndarray:
    """Frames ``[k, 2 · REACH · hop + 1]`` of values ``[g]`` on a grid, around every ``hop``-th cell; a view."""
    count = -(-(len(values) - 1) // hop) + 1
    padded = np.pad(values, (REACH * hop, (count - 1) * hop + 1 - len(values) + REACH * hop))
    return sliding_window_view(padded, 2 * REACH * hop + 1)[::hop]


def window(hop: int) -> np.ndarray:
    """The Gaussian window of a frame, of width ``hop``."""
    return np.exp(-0.5 * (np.arange(-REACH * hop, REACH * hop + 1) / hop) ** 2)


def find_cells(channels: Sequence[Channel], hop: int, highest: float, *, best: bool = True) -> Cells:
    """What every frequency explains in every frame of a record.

    Args:
        channels: Of the record.
        hop: Width of the windows, in cells of the grid.
        highest: Where frequencies end, in cycles per unit.
        best: Whether only the best chirp rate of each cell is kept.
    """
    size, grid = next_fast_len(int(np.ceil(hop / BIN))), channels[0].grid
    step = grid.rate / size
    bins = np.arange(int(np.ceil(CYCLES * size / hop)), min(int(highest / step) + 1, (size + 1) // 2))
    every = [
        [frames(part, hop) for part in (own.weight, own.square, own.sums(weight * y), own.sums(weight * y**2))]
        for own, y, weight in channels
    ]
    shape = len(every[0][0]), len(bins)
    share = np.zeros((1 if best else len(RATES), *shape), np.float32)
    rate, count = np.zeros(shape, np.int8), np.empty(shape[0])
    loss = tuple((1.0 / grid.loss(k * step * bins)).astype(np.float32) for k in (1.0, 2.0))
    chunk = max(1, _CELLS // size)
    for begin in range(0, shape[0], chunk):
        rows = slice(begin, begin + chunk)
        some = [_Frames(hop, *(part[rows] for part in parts)) for parts in every]
        counts = [part.count for part in some]
        for k, powers in enumerate(zip(*(_powers(part, size, bins, loss) for part in some), strict=True)):
            power, count[rows] = together(powers, counts)
            if best:
                better = power > share[0, rows]
                np.copyto(share[0, rows], power, where=better)
                np.copyto(rate[rows], np.int8(k), where=better)
            else:
                share[k, rows] = power
    return Cells(hop / grid.rate, step, int(bins[0]), share, rate, count, len(channels))


def together(shares: Sequence[np.ndarray], counts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """One share ``[k, ...]`` and number of rows ``[k]`` that gain, as ``nats`` has it, what those of channels do.

    Args:
        shares: Of the variance that a wave explains in each channel, ``[k, ...]``.
        counts: Rows ``[k]`` of the frames.
    """
    if len(shares) == 1:
        return shares[0], counts[0]
    free = [np.maximum(count - 3.0, 0.0) for count in counts]
    total = np.maximum(np.sum(free, axis=0), 1e-9)
    logarithm = np.zeros(np.shape(shares[0]), shares[0].dtype)
    for share, rows in zip(shares, free, strict=True):
        part = (rows / total).reshape(-1, *(1,) * (logarithm.ndim - 1)).astype(logarithm.dtype)
        logarithm += part * np.log1p(-SHARE * np.clip(share, 0.0, 1.0))
    return -np.expm1(logarithm) / SHARE, 3.0 + total


def price(width: float, highest: float, harmonics: int = 1, channels: int = 1) -> float:
    """Nats that the best of all frequencies and rates gains by chance in a window, with the probability FALSE_ALARM.

    Noise gains at one frequency a sum of exponentially distributed numbers, one for each channel. A further harmonic
    gains two halves of a nat by chance, and more at the best of all chirp rates.
    """
    tried = max(highest * LENGTH * width, 1.0) * len(RATES)
    return float(gammainccinv(channels, FALSE_ALARM / tried)) + HARMONIC * channels * (harmonics - 1)


def nats(
    share: np.ndarray, count: np.ndarray, width: float, highest: float, harmonics: int = 1, channels: int = 1
) -> np.ndarray:
    """The gain of a wave that explains a share of the variance in a frame of so many rows.

    It is that of ``ridges``: the log likelihood that it gains, less its price, and as a share, since neighbouring
    frames share their rows. Frames without rows gain nothing.
    """
    further = channels * (harmonics - 1.0)
    explained = -0.5 * (count - 3.0 - 2.0 * further) * np.log1p(-SHARE * np.clip(share, 0.0, 1.0))
    cost = price(width, highest, harmonics, channels)
    return np.where(count > ROWS + 4.0 * further, (explained - cost) / LENGTH, 0.0)


class _Frames:
    """Some frames, their rows weighted by the window: weights that sum to one, and centred outputs of variance one."""

    def __init__(
        self, hop: int, weight: np.ndarray, square: np.ndarray, product: np.ndarray, energy: np.ndarray
    ) -> None:
        shape = window(hop)
        weight, product = weight * shape, product * shape
        total = np.maximum(np.sum(weight, axis=1), 1e-300)
        mean = np.sum(product, axis=1) / total
        variance = energy @ shape - total * mean**2
        inverse = np.where(variance > 0, 1.0 / np.sqrt(np.where(variance > 0, total * variance, 1.0)), 0.0)
        self.hop = hop
        self.count = total**2 / np.maximum(square @ shape**2, 1e-300)
        self.product = ((product - mean[:, None] * weight) * inverse[:, None]).astype(np.float32)
        if np.ptp(weight, axis=0).max() <= 1e-12 * weight.max():  # even without gaps: one frame serves all
            weight, total = weight[:1], total[:1]
        self.weight = (weight / total[:, None]).astype(np.float32)


def _powers(some: _Frames, size: int, bins: np.ndarray, loss: tuple[np.ndarray, ...]) -> Iterator[np.ndarray]:
    """The power ``[k, f]`` at each chirp rate.

    A wave of rate −r at f is the complex conjugate of one of rate r at −f: one transform serves both.
    """
    tau = np.arange(-REACH * some.hop, REACH * some.hop + 1) / some.hop
    low, high = int(bins[0]), int(bins[-1])
    up, down = slice(low, high + 1), slice(size - low, size - high - 1, -1)
    up_twice, down_twice = slice(2 * low, 2 * high + 1, 2), slice(size - 2 * low, size - 2 * high - 1, -2)
    for rate in RATES:
        if rate >= 0:  # the next one, −rate, has the same transforms
            chirp = np.exp(-1j * np.pi * rate * tau**2).astype(np.complex64)
            products = _transform(some.product, chirp, size)
            waves, twices = (_transform(some.weight, part, size) for part in (chirp, chirp**2))
        one, two = (down, down_twice) if rate < 0 else (up, up_twice)
        power = _explained(products[:, one] * loss[0], waves[:, one] * loss[0], twices[:, two] * loss[1])
        power[:, 1.5 * abs(rate) * size > some.hop * bins] = 0.0  # a frequency that the chirp turns around is not seen
        yield power


def _transform(values: np.ndarray, chirp: np.ndarray, size: int) -> np.ndarray:
    padded = np.zeros((len(values), size), np.complex64)
    np.multiply(values, chirp, out=padded[:, : len(chirp)])
    return np.asarray(fft(padded, overwrite_x=True))


def _explained(product: np.ndarray, wave: np.ndarray, twice: np.ndarray) -> np.ndarray:
    """The share of the variance that a wave explains beside a mean: ``ridges.power`` for weights that sum to one.

    With the outputs centred and their variance one, sums p of window · y · e^iθ, w of window · e^iθ and T of
    window · e^2iθ, and D = T − w²: 2 ((1 − |w|²) |p|² − Re(D̄ p²)) / ((1 − |w|²)² − |D|²).
    """
    apart = twice - wave**2
    alone = 1.0 - _square(wave)
    determinant = alone**2 - _square(apart)
    squared = product**2
    explained = alone * _square(product) - (apart.real * squared.real + apart.imag * squared.imag)
    return np.where(determinant > 4e-4, 2.0 * explained / np.maximum(determinant, np.float32(4e-4)), np.float32(0.0))


def _square(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.real**2 + values.imag**2)
