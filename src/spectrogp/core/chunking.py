"""Sums over many rows without storing anything of their size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

Summand = Callable[[Any, Any], Array]


def chunked_sum(summand: Summand, shared: PyTree, rows: PyTree, chunk: int) -> Array:
    """Σ over rows of ``summand(shared, some rows)``, evaluated chunk by chunk.

    ``rows`` is a pytree of arrays with the rows as leading axis, ``shared`` a pytree of arrays that every row needs;
    ``summand`` gives one number for each row it is given. The gradient with respect to ``shared`` is accumulated in the
    same pass as the value, chunk by chunk, so neither stores anything of the size of all rows, and nothing is computed
    twice. Rows are data: no gradient flows to them.
    """
    size = jax.tree.leaves(rows)[0].shape[0]
    blocks = -(-size // chunk)
    chunk = -(-size // blocks)
    # The last chunk is filled up with copies of the first rows, of weight zero: one shape, one compilation.
    index = jnp.arange(blocks * chunk)
    weight = (index < size).astype(jnp.result_type(float))
    index = jnp.where(index < size, index, index - size)
    shaped = jax.tree.map(lambda leaf: leaf[index].reshape(blocks, chunk, *leaf.shape[1:]), rows)
    return _sum_of_blocks(summand, shared, (shaped, weight.reshape(blocks, chunk)))


def in_blocks(function: Callable[[Any], Any], rows: PyTree, block: int) -> Any:
    """``function(rows)``, for a function of each row alone, evaluated block by block so that memory stays flat."""
    size = jax.tree.leaves(rows)[0].shape[0]
    if size <= block:
        return function(rows)
    index = jnp.minimum(jnp.arange(-(-size // block) * block), size - 1)
    shaped = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index].reshape(-1, block, *leaf.shape[1:]), rows)
    values = jax.lax.map(function, shaped)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:size], values)


def _weighted(summand: Summand, shared: PyTree, block: PyTree) -> Array:
    rows, weight = block
    return jnp.sum(weight * summand(shared, rows))


def _value_only(summand: Summand, shared: PyTree, blocks: PyTree) -> Array:
    first = jax.eval_shape(partial(_weighted, summand), shared, jax.tree.map(lambda leaf: leaf[0], blocks))

    def step(total: Array, block: PyTree) -> tuple[Array, None]:
        return total + _weighted(summand, shared, block), None

    return jax.lax.scan(step, jnp.zeros(first.shape, first.dtype), blocks)[0]


def _forward(summand: Summand, shared: PyTree, blocks: PyTree) -> tuple[Array, Any]:
    slope = jax.value_and_grad(partial(_weighted, summand))

    def step(totals: Any, block: PyTree) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, totals, slope(shared, block)), None

    first = jax.eval_shape(slope, shared, jax.tree.map(lambda leaf: leaf[0], blocks))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), first)
    (value, total), _ = jax.lax.scan(step, zeros, blocks)
    return value, (total, blocks)


def _backward(summand: Summand, residuals: PyTree, cotangent: Array) -> tuple[Any, Any]:
    del summand
    slope, blocks = residuals
    nothing = jax.tree.map(
        lambda leaf: (
            jnp.zeros_like(leaf) if jnp.issubdtype(leaf.dtype, jnp.inexact) else np.zeros(leaf.shape, jax.dtypes.float0)
        ),
        blocks,
    )
    return jax.tree.map(lambda leaf: cotangent * leaf, slope), nothing


_sum_of_blocks = jax.custom_vjp(_value_only, nondiff_argnums=(0,))
_sum_of_blocks.defvjp(_forward, _backward)
