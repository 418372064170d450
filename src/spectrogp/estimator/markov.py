"""Fits of the Markov model to one input: candidates, hyperparameters by evidence, optimum, and a mixture of normals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jax import Array

from ..core import entry_point, with_fields
from ..inference import CONVERGED, Optimum, Progress
from ..initialise import (
    HARMONICS,
    InitialValues,
    are_pulses,
    fundamentals,
    likely_smoothness,
    markov_from,
    smoothness_served,
)
from ..kernels import Sum
from ..models import ChannelGP, Data, Lanes, MarkovGP, Timeline
from ..posterior import Posterior
from .integrated import with_likeliest_noise, with_sizes
from .long import fit_long
from .mixture import for_single_rows, mixture, without_offset
from .optima import NEGLIGIBLE, distinct, told_optima, top, with_other_cycles
from .roughness import smooth_or_rough
from .rungs import (
    FITTED,
    LAST,
    Channels,
    Rung,
    Work,
    along_ladder,
    approach,
    at_optimum,
    climb,
    frequencies,
    further_along,
    most_evidence,
    resettled,
    resmoothed,
    settled,
    side_by_side,
    with_lanes,
    with_likely_noise,
)

SHORT = 2500, 1000  # rows up to which all of them are one block, and those of pulses, whose Hessians cost most
LADDER = 2.0 ** (0.5 * np.arange(2, -12, -1))  # lengthscales of the frequencies, in standard deviations of the inputs
BEGIN = 3  # where candidates are compared, unless what was found changes faster: about two thirds of one
FIRST = 8  # steps of Newton's method of candidates
APART = 0.3  # nats by which candidates that end at the same place may differ
DOUBTFUL = 10.0  # nats below the best at which a candidate may be above it with frequencies of another lengthscale
ROWS_A_CYCLE, LEAST = 4.0, 256  # that are left of an even record that has more
DIFFERENCES = 4  # order of those that tell the noise: of a cycle of ten rows they have 0.04 % of its variance
PERIODS = 0.5  # of the slowest component that changes: red noise that is faster may be what windows missed
LEFT, LEFT_A_ROW = 3e9, 6e5  # work (``Lanes.work``) of a fit, some 40 CPU seconds, and of one of many rows, of each
ROWS_DRAWN = 2 * 10**7  # rows times draws of a long record: to read a draw takes as long as there are rows


class MarkovFit(NamedTuple):
    """The model at its optimum and draws of its posterior, for outputs less ``offset``; and how it went."""

    model: MarkovGP | ChannelGP
    posterior: Posterior
    offset: np.ndarray  # [c], of every channel
    history: np.ndarray
    cut_short: list[str]
    likeliest: Rung  # of the rows that were fitted to
    optima: list[str]  # what is to be said of those that draws are of

    def evidence(self, data: Data) -> float:
        """Log marginal likelihood of all rows, less the offset; where some or means were fitted to, by what these say.

        These tell of functions and hyperparameters what all do: what is integrated out is as wide.
        """
        lanes, model = self.likeliest.lanes, self.model.channels[0]
        if np.sum(lanes.timeline.weight) == data.size:
            return self.likeliest.evidence
        seen = float(np.sum(lanes.log_likelihoods(self.likeliest.optimum.numbers)[0]))
        return self.likeliest.evidence - seen + float(_log_likelihood(model, model.prepare(data, data.X)))


def fit_markov(
    initial: InitialValues, data: Channels, *, draws: int, seed: int, n_starts: int, progress: Progress | None = None
) -> MarkovFit:
    """Fit standardised data of one input.

    Args:
        initial: What was found in them.
        data: The data of every channel, of a single output one.
        draws: Of the posterior; one for the optimum alone.
        seed: Of the draws.
        n_starts: Candidates that are compared, at most.
        progress: What shows it.
    """
    given = data
    data, inside = _thinned(initial, given)
    doubtful = initial
    if len(data) == 1:
        initial, doubtful = _without_doubtful_background(initial)
    rows = max(part.size for part in data)
    work = Work(np.random.default_rng(seed), progress, max(LEFT, LEFT_A_ROW * sum(part.size for part in data)))
    if rows > SHORT[are_pulses(initial)] and np.any(initial.found):
        rungs = fit_long(initial, data, n_starts, work)
        draws = min(draws, max(ROWS_DRAWN // rows, 50))  # each takes as long to read as there are rows
    else:
        # Where nothing oscillates some rows tell how smooth and how noisy the rest is; predictions have all of them.
        data = tuple(_some(part) for part in data)

        def short(rough: bool) -> list[Rung]:
            return _fit_short(initial, data, n_starts, work, rough)

        every = smooth_or_rough(short, initial, data, work)
        if len(data) == 1:
            every = [_with_doubtful_background(rungs, doubtful, work) for rungs in every]
        rungs = max(every, key=lambda rungs: rungs[0].evidence)
    likeliest, parts = rungs[0], []
    if draws > 1:
        parts = [with_likeliest_noise(part, work.rng) for rung in rungs for part in with_sizes(rung)]
    top = likeliest
    if np.any(inside):
        numbers = for_single_rows(top, top.optimum.numbers, inside)
        top = top._replace(optimum=top.optimum._replace(numbers=numbers))
    offset = np.array([float(one.offset.value) for one in top.model.channels])
    centred = without_offset(top.model)
    posterior = mixture(parts, draws, work, inside) if parts else Posterior.at_point(centred)
    optima = told_optima(parts) if parts and parts[0].lanes.whole else []
    fitted, whole = (sum(part.size for part in parts) for parts in (data, given))
    history = np.asarray(top.optimum.history) / fitted
    unfinished = _unfinished(top.optimum)
    if work.spent:
        unfinished.append(
            "optimum: it took as much work as a fit to so many rows may, and what was not compared by then was left "
            "out; fewer components (n_components) cost less"
        )
    if not np.any(inside) and fitted < whole:
        unfinished.append(f"optimum: nothing significant was found, and {fitted} of {whole} rows were fitted to")
    return MarkovFit(centred, posterior, offset, history, unfinished, likeliest, optima)


@entry_point
@eqx.filter_jit
def _log_likelihood(model: MarkovGP, timeline: Timeline) -> Array:
    return model.realise().log_likelihood(timeline, None)


def _some(data: Data) -> Data:
    """At most as many rows as make one block, evenly spread."""
    order = np.argsort(np.asarray(data.X)[:, 0], kind="stable")
    rows = order[np.linspace(0, data.size - 1, min(data.size, SHORT[0])).astype(int)]
    return Data(*(np.asarray(part)[rows] for part in (data.X, data.y, data.error)))


def _fit_short(initial: InitialValues, data: Channels, n_starts: int, work: Work, rough: bool) -> list[Rung]:
    """All rows in one block; the rungs of the ladder that count, the best first."""
    timeline = side_by_side(data)
    if not np.any(initial.found) and len(initial.background_amplitude):
        return [climb(work, *with_lanes(markov_from(initial, float(initial.scale[0])), timeline), LAST)]
    scales = smoothness_served(initial, LADDER * float(initial.scale[0]))
    if np.any(initial.found) and not np.any(initial.changing):  # lines are not followed, and have one smoothness
        n_starts, scales = 1, scales[:1]
    first = max(likely_smoothness(initial, scales), min(BEGIN, len(scales) - 1))

    def begun(start: InitialValues, loose: bool = False, least: float = -np.inf) -> tuple[Rung, InitialValues]:
        lanes, model = with_lanes(markov_from(start, scales[first], loose=loose, rough=rough), timeline)
        return approach(work, lanes, with_likely_noise(lanes, model), FIRST, least), start

    def finished(pair: tuple[Rung, InitialValues], beaten: float = -np.inf) -> list[tuple[Rung, InitialValues]]:
        rung: Rung | None = pair[0]
        if pair[0].optimum.decrement > CONVERGED:
            rung = at_optimum(work, pair[0].lanes, pair[0].model, beaten, pair[0].optimum.curvature)
        return [] if rung is None else [(settled(work, rung), pair[1])]

    def other_of(start: InitialValues) -> Callable[[Any, int], tuple[Lanes, Any]]:
        return lambda model, k: with_lanes(resmoothed(model, start, scales[k]), timeline)

    candidates: list[tuple[Rung, InitialValues]] = []
    for start in initial.ridges()[:n_starts]:
        if candidates and work.spent:
            break
        candidates.append(begun(start, least=max(map(_density, candidates), default=-np.inf)))
    count = len(candidates)
    if n_starts > 1 and not work.spent:
        best = max(candidates, key=_density)
        loose = begun(initial, loose=True)
        rising = best[0].optimum.decrement
        # Higher than the best would come to: not the same place before its end.
        if _density(loose) > _density(best) + APART + (rising if np.isfinite(rising) else 0.0):
            candidates.append(begun(_unwound(loose[0].model, initial, data)))
            count += 1
            candidates.append(loose)
    # The best of those that began coherent, by their evidence, and the best of all, where that is another one.
    coherent = sorted(candidates[:count], key=_density)[::-1]
    coherent = coherent[:1] + [pair for pair in coherent[1:] if not _hopeless(pair[0], coherent[0][0])]
    compared = finished(coherent[0])
    if len(coherent) > 1 and not work.spent and _density(coherent[0]) - _density(coherent[1]) > APART:
        compared += finished(coherent[1], compared[0][0].evidence)
    most = max(pair[0].evidence for pair in compared)
    kept = [pair for pair in compared if pair[0].evidence >= most - DOUBTFUL]
    if not work.spent and _density(candidates[-1]) - _density(coherent[0]) > APART:
        kept += finished(candidates[-1])
    if len(scales) == 1:
        kept = [(resettled(work, rung), start) for rung, start in kept]
    ladders = [(along_ladder(rung, first, len(scales), other_of(start), work), start) for rung, start in kept]
    highest, start = max(ladders, key=lambda pair: top(pair[0]).evidence)
    found = [ladder for ladder, _ in ladders]
    if np.any(initial.changing):
        found += with_other_cycles(highest, len(scales), other_of(start), work)
    rungs = [further_along(ladder, len(scales), other_of(start), work) for ladder in distinct(found)]
    return _that_count([rung for ladder in rungs for rung in ladder.values()], work)


def _that_count(rungs: list[Rung], work: Work) -> list[Rung]:
    """The best, at its optimum, and those that are nearly as likely."""
    ranked = sorted(rungs, key=lambda rung: -rung.evidence)
    if ranked[0].optimum.decrement > CONVERGED:
        first = ranked[0]
        ranked[0] = climb(work, first.lanes, first.model, LAST, first.optimum.curvature)
    return ranked[:1] + [rung for rung in ranked[1:] if ranked[0].evidence - rung.evidence < NEGLIGIBLE]


# A background that may be none


def _without_doubtful_background(initial: InitialValues) -> tuple[InitialValues, InitialValues]:
    """Initial values without a background that is weaker than the noise, or fast; and that alone.

    Beside a frequency that changes it may be no more than what windows missed of it, which turns as fast as this does:
    whether it is there shows after the fit.
    """
    changing = initial.changing
    slowest = float(np.min(np.mean(initial.frequency[:, changing, 0], axis=0))) if np.any(changing) else np.inf
    slow = initial.background_lengthscale[:, 0] * slowest > PERIODS
    slow |= not np.all(np.isinf(initial.lengthscale[:, changing]))  # a band would take the background in
    strong = ((initial.background_amplitude > initial.noise) & slow) | (not np.any(initial.found))
    # What is left out is noise until then: far less of it than there is leads searches astray.
    noise = float(np.hypot(initial.noise, np.linalg.norm(initial.background_amplitude[~strong])))
    return tuple(  # type: ignore[return-value]
        dataclasses.replace(
            initial,
            noise=whole,
            background_amplitude=initial.background_amplitude[chosen],
            background_lengthscale=initial.background_lengthscale[chosen],
            background_order=initial.background_order[chosen],
        )
        for chosen, whole in ((strong, noise), (~strong, initial.noise))
    )


def _with_doubtful_background(rungs: list[Rung], doubtful: InitialValues, work: Work) -> list[Rung]:
    """With a background that may be none, where the evidence says so."""
    if not len(doubtful.background_amplitude):
        return rungs
    nothing = dataclasses.replace(doubtful, gain=np.zeros_like(doubtful.gain))
    more = markov_from(nothing, float(doubtful.scale[0])).terms

    def beside(rung: Rung, terms: Any, likelihood: Any) -> Rung:
        model = with_fields(rung.model, kernel=Sum(*rung.model.terms, *terms), likelihood=likelihood)
        return climb(work, *with_lanes(model, rung.lanes.timeline), LAST)

    found = beside(rungs[0], more, rungs[0].model.likelihood)
    if found.evidence < rungs[0].evidence:
        return rungs
    fitted = found.model
    return _that_count(
        [found, *(beside(rung, fitted.terms[-len(more) :], fitted.likelihood) for rung in rungs[1:])], work
    )


def _hopeless(rung: Rung, best: Rung) -> bool:
    """Whether a candidate's search was given up, and its evidence, were it an optimum, could not reach the best."""
    given_up = rung.optimum.decrement > CONVERGED and len(rung.optimum.history) <= FIRST
    return given_up and rung.optimum.log_joint + most_evidence(rung.lanes) < best.optimum.log_joint


def _density(pair: tuple[Rung, InitialValues]) -> float:
    return pair[0].optimum.log_joint


def _unwound(model: MarkovGP | ChannelGP, initial: InitialValues, data: Channels) -> InitialValues:
    """Initial values with frequencies that have in them what the envelopes turn by: f = Re[(u − iv) e^{iφ}]."""
    low, high = initial.extent[:, 0]
    X = np.linspace(low, high, 8 * len(initial.centres))[:, None]
    turn = size = np.zeros((len(X), initial.gain.shape[1]))
    first = fundamentals(initial)  # which tell of their overtones, too
    for one, part in zip(model.channels, data, strict=True):
        mean = np.asarray(one.envelope(one.prepare(part, X), X)[0])[:, first]
        # How far it can be trusted shows in the size of the envelope.
        own = np.sum(mean**2, axis=-1)
        slope = np.gradient(-np.unwrap(np.arctan2(mean[..., 1], mean[..., 0]), axis=0), X[:, 0], axis=0)
        turn, size = (turn * size + slope * own) / (size + own + 1e-300), size + own
    frequency = initial.frequency.copy()
    fitted = np.exp(np.concatenate([group.unwarped(initial.centres) for group in frequencies(model)], axis=1))[..., 0]
    for a in range(frequency.shape[1]):
        near = (
            np.exp(-0.5 * ((initial.centres - X[:, 0]) / (initial.centres[1, 0] - initial.centres[0, 0])) ** 2)
            * size[:, a]
        )
        total = (fitted[:, a] + near @ turn[:, a] / np.sum(near, axis=1)) / (2.0 * np.pi)
        frequency[:, a, 0] = np.maximum(total, 0.3 * fitted[:, a] / (2.0 * np.pi))
    return dataclasses.replace(initial, frequency=frequency, gain=np.full(initial.gain.shape, FITTED))


def _unfinished(optimum: Optimum) -> list[str]:
    if optimum.decrement < 1.0:
        return []
    promise = "no end" if not np.isfinite(optimum.decrement) else f"{optimum.decrement:.3g} nats"
    return [f"optimum: Newton's method stopped where a further step promised {promise}; bands may be wrong"]


# Rows that are closer than the signal needs


def _thinned(initial: InitialValues, every: Channels) -> tuple[Channels, tuple[float, ...]]:
    """Means of so many neighbouring rows of an even record that every cycle still has enough; and what they hide.

    That is the variance of rows around such a mean, but for the change of the signal meanwhile.

    What oscillates so slowly is nearly the same in all of them. Times that are uneven stay as they are: means of
    different numbers of rows would have different noise. So do channels of which one misses some.
    """
    data, untouched = every[0], (every, (0.0,) * len(every))
    X = np.asarray(data.X)[:, 0]
    order = np.argsort(X, kind="stable")
    steps = np.diff(X[order])
    if not np.any(initial.found) or len(steps) < 2 * LEAST or np.min(steps) < 0.99 * np.max(steps):
        return untouched
    if any(not np.array_equal(part.X, data.X) for part in every):
        return untouched
    seen = np.where(initial.gain > 0, initial.frequency[..., 0] * np.minimum(initial.harmonics, HARMONICS), 0.0)
    # A single place that was seen wrongly is not to decide.
    fastest = np.quantile(np.max(seen, axis=1), 0.99)
    together = int(1.0 / (ROWS_A_CYCLE * 1.2 * fastest * np.mean(steps)))
    together = min(together, data.size // LEAST)
    if together < 2:
        return untouched
    count = data.size // together
    rows = order[: count * together].reshape(count, together)
    return tuple(zip(*(_means(part, rows) for part in every), strict=True))  # type: ignore[return-value]


def _means(data: Data, rows: np.ndarray) -> tuple[Data, float]:
    """Means of rows ``[n, k]``, and the variance of the noise that they hide."""
    X, y, error = (np.asarray(part)[rows] for part in (data.X[:, 0], data.y, data.error))
    together = rows.shape[1]
    # First differences have steps of the signal in them: of ten rows a cycle far more than of little noise.
    steps = np.diff(y.ravel(), DIFFERENCES)
    noise = float(np.mean(steps**2)) / math.comb(2 * DIFFERENCES, DIFFERENCES)
    inside = max(noise - float(np.mean(error**2)), 0.0) * (1.0 - 1.0 / together)
    return Data(X.mean(axis=1), y.mean(axis=1), np.sqrt(np.mean(error**2, axis=1) / together)), inside
