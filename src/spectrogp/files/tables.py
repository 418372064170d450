"""Tables in and out: text, Parquet and sound files as named columns of numbers and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike

from . import csv_tables, parquet_tables, wav_tables
from .atomic import FilePath, replace_file
from .cells import integers, kind_of, refuse_not_finite, times
from .clocks import JOIN, parts_of, with_clock
from .errors import TableError, quoted
from .selection import place_in

TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat")


def read_table(
    path: FilePath,
    columns: Sequence[str] | None = None,
    *,
    missing: bool = False,
    day_first: bool | None = None,
) -> dict[str, np.ndarray]:
    """The columns of a table by name: numbers as float64, times as datetime64[us].

    Two kinds of columns keep digits that these would lose: integers of which one is beyond 2**53 are int64, and times
    of which one has digits beyond microseconds are datetime64[ns]. What none of these can hold is refused: integers
    beyond 64 bits, more than nine digits after the second, times outside the years 1 to 9999. Decimals are rounded to
    float64.

    A table of text is in UTF-8 and has the names in its first row, or in the last comment before the values (lines
    that begin with # or %); columns of a table that begins with values are x, y, column 3 …, and a single one is y
    beside row, the numbers of the rows. A first column without a name, as pandas writes it, is index. Cells are
    separated by commas, semicolons, tabs, bars or white space, whichever splits the names and the first row alike.
    Numbers have a decimal point and no other separators (``1_000`` is none); where cells are not separated by commas,
    a decimal comma will do in a table without points. Times are written as in ISO 8601, and those with a time zone
    become UTC; or as 30.05.2001, 2001/05/30, 30 May 2001, May 2001, 2001Q2, 20010530 (if all of a column are such),
    and 30/05/2001 or 05/30/2001 where the column tells which. Rows are counted from 1, without the names.

    The column ``date + clock`` of a table that has the columns ``date``, with dates, and ``clock``, with times of day
    (9:05, 21:05:30) or hours, is both together.

    A sound file has the columns ``time (s)``, ``channel 1``, ``channel 2`` …

    Args:
        path: A file whose name ends in .csv, .tsv, .tab, .txt or .dat (text, also with .gz), .parquet or .wav.
        columns: Those that are wanted, in their order (all of them when left out); the others may hold anything.
        missing: Whether values may be missing (empty cells, NaN, NA, null …): they become NaN and NaT.
        day_first: Whether days come before months in dates such as 05/06/2001; by default a row has to tell.
    """
    path = Path(path)
    with _reading(path) as form:
        joined = _joined(form, path, columns or ())
        parts = [joined[name][0] if name in joined else name for name in columns or ()]
        plain = None if columns is None else list(dict.fromkeys(parts))
        found: dict[str, np.ndarray] = form.read(path, plain, missing=missing, day_first=day_first)
        if not joined:
            return found
        clocks = form.read_raw(path, list(dict.fromkeys(clock for _, clock in joined.values())))
        both = {
            name: with_clock(found[day], clocks[clock], place_in(path, name), missing=missing)
            for name, (day, clock) in joined.items()
        }
        return {name: both[name] if name in both else found[name] for name in columns or ()}


def read_columns(path: FilePath, columns: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Columns of a table (all when left out) as they are: the text of a file of text, the values of others."""
    path = Path(path)
    with _reading(path) as form:
        found: dict[str, np.ndarray] = form.read_raw(path, columns)
        return found


def read_words(
    path: FilePath, columns: Iterable[str], *, missing: bool = False, every: bool = False
) -> dict[str, list[str | None]]:
    """Those of the ``columns`` that hold words, categories, in at least half of their rows, or with ``every`` all.

    Numbers, times and times of day are none. Where words may be ``missing``, they are None.
    """
    path = Path(path)
    kinds = column_kinds(path)
    text = [name for name in columns if every or kinds.get(name) == "text"]
    found = {}
    for name, values in (read_columns(path, text) if text else {}).items():
        cells = ["" if value is None else str(value).strip() for value in values.tolist()]
        kind = {cell: kind_of([cell]) for cell in set(cells)}
        gone = [i for i, cell in enumerate(cells) if kind[cell] == "nothing"]
        if not every and 2 * sum(kind[cell] == "text" for cell in cells) < len(cells) - len(gone):
            continue  # words among numbers, which the reading of these will say
        if gone and not missing:
            raise TableError(f"{place_in(path, name)(gone[0])}: a word is missing")
        found[name] = [None if kind[cell] == "nothing" else cell for cell in cells]
    return found


def column_kinds(path: FilePath) -> dict[str, str]:
    """What the columns of a table hold, by name: "number", "time", "clock", "text", or "nothing" where all is missing.

    A clock is a time of day without a date. The first rows tell; of a table of more than 10,000 columns none are
    looked at, and all hold "nothing".
    """
    path = Path(path)
    with _reading(path) as form:
        found: dict[str, str] = form.kinds_of(path)
        return found


def has_names(path: FilePath) -> bool:
    """Whether a table names its columns; those of a text that begins with values are x, y, column 3 … by position."""
    path = Path(path)
    with _reading(path) as form:
        return form is not csv_tables or csv_tables.has_names(path)


def write_table(path: FilePath, columns: Mapping[str, ArrayLike]) -> None:
    """Write columns of numbers or times, ``[n]`` each, to a CSV or Parquet file that ``read_table`` can read.

    Every digit is kept, of integers up to 64 bits and of times down to nanoseconds. A write that is interrupted leaves
    the file that was there before.

    Args:
        path: A file whose name ends in .csv or .parquet.
        columns: Numbers or times ``[n]``, by the names of the columns.
    """
    path = Path(path)
    form = _writer(path)
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if not arrays or not all(isinstance(name, str) and name.strip() for name in arrays):
        raise TableError(f"{path}: a table has at least one column, and every column a name")
    contents = {name: _writable(array, path, name) for name, array in arrays.items()}
    first, *others = ((name, len(array)) for name, array in contents.items())
    different = [other for other in others if other[1] != first[1]]
    if different or not first[1]:
        got = ", ".join(f"{quoted(name)}: {rows}" for name, rows in (first, *different[:1]))
        raise TableError(f"{path}: all columns must have the same number of rows, at least one; got {got}")
    replace_file(path, form.written(path, contents))


def _joined(form: ModuleType, path: Path, columns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The columns that are dates and times of day of two columns of the file, and which these are."""
    if not any(JOIN in name for name in columns):
        return {}
    names = form.kinds_of(path)
    return {name: parts for name in columns for parts in [parts_of(name, names)] if parts is not None}


def _writable(array: np.ndarray, path: Path, name: str) -> np.ndarray:
    """A column as it is written, if it can be read again."""
    place = place_in(path, name)
    if array.ndim != 1 or array.dtype.kind not in "fiuM" or array.itemsize > 8:
        shape = list(array.shape)
        raise TableError(f"{path}, column {quoted(name)}: expected numbers or times [n], got {array.dtype} {shape}")
    array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "M":
        return times(array, place)
    refuse_not_finite(array, place)
    if array.dtype == np.uint64:
        integers(array.tolist(), place)  # refuses what float64 does not hold
    return array


def _format(path: Path) -> ModuleType:
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    match suffix.lower():
        case ".wav" if suffix == path.suffix:
            return wav_tables
        case ".parquet" if suffix == path.suffix:
            return parquet_tables
        case known if known in TEXT:
            return csv_tables
    raise TableError(
        f"{path}: the name of a table ends in {', '.join(TEXT)} (or one of these and .gz), .parquet or .wav, "
        f"got {path.suffix or 'no extension'!r}"
    )


def _writer(path: Path) -> ModuleType:
    match path.suffix.lower():
        case ".csv":
            return csv_tables
        case ".parquet":
            return parquet_tables
    raise TableError(
        f"{path}: the name of a table to be written ends in .csv or .parquet, got {path.suffix or 'no extension'!r}"
    )


@contextmanager
def _reading(path: Path) -> Iterator[ModuleType]:
    """What reads a file of this format, if there is one."""
    form = _format(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        yield form
    except MemoryError as error:
        raise TableError(f"{path} does not fit into memory: name fewer columns, or take some of the rows") from error
