"""The phase kernel: frequency as the gradient of a phase function."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core import Module
from ..parameters import Function, GridFunctionGroup, OnGrid, Parameter, constrain, scalar, vector
from . import pairwise
from .base import AbstractMixture, Characteristic, Local
from .nonstationary import overlap


class Phase(AbstractMixture):
    """Phase kernel: Σ_a σ(x_i) σ(x_j) ρ_ij exp(−Q_ij/2) cos(φ(x_i) − φ(x_j)).

    The local frequency is exactly ∇φ and Λ = ½Σ⁻¹: unbiased in frequency and lengthscale. In one dimension φ = ∫ω for a
    frequency ω(x) (``IntegratedPhase``). Beyond the paper.

    Args:
        lengthscale: ℓ, in units of the input: a number, ``[d]`` or ``[a, d]`` for a components, a ``Positive`` to be
            fitted, or a function of the input (a callable with values ``[n, d]`` or ``[n, a, d]``, or a
            ``FunctionGroup``).
        phase: φ, in radians: a callable of inputs with values ``[n]`` or ``[n, a]``.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
    """

    lengthscale: Parameter = vector(positive=True, unit="x")
    phase: Function = scalar(varying=True, unit="rad")
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)

    def pair(self, p: Local, q: Local) -> Characteristic:
        rho, Q = overlap(p.x, p.lengthscale, q.x, q.lengthscale)
        return Characteristic(p.amplitude * q.amplitude * rho, Q, p.phase - q.phase)

    def cross(self, p: Local, q: Local) -> Array:
        left, right = (pairwise.Window(s.x, s.lengthscale, s.amplitude, angle=s.phase) for s in (p, q))
        return pairwise.windowed_cross(left, right)


class IntegratedPhase(Module):
    """φ(x) = ∫ω over one input dimension, as the phase of a kernel: values ``[n, a]``.

    Functions on a grid know their integral. Of others Gauss–Legendre sums over the cells between the nodes give φ at
    the nodes, and one more sum from the nearest node below gives φ(x). The sums are exact to rounding where cells are
    short beside the scale on which ω changes.

    Args:
        frequency: ω, *angular*: a callable with values ``[n, a, 1]``, or a ``FunctionGroup`` or ``GridFunctionGroup``
            of shape ``(a, 1)``.
        nodes: Increasing inputs ``[m]``; not needed for a ``GridFunctionGroup``.
    """

    frequency: Function
    nodes: Array | np.ndarray | None = None

    def __check_init__(self) -> None:
        if not callable(self.frequency):
            raise TypeError(f"frequency must be a callable of inputs [n, 1], got {type(self.frequency).__name__}")
        check_nodes(self.frequency, self.nodes)

    def __call__(self, X: Array) -> Array:
        return integral(self.frequency, self.nodes, X)


def check_nodes(function: Any, nodes: Any) -> None:
    """Refuse nodes that a function cannot be integrated with."""
    if nodes is None and isinstance(function, GridFunctionGroup | OnGrid):
        return
    if nodes is None or np.ndim(nodes) != 1 or len(nodes) < 2:
        got = "none" if nodes is None else list(np.shape(nodes))
        raise ValueError(f"nodes must have shape [m] with m of at least 2, got {got}")


def integral(function: Any, nodes: Any, X: Array, power: int = 1) -> Array:
    """∫ θ^power ``[n, a]`` to inputs ``X [n, 1]``, of a function with values ``[n, a, 1]``."""
    if X.shape[1] != 1:
        raise ValueError(f"an integral over the input needs one input dimension, got {X.shape[1]}")
    function = constrain(function).realise() if isinstance(function, GridFunctionGroup) else function
    if isinstance(function, OnGrid):
        return function.integral(X, power).reshape(X.shape[0], -1)
    nodes = jnp.asarray(nodes, X.dtype)

    def between(low: Array, high: Array) -> Array:
        points, weights = (jnp.asarray(part, low.dtype) for part in _GAUSS)
        half = 0.5 * (high - low)
        x = low[:, None] + half[:, None] * (1.0 + points)
        values = function(x.reshape(-1, 1)).reshape(*x.shape, -1)
        return half[:, None] * jnp.einsum("q,nqa->na", weights, values**power)

    cells = between(nodes[:-1], nodes[1:])
    at_nodes = jnp.concatenate([jnp.zeros_like(cells[:1]), jnp.cumsum(cells, axis=0)])
    below = jnp.clip(jnp.searchsorted(nodes, X[:, 0], side="right") - 1, 0, nodes.shape[0] - 1)
    return at_nodes[below] + between(nodes[below], X[:, 0])


class PlanePhase(Module):
    """φ(x) = ⟨ω, x⟩ + h(x): a plane wave and a function that bends it, in any number of dimensions; values ``[n, a]``.

    Args:
        frequency: ω ``[a, d]``, *angular*.
        bend: h, in radians: a callable with values ``[n, a]``.
    """

    frequency: Any
    bend: Function

    def __call__(self, X: Array) -> Array:
        return X @ jnp.asarray(self.frequency, X.dtype).T + self.bend(X)


_GAUSS = np.polynomial.legendre.leggauss(5)
