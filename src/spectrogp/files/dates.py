"""Dates as people write them, as those of ISO 8601: 30.05.2001, 30/5/2001 12:00, 05/30/2001, 2001/05/30, 20010530."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .errors import Place, TableError, quoted

_CLOCK = r"([T ]+(?P<clock>\d{1,2}:\d\d.*))?"
_YEAR_LAST = re.compile(r"(?P<one>\d{1,2})(?P<by>[./-])(?P<two>\d{1,2})(?P=by)(?P<year>\d{4})" + _CLOCK, re.ASCII)
_YEAR_FIRST = re.compile(r"(?P<year>\d{4})(?P<by>[./])(?P<one>\d{1,2})(?P=by)(?P<two>\d{1,2})" + _CLOCK, re.ASCII)
_DIGITS = re.compile(r"(1[5-9]|2[01])\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", re.ASCII)


def are_digits_of_dates(cells: Sequence[str]) -> bool:
    """Whether all of a column are integers such as 20010530: one number may be so by chance, a column is not."""
    return all(_DIGITS.fullmatch(cell) for cell in cells)


def is_date(text: str) -> bool:
    """Whether text is a date that ``as_iso`` rewrites."""
    return bool(_YEAR_LAST.fullmatch(text) or _YEAR_FIRST.fullmatch(text))


def as_iso(cells: list[str], place: Place) -> list[str]:
    """A column of dates, all written as its first one is, in the form of ISO 8601.

    With the year at the end, points mean that the day comes first. With other signs between the parts the column
    tells, by a number beyond 12, whether days or months come first; one that does not tell is refused.
    """
    if are_digits_of_dates(cells):
        return [f"{cell[:4]}-{cell[4:6]}-{cell[6:]}" for cell in cells]
    pattern = _YEAR_FIRST if _YEAR_FIRST.fullmatch(cells[0]) else _YEAR_LAST
    found: list[re.Match[str]] = []
    for i, cell in enumerate(cells):
        match = pattern.fullmatch(cell)
        if match is None or (found and match["by"] != found[0]["by"]):
            raise TableError(f"{place(i)}: expected a date as in the rows before, got {quoted(cell)}")
        found.append(match)
    one, two = (np.array([int(match[name]) for match in found]) for name in ("one", "two"))
    month, day = (one, two) if pattern is _YEAR_FIRST or not _day_first(cells, found, one, two, place) else (two, one)
    return [f"{match['year']}-{month[i]:02}-{day[i]:02}{_clock(match['clock'])}" for i, match in enumerate(found)]


def _day_first(cells: list[str], found: list[re.Match[str]], one: np.ndarray, two: np.ndarray, place: Place) -> bool:
    if found[0]["by"] == ".":
        return True
    if np.any(one > 12) != np.any(two > 12):
        return bool(np.any(one > 12))
    i = int(np.argmax(two > 12))  # 0 where there is none
    why = "while days come first in other rows" if two[i] > 12 else "and no row tells"
    raise TableError(
        f"{place(i)}: {quoted(cells[i])} begins with a day or with a month, {why}: write dates as 2001-05-30"
    )


def _clock(text: str | None) -> str:
    """The time of day, with two digits for the hour."""
    return "" if text is None else f"T{text if text[1] != ':' else '0' + text}"
