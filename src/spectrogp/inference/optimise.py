"""Maximising a model's log joint density over its raw parameters: Adam with minibatches, and L-BFGS."""

from __future__ import annotations

import math
import os
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
from ..parameters import Role, partition
from .loop import Progress, run_in_chunks

Model = TypeVar("Model", bound=AbstractModel)
OPTIMISED: tuple[Role, ...] = ("latent", "hyperparameter", "variational")


class Fit(NamedTuple):
    """A fitted model, the objective at every step (per data point), and whether the run ended as planned."""

    model: Any
    history: np.ndarray
    interrupted: bool


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
    checkpoint: str | os.PathLike[str] | None = None,
) -> Fit:
    """Adam on the log joint density, with a warm-up and a cosine decay of the learning rate.

    ``batch`` rows are drawn anew for each step (all of them when left out). ``refresh(model, step)`` may give new data
    of the same shapes between chunks, such as neighbours under the current kernel. The objective is divided by the
    number of data, so the learning rate means the same for all sizes. The same key gives the same result, also
    when a killed run is started again with the same ``checkpoint`` file.
    """
    free, rest = partition(model, *roles)
    step = _AdamStep(rest, key, steps, batch, learning_rate, warmup)
    start = jax.tree.map(jnp.asarray, free)
    renew = None if refresh is None else lambda state, index: refresh(eqx.combine(state[0], rest), index)
    (free, _), history, interrupted = run_in_chunks(
        step,
        (start, step.optimiser.init(start)),
        data,
        steps=steps,
        chunk=chunk,
        renew=renew,
        progress=progress,
        checkpoint=checkpoint,
    )
    return Fit(eqx.combine(free, rest), history, interrupted)


class _AdamStep(eqx.Module):
    """One step of Adam: its arrays are leaves and its settings static, so that equal fits share a compiled program."""

    rest: Any
    key: Array
    steps: int = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)
    learning_rate: float = eqx.field(static=True)
    warmup: float = eqx.field(static=True)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        schedule = optax.warmup_cosine_decay_schedule(
            0.0,
            self.learning_rate,
            max(1, math.ceil(self.warmup * self.steps)),
            self.steps,
            end_value=0.01 * self.learning_rate,
        )
        return optax.chain(optax.clip_by_global_norm(10.0), optax.adam(schedule))

    def __call__(self, state: tuple[Any, Any], index: Array, data: Any) -> tuple[tuple[Any, Any], Array]:
        free, moments = state
        key = jax.random.fold_in(self.key, index)

        def objective(free: Any) -> Array:
            part = data if self.batch is None else data.minibatch(key, self.batch)
            return -eqx.combine(free, self.rest).log_joint(part, key) / data.size

        value, slope = jax.value_and_grad(objective)(free)
        updates, moments = self.optimiser.update(slope, moments, free)
        return (optax.apply_updates(free, updates), moments), -value


def maximise_lbfgs(
    model: Model,
    data: Any,
    *,
    steps: int = 500,
    roles: tuple[Role, ...] = OPTIMISED,
    tolerance: float = 1e-9,
    progress: Progress | None = None,
) -> Fit:
    """L-BFGS on the log joint density of all data: for models small enough that a full gradient is cheap."""
    free, rest = partition(model, *roles)
    start, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))

    @jax.jit
    def slope(raw: Array) -> tuple[Array, Array]:
        return jax.value_and_grad(lambda raw: -eqx.combine(unravel(raw), rest).log_joint(data) / data.size)(raw)

    history: list[float] = []

    def evaluate(raw: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slope(jnp.asarray(raw, start.dtype))
        # The line search steps back from where a factorisation failed.
        finite = bool(jnp.isfinite(value)) and bool(jnp.all(jnp.isfinite(gradient)))
        return (float(value), np.asarray(gradient, np.float64)) if finite else (1e10, np.zeros(len(raw)))

    def record(intermediate_result: Any) -> None:
        history.append(-float(intermediate_result.fun))
        if progress is not None:
            progress(len(history), steps, history[-1])

    first, _ = evaluate(np.asarray(start))
    if first == 1e10:
        raise FloatingPointError("the log joint density is not finite at the start; look at the starting parameters")
    interrupted, best = False, np.asarray(start)
    try:
        options = {"maxiter": steps, "maxcor": 20, "ftol": tolerance, "gtol": 1e-7}
        best = minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=record, options=options).x
    except KeyboardInterrupt:
        interrupted = True
    return Fit(eqx.combine(unravel(jnp.asarray(best, start.dtype)), rest), np.array(history), interrupted)
