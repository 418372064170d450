"""Floating-point precision of what the library computes.

JAX computes in float32 unless a process-wide switch is set. Gaussian processes need float64, and setting that switch on
import would change the caller's own JAX programs. So public entry points switch precision for themselves only:

- called from plain Python they compute in float64 and hand back NumPy arrays;
- inside ``with precision("float32"):`` they compute in float32;
- inside the caller's own ``jit``, ``grad`` or ``vmap`` they follow the caller's JAX configuration and hand back what
  JAX is tracing.

Public functions are entry points by ``@entry_point``, public methods by their class (``Module``).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_double = ContextVar("spectrogp_double", default=True)
_inside = ContextVar("spectrogp_inside", default=False)  # an entry point: the precision is set already

_started = False  # JAX has computed something in this process, or in one that it was forked from
_forked = False  # the process was forked after that


@contextmanager
def precision(name: Literal["float32", "float64"]) -> Iterator[None]:
    """Compute in the named precision inside a ``with`` block; the default of the library is float64.

    Args:
        name: "float32" or "float64".

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> k = sg.kernels.SquaredExponential(0.3)
        >>> with sg.precision("float32"):
        ...     print(k(np.zeros((2, 1))).dtype)
        float32
    """
    if name not in ("float32", "float64"):
        raise ValueError(f"precision must be 'float32' or 'float64', got {name!r}")
    token = _double.set(name == "float64")
    try:
        yield
    finally:
        _double.reset(token)


def traced(*trees: PyTree) -> bool:
    """Whether any array in the given pytrees is being traced by a JAX transformation."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def refuse_forked() -> None:
    """Raise an error in a process that was forked after JAX had started, where a computation would never end.

    The threads that JAX computes with are not there in the child; it would wait for them.
    """
    if _forked:
        raise RuntimeError(
            "cannot compute in this process, which was forked after JAX had started its threads, and would wait for "
            "them for ever; start processes by multiprocessing.get_context('spawn'), or use joblib's backend 'loky'"
        )


def _note_fork() -> None:
    global _forked
    _forked = _started


if hasattr(os, "register_at_fork"):  # where processes can be forked
    os.register_at_fork(after_in_child=_note_fork)


def entry_point(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make ``function`` a public entry point: the library's precision inside, NumPy arrays outside.

    The wrapped function keeps the type it declares; from plain Python the arrays in its result are NumPy arrays. An
    entry point that another one calls is a plain function.
    """

    @functools.wraps(function)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if _inside.get() or traced(args, kwargs):
            return function(*args, **kwargs)
        refuse_forked()
        token = _inside.set(True)
        try:
            with jax.enable_x64(_double.get()):
                # Programs for single precision get single-precision arguments: JAX's caches, which know of the switch,
                # have been seen to hand a float64 array to a program compiled for float32.
                given = (args, kwargs) if _double.get() else jax.tree.map(_single, (args, kwargs))
                result = function(*given[0], **given[1])
        finally:
            _inside.reset(token)
        if traced(result):
            # A callable parameter closes over a traced value that no argument shows: start again as the caller's JAX.
            return function(*args, **kwargs)
        return jax.tree.map(_plain, result)

    return run


def _single(leaf: Any) -> Any:
    return leaf.astype(np.float32) if isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 else leaf


def _plain(leaf: Any) -> Any:
    """A NumPy array in the place of JAX's; a random key stays what it is."""
    global _started
    if not isinstance(leaf, jax.Array):
        return leaf
    _started = True
    return leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf)
