"""Sums over many rows without storing anything of their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

Summand = Callable[[Any, Any], Array]


def chunked_sum(summand: Summand, shared: Any, rows: Any, chunk: int) -> Array:
    """Σ over rows of ``summand(shared, some rows)``, evaluated chunk by chunk.

    ``rows`` is a pytree of arrays with the rows as leading axis, ``shared`` a pytree of arrays that every row needs;
    ``summand`` gives the sum over the rows it is given. The gradient with respect to ``shared`` is accumulated in the
    same pass as the value, chunk by chunk, so neither stores anything of the size of all rows, and nothing is computed
    twice. Rows are data: no gradient flows to them.
    """
    size = jax.tree.leaves(rows)[0].shape[0]
    whole = size - size % chunk
    total = jnp.zeros(())
    if whole:
        blocks = jax.tree.map(lambda leaf: leaf[:whole].reshape(whole // chunk, chunk, *leaf.shape[1:]), rows)
        total = total + _sum_of_blocks(summand, shared, blocks)
    if whole < size:
        total = total + summand(shared, jax.tree.map(lambda leaf: leaf[whole:], rows))
    return total


def _value_only(summand: Summand, shared: Any, blocks: Any) -> Array:
    zero = jax.eval_shape(summand, shared, jax.tree.map(lambda leaf: leaf[0], blocks))
    step = lambda total, block: (total + summand(shared, block), None)  # noqa: E731
    return jax.lax.scan(step, jnp.zeros(zero.shape, zero.dtype), blocks)[0]


def _forward(summand: Summand, shared: Any, blocks: Any) -> tuple[Array, Any]:
    def step(totals: Any, block: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, totals, jax.value_and_grad(summand)(shared, block)), None

    first = jax.eval_shape(jax.value_and_grad(summand), shared, jax.tree.map(lambda leaf: leaf[0], blocks))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), first)
    (value, slope), _ = jax.lax.scan(step, zeros, blocks)
    return value, (slope, jax.tree.map(jnp.zeros_like, blocks))


def _backward(summand: Summand, residuals: Any, cotangent: Array) -> tuple[Any, Any]:
    del summand
    slope, nothing = residuals
    return jax.tree.map(lambda leaf: cotangent * leaf, slope), nothing


_sum_of_blocks = jax.custom_vjp(_value_only, nondiff_argnums=(0,))
_sum_of_blocks.defvjp(_forward, _backward)
