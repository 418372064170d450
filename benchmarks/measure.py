"""What benchmarks measure: times, memory, and the machine that they were measured on."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax


def seconds_of(call: Callable[[], Any]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def first_and_best(call: Callable[[], Any], repeats: int = 5, budget: float = float("inf")) -> tuple[float, float]:
    """Seconds of the first call, which may compile, and of the fastest of the calls after it.

    These are as many as ``repeats``, or fewer but at least three, once they have taken ``budget`` seconds.
    """
    first = seconds_of(call)
    times: list[float] = []
    while len(times) < min(3, repeats) or (len(times) < repeats and sum(times) < budget):
        times.append(seconds_of(call))
    return first, min(times)


class Clock:
    """Seconds since it was made, by the wall and of the processor."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._wall

    @property
    def cpu(self) -> float:
        return time.process_time() - self._cpu


def peak_memory() -> float:
    """Peak resident memory of this program in MB (``getrusage`` would count the parent's, from before the start)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.split("VmHWM:")[1].split()[0]) / 1024.0


def resident_memory() -> float:
    """Resident memory of this program in MB, now."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.split("VmRSS:")[1].split()[0]) / 1024.0


@contextmanager
def counting_programs() -> Iterator[list[str]]:
    """A list that grows by one for every program that JAX compiles, or reads from its cache on disk, in the block."""
    built: list[str] = []

    def listen(event: str, *_: Any, **__: Any) -> None:
        if "backend_compile" in event:
            built.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield built
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def processor() -> str:
    """The name that Linux gives to the processor, with the architecture."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return " ".join([*names[:1], platform.machine()])
