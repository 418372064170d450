"""Checks of arguments, with errors that say which argument, what was expected, what came, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .entry_points import traced

Key: TypeAlias = Array | int  # a JAX random key, or an integer seed


def as_key(key: Any) -> Array:
    """A JAX random key: as it is, or from an integer seed."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return jax.random.key(int(key))
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.ndim == 0:
        return key
    if isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.ndim == 1:
        return jax.random.wrap_key_data(jnp.asarray(key))  # an old-style key, jax.random.PRNGKey
    raise TypeError(f"key must be an integer seed or a JAX random key, such as jax.random.key(0); got {key!r}")


def at_least(least: int, **counts: Any) -> None:
    """Refuse counts, given by their names, that are no integers or below ``least``."""
    for name, count in counts.items():
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {count!r}")


def as_level(level: Any) -> float:
    """The probability of an interval, between 0 and 1."""
    if not (isinstance(level, int | float | np.number) and 0.0 < level < 1.0):
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return float(level)


def as_numbers(value: Any, name: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """An array of finite float64, broadcast to a shape if one is given, or an error that calls it by its name."""
    refuse_masked(value, name)
    try:
        if np.iscomplexobj(value):
            raise TypeError("these are complex")
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers: {error}") from error
    require(np.isfinite(array), array, name, "finite")
    if shape is None:
        return array
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name} must be one number or have shape {list(shape)}, got {list(array.shape)}") from None


def inputs(X: Any, name: str = "X") -> Array:
    """Inputs as a finite array ``[n, d]`` of JAX; a list of n numbers is one column."""
    return jnp.asarray(_columns(X, name))


def plain_inputs(X: Any, name: str = "X") -> np.ndarray:
    """The same as an array of NumPy, without JAX: it would compile a small program for every number of rows."""
    return np.asarray(_columns(X, name))


def _columns(X: Any, name: str) -> Any:
    """Inputs ``[n, d]``, checked: an array of JAX where they are traced, else of NumPy."""
    try:
        # Inside the caller's jit a float32 input stays float32; from plain Python the library's precision decides.
        array: Any
        if traced(X):
            array = jnp.asarray(X, dtype=X.dtype if jnp.issubdtype(X.dtype, jnp.floating) else float)
        else:  # in NumPy: JAX would compile every operation for every shape
            array = np.asarray(X)
            if array.dtype.kind == "O":  # None would be NaN
                raise TypeError("these are objects")
            array = array.astype(jax.dtypes.canonicalize_dtype(float), copy=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers [n, d], got {type(X).__name__}: {error}") from error
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must have shape [n, d] (or [n] for one input) with at least one row and one column, "
            f"got {list(array.shape)}"
        )
    if not traced(array):
        require(np.isfinite(array), array, name, "finite")
    return array


def require(accepted: Array | np.ndarray, values: Array | np.ndarray, name: str, expected: str) -> None:
    """Raise unless every value is accepted; names the argument, the first bad value and its place.

    Traced values are unknown and pass: inside ``jit`` the caller answers for them.
    """
    if traced(accepted) or bool(np.all(accepted)):
        return
    place = tuple(int(i) for i in np.argwhere(~np.asarray(accepted))[0])
    raise ValueError(f"{name} must be {expected}, got {float(values[place]):g} at index {list(place)}")


def refuse_masked(value: Any, name: str) -> None:
    """A mask says that what lies under it is not to be used, and as a plain array it would be."""
    if isinstance(value, np.ma.MaskedArray) and np.any(np.ma.getmaskarray(value)):
        raise ValueError(f"{name} has masked values: leave these rows out, or fill them")


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors raised inside say which argument, or which file, they are about."""
    try:
        yield
    except (TypeError, ValueError, FloatingPointError) as error:
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error)):
            raise
        kind = next(kind for kind in (TypeError, ValueError, FloatingPointError) if isinstance(error, kind))
        raise kind(f"{name}: {error}") from error
