"""Two threads of one process against one, in one run: ``python -m benchmarks.threads``.

Every case is timed in a process on one core (``NPROC=1``) and in one on two, which take turns; a process compiles first
and gives the best of several calls by the wall clock. Steps are those of ``maximise``, at the sizes of
``benchmarks.steps``. ``--peers`` has the step of GPyTorch's spectral mixture beside that of the convolutional kernel,
with two threads each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import spectrogp as sg
from spectrogp.inference import NUTS, Adam, Run, maximise, sample
from spectrogp.inference.bends import curvature
from spectrogp.initialise import best_of
from spectrogp.kernels import IntegratedPhase, MaternPhase, WarpedTime
from spectrogp.models import Data, ExactGP, Lanes, MarkovGP, NeighbourGP, Neighbourhoods, Timeline, VariationalGP
from spectrogp.parameters import GridFunctionGroup, Positive

from .measure import first_and_best
from .peers import regression
from .steps import ROWS, SIZES, _kernel, isolated

STEPS = 4  # of a call
Call = Callable[[], Any]


def svgp_steps() -> Call:
    X, y, Z = regression(SIZES)
    model = VariationalGP(_kernel("CSK", SIZES, Z), Positive(0.3), Z)
    return lambda: _steps(model, Data(X, y))


def neighbour_steps() -> Call:
    model, near, _ = _neighbours(ROWS)
    return lambda: _steps(model, near)


def predictions() -> Call:
    model, near, X = _neighbours(4 * ROWS)
    return lambda: np.asarray(model.predict(near, X).mean)


def linear_time() -> Call:
    """Values, gradients and Hessians of all blocks of a long signal: what a step of Newton's method needs."""
    extent, rng = (0.0, 4000.0), np.random.default_rng(0)
    t = np.sort(rng.uniform(1.5, extent[1], 200_000))
    frequency = GridFunctionGroup(extent, [[30.0]], shape=(1, 1), lengthscale=3.0, lengthscale_std=0.0)
    kernel = MaternPhase(WarpedTime(Positive.around(5.0, 0.5)), IntegratedPhase(frequency), Positive.around(1.0, 0.5))
    model = MarkovGP(kernel, Positive.around(0.2, 0.5))
    data = Data(t, np.cos(30.0 * t) + 0.2 * rng.normal(size=len(t)))
    lanes = Lanes(model, Timeline.of(data, own=300, warm_up=100))
    numbers = lanes.join(model)
    return lambda: curvature(lanes, numbers, lanes.log_likelihoods(numbers)[1])


def chains() -> Call:
    model, data = _exact()
    sampler = NUTS(warmup=20, chains=2, doublings=5)
    return lambda: sample(sampler, model, data, draws=20, key=0, warn=False)


def starts() -> Call:
    model, data = _exact()
    return lambda: best_of([model] * 4, data, steps=100, key=0, run=Run(chunk=100))


CASES = {
    "SVGP step": svgp_steps,
    "neighbour step": neighbour_steps,
    "linear-time model": linear_time,
    "chains": chains,
    "starts": starts,
    "predictions": predictions,
}


def _steps(model: Any, data: Any) -> None:
    maximise(model, data, steps=STEPS, key=0, optimiser=Adam(0.01), run=Run(chunk=STEPS))


def _neighbours(rows: int) -> tuple[NeighbourGP, Neighbourhoods, np.ndarray]:
    sizes = SIZES | {"batch": rows}
    X, y, Z = regression(sizes)
    order = np.random.default_rng(2).permutation(rows)
    near = Neighbourhoods.of(Data(X, y), X, order, sizes["neighbours"])
    return NeighbourGP(_kernel("CSK", sizes, Z), Positive(0.3)), near, X + 0.1


def _exact() -> tuple[ExactGP, Data]:
    sizes = SIZES | {"batch": 200, "inducing": 20, "dimensions": 1, "components": 1}
    X, y, Z = regression(sizes)
    return ExactGP(_kernel("CSK", sizes, Z), Positive(0.3)), Data(X, y)


def seconds(name: str, threads: int) -> float:
    """Of a case, in a process of its own."""
    own = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if threads == 1 else {}
    clean = {key: value for key, value in os.environ.items() if key not in ("NPROC", "OMP_NUM_THREADS")}
    pinned = ["taskset", "-c", ",".join(map(str, range(threads)))]
    words = [*pinned, sys.executable, "-m", "benchmarks.threads", "--case", name]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=clean | own)  # noqa: S603
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--peers", action="store_true", help="GPyTorch's step beside ours")
    parser.add_argument("--out", type=Path, default=Path("out/threads"))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        sg.cache_compilations()
        print(first_and_best(CASES[options.case](), budget=4.0)[1])
        return
    record: dict[str, Any] = {}
    print("| | one thread, s | two, s | gain |\n" + "|---" * 4 + "|")
    for name in options.only:
        one, two = (seconds(name, threads) for threads in (1, 2))
        record[name] = {"one": one, "two": two, "gain": one / two}
        print(f"| {name} | {one:.3f} | {two:.3f} | {one / two:.2f} |", flush=True)
    if options.peers:
        theirs = isolated("GPyTorch SVGP SM", SIZES, 2)["step ms"]
        ours = 1e3 * record["SVGP step"]["two"] / STEPS
        record["SVGP step"] |= {"GPyTorch ms": theirs, "ours ms": ours, "ratio": ours / theirs}
        print(
            f"SVGP step, two threads: {ours:.1f} ms; GPyTorch's spectral mixture {theirs:.1f} ms: {ours / theirs:.3f}"
        )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "threads.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
