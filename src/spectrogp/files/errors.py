"""What is wrong with a table, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

Place: TypeAlias = Callable[[int], str]  # names the file, the column, and the row with the given index


class TableError(ValueError):
    """A table that cannot be read or written; the message names the file, and the column and row where there is one."""


def quoted(text: str, most: int = 60) -> str:
    """A name or a cell in an error: quoted, with control characters escaped as ``repr`` does, and not endless."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}… ({len(text):,} characters)"


def listed(names: Sequence[str], most: int = 10) -> str:
    """Names as they may be shown, the first few of them."""
    first = ", ".join(map(quoted, names[:most]))
    return first if len(names) <= most else f"{first} … and {len(names) - most:,} more"


def refuse(wrong: np.ndarray, place: Place, why: str) -> None:
    """Raise if anything is wrong in a column, naming the first such row."""
    if np.any(wrong):
        raise TableError(f"{place(int(np.argmax(wrong)))}: {why}")
