"""Hamiltonian Monte Carlo with exact gradients: the No-U-Turn sampler of blackjax, with window adaptation."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..core import at_least
from .sampler import AbstractSampler, Draw, Target

_FIRST_STEP = 0.1


def _blackjax() -> Any:
    """Blackjax, where it is used: it computes as it is imported, and after that no forked process could compute."""
    with jax.ensure_compile_time_eval():  # what it computes is kept, so it must not be traced
        import blackjax
    return blackjax


class Chain(NamedTuple):
    """One chain: blackjax's state, and what is adapted during warm-up."""

    current: Any
    dual_averaging: Any
    mass: Any
    step_size: Array


class NUTS(AbstractSampler):
    """The No-U-Turn sampler, or Hamiltonian Monte Carlo when a number of ``leapfrogs`` is given.

    During the warm-up each chain adapts its step size and a diagonal mass matrix, in Stan's windows. Gradients are of
    the log joint density of all data. Hoffman & Gelman (2014).

    Args:
        warmup: Draws of each chain before the first that is kept.
        chains: Number of chains.
        acceptance: The acceptance rate, between 0 and 1, that the step size is adapted to.
        doublings: A draw takes at most 2^doublings gradients.
        leapfrogs: Number of steps of a trajectory; None lets every trajectory find its own (NUTS).
        jitter: Standard deviation, in raw numbers, of the starts of the chains around the model.
    """

    warmup: int = eqx.field(static=True, default=500)
    chains: int = eqx.field(static=True, default=4)
    acceptance: float = eqx.field(static=True, default=0.8)
    doublings: int = eqx.field(static=True, default=10)
    leapfrogs: int | None = eqx.field(static=True, default=None)
    jitter: float = eqx.field(static=True, default=0.1)

    def __check_init__(self) -> None:
        at_least(1, warmup=self.warmup, chains=self.chains, doublings=self.doublings)
        if not 0.0 < self.acceptance < 1.0:
            raise ValueError(f"acceptance must lie between 0 and 1, got {self.acceptance}")

    def begin(self, target: Target, position: PyTree, data: Any) -> Chain:
        return jax.lax.map(lambda start: self._begin(target, start, data), position)

    def move(self, target: Target, state: Chain, index: Array, data: Any) -> tuple[Chain, Draw]:
        keys = jax.random.split(jax.random.fold_in(target.key, index), self.chains)
        # One after the other: side by side, every chain would wait for the one with the longest trajectory.
        return jax.lax.map(lambda pair: self._move(target, pair[0], pair[1], index, data), (keys, state))

    def _begin(self, target: Target, position: PyTree, data: Any) -> Chain:
        size = sum(map(jnp.size, jax.tree.leaves(position)))
        blackjax = _blackjax()
        averaging = blackjax.adaptation.step_size.dual_averaging_adaptation(self.acceptance)
        mass = blackjax.adaptation.mass_matrix.mass_matrix_adaptation()
        first = jnp.asarray(_FIRST_STEP, jax.tree.leaves(position)[0].dtype)
        current = blackjax.nuts.init(position, lambda free: target.log_joint(free, data))
        return jax.tree.map(jnp.asarray, Chain(current, averaging[0](first), mass[0](size), first))

    def _move(self, target: Target, key: Array, chain: Chain, index: Array, data: Any) -> tuple[Chain, Draw]:
        blackjax = _blackjax()
        settings = (lambda free: target.log_joint(free, data), chain.step_size, chain.mass.inverse_mass_matrix)
        if self.leapfrogs is None:
            current, info = blackjax.nuts.build_kernel()(key, chain.current, *settings, self.doublings)
        else:
            current, info = blackjax.hmc.build_kernel()(key, chain.current, *settings, self.leapfrogs)
        gradients = jnp.asarray(info.num_integration_steps)
        statistics = {
            "diverging": info.is_divergent,
            "acceptance_rate": info.acceptance_rate,
            "n_steps": gradients,
            "step_size": chain.step_size,
        }
        if self.leapfrogs is None:
            statistics["reached_max_treedepth"] = gradients >= 2**self.doublings - 1
        moved = chain._replace(current=current)
        adapted = self._adapted(moved, info.acceptance_rate, index)
        warm = index < self.warmup
        chain = jax.tree.map(lambda new, old: jnp.where(warm, new, old), adapted, moved)
        return chain, Draw(current.position, current.logdensity, statistics)

    def _adapted(self, chain: Chain, acceptance: Array, index: Array) -> Chain:
        """Stan's warm-up: dual averaging of the step size, and variances of the draws of ever longer windows."""
        adaptation = _blackjax().adaptation
        start_averaging, update_averaging, average = adaptation.step_size.dual_averaging_adaptation(self.acceptance)
        _, update_mass, end_window = adaptation.mass_matrix.mass_matrix_adaptation()
        # At every step: whether the window adapts the mass matrix, whether it ends here.
        with jax.ensure_compile_time_eval():  # a constant, though this is traced
            schedule = np.asarray(adaptation.window_adaptation.build_schedule(self.warmup), dtype=np.int32)
        slow, end = jnp.asarray(schedule)[jnp.minimum(index, self.warmup - 1)].astype(bool)

        def where(condition: Array, new: Any, old: Any) -> Any:
            return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)

        averaging = update_averaging(chain.dual_averaging, acceptance)
        mass = where(slow, update_mass(chain.mass, chain.current.position), chain.mass)
        mass = where(end, end_window(mass), mass)
        averaging = where(end, start_averaging(average(averaging)), averaging)
        last = index + 1 >= self.warmup
        step_size = jnp.where(last, average(averaging), jnp.exp(averaging.log_step_size))
        return Chain(chain.current, averaging, mass, step_size)
