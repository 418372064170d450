"""Tables as text, a row at a time: nothing in them takes more memory than a row may have."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TextIO, cast

import numpy as np

from .cells import about_separators, kind_of, parsed, with_points
from .errors import TableError, listed
from .lines import COMMENTS, Lines
from .selection import looked_at, place_in, refuse_too_many_values, wanted_of

ENCODING = "utf-8-sig"  # with or without a byte order mark
GZIP = b"\x1f\x8b"

ROW, INDEX = "row", "index"  # what columns without a name are called: numbers of rows, and the first one beside others

_OTHERS = {
    b"\xff\xfe": "text in UTF-16: save it as UTF-8",
    b"\xfe\xff": "text in UTF-16: save it as UTF-8",
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save it as CSV",
    b"PAR1": "a Parquet file: give it a name that ends in .parquet",
}


def read(
    path: Path, columns: Sequence[str] | None, *, missing: bool = False, day_first: bool | None = None
) -> dict[str, np.ndarray]:
    """The columns that are wanted, as numbers and times; ``missing`` ones are NaN and NaT, or refused."""
    with _opened(path) as file:
        lines = Lines(file, path)
        rows = _rows(lines)
        names = next(rows)
        wanted = wanted_of(path, names, columns)
        index = {name: i for i, name in enumerate(names)}
        cells: dict[str, list[str]] = {name: [] for name in wanted}
        chosen = [(index[name], column) for name, column in cells.items()]
        number = 0
        for number, row in enumerate(rows, 1):
            refuse_too_many_values(path, number, len(chosen))
            for i, column in chosen:
                column.append(row[i])
    if not number:
        raise TableError(f"{path} has no rows of values")
    if lines.separator != ",":  # between commas a decimal comma could be one of thousands
        cells = with_points(cells)
    return {
        name: parsed(column, place_in(path, name), missing=missing, day_first=day_first)
        for name, column in cells.items()
    }


def read_raw(path: Path, columns: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The columns that are wanted, as the text that they are."""
    with _opened(path) as file:
        rows = _rows(Lines(file, path))
        names = next(rows)
        wanted = names if columns is None else wanted_of(path, names, columns)
        chosen = [names.index(name) for name in wanted]
        cells = zip(*([row[i] for i in chosen] for row in rows), strict=True)
        return {name: np.array(values) for name, values in zip(wanted, cells, strict=True)}


def kinds_of(path: Path) -> dict[str, str]:
    """What every column holds, by its first rows."""
    with _opened(path) as file:
        rows = _rows(Lines(file, path))
        names = next(rows)
        some = list(islice(rows, looked_at(len(names))))
    columns = zip(*some, strict=True) if some else ((),) * len(names)
    return {name: kind_of(cells) for name, cells in zip(names, columns, strict=True)}


def has_names(path: Path) -> bool:
    """Whether a table names its columns; those of one that begins with values are called by their positions."""
    with _opened(path) as file:
        lines = Lines(file, path)
        lines.look_ahead()
        rows = csv.reader(lines, delimiter=lines.separator, skipinitialspace=True)
        return lines.names is not None or not _are_values(next(filter(None, rows)))


def written(path: Path, columns: dict[str, np.ndarray]) -> bytes:
    """The content of the file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    # A name that would begin a comment is quoted.
    begins = next(iter(columns)).lstrip().startswith(COMMENTS)
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if begins else csv.QUOTE_MINIMAL).writerow(columns)
    # As Python's numbers they are written with as many digits as it takes to read the same number again.
    cells = [np.datetime_as_string(c) if c.dtype.kind == "M" else c.tolist() for c in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    try:
        content = text.getvalue().encode()
        again = Lines(io.StringIO(content.decode(ENCODING), newline=""), path)
        wanted_of(path, next(_rows(again)), [name.strip() for name in columns])
    except (UnicodeEncodeError, TableError) as error:
        raise TableError(f"{path}: CSV cannot keep the names {listed(list(columns))}: {error}") from error
    return content


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A file of text to read from, unpacked if it is compressed."""
    with path.open("rb") as plain:
        start = plain.read(4)
        plain.seek(0)
        file = cast("IO[bytes]", gzip.GzipFile(fileobj=plain)) if start.startswith(GZIP) else plain
        for mark, kind in _OTHERS.items():
            if start.startswith(mark):
                raise TableError(f"{path} is not a table of text in UTF-8 but {kind}")
        try:
            with io.TextIOWrapper(file, encoding=ENCODING, newline="") as text:
                yield text
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TableError(f"{path} is compressed (gzip) and damaged: {error}") from error


def _rows(lines: Lines) -> Iterator[list[str]]:
    """The names, and then the rows of as many cells; comments and lines without anything are passed over."""
    names: list[str] | None = None
    nameless = False
    try:
        lines.look_ahead()
        if lines.names is not None:
            names = lines.names
            yield names
            lines.row += 1
        for row in csv.reader(lines, delimiter=lines.separator, skipinitialspace=True):
            if names is None:
                nameless = _are_values(row)
                names = _by_position(len(row)) if nameless else _names(row)
                yield names
                lines.row += nameless
            if lines.row:
                row = [str(lines.row), *row] if nameless and names[0] == ROW else row
                if len(row) != len(names):
                    about = about_separators(names[0]) if len(names) == 1 else ""
                    expected = f"expected {len(names)} values, one for each column, got {len(row)}"
                    raise TableError(f"{lines.where}: {expected}{about}")
                yield row
            lines.row += 1
            lines.lines = lines.characters = 0
    except UnicodeDecodeError as error:
        byte, before = error.object[error.start], max(lines.row - 1, 0)
        raise TableError(
            f"{lines.path} is not a table of text in UTF-8: byte {byte:#04x} after row {before}"
        ) from error
    except csv.Error as error:
        raise TableError(f"{lines.where}: {error}{lines.about_quotes}") from error
    if names is None:
        raise TableError(f"{lines.path} is empty: expected a row of column names, and rows of values")


def _are_values(row: list[str]) -> bool:
    """Whether a first row has no names but values."""
    return all(kind_of([cell]) in ("number", "time") for cell in row)


def _by_position(count: int) -> list[str]:
    """Names of the columns of a table that has none: x, y, column 3 …; a single column is y, beside row numbers."""
    return [ROW, "y"] if count == 1 else ["x", "y", *(f"column {k}" for k in range(3, count + 1))]


def _names(row: list[str]) -> list[str]:
    names = [name.strip() for name in row]
    if names[0] == "" and len(names) > 1 and INDEX not in names:  # as pandas writes an index
        names[0] = INDEX
    return names
