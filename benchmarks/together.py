"""One fit by one process and by two of ``jax.distributed``: ``python -m benchmarks.together``.

A neighbour model of rows with three inputs is fitted by L-BFGS with all rows; the figures are those of the second call,
when everything is compiled. Then one of two processes is killed (-9) amidst a fit with checkpoints: seconds until the
other has ended, and what one process and two make of the checkpoint. A busy machine shows in the wall clock; efficiency
in CPU seconds counts what two processes do more than one, and not what they wait for.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import spectrogp as sg
from spectrogp.inference import Adam, Run, maximise, maximise_lbfgs

from .measure import Clock, processor

console = Console(highlight=False)

# Two processes have a core each, and so has one.
ONE_THREAD = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def problem(rows: int) -> tuple[sg.models.NeighbourGP, sg.models.Neighbourhoods]:
    """A model of three inputs with an oscillation along the first, and its data."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, 3))
    y = np.cos(2.0 * np.pi * (3.0 * X[:, 0] + X[:, 1])) + 0.5 * X[:, 2] + 0.2 * rng.normal(size=rows)
    kernel = sg.kernels.SpectralMixture(
        sg.Positive.around(np.full(3, 0.5)), sg.Positive.around(2.0 * np.pi * np.array([3.0, 1.0, 0.1])), 1.0
    )
    model = sg.models.NeighbourGP(kernel, sg.Positive.around(0.3))
    return model, sg.models.Refresh(sg.Data(X, y), m=15)(model)


def work(what: str, rows: int, out: Path) -> None:
    """What each process of a group does: a fit that is timed, or one with checkpoints of which a process is killed."""
    with sg.distributed() as group:
        model, near = problem(rows)
        if what == "time":
            maximise_lbfgs(model, near, steps=1)
            clock = Clock()
            fit = maximise_lbfgs(model, near)
            result = {"wall": clock.wall, "cpu": clock.cpu, "steps": len(fit.history), "value": fit.history[-1]}
            raw = fit.model.kernel.frequency.raw.ravel()
        else:

            def progress(done: int, *_: float) -> None:
                if what == "killed" and done == 30 and group.index == 1:
                    (out / "killed").touch()
                    os.kill(os.getpid(), signal.SIGKILL)

            run = Run(progress, out / "checkpoint" if what != "whole" else None, chunk=10, save_every=1)
            fit = maximise(model, near, steps=60, key=0, optimiser=Adam(0.05), run=run)
            result, raw = {"value": fit.history[-1]}, fit.model.kernel.frequency.raw.ravel()
        result |= {"raw": raw.tolist(), "count": group.count}
        (out / f"{group.index}.json").write_text(json.dumps(result), encoding="utf-8")


def launched(count: int, what: str, rows: int, out: Path) -> list[dict[str, Any]]:
    """The results of so many processes."""
    for old in out.glob("?.json"):
        old.unlink()
    words = [sys.executable, "-m", "spectrogp.processes", str(count), "-m", "benchmarks.together"]
    words += ["--work", what, "--rows", str(rows), "--out", str(out)]
    subprocess.run(words, env=os.environ | ONE_THREAD, check=False)  # noqa: S603
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("?.json"))]


def measured(rows: int, few: int) -> dict[str, Any]:
    """Efficiency, agreement, and what becomes of a killed process; ``few`` rows for the latter."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        (one,), two = launched(1, "time", rows, out), launched(2, "time", rows, out)
        cpu = sum(result["cpu"] for result in two)
        record: dict[str, Any] = {
            "rows": rows,
            "load": os.getloadavg()[0],
            "one": one,
            "two": two,
            "efficiency in CPU seconds": one["cpu"] / cpu,
            "efficiency by the wall": one["wall"] / (2.0 * max(result["wall"] for result in two)),
            "difference of optima": max(abs(a - b) for a, b in zip(one["raw"], two[0]["raw"], strict=True)),
        }
        whole = launched(1, "whole", few, out)[0]
        assert not launched(2, "killed", few, out)  # noqa: S101
        record["seconds from a kill to the end"] = time.time() - (out / "killed").stat().st_mtime
        kept = (out / "checkpoint").read_bytes()
        for count in (1, 2):
            (out / "checkpoint").write_bytes(kept)
            resumed = launched(count, "resumed", few, out)
            pairs = [pair for result in resumed for pair in zip(result["raw"], whole["raw"], strict=True)]
            record[f"difference of a fit resumed by {count}"] = max(abs(a - b) for a, b in pairs)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path("out/together"))
    parser.add_argument("--work", choices=("time", "killed", "whole", "resumed"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.rows, options.out)
        return
    record = {"processor": processor()} | measured(options.rows, options.rows // 10)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "together.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    console.print(record)


if __name__ == "__main__":
    main()
