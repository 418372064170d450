"""Long use and many processes: fits in a loop, copies, workers, threads.

Compiled programs are kept for as long as a process lives, so a loop of fits must come to use those that it has. A fit
of other shapes needs other programs: with another number of rows memory grows, until ``jax.clear_caches()``.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .trials import Trials, python

SETTLED = 5  # fits after which nothing may grow
# MB for each fit: a compiled program takes about 4, and the posterior draws of one estimator 0.1.
GROWTH = 0.05
LIMIT = 1800.0  # seconds


def work(place: Path, task: str, *arguments: Any, **environment: str) -> tuple[list[dict[str, Any]], str]:
    """What a process says, line by line, and what went wrong with it (nothing: an empty string)."""
    # Programs are compiled once for all processes. The cache is read by several, and written by one before.
    cache = {"JAX_COMPILATION_CACHE_DIR": str(place / "programs"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    process = python("-m", "benchmarks.torture.workers", task, *arguments, **cache, **environment)
    try:
        said, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        said, errors = process.communicate()
        errors += f"\nstopped after {LIMIT:g} seconds"
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return lines, "" if process.returncode == 0 else f"{task}: {' '.join(errors.split()[-40:])}"


def section(quick: bool, seed: int, place: Path) -> Iterator[Trials]:
    """All of them; nothing here is drawn at random, so the seed is of no use."""
    del seed
    yield loop(place, "sm", 8 if quick else 50, "a stationary kernel, the optimum alone")
    if not quick:
        yield loop(place, "default", 50, "the default kernel and posterior")
        yield loop(place, "dsvi", 20, "variational inference")
    yield varying(place, 2 if quick else 21)
    yield copied(place)
    yield said(place, "parallel", "predict and fit in workers: loky, spawn, fork, a grid search", "as in one process")
    yield said(place, "threads", "the same fit from 1, 2 and 4 threads of Python at once", "as alone, in every bit")
    yield thread_counts(place)


def loop(place: Path, name: str, count: int, what: str) -> Trials:
    """Fits of equal shapes, with other numbers each time."""
    found, wrong = work(place, "fits", name, count, 50, 50)
    failures = [wrong] if wrong else list(_grown(found[SETTLED - 1 : -1]))
    note = ""
    if found:
        last = found[-1 if wrong else -2]
        note = f"{found[0]['programs']} programs after the first fit, {last['programs']} after the last"
    if not failures:
        note += f"; memory {_growth(found[SETTLED - 1 : -1]):+.3f} MB a fit"
    return Trials(
        f"{count} fits of equal shapes in one process: {what}",
        f"after fit {SETTLED} no program is compiled, no array stays, memory grows by less than {GROWTH:g} MB a fit",
        count,
        tuple(failures),
        note,
    )


def varying(place: Path, sizes: int) -> Trials:
    """Fits with another number of rows each time, twice the same numbers."""
    found, wrong = work(place, "fits", "sm", 2 * sizes, 40, 39 + sizes)
    again = [] if wrong else found[sizes - 1 : -1]
    failures = [wrong] if wrong else list(_grown(again))
    note = ""
    if not wrong:
        first, last = found[0], found[sizes - 1]
        more = {name: (last[name] - first[name]) / (sizes - 1) for name in ("programs", "memory")}
        note = (
            f"each new number of rows: {more['programs']:.1f} programs, {more['memory']:.1f} MB; resident at the end: "
            f"{found[-2]['memory']:.0f} MB, after jax.clear_caches() {found[-1]['memory']:.0f} MB"
        )
    return Trials(
        f"fits with 40 to {39 + sizes} rows, and again",
        f"numbers of rows that were there before compile nothing; memory then grows by less than {GROWTH:g} MB a fit",
        2 * sizes,
        tuple(failures),
        note,
    )


def _growth(found: list[dict[str, Any]]) -> float:
    return (found[-1]["memory"] - found[0]["memory"]) / max(len(found) - 1, 1)


def _grown(found: list[dict[str, Any]]) -> Iterator[str]:
    """What has grown between the first and the last of these fits."""
    for name in ("programs", "arrays"):
        if found[-1][name] > found[0][name]:
            yield f"{name}: {found[0][name]}, and {found[-1][name]} after {len(found) - 1} more fits"
    # The allocator takes memory by the piece: few fits say nothing of it.
    if len(found) > 10 and _growth(found) > GROWTH:
        yield f"memory grows by {_growth(found):.3f} MB a fit"


def copied(place: Path) -> Trials:
    """Copies in the same process, and in a fresh one."""
    found, wrong = work(place, "copies", place / "estimators")
    more, also = work(place, "fresh", place / "estimators") if not wrong else ([], "")
    return _judged(
        "copies by pickle, cloudpickle, deepcopy and clone", "they predict the same bits", found + more, wrong + also
    )


def said(place: Path, task: str, what: str, holds: str) -> Trials:
    return _judged(what, holds, *work(place, task))


def _judged(what: str, holds: str, found: list[dict[str, Any]], wrong: str) -> Trials:
    failures = [f"{one['what']}: {one.get('said', 'other bits')}" for one in found if not one["right"]]
    notes = [f"{one['what']}: {one['said']}" for one in found if one["right"] and len(one.get("said", "")) > 64]
    return Trials(what, holds, len(found) + bool(wrong), (*failures, *[wrong] * bool(wrong)), "; ".join(notes))


def thread_counts(place: Path) -> Trials:
    """The same fits in processes that may use 1, 2 and 4 threads, and one processor."""
    flags = os.environ.get("XLA_FLAGS", "")
    settings: dict[str, dict[str, str]] = {
        str(count): {
            "XLA_FLAGS": f"{flags} --xla_cpu_multi_thread_eigen={str(count > 1).lower()}",
            "NPROC": str(count),  # as many threads as XLA's pool has
            **{name: str(count) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")},
        }
        for count in (1, 2, 4)
    }
    results, failures = {}, []
    for count, environment in settings.items():
        found, wrong = work(place, "numbers", **environment)
        results[count] = {
            (one["what"], part): np.array([float.fromhex(value) for value in one[part]])
            for one in found
            for part in ("mean", "std")
        }
        failures += [wrong] * bool(wrong)
    differences = [
        float(np.max(np.abs(results[count][name] - value)))
        for count in ("2", "4")
        for name, value in results["1"].items()
        if name in results[count]
    ]
    worst = max(differences, default=float("nan"))
    if not worst <= 1e-8:  # deviations of the outputs are of order one; optimisers magnify rounding
        failures.append(f"predictions differ by {worst:.1e}")
    note = "bit-identical" if worst == 0.0 else f"predictions differ by at most {worst:.1e}"
    return Trials(
        "the same fits with 1, 2 and 4 threads of XLA and BLAS", "they agree to 1e-8", 3, tuple(failures), note
    )
