"""Kernels that begin at the initial values found in data: one builder for each kernel that has a name.

A new kernel gets its name in ``choices.KERNELS`` and a builder here. Functions have log-normal priors around what was
found: their logarithms vary with a standard deviation of about 0.5 over about one standard deviation of the inputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from .. import kernels
from ..choices import KERNELS
from ..core import entry_point, inputs
from ..kernels import AbstractKernel
from ..parameters import FunctionGroup, Normal, Positive, Real
from .centres import inducing_inputs
from .initial import InitialValues

# The lengthscale at which oscillating components begin, in standard deviations of the inputs. With the right phase the
# whole signal is one coherent oscillation, and a short start ends in a poorer optimum; the other kernels lose coherence
# where the frequency changes (CSK), or shift their frequency with the lengthscale (chirplet).
COHERENCE = {"phase": 5.0, "chirplet": 0.3, "gsm": 1.0, "convolutional": 0.3, "hmk": 1.0}
VARIES = (0.05, 0.5)  # standard deviation of the logarithm of a frequency a priori, at least and at most
LATENT = (1.0, 0.7, 0.5, 0.35, 0.25)  # lengthscales tried for the functions, in standard deviations of the inputs

Builder: TypeAlias = Callable[[InitialValues, np.ndarray], AbstractKernel]  # initial values, inducing inputs [m, d]
_BUILDERS: dict[str, Builder] = {}


def builds(name: str) -> Callable[[Builder], Builder]:
    """Make a function the builder of the kernel with this name."""

    def register(builder: Builder) -> Builder:
        _BUILDERS[name] = builder
        return builder

    return register


def kernel_name(name: str, dimensions: int) -> str:
    """The name of a kernel, with that for so many input dimensions in the place of "auto"."""
    if name == "auto":
        return "convolutional" if dimensions > 1 else "phase"
    return name


def kernel_from(initial: InitialValues, name: str, *, n_knots: int = 30, seed: int = 0) -> AbstractKernel:
    """The kernel with a name, whose functions begin at what was found: frequencies at the ridges.

    Args:
        initial: What was found in the data.
        name: One of ``choices.KERNELS``.
        n_knots: Number of inducing inputs of its functions.
        seed: Of the inducing inputs in several dimensions.
    """
    name = kernel_name(name, initial.centres.shape[1])
    if name in KERNELS and name not in _BUILDERS:
        raise NotImplementedError(f"kernel {name!r} is in choices.KERNELS, but nothing builds it: see @builds")
    if name not in _BUILDERS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}")
    own = COHERENCE.get(name, 1.0) * initial.scale
    initial = dataclasses.replace(
        initial, lengthscale=np.where(np.isinf(initial.lengthscale), own, initial.lengthscale)
    )
    box = initial.extent if initial.centres.shape[1] == 1 else initial.centres
    return _BUILDERS[name](initial, inducing_inputs(box, n_knots, np.random.default_rng(seed)))


def noise_from(initial: InitialValues) -> Positive:
    """The standard deviation of the noise, as a parameter that begins at the ``initial`` values."""
    return Positive.around(initial.noise)


def _group(initial: InitialValues, Z: np.ndarray, values: np.ndarray) -> FunctionGroup:
    """Positive functions that follow values ``[c, ...]`` at the centres, loosely."""
    typical = np.exp(np.mean(np.log(values), axis=0))
    group = FunctionGroup(Z, typical, shape=typical.shape, lengthscale=initial.scale)
    return group.fitted_to(initial.centres, values, 0.5)


def _amplitude(initial: InitialValues, Z: np.ndarray) -> FunctionGroup:
    return _group(initial, Z, initial.amplitude)


def _lengthscale(initial: InitialValues, Z: np.ndarray) -> FunctionGroup:
    return _group(initial, Z, initial.lengthscale)


def _frequency(initial: InitialValues, Z: np.ndarray, cycles: np.ndarray | None = None) -> FunctionGroup:
    """ω(x): positive in one dimension, of any sign in several."""
    omega = 2.0 * np.pi * (initial.frequency if cycles is None else cycles)
    # Where the data say nothing the smoothness of the functions decides.
    std = (0.1 * np.sqrt(1.0 + 1.0 / np.maximum(initial.gain, 1e-6)))[..., None]
    if omega.shape[-1] > 1:
        amplitude = max(0.25 * float(np.sqrt(np.mean(omega**2))), 1e-3 / float(np.max(initial.scale)))
        typical = np.mean(omega, axis=0)
        prior = partial(FunctionGroup, warp="identity", lengthscale=initial.scale, amplitude=amplitude)
        group = prior(Z, typical, shape=typical.shape, mean_std=amplitude)
        return group.fitted_to(initial.centres, omega, std * amplitude)
    weight = std**-2
    typical = np.exp(np.sum(weight * np.log(omega), axis=0) / np.sum(weight, axis=0))
    # What varies little in the data hardly varies a priori either: else the optimum follows the noise.
    varies = np.sqrt(np.sum(weight * np.log(omega / typical) ** 2) / np.sum(weight))
    amplitude = float(np.clip(1.5 * varies, *VARIES))
    smooth = initial.smoothness * initial.scale
    group = FunctionGroup(Z, typical, shape=typical.shape, lengthscale=smooth, amplitude=amplitude)
    best, largest = group, -np.inf
    for factor in LATENT:
        raw = group.lengthscale.raw + np.log(factor)
        trial = eqx.tree_at(lambda g: g.lengthscale.raw, group, raw).fitted_to(initial.centres, omega, std)
        misfit = (np.log(_values(trial, initial.centres)) - np.log(omega)) / std
        # The mode's log density: a quick stand-in for the marginal likelihood of this lengthscale.
        value = -0.5 * float(np.sum(misfit**2) + np.sum(trial.whitened.raw**2)) - 0.5 * (np.log(factor) / 0.3) ** 2
        if value > largest:
            best, largest = trial, value
    return best


@entry_point
@eqx.filter_jit
def _values(group: FunctionGroup, X: ArrayLike) -> Any:
    return group(inputs(X))


@builds("sm")
def _spectral_mixture(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    del Z
    peaks, resolution = initial.spectrum, 0.5 / np.maximum(initial.extent[1] - initial.extent[0], 1e-300)
    omega = 2.0 * np.pi * peaks.frequency
    frequency: Any = Real(omega, Normal(omega, 2.0 * np.pi * np.maximum(peaks.bandwidth, resolution)))
    amplitude = np.maximum(peaks.amplitude, 0.1 * initial.spread)
    return kernels.SpectralMixture(
        Positive.around(1.0 / (2.0 * np.pi * peaks.bandwidth)), frequency, Positive.around(amplitude)
    )


@builds("se")
def _squared_exponential(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    del Z
    amplitude = max(initial.spread**2 - initial.noise**2, 0.1 * initial.spread**2) ** 0.5
    return kernels.SquaredExponential(Positive.around(initial.smooth_lengthscale), Positive.around(amplitude))


@builds("nsq")
def _quadratic(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    shape = (len(initial.centres), 1, Z.shape[1])
    lengthscale = np.broadcast_to(initial.smooth_lengthscale / np.sqrt(2.0), shape)
    return kernels.NonstationaryQuadratic(
        _group(initial, Z, lengthscale), _group(initial, Z, np.full(shape[:2], initial.spread))
    )


@builds("gsm")
def _generalized(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    """GSM's local frequency in one dimension is (x ω(x))′, so ω(x) = (1/x) ∫₀ˣ of the frequency that was found."""
    cycles = initial.frequency
    if Z.shape[1] == 1:
        x = initial.centres[:, 0]
        # Gauss–Legendre on [0, x]: the mean of the frequency between the origin and x.
        nodes, weights = np.polynomial.legendre.leggauss(32)
        places = x[:, None] * 0.5 * (1.0 + nodes)
        means = [np.interp(places, x, column) @ (0.5 * weights) for column in cycles[..., 0].T]
        cycles = np.column_stack(means)[..., None]
    return kernels.GeneralizedSpectralMixture(
        _lengthscale(initial, Z), _frequency(initial, Z, cycles), _amplitude(initial, Z)
    )


@builds("convolutional")
def _convolutional(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    return kernels.ConvolutionalSpectral(_lengthscale(initial, Z), _frequency(initial, Z), _amplitude(initial, Z))


@builds("chirplet")
def _chirplet(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    return kernels.Chirplet(_lengthscale(initial, Z), _frequency(initial, Z), _amplitude(initial, Z))


@builds("phase")
def _phase(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    if Z.shape[1] == 1:
        phase: Any = kernels.IntegratedPhase(_frequency(initial, Z), Z[:, 0])
    else:
        omega = 2.0 * np.pi * np.mean(initial.frequency, axis=0)
        bend = FunctionGroup(Z, 0.0, shape=omega.shape[:1], warp="identity", lengthscale=initial.scale, mean_std=1e-3)
        phase = kernels.PlanePhase(Real(omega, Normal(omega, 2.0 / initial.scale)), bend)
    return kernels.Phase(_lengthscale(initial, Z), phase, _amplitude(initial, Z))


@builds("hmk")
def _harmonizable(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    """A pattern around each of a few inducing inputs, with the frequencies that were found there."""
    few = Z[:: max(1, len(Z) // 6)]
    nearest = [int(np.argmin(np.sum(((initial.centres - z) / initial.scale) ** 2, axis=1))) for z in few]
    omega = 2.0 * np.pi * initial.frequency[nearest]
    amplitude = initial.amplitude[nearest]
    gap = [np.sort(np.sqrt(np.sum(((few - z) / initial.scale) ** 2, axis=1)))[1:3].mean() for z in few]
    window = float(np.mean(gap)) * initial.scale
    # Windows around all centres add up to this variance at a typical input.
    total = np.mean(np.sum(np.exp(-np.sum(((few[:, None] - few) / window) ** 2, axis=-1)), axis=1))
    return kernels.HarmonizableMixture(
        Real(few, Normal(few, 0.1 * initial.scale)),
        Real(omega, Normal(omega, 2.0 / initial.scale)),
        Positive.around(np.mean(initial.lengthscale, axis=(0, 1))),
        Positive.around(window),
        Real(amplitude[:, :, None] * np.eye(omega.shape[1]) / np.sqrt(total), Normal(0.0, initial.spread)),
    )
