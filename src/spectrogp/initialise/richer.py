"""Kernels of several inputs that begin where simpler ones ended: from a squared exponential to functions of the input.

Functions vary along the inputs that matter to the squared exponential, over as much of them as the data cover, however
many other inputs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

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


def smooth_kernel(dimensions: int) -> AbstractKernel:
    """The squared exponential that a ladder begins with, of standardised data.

    Lengthscales begin at the typical distance of two rows, √d, under a wide prior: inputs that do not matter are left
    with long ones, which switch them off.

    Args:
        dimensions: How many inputs.
    """
    typical = np.full(dimensions, np.sqrt(dimensions))
    return kernels.SquaredExponential(Positive(typical, LogNormal(typical, 2.0)), Positive.around(1.0))


def with_cycles(kernel: AbstractKernel, cycles: Sequence[Cycle], X: np.ndarray) -> AbstractKernel:
    """A squared ``exponential`` with a component for each cycle beside it.

    Along the other inputs a cycle begins twice as smooth as the function that it was found beside.

    Args:
        kernel: A fitted squared exponential.
        cycles: What was found in what it leaves over.
        X: Inputs ``[n, d]``.
    """
    lengthscale = np.tile(2.0 * _smooth(kernel).lengthscale, (len(cycles), 1))
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
        """From a squared exponential (alone or beside cycles), inputs, and the number of places.

        An input matters by r = min(1, std/ℓ), and functions reach √(Σ r²) standard deviations over r along it: as far
        as the inputs scatter, along those that matter. The places are centres of clusters in these units.

        Args:
            kernel: A fitted squared exponential, alone or beside cycles.
            X: Inputs ``[n, d]``.
            count: How many places.
            seed: Of the rows whose clusters they are.
        """
        lengthscale = _smooth(kernel).lengthscale
        rows = np.random.default_rng(seed).permutation(len(X))[:SOME]
        std = X[rows].std(axis=0)
        matters = np.minimum(1.0, std / lengthscale)
        # A constant input has neither a spread nor a say.
        unit = np.where(std > 0, std / np.maximum(matters, 1e-300), lengthscale)
        reach = max(float(np.sqrt(np.sum(matters**2))), 1e-6) * unit
        scaled = X[rows] / reach
        distinct = np.unique(scaled, axis=0)
        Z = distinct if len(distinct) <= count else cluster_centres(scaled, count, seed)
        return cls(Z * reach, reach)

    def function(self, initial: Any, **options: Any) -> FunctionGroup:
        """Functions that begin at a constant value.

        Args:
            initial: That value.
            options: Others of ``FunctionGroup``.
        """
        return FunctionGroup(self.Z, initial, lengthscale=self.lengthscale, **options)


def noise_function(noise: Any, places: Places) -> FunctionGroup:
    """Noise as a function, from a fitted number.

    Args:
        noise: The parameter that was fitted.
        places: Where the function has its values.
    """
    return places.function(float(constrain(noise)))


def quadratic_from(kernel: AbstractKernel, places: Places) -> AbstractKernel:
    """The non-stationary quadratic kernel that begins at a squared exponential, with the cycles beside it.

    Args:
        kernel: A fitted squared exponential, alone or beside cycles.
        places: Where functions have their values.
    """
    smooth = _smooth(kernel)
    # Two equal windows of width ℓ/√2 overlap as a squared exponential of lengthscale ℓ does.
    windows = places.function(smooth.lengthscale[None] / np.sqrt(2.0), shape=(1, len(smooth.lengthscale)))
    rich = kernels.NonstationaryQuadratic(windows, places.function([smooth.amplitude], shape=(1,)))
    return _beside(rich, kernel, places)


def convolutional_from(
    kernel: AbstractKernel, initial: InitialValues, places: Places, components: int | None, seed: int
) -> AbstractKernel:
    """The convolutional kernel that begins near a squared exponential, with the cycles beside it.

    Its components begin at the same lengthscales, one of them slow; the others at plane waves that were found in the
    data, if these are strong, or at frequencies drawn from the spectrum of the squared exponential.

    Args:
        kernel: A fitted squared exponential, alone or beside cycles.
        initial: What was found in the data.
        places: Where functions have their values.
        components: Their number, or None.
        seed: Of the frequencies.
    """
    smooth = _smooth(kernel)
    d = len(smooth.lengthscale)
    waves = initial.spectrum
    strong = waves.amplitude**2 > WAVE * initial.spread**2
    found = 2.0 * np.pi * waves.frequency[strong]
    usual = int(np.clip(FIELDS // d, 1, COMPONENTS))
    count = max(usual, 1 + len(found)) if components is None else components
    frequency = np.random.default_rng(seed).normal(size=(count, d)) / smooth.lengthscale
    frequency[0] *= 0.2  # not zero: there the gradient is zero
    taken = min(len(found), count - 1)
    frequency[1 : 1 + taken] = found[:taken]
    amplitude = np.full(count, smooth.amplitude / np.sqrt(count))
    amplitude[1 : 1 + taken] = waves.amplitude[strong][:taken]
    windows = np.tile(1.5 / np.sqrt(2.0) * smooth.lengthscale, (count, 1))
    size = float(np.sqrt(np.mean(frequency**2)))
    turning = partial(places.function, shape=frequency.shape, warp="identity", amplitude=0.25 * size, mean_std=size)
    rich = kernels.ConvolutionalSpectral(
        places.function(windows, shape=windows.shape),
        turning(frequency),
        places.function(amplitude, shape=amplitude.shape),
    )
    return _beside(rich, kernel, places)


class _Smooth(NamedTuple):
    lengthscale: np.ndarray  # [d]
    amplitude: float


def _smooth(kernel: AbstractKernel) -> _Smooth:
    """The fitted squared exponential of a kernel, which comes first where there are cycles beside it."""
    found: Any = constrain(kernel.terms[0] if isinstance(kernel, kernels.Sum) else kernel)
    return _Smooth(np.asarray(found.lengthscale, np.float64), float(found.amplitude))


def _beside(rich: AbstractKernel, kernel: AbstractKernel, places: Places) -> AbstractKernel:
    """With the cycles of a kernel, whose amplitudes become functions."""
    if not isinstance(kernel, kernels.Sum):
        return rich
    cycles: Any = kernel.terms[1]
    amplitude = np.asarray(constrain(cycles.amplitude))
    varying = places.function(amplitude, shape=amplitude.shape)
    return rich + kernels.SpectralMixture(cycles.lengthscale, cycles.frequency, varying)
