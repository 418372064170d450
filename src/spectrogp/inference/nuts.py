"""Hamiltonian Monte Carlo with exact gradients: the No-U-Turn sampler of blackjax, with window adaptation."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.adaptation.window_adaptation import build_schedule
from jax import Array

from ..models import AbstractObjective
from ..numerics import entry_point
from ..parameters import Role
from .diagnostics import check
from .loop import Progress, run_in_chunks
from .posterior import Posterior, by_chain, starts

_FIRST_STEP = 0.1


class Chain(NamedTuple):
    """One chain: blackjax's state, and what is adapted during warm-up."""

    current: Any
    dual_averaging: Any
    mass: Any
    step_size: Array


class Draw(NamedTuple):
    """What a loop keeps of a step, of all chains."""

    position: Any
    log_joint: Array
    diverging: Array
    acceptance: Array
    gradients: Array
    step_size: Array


@entry_point
def sample_nuts(
    model: AbstractObjective,
    data: Any,
    *,
    draws: int,
    key: Array,
    warmup: int = 500,
    chains: int = 4,
    roles: tuple[Role, ...] = ("latent", "hyperparameter"),
    acceptance: float = 0.8,
    doublings: int = 10,
    leapfrogs: int | None = None,
    jitter: float = 0.1,
    chunk: int = 25,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    warn: bool = True,
) -> Posterior:
    """Sample the parameters of the given roles by NUTS, or by HMC when a number of ``leapfrogs`` is given.

    The chains start at the model as it is (best: at its optimum) plus jitter. During ``warmup`` each adapts its step
    size, to the wanted ``acceptance``, and a diagonal mass matrix, in Stan's windows. A draw takes at most
    2^``doublings`` gradients of the log joint density of all data. Hoffman & Gelman (2014).

    At the end ``check`` looks at the draws, and warns of what is wrong with them unless ``warn`` is false.
    """
    for name, value in (("draws", draws), ("warmup", warmup), ("doublings", doublings)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if not 0.0 < acceptance < 1.0:
        raise ValueError(f"acceptance must lie between 0 and 1, got {acceptance}")
    key_start, key_steps = jax.random.split(key)
    position, rest = starts(model, roles, chains, jitter, key_start)
    schedule = np.asarray(build_schedule(warmup), dtype=np.int32)
    step = _Step(rest, key_steps, schedule, acceptance, doublings, leapfrogs, chains)
    _, records, interrupted = run_in_chunks(
        step,
        _begin(step, position, data),
        data,
        steps=warmup + draws,
        chunk=chunk,
        objective=lambda records: records.log_joint,
        progress=progress,
        checkpoint=checkpoint,
        advice="look at the starting parameters; a start at the optimum, or stronger priors, usually help",
    )
    kept = by_chain(records, warmup)
    statistics = {
        "diverging": kept.diverging,
        "acceptance_rate": kept.acceptance,
        "n_steps": kept.gradients,
        "step_size": kept.step_size,
    }
    if leapfrogs is None:
        statistics["reached_max_treedepth"] = kept.gradients >= 2**doublings - 1
    posterior = Posterior(kept.position, rest, kept.log_joint, statistics, interrupted)
    if warn:
        check(posterior, stacklevel=4)  # at the caller of the entry point
    return posterior


class _Step(eqx.Module):
    """One transition of all chains, one after the other, and one of their adaptation while it lasts."""

    rest: Any
    key: Array
    schedule: Any  # [warmup, 2]: whether the window adapts the mass matrix, whether it ends here
    acceptance: float = eqx.field(static=True)
    doublings: int = eqx.field(static=True)
    leapfrogs: int | None = eqx.field(static=True)
    chains: int = eqx.field(static=True)

    def log_density(self, data: Any) -> Any:
        # The same key for all steps: the density must be one fixed function.
        return lambda free: eqx.combine(free, self.rest).log_joint(data, self.key)

    def begin(self, position: Any, data: Any) -> Chain:
        size = sum(map(jnp.size, jax.tree.leaves(position)))
        averaging, mass = dual_averaging_adaptation(self.acceptance), mass_matrix_adaptation()
        first = jnp.asarray(_FIRST_STEP, jax.tree.leaves(position)[0].dtype)
        current = blackjax.nuts.init(position, self.log_density(data))
        return jax.tree.map(jnp.asarray, Chain(current, averaging[0](first), mass[0](size), first))

    def __call__(self, state: Chain, index: Array, data: Any) -> tuple[Chain, Draw]:
        keys = jax.random.split(jax.random.fold_in(self.key, index), self.chains)
        # One after the other: side by side, every chain would wait for the one with the longest trajectory.
        return jax.lax.map(lambda pair: self._move(pair[0], pair[1], index, data), (keys, state))

    def _move(self, key: Array, chain: Chain, index: Array, data: Any) -> tuple[Chain, Draw]:
        settings = (self.log_density(data), chain.step_size, chain.mass.inverse_mass_matrix)
        if self.leapfrogs is None:
            current, info = blackjax.nuts.build_kernel()(key, chain.current, *settings, self.doublings)
        else:
            current, info = blackjax.hmc.build_kernel()(key, chain.current, *settings, self.leapfrogs)
        draw = Draw(
            current.position,
            current.logdensity,
            info.is_divergent,
            info.acceptance_rate,
            jnp.asarray(info.num_integration_steps),
            chain.step_size,
        )
        moved = chain._replace(current=current)
        adapted = self._adapted(moved, info.acceptance_rate, index)
        warm = index < len(self.schedule)
        return jax.tree.map(lambda new, old: jnp.where(warm, new, old), adapted, moved), draw

    def _adapted(self, chain: Chain, acceptance: Array, index: Array) -> Chain:
        """Stan's warm-up: dual averaging of the step size, and variances of the draws of ever longer windows."""
        start_averaging, update_averaging, average = dual_averaging_adaptation(self.acceptance)
        _, update_mass, end_window = mass_matrix_adaptation()
        slow, end = jnp.asarray(self.schedule)[jnp.minimum(index, len(self.schedule) - 1)].astype(bool)

        def where(condition: Array, new: Any, old: Any) -> Any:
            return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)

        averaging = update_averaging(chain.dual_averaging, acceptance)
        mass = where(slow, update_mass(chain.mass, chain.current.position), chain.mass)
        mass = where(end, end_window(mass), mass)
        averaging = where(end, start_averaging(average(averaging)), averaging)
        last = index + 1 >= len(self.schedule)
        step_size = jnp.where(last, average(averaging), jnp.exp(averaging.log_step_size))
        return Chain(chain.current, averaging, mass, step_size)


@eqx.filter_jit
def _begin(step: _Step, position: Any, data: Any) -> Chain:
    return jax.lax.map(lambda start: step.begin(start, data), position)
