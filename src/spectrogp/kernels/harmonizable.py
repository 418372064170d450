"""Kernels given by spectral densities over pairs of frequencies: GSK and HMK."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core import traced
from ..parameters import AbstractParameter, Parameter, constants, positive_values, scalar, vector
from .base import AbstractKernel, Characteristic, Local


class GeneralizedSpectral(AbstractKernel):
    """Generalised spectral kernel (GSK): Σ_a σ(x_i) σ(x_j) h(‖τ/ℓ‖) Ψ(x_i)ᵀ Ψ(x_j), with

        Ψ(x) = (cos⟨ω₁, x⟩ + cos⟨ω₂, x⟩, sin⟨ω₁, x⟩ + sin⟨ω₂, x⟩)

    and h squared exponential (``smoothness=inf``) or Matérn (1.5 or 2.5; the rougher Matérn-½ has no local spectrum).
    Samo & Roberts (2015), their non-stationary family with γ = 1/ℓ and α = σ². ΨᵀΨ = Σ cos(⟨ω_b, x_i⟩ − ⟨ω_c, x_j⟩)
    over b, c ∈ {1, 2}, so every term gives four components of the family; ω₁ = ω₂ is four times a spectral mixture.

    Args:
        lengthscale: ℓ, in units of the input: a number, ``[d]`` or ``[a, d]`` for a components, a ``Positive`` to be
            fitted.
        first_frequency: ω₁, *angular* (2π times cycles per unit of the input), shaped likewise.
        second_frequency: ω₂, likewise.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
        smoothness: ν of h: 1.5, 2.5 or infinity.
    """

    lengthscale: Parameter = vector(positive=True, constant=True, unit="x")
    first_frequency: Parameter = vector(unit="rad/x", constant=True)
    second_frequency: Parameter = vector(unit="rad/x", constant=True)
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)
    smoothness: float = eqx.field(default=math.inf, static=True)

    def __check_init__(self) -> None:
        if self.smoothness not in (1.5, 2.5, math.inf):
            raise ValueError(f"smoothness must be 1.5, 2.5 or inf (squared exponential), got {self.smoothness!r}")

    def local(self, X: Array) -> Local:
        values = self.values_at(X)
        omega = jnp.stack([values.pop("first_frequency"), values.pop("second_frequency")], axis=-2)
        return Local(x=X, angle=jnp.einsum("nabd,nd->nab", omega, X), **values)

    def pair(self, p: Local, q: Local) -> Characteristic:
        D = _profile_distance(jnp.sum(((p.x - q.x) / p.lengthscale) ** 2, axis=-1), self.smoothness)
        U = p.angle[:, :, None] - q.angle[:, None, :]
        sigma = p.amplitude * q.amplitude
        four = [jnp.broadcast_to(value[:, None, None], U.shape) for value in (sigma, D)]
        return Characteristic(*(value.ravel() for value in (*four, U)))


class HarmonizableMixture(AbstractKernel):
    """Harmonizable mixture kernel (HMK): Σ_p g(γ_p∘(x_i − x_p), γ_p∘(x_j − x_p)) Re φ_p(x_i)ᵀ B_p φ̄_p(x_j), with

        φ_p(x) = (exp i⟨ω_pq, x − x_p⟩)_q      g(a, b) = exp(−2π² āᵀΣ₁ā) exp(−2π² (a−b)ᵀΣ₂(a−b)),  ā = (a+b)/2

    Shen, Heinonen & Kaski (2019): local patterns of frequencies ω_pq around centres x_p, with B_p ⪰ 0 coupling them.
    g is positive semidefinite only if Σ₂ ⪰ Σ₁/4; this is built in, by writing it as a ``window`` w around the centre
    times a squared exponential of ``lengthscale`` ℓ,

        g(a, b) = exp(−½‖a/w‖²) exp(−½‖b/w‖²) exp(−½‖(a−b)/ℓ‖²),    Σ₁ = 1/(2π²w²),  Σ₂ = Σ₁/4 + 1/(4π²ℓ²)

    Differs from the paper: ω = 2πμ is angular, as everywhere in this library.

    Args:
        centre: x_p ``[p, d]``, in units of the input.
        frequency: ω_pq ``[p, q, d]``, *angular*.
        lengthscale: ℓ, in units of the input: a number, ``[d]``, or a matrix ``[d, d]`` (then ‖ℓ⁻¹(a−b)‖).
        window: w, likewise (then ‖w⁻¹a‖, Σ₁ = (2π² wwᵀ)⁻¹); an infinite one gives Σ₁ = 0 and, with one frequency, a
            spectral mixture.
        weight: F_p ``[p, q, r]``, real or complex, in units of the output: a factor of B_p = F_p F_pᴴ; left out,
            B_p = I.
        scale: γ, a number, ``[d]`` or ``[p, d]``.
    """

    centre: Any = constants(unit="x")
    frequency: Any = constants(unit="rad/x")
    lengthscale: Any = constants(check=lambda value, name: _extent(value, name), finite=False, unit="x")
    window: Any = constants(check=lambda value, name: _extent(value, name), finite=False, unit="x", default=math.inf)
    weight: Any = eqx.field(default=None, converter=lambda value: _as_weight(value))
    scale: Any = constants(default=1.0)

    def __check_init__(self) -> None:
        centre, frequency, weight, scale = map(_shape, (self.centre, self.frequency, self.weight, self.scale))
        if len(centre) != 2:
            raise ValueError(f"centre must have shape [p, d], got {list(centre)}")
        P, d = centre
        if len(frequency) != 3 or (frequency[0], frequency[2]) != (P, d):
            raise ValueError(
                f"frequency must have shape [p, q, d] with p = {P}, d = {d} as centre has, got {list(frequency)}"
            )
        Q = frequency[1]
        if self.weight is not None and (len(weight) != 3 or weight[:2] != (P, Q)):
            raise ValueError(f"weight must have shape [p, q, r] with p = {P}, q = {Q}, got {list(weight)}")
        if scale not in ((), (1,), (d,), (P, 1), (P, d)):
            raise ValueError(f"scale must be a number, [d] or [p, d] with p = {P}, d = {d}, got {list(scale)}")
        for name in ("lengthscale", "window"):
            if _shape(getattr(self, name)) not in ((), (1,), (d,), (d, d)):
                raise ValueError(
                    f"{name} must be a number, [d] or [d, d] with d = {d}, got {list(_shape(getattr(self, name)))}"
                )

    def local(self, X: Array) -> Local:
        if X.shape[1] != self.centre.shape[1]:
            raise ValueError(
                f"HarmonizableMixture.centre has {self.centre.shape[1]} input dimensions, the inputs {X.shape[1]}"
            )
        offset = X[:, None, :] - jnp.asarray(self.centre, X.dtype)
        scaled = offset * jnp.asarray(self.scale, X.dtype)
        return Local(
            window_offset=_in_units_of(self.window, scaled),
            offset=_in_units_of(self.lengthscale, scaled),
            angle=jnp.einsum("pqd,npd->npq", jnp.asarray(self.frequency, X.dtype), offset),
        )

    def pair(self, p: Local, q: Local) -> Characteristic:
        envelope = jnp.exp(-jnp.sum((0.5 * (p.window_offset + q.window_offset)) ** 2, axis=-1))
        D = jnp.sum(0.5 * (p.window_offset - q.window_offset) ** 2 + (p.offset - q.offset) ** 2, axis=-1)
        U = p.angle[:, :, None] - q.angle[:, None, :]
        B = self._coupling(U.dtype)
        sigma, distance = envelope[:, None, None] * B, jnp.broadcast_to(D[:, None, None], U.shape)
        if not jnp.iscomplexobj(B):
            return Characteristic(sigma.ravel(), distance.ravel(), U.ravel())
        # Re(B exp iU) = Re B cos U + Im B cos(U + π/2): two real components for each complex weight.
        parts = [(sigma.real, sigma.imag), (distance, distance), (U, U + 0.5 * jnp.pi)]
        return Characteristic(*(jnp.concatenate([one.ravel(), two.ravel()]) for one, two in parts))

    def _coupling(self, dtype: Any) -> Array:
        P, Q, _ = self.frequency.shape
        if self.weight is None:
            return jnp.broadcast_to(jnp.eye(Q, dtype=dtype), (P, Q, Q))
        return jnp.einsum("pqr,psr->pqs", self.weight, jnp.conj(self.weight))


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of an array, or of the value of a parameter."""
    return np.shape(value.raw if isinstance(value, AbstractParameter) else value)


def _extent(extent: Any, name: str) -> Any:
    """A positive length (infinite allowed) per dimension, or a matrix whose inverse brings offsets to unit length."""
    if np.ndim(extent) < 2:
        return positive_values(extent, name)
    if not traced(extent) and extent.shape[0] == extent.shape[1] and not np.linalg.cond(extent) < 1e12:
        raise ValueError(f"{name} must be a matrix with an inverse, got a singular one")
    return extent


def _as_weight(value: Any) -> Any:
    if value is None or isinstance(value, jax.Array | AbstractParameter):
        return value
    array = np.asarray(value)
    if not np.issubdtype(array.dtype, np.number) or not np.all(np.isfinite(array)):
        raise ValueError(f"weight must be an array [p, q, r] of finite real or complex numbers, got {value!r}")
    return array if np.iscomplexobj(array) else array.astype(np.float64)


def _in_units_of(extent: Any, offset: Array) -> Array:
    extent = jnp.asarray(extent, offset.dtype)
    if extent.ndim < 2:
        return offset / extent
    return jnp.linalg.solve(extent, offset[..., None])[..., 0]


def _profile_distance(squared: Array, smoothness: float) -> Array:
    """D with exp(−D/2) = h(r), from r²: squared exponential or Matérn."""
    if smoothness == math.inf:
        return squared
    return _matern_distance(2.0 * smoothness * squared, smoothness)


@eqx.filter_custom_jvp
def _matern_distance(v: Array, smoothness: float) -> Array:
    """−2 log h for the Matérn profile h, from v = 2ν r².

    Through s = √v this has no derivative that automatic differentiation could find at v = 0, where the true one is
    finite: the rule below gives it.
    """
    s = jnp.sqrt(v)
    return 2.0 * s - 2.0 * (jnp.log1p(s) if smoothness == 1.5 else jnp.log1p(s + s**2 / 3.0))


@_matern_distance.def_jvp  # type: ignore[untyped-decorator]
def _matern_distance_jvp(primals: tuple[Array, float], tangents: tuple[Array, None]) -> tuple[Array, Array]:
    v, smoothness = primals
    # The slope is a smooth function of s = √v; at v = 0 the root's own slope multiplies ∇v = 0 and counts as zero.
    s = jnp.where(v > 0, jnp.sqrt(jnp.where(v > 0, v, 1.0)), 0.0)
    slope = 1.0 / (1.0 + s) if smoothness == 1.5 else (1.0 + s) / (3.0 + 3.0 * s + s**2)
    return _matern_distance(v, smoothness), slope * tangents[0]
