"""``python -m benchmarks --out DIR``: tables on the terminal and one JSON file."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from . import kernels, pairwise, steps

_SMALL_STEP = {"batch": 1000, "inducing": 50}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time spectrogp against NumPy, scikit-learn and GPyTorch.")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="directory for bench.json")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    options = parser.parse_args()

    quick = options.quick
    results = {
        "Covariance matrices": kernels.run(inputs=300 if quick else 1500),
        "Fast pairwise path": pairwise.run(batch=1000, square=300) if quick else pairwise.run(),
        "One step of a sparse model": steps.run(sizes=_SMALL_STEP if quick else None),
    }
    for title, rows in results.items():
        _show(title, rows)
    options.out.mkdir(parents=True, exist_ok=True)
    machine = {"processor": platform.machine(), "jax": jax.__version__, "numpy": np.__version__}
    path = options.out / "bench.json"
    path.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n", encoding="utf-8")
    Console().print(f"wrote {path}", highlight=False)


def _show(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=160).print(table)


main()
