"""The figures and tables of the paper, each one thin file over the library; ``reproduce`` runs them by name."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from .. import __version__
from ..plots import STYLE

NAMES = ("fig1", "fig2", "fig3", "fig4", "table1", "chirp", "solar")
LONG = ("chirp", "solar")  # these leave checkpoints in the directory until they are done


def reproduce(name: str, out: Path, *, quick: bool = False, seed: int = 0) -> tuple[list[Path], dict[str, Any]]:
    """Make one figure or table: writes NAME.png and NAME.json into ``out``; gives their paths and the numbers.

    The same name, seed and ``quick`` give the same numbers. ``quick`` makes a coarser version for a first look.
    """
    if name not in NAMES:
        raise ValueError(f"no figure or table called {name!r}; there are {', '.join(NAMES)}")
    out.mkdir(parents=True, exist_ok=True)
    experiment = importlib.import_module(f".{name}", __name__)
    picture, record = out / f"{name}.png", out / f"{name}.json"
    with matplotlib.rc_context(STYLE):
        place = {"out": out} if name in LONG else {}
        figure, numbers = experiment.make(quick=quick, seed=seed, **place)
        figure.savefig(picture)
    numbers = _plain(numbers)
    command = f"spectrogp reproduce {name}{' --quick' if quick else ''} --seed {seed}"
    content = {"name": name, "command": command, "spectrogp": __version__, "quick": quick, "seed": seed}
    content["numbers"] = numbers
    record.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return [picture, record], numbers


def _plain(value: Any) -> Any:
    """Numbers and arrays as JSON knows them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
