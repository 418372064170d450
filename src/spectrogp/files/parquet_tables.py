"""Parquet files by pyarrow."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .atomic import replace_file
from .cells import LONGEST_CELL, integers, kind_of, parsed, refuse_infinite, refuse_not_finite, times, with_gaps
from .errors import Place, TableError, refuse
from .selection import looked_at, place_in, refuse_too_many_values, wanted_of
from .text import printable

# Columns, and groups of rows, of a file: pyarrow takes 30 µs and 7 kB for each before anything is read.
LARGEST = 100_000


def read(
    path: Path, columns: Sequence[str] | None, *, missing: bool = False, day_first: bool | None = None
) -> dict[str, np.ndarray]:
    """The columns that are wanted, as numbers and times; ``missing`` ones are NaN and NaT, or refused."""
    arrow, _ = arrow_for(path)
    with _opened(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        wanted = wanted_of(path, schema.names, columns)
        refuse_too_many_values(path, metadata.num_rows, len(wanted))
        # As a dictionary, text that is repeated takes memory once, as it does in the file.
        text = [name for name in wanted if is_text(arrow, schema.field(name).type)]
        leaves = map(metadata.schema.column, range(metadata.num_columns))
        kinds = {leaf.path: leaf.physical_type for leaf in leaves}
        old = [name for name in wanted if kinds.get(name) == "INT96"]
        if len(wanted) == metadata.num_columns:
            _refuse_long_values(path, metadata)
    # INT96, the oldest kind of times, has nanoseconds in any year: as 64-bit nanoseconds they would wrap around.
    with _opened(path, metadata, read_dictionary=text, coerce_int96_timestamp_unit="us") as file:
        table = file.read(columns=wanted)
        table.validate(full=True)
        if not table.num_rows:
            raise TableError(f"{path} has no rows of values")
        found = {name: converted(arrow, table[name], place_in(path, name), missing, day_first) for name in wanted}
    if old:
        with _opened(path, metadata, coerce_int96_timestamp_unit="ns") as file:
            table = file.read(columns=old)
            for name in old:
                gone = np.isnat(found[name])
                there = table[name].to_numpy()[~gone]
                whole = _with_nanoseconds(found[name][~gone], there, _among(np.flatnonzero(~gone), path, name))
                found[name] = with_gaps(whole, gone, place_in(path, name))
    return found


def read_raw(path: Path, columns: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The columns that are wanted, as the values that they are."""
    with _opened(path) as file:
        table = file.read(columns=columns)
        return {name: table[name].to_numpy() for name in table.column_names}


def read_arrow(path: Path, columns: Sequence[str]) -> Any:
    """The columns that are wanted, as a table of arrow."""
    with _opened(path, coerce_int96_timestamp_unit="us") as file:
        wanted = wanted_of(path, file.schema_arrow.names, columns)
        refuse_too_many_values(path, file.metadata.num_rows, len(wanted))
        table = file.read(columns=wanted)
        table.validate(full=True)
        return table


def kinds_of(path: Path) -> dict[str, str]:
    """What every column holds: by its type, and text by its first rows, unless it is longer than numbers are."""
    arrow, _ = arrow_for(path)
    with _opened(path) as file:
        kinds = {field.name: kind_in(arrow, field.type) for field in file.schema_arrow}
        times = Counter(file.schema_arrow.names)
        text = [f.name for f in file.schema_arrow if is_text(arrow, f.type) and times[f.name] == 1]
        rows = 0 if _unpacked(file.metadata) > _longest(file.metadata) else looked_at(len(text))
    if text and rows:
        with _opened(path, read_dictionary=text) as file:
            first = next(file.iter_batches(rows, columns=text), None)
        if first is not None:
            kinds |= {name: kind_of([cell or "" for cell in first[name].to_pylist()]) for name in text}
    return kinds


def kind_in(arrow: Any, kind: Any) -> str:
    """What a column of this type holds."""
    types = arrow.types
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return "number" if number else "text"


def written(path: Path, columns: dict[str, np.ndarray]) -> bytes:
    """The content of the file."""
    arrow, parquet = arrow_for(path)
    content = io.BytesIO()
    try:
        parquet.write_table(arrow.table(columns), content, write_page_checksum=True)
    except UnicodeEncodeError as error:
        raise TableError(f"{path}: Parquet cannot keep the names: {error}") from error
    return content.getvalue()


def _refuse_long_values(path: Path, metadata: Any) -> None:
    """Refuse a file that would unpack to more bytes than numbers and times have, however they are written."""
    size = _unpacked(metadata)
    if size > _longest(metadata):
        raise TableError(
            f"{path} unpacks to {size:,} bytes, too many for {metadata.num_rows:,} rows of {metadata.num_columns:,} "
            "columns of numbers and times: name the columns to read"
        )


def _unpacked(metadata: Any) -> int:
    """Bytes of all values."""
    # Of the sizes of single columns pyarrow 26 speaks in a way that ends the process if a file is damaged.
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


def _longest(metadata: Any) -> int:
    """Bytes that numbers and times take at most, however they are written."""
    return int(2**20 + 2 * LONGEST_CELL * metadata.num_rows * metadata.num_columns)


def converted(arrow: Any, column: Any, place: Place, missing: bool, day_first: bool | None = None) -> np.ndarray:
    """A column of arrow as numbers or times."""
    gone = column.is_null().to_numpy()
    if not missing:
        refuse(gone, place, "the value is missing")
    if missing and np.any(gone):
        rows = np.flatnonzero(~gone)
        if not len(rows):
            return with_gaps(np.empty(0), gone, place)
        there = _present(arrow, column.drop_null(), lambda i: place(int(rows[i])), missing, day_first)
        return with_gaps(there, gone, place)
    return _present(arrow, column, place, missing, day_first)


def _present(arrow: Any, column: Any, place: Place, missing: bool, day_first: bool | None) -> np.ndarray:
    """Values without gaps, but for those that text or floats have themselves."""
    kind, types = column.type, arrow.types
    if types.is_dictionary(kind) and is_text(arrow, kind.value_type):
        cells = [cell for chunk in column.chunks for cell in _cells(chunk)]
        return parsed(cells, place, missing=missing, day_first=day_first)
    if types.is_decimal(kind):
        return parsed([format(value, "f") for value in column.to_pylist()], place)
    if types.is_timestamp(kind) or types.is_date(kind):
        return times(column.to_numpy(), place)  # those with a time zone are stored in UTC
    if types.is_integer(kind):
        values = column.to_numpy()
        return integers(values.tolist(), place) if values.itemsize == 8 else values.astype(np.float64)
    if types.is_floating(kind):
        values = column.to_numpy().astype(np.float64)
        (refuse_infinite if missing else refuse_not_finite)(values, place)
        return values
    raise TableError(f"{place(0)}: expected a number or a time, got a column of {kind}")


def _among(rows: np.ndarray, path: Path, name: str) -> Place:
    """Names rows of a column by their place among some."""
    place = place_in(path, name)
    return lambda i: place(int(rows[i]))


def is_text(arrow: Any, kind: Any) -> bool:
    """Whether a type is that of text."""
    return bool(arrow.types.is_string(kind) or arrow.types.is_large_string(kind))


def _cells(chunk: Any) -> list[str]:
    different = chunk.dictionary.to_pylist()
    return [different[i] for i in chunk.indices.to_pylist()]


def _with_nanoseconds(microseconds: np.ndarray, nanoseconds: np.ndarray, place: Place) -> np.ndarray:
    wrapped = nanoseconds.astype("datetime64[us]") != microseconds
    if not np.any(wrapped):
        return times(nanoseconds, place)
    finer = nanoseconds != microseconds.astype("datetime64[ns]")
    refuse(~wrapped & finer, place, "digits beyond microseconds, beside times before 1678 or after 2262")
    return microseconds


@contextmanager
def _opened(path: Path, metadata: Any = None, **options: Any) -> Iterator[Any]:
    """A Parquet file to read from."""
    arrow, parquet = arrow_for(path)
    try:
        with parquet.ParquetFile(
            path,
            metadata=metadata,
            thrift_container_size_limit=LARGEST,
            page_checksum_verification=True,  # of files that have checksums, as those of write_table do
            **options,
        ) as file:
            yield file
    except (TableError, MemoryError):
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        if "Exceeded size limit" in str(error):
            raise TableError(
                f"{path} has more than {LARGEST:,} columns or groups of rows: write it with fewer"
            ) from error
        raise TableError(
            f"{path} is not a Parquet file that can be read: {printable(' '.join(str(error).split()))}"
        ) from error


def write_rows(path: Path, table: Any) -> None:
    """Write a table of arrow to a file, whole or not at all."""
    content = io.BytesIO()
    arrow_for(path)[1].write_table(table, content, write_page_checksum=True)
    replace_file(path, content.getvalue())


def arrow_for(path: Any) -> tuple[Any, Any]:
    """pyarrow and its Parquet, or an error that says what they are needed for."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: Parquet files need pyarrow: pip install 'spectrogp[data]', or use CSV") from error
    return pyarrow, parquet
