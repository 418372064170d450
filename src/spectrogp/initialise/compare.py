"""Which of several initial values is best: a short fit of each, compared by its marginal likelihood."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from ..core import Key, one_blas_thread, program_threads, side_by_side
from ..inference import Run, laplace_marginal_likelihood, maximise, whole

RUN = Run(chunk=50)  # as ``maximise`` has it
PRODUCTS = 60  # with the Hessian, for the marginal likelihood of each


class Best(NamedTuple):
    """The best of several fits.

    Args:
        model: The fitted model.
        history: Of its objective (per data point).
        evidence: The approximate log marginal likelihood of all that were compared; not a number for those that failed.
        failures: Why those failed.
    """

    model: Any
    history: np.ndarray
    evidence: tuple[float, ...]
    failures: tuple[str, ...]


def best_of(models: Sequence[Any], data: Any, *, steps: int = 100, key: Key, **options: Any) -> Best:
    """Maximise each model for a few steps and keep the fit of the largest (approximate) marginal likelihood.

    For models of the same data, such as one kernel from several initial values or with several priors, which cores
    share. A model that fails numerically is left out.

    Args:
        models: The models.
        data: What they are fitted to.
        steps: Steps of each.
        key: An integer seed or a JAX random key.
        options: Further arguments of ``inference.maximise``.
    """
    if not models:
        raise ValueError("models must hold at least one model, got none")

    def fitted(model: Any, steps: int = steps, products: int = PRODUCTS, **changed: Any) -> tuple[float, Any]:
        try:
            fit = whole(maximise(model, data, steps=steps, key=key, **(options | changed)))
            return laplace_marginal_likelihood(fit.model, data, key=key, max_products=products), fit
        except FloatingPointError as failure:
            return np.nan, failure

    workers = min(program_threads(), len(models))
    with one_blas_thread() if workers > 1 else nullcontext():
        if workers > 1:  # one step, for the programs: threads that find none would each compile them
            fitted(models[0], 1, 1, run=dataclasses.replace(options.get("run", RUN), progress=None))
        fits = side_by_side(fitted, models, workers)
    failures = [found for _, found in fits if isinstance(found, FloatingPointError)]
    if len(failures) == len(models):
        raise failures[0]
    evidence, found = zip(*fits, strict=True)
    best = found[int(np.nanargmax(evidence))]
    return Best(best.model, best.history, evidence, tuple(map(str, failures)))
