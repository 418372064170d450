"""Times of day: alone, as a column beside one of dates, and as the end of a date."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from .errors import Place, TableError, quoted

JOIN = " + "  # between the names of dates and of their times of day, which together are one column
EXAMPLE = "9:05, 21:05:30, 9:05 PM or an hour from 0 to 24"

_CLOCK = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(:(?P<second>\d\d)(?P<fraction>[.,]\d+)?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<zone>Z|(?P<sign>[+-])(?P<hours>\d\d)(:?(?P<minutes>\d\d))?)?",
    re.ASCII,
)


def is_clock(text: str) -> bool:
    """Whether text is a time of day with its minutes."""
    return bool(_CLOCK.fullmatch(text))


def parts_of(name: str, names: Collection[str]) -> tuple[str, str] | None:
    """The columns of dates and of times of day that a name joins; None where it joins none of these ``names``."""
    if JOIN not in name or name in names:
        return None
    before, *others = name.split(JOIN)
    for k in range(len(others)):
        parts = JOIN.join([before, *others[:k]]), JOIN.join(others[k:])
        if parts[0] in names and parts[1] in names:
            return parts
    return None


def in_24_hours(clock: str) -> str:
    """A time of day as ISO 8601 has it: two digits for the hour, which is one of 24."""
    found = _CLOCK.fullmatch(clock)
    if found is None:
        return clock
    hour = int(found["hour"])
    if found["half"]:
        if not 1 <= hour <= 12:
            return clock  # 13 PM: no reading of it is sure
        hour = hour % 12 + (12 if found["half"][0] in "Pp" else 0)
    rest = f":{found['second']}{(found['fraction'] or '').replace(',', '.')}" if found["second"] else ""
    return f"{hour:02}:{found['minute']}{rest}{found['zone'] or ''}"


def with_clock(days: np.ndarray, clocks: np.ndarray, place: Place, *, missing: bool) -> np.ndarray:
    """Dates with their times of day, which are text or hours; NaT where one of both is missing."""
    whole = days.astype("datetime64[us]")
    found = whole.copy()
    for i, (day, cell) in enumerate(zip(whole, clocks.tolist(), strict=True)):
        text = "" if cell is None else str(cell).strip()
        if np.isnat(day) or text.lower() in ("", "na", "nan", "null", "none"):
            if not missing:
                raise TableError(f"{place(i)}: the value is missing")
            found[i] = np.datetime64("NaT")
            continue
        if day != day.astype("datetime64[D]"):
            raise TableError(f"{place(i)}: expected a date without a time of day, got {quoted(str(day))}")
        found[i] = day + _since_midnight(text, place(i))
    return found


def _since_midnight(text: str, where: str) -> np.timedelta64:
    wrong = TableError(f"{where}: expected a time of day, such as {EXAMPLE}, got {quoted(text)}")
    match = _CLOCK.fullmatch(in_24_hours(text))
    if match is None:
        try:
            hours = float(text)
        except ValueError:
            raise wrong from None
        if not 0.0 <= hours <= 24.0:
            raise wrong
        return np.timedelta64(round(hours * 3600e6), "us")
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if match["half"] or hour > 24 or minute > 59 or second > 59 or (hour == 24 and minute + second):
        raise wrong
    behind = int(match["hours"] or 0) * 60 + int(match["minutes"] or 0)
    minutes = 60 * hour + minute - (-behind if match["sign"] == "-" else behind)
    microseconds = round(float(f"0{(match['fraction'] or '.0').replace(',', '.')}") * 1e6)
    return np.timedelta64(60_000_000 * minutes + 1_000_000 * second + microseconds, "us")
