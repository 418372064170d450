"""Tables as the commands take them: standard input as a file, and rows in which nothing is missing."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..files import Columns, TableError, chosen_columns, has_names, listed, quoted, read_table

_FORMATS = {b"PAR1": ".parquet", b"RIFF": ".wav"}  # by how they begin; all else is text


class Rows(NamedTuple):
    """Columns of a table, and how many rows were left out since values are missing in them."""

    columns: Columns
    X: Any
    y: np.ndarray
    error: np.ndarray | None
    left_out: int
    named: bool = True  # by the table itself, not by position

    @property
    def rows(self) -> int:
        return len(self.y)


@contextmanager
def at_hand(path: Path) -> Iterator[Path]:
    """A table as a file: itself, or for ``-`` what comes from standard input, which can be read once only."""
    if str(path) != "-":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="spectrogp-") as place:
        start = sys.stdin.buffer.read(4)
        kept = Path(place) / f"standard-input{_FORMATS.get(start, '.csv')}"
        with kept.open("wb") as file:
            file.write(start)
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield kept


def read_rows(
    path: Path,
    x: list[str] | None,
    y: str | None,
    error: str | None,
    *,
    strict: bool,
    day_first: bool | None = None,
) -> Rows:
    """The columns that are fitted (``chosen_columns``), without the rows in which one of them is missing.

    Args:
        path: The table.
        x: Inputs, or None for the rule.
        y: The output, likewise.
        error: Known standard deviations, likewise.
        strict: Whether missing values are refused.
        day_first: Whether days come first in dates of which no row tells.
    """
    columns = chosen_columns(path, x, y, error, day_first=day_first)
    table = read_table(path, columns.names, missing=not strict, day_first=day_first)
    if table[columns.y].dtype.kind == "M":
        raise TableError(f"{path}, column {quoted(columns.y)}: outputs are numbers, but these are times")
    gone = np.any([_missing(column) for column in table.values()], axis=0)
    if np.all(gone):
        raise TableError(f"{path} has no row in which none of {listed(columns.names)} is missing")
    table = {name: column[~gone] for name, column in table.items()}
    known = None if columns.error is None else table[columns.error]
    return Rows(columns, columns.inputs(table), table[columns.y], known, int(np.sum(gone)), has_names(path))


def _missing(column: np.ndarray) -> np.ndarray:
    return np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)
