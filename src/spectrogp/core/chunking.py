"""Sums over many rows without storing anything of their size, on one device or shared among many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh, PartitionSpec
from jaxtyping import PyTree

Summand = Callable[..., Array]

_AXIS = "spectrogp_rows"  # of the mesh of devices

_divided: ContextVar[tuple[Any, int]] = ContextVar("divided", default=(0, 1))  # a part of the rows, and of how many


@contextmanager
def rows_shared() -> Iterator[None]:
    """Inside, every ``chunked_sum`` is shared among all devices of all processes, which call it together.

    It is part of JAX's own context, which compiled programs know of: those from outside are not used inside.
    """
    with jax.sharding.use_abstract_mesh(_mesh().abstract_mesh):
        yield


def sharing_rows() -> bool:
    """Whether this is inside ``rows_shared``."""
    return _devices() > 0


@contextmanager
def rows_divided(part: Array, parts: int) -> Iterator[None]:
    """Inside, every ``chunked_sum`` is that of one part of the rows times the number of ``parts``.

    So the mean over all parts of anything that such sums enter linearly is what it is of all rows. Which ``part`` it
    is, is a number that a program is given as it runs: one program serves all of them, in several threads at once.
    """
    token = _divided.set((part, parts))
    try:
        yield
    finally:
        _divided.reset(token)


def chunked_sum(
    summand: Summand, shared: PyTree, rows: PyTree, chunk: int, fixed: tuple[Any, ...] = (), table: PyTree = None
) -> Array:
    """Σ over rows of ``summand(shared, some rows, *fixed)``, evaluated chunk by chunk.

    ``rows`` is a pytree of arrays with the rows as leading axis, ``shared`` a pytree of arrays that every row needs;
    ``summand`` gives one number for each row it is given. The gradient with respect to ``shared`` is accumulated in the
    same pass as the value, chunk by chunk, so neither stores anything of the size of all rows, and nothing is computed
    twice. Rows, and ``fixed`` arguments that all rows need, are data: no gradient flows to them. Inside ``rows_shared``
    each device takes its share of the chunks, and all get the sum.

    With a ``table`` of arrays, rows are numbers ``[n, k]`` of its rows (negative for none, which stands for the first),
    and it is ``summand(shared, those of the table, some rows, *fixed)``, with a gradient in the table as well.
    """
    part, parts = _divided.get()
    size, shares = jax.tree.leaves(rows)[0].shape[0], (_devices() or 1) * parts
    blocks = -(-size // (chunk * shares)) * shares
    chunk, blocks = -(-size // blocks), blocks // parts
    # The last chunks are filled up with copies of the first rows, of weight zero: one shape, one compilation.
    index = part * blocks * chunk + jnp.arange(blocks * chunk)
    weight = parts * (index < size).astype(jnp.result_type(float))
    index = index % size
    shaped = jax.tree.map(lambda leaf: leaf[index].reshape(blocks, chunk, *leaf.shape[1:]), rows)
    return _sum_of_blocks(summand, (shared, table), fixed, (shaped, weight.reshape(blocks, chunk)))


def in_blocks(function: Callable[[Any], Any], rows: PyTree, block: int) -> Any:
    """``function(rows)``, for a function of each row alone, evaluated block by block so that memory stays flat."""
    size = jax.tree.leaves(rows)[0].shape[0]
    if size <= block:
        return function(rows)
    index = jnp.minimum(jnp.arange(-(-size // block) * block), size - 1)
    shaped = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index].reshape(-1, block, *leaf.shape[1:]), rows)
    values = jax.lax.map(function, shaped)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:size], values)


def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()), (_AXIS,), axis_types=(AxisType.Auto,))


def _devices() -> int:
    """How many devices share rows here; zero for a plain sum."""
    mesh = jax.sharding.get_abstract_mesh()
    return mesh.shape[_AXIS] if _AXIS in mesh.axis_names else 0


def _over_devices(function: Callable[..., Any], shared: PyTree, fixed: PyTree, blocks: PyTree) -> Any:
    """``function(shared, fixed, blocks)``, a sum over blocks, of which every device takes its share."""
    if not _devices():
        return function(shared, fixed, blocks)

    def part(*arguments: PyTree) -> Any:
        return jax.lax.psum(function(*arguments), _AXIS)  # type: ignore[no-untyped-call]

    whole, share = PartitionSpec(), PartitionSpec(_AXIS)  # type: ignore[no-untyped-call]
    return jax.shard_map(part, mesh=_mesh(), in_specs=(whole, whole, share), out_specs=whole, check_vma=False)(
        shared, fixed, blocks
    )


def _weighted(summand: Summand, fixed: PyTree, block: PyTree, shared: PyTree, picked: PyTree) -> Array:
    rows, weight = block
    given = (rows,) if picked is None else (picked, rows)
    return jnp.sum(weight * summand(shared, *given, *fixed))


def _picked(table: PyTree, block: PyTree) -> PyTree:
    """Those rows of a table that a block of row numbers names."""
    return jax.tree.map(lambda leaf: leaf[jnp.maximum(block[0], 0)], table)


def _value_only(summand: Summand, shared: PyTree, fixed: PyTree, blocks: PyTree) -> Array:
    def total(both: PyTree, fixed: PyTree, blocks: PyTree) -> Array:
        def add(value: Array, block: PyTree) -> Array:
            return value + _weighted(summand, fixed, block, both[0], _picked(both[1], block))

        return _over_blocks(add, jnp.zeros(()), blocks)

    value: Array = _over_devices(total, shared, fixed, blocks)
    return value


def _forward(summand: Summand, shared: PyTree, fixed: PyTree, blocks: PyTree) -> tuple[Array, Any]:
    def total(both: PyTree, fixed: PyTree, blocks: PyTree) -> Any:
        def add(totals: Any, block: PyTree) -> Any:
            value, slopes, table = totals
            work = jax.value_and_grad(partial(_weighted, summand, fixed, block), (0, 1))
            new, (along, picked) = work(both[0], _picked(both[1], block))
            # In place: the table may be much larger than what a block has of it.
            table = jax.tree.map(lambda leaf, part: leaf.at[jnp.maximum(block[0], 0)].add(part), table, picked)
            return value + new, jax.tree.map(jnp.add, slopes, along), table

        return _over_blocks(add, (jnp.zeros(()), *jax.tree.map(jnp.zeros_like, both)), blocks)

    value, *slopes = _over_devices(total, shared, fixed, blocks)
    return value, (tuple(slopes), fixed, blocks)


def _over_blocks(add: Callable[[Any, PyTree], Any], start: Any, blocks: PyTree) -> Any:
    """What becomes of a total as every block is added, one after the other."""
    return jax.lax.scan(lambda total, block: (add(total, block), None), start, blocks)[0]


def _backward(summand: Summand, residuals: PyTree, cotangent: Array) -> tuple[Any, Any, Any]:
    del summand
    slope, fixed, blocks = residuals

    def nothing(leaf: Array) -> Any:
        return (
            jnp.zeros_like(leaf) if jnp.issubdtype(leaf.dtype, jnp.inexact) else np.zeros(leaf.shape, jax.dtypes.float0)
        )

    return jax.tree.map(lambda leaf: cotangent * leaf, slope), *jax.tree.map(nothing, (fixed, blocks))


_sum_of_blocks = jax.custom_vjp(_value_only, nondiff_argnums=(0,))
_sum_of_blocks.defvjp(_forward, _backward)
