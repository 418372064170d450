"""Maximising a model's log joint density over its raw parameters: Adam with minibatches, and L-BFGS."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from ..models import AbstractObjective, VariationalGP
from ..numerics import entry_point
from ..parameters import Role, partition
from .loop import Progress, run_in_chunks

Model = TypeVar("Model", bound=AbstractObjective)
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
    natural_rate: float | None = None,
    average: int | None = None,
    patience: int | None = None,
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

    With ``natural_rate`` the variational parameters move along the natural gradient, at that rate, before each step of
    the others (``VariationalGP.natural_step``). With ``patience`` the run ends early, once the mean objective of that
    many chunks in a row has not risen above the best before them.

    With ``average`` the learning rate stays as it is after the warm-up, and the result is a moving average of the raw
    parameters (and of those of q): a_t = a_{t−1} + max(1/t, 1/average) (θ_t − a_{t−1}), so about that many last steps
    count. Minibatches make the steps wander around where they are bound for; the average is nearer to it, wherever the
    run ends. Polyak & Juditsky (1992).
    """
    if average is not None and average < 1:
        raise ValueError(f"average must be 1 step or more, got {average}")
    if natural_rate is not None and not isinstance(model, VariationalGP):
        raise TypeError(f"natural gradients are for a VariationalGP, got {type(model).__name__}")
    natural: tuple[Role, ...] = () if natural_rate is None else ("variational",)
    free, rest = partition(model, *(role for role in roles if role not in natural))
    q, rest = partition(rest, *natural)
    rising = max(1, math.ceil(warmup * steps))
    rate = _Rate(jnp.asarray(learning_rate), jnp.asarray(rising), jnp.asarray(steps), average is not None)
    step = _AdamStep(rest, key, rate, batch, natural_rate, average)
    start, q = jax.tree.map(jnp.asarray, (free, q))
    renew = None if refresh is None else lambda state, index: refresh(eqx.combine(*state[:2], rest), index)
    (free, q, _, mean), history, interrupted = run_in_chunks(
        step,
        (start, q, step.optimiser.init(start), None if average is None else (start, q)),
        data,
        steps=steps,
        chunk=chunk,
        renew=renew,
        progress=progress,
        checkpoint=checkpoint,
        stop=None if patience is None else lambda values: _stalled(values, chunk, patience),
    )
    return Fit(eqx.combine(*((free, q) if mean is None else mean), rest), history, interrupted)


def _stalled(values: np.ndarray, chunk: int, patience: int) -> bool:
    """Whether none of the last chunks' means lies above the best mean before them."""
    means = [np.mean(values[i : i + chunk]) for i in range(0, len(values), chunk)]
    return len(means) > patience and max(means[-patience:]) <= max(means[:-patience])


# Free parameters, those that natural steps move, Adam's moments, and the average of the first two if there is one.
_State: TypeAlias = tuple[Any, Any, Any, Any]


class _Rate(eqx.Module):
    """The learning rate at a step: a linear warm-up, then constant or a cosine decay to a hundredth.

    Its numbers are arrays, so that runs of any length and rate share a compiled program.
    """

    peak: Array
    warmup: Array
    steps: Array
    constant: bool = eqx.field(static=True)

    def __call__(self, index: Array) -> Array:
        rising = jnp.minimum(index / self.warmup, 1.0)
        if self.constant:
            return self.peak * rising
        share = jnp.clip((index - self.warmup) / jnp.maximum(self.steps - self.warmup, 1), 0.0, 1.0)
        return self.peak * rising * (0.01 + 0.99 * 0.5 * (1.0 + jnp.cos(jnp.pi * share)))


class _AdamStep(eqx.Module):
    """One step of Adam: its arrays are leaves and its settings static, so that equal fits share a compiled program."""

    rest: Any
    key: Array
    rate: _Rate
    batch: int | None = eqx.field(static=True)
    natural_rate: float | None = eqx.field(static=True)
    average: int | None = eqx.field(static=True)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(10.0), optax.adam(self.rate))

    def __call__(self, state: _State, index: Array, data: Any) -> tuple[_State, Array]:
        free, q, moments, mean = state
        key = jax.random.fold_in(self.key, index)
        part = data if self.batch is None else data.minibatch(key, self.batch)
        if self.natural_rate is not None:
            moved = eqx.combine(free, q, self.rest).natural_step(part, self.natural_rate)
            q, _ = partition(moved, "variational")

        def objective(free: Any) -> Array:
            return -eqx.combine(free, q, self.rest).log_joint(part, key) / data.size

        value, slope = jax.value_and_grad(objective)(free)
        updates, moments = self.optimiser.update(slope, moments, free)
        free = optax.apply_updates(free, updates)
        if self.average is not None:
            share = jnp.maximum(1.0 / (index + 1), 1.0 / self.average)
            mean = jax.tree.map(lambda old, new: (old + share * (new - old)).astype(old.dtype), mean, (free, q))
        return (free, q, moments, mean), -value


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
