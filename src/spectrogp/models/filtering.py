"""The Kalman filter of sums of oscillators, in time linear in the number of rows, with its gradient.

A row observes y = Σ_q h_q z₁_q + noise, z₁ the oscillators' first coordinates. The filter carries D = P − P∞, the
covariance without the stationary one. D starts at zero and D⁻ = A D Aᵀ without any process noise; only c, the first
column of P∞, is needed. (Foreman-Mackey et al. 2017 have the same recursion for ν = ½.)

Shapes: L rows, Q oscillators, B blocks of time that are filtered side by side. Blocks are the last axis, so that
processors work on several at once. Vectors are tuples of d arrays ``[Q, B]``. Symmetric matrices are tuples of panels
``[Q, Q, B]``, one for each pair of coordinates k ≤ j.

XLA fuses elementwise operations into those that use them, and computes them again for each use; but not sums over an
axis, nor what a loop carries. So matrices times vectors are written as sums, and updates of rank one are carried as
their vectors and added one row later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import Array, lax
from jax.typing import ArrayLike

from .oscillators import STATIONARY, Vector, powers, propagate, propagate_back

MISSING = 1e29
"""Rows whose noise variance is at least this are not observed; their outputs may be anything."""

Panels = tuple[Array, ...]


class State(NamedTuple):
    """What the filter knows after a row: the state has mean m + s v/S and covariance P∞ + D − s sᵀ/S.

    m and D are predictions of the row, before it was observed; s is the covariance of state and output.
    """

    m: Vector
    D: Panels
    s: Vector
    inverse: Array  # 1/S of the variance S of the output, or 0 where nothing was observed
    surprise: Array  # v/S, v the output without its prediction
    total: Array  # log likelihood so far


class Rows(NamedTuple):
    """What the filter reads, ``[L, Q, B]`` or ``[L, B]``; e = exp(−x)."""

    x: Array
    e: Array
    h: Array
    y: Array
    r: Array
    w: Array


def initial_state(x: Array, P: ArrayLike) -> State:
    """The state before the first row, the stationary prior, for decays ``[L, Q, B]`` and P∞ ``[Q, d, d]``."""
    (_, Q, B), d = x.shape, np.shape(P)[-1]
    vector, scalar = (jnp.zeros((Q, B), x.dtype),) * d, jnp.zeros(B, x.dtype)
    return State(vector, (jnp.zeros((Q, Q, B), x.dtype),) * len(_pairs(d)), vector, scalar, scalar, scalar)


def _pairs(d: int) -> list[tuple[int, int]]:
    return [(k, j) for k in range(d) for j in range(k, d)]


def all_panels(D: Panels, d: int) -> list[list[Array]]:
    """All d × d panels of a symmetric matrix."""
    panels = dict(zip(_pairs(d), D, strict=True))
    return [[panels[k, j] if k <= j else panels[j, k].swapaxes(0, 1) for j in range(d)] for k in range(d)]


def _congruence(M: list[list[Array]], x: Array, e: Array, *, back: bool = False) -> Panels:
    """The panels of A M Aᵀ, or of Aᵀ M A on the way back."""
    d = len(M)
    left, right = powers(x[:, None], d), powers(x[None, :], d)
    both = e[:, None] * e[None, :]

    def reached(k: int) -> range:
        return range(k + 1) if back else range(k, d)

    def panel(k: int, j: int) -> Array:
        rows = {b: sum(left[abs(a - k)] * M[a][b] for a in reached(k)) for b in reached(j)}
        return both * sum(right[abs(b - j)] * row for b, row in rows.items())

    return tuple(panel(k, j) for k, j in _pairs(d))


def times(M: Sequence[Sequence[Array]], z: Sequence[Array]) -> Vector:
    """M z, one sum over an axis for each coordinate."""
    return tuple(jnp.sum(sum(K * a[None] for K, a in zip(row, z, strict=True)), axis=1) for row in M)


def dot(a: Sequence[Array], b: Sequence[Array]) -> Array:
    """Σ a b over coordinates and oscillators."""
    return jnp.sum(sum(p * q for p, q in zip(a, b, strict=True)), axis=0)


def filter_row(state: State, row: Rows, c: Vector) -> State:
    """The state after a row, from that after the row before."""
    d = len(c)
    x, e, h, y, r, w = row
    D, s = all_panels(state.D, d), propagate(state.s, x, e)
    g = [e * h * power for power in powers(x, d)]  # Aᵀh
    scale = jnp.sum(h * s[0], axis=0) * state.inverse
    Dh = propagate(times(D, g), x, e)
    new = tuple(p - a * scale + b * h for p, a, b in zip(Dh, s, c, strict=True))
    m = tuple(p + a * state.surprise for p, a in zip(propagate(state.m, x, e), s, strict=True))
    outer = [s[k][:, None] * (s[j] * state.inverse)[None] for k, j in _pairs(d)]
    predicted = tuple(p - a for p, a in zip(_congruence(D, x, e), outer, strict=True))
    seen = r < MISSING
    S = jnp.where(seen, jnp.sum(h * new[0], axis=0) + r, 1.0)
    v = jnp.where(seen, y - jnp.sum(h * m[0], axis=0), 0.0)
    inverse = jnp.where(seen, 1.0 / S, 0.0)
    surprise = v * inverse
    total = state.total - jnp.where(seen, 0.5 * w * (jnp.log(2.0 * jnp.pi * S) + v * surprise), 0.0)
    return State(m, predicted, new, inverse, surprise, total)


def _at(tree: Any, index: Array) -> Any:
    return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, keepdims=False), tree)


def _put(tree: Any, values: Any, index: Array) -> Any:
    return jax.tree.map(lambda leaf, new: lax.dynamic_update_index_in_dim(leaf, new, index, 0), tree, values)


def _room(tree: Any, rows: int) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), tree)


def columns(P: ArrayLike) -> Vector:
    """c, the first columns of P∞, by coordinate."""
    P = jnp.asarray(P)
    return tuple(P[:, k, 0, None] for k in range(P.shape[-1]))


def there_and_back(
    rows: Rows,
    c: Vector,
    steps: ArrayLike,
    state: State,
    back: Callable[[Any, State, Rows, Rows], tuple[Any, Any]],
    adjoint: Any,
    out: Any,
) -> tuple[State, Any]:
    """Filter all rows, then walk back from the last to the first with the filter's state at each row.

    Only the states at the beginnings of segments of about √L rows are kept. Segments are walked forward one after
    another, then once more from the last to the first, each followed by its way back. Both are turns of one loop, so
    that the filter is compiled once.

    Args:
        back: From the adjoint after a row, the filter's state at it, the row and the next one: the adjoint before it,
            and what to keep of it.
        adjoint: What ``back`` begins with.
        out: Arrays ``[L, …]`` for what it keeps.
    """
    L = rows.x.shape[0]
    length = max(1, math.isqrt(L))
    steps = jnp.asarray(steps, jnp.int32)
    segments = (steps + length - 1) // length
    kept = _put(_room(state, -(-L // length) + 1), state, jnp.int32(0))

    def turn(number: Array, carry: Any) -> Any:
        kept, walked, adjoint, out = carry
        returning = number >= segments
        segment = jnp.where(returning, 2 * segments - 1 - number, number)
        first = segment * length
        count = jnp.minimum(length, steps - first)

        def forth(j: Array, carry: Any) -> Any:
            state, walked = carry
            state = filter_row(state, _at(rows, first + j), c)
            return state, _put(walked, state, j)

        def backwards(j: Array, carry: Any) -> Any:
            adjoint, out = carry
            k = first + count - 1 - j
            following = jnp.minimum(k + 1, steps - 1)  # after the last row the adjoint is zero
            adjoint, keep = back(adjoint, _at(walked, count - 1 - j), _at(rows, k), _at(rows, following))
            return adjoint, _put(out, keep, k)

        state, walked = lax.fori_loop(0, count, forth, (_at(kept, segment), walked))
        adjoint, out = lax.fori_loop(0, jnp.where(returning, count, 0), backwards, (adjoint, out))
        return _put(kept, state, segment + 1), walked, adjoint, out

    kept, _, _, out = lax.fori_loop(0, 2 * segments, turn, (kept, _room(state, length), adjoint, out))
    return _at(kept, segments), out


class Adjoint(NamedTuple):
    """Derivatives of the log likelihood of later rows in mean and covariance before a row.

    The derivative in the covariance is D + ½ (s hᵀ + h sᵀ).
    """

    m: Vector
    D: Panels
    s: Vector


def no_adjoint(state: State) -> Adjoint:
    """The adjoint after the last row."""
    zero = jax.tree.map(jnp.zeros_like, state)
    return Adjoint(zero.m, zero.D, zero.s)


def pull(adjoint: Adjoint, state: State, following: Rows) -> tuple[Vector, Panels, Vector]:
    """Derivatives m̄, D̄ in mean and covariance after a row, from those before the next one, and t = D̄ s."""
    d = len(state.s)
    x, e, h = following.x, following.e, following.h
    D, s = all_panels(adjoint.D, d), adjoint.s
    g = propagate(state.s, x, e)
    along = 0.5 * jnp.sum(h * g[0], axis=0)
    t = [p + a * along for p, a in zip(times(D, g), s, strict=True)]
    t[0] += h * (0.5 * dot(s, g))
    for k in range(d):
        D[k][0] = D[k][0] + 0.5 * s[k][:, None] * h[None]
        D[0][k] = D[0][k] + 0.5 * h[:, None] * s[k][None]
    return propagate_back(adjoint.m, x, e), _congruence(D, x, e, back=True), propagate_back(t, x, e)


class _Gradient(NamedTuple):
    x: Array
    h: Array
    y: Array
    r: Array


@jax.custom_vjp
@jax.jit
def log_likelihood(
    x: Array, h: Array, y: Array, r: Array, w: Array, P: ArrayLike, steps: ArrayLike, state: State | None = None
) -> Array:
    """Log density ``[B]`` of the outputs of each block.

    It can be differentiated in x, h, y and r; once, and in reverse mode.

    Args:
        x: Decays λΔτ ≥ 0 since the row before, ``[L, Q, B]``. That of the first row has no effect without a ``state``.
        h: Weights of the oscillators in the output, ``[L, Q, B]``.
        y: Outputs, ``[L, B]``.
        r: Variances of their noise, ``[L, B]``. ``MISSING`` or more: not observed.
        w: Weights of the rows' log densities, ``[L, B]``: 1, or 0 where they do not count (warm-up).
        P: P∞ of the oscillators, ``[Q, d, d]``, as ``stationary`` gives it.
        steps: How many of the L rows there are; those after them are not walked.
        state: What is known before the first row, as ``filter_from`` gives it; the stationary prior unless given.
    """
    rows, c, start = Rows(x, jnp.exp(-x), h, y, r, w), columns(P), _begun(x, P, state)
    return lax.fori_loop(0, steps, lambda k, state: filter_row(state, _at(rows, k), c), start).total


def _begun(x: Array, P: ArrayLike, state: State | None) -> State:
    return initial_state(x, P) if state is None else state._replace(total=jnp.zeros_like(state.total))


@jax.jit
def _with_gradient(
    x: Array, h: Array, y: Array, r: Array, w: Array, P: ArrayLike, steps: ArrayLike, state: State | None = None
) -> tuple[Array, _Gradient]:
    """Value and gradient at once. Blocks are independent, so that ``_pull_back`` need only multiply."""
    rows, c, begun = Rows(x, jnp.exp(-x), h, y, r, w), columns(P), state is not None
    state = _begun(x, P, state)
    drift = [b - a for a, b in zip(c, [*c[1:], jnp.zeros_like(c[0])], strict=True)]  # Γc, where dA/dx = ΓA

    def back(carry: tuple[Adjoint, Array], state: State, row: Rows, following: Rows) -> tuple[Any, _Gradient]:
        adjoint, of_x = carry
        h, w, i, q = row.h, row.w, state.inverse, state.surprise
        m, D, t = pull(adjoint, state, following)
        a, b = dot(state.s, t), dot(state.s, m)
        of_S = (a * i - q * b) * i - 0.5 * w * (i - q * q)
        of_v = b * i - w * q
        s = [q * p - 2.0 * i * z for p, z in zip(m, t, strict=True)]
        s[0] += of_S * h
        Ds = times(all_panels(state.D, len(c))[:2], s)
        n = [of_S * p - of_v * z + k for p, z, k in zip(state.s, state.m, Ds, strict=False)]
        of_h = n[0] + sum(k * z for k, z in zip(c, s, strict=True))
        # If this row alone were later, the decay before it would be longer and the one after it shorter. So their
        # derivatives differ by that of the row's output, h Γz.
        slope = sum(n[1:]) - n[0] - sum(k * z for k, z in zip(drift, s, strict=True))
        of_x = of_x + h * slope
        m = (m[0] - of_v * h, *m[1:])
        return (Adjoint(m, D, tuple(s)), of_x), _Gradient(of_x, of_h, of_v, of_S)

    out = jax.tree.map(jnp.zeros_like, _Gradient(x, h, y, r))
    last, gradient = there_and_back(rows, c, steps, state, back, (no_adjoint(state), jnp.zeros_like(x[0])), out)
    # Without a state before it the decay of the first row has no effect; but for rounding its derivative is zero.
    return last.total, gradient if begun else gradient._replace(x=gradient.x.at[0].set(0.0))


def _pull_back(gradient: _Gradient, value: Array) -> tuple[Any, ...]:
    return (*(value * leaf for leaf in gradient), None, None, None, None)


log_likelihood.defvjp(_with_gradient, _pull_back)


@jax.jit
def filter_from(
    state: State, x: Array, h: Array, y: Array, r: Array, P: ArrayLike, steps: ArrayLike
) -> tuple[State, Array, Array, Array]:
    """Go on with the filter from a state, as ``initial_state`` or an earlier call gives it.

    Gives the state after the last row; the log density ``[B]`` of the outputs given those before; mean and variance
    ``[L, B]`` of the signal, without noise, predicted for each row from the rows before it. Arguments are those of
    ``log_likelihood``.
    """
    rows, c = Rows(x, jnp.exp(-x), h, y, r, jnp.ones_like(y)), columns(P)

    def step(k: Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, mean, variance = carry
        row = _at(rows, k)
        state = filter_row(state, row, c)
        predicted = jnp.sum(row.h * state.m[0], axis=0), jnp.sum(row.h * state.s[0], axis=0)
        return state, *_put((mean, variance), predicted, k)

    state = _begun(x, P, state)
    state, mean, variance = lax.fori_loop(0, steps, step, (state, jnp.zeros_like(y), jnp.zeros_like(y)))
    return state, state.total, mean, variance


def warm_up(
    x: ArrayLike, snr: ArrayLike, orders: Sequence[float], turn: ArrayLike, tolerance: float = 1e-6
) -> tuple[int, float]:
    """How many rows before its own a block of time needs, and the rate κ per row at which the filter forgets.

    κ is that of the steady filter of all components together, at equal steps: seen from a frame that turns with it, a
    component of constant frequency is a stationary process. The log density of a block that begins W rows early is
    wrong by about e^{3−κW} at most. Where frequencies, or steps, change along the signal, give their smallest values;
    components whose frequencies come close are told apart slowly, and forgotten slowly.

    Args:
        x: Decay per row of each component, ``[P]``.
        snr: Variance of each component over that of the noise, ``[P]``.
        orders: ν of each component.
        turn: Change of phase per row of each component, ``[P]``; 0 for a trend, which is a single oscillator.
        tolerance: Error of a block's log density.
    """
    A, P, h = [], [], []
    for decay, ratio, angle, order in zip(*np.broadcast_arrays(x, snr, turn), orders, strict=True):
        stationary = STATIONARY[order]
        d = len(stationary)
        ladder = np.eye(d, k=1) * decay
        cos, sin = np.cos(angle), np.sin(angle)
        rotation = np.array([[cos, sin], [-sin, cos]]) if angle else np.eye(1)
        A.append(np.kron(rotation, np.exp(-decay) * (np.eye(d) + ladder + ladder @ ladder / 2.0)))
        P.append(np.kron(np.eye(len(rotation)), stationary))
        h.append(np.sqrt(ratio) * np.eye(len(A[-1]))[0])
    transition, prior, weights = scipy.linalg.block_diag(*A), scipy.linalg.block_diag(*P), np.concatenate(h)
    noise = prior - transition @ prior @ transition.T
    noise = 0.5 * (noise + noise.T)  # SciPy refuses what is symmetric but for rounding
    predicted = scipy.linalg.solve_discrete_are(transition.T, weights[:, None], noise, np.eye(1))
    s = predicted @ weights
    closed = transition @ (np.eye(len(s)) - np.outer(s, weights) / (weights @ s + 1.0))
    rate = -float(np.log(np.abs(np.linalg.eigvals(closed)).max()))
    # Where steps are irregular, twenty rows more bridge those that happen to tell little.
    return math.ceil((3.0 - math.log(tolerance)) / rate) + 20, rate
