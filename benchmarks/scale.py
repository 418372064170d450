"""Many signals on a Dask cluster of local processes: ``python -m benchmarks.scale`` (``make bench-scale``).

Signals of 200 to 400 irregular rows, an oscillation each, by the default call; ten more are bad (missing values, a
constant, two rows). The first part of them is fitted by one worker and by two, for the CPU seconds of a signal and the
gain from a second worker; then all by two workers, of which one is killed (-9) midway; then, of the first part again,
the scheduler is killed and started anew. Signals of two rows tell what a signal costs beside its fit. From these
figures a simulation of the schedule says what other numbers of signals and machines would take. ``--quick`` takes few
signals.
At the end, one fit by two processes (``benchmarks.together``).
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import spectrogp as sg

from . import schedule, together
from .measure import processor

console = Console(highlight=False)

ROWS = 300  # of a signal, on average
PARTS = ("steady", "killed", "restarted", "beside", "simulated", "together")


# Data


def oscillation(number: int) -> tuple[np.ndarray, np.ndarray]:
    """An oscillation at irregular times, of any frequency, amplitude and phase, in noise."""
    rng = np.random.default_rng(number)
    rows = int(rng.integers(200, 401))
    t = np.sort(rng.uniform(0.0, 100.0, rows))
    y = rng.uniform(0.5, 2.0) * np.cos(2.0 * np.pi * (rng.uniform(0.05, 0.5) * t + rng.uniform()))
    return t, y + 0.3 * rng.normal(size=rows)


def bad(number: int) -> tuple[np.ndarray, np.ndarray]:
    """A signal without values, without changes, or without rows."""
    t = np.arange(300.0)
    return [(t, np.full(300, np.nan)), (t, np.ones(300)), (t[:2], t[:2])][number % 3]


def write_signals(path: Path, good: int, wrong: int) -> list[str]:
    """A Parquet file of signals by their names, which are given; the bad ones are spread among the good."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = {f"good-{k}": oscillation(k) for k in range(good)}
    every = max(good // max(wrong, 1), 1)
    names = [name for k in range(good) for name in ([f"bad-{k // every}"] * (k % every == 0) + [f"good-{k}"])]
    names = [name for name in names if name in parts or int(name.split("-")[1]) < wrong]
    parts |= {f"bad-{k}": bad(k) for k in range(wrong)}
    table = {
        "star": [name for name in names for _ in parts[name][0]],
        "time": np.concatenate([parts[name][0] for name in names]),
        "flux": np.concatenate([parts[name][1] for name in names]),
    }
    pq.write_table(pa.table(table), path)
    return names


# Runs


class Running(threading.Thread):
    """``fit_many`` beside what is done to its processes, and when its rows came."""

    def __init__(self, path: Path, out: Path | None, scheduler: Any) -> None:
        super().__init__(daemon=True)
        self.path, self.out, self.scheduler, self.rows = path, out, scheduler, None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.rows = sg.fit_many(self.path, by="star", out=self.out, scheduler=self.scheduler, verbose=True)
        except BaseException as error:
            self.error = error

    def result(self) -> Any:
        self.join()
        if self.error is not None:
            raise self.error
        return self.rows


@contextmanager
def cluster(workers: int) -> Any:
    """A client of a cluster of so many processes on this machine, without Dask's profiler, which takes a tenth of them,

    and with a slower tick: that of 20 ms, by which event loops that stand still are noticed, takes a hundredth.
    """
    import dask
    import distributed

    with (
        dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"}),
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        yield client


def steady(path: Path, workers: int) -> dict[str, float]:
    """CPU seconds of a signal, and signals in a minute, once the workers have their programs."""
    with cluster(workers) as client:
        for _ in range(2 * workers - 1):  # until every worker has met nearly every signal, and has its programs
            sg.fit_many(path, by="star", scheduler=client)
        began, cpu = time.perf_counter(), _cpu(client)
        rows = sg.fit_many(path, by="star", scheduler=client)
        took, used = time.perf_counter() - began, _cpu(client) - cpu
        costs = [cost for cost in rows["cpu_seconds"].to_pylist() if cost]
        return {
            "signals": len(rows),
            "cpu_seconds_a_signal": float(np.mean(costs)),
            "worker_cpu_seconds_a_signal": used / len(rows),
            "per_minute": 60.0 * len(rows) / took,
            "cores_used": used / took,
            "load": os.getloadavg()[0],
        }


def _cpu(client: Any) -> float:
    return float(sum(client.run(time.process_time).values()))


def judged(rows: Any, out: Path, names: list[str]) -> dict[str, Any]:
    """Whether every signal is there once, and which failed."""
    import pyarrow.dataset as ds

    kept = ds.dataset(out).to_table()["star"].to_pylist()
    failed = {row["star"]: row["failure"] for row in rows.to_pylist() if row["failure"] is not None}
    return {
        "signals": len(names),
        "all_once": sorted(kept) == sorted(names),
        "failed": len(failed),
        "only_bad_failed": set(failed) == {name for name in names if name.startswith("bad")},
        "reasons": sorted(set(failed.values())),
    }


def parts(out: Path) -> int:
    return len(list(out.glob("part-*.parquet")))


def wait_for(condition: Callable[[], bool], running: Running) -> None:
    while not condition() and running.is_alive():
        time.sleep(0.1)


def killed_worker(path: Path, names: list[str], out: Path) -> dict[str, Any]:
    """One of two workers is killed while both are at work."""
    before = parts(out)
    with cluster(2) as client:
        running = Running(path, out, client)
        wait_for(lambda: parts(out) >= before + 2, running)
        victim = next(iter(client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        return judged(running.result(), out, names)


def restarted_scheduler(path: Path, names: list[str], out: Path) -> dict[str, Any]:
    """The scheduler is killed, and another one is started at its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def started() -> list[subprocess.Popen[bytes]]:
        place, quiet = ["--host", "127.0.0.1", "--no-dashboard"], subprocess.DEVNULL
        programs = [
            ["distributed.cli.dask_scheduler", "--port", str(port), *place],
            ["distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", *place],
        ]
        return [subprocess.Popen([sys.executable, "-m", *words], stdout=quiet, stderr=quiet) for words in programs]  # noqa: S603

    processes = started()
    running = Running(path, out, f"tcp://127.0.0.1:{port}")
    wait_for(lambda: parts(out) >= 2, running)
    for process in processes:
        process.kill()
        process.wait()
    before = parts(out)
    processes = started()
    try:
        return judged(running.result(), out, names) | {"files_before": before}
    finally:
        for process in processes:
            process.kill()
            process.wait()


def beside_the_fit(path: Path, signals: int) -> float:
    """Milliseconds that a signal takes beside its fit: it is read, sent, sent back and written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {
        "star": np.repeat(np.arange(signals), 2),
        "time": np.tile([0.0, 1.0], signals),
        "flux": np.zeros(2 * signals),
    }
    pq.write_table(pa.table(table), path)
    with cluster(2) as client:
        sg.fit_many(path, by="star", scheduler=client)
        began = time.perf_counter()
        sg.fit_many(path, by="star", scheduler=client)
        return 1e3 * (time.perf_counter() - began) / signals


# What other numbers would take


def simulated(signals: int, cores: int, cost: float, start: float, beside: float, *, seed: int = 0) -> float:
    """Hours of a run, by its schedule: signals go to whichever core is free, as the driver hands them out.

    One core in twenty is half as fast, and each is lost once in a thousand hours, with the signal that it works on;
    another one takes its place, and begins by loading programs.

    Args:
        signals: How many there are.
        cores: How many work on them.
        cost: CPU seconds of a signal, on average; they scatter by a third.
        start: Seconds before a core has its programs.
        beside: Seconds that the driver has to do with each signal.
        seed: Of the scatter.
    """
    rng = np.random.default_rng(seed)
    batch = max(1, signals // 200_000)  # so many are taken together: of more the sum is as good
    slow = np.where(rng.uniform(size=cores) < 0.05, 2.0, 1.0)
    free = [(start * slow[k], k) for k in range(cores)]
    heapq.heapify(free)
    handed = last = 0.0
    for _ in range(signals // batch):
        at, core = heapq.heappop(free)
        handed = max(handed + batch * beside, 0.0)
        took = slow[core] * cost * batch * max(1.0 + rng.normal() / 3.0 / np.sqrt(batch), 0.2)
        if rng.uniform() < took / 3.6e6:
            took += took * rng.uniform() + start
        end = max(at, handed) + took
        last = max(last, end)
        heapq.heappush(free, (end, core))
    return float(last / 3600.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--signals", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="40 signals")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS), help="some of the parts only")
    parser.add_argument("--out", type=Path, default=Path("out/scale"))
    options = parser.parse_args()
    count = 40 if options.quick else options.signals
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "scale.json"
    record: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    record |= {"processor": processor(), "cores": os.cpu_count(), "signals": count}

    def keep(name: str, value: Any) -> None:
        record[name] = value
        kept.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        console.print(f"{name}: {value}")

    some, every = options.out / "some.parquet", options.out / "all.parquet"
    few = write_signals(some, max(count // 5, 12), 0)
    names = write_signals(every, count, 10)
    if "steady" in options.parts:
        keep("one worker", steady(some, 1))
        keep("two workers", steady(some, 2))
        keep("gain", record["two workers"]["per_minute"] / record["one worker"]["per_minute"])
    if "killed" in options.parts:  # a run that was stopped goes on
        keep("killed worker", killed_worker(every, names, options.out / "killed-worker"))
    if "restarted" in options.parts:
        keep("restarted scheduler", restarted_scheduler(some, few, options.out / "restarted-scheduler"))
    if "beside" in options.parts:
        keep("milliseconds beside the fit", beside_the_fit(options.out / "nothing.parquet", 40 * count))
    if "simulated" in options.parts:
        cost, beside = record["one worker"]["cpu_seconds_a_signal"], record["milliseconds beside the fit"] / 1e3
        keep(
            "hours by simulation",
            {
                f"{rows:.0e} rows": {
                    f"{cores} cores": simulated(int(rows / ROWS), cores, cost, 20.0, beside) for cores in (2, 32, 512)
                }
                for rows in (1e6, 1e7, 1e8, 1e9)
            },
        )
        keep("hours of one fit by simulation", schedule.table())
    if "together" in options.parts:
        keep("one fit by two processes", together.measured(50_000, 5_000))


if __name__ == "__main__":
    main()
