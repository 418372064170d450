"""Data from the outside: times and data frames as numbers, and back."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
from sklearn.utils import check_array, column_or_1d

from ..core import naming, refuse_masked

DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")


def numbers_of(X: Any, *, single: bool = True) -> tuple[Any, list[int]]:
    """X with its times as days since 1970, and which columns hold times.

    A list of numbers or times is one column, if a ``single`` one may be meant.
    """
    refuse_masked(X, "X")
    if hasattr(X, "isetitem"):  # a data frame of pandas
        columns = [X.iloc[:, i] for i in range(X.shape[1])]
        times = [i for i, column in enumerate(columns) if _holds_times(column.dtype, column)]
        if times:
            X = X.copy()
            for i in times:
                X.isetitem(i, days_of(columns[i].to_numpy("datetime64[us]")))
        return X, times
    if hasattr(X, "to_frame"):  # a column of pandas
        return numbers_of(X.to_frame())
    if not isinstance(X, np.ndarray | list | tuple):
        return X, []
    with naming("X"):
        array = np.asarray(X)
    if array.ndim == 1 and single:
        array = X = array[:, None]
    if array.ndim != 2 or array.dtype.kind not in "MmO":
        return X, []
    times = [i for i, column in enumerate(array.T) if _holds_times(array.dtype, column)]
    if not times:
        return X, []
    columns = [days_of(column.astype("datetime64[us]")) if i in times else column for i, column in enumerate(array.T)]
    return np.column_stack(columns), times


def outputs_of(y: Any) -> np.ndarray:
    """Outputs as ``[n]``; a single column is flattened, with scikit-learn's warning."""
    refuse_masked(y, "y")
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    with naming("y"):
        numbers = check_array(y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="y")
        return np.asarray(column_or_1d(numbers, warn=True))


def with_times(X: np.ndarray, times: np.ndarray) -> Any:
    """Inputs ``[n, d]`` with times in the place of days since 1970, in the columns that hold them."""
    if not np.any(times):
        return X
    moments = (X * DAY).round().astype(np.int64).astype("datetime64[us]")
    if X.shape[1] == 1:
        return moments
    mixed = X.astype(object)
    for column in np.flatnonzero(times):
        mixed[:, column] = moments[:, column].astype(object)
    return mixed


def like(X: Any, values: Any, names: list[str] | None = None) -> Any:
    """Values ``[n, ...]`` as a data frame with the index of X, where X is one and the values have at most two axes."""
    if values is None or not hasattr(X, "index") or np.ndim(values) > 2:
        return values
    import pandas as pd

    if np.ndim(values) == 1:
        return pd.Series(values, index=X.index)
    return pd.DataFrame(values, index=X.index, columns=names)


def days_of(times: np.ndarray) -> np.ndarray:
    """Days since 1970; a missing time is not a number."""
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / DAY)


def _holds_times(dtype: Any, column: Any) -> bool:
    kind = getattr(dtype, "kind", "")
    if kind == "m":
        raise ValueError("X holds lengths of time: divide them by their unit, such as numpy.timedelta64(1, 'D')")
    return kind == "M" or (kind == "O" and len(column) > 0 and all(isinstance(value, date) for value in column))
