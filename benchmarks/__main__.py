"""``python -m benchmarks --out DIR``: one table on the terminal and one JSON file."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from . import kernels


def main() -> None:
    parser = argparse.ArgumentParser(description="Time covariance matrices against NumPy and scikit-learn.")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="directory for bench.json")
    parser.add_argument("--quick", action="store_true", help="small matrices, for a first look")
    options = parser.parse_args()

    rows = kernels.run(inputs=300 if options.quick else 1500)
    table = Table(title="Covariance matrices: time of one evaluation, and ratio to the peer in the same run")
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("kernel", "peer") else "right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)

    options.out.mkdir(parents=True, exist_ok=True)
    machine = {"processor": platform.machine(), "jax": jax.__version__, "numpy": np.__version__}
    path = options.out / "bench.json"
    path.write_text(json.dumps({"machine": machine, "kernels": rows}, indent=2) + "\n", encoding="utf-8")
    Console().print(f"wrote {path}", highlight=False)


main()
