"""What a ladder of models tried, and why it chose what it did."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Rung:
    """One model that was tried.

    Args:
        name: What it adds to the rung that was kept before it.
        density: Mean log predictive density of the held-out rows, in standardised units.
        gain: How much that is more than that of the rung kept before it; of the first rung, than a constant's.
        error: Standard error of the gain.
        steps: Steps of Adam.
        seconds: CPU seconds.
        kept: Whether it was kept: its gain is beyond its standard error.
    """

    name: str
    density: float
    gain: float
    error: float
    steps: int
    seconds: float
    kept: bool


def gain_of(density: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """Mean difference of log densities, row by row, and its standard error."""
    each = density - before
    return float(np.mean(each)), float(np.std(each) / np.sqrt(max(len(each) - 1, 1)))


@dataclass(frozen=True)
class Choice:
    """The rungs of a ladder, in the order in which they were tried.

    Args:
        rungs: What was tried.
        held_out: How many training rows the rungs were judged by; they are part of the final fit.
        cycles: Cycles that were found in what the first rung left over: number of the input and frequency in cycles
            per unit of it.
        neighbours: Neighbours of each row in the fit, and of each input in predictions.
        names: What the inputs are called; else they go by their numbers.
    """

    rungs: tuple[Rung, ...]
    held_out: int
    cycles: tuple[tuple[int, float], ...]
    neighbours: tuple[int, int]
    names: tuple[str, ...] = ()

    def in_units(self, scale: np.ndarray, names: tuple[str, ...]) -> Choice:
        """The same for inputs of these ``names`` that were divided by ``scale [d]``."""
        cycles = tuple((axis, float(frequency / scale[axis])) for axis, frequency in self.cycles)
        return replace(self, cycles=cycles, names=names)

    def __str__(self) -> str:
        lines = [f"models compared by the log predictive density of {self.held_out} held-out training rows:"]
        for rung in self.rungs:
            verdict = "kept" if rung.kept else "not kept"
            what = f"{rung.density:.4f} ({rung.gain:+.4f} ± {rung.error:.4f})"
            lines.append(f"  {rung.name}: {what}, {rung.steps} steps, {rung.seconds:.0f} s: {verdict}")
        called = dict(enumerate(self.names))
        lines += [
            f"cycle along {called.get(axis, f'input {axis}')}: {frequency:.4g} cycles per unit"
            for axis, frequency in self.cycles
        ]
        return "\n".join([*lines, "{} neighbours in the fit, {} in predictions".format(*self.neighbours)])
