"""Rows as they come: a series given by itself, and rows in which values are missing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Given(NamedTuple):
    """Inputs ``X`` and outputs ``y``, and what they are called where their containers say so."""

    X: Any
    y: Any
    x_name: str | None = None
    y_name: str | None = None


def separated(X: Any, y: Any) -> Given:
    """Inputs and outputs, of which a series of pandas or xarray alone is both: its index, and its values."""
    if y is not None:
        _refuse_other_index(X, y)
        return Given(_filled(X), _filled(y), _name(X), _name(y))
    if hasattr(X, "index") and hasattr(X, "to_frame") and np.ndim(X) == 1:  # a series of pandas
        return Given(without_zone(X.index), X.to_numpy(), _name(X.index), _name(X))
    if hasattr(X, "coords") and hasattr(X, "dims") and np.ndim(X) == 1:  # an array of xarray
        name, along = _along(X)
        return Given(along, X.to_numpy(), name, _name(X))
    raise ValueError(
        "fit requires y to be passed, but the target y is None; a series of pandas, or an array of xarray with one "
        "dimension, may be given alone"
    )


def _refuse_other_index(X: Any, y: Any) -> None:
    """Refuse outputs of pandas whose rows are not called as those of the inputs: they may be other rows."""
    if not (hasattr(X, "iloc") and hasattr(y, "iloc")) or len(X) != len(y) or X.index.equals(y.index):
        return
    row = next((k for k, (mine, own) in enumerate(zip(X.index, y.index, strict=True)) if mine != own), None)
    if row is None:
        return
    raise ValueError(
        f"X and y have different indices: row {row} is {X.index[row]!r} in X and {y.index[row]!r} in y; give both the "
        "same index, as by y.loc[X.index], or y.to_numpy() where rows belong together in their order"
    )


def _along(array: Any) -> tuple[str, np.ndarray]:
    """The input of an array of xarray with one dimension, and its name: its coordinate, or the numbers of the rows.

    That is the index of the dimension, or the only coordinate along it that holds numbers or times.
    """
    (dimension,) = array.dims
    if dimension in array.coords:
        return str(dimension), array.coords[dimension].to_numpy()
    values = {str(name): part.to_numpy() for name, part in array.coords.items() if part.dims == (dimension,)}
    values = {name: part for name, part in values.items() if part.dtype.kind in "fiuM"}
    if len(values) > 1:
        raise ValueError(
            f"the input may be any of the coordinates {', '.join(map(repr, values))} along {str(dimension)!r}: choose "
            f"it, as in array.swap_dims({dimension!s}={next(iter(values))!r})"
        )
    return next(iter(values.items()), (str(dimension), np.arange(len(array))))


def names_for(count: int, columns: Any, called: Sequence[str | None]) -> tuple[str, ...]:
    """What inputs and output are called: as the ``columns`` of a data frame, or as their containers are, or plainly."""
    plain = [called[0] or "x"] if count == 1 else [f"x{k + 1}" for k in range(count)]
    return (*map(str, plain if columns is None else columns), called[1] or "y")


def without_zone(index: Any) -> np.ndarray:
    """The values of an index of pandas; periods as their beginnings, and times with a zone in UTC."""
    if hasattr(index, "to_timestamp"):
        index = index.to_timestamp()
    if getattr(index, "tz", None) is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    return np.asarray(index)


def complete_rows(X: np.ndarray, y: np.ndarray, error: Any) -> tuple[np.ndarray, np.ndarray, Any, int]:
    """The rows in which nothing is missing, and how many are left out, which is warned of.

    Args:
        X: Inputs ``[n, d]``.
        y: Outputs ``[n]``, or those of channels ``[n, c]``, of which a row has at least one.
        error: Known standard deviations ``[n]`` or ``[n, c]``, one for all, or None.
    """
    error = _filled(error)
    if len(X) != len(y):
        return X, y, error, 0  # the data will say so
    outputs = np.isnan(y) if y.ndim == 1 else np.all(np.isnan(y), axis=1)
    missing = {"X": np.any(np.isnan(X), axis=1), "y": outputs, "error": _missing(error, len(y))}
    gone = np.any(list(missing.values()), axis=0)
    count, total = int(np.sum(gone)), len(y)
    if not count:
        return X, y, error, 0
    where = ", ".join(f"{name}: {int(np.sum(rows))}" for name, rows in missing.items() if np.any(rows))
    if total - count < 2:
        raise ValueError(f"{count} of {total} rows have missing values ({where}), and a fit needs two without")
    warnings.warn(f"{count} of {total} rows have missing values and are left out ({where})", stacklevel=3)
    each = np.asarray(error)[~gone] if np.shape(error)[:1] == (total,) else error
    return X[~gone], y[~gone], each, count


def _missing(error: Any, count: int) -> np.ndarray:
    try:
        values = np.asarray(error, float)
    except (TypeError, ValueError):  # the data will say so
        values = np.zeros(())
    return np.isnan(values) if values.shape == (count,) else np.zeros(count, bool)


def _filled(values: Any) -> Any:
    """Missing values in the place of masked ones."""
    if not isinstance(values, np.ma.MaskedArray) or values.dtype.kind not in "fiuM":
        return values
    if values.dtype.kind == "M":
        return values.filled(np.datetime64("NaT"))
    if not np.any(np.ma.getmaskarray(values)):  # integers stay what they are
        return np.asarray(values)
    return np.ma.filled(values.astype(float), np.nan)


def _name(values: Any) -> str | None:
    name = getattr(values, "name", None)
    return name if isinstance(name, str) and name else None
