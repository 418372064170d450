"""Spectrograms: how the frequency content of a kernel changes over its inputs.

The exact distribution over inputs x and frequencies s (cycles per input unit) is the Wigner transform

    W(x, s) = ∫ k(x + t/2, x − t/2) exp(−2πi⟨s, t⟩) dt

and the spectrogram is its local approximation, read off the lag function t ↦ (σ, D, U)(x + t/2, x − t/2) at t = 0:

    ξ = ∂U/∂t    Λ = ½ ∂²D/∂t∂tᵀ    Ŵ(x, s) = Σ_a σ cos U · ½[N(s | ξ/2π, Λ/4π²) + N(s | −ξ/2π, Λ/4π²)]

Shen, Heinonen & Kaski (2020), Eqs. 16–21. Differs from the paper: Λ carries the factor ½ of a second-order expansion,
and the covariance is Λ/(4π²), not Λ/(2π²); only so are stationary kernels exact and the paper's own Table 1 true.
Both transforms are two-sided densities: their integral over all s is k(x, x).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .functions import inputs, require
from .kernels import AbstractKernel, Characteristic
from .numerics import entry_point, traced
from .parameters import constrain

# The numerical Wigner transform refines its lag grid until the result is stable to this fraction of its upper bound.
_WIGNER_TOLERANCE = {8: 1e-10, 4: 1e-4}  # by the size of a float in bytes
_WIGNER_START = 48
_WIGNER_POINTS = 2**22


class LocalSpectrum(NamedTuple):
    """The Gaussian components of the local spectrum at each input, in cycles per input unit.

    ``weight`` ``[n, a]`` is the share of the variance k(x, x) (of a cross term it can be negative), ``frequency``
    ``[n, a, d]`` the centre and ``covariance`` ``[n, a, d, d]`` the spread of the component and of its mirror image.
    """

    weight: Array
    frequency: Array
    covariance: Array

    @property
    def xi(self) -> Array:
        """ξ ``[n, a, d]``: the local angular frequency."""
        return 2.0 * math.pi * self.frequency

    @property
    def Lambda(self) -> Array:
        """Λ ``[n, a, d, d]``: the curvature of the lag function, in squared angular frequency."""
        return 4.0 * math.pi**2 * self.covariance

    @property
    def bandwidth(self) -> Array:
        """Standard deviations ``[n, a, d]`` along each axis."""
        return self.covariance.diagonal(axis1=-2, axis2=-1) ** 0.5


@entry_point
def local_spectrum(kernel: AbstractKernel, X: Any) -> LocalSpectrum:
    """Weight, centre and covariance of every component of the kernel's spectrum at inputs ``X [n, d]``."""
    return _local_spectrum(constrain(kernel), inputs(X))


@entry_point
def spectrogram(
    kernel: AbstractKernel,
    X: Any,
    frequency: Any,
    *,
    axis: int | None = None,
    slice_at: Any = None,
    resolution: float = 0.0,
) -> Array:
    """Approximate Wigner distribution Ŵ ``[n, m]`` at inputs ``X [n, d]`` and frequencies in cycles per input unit.

    ``frequency`` is ``[m]`` for one input dimension and wavevectors ``[m, d]`` in general. For d > 1, ``axis=j`` with
    ``frequency [m]`` gives the marginal density along axis j, or with ``slice_at [d]`` the slice along axis j through
    that wavevector. ``resolution`` (cycles per unit) blurs the density by a Gaussian of that standard deviation, as a
    measurement would; it is needed where a component has no width of its own, such as a warp at rest.
    """
    X = inputs(X)
    s = _wavevectors(frequency, X.shape[1], axis, slice_at)
    spectrum = _local_spectrum(constrain(kernel), X)
    centre, covariance = spectrum.frequency, spectrum.covariance
    if axis is not None and slice_at is None:
        centre, covariance = centre[..., axis, None], covariance[..., axis, None, axis, None]
    covariance = covariance + resolution**2 * jnp.eye(s.shape[1], dtype=X.dtype)
    _require_density(covariance)
    return _density(spectrum.weight, centre, covariance, s)


@entry_point
def wigner(kernel: AbstractKernel, X: Any, frequency: Any, *, axis: int | None = None, slice_at: Any = None) -> Array:
    """Exact Wigner distribution W ``[n, m]`` by numerical integration over the lag; arguments as ``spectrogram``.

    Trapezoidal sums converge exponentially here; extent and spacing of the lags are refined until the result is
    stable. The cost grows as (lags)^d, except for marginals along an axis, where it is that of one dimension.
    Not differentiable, and needs known (not traced) values; the kernel's callables need not be differentiable.
    """
    if traced(kernel, X, frequency):
        raise TypeError("wigner chooses its lags from the values of the kernel and cannot run inside jit, grad or vmap")
    X = inputs(X)
    s = _wavevectors(frequency, X.shape[1], axis, slice_at)
    # Integrating W over the other frequencies sets the other lags to zero: a marginal needs lags along its axis only.
    directions = jnp.eye(X.shape[1], dtype=X.dtype)
    if axis is not None and slice_at is None:
        directions = directions[axis, None]
    return _wigner(constrain(kernel), X, directions, s)


@eqx.filter_jit
def _local_spectrum(kernel: AbstractKernel, X: Array) -> LocalSpectrum:
    def at(x: Array) -> LocalSpectrum:
        def lag(t: Array) -> Characteristic:
            ends = kernel.local(jnp.stack([x + 0.5 * t, x - 0.5 * t]))
            return kernel.pair(*(jax.tree.map(lambda leaf, end=end: leaf[end], ends) for end in (0, 1)))

        zero = jnp.zeros_like(x)
        centre = lag(zero)
        xi = jax.jacfwd(lambda t: lag(t).phase)(zero)
        Lambda = 0.5 * jax.jacfwd(jax.jacfwd(lambda t: lag(t).distance))(zero)
        # A symmetric kernel's odd parts in t cancel between its components, so the phase at t = 0 acts as a cosine.
        weight = centre.amplitude * jnp.exp(-0.5 * centre.distance) * jnp.cos(centre.phase)
        return LocalSpectrum(weight, xi / (2.0 * math.pi), Lambda / (4.0 * math.pi**2))

    return jax.vmap(at)(X)


def _wavevectors(frequency: Any, d: int, axis: int | None, slice_at: Any) -> Array:
    """Check frequencies and bring them to ``[m, d]``, or ``[m, 1]`` for a marginal."""
    s = jnp.asarray(frequency, dtype=float)
    require(jnp.isfinite(s), s, "frequency", "finite")
    if axis is None:
        if slice_at is not None:
            raise ValueError("slice_at needs axis, the direction of the slice")
        s = s[:, None] if s.ndim == 1 and d == 1 else s
        if s.ndim != 2 or s.shape[1] != d:
            hint = "" if d == 1 else "; for one axis of several pass axis=j with frequency [m]"
            raise ValueError(f"frequency must have shape [m, d] with d = {d}, got {list(s.shape)}{hint}")
        return s
    if not 0 <= axis < d:
        raise ValueError(f"axis must be between 0 and {d - 1}, got {axis}")
    if s.ndim != 1:
        raise ValueError(f"frequency must have shape [m] when axis is given, got {list(s.shape)}")
    if slice_at is None:
        return s[:, None]
    base = jnp.asarray(slice_at, dtype=float)
    if base.shape != (d,):
        raise ValueError(f"slice_at must be a wavevector [d] with d = {d}, got shape {list(base.shape)}")
    return jnp.broadcast_to(base, (s.shape[0], d)).at[:, axis].set(s)


def _require_density(covariance: Array) -> None:
    """A component whose spectrum has no width in some direction has no density: say so instead of dividing by zero."""
    if traced(covariance):
        return
    eigenvalues = np.linalg.eigvalsh(np.asarray(covariance))
    flat = ~(eigenvalues[..., 0] > 1e-14 * np.max(eigenvalues, initial=0.0))
    if flat.any():
        row, component = np.argwhere(flat)[0]
        raise ValueError(
            f"the local spectrum at row {row} of X, component {component}, has no width in some direction and so no "
            "density; pass resolution=… (cycles per input unit) to blur it, or axis=… for a marginal"
        )


@jax.jit
def _density(weight: Array, centre: Array, covariance: Array, s: Array) -> Array:
    """Σ_a w ½[N(s | c, C) + N(s | −c, C)] for weights ``[n, a]`` at wavevectors ``[m, d]``."""
    L = jnp.linalg.cholesky(covariance)
    norm = jnp.prod(math.sqrt(2.0 * math.pi) * jnp.diagonal(L, axis1=-2, axis2=-1), axis=-1)
    inverse = jnp.linalg.inv(L)

    def half(sign: float) -> Array:
        z = jnp.einsum("nade,name->namd", inverse, s - sign * centre[:, :, None, :])
        return jnp.exp(-0.5 * jnp.sum(z**2, axis=-1))

    return jnp.einsum("na,nam->nm", 0.5 * weight / norm, half(1.0) + half(-1.0))


def _wigner(kernel: AbstractKernel, X: Array, directions: Array, s: Array) -> Array:
    """W with lags as wide as the covariance reaches, ever denser until the result is stable."""
    fastest = np.max(np.abs(s), axis=0)
    reach = np.stack(
        [_reach(kernel, X, v, 1.0 / f if f > 0 else 1.0) for v, f in zip(directions, fastest, strict=True)], 1
    )
    counts = np.maximum(_WIGNER_START, np.ceil(6.0 * np.max(reach, axis=0) * fastest)).astype(int)
    tolerance = _WIGNER_TOLERANCE[np.dtype(X.dtype).itemsize]
    previous = None
    while np.prod(counts) <= _WIGNER_POINTS:
        rows = max(1, _WIGNER_POINTS // (4 * int(np.prod(counts))))
        blocks = [slice(i, i + rows) for i in range(0, len(X), rows)]
        sums = [_lag_sum(kernel, X[b], directions, s, reach[b], counts) for b in blocks]
        current, bound = (np.concatenate(parts) for parts in zip(*sums, strict=True))
        if previous is not None and np.all(np.abs(current - previous) <= tolerance * bound[:, None]):
            return jnp.asarray(current)
        # A step of 1.7, not 2: frequencies that alias onto s at one spacing then do not at the next.
        previous, counts = current, np.ceil(1.7 * counts).astype(int)
    raise ValueError(
        f"the Wigner integral is not stable with {_WIGNER_POINTS} lags: the covariance reaches too far or "
        "oscillates too fast for numerical integration; use spectrogram, or axis=… for a marginal"
    )


def _reach(kernel: AbstractKernel, X: Array, direction: Array, start: float) -> np.ndarray:
    """For each input, the lag along a direction beyond which the covariance has died away."""
    bare = kernel.without_callables()

    def envelope(t: np.ndarray) -> np.ndarray:
        half = jnp.asarray(0.5 * t[:, None] * direction, X.dtype)
        return np.asarray(_envelope(bare, kernel.local(X + half), kernel.local(X - half)))

    # First inwards to a lag at which the covariance is still there, then outwards, never farther than needed: far away
    # a function may not even be defined.
    peak, t = envelope(np.zeros(len(X))), np.full(len(X), start)
    for _ in range(60):
        lost = envelope(t) < 0.5 * peak
        if not lost.any():
            break
        t = np.where(lost, 0.25 * t, t)
    quiet = np.zeros(len(X), dtype=int)
    for _ in range(120):
        value = envelope(t)
        peak = np.maximum(peak, value)
        quiet = np.where(value <= np.finfo(X.dtype).eps * peak, quiet + 1, 0)
        if np.all(quiet >= 2):
            return t
        t = np.where(quiet >= 2, t, 1.5 * t)
    row = int(np.argmin(quiet))
    raise ValueError(
        f"the covariance at row {row} of X, {np.asarray(X[row]).tolist()}, does not decay with the lag, so its Wigner "
        "transform is no function; use spectrogram with a resolution"
    )


@eqx.filter_jit
def _envelope(kernel: AbstractKernel, p: Any, q: Any) -> Array:
    values = jax.vmap(kernel.pair)(p, q)
    return jnp.sum(jnp.abs(values.amplitude) * jnp.exp(-0.5 * values.distance), axis=-1)


def _lag_sum(
    kernel: AbstractKernel, X: Array, directions: Array, s: Array, reach: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Trapezoidal sum of k(x + t/2, x − t/2) exp(−2πi⟨s, t⟩) over a grid of lags t (at its ends k is zero).

    With it, for each input, the same sum of |k|: a bound on |W| at any frequency, and so the scale of its errors.
    """
    unit = [jnp.linspace(-1.0, 1.0, int(n), dtype=X.dtype) for n in counts]
    grid = jnp.stack(jnp.meshgrid(*unit, indexing="ij"), axis=-1).reshape(-1, len(unit))
    half = 0.5 * (grid * reach[:, None, :]) @ directions
    ends = [(X[:, None] + sign * half).reshape(-1, X.shape[1]) for sign in (1.0, -1.0)]
    values = kernel.elementwise(kernel.local(ends[0]), kernel.local(ends[1]))
    values = values.reshape(len(X), *(int(n) for n in counts))
    cell = np.prod(2.0 * reach / (counts - 1), axis=1)
    bound = cell * np.asarray(jnp.sum(jnp.abs(values.reshape(len(X), -1)), axis=1))
    return np.asarray(_transform(values, unit, jnp.asarray(reach, X.dtype), s)), bound


@jax.jit
def _transform(values: Array, unit: list[Array], reach: Array, s: Array) -> Array:
    """Σ_t values exp(−2πi⟨s, t⟩) for values ``[n, g, …]`` on grids ``unit`` times ``reach [n, k]``."""

    def one(total: Array, extents: Array, wavevector: Array) -> Array:
        for grid, extent, frequency in zip(unit, extents, wavevector, strict=True):
            wave = jnp.exp(-2j * jnp.pi * frequency * extent * grid) * extent * (grid[1] - grid[0])
            total = jnp.tensordot(wave, total, axes=1)
        return total.real

    over_frequencies = jax.vmap(one, in_axes=(None, None, 0))
    return jax.vmap(over_frequencies, in_axes=(0, 0, None))(values, reach, s)
