"""Dates as people write them, as those of ISO 8601.

30.05.2001, 30/5/2001 12:00, 05/30/2001 1:05 PM, 2001/05/30, 20010530, 30 May 2001, May 2001, 2001Q2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .clocks import in_24_hours
from .errors import Place, TableError, quoted

_CLOCK = r"([T ]+(?P<clock>\d{1,2}:\d\d.*))?"
_YEAR_LAST = re.compile(r"(?P<one>\d{1,2})(?P<by>[./-])(?P<two>\d{1,2})(?P=by)(?P<year>\d{4})" + _CLOCK, re.ASCII)
_YEAR_FIRST = re.compile(r"(?P<year>\d{4})(?P<by>[./-])(?P<one>\d{1,2})(?P=by)(?P<two>\d{1,2})" + _CLOCK, re.ASCII)
_NAMED = re.compile(r"((?P<day>\d{1,2})[ -])?(?P<month>[A-Za-z]{3,9})\.?[ -](?P<year>\d{4})" + _CLOCK, re.ASCII)
_QUARTER = re.compile(r"(?P<year>\d{4})[ -]?[Qq](?P<quarter>[1-4])|[Qq](?P<first>[1-4])[ -](?P<last>\d{4})", re.ASCII)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DIGITS = re.compile(r"(1[5-9]|2[01])\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", re.ASCII)


def are_digits_of_dates(cells: Sequence[str]) -> bool:
    """Whether all of a column are integers such as 20010530: one number may be so by chance, a column is not."""
    return all(_DIGITS.fullmatch(cell) for cell in cells)


def is_date(text: str) -> bool:
    """Whether text is a date that ``as_iso`` rewrites."""
    return bool(_YEAR_LAST.fullmatch(text) or _YEAR_FIRST.fullmatch(text) or _in_words(text))


def as_iso(cells: list[str], place: Place, day_first: bool | None = None) -> list[str]:
    """A column of dates, all written as its first one is, in the form of ISO 8601.

    With the year at the end, points mean that the day comes first. With other signs between the parts the column
    tells, by a number beyond 12, whether days or months come first; one that does not tell is refused, unless
    ``day_first`` does.
    """
    if are_digits_of_dates(cells):
        return [f"{cell[:4]}-{cell[4:6]}-{cell[6:]}" for cell in cells]
    if _in_words(cells[0]):
        named = [_in_words(cell) for cell in cells]
        if None in named:
            i = named.index(None)
            raise _unlike(cells[i], place(i))
        return [text for text in named if text is not None]
    pattern = _YEAR_FIRST if _YEAR_FIRST.fullmatch(cells[0]) else _YEAR_LAST
    found: list[re.Match[str]] = []
    for i, cell in enumerate(cells):
        match = pattern.fullmatch(cell)
        if match is None or (found and match["by"] != found[0]["by"]):
            raise _unlike(cell, place(i))
        found.append(match)
    one, two = (np.array([int(match[name]) for match in found]) for name in ("one", "two"))
    if pattern is _YEAR_LAST and day_first is None:
        day_first = _day_first(cells, found, one, two, place)
    elif pattern is _YEAR_LAST and np.any(wrong := (two if day_first else one) > 12):
        i, which = int(np.argmax(wrong)), "day" if day_first else "month"
        raise TableError(f"{place(i)}: {quoted(cells[i])} begins with no {which}, as was said of the column")
    month, day = (two, one) if pattern is _YEAR_LAST and day_first else (one, two)
    return [f"{match['year']}-{month[i]:02}-{day[i]:02}{_clock(match['clock'])}" for i, match in enumerate(found)]


def _day_first(cells: list[str], found: list[re.Match[str]], one: np.ndarray, two: np.ndarray, place: Place) -> bool:
    if found[0]["by"] == ".":
        return True
    if np.any(one > 12) != np.any(two > 12):
        return bool(np.any(one > 12))
    i = int(np.argmax(two > 12))  # 0 where there is none
    why = "while days come first in other rows" if two[i] > 12 else "and no row tells"
    raise TableError(
        f"{place(i)}: {quoted(cells[i])} begins with a day or with a month, {why}: write dates as 2001-05-30, or "
        "say which by --day-first or --month-first (day_first=True or False in Python)"
    )


def _in_words(text: str) -> str | None:
    """A date with the name of its month, or a quarter (30 May 2001, 2001Q2), as its first day in ISO 8601; or None."""
    if found := _QUARTER.fullmatch(text):
        quarter = int(found["quarter"] or found["first"])
        return f"{found['year'] or found['last']}-{3 * quarter - 2:02}-01"
    found = _NAMED.fullmatch(text)
    if found is None:
        return None
    name = found["month"].lower()
    months = [k for k, month in enumerate(_MONTHS, 1) if name in (month, month[:3], month[:4])]
    if not months or (found["clock"] and not found["day"]):
        return None
    return f"{found['year']}-{months[0]:02}-{int(found['day'] or 1):02}{_clock(found['clock'])}"


def _unlike(cell: str, where: str) -> TableError:
    return TableError(f"{where}: expected a date as in the rows before, got {quoted(cell)}")


def _clock(text: str | None) -> str:
    """The time of day, with two digits for the hour, of 24."""
    return "" if text is None else f"T{in_24_hours(text.strip())}"
