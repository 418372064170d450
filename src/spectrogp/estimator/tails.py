"""Tails of new outputs: how far they lie from their predictions, as rows tell that these do not know.

A handful of rows tens of standard deviations out decides the mean log density of thousands under a normal distribution.
Fits with normal noise stay as they are; what is learned here is how outputs scatter around predictions.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from ..models import student_log_density
from .choice import Rung, gain_of

FREEDOM = np.geomspace(2.5, 1000.0, 20)  # degrees of freedom: the last are as good as normal
STRETCH = np.geomspace(1.0, 2.0, 15)  # never surer than the model is


class Tails(NamedTuple):
    """Degrees of freedom of new outputs, and their standard deviation over that of predictions."""

    freedom: float
    stretch: float


def find_tails(apart: np.ndarray, std: np.ndarray, name: str = "tails", least: float = 1.0) -> tuple[Tails, Rung]:
    """The likeliest tails, and what they gain over a normal distribution.

    They are judged by rows that they were not found from: those of each half by the other.

    Args:
        apart: By how many predicted standard deviations outputs differ from their predictions, ``[n]``, in any order
            that is random.
        std: These standard deviations ``[n]``.
        name: What the rung is called.
        least: Standard errors of the gain that it must be above to be kept.
    """
    began = time.process_time()
    before = -0.5 * (np.log(2.0 * np.pi) + apart**2) - np.log(std)
    density, half = np.empty(len(apart)), np.arange(len(apart)) % 2 == 0
    for some in (half, ~half):
        found = _likeliest(apart[~some])
        density[some] = student_log_density(apart[some], found.stretch, found.freedom) - np.log(std[some])
    gain, error = gain_of(density, before)
    seconds = round(time.process_time() - began, 1)
    kept = gain > least * error
    return _likeliest(apart), Rung(name, float(np.mean(density)), gain, error, 0, seconds, kept)


def _likeliest(apart: np.ndarray) -> Tails:
    """On a grid of both numbers."""
    each = [[np.mean(student_log_density(apart, stretch, freedom)) for stretch in STRETCH] for freedom in FREEDOM]
    row, column = np.unravel_index(np.argmax(each), (len(FREEDOM), len(STRETCH)))
    return Tails(float(FREEDOM[row]), float(STRETCH[column]))
