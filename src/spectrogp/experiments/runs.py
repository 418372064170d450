"""Runs of inference that experiments share: timed, and resumed from checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jax import Array

from ..data import Data
from ..inference import Posterior, maximise
from ..models import AbstractModel


def optimum_of(objective: Any, data: Data, steps: int, key: Array) -> Any:
    return maximise(objective, data, steps=steps, key=key, learning_rate=0.03).model


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a run gives, and its seconds of processor time."""
    began = time.process_time()
    return run(), time.process_time() - began


def resumed(
    sample: Any, optimum: AbstractModel, data: Data, key: Array, checkpoint: Path, **settings: Any
) -> tuple[Posterior, float]:
    """A run that goes on from its checkpoint, and the seconds of all its parts."""
    clock = checkpoint.with_suffix(".seconds")
    before = float(clock.read_text()) if clock.exists() else 0.0
    began = time.process_time()

    def note(*_: Any) -> None:
        clock.write_text(str(before + time.process_time() - began))

    # The scores have R-hat: a warning would say it twice.
    posterior = sample(optimum, data, key=key, checkpoint=checkpoint, progress=note, warn=False, **settings)
    return posterior, float(clock.read_text())


def forget(checkpoints: Iterable[Path]) -> None:
    """Remove checkpoints that are no longer needed."""
    for path in checkpoints:
        path.unlink()
        path.with_suffix(".seconds").unlink()
