"""Stationary kernels: covariance depends on the lag τ = x_i − x_j alone (times amplitudes, which may vary)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from .. import functions as fn
from .base import AbstractKernel, Characteristic


class StationaryLocal(NamedTuple):
    """Inputs ``[n, d]``, amplitudes ``[n, a]`` and the constants ``[n, a, d]`` that every input shares."""

    x: Array
    lengthscale: Array
    frequency: Array
    amplitude: Array


class SquaredExponential(AbstractKernel):
    """Squared exponential: Σ_a σ(x_i) σ(x_j) exp(−‖τ/ℓ‖²/2).

    In the family's form D = ‖τ/ℓ‖² and U = 0. Rasmussen & Williams (2006), Eq. 4.9.
    """

    lengthscale: fn.Parameter = eqx.field(converter=fn.as_constant_lengthscale)
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)

    def local(self, X: Array) -> StationaryLocal:
        values = fn.evaluate(self, X, lengthscale=fn.lengthscale, amplitude=fn.amplitude)
        return StationaryLocal(x=X, frequency=jnp.zeros_like(values["lengthscale"]), **values)

    def pair(self, p: StationaryLocal, q: StationaryLocal) -> Characteristic:
        return _stationary(p, q)


class SpectralMixture(AbstractKernel):
    """Spectral mixture: Σ_a σ(x_i) σ(x_j) exp(−‖τ/ℓ‖²/2) cos⟨ω, τ⟩.

    In the family's form D = ‖τ/ℓ‖² and U = ⟨ω, τ⟩. Wilson & Adams (2013), Eq. 12, for any number of input dimensions:
    a component's spectral density is a Gaussian with mean ω/2π and standard deviation 1/(2πℓ) cycles per input unit.
    """

    lengthscale: fn.Parameter = eqx.field(converter=fn.as_constant_lengthscale)
    frequency: fn.Parameter = eqx.field(converter=fn.as_constant_frequency)
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)

    def local(self, X: Array) -> StationaryLocal:
        values = fn.evaluate(self, X, lengthscale=fn.lengthscale, frequency=fn.frequency, amplitude=fn.amplitude)
        return StationaryLocal(x=X, **values)

    def pair(self, p: StationaryLocal, q: StationaryLocal) -> Characteristic:
        return _stationary(p, q)


def _stationary(p: StationaryLocal, q: StationaryLocal) -> Characteristic:
    tau = p.x - q.x
    D = jnp.sum((tau / p.lengthscale) ** 2, axis=-1)
    U = jnp.sum(p.frequency * tau, axis=-1)
    return Characteristic(p.amplitude * q.amplitude, D, U)
