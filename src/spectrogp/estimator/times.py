"""Data from the outside: times, large integers and data frames as numbers, and back.

A float64 has 53 bits. Integers beyond (nanoseconds since 1970, say), and times that are close together, are counted
from an *origin* in integers before they become floats, so that no digit is lost.
"""

from __future__ import annotations

import warnings
from datetime import date
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils import check_array, column_or_1d

from ..core import naming, refuse_masked
from .rows import without_zone

DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")
EXACT = 2**53  # up to here every integer is a float64
NEGLIGIBLE = 1e-6  # of the average spacing: a rounding of inputs by less is far below any noise in the phase
VISIBLE = 1e-2  # of the same: a rounding by more is worth a warning

_TIMES = (date, np.datetime64)
Origin: TypeAlias = int | np.datetime64  # 0: none


class Inputs(NamedTuple):
    """Inputs as numbers: times in days since 1970, or since their origin; integers less theirs.

    Args:
        numbers: The inputs with these numbers in place of times and large integers; else as they were given.
        times: Which columns hold times.
        origins: What was subtracted from each column before it became a float, 0 for nothing; empty where no column
            was looked at, which means the same.
    """

    numbers: Any
    times: list[int]
    origins: tuple[Origin, ...]


def numbers_of(X: Any, origins: tuple[Origin, ...] | None = None, *, single: bool = True) -> Inputs:
    """Inputs as numbers, from given ``origins`` or from those that they need.

    A list of numbers or times is one column, if a ``single`` one may be meant.
    """
    refuse_masked(X, "X")
    if hasattr(X, "isetitem"):  # a data frame of pandas
        columns = [X.iloc[:, i] for i in range(X.shape[1])]
        changed = {i: _converted(column.dtype, column, _of(origins, i)) for i, column in enumerate(columns)}
        for i, found in changed.items():
            if found is None:
                _refuse_words(columns[i], columns[i].name)
        if any(found is not None for found in changed.values()):
            X = X.copy()
            for i, found in changed.items():
                if found is not None:
                    X.isetitem(i, found.numbers)
        return _gathered(X, changed)
    if hasattr(X, "to_frame"):  # a column of pandas, or an index, whose name is none of an input
        return numbers_of(X.to_frame() if hasattr(X, "index") else without_zone(X), origins)
    if hasattr(X, "__array__") and getattr(X, "ndim", None) == 1:  # of another library
        X = np.asarray(X)
    if not isinstance(X, np.ndarray | list | tuple):
        return Inputs(X, [], ())
    with naming("X"):
        array = np.asarray(X)
    if array.ndim == 1 and single:
        array = X = array[:, None]
    if array.ndim != 2 or (array.dtype.kind not in "MmOUiu" and not any(origins or ())):
        return Inputs(X, [], ())
    changed = {i: _converted(array.dtype, column, _of(origins, i)) for i, column in enumerate(array.T)}
    for i, found in changed.items():
        if found is None:
            _refuse_words(array[:, i], i)
    if all(found is None for found in changed.values()):
        return Inputs(X, [], ())
    parts = [array[:, i] if found is None else found.numbers for i, found in changed.items()]
    return _gathered(np.column_stack(parts), changed)


def warn_of_rounding(values: np.ndarray, spread: Any, name: str) -> None:
    """Warn where floats are so large that their own rounding shows beside how far they lie apart.

    Args:
        values: ``[n]`` or ``[n, d]``.
        spread: How far apart values of every column are, for which the rounding matters.
        name: What they are called.
    """
    rounding = np.spacing(np.max(np.abs(values), axis=0))
    wrong = np.atleast_1d((rounding > VISIBLE * spread) & (spread > 0))
    if np.any(wrong):
        k = int(np.argmax(wrong))
        where = name if values.ndim == 1 else f"column {k} of {name}"
        warnings.warn(
            f"{where} has lost digits: as float64 its values are multiples of {np.atleast_1d(rounding)[k]:.3g}, while "
            f"they lie about {np.atleast_1d(spread)[k]:.3g} apart; subtract a reference, such as the first one, before "
            "they become floats (integers and times need no such care as inputs)",
            stacklevel=4,
        )


def outputs_of(y: Any) -> np.ndarray:
    """Outputs as ``[n]``, those of channels as ``[n, c]``, NaN where they are missing.

    A single column is flattened, with scikit-learn's warning.
    """
    refuse_masked(y, "y")
    with naming("y"):
        shape = np.asarray(y).shape  # of anything that can be made an array
        if len(shape) == 2 and shape[1] > 1:
            return np.asarray(y, np.float64)
        numbers = check_array(
            y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="y", ensure_all_finite="allow-nan"
        )
        return np.asarray(column_or_1d(numbers, warn=True))


def with_times(X: np.ndarray, times: np.ndarray, origins: tuple[Origin, ...] = ()) -> Any:
    """Inputs ``[n, d]`` as they are given: times in the place of days, and integers where they have an origin.

    The array has one kind of values if all columns have it, and objects if not.
    """
    columns = [_given(column, bool(times[k]), _of(origins, k)) for k, column in enumerate(X.T)]
    if len({column.dtype for column in columns}) == 1:
        return np.column_stack(columns)
    mixed = np.empty(X.shape, object)
    for k, column in enumerate(columns):
        mixed[:, k] = list(column)  # ``astype(object)`` would make integers of nanoseconds
    return mixed


def like(X: Any, values: Any, names: list[str] | None = None) -> Any:
    """Values ``[n, ...]`` as a data frame with the index of X, where X is one and the values have at most two axes."""
    # Lists have an index too, which is a method.
    if values is None or callable(getattr(X, "index", len)) or np.ndim(values) > 2:
        return values
    import pandas as pd

    if np.ndim(values) == 1:
        return pd.Series(values, index=X.index)
    return pd.DataFrame(values, index=X.index, columns=names)


class _Column(NamedTuple):
    numbers: np.ndarray
    time: bool
    origin: Origin


def _of(origins: tuple[Origin, ...] | None, column: int) -> Any:
    """The origin of a column: None if it is to be found."""
    return None if origins is None else origins[column] if origins else 0


def _gathered(X: Any, columns: dict[int, _Column | None]) -> Inputs:
    times = [i for i, column in columns.items() if column is not None and column.time]
    return Inputs(X, times, tuple(0 if column is None else column.origin for column in columns.values()))


def _converted(dtype: Any, column: Any, origin: Any) -> _Column | None:
    """A column of times, or one that has or needs an origin; None for any other."""
    if _holds_times(dtype, column):
        return _days(*_microseconds(column), origin)
    if origin is None:
        origin = _least(column) if _holds_integers(dtype, column) else 0
    if isinstance(origin, np.datetime64) or origin == 0:
        return None
    # Python's integers do not overflow.
    return _Column(np.array([value - origin for value in np.asarray(column).tolist()], np.float64), False, origin)


def _days(whole: np.ndarray, rest: np.ndarray, origin: Any) -> _Column:
    """Times, as microseconds since 1970 and nanoseconds of the next, in days since an origin."""
    missing = np.isnat(whole)
    ticks = whole.astype(np.int64)
    if origin is None:
        origin = _first_of(ticks[~missing], rest[~missing])
    start = np.int64(0), 0
    if isinstance(origin, np.datetime64):
        start = tuple(part[0] for part in _split(np.array([origin.astype("datetime64[ns]")])))
        start = start[0].astype(np.int64), start[1]
    return _Column(np.where(missing, np.nan, ((ticks - start[0]) + (rest - start[1]) / 1e3) / DAY), True, origin)


def _first_of(ticks: np.ndarray, rest: np.ndarray) -> Origin:
    """The first time, if days since 1970 would round what lies between; else 0."""
    if len(ticks) < 2:
        return 0
    apart = (np.max(ticks) - np.min(ticks)) / DAY / (len(ticks) - 1)
    rounding = np.spacing(np.max(np.abs(ticks)) / DAY)
    if not np.any(rest) and rounding <= NEGLIGIBLE * apart:
        return 0
    first = int(np.min(ticks))
    if abs(first) >= 2**63 // 1000:  # beyond the years that nanoseconds since 1970 can tell
        return 0
    return np.datetime64(1000 * first, "ns")


def _least(column: Any) -> int:
    """The least of integers of which one is no float64; else 0."""
    values = np.asarray(column)
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    return least if max(abs(least), abs(most)) > EXACT else 0


def _microseconds(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Times in whole microseconds since 1970, and the nanoseconds beyond."""
    if column.dtype.kind == "O" and any(isinstance(value, np.datetime64) for value in column):
        column = np.array(list(column), "datetime64")
    unit = "ns" if column.dtype.kind == "M" and "ns" in str(column.dtype) else "us"
    if hasattr(column, "to_numpy"):
        return _split(column.to_numpy(f"datetime64[{unit}]"))
    return _split(np.asarray(column).astype(f"datetime64[{unit}]"))


def _split(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    whole = times.astype("datetime64[us]")  # rounds down
    return whole, np.where(np.isnat(times), 0, (times - whole).astype("timedelta64[ns]").astype(np.int64))


def _given(numbers: np.ndarray, time: bool, origin: Any) -> np.ndarray:
    """A column of numbers as times or integers."""
    if time and not isinstance(origin, np.datetime64):
        return (numbers * DAY).round().astype(np.int64).astype("datetime64[us]")
    if time:
        return origin.astype("datetime64[ns]") + (numbers * DAY * 1e3).round().astype(np.int64).astype(
            "timedelta64[ns]"
        )
    return np.array([origin + round(number) for number in numbers.tolist()]) if origin else numbers


def holds_words(column: Any) -> bool:
    """Whether most values of a column are words: no numbers, in whatever form."""
    words, count = _words_among(column)
    return bool(words) and 2 * len(words) >= count


def _refuse_words(column: Any, name: Any) -> None:
    """Refuse a column that holds words: which one it is, and what to do about it."""
    words, count = _words_among(column)
    if not words:
        return
    if 2 * len(words) < count:
        raise ValueError(
            f"X holds words among the numbers of the column {name!r}, such as {str(words[0])!r}: put numbers in their "
            "place, or say that they are missing (pandas.to_numeric with errors='coerce'), and their rows are left out"
        )
    raise ValueError(
        f"X holds words in the column {name!r}, such as {str(words[0])!r}: give a data frame of pandas, whose columns "
        "of words become columns of zeros and ones for each word, or numbers where words have an order"
    )


def _words_among(column: Any) -> tuple[list[str], int]:
    """The words of a column that are no numbers, and how many values it has that are said; none if all are numbers."""
    if getattr(column.dtype, "kind", "O") not in "OU" or _holds_times(column.dtype, column):
        return [], 0
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        said = [value for value in column if isinstance(value, str)]
        return [value for value in said if not _is_number(value)], len(said)
    return [], 0


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _holds_times(dtype: Any, column: Any) -> bool:
    kind = getattr(dtype, "kind", "")
    if kind == "m":
        raise ValueError("X holds lengths of time: divide them by their unit, such as numpy.timedelta64(1, 'D')")
    return kind == "M" or (kind == "O" and len(column) > 0 and all(isinstance(value, _TIMES) for value in column))


def _holds_integers(dtype: Any, column: Any) -> bool:
    kind = getattr(dtype, "kind", "")
    if kind in "iu" and type(dtype).__module__.startswith("numpy"):
        return True
    return kind == "O" and len(column) > 0 and all(type(value) is int for value in column)
