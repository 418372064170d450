"""Optima that are distinct: gaps that are crossed with a cycle more or less, and candidates that ended elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..models import Lanes, grid_groups, with_groups
from .rungs import SAME, Rung, Work, along_ladder, approach, frequencies, frequency_groups, phases, settled

Ladder: TypeAlias = dict[int, Rung]  # rungs by number

NEGLIGIBLE = 4.0  # nats of evidence below the best at which an optimum is left out of a mixture
APART = 0.5  # cycles by which phases differ along the data: optima are whole cycles apart, and between them is none
HOLDS = 1.0  # cycles that a gap holds, at least, for there to be one less
LOWEST = 0.3  # of a frequency in a gap, to begin with, with a cycle less
FIRST = 8  # steps of Newton's method to another optimum, from which it is settled
DOUBTFUL = 10.0  # nats below the best at which one is given up: a prior that expects it may make it likelier by as much
SAID = 0.05  # share of draws from which on an optimum is told of: it reaches into 90 % bands


def top(ladder: Ladder) -> Rung:
    """The rung of the largest evidence."""
    return max(ladder.values(), key=lambda rung: rung.evidence)


def distinct(ladders: list[Ladder]) -> list[Ladder]:
    """The ladder of the largest evidence, and others that are nearly as likely and end at other optima."""
    ranked = sorted(ladders, key=lambda ladder: -top(ladder).evidence)
    kept = ranked[:1]
    for ladder in ranked[1:]:
        likely = top(ladder).evidence > top(kept[0]).evidence - NEGLIGIBLE
        if likely and all(_other_optimum(top(ladder), top(one)) for one in kept):
            kept.append(ladder)
    return kept


def with_other_cycles(
    best: Ladder, count: int, other: Callable[[Any, int], tuple[Lanes, Any]], work: Work
) -> list[Ladder]:
    """Ladders of optima that cross gaps of the data with a cycle more or less than a given one, and so on.

    What is on both sides of a gap says where in its cycle an oscillation is, and not which cycle it is: posteriors have
    an optimum for each, of which the smoothness of the frequency decides.

    Args:
        best: The ladder that is given.
        count: How many rungs a ladder may have.
        other: A model, and a number, to the model with the frequencies of that rung.
        work: What may still be done.
    """
    found: list[Ladder] = []
    first = top(best)
    x = _rows(first)
    for group, column in _columns(first.model):
        for low, high in _gaps(first, x, group, column):
            for cycles in (1.0, -1.0):
                at: Ladder | None = best
                while at is not None and not work.spent:
                    at = _crossed(at, count, other, work, (group, column, low, high, cycles))
                    if at is None or not top(at).evidence > first.evidence - NEGLIGIBLE:
                        break
                    found.append(at)
    return found


def _crossed(
    ladder: Ladder,
    count: int,
    other: Callable[[Any, int], tuple[Lanes, Any]],
    work: Work,
    where: tuple[int, int, float, float, float],
) -> Ladder | None:
    """The ladder of the optimum with so many cycles more in a gap; nothing where it is not there or far less likely."""
    best = top(ladder)
    model = _bent(best.model, *where)
    if model is None:
        return None
    least = best.optimum.log_joint - DOUBTFUL
    begun = approach(work, Lanes(model, best.lanes.timeline), model, FIRST, least)
    if not begun.optimum.log_joint > least:
        return None
    rung = settled(work, begun)
    if not (rung.evidence > best.evidence - DOUBTFUL and _other_optimum(rung, best)):
        return None
    k = next(k for k, one in ladder.items() if one is best)
    return along_ladder(rung, k, count, other, work)


def _bent(model: Any, group: int, column: int, low: float, high: float, cycles: float) -> Any:
    """The model with so many cycles more between two inputs.

    Nothing where it would have to turn backwards, or there is no knot between them.
    """
    groups, place = grid_groups(model), frequency_groups(model)[group]
    own = groups[place]
    if high - low < float(own.spacing):
        return None
    count = len(own.whitened.raw)
    X = (float(own.origin) + float(own.spacing) * np.linspace(0.0, count - 1.0, 3 * count))[:, None]
    omega = np.exp(own.unwarped(X))
    inside = np.clip((X[:, 0] - low) / (high - low), 0.0, 1.0)
    more = 2.0 * np.pi * cycles / (high - low) * (1.0 - np.cos(2.0 * np.pi * inside))
    if np.any(omega[:, column, 0] + more < LOWEST * omega[:, column, 0]):
        return None
    omega[:, column, 0] += more
    groups[place] = own.fitted_to(X, omega, SAME)
    return with_groups(model, groups)


def _gaps(rung: Rung, x: np.ndarray, group: int, column: int) -> list[tuple[float, float]]:
    """Stretches without rows that hold a cycle of a component or more."""
    turned = np.diff(phases(frequencies(rung.model)[group], x)[:, column]) / (2.0 * np.pi)
    return [(float(x[k]), float(x[k + 1])) for k in np.flatnonzero(turned > HOLDS)]


def _columns(model: Any) -> list[tuple[int, int]]:
    return [(g, k) for g, group in enumerate(frequencies(model)) for k in range(group.whitened.raw.shape[1])]


def _rows(rung: Rung) -> np.ndarray:
    """The times of rows, in their order."""
    timeline = rung.lanes.timeline
    return np.unique(np.asarray(timeline.t)[np.asarray(timeline.seen) > 0])


def _turns(rung: Rung, x: np.ndarray) -> np.ndarray:
    """Cycles ``[n, a]`` of the components at inputs, from zero at the first."""
    return np.concatenate([phases(group, x) for group in frequencies(rung.model)], axis=1) / (2.0 * np.pi)


def _other_optimum(one: Rung, than: Rung) -> bool:
    """Whether phases of two fits drift apart, and components are the same ones in both."""
    x = _rows(one)
    here, there = _turns(one, x), _turns(than, x)
    if here.shape != there.shape or not np.any(np.ptp(here - there, axis=0) > APART):
        return False
    unlike = np.mean(np.abs(np.diff(here, axis=0)[:, :, None] - np.diff(there, axis=0)[:, None]), axis=0)
    return bool(np.all(linear_sum_assignment(unlike)[1] == np.arange(len(unlike))))


def told_optima(rungs: list[Rung]) -> list[str]:
    """What is to be said of rungs of a mixture that are of another optimum than the first one, in words."""
    if not (frequencies(rungs[0].model) and np.isfinite(rungs[0].evidence)):
        return []
    x, weight = _rows(rungs[0]), np.exp([rung.evidence - rungs[0].evidence for rung in rungs])
    first = _turns(rungs[0], x)
    shares: dict[str, float] = {}
    for rung, share in zip(rungs, weight / weight.sum(), strict=True):
        what = _difference(_turns(rung, x) - first, (x - x[0]) / (x[-1] - x[0]))
        shares[what] = shares.get(what, 0.0) + float(share)
    return [
        f"{what} in {share:.0%} of the draws: the data allow both, and bands hold both; rows in between would tell"
        for what, share in shares.items()
        if what and share > SAID
    ]


def _difference(apart: np.ndarray, place: np.ndarray) -> str:
    """Where phases that are so many cycles ``[n, a]`` apart at places of the record differ, if they do."""
    drift = np.ptp(apart, axis=0)
    a = int(np.argmax(drift))
    steps = np.diff(apart[:, a])
    k = int(np.argmax(np.abs(steps)))
    cycles = round(float(steps[k]))
    if drift[a] > APART and cycles:
        many = f"{abs(cycles)} cycle{'s' * (abs(cycles) != 1)} {'more' if cycles > 0 else 'less'}"
        return f"component {a + 1} has {many} between {place[k]:.1%} and {place[k + 1]:.1%} of the record"
    if drift[a] > 2.0 * APART:
        low, high = sorted((int(np.argmin(apart[:, a])), int(np.argmax(apart[:, a]))))
        return f"component {a + 1} turns otherwise between {place[low]:.0%} and {place[high]:.0%} of the record"
    return ""
