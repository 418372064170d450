"""Smoothing: the oscillators at every row given all rows."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from .filtering import (
    Adjoint,
    Rows,
    State,
    all_panels,
    columns,
    dot,
    initial_state,
    no_adjoint,
    pull,
    there_and_back,
    times,
)
from .oscillators import propagate_back


@functools.partial(jax.jit, static_argnames="covariance")
def smooth(
    x: Array,
    h: Array,
    y: Array,
    r: Array,
    P: ArrayLike,
    steps: ArrayLike,
    state: State | None = None,
    *,
    covariance: bool = True,
) -> tuple[Array, Array | None]:
    """Mean ``[L, Q, B]`` and covariance ``[L, Q, Q, B]`` of the oscillators at each row, given all rows of its block.

    The smoother of Bryson & Frazier (1963): with the derivative m̄ of the log density of a row and the later ones in
    the predicted mean, and its second derivative −Λ, mean and covariance are m⁻ + P⁻ m̄ and P⁻ − P⁻ Λ P⁻. Λ does not
    depend on the outputs; it is −2 D̄ of the filter's adjoint where the outputs are as predicted. Predictions are rows
    that are not observed. Arguments are those of ``log_likelihood``.

    Args:
        state: What is known before the first row; the stationary prior unless given.
        covariance: Whether it is wanted; without it means are cheaper.
    """
    rows, c = Rows(x, jnp.exp(-x), h, y, r, jnp.zeros_like(y)), columns(P)
    d, (L, Q, B) = len(c), x.shape
    state = initial_state(x, P) if state is None else state
    eye = jnp.eye(Q, dtype=x.dtype)[:, :, None]

    def back(adjoint: Adjoint, state: State, row: Rows, following: Rows) -> tuple[Adjoint, Any]:
        h, i, s = row.h, state.inverse, state.s
        first = [D + eye * a[:, None] for D, a in zip(all_panels(state.D, d)[0], c, strict=True)]  # P⁻, rows of z₁
        m = propagate_back(adjoint.m, following.x, following.e)
        m = (m[0] + (state.surprise - dot(s, m) * i) * h, *m[1:])
        mean = state.m[0] + times([first], m)[0]
        if not covariance:
            return adjoint._replace(m=m), (mean, None)
        _, D, t = pull(adjoint, state, following)
        u = [-2.0 * i * z for z in t]
        u[0] += (dot(s, t) * i - 0.5) * i * h
        both = _products(first, [_products(first, row) for row in all_panels(D, d)])
        cross = times([first], u)[0][:, None] * s[0][None]
        return Adjoint(m, D, tuple(u)), (mean, first[0] + 2.0 * both + cross + cross.swapaxes(0, 1))

    out = (jnp.zeros_like(x), jnp.zeros((L, Q, Q, B), x.dtype) if covariance else None)
    return there_and_back(rows, c, steps, state, back, no_adjoint(state), out)[1]


def _products(left: list[Array], right: list[Array]) -> Array:
    """Σ_k left_k right_kᵀ of panels."""
    return jnp.sum(sum(a[:, None] * b[None] for a, b in zip(left, right, strict=True)), axis=2)
