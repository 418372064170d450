"""A table on disk brought into the order of a curve, in bounded memory: a sort by buckets.

The table is read twice. First for its size, its range and a sample of its rows, from which the curve is divided into
buckets of about equal numbers of rows; then every row goes to the file of its bucket. Buckets are small enough to be
sorted in memory, one after the other, and what they hold follows each other on the curve.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from ..files import FilePath, arrow_for, printable, write_json
from .curve import MOST, place_on_curve
from .memory import room
from .rows import ABOUT, Rows, edges_of

BLOCK = 4096  # rows of a block, about
BATCH = 2**17  # rows that are read at a time
_SAMPLE = 100_000  # rows, about, that tell where buckets end
_BUCKETS = 500  # files that are open at a time, at most


def arrange(
    table: FilePath,
    out: FilePath,
    *,
    x: Sequence[str],
    y: str,
    error: str | None = None,
    memory_limit: int | None = None,
    dtype: Literal["float64", "float32"] = "float64",
    progress: Callable[[int, int], None] | None = None,
) -> Rows:
    """Bring a Parquet table into arrays on disk, in which rows that are near follow each other.

    Rows are in the order of Morton's curve through the range of the inputs; of one input that is its own order. It
    takes as much room on the disk as the arrays for the result, and as much again until it is done.

    Args:
        table: A Parquet file, or a directory of Parquet files; directories in it may be named ``column=value``.
        out: The directory to make; it must not exist.
        x: Columns of inputs, one or more.
        y: Column of outputs.
        error: Column of known standard deviations of the outputs; none when left out.
        memory_limit: Bytes of resident memory that the process may reach, at most; a GiB more than it has now when left
            out.
        dtype: How values are kept on the disk; they are float64 in memory.
        progress: Called as ``progress(done, all)``, where every row counts twice: as it is read and as it is sorted.
    """
    x, out = tuple(x), Path(out)
    names = [*x, y, *([] if error is None else [error])]
    if not 1 <= len(x) <= MOST:
        raise ValueError(f"x must name between 1 and {MOST} columns, got {len(x)}")
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
    if out.exists():
        raise FileExistsError(f"{printable(str(out))} exists: remove it, or name another directory")
    record = 8 * len(names)
    # Rows of a bucket: it is read, sorted, and has places on the curve.
    largest = room(memory_limit, "arranging rows") // (4 * (record + 16))
    low, high, size, sample = _surveyed(table, names)
    if error is not None and low[-1] < 0:
        raise ValueError(f"column {error!r} must be zero or positive, got {low[-1]:g}")
    low, high = low[: len(x)], high[: len(x)]
    places = np.sort(place_on_curve(sample[:, : len(x)], low, high))
    count = -(-3 * size // (2 * max(largest, 1)))  # buckets of a sample scatter in size
    if count > _BUCKETS:
        raise MemoryError(f"{size} rows of {record} bytes are too many to be sorted in memory_limit: raise it")
    ends = places[np.arange(1, count) * len(places) // count]
    done = 0

    def counted(rows: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(done, 2 * size)

    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as directory:
        whole, buckets = Path(directory) / "whole", Path(directory) / "buckets"
        whole.mkdir()
        buckets.mkdir()
        with contextlib.ExitStack() as files:
            opened = [files.enter_context((buckets / str(k)).open("wb")) for k in range(count)]
            for rows in batches_of(table, names, BATCH):
                _dealt(rows, np.searchsorted(ends, place_on_curve(rows[:, : len(x)], low, high), "right"), opened)
                counted(len(rows))
        sort = _Sort(whole, size, len(x), len(names), np.dtype(dtype), (low, high), largest)
        for bucket in range(count):
            counted(sort.add(buckets / str(bucket)))
        sort.finish()
        about = {"rows": size, "x": list(x), "y": y, "error": error, "dtype": dtype}
        write_json(whole / ABOUT, about | {"low": low.tolist(), "high": high.tolist()})
        for path in whole.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        whole.replace(out)
    return Rows(out)


def batches_of(table: FilePath, names: Sequence[str], size: int) -> Iterator[np.ndarray]:
    """Columns of a table as float64 ``[n, columns]``, so many rows at a time, in their order; all must be finite."""
    arrow_for(table)
    import pyarrow.dataset as ds

    # The directories above a single file say nothing about its columns.
    found = ds.dataset(table, format="parquet", partitioning="hive" if Path(table).is_dir() else None)
    absent = [name for name in names if name not in found.schema.names]
    if absent:
        raise ValueError(f"{printable(str(table))} has no column {absent[0]!r}; it has {found.schema.names}")
    for name in names:
        _refuse_others(name, found.schema.field(name).type, table)
    done = 0
    # Else the scanner keeps whole files in memory, as it goes through them.
    streamed = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    options = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False, "fragment_scan_options": streamed}
    for batch in found.to_batches(columns=list(names), batch_size=size, **options):
        rows = np.empty((batch.num_rows, len(names)))
        for k, name in enumerate(names):
            try:
                rows[:, k] = batch.column(k).to_numpy(zero_copy_only=False)
            except (TypeError, ValueError) as error:
                raise ValueError(f"column {name!r} of {printable(str(table))} must have numbers: {error}") from error
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            where, column = done + int(bad[0][0]) + 1, names[int(bad[0][1])]
            raise ValueError(f"column {column!r}, row {where}, has no finite value: leave out rows with missing values")
        done += len(rows)
        if len(rows):
            yield rows


def _refuse_others(name: str, kind: Any, table: FilePath) -> None:
    """Refuse a column whose type is none of numbers: times would be whatever unit the file has, since 1970."""
    import pyarrow.types as of

    if of.is_integer(kind) or of.is_floating(kind) or of.is_decimal(kind) or of.is_boolean(kind):
        return
    message = f"column {name!r} of {printable(str(table))} must have numbers, got {kind}"
    if of.is_temporal(kind):
        message += ": subtract an origin and give what remains as a number of seconds or days"
    raise ValueError(message)


def _surveyed(table: FilePath, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Range of each column, number of rows, and some of the rows: every so many, in number between a sample and two."""
    low, high = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    size, every, some = 0, 1, []
    for rows in batches_of(table, names, BATCH):
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        some.append(rows[-size % every :: every].copy())
        size += len(rows)
        if sum(map(len, some)) > 2 * _SAMPLE:
            some, every = [np.concatenate(some)[::2]], 2 * every
    if size < 2:
        raise ValueError(f"{printable(str(table))} must have at least 2 rows, got {size}")
    return low, high, size, np.concatenate(some)


def _dealt(rows: np.ndarray, bucket: np.ndarray, files: Sequence[IO[bytes]]) -> None:
    order = np.argsort(bucket, kind="stable")
    edges = np.searchsorted(bucket[order], np.arange(len(files) + 1))
    for k, file in enumerate(files):
        file.write(rows[order[edges[k] : edges[k + 1]]].tobytes())


class _Sort:
    """Buckets, sorted one after the other, as arrays; and the corners of blocks, and where on the curve they begin."""

    def __init__(
        self,
        whole: Path,
        size: int,
        d: int,
        width: int,
        dtype: np.dtype[Any],
        box: tuple[np.ndarray, np.ndarray],
        largest: int,
    ) -> None:
        self.whole, self.d, self.width, self.dtype, self.box, self.largest = whole, d, width, dtype, box, largest
        self.edges, self.done = edges_of(size, -(-size // BLOCK)), 0
        blocks = len(self.edges) - 1
        self.corners = np.stack([np.full((blocks, d), np.inf), np.full((blocks, d), -np.inf)], axis=1)
        self.first = np.empty(blocks, np.int64)

    def add(self, bucket: Path) -> int:
        """The rows of a bucket after those that are there; gives their number."""
        rows = np.fromfile(bucket).reshape(-1, self.width)
        bucket.unlink()
        if not len(rows):
            return 0
        if len(rows) > 2 * self.largest:
            raise MemoryError(f"{len(rows)} rows are too near to each other to be sorted in memory_limit: raise it")
        d, edges, done = self.d, self.edges, self.done
        place = place_on_curve(rows[:, :d], *self.box)
        order = np.argsort(place, kind="stable")
        rows, place = rows[order].astype(self.dtype, copy=False), place[order]
        for name, columns in {"X": slice(0, d), "y": slice(d, d + 1), "error": slice(d + 1, None)}.items():
            if rows[:, columns].size:
                with (self.whole / name).open("ab") as file:
                    file.write(np.ascontiguousarray(rows[:, columns]).tobytes())
        for b in range(int(np.searchsorted(edges, done, "right")) - 1, len(self.first)):
            start, stop = max(edges[b] - done, 0), min(edges[b + 1] - done, len(rows))
            if start >= len(rows):
                break
            if edges[b] >= done:
                self.first[b] = place[start]
            self.corners[b, 0] = np.minimum(self.corners[b, 0], rows[start:stop, :d].min(axis=0))
            self.corners[b, 1] = np.maximum(self.corners[b, 1], rows[start:stop, :d].max(axis=0))
        self.done += len(rows)
        return len(rows)

    def finish(self) -> None:
        """What is known of the blocks."""
        np.save(self.whole / "corners.npy", self.corners)
        np.save(self.whole / "first.npy", self.first)
