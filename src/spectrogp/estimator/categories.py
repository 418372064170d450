"""Categories: columns of words of a data frame, which become columns of zeros and ones for each of their words.

They are known from the rows of the fit alone. Columns of pandas whose type is "category" are such, whatever they hold,
and columns of text that does not hold numbers.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..files import called, levels_of, zeros_and_ones
from .times import Inputs, holds_words, numbers_of

Levels: TypeAlias = tuple[tuple[str, ...] | None, ...]  # of every column; None where it holds no categories


def categories_of(X: Any) -> Levels:
    """The words of every column of a data frame; nothing where no column has any, and for anything else."""
    if not hasattr(X, "isetitem"):
        return ()
    columns = [X.iloc[:, i] for i in range(X.shape[1])]
    found = tuple(
        levels_of(_words(column), _where(column.name)) if _is_category(column) else None for column in columns
    )
    return found if any(levels is not None for levels in found) else ()


def with_zeros_and_ones(X: Any, categories: Levels) -> Any:
    """The same data frame with columns of zeros and ones for each word in the place of those of words.

    An array of numbers has these columns already, and stays as it is.
    """
    if not categories or not hasattr(X, "isetitem"):
        return X
    import pandas as pd

    parts = []
    for i, levels in enumerate(categories):
        column = X.iloc[:, i].rename(str(X.columns[i]))
        if levels is not None:
            values = zeros_and_ones(_words(column), levels, _where(X.columns[i]))
            column = pd.DataFrame(values, index=X.index, columns=called(column.name, levels))
        parts.append(column)
    return pd.concat(parts, axis=1)


def names_with_levels(names: tuple[str, ...], categories: Levels) -> tuple[str, ...]:
    """What inputs are called, with the columns of zeros and ones."""
    if not categories:
        return names
    pairs = zip(names, categories, strict=True)
    return tuple(one for name, levels in pairs for one in ([name] if levels is None else called(name, levels)))


def numbers_as_fitted(estimator: Any, X: Any) -> Inputs:
    """Inputs as numbers of the kind that an estimator was fitted to, words as zeros and ones."""
    if getattr(estimator, "categories_", ()) and hasattr(X, "isetitem"):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        X = with_zeros_and_ones(X, estimator.categories_)
    return numbers_of(X, estimator.X_origin_, single=len(estimator.X_scale_) == 1)


def checked_as_fitted(estimator: Any, X: Any) -> np.ndarray:
    """Such inputs as an array, if they are finite and as many as those of the fit."""
    if not getattr(estimator, "categories_", ()):
        return np.asarray(validate_data(estimator, X, dtype=np.float64, reset=False))
    X = check_array(X, dtype=np.float64, input_name="X")
    if X.shape[1] != len(estimator.X_scale_):
        raise ValueError(
            f"X has {X.shape[1]} columns: give a data frame with the {estimator.n_features_in_} of the fit, or the "
            f"{len(estimator.X_scale_)} of names_, zeros and ones in the place of words"
        )
    return np.asarray(X)


def _is_category(column: Any) -> bool:
    return hasattr(column, "cat") or holds_words(column)


def _words(column: Any) -> list[str | None]:
    """The values of a column as words, None where one is missing."""
    pairs = zip(column.tolist(), np.asarray(column.isna()).tolist(), strict=True)
    return [None if missing else _word(value) for value, missing in pairs]


def _word(value: Any) -> str:
    # Integers become floats in a column in which some are missing.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _where(name: Any) -> str:
    return f"X: the column {name!r}"
