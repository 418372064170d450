"""The phase kernel: frequency as the gradient of a phase function."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
from jax import Array

from .. import functions as fn
from . import pairwise
from .base import AbstractMixture, Characteristic
from .nonstationary import overlap


class PhaseLocal(NamedTuple):
    """Inputs ``[n, d]``, lengthscales ``[n, a, d]``, phases and amplitudes ``[n, a]``."""

    x: Array
    lengthscale: Array
    phase: Array
    amplitude: Array


class Phase(AbstractMixture):
    """Phase kernel: Σ_a σ(x_i) σ(x_j) ρ_ij exp(−Q_ij/2) cos(φ(x_i) − φ(x_j)).

    The local frequency is exactly ∇φ and Λ = ½Σ⁻¹: unbiased in frequency and lengthscale. ``phase`` is a callable with
    values ``[n]`` or ``[n, a]``, in radians. In one dimension φ = ∫ω for a frequency ω(x). Beyond the paper.
    """

    lengthscale: fn.Parameter = eqx.field(converter=fn.as_lengthscale)
    phase: fn.Function
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)

    def __check_init__(self) -> None:
        if not callable(self.phase):
            raise TypeError(f"phase must be a callable of inputs [n, d], got {type(self.phase).__name__}")

    def local(self, X: Array) -> PhaseLocal:
        return PhaseLocal(
            x=X, **fn.evaluate(self, X, lengthscale=fn.lengthscale, phase=fn.phase, amplitude=fn.amplitude)
        )

    def pair(self, p: PhaseLocal, q: PhaseLocal) -> Characteristic:
        rho, Q = overlap(p.x, p.lengthscale, q.x, q.lengthscale)
        return Characteristic(p.amplitude * q.amplitude * rho, Q, p.phase - q.phase)

    def cross(self, p: PhaseLocal, q: PhaseLocal) -> Array:
        left, right = (pairwise.Window(s.x, s.lengthscale, s.amplitude, angle=s.phase) for s in (p, q))
        return pairwise.windowed_cross(left, right)
