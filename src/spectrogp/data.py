"""Data as models see them: inputs, outputs and known error bars, with their number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


class Data(eqx.Module):
    """Inputs ``X [n, d]``, outputs ``y [n]``, known standard deviations ``error [n]``, and the size N of the whole.

    A minibatch has n < N rows; sums over its rows stand for sums over all after multiplication by ``scale`` = N/n.
    """

    X: Array
    y: Array
    error: Array
    size: int = eqx.field(static=True)

    def __init__(self, X: Any, y: Any, error: Any = None, size: int | None = None) -> None:
        self.X = X
        self.y = y
        self.error = np.zeros_like(y) if error is None else error
        self.size = X.shape[0] if size is None else size

    @classmethod
    def checked(cls, X: Any, y: Any, error: Any = None) -> Data:
        """Data from the outside: float64, the right shapes, finite, or an error that names the argument."""
        X, y = as_numbers(X, "X"), as_numbers(y, "y")
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"X must have shape [n, d] with at least one row and column, got {list(X.shape)}")
        if y.shape != X.shape[:1]:
            raise ValueError(f"y must have shape [n] with n = {X.shape[0]} as X has, got {list(y.shape)}")
        if error is not None:
            error = as_numbers(error, "error", y.shape)
            if np.any(error < 0):
                raise ValueError(f"error must be zero or positive, got {np.min(error):g}")
        return cls(X, y, error)

    @property
    def scale(self) -> float:
        """N/n: what a sum over the rows must be multiplied by to stand for all data."""
        return self.size / self.X.shape[0]

    def rows(self, index: Array) -> Data:
        """Some of the rows, as a minibatch of the same whole."""
        X, y, error = (jnp.asarray(part)[index] for part in (self.X, self.y, self.error))
        return Data(X, y, error, self.size)

    def minibatch(self, key: Array, rows: int) -> Data:
        """Rows drawn at random without replacement."""
        return self.rows(draw_rows(key, self.size, rows))


def draw_rows(key: Array, size: int, rows: int) -> Array:
    """Some of 0 … size − 1, all different, each equally likely: in O(rows), where a permutation would be O(size).

    One number from each of ``rows`` stretches of nearly equal length, all turned by the same random amount: so every
    sum over the drawn numbers is unbiased, and less noisy than with independent draws.
    """
    if not 1 <= rows <= size:
        raise ValueError(f"a minibatch has between 1 and all {size} rows, got {rows}")
    edges = np.arange(rows + 1) * size // rows
    within, turn = jax.random.split(key)
    place = jax.random.randint(within, (rows,), edges[:-1], edges[1:])
    return (place + jax.random.randint(turn, (), 0, size)) % size


def as_numbers(value: Any, name: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """An array of finite float64, broadcast to a shape if one is given, or an error that calls it by its name."""
    refuse_masked(value, name)
    try:
        if np.iscomplexobj(value):
            raise TypeError("these are complex")
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers: {error}") from error
    if not np.all(np.isfinite(array)):
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(f"{name} must be finite, got {array[tuple(place)]} at index {place}")
    if shape is None:
        return array
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name} must be one number or have shape {list(shape)}, got {list(array.shape)}") from None


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
