"""From a model at its optimum to its posterior, by the method of the settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jax import Array

from .. import models
from ..inference import (
    NUTS,
    SGHMC,
    Adam,
    Progress,
    Run,
    maximise,
    sample,
    sample_fisher,
    sample_laplace,
    sample_variational,
    whole,
)
from ..models import Neighbourhoods
from ..parameters import partition
from ..posterior import Posterior
from .diagnosing import places
from .settings import Settings

THIN = 10  # steps of SG-HMC for each draw
TARGETS = 4096  # rows, about, whose information about functions stands for that of all
INFORMED = 30  # neighbours, at most, of each row of an exact model, for the same


class Stage(NamedTuple):
    """How the optimum or the posterior is shown, and where it is kept to go on from after an interruption."""

    progress: Progress | None
    checkpoint: Path | None

    def run(self, chunk: int = 50) -> Run:
        return Run(self.progress, self.checkpoint, chunk)


def infer(
    settings: Settings, model: Any, data: Any, key: Array, stage: Stage, near: Neighbourhoods | None = None
) -> tuple[Posterior, list[str]]:
    """Draws around the optimum, and what was left out of them; ``near`` are neighbourhoods, where there are some."""
    if settings.inference != "laplace":
        return sampled(settings, model, data, key, stage), []
    if near is not None:
        draws, roles = settings.draws_for(*_shape(data)), _drawn_roles(model)
        return sample_fisher(model, _some(near), draws=draws, key=key, roles=roles), []
    return _laplace(settings, model, data, key, stage.progress)


def _some(near: Neighbourhoods) -> Neighbourhoods:
    """Every so manyth of many: their information stands for that of all."""
    members = np.asarray(near.members)
    return dataclasses.replace(near, members=members[:: max(1, round(len(members) / TARGETS))])


def neighbourhoods(model: Any, data: Any, seed: int) -> Neighbourhoods | None:
    """Those whose information the posterior is made of, of models that have it; None for others.

    An exact model of one input has few function values, whose curvature is followed directly.
    """
    if isinstance(model, models.NeighbourGP):
        return cast("Neighbourhoods", data)
    if isinstance(model, models.ExactGP) and data.X.shape[1] > 1:
        order, kernel = models.random_order(data.size, seed), model.realise().kernel
        return Neighbourhoods.under(kernel, data, order, min(INFORMED, data.size - 1), "correlation")
    return None


def _drawn_roles(model: Any) -> Any:
    """Functions at fixed hyperparameters, if there are any: the posterior of both together is far from normal."""
    return ("latent",) if jax.tree.leaves(partition(model, "latent")[0]) else ("hyperparameter",)


def _shape(data: Any) -> tuple[int, int]:
    """Rows and inputs of data, or of those that neighbourhoods are of."""
    rows, dimensions = np.shape(getattr(data, "data", data).X)
    return rows, dimensions


def _laplace(
    settings: Settings, model: Any, data: Any, key: Array, progress: Progress | None
) -> tuple[Posterior, list[str]]:
    roles = _drawn_roles(model)
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(partition(model, *roles)[0]))
    followed = [0, size]

    def show(done: int, steps: int, objective: float) -> None:
        followed[:] = done, steps
        if progress is not None:
            progress(done, steps, objective)

    batch, draws = settings.batch_for(*_shape(data)), settings.draws_for(*_shape(data))
    posterior = sample_laplace(model, data, draws=draws, key=key, batch=batch, roles=roles, progress=show)
    if not followed[0] == followed[1] < size:
        return posterior, []
    return posterior, [
        f"posterior: the curvature was followed in {followed[0]} of {size} directions; the others are as wide as their "
        "prior, and bands may be too wide"
    ]


def sampled(settings: Settings, model: Any, data: Any, key: Array, stage: Stage) -> Posterior:
    batch, draws = settings.batch_for(*_shape(data)), settings.draws_for(*_shape(data))
    each = -(-draws // settings.chains)
    match settings.inference:
        case "map":
            return Posterior.at_point(model)
        case "dsvi":
            bound = models.DoublyStochasticGP(model)
            adam, steps = Adam(settings.learning_rate, batch), 3 * settings.max_iter
            fitted = whole(maximise(bound, data, steps=steps, key=key, optimiser=adam, run=stage.run()))
            return sample_variational(fitted.model, data, draws=draws, key=key)
        case "nuts":
            sampler: Any = NUTS(warmup=settings.warmup, chains=settings.chains)
            return whole(sample(sampler, model, data, draws=each, key=key, run=stage.run(25))).relabelled(places(data))
        case "sghmc":
            sampler = SGHMC(warmup=settings.warmup, chains=settings.chains, thin=THIN, batch=batch)
            return whole(sample(sampler, model, data, draws=each, key=key, run=stage.run())).relabelled(places(data))
    raise NotImplementedError(f"inference={settings.inference!r} is in choices.INFERENCES, but has no case in infer")
