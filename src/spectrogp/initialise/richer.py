"""Kernels of several inputs that begin where simpler ones ended: from a squared exponential to functions of the input.

Functions vary along the inputs that matter to the squared exponential, over as much of them as the data cover, however
many other inputs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from .. import kernels
from ..kernels import AbstractKernel
from ..parameters import FunctionGroup, LogNormal, Normal, Positive, Real, constrain
from .centres import cluster_centres
from .cycles import Cycle
from .initial import InitialValues

SOME = 10_000  # rows whose clusters are the inducing inputs of functions
COMPONENTS = 3  # of the convolutional kernel, at most, where waves in the data do not say otherwise
FIELDS = 40  # components times inputs, at most, likewise: the time of a step grows with both
WAVE = 0.15  # share of the variance of a plane wave that a component begins at
COHERENT = 1.5  # lengthscale along its input at which a cycle begins, in ranges of the input
FURTHER = 0.3  # share of the variance that a further smooth component begins with
FINER = 3.0  # how much shorter, or longer, than those before it its lengthscales may begin
FREED = 3  # inputs, at most, along which it may begin as good as constant
LEARNED = 1.0  # standard deviation of the logarithm of the lengthscale of functions, a priori


def smooth_kernel(dimensions: int) -> AbstractKernel:
    """The squared exponential that a ladder begins with, of standardised data.

    Lengthscales begin at the typical distance of two rows, √d, under a wide prior: inputs that do not matter are left
    with long ones, which switch them off.

    Args:
        dimensions: How many inputs.
    """
    typical = np.full(dimensions, np.sqrt(dimensions))
    return kernels.SquaredExponential(Positive(typical, LogNormal(typical, 2.0)), Positive.around(1.0))


def usual_components(dimensions: int) -> int:
    """How many components a kernel of so many inputs has, where the data do not say otherwise.

    Args:
        dimensions: How many inputs.
    """
    return int(np.clip(FIELDS // dimensions, 1, COMPONENTS))


def further_scales(kernel: AbstractKernel, X: np.ndarray) -> list[AbstractKernel]:
    """The same kernel with one more smooth component, in each of the ways in which it may begin.

    Its lengthscales begin at those of the first component, all of them shorter or longer, or one of them so long that
    what happens along the other inputs stays along this one: the month of all places, the place in all months.

    Args:
        kernel: A fitted squared exponential, or a sum of some, alone or beside cycles.
        X: Inputs ``[n, d]``.
    """
    smooth = _smooth(kernel)
    first, spread = smooth.lengthscale[0], X.std(axis=0)
    matters = np.where(spread > first, spread / first, 0.0)
    begun = [first / FINER, first * FINER]
    for axis in np.argsort(-matters)[: min(FREED, int(np.sum(matters > 0)))]:
        freed = first.copy()
        freed[axis] = FINER * spread[axis]
        begun.append(freed)
    amplitude = np.append(np.sqrt(1.0 - FURTHER) * smooth.amplitude, np.sqrt(FURTHER) * smooth.total)
    cycles = kernel.terms[1:] if isinstance(kernel, kernels.Sum) else ()

    def with_further(lengthscale: np.ndarray) -> AbstractKernel:
        every = np.vstack([smooth.lengthscale, lengthscale])
        wide = Positive(every, LogNormal(every, 1.0))
        mixture = kernels.SpectralMixture(wide, np.zeros(every.shape), Positive.around(amplitude))
        return kernels.Sum(mixture, *cycles) if cycles else mixture

    return [with_further(lengthscale) for lengthscale in begun]


def with_cycles(kernel: AbstractKernel, cycles: Sequence[Cycle], X: np.ndarray) -> AbstractKernel:
    """A smooth kernel with a component for each cycle beside it.

    Along the other inputs a cycle begins twice as smooth as the function that it was found beside.

    Args:
        kernel: A fitted squared exponential, or a sum of some.
        cycles: What was found in what it leaves over.
        X: Inputs ``[n, d]``.
    """
    lengthscale = np.tile(2.0 * _smooth(kernel).average, (len(cycles), 1))
    frequency, resolution = np.zeros(lengthscale.shape), np.zeros(lengthscale.shape)
    for row, cycle in enumerate(cycles):
        span = float(np.ptp(X[:, cycle.axis]))
        lengthscale[row, cycle.axis] = COHERENT * span
        frequency[row, cycle.axis], resolution[row, cycle.axis] = 2.0 * np.pi * cycle.frequency, 1.0 / span
    amplitude = np.array([cycle.amplitude for cycle in cycles])
    # Along the other inputs frequencies stay at zero, where their gradient is zero.
    moving: Any = Real(frequency, Normal(frequency, np.where(resolution > 0, resolution, 1.0)))
    return kernel + kernels.SpectralMixture(Positive.around(lengthscale), moving, Positive.around(amplitude))


class Places(NamedTuple):
    """Where functions of the input have their values, and how far they reach: ``Z [m, d]``, ``lengthscale [d]``."""

    Z: np.ndarray
    lengthscale: np.ndarray

    @classmethod
    def of(cls, kernel: AbstractKernel, X: np.ndarray, count: int, seed: int) -> Places:
        """From a smooth kernel (alone or beside cycles), inputs, and the number of places.

        An input matters by r = min(1, std/ℓ), and functions reach √(Σ r²) standard deviations over r along it: as far
        as the inputs scatter, along those that matter. The places are centres of clusters in these units.

        Args:
            kernel: A fitted squared exponential, alone or beside cycles.
            X: Inputs ``[n, d]``.
            count: How many places.
            seed: Of the rows whose clusters they are.
        """
        lengthscale = _smooth(kernel).average
        rows = np.random.default_rng(seed).permutation(len(X))[:SOME]
        std = X[rows].std(axis=0)
        matters = np.minimum(1.0, std / lengthscale)
        # A constant input has neither a spread nor a say.
        unit = np.where(std > 0, std / np.maximum(matters, 1e-300), lengthscale)
        reach = max(float(np.sqrt(np.sum(matters**2))), 1e-6) * unit
        return cls.spread(X, reach, count, seed)

    @classmethod
    def spread(cls, X: np.ndarray, reach: np.ndarray, count: int, seed: int) -> Places:
        """Centres of clusters, in units of how far functions reach: few along inputs where they reach far.

        Args:
            X: Inputs ``[n, d]``.
            reach: How far functions reach along each, ``[d]``.
            count: How many places.
            seed: Of the rows whose clusters they are.
        """
        scaled = X[np.random.default_rng(seed).permutation(len(X))[:SOME]] / reach
        distinct = np.unique(scaled, axis=0)
        Z = distinct if len(distinct) <= count else cluster_centres(scaled, count, seed)
        return cls(Z * reach, reach)

    def function(self, initial: Any, **options: Any) -> FunctionGroup:
        """Functions that begin at a constant value, and whose lengthscales are learned.

        Args:
            initial: That value.
            options: Others of ``FunctionGroup``.
        """
        return FunctionGroup(self.Z, initial, lengthscale=self.lengthscale, lengthscale_std=LEARNED, **options)


def noise_function(noise: Any, places: Places) -> FunctionGroup:
    """Noise as a function, from a fitted number.

    Args:
        noise: The parameter that was fitted.
        places: Where the function has its values.
    """
    return places.function(float(constrain(noise)))


def amplitudes_from(kernel: AbstractKernel, places: Places) -> AbstractKernel:
    """The same kernel with amplitudes that are functions, and begin where they are.

    Args:
        kernel: A fitted smooth kernel, alone or beside cycles.
        places: Where functions have their values.
    """
    fitted = _first(kernel)
    return _beside(eqx.tree_at(lambda k: k.amplitude, fitted, _varying(fitted, places)), kernel, places)


def quadratic_from(kernel: AbstractKernel, places: Places) -> AbstractKernel:
    """The non-stationary quadratic kernel that begins at a smooth one, with the cycles beside it.

    Args:
        kernel: A fitted smooth kernel, alone or beside cycles.
        places: Where functions have their values.
    """
    smooth = _smooth(kernel)
    # Two equal windows of width ℓ/√2 overlap as a squared exponential of lengthscale ℓ does.
    windows = places.function(smooth.lengthscale / np.sqrt(2.0), shape=smooth.lengthscale.shape)
    rich = kernels.NonstationaryQuadratic(windows, _varying(_first(kernel), places))
    return _beside(rich, kernel, places)


def convolutional_from(
    kernel: AbstractKernel, initial: InitialValues, places: Places, components: int | None, seed: int
) -> AbstractKernel:
    """The convolutional kernel that begins near a smooth one, with the cycles beside it.

    Its components begin at those of the smooth kernel. Where it has more of them, the others begin at plane waves that
    were found in the data, if these are strong, or at frequencies drawn from the spectrum of the smooth kernel.

    Args:
        kernel: A fitted smooth kernel, alone or beside cycles.
        initial: What was found in the data.
        places: Where functions have their values.
        components: Their number, or None.
        seed: Of the frequencies.
    """
    smooth = _smooth(kernel)
    scales, d = smooth.lengthscale.shape
    waves = initial.spectrum
    strong = waves.amplitude**2 > WAVE * initial.spread**2
    found = 2.0 * np.pi * waves.frequency[strong]
    count = max(usual_components(d), scales + len(found)) if components is None else components
    of = np.arange(count) % scales  # the smooth component that each begins at
    frequency = np.random.default_rng(seed).normal(size=(count, d)) / smooth.lengthscale[of]
    frequency[:scales] *= 0.2  # not zero: there the gradient is zero
    taken = max(min(len(found), count - scales), 0)
    frequency[scales : scales + taken] = found[:taken]
    copies = np.bincount(of)[of]
    amplitude = smooth.amplitude[of] / np.sqrt(copies)
    amplitude[scales : scales + taken] = waves.amplitude[strong][:taken]
    # Windows overlap as a squared exponential of √2 times their width; waves of several frequencies sum to less.
    windows = np.where(copies > 1, 1.5, 1.0)[:, None] / np.sqrt(2.0) * smooth.lengthscale[of]
    size = float(np.sqrt(np.mean(frequency**2)))
    turning = partial(places.function, shape=frequency.shape, warp="identity", amplitude=0.25 * size, mean_std=size)
    rich = kernels.ConvolutionalSpectral(
        places.function(windows, shape=windows.shape),
        turning(frequency),
        _varying(_first(kernel), places) if count == scales else places.function(amplitude, shape=amplitude.shape),
    )
    return _beside(rich, kernel, places)


class _Smooth(NamedTuple):
    """Components of a sum of squared exponentials."""

    lengthscale: np.ndarray  # [a, d]
    amplitude: np.ndarray  # [a]

    @property
    def total(self) -> float:
        """Standard deviation of all together."""
        return float(np.sqrt(np.sum(self.amplitude**2)))

    @property
    def average(self) -> np.ndarray:
        """Lengthscales [d] of the squared exponential that is as curved at lag zero."""
        share = self.amplitude**2 / self.total**2
        return np.asarray((share @ self.lengthscale**-2.0) ** -0.5)


def _first(kernel: AbstractKernel) -> Any:
    """The smooth part of a kernel, which comes first where there are cycles beside it."""
    return kernel.terms[0] if isinstance(kernel, kernels.Sum) else kernel


def _smooth(kernel: AbstractKernel) -> _Smooth:
    """The fitted smooth part of a kernel."""
    found = _first(kernel)
    return _Smooth(np.atleast_2d(np.asarray(constrain(found.lengthscale), np.float64)), _amplitudes(found))


def _amplitudes(fitted: Any) -> np.ndarray:
    """Fitted amplitudes of components ``[a]``; of functions, the median value a priori."""
    if isinstance(fitted.amplitude, FunctionGroup):
        return np.exp(np.asarray(constrain(fitted.amplitude.mean), np.float64))
    return np.atleast_1d(np.asarray(constrain(fitted.amplitude), np.float64))


def _varying(fitted: Any, places: Places) -> FunctionGroup:
    """Amplitudes as functions that begin where the fitted ones are."""
    if isinstance(fitted.amplitude, FunctionGroup):
        return fitted.amplitude
    amplitude = _amplitudes(fitted)
    return places.function(amplitude, shape=amplitude.shape)


def _beside(rich: AbstractKernel, kernel: AbstractKernel, places: Places) -> AbstractKernel:
    """With the cycles of a kernel, whose amplitudes become functions."""
    if not isinstance(kernel, kernels.Sum):
        return rich
    cycles: Any = kernel.terms[1]
    return rich + kernels.SpectralMixture(cycles.lengthscale, cycles.frequency, _varying(cycles, places))
