"""Work in threads: compiled programs let go of Python's lock, so that several of them run at once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_sharing: ContextVar[bool] = ContextVar("sharing", default=False)  # whether this thread is one of several


def cores() -> int:
    """The processor cores that this thread may share its work among: one where ``side_by_side`` has done so already.

    They are those of the process, no more than ``NPROC``, which tells XLA the same.
    """
    if _sharing.get():
        return 1
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("NPROC", "")
    return min(mine, int(told)) if told.isdigit() and int(told) else mine


def program_threads() -> int:
    """The threads that may share compiled programs: one on every core, and one alone where they run on an accelerator.

    It begins JAX, unlike ``cores``; of one device several threads would only wait for each other.
    """
    return cores() if jax.default_backend() == "cpu" else 1


def compute_in_callers() -> None:
    """Let programs run in the threads that call them, in a process of ours: a command, or a worker for many signals.

    By default JAX hands each program to a thread of its own, so that callers can go on meanwhile. Searches here wait
    for every result: to wake it up for each of some hundred short programs takes a twelfth of a fit. It changes JAX
    for the whole process, and serves if nothing has been computed there yet.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]


def one_blas_thread() -> AbstractContextManager[Any]:
    """Inside, BLAS uses one thread: of small matrices, those that wait for each other would take whole cores."""
    return _blas().limit(limits=1, user_api="blas")


@functools.cache
def _blas() -> ThreadpoolController:
    """Libraries are looked for once, which takes as long as a small fit's smallest step."""
    return ThreadpoolController()


def side_by_side(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> list[Result]:
    """``function`` of every item, in their order, by so many threads; one after the other with one worker.

    Threads compute in the precision of the caller: JAX's switch for it holds in the thread where it was set only.
    """
    items = list(items)
    if workers == 1 or len(items) <= 1:
        return [function(item) for item in items]
    double = jnp.result_type(float) == np.float64

    def work(item: Item) -> Result:
        _sharing.set(True)  # in the context of this item
        with jax.enable_x64(double):
            return function(item)

    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        try:
            return [each.result() for each in waiting]
        finally:  # after an error, or Ctrl-C, those that have not begun are left
            pool.shutdown(wait=False, cancel_futures=True)


_known: set[Hashable] = set()


def is_new(function: Hashable, arguments: Any) -> bool:
    """Whether a compiled function is met for the first time with arguments of these shapes: then one thread compiles.

    Args:
        function: The function.
        arguments: A tree of arrays, and of what programs are compiled for.
    """
    leaves, structure = jax.tree.flatten(arguments)
    # Functions by their number, so that none is kept alive: one that is taken for another costs a compilation.
    kinds = tuple(id(leaf) if callable(leaf) else (np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    key = (function, structure, kinds)
    new = key not in _known
    _known.add(key)
    return new


def in_pieces(function: Callable[[Any], Any], rows: Any, size: int, shared: Any) -> Any:
    """``function(rows)``, for a compiled function of each row alone, in pieces of one size that threads share.

    Pieces of one size are one program, for any number of rows; the last is filled up with copies of its last row.

    Args:
        function: Of a tree of arrays with the rows as leading axis; so is its result, which becomes NumPy's.
        rows: Those arrays.
        size: Rows of a piece.
        shared: What else the compiled program is given, which tells whether there is one already.
    """
    count = len(jax.tree.leaves(rows)[0])

    def some(start: int) -> Any:
        chosen = np.minimum(np.arange(start, start + size), count - 1)
        return jax.tree.map(lambda array: array[chosen], rows)

    def piece(start: int) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: count - start], function(some(start)))

    starts = range(0, count, size)
    with one_blas_thread():
        alone = [piece(0)] if is_new("in_pieces", (some(0), shared)) else []
        parts = alone + side_by_side(piece, starts[len(alone) :], program_threads())
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
