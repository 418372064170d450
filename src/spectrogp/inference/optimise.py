"""Maximising a model's log joint density over its raw parameters: Adam with minibatches, and L-BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from ..models import AbstractModel
from ..numerics import entry_point
from ..parameters import Role, partition
from .loop import Progress, run_in_chunks

Model = TypeVar("Model", bound=AbstractModel)
OPTIMISED: tuple[Role, ...] = ("latent", "hyperparameter", "variational")


class Fit(NamedTuple):
    """A fitted model, the objective at every step (per data point), and whether the run ended as planned."""

    model: Any
    history: np.ndarray
    interrupted: bool


@entry_point
def maximise(
    model: Model,
    data: Any,
    *,
    steps: int,
    key: Array,
    batch: int | None = None,
    learning_rate: float = 0.02,
    warmup: float = 0.02,
    roles: tuple[Role, ...] = OPTIMISED,
    refresh: Callable[[Model, int], Any] | None = None,
    chunk: int = 50,
    progress: Progress | None = None,
) -> Fit:
    """Adam on the log joint density, with a warm-up and a cosine decay of the learning rate.

    ``batch`` rows are drawn anew for each step (all of them when left out). ``refresh(model, step)`` may give new data
    of the same shapes between chunks, such as neighbours under the current kernel. The objective is divided by the
    number of data, so the learning rate means the same for all sizes. The same key gives the same result.
    """
    free, rest = partition(model, *roles)
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, learning_rate, max(1, math.ceil(warmup * steps)), steps, end_value=0.01 * learning_rate
    )
    optimiser = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(schedule))

    def objective(free: Any, data: Any, key: Array) -> Array:
        part = data if batch is None else data.minibatch(key, batch)
        return -eqx.combine(free, rest).log_joint(part, key) / data.size

    def step(state: tuple[Any, Any], index: Array, data: Any) -> tuple[tuple[Any, Any], Array]:
        free, moments = state
        value, slope = jax.value_and_grad(objective)(free, data, jax.random.fold_in(key, index))
        updates, moments = optimiser.update(slope, moments, free)
        return (optax.apply_updates(free, updates), moments), -value

    free = jax.tree.map(jnp.asarray, free)
    renew = None if refresh is None else lambda state, index: refresh(eqx.combine(state[0], rest), index)
    (free, _), history, interrupted = run_in_chunks(
        step, (free, optimiser.init(free)), data, steps=steps, chunk=chunk, renew=renew, progress=progress
    )
    return Fit(eqx.combine(free, rest), history, interrupted)


@entry_point
def maximise_lbfgs(
    model: Model,
    data: Any,
    *,
    steps: int = 500,
    restarts: int = 0,
    spread: float = 0.5,
    key: Array | None = None,
    roles: tuple[Role, ...] = OPTIMISED,
    tolerance: float = 1e-9,
    progress: Progress | None = None,
) -> Fit:
    """L-BFGS on the log joint density of all data: for models small enough that a full gradient is cheap.

    ``restarts`` further runs start from the model's raw parameters plus normal noise of standard deviation ``spread``;
    the best of all ends is kept. Ctrl-C ends with the best so far.
    """
    if restarts and key is None:
        raise ValueError("restarts need a key")
    free, rest = partition(model, *roles)
    start, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))

    @jax.jit
    def slope(raw: Array) -> tuple[Array, Array]:
        return jax.value_and_grad(lambda raw: -eqx.combine(unravel(raw), rest).log_joint(data) / data.size)(raw)

    ends: list[_End] = []
    while len(ends) <= restarts and not any(end.interrupted for end in ends):
        noise = jnp.zeros_like(start)
        if ends and key is not None:
            noise = spread * jax.random.normal(jax.random.fold_in(key, len(ends)), start.shape)
        ends.append(_lbfgs(slope, np.asarray(start + noise), steps, tolerance, progress))
    best = min(ends, key=lambda end: end.value)
    if not math.isfinite(best.value):
        raise FloatingPointError("the log joint density is not finite at the start; look at the starting parameters")
    fitted = eqx.combine(unravel(jnp.asarray(best.raw, start.dtype)), rest)
    return Fit(fitted, np.array(best.history), ends[-1].interrupted)


class _End(NamedTuple):
    """The smallest value that a run met, where, the objective at every step, and whether it was stopped."""

    value: float
    raw: np.ndarray
    history: list[float]
    interrupted: bool


def _lbfgs(
    slope: Callable[[Array], tuple[Array, Array]],
    start: np.ndarray,
    steps: int,
    tolerance: float,
    progress: Progress | None,
) -> _End:
    history: list[float] = []
    value, best = math.inf, start

    def evaluate(raw: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal value, best
        here, gradient = (np.asarray(part, np.float64) for part in slope(jnp.asarray(raw)))
        if not (np.isfinite(here) and np.all(np.isfinite(gradient))):
            return 1e10, np.zeros(len(raw))  # the line search steps back from where a factorisation failed
        if here < value:
            value, best = float(here), raw.copy()
        return float(here), gradient

    def record(intermediate_result: Any) -> None:
        history.append(-float(intermediate_result.fun))
        if progress is not None:
            progress(len(history), steps, history[-1])

    options = {"maxiter": steps, "maxcor": 20, "ftol": tolerance, "gtol": 1e-7}
    interrupted = False
    try:
        minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=record, options=options)
    except KeyboardInterrupt:
        interrupted = True
    return _End(value, best, history, interrupted)
