"""Stationary kernels: covariance depends on the lag τ = x_i − x_j alone (times amplitudes, which may vary)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from ..parameters import Parameter, scalar, vector
from . import pairwise
from .base import AbstractMixture, Characteristic, Local


class SquaredExponential(AbstractMixture):
    """Squared exponential: Σ_a σ(x_i) σ(x_j) exp(−‖τ/ℓ‖²/2).

    In the family's form D = ‖τ/ℓ‖² and U = 0. Rasmussen & Williams (2006), Eq. 4.9.

    Args:
        lengthscale: ℓ, in units of the input: a number, ``[d]`` or ``[a, d]`` for a components, a ``Positive`` to be
            fitted.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
    """

    lengthscale: Parameter = vector(positive=True, constant=True, unit="x")
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)

    def pair(self, p: Local, q: Local) -> Characteristic:
        D = jnp.sum(((p.x - q.x) / p.lengthscale) ** 2, axis=-1)
        return Characteristic(p.amplitude * q.amplitude, D, jnp.zeros_like(D))

    def cross(self, p: Local, q: Local) -> Array:
        return pairwise.stationary_cross(pairwise.Window(**vars(p)), pairwise.Window(**vars(q)))


class SpectralMixture(AbstractMixture):
    """Spectral mixture: Σ_a σ(x_i) σ(x_j) exp(−‖τ/ℓ‖²/2) cos⟨ω, τ⟩.

    In the family's form D = ‖τ/ℓ‖² and U = ⟨ω, τ⟩. Wilson & Adams (2013); in several dimensions a
    plane wave, the cosine of ⟨ω, τ⟩. A component's spectral density is a Gaussian with mean ω/2π and standard deviation
    1/(2πℓ) cycles per input unit.

    Args:
        lengthscale: ℓ, in units of the input: a number, ``[d]`` or ``[a, d]`` for a components, a ``Positive`` to be
            fitted.
        frequency: ω, *angular* (2π times cycles per unit of the input), shaped likewise; a ``Real`` to be fitted.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> k = sg.kernels.SpectralMixture(lengthscale=1.0, frequency=2 * np.pi)  # one cycle per unit
        >>> k([0.0, 0.5, 1.0]).round(2)
        array([[ 1.  , -0.88,  0.61],
               [-0.88,  1.  , -0.88],
               [ 0.61, -0.88,  1.  ]])
    """

    lengthscale: Parameter = vector(positive=True, constant=True, unit="x")
    frequency: Parameter = vector(unit="rad/x", constant=True)
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)

    def pair(self, p: Local, q: Local) -> Characteristic:
        tau = p.x - q.x
        D = jnp.sum((tau / p.lengthscale) ** 2, axis=-1)
        return Characteristic(p.amplitude * q.amplitude, D, jnp.sum(p.frequency * tau, axis=-1))

    def cross(self, p: Local, q: Local) -> Array:
        return pairwise.stationary_cross(pairwise.Window(**vars(p)), pairwise.Window(**vars(q)))
