"""The background beside components along one input: red noise and a trend, and how they go on beyond the data."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .background import LONGEST
from .covariance import DEGREE, Covariance, Likelihoods, Null, Process
from .windows import Record

MANY = 20_000  # rows beyond which lines are left out where windows see something, and nulls are those of means of rows
COARSE = 2048  # such means
SLOW = 30.0  # lengthscale of the process that is a trend, in spans: it goes on beyond the data as a slope
AS_LIKELY = 2.0  # nats by which that, or a random walk, may be less likely than what turns back to the mean
SIZES, NOISES = 2.0 ** np.arange(-2.0, 1.1, 0.5), (0.7, 1.0, 1.4)  # of a walk, and beside it, that are tried: √ steps
RATIO = 8.0  # of lengthscales of the processes that make a smooth walk
SHORTER = 2.0 ** np.arange(-1.5, 0.1, 0.5)  # lengthscales of its first one that are tried, in that of the process


def background_of(record: Record, null: Null, signal: np.ndarray, changing: bool) -> list[tuple[float, float, float]]:
    """Amplitude, lengthscale and order of the processes that are the background beside a signal: red noise, a trend.

    Args:
        record: The rows.
        null: What they are without the signal.
        signal: What oscillates, at the rows.
        changing: Whether some of it changes: windows leave some of that over, which returns as that does.
    """
    if len(record.t) > MANY:
        record, signal = record.coarse(COARSE), record.means(signal, COARSE)
        null = record.null(signal)[0]
    level, flat = record.null(signal, null, degree=0)
    bent, likelihood = record.null(signal, null)
    # Processes beside a polynomial leave out what that explains; without it they are those that have it in them.
    alone = likelihood <= flat and not any(process.frequency for process in null.processes)
    whole, degree = (level, 1) if alone else (null, DEGREE)
    red = [
        part
        for process in whole.processes
        if not process.frequency
        for part in _staying(record, signal, process, whole, degree, changing or not alone)
    ]
    blocks = [(process.amplitude, process.lengthscale, process.order) for process in red]
    slow = any(process.order == 1.5 and process.lengthscale > record.span for process in red)
    if likelihood > flat and not slow:
        # So slow a process is an integrated Wiener process: over the record it leaves its tangent by √(4√3) SLOW^−1.5
        # of its amplitude, and that shall be as much as the trend rises and falls.
        rises = float(np.std(trend_of(record._replace(y=record.y - signal), bent)))
        blocks.append((rises * SLOW**1.5 / np.sqrt(4.0 * np.sqrt(3.0)), SLOW * record.span, 1.5))
    return blocks


def _staying(
    record: Record, signal: np.ndarray, process: Process, null: Null, degree: int, returns: bool
) -> tuple[Process, ...]:
    """A process as one that keeps its slope, or its level, where that is as likely beside a polynomial.

    Its lengthscale is then hardly known, and beyond the data decides whether a trend goes on or turns back to the mean,
    and whether intervals grow with time: a level that wandered away in the data does so beyond them.
    """
    y = record.y - signal
    # Of what a polynomial leaves over, at least a line: level and slope may be anything in either case.
    likelihoods = Likelihoods(record.t, y, record.error, 1e4 * max(float(np.std(y)), 1e-12), degree)
    others = tuple(other for other in null.processes if other is not process)
    least = float(likelihoods([null])[0]) - AS_LIKELY
    for choice in _instead(process, record.span, returns):
        found = likelihoods([Null(noise * null.noise, (*own, *others)) for own, noise in choice])
        if np.max(found) > least:
            return choice[int(np.argmax(found))][0]
    return (process,)


def _instead(process: Process, span: float, returns: bool) -> Iterator[list[tuple[tuple[Process, ...], float]]]:
    """What has no mean to turn back to, and the factors of the noise beside it: a slope, a walk, and a smooth walk.

    The last is not where smooth ups and downs return: beside a trend, or what changes, of which some may be left over.
    """
    longer = SLOW * span / process.lengthscale

    def slower(order: float, size: float) -> tuple[Process, ...]:
        return (Process(size * process.amplitude * longer**order, SLOW * span, order),)

    # A smooth process that is so slow is the same one within the data; a walk is not, and has sizes of its own.
    if process.order == 1.5:
        yield [(slower(1.5, 1.0), 1.0)]
    yield [(slower(0.5, size), noise) for size in SIZES for noise in NOISES]
    if process.order == 1.5 and not returns:
        yield [(smooth_walk(process, size, shorter, span), 1.0) for size in SIZES for shorter in SHORTER]


def smooth_walk(process: Process, size: float, shorter: float, span: float) -> tuple[Process, ...]:
    """A walk whose steps are smooth, as processes of order 3/2 that are each ``RATIO`` times as slow as the one before.

    Variances that grow as the lengthscales have a spectrum, in sum, that falls as that of a walk up to the frequency of
    the first, and as that of the process beyond: within a lengthscale it is what the process is.
    """
    count = 1 + max(math.ceil(math.log(LONGEST * span / process.lengthscale, RATIO)), 0)
    amplitude, lengthscale = size * process.amplitude * shorter**1.5, shorter * process.lengthscale
    return tuple(Process(amplitude * RATIO ** (0.5 * k), lengthscale * RATIO**k, 1.5) for k in range(count))


def trend_of(record: Record, null: Null) -> np.ndarray:
    """The polynomial of the null, ``[n]``."""
    covariance = Covariance(record.t, record.error, max(float(np.std(record.y)), 1e-12), null)
    return np.asarray(covariance.design @ covariance.coefficients(record.y))
