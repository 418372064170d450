"""Fits of the Markov model to long records: blocks of time, a prior chosen in a part, and lost cycles mended."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np

from ..initialise import InitialValues, are_pulses, markov_from
from ..models import ChannelGP, Data, Lanes, MarkovGP, Timeline, grid_groups, with_groups
from .roughness import smooth_or_rough
from .rungs import (
    LAST,
    THEN,
    Channels,
    Rung,
    Work,
    along_ladder,
    approach,
    climb,
    frequency_groups,
    resmoothed,
    settled,
    side_by_side,
    with_lanes,
    with_likely_noise,
)

# Rows of a block, at least and at most: between them so many that it spans a few knots. A third more come before them;
# the likelihood of blocks that warm up so little is one in its own right (Vecchia 1988, by blocks).
CELLS, OWN = 8.0, (384, 2**14)
# Rows in which the prior of the frequencies is chosen, pieces that those of pulses are in, and times so many rows of a
# record that is its own part: what is nearly all of it is not fitted twice.
PART, STRETCHES, NEARLY = 4000, 4, 1.25
APART = 6.0  # lengthscales between these, about as far as a knot is felt to both sides
STEPS = 60  # of Newton's method, in which every place of a long record comes to its end
POOR = 6.0  # times the usual spread of blocks' log likelihoods a row, below their median: there a cycle may be lost


def fit_long(initial: InitialValues, data: Channels, n_starts: int, work: Work) -> list[Rung]:
    """Blocks of time; the prior of the frequencies is chosen by its evidence in a part of the record."""
    starts = initial.alternatives()[:n_starts]
    hop = float(np.median(np.diff(starts[0].centres[:, 0])))
    scales = hop * 2.0 ** (0.5 * np.arange(6, -3, -1))
    part, few = _part(starts[0], data, APART * scales[0])
    some = work if few is starts[0] else dataclasses.replace(work, left=0.5 * work.left)

    def fitted(rough: bool) -> list[Rung]:
        return [_chosen_in_part(few, part, scales, some, rough)]

    every = [rungs[0] for rungs in smooth_or_rough(fitted, few, part, some)]
    rough = every[-1].evidence > every[0].evidence
    chosen = every[-1] if rough else every[0]
    if some is not work:
        work.left = 0.5 * work.left + max(some.left, 0.0)
    smoothness = float(grid_groups(chosen.model)[frequency_groups(chosen.model)[0]].lengthscale.value)
    models = [_as_fitted(markov_from(start, smoothness, long=True, rough=rough), chosen.model) for start in starts]
    if few is starts[0]:  # the part is the whole record, and nearly at its optimum
        whole = climb(work, chosen.lanes, chosen.model, STEPS, chosen.optimum.curvature)
    else:
        whole = climb(work, *with_lanes(models[0], _blocks(models[0], data)), STEPS)
    return [_mended(work, whole, models[1:])]


def _blocks(model: MarkovGP | ChannelGP, data: Channels) -> Timeline:
    """Blocks that have few knots each, of a number of rows that is nearly always the same."""
    spacing = min(float(group.spacing) for group in grid_groups(model))
    rate = max(part.size / max(float(np.ptp(part.X)), 1e-300) for part in data)
    own = int(np.clip(CELLS * spacing * rate, *OWN))
    return side_by_side(data, own=own, warm_up=own // 3, longest=2.0 * own / rate)


def _part(start: InitialValues, every: Channels, apart: float) -> tuple[Channels, InitialValues]:
    """Stretches of the record in which there is something, moved together in time, and what was found in them.

    Pulses may change faster in one place than in another, so that a single stretch tells little. Priors know no time,
    and blocks see nothing beyond a gap: stretches that are ``apart`` by as much as functions reach are what they were
    in their own places. Of tones there is one: windows at the ends of stretches see less, which makes lengthscales
    shorter.
    """
    X = np.sort(np.asarray(max(every, key=lambda part: part.size).X)[:, 0])
    if len(X) <= NEARLY * PART:
        return every, start
    count = STRETCHES if are_pulses(start) else 1
    rows = PART // count
    centres, worth = start.centres[:, 0], np.cumsum(np.append(0.0, np.sum(start.gain, axis=1)))
    if count == 1:  # a typical one, not the best: half of them are worth more
        sums = worth[np.searchsorted(centres, centres + PART / len(X) * np.ptp(X))] - worth[:-1]
        first = np.searchsorted(X, centres[np.argsort(sums)[[len(sums) // 2]]])
    else:
        middles = centres[np.searchsorted(worth[1:], worth[-1] * (np.arange(count) + 0.5) / count)]
        first = np.searchsorted(X, middles) - rows // 2
    for k in range(count):  # one behind the other
        first[k] = max(first[k], first[k - 1] + rows if k else 0)
        first[k] = min(first[k], len(X) - (count - k) * rows)
    low, high = X[first], X[first + rows - 1]
    moves = np.cumsum(np.append(0.0, (high - low)[:-1] + apart)) - low
    inside = [np.flatnonzero((centres >= a) & (centres <= b)) for a, b in zip(low, high, strict=True)]
    found = {name: getattr(start, name)[np.concatenate(inside)] for name in ("frequency", "amplitude", "lengthscale")}
    moved = np.concatenate([centres[chosen] + move for chosen, move in zip(inside, moves, strict=True)])
    some = tuple(_moved(part, low, high, moves) for part in every)
    return some, dataclasses.replace(
        start,
        centres=moved[:, None],
        gain=start.gain[np.concatenate(inside)],
        extent=np.array([[low[0] + moves[0]], [high[-1] + moves[-1]]]),
        others=(),
        rows=max(part.size for part in some),
        **found,
    )


def _moved(data: Data, low: np.ndarray, high: np.ndarray, moves: np.ndarray) -> Data:
    """The rows of stretches of time, each moved; of a channel that has none in any the nearest one."""
    X = np.asarray(data.X)[:, 0]
    stretch = np.searchsorted(low, X, side="right") - 1
    rows = np.flatnonzero((stretch >= 0) & (high[stretch] >= X))
    rows = rows if len(rows) else np.argmin(np.abs(X - low[0]), keepdims=True)
    y, error = (np.asarray(part)[rows] for part in (data.y, data.error))
    return Data(X[rows] + moves[np.maximum(stretch[rows], 0)], y, error)


def _chosen_in_part(start: InitialValues, part: Channels, scales: np.ndarray, work: Work, rough: bool) -> Rung:
    """The lengthscale of the frequencies that has the largest evidence in a part of the record."""

    def built(model: MarkovGP | ChannelGP) -> tuple[Lanes, Any]:
        return with_lanes(model, _blocks(model, part))

    def other(model: MarkovGP | ChannelGP, k: int) -> tuple[Lanes, Any]:
        return built(resmoothed(model, start, scales[k], long=True))

    scales = scales[:1] if np.any(start.found) and not np.any(start.changing) else scales  # lines have one smoothness
    middle = len(scales) // 2
    lanes, model = built(markov_from(start, scales[middle], long=True, rough=rough))
    first = settled(work, approach(work, lanes, with_likely_noise(lanes, model), LAST))
    rungs = along_ladder(first, middle, len(scales), other, work)
    return max(rungs.values(), key=lambda rung: rung.evidence)


def _as_fitted(model: MarkovGP | ChannelGP, fitted: MarkovGP | ChannelGP) -> MarkovGP | ChannelGP:
    """A model with the amplitudes of functions and the noise of one fitted to a part of the record."""
    groups = []
    for group, other in zip(grid_groups(model), grid_groups(fitted), strict=True):
        ratio = np.exp(float(other.amplitude.raw - group.amplitude.raw))
        groups.append(
            eqx.tree_at(
                lambda g: (g.amplitude.raw, g.whitened.raw), group, (other.amplitude.raw, group.whitened.raw / ratio)
            )
        )
    name = "likelihoods" if isinstance(fitted, ChannelGP) else "likelihood"
    return eqx.tree_at(lambda m: getattr(m, name), with_groups(model, groups), getattr(fitted, name))


def _mended(work: Work, rung: Rung, others: list[MarkovGP | ChannelGP]) -> Rung:
    """Blocks that are far less likely than others begin again where other windows saw the frequency.

    A lost cycle is a mode of its own, which no optimiser leaves; but it lies in one place, and so can be mended there.
    """
    like = [other for other in others if len(rung.lanes.join(other)) == len(rung.optimum.numbers)]
    for other in like:  # of as many components
        lanes, numbers = rung.lanes, rung.optimum.numbers
        values = lanes.log_likelihoods(numbers)[0]
        poor = _poor(lanes, values)
        if not np.any(poor):
            break
        seen = np.where(lanes.timeline.weight > 0, lanes.timeline.t, np.nan)
        low, high = np.nanmin(seen, axis=0)[poor], np.nanmax(seen, axis=0)[poor]
        reach = 4.0 * float(np.median(high - low))
        near = np.any((lanes.places[:, None] > low - reach) & (lanes.places[:, None] < high + reach), axis=1)
        replaced = np.append(near, np.zeros(lanes.border, bool))
        begun = lanes.at(np.where(replaced, lanes.join(other), numbers))
        trial = approach(work, lanes, begun, THEN, known=rung.optimum.curvature)
        if trial.optimum.log_joint > rung.optimum.log_joint:
            rung = climb(work, lanes, trial.model, THEN, trial.optimum.curvature)
    return rung


def _poor(lanes: Lanes, values: np.ndarray) -> np.ndarray:
    """Which blocks have a log likelihood a row far below that of most."""
    each = values / np.maximum(np.sum(lanes.timeline.weight, axis=0), 1.0)
    middle = np.median(each)
    spread = 1.4826 * np.median(np.abs(each - middle))
    return np.asarray(each < middle - POOR * spread)
