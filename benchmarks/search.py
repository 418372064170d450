"""What the search along one input costs, and what it finds: ``python -m benchmarks.search --out FILE``.

Records of 200 to 2000 rows: signals whose frequency is known, real series (``SPECTROGP_DATA``), a star, and noise. Rows
are kept in a JSON file; ``--against`` another one, of another version, compares seconds and words side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from spectrogp.datasets import SIGNALS, signal
from spectrogp.initialise import find_initial_values

from .first import columns, nothing, star
from .recovery import NOISE, PAPER, SAMPLING

console = Console(highlight=False)


def swing(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A frequency that swings between 1 and 3 cycles a unit, in 20 units, noise 0.2."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 20.0, n))
    return t, np.cos(2.0 * np.pi * (2.0 * t + np.sin(t))) + 0.2 * rng.normal(size=n)


def records() -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """Names of records, with times, outputs and, of some, errors."""
    for n in (200, 400, 1000, 2000):
        yield f"swing, {n} rows", swing(n)
    yield "star", star(0)[:3]
    for kind, seed in product(("white noise", "red noise", "trend", "random walk"), (0, 1)):
        yield f"{kind} {seed}", nothing(kind, seed)
    if "SPECTROGP_DATA" in os.environ:
        for name in ("nino", "co2m_train", "sunspots", "elnino"):
            yield name, columns(f"{name}.csv")
    for name, sampling, noise in product(SIGNALS, SAMPLING, NOISE):
        data = signal(name, n=400 if name == PAPER else 200, noise=noise, irregular=SAMPLING[sampling])
        yield f"{name}, {sampling}, {noise}", (data.X[:, 0], data.y)


def measured(name: str, parts: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """CPU seconds of a search, and what it says."""
    start = time.process_time()
    found = find_initial_values(*parts)
    return {"record": name, "rows": found.rows, "seconds": time.process_time() - start, "said": str(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the search along one input.")
    parser.add_argument("--only", nargs="*", default=[""], help="records whose names begin so")
    parser.add_argument("--out", type=Path, default=Path("out/search.json"))
    parser.add_argument("--against", type=Path, help="such a file of another version")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    before = {row["record"]: row for row in json.loads(options.against.read_text())} if options.against else {}
    find_initial_values(*swing(100))  # imports and first calls
    rows: list[dict[str, Any]] = []
    for name, parts in records():
        if not name.startswith(tuple(options.only)):
            continue
        rows.append(measured(name, parts))
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        line = f"{name:30} {rows[-1]['rows']:5} rows {rows[-1]['seconds']:7.2f} s"
        other = before.get(name)
        if other:
            same = "same" if other["said"] == rows[-1]["said"] else f"\n{other['said']}\n→\n{rows[-1]['said']}"
            line += f", before {other['seconds']:.2f} s, {other['seconds'] / rows[-1]['seconds']:.1f} times; {same}"
        console.print(line)


if __name__ == "__main__":
    main()
