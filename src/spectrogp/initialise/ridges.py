"""Ridges of a signal in one dimension: frequencies that change with time, found from data alone. NumPy, no model.

In a Gaussian window around a centre c the data are fitted, by weighted least squares with a floating mean, by

    b + A cos(2π(f τ + ½ r τ²)) + B sin(2π(f τ + ½ r τ²)),    τ = t − c

a Lomb–Scargle periodogram (Lomb 1976, Scargle 1982, Zechmeister & Kürster 2009) of short stretches that may chirp at a
rate r. Sampling may be irregular, with gaps. The *gain* of a cell (c, f) is that in log likelihood,
−½ (n − 3) log(1 − power) with n the effective number of data in the window, less what the best of all frequencies gains
by chance; a ridge is the path of largest gain, under a quadratic penalty on jumps of log frequency (dynamic
programming). Wide windows see more, narrow ones follow changes: each cell takes the width with the
largest gain per length. Several channels have frequency and rate in common, and amplitudes, phases and noise of their
own: what they gain in log likelihood adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainccinv

WIDTHS = (0.4, 0.2, 0.1, 0.05, 0.025)  # of windows, as shares of the span
RATES = (-0.6, -0.3, 0.0, 0.3, 0.6)  # of chirps, in units of width⁻²
FALSE_ALARM = 0.01
JUMP = 0.1  # standard deviation of the change of log frequency from one centre to the next, of CENTRES
CENTRES = 60
CYCLES = 0.3  # a window is at least this wide, unless it is the widest: else it fits anything
FREQUENCIES = 800  # at most
SIGNIFICANT = 5.0  # gain of a ridge, in nats
SHARE = 0.3  # of what was left, that a further ridge explains
SWEEPS = 2  # over all ridges after a new one is found
_KEPT = 2**23  # complex numbers that are kept of the windows of a search
LENGTH = 2.0 * np.sqrt(np.pi)  # a Gaussian window of width 1 counts as many data as a plain one of this length


class Ridge(NamedTuple):
    """One component at the centres.

    ``frequency`` in cycles per unit, ``amplitude`` of the sinusoid in every channel, ``width`` of the window, ``gain``
    in nats, the ``signal`` that it explains at the data; chirp ``rate`` and ``wave``, by which it is known elsewhere.
    """

    frequency: np.ndarray  # [c]
    amplitude: np.ndarray  # [c, channels]
    width: np.ndarray  # [c]
    gain: np.ndarray  # [c], zero where nothing significant was found
    signal: np.ndarray  # [channels, n], what it explains at the data
    rate: np.ndarray  # [c]
    wave: np.ndarray  # [c, channels], complex

    def at(self, t: np.ndarray, centres: np.ndarray) -> np.ndarray:
        """What it explains at any times, ``[channels, m]``: each takes the fits of the centres next to it."""
        spacing, total = centres[1] - centres[0], np.zeros(len(t))
        signal = np.zeros((self.wave.shape[1], len(t)))
        for k, centre in enumerate(centres):
            tau = t - centre
            blend = np.exp(-0.5 * (tau / spacing) ** 2)
            total += blend
            if self.gain[k] > 0:
                theta = 2.0 * np.pi * (self.frequency[k] * tau + 0.5 * self.rate[k] * tau**2)
                signal += blend * (self.wave[k][:, None] * np.exp(1j * theta)).real
        return signal / total

    def overtones(
        self, t: np.ndarray, y: np.ndarray, weight: np.ndarray, centres: np.ndarray, count: int, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """What it explains of one channel ``y [n]`` with ``count`` harmonics, at times ``at [m]``, and their waves.

        Frequency and rate of the h-th are h times those of the first. Waves ``[k, h]`` are those of the centres where
        it is seen.
        """
        numbers, total, signal = np.arange(1, count + 1), np.zeros(len(at)), np.zeros(len(at))
        spacing, waves = centres[1] - centres[0], []

        def basis(tau: np.ndarray, k: int) -> np.ndarray:
            return np.exp(2j * np.pi * np.outer(self.frequency[k] * tau + 0.5 * self.rate[k] * tau**2, numbers))

        for k, centre in enumerate(centres):
            blend = np.exp(-0.5 * ((at - centre) / spacing) ** 2)
            total += blend
            if self.gain[k] > 0:
                tau = t - centre
                root = np.sqrt(weight * np.exp(-0.5 * (tau / self.width[k]) ** 2))[:, None]
                turning = basis(tau, k)
                design = np.column_stack([np.ones_like(t), turning.real, turning.imag])
                solution = np.linalg.lstsq(root * design, root[:, 0] * y, rcond=1e-6)[0]
                waves.append(solution[1 : count + 1] - 1j * solution[count + 1 :])
                signal += blend * (basis(at - centre, k) @ waves[-1]).real
        return signal / total, np.array(waves).reshape(-1, count)

    def windows(self, centres: np.ndarray) -> float:
        """How many windows, one after the other, it is seen in."""
        return float(np.sum(((centres[1] - centres[0]) / (LENGTH * self.width))[self.gain > 0]))

    def price(self, centres: np.ndarray, highest: float) -> float:
        """Nats that such a ridge gains by chance where it is seen, with the probability FALSE_ALARM a window."""
        lengths = (centres[1] - centres[0]) / (LENGTH * self.width)
        return float(np.sum((lengths * _chance(self.width, highest, self.wave.shape[1]))[self.gain > 0]))


class _Cells(NamedTuple):
    """The gain of each cell, and the chirp rate and the width that make it so; all ``[c, f]``."""

    gain: np.ndarray
    rate: np.ndarray
    width: np.ndarray


class _Sums(NamedTuple):
    """Windows of one width with waves of one chirp rate in them: all that does not depend on the outputs."""

    width: float
    rate: float
    first: int  # frequency of the grid that is seen; f of these, from it on
    enough: np.ndarray  # [c, 1], whether there are enough data in a window
    windows: np.ndarray  # [channels, c, n]
    chirped: np.ndarray  # [channels, c, n], windows times chirps
    wave: np.ndarray  # [channels, c, f], sums of window · e^iθ
    twice: np.ndarray  # [channels, c, f], of window · e^2iθ


class _Windows:
    """Times, weights, centres and frequencies of a search, and the sums over them that all its ridges share.

    Args:
        t: Times ``[n]``.
        weight: Weights ``[channels, n]`` of the data, 1 for all of equal precision, 0 for what a channel has not.
        centres: Times ``[c]`` at which windows are centred.
        grid: Frequencies to look at, in cycles per unit.
    """

    def __init__(self, t: np.ndarray, weight: np.ndarray, centres: np.ndarray, grid: np.ndarray) -> None:
        self.t, self.weight, self.centres, self.grid = t, weight, centres, grid
        self.span, self.spacing = np.ptp(t), centres[1] - centres[0]

    @cached_property
    def waves(self) -> np.ndarray:
        """``[n, f]``: the fit does not care where the phase of a wave begins, and one matrix serves all centres."""
        t = self.t
        return np.asarray(np.exp(2j * np.pi * np.outer(t - 0.5 * (t.min() + t.max()), self.grid)))

    @cached_property
    def _kept(self) -> list[_Sums] | None:
        size = len(WIDTHS) * len(RATES) * len(self.weight) * len(self.centres) * 2 * (len(self.grid) + len(self.t))
        return list(self._sums()) if size <= _KEPT else None

    def sums(self) -> Iterable[_Sums]:
        """Of each width and rate; made anew each time where they are too many to be kept."""
        return self._sums() if self._kept is None else self._kept

    def _sums(self) -> Iterator[_Sums]:
        grid, widest, tau = self.grid, WIDTHS[0] * self.span, self.t - self.centres[:, None]
        twice = self.waves**2
        for width in np.array(WIDTHS) * self.span:
            windows = self.weight[:, None] * np.exp(-0.5 * (tau / width) ** 2)
            enough = (np.max(effective(windows), axis=0) > 8.0)[:, None]
            for rate in np.array(RATES) / width**2:
                chirp = np.exp(1j * np.pi * rate * tau**2)
                # Less than about a cycle in the window, or a frequency that the chirp turns around, is not seen.
                seen = ((grid * width > CYCLES) | (width == widest)) & (1.5 * abs(rate) * width <= grid)
                first = int(np.sum(~seen))
                chirped = windows * chirp
                wave, double = chirped @ self.waves[:, first:], (windows * chirp**2) @ twice[:, first:]
                yield _Sums(width, rate, first, enough, windows, chirped, wave, double)


def frequency_grid(t: np.ndarray, highest: float | None = None) -> np.ndarray:
    """Frequencies of times ``t``, from one cycle in the span to 0.9 of the *average* Nyquist frequency or ``highest``.

    Logarithmic at first, then as fine as the widest window can tell apart.
    """
    distinct = np.unique(t)
    span = distinct[-1] - distinct[0]
    highest = 0.45 * (len(distinct) - 1) / span if highest is None else highest
    step, grid = 0.25 / (WIDTHS[0] * span), [1.0 / span]
    while grid[-1] < highest and len(grid) < FREQUENCIES:
        grid.append(grid[-1] + min(step, 0.05 * grid[-1]))
    return np.array(grid)


def find_ridge(y: np.ndarray, over: _Windows) -> Ridge:
    """The ridge of largest gain in ``y [channels, n]``."""
    t, centres, grid = over.t, over.centres, over.grid
    cells = _cells(y, over)
    path = best_path(cells.gain, np.log(grid), JUMP * (CENTRES - 1) / (len(centres) - 1))
    rows = np.arange(len(centres))
    gain, width = cells.gain[rows, path], cells.width[rows, path]
    frequency, rates, waves = np.empty(len(centres)), np.empty(len(centres)), np.empty((len(centres), len(y)), complex)
    for k, centre in enumerate(centres):
        f, rate, tau = grid[path[k]], cells.rate[k, path[k]], t - centre
        windows = over.weight * np.exp(-0.5 * (tau / width[k]) ** 2)
        if gain[k] > 0:
            f, rate = _between(y, windows, tau, f, rate, width[k], (0.5 * grid[0], grid[-1]))
        theta = 2.0 * np.pi * (f * tau + 0.5 * rate * tau**2)
        design = np.column_stack([np.ones_like(t), np.cos(theta), np.sin(theta)])
        frequency[k], rates[k] = f, rate
        for c, root in enumerate(np.sqrt(windows)):
            solution = np.linalg.lstsq(root[:, None] * design, root * y[c], rcond=1e-6)[0]
            waves[k, c] = solution[1] - 1j * solution[2]
    ridge = Ridge(frequency, np.abs(waves), width, gain, np.zeros_like(y), rates, waves)
    return ridge._replace(signal=ridge.at(t, centres))


def _between(
    y: np.ndarray, windows: np.ndarray, tau: np.ndarray, f: float, rate: float, width: float, band: tuple[float, float]
) -> tuple[float, float]:
    """The best frequency inside a band, and rate, between the nodes of the grid around those of a cell."""
    near, rates = (
        f + np.linspace(-0.5, 0.5, 11) * (0.15 / width),
        rate + np.array((-0.2, -0.1, 0.0, 0.1, 0.2)) / width**2,
    )
    wave, chirp = np.exp(2j * np.pi * np.outer(tau, near)), np.exp(1j * np.pi * np.outer(rates, tau**2))
    gained = np.where((near > band[0]) & (near < band[1]), 0.0, -np.inf) + np.zeros((len(rates), 1))
    for own, window in zip(y, windows, strict=True):
        chirped = window * chirp
        sums = chirped @ wave, (chirped * own) @ wave, (chirped * chirp) @ wave**2
        gained += gain_of(power(own, window[None], *sums), effective(window))
    b, a = np.unravel_index(np.argmax(gained), gained.shape)
    return float(near[a]), float(rates[b])


def find_ridges(
    t: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    centres: np.ndarray,
    grid: np.ndarray,
    count: int | None,
    max_ridges: int,
) -> list[Ridge]:
    """Ridges one after the other, each in what the others leave over: ``count`` of them, or as many as are there.

    The first is there when it is significant; a further one must also explain a good part of what was left, and
    2 % of the whole, since some of the rest is only what the ridges before it missed.

    Args:
        t: Times ``[n]``.
        y: Outputs ``[channels, n]``, centred.
        weight: Weights ``[channels, n]`` of the data, 1 for all of equal precision, 0 for what a channel has not.
        centres: Times ``[c]`` at which windows are centred.
        grid: Frequencies to look at, in cycles per unit.
        count: How many ridges; None for as many as are significant.
        max_ridges: How many of these, at most.
    """
    ridges: list[Ridge] = []
    rest, over = y, _Windows(t, weight, centres, grid)
    while len(ridges) < (max_ridges if count is None else count):
        more = [*ridges, find_ridge(rest, over)]
        if count is None and more[-1].gain.sum() < SIGNIFICANT:
            break
        for _ in range(SWEEPS if ridges else 0):
            for k in range(len(more)):
                others = sum((ridge.signal for j, ridge in enumerate(more) if j != k), np.zeros_like(y))
                more[k] = find_ridge(y - others, over)
        left = y - sum((ridge.signal for ridge in more), np.zeros_like(y))
        before, after, whole = (float(np.sum(weight * part**2)) for part in (rest, left, y))
        if count is None and ridges and before - after < max(SHARE * before, 0.02 * whole):
            break
        ridges, rest = more, left
    return ridges


def best_path(gain: np.ndarray, place: np.ndarray, std: float) -> np.ndarray:
    """The path ``[c]`` through cells ``[c, f]`` of largest Σ gain − ½ Σ (jump of place / std)²."""
    penalty = 0.5 * ((place[:, None] - place) / std) ** 2
    total, before = gain[0], []
    for row in gain[1:]:
        from_all = total[None, :] - penalty
        before.append(np.argmax(from_all, axis=1))
        total = row + np.max(from_all, axis=1)
    path = [int(np.argmax(total))]
    for back in reversed(before):
        path.append(int(back[path[-1]]))
    return np.array(path[::-1])


def _chance(width: Any, highest: float, channels: int) -> Any:
    """Nats that the best of all frequencies and rates gains by chance in a window, with the probability FALSE_ALARM.

    Noise gains a sum of exponentially distributed numbers, one for each channel.
    """
    tried = np.maximum(highest * LENGTH * width, 1.0) * len(RATES)
    return gammainccinv(channels, FALSE_ALARM / tried)


def _cells(y: np.ndarray, over: _Windows) -> _Cells:
    shape = len(over.centres), len(over.grid)
    cells = _Cells(np.zeros(shape), np.zeros(shape), np.full(shape, WIDTHS[0] * over.span))
    for width, rate, first, enough, *parts in over.sums():
        best = _Cells(*(whole[:, first:] for whole in cells))
        gain = np.full(best.gain.shape, -_chance(width, over.grid[-1], len(y)))
        for own, window, chirped, wave, twice in zip(y, *parts, strict=True):
            share = power(own, window, wave, (chirped * own) @ over.waves[:, first:], twice)
            gain += gain_of(share, effective(window)[:, None])
        gain *= over.spacing / (LENGTH * width)  # neighbouring windows share their data
        better = enough & (gain > best.gain)
        for whole, part in zip(best, (gain, np.asarray(rate), np.asarray(width)), strict=True):
            np.copyto(whole, part, where=better)
    return cells


def effective(window: np.ndarray) -> np.ndarray:
    """The number of data that windows ``[..., n]`` count as."""
    return np.asarray(np.sum(window, axis=-1) ** 2 / np.maximum(np.sum(window**2, axis=-1), 1e-300))


def gain_of(share: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Log likelihood that a wave gains which explains a share of the variance of so many data."""
    return np.asarray(-0.5 * np.maximum(count - 3.0, 0.0) * np.log1p(-np.minimum(share, 1.0 - 1e-9)))


def windowed_power(
    t: np.ndarray, y: np.ndarray, centres: np.ndarray, frequency: np.ndarray, width: float
) -> np.ndarray:
    """The power ``[c, f]``, from 0 to 1, of sinusoids in Gaussian windows around centres.

    Args:
        t: Times ``[n]``.
        y: Outputs ``[n]``.
        centres: Times ``[c]`` at which windows are centred.
        frequency: Frequencies ``[f]``, in cycles per unit.
        width: Standard deviation of the windows.
    """
    waves = np.exp(2j * np.pi * np.outer(t - np.mean(t), frequency))
    window = np.exp(-0.5 * ((t - centres[:, None]) / width) ** 2)
    return power(y, window, window @ waves, (window * y) @ waves, window @ waves**2)


def power(y: np.ndarray, window: np.ndarray, wave: np.ndarray, product: np.ndarray, twice: np.ndarray) -> np.ndarray:
    """The share of the weighted variance that a wave of unknown phase explains beside a mean.

    ``window [c, n]``, and sums over the data, each ``[c, f]``: of window · e^iθ, window · y · e^iθ, window · e^2iθ.
    """
    W = np.maximum(np.sum(window, axis=1), 1e-300)[:, None]
    mean = (window @ y)[:, None] / W
    variance = (window @ y**2)[:, None] - W * mean**2
    CC = 0.5 * (W + twice.real) - wave.real**2 / W
    SS = 0.5 * (W - twice.real) - wave.imag**2 / W
    CS = 0.5 * twice.imag - wave.real * wave.imag / W
    b, c = product.real - mean * wave.real, product.imag - mean * wave.imag
    determinant = CC * SS - CS**2
    sound = determinant > 1e-6 * W**2
    explained = (SS * b**2 + CC * c**2 - 2.0 * CS * b * c) / np.where(sound, determinant, 1.0)
    return np.where(sound & (variance > 0), explained / np.where(variance > 0, variance, 1.0), 0.0)
