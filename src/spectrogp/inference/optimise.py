"""Maximising a model's log joint density over its raw parameters by Adam, with minibatches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import PyTree

from ..core import Key, as_key, at_least, entry_point
from ..models import AbstractObjective, VariationalGP
from ..parameters import Role, partition
from .dividing import Divided, Slope, parts_of
from .loop import AbstractStep, Run, run_in_chunks

Model = TypeVar("Model", bound=AbstractObjective)
OPTIMISED: tuple[Role, ...] = ("latent", "hyperparameter", "variational")


class Fit(NamedTuple):
    """A fitted ``model``, the ``history`` of the objective (per data point), and whether it was ``interrupted``."""

    model: Any
    history: np.ndarray
    interrupted: bool


@dataclass(frozen=True)
class Adam:
    """Settings of Adam, with a warm-up and a cosine decay of the learning rate.

    Args:
        learning_rate: The largest step of a raw parameter; it means the same for data of all sizes, since the objective
            is divided by their number.
        batch: Rows drawn anew for each step; None for all of them.
        warmup: Share of the steps over which the learning rate rises.
        average: With a number, the learning rate stays as it is after the warm-up, and the result is a moving average
            of the raw parameters (and of those of q): a_t = a_{t−1} + max(1/t, 1/average) (θ_t − a_{t−1}), so about
            that many last steps count. Minibatches make the steps wander around where they are bound for; the average
            is nearer to it, wherever the run ends. Polyak & Juditsky (1992).
        natural_rate: With a rate, the variational parameters of a ``VariationalGP`` move along the natural gradient, at
            that rate, before each step of the others (``VariationalGP.natural_step``).
        patience: With a number, the run ends early, once the mean objective of that many chunks in a row has not risen
            above the best before them.
    """

    learning_rate: float = 0.02
    batch: int | None = None
    warmup: float = 0.02
    average: int | None = None
    natural_rate: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        counts = {"batch": self.batch, "average": self.average, "patience": self.patience}
        at_least(1, **{name: count for name, count in counts.items() if count is not None})


_ADAM, _RUN = Adam(), Run(chunk=50)


@entry_point
def maximise(
    model: Model,
    data: Any,
    *,
    steps: int,
    key: Key,
    optimiser: Adam = _ADAM,
    roles: tuple[Role, ...] = OPTIMISED,
    refresh: Any = None,
    run: Run = _RUN,
) -> Fit:
    """Adam on the log joint density: the maximum a-posteriori fit, or of a variational model the largest bound.

    The same key gives the same result. Ctrl-C ends the run after the last whole chunk, with what there is.

    Args:
        model: Any model; it starts at the values that its parameters have.
        data: ``Data``, or for models with neighbours their ``Neighbourhoods``.
        steps: How many steps.
        key: An integer seed or a JAX random key.
        optimiser: Learning rate, minibatches and averages.
        roles: Which parameters move.
        refresh: Gives new data of the same shapes for the current model after every ``refresh.every`` steps, such as
            ``models.Refresh`` does with neighbours; or None. Where they are drawn at random, ``refresh.at(step)`` is
            the function that gives them at a step, as of ``large.Batches``.
        run: Progress and checkpoints.
    """
    key = as_key(key)
    natural_rate, average, patience = optimiser.natural_rate, optimiser.average, optimiser.patience
    if natural_rate is not None and not isinstance(model, VariationalGP):
        raise TypeError(f"natural gradients are for a VariationalGP, got {type(model).__name__}")
    natural: tuple[Role, ...] = () if natural_rate is None else ("variational",)
    free, rest = partition(model, *(role for role in roles if role not in natural))
    q, rest = partition(rest, *natural)
    rising = max(1, math.ceil(optimiser.warmup * steps))
    rate = _Rate(jnp.asarray(optimiser.learning_rate), jnp.asarray(rising), jnp.asarray(steps), average is not None)
    step = _AdamStep(rest, key, rate, optimiser.batch, natural_rate, average)
    start, q = jax.tree.map(jnp.asarray, (free, q))

    def renew(state: _State, index: int, data: Any) -> Any:
        due = index > 0 and index // refresh.every != (index - run.chunk) // refresh.every
        if not due:
            return data
        drawn = refresh.at(index) if hasattr(refresh, "at") else refresh
        return drawn(eqx.combine(*state[:2], rest))

    (free, q, _, mean), history, interrupted = run_in_chunks(
        step,
        (start, q, step.optimiser.init(start), None if average is None else (start, q)),
        data,
        steps=steps,
        run=run,
        renew=None if refresh is None else renew,
        stop=None if patience is None else lambda values: _stalled(values, run.chunk, patience),
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


class _AdamStep(AbstractStep):
    """One step of Adam: its arrays are leaves and its settings static, so that equal fits share a compiled program."""

    rest: PyTree
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
        if self.natural_rate is not None:
            moved = eqx.combine(free, q, self.rest).natural_step(self._part(data, index), self.natural_rate)
            q, _ = partition(moved, "variational")
        return self.moved((free, q, moments, mean), index, *self.slope(free, q, index, data))

    def slope(self, free: PyTree, q: PyTree, index: Array, data: Any) -> Slope:
        """What is minimised, and its gradient."""

        def objective(free: PyTree) -> Array:
            model = eqx.combine(free, q, self.rest)
            return -model.log_joint(self._part(data, index), self._key(index)) / data.size

        return jax.value_and_grad(objective)(free)

    def moved(self, state: _State, index: Array, value: Array, slope: PyTree) -> tuple[_State, Array]:
        """The next state, and the objective."""
        free, q, moments, mean = state
        updates, moments = self.optimiser.update(slope, moments, free)
        free = optax.apply_updates(free, updates)
        if self.average is not None:
            share = jnp.maximum(1.0 / (index + 1), 1.0 / self.average)
            mean = jax.tree.map(lambda old, new: (old + share * (new - old)).astype(old.dtype), mean, (free, q))
        return (free, q, moments, mean), -value

    def advance(
        self, state: _State, start: int, stop: int, data: Any, chunk: int, workers: int | None
    ) -> tuple[_State, Any]:
        parts = 1
        if self.natural_rate is None:  # natural steps are not linear in sums over rows
            parts = parts_of(eqx.combine(*state[:2], self.rest), data, self.batch, workers)
        if parts == 1:
            return AbstractStep.advance(self, state, start, stop, data, chunk, workers)
        data, slope, values = jax.tree.map(jnp.asarray, data), Divided(_slope, parts), []
        for number in range(start, stop):
            index = jnp.asarray(number)
            state, value = _moved(self, state, index, *slope(self, *state[:2], index, data))
            values.append(value)
        return state, np.array(values)

    def _part(self, data: Any, index: Array) -> Any:
        return data if self.batch is None else data.minibatch(self._key(index), self.batch)

    def _key(self, index: Array) -> Array:
        return jax.random.fold_in(self.key, index)


def _slope(step: _AdamStep, *arguments: Any) -> Slope:
    return step.slope(*arguments)


@eqx.filter_jit
def _moved(step: _AdamStep, *arguments: Any) -> tuple[_State, Array]:
    return step.moved(*arguments)
