"""Data larger than memory: ``python -m benchmarks.large`` (ten million rows of three inputs; ``--rows`` for others).

A script writes the rows as Parquet. Each part runs in a process of its own, whose peak of resident memory is that of
the part: arrange the rows, 200 steps of a CSK neighbour model, a million predictions. Errors of the predictions are
known, since the function is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import spectrogp as sg
from spectrogp.inference import Adam, Run, maximise

from .measure import Clock, peak_memory, processor

console = Console(highlight=False)

INPUTS, NOISE = ("a", "b", "c"), 0.3
LIMIT = 2**31


def truth(X: np.ndarray) -> np.ndarray:
    """An oscillation along the first input, faster at its end, on a slow function of the others."""
    return np.cos(2.0 * np.pi * (4.0 * X[:, 0] + 2.0 * X[:, 0] ** 2 + X[:, 1])) + np.sin(3.0 * X[:, 2])


def write(path: Path, rows: int, seed: int) -> None:
    """Rows as Parquet, a part at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float64()) for name in (*INPUTS, "y")])
    rng = np.random.default_rng(seed)
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 500_000):
            X = rng.uniform(size=(min(500_000, rows - start), 3))
            writer.write_table(pa.table([*X.T, truth(X) + NOISE * rng.normal(size=len(X))], schema))


def work(part: str, rows: int, tests: int, out: Path) -> dict[str, Any]:
    """One part, in this process."""
    clock, result = Clock(), {}
    if part == "write":
        write(out / "rows.parquet", rows, 0)
        write(out / "tests.parquet", tests, 1)
    elif part == "arrange":
        sg.large.arrange(out / "rows.parquet", out / "arranged", x=INPUTS, y="y", memory_limit=LIMIT)
    else:
        batches = sg.large.Batches(sg.large.Rows(out / "arranged"), m=15)
        if part == "fit":
            model, marks = start(), [(0, time.process_time())]
            run = Run(progress=lambda done, *_: marks.append((done, time.process_time())), chunk=10)
            optimiser = Adam(0.05, batch=256)
            fit = maximise(model, batches(model), steps=200, key=0, optimiser=optimiser, refresh=batches, run=run)
            sg.save(out / "model.safetensors", fit.model)
            (first, began), (last, ended) = marks[2], marks[-1]  # programs are compiled by then
            result = {"milliseconds of a step (CPU)": 1e3 * (ended - began) / (last - first)}
            result |= {"objective": [float(np.mean(fit.history[:20])), float(np.mean(fit.history[-20:]))]}
        else:
            model = sg.load(out / "model.safetensors")
            done = sg.large.predict_table(
                model, batches, out / "tests.parquet", out / "predicted.parquet", memory_limit=LIMIT
            )
            result = {"predictions": done} | score(out)
    return result | {"cpu": clock.cpu, "wall": clock.wall, "peak MB": peak_memory()}


def start() -> sg.models.NeighbourGP:
    """A CSK with constants, not far from the truth."""
    kernel = sg.kernels.ConvolutionalSpectral(
        sg.Positive.around(np.array([[0.3, 0.5, 0.5], [1.0, 1.0, 0.5]])),
        sg.Real(2.0 * np.pi * np.array([[5.0, 0.8, 0.0], [0.0, 0.0, 0.1]])),
        sg.Positive.around(np.array([1.0, 1.0])),
    )
    return sg.models.NeighbourGP(kernel, sg.Positive.around(0.5))


def score(out: Path) -> dict[str, float]:
    """Errors against the function, and how often new outputs lie within two deviations."""
    import pyarrow.parquet as pq

    error, inside, count = 0.0, 0, 0
    files = (pq.ParquetFile(out / "predicted.parquet"), pq.ParquetFile(out / "tests.parquet"))
    for found, given in zip(*(file.iter_batches(100_000) for file in files), strict=True):
        columns = {name: found[name].to_numpy() for name in found.schema.names}
        X, y = np.stack([columns[name] for name in INPUTS], axis=1), given["y"].to_numpy()
        error += float(np.sum((columns["mean"] - truth(X)) ** 2))
        inside += int(np.sum(np.abs(y - columns["mean"]) < 1.96 * columns["std"]))
        count += len(X)
    return {"RMSE of the function": (error / count) ** 0.5, "coverage of 95 %": inside / count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--tests", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("out/large"))
    parser.add_argument("--part", choices=("write", "arrange", "fit", "predict"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        result = work(options.part, options.rows, options.tests, options.out)
        (options.out / f"{options.part}.json").write_text(json.dumps(result), encoding="utf-8")
        return
    if (options.out / "arranged").exists():
        raise SystemExit(f"{options.out} has rows of an earlier run: remove it")
    options.out.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"processor": processor(), "rows": options.rows}
    for part in ("write", "arrange", "fit", "predict"):
        words = ["--rows", str(options.rows), "--tests", str(options.tests), "--out", str(options.out), "--part", part]
        subprocess.run([sys.executable, "-m", "benchmarks.large", *words], check=True)  # noqa: S603
        record[part] = json.loads((options.out / f"{part}.json").read_text(encoding="utf-8"))
        console.print(f"{part}: {record[part]}, load {os.getloadavg()[0]:.1f}")
    (options.out / "large.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
