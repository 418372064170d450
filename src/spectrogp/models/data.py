"""Data as models see them: inputs, outputs and known error bars, with their number."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import Module, as_numbers, traced


class Data(Module):
    """Inputs, outputs and known error bars, checked: float64, of the right shapes, finite.

    A minibatch has n < N rows; sums over its rows stand for sums over all after multiplication by ``scale`` = N/n.

    Args:
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        y: Outputs ``[n]``.
        error: Known standard deviations of the outputs, ``[n]`` or one number; none when left out.

    Example:
        >>> import spectrogp as sg
        >>> sg.Data([0.0, 0.5, 1.0], [1.0, 0.2, -0.4], error=0.1).size
        3
    """

    X: Any
    y: Any
    error: Any
    size: int = eqx.field(static=True)

    def __init__(self, X: ArrayLike, y: ArrayLike, error: ArrayLike | None = None) -> None:
        X, y = as_numbers(X, "X"), as_numbers(y, "y")
        X = X[:, None] if X.ndim == 1 else X
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(
                "X must have shape [n, d] (or [n] for one input) with at least one row and one column, "
                f"got {list(X.shape)}"
            )
        if y.shape != X.shape[:1]:
            raise ValueError(f"y must have shape [n] with n = {X.shape[0]} as X has, got {list(y.shape)}")
        error = as_numbers(0.0 if error is None else error, "error", y.shape)
        if np.any(error < 0):
            raise ValueError(f"error must be zero or positive, got {np.min(error):g}")
        self.X, self.y, self.error, self.size = X, y, np.array(error), X.shape[0]

    @classmethod
    def unchecked(
        cls, X: Array | np.ndarray, y: Array | np.ndarray, error: Any = None, size: int | None = None
    ) -> Data:
        """The same without a look at the values, which may be traced.

        Args:
            X: Inputs ``[n, d]``.
            y: Outputs ``[n]``.
            error: Known standard deviations ``[n]``; zero when left out.
            size: The number N of all rows, of which these are some; as many as there are when left out.
        """
        data = object.__new__(cls)
        zeros = jnp.zeros_like if traced(y) else np.zeros_like
        error, size = zeros(y) if error is None else error, X.shape[0] if size is None else size
        for name, value in (("X", X), ("y", y), ("error", error), ("size", size)):
            object.__setattr__(data, name, value)
        return data

    @property
    def scale(self) -> float:
        """N/n: what a sum over the rows must be multiplied by to stand for all data."""
        return self.size / self.X.shape[0]

    def rows(self, index: Array | np.ndarray) -> Data:
        """The rows with these numbers, ``index [n]``, as a minibatch of the same whole."""
        X, y, error = (jnp.asarray(part)[index] for part in (self.X, self.y, self.error))
        return Data.unchecked(X, y, error, self.size)

    def minibatch(self, key: Array, rows: int) -> Data:
        """So many ``rows``, drawn at random with a ``key``, without replacement."""
        return self.rows(draw_rows(key, self.size, rows))

    def with_column(self, value: Any) -> Data:
        """The same with one more column of inputs, that holds one value."""
        return Data.unchecked(add_column(self.X, value), self.y, self.error, self.size)


def channels_of(X: ArrayLike, y: ArrayLike, error: ArrayLike | None = None) -> tuple[Data, ...]:
    """The data of every channel, checked: of several those rows in which it has an output.

    Args:
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        y: Outputs ``[n]`` of one channel; or ``[n, c]`` of c channels along one input, not a number where a channel has
            no output.
        error: Known standard deviations of the outputs, ``[n, c]``, ``[n]`` or one number; none when left out.
    """
    outputs = np.asarray(y)
    if outputs.ndim != 2:
        return (Data(X, y, error),)
    outputs, X = np.asarray(outputs, np.float64), as_numbers(X, "X")
    X = X[:, None] if X.ndim == 1 else X
    if X.shape[1:] != (1,):
        raise ValueError(f"several channels, y [n, c], are for one input, got X of shape {list(X.shape)}")
    if len(outputs) != len(X) or not outputs.shape[1]:
        raise ValueError(
            f"y must have shape [n] or [n, c] with n = {len(X)} as X has and c > 0, got {list(outputs.shape)}"
        )
    if np.any(np.isinf(outputs)):
        raise ValueError(f"y must be finite, or not a number where a channel has no output; got {np.inf}")
    there = np.isfinite(outputs)
    if not np.all(np.any(there, axis=0)):
        raise ValueError(f"channel {int(np.argmin(np.any(there, axis=0)))} of y has no output: leave it out")
    bars = np.asarray(0.0 if error is None else error, np.float64)
    if bars.shape not in ((), outputs.shape[:1], outputs.shape):
        raise ValueError(f"error must be one number or have shape [n] or [n, c] as y has, got {list(bars.shape)}")
    bars = np.broadcast_to(bars[:, None] if bars.ndim == 1 else bars, outputs.shape)
    return tuple(Data(X[seen], y[seen], e[seen]) for seen, y, e in zip(there.T, outputs.T, bars.T, strict=True))


def add_column(X: Array | np.ndarray, value: Any) -> Array:
    """Inputs ``[n, d + 1]`` with one more column, that holds one value."""
    return jnp.column_stack([jnp.asarray(X), jnp.broadcast_to(jnp.asarray(value, float), (len(X),))])


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
