"""Markov models that begin at the initial values found in data."""

from __future__ import annotations

import numpy as np

from ..kernels import IntegratedPhase, MaternPhase, WarpedTime
from ..models import MarkovGP
from ..parameters import GridFunctionGroup
from .initial import InitialValues
from .kernels import VARIES, noise_from

KNOTS = 40  # of the frequencies of a short signal, of whatever lengthscale
SHORTEST = 23.0  # so many lengthscales in the span are the most that these knots can follow
COHERENCE = 5.0  # lengthscale at which oscillations begin, in standard deviations of the inputs


def markov_from(initial: InitialValues, smoothness: float, *, order: float = 1.5) -> MarkovGP:
    """The phase model with Matérn envelopes whose functions begin at what was found.

    Args:
        initial: What was found in the data, of one input.
        smoothness: Lengthscale of the frequencies a priori, in units of the input.
        order: ν of the envelopes.
    """
    extent = initial.extent[0, 0], initial.extent[1, 0]
    if not extent[0] < extent[1]:
        extent = extent[0], extent[0] + 1.0
    scale = float(initial.scale[0])
    omega, std = frequencies(initial)
    typical, varies = centre(omega, std)
    frequency = GridFunctionGroup(
        extent,
        typical,
        shape=typical.shape,
        lengthscale=smoothness,
        amplitude=float(np.clip(1.5 * varies, *VARIES)),
        lengthscale_std=0.0,
        knots=KNOTS,
    ).fitted_to(initial.centres, omega, std)
    return MarkovGP(
        MaternPhase(
            WarpedTime(_slow(initial, extent, np.where(np.isinf(initial.lengthscale), COHERENCE * scale, initial.lengthscale))),
            IntegratedPhase(frequency),
            _slow(initial, extent, initial.amplitude),
            order=order,
        ),
        noise_from(initial),
    )


def frequencies(initial: InitialValues) -> tuple[np.ndarray, np.ndarray]:
    """Angular frequencies ``[c, a, 1]`` at the centres, and how uncertain their logarithms are."""
    # Where the data say nothing the smoothness of the functions decides.
    std = (0.1 * np.sqrt(1.0 + 1.0 / np.maximum(initial.gain, 1e-6)))[..., None]
    return 2.0 * np.pi * initial.frequency, std


def centre(omega: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, float]:
    """Typical frequencies ``[a, 1]``, and how much all of them vary around these, in their logarithm."""
    weight = std**-2.0
    typical = np.exp(np.sum(weight * np.log(omega), axis=0) / np.sum(weight, axis=0))
    return typical, float(np.sqrt(np.sum(weight * np.log(omega / typical) ** 2) / np.sum(weight)))


def _slow(initial: InitialValues, extent: tuple[float, float], values: np.ndarray) -> GridFunctionGroup:
    """Positive functions that follow values ``[c, ...]`` at the centres, loosely."""
    typical = np.exp(np.mean(np.log(values), axis=0))
    # Nothing longer than the data is asked of them, so that few knots are enough.
    scale = float(initial.scale[0])
    count = int(np.ceil((extent[1] - extent[0]) / scale / 0.75)) + 9
    group = GridFunctionGroup(
        extent, typical, shape=typical.shape, lengthscale=scale, lengthscale_std=0.0, knots=max(count, 14)
    )
    return group.fitted_to(initial.centres, values, 0.5)
