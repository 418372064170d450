"""Predictions of a table, block by block, into a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import at_least
from ..files import FilePath, arrow_for, replace_file
from ..models import Data, Neighbourhoods
from .arranging import BATCH, batches_of
from .batches import Batches, some_of
from .curve import place_on_curve
from .memory import room

_TOGETHER = 512  # test inputs of one program
_BLOCKS = 128  # that are read for them, at most
_BYTES = 96  # of memory for every number of a test row, as it is read, sorted and written


def predict_table(
    model: Any,
    batches: Batches,
    table: FilePath,
    out: FilePath,
    *,
    m: int | None = None,
    memory_limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Predict the outputs of a Parquet table of inputs into another, in the order of its rows; gives their number.

    Columns of the result are the inputs, ``mean`` and ``std``, the standard deviation of a new output with its noise.
    The neighbours of a test input are the nearest rows of all: after those of the ``reach`` + 1 nearest blocks, all
    blocks are read that may have a nearer one, unless these are more than 128.

    Args:
        model: A fitted ``NeighbourGP``.
        batches: What it was fitted with: the rows, the number of neighbours, the reach and the metric.
        table: A Parquet file, or a directory of them, with the columns of inputs.
        out: The Parquet file to write.
        m: Neighbours of each test input; as many as the fit had when left out.
        memory_limit: Bytes of resident memory that the process may reach, at most; a GiB more than it has now when left
            out.
        progress: Called with the number of rows that are done.
    """
    arrow, parquet = arrow_for(out)
    rows, m = batches.rows, batches.m if m is None else m
    at_least(1, m=m)
    schema = arrow.schema([(name, arrow.float64()) for name in (*rows.x, "mean", "std")])
    most = max(room(memory_limit, "predicting") // (_BYTES * (len(rows.x) + 2)), BATCH)
    realised, done = model.realise(), 0
    scale = batches.scale_of(realised.kernel)

    def written(file: Any) -> None:
        nonlocal done
        with parquet.ParquetWriter(file, schema) as writer:
            for X in _gathered(table, list(rows.x), most):
                mean, std = np.empty(len(X)), np.empty(len(X))
                for which in _together(X, batches):
                    mean[which], std[which] = _predicted(realised, batches, scale, X[which], m)
                    done += len(which)
                    if progress is not None:
                        progress(done)
                writer.write_table(arrow.table([*X.T, mean, std], schema))

    replace_file(out, written)
    return done


def _gathered(table: FilePath, names: list[str], most: int) -> Any:
    """Inputs ``[n, d]`` of many rows: the more there are, the more of them lie in the same block."""
    waiting: list[np.ndarray] = []
    for rows in batches_of(table, names, BATCH):
        if waiting and sum(map(len, waiting)) + len(rows) > most:
            yield np.concatenate(waiting)
            waiting = []
        waiting.append(rows)
    if waiting:
        yield np.concatenate(waiting)


def _together(X: np.ndarray, batches: Batches) -> Any:
    """Test inputs of the same block, as row numbers, a limited number at a time."""
    rows = batches.rows
    block = np.searchsorted(rows.first, place_on_curve(X, rows.low, rows.high), "right")
    order = np.argsort(block, kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(block[order])) + 1):
        yield from np.array_split(some, -(-len(some) // _TOGETHER))


def _predicted(model: Any, batches: Batches, scale: np.ndarray, X: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of outputs at test inputs that are near to each other."""
    rows, n = batches.rows, len(X)
    near = rows.near(X.min(axis=0), X.max(axis=0), scale, batches.reach + 1)
    while True:
        local = Neighbourhoods(Data.unchecked(*rows.read(near)), np.zeros((1, m + 1), np.int32), batches.metric)
        found = model.neighbours(local, X, m)
        radius = np.sqrt(np.max(np.sum(((local.data.X[found] - X[:, None]) / scale) ** 2, axis=2), axis=1))
        further = np.union1d(near, rows.within(X, radius, scale))
        if len(further) == len(near) or len(further) > _BLOCKS:
            break
        near = further
    used, place = np.unique(found, return_inverse=True)
    data = Data.unchecked(*some_of(local.data, np.append(used, np.full(_TOGETHER * m - len(used), used[0]))))
    filled = np.minimum(np.arange(_TOGETHER), n - 1)  # one program for any number of them
    few = Neighbourhoods(data, local.members, batches.metric, place.reshape(found.shape)[filled])
    moments = model.predict_output(few, X[filled])
    return np.asarray(moments.mean)[:n], np.sqrt(np.asarray(moments.variance)[:n])
