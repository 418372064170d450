"""Rows of data in the order of time, in blocks side by side, as the filter walks along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..core import Module
from .data import Data

UNSEEN = 1e30  # noise variance of a row without an output
LENGTHS = 256  # rows of a block are filled up to a power of two from here on, so that programs are shared


class Timeline(Module):
    """Blocks of rows in the order of time: own ones, and before them (and behind) others to warm up with.

    The filter forgets what lies behind it, so that blocks that begin early enough are independent of each other and
    are walked side by side. Arrays are ``[l, b]``, l rows in each of b blocks; rows that only fill up a block have no
    weight, no output, and the time of the row before.

    Args:
        t: Times.
        y: Outputs; zero where there are none.
        error: Known standard deviations of the outputs.
        seen: Whether a row has an output.
        weight: 1 for a block's own rows that have an output, else 0.
        steps: Rows of the longest block; those beyond fill up.
        place: Where the inputs that were asked for are: numbers of elements of ``[l, b]``; or None. Like the rows they
            are filled up, behind those of the inputs.
        channel: The channel ``[b]`` that each block is of; None if there is one only.
    """

    t: Any
    y: Any
    error: Any
    seen: Any
    weight: Any
    steps: Any
    place: Any
    channel: Any = None

    @classmethod
    def of(
        cls, data: Data, wanted: Any = None, *, own: int | None = None, warm_up: int = 0, longest: float = np.inf
    ) -> Timeline:
        """Of data, and of inputs at which nothing was seen.

        Args:
            data: Rows ``[n, 1]`` in any order.
            wanted: Such inputs ``[t, 1]``, or None.
            own: Rows of its own that a block has at most; None for a single block.
            warm_up: Rows of the data before a block's own ones, and behind them where inputs are ``wanted``.
            longest: Time that a block's own rows span at most, and again those before them.
        """
        t, y, error = (np.asarray(part, float) for part in (data.X[:, 0], data.y, data.error))
        new = np.zeros(0) if wanted is None else np.asarray(wanted, float)[:, 0]
        blank = np.zeros(len(new))
        t, y, error = np.append(t, new), np.append(y, blank), np.append(error, blank)
        order = np.argsort(t, kind="stable")
        starts = _starts(t[order], len(t) if own is None else own, longest)
        ends = np.append(starts[1:], len(t))
        known = np.append(0, np.cumsum(order < data.size))  # rows of the data before each: others tell nothing
        first = np.searchsorted(known, known[starts] - warm_up, side="right") - 1
        first = np.clip(first, 0, starts)
        if np.isfinite(longest):
            first = np.maximum(first, np.searchsorted(t[order], t[order][starts] - longest))
        behind = np.clip(np.searchsorted(known, known[ends] + warm_up), ends, len(t)) if len(new) else ends
        steps = int(np.max(behind - first))
        rows = first + np.arange(_filled(steps))[:, None]
        real = rows < behind
        row = order[np.minimum(rows, behind - 1)]
        seen = real & (row < data.size)
        mine = (rows >= starts) & (rows < ends)
        place = np.zeros(len(t), int)
        place[row[mine]] = np.flatnonzero(mine)
        return cls(
            t[row],
            np.where(seen, y[row], 0.0),
            error[row],
            seen,
            (seen & mine).astype(float),
            np.asarray(steps),
            None if wanted is None else np.append(place[data.size :], np.zeros(_filled(len(new)) - len(new), int)),
        )

    @classmethod
    def traced(cls, data: Data, wanted: Array | None = None) -> Timeline:
        """The same in a single block, inside ``jit``.

        Args:
            data: Rows ``[n, 1]`` in any order.
            wanted: Inputs ``[t, 1]``, or None.
        """
        t, y, error = (jnp.asarray(part) for part in (data.X[:, 0], data.y, data.error))
        size = t.shape[0]
        if wanted is not None:
            blank = jnp.zeros(wanted.shape[0])
            t, y, error = (jnp.append(*pair) for pair in ((t, wanted[:, 0]), (y, blank), (error, blank)))
        order = jnp.argsort(t)
        seen = (order < size)[:, None]
        place = None if wanted is None else jnp.argsort(order)[size:]
        t, y, error = (part[order][:, None] for part in (t, y, error))
        return cls(t, y, error, seen, seen.astype(float), jnp.asarray(t.shape[0]), place)

    @classmethod
    def side_by_side(cls, parts: Sequence[Timeline]) -> Timeline:
        """The blocks of several channels; of a single one its own.

        Args:
            parts: Timelines of the channels, without inputs that are asked for.
        """
        if len(parts) == 1:
            return parts[0]
        length = max(len(part.t) for part in parts)
        columns = [
            np.concatenate([_lengthened(getattr(part, name), length, mode) for part in parts], axis=1)
            for name, mode in (
                ("t", "edge"),
                ("y", "constant"),
                ("error", "edge"),
                ("seen", "constant"),
                ("weight", "constant"),
            )
        ]
        channel = np.repeat(np.arange(len(parts)), [part.t.shape[1] for part in parts])
        t, y, error, seen, weight = columns
        return cls(t, y, error, seen, weight, np.max([part.steps for part in parts]), None, channel)

    def read(self, values: PyTree) -> PyTree:
        """Of ``values [l, ..., b]``, those at the inputs that were asked for, ``[t, ...]``, and at what fills up."""
        flat = jnp.moveaxis(jnp.asarray(values), -1, 1)
        return flat.reshape(-1, *flat.shape[2:])[self.place]


def _starts(t: np.ndarray, own: int, longest: float) -> np.ndarray:
    """The first rows of blocks of increasing times that have at most so many rows and span at most so much time."""
    starts = [0]
    while True:
        start = starts[-1]
        end = min(start + own, int(np.searchsorted(t, t[start] + longest, side="right")))
        if end >= len(t):
            return np.array(starts)
        starts.append(end)


def _lengthened(values: np.ndarray, length: int, mode: Any) -> np.ndarray:
    """Rows ``[l, b]`` filled up with the last one, or with zeros."""
    return np.pad(values, ((0, length - len(values)), (0, 0)), mode=mode)


def _filled(steps: int) -> int:
    return max(LENGTHS, 1 << max(steps - 1, 0).bit_length())
