"""Fits of the Markov model to one input: candidates, hyperparameters by evidence, optimum, and a mixture of normals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..inference import Optimum, Progress, newton
from ..initialise import InitialValues, likely_smoothness, markov_from, shortest_smoothness
from ..models import Data, Lanes, MarkovGP, Timeline, grid_groups, with_groups
from ..parameters import GridFunctionGroup, partition
from ..posterior import Posterior

SHORT = 2500  # rows up to which all of them are one block
LADDER = 2.0 ** (0.5 * np.arange(2, -12, -1))  # lengthscales of the frequencies, in standard deviations of the inputs
BEGIN = 3  # where candidates are compared, unless what was found changes faster: about two thirds of one
FIRST, THEN, LAST = 8, 6, 25  # steps of Newton's method: of candidates, after a change of the prior, to the end
APART = 0.3  # nats by which candidates that end at the same place may differ
NEGLIGIBLE = 4.0  # nats below the best at which a rung of the ladder is left out of the mixture
PSEUDO = 2.0  # knots that the prior of an amplitude counts as: its logarithm has a standard deviation of one half


FITTED = 50.0  # nats that a fitted frequency counts for, where it is to be followed
# Long records:
# Rows of a block, at least and at most: between them so many that it spans a few knots. A third more come before them;
# the likelihood of blocks that warm up so little is one in its own right (Vecchia 1988, by blocks).
CELLS, OWN = 8.0, (384, 2**14)
ROWS_A_CYCLE, LEAST = 8.0, 256  # that are left of an even record that has more
ROWS_DRAWN = 2 * 10**7
PART = 4000  # rows in which the prior of the frequencies is chosen
POOR = 6.0  # times the usual spread of blocks' log likelihoods a row, below their median: there a cycle may be lost


class Rung(NamedTuple):
    """A model at its optimum, with what is known of it."""

    lanes: Lanes
    optimum: Optimum

    @property
    def model(self) -> MarkovGP:
        return self.lanes.at(self.optimum.numbers)

    @property
    def evidence(self) -> float:
        """Log marginal likelihood with the prior of the amplitudes of functions, which the optimum holds fixed."""
        logarithms = [
            (float(group.amplitude.raw) - np.log(float(group.amplitude.prior.median))) / float(group.amplitude.prior.std)
            for group in grid_groups(self.lanes.model)
        ]
        return self.optimum.evidence - 0.5 * float(np.sum(np.square(logarithms)))


class MarkovFit(NamedTuple):
    """The model at its optimum, draws of its posterior, and how it went."""

    model: MarkovGP
    posterior: Posterior
    history: np.ndarray
    cut_short: list[str]


def fit_markov(
    initial: InitialValues, data: Data, *, draws: int, seed: int, n_starts: int, progress: Progress | None = None
) -> MarkovFit:
    """Fit standardised data of one input.

    Args:
        initial: What was found in them.
        data: The data.
        draws: Of the posterior; one for the optimum alone.
        seed: Of the draws.
        n_starts: Candidates that are compared, at most.
        progress: What shows it.
    """
    rng, given = np.random.default_rng(seed), data
    data, inside = _thinned(initial, given)
    if data.size > SHORT and np.any(initial.found):
        rungs = _fit_long(initial, data, n_starts, rng)
        draws = min(draws, max(ROWS_DRAWN // data.size, 50))  # each takes as long to read as there are rows
    else:
        rungs = _fit_short(initial, data, n_starts, rng)
    if inside:
        rungs = [_for_single_rows(rung, inside) for rung in rungs]
    top = rungs[0]
    mixed = [rung for rung in rungs if rung.optimum.factor is not None]
    posterior = Posterior.at_point(top.model) if draws == 1 or not mixed else _mixture(mixed, draws, rng)
    return MarkovFit(top.model, posterior, np.asarray(top.optimum.history) / data.size, _unfinished(top.optimum))


def _fit_short(initial: InitialValues, data: Data, n_starts: int, rng: np.random.Generator) -> list[Rung]:
    """All rows in one block; the rungs of the ladder that count, the best first."""
    timeline = Timeline.of(data)
    scales = LADDER * float(initial.scale[0])
    scales = scales[scales > shortest_smoothness(initial)]
    first = max(likely_smoothness(initial, scales), min(BEGIN, len(scales) - 1))

    def begun(start: InitialValues, loose: bool = False) -> tuple[Rung, InitialValues]:
        model = markov_from(start, scales[first], loose=loose)
        return _climb(*_lanes(model, timeline), FIRST), start

    def other_of(start: InitialValues) -> Callable[[MarkovGP, int], Rung]:
        return lambda model, k: _climb(*_lanes(_resmoothed(model, start, scales[k]), timeline), 0)

    candidates = [begun(start) for start in initial.ridges()[:n_starts]]
    count = len(candidates)
    if n_starts > 1:
        loose = begun(initial, loose=True)
        if _density(loose) > max(map(_density, candidates)):
            candidates.append(begun(_unwound(loose[0].model, initial, data)))
            count += 1
            candidates.append(loose)
    # The best of those that began coherent, by their evidence, and the best of all, where that is another one.
    coherent = sorted(candidates[:count], key=_density)[::-1]
    near = [pair for pair in coherent[1:2] if _density(coherent[0]) - _density(pair) > APART]
    settled = [(_settled(rung, rng), start) for rung, start in (coherent[0], *near)]
    kept = [max(settled, key=lambda pair: pair[0].evidence)]
    if _density(candidates[-1]) - _density(coherent[0]) > APART:
        kept.append((_settled(candidates[-1][0], rng), candidates[-1][1]))
    ladders = [_along_ladder(rung, first, len(scales), other_of(start), rng) for rung, start in kept]
    ranked = max(([*sorted(rungs.values(), key=lambda r: -r.evidence)] for rungs in ladders), key=lambda r: r[0].evidence)
    ranked[0] = _climb(ranked[0].lanes, ranked[0].model, LAST)
    return [rung for rung in ranked if ranked[0].evidence - rung.evidence < NEGLIGIBLE]


def _density(pair: tuple[Rung, InitialValues]) -> float:
    return pair[0].optimum.log_joint


def _unwound(model: MarkovGP, initial: InitialValues, data: Data) -> InitialValues:
    """Initial values with frequencies that have in them what the envelopes turn by: f = Re[(u − iv) e^{iφ}]."""
    low, high = initial.extent[:, 0]
    X = np.linspace(low, high, 8 * len(initial.centres))[:, None]
    mean = np.asarray(model.realise().envelope(model.prepare(data, X), X)[0])
    turn = np.gradient(-np.unwrap(np.arctan2(mean[..., 1], mean[..., 0]), axis=0), X[:, 0], axis=0)
    # How far it can be trusted shows in the size of the envelope.
    size = np.sum(mean**2, axis=-1)
    frequency = initial.frequency.copy()
    fitted = np.concatenate([group(initial.centres) for group in _frequencies(model)], axis=1)[..., 0]
    for a in range(frequency.shape[1]):
        near = np.exp(-0.5 * ((initial.centres - X[:, 0]) / (initial.centres[1, 0] - initial.centres[0, 0])) ** 2) * size[:, a]
        total = (fitted[:, a] + near @ turn[:, a] / np.sum(near, axis=1)) / (2.0 * np.pi)
        frequency[:, a, 0] = np.maximum(total, 0.3 * fitted[:, a] / (2.0 * np.pi))
    return dataclasses.replace(initial, frequency=frequency, gain=np.full(initial.gain.shape, FITTED))


def _lanes(model: MarkovGP, timeline: Timeline) -> tuple[Lanes, MarkovGP]:
    return Lanes(model, timeline), model


def _fit_long(initial: InitialValues, data: Data, n_starts: int, rng: np.random.Generator) -> list[Rung]:
    """Blocks of time; the prior of the frequencies is chosen by its evidence in a part of the record."""
    starts = initial.alternatives()[:n_starts]
    part, few = _part(starts[0], data)
    hop = float(np.median(np.diff(starts[0].centres[:, 0])))
    scales = hop * 2.0 ** (0.5 * np.arange(6, -3, -1))
    chosen = _chosen_in_part(few, part, scales, rng)
    smoothness = float(grid_groups(chosen.model)[_frequency_groups(chosen.model)[0]].lengthscale.value)
    models = [_as_fitted(markov_from(start, smoothness, long=True), chosen.model) for start in starts]
    return [_mended(_climb(*_lanes(models[0], _blocks(models[0], data)), LAST), models[1:])]


def _unfinished(optimum: Optimum) -> list[str]:
    if optimum.decrement < 1.0:
        return []
    promise = "no end" if not np.isfinite(optimum.decrement) else f"{optimum.decrement:.3g} nats"
    return [f"optimum: Newton's method stopped where a further step promised {promise}; bands may be wrong"]


def _climb(lanes: Lanes, model: MarkovGP, steps: int) -> Rung:
    return Rung(lanes, newton(lanes, lanes.join(model), steps=steps))


def _settled(rung: Rung, rng: np.random.Generator) -> Rung:
    """At the optimum, with amplitudes of the functions that the data tell."""
    rung = _climb(rung.lanes, rung.model, LAST)
    if rung.optimum.factor is None:
        return rung
    model = _with_amplitudes(rung, rng)
    return _climb(Lanes(model, rung.lanes.timeline), model, THEN)


def _with_amplitudes(rung: Rung, rng: np.random.Generator) -> MarkovGP:
    """Amplitudes of the functions nearer to where the evidence is largest.

    MacKay's (1992) step: a² is the sum of the squares of the knots over the number of directions that the data
    determine, which is the number of knots less the sum of their variances. The functions stay as they are.
    """
    optimum, groups, offset = rung.optimum, [], 0
    variance = np.var(optimum.factor.draw(rng, 200, border=True), axis=0) if optimum.factor is not None else None
    for group in grid_groups(rung.model):
        count = group.whitened.raw.size
        here = slice(offset, offset + count)
        offset += count
        knots = optimum.numbers[here]
        determined = max(count - float(np.sum(variance[here])), 0.0)
        ratio = float(group.amplitude.prior.median) / np.exp(float(group.amplitude.raw))
        factor = np.sqrt((knots @ knots + PSEUDO * ratio**2) / (determined + PSEUDO))
        factor = float(np.clip(factor, 1.0 / 3.0, 3.0))
        groups.append(
            eqx.tree_at(
                lambda g: (g.amplitude.raw, g.whitened.raw),
                group,
                (group.amplitude.raw + np.log(factor), group.whitened.raw / factor),
            )
        )
    return with_groups(rung.model, groups)


def _along_ladder(
    best: Rung, k: int, count: int, other: Callable[[MarkovGP, int], Rung], rng: np.random.Generator
) -> dict[int, Rung]:
    """Rungs around the one of the largest evidence, by number: lengthscales of the frequencies, up and then down."""
    rungs = {k: best}
    for direction in (-1, 1):
        at = k
        while 0 <= at + direction < count:
            rungs[at + direction] = _settled(other(rungs[at].model, at + direction), rng)
            at += direction
            if not rungs[at].evidence > rungs[at - direction].evidence:
                break
        if at != k + direction:  # it rose at least once: the other side lies lower
            break
    return rungs


def _resmoothed(model: MarkovGP, start: InitialValues, smoothness: float, *, long: bool = False) -> MarkovGP:
    """The same functions, with frequencies of another lengthscale a priori."""
    groups, places = grid_groups(model), _frequency_groups(model)
    found = np.concatenate([groups[place](start.centres) for place in places], axis=1) / (2.0 * np.pi)
    # Rows say more of a frequency that was fitted than they did before.
    now = dataclasses.replace(start, frequency=found, gain=np.full(start.gain.shape, FITTED))
    fresh = grid_groups(markov_from(now, smoothness, long=long))
    return with_groups(model, [fresh[k] if k in places else group for k, group in enumerate(groups)])


def _frequency_groups(model: MarkovGP) -> list[int]:
    """Which of the model's groups on grids are the frequencies."""
    places, before = [], 0
    for term in model.terms:
        for name in ("time", "phase", "amplitude"):
            count = len(grid_groups(getattr(term, name)))
            places += list(range(before, before + count)) if name == "phase" else []
            before += count
    return places


def _frequencies(model: MarkovGP) -> list[GridFunctionGroup]:
    groups = grid_groups(model)
    return [groups[k] for k in _frequency_groups(model)]


# Rows that are closer than the signal needs


def _thinned(initial: InitialValues, data: Data) -> tuple[Data, float]:
    """Means of so many neighbouring rows of an even record that every cycle still has enough; and what they hide.

    That is the variance of rows around such a mean, but for the change of the signal meanwhile.

    What oscillates so slowly is nearly the same in all of them. Times that are uneven stay as they are: means of
    different numbers of rows would have different noise.
    """
    X = np.asarray(data.X)[:, 0]
    order = np.argsort(X, kind="stable")
    steps = np.diff(X[order])
    if not np.any(initial.found) or len(steps) < 2 * LEAST or np.min(steps) < 0.99 * np.max(steps):
        return data, 0.0
    seen = np.where(initial.gain > 0, initial.frequency[..., 0] * initial.harmonics, 0.0)
    together = int(1.0 / (ROWS_A_CYCLE * 1.2 * np.max(seen) * np.mean(steps)))
    together = min(together, data.size // LEAST)
    if together < 2:
        return data, 0.0
    count = data.size // together
    rows = order[: count * together].reshape(count, together)
    X, y, error = (np.asarray(part)[rows] for part in (data.X[:, 0], data.y, data.error))
    # Differences of neighbours leave out what changes slowly.
    inside = max(0.5 * float(np.mean(np.diff(y, axis=1) ** 2)) - float(np.mean(error**2)), 0.0) * (1.0 - 1.0 / together)
    return Data(X.mean(axis=1), y.mean(axis=1), np.sqrt(np.mean(error**2, axis=1) / together)), inside


def _for_single_rows(rung: Rung, inside: float) -> Rung:
    """A fit to means of rows as one of single rows: the noise has in it what the means hide."""
    numbers = rung.optimum.numbers.copy()
    place = rung.lanes.number_of(lambda m: m.likelihood.noise.raw)
    numbers[place] = 0.5 * np.log(np.exp(2.0 * numbers[place]) + inside)
    return rung._replace(optimum=rung.optimum._replace(numbers=numbers))


# Long records


def _blocks(model: MarkovGP, data: Data) -> Timeline:
    """Blocks that have few knots each, of a number of rows that is nearly always the same."""
    spacing = min(float(group.spacing) for group in grid_groups(model))
    rate = data.size / max(float(np.ptp(data.X)), 1e-300)
    own = int(np.clip(CELLS * spacing * rate, *OWN))
    return Timeline.of(data, own=own, warm_up=own // 3, longest=2.0 * own / rate)


def _part(start: InitialValues, data: Data) -> tuple[Data, InitialValues]:
    """A stretch of the record in which there is something, and what was found in it."""
    X = np.asarray(data.X)[:, 0]
    order = np.argsort(X, kind="stable")
    worth = np.cumsum(np.append(0.0, np.sum(start.gain, axis=1)))
    wide = PART / data.size * np.ptp(X)
    centres = start.centres[:, 0]
    sums = worth[np.searchsorted(centres, centres + wide)] - worth[:-1]
    # A typical stretch, not the best: half of them are worth more.
    typical = int(np.argsort(sums)[len(sums) // 2])
    first = min(int(np.searchsorted(X[order], centres[typical])), data.size - PART)
    rows = order[first : first + PART]
    some = Data(*(np.asarray(part)[rows] for part in (data.X, data.y, data.error)))
    low, high = float(some.X.min()), float(some.X.max())
    inside = (centres >= low) & (centres <= high)
    cut = {name: getattr(start, name)[inside] for name in ("centres", "frequency", "amplitude", "lengthscale", "gain")}
    return some, dataclasses.replace(start, extent=np.array([[low], [high]]), others=(), rows=PART, **cut)


def _chosen_in_part(start: InitialValues, part: Data, scales: np.ndarray, rng: np.random.Generator) -> Rung:
    """The lengthscale of the frequencies that has the largest evidence in a part of the record."""

    def built(model: MarkovGP) -> Rung:
        return _climb(*_lanes(model, _blocks(model, part)), 0)

    def other(model: MarkovGP, k: int) -> Rung:
        return built(_resmoothed(model, start, scales[k], long=True))

    middle = len(scales) // 2
    first = _settled(built(markov_from(start, scales[middle], long=True)), rng)
    rungs = _along_ladder(first, middle, len(scales), other, rng)
    return max(rungs.values(), key=lambda rung: rung.evidence)


def _as_fitted(model: MarkovGP, fitted: MarkovGP) -> MarkovGP:
    """A model with the amplitudes of functions and the noise of one fitted to a part of the record."""
    groups = []
    for group, other in zip(grid_groups(model), grid_groups(fitted), strict=True):
        ratio = np.exp(float(other.amplitude.raw - group.amplitude.raw))
        groups.append(
            eqx.tree_at(
                lambda g: (g.amplitude.raw, g.whitened.raw), group, (other.amplitude.raw, group.whitened.raw / ratio)
            )
        )
    return eqx.tree_at(lambda m: m.likelihood, with_groups(model, groups), fitted.likelihood)


def _mended(rung: Rung, others: list[MarkovGP]) -> Rung:
    """Blocks that are far less likely than others begin again where other windows saw the frequency.

    A lost cycle is a mode of its own, which no optimiser leaves; but it lies in one place, and so can be mended there.
    """
    for other in others:
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
        trial = _climb(lanes, lanes.at(np.where(replaced, lanes.join(other), numbers)), THEN)
        if trial.optimum.log_joint > rung.optimum.log_joint:
            rung = _climb(lanes, trial.model, THEN)
    return rung


def _poor(lanes: Lanes, values: np.ndarray) -> np.ndarray:
    """Which blocks have a log likelihood a row far below that of most."""
    each = values / np.maximum(np.sum(lanes.timeline.weight, axis=0), 1.0)
    middle = np.median(each)
    spread = 1.4826 * np.median(np.abs(each - middle))
    return np.asarray(each < middle - POOR * spread)


def _mixture(rungs: list[Rung], draws: int, rng: np.random.Generator) -> Posterior:
    """Draws of the normal approximations at all rungs, each as often as its evidence says: nested Laplace."""
    weight = np.exp([rung.evidence - rungs[0].evidence for rung in rungs])
    counts = np.diff(np.round(draws * np.append(0.0, np.cumsum(weight)) / weight.sum()).astype(int))
    stacks, densities = [], []
    for rung, count in zip(rungs, counts, strict=True):
        if count:
            moves = rung.optimum.factor.draw(rng, int(count), border=True)
            stacks.append(_stack(rung, rung.optimum.numbers + moves))
            densities += [rung.evidence] * count
    order = rng.permutation(len(densities))
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves)[None, order], *stacks)
    return Posterior(joined, _moving(rungs[0].model)[1], np.asarray(densities)[None, order], {})


def _stack(rung: Rung, numbers: np.ndarray) -> Any:
    """What differs between draws, for ``numbers [s, n]`` of them: leaves ``[s, ...]``."""
    one, many = _moving(rung.model)[0], _moving(rung.lanes.at(numbers))[0]

    def stacked(leaf: Any, plain: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        return leaf if leaf.ndim > np.ndim(plain) else np.broadcast_to(leaf, (len(numbers), *leaf.shape))

    return jax.tree.map(stacked, many, one)


def _moving(model: MarkovGP) -> tuple[Any, Any]:
    """What differs between draws, and the rest: all free numbers, and the grids and priors of functions."""
    free, rest = partition(model, "latent", "hyperparameter")

    def others(tree: Any) -> list[Any]:
        return [leaf for group in grid_groups(tree) for leaf in (group.origin, group.spacing, group.lengthscale.raw)]

    free = eqx.tree_at(others, free, others(rest), is_leaf=lambda leaf: leaf is None)
    return free, eqx.tree_at(others, rest, replace_fn=lambda _: None)
