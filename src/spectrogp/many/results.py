"""The rows of many fits as one Parquet data set, that grows while they are made.

A data set is a directory of Parquet files. Rows that are new are written together, as one more file that is there whole
or not at all: at once at first, then at most half a minute after they were made, so that a day makes no more than some
thousands of files. What the run was asked for is in ``_run.json``; whoever reads the data set passes over files whose
names begin with ``_``. A run that ended early, whatever ended it, goes on with the signals that have no row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..files import FilePath, arrow_for, printable, try_lock, write_json, write_rows

SOONEST, LATEST = 1.0, 30.0  # seconds between two files: they grow from the one to the other
RUN, LOCK = "_run.json", "_lock"


def schema_of(keys: Any) -> Any:
    """The columns of the rows: those of the ``keys``, a table of arrow, and those of the fits."""
    arrow, _ = arrow_for("the rows of many fits")
    number, count, text = arrow.float64(), arrow.int64(), arrow.string()
    several = arrow.list_(number)
    found = {
        "rows": count,
        "rows_left_out": count,
        "failure": text,
        "components": count,
        "frequency": several,
        "frequency_lower": several,
        "frequency_upper": several,
        "frequency_least": several,
        "frequency_most": several,
        "amplitude": several,
        "amplitude_lower": several,
        "amplitude_upper": several,
        "target_transform": text,
        "noise": number,
        "r2": number,
        "coverage": number,
        "warnings": arrow.list_(text),
        "cpu_seconds": number,
    }
    taken = [name for name in keys.column_names if name in found]
    if taken:
        raise ValueError(f"a column of groups may not be called {taken[0]!r}, as one of the results is: rename it")
    return arrow.schema([*keys.schema, *found.items()])


class Results:
    """Rows as they come, and those of earlier runs.

    Args:
        out: The directory, or None to keep them in memory only.
        schema: The columns.
        by: How many of these are the key, the first ones.
    """

    def __init__(self, out: Path | None, schema: Any, by: int) -> None:
        self._out, self._schema, self._by = out, schema, by
        self._new: list[dict[str, Any]] = []
        self._kept = schema.empty_table() if out is None else read_rows(out, schema)
        self._written, self._wait = time.monotonic(), SOONEST
        self._next = 0 if out is None else 1 + max((int(path.stem.split("-")[1]) for path in parts_of(out)), default=-1)

    def done(self) -> set[tuple[Any, ...]]:
        """The keys of signals that have a row."""
        return set(self._keys())

    def add(self, row: dict[str, Any]) -> None:
        """One more row, which will be written soon."""
        self._new.append(row)
        if self._out is not None and time.monotonic() - self._written >= self._wait:
            self.write()
            self._wait = min(2.0 * self._wait, LATEST)

    def write(self) -> None:
        """Write the rows that are new."""
        arrow, _ = arrow_for("the rows of many fits")
        if self._new:
            table = arrow.Table.from_pylist(self._new, schema=self._schema)
            if self._out is not None:
                write_rows(self._out / f"part-{self._next:06d}.parquet", table)
                self._next += 1
            self._kept = arrow.concat_tables([self._kept, table])
            self._new = []
        self._written = time.monotonic()

    def ordered(self, keys: list[tuple[Any, ...]]) -> Any:
        """The rows of these keys, in their order, as a table of arrow."""
        self.write()
        place = {key: row for row, key in enumerate(self._keys())}
        return self._kept.take([place[key] for key in keys])

    def _keys(self) -> list[tuple[Any, ...]]:
        return list(zip(*(self._kept.column(k).to_pylist() for k in range(self._by)), strict=True))


def parts_of(out: Path) -> list[Path]:
    """The files of a data set, in the order in which they were written."""
    return sorted(out.glob("part-*.parquet"))


def read_rows(out: Path, schema: Any) -> Any:
    """The rows that are kept in a directory."""
    arrow, parquet = arrow_for(out)
    try:
        tables = [parquet.read_table(path, schema=schema, partitioning=None) for path in parts_of(out)]
    except (arrow.ArrowException, OSError) as error:
        said = printable(" ".join(str(error).split()))
        raise ValueError(f"{out} holds rows that cannot be gone on with: {said}; give another directory") from error
    return arrow.concat_tables([schema.empty_table(), *tables])


@contextmanager
def claimed(out: FilePath | None, run: dict[str, Any]) -> Iterator[None]:
    """A directory for the rows of a run, that no other run writes to, and that holds no rows of a different one.

    Args:
        out: The directory, which is made if there is none; or None.
        run: What the run is asked for, as plain values.
    """
    if out is None:
        yield
        return
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("ab") as lock:
        if not try_lock(lock):
            raise ValueError(
                f"{out}: another run writes there at this moment; wait for its end, or give another directory"
            )
        _refuse_other(out, json.loads(json.dumps(run)))
        write_json(out / RUN, run)
        yield


def _refuse_other(out: Path, run: dict[str, Any]) -> None:
    """Refuse to add rows to those that were made of other data or with other settings."""
    path = out / RUN
    if not path.exists():
        if parts_of(out):
            raise ValueError(f"{out} holds Parquet files of something else: give another directory")
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    different = [name for name in run if before.get(name) != run[name]]
    if different and parts_of(out):
        name = different[0]
        raise ValueError(
            f"{out} holds rows of a run with another {name}: {printable(str(before.get(name)))}, now "
            f"{printable(str(run[name]))}; give another directory, or ask for the same"
        )
