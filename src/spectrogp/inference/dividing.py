"""Values and gradients of log joint densities that are sums over many rows, by several threads of this process.

Each thread takes a part of the rows, and all of them run one compiled program (``core.rows_divided``). Threads that XLA
takes by itself for chunks of rows gain nothing: what a chunk has to do is too small to be shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import PyTree

from ..core import is_new, one_blas_thread, program_threads, rows_divided, sharing_rows, side_by_side
from ..models import AbstractObjective

LEAST = 2**18  # covariances that a thread has to compute, at least: fewer are done sooner than handed out

Slope = tuple[Array, PyTree]  # a value and its gradient


def parts_of(model: AbstractObjective, data: Any, rows: int | None, workers: int | None) -> int:
    """Threads that share a step, one where nothing would be gained, or where processes share it already.

    Args:
        model: What is maximised.
        data: What it is fitted to.
        rows: Rows of a minibatch; None for all.
        workers: How many threads there may be; None for one on every core, of CPUs.
    """
    pairs = 0 if sharing_rows() else model.pairs(data)
    if not pairs:
        return 1
    work = pairs * (round(data.size / data.scale) if rows is None else rows)
    return max(1, min(program_threads() if workers is None else workers, work // LEAST))


class Divided:
    """A function that gives a value and its gradient, by several threads.

    Args:
        slope: ``slope(*arguments)``, whose value is linear in sums over rows: a function at the top of a module, by
            which the compiled program is known, that is not jitted itself.
        parts: How many threads.
    """

    def __init__(self, slope: Callable[..., Slope], parts: int) -> None:
        self._slope, self._parts, self._begun = slope, parts, False

    def __call__(self, *arguments: Any) -> Slope:
        """The same as ``slope`` gives, but for rounding."""

        def one(part: int) -> Slope:
            found = _of_part(self._slope, jnp.asarray(part), self._parts, arguments)
            jax.block_until_ready(found)  # type: ignore[no-untyped-call]
            return found

        with one_blas_thread():
            # Threads that find no program would each compile it.
            alone = [one(0)] if not self._begun and is_new(self._slope, (arguments, self._parts)) else []
            self._begun = True
            every = alone + side_by_side(one, range(len(alone), self._parts), self._parts)
        return _mean(every)


@eqx.filter_jit
def _of_part(slope: Callable[..., Slope], part: Array, parts: int, arguments: tuple[Any, ...]) -> Slope:
    with rows_divided(part, parts):
        return slope(*arguments)


@eqx.filter_jit
def _mean(slopes: list[Slope]) -> Slope:
    mean: Slope = jax.tree.map(lambda *parts: sum(parts) / len(parts), *slopes)
    return mean
