"""Which columns of a table are inputs, output and error bars: as they are named, or by one rule.

The rule looks at names and kinds. The *input* is the column of times; without one, the column whose name says time
(time, date, year, jd, t, x …); without one, the first of two columns, if its values rise. Dates whose times of day
are another column (clocks such as 9:05, or what is called hour) are taken together with these. *Error bars* are the
column whose name says so (err, error, sigma, se, uncertainty, e_mag, magerr …); they are never an input. The *output*
is the one column of numbers that is left. The columns of a table without names are input, output and, if all are
positive, error bars. A table that leaves a choice is refused, with the columns it has and the option to give.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .clocks import JOIN, parts_of
from .errors import TableError, listed, quoted
from .tables import column_kinds, has_names, read_table

_TIMES = frozenset(
    re.findall(
        r"\w+",
        "t x time times date dates datetime timestamp year years yr month months day days hour hours minute minutes "
        "second seconds sec epoch jd mjd bjd hjd tjd btjd bkjd",
    )
)
_HOURS = frozenset(("hour", "hours", "hr", "hrs"))
_OF_DAY = frozenset(("time", "times", "minute", "minutes", "min", "second", "seconds", "sec"))  # they may be
_ERRORS = frozenset(
    re.findall(r"\w+", "e err errs error errors yerr stderr sigma sig se uncertainty uncertainties unc std stdev sd")
)
_SIGNALS = frozenset(("sig", "se"))  # which may be, too: the only column of values is no error bars
LARGEST = 1_000  # columns of a table that the rule looks at
THIRD = "column 3"  # of a table without names
_NUMBERS = {"", "index", "row", "id", "unnamed"}  # columns that count the rows


class Columns(NamedTuple):
    """What the columns of the data are called."""

    x: tuple[str, ...]
    y: str
    error: str | None = None

    def __str__(self) -> str:
        inputs = f"input{'s' * (len(self.x) > 1)} {listed(self.x)}"
        return f"{inputs}, output {quoted(self.y)}" + (f", error bars {quoted(self.error)}" if self.error else "")

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.x, self.y, *([] if self.error is None else [self.error])]

    def inputs(self, table: Mapping[str, np.ndarray]) -> Any:
        """Inputs ``[n, d]``: all numbers or all times, or objects where a common type would lose digits."""
        parts = [table[name] for name in self.x]
        if len({part.dtype for part in parts}) == 1:
            return np.column_stack(parts)
        # As objects of Python, but for nanoseconds, which it has none for.
        return np.column_stack(
            [np.fromiter(part, object) if part.dtype == "M8[ns]" else part.astype(object) for part in parts]
        )


def chosen_columns(
    path: Path, x: list[str] | None, y: str | None, error: str | None, *, day_first: bool | None = None
) -> Columns:
    """The columns of a file that are fitted: those that are named, and the others by the rule.

    Args:
        path: The table.
        x: Inputs, or None.
        y: The output, or None.
        error: Known standard deviations of the outputs, or None: none where inputs and output are named.
        day_first: As in ``read_table``.
    """
    kinds = column_kinds(path)
    if not x and error is None and y in (None, "y") and list(kinds) == ["x", "y", THIRD] and not has_names(path):
        error = THIRD if _positive(path, THIRD) else None
    return columns_among(
        kinds,
        x,
        y,
        error,
        path,
        lambda name: _rises(path, name),
        lambda name: _are_days(path, name, day_first),
    )


def columns_among(
    kinds: dict[str, str],
    x: Sequence[str] | None,
    y: str | None,
    error: str | None,
    where: Any,
    rises: Callable[[str], bool],
    are_days: Callable[[str], bool] | None = None,
    option: str = "--{}",
) -> Columns:
    """The same of a table whose columns hold these ``kinds``.

    Args:
        kinds: What every column holds, as ``column_kinds`` has it.
        x: Inputs, or None.
        y: The output, or None.
        error: Known standard deviations of the outputs, or None.
        where: What the table is called in errors.
        rises: Whether a column holds numbers in their order.
        are_days: Whether times are dates only, which ``read_table`` reads together with times of day; None where none
            can be.
        option: What errors call the choice of x, y or error: that of the command line, or "{}" for arguments.
    """
    if not kinds:
        raise TableError(f"{where} has no columns: expected one of outputs and at least one of inputs")
    called = {choice: option.format(choice) for choice in ("x", "y", "error")}
    for choice, name in (*(("x", name) for name in x or ()), ("y", y), ("error", error)):
        if name is None or name in kinds:
            continue
        if choice != "x" or are_days is None or parts_of(name, kinds) is None:
            raise TableError(f"{called[choice]}: {where} has no column {quoted(name)}; it has {listed(list(kinds))}")
    given = [*(x or ()), *(name for name in (y, error) if name is not None)]
    if twice := [name for name, times in Counter(given).items() if times > 1]:
        different = "{x}, {y} and {error} name different columns".format(**called)
        raise TableError(f"column {quoted(twice[0])} is asked for twice: {different}")
    if x and y is not None:
        return Columns(tuple(x), y, error)
    if len(kinds) > LARGEST:
        name_them = "name the inputs by {x} and the output by {y}".format(**called)
        raise TableError(f"{where} has {len(kinds):,} columns: {name_them}")
    rule = _Rule(str(where), kinds, given, rises, are_days, called)
    if not x:
        x = [rule.input(y)]
    if y is None:
        y = rule.output(x)
    return Columns(tuple(x), y, rule.error(y) if error is None else error)


class _Rule:
    """The rule for columns that are not named.

    Args:
        where: The table, for errors.
        kinds: What its columns hold.
        given: Those that are named, whatever for.
        rises: Whether a column holds numbers in their order.
        are_days: Whether times are dates only; None where they cannot be read together with times of day.
        called: What errors call the choices.
    """

    def __init__(
        self,
        where: str,
        kinds: dict[str, str],
        given: list[str],
        rises: Callable[[str], bool],
        are_days: Callable[[str], bool] | None,
        called: Mapping[str, str],
    ) -> None:
        self.where, self.kinds, self.rises, self.are_days, self.called = where, kinds, rises, are_days, called
        free = [name for name in kinds if name not in given]
        # What says error, or is the name of a column of values behind a letter: dy, emag.
        marked = {mark for name in kinds if not _words(name) & (_TIMES | _NUMBERS) for mark in _marked(name)}
        numbers = [name for name in free if kinds[name] == "number"]
        self.errors = [name for name in numbers if _words(name) & _ERRORS or name.lower() in marked]
        if all(name in self.errors or _words(name) & (_TIMES | _NUMBERS) for name in given + numbers):
            self.errors = [name for name in self.errors if not _words(name) <= _SIGNALS]
        numbers = _without(numbers, self.errors)
        self.dates = [name for name in free if kinds[name] == "time"]
        self.times = [name for name in numbers if _words(name) & _TIMES]
        numbers = _without(numbers, self.times)
        self.values = [name for name in numbers if not _words(name) <= _NUMBERS]
        # What counts rows, then text and what has no values: where there is no other, their reading says what is wrong.
        others = [name for name in free if kinds[name] not in ("number", "time")]
        self.others = [*_without(numbers, self.values), *others]

    def input(self, y: str | None) -> str:
        """The input: dates, what is called time, or the first of two."""
        for found in (self.dates, self.times):
            if len(found) == 1:
                return self.with_clock(found[0]) if found is self.dates else found[0]
            if found:
                raise self._ambiguous("input", found, "x")
        wanted = 2 if y is None else 1
        if len(self.values) < wanted:
            every = {*self.values, *self.others}
            self.values = [name for name in self.kinds if name in every]
        if len(self.values) > wanted:
            raise self._ambiguous("input", self.values, "x", "; give it for each input")
        if len(self.values) < wanted:
            raise self._none_left("inputs", "x")
        if y is None and not self.rises(self.values[0]):
            raise self._ambiguous("input", self.values, "x")
        return self.values.pop(0)

    def with_clock(self, date: str) -> str:
        """Dates together with the column of their times of day, if they have none themselves and there is one."""
        clocks = [name for name in self.others if self.kinds[name] == "clock"]
        hours = [name for name in self.times if _words(name) & _HOURS]
        finer = [name for name in self.times if _words(name) & _OF_DAY]
        found = clocks or [*hours, *finer]
        if not found or (self.are_days is not None and not self.are_days(date)):
            return date
        joined = [f"{date}{JOIN}{name}" for name in found]
        if self.are_days is None:
            raise TableError(
                f"{self.where}: {quoted(date)} may have its times of day in {quoted(found[0])}: make one column of "
                f"both, or choose the dates alone by {self.called['x']} NAME"
            )
        if len(found) > 1 or (not clocks and finer):
            raise self._ambiguous("input", [date, *joined], "x", " (dates alone, or with times of day)")
        return joined[0]

    def output(self, x: Sequence[str]) -> str:
        """The output: the one column of numbers that is left."""
        taken = {part for name in x for part in (parts_of(name, self.kinds) or (name,))}
        groups = ([name for name in found if name not in taken] for found in (self.values, self.times, self.others))
        left = next(filter(None, groups), [])
        channels = [name for name in left if name.startswith("channel ")]
        if len(left) == 1 or (channels == left and self.where.lower().endswith(".wav")):
            return left[0]
        if left:
            raise self._ambiguous("output", left, "y")
        raise self._none_left("outputs", "y")

    def error(self, y: str) -> str | None:
        """Error bars: the one column that is called so, and not as those of another column of values."""
        own = [name for name in self.errors if _names(name, y)]
        others = [name for name in (*self.values, *self.times) if name != y]
        found = own or [name for name in self.errors if not any(_names(name, other) for other in others)]
        if len(found) > 1:
            raise self._ambiguous(
                "error bars", found, "error", "; with {x} and {y} none are taken".format(**self.called)
            )
        return found[0] if found else None

    def _none_left(self, what: str, choice: str) -> TableError:
        if len(self.kinds) == 1:
            only = quoted(next(iter(self.kinds)))
            return TableError(
                f"{self.where} has only the column {only}: expected one of outputs and at least one of inputs"
            )
        return TableError(
            f"{self.where} has no column left for the {what}: give {self.called[choice]}; it has {self._listed()}"
        )

    def _ambiguous(self, what: str, found: list[str], choice: str, more: str = "") -> TableError:
        return TableError(
            f"{self.where}: the {what} may be {' or '.join(map(quoted, found[:5]))}{' …' * (len(found) > 5)}: choose "
            f"by {self.called[choice]} NAME{more}; the columns are {self._listed()}"
        )

    def _listed(self) -> str:
        return listed([*self.kinds])


def _words(name: str) -> set[str]:
    """The words of a name in small letters, without a unit in brackets at its end."""
    plain = re.sub(r"[(\[][^()\[\]]*[)\]]\s*$", "", name)
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)  # fluxError
    return set(re.split(r"[\W\d_]+", apart.lower())) - {""} or {""}


def _rises(path: Path, name: str) -> bool:
    """Whether a column holds numbers in their order, as inputs mostly are and outputs hardly ever."""
    values = read_table(path, [name], missing=True)[name]
    values = values[~np.isnan(values)]
    return bool(np.all(np.diff(values) >= 0))


def _positive(path: Path, name: str) -> bool:
    """Whether a column holds positive numbers, as error bars are."""
    values = read_table(path, [name], missing=True)[name]
    return values.dtype.kind == "f" and bool(np.all(values[~np.isnan(values)] > 0.0))


def _are_days(path: Path, name: str, day_first: bool | None) -> bool:
    """Whether times are dates, without times of day."""
    values = read_table(path, [name], missing=True, day_first=day_first)[name]
    values = values[~np.isnat(values)]
    return bool(np.all(values == values.astype("datetime64[D]")))


def _marked(name: str) -> set[str]:
    """What error bars of a column are called in one word, or behind a letter: dy, emag, u_mag, magerr."""
    plain = name.lower()
    return {f"{mark}{plain}" for mark in ("d", "e", "sig", "u_")} | {f"{plain}{mark}" for mark in ("err", "error")}


def _names(error: str, column: str) -> bool:
    """Whether the name of error bars has that of another column in it."""
    return bool((_words(error) - _ERRORS) & _words(column)) or error.lower() in _marked(column)


def _without(names: list[str], others: list[str]) -> list[str]:
    gone = set(others)
    return [name for name in names if name not in gone]
