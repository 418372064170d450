"""The lines of a table as text: what separates its cells, which lines are comments, where its names are."""

from __future__ import annotations

import csv
from collections import deque
from pathlib import Path
from typing import TextIO

from .cells import kind_of
from .errors import TableError

# Characters of a row: 200,000 cells of twenty digits. As cells they take a hundred times as many bytes at most.
LONGEST = 2**22
COMMENTS = ("#", "%")  # what lines begin with that are no rows
SEPARATORS = ("\t", ";", "|", ",", " ")  # in the order in which they are tried; the last is any white space
EMPTY = 1_000_000  # empty lines, one after the other, that are passed over
NOTHING = ("\n", "\r\n", "\r")  # an empty line
AHEAD = 1_000  # lines before the first row of values that are looked at, at most


class Lines:
    """The lines of a file without its comments, no more at once than a row may have.

    ``separator`` is what splits the names, and the first row of values, into the same number of cells; ``names`` are
    those of the last comment before values that have no names of their own, or None.

    Args:
        file: The file.
        path: Its name, for errors.
    """

    def __init__(self, file: TextIO, path: Path) -> None:
        self.file = file
        self.path = path
        self.row = 0  # the one that is being read, from 1; the names are 0
        self.lines = self.characters = 0  # of this row
        self.separator = ","
        self.names: list[str] | None = None
        self._ahead: deque[str] = deque()  # lines that were looked at, and are still to be read

    def look_ahead(self) -> None:
        """Find the separator, and names in a comment, from the first lines."""
        comment = ""
        rows: list[str] = []
        while len(rows) < 2 and len(self._ahead) < AHEAD:
            line = self.file.readline(LONGEST + 1)
            if not line:
                break
            self._ahead.append(line)
            if _is_comment(line):
                comment = comment if rows else line.lstrip().lstrip("".join(COMMENTS))
            elif line.strip():
                rows.append(line)
        if not rows:
            return
        for separator in SEPARATORS:
            first, *others = (_split(line, separator) for line in rows)
            named = _split(comment, separator)
            if len(named) == len(first) > 1 and all(kind_of([cell]) != "text" for cell in first):
                self.separator, self.names = separator, named
                return
            if others and len(first) == len(others[0]) > 1:
                self.separator = separator
                return

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        empty = 0
        while True:
            line = self._ahead.popleft() if self._ahead else self.file.readline(LONGEST - self.characters + 1)
            if self.lines:
                break
            if line in NOTHING or (self.separator == " " and line.isspace()):
                empty += 1
                if empty > EMPTY:
                    raise TableError(f"{self.where}: {empty:,} empty lines before it, is this a table?")
            elif not _is_comment(line):
                break
        self.characters += len(line)
        if self.characters > LONGEST:
            about = self.about_quotes or "; is it a table, with a line for each row?"
            raise TableError(f"{self.where}: more than {LONGEST:,} characters, the most of a row{about}")
        if not line:
            if self.lines:  # the row goes on
                raise TableError(f"{self.where}: a quote is opened and not closed")
            raise StopIteration
        self.lines += 1
        return " ".join(line.split()) if self.separator == " " else line

    @property
    def where(self) -> str:
        return f"{self.path}, {f'row {self.row}' if self.row else 'the names'}"

    @property
    def about_quotes(self) -> str:
        return "; is a quote opened there and not closed?" if self.lines > 1 else ""


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(COMMENTS)


def _split(line: str, separator: str) -> list[str]:
    """The cells of a line, or none where it has no such form."""
    if separator == " ":
        return line.split()
    try:
        row: list[str] = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in row]
