"""Stationary kernels: covariance depends on the lag τ = x_i − x_j alone (times amplitudes, which may vary)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from .. import functions as fn
from . import pairwise
from .base import AbstractMixture, Characteristic


class QuadraticLocal(NamedTuple):
    """Inputs ``[n, d]``, lengthscales ``[n, a, d]`` and amplitudes ``[n, a]``: a kernel without frequencies."""

    x: Array
    lengthscale: Array
    amplitude: Array


class SpectralLocal(NamedTuple):
    """Inputs ``[n, d]``, lengthscales and frequencies ``[n, a, d]``, amplitudes ``[n, a]``."""

    x: Array
    lengthscale: Array
    frequency: Array
    amplitude: Array


class SquaredExponential(AbstractMixture):
    """Squared exponential: Σ_a σ(x_i) σ(x_j) exp(−‖τ/ℓ‖²/2).

    In the family's form D = ‖τ/ℓ‖² and U = 0. Rasmussen & Williams (2006), Eq. 4.9.
    """

    lengthscale: fn.Parameter = eqx.field(converter=fn.as_constant_lengthscale)
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)

    def local(self, X: Array) -> QuadraticLocal:
        return QuadraticLocal(x=X, **fn.evaluate(self, X, lengthscale=fn.lengthscale, amplitude=fn.amplitude))

    def pair(self, p: QuadraticLocal, q: QuadraticLocal) -> Characteristic:
        D = jnp.sum(((p.x - q.x) / p.lengthscale) ** 2, axis=-1)
        return Characteristic(p.amplitude * q.amplitude, D, jnp.zeros_like(D))

    def cross(self, p: QuadraticLocal, q: QuadraticLocal) -> Array:
        return pairwise.stationary_cross(pairwise.Window(**p._asdict()), pairwise.Window(**q._asdict()))


class SpectralMixture(AbstractMixture):
    """Spectral mixture: Σ_a σ(x_i) σ(x_j) exp(−‖τ/ℓ‖²/2) cos⟨ω, τ⟩.

    In the family's form D = ‖τ/ℓ‖² and U = ⟨ω, τ⟩. Wilson & Adams (2013); in several dimensions a
    plane wave, the cosine of ⟨ω, τ⟩. A component's spectral density is a Gaussian with mean ω/2π and standard deviation
    1/(2πℓ) cycles per input unit.
    """

    lengthscale: fn.Parameter = eqx.field(converter=fn.as_constant_lengthscale)
    frequency: fn.Parameter = eqx.field(converter=fn.as_constant_frequency)
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)

    def local(self, X: Array) -> SpectralLocal:
        values = fn.evaluate(self, X, lengthscale=fn.lengthscale, frequency=fn.frequency, amplitude=fn.amplitude)
        return SpectralLocal(x=X, **values)

    def pair(self, p: SpectralLocal, q: SpectralLocal) -> Characteristic:
        tau = p.x - q.x
        D = jnp.sum((tau / p.lengthscale) ** 2, axis=-1)
        return Characteristic(p.amplitude * q.amplitude, D, jnp.sum(p.frequency * tau, axis=-1))

    def cross(self, p: SpectralLocal, q: SpectralLocal) -> Array:
        return pairwise.stationary_cross(pairwise.Window(**p._asdict()), pairwise.Window(**q._asdict()))
