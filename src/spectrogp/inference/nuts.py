"""Hamiltonian Monte Carlo with exact gradients: the No-U-Turn sampler of blackjax, in a metric that the model gives."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from ..core import at_least
from .laplace import Density
from .metric import DENSE, Window, covariance, empty_window, extended, initial_root, learned, window_ends
from .sampler import AbstractSampler, Draw, Target, jittered

_FIRST_STEP = 0.1
_HALVINGS = 20  # of the way from the model to a start, at most


def _blackjax() -> Any:
    """Blackjax, where it is used: it computes as it is imported, and after that no forked process could compute."""
    with jax.ensure_compile_time_eval():  # what it computes is kept, so it must not be traced
        import blackjax
    return blackjax


class Start(NamedTuple):
    """Where chains begin: positions, and the root of the metric (``metric``), with the chains as leading axis."""

    position: PyTree
    root: Array


class Chain(NamedTuple):
    """One chain: blackjax's state, and what is adapted during warm-up."""

    current: Any
    dual_averaging: Any
    root: Array
    window: Window
    step_size: Array


class NUTS(AbstractSampler):
    """The No-U-Turn sampler, or Hamiltonian Monte Carlo when a number of ``leapfrogs`` is given.

    Gradients are of the log joint density of all data. The metric (inverse mass matrix) begins as the covariance of the
    Laplace approximation at the model, and chains begin at draws from it: best at an optimum. During the warm-up each
    chain adapts its step size and, in windows of 10, 20, 40 … draws, the metric. Hoffman & Gelman (2014).

    Args:
        warmup: Draws of each chain before the first that is kept.
        chains: Number of chains.
        acceptance: The acceptance rate, between 0 and 1, that the step size is adapted to.
        doublings: A draw takes at most 2^doublings gradients.
        leapfrogs: Number of steps of a trajectory; None lets every trajectory find its own (NUTS).
        jitter: Standard deviation, in raw numbers, of the starts of the chains around the model; None starts them at
            draws from the Laplace approximation.
        metric: "dense" for a matrix, "diagonal" for a length of each number; None takes a matrix up to 500 numbers.
    """

    warmup: int = eqx.field(static=True, default=500)
    chains: int = eqx.field(static=True, default=4)
    acceptance: float = eqx.field(static=True, default=0.8)
    doublings: int = eqx.field(static=True, default=10)
    leapfrogs: int | None = eqx.field(static=True, default=None)
    jitter: float | None = eqx.field(static=True, default=None)
    metric: Literal["dense", "diagonal"] | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        at_least(1, warmup=self.warmup, chains=self.chains, doublings=self.doublings)
        if not 0.0 < self.acceptance < 1.0:
            raise ValueError(f"acceptance must lie between 0 and 1, got {self.acceptance}")
        if self.metric not in (None, "dense", "diagonal"):
            raise ValueError(f"metric must be 'dense', 'diagonal' or None, got {self.metric!r}")

    def starts(self, target: Target, free: PyTree, data: Any, key: Array) -> Start:
        of_rng, of_moves = jax.random.split(key)
        free = jax.tree.map(jnp.asarray, free)
        size = sum(map(jnp.size, jax.tree.leaves(free)))
        dense = size <= DENSE if self.metric is None else self.metric == "dense"
        density = Density(target.rest, data, target.fixed)
        self._require_finite(float(_values(density, jax.tree.map(lambda leaf: leaf[None], free))[0]))
        rng = np.random.default_rng(np.asarray(jax.random.key_data(of_rng)))
        root, peak = initial_root(density, free, dense=dense, rng=rng)
        if self.jitter is None:
            position = _dispersed(density, free, root, peak, jax.random.normal(of_moves, (self.chains, size)))
        else:
            position = jittered(free, of_moves, self.chains, self.jitter)
        dtype = jax.tree.leaves(free)[0].dtype
        return Start(position, jnp.broadcast_to(jnp.asarray(root, dtype), (self.chains, *root.shape)))

    def begin(self, target: Target, start: Start, data: Any) -> Chain:
        return jax.lax.map(lambda one: self._begin(target, one, data), start)

    def move(self, target: Target, state: Chain, index: Array, data: Any) -> tuple[Chain, Draw]:
        keys = jax.random.split(jax.random.fold_in(target.key, index), self.chains)
        return jax.lax.map(lambda pair: self._move(target, pair[0], pair[1], index, data), (keys, state))

    def _require_finite(self, value: float) -> None:
        if not np.isfinite(value):
            raise FloatingPointError(f"the objective is {value} at step 0: {self.advice}")

    def _begin(self, target: Target, start: Start, data: Any) -> Chain:
        blackjax = _blackjax()
        averaging = blackjax.adaptation.step_size.dual_averaging_adaptation(self.acceptance)
        first = jnp.asarray(_FIRST_STEP, start.root.dtype)
        current = blackjax.nuts.init(start.position, lambda free: target.log_joint(free, data))
        chain = Chain(current, averaging[0](first), start.root, empty_window(start.root), first)
        return jax.tree.map(jnp.asarray, chain)

    def _move(self, target: Target, key: Array, chain: Chain, index: Array, data: Any) -> tuple[Chain, Draw]:
        blackjax = _blackjax()
        settings = (lambda free: target.log_joint(free, data), chain.step_size, covariance(chain.root))
        if self.leapfrogs is None:
            current, info = blackjax.nuts.build_kernel()(key, chain.current, *settings, self.doublings)
        else:
            current, info = blackjax.hmc.build_kernel()(key, chain.current, *settings, self.leapfrogs)
        gradients = jnp.asarray(info.num_integration_steps)
        statistics = {
            "diverging": info.is_divergent,
            "acceptance_rate": info.acceptance_rate,
            "energy": info.energy,
            "n_steps": gradients,
            "step_size": chain.step_size,
        }
        if self.leapfrogs is None:
            statistics["reached_max_treedepth"] = gradients >= 2**self.doublings - 1
        moved = chain._replace(current=current)
        adapt = lambda: self._adapted(moved, info.acceptance_rate, index)  # noqa: E731
        chain = jax.lax.cond(index < self.warmup, adapt, lambda: moved)
        return chain, Draw(current.position, current.logdensity, statistics)

    def _adapted(self, chain: Chain, acceptance: Array, index: Array) -> Chain:
        """The warm-up: dual averaging of the step size, and a metric from the draws of ever longer windows."""
        adaptation = _blackjax().adaptation
        start_averaging, update_averaging, average = adaptation.step_size.dual_averaging_adaptation(self.acceptance)
        ends = window_ends(self.warmup)
        end = jnp.any(index + 1 == jnp.asarray(ends, index.dtype)) if ends else jnp.asarray(False)
        averaging = update_averaging(chain.dual_averaging, acceptance)
        current = chain.current
        window = extended(chain.window, current.position, current.logdensity_grad)
        renew = lambda: (learned(chain.root, window), empty_window(chain.root))  # noqa: E731
        root, window = jax.lax.cond(end, renew, lambda: (chain.root, window))
        averaging = _where(end, start_averaging(average(averaging)), averaging)
        last = index + 1 >= self.warmup
        step_size = jnp.where(last, average(averaging), jnp.exp(averaging.log_step_size))
        return Chain(current, jax.tree.map(jnp.asarray, averaging), root, window, step_size)


def _where(condition: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)


@eqx.filter_jit
def _values(density: Density, positions: PyTree) -> Array:
    return jax.lax.map(density, positions)


def _dispersed(density: Density, free: PyTree, root: np.ndarray, peak: float, z: Array) -> Any:
    """Starts ``[chains, ...]`` at draws from the Laplace approximation, ``z [chains, p]`` of its standard deviations.

    Where the posterior is not normal a draw may lie far out. A normal distribution of p numbers loses p/2 of its log
    density, on average; a start that loses more than p, or has no density at all, is taken halfway back to the model.
    """
    mean, unravel = ravel_pytree(free)
    moves = np.array(z @ root.T if root.ndim == 2 else z * root, np.float64)
    for _ in range(_HALVINGS):
        positions = jax.vmap(unravel)(mean + jnp.asarray(moves, mean.dtype))
        far = ~(peak - np.asarray(_values(density, positions)) <= mean.size)
        if not np.any(far):
            break
        moves[far] *= 0.5
    return positions
