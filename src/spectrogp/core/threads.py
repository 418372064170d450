"""Work in threads: compiled programs let go of Python's lock, so that several of them run at once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """The processor cores that this process may use: no more than ``NPROC``, which tells XLA the same."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("NPROC", "")
    return min(mine, int(told)) if told.isdigit() and int(told) else mine


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
        with jax.enable_x64(double):
            return function(item)

    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        return [each.result() for each in waiting]
