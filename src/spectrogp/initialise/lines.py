"""Lines of a whole record: coherent tones at any frequency that the times can tell apart, above a coloured background.

A tone of frequency f beside a null with covariance C (``background``) raises 2 log likelihood by

    Δχ²(f) = bᵀ A⁻¹ b,    b = Xᵀ C⁻¹ r,    A = Xᵀ C⁻¹ X,    X = [cos 2πft, sin 2πft]

with r what the null and the lines before leave over: a Lomb–Scargle periodogram with error bars, floating mean and
trend (Zechmeister & Kürster 2009), whose noise may be red (Delisle, Hara & Ségransan 2020). b is a Fourier sum of
C⁻¹ r, so that one transform gives it at all frequencies; A changes slowly, and is computed exactly where Δχ² is large.
How large it is by chance at the best of all frequencies: Baluev (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import median_filter

from .background import fit_null
from .covariance import Covariance, Null
from .multiples import MANY, OVERTONES, common_frequency, multiples
from .transform import fourier_sums

FALSE_ALARM = 0.01
OVERSAMPLING = 5.0  # of the frequencies, in units of 1/span
FASTER = 10.0  # times the usual Nyquist frequency, up to which uneven times are looked at
CLOSE = 0.25  # of all spacings, up to which they are usual ones
ALIKE = 0.9  # of the squared window function, from which on a frequency is that of the sampling
FREQUENCIES = 15 * 10**5  # at most
LEAST = 2.0  # cycles in the record: slower ones belong to the background
NODES = 60  # frequencies at which the information is computed, and interpolated between
PEAKS = 24  # of the periodogram that are computed exactly
LOCAL = 101  # independent frequencies around one that tell the level of the background there
MEDIAN = 2.0 * np.log(2.0)  # of χ² with two degrees of freedom
ODDS = 2.0 * np.log(100.0)  # Δχ² by which the best of several aliases is beyond doubt
WINDOW = 0.05  # of the squared window function, from which on a frequency makes aliases
PARTS, HALF = 3, 0.5  # parts of a record, in each of which a line has its amplitude and phase but for a half of it
UNSTEADY = 3.0  # cycles in the record, around one that has not, within which there are no lines
TRIES = 5  # such ones after which a record is one of components that change
MODULATED = 2.0  # cycles in the record, by which a line is apart from others: nearer ones are how it changes
TIMES = 3  # multiples of it
WAVEFORM = 6  # lines of what repeats, at most, beyond the number that is asked for
_SAMPLES = 2**16  # of waves that are solved for at once


class Line(NamedTuple):
    """A tone: ``frequency`` in cycles per unit, ``wave`` (of cos and sin of 2πf(t − start)), and what speaks for it.

    ``gain`` in nats, ``price`` what the best of all frequencies gains by chance with the probability FALSE_ALARM, and
    ``aliases`` other frequencies that the data cannot tell from it.
    """

    frequency: float
    wave: np.ndarray  # [2]
    gain: float
    price: float
    aliases: tuple[Alias, ...] = ()


class Alias(NamedTuple):
    """A frequency that may be meant by another one f: ``frequency`` = ``sign`` · f + ``times`` · ``window``, or so.

    ``window`` is one at which the window function of the times is large; it is zero where no such one explains it.
    """

    frequency: float
    window: float
    sign: int
    times: int


class Lines(NamedTuple):
    """Lines of a record, strongest first, the ``signal [n]`` that they are together, and the null beside them."""

    lines: list[Line]
    signal: np.ndarray
    null: Null
    likelihood: float


def nyquist(t: np.ndarray) -> float:
    """The highest frequency that times (sorted) tell from lower ones, or ten times that of the usual spacing.

    Times on a grid, with or without gaps, or nearly so, tell frequencies apart up to half of the grid's rate
    (Eyer & Bartholdi 1999). At others nothing ends there: a frequency beyond has no alias that is as good. Usual
    spacings are those of the closer rows: nights and seasons that were missed take nothing from what the others tell.
    """
    distinct = np.unique(t)
    span = distinct[-1] - distinct[0]
    usual = 0.5 / min(span / (len(distinct) - 1), float(np.quantile(np.diff(distinct), CLOSE)))
    step = 1.0 / (OVERSAMPLING * span)
    count = int(min(2.0 * FASTER * usual / step, 2 * FREQUENCIES))
    window = np.abs(fourier_sums(distinct - distinct[0], np.ones(len(distinct)), step, count) / len(distinct)) ** 2
    alike = np.flatnonzero(window[int(2 * OVERSAMPLING) :] > ALIKE)
    if len(alike):
        return 0.5 * step * float(alike[0] + int(2 * OVERSAMPLING))
    return min(FASTER * usual, 0.5 * step * count)


def find_lines(
    t: np.ndarray,
    y: np.ndarray,
    error: np.ndarray,
    highest: float,
    most: int,
    near: Null | None = None,
    without: Sequence[tuple[float, float]] = (),
    overtones: bool = False,
) -> Lines:
    """Significant lines of a record, each in what those before leave over.

    Args:
        t: Times ``[n]``, sorted.
        y: Outputs ``[n]``, centred.
        error: Known standard deviations ``[n]``.
        highest: Where the search ends, in cycles per unit.
        most: How many lines, at most.
        near: Numbers of the null to begin with.
        without: Bands of frequencies, each from the first to the second, in which there is no line to be found.
        overtones: Whether, where all lines have a frequency in common, its further multiples do not count among these.
    """
    start = t[0]
    null, likelihood = fit_null(t, y, error, near=near)
    frequencies: list[float] = []
    found = Lines([], np.zeros_like(y), null, likelihood)
    bands: list[tuple[float, float]] = []
    while True:
        whole = common_frequency(frequencies, float(t[-1] - start)) if overtones and len(frequencies) >= most else 0.0
        if len(frequencies) >= (WAVEFORM if whole else most):
            break
        record = _Record(t - start, y, error, null, frequencies)
        near_lines = [(f - MODULATED / record.span, f + MODULATED / record.span) for f in frequencies]
        apart = [*without, *bands, *near_lines]
        line = record.multiple_of(whole, highest, apart) if whole else record.strongest(highest, apart)
        if line is None:
            break
        line = line if whole else record.as_overtone(line, highest)
        if not record.is_steady(line.frequency):
            bands.append((line.frequency - UNSTEADY / record.span, line.frequency + UNSTEADY / record.span))
            if len(bands) == TRIES:
                break
            continue
        frequencies = record.refined([*frequencies, line.frequency], highest)
        record = _Record(t - start, y, error, null, frequencies)
        waves = record.amplitudes.reshape(-1, 2)
        lines = [*found.lines, line]
        lines = [old._replace(frequency=f, wave=w) for old, f, w in zip(lines, frequencies, waves, strict=True)]
        null, likelihood = fit_null(t, y - record.signal, error)
        found = Lines(lines, record.signal, null, likelihood)
    return _told_apart(t - start, y, error, found, highest)


def _told_apart(t: np.ndarray, y: np.ndarray, error: np.ndarray, found: Lines, highest: float) -> Lines:
    """Each line at the best of its aliases, with those that are nearly as good."""
    lines = list(found.lines)
    for k, line in enumerate(lines):
        others = [other.frequency for other in lines[:k] + lines[k + 1 :]]
        if np.any(np.abs(line.frequency - multiples([other.frequency for other in lines[:k]])) * t[-1] < MODULATED):
            continue
        frequency, aliases = _Record(t, y, error, found.null, others).aliases(line.frequency, highest)
        lines[k] = line._replace(frequency=frequency, aliases=aliases)
    if not lines:
        return found
    frequencies = _Record(t, y, error, found.null, []).refined([line.frequency for line in lines], highest)
    record = _Record(t, y, error, found.null, frequencies)
    waves = record.amplitudes.reshape(-1, 2)
    lines = [line._replace(frequency=f, wave=w) for line, f, w in zip(lines, frequencies, waves, strict=True)]
    return found._replace(lines=lines, signal=record.signal)


class _Record:
    """A record beside a null and lines of some frequencies, whose amplitudes are fitted."""

    def __init__(self, t: np.ndarray, y: np.ndarray, error: np.ndarray, null: Null, frequencies: list[float]) -> None:
        self.t, self.y, self.frequencies = t, y, frequencies
        self.covariance = Covariance(t, error, max(float(np.std(y)), 1e-12), null)
        self.design = _waves(t, frequencies)
        self.solved = self.covariance.solve(self.design)
        self.information = self.design.T @ self.solved + 1e-12 * np.eye(2 * len(frequencies))
        self.amplitudes = np.linalg.solve(self.information, self.solved.T @ y)
        self.signal = self.design @ self.amplitudes
        self.rest = self.covariance.solve(y - self.signal)  # C⁻¹ r
        self.span = float(t[-1])

    def exact(self, frequencies: np.ndarray) -> np.ndarray:
        """Δχ² ``[f]`` of a further line."""
        return np.concatenate([self._exact(some) for some in self._chunks(frequencies)])

    def _exact(self, frequencies: np.ndarray) -> np.ndarray:
        waves = _each(self.t, frequencies)
        whole = self.covariance.information(waves)
        across = waves @ self.solved
        A = whole - across @ np.linalg.solve(self.information, across.swapaxes(1, 2))
        size, vectors = np.linalg.eigh(A)
        along = (vectors.swapaxes(1, 2) @ (waves @ self.rest)[..., None])[..., 0]
        sound = size > 1e-6 * np.maximum(np.trace(whole, axis1=1, axis2=2), 1e-300)[:, None]
        return np.asarray(np.sum(np.where(sound, along**2 / np.where(sound, size, 1.0), 0.0), axis=1))

    def _chunks(self, frequencies: np.ndarray) -> list[np.ndarray]:
        """Frequencies, as many at once as there is room for."""
        return np.array_split(frequencies, -(-len(frequencies) * len(self.t) // _SAMPLES) or 1)

    def periodogram(self, highest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Frequencies, Δχ² of a further line, nearly, and how much larger than by chance it is around each."""
        step = 1.0 / (OVERSAMPLING * self.span)
        count = min(int(highest / step) + 1, FREQUENCIES)
        first = int(np.ceil(LEAST * OVERSAMPLING))
        if count <= first:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        frequency = step * np.arange(first, count)
        power = np.abs(fourier_sums(self.t, self.rest, step, count)[first:]) ** 2
        nodes = np.unique(
            np.concatenate(
                [np.geomspace(frequency[0], frequency[-1], NODES // 2), np.linspace(frequency[0], frequency[-1], NODES)]
            )
        )
        each = [self.covariance.information(_each(self.t, some)) for some in self._chunks(nodes)]
        information = 0.5 * np.trace(np.concatenate(each), axis1=1, axis2=2)
        gain = power / np.exp(np.interp(np.log(frequency), np.log(nodes), np.log(np.maximum(information, 1e-300))))
        apart = int(OVERSAMPLING)
        # Mirrored at the ends: repeated there, a line at one of them would be its own surroundings.
        several = median_filter(gain[::apart], min(LOCAL, len(gain[::apart])), mode="reflect") / MEDIAN
        level = np.interp(frequency, frequency[::apart], np.maximum(several, 1.0))
        return frequency, gain, level

    def strongest(self, highest: float, bands: list[tuple[float, float]]) -> Line | None:
        """The further line that stands out most, if it is significant, outside of some bands."""
        frequency, gain, level = self.periodogram(highest)
        for low, high in bands:
            gain = np.where((frequency > low) & (frequency < high), 0.0, gain)
        peaks = _peaks(gain / level)[:PEAKS]
        if not len(peaks):
            return None
        step = frequency[1] - frequency[0] if len(frequency) > 1 else 0.0
        tops, values = self.climbed(frequency[peaks], step)
        best = int(np.argmax(values / level[peaks]))
        f, nats = float(tops[best]), 0.5 * float(values[best] / level[peaks[best]])
        price = self.price(highest)
        if nats < price or f * self.span < LEAST:
            return None
        return Line(f, np.zeros(2), nats, price)

    def multiple_of(self, f0: float, highest: float, bands: list[tuple[float, float]]) -> Line | None:
        """The further line at a multiple of a frequency that gains most, if more than the best of so few by chance."""
        every = f0 * np.arange(1, min(int(highest / f0 + 0.1), MANY) + 1)
        some = every[[not any(low < f < high for low, high in bands) for f in every]]
        frequency, _, level = self.periodogram(highest)
        if not len(some) or not len(frequency):
            return None
        tops, values = self.climbed(some, 0.5 / self.span)
        tops = np.minimum(tops, highest)
        nats, price = 0.5 * values / np.interp(tops, frequency, level), float(np.log(len(every) / FALSE_ALARM))
        best = int(np.argmax(nats))
        return Line(float(tops[best]), np.zeros(2), float(nats[best]), price) if nats[best] > price else None

    def as_overtone(self, line: Line, highest: float) -> Line:
        """A further line at a multiple of the frequency of another, if that is at least as likely.

        At uneven times an overtone has aliases that are nearly as good. A multiple is one of few, and an alias one of
        all frequencies that are told apart: its gain may be smaller by the logarithm of their number.
        """
        some = multiples(self.frequencies)
        apart = np.array([np.min(np.abs(f - np.array(self.frequencies))) for f in some]) * self.span
        some = some[(some < highest) & (apart > MODULATED)]
        if not len(some):
            return line
        tops, values = self.climbed(some, 0.5 / self.span)
        best = int(np.argmax(values))
        chance = np.log(max(highest * self.span / (OVERTONES * len(self.frequencies)), 1.0))
        nats = 0.5 * float(values[best])
        if nats < max(0.5 * float(self.exact(np.array([line.frequency]))[0]) - chance, line.price):
            return line
        return line._replace(frequency=float(tops[best]), gain=nats)

    def is_steady(self, frequency: float) -> bool:
        """Whether a further line has the same amplitude and phase in each part of the record, but for half of it.

        What passes by a frequency, or loses its phase, has a peak there too; but it is a component that changes.
        """
        n = len(self.t)
        X = _waves(self.t, [frequency])
        part = np.arange(n) * PARTS // n
        design = np.column_stack([X * (part == k)[:, None] for k in range(PARTS)])
        solved = self.covariance.solve(design)
        across = self.solved.T @ design
        A = design.T @ solved - across.T @ np.linalg.solve(self.information, across)
        inverse = np.linalg.pinv(A)
        each = (inverse @ (design.T @ self.rest)).reshape(PARTS, 2)
        # Red noise has parts in common: the information of the whole is that of all pairs of them.
        # (At half the rate of an even record there is no sine.)
        whole = np.linalg.pinv(A.reshape(PARTS, 2, PARTS, 2).sum(axis=(0, 2))) @ (X.T @ self.rest)
        known = np.sqrt(np.sum(np.diagonal(inverse).reshape(PARTS, 2), axis=1))
        apart = np.linalg.norm(each - whole, axis=1)
        return bool(np.all(apart < HALF * np.linalg.norm(whole) + 3.0 * known))

    def climbed(self, frequency: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
        """The tops of peaks near frequencies ``[k]`` of a grid with such steps, and Δχ² there."""
        for width in (0.5, 0.15):
            trials = frequency[:, None] + width * step * np.array([-1.0, 0.0, 1.0])
            low, middle, high = self.exact(trials.ravel()).reshape(-1, 3).T
            bend = low - 2.0 * middle + high
            move = np.clip(0.5 * (low - high) / np.where(bend < 0, bend, 1.0), -1.5, 1.5)
            frequency = frequency + width * step * np.where(bend < 0, move, 0.0)
        return frequency, self.exact(frequency)

    def price(self, highest: float) -> float:
        """Nats z with W √z e^{−z} = FALSE_ALARM, W the number of independent frequencies (Baluev 2008)."""
        independent = highest * np.sqrt(4.0 * np.pi * np.var(self.t))
        z = np.log(max(independent, 1.0) / FALSE_ALARM)
        for _ in range(5):
            z = np.log(max(independent, 1.0) / FALSE_ALARM) + 0.5 * np.log(z)
        return float(z)

    def refined(self, frequencies: list[float], highest: float) -> list[float]:
        """Frequencies of all lines together, by steps of Gauss and Newton, up to the highest that are looked for."""
        values, count = np.array(frequencies), len(frequencies)
        for _ in range(4):
            waves = _waves(self.t, values)
            solved = self.covariance.solve(waves)
            a = np.linalg.lstsq(waves.T @ solved, solved.T @ self.y, rcond=None)[0]
            slope = 2.0 * np.pi * self.t[:, None] * (waves[:, 1::2] * -a[::2] + waves[:, ::2] * a[1::2])
            design = np.column_stack([waves, slope])
            solved = self.covariance.solve(design)
            move = np.linalg.lstsq(design.T @ solved, solved.T @ (self.y - waves @ a), rcond=None)[0][-count:]
            values = np.minimum(values + np.clip(move, -0.2 / self.span, 0.2 / self.span), highest)
        return [float(value) for value in values]

    def aliases(self, line: float, highest: float) -> tuple[float, tuple[Alias, ...]]:
        """The best frequency of a line, and others that are nearly as good."""
        frequency, gain, level = self.periodogram(highest)
        if not len(frequency):
            return line, ()
        step = 1.0 / (OVERSAMPLING * self.span)
        peaks = _peaks(gain)[:PEAKS]
        tops, values = self.climbed(np.append(line, frequency[peaks]), step)
        best, value = float(tops[np.argmax(values)]), float(np.max(values))
        others: list[float] = []
        for f, other, around in zip(tops.tolist(), values, np.append(1.0, level[peaks]), strict=True):
            apart = min(abs(f - seen) * self.span for seen in (best, *others, *self.frequencies))
            if apart > MODULATED and (value - other) / around < ODDS and other > HALF * value:
                others.append(f)
        if not others:
            return best, ()
        windows = self._window(frequency, step)
        return best, tuple(_made_of(f, best, windows, 1.0 / self.span) for f in others)

    def _window(self, frequency: np.ndarray, step: float) -> np.ndarray:
        """Frequencies at which the window function is large, the largest first."""
        weight = self.covariance.precision
        sums = fourier_sums(self.t, weight / np.sum(weight), step, min(2 * len(frequency), FREQUENCIES))
        size = np.abs(sums) ** 2
        size[: int(OVERSAMPLING) + 1] = 0.0
        return np.array([step * k for k in _peaks(size)[:8] if size[k] > WINDOW])


def _made_of(f: float, line: float, windows: np.ndarray, width: float) -> Alias:
    """How an alias comes about."""
    for times in range(1, TIMES + 1):
        for window in windows:
            for sign, k in ((1, times), (1, -times), (-1, times)):
                if abs(f - (sign * line + k * window)) < width:
                    return Alias(f, float(window), sign, k)
    return Alias(f, 0.0, 0, 0)


def _waves(t: np.ndarray, frequencies: list[float] | np.ndarray) -> np.ndarray:
    """cos and sin ``[n, 2k]`` of frequencies, one after the other."""
    theta = 2.0 * np.pi * np.outer(t, np.asarray(frequencies, float))
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1).reshape(len(t), -1)


def _each(t: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """cos and sin ``[k, 2, n]`` of frequencies, each beside the other."""
    theta = 2.0 * np.pi * np.outer(frequencies, t)
    return np.stack([np.cos(theta), np.sin(theta)], axis=1)


def _peaks(values: np.ndarray) -> np.ndarray:
    """Places of the local maxima, the largest first."""
    if len(values) < 3:
        return np.argsort(-values)
    top = np.flatnonzero((values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:])) + 1
    ends = [k for k, other in ((0, 1), (len(values) - 1, len(values) - 2)) if values[k] > values[other]]
    top = np.concatenate([top, np.array(ends, int)])
    return np.asarray(top[np.argsort(-values[top], kind="stable")])
