"""Which columns of a table are inputs, output and error bars: as they are named, or by one rule.

The rule looks at names and kinds. The *input* is the column of times; without one, the column whose name says time
(time, date, year, jd, t, x …); without one, the first of two columns, if its values rise. *Error bars* are the column
whose name says so (err, error, sigma, uncertainty, e_mag …); they are never an input. The *output* is the one column of
numbers that is left. A table that leaves a choice is refused, with the columns it has and the option to give.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..files import TableError, column_kinds, listed, quoted, read_table

_TIMES = frozenset(
    re.findall(
        r"\w+",
        "t x time times date dates datetime timestamp year years yr month months day days hour hours minute minutes "
        "second seconds sec epoch jd mjd bjd hjd tjd btjd bkjd",
    )
)
_ERRORS = frozenset(re.findall(r"\w+", "e err errs error errors sigma uncertainty uncertainties unc std stdev sd"))
LARGEST = 1_000  # columns of a table that the rule looks at
_NUMBERS = {"", "index", "row", "id", "unnamed"}  # columns that count the rows


class Columns(NamedTuple):
    """What the columns of the data are called."""

    x: tuple[str, ...]
    y: str
    error: str | None = None

    def __str__(self) -> str:
        inputs = f"input{'s' * (len(self.x) > 1)} {listed(self.x)}"
        return f"{inputs}, output {quoted(self.y)}" + (f", error bars {quoted(self.error)}" if self.error else "")


def chosen_columns(path: Path, x: list[str] | None, y: str | None, error: str | None) -> Columns:
    """The columns of a table that are fitted: those that are named, and the others by the rule.

    Args:
        path: The table.
        x: Inputs, or None.
        y: The output, or None.
        error: Known standard deviations of the outputs, or None: none where inputs and output are named.
    """
    kinds = column_kinds(path)
    if not kinds:
        raise TableError(f"{path} has no columns: expected one of outputs and at least one of inputs")
    for option, name in (*(("--x", name) for name in x or ()), ("--y", y), ("--error", error)):
        if name is not None and name not in kinds:
            raise TableError(f"{option}: {path} has no column {quoted(name)}; it has {listed(list(kinds))}")
    given = [*(x or ()), *(name for name in (y, error) if name is not None)]
    if twice := [name for name, times in Counter(given).items() if times > 1]:
        raise TableError(f"column {quoted(twice[0])} is asked for twice: --x, --y and --error name different columns")
    if x and y is not None:
        return Columns(tuple(x), y, error)
    if len(kinds) > LARGEST:
        raise TableError(f"{path} has {len(kinds):,} columns: name the inputs by --x and the output by --y")
    rule = _Rule(path, kinds, given)
    if not x:
        x = [rule.input(y)]
    if y is None:
        y = rule.output(x)
    return Columns(tuple(x), y, rule.error(y) if error is None else error)


class _Rule:
    """The rule for columns that are not named.

    Args:
        path: The table, for errors.
        kinds: What its columns hold.
        given: Those that are named, whatever for.
    """

    def __init__(self, path: Path, kinds: dict[str, str], given: list[str]) -> None:
        self.path, self.kinds = path, kinds
        free = [name for name in kinds if name not in given]
        # What says error, or is the name of a column of values behind a letter: dy, emag.
        marked = {mark for name in kinds if not _words(name) & (_TIMES | _NUMBERS) for mark in _marked(name)}
        numbers = [name for name in free if kinds[name] == "number"]
        self.errors = [name for name in numbers if _words(name) & _ERRORS or name.lower() in marked]
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
                return found[0]
            if found:
                raise self._ambiguous("input", found, "--x")
        wanted = 2 if y is None else 1
        if len(self.values) < wanted:
            every = {*self.values, *self.others}
            self.values = [name for name in self.kinds if name in every]
        if len(self.values) > wanted:
            raise self._ambiguous("input", self.values, "--x", "; give it for each input")
        if len(self.values) < wanted:
            raise self._none_left("inputs", "--x")
        if y is None and not _rises(self.path, self.values[0]):
            raise self._ambiguous("input", self.values, "--x")
        return self.values.pop(0)

    def output(self, x: list[str]) -> str:
        """The output: the one column of numbers that is left."""
        groups = ([name for name in found if name not in x] for found in (self.values, self.times, self.others))
        left = next(filter(None, groups), [])
        channels = [name for name in left if name.startswith("channel ")]
        if len(left) == 1 or (channels == left and self.path.suffix.lower() == ".wav"):
            return left[0]
        if left:
            raise self._ambiguous("output", left, "--y")
        raise self._none_left("outputs", "--y")

    def error(self, y: str) -> str | None:
        """Error bars: the one column that is called so, and not as those of another column of values."""
        own = [name for name in self.errors if _names(name, y)]
        others = [name for name in (*self.values, *self.times) if name != y]
        found = own or [name for name in self.errors if not any(_names(name, other) for other in others)]
        if len(found) > 1:
            raise self._ambiguous("error bars", found, "--error", "; with --x and --y none are taken")
        return found[0] if found else None

    def _none_left(self, what: str, option: str) -> TableError:
        if len(self.kinds) == 1:
            only = quoted(next(iter(self.kinds)))
            return TableError(
                f"{self.path} has only the column {only}: expected one of outputs and at least one of inputs"
            )
        return TableError(f"{self.path} has no column left for the {what}: give {option}; it has {self._listed()}")

    def _ambiguous(self, what: str, found: list[str], option: str, more: str = "") -> TableError:
        return TableError(
            f"{self.path}: the {what} may be {' or '.join(map(quoted, found[:5]))}{' …' * (len(found) > 5)}: choose by "
            f"{option} NAME{more}; the columns are {self._listed()}"
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


def _marked(name: str) -> set[str]:
    return {f"{mark}{name.lower()}" for mark in ("d", "e", "sig")}


def _names(error: str, column: str) -> bool:
    """Whether the name of error bars has that of another column in it."""
    return bool((_words(error) - _ERRORS) & _words(column)) or error.lower() in _marked(column)


def _without(names: list[str], others: list[str]) -> list[str]:
    gone = set(others)
    return [name for name in names if name not in gone]
