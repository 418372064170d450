"""Tables of many signals: rows that belong together by the values of some columns, read one group at a time.

A table is a file of text or Parquet, a directory of Parquet files (with the values of columns in the names of its
directories, ``station=A/…``, as others partition them, or without), or columns in memory. Where the groups are the
directories, only one group is in memory at a time; else all rows are, in the columns that are wanted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import TableError, listed, quoted
from .parquet_tables import arrow_for, converted, is_text, kind_in, read_arrow
from .selection import refuse_too_many_values
from .tables import column_kinds, read_columns, read_table
from .text import printable


class Groups(NamedTuple):
    """The groups of a table, in the order in which they first appear.

    Args:
        keys: A table of arrow with a row for each group: the values that its rows have in common.
        rows: How many rows all groups have together.
        read: Reads the group of this index: its columns, numbers as float64 and times as datetime64, NaN and NaT where
            values are missing. What cannot be read raises ``TableError``.
    """

    keys: Any
    rows: int
    read: Callable[[int], dict[str, np.ndarray]]


def name_of(table: Any) -> str:
    """What a table is called in errors."""
    return str(table) if isinstance(table, str | os.PathLike) else "the table"


def kinds_in(table: Any) -> dict[str, str]:
    """What the columns of a table hold, by name: "number", "time", "text", or "nothing" where all is missing."""
    arrow, _ = arrow_for(name_of(table))
    if _is_file(table):
        return column_kinds(table)
    schema = _data_set(table).schema if _is_path(table) else _in_memory(table).schema
    return {field.name: kind_in(arrow, field.type) for field in schema}


def read_groups(table: Any, by: Sequence[str], columns: Sequence[str]) -> Groups:
    """Groups of the rows of a table.

    Args:
        table: The path of a file or of a directory of Parquet files, or columns in memory: a data frame of pandas or
            polars, a table of arrow, or a dictionary of arrays.
        by: The columns whose values tell groups apart.
        columns: The columns that are read.
    """
    arrow, _ = arrow_for(name_of(table))
    wanted = [*by, *(name for name in columns if name not in by)]
    if not _is_path(table):
        return _grouped(_in_memory(table).select(wanted), by, columns, name_of(table))
    path = Path(table)
    if path.is_dir():
        data = _data_set(path)
        files = _by_directory(data, by)
        if files is not None:
            return _partitions(data, files, by, columns, path)
        with _reading(path):
            refuse_too_many_values(path, data.count_rows(), len(columns))
            return _grouped(data.to_table(columns=wanted), by, columns, str(path))
    if path.suffix.lower() == ".parquet":
        return _grouped(read_arrow(path, wanted), by, columns, str(path))
    numbers, names = read_table(path, columns, missing=True), read_columns(path, by)
    return _grouped(arrow.table(names | numbers), by, columns, str(path))


def _grouped(table: Any, by: Sequence[str], columns: Sequence[str], where: str) -> Groups:
    """Groups of a table of arrow."""
    arrow, _ = arrow_for(where)
    if not table.num_rows:
        raise TableError(f"{where} has no rows of values")
    code = np.zeros(table.num_rows, np.int64)
    for name in by:
        encoded = table[name].combine_chunks()
        gone = int(encoded.null_count) + int(np.sum(_not_numbers(arrow, encoded)))
        if gone:
            raise TableError(f"{where}: {gone} rows have no value in {quoted(name)}: give them one, or leave them out")
        encoded = encoded if arrow.types.is_dictionary(encoded.type) else encoded.dictionary_encode()
        code = code * len(encoded.dictionary) + encoded.indices.to_numpy()
        code = np.unique(code, return_inverse=True)[1]  # so that many columns do not overflow
    _, first, group, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)  # of groups, by their first rows
    rows = np.argsort(np.argsort(order)[group], kind="stable")
    ends = np.cumsum(count[order])
    values = table.select(list(columns)).combine_chunks()

    def read(index: int) -> dict[str, np.ndarray]:
        some = values.take(rows[ends[index] - count[order[index]] : ends[index]])
        return _columns(arrow, some, columns, where)

    return Groups(_plain(table.select(list(by)).take(first[order])), table.num_rows, read)


def _by_directory(data: Any, by: Sequence[str]) -> dict[tuple[Any, ...], list[Any]] | None:
    """The files of a data set by the values that are in the names of their directories; None where some are not."""
    from pyarrow.dataset import get_partition_keys

    files: dict[tuple[Any, ...], list[Any]] = {}
    for fragment in data.get_fragments():
        values = get_partition_keys(fragment.partition_expression)
        if any(values.get(name) is None for name in by):
            return None
        files.setdefault(tuple(values[name] for name in by), []).append(fragment)
    return files


def _partitions(
    data: Any, files: dict[tuple[Any, ...], list[Any]], by: Sequence[str], columns: Sequence[str], path: Path
) -> Groups:
    """Groups that are the directories of a data set, and are read when they are wanted."""
    arrow, _ = arrow_for(path)
    fields = [data.schema.field(name) for name in by]
    keys = arrow.table(
        [arrow.array(values, field.type) for values, field in zip(zip(*files, strict=True), fields, strict=True)],
        schema=arrow.schema(fields),
    )
    parts = list(files.values())

    def read(index: int) -> dict[str, np.ndarray]:
        with _reading(path):
            some = arrow.concat_tables([part.to_table(columns=list(columns)) for part in parts[index]])
        return _columns(arrow, some, columns, str(path))

    with _reading(path):
        return Groups(_plain(keys), data.count_rows(), read)


def _columns(arrow: Any, table: Any, columns: Sequence[str], where: str) -> dict[str, np.ndarray]:
    """Columns of one group as numbers and times."""
    found = {}
    for name in columns:
        column = table[name].dictionary_encode() if is_text(arrow, table[name].type) else table[name]

        def place(i: int, name: str = name) -> str:
            return f"{where}, column {quoted(name)}, row {i + 1} of the group"

        found[name] = converted(arrow, column, place, True) if len(column) else np.empty(0)
    return found


def _plain(keys: Any) -> Any:
    """Values themselves, where they came as numbers of a dictionary."""
    arrow, _ = arrow_for("keys")
    types = [field.type.value_type if arrow.types.is_dictionary(field.type) else field.type for field in keys.schema]
    return keys.cast(arrow.schema(list(zip(keys.column_names, types, strict=True)))).combine_chunks()


def _not_numbers(arrow: Any, column: Any) -> np.ndarray:
    return (
        np.isnan(column.to_numpy(zero_copy_only=False)) if arrow.types.is_floating(column.type) else np.zeros(1, bool)
    )


def _in_memory(table: Any) -> Any:
    arrow, _ = arrow_for("the table")
    try:
        found = arrow.table(dict(table) if isinstance(table, dict) else table)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise TableError(
            "the table must be a path, a data frame, a table of arrow or a dictionary of columns of equal length, got "
            f"{type(table).__name__}: {printable(' '.join(str(error).split()))}"
        ) from error
    twice = [name for name in found.column_names if found.column_names.count(name) > 1]
    if twice:
        raise TableError(f"the table has several columns {quoted(twice[0])}: rename all but one")
    return found


def _data_set(path: Any) -> Any:
    """A directory of Parquet files as one table."""
    from pyarrow import dataset

    with _reading(path):
        found = dataset.dataset(Path(path), format="parquet", partitioning="hive")
        if not found.files:
            raise TableError(f"{path} has no Parquet files: a directory of them, or the path of a file, was expected")
        return found


@contextmanager
def _reading(path: Any) -> Iterator[None]:
    """Errors of arrow as errors of the table."""
    arrow, _ = arrow_for(path)
    try:
        yield
    except (arrow.ArrowException, OSError, KeyError) as error:
        raise TableError(f"{path} cannot be read as Parquet: {printable(' '.join(str(error).split()))}") from error


def _is_path(table: Any) -> bool:
    return isinstance(table, str | os.PathLike)


def _is_file(table: Any) -> bool:
    return _is_path(table) and not Path(table).is_dir()


def refuse_unknown(by: Sequence[str], kinds: dict[str, str], where: str, option: str) -> None:
    """Refuse columns of groups that the table does not have."""
    if not by:
        raise TableError(
            f"{option}: name the column whose values tell signals apart; {where} has {listed(list(kinds))}"
        )
    for name in by:
        if name not in kinds:
            raise TableError(f"{option}: {where} has no column {quoted(name)}; it has {listed(list(kinds))}")
