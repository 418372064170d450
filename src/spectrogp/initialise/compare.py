"""Which of several initial values is best: a short fit of each, compared by its marginal likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import Key
from ..inference import Fit, laplace_marginal_likelihood, maximise, whole

PRODUCTS = 60  # with the Hessian, for the marginal likelihood of each


def best_of(models: Sequence[Any], data: Any, *, steps: int = 100, key: Key, **options: Any) -> Fit:
    """Maximise each model for a few steps and keep the fit of the largest (approximate) marginal likelihood.

    For models of the same data, such as one kernel from several initial values or with several priors. A model that
    fails numerically is left out.

    Args:
        models: The models.
        data: What they are fitted to.
        steps: Steps of each.
        key: An integer seed or a JAX random key.
        options: Further arguments of ``inference.maximise``.
    """
    if not models:
        raise ValueError("models must hold at least one model, got none")
    fits, failures = [], []
    for model in models:
        try:
            fit = whole(maximise(model, data, steps=steps, key=key, **options))
            fits.append((laplace_marginal_likelihood(fit.model, data, key=key, max_products=PRODUCTS), fit))
        except FloatingPointError as failure:
            failures.append(failure)
    if not fits:
        raise failures[0]
    return max(fits, key=lambda pair: pair[0])[1]
