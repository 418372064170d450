"""What a section of the campaign counts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias


class Trials(NamedTuple):
    """Trials of one kind.

    Args:
        what: What was tried, as a line of the table.
        holds: What must hold, as a reader would say it.
        tried: How many trials were made.
        failures: One line for each trial that failed.
        note: What else is worth a line: a range of measured values, what may differ.
    """

    what: str
    holds: str
    tried: int
    failures: tuple[str, ...] = ()
    note: str = ""


# ``section(quick, seed, place)`` makes its trials with files in ``place``, an empty directory of its own.
Section: TypeAlias = Callable[[bool, int, Path], Iterator[Trials]]


def python(*arguments: Any, **environment: str) -> subprocess.Popen[str]:
    """A Python process of its own, started afresh, with the same compiled programs for all."""
    return subprocess.Popen(  # noqa: S603
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "200"} | environment,
    )
