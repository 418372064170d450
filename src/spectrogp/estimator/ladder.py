"""Several inputs: a ladder of models, cheap ones first, each kept only if it predicts held-out training rows better.

A squared exponential with nearest neighbours; cycles along single inputs in what it leaves over; further squared
exponentials of other scales; noise that is a function of the input; amplitudes that are; lengthscales and frequencies
that are. A rung begins where the one before it ended, and its steps go on as long as they make predictions of the
held-out rows better. In the end all rows are fitted. Last come tails of new outputs, and rows far out count less.

Of large data, targets are rows of the later half of a random order, given neighbours before them: a conditional
density of half of the data given the other half, whose neighbours are about as close as those of predictions.
"""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from ..inference import Adam, Progress, Run, maximise, whole
from ..initialise import (
    InitialValues,
    Places,
    amplitudes_from,
    convolutional_from,
    find_cycles,
    find_reach,
    further_scales,
    noise_function,
    quadratic_from,
    smooth_kernel,
    usual_components,
    with_cycles,
)
from ..kernels import AbstractKernel
from ..models import Data, ExactGP, Gaussian, HeavyTailed, NeighbourGP, Neighbourhoods
from ..parameters import FunctionGroup, Positive, random_functions
from .choice import Choice, Rung, gain_of
from .settings import EXACT, Settings
from .tails import Tails, find_tails

# Rows that are held out: a fifth of few, and an eighth of many, at most. Steps and rungs that gain a hundredth of a nat
# are worth having, and fewer rows could not tell.
HELD_OUT, AT_MOST = 2000, 5000
SOME = 500  # of them by which beginnings are compared
TARGETS = 16_384  # rows, at most, that a stage of steps takes its targets from
ALL = 10_000  # rows up to which targets are taken from the whole order
STAGE, AVERAGE = 100, 60  # steps between two looks at the held-out rows; their last ones are averaged
LAST = 3  # stages with all rows, whose models predict together where there are too many rows for draws
BATCH = 512
FAST, CAREFUL = 3.0, 1.5  # times the learning rate: without functions of the input, and with them
WIDER = (2, 4)  # times as many neighbours that are tried for predictions
FINEST, EACH, VALUES = 100, 200, 2100  # places of functions: at most, rows to each, and values of all functions
# Standard errors of the gain that tails must be above, as rows tell that are left out in turn: the fit knew these rows,
# which lie closer to their predictions than new ones do.
LENIENT = -1.0
ENOUGH = 0.003  # nats of a row that a stage gains, if another is to follow


class Climbed(NamedTuple):
    """The chosen model fitted to all rows, neighbourhoods of some of them, the objective, and the choice.

    The models are those after each of the last stages, whose predictions are averaged; the last is the model.
    ``rising`` says that the held-out rows were predicted ever better until there were no steps left.
    """

    models: tuple[NeighbourGP, ...]
    near: Neighbourhoods
    history: np.ndarray
    choice: Choice
    rising: bool


class _Rows(NamedTuple):
    """Rows to fit to, in a random order, and rows that were held out, all in the same data.

    The data stay whole, so that programs are compiled once for both: rows that are held out are in no neighbourhood.
    """

    data: Data
    held: np.ndarray
    order: np.ndarray
    m: int
    targets: int

    def near(self, model: NeighbourGP, rng: np.random.Generator) -> Neighbourhoods:
        """Neighbourhoods of some targets under the model's kernel, in an order of their own.

        Functions of many values follow the rows that are targets, and those that are always before them hardly count.
        """
        mixed, size = self._replace(order=rng.permutation(self.order)), len(self.order)
        late = np.arange(0 if size <= ALL else size // 2, size)
        chosen = np.sort(rng.permutation(late)[: self.targets])
        # Places in the order are the rows of what is searched.
        found = Neighbourhoods.under(
            model.realise().kernel, mixed._ordered(), np.arange(size), self.m, "correlation", chosen
        )
        return Neighbourhoods(self.data, mixed._rows(found.members))

    def density(self, model: NeighbourGP, m: int) -> np.ndarray:
        """Log predictive density of each row that was held out, given m neighbours."""
        X, y, error = self._held_out()
        return np.asarray(model.log_predictive_density(self._given(model, X, m), X, y, error))

    def wary(self, model: NeighbourGP, freedom: float) -> _Rows:
        """The same with wider error bars of rows that lie far from their predictions by the others.

        Normal noise of a row has the variance that one step of EM gives it under Student-t noise of as large a variance
        v: where E ε² is above 3 v by the other rows, v + (E ε² − 3 v)/(ν + 1).
        """
        X, y, error = (np.asarray(part)[self.order] for part in (self.data.X, self.data.y, self.data.error))
        ordered = Neighbourhoods(Data(X, y, error), np.zeros((1, self.m + 1), np.int32))
        near = model.prepare(ordered, X).near
        others = np.where(near == np.arange(len(X))[:, None], -1, near)
        f = model.predict(dataclasses.replace(ordered, near=others), X)
        noise = np.square(np.asarray(model.realise().noise_at(X, error)[1]))
        share = noise / (noise + np.asarray(f.variance))
        expected = (share * (y - np.asarray(f.mean))) ** 2 + share * np.asarray(f.variance)
        wider = np.asarray(self.data.error).copy()
        wider[self.order] = np.sqrt(error**2 + np.maximum(expected - 3.0 * noise, 0.0) / (freedom + 1.0))
        return self._replace(data=Data(self.data.X, self.data.y, wider))

    def apart(self, model: NeighbourGP, m: int) -> tuple[np.ndarray, np.ndarray]:
        """By how many predicted standard deviations each row held out differs from its prediction, and these."""
        X, y, error = self._held_out()
        found = model.predict_output(self._given(model, X, m), X, error)
        std = np.sqrt(np.asarray(found.variance))
        return (y - np.asarray(found.mean)) / std, std

    def apart_by_others(self, model: NeighbourGP) -> tuple[np.ndarray, np.ndarray]:
        """The same of each row to fit to, exactly predicted by all others."""
        given = self._ordered()
        found = ExactGP(model.kernel, model.likelihood).leave_one_out(given)
        std = np.sqrt(np.asarray(found.variance))
        return (np.asarray(given.y) - np.asarray(found.mean)) / std, std

    def surer(self, model: NeighbourGP, before: NeighbourGP) -> bool:
        """Whether the rows to fit to, each left out once, are predicted worse than by the model before.

        The fit knew them, so that what predicts them worse is surer than it may be, of whichever rows are held out.
        """
        each = [self.apart_by_others(one) for one in (model, before)]
        density, old = (float(np.mean(-0.5 * apart**2 - np.log(std))) for apart, std in each)
        return not density >= old

    def left_over(self, model: NeighbourGP, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs of some rows, what is left of their outputs by neighbours before them, and its standard deviation."""
        near = self.near(model, rng)
        X, y, error = (np.asarray(part)[near.members[:, -1]] for part in (self.data.X, self.data.y, self.data.error))
        found = model.predict_output(dataclasses.replace(near, near=near.members[:, :-1]), X, error)
        return X, y - np.asarray(found.mean), np.sqrt(np.asarray(found.variance))

    def _held_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, y, error = (np.asarray(part)[self.held] for part in (self.data.X, self.data.y, self.data.error))
        return X, y, error

    def _given(self, model: NeighbourGP, X: np.ndarray, m: int) -> Neighbourhoods:
        """Neighbours of inputs among the rows to fit to."""
        ordered = Neighbourhoods(self._ordered(), np.zeros((1, m), np.int32))
        near = self._rows(model.prepare(ordered, X, m).near)
        return Neighbourhoods(self.data, np.zeros((1, m), np.int32), near=near)

    def _ordered(self) -> Data:
        return Data(*(np.asarray(part)[self.order] for part in (self.data.X, self.data.y, self.data.error)))

    def _rows(self, places: np.ndarray) -> np.ndarray:
        return np.where(places >= 0, self.order[places], -1).astype(np.int32)


class _Fit(NamedTuple):
    """A model after its steps, with the density of the held-out rows and the objective at every step."""

    model: NeighbourGP
    density: np.ndarray
    history: np.ndarray
    rising: bool = False


class _Steps:
    """Steps of Adam in stages, each with targets and neighbours of its own."""

    def __init__(self, settings: Settings, rng: np.random.Generator, key: Array, progress: Progress | None) -> None:
        self.settings, self.rng, self.key, self.run = settings, rng, key, Run(progress, chunk=50)
        self.size, self.most = min(STAGE, settings.max_iter), settings.max_iter

    def stage(self, rows: _Rows, model: NeighbourGP, rate: float, steps: int) -> tuple[NeighbourGP, np.ndarray]:
        near = rows.near(model, self.rng)
        batch = min(BATCH, len(near.members))
        self.key, now = jax.random.split(self.key)
        adam = Adam(rate * self.settings.learning_rate, batch, average=AVERAGE)
        found = whole(maximise(model, near, steps=steps, key=now, optimiser=adam, run=self.run))
        return found.model, found.history

    def climb(self, rows: _Rows, model: NeighbourGP, rate: float) -> _Fit:
        """Stages until one gains no more than its standard error, or there are no steps left; the best of them."""
        model, history = self.stage(rows, model, rate, self.size)
        best = _Fit(model, rows.density(model, rows.m), history)
        while len(history) < self.most:
            model, values = self.stage(rows, model, rate, min(self.size, self.most - len(history)))
            history = np.concatenate([history, values])
            density = rows.density(model, rows.m)
            gain, error = gain_of(density, best.density)
            if gain > 0.0:
                best = _Fit(model, density, history)
            if gain <= max(ENOUGH, 0.5 * error):
                return best._replace(history=history)
        return best._replace(history=history, rising=True)


def climb(
    settings: Settings, initial: InitialValues, data: Data, seed: int, key: Array, progress: Progress | None
) -> Climbed:
    """The ladder for standardised data of several inputs."""
    rng = np.random.default_rng(seed)
    steps = _Steps(settings, rng, key, progress)
    count = min(data.size // 5, max(HELD_OUT, min(data.size // 8, AT_MOST)))
    mixed = rng.permutation(data.size)
    m = min(settings.n_neighbours, data.size - count - 1)
    targets = min(TARGETS, data.size - count)
    rows = _Rows(data, mixed[:count], mixed[count:], m, targets)
    everything = _Rows(data, mixed[:0], mixed, m, targets)
    first = NeighbourGP(smooth_kernel(data.X.shape[1]), Gaussian(Positive.around(0.3)))
    rungs: list[Rung] = []
    exact = settings.approximation_for(*data.X.shape) == "exact"

    def tried(name: str, model: NeighbourGP, before: _Fit, rate: float) -> _Fit:
        """The fit of this model if it is better than that before it, else the one before."""
        began = time.process_time()
        found = steps.climb(rows, model, rate)
        gain, error = gain_of(found.density, before.density)
        kept = not rungs or (gain > error and not (exact and rows.surer(found.model, before.model)))
        seconds = round(time.process_time() - began, 1)
        rungs.append(Rung(name, float(np.mean(found.density)), gain, error, len(found.history), seconds, kept))
        return found if kept else before

    X = np.asarray(data.X)
    best = tried("squared exponential", first, _Fit(first, _constant(rows), np.empty(0)), FAST)
    cycles = find_cycles(*rows.left_over(best.model, rng)[:2])
    if cycles:
        kernel = with_cycles(best.model.kernel, cycles, X)
        best = tried("cycles", NeighbourGP(kernel, best.model.likelihood), best, FAST)
    model = _with_scales(rows, best)
    if model is not best.model:
        best = tried("several scales", model, best, FAST)
    # More rows tell finer functions, as long as these have no more values than a step can carry.
    finer = min(FINEST, data.size // EACH, VALUES // (3 * (2 * X.shape[1] + 1)))
    places = Places.of(best.model.kernel, X, max(settings.n_knots, finer), seed)
    some, rest, std = rows.left_over(best.model, rng)
    reach = find_reach(some, rest / std, places.lengthscale, len(places.Z), seed)
    places = Places.spread(X, reach, len(places.Z), seed)
    kernel, noise = best.model.kernel, best.model.likelihood.noise
    best = tried("noise as a function", NeighbourGP(kernel, Gaussian(noise_function(noise, places))), best, CAREFUL)
    likelihood = best.model.likelihood
    kernel = amplitudes_from(best.model.kernel, places)
    best = tried("amplitudes as functions", NeighbourGP(kernel, likelihood), best, CAREFUL)
    kernel = convolutional_from(best.model.kernel, initial, places, settings.n_components, seed)
    harmful = True
    if _told(kernel, rows):
        name = "lengthscales, frequencies and amplitudes as functions"
        best = tried(name, NeighbourGP(kernel, best.model.likelihood), best, CAREFUL)
        harmful = rungs[-1].gain < -rungs[-1].error
    if harmful:  # what frequencies are says nothing of lengthscales
        kernel = quadratic_from(best.model.kernel, places)
        if _told(kernel, rows):
            name = "lengthscales and amplitudes as functions"
            best = tried(name, NeighbourGP(kernel, best.model.likelihood), best, CAREFUL)
    ahead = _neighbours_ahead(rows, best)
    model, history, last = best.model, best.history, list[NeighbourGP]()
    # Few rows follow functions ever further: their steps end where held-out rows say, and predictions take all rows.
    for _ in range(0 if exact else 1 if data.size <= EXACT else LAST):
        model, values = steps.stage(everything, model, CAREFUL, steps.size)
        history = np.concatenate([history, values])
        last.append(model)
    last = last or [model]
    near = dataclasses.replace(everything.near(model, rng), ahead=ahead)
    if exact:
        tails, rung = find_tails(*everything.apart_by_others(model), "tails, by rows left out in turn", LENIENT)
    else:
        tails, rung = find_tails(*rows.apart(best.model, ahead))
    rungs.append(rung)
    if rung.kept:
        began, heavy = time.process_time(), _with_tails(best.model, tails)
        density = rows.wary(heavy, tails.freedom).density(heavy, ahead)
        gain, error = gain_of(density, rows.density(heavy, ahead))
        seconds = round(time.process_time() - began, 1)
        rungs.append(Rung("rows far out count less", float(np.mean(density)), gain, error, 0, seconds, gain > error))
        last = [_with_tails(one, tails) for one in last]
        if rungs[-1].kept:
            near = dataclasses.replace(near, data=everything.wary(last[-1], tails.freedom).data)
    found = tuple((cycle.axis, cycle.frequency) for cycle in cycles)
    choice = Choice(tuple(rungs), count, found, (everything.m, ahead))
    return Climbed(tuple(last), near, history, choice, best.rising)


def _with_tails(model: NeighbourGP, tails: Tails) -> NeighbourGP:
    return NeighbourGP(model.kernel, HeavyTailed(model.likelihood.noise, *tails))


def _with_scales(rows: _Rows, best: _Fit) -> NeighbourGP:
    """The squared exponential with further ones beside it, as long as one of them at once predicts better."""
    model, X = best.model, np.asarray(rows.data.X)
    few = rows._replace(held=rows.held[:SOME])
    density = float(np.mean(best.density[:SOME]))
    for _ in range(usual_components(X.shape[1]) - 1):
        tried = [NeighbourGP(kernel, model.likelihood) for kernel in further_scales(model.kernel, X)]
        densities = [float(np.mean(few.density(one, rows.m))) for one in tried]
        if max(densities) <= density:
            break
        model, density = tried[int(np.argmax(densities))], max(densities)
    return model


def _told(kernel: AbstractKernel, rows: _Rows) -> bool:
    """Whether there is a row to fit to for every value of the functions: fewer tell nothing of most of them."""
    functions = [one for one in random_functions(kernel) if isinstance(one, FunctionGroup)]
    return sum(one.whitened.raw.size for one in functions) <= len(rows.order)


def _neighbours_ahead(rows: _Rows, best: _Fit) -> int:
    """As many neighbours as predict the held-out rows best."""
    ahead, density = rows.m, float(np.mean(best.density))
    for factor in WIDER:
        m = min(factor * rows.m, len(rows.order))
        wider = float(np.mean(rows.density(best.model, m)))
        if wider <= density:
            break
        ahead, density = m, wider
    return ahead


def _constant(rows: _Rows) -> np.ndarray:
    """Log density of the held-out rows under a normal distribution of all outputs."""
    y, held = (np.asarray(rows.data.y)[some] for some in (rows.order, rows.held))
    variance = max(float(np.var(y)), 1e-12)
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * variance) + (held - y.mean()) ** 2 / variance))
