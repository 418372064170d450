"""Batches of near rows for a neighbour model, read from disk as a fit goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..core import at_least
from ..models import Data, Neighbourhoods, mean_lengthscales
from .memory import room
from .rows import Rows

_SOME = 200  # blocks that stand for all where a kernel is averaged over them


class Batches:
    """Targets from a few blocks, drawn anew after every few steps, with neighbours under the model's kernel.

    Give it to ``maximise`` as ``refresh=``, with ``data=batches(model)``. The conditioning order of the model is that
    of the curve: a row's neighbours are the nearest among rows before it, of its own block and of the ``reach`` blocks
    before it whose boxes are nearest. With a reach of all blocks these are the exact ones. Blocks are equally likely,
    and so are their rows: sums over targets, times N/n, are unbiased.

    Args:
        rows: The data.
        m: How many neighbours each row is conditioned on.
        blocks: Blocks that targets are drawn from.
        targets: Targets from each of them.
        every: After how many steps they are drawn anew.
        reach: Blocks besides its own that neighbours of a row may come from.
        metric: "lengthscale", near in scaled inputs, or "correlation", near under the kernel.
        memory_limit: Bytes of resident memory that the process may reach, at most; a GiB more than it has now when left
            out. A batch whose rows would need more is refused.
        seed: Of the draws.
    """

    def __init__(
        self,
        rows: Rows,
        m: int,
        *,
        blocks: int = 8,
        targets: int = 128,
        every: int = 10,
        reach: int = 12,
        metric: Literal["correlation", "lengthscale"] = "lengthscale",
        memory_limit: int | None = None,
        seed: int = 0,
    ) -> None:
        at_least(1, m=m, blocks=blocks, targets=targets, every=every)
        at_least(0, reach=reach, seed=seed)
        self.rows, self.m, self.blocks, self.targets = rows, m, min(blocks, rows.blocks), targets
        self.every, self.reach, self.metric, self.seed = every, reach, metric, seed
        self._require_room(memory_limit)
        self._some = np.arange(_SOME) * rows.blocks // _SOME  # always as many: one program

    def _require_room(self, memory_limit: int | None) -> None:
        """Refuse batches whose rows would not fit: those that are read around each block, and those that are kept."""
        read = self.blocks * min(self.reach + 1, self.rows.blocks) * int(np.max(np.diff(self.rows.edges)))
        kept = self.blocks * self.targets * (self.m + 1)
        needed, left = 8 * (len(self.rows.x) + 2) * (read + kept), room(memory_limit, "drawing batches")
        if needed > left:
            raise MemoryError(
                f"a batch of {read} rows read and {kept} kept takes {needed} bytes, and memory_limit leaves {left} for "
                "it: raise it, or lower reach, blocks, targets or m"
            )

    def __call__(self, model: Any) -> Neighbourhoods:
        """The first batch, under a model's kernel."""
        return self.at(0)(model)

    def at(self, step: int) -> Callable[[Any], Neighbourhoods]:
        """What is drawn at a step of a fit: a function of the model."""

        def drawn(model: Any) -> Neighbourhoods:
            rng = np.random.default_rng([self.seed, step])
            chosen = rng.choice(self.rows.blocks, self.blocks, replace=False)
            kernel = model.realise().kernel
            scale = self.scale_of(kernel)
            return joined([self.of_block(kernel, scale, int(b), rng) for b in chosen], self.rows.size)

        return drawn

    def scale_of(self, kernel: Any) -> np.ndarray:
        """The scale ``[d]`` of each input in which blocks are near: the kernel's lengthscales, over all the blocks."""
        return mean_lengthscales(kernel, self.rows.corners.mean(axis=1)[self._some])

    def of_block(
        self, kernel: Any, scale: np.ndarray, block: int, rng: np.random.Generator
    ) -> tuple[Neighbourhoods, np.ndarray]:
        """Some rows of a block, drawn at random, with their neighbours; and the numbers, of all rows, of its data."""
        rows = self.rows
        low, high = rows.corners[block]
        near = rows.near(low, high, scale, self.reach, before=block)
        near = np.append(near, block)
        X, y, error = rows.read(near)
        numbers = np.concatenate([np.arange(rows.edges[b], rows.edges[b + 1]) for b in near])
        own = int(rows.edges[block + 1] - rows.edges[block])
        targets = len(X) - own + np.sort(rng.choice(own, self.targets, replace=own < self.targets))
        data = Data.unchecked(X, y, error, rows.size)
        return Neighbourhoods.under(kernel, data, np.arange(len(X)), self.m, self.metric, targets), numbers


def joined(parts: list[tuple[Neighbourhoods, np.ndarray]], size: int) -> Neighbourhoods:
    """Neighbourhoods of several blocks, with the numbers of their rows, as those of the rows that any of them uses.

    Each row is there once, and copies fill up to a fixed number: every batch has the same shapes, and a compiled
    program serves all of them.
    """
    width = max(part.members.shape[1] for part, _ in parts)
    members, columns = [], []
    for part, numbers in parts:
        padded = np.pad(part.members, ((0, 0), (width - part.members.shape[1], 0)), constant_values=-1)
        members.append(np.where(padded >= 0, numbers[padded], -1))
        columns.append(some_of(part.data, padded[padded >= 0]))
    every = np.concatenate(members)
    there = every >= 0
    used, first, place = np.unique(
        np.concatenate([each[each >= 0] for each in members]), return_index=True, return_inverse=True
    )
    every[there] = place
    index = first[np.minimum(np.arange(every.size), len(used) - 1)]
    X, y, error = (np.concatenate(column)[index] for column in zip(*columns, strict=True))
    return Neighbourhoods(Data.unchecked(X, y, error, size), every.astype(np.int32), parts[0][0].metric)


def some_of(data: Data, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, outputs and error bars of some rows, by NumPy: JAX would compile a program for every number of them."""
    return np.asarray(data.X)[index], np.asarray(data.y)[index], np.asarray(data.error)[index]
