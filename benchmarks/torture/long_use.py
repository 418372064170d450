"""Long use and many processes: fits in a loop, copies, workers, threads.

Compiled programs are kept for as long as a process lives, so a loop of fits must come to use those that it has. A fit
of other shapes needs other programs: with another number of rows memory grows. ``jax.clear_caches()`` now and then
keeps it flat: what it frees is used again, though not given back to the system.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import theilslopes

from .trials import Trials, python

SETTLED = 5  # fits after which nothing may grow
# MB for each fit: a compiled program takes about 4, and the posterior draws of one estimator 0.1.
GROWTH = 0.05
LIMIT = 1800.0  # seconds
UNSEEN = 1e-3  # of a standard deviation of a prediction


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
        yield loop(place, "dsvi", 50, "variational inference")
    yield varying(place, 2 if quick else 21)
    yield copied(place)
    yield in_workers(place)
    yield _judged(
        "the same fit from 1, 2 and 4 threads of Python at once", "as alone, in every bit", *work(place, "threads")
    )
    yield from thread_counts(place)


def loop(place: Path, name: str, count: int, what: str) -> Trials:
    """Fits of equal shapes, with other numbers each time."""
    found, wrong = work(place, "fits", name, count, 50, 50)
    failures = [wrong] if wrong else list(_grown(found[SETTLED - 1 :]))
    note = ""
    if found:
        last = found[-1]
        note = f"{found[0]['programs']} programs after the first fit, {last['programs']} after the last"
    if not failures:
        note += f"; memory {_growth(found[SETTLED - 1 :]):+.3f} MB a fit"
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
    again = found[sizes - 1 :]
    failures = [wrong] if wrong else list(_grown(again))
    cleared, also = work(place, "fits", "sm", sizes, 40, 39 + sizes, "clear")
    failures += [also] * bool(also)
    note = ""
    if not failures:
        more = {name: (found[sizes - 1][name] - found[0][name]) / (sizes - 1) for name in ("programs", "memory")}
        note = (
            f"each new number of rows: {more['programs']:.1f} programs, {more['memory']:.1f} MB; "
            f"{_growth(cleared):.1f} MB with jax.clear_caches() after each"
        )
    return Trials(
        f"fits with 40 to {39 + sizes} rows, and again",
        f"numbers of rows that were there before compile nothing; memory then grows by less than {GROWTH:g} MB a fit",
        2 * sizes,
        tuple(failures),
        note,
    )


def _growth(found: list[dict[str, Any]]) -> float:
    """MB that each of these fits adds: the median slope between any two, so that one piece of the allocator is none."""
    return float(theilslopes([fit["memory"] for fit in found]).slope)


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


def in_workers(place: Path) -> Trials:
    """Workers of all kinds, and one process.

    By itself joblib gives each worker its share of the threads of BLAS: on two cores one, where the process has two.
    Where the number is set, the workers take it over.
    """
    return _judged(
        "predict and fit in workers: loky, spawn, fork, a grid search",
        "as in one process with as many threads of BLAS, in every bit",
        *work(place, "parallel", **_blas(2)),
    )


def _judged(what: str, holds: str, found: list[dict[str, Any]], wrong: str) -> Trials:
    failures = [f"{one['what']}: {one.get('said', 'other bits')}" for one in found if not one["right"]]
    notes = [f"{one['what']}: {one['said']}" for one in found if one["right"] and len(one.get("said", "")) > 64]
    return Trials(what, holds, len(found) + bool(wrong), (*failures, *[wrong] * bool(wrong)), "; ".join(notes))


def _blas(threads: int) -> dict[str, str]:
    """The environment of a process with so many threads of BLAS.

    With the kernels that OpenBLAS has for processors without AVX-512, a solve with a triangular matrix of 50 rows
    (dtrsm) depends in its last bits on the number of threads; with those for AVX-512 it does not. The former are taken
    on every processor, so that a difference is found on all.
    """
    return {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads), "OPENBLAS_CORETYPE": "Haswell"}


def thread_counts(place: Path) -> Iterator[Trials]:
    """The same fits in processes with 1, 2 and 4 threads: of XLA, and of BLAS, whose sums depend on their number."""
    flags = os.environ.get("XLA_FLAGS", "")
    of_xla = [
        {"NPROC": str(count), "XLA_FLAGS": f"{flags} --xla_cpu_multi_thread_eigen={str(count > 1).lower()}", **_blas(1)}
        for count in (1, 2, 4)
    ]
    of_blas = [_blas(count) for count in (1, 2, 4)]
    difference, wrong = _differences(place, of_xla)
    other = [f"predictions differ by {difference:.1e} standard deviations"] * (difference != 0.0)
    yield Trials("the same fits with 1, 2 and 4 threads of XLA", "bit-identical", 3, (*wrong, *other))
    difference, wrong = _differences(place, of_blas)
    note = f"predictions differ by at most {difference:.1e} standard deviations"
    # Sums in another order differ in the last bits, which a hundred steps of an optimiser magnify.
    other = [note] * (not difference < UNSEEN)
    holds = f"predictions agree to {UNSEEN:g} of their standard deviations"
    yield Trials("the same fits with 1, 2 and 4 threads of OpenBLAS", holds, 3, (*wrong, *other), note)


def _differences(place: Path, environments: list[dict[str, str]]) -> tuple[float, list[str]]:
    """The largest difference from the first process, in standard deviations of the predictions; and what went wrong."""
    results, failures = [], []
    for environment in environments:
        found, wrong = work(place, "numbers", **environment)
        failures += [wrong] * bool(wrong)
        results += [[float.fromhex(value) for one in found for value in one[part]] for part in ("mean", "std")]
    if failures:
        return float("nan"), failures
    means, stds = np.array(results[::2]), np.array(results[1::2])
    apart = np.maximum(np.abs(means - means[0]), np.abs(stds - stds[0])) / stds[0]
    return float(np.max(apart)), failures
