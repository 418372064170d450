"""Frequencies that may change suddenly: beats that come early, strokes that are left out.

Whitened values of a function have Student's t distribution a priori instead of the normal one. That is a normal one
whose precision is unknown and different at every knot (Lange, Little & Taylor 1989); rounds that put its expected
value in its place, and climb, lead to an optimum.

A single beat that comes early is an optimum of its own, and so is the one without it: where the next comes in time,
it looks like noise. So such beats are tried.
"""

from __future__ import annotations

import equinox as eqx
import numpy as np

from ..models import Lanes, grid_groups
from ..parameters import GridFunctionGroup
from .rungs import LAST, Rung, Work, climb, variances, with_amplitudes

FREEDOM, ROUNDS = 4.0, 2  # of Student's distribution, and how often precisions are looked for
SHIFTS = (-0.3, -0.15, 0.15, 0.3)  # of single cycles, that are tried
APART = 4  # knots between two of them, at least


def with_sudden_changes(work: Work, rung: Rung, groups: list[int]) -> Rung:
    """The optimum where frequencies may change suddenly, with amplitudes of functions that the whole record tells.

    Args:
        work: What all steps share.
        rung: That where none does.
        groups: Which of the model's groups on grids may.
    """
    sizes = [group.whitened.raw.size for group in grid_groups(rung.model)]
    sudden = np.repeat(np.isin(np.arange(len(sizes)), groups), sizes)
    rung = rung._replace(optimum=rung.optimum._replace(numbers=with_shifts(rung, groups)))
    for _ in range(ROUNDS):
        variance = variances(rung, work)
        model = with_amplitudes(rung, variance)
        scales = [np.exp([float(group.amplitude.raw) for group in grid_groups(one)]) for one in (rung.model, model)]
        shrunk = np.repeat(scales[0] / scales[1], sizes)
        square = shrunk**2 * (rung.optimum.numbers[: rung.lanes.knots] ** 2 + variance)
        precision = np.where(sudden, (FREEDOM + 1.0) / (FREEDOM + square), 1.0)
        rung = climb(work, Lanes(model, rung.lanes.timeline, precision), model, LAST)
    return rung


def with_shifts(rung: Rung, groups: list[int]) -> np.ndarray:
    """The numbers of an optimum with those single cycles moved that are likelier elsewhere.

    A knot that is larger and the next one smaller by as much move what is between them. Each such pair is tried by
    itself, in all blocks that it reaches, at the cost of about one Hessian.

    Args:
        rung: The optimum.
        groups: Which of its groups on grids are the frequencies.
    """
    lanes, numbers = rung.lanes, rung.optimum.numbers.copy()
    every = grid_groups(rung.model)
    starts = np.cumsum([0, *(group.whitened.raw.size for group in every)])
    before = lanes.log_likelihoods(numbers)[0]
    for k in groups:
        pairs = starts[k] + np.arange(every[k].whitened.raw.size - 1)
        sizes = np.array(SHIFTS) / _turn(every[k])
        block, column = np.nonzero(lanes.felt[:, :-1] & lanes.felt[:, 1:] & np.isin(lanes.members[:, :-1], pairs))
        pair = lanes.members[block, column] - starts[k]
        gains = np.empty((len(sizes), len(pairs)))
        for row, size in zip(gains, sizes, strict=True):
            copies = numbers[lanes.members[block]]
            copies[np.arange(len(block)), column] += size
            copies[np.arange(len(block)), column + 1] -= size
            gained = lanes.evaluate(block, copies)[0] - before[block]
            row[:] = np.bincount(pair, np.nan_to_num(gained, nan=-np.inf), len(pairs))
            row += _density(numbers[pairs] + size) - _density(numbers[pairs])
            row += _density(numbers[pairs + 1] - size) - _density(numbers[pairs + 1])
        best = np.argmax(gains, axis=0)
        gain = np.max(gains, axis=0)
        while np.any(gain > 0.0):
            j = int(np.argmax(gain))
            numbers[pairs[j]] += sizes[best[j]]
            numbers[pairs[j] + 1] -= sizes[best[j]]
            gain[max(j - APART, 0) : j + APART + 1] = 0.0
    return numbers


def _density(values: np.ndarray) -> np.ndarray:
    """Log density of Student's distribution, but for a constant."""
    return np.asarray(-0.5 * (FREEDOM + 1.0) * np.log1p(values**2 / FREEDOM))


def _turn(group: GridFunctionGroup) -> float:
    """Cycles by which a pair of knots, one larger and one smaller by one, moves what is between them."""
    knots = np.zeros_like(group.whitened.raw)
    middle = len(knots) // 2
    knots[middle], knots[middle + 1] = 1.0, -1.0
    low, high = group.places[[middle - group.reach, middle + group.reach + 1], 0]
    X = np.linspace(float(low), float(high), 400)[:, None]
    typical = float(np.ravel(group.mean.raw if hasattr(group.mean, "raw") else group.mean)[0])
    change = np.ravel(eqx.tree_at(lambda g: g.whitened.raw, group, knots).unwarped(X)) - typical
    moved = np.max(np.abs(np.cumsum(change))) * float(X[1, 0] - X[0, 0])
    return moved * float(np.exp(typical)) / (2.0 * np.pi)
