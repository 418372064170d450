"""Tables as the commands take them: standard input as a file, and rows in which nothing is missing."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..files import (
    Columns,
    TableError,
    called,
    chosen_columns,
    has_names,
    levels_of,
    listed,
    quoted,
    read_table,
    read_words,
    zeros_and_ones,
)

_FORMATS = {b"PAR1": ".parquet", b"RIFF": ".wav"}  # by how they begin; all else is text


class Rows(NamedTuple):
    """Columns of a table, and how many rows were left out since values are missing in them."""

    columns: Columns
    X: Any
    y: np.ndarray
    error: np.ndarray | None
    left_out: int
    named: bool = True  # by the table itself, not by position
    levels: Mapping[str, tuple[str, ...]] = {}  # the words of inputs that hold categories, by their columns

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

    Inputs of words become columns of zeros and ones, one for each word.

    Args:
        path: The table.
        x: Inputs, or None for the rule.
        y: The output, likewise.
        error: Known standard deviations, likewise.
        strict: Whether missing values are refused.
        day_first: Whether days come first in dates of which no row tells.
    """
    columns = chosen_columns(path, x, y, error, day_first=day_first)
    words = read_words(path, columns.x, missing=not strict)
    levels = {name: levels_of(cells, f"{path}, column {quoted(name)},") for name, cells in words.items()}
    plain = [name for name in columns.names if name not in words]
    table = read_table(path, plain, missing=not strict, day_first=day_first) | in_columns(path, words, levels)
    inputs = [one for name in columns.x for one in (called(name, levels[name]) if name in levels else [name])]
    columns = columns._replace(x=tuple(inputs))
    if table[columns.y].dtype.kind == "M":
        raise TableError(f"{path}, column {quoted(columns.y)}: outputs are numbers, but these are times")
    gone = np.any([_missing(column) for column in table.values()], axis=0)
    if np.all(gone):
        raise TableError(f"{path} has no row in which none of {listed(columns.names)} is missing")
    table = {name: column[~gone] for name, column in table.items()}
    known = None if columns.error is None else table[columns.error]
    left_out = int(np.sum(gone))
    return Rows(columns, columns.inputs(table), table[columns.y], known, left_out, has_names(path), levels)


def read_inputs(
    path: Path, x: Sequence[str], levels: Mapping[str, Sequence[str]], *, day_first: bool | None = None
) -> dict[str, np.ndarray]:
    """The inputs ``x`` of a fit in another table, of which some are words of its columns that ``levels`` name."""
    made = {one for name, words in levels.items() for one in called(name, words)}
    table = read_table(path, [name for name in x if name not in made], day_first=day_first)
    words = read_words(path, levels, every=True)
    table |= in_columns(path, words, levels)
    return {name: table[name] for name in x}


def in_columns(
    path: Path, words: Mapping[str, Sequence[str | None]], levels: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
    """The columns of zeros and ones of columns of words, by their names."""
    found: dict[str, np.ndarray] = {}
    for name, cells in words.items():
        columns = zeros_and_ones(cells, levels[name], f"{path}, column {quoted(name)},")
        found |= dict(zip(called(name, levels[name]), columns.T, strict=True))
    return found


def _missing(column: np.ndarray) -> np.ndarray:
    return np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)
