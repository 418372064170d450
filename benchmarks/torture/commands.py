"""Commands and runs in processes of their own, and what they leave behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.image import imread

import spectrogp as sg

from .trials import python

CHILD = Path(__file__).with_name("child.py")
LIMIT = 600.0  # seconds that no process of the campaign needs
# Progress bars, and what XLA and Matplotlib log of themselves.
_NOT_SAID = re.compile(
    r"[━╺╸]| {20}|^[IWEF]\d{4} |^WARNING: All log messages|Matplotlib is building the font cache|^\s*$"
)


class Ended(NamedTuple):
    """How a process ended: its exit code (minus a signal's number), and what it wrote."""

    code: int
    out: str
    err: str
    pid: int

    @property
    def said(self) -> list[str]:
        """The lines of stderr that are meant for a reader."""
        return [line.rstrip() for line in self.err.splitlines() if not _NOT_SAID.search(line)]

    def wrong(self, *codes: int, line: str | None = None) -> list[str]:
        """What is not as it must be: one of these exit codes, no traceback, and one line that has this in it."""
        found = []
        if self.code not in codes:
            found.append(f"exit code {self.code} instead of {' or '.join(map(str, codes))}")
        if trace := re.search("^(Traceback|Exception ignored).*", self.err, re.MULTILINE):
            found.append(f"a traceback ({trace[0]})")
        if line is not None and not (len(self.said) == 1 and re.search(line, self.said[0])):
            found.append(f"not one line with {line}")
        return [*found, f"said {self.said[-1:]}"] if found else []


def child(aim: str, directory: Path, *arguments: Any, cache: Path, **environment: str) -> subprocess.Popen[str]:
    """A process of ``child.py``; all share compiled programs, in ``cache``."""
    return python("-P", CHILD, aim, directory, *arguments, XDG_CACHE_HOME=str(cache), **environment)


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process."""
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += f"\nstill running after {LIMIT:.0f} s"
    return Ended(process.returncode, out, err, process.pid)


def side_by_side(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Results of calls that wait for processes, as many at a time as there are cores."""
    with ThreadPoolExecutor(max(1, min(4, len(os.sched_getaffinity(0))))) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def left_wrong(directory: Path, expected: Iterable[str] = ()) -> list[str]:
    """What is wrong with a directory: files that cannot be read under their final names, or are not there at all."""
    found = [f"{name} is gone" for name in expected if not (directory / name).exists()]
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.suffix != ".part":
            try:
                _READERS[path.suffix](path)
            except Exception as error:  # whatever it is, the file is not whole
                found.append(f"{path.name} is broken ({type(error).__name__}: {str(error)[:80]})")
    return found


def parts_in(directory: Path) -> list[str]:
    """What is left of files that were being written."""
    return [f"{path.name} is left" for path in sorted(directory.rglob("*.part"))]


def _arrays(path: Path) -> None:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        for name in arrays.files:
            arrays[name]


def _text(path: Path) -> None:
    path.read_text(encoding="utf-8")


def _json(path: Path) -> None:
    json.loads(path.read_text(encoding="utf-8"))


_READERS: dict[str, Callable[[Path], Any]] = {
    ".safetensors": sg.load,
    ".json": _json,
    ".clock": _json,
    ".png": imread,
    ".npz": _arrays,
    ".checkpoint": sg.load,  # a file of arrays like those of models
    ".csv": sg.read_table,
    ".parquet": sg.read_table,
    ".log": _text,
}


def write_tone(path: Path) -> None:
    """A table to fit to: one tone in noise."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 4.0, 60))
    sg.write_table(path, {"t": t, "y": 5.0 + np.cos(3.0 * np.pi * t) + 0.1 * rng.normal(size=60)})


FIT = ("--quick", "--kernel", "sm", "--inference", "map")  # what takes the least time
FITTED = ("model.safetensors", "summary.json", "overview.png")
ROW = ("reproduce", "solar", "--quick", "--row", "SE, MAP")
