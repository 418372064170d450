"""Which columns of a table are read, and how much of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .errors import Place, TableError, listed, quoted

COLUMNS = 10_000  # at most, when none are named: a second of reading
LOOKED_AT = 200  # rows that tell what a column holds, at most
VALUES = 100_000_000  # at most: 0.8 GB as numbers, and far more rows than any model here takes


def wanted_of(path: Path, names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The names of the columns that are to be read, if the table has them, once each."""
    if columns is None and len(names) > COLUMNS:
        raise TableError(
            f"{path} has {len(names):,} columns, more than the {COLUMNS:,} that are read at once: name those to read"
        )
    wanted = list(names if columns is None else columns)
    count = Counter(names)
    for name in wanted:
        if name not in count:
            raise TableError(f"{path} has no column {quoted(name)}; it has {listed(names)}")
        if not name:
            raise TableError(f"{path}, column {names.index(name) + 1} has no name: give it one, or name those to read")
        if count[name] > 1:
            raise TableError(f"{path} has {count[name]} columns {quoted(name)}: rename all but one")
    return wanted


def refuse_too_many_values(path: Path, rows: int, columns: int) -> None:
    """Refuse a table before memory is taken for more values than can be of use."""
    if rows * columns > VALUES:
        raise TableError(
            f"{path} has {rows:,} rows or more of {columns:,} columns, more than {VALUES:,} values: "
            "name fewer columns, or take some of the rows"
        )


def looked_at(columns: int) -> int:
    """Rows that tell what so many columns hold: fewer of a wide table, and none where they are to be named."""
    if columns > COLUMNS:
        return 0
    return int(min(max(1_000_000 // max(columns, 1), 1), LOOKED_AT))


def place_in(path: Path, name: str) -> Place:
    """Names the rows of a column."""
    return lambda i: f"{path}, column {quoted(name)}, row {i + 1}"
