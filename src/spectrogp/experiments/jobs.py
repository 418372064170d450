"""Tables of models: every row fits and scores one of them, and is kept as soon as it is done.

An experiment is a dictionary of named ``Row`` s. ``run`` goes through it and writes for each row, into OUT/NAME.rows, a
JSON file with its scores, settings and cost, and its arrays (for figures) beside it. A row that is there already, made
with the same settings, is taken as it is; a row that was stopped goes on from its last checkpoint. To make rows anew,
remove their files. No row replaces another: quick versions and other seeds have directories of their own, and a row
that was made with other settings is kept beside the new one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from scipy.stats import norm

from .. import __version__
from ..files import replace_file, write_json
from ..inference import Adam, Run, maximise, sample, whole
from ..models import Moments
from ..posterior import Outputs, Posterior, log_mean_density

_PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


class UnknownRowError(ValueError):
    """A row was asked for that the table does not have."""


class Outcome(NamedTuple):
    """What a row has found: numbers for the table, and arrays for figures."""

    scores: dict[str, float]
    arrays: Mapping[str, np.ndarray] = {}


class Row(NamedTuple):
    """``fit(job, **settings)`` fits and scores a model. What the settings are is written down with the scores."""

    fit: Callable[..., Outcome]
    settings: Mapping[str, Any] = {}  # numbers, strings and lists of them


class Done(NamedTuple):
    """A row as it was kept: its record (scores, settings, cost, versions) and its arrays."""

    record: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def scores(self) -> dict[str, float]:
        return self.record["scores"]


def run(
    name: str, rows: Mapping[str, Row], out: Path, *, quick: bool, seed: int, only: Sequence[str] | None = None
) -> dict[str, Done]:
    """All rows that are done by now, in the order of the table, after those named by ``only`` (or all) have been run.

    Shows its progress on stderr, and writes a log, NAME.log; NAME is what ``name_of`` makes of all three.
    """
    unknown = [row for row in only or () if row not in rows]
    if unknown:
        raise UnknownRowError(f"{name} has no row {unknown[0]!r}; there are {', '.join(map(repr, rows))}")
    files = name_of(name, quick=quick, seed=seed)
    directory = out / f"{files}.rows"
    directory.mkdir(parents=True, exist_ok=True)
    wanted = [row for row in rows if only is None or row in only]
    done: dict[str, Done] = {}
    with (out / f"{files}.log").open("a", encoding="utf-8") as log, _Display.shown(name, len(wanted), log) as display:
        for row, (fit, settings) in rows.items():
            place = directory / _slug(row)
            given = {"settings": _plain(settings), "seed": seed, "quick": quick}
            kept = _kept(place, given)
            if kept is None and row in wanted:
                job = Job(row, seed, place, display)
                outcome = fit(job, **settings)
                # Another process may have made the same row meanwhile: then it is replaced by its equal.
                if _kept(place, given) is None and (aside := _set_aside(place)):
                    display.say(f"{row}: the one made with other settings is kept as {aside.name}")
                kept = _keep(place, row, given, outcome, job)
                display.say(f"{row}: {_text(outcome.scores)}, {kept.record['cost']['seconds']:.0f} s")
            if row in wanted:
                display.next()
            if kept is not None:
                done[row] = kept
    return done


def name_of(name: str, *, quick: bool, seed: int) -> str:
    """What the files of an experiment are called: those of a quick version or another seed never meet the others."""
    return f"{name}{'-quick' * quick}{f'-seed-{seed}' if seed else ''}"


def summary(done: Mapping[str, Done]) -> dict[str, Any]:
    """The numbers of a table: scores and cost of every row, then settings and versions as text."""
    numbers: dict[str, Any] = {row: {**each.scores, **each.record["cost"]} for row, each in done.items()}
    numbers["settings"] = [f"{row}: {_text(each.record['settings'])}" for row, each in done.items()]
    numbers["versions"] = list(dict.fromkeys(item for each in done.values() for item in each.record["versions"]))
    return numbers


class Job:
    """What the function of a row works with: a random key, and inference that can be stopped and shows how far it is.

    Every run of inference in a row has a checkpoint of its own, in the order of the calls.
    """

    def __init__(self, row: str, seed: int, place: Path, display: _Display) -> None:
        self.row, self.seed = row, seed
        self.key: Array = jax.random.key(seed)
        self._place, self._display, self._stages = place, display, 0
        self._clock = _beside(place, ".clock")
        # Time before an interruption counts only as far as there are checkpoints to go on from.
        self._before = [0.0, 0.0]
        if self.checkpoints():
            with contextlib.suppress(FileNotFoundError):
                self._before = json.loads(self._clock.read_text())
        self._began = time.perf_counter(), time.process_time()

    def maximise(self, model: Any, data: Any, *, steps: int, key: Any = None, refresh: Any = None, **adam: Any) -> Any:
        """The fitted model (``inference.maximise``); ``adam`` are settings of ``inference.Adam``."""
        own, run = self._watched("fit", 20)
        key = own if key is None else key
        fit = maximise(model, data, steps=steps, key=key, optimiser=Adam(**adam), refresh=refresh, run=run)
        return whole(fit).model

    def sample(self, sampler: Any, model: Any, data: Any, *, draws: int, key: Any = None, chunk: int = 5) -> Posterior:
        """Draws by a sampler, without a warning of what is wrong with them: that is for the scores."""
        own, run = self._watched("draws", chunk)
        key = own if key is None else key
        return whole(sample(sampler, model, data, draws=draws, key=key, run=run, warn=False))

    def say(self, message: str) -> None:
        """A line for the log."""
        self._display.say(f"{self.row}: {message}")

    def checkpoints(self) -> list[Path]:
        return sorted(self._place.parent.glob(f"{self._place.name}.*.checkpoint"))

    def cost(self) -> dict[str, float]:
        """Seconds so far, by the clock and of processor time; and the peak memory of the process, where it is known."""
        now = time.perf_counter(), time.process_time()
        wall, cpu = (b + n - s for b, n, s in zip(self._before, now, self._began, strict=True))
        return {"seconds": wall, "cpu_seconds": cpu, **_peak_memory()}

    def clear(self) -> None:
        """Remove what was kept for going on after an interruption."""
        for path in (*self.checkpoints(), self._clock):
            path.unlink(missing_ok=True)

    def _watched(self, what: str, chunk: int) -> tuple[Array, Run]:
        """The key and the run of the next stage."""
        self._stages += 1

        def progress(done: int, steps: int, value: float) -> None:
            self._display.steps(f"{self.row}: {what}", done, steps, value)
            cost = self.cost()
            write_json(self._clock, [cost["seconds"], cost["cpu_seconds"]])

        run = Run(progress, _beside(self._place, f".{self._stages}.checkpoint"), chunk)
        return jax.random.fold_in(self.key, self._stages), run


# Scores


def outputs(posterior: Any, data: Any, X: Any, *, max_draws: int = 100) -> Moments:
    """Mean and variance ``[s, t]`` of outputs at test inputs under each of some draws of a posterior or of a model.

    ``data`` are what ``model.prepare`` gives for these inputs.
    """
    posterior = posterior if isinstance(posterior, Posterior) else Posterior.at_point(posterior)
    found: Moments = posterior.read(Outputs(data, X, 0.0), max_draws=max_draws).output
    return found


def scores(parts: Moments, y: Any) -> dict[str, float]:
    """Mean log density of test outputs under a mixture of normal distributions ``[s, t]``, and error of its mean."""
    densities = norm.logpdf(y, parts.mean, parts.std)
    return {
        "log_likelihood": float(np.mean(log_mean_density(densities))),
        "mse": float(np.mean((parts.mixed().mean - y) ** 2)),
    }


# Files


def _kept(place: Path, given: dict[str, Any]) -> Done | None:
    path = _beside(place, ".json")
    if not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    if any(record[key] != value for key, value in given.items()):
        return None
    arrays = _beside(place, ".npz")
    if not arrays.exists():
        return Done(record, {})
    with np.load(arrays, allow_pickle=False) as file:
        return Done(record, {key: file[key] for key in file.files})


def _keep(place: Path, row: str, given: dict[str, Any], outcome: Outcome, job: Job) -> Done:
    cost = job.cost()
    versions = [f"spectrogp {__version__}", f"Python {platform.python_version()}"]
    versions += [f"{package} {version(package)}" for package in _PACKAGES]
    record = {"row": row, **given, "scores": _plain(outcome.scores), "cost": cost, "versions": versions}
    arrays = {key: np.asarray(value) for key, value in outcome.arrays.items()}
    if arrays:
        replace_file(_beside(place, ".npz"), lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]
    # The record is last: a row whose record is there is whole.
    write_json(_beside(place, ".json"), record)
    job.clear()
    return Done(record, arrays)


def _set_aside(place: Path) -> Path | None:
    """Give the files of a row another name; the new one of its record, if there is a record."""
    number = next(n for n in itertools.count(1) if not _beside(place, f".{n}.json").exists())
    # The record goes first: arrays without one are no row.
    for ending in (".json", ".npz"):
        with contextlib.suppress(FileNotFoundError):
            _beside(place, ending).rename(_beside(place, f".{number}{ending}"))
    aside = _beside(place, f".{number}.json")
    return aside if aside.exists() else None


def _peak_memory() -> dict[str, float]:
    try:
        import resource
    except ImportError:  # Windows
        return {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"peak_gib": peak / 2**30}


def _beside(place: Path, ending: str) -> Path:
    return place.with_name(place.name + ending)


def _slug(row: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-")


def _plain(value: Any) -> Any:
    """What JSON makes of it: tuples and arrays are lists."""
    return json.loads(json.dumps(value, default=lambda other: np.asarray(other).tolist()))


def _text(values: Mapping[str, Any]) -> str:
    parts = ((key.replace("_", " "), value) for key, value in values.items())
    return ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in parts)


class _Display:
    """Two bars on stderr, for rows and for the steps of the present one; and the log."""

    def __init__(self, bars: Progress, name: str, rows: int, log: Any) -> None:
        self._bars, self._log = bars, log
        self._rows: TaskID = bars.add_task(name, total=rows, note="rows")
        self._steps: TaskID = bars.add_task("", total=None, note="", visible=False)
        self._logged = time.perf_counter()

    @classmethod
    @contextlib.contextmanager
    def shown(cls, name: str, rows: int, log: Any) -> Iterator[_Display]:
        what, count = TextColumn("{task.description}", markup=False), TextColumn("{task.completed:.0f}/{task.total}")
        note = TextColumn("{task.fields[note]}", markup=False)
        with Progress(what, BarColumn(), count, note, TimeElapsedColumn(), console=Console(stderr=True)) as bars:
            display = cls(bars, name, rows, log)
            display.say(f"{name}: {rows} rows, process {os.getpid()}")
            yield display

    def next(self) -> None:
        self._bars.advance(self._rows)
        self._bars.update(self._steps, visible=False)

    def steps(self, what: str, done: int, steps: int, value: float) -> None:
        self._bars.update(self._steps, description=what, completed=done, total=steps, note=f"{value:.4g}", visible=True)
        if time.perf_counter() - self._logged > 10.0 or done == steps:
            self.say(f"{what} {done}/{steps}, {value:.6g}")

    def say(self, message: str) -> None:
        self._logged = time.perf_counter()
        self._log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}\n")
        self._log.flush()
