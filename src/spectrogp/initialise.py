"""Where a fit begins: frequencies, lengthscales, amplitudes and noise found from data, and kernels that start there.

In one dimension the frequencies are ridges of a windowed Lomb–Scargle periodogram (``ridges``). In several dimensions
they are plane waves, found one after the other in what a smooth fit and the waves before leave over. Stationary kernels
start from the spectrum of the whole data. All of it in the units of the inputs and outputs that are given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal, NamedTuple

import equinox as eqx
import numpy as np
from jax import Array
from scipy.cluster.vq import kmeans2
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import qmc

from . import kernels
from .data import Data
from .functions import inputs
from .inference import Fit, laplace_evidence, maximise
from .kernels import AbstractKernel
from .numerics import entry_point
from .parameters import LogNormal, Normal, Positive, Real, constrain
from .processes import FunctionGroup, realise
from .ridges import CENTRES, FALSE_ALARM, LENGTH, find_ridges, frequency_grid, power
from .spectra import local_spectrum

Kind = Literal["se", "nsq", "sm", "gsm", "hmk", "convolutional", "chirplet", "phase"]

# The lengthscale at which oscillating components start, in standard deviations of the inputs. With the right phase the
# whole signal is one coherent oscillation, and a short start ends in a poorer optimum; the other kernels lose coherence
# where the frequency changes (CSK), or shift their frequency with the lengthscale (chirplet).
COHERENCE: dict[Kind, float] = {"phase": 5.0, "chirplet": 0.3, "gsm": 1.0, "convolutional": 0.3, "hmk": 1.0}
PRODUCTS = 60  # with the Hessian, for the evidence of a start
COHERENT = 20.0  # the same, of starts that stay coherent for longer
ROWS = 1500  # of the data are looked at, at most: drawn at random from larger ones
VARIES = (0.05, 0.5)  # standard deviation of the logarithm of a frequency a priori, at least and at most
SUDDEN = (0.45, 0.2)  # smoothness of starts for frequencies that change faster, and suddenly
LATENT = (1.0, 0.7, 0.5, 0.35, 0.25)  # lengthscales tried for the functions, in standard deviations of the inputs
_NEAR = 0.2  # difference of the logarithms of two frequencies that may be mistaken for one another
_FACTORS, _SHARES = (0.05, 0.12, 0.3, 0.8, 2.0), (0.01, 0.1, 0.5, 2.0)  # of the smooth fit: lengthscale, noise


@dataclass(frozen=True)
class Spectrum:
    """Peaks of the spectrum of the whole data: centre and deviation ``[q, d]`` in cycles per unit, amplitude."""

    frequency: np.ndarray
    bandwidth: np.ndarray
    amplitude: np.ndarray


@dataclass(frozen=True)
class Start:
    """What was found in the data; c centres, a components, d input dimensions, frequencies in cycles per unit.

    ``amplitude`` is the standard deviation σ of a component, that of a sinusoid over √2. ``worth`` (nats) is how much
    the data say about the frequency at a centre: zero in gaps and where nothing significant was found. An infinite
    ``lengthscale`` is that of an oscillation: how long it stays coherent is left to the kernel.
    """

    centres: np.ndarray  # [c, d]
    frequency: np.ndarray  # [c, a, d]
    amplitude: np.ndarray  # [c, a]
    lengthscale: np.ndarray  # [c, a, d]
    worth: np.ndarray  # [c, a]
    noise: float
    spectrum: Spectrum
    smooth_lengthscale: np.ndarray  # [d], of the best squared-exponential fit
    scale: np.ndarray  # [d], standard deviation of the inputs
    extent: np.ndarray  # [2, d], smallest and largest inputs
    band: np.ndarray  # [2, d], lowest and highest frequency looked at
    spread: float  # standard deviation of the outputs
    rows: int
    smoothness: float = 1.0  # of the frequencies a priori: their lengthscale in standard deviations of the inputs

    @property
    def found(self) -> np.ndarray:
        """Whether a component is significant anywhere, ``[a]``."""
        return np.asarray(np.any(self.worth > 0, axis=0))

    def __str__(self) -> str:
        lines = [f"{int(self.found.sum())} components in {self.rows} rows, noise {self.noise:.3g}"]
        lines += [
            f"input {d}: looked from {low:.3g} to {high:.3g} cycles per unit"
            for d, (low, high) in enumerate(self.band.T)
        ]
        for a, found in enumerate(self.found):
            if not found:
                lines.append(f"component {a + 1}: nothing significant; starts at {_range(self.frequency[:, a])}")
                continue
            seen = self.worth[:, a] > 0
            share = f", seen at {np.mean(seen):.0%} of the centres" if np.mean(seen) < 1 else ""
            sigma = _range(self.amplitude[seen, a, None])
            lines.append(f"component {a + 1}: {_range(self.frequency[seen, a])} cycles per unit, σ {sigma}{share}")
        return "\n".join(lines)

    @entry_point
    def following(self, kernel: AbstractKernel) -> Start:
        """This start with the frequencies and amplitudes of a fitted kernel: one begins where another ended."""
        spectrum = local_spectrum(realise(constrain(kernel)), self.centres)
        if spectrum.frequency.shape != self.frequency.shape:
            shapes = f"{list(spectrum.frequency.shape)}, this start {list(self.frequency.shape)}"
            raise ValueError(f"the kernel has frequencies of shape {shapes}: centres, components, inputs")
        frequency = np.asarray(spectrum.frequency)
        if frequency.shape[-1] == 1:  # its sign says nothing; zero would stay zero
            frequency = np.maximum(np.abs(frequency), 0.015 / self.scale)
        return dataclasses.replace(
            self,
            frequency=frequency,
            amplitude=np.sqrt(np.maximum(np.asarray(spectrum.weight), 1e-6 * self.spread**2)),
            worth=np.maximum(self.worth, 1.0),
        )

    def alternatives(self) -> list[Start]:
        """This start and others that the data allow, in one dimension.

        Some have smoother frequencies, cubic in their logarithm; some stay coherent for longer, which makes the first
        steps of a fit correct the frequencies rather than shorten the lengthscale. In some, components that come near
        each other go on as the other one: a ridge cannot tell whether they cross or turn. Some allow sudden changes.
        """
        if self.frequency.shape[-1] > 1 or not np.any(self.found):
            return [self]
        coherent = dataclasses.replace(self, lengthscale=np.broadcast_to(COHERENT * self.scale, self.lengthscale.shape))
        crossed = self._crossed()
        crossing = [] if crossed is None else [crossed._smoother(), crossed]
        sudden = [dataclasses.replace(self, smoothness=smoothness) for smoothness in SUDDEN]
        return [self, self._smoother(), *crossing, *sudden, coherent, coherent._smoother()]

    def _crossed(self) -> Start | None:
        """With components exchanged beyond where they come nearest, or None where none come near."""
        parts = [values.copy() for values in (self.frequency, self.amplitude, self.worth)]
        exchanged = False
        for a, b in combinations(range(self.worth.shape[1]), 2):
            apart = np.abs(np.log(parts[0][:, a, 0] / parts[0][:, b, 0]))
            nearest = int(np.argmin(apart))
            if apart[nearest] < _NEAR:
                exchanged = True
                for values in parts:
                    values[nearest:, [a, b]] = values[nearest:, [b, a]]
        frequency, amplitude, worth = parts
        return dataclasses.replace(self, frequency=frequency, amplitude=amplitude, worth=worth) if exchanged else None

    def _smoother(self) -> Start:
        x = np.linspace(-1.0, 1.0, len(self.centres))  # as the centres, even
        cubic = np.polynomial.chebyshev.chebvander(x, 3)
        logarithm = np.empty(self.worth.shape)
        for a in range(self.worth.shape[1]):
            root = np.sqrt(np.maximum(self.worth[:, a], 1e-3 * self.worth.max()))
            values = np.log(self.frequency[:, a, 0])
            logarithm[:, a] = cubic @ np.linalg.lstsq(root[:, None] * cubic, root * values, rcond=None)[0]
        return dataclasses.replace(self, frequency=np.exp(logarithm)[..., None], worth=np.maximum(self.worth, 1.0))


def _range(values: np.ndarray) -> str:
    """Smallest to largest, for each input dimension."""
    ends = zip(values.min(axis=0), values.max(axis=0), strict=True)
    return " × ".join(
        f"{low:.3g}" if high - low < 0.005 * abs(high) else f"{low:.3g} to {high:.3g}" for low, high in ends
    )


def find_start(
    X: Any,
    y: Any,
    error: Any = None,
    *,
    components: int | None = None,
    most: int = 4,
    highest_frequency: Any = None,
    seed: int = 0,
) -> Start:
    """Look at data ``X [n, d]``, ``y [n]`` with known error bars ``error [n]`` for what a kernel can start from.

    ``components`` is their number, or None for as many as are significant, up to ``most`` (one when there are none).
    ``highest_frequency`` (a number or ``[d]``, cycles per unit) bounds the search; by default that is the Nyquist
    frequency of the average spacing. Large data are looked at through 1500 of their rows.
    """
    if components is not None and components < 1:
        raise ValueError(f"components must be at least 1, got {components}")
    data = Data.checked(X, y, error)
    rng = np.random.default_rng(seed)
    keep = np.sort(rng.permutation(len(data.y))[:ROWS])
    X, y, error = np.asarray(data.X)[keep], np.asarray(data.y)[keep], np.asarray(data.error)[keep]
    extent, scale = np.array([X.min(axis=0), X.max(axis=0)]), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    spread = max(float(y.std()), 1e-12 * max(1.0, float(np.abs(y).max())))
    y = y - y.mean()
    weight = 1.0 / (error**2 + 0.01 * spread**2)
    weight /= weight.mean()
    highest = None if highest_frequency is None else np.broadcast_to(np.asarray(highest_frequency, float), scale.shape)
    look = _look_along if X.shape[1] == 1 else _look_around
    found = look(_Seen(X, y, weight, components, most, highest, scale, rng))
    return Start(scale=scale, extent=extent, spread=spread, rows=len(data.y), **found)


class _Seen(NamedTuple):
    """Rows to look at, outputs centred, and what to look for."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    components: int | None
    most: int
    highest: np.ndarray | None
    scale: np.ndarray
    rng: np.random.Generator


def _look_along(seen: _Seen) -> dict[str, Any]:
    """One dimension: ridges."""
    X, y, weight, components, most, highest, scale, rng = seen
    t = X[:, 0]
    smooth = _smooth(X, y, scale, rng)
    if len(np.unique(t)) < 8 or not np.any(y):
        return _nothing(X, y, scale, components, smooth)
    grid = frequency_grid(t, None if highest is None else float(highest[0]))
    centres = np.linspace(t.min(), t.max(), int(np.clip(len(t) // 4, 5, CENTRES)))
    ridges = find_ridges(t, y, weight, centres, grid, components, most)
    step = 0.5 / np.ptp(t)
    spectrum = _peaks(X, y, weight, np.arange(step, max(grid[-1], 3 * step), step)[: 2 * ROWS, None], most, rng)
    if not ridges:
        return _nothing(X, y, scale, components, smooth) | {"spectrum": spectrum, "band": grid[[0, -1], None]}
    frequency, amplitude, worth = (
        np.column_stack([getattr(ridge, name) for ridge in ridges]) for name in ("frequency", "amplitude", "worth")
    )
    # A local fit has a mean, two amplitudes, a frequency and a rate for each window's length of data.
    rest = y - sum((ridge.signal for ridge in ridges), np.zeros_like(y))
    lengths = sum(float(np.mean(np.ptp(t) / (LENGTH * ridge.width))) for ridge in ridges)
    noise = np.sqrt(np.sum(weight * rest**2) / max(len(y) - 5.0 * lengths, 0.1 * len(y)))
    return {
        "centres": centres[:, None],
        "frequency": frequency[..., None],
        "amplitude": np.clip(amplitude / np.sqrt(2.0), 0.05 * y.std(), 2.0 * y.std()),
        "lengthscale": np.full((*frequency.shape, 1), np.inf),
        "worth": worth,
        "noise": _noise(noise, y),
        "spectrum": spectrum,
        "smooth_lengthscale": smooth.lengthscale,
        "band": grid[[0, -1], None],
    }


def _look_around(seen: _Seen) -> dict[str, Any]:
    """Several dimensions: plane waves in what a smooth trend leaves over, and a smooth component beside them.

    Candidates are wavevectors all over the box that the data resolve, N^(1/d) to an axis, and, along each axis alone,
    up to the frequency that all the data together resolve: a cycle along one input shows however the others scatter.
    """
    X, y, weight, components, most, highest, scale, rng = seen
    n, d = X.shape
    span = np.ptp(X, axis=0)
    live = span > 0
    smooth = _smooth(X, y, scale, rng)
    if n < 16 or not np.any(y) or not np.any(live):
        return _nothing(X, y, scale, components, smooth)
    span = np.where(live, span, np.inf)
    box = np.where(live, 0.45 * n ** (1.0 / live.sum()) / span, 0.0)
    along = np.where(live, 0.45 * np.array([len(np.unique(column)) - 1 for column in X.T]) / span, 0.0)
    if highest is not None:
        box, along = np.minimum(box, highest), np.minimum(along, highest)
    candidates = [(2.0 * qmc.Sobol(d, seed=rng).random_base2(12) - 1.0) * box]
    for axis in np.flatnonzero(live):
        cycles = np.arange(0.5, along[axis] * span[axis], 0.5)[:ROWS]
        candidates.append(cycles[:, None] / span[axis] * np.eye(d)[axis])
    trend = _fit_smooth(X, y, scale, 1.0, rng)
    every = np.concatenate(candidates)
    every = every[np.sum((every * span) ** 2, axis=1, where=live) > 1.0]  # slower ones are the trend's
    waves = _peaks(X, y - trend, weight, every, most if components is None else components, rng)
    there = waves.amplitude > 0
    rest = max(float(y.std()) ** 2 - float(np.sum(waves.amplitude**2)), 0.05 * float(y.std()) ** 2)
    slow = 0.05 / smooth.lengthscale  # never exactly zero: there the gradient of every kernel is zero
    frequency = np.vstack([slow, waves.frequency[there]])
    amplitude = np.append(np.sqrt(max(rest - smooth.noise**2, 0.05 * rest)), waves.amplitude[there])
    lengthscale = np.vstack([smooth.lengthscale / np.sqrt(2.0), np.full((int(there.sum()), d), np.inf)])
    worth = np.append(1.0, np.ones(int(there.sum())))
    if components is not None:
        order = np.argsort(-amplitude, kind="stable")[:components]
        frequency, amplitude, lengthscale, worth = (part[order] for part in (frequency, amplitude, lengthscale, worth))
        for k in range(components - len(order)):  # smooth ones at other scales
            sign, factor = (-1.0) ** (np.arange(d) + k), (0.3, 3.0)[k % 2] ** (1 + k // 2)
            frequency = np.vstack([frequency, sign * slow / factor])
            lengthscale = np.vstack([lengthscale, smooth.lengthscale * factor / np.sqrt(2.0)])
            amplitude, worth = np.append(amplitude, 0.5 * y.std()), np.append(worth, 0.0)
    centres = inducing_inputs(X, 30, rng)
    shape = len(centres), len(amplitude)
    return {
        "centres": centres,
        "frequency": np.broadcast_to(frequency, (*shape, d)),
        "amplitude": np.broadcast_to(amplitude, shape),
        "lengthscale": np.broadcast_to(lengthscale, (*shape, d)),
        "worth": np.broadcast_to(worth, shape),
        "noise": _noise(smooth.noise, y),
        "spectrum": waves,
        "smooth_lengthscale": smooth.lengthscale,
        "band": np.array([np.where(live, 1.0 / span, 0.0), np.maximum(box, along)]),
    }


def _nothing(
    X: np.ndarray, y: np.ndarray, scale: np.ndarray, components: int | None, smooth: _Smooth
) -> dict[str, Any]:
    """Too little to look at, or nothing in it: slow components of different speeds."""
    d, a = X.shape[1], components or 1
    centres = np.linspace(X.min(axis=0), X.max(axis=0), 5) + np.linspace(0.0, 1e-3, 5)[:, None] * scale
    frequency = np.arange(1, a + 1)[:, None] * 0.25 / (np.sqrt(12.0) * scale)
    spread = max(float(y.std()), 1e-6)
    return {
        "centres": centres,
        "frequency": np.broadcast_to(frequency, (5, a, d)),
        "amplitude": np.full((5, a), spread / np.sqrt(a)),
        "lengthscale": np.broadcast_to(smooth.lengthscale / np.sqrt(2.0), (5, a, d)),
        "worth": np.zeros((5, a)),
        "noise": _noise(smooth.noise, y),
        "spectrum": Spectrum(frequency, 0.16 / np.broadcast_to(smooth.lengthscale, (a, d)), np.zeros(a)),
        "smooth_lengthscale": smooth.lengthscale,
        "band": np.zeros((2, d)),
    }


def _noise(noise: float, y: np.ndarray) -> float:
    spread = max(float(y.std()), 1e-6)
    return float(np.clip(noise, 0.01 * spread, spread))


class _Smooth(NamedTuple):
    """The squared exponential of largest evidence: lengthscale ``[d]``, amplitude, noise."""

    lengthscale: np.ndarray
    amplitude: float
    noise: float


def _smooth(X: np.ndarray, y: np.ndarray, scale: np.ndarray, rng: np.random.Generator) -> _Smooth:
    """By coordinate search over a few lengthscales and noise shares on some rows; the amplitude is solved for."""
    rows = rng.permutation(len(y))[:200]
    X, y = X[rows], y[rows]
    if not np.any(y):
        return _Smooth(scale, 1e-6, 1e-6)
    factors, chosen = np.full(X.shape[1], 2), 1
    squares = [((column[:, None] - column) / s) ** 2 for column, s in zip(X.T, scale, strict=True)]

    def evidence(factors: np.ndarray, share: int) -> tuple[float, float]:
        D = sum(square / _FACTORS[k] ** 2 for square, k in zip(squares, factors, strict=True))
        K = np.exp(-0.5 * np.asarray(D)) + _SHARES[share] * np.eye(len(y))
        factor = cho_factor(K, lower=True)
        variance = float(y @ cho_solve(factor, y)) / len(y)
        return -0.5 * len(y) * np.log(variance) - float(np.sum(np.log(np.diagonal(factor[0])))), variance

    best = evidence(factors, chosen)
    for _ in range(2):
        for k in range(X.shape[1] + 1):
            for choice in range(len(_FACTORS) if k < X.shape[1] else len(_SHARES)):
                trial, share = factors.copy(), chosen
                if k < X.shape[1]:
                    trial[k] = choice
                else:
                    share = choice
                value = evidence(trial, share)
                if value[0] > best[0]:
                    best, factors, chosen = value, trial, share
    amplitude = np.sqrt(best[1])
    return _Smooth(np.array(_FACTORS)[factors] * scale, amplitude, amplitude * np.sqrt(_SHARES[chosen]))


def _fit_smooth(X: np.ndarray, y: np.ndarray, scale: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """The mean ``[n]`` of a Gaussian process as smooth as the inputs are wide, given some of the rows."""
    rows = rng.permutation(len(y))[:400]
    D = sum((column[:, None] - column[rows]) ** 2 / s**2 for column, s in zip(X.T, scale, strict=True))
    K = np.exp(-0.5 * np.asarray(D))
    return np.asarray(K @ np.linalg.solve(K[rows] + share * np.eye(len(rows)), y[rows]))


def _peaks(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, candidates: np.ndarray, most: int, rng: np.random.Generator
) -> Spectrum:
    """Significant plane waves in the whole data, each found in what those before leave over; widths from the spectrum.

    The width of a peak is the spread of the power, above that of noise, of the candidates that are nearest to it.
    """
    window, middle, span = weight[None], X.mean(axis=0), np.maximum(np.ptp(X, axis=0), 1e-300)
    waves = np.exp(2j * np.pi * (X - middle) @ candidates.T)
    chance = np.log(len(candidates) / FALSE_ALARM)

    def gain(rest: np.ndarray, waves: np.ndarray) -> np.ndarray:
        share = power(rest, window, window @ waves, (window * rest) @ waves, window @ waves**2)[0]
        return -0.5 * (len(y) - 3.0) * np.log1p(-np.minimum(share, 1.0 - 1e-9))

    rest, found, amplitudes = y, [], []
    first = gain(y, waves)
    for _ in range(most):
        values = gain(rest, waves)
        f, value = candidates[np.argmax(values)], float(np.max(values))
        if value < chance:
            break
        for width in (0.3, 0.15, 0.07, 0.03):  # climb to the top between candidates
            trials = f + width / span * rng.normal(size=(32, len(f))) * (f != 0)
            values = gain(rest, np.exp(2j * np.pi * (X - middle) @ trials.T))
            if np.max(values) > value:
                f, value = trials[np.argmax(values)], float(np.max(values))
        theta = 2.0 * np.pi * (X - middle) @ f
        design = np.column_stack([np.ones_like(theta), np.cos(theta), np.sin(theta)])
        root = np.sqrt(weight)
        solution = np.linalg.lstsq(root[:, None] * design, root * rest, rcond=None)[0]
        rest = rest - design[:, 1:] @ solution[1:]
        found.append(np.sign(f[np.argmax(np.abs(f * span))]) * f)
        amplitudes.append(np.hypot(*solution[1:]) / np.sqrt(2.0))
    if not found:
        slow = 0.25 / span
        return Spectrum(slow[None], slow[None], np.zeros(1))
    frequency = np.array(found)
    offsets = np.minimum(
        *(np.abs(((side * candidates)[:, None] - frequency) * span) for side in (1.0, -1.0))
    )  # [F, q, d], of the wave or its mirror image
    nearest = np.argmin(np.sum(offsets**2, axis=-1), axis=1)
    excess = np.maximum(np.expm1(2.0 * np.minimum(first - 1.0, 300.0) / len(y)), 0.0)
    bandwidth = np.empty_like(frequency)
    for k in range(len(frequency)):
        share = excess * (nearest == k)
        moment = (share @ offsets[:, k] ** 2) / max(share.sum(), 1e-300)
        bandwidth[k] = np.sqrt(np.clip(moment, 0.1**2, None)) / span
    return Spectrum(frequency, bandwidth, np.array(amplitudes))


# Kernels that start there


def inducing_inputs(X: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Where functions of the input have their values: an even grid in one dimension, k-means centres in several."""
    if X.shape[1] == 1:
        low, high = X.min(), X.max()
        return np.linspace(low, high if high > low else low + 1.0, count)[:, None]
    distinct = np.unique(X, axis=0)
    if len(distinct) <= count:
        return distinct
    scale = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    centres = kmeans2(distinct / scale, count, minit="++", seed=rng, missing="warn")[0]
    return np.asarray(centres * scale)


def kernel_from(start: Start, kind: Kind, *, inducing: int = 30, seed: int = 0) -> AbstractKernel:
    """A kernel of the given kind whose functions start at what was found: frequencies at the ridges.

    Functions have their values at ``inducing`` inputs and the priors of mathematics.md §5: lengthscales of about one
    standard deviation of the inputs, amplitudes of about 0.5 (in logarithms).
    """
    build = _BUILDERS.get(kind)
    if build is None:
        raise ValueError(f"kind must be one of {', '.join(_BUILDERS)}, got {kind!r}")
    own = COHERENCE.get(kind, 1.0) * start.scale
    start = dataclasses.replace(start, lengthscale=np.where(np.isinf(start.lengthscale), own, start.lengthscale))
    box = start.extent if start.centres.shape[1] == 1 else start.centres
    return build(start, inducing_inputs(box, inducing, np.random.default_rng(seed)))


def noise_from(start: Start) -> Any:
    """The standard deviation of the noise as a parameter that starts at what was found."""
    return _positive(start.noise)


def _group(start: Start, Z: np.ndarray, values: np.ndarray) -> FunctionGroup:
    """Positive functions that follow values ``[c, ...]`` at the centres, loosely."""
    typical = np.exp(np.mean(np.log(values), axis=0))
    group = FunctionGroup(Z, typical, shape=typical.shape, lengthscale=start.scale)
    return group.following(start.centres, values, 0.5)


def _amplitude(start: Start, Z: np.ndarray) -> FunctionGroup:
    return _group(start, Z, start.amplitude)


def _lengthscale(start: Start, Z: np.ndarray) -> FunctionGroup:
    return _group(start, Z, start.lengthscale)


def _frequency(start: Start, Z: np.ndarray, cycles: np.ndarray | None = None) -> FunctionGroup:
    """ω(x): positive in one dimension, of any sign in several."""
    omega = 2.0 * np.pi * (start.frequency if cycles is None else cycles)
    # Where the data say nothing the smoothness of the functions decides.
    deviation = (0.1 * np.sqrt(1.0 + 1.0 / np.maximum(start.worth, 1e-6)))[..., None]
    if omega.shape[-1] > 1:
        amplitude = max(0.25 * float(np.sqrt(np.mean(omega**2))), 1e-3 / float(np.max(start.scale)))
        typical = np.mean(omega, axis=0)
        prior = partial(FunctionGroup, warp="identity", lengthscale=start.scale, amplitude=amplitude)
        group = prior(Z, typical, shape=typical.shape, mean_deviation=amplitude)
        return group.following(start.centres, omega, deviation * amplitude)
    weight = deviation**-2
    typical = np.exp(np.sum(weight * np.log(omega), axis=0) / np.sum(weight, axis=0))
    # What varies little in the data hardly varies a priori either: else the optimum follows the noise.
    varies = np.sqrt(np.sum(weight * np.log(omega / typical) ** 2) / np.sum(weight))
    amplitude = float(np.clip(1.5 * varies, *VARIES))
    smooth = start.smoothness * start.scale
    group = FunctionGroup(Z, typical, shape=typical.shape, lengthscale=smooth, amplitude=amplitude)
    best, most = group, -np.inf
    for factor in LATENT:
        raw = group.lengthscale.raw + np.log(factor)
        trial = eqx.tree_at(lambda g: g.lengthscale.raw, group, raw).following(start.centres, omega, deviation)
        misfit = (np.log(_values(trial, start.centres)) - np.log(omega)) / deviation
        # The mode's log density: a quick stand-in for the evidence of this lengthscale.
        value = -0.5 * float(np.sum(misfit**2) + np.sum(trial.whitened.raw**2)) - 0.5 * (np.log(factor) / 0.3) ** 2
        if value > most:
            best, most = trial, value
    return best


@entry_point
@eqx.filter_jit
def _values(group: FunctionGroup, X: Any) -> Any:
    return group(inputs(X))


def _positive(value: Any) -> Any:
    return Positive(value, LogNormal(value, 1.0))


def _spectral_mixture(start: Start, Z: np.ndarray) -> AbstractKernel:
    del Z
    peaks, resolution = start.spectrum, 0.5 / np.maximum(start.extent[1] - start.extent[0], 1e-300)
    omega = 2.0 * np.pi * peaks.frequency
    frequency: Any = Real(omega, Normal(omega, 2.0 * np.pi * np.maximum(peaks.bandwidth, resolution)))
    amplitude = np.maximum(peaks.amplitude, 0.1 * start.spread)
    return kernels.SpectralMixture(_positive(1.0 / (2.0 * np.pi * peaks.bandwidth)), frequency, _positive(amplitude))


def _squared_exponential(start: Start, Z: np.ndarray) -> AbstractKernel:
    del Z
    amplitude = max(start.spread**2 - start.noise**2, 0.1 * start.spread**2) ** 0.5
    return kernels.SquaredExponential(_positive(start.smooth_lengthscale), _positive(amplitude))


def _quadratic(start: Start, Z: np.ndarray) -> AbstractKernel:
    shape = (len(start.centres), 1, Z.shape[1])
    lengthscale = np.broadcast_to(start.smooth_lengthscale / np.sqrt(2.0), shape)
    return kernels.NonstationaryQuadratic(
        _group(start, Z, lengthscale), _group(start, Z, np.full(shape[:2], start.spread))
    )


def _generalized(start: Start, Z: np.ndarray) -> AbstractKernel:
    """GSM's local frequency in one dimension is (x ω(x))′, so ω(x) = (1/x) ∫₀ˣ of the frequency that was found."""
    cycles = start.frequency
    if Z.shape[1] == 1:
        x = start.centres[:, 0]
        # Gauss–Legendre on [0, x]: the mean of the frequency between the origin and x.
        nodes, weights = np.polynomial.legendre.leggauss(32)
        places = x[:, None] * 0.5 * (1.0 + nodes)
        means = [np.interp(places, x, column) @ (0.5 * weights) for column in cycles[..., 0].T]
        cycles = np.column_stack(means)[..., None]
    return kernels.GeneralizedSpectralMixture(
        _lengthscale(start, Z), _frequency(start, Z, cycles), _amplitude(start, Z)
    )


def _convolutional(start: Start, Z: np.ndarray) -> AbstractKernel:
    return kernels.ConvolutionalSpectral(_lengthscale(start, Z), _frequency(start, Z), _amplitude(start, Z))


def _chirplet(start: Start, Z: np.ndarray) -> AbstractKernel:
    return kernels.Chirplet(_lengthscale(start, Z), _frequency(start, Z), _amplitude(start, Z))


def _phase(start: Start, Z: np.ndarray) -> AbstractKernel:
    if Z.shape[1] == 1:
        phase: Any = kernels.IntegratedPhase(_frequency(start, Z), Z[:, 0])
    else:
        omega = 2.0 * np.pi * np.mean(start.frequency, axis=0)
        bend = FunctionGroup(
            Z, 0.0, shape=omega.shape[:1], warp="identity", lengthscale=start.scale, mean_deviation=1e-3
        )
        phase = kernels.PlanePhase(Real(omega, Normal(omega, 2.0 / start.scale)), bend)
    return kernels.Phase(_lengthscale(start, Z), phase, _amplitude(start, Z))


def _harmonizable(start: Start, Z: np.ndarray) -> AbstractKernel:
    """A pattern around each of a few inducing inputs, with the frequencies that were found there."""
    few = Z[:: max(1, len(Z) // 6)]
    nearest = [int(np.argmin(np.sum(((start.centres - z) / start.scale) ** 2, axis=1))) for z in few]
    omega = 2.0 * np.pi * start.frequency[nearest]
    amplitude = start.amplitude[nearest]
    gap = [np.sort(np.sqrt(np.sum(((few - z) / start.scale) ** 2, axis=1)))[1:3].mean() for z in few]
    window = float(np.mean(gap)) * start.scale
    # Windows around all centres add up to this variance at a typical input.
    total = np.mean(np.sum(np.exp(-np.sum(((few[:, None] - few) / window) ** 2, axis=-1)), axis=1))
    return kernels.HarmonizableMixture(
        Real(few, Normal(few, 0.1 * start.scale)),
        Real(omega, Normal(omega, 2.0 / start.scale)),
        _positive(np.mean(start.lengthscale, axis=(0, 1))),
        _positive(window),
        Real(amplitude[:, :, None] * np.eye(omega.shape[1]) / np.sqrt(total), Normal(0.0, start.spread)),
    )


_BUILDERS = {
    "se": _squared_exponential,
    "nsq": _quadratic,
    "sm": _spectral_mixture,
    "gsm": _generalized,
    "hmk": _harmonizable,
    "convolutional": _convolutional,
    "chirplet": _chirplet,
    "phase": _phase,
}


def best_start(models: Sequence[Any], data: Any, *, steps: int = 100, key: Array, **options: Any) -> Fit:
    """Maximise each model for a few steps and keep the fit of the largest evidence (``laplace_evidence``).

    For models of the same data, such as one kernel from several starts or with several priors. ``options`` go to
    ``inference.maximise``. A start that fails numerically is left out.
    """
    if not models:
        raise ValueError("models must hold at least one model, got none")
    fits, failures = [], []
    for model in models:
        try:
            fit = maximise(model, data, steps=steps, key=key, **options)
            fits.append((laplace_evidence(fit.model, data, key=key, most=PRODUCTS), fit))
        except FloatingPointError as failure:
            failures.append(failure)
    if not fits:
        raise failures[0]
    return max(fits, key=lambda pair: pair[0])[1]
