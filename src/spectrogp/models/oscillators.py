"""Oscillators: Matérn processes of order ν = d − ½ in warped time, as states of d numbers.

The Jordan coordinates of the state are z₁ = u, the process itself, and z_{k+1} = (∂/∂τ + λ) z_k / λ with λ = √(2ν).
Over a decay x = λΔτ the state is multiplied by A(x) = e^{−x} [[1, x, x²/2], [0, 1, x], [0, 0, 1]], its leading d × d.

Shapes: L rows, Q oscillators, B blocks of time side by side. The state of all oscillators is a tuple of d arrays
``[Q, B]``, one for each coordinate.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

Vector = tuple[Array, ...]


def _stationary(d: int) -> np.ndarray:
    """White noise that passes d times through e^{−x}, scaled to variance one of z₁."""
    rest = d - 1 - np.arange(d)
    P = np.array([[math.comb(k + j, k) / 2.0 ** (k + j) for j in rest] for k in rest])
    return P / P[0, 0]


STATIONARY = {0.5: _stationary(1), 1.5: _stationary(2), 2.5: _stationary(3)}
"""P∞, the stationary covariance of an oscillator's state, by its order ν."""


def stationary(orders: Sequence[float]) -> np.ndarray:
    """P∞ ``[Q, d, d]`` of oscillators of the given orders, with the d of the largest.

    Coordinates that an oscillator of smaller order does not have are zero, and stay zero.
    """
    d = max(len(STATIONARY[order]) for order in orders)
    P = np.zeros((len(orders), d, d))
    for q, order in enumerate(orders):
        own = STATIONARY[order]
        P[q, : len(own), : len(own)] = own
    return P


def powers(x: Array, d: int) -> list[Array]:
    """The first row of A, without its factor e^{−x}."""
    return [jnp.ones_like(x), x, 0.5 * x * x][:d]


def propagate(z: Sequence[Array], x: Array, e: Array) -> Vector:
    """A z, with e = exp(−x)."""
    d, first = len(z), powers(x, len(z))
    return tuple(e * sum(first[j] * z[k + j] for j in range(d - k)) for k in range(d))


def propagate_back(z: Sequence[Array], x: Array, e: Array) -> Vector:
    """Aᵀ z: Aᵀ is A with the coordinates in reverse."""
    return propagate(z[::-1], x, e)[::-1]


def simulate(key: Array, x: Array, P: np.ndarray, steps: ArrayLike) -> Array:
    """Draw paths of independent oscillators: z₁ ``[L, Q, B]`` at each row.

    Args:
        key: Random key.
        x: Decays λΔτ ≥ 0 since the row before, ``[L, Q, B]``. That of the first row has no effect.
        P: P∞ of the oscillators, ``[Q, d, d]``, as ``stationary`` gives it.
        steps: How many of the L rows there are; those after them are zero.
    """
    sizes = tuple(np.count_nonzero(np.diagonal(P, axis1=1, axis2=2), axis=1).tolist())
    return _simulate(key, x, jnp.asarray(P), steps, sizes)


@functools.partial(jax.jit, static_argnames="sizes")
def _simulate(key: Array, x: Array, P: Array, steps: ArrayLike, sizes: tuple[int, ...]) -> Array:
    # The first row begins anew, as after a gap. Nothing is left of the past after a decay of 500.
    x = jnp.minimum(x, 500.0).at[0].set(500.0)
    e, d = jnp.exp(-x), P.shape[-1]
    normal = jax.random.normal(key, (d, *x.shape), x.dtype)
    factor = _noise_factor(x, P, sizes)
    noise = [sum((a * normal[j] for j, a in enumerate(row)), start=jnp.zeros_like(x)) for row in factor]

    def step(k: Array, carry: tuple[Vector, Array]) -> tuple[Vector, Array]:
        z, path = carry
        z = tuple(a + n[k] for a, n in zip(propagate(z, x[k], e[k]), noise, strict=True))
        return z, path.at[k].set(z[0])

    return lax.fori_loop(0, steps, step, ((jnp.zeros_like(x[0]),) * d, jnp.zeros_like(x)))[1]


def _noise_factor(x: Array, P: Array, sizes: tuple[int, ...]) -> list[list[Array]]:
    """Cholesky factor, by its entries, of the process noise P∞ − A P∞ Aᵀ of each oscillator."""
    d = P.shape[-1]
    gamma = _incomplete_gammas(2.0 * x, 2 * d - 1)

    def covariance(k: int, j: int) -> Array:
        grown = [gamma[max(2 * size - k - j - 2, 0)][:, q] for q, size in enumerate(sizes)]
        return P[:, k, j, None] * jnp.stack(grown, axis=1)

    L: list[list[Array]] = []
    for k in range(d):
        row: list[Array] = []
        for j in range(k):
            rest = covariance(k, j) - sum(row[i] * L[j][i] for i in range(j))
            row.append(jnp.where(L[j][j] > 0.0, rest / L[j][j], 0.0))
        row.append(jnp.sqrt(jnp.maximum(covariance(k, k) - sum(a * a for a in row), 0.0)))
        L.append(row)
    return L


def _incomplete_gammas(u: Array, count: int) -> list[Array]:
    """γ(a, u)/Γ(a) = 1 − e^{−u} Σ_{j<a} u^j/j! for a = 1, …, count, to full relative precision also where u is small.

    Differences of numbers near one would leave nothing of the process noise over short steps.
    """
    e, small = jnp.exp(-u), jnp.minimum(u, 4.0)
    series = jnp.zeros_like(u)
    for j in range(30, -1, -1):  # (4³⁰ / 35!) · 5! is below 1e-19
        series = 1.0 + series * small / (count + j + 1)
    last = e * u**count / math.factorial(count) * series
    last = jnp.where(u < 4.0, last, 1.0 - e * sum(u**j / math.factorial(j) for j in range(count)))
    gammas = [last]
    for a in range(count - 1, 0, -1):  # downwards nothing is subtracted
        gammas.append(gammas[-1] + e * u**a / math.factorial(a))
    return gammas[::-1]
