"""Categories as numbers: a column of words becomes a column of zeros and ones for each of its words, its levels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from .cells import kind_of

# Levels of a column, at most, since each becomes an input with a lengthscale of its own; and rows of a level on
# average, at least: what has fewer tells rows apart and not kinds of them, as an identifier does.
MOST, ROWS = 50, 2


def levels_of(words: Sequence[str | None], where: str) -> tuple[str, ...]:
    """The different words of a column, in their order; None is a missing one.

    Args:
        words: The values of the column.
        where: What it is called in errors.
    """
    there = [word for word in words if word is not None]
    found = tuple(sorted(set(there)))
    if found and kind_of(found) == "time":
        raise ValueError(f"{where} holds times as words, such as {found[0]!r}: make times of them (pandas.to_datetime)")
    if len(found) > MOST or ROWS * len(found) > len(there):
        raise ValueError(
            f"{where} holds {len(found)} different words in {len(there)} rows, such as {found[0]!r}; those of "
            f"categories, at most {MOST}, are in {ROWS} rows or more on average: leave the column out if it only tells "
            "rows apart, join words that are rare, or put numbers in their place"
        )
    return found


def zeros_and_ones(words: Sequence[str | None], levels: Sequence[str], where: str) -> np.ndarray:
    """A column for each level ``[n, levels]``: 1 where a row holds it, and NaN in all of them where it is missing.

    A word that is none of them is zero in all, which a warning says.
    """
    if new := sorted({word for word in words if word is not None} - set(levels)):
        said = (
            f"{len(new)} words that the fit did not see, such as"
            if len(new) > 1
            else "a word that the fit did not see,"
        )
        warnings.warn(
            f"{where} holds {said} {new[0]!r}: zero in the columns of all {len(levels)} that it saw", stacklevel=2
        )
    values = np.array(words, object)[:, None]
    columns = (values == np.array(levels, object)).astype(np.float64)
    columns[[word is None for word in words]] = np.nan
    return columns


def called(name: str, levels: Sequence[str]) -> list[str]:
    """What the columns of zeros and ones are called."""
    return [f"{name}={level}" for level in levels]
