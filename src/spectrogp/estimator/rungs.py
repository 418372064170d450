"""Steps of fits of Markov models: to an optimum, to likelier amplitudes, along a ladder of lengthscales."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core import with_fields
from ..inference import Curvature, Optimum, Progress, newton
from ..initialise import InitialValues, markov_from
from ..models import ChannelGP, Data, Lanes, MarkovGP, Timeline, grid_groups, with_groups
from ..parameters import GridFunctionGroup

THEN, LAST = 6, 25  # steps of Newton's method: after a change of the prior, and to the end
LARGER = 2.0 ** np.arange(8)  # times the noise that was found, with which a search may begin
PSEUDO = 2.0  # knots that the prior of an amplitude counts as: its logarithm has a standard deviation of one half
RISES = 0.1  # nats of evidence that amplitudes nearer to the likeliest must gain to be improved again
NEARLY = 2.5  # nats below the best at which a rung of a ladder still has neighbours that count in a mixture
FURTHER = 2  # rungs, on either side: of more that are as likely bands are as wide
SAME = 0.01  # error of the logarithm of a frequency that functions of another lengthscale follow
NODES = 32  # to a knot, between which frequencies are integrated
FITTED = 50.0  # nats that a fitted frequency counts for, where it is to be followed


Channels: TypeAlias = tuple[Data, ...]  # rows of every channel; of a single output one


class Rung(NamedTuple):
    """A model at its optimum, with what is known of it."""

    lanes: Lanes
    optimum: Optimum

    @property
    def model(self) -> Any:
        return self.lanes.at(self.optimum.numbers)

    @property
    def evidence(self) -> float:
        """Log marginal likelihood with the prior of the amplitudes of functions, which the optimum holds fixed."""
        logarithms = [
            (float(group.amplitude.raw) - np.log(float(group.amplitude.prior.median)))
            / float(group.amplitude.prior.std)
            for group in grid_groups(self.lanes.model)
        ]
        return self.optimum.evidence - 0.5 * float(np.sum(np.square(logarithms)))


@dataclasses.dataclass
class Work:
    """What all steps of a fit share: and what they may still cost together (``Lanes.work``)."""

    rng: np.random.Generator
    progress: Progress | None
    left: float = np.inf

    @property
    def spent(self) -> bool:
        return self.left <= 0.0

    def search(self, lanes: Lanes, numbers: np.ndarray, **options: Any) -> Rung:
        """By Newton's method, as far as there is work left."""
        before = lanes.work
        found = newton(lanes, numbers, most=self.left, progress=self.progress, **options)
        self.left -= lanes.work - before
        return Rung(lanes, found)


def side_by_side(data: Channels, **options: Any) -> Timeline:
    """Blocks of all channels."""
    return Timeline.side_by_side([Timeline.of(part, **options) for part in data])


def with_lanes(model: MarkovGP | ChannelGP, timeline: Timeline) -> tuple[Lanes, MarkovGP | ChannelGP]:
    return Lanes(model, timeline), model


def noises(model: Any) -> tuple[Any, ...]:
    """The likelihood of every channel."""
    return model.likelihoods if isinstance(model, ChannelGP) else (model.likelihood,)


def noise_places(lanes: Lanes) -> np.ndarray:
    """The places of the noise of every channel in the vector of all numbers."""

    def place(channel: int) -> int:
        return lanes.number_of(lambda m: noises(m)[channel].noise.raw)

    return np.array([place(channel) for channel in range(len(lanes.model.channels))])


def with_likely_noise(lanes: Lanes, model: MarkovGP | ChannelGP) -> MarkovGP | ChannelGP:
    """A model to begin with, whose noise has in it what it does not explain yet.

    Noise is found beside what windows saw, which functions follow less closely: taken for certain, what they miss would
    throw the first steps far off.
    """
    numbers, places = lanes.join(model), noise_places(lanes)
    trials = np.tile(numbers, (len(LARGER), 1))
    trials[:, places] += np.log(LARGER)[:, None]
    blocks = np.tile(np.arange(lanes.count), len(LARGER))
    values = lanes.evaluate(blocks, trials[:, lanes.members].reshape(len(blocks), -1))[0].reshape(len(LARGER), -1)
    totals = [np.sum(each) + lanes.log_prior(trial)[0] for each, trial in zip(values, trials, strict=True)]
    return lanes.at(trials[int(np.argmax(np.where(np.isfinite(totals), totals, -np.inf)))])


def climb(work: Work, lanes: Lanes, model: MarkovGP | ChannelGP, steps: int, known: Curvature | None = None) -> Rung:
    """To the optimum, or as far as so many steps lead."""
    return work.search(lanes, lanes.join(model), steps=steps, known=known)


def approach(
    work: Work,
    lanes: Lanes,
    model: MarkovGP | ChannelGP,
    steps: int,
    least: float = -np.inf,
    known: Curvature | None = None,
) -> Rung:
    """The same for a place from which another search begins, or to be compared: its evidence is not exact."""
    return work.search(lanes, lanes.join(model), steps=steps, least=least, exact=False, known=known)


def most_evidence(lanes: Lanes) -> float:
    """By how much the log evidence of an optimum can be above its log joint density.

    Minus the Hessian there is at least that of the prior.
    """
    return 0.5 * float(np.log(2.0 * np.pi)) * (lanes.knots + lanes.border)


def at_optimum(
    work: Work, lanes: Lanes, model: MarkovGP, beaten: float = -np.inf, known: Curvature | None = None
) -> Rung | None:
    """Nearly the optimum, to be settled; nothing where its evidence could not come near to ``beaten``."""
    most = most_evidence(lanes)
    rung = approach(work, lanes, model, LAST, beaten - most, known)
    return None if rung.optimum.log_joint + most < beaten else rung


def settled(work: Work, rung: Rung) -> Rung:
    """A rung that is at its optimum, with amplitudes of the functions that the data tell."""
    model, sizes = _with_amplitudes(rung, work)
    known = rung.optimum.curvature.stretched(sizes[rung.lanes.members])
    return climb(work, Lanes(model, rung.lanes.timeline), model, THEN, known)


def resettled(work: Work, rung: Rung) -> Rung:
    """The same again as long as its evidence rises: what other rungs of a ladder do on the way, where there is none."""
    while not work.spent:
        again = settled(work, rung)
        if not again.evidence > rung.evidence + RISES:
            break
        rung = again
    return rung


def _with_amplitudes(rung: Rung, work: Work) -> tuple[Any, np.ndarray]:
    """Amplitudes of the functions nearer to where the evidence is largest, and how much of its old unit a number's is.

    MacKay's (1992) step: a² is the sum of the squares of the knots over the number of directions that the data
    determine, which is the number of knots less the sum of their variances. The functions stay as they are.
    """
    optimum, groups, offset = rung.optimum, [], 0
    variance = np.var(optimum.factor.draw(work.rng, 200, border=True), axis=0)
    sizes = np.ones(len(optimum.numbers))
    for group in grid_groups(rung.model):
        count = group.whitened.raw.size
        here = slice(offset, offset + count)
        offset += count
        knots = optimum.numbers[here]
        determined = max(count - float(np.sum(variance[here])), 0.0)
        ratio = float(group.amplitude.prior.median) / np.exp(float(group.amplitude.raw))
        factor = np.sqrt((knots @ knots + PSEUDO * ratio**2) / (determined + PSEUDO))
        sizes[here] = factor = float(np.clip(factor, 1.0 / 3.0, 3.0))
        amplitude = with_fields(group.amplitude, raw=group.amplitude.raw + np.log(factor))
        whitened = with_fields(group.whitened, raw=group.whitened.raw / factor)
        groups.append(with_fields(group, amplitude=amplitude, whitened=whitened))
    return with_groups(rung.model, groups), sizes


def along_ladder(
    best: Rung, k: int, count: int, other: Callable[[Any, int], tuple[Lanes, Any]], work: Work
) -> dict[int, Rung]:
    """Rungs around the one of the largest evidence, by number: lengthscales of the frequencies, up and then down."""
    rungs = {k: best}
    for direction in (-1, 1):
        at, rises = k, True
        while rises and 0 <= at + direction < count and not work.spent:
            found = at_optimum(work, *other(rungs[at].model, at + direction), rungs[at].evidence)
            if found is None:
                break
            at += direction
            rungs[at] = settled(work, found)
            rises = rungs[at].evidence > rungs[at - direction].evidence
        if abs(at - k) > 1:  # it rose at least once: the other side lies lower
            break
    return rungs


def further_along(
    rungs: dict[int, Rung], count: int, other: Callable[[Any, int], tuple[Lanes, Any]], work: Work
) -> dict[int, Rung]:
    """With some rungs on both sides of those of a ladder, as long as they are nearly as likely as the best."""
    rungs = dict(rungs)
    for direction, end in ((-1, min(rungs)), (1, max(rungs))):
        at = end
        while 0 <= at + direction < count and abs(at - end) < FURTHER and not work.spent:
            least = max(rung.evidence for rung in rungs.values()) - NEARLY
            if not rungs[at].evidence > least:
                break
            found = at_optimum(work, *other(rungs[at].model, at + direction), least)
            if found is None:
                break
            at += direction
            rungs[at] = settled(work, found)
    return rungs


def resmoothed(model: Any, start: InitialValues, smoothness: float, *, long: bool = False) -> Any:
    """The same functions, with frequencies of another lengthscale a priori."""
    groups, places = grid_groups(model), frequency_groups(model)
    found = np.exp(np.concatenate([groups[place].unwarped(start.centres) for place in places], axis=1)) / (2.0 * np.pi)
    # Rows say more of a frequency that was fitted than they did before.
    now = dataclasses.replace(start, frequency=found, gain=np.full(start.gain.shape, FITTED))
    fresh = dict(zip(places, frequencies(markov_from(now, smoothness, long=long)), strict=True))
    low, high = start.extent[:, 0]
    for place, group in fresh.items():  # everywhere: a phase is lost by what differs between centres
        count = int(3.0 * (high - low) / float(min(group.spacing, groups[place].spacing)))
        X = np.linspace(low, high, count)[:, None]
        fresh[place] = group.fitted_to(X, np.exp(groups[place].unwarped(X)), SAME)
    return with_groups(model, [fresh.get(k, group) for k, group in enumerate(groups)])


def frequency_groups(model: MarkovGP | ChannelGP) -> list[int]:
    """Which of the model's groups on grids are the frequencies."""
    places, before = [], 0
    for term in model.terms:
        for name in ("time", "phase", "amplitude"):
            count = len(grid_groups(getattr(term, name)))
            places += list(range(before, before + count)) if name == "phase" else []
            before += count
    return places


def frequencies(model: MarkovGP | ChannelGP) -> list[GridFunctionGroup]:
    groups = grid_groups(model)
    return [groups[k] for k in frequency_groups(model)]


def phases(group: Any, x: np.ndarray) -> np.ndarray:
    """Phases ``[n, a]`` of components at inputs, from zero at the first."""
    low, high = float(np.min(x)), float(np.max(x))
    nodes = np.linspace(low, high, NODES * int(np.ceil((high - low) / float(group.spacing))) + 2)
    frequency = np.exp(group.unwarped(nodes[:, None]))[..., 0]
    rise = 0.5 * (frequency[1:] + frequency[:-1]) * (nodes[1] - nodes[0])
    total = np.concatenate([np.zeros_like(rise[:1]), np.cumsum(rise, axis=0)])
    return np.column_stack([np.interp(x, nodes, column) for column in total.T])
