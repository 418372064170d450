"""Rows that are closer than a signal needs: fewer for the fit, and the noise of single rows after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.signal import oaconvolve

from ..initialise import HARMONICS, InitialValues
from ..models import ChannelGP, Data
from .rungs import Channels, Rung

# Rows that are left of an even record that has more: to a cycle, to a cycle of the highest harmonic, and in all. The
# phase of a pulse is in all of its harmonics, and the highest need no more than to be there.
ROWS_A_CYCLE, ROWS_A_HARMONIC, LEAST = 4.0, 2.5, 256
FASTER = 1.2  # times as fast as what was seen may a signal be
REACH = 8  # rows that are left, on each side, that one of them sees


def thinned(initial: InitialValues, every: Channels) -> tuple[Channels, tuple[float, ...]]:
    """So few rows of an even record that every cycle still has enough; and the variance of noise that they leave out.

    They are what passes a filter that stops frequencies which so few rows could not tell from lower ones: harmonics
    that the model has not would look like noise that comes with every pulse. What oscillates more slowly passes as it
    is. Times that are uneven stay as they are: different numbers of rows would have different noise. So do channels of
    which one misses some.

    Args:
        initial: What was found in the data.
        every: The data of every channel.
    """
    data, untouched = every[0], (every, (0.0,) * len(every))
    X = np.asarray(data.X)[:, 0]
    order = np.argsort(X, kind="stable")
    steps = np.diff(X[order])
    if not np.any(initial.found) or len(steps) < 2 * LEAST or np.min(steps) < 0.99 * np.max(steps):
        return untouched
    if any(not np.array_equal(part.X, data.X) for part in every):
        return untouched
    harmonics = np.minimum(initial.harmonics, HARMONICS)
    needed = np.maximum(ROWS_A_CYCLE, ROWS_A_HARMONIC * harmonics)
    seen = np.where(initial.gain > 0, initial.frequency[..., 0] * needed, 0.0)
    # A single place that was seen wrongly is not to decide.
    fastest = np.quantile(np.max(seen, axis=1), 0.99)
    together = int(1.0 / (FASTER * fastest * np.mean(steps)))
    together = min(together, data.size // LEAST)
    if together < 2:
        return untouched
    return tuple(zip(*(_passed(part, order, together) for part in every), strict=True))  # type: ignore[return-value]


def _passed(data: Data, order: np.ndarray, together: int) -> tuple[Data, float]:
    """One row for so many, and the variance of the noise that does not pass."""
    X, y, error = (np.asarray(part)[order] for part in (data.X[:, 0], data.y, data.error))
    # A sinc that ends at half of the frequency of the rows that are left, in Hann's window.
    lag = np.arange(1 - REACH * together, REACH * together) / together
    window = np.sinc(lag) * np.cos(0.5 * np.pi * lag / REACH) ** 2
    window /= np.sum(window)
    places = np.arange(together // 2, len(X) - (together - 1) // 2, together)

    def through(values: np.ndarray, window: np.ndarray) -> np.ndarray:
        return np.asarray(oaconvolve(values, window, mode="same")[places])

    middle = float(np.mean(y))
    share = through(np.ones_like(y), window)  # less than one where the record ends
    passed = middle + through(y - middle, window) / share
    errors = np.sqrt(np.maximum(through(error**2, window**2), 0.0)) / share
    # Differences of neighbours leave out what changes slowly.
    single = max(0.5 * float(np.mean(np.diff(y) ** 2)) - float(np.mean(error**2)), 0.0)
    return Data(X[places], passed, errors), single * (1.0 - float(window @ window))


def for_single_rows(rung: Rung, inside: tuple[float, ...]) -> Rung:
    """A fit to few rows as one to all of them: the noise has in it what did not pass.

    Args:
        rung: The fit.
        inside: Its variance, of every channel.
    """
    numbers = rung.optimum.numbers.copy()
    for k, hidden in enumerate(inside):
        place = rung.lanes.number_of(lambda m: _noises(m)[k].noise.raw)  # noqa: B023
        numbers[place] = 0.5 * np.log(np.exp(2.0 * numbers[place]) + hidden)
    return rung._replace(optimum=rung.optimum._replace(numbers=numbers))


def _noises(model: Any) -> tuple[Any, ...]:
    """The likelihood of every channel."""
    return model.likelihoods if isinstance(model, ChannelGP) else (model.likelihood,)
