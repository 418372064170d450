"""Tables in and out: CSV and Parquet files as named columns of numbers and times."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .atomic import FilePath, replace_file

_MISSING = {"", "na", "n/a", "nan", "nat", "none", "null"}
_ISO = re.compile(
    r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?", flags=re.ASCII
)
_EXAMPLE = "2001-05, 2001-05-30 or 2001-05-30T12:00:00"

Place = Callable[[int], str]  # names the file, the column, and the row with the given index


class TableError(ValueError):
    """A table that cannot be read or written; the message names the file, and the column and row where there is one."""


def read_table(path: FilePath, columns: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The columns of a CSV or Parquet file by name: float64, or datetime64[us] where they hold times.

    A CSV file has the names in its first row. Times are written as in ISO 8601, and those with a time zone become UTC.
    Rows are counted from 1, without the names.

    Args:
        path: A file whose name ends in .csv or .parquet.
        columns: Those that are wanted, in their order (all of them when left out); the others may hold anything.
    """
    path = Path(path)
    read = _format(path)[0]
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return read(path, columns)


def read_columns(path: FilePath) -> dict[str, np.ndarray]:
    """All columns of a CSV or Parquet file as they are: the text of a CSV file, the values of a Parquet file."""
    path = Path(path)
    if path.suffix.lower() == ".parquet":
        _, parquet = _arrow(path)
        table = parquet.read_table(path)
        return {name: table[name].to_numpy() for name in table.column_names}
    names, rows = _rows_of_csv(path)
    return {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}


def column_names(path: FilePath) -> list[str]:
    """The names of the columns of a CSV or Parquet file, whatever they hold."""
    path = Path(path)
    names = _format(path)[2]
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return names(path)


def write_table(path: FilePath, columns: Mapping[str, ArrayLike]) -> None:
    """Write columns of numbers or times, ``[n]`` each, to a CSV or Parquet file that ``read_table`` can read.

    A write that is interrupted leaves the file that was there before.

    Args:
        path: A file whose name ends in .csv or .parquet.
        columns: Numbers or times ``[n]``, by the names of the columns.
    """
    path = Path(path)
    write = _format(path)[1]
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if not arrays or not all(isinstance(name, str) and name.strip() for name in arrays):
        raise TableError(f"{path}: a table has at least one column, and every column a name")
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "fiuM":
            shape = list(array.shape)
            raise TableError(f"{path}, column {name!r}: expected numbers or times [n], got {array.dtype} {shape}")
        _require(np.isnat(array) if array.dtype.kind == "M" else ~np.isfinite(array), array, _place(path, name))
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise TableError(f"{path}: all columns must have the same number of rows, at least one; got {lengths}")
    times = {name: array.astype("datetime64[us]") for name, array in arrays.items() if array.dtype.kind == "M"}
    replace_file(path, write(path, arrays | times))


def _format(path: Path) -> tuple[Callable[..., Any], Callable[..., bytes], Callable[[Path], list[str]]]:
    match path.suffix.lower():
        case ".csv":
            return _read_csv, _write_csv, _names_of_csv
        case ".parquet":
            return _read_parquet, _write_parquet, _names_of_parquet
    raise TableError(f"{path}: the name of a table ends in .csv or .parquet, got {path.suffix or 'no extension'!r}")


# CSV


def _read_csv(path: Path, columns: Sequence[str] | None) -> dict[str, np.ndarray]:
    names, rows = _rows_of_csv(path)
    wanted = _wanted(path, names, columns, len(rows))
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise TableError(f"{path}, row {i + 1}: expected {len(names)} values, one for each column, got {len(row)}")
    return {name: _parsed([row[names.index(name)] for row in rows], _place(path, name)) for name in wanted}


def _names_of_csv(path: Path) -> list[str]:
    return _rows_of_csv(path, 1)[0]


def _rows_of_csv(path: Path, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """The names, and the rows below them; ``most`` counts the row of names too."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(islice((row for row in csv.reader(file, skipinitialspace=True) if row), most))
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path} is not a CSV file in UTF-8: {error}") from error
    if not rows:
        raise TableError(f"{path} is empty: expected a row of column names, and rows of values")
    names = [name.strip() for name in rows.pop(0)]
    if all(_is_number(name) for name in names):
        raise TableError(f"{path} starts with numbers: expected a first row of column names, got {', '.join(names)}")
    return names, rows


def _write_csv(path: Path, columns: dict[str, np.ndarray]) -> bytes:
    del path
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    # As Python's numbers they are written with as many digits as it takes to read the same number again.
    cells = [np.datetime_as_string(c) if c.dtype.kind == "M" else c.tolist() for c in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue().encode()


def _parsed(cells: list[str], place: Place) -> np.ndarray:
    """A column of text as numbers, or as times if its first cell is one."""
    cells = [cell.strip() for cell in cells]
    missing = np.array([cell.lower() in _MISSING for cell in cells])
    _require(missing, missing, place)
    if _ISO.fullmatch(cells[0]):
        return _times(cells, place)
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        i = next(i for i, cell in enumerate(cells) if not _is_number(cell))
        kinds = f"a number or a time such as {_EXAMPLE}" if i == 0 else "a number, as in the rows before"
        raise TableError(f"{place(i)}: expected {kinds}, got {cells[i]!r}") from None
    _require(~np.isfinite(values), values, place)
    return values


def _times(cells: list[str], place: Place) -> np.ndarray:
    values = np.empty(len(cells), dtype="datetime64[us]")
    zoned = bool(_ISO.fullmatch(cells[0])["zone"])  # type: ignore[index]
    for i, cell in enumerate(cells):
        found = _ISO.fullmatch(cell)
        try:
            if found is None or bool(found["zone"]) != zoned:
                raise ValueError
            values[i] = datetime.fromisoformat(cell).astimezone(UTC).replace(tzinfo=None) if zoned else cell
        except ValueError:
            zone = "with a time zone" if zoned else "without a time zone"
            raise TableError(f"{place(i)}: expected a time {zone}, such as {_EXAMPLE}, got {cell!r}") from None
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Parquet


def _read_parquet(path: Path, columns: Sequence[str] | None) -> dict[str, np.ndarray]:
    arrow, parquet = _arrow(path)
    try:
        file = parquet.ParquetFile(path)
        wanted = _wanted(path, file.schema_arrow.names, columns, file.metadata.num_rows)
        table = file.read(columns=wanted)
    except (arrow.ArrowException, OSError) as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from error
    return {name: _converted(arrow, table[name], _place(path, name)) for name in wanted}


def _names_of_parquet(path: Path) -> list[str]:
    arrow, parquet = _arrow(path)
    try:
        return list(parquet.read_schema(path).names)
    except (arrow.ArrowException, OSError) as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from error


def _write_parquet(path: Path, columns: dict[str, np.ndarray]) -> bytes:
    arrow, parquet = _arrow(path)
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns), content)
    return content.getvalue()


def _converted(arrow: Any, column: Any, place: Place) -> np.ndarray:
    missing = column.is_null().to_numpy()
    _require(missing, missing, place)
    kind = column.type
    if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
        return _parsed(column.to_pylist(), place)
    if arrow.types.is_timestamp(kind) or arrow.types.is_date(kind):
        return column.to_numpy().astype("datetime64[us]")  # those with a time zone are stored in UTC
    if arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_decimal(kind):
        values = column.to_numpy().astype(np.float64)
        _require(~np.isfinite(values), values, place)
        return values
    raise TableError(f"{place(0)}: expected a number or a time, got a column of {kind}")


def _arrow(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: Parquet files need pyarrow: pip install 'spectrogp[data]', or use CSV") from error
    return pyarrow, parquet


# Both


def _wanted(path: Path, names: list[str], columns: Sequence[str] | None, rows: int) -> list[str]:
    """The names of the columns that are to be read, if the table has them, once each."""
    wanted = names if columns is None else list(columns)
    for name in wanted:
        if name not in names:
            raise TableError(f"{path} has no column {name!r}; it has {', '.join(map(repr, names))}")
        if not name:
            raise TableError(f"{path}, column {names.index(name) + 1} has no name: give it one, or name those to read")
        if names.count(name) > 1:
            raise TableError(f"{path} has {names.count(name)} columns {name!r}: rename all but one")
    if not rows:
        raise TableError(f"{path} has no rows of values")
    return wanted


def _place(path: Path, name: str) -> Place:
    return lambda i: f"{path}, column {name!r}, row {i + 1}"


def _require(wrong: np.ndarray, values: np.ndarray, place: Place) -> None:
    """Refuse a column where a value is missing or not finite, naming the first such row."""
    if np.any(wrong):
        i = int(np.argmax(wrong))
        infinite = values.dtype.kind == "f" and np.isinf(values[i])
        raise TableError(f"{place(i)}: the value is {'infinite' if infinite else 'missing'}")
