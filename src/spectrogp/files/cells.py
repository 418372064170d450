"""What the columns of a table hold: numbers and times with all their digits, or an error that names the place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from .clocks import is_clock
from .dates import are_digits_of_dates, as_iso, is_date
from .errors import Place, TableError, quoted, refuse

LONGEST_CELL = 1_100  # characters of a number or time: the smallest float64, with all its zeros and digits, has 1,077

_MISSING = {"", "na", "n/a", "<na>", "nan", "+nan", "-nan", "nat", "none", "null", "-", "--", "?"}
# A time zone belongs to a time of day, and a fraction to seconds.
_ISO = re.compile(
    r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.(?P<fraction>\d+))?)?)?"
    r"(?P<zone>Z|(?P<sign>[+-])(?P<hours>\d\d)(:?(?P<minutes>\d\d))?)?)?)?",
    flags=re.ASCII,
)
_EXAMPLE = "2001-05, 2001-05-30 or 2001-05-30T12:00:00"
_INTEGER = re.compile(r"[+-]?\d+", flags=re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", flags=re.ASCII)
_SEPARATED = re.compile(r"[+-]?\d[\d.,'_\s]*([eE][+-]?\d+)?")

_EXACT = 2**53  # up to here float64 holds all integers
_INT64 = range(-(2**63), 2**63)
# The calendar of Python's datetime; beyond it times have no text that other programs read.
_FIRST, _LAST = np.array(["0001-01-01", "9999-12-31T23:59:59.999999"], "datetime64[us]")
# Nanoseconds since 1970 are 64-bit integers, of which the smallest means "not a time".
_FIRST_NS, _LAST_NS = divmod(-(2**63) + 1, 1000), divmod(2**63 - 1, 1000)


def refuse_not_finite(values: np.ndarray, place: Place) -> None:
    """Raise if a number is missing (not a number) or infinite."""
    refuse(np.isnan(values), place, "the value is missing")
    refuse_infinite(values, place)


def refuse_infinite(values: np.ndarray, place: Place) -> None:
    """Raise if a number is infinite."""
    refuse(np.isinf(values), place, "the value is infinite")


def about_separators(text: str) -> str:
    """What to do about text that is no number because of how it is separated, as the end of a message."""
    for separator in (";", "\t", "|"):
        if separator in text:
            return (
                f"; are the columns separated by {separator!r}? Separate them by commas, with decimal points in numbers"
            )
    if _SEPARATED.fullmatch(text):
        return "; write numbers in the digits 0 to 9 with a decimal point, and without separators of thousands"
    return ""


# Text


def kind_of(cells: Sequence[str]) -> str:
    """What a column holds, by some of its cells: "number", "time", "clock" (no date), "text", "nothing" (missing)."""
    cells = [cell.strip() for cell in cells]
    kinds = {_kind(cell) for cell in cells} - {"nothing"}
    if kinds == {"number"} and are_digits_of_dates([cell for cell in cells if cell.lower() not in _MISSING]):
        return "time"
    return kinds.pop() if len(kinds) == 1 else "text" if kinds else "nothing"


def _kind(text: str) -> str:
    if text.lower() in _MISSING:
        return "nothing"
    if _ISO.fullmatch(text) or is_date(text):
        return "time"
    if is_clock(text):
        return "clock"
    return "number" if _is_number(text) or _DECIMAL_COMMA.fullmatch(text) else "text"


def with_points(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    """Columns of text with decimal points for decimal commas, where no number in them has a point already."""
    joined = {name: "".join(cells) for name, cells in columns.items()}
    commas = [name for name, text in joined.items() if "," in text]
    if not commas:
        return columns
    for name, text in joined.items():
        if "." in text and any("." in cell and _is_number(cell.strip()) for cell in columns[name]):
            return columns
    return columns | {
        name: [c.replace(",", ".") if _DECIMAL_COMMA.fullmatch(c.strip()) else c for c in columns[name]]
        for name in commas
    }


def parsed(cells: list[str], place: Place, *, missing: bool = False, day_first: bool | None = None) -> np.ndarray:
    """A column of text as numbers, or as times if its first value is one; what is ``missing`` is NaN, or refused.

    Dates of which no row tells whether days come first say so by ``day_first``.
    """
    if max(map(len, cells)) > LONGEST_CELL:
        i = next(i for i, cell in enumerate(cells) if len(cell) > LONGEST_CELL)
        raise TableError(f"{place(i)}: expected a number or a time, got {quoted(cells[i])}")
    cells = [cell.strip() for cell in cells]
    gone = np.array([cell.lower() in _MISSING for cell in cells])
    if not np.any(gone):
        return _parsed(cells, place, day_first)
    if not missing:
        refuse(gone, place, "the value is missing")
    rows = np.flatnonzero(~gone)
    if not len(rows):
        return with_gaps(np.empty(0), gone, place)
    there = _parsed([cells[i] for i in rows], lambda i: place(int(rows[i])), day_first)
    return with_gaps(there, gone, place)


def with_gaps(there: np.ndarray, gone: np.ndarray, place: Place) -> np.ndarray:
    """Values in the rows that are not ``gone``, and NaN or NaT in those that are."""
    if there.dtype.kind == "i":
        refuse(gone, place, "the value is missing, beside integers that float64 does not hold: leave the row out")
    whole = np.full(len(gone), np.nan if there.dtype.kind == "f" else "NaT", there.dtype)
    whole[~gone] = there
    return whole


def _parsed(cells: list[str], place: Place, day_first: bool | None) -> np.ndarray:
    if (is_date(cells[0]) and not _ISO.fullmatch(cells[0])) or are_digits_of_dates(cells):
        cells = as_iso(cells, place, day_first)
    return _parsed_times(cells, place) if _ISO.fullmatch(cells[0]) else _parsed_numbers(cells, place)


def _parsed_numbers(cells: list[str], place: Place) -> np.ndarray:
    try:
        if not _plain("".join(set(cells))):
            raise ValueError
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        i = next(i for i, cell in enumerate(cells) if not _is_number(cell))
        kinds = f"a number or a time such as {_EXAMPLE}" if i == 0 else "a number, as in the rows before"
        message = f"{place(i)}: expected {kinds}, got {quoted(cells[i])}{about_separators(cells[i])}"
        raise TableError(message) from None
    if np.all(np.abs(values) < _EXACT):  # none is infinite or missing, and all integers are exact
        return values
    large = np.flatnonzero(~(np.abs(values) < _EXACT)).tolist()
    for i in large:
        if np.isinf(values[i]) and "inf" not in cells[i].lower():
            raise TableError(f"{place(i)}: the value is too large for float64, got {quoted(cells[i])}")
    refuse_not_finite(values, place)
    if all(_INTEGER.fullmatch(cell) for cell in cells):
        return integers([int(cell) for cell in cells], place)
    for i in large:  # integers among decimals
        if _INTEGER.fullmatch(cells[i]):
            _refuse_lost_digits(int(cells[i]), place(i))
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return _plain(text)


def _plain(text: str) -> bool:
    """Whether text has nothing that Python's numbers may have and those of tables not: 1_000, digits of all scripts."""
    return text.isascii() and "_" not in text


def _parsed_times(cells: list[str], place: Place) -> np.ndarray:
    values = np.empty(len(cells), dtype="datetime64[us]")
    rest = np.zeros(len(cells), dtype=np.int64)  # nanoseconds beside whole microseconds
    zoned = bool(_ISO.fullmatch(cells[0])["zone"])  # type: ignore[index]
    for i, cell in enumerate(cells):
        found = _ISO.fullmatch(cell)
        try:
            if found is None or bool(found["zone"]) != zoned:
                raise ValueError
            values[i], digits = _moment(found)
        except ValueError:
            zone = "with a time zone" if zoned else "without a time zone"
            raise TableError(f"{place(i)}: expected a time {zone}, such as {_EXAMPLE}, got {quoted(cell)}") from None
        if len(digits) > 9:
            raise TableError(f"{place(i)}: times end at nanoseconds, nine digits after the second; got {quoted(cell)}")
        rest[i] = int(digits[6:].ljust(3, "0"))
    _refuse_outside_calendar((values < _FIRST) | (values > _LAST), place)
    return _with_nanoseconds(values, rest, place) if np.any(rest) else values


def _moment(found: re.Match[str]) -> tuple[np.datetime64, str]:
    """A time in UTC as whole microseconds, and the digits of its fraction without zeros at their end."""
    text, digits = found[0], (found["fraction"] or "").rstrip("0")
    if found["zone"]:
        text = text[: found.start("zone")]
    if digits:
        text = text[: found.start("fraction") + 6]
    hours, minutes = int(found["hours"] or 0), int(found["minutes"] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError
    ahead = np.timedelta64((60 * hours + minutes) * (-1 if found["sign"] == "-" else 1), "m")
    return np.datetime64(text, "us") - ahead, digits


def _with_nanoseconds(microseconds: np.ndarray, rest: np.ndarray, place: Place) -> np.ndarray:
    whole = microseconds.astype(np.int64)
    early = (whole < _FIRST_NS[0]) | ((whole == _FIRST_NS[0]) & (rest < _FIRST_NS[1]))
    late = (whole > _LAST_NS[0]) | ((whole == _LAST_NS[0]) & (rest > _LAST_NS[1]))
    why = "a column with digits beyond microseconds lies within 1677-09-22 and 2262-04-11: leave out these digits"
    refuse(early | late, place, why)
    # At the early end the product wraps around, and the sum back again.
    return (whole * 1000 + rest).astype("datetime64[ns]")


# Arrays


def integers(values: Sequence[int], place: Place) -> np.ndarray:
    """Integers as float64; as int64 where float64 would lose digits; refused where both do."""
    if all(-_EXACT <= value <= _EXACT for value in values):
        return np.array(values, dtype=np.float64)
    if all(value in _INT64 for value in values):
        return np.array(values, dtype=np.int64)
    for i, value in enumerate(values):
        _refuse_lost_digits(value, place(i))
    return np.array(values, dtype=np.float64)


def _refuse_lost_digits(value: int, where: str) -> None:
    """Refuse an integer that float64 neither equals nor is written as, as programs write large float64 numbers."""
    if value not in (int(float(value)), int(Decimal(repr(float(value))))):
        raise TableError(
            f"{where}: {quoted(str(value))} loses digits as float64: "
            "subtract a number from the whole column first, such as its first value"
        )


def times(values: np.ndarray, place: Place) -> np.ndarray:
    """Times of any unit as datetime64[us], or as datetime64[ns] where one has digits beyond microseconds.

    NumPy wraps around what a unit cannot hold, so the values are compared in their own unit first.
    """
    refuse(np.isnat(values), place, "the value is missing")
    if np.datetime_data(values.dtype)[0] in ("ns", "ps", "fs", "as"):  # all within the calendar
        nanoseconds = values.astype("datetime64[ns]")
        refuse(
            nanoseconds.astype(values.dtype) != values, place, "times end at nanoseconds, this has digits beyond them"
        )
        microseconds = nanoseconds.astype("datetime64[us]")
        exact = np.array_equal(microseconds.astype("datetime64[ns]"), nanoseconds)
        return microseconds if exact else nanoseconds
    first, last = (end.astype(values.dtype) for end in (_FIRST, _LAST))
    _refuse_outside_calendar((values < first) | (values > last), place)
    microseconds = values.astype("datetime64[us]")
    _refuse_outside_calendar(microseconds < _FIRST, place)  # the first week began earlier
    return microseconds


def _refuse_outside_calendar(wrong: np.ndarray, place: Place) -> None:
    refuse(wrong, place, "the time lies outside the years 1 to 9999 (in UTC)")
