"""Fits of the Markov model to one input: candidates, hyperparameters by evidence, optimum, and a mixture of normals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..inference import Optimum, Progress, newton
from ..initialise import InitialValues, markov_from
from ..models import Data, Lanes, MarkovGP, Timeline, grid_groups, with_groups
from ..parameters import GridFunctionGroup, partition
from ..posterior import Posterior

SHORT = 2500  # rows up to which all of them are one block
LADDER = 2.0 ** (0.5 * np.arange(2, -6, -1))  # lengthscales of the frequencies, in standard deviations of the inputs
BEGIN = 3  # the one on the ladder that candidates are compared at: half a standard deviation
FIRST, THEN, LAST = 8, 6, 25  # steps of Newton's method: of candidates, after a change of the prior, to the end
APART = 0.3  # nats by which candidates that end at the same place may differ
NEGLIGIBLE = 4.0  # nats below the best at which a rung of the ladder is left out of the mixture
PSEUDO = 2.0  # knots that the prior of an amplitude counts as: its logarithm has a standard deviation of one half


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
    rng = np.random.default_rng(seed)
    timeline = Timeline.of(data)
    scale = float(initial.scale[0])

    def begun(start: InitialValues, k: int) -> Rung:
        model = markov_from(start, LADDER[k] * scale)
        return _climb(Lanes(model, timeline), model, FIRST)

    candidates = [(begun(start, BEGIN), start) for start in initial.ridges()[:n_starts]]
    candidates.sort(key=lambda pair: -pair[0].optimum.log_joint)
    kept = [candidates[0]]
    kept += [pair for pair in candidates[1:2] if kept[0][0].optimum.log_joint - pair[0].optimum.log_joint > APART]
    settled = [(_settled(rung, rng), start) for rung, start in kept]
    best, start = max(settled, key=lambda pair: pair[0].evidence)
    rungs = _along_ladder(best, start, BEGIN, timeline, rng)
    ranked = sorted(rungs.values(), key=lambda rung: -rung.evidence)
    ranked[0] = _climb(ranked[0].lanes, ranked[0].model, LAST)
    top = ranked[0]
    mixed = [rung for rung in ranked if top.evidence - rung.evidence < NEGLIGIBLE and rung.optimum.factor is not None]
    posterior = Posterior.at_point(top.model) if draws == 1 or not mixed else _mixture(mixed, draws, rng)
    return MarkovFit(top.model, posterior, np.asarray(top.optimum.history) / data.size, _unfinished(top.optimum))


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
    best: Rung, start: InitialValues, k: int, timeline: Timeline, rng: np.random.Generator
) -> dict[int, Rung]:
    """Rungs around the one of the largest evidence, by number: lengthscales of the frequencies, up and then down."""
    rungs = {k: best}
    for direction in (-1, 1):
        at = k
        while 0 <= at + direction < len(LADDER):
            other = _resmoothed(rungs[at].model, start, LADDER[at + direction])
            rungs[at + direction] = _settled(_climb(Lanes(other, timeline), other, 0), rng)
            at += direction
            if not rungs[at].evidence > rungs[at - direction].evidence:
                break
    return rungs


def _resmoothed(model: MarkovGP, start: InitialValues, smoothness: float) -> MarkovGP:
    """The same functions, with frequencies of another lengthscale a priori."""
    groups = grid_groups(model)
    place = _frequency_group(model)
    # Rows say more of a frequency that was fitted than they did before.
    now = dataclasses.replace(
        start, frequency=groups[place](start.centres) / (2.0 * np.pi), gain=np.full(start.gain.shape, 50.0)
    )
    fresh = grid_groups(markov_from(now, smoothness * float(start.scale[0])))[place]
    return with_groups(model, [fresh if k == place else group for k, group in enumerate(groups)])


def _frequency_group(model: MarkovGP) -> int:
    """Which of the model's groups on grids are the frequencies."""
    wanted = model.kernel.phase.frequency
    return next(k for k, group in enumerate(grid_groups(model)) if group is wanted)


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
