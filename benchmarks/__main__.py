"""``python -m benchmarks --out DIR``: tables on the terminal, and the same as JSON and Markdown.

Both files are written anew after every section, so a run that is stopped keeps what it has measured.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from . import exact, kernels, neighbours, pairwise, steps
from .measure import processor

_SMALL = {"batch": 1000, "inducing": 50, "dimensions": 5, "components": 2, "neighbours": 10}
_FEW: dict[str, Any] = {"cases": (("CSK", 10),), "batches": (256,), "size": 2000}
_ACCURACY = (("air", "taxi"), ("svgp", "gpytorch"))  # pairs that take about as long, side by side
_PACKAGES = ("jax", "numpy", "scipy", "scikit-learn", "torch", "gpytorch", "gpjax", "gpboost", "tinygp")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time spectrogp against NumPy, LAPACK and other libraries.")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="directory for bench.json")
    parser.add_argument("--quick", action="store_true", help="small sizes, one thread, for a first look")
    parser.add_argument("--only", nargs="+", default=[], help="words; only the sections whose titles have one of them")
    options = parser.parse_args()

    quick = options.quick
    sizes = _SMALL if quick else steps.SIZES
    factors = ({"batch": (1, 2)},) * 2 if quick else (steps.SPARSE_GROWTH, steps.NEIGHBOUR_GROWTH)
    threads = (1,) if quick else (1, 2)

    def each(run: Callable[[int], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        return [row for count in threads for row in run(count)]

    sections: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "Covariance matrices": lambda: kernels.run(inputs=300 if quick else 1500),
        "Fast pairwise path": lambda: pairwise.run(batch=1000, square=300) if quick else pairwise.run(),
        "One step of a sparse model": lambda: each(lambda count: steps.sparse(count, sizes)),
        "One step with neighbours": lambda: each(lambda count: steps.neighbours(count, sizes)),
        "One step of an exact model": lambda: each(exact.run),
        "The step with neighbours against NumPy": lambda: neighbours.run(**(_FEW if quick else {})),
        "Growth of the CSK steps": lambda: steps.growth(sizes, *factors),
    }
    if "SPECTROGP_DATA" in os.environ:
        sections["Time to accuracy on real data, one thread"] = lambda: _accuracy(options.out, quick)
    console = Console(width=160)
    options.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[dict[str, Any]]] = {}
    seconds: dict[str, float] = {}
    for title, run in sections.items():
        if options.only and not any(word.lower() in title.lower() for word in options.only):
            continue
        console.print(f"{title} …", highlight=False)
        start = time.perf_counter()
        results[title] = run()
        seconds[title] = time.perf_counter() - start
        console.print(_table(title, results[title]))
        _write(options.out, results, seconds)
        console.print(f"{seconds[title]:.0f} s, {sum(seconds.values()):.0f} s in all", highlight=False)
    console.print(f"wrote {options.out / 'bench.json'} and {options.out / 'bench.md'}", highlight=False)


def _write(out: Path, results: dict[str, list[dict[str, Any]]], seconds: dict[str, float]) -> None:
    record = {"machine": _machine(), "seconds": seconds, "results": results}
    (out / "bench.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    (out / "bench.md").write_text(_markdown(results), encoding="utf-8")


def _accuracy(out: Path, quick: bool) -> list[dict[str, Any]]:
    """Every model of ``benchmarks.accuracy`` in a process of its own; two at a time where there are cores for them."""
    cores = os.cpu_count() or 1
    rows: list[dict[str, Any]] = []
    for names in _ACCURACY if cores > 1 else [(name,) for pair in _ACCURACY for name in pair]:
        running = [_accuracy_of(name, core, out, quick) for core, name in enumerate(names)]
        for process, path in running:
            if process.wait():
                raise RuntimeError(f"{process.args} failed")
            rows += json.loads(path.read_text(encoding="utf-8"))["results"]
    return rows


def _accuracy_of(name: str, core: int, out: Path, quick: bool) -> tuple[subprocess.Popen[bytes], Path]:
    path = out / f"accuracy-{name}.json"
    command = [sys.executable, "-m", "benchmarks.accuracy", name, "--out", str(path), *(["--quick"] if quick else [])]
    environment = os.environ | steps.environment(1)
    return subprocess.Popen(["taskset", "-c", str(core), *command], env=environment), path  # noqa: S603, S607


def _machine() -> dict[str, Any]:
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in _PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _markdown(results: dict[str, list[dict[str, Any]]]) -> str:
    machine = _machine()
    versions = ", ".join(f"{package} {version}" for package, version in machine["versions"].items())
    lines = [
        "# Benchmarks",
        "",
        f"Made by `make bench` on {machine['processor']}, {machine['cores']} cores; {versions}.",
    ]
    for title, rows in results.items():
        lines += ["", f"## {title}", "", f"| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|"]
        lines += [f"| {' | '.join(map(_cell, row.values()))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


main()
