"""The exact Wigner distribution, by numerical integration over the lag: what spectrograms are checked against."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import entry_point, inputs, traced
from ..kernels import AbstractKernel
from ..parameters import constrain
from .local import wavevectors

# The numerical Wigner transform refines its lag grid until the result is stable to this fraction of its upper bound.
_WIGNER_TOLERANCE = {8: 1e-10, 4: 1e-4}  # by the size of a float in bytes
_WIGNER_START = 48
_WIGNER_RUNG = 1.3
_WIGNER_POINTS = 2**22


@entry_point
def wigner(
    kernel: AbstractKernel,
    X: ArrayLike,
    frequency: ArrayLike,
    *,
    axis: int | None = None,
    slice_at: ArrayLike | None = None,
) -> Array:
    """Exact Wigner distribution W ``[n, m]`` by numerical integration over the lag; arguments as ``spectrogram``.

    Trapezoidal sums converge exponentially here; extent and spacing of the lags are refined until the result is
    stable. The cost grows as (lags)^d, except for marginals along an axis, where it is that of one dimension.
    Not differentiable, and needs known (not traced) values; the kernel's callables need not be differentiable.

    Args:
        kernel: Any kernel whose covariance dies away with the lag.
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        frequency: In cycles per input unit: ``[m]`` for one input dimension, wavevectors ``[m, d]`` in general.
        axis: For d > 1, with ``frequency [m]``: the marginal along this input.
        slice_at: A wavevector ``[d]``: the slice along ``axis`` through it, instead of the marginal.
    """
    if traced(kernel, X, frequency):
        raise TypeError("wigner chooses its lags from the values of the kernel and cannot run inside jit, grad or vmap")
    X = inputs(X)
    s = wavevectors(frequency, X.shape[1], axis, slice_at)
    # Integrating W over the other frequencies sets the other lags to zero: a marginal needs lags along its axis only.
    directions = jnp.eye(X.shape[1], dtype=X.dtype)
    if axis is not None and slice_at is None:
        directions = directions[axis, None]
    return _wigner(constrain(kernel), X, directions, s)


def _wigner(kernel: AbstractKernel, X: Array, directions: Array, s: Array) -> Array:
    """W with lags as wide as the covariance reaches, ever denser until the result is stable."""
    fastest = np.max(np.abs(s), axis=0)
    reach = np.stack(
        [_reach(kernel, X, v, 1.0 / f if f > 0 else 1.0) for v, f in zip(directions, fastest, strict=True)], 1
    )
    # The numbers of lags are rungs of one ladder, so that calls of like size share their compiled programs.
    least = np.maximum(1.0, 6.0 * np.max(reach, axis=0) * fastest / _WIGNER_START)
    rungs = np.ceil(np.log(least) / np.log(_WIGNER_RUNG))
    tolerance = _WIGNER_TOLERANCE[np.dtype(X.dtype).itemsize]
    previous = None
    while np.prod(counts := np.ceil(_WIGNER_START * _WIGNER_RUNG**rungs).astype(int)) <= _WIGNER_POINTS:
        rows = max(1, _WIGNER_POINTS // (4 * int(np.prod(counts))))
        blocks = [slice(i, i + rows) for i in range(0, len(X), rows)]
        sums = [_lag_sum(kernel, X[b], directions, s, reach[b], counts) for b in blocks]
        current, bound = (np.concatenate(parts) for parts in zip(*sums, strict=True))
        if previous is not None and np.all(np.abs(current - previous) <= tolerance * bound[:, None]):
            return jnp.asarray(current)
        # Two rungs are a factor of 1.7, not 2: frequencies that alias onto s at one spacing then do not at the next.
        previous, rungs = current, rungs + 2.0
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
