"""From standardised data to a model and its posterior: initial values, model, optimum, inference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from .. import models
from ..core import as_numbers, one_blas_thread, refuse_forked
from ..files import FilePath
from ..inference import (
    Adam,
    Run,
    maximise,
    whole,
)
from ..initialise import (
    InitialValues,
    best_of,
    find_initial_values,
    inducing_inputs,
    kernel_from,
    noise_from,
)
from ..kernels import AbstractKernel
from ..models import AbstractLikelihood, AbstractNeighbourModel, Data, Gaussian, StudentT
from ..parameters import partition
from ..posterior import Posterior
from .choice import Choice
from .inferring import Stage, infer, neighbourhoods, sampled
from .ladder import climb
from .markov import MarkovFit, fit_markov
from .referee import judge, telling
from .settings import Settings
from .units import Shown

COMPONENTS = 4  # at most, when their number is chosen from the data
TRIAL = 100  # steps by which initial values are compared
COMPARED = 400  # rows, at most, that they are compared on
LAST = 25  # steps at the end that are compared with as many before them
LEAST_ERROR = 1e-3  # of outputs along one input, in what oscillates: as the noise of the nulls of the search
WEAK = 0.5  # share of the centres at which the data must show a frequency, for the ridge to be trusted alone


class Fitted(NamedTuple):
    """A model at its optimum with what it was fitted to, its posterior, where it began, and what happened meanwhile."""

    model: Any
    data: Any
    posterior: Posterior
    initial: InitialValues
    history: np.ndarray
    diagnostics: dict[str, Any]
    offset: Any = 0.0  # that was subtracted from the outputs, of several channels [c]
    choice: Choice | None = None  # of a ladder of models, where there was one
    warnings: tuple[str, ...] = ()
    averaged: Posterior | None = None  # optima of several fits, whose predictions are averaged
    evidence: float = -np.inf  # log marginal likelihood of what was fitted to, of a Markov model of one output
    growth: str = ""  # what grows with the level of the outputs, in words


def fit_channels(
    settings: Settings,
    X: np.ndarray,
    y: np.ndarray,
    error: np.ndarray,
    seed: int,
    X_scale: np.ndarray,
    shown: Shown,
    announce: Callable[[InitialValues], None],
) -> Fitted:
    """Fit several channels along one input: inputs ``[n, 1]``, outputs and error bars ``[n, c]``, standardised."""
    refuse_forked()
    _, key = jax.random.split(jax.random.key(seed))
    initial = _initial_values(settings, X, y, error, seed, X_scale)
    announce(initial)
    with one_blas_thread():
        return _fit_in_linear_time(settings, models.channels_of(X, y, error), initial, seed, shown, key, None)


def fit(
    settings: Settings,
    data: Data,
    seed: int,
    X_scale: np.ndarray,
    shown: Shown,
    checkpoint: FilePath | None,
    announce: Callable[[InitialValues], None],
) -> Fitted:
    """Fit standardised data, of inputs that were divided by ``X_scale [d]``; frequencies of one are told as ``shown``.

    Stages that take long are kept in files called as ``checkpoint`` and their name, until all is done. What was found
    in the data is announced before them.
    """
    places = {name: None if checkpoint is None else Path(f"{checkpoint}.{name}") for name in ("optimum", "posterior")}
    refuse_forked()
    _require_memory(settings, data)
    of_optimum, of_posterior = jax.random.split(jax.random.key(seed))
    initial = _initial_values(settings, data.X, data.y, data.error, seed, X_scale)
    seen = data
    if settings.likelihood == "student":
        # What is found, and what begins there, must not follow outliers either.
        seen = _downweighted(settings, initial, data, seed, of_optimum)
        initial = _initial_values(settings, seen.X, seen.y, seen.error, seed, X_scale)
    announce(initial)
    if settings.kernel_for(data.X.shape[1]) == "matern":
        with one_blas_thread():
            return _fit_in_linear_time(settings, (data,), initial, seed, shown, of_posterior, places["posterior"])
    if settings.climbs(*data.X.shape):
        return _fit_by_ladder(settings, data, initial, seed, of_optimum, of_posterior)
    kernel, likelihood, failures = _begin(settings, initial, seen, seed, of_optimum)
    with settings.progress("optimum") as progress:
        stage = Stage(progress, places["optimum"])
        start = _build(settings, kernel, likelihood, data, seed)
        model, given, history = _to_optimum(settings, start, data, of_optimum, stage)
    with settings.progress("posterior") as progress:
        stage = Stage(progress, places["posterior"])
        posterior, cut_short = infer(settings, model, given, of_posterior, stage, neighbourhoods(model, given, seed))
    diagnostics = {
        "approximation": settings.approximation_for(*data.X.shape),
        "predictions": settings.predictions_for(*data.X.shape),
        "rows": data.size,
        "rows_compared": min(data.size, COMPARED),
        "starts_failed": list(failures),
        "jitter": models.relative_jitter(model, given),
        "cut_short": [*_still_rising(history, data.size), *cut_short],
    }
    for place in places.values():
        if place is not None:
            place.unlink(missing_ok=True)
    return Fitted(model, given, posterior, initial, history, diagnostics)


def _fit_in_linear_time(
    settings: Settings,
    data: tuple[Data, ...],
    initial: InitialValues,
    seed: int,
    shown: Shown,
    key: Array,
    checkpoint: Path | None,
) -> Fitted:
    """The Markov model of one input: Newton's method to the optimum, and its curvature for the posterior.

    What is one for each channel is a tuple of these, and of a single output itself.
    """
    draws = settings.draws_for(max(part.size for part in data), 1) if settings.inference == "laplace" else 1
    data = tuple(_with_least_error(part, initial) for part in data)

    def fitted(initial: InitialValues) -> tuple[MarkovFit, Any]:
        with settings.progress("optimum") as progress:
            found = fit_markov(initial, data, draws=draws, seed=seed, n_starts=settings.n_starts, progress=progress)
        return found, tuple(Data(part.X, part.y - o, part.error) for part, o in zip(data, found.offset, strict=True))

    found, centred = fitted(initial)
    if settings.n_components is None and isinstance(found.model, models.MarkovGP) and initial.found.sum() > 1:
        kept = telling(found.model, centred[0], initial)
        if len(kept) < len(initial.found):
            initial = initial.only(kept)
            found, centred = fitted(initial)
    posterior, offset = found.posterior, found.offset
    if not np.ndim(initial.noise):
        (centred,), (offset,) = centred, offset
    if settings.inference == "nuts":
        with settings.progress("posterior") as progress:
            posterior = sampled(settings, found.model, centred, key, Stage(progress, checkpoint))
    diagnostics = {
        "approximation": "markov",
        "predictions": settings.predictions_for(*data[0].X.shape),
        "rows": initial.rows,
        "rows_compared": initial.rows,
        "starts_failed": [],
        "jitter": 0.0,
        "cut_short": found.cut_short,
    }
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    said = tuple(found.optima)
    fit = Fitted(found.model, centred, posterior, initial, found.history, diagnostics, offset=offset, warnings=said)
    if not isinstance(found.model, models.MarkovGP):
        return fit
    verdict = judge(found.model, centred, posterior, initial, shown._replace(zero=shown.zero - float(offset)))
    diagnostics["block_out"] = verdict.block_out
    # Where there are no logarithms to be compared with nobody asks for the evidence.
    evidence = found.evidence(centred) if verdict.growth or shown.exponent is not None else -np.inf
    return fit._replace(warnings=(*said, *verdict.warnings), evidence=evidence, growth=verdict.growth)


def _with_least_error(data: Data, initial: InitialValues) -> Data:
    """The same with errors, beside those that are known, of a thousandth of what oscillates, or of the outputs' spread.

    Less noise says nothing more, and costs digits: without any a likelihood rises without end.
    """
    sizes = np.median(initial.amplitude[:, initial.found], axis=0)
    least = LEAST_ERROR * (float(np.max(sizes)) if sizes.size else 1.0)
    return Data(data.X, data.y, np.hypot(data.error, least))


def _fit_by_ladder(
    settings: Settings, data: Data, initial: InitialValues, seed: int, of_optimum: Array, of_posterior: Array
) -> Fitted:
    """The model of several inputs that predicts held-out rows best, fitted to all rows."""
    with settings.progress("optimum") as progress:
        climbed = climb(settings, initial, data, seed, of_optimum, progress)
    model: Any = climbed.models[-1]
    given: Any = climbed.near
    if settings.approximation_for(*data.X.shape) == "exact":
        model, given = models.ExactGP(model.kernel, model.likelihood), climbed.near.data
    posterior, cut_short = infer(settings, model, given, of_posterior, Stage(None, None), climbed.near)
    averaged = Posterior.at_point(*climbed.models) if len(climbed.models) > 1 else None
    if climbed.rising:
        cut_short = ["optimum: held-out rows were predicted ever better to the last step; raise max_iter", *cut_short]
    diagnostics = {
        "approximation": settings.approximation_for(*data.X.shape),
        "predictions": settings.predictions_for(*data.X.shape),
        "rows": data.size,
        "rows_compared": climbed.choice.held_out,
        "starts_failed": [],
        "jitter": models.relative_jitter(model, given),
        "cut_short": cut_short,
    }
    return Fitted(
        model, given, posterior, initial, climbed.history, diagnostics, 0.0, climbed.choice, averaged=averaged
    )


def _still_rising(history: np.ndarray, rows: int) -> list[str]:
    """Whether the optimum was not reached: the log joint density rose by more than one to the end, and its noise."""
    before, last = (history[-2 * LAST : -LAST], history[-LAST:])
    if len(before) < LAST:
        return []
    rise = rows * (np.mean(last) - np.mean(before))
    noise = rows * np.sqrt((np.var(last) + np.var(before)) / LAST)
    if rise <= max(1.0, 3.0 * noise):
        return []
    return [f"optimum: the log joint density still rose by {rise:.3g} in the last {LAST} steps; raise max_iter"]


def _require_memory(settings: Settings, data: Data) -> None:
    """Refuse what memory cannot hold, before any work."""
    chains = settings.chains if settings.inference == "sghmc" else 1  # side by side; those of NUTS one after the other
    match settings.approximation_for(*data.X.shape):
        case "exact":
            models.require_exact(data.size, chains)
        case "sgpr":
            models.require_collapsed(data.size, min(settings.n_inducing, data.size), chains)
        case "neighbours" | "full-scale":
            models.require_neighbours(data.size, settings.n_neighbours)


def _initial_values(settings: Settings, X: Any, y: Any, error: Any, seed: int, X_scale: np.ndarray) -> InitialValues:
    highest = None
    if settings.highest_frequency is not None:
        highest = as_numbers(settings.highest_frequency, "highest_frequency", X_scale.shape) * X_scale
    components = settings.n_components
    return find_initial_values(
        X,
        y,
        error,
        components=components,
        # Where they have no meaning of their own, as in a kernel object, a few tell enough about the noise.
        max_components=COMPONENTS if components is None else components,
        highest_frequency=highest,
        seed=seed,
    )


def _downweighted(settings: Settings, initial: InitialValues, data: Data, seed: int, key: Array) -> Data:
    """The same data with wider error bars for outliers: one step of iteratively reweighted least squares.

    A Student-t likelihood weighs a residual r by (ν + 1)/(ν + r²/s²) beside normal noise of scale s; here r are those
    of a short fit with normal noise, and s their median size.
    """
    model = _first(settings, initial, data.X.shape[1], seed)
    rows = _some_rows(data, seed)
    fitted = whole(maximise(model, rows, steps=TRIAL, key=key, optimiser=Adam(settings.learning_rate))).model
    residual = np.abs(data.y - fitted.predict(rows, data.X).mean)
    scale, freedom = max(1.4826 * float(np.median(residual)), 1e-6), StudentT(1.0).freedom
    weight = (freedom + 1.0) / (freedom + (residual / scale) ** 2)
    return Data(data.X, data.y, np.sqrt(data.error**2 + scale**2 * np.maximum(1.0 / weight - 1.0, 0.0)))


def _some_rows(data: Data, seed: int) -> Data:
    """At most as many rows as initial values are compared on."""
    some = np.sort(np.random.default_rng(seed).permutation(data.size)[:COMPARED])
    return Data(*(np.asarray(part)[some] for part in (data.X, data.y, data.error)))


def _first(settings: Settings, initial: InitialValues, dimensions: int, seed: int, name: str | None = None) -> Any:
    """The exact model that begins at initial values, with the kernel of the settings or that of another name."""
    noise = Gaussian(noise_from(initial))
    if isinstance(settings.kernel, AbstractKernel):
        return models.ExactGP(settings.kernel, noise)
    name = settings.kernel_for(dimensions) if name is None else name
    return models.ExactGP(kernel_from(initial, name, n_knots=settings.n_knots, seed=seed), noise)


def _begin(
    settings: Settings, initial: InitialValues, data: Data, seed: int, key: Array
) -> tuple[AbstractKernel, Gaussian, tuple[str, ...]]:
    """The kernel and the noise to begin with, the best of several by their fits to some rows; and why others failed."""
    dimensions = data.X.shape[1]

    def built(initial: InitialValues, name: str | None = None) -> models.ExactGP:
        return _first(settings, initial, dimensions, seed, name)

    first = built(initial)
    single = settings.n_starts == 1 or isinstance(settings.kernel, AbstractKernel)
    if single or not jax.tree.leaves(partition(first, "latent")[0]):  # others are other ridges
        return first.kernel, first.likelihood, ()
    rows = _some_rows(data, seed)
    with settings.progress("initial values") as progress:
        options: dict[str, Any] = {
            "key": key,
            "optimiser": Adam(settings.learning_rate),
            "run": Run(progress, chunk=50),
            "steps": TRIAL,
        }
        others = initial.alternatives()
        if settings.kernel_for(dimensions) == "phase" and np.mean(initial.gain > 0) < WEAK:
            # The phase kernel finds a frequency only from near it, the chirplet kernel from further away.
            fitted = whole(maximise(built(initial, "chirplet"), rows, **options))
            others.insert(1, initial.continuing(fitted.model.kernel))
        if len(others) == 1:
            return first.kernel, first.likelihood, ()
        candidates = [first, *(built(other) for other in others[1 : settings.n_starts])]
        best = best_of(candidates, rows, **options)
    return best.model.kernel, best.model.likelihood, best.failures


def _build(settings: Settings, kernel: AbstractKernel, noise: Gaussian, data: Data, seed: int) -> Any:
    """The model of these data."""
    approximation = settings.approximation_for(*data.X.shape)
    match approximation:
        case "exact":
            return models.ExactGP(kernel, noise)
        case "neighbours":
            return models.NeighbourGP(kernel, noise)
    Z = inducing_inputs(np.asarray(data.X), min(settings.n_inducing, data.size), np.random.default_rng(seed))
    match approximation:
        case "sgpr":
            return models.CollapsedGP(kernel, noise, Z)
        case "full-scale":
            return models.FullScaleGP(kernel, noise, Z)
        case "svgp":
            return _with_inducing_values(settings, kernel, noise, data, Z)
    raise NotImplementedError(f"approximation={approximation!r} is in choices.py, but has no case in _build")


def _with_inducing_values(
    settings: Settings, kernel: AbstractKernel, noise: Gaussian, data: Data, Z: np.ndarray
) -> models.SparseGP | models.VariationalGP:
    likelihood: AbstractLikelihood = noise if settings.likelihood == "gaussian" else StudentT(noise.noise)
    # Samplers draw the inducing values, and variational inference has a distribution over them.
    if settings.inference not in ("map", "laplace", "dsvi"):
        return models.SparseGP(kernel, likelihood, Z)
    if settings.likelihood == "gaussian":
        return models.VariationalGP(kernel, likelihood, Z)
    # The best q of Gaussian noise is where that of another likelihood begins.
    start = models.VariationalGP(kernel, noise, Z).with_optimal_posterior(data)
    return models.VariationalGP(kernel, likelihood, Z).with_posterior_of(start)


def _to_optimum(settings: Settings, model: Any, data: Data, key: Array, stage: Stage) -> tuple[Any, Any, np.ndarray]:
    """The model at its optimum, the data that it predicts from, and the objective at every step."""
    refresh = None
    if isinstance(model, AbstractNeighbourModel):
        refresh = models.Refresh(data, min(settings.n_neighbours, data.size - 1))
    found = whole(
        maximise(
            model,
            data if refresh is None else refresh(model),
            steps=settings.max_iter,
            key=key,
            optimiser=Adam(settings.learning_rate, settings.batch_for(*data.X.shape)),
            refresh=refresh,
            run=stage.run(),
        )
    )
    return found.model, data if refresh is None else refresh(found.model), found.history
