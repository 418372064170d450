"""CSV files, a row at a time: nothing in them takes more memory than a row may have."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from .cells import TableError, about_separators, is_value, listed, parsed
from .selection import place_in, refuse_too_many_values, wanted_of

ENCODING = "utf-8-sig"  # with or without a byte order mark
# Characters of a row: 200,000 cells of twenty digits. As cells they take a hundred times as many bytes at most.
LONGEST = 2**22
EMPTY = 1_000_000  # empty lines, one after the other, that are passed over

_OTHERS = {
    b"\xff\xfe": "text in UTF-16: save it as UTF-8",
    b"\xfe\xff": "text in UTF-16: save it as UTF-8",
    b"\x1f\x8b": "compressed (gzip): unpack it",
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save it as CSV",
    b"PAR1": "a Parquet file: give it a name that ends in .parquet",
}


def read(path: Path, columns: Sequence[str] | None) -> dict[str, np.ndarray]:
    """The columns that are wanted, as numbers and times."""
    with _opened(path) as file:
        rows = _rows(file, path)
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
    return {name: parsed(column, place_in(path, name)) for name, column in cells.items()}


def read_raw(path: Path) -> dict[str, np.ndarray]:
    """All columns, as the text that they are."""
    with _opened(path) as file:
        rows = _rows(file, path)
        names = next(rows)
        return {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}


def names_of(path: Path) -> list[str]:
    """The names in the first row."""
    with _opened(path) as file:
        return next(_rows(file, path))


def written(path: Path, columns: dict[str, np.ndarray]) -> bytes:
    """The content of the file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    # As Python's numbers they are written with as many digits as it takes to read the same number again.
    cells = [np.datetime_as_string(c) if c.dtype.kind == "M" else c.tolist() for c in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    try:
        content = text.getvalue().encode()
        again = io.StringIO(content.decode(ENCODING), newline="")
        wanted_of(path, next(_rows(again, path)), [name.strip() for name in columns])
    except (UnicodeEncodeError, TableError) as error:
        raise TableError(f"{path}: CSV cannot keep the names {listed(list(columns))}: {error}") from error
    return content


def _opened(path: Path) -> TextIO:
    with path.open("rb") as file:
        start = file.read(4)
    for mark, kind in _OTHERS.items():
        if start.startswith(mark):
            raise TableError(f"{path} is not a CSV file in UTF-8 but {kind}")
    return path.open(newline="", encoding=ENCODING)


def _rows(file: TextIO, path: Path) -> Iterator[list[str]]:
    """The names, and then the rows of as many cells; lines without anything are passed over."""
    names: list[str] | None = None
    empty = 0
    lines = _Lines(file, path)
    try:
        for row in csv.reader(lines, skipinitialspace=True):
            if not row:
                lines.lines = lines.characters = 0
                empty += 1
                if empty > EMPTY:
                    raise TableError(f"{lines.where}: {empty:,} empty lines before it, is this a table?")
                continue
            if names is None:
                names = _names(row, path)
                yield names
            else:
                if len(row) != len(names):
                    about = about_separators(names[0]) if len(names) == 1 else ""
                    expected = f"expected {len(names)} values, one for each column, got {len(row)}"
                    raise TableError(f"{lines.where}: {expected}{about}")
                yield row
            lines.row += 1
            empty = lines.lines = lines.characters = 0
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise TableError(f"{path} is not a CSV file in UTF-8: byte {byte:#04x} after row {lines.row - 1}") from error
    except csv.Error as error:
        raise TableError(f"{lines.where}: {error}{lines.about_quotes}") from error
    if names is None:
        raise TableError(f"{path} is empty: expected a row of column names, and rows of values")


def _names(row: list[str], path: Path) -> list[str]:
    names = [name.strip() for name in row]
    if all(is_value(name) for name in names):
        raise TableError(f"{path} starts with values: expected a first row of column names, got {listed(names)}")
    return names


class _Lines:
    """The lines of a file, no more at once than a row may have.

    Args:
        file: The file.
        path: Its name, for errors.
    """

    def __init__(self, file: TextIO, path: Path) -> None:
        self.file = file
        self.path = path
        self.row = 0  # the one that is being read, from 1; the names are 0
        self.lines = self.characters = 0  # of this row

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self.file.readline(LONGEST - self.characters + 1)
        self.characters += len(line)
        if self.characters > LONGEST:
            about = self.about_quotes or "; is it a table, with a line for each row?"
            raise TableError(f"{self.where}: more than {LONGEST:,} characters, the most of a row{about}")
        if not line:
            if self.lines:  # the row goes on
                raise TableError(f"{self.where}: a quote is opened and not closed")
            raise StopIteration
        self.lines += 1
        return line

    @property
    def where(self) -> str:
        return f"{self.path}, {f'row {self.row}' if self.row else 'the names'}"

    @property
    def about_quotes(self) -> str:
        return "; is a quote opened there and not closed?" if self.lines > 1 else ""
