"""Model files and checkpoints with flipped bits, cut short, or made to do harm."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import spectrogp as sg

from .child import walk
from .commands import child, ended
from .forgery import checkpoints, holes, models
from .trials import Trials

SECONDS, MEGABYTES = 1.0, 200.0  # that refusing a file may take
FLIPPED = "refused by `ModelFileError`"
NOT_A_CHECKPOINT = 'refused by `ValueError` ("is not a checkpoint"), or read as it was written'
REFUSED = f"refused by the documented error in less than {SECONDS:.0f} s and {MEGABYTES:.0f} MB, and nothing run"


def section(quick: bool, seed: int, place: Path) -> Iterator[Trials]:
    """All damage and all forgery."""
    chance = random.Random(seed)  # noqa: S311
    model, checkpoint = place / "model", place / "run.checkpoint"
    sg.save(model, _model(), {"note": "é"})
    yield from _damaged("model file", model, chance, _loaded, 300 if quick else 20_000, FLIPPED)
    walk(checkpoint)
    whole = walk(checkpoint)  # of a run that has nothing left to do

    def walked(path: Path) -> str | None:
        try:
            return None if walk(path) == whole else "went on with other numbers"
        except ValueError as error:
            return None if "is not a checkpoint" in str(error) else f"{error}"[:200]

    yield from _damaged("checkpoint", checkpoint, chance, walked, 100 if quick else 2000, NOT_A_CHECKPOINT)
    yield from _forged(checkpoint, place)


def _model() -> Any:
    """A model with all kinds of parameters."""
    Z = np.linspace(-1.0, 1.0, 4)[:, None]
    lengthscale, amplitude = sg.FunctionGroup(Z, 0.5, shape=(1, 1)), sg.FunctionGroup(Z, 1.0, shape=(1,))
    frequency = sg.Real(np.full((1, 1), 3.0), sg.Normal(3.0, 1.0))
    kernel = sg.kernels.ConvolutionalSpectral(lengthscale, frequency, amplitude)
    return sg.models.ExactGP(kernel, sg.Positive(0.1, sg.LogNormal(0.1, 1.0)))


def _loaded(path: Path) -> str | None:
    try:
        sg.load(path)
    except sg.ModelFileError:
        return None
    return "loaded"


def _damaged(
    what: str, path: Path, chance: random.Random, read: Callable[[Path], str | None], flips: int, holds: str
) -> Iterator[Trials]:
    """Bits flipped, one at a time and each at most once, and files that end too soon."""
    content, damaged = path.read_bytes(), path.with_name(f"damaged {path.name}")
    damaged.write_bytes(content)
    bits = chance.sample(range(8 * len(content)), min(flips, 8 * len(content)))
    failures = []
    with damaged.open("r+b", buffering=0) as file:
        for bit in bits:
            byte = content[bit // 8]
            os.pwrite(file.fileno(), bytes([byte ^ 1 << bit % 8]), bit // 8)
            failures += _tried(f"bit {bit}", damaged, read)
            os.pwrite(file.fileno(), bytes([byte]), bit // 8)
    yield Trials(f"a {what} with a flipped bit", holds, len(bits), tuple(failures))
    lengths = [*range(0, len(content), max(1, 8 * len(content) // flips))]
    failures = []
    for length in lengths:
        damaged.write_bytes(content[:length])
        failures += _tried(f"{length} bytes", damaged, read)
    yield Trials(f"a {what} that ends too soon", holds, len(lengths), tuple(failures))


def _tried(name: str, path: Path, read: Callable[[Path], str | None]) -> list[str]:
    """A line if a file is not read, or not refused, as it must be."""
    try:
        wrong = read(path)
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:200]}"
    return [f"{name}: {wrong}"] if wrong else []


def _forged(checkpoint: Path, place: Path) -> Iterator[Trials]:
    """Forged files, all read by one process that has little memory."""
    directory, canary, cache = place / "forged", place / "canary", place / "cache"
    for path in (directory, cache):
        path.mkdir()
    for name, content in models(canary):
        (directory / name).write_bytes(content)
    made = [*holes(directory), *checkpoints(checkpoint, directory, canary)]
    for name in ("pipe", "checkpoint, a pipe"):
        os.mkfifo(directory / name)
    for name in ("directory", "checkpoint, a directory"):
        (directory / name).mkdir()
    done = ended(child("-", directory, "refuse", cache=cache))
    found = {name: rest for name, *rest in map(json.loads, done.out.splitlines())}
    missing = sorted({path.name for path in directory.iterdir()} - set(found))
    for path in made:  # which are large, if only by their names
        path.unlink()
    for what, is_checkpoint in (("forged model files", False), ("forged checkpoints", True)):
        rows = {name: rest for name, rest in found.items() if name.startswith("checkpoint") == is_checkpoint}
        failures = [f"{name}: {wrong}" for name, rest in rows.items() if (wrong := _wrong(is_checkpoint, *rest))]
        failures += [f"{name}: not refused, the process ended ({done.said[-1:]})" for name in missing[:1]]
        failures += ["a file ran a command"] * canary.exists()
        slowest, largest = (max(rest[k] for rest in rows.values()) for k in (0, 1)) if rows else (0.0, 0.0)
        note = f"at most {slowest:.2f} s and {largest:.0f} MB; in a process that is given 1 GiB more than it has"
        yield Trials(what, REFUSED, len(rows), tuple(failures), note)


def _wrong(is_checkpoint: bool, seconds: float, megabytes: float, error: str, message: str) -> str:
    """What is not as it must be when a file is refused."""
    refused = error == "ModelFileError"
    if is_checkpoint:
        refused = error == "ValueError" and "is not a checkpoint" in message
    wrong = [] if refused else [f"raised {error} ({message})"]
    wrong += [f"{seconds:.1f} s"] * (seconds > SECONDS) + [f"{megabytes:.0f} MB"] * (megabytes > MEGABYTES)
    return "; ".join(wrong)
