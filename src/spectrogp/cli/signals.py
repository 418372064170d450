"""``spectrogp fit --by``: many signals of one table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ..choices import UNITS
from ..estimator import SpectralGPRegressor
from ..files import Columns, kinds_in, printable, quoted
from ..many import choose, fit_many
from . import terminal
from .work import QUICK

SHOWN = 5  # reasons of failures that are printed


def fit_signals(
    path: Path,
    by: list[str],
    names: tuple[list[str] | None, str | None, str | None],
    out: Path,
    *,
    jobs: int | None,
    scheduler: str | None,
    unit: str | None,
    level: float,
    quick: bool,
    seed: int,
    **settings: Any,
) -> Path:
    """Fit to every signal of a table; gives the data set that their rows are written to."""
    if jobs is not None and scheduler is not None:
        raise ValueError("--jobs is for processes of this machine, --scheduler for a cluster: give one of them")
    columns = _columns(path, by, *names)
    settings = (QUICK if quick else {}) | settings
    if "highest_frequency" in settings and unit is not None:
        settings["highest_frequency"] = settings["highest_frequency"] / UNITS[unit]
    place = out / "signals"
    terminal.say(f"signals by {', '.join(map(quoted, by))}: {columns}")
    rows = fit_many(
        path,
        by,
        x=columns.x[0],
        y=columns.y,
        error=columns.error,
        estimator=SpectralGPRegressor(random_state=seed, **settings),
        out=place,
        jobs=jobs,
        scheduler=scheduler,
        unit=unit,
        level=level,
        verbose=True,
    )
    _print(rows)
    return place


def _columns(path: Path, by: list[str], x: list[str] | None, y: str | None, error: str | None) -> Columns:
    if x is not None and len(x) > 1:
        raise ValueError(f"--by is for signals of one input, got {len(x)}: give --x once")
    if str(path) == "-":
        raise ValueError("--by reads a file or a directory of Parquet files, not standard input: give its path")
    return choose(kinds_in(path), by, x[0] if x else None, y, error, str(path), "--{}")


def _print(rows: Any) -> None:
    """How many signals there are, and why some failed."""
    failures = [reason for reason in rows["failure"].to_pylist() if reason is not None]
    found = [count for count in rows["components"].to_pylist() if count]
    seconds = [cost for cost in rows["cpu_seconds"].to_pylist() if cost is not None]
    cost = f"; {sum(seconds) / len(seconds):.2g} CPU s each" if seconds else ""
    terminal.say(f"{len(rows)} signals: {len(found)} with components, {len(failures)} failed{cost}")
    for reason, count in Counter(failures).most_common(SHOWN):
        terminal.say(f"  {count} failed: {printable(reason)}")
