"""Kernels with Matérn envelopes: Gaussian processes that are Markov, and so have likelihoods in linear time."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..parameters import Function, Parameter, Parametrised, scalar
from .base import AbstractMixture, Characteristic, Local
from .phase import check_nodes, integral
from .waves import sincos

ORDERS = (0.5, 1.5, 2.5)


class MaternPhase(AbstractMixture):
    """Phase kernel with a Matérn envelope: Σ_a σ(x_i) σ(x_j) M_ν(|τ(x_i) − τ(x_j)|) cos(φ(x_i) − φ(x_j)).

    τ is a warped time (``WarpedTime`` of a lengthscale ℓ has τ′ = 1/ℓ) and M_ν the Matérn correlation of unit
    lengthscale. It is the covariance of σ [cos φ u(τ) + sin φ v(τ)] with independent Matérn processes u, v: so it is
    positive semidefinite for any functions, and for one input a state-space model whose phase enters the observation
    alone, which ``models.MarkovGP`` computes with in linear time. The local frequency is φ′, and the line at it a
    Student-t density with 2ν degrees of freedom and scale 1/ℓ. Hartikainen & Särkkä (2010) for the state-space form of
    Matérn processes; Wilkinson et al. (2019) for oscillations made of them. Beyond the paper.

    Args:
        time: τ: a callable of inputs with values ``[n]`` or ``[n, a]``, such as a ``WarpedTime``.
        phase: φ, in radians: a callable of inputs with values ``[n]`` or ``[n, a]``; None for no oscillation.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
        order: ν, 0.5, 1.5 or 2.5: the envelope has no derivative, one or two.
        harmonic: Whether components are the harmonics of one oscillation: the phase of the k-th is kφ.
    """

    time: Function = scalar(varying=True)
    phase: Function | None = scalar(varying=True, unit="rad", default=None)
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)
    order: float = eqx.field(static=True, default=1.5)
    harmonic: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(map(str, ORDERS))}, got {self.order!r}")

    def values_at(self, X: Array) -> dict[str, Array]:
        values = Parametrised.values_at(self, X)
        if self.harmonic and self.phase is not None:
            values["phase"] = values["phase"] * jnp.arange(1.0, values["phase"].shape[1] + 1.0)
        return values

    def local(self, X: Array) -> Local:
        values = self.values_at(X)
        if X.shape[1] == 1:  # what is shown of a kernel; nothing here needs it
            along = jax.jvp(lambda x: self.field_at("time", x), (X,), (jnp.ones_like(X),))[1]
            lengthscale = 1.0 / jnp.maximum(jnp.abs(along), np.finfo(X.dtype).tiny)
            values["lengthscale"] = jnp.broadcast_to(lengthscale, values["time"].shape)[..., None]
        return Local(x=X, **values)

    def pair(self, p: Local, q: Local) -> Characteristic:
        D = _distance(self.order, p.time - q.time)
        # Not self.phase: a callable may have been taken away (``without_callables``).
        U = p.phase - q.phase if hasattr(p, "phase") else jnp.zeros_like(D)
        return Characteristic(p.amplitude * q.amplitude, D, U)

    def waves(self, values: dict[str, Array]) -> tuple[Any, ...]:
        """What the independent processes of a component are multiplied by beside σ: cos φ and sin φ, or 1.

        Args:
            values: Of the kernel's fields at inputs, as ``values_at`` gives them.
        """
        return (1.0,) if self.phase is None else sincos(values["phase"])[::-1]

    def line_freedom(self, p: Local) -> np.ndarray:
        return np.full(p.amplitude.shape[-1], 2.0 * self.order)


class WarpedTime(Parametrised):
    """τ(x) = ∫ 1/ℓ over one input, as the time of a ``MaternPhase``: values ``[n, a]``.

    Args:
        lengthscale: ℓ: a positive number, ``[a]``, a ``Positive`` to be fitted, or a function of the input with values
            ``[n, a, 1]`` (a callable, a ``FunctionGroup`` or a ``GridFunctionGroup``).
        nodes: Increasing inputs ``[m]`` between which a callable or ``FunctionGroup`` is integrated.
    """

    lengthscale: Parameter = scalar(positive=True, unit="x")
    nodes: Array | np.ndarray | None = None

    def __check_init__(self) -> None:
        if callable(self.lengthscale):
            check_nodes(self.lengthscale, self.nodes)

    def __call__(self, X: Array) -> Array:
        if callable(self.lengthscale):
            return integral(self.lengthscale, self.nodes, X, power=-1)
        if X.shape[1] != 1:
            raise ValueError(f"a warped time needs one input dimension, got {X.shape[1]}")
        return X / jnp.ravel(jnp.asarray(self.lengthscale, X.dtype))


def _log_polynomial(order: float, r: Array) -> Array:
    """log(M_ν e^r)."""
    return {0.5: jnp.zeros_like(r), 1.5: jnp.log1p(r), 2.5: jnp.log1p(r + r**2 / 3.0)}[order]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _distance(order: float, lag: Array) -> Array:
    """D with exp(−D/2) = M_ν(|lag|)."""
    r = math.sqrt(2.0 * order) * jnp.abs(lag)
    return 2.0 * (r - _log_polynomial(order, r))


@_distance.defjvp
def _distance_jvp(order: float, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """Written so that derivatives are right at a lag of zero, where |lag| has none."""
    (lag,), (change,) = primals, tangents
    scale = math.sqrt(2.0 * order)
    r = scale * jnp.abs(lag)
    slopes = {
        0.5: 2.0 * _sign(lag),
        1.5: 2.0 * scale**2 * lag / (1.0 + r),
        2.5: 2.0 / 3.0 * scale**2 * lag * (1.0 + r) / (1.0 + r + r**2 / 3.0),
    }
    return _distance(order, lag), slopes[order] * change


@jax.custom_jvp
def _sign(lag: Array) -> Array:
    return jnp.sign(lag)


@_sign.defjvp
def _sign_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """M_½ has a kink at zero and its line, a Lorentz one, no variance: its squared scale stands in the place of Λ.

    A lag that should be zero is the difference of two equal times only up to rounding, if XLA fuses what makes them.
    """
    (lag,), (change,) = primals, tangents
    return jnp.sign(lag), jnp.where(jnp.abs(lag) < np.finfo(lag.dtype).eps ** 0.5, change, 0.0)
