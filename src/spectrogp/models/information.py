"""What rows tell of the numbers of a Markov model, by the filter's own sensitivities, for the price of a few gradients.

A row is y = h·z + mean + noise. With the oscillators z where all rows together expect them, J = ∂(h·z + mean) are
derivatives of a mean in the numbers, and Jᵀ K⁻¹ J, K the covariance of the outputs, is what the rows tell of these
while z is not known: minus the Hessian of the log likelihood but for what residuals and the uncertainty of z add to it
(Gauss–Newton with variable projection; Golub & Pereyra 1973). The noise adds ½ Σ (∂r/S)(∂r/S)ᵀ. Of how envelopes decay
it says nothing.

K⁻¹ = L⁻ᵀ L⁻¹, and L⁻¹ J is what the filter, with the gains that it has for the outputs, leaves of J as innovations: all
columns in one sweep, without covariances of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .filtering import Rows, State, all_panels, columns, dot, filter_row, initial_state, times
from .oscillators import Vector, propagate, propagate_back


def innovations(
    system: Callable[[list[Any]], Any], parts: list[Any], y: Array, P: ArrayLike, owners: Sequence[int]
) -> tuple[Array, Array, Array]:
    """Of the rows of a block, as ``information`` takes them: L⁻¹ J ``[l, p]``, that of phases, and ∂r/S.

    Args:
        system: What gives the ``System`` of the rows, ``[l, ...]``, from the numbers.
        parts: The numbers, in arrays ``[p_k]`` that make p, those of each function by themselves: derivatives cost as
            much as there are numbers in an array times what depends on it. The noise is to depend on the last alone.
        y: Outputs ``[l]``.
        P: Stationary covariances of the oscillators' states.
        owners: The component that every oscillator belongs to.
    """
    system = jax.jit(system)  # traced once for all derivatives
    here, c = system(parts), columns(P)
    x, h, outputs, r = (part[..., None] for part in (here.decay, here.weight, y - here.mean, here.variance))
    rows = Rows(x, jnp.exp(-x), h, outputs, r, jnp.zeros_like(r))

    def forth(state: State, row: Rows) -> tuple[State, State]:
        state = filter_row(state, row, c)
        return state, state

    states = lax.scan(forth, initial_state(x, P), rows)[1]
    z = _smoothed(rows, states, c)[..., 0]

    def seen(some: list[Any]) -> tuple[Array, Array]:
        there = system(some)
        return jnp.sum(there.weight * z, axis=1) + there.mean, there.variance

    slopes = [_slopes(seen, parts, k) for k in range(len(parts)) if parts[k].size]
    phases = [h[:, u] * z[:, v, None] - h[:, v] * z[:, u, None] for u, v in _pairs(owners)]
    J = jnp.concatenate([of_mean for of_mean, _ in slopes] + phases, axis=1)

    def sweep(state: Vector, at: tuple[Rows, Vector, Array, Array]) -> tuple[Vector, Array]:
        row, s, inverse, J = at
        state = propagate(state, row.x, row.e)
        left = J - jnp.sum(row.h * state[0], axis=0)
        return tuple(a + b * (inverse * left) for a, b in zip(state, s, strict=True)), left * jnp.sqrt(inverse)

    still = (jnp.zeros((x.shape[1], J.shape[1]), J.dtype),) * len(c)
    W = lax.scan(sweep, still, (rows, states.s, states.inverse, J))[1]
    p = J.shape[1] - len(phases)
    return W[:, :p], W[:, p:], slopes[-1][1] * states.inverse


def information(W: np.ndarray, phases: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The information ``[p, p]`` of rows about numbers, from what ``innovations`` gives.

    A component whose u and v turn together is the same model: what seems to be told of a constant phase is taken out.

    Args:
        W: L⁻¹ J ``[l, p]``.
        phases: The same for a constant phase of each component, ``[l, a]``.
        noise: ∂r/S of the last numbers, ``[l, k]``.
    """
    of_phases = np.linalg.qr(phases)[0]
    turned = of_phases.T @ W
    G = W.T @ W - turned.T @ turned
    G[-noise.shape[1] :, -noise.shape[1] :] += 0.5 * noise.T @ noise
    return G


def _smoothed(rows: Rows, states: State, c: Vector) -> Array:
    """Means ``[l, q, 1]`` of the oscillators given all rows, as ``smooth`` has them."""
    eye = jnp.eye(rows.x.shape[1], dtype=rows.x.dtype)[:, :, None]

    def back(m: Vector, at: tuple[Rows, State]) -> tuple[Vector, Array]:
        row, state = at
        m = (m[0] + (state.surprise - dot(state.s, m) * state.inverse) * row.h, *m[1:])
        first = [D + eye * a[:, None] for D, a in zip(all_panels(state.D, len(c))[0], c, strict=True)]
        return propagate_back(m, row.x, row.e), state.m[0] + times([first], m)[0]

    nothing = (jnp.zeros_like(rows.x[0]),) * len(c)
    return lax.scan(back, nothing, (rows, states), reverse=True)[1]


def _slopes(seen: Callable[[list[Any]], tuple[Array, Array]], parts: list[Any], k: int) -> tuple[Array, Array]:
    """Derivatives ``[l, p_k]`` in the numbers of one array."""

    def along(direction: Array) -> tuple[Array, Array]:
        alone = lambda part: seen([*parts[:k], part, *parts[k + 1 :]])  # noqa: E731
        return jax.jvp(alone, (parts[k],), (direction,))[1]

    return jax.vmap(along, out_axes=1)(jnp.eye(parts[k].size, dtype=parts[k].dtype))


def _pairs(owners: Sequence[int]) -> list[tuple[int, int]]:
    """u and v of every component that has both."""
    members = [np.flatnonzero(np.equal(owners, a)) for a in np.unique(owners)]
    return [(int(two[0]), int(two[1])) for two in members if len(two) == 2]
