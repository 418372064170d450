"""Readings at many draws, of several models side by side where that costs little more than of one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..models import BLOCK, AbstractModel


def at_draws(reading: Callable[[Any], Any], draws: PyTree, log_joint: Array, rest: PyTree) -> Any:
    """Values of a reading at all draws, ``[s, ...]``.

    Args:
        reading: Any function of a model.
        draws: Leaves ``[s, ...]`` of what differs between the models.
        log_joint: ``[s]``; a model without free parameters has a draw all the same.
        rest: The rest of the models.
    """
    return _at_draws(reading, draws, log_joint, rest, _side_by_side(reading, draws, len(log_joint), rest))


def _side_by_side(reading: Any, draws: PyTree, count: int, rest: PyTree) -> int:
    """How many are read at once, of a reading whose rows are known: a share of all, for one program to serve."""
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(reading) if eqx.is_array_like(leaf)]
    if not sizes or not count or not isinstance(rest, AbstractModel):
        return 1
    model: Any = eqx.combine(jax.tree.map(lambda leaf: leaf[0], draws), rest)
    return math.gcd(count, model.side_by_side(max(sizes)))


@eqx.filter_jit
def _at_draws(reading: Callable[[Any], Any], draws: PyTree, log_joint: Array, rest: PyTree, batch: int) -> Any:
    def read(pair: tuple[PyTree, Array]) -> Any:
        return reading(eqx.combine(pair[0], rest))

    return jax.lax.map(read, (draws, log_joint), batch_size=batch if batch > 1 else None)


def rounded(rows: int) -> int:
    """A power of two from 16 to the rows that models predict at once, or a multiple of these."""
    return max(16, 2 ** (rows - 1).bit_length()) if rows <= BLOCK else -(-rows // BLOCK) * BLOCK


def filled(rows: int) -> np.ndarray:
    """Numbers of so many rows, and the last again and again, up to one of few counts that programs are compiled for."""
    return np.minimum(np.arange(rounded(rows)), rows - 1)
