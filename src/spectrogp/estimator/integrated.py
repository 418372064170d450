"""What an optimum takes for certain, integrated out: how much frequencies vary, and functions where noise is told."""

from __future__ import annotations

import numpy as np

from ..core import with_fields
from ..inference import Arrow
from ..models import Lanes, grid_groups, with_groups
from .rungs import Rung, frequency_groups, noise_places

STEP = 0.35  # of the logarithm of a size: its posterior is about as wide
NEGLIGIBLE = 4.0  # nats of evidence below those of the rung at which a size is left out
SMALLEST, LARGEST = -4, 6  # steps, at most
DRAWS = 200  # of the functions, from which follows how many directions the rows tell of
HALVINGS = 6  # of a step to likelier noise, at most: after these it stays
RISES = 0.25  # of what the slope of the evidence says of a step, that it must rise by (a parabola: one half)


def with_sizes(rung: Rung) -> list[Rung]:
    """A rung, and others whose frequencies vary more or less a priori, each at its own optimum.

    How much they vary at a rung is what has the largest evidence: bands that take it for certain are too narrow where
    the data say little. Where the optimum of another size is, and how narrow, follows from the parabola that the log
    likelihood is at that of the rung: it costs a factorisation and one evaluation.

    Args:
        rung: At its optimum, its data in one block for each channel; others stay alone.
    """
    if not (rung.lanes.whole and np.isfinite(rung.evidence)):
        return [rung]
    found = [rung]
    for place in frequency_groups(rung.model):
        for steps in (range(-1, SMALLEST - 1, -1), range(1, LARGEST + 1)):
            for step in steps:
                other = _sized(rung, place, float(np.exp(STEP * step)))
                if other is None or not other.evidence > rung.evidence - NEGLIGIBLE:
                    break
                found.append(other)
    return found


def _sized(rung: Rung, place: int, size: float) -> Rung | None:
    """The rung with the amplitude of one group so many times as large; nothing where it has no optimum."""
    optimum, groups = rung.optimum, grid_groups(rung.model)
    group, before = groups[place], sum(g.whitened.raw.size for g in groups[:place])
    here = slice(before, before + group.whitened.raw.size)
    sizes = np.ones(len(optimum.numbers))
    sizes[here] = size
    amplitude = with_fields(group.amplitude, raw=group.amplitude.raw + np.log(size))
    model = with_groups(rung.model, [*groups[:place], with_fields(group, amplitude=amplitude), *groups[place + 1 :]])
    lanes, known = Lanes(model, rung.lanes.timeline), optimum.curvature.stretched(sizes[rung.lanes.members])
    prior = lanes.log_prior(optimum.numbers)[2]
    try:
        factor = Arrow.of(lanes, known.H, prior)
    except np.linalg.LinAlgError:
        return None
    # At the functions of the optimum the likelihood pulls as the old prior did, and the new one pulls less or more.
    numbers, pull = optimum.numbers / sizes, np.zeros(len(sizes))
    pull[here] = (size - 1.0 / size) * optimum.numbers[here]
    numbers = numbers + factor.solve(pull)
    log_joint, _ = lanes.total(*lanes.log_likelihoods(numbers), numbers)
    return Rung(lanes, optimum._replace(numbers=numbers, log_joint=log_joint, factor=factor, curvature=known))


def with_likeliest_noise(rung: Rung, rng: np.random.Generator) -> Rung:
    """A rung for draws, whose noise is the likeliest with the functions integrated out.

    At the optimum of both together it is too small, as a mean of squared residuals is: functions follow the noise in as
    many directions as the rows determine. With more noise these tell less of the functions.

    It is a step of Newton's method on the evidence, halved until the evidence at its end has risen. Beside a process
    that changes from row to row the data hardly tell the noise at the optimum, but tell very well that it is not much
    larger: parabolas promise what is not so.

    Args:
        rung: At its optimum, its data in one block for each channel; others stay as they are.
        rng: Of the draws that count these directions.
    """
    lanes, optimum = rung.lanes, rung.optimum
    if not (lanes.whole and np.isfinite(rung.evidence)):
        return rung
    places, H = noise_places(lanes), optimum.curvature.H
    moves = optimum.factor.draw(rng, DRAWS, border=False)[:, lanes.members]
    told = np.einsum("sbp,bpq,sbq->b", moves, H, moves, optimize=True) / DRAWS
    own = lanes.members == places[:, None]
    shares = _shares(rung, np.exp(optimum.numbers[places]), np.einsum("bpp,bp->b", H, own))
    pull = np.zeros(len(optimum.numbers))
    pull[places] = told * shares
    move = optimum.factor.solve(pull)
    least = RISES * float(pull @ move)
    for share in 0.5 ** np.arange(HALVINGS + 1):
        # From both sides, by no more than one: then what was positive beside the prior stays so.
        fallen = np.where(own, 1.0, np.minimum(np.exp(-share * shares * move[places]), 1.0)[:, None])
        known = optimum.curvature._replace(H=H * fallen[:, :, None] * fallen[:, None])
        numbers = optimum.numbers + share * move
        log_joint, _ = lanes.total(*lanes.log_likelihoods(numbers), numbers)
        factor = Arrow.of(lanes, known.H, lanes.log_prior(numbers)[2])
        moved = rung._replace(
            optimum=optimum._replace(numbers=numbers, log_joint=log_joint, factor=factor, curvature=known)
        )
        if moved.evidence > rung.evidence + share * least:
            return moved
    return rung


def _shares(rung: Rung, noise: np.ndarray, told: np.ndarray) -> np.ndarray:
    """How much of what rows of blocks ``[b]`` tell of functions goes with the noise.

    Of rows of noise σ² whose variance given those before is S functions are told 1/S: known errors have a part of S,
    and processes that change from row to row, as red noise does. Of log σ they tell 2 (σ²/S)².

    Args:
        rung: At its optimum.
        noise: Standard deviations ``[b]``.
        told: Of their logarithms, by the rows ``[b]``.
    """
    timeline = rung.lanes.timeline
    variance = noise**2 + timeline.error**2
    precision = np.where(timeline.weight > 0, 1.0 / variance, 0.0)
    beside_errors = np.sum(precision * noise**2 / variance, axis=0) / np.sum(precision, axis=0)
    rows = np.sum(timeline.weight, axis=0)
    return np.asarray(np.minimum(beside_errors, np.sqrt(np.maximum(told, 0.0) / (2.0 * rows))))
