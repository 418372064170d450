"""The figures and tables of the paper, each one thin file over the library; ``reproduce`` runs them by name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from .. import __version__
from ..choices import EXPERIMENTS, TABLES
from ..files import replace_file, write_json
from ..plots import STYLE
from .jobs import UnknownRowError, name_of

__all__ = ["UnknownRowError", "name_of", "reproduce"]


def reproduce(
    name: str, out: Path, *, quick: bool = False, seed: int = 0, rows: Sequence[str] | None = None
) -> tuple[list[Path], dict[str, Any]]:
    """Make one figure or table: writes NAME.png and NAME.json into ``out``; gives their paths and the numbers.

    The same name, seed and ``quick`` give the same numbers. ``quick`` makes a coarser version for a first look, called
    NAME-quick, and another seed than 0 NAME-seed-SEED, so that neither replaces the full result. Of a table of models
    ``rows`` may name those to run now, beside which the ones already in ``out`` stay.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"no figure or table called {name!r}; there are {', '.join(EXPERIMENTS)}")
    if rows is not None and name not in TABLES:
        raise UnknownRowError(f"{name} has no rows to choose from; {', '.join(TABLES)} have")
    out.mkdir(parents=True, exist_ok=True)
    experiment = importlib.import_module(f".{name}", __name__)
    files = name_of(name, quick=quick, seed=seed)
    picture, record = out / f"{files}.png", out / f"{files}.json"
    with matplotlib.rc_context(STYLE):
        further: dict[str, Any] = {"out": out, "rows": rows} if name in TABLES else {}
        figure, numbers = experiment.make(quick=quick, seed=seed, **further)
        replace_file(picture, partial(figure.savefig, format="png"))
    numbers = _plain(numbers)
    command = f"spectrogp reproduce {name}{' --quick' if quick else ''} --seed {seed}"
    content = {"name": name, "command": command, "spectrogp": __version__, "quick": quick, "seed": seed}
    content["numbers"] = numbers
    write_json(record, content)
    return [picture, record], numbers


def _plain(value: Any) -> Any:
    """Numbers and arrays as JSON knows them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
