"""The one shape of a sampler, and the driver that runs any of them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree
from threadpoolctl import threadpool_limits

from ..core import Key, Module, as_key, at_least, entry_point, program_threads, side_by_side
from ..models import AbstractObjective
from ..parameters import Role, partition
from ..posterior import Posterior
from .diagnostics import check
from .loop import AbstractStep, Run, run_in_chunks


class Target(Module):
    """What is sampled: the log joint density of the free parameters, with the rest of the model and keys.

    Args:
        rest: The rest of the model.
        key: Where random numbers come from.
        fixed: The key of the one function that an estimated density is, the same for all chains.
    """

    rest: PyTree
    key: Array
    fixed: Array

    def log_joint(self, free: PyTree, data: Any, key: Array | None = None) -> Array:
        """The log joint density of free parameters with ``data``; without a ``key`` it is one fixed function."""
        return eqx.combine(free, self.rest).log_joint(data, self.fixed if key is None else key)


class Draw(NamedTuple):
    """What is kept of a transition: ``position``, ``log_joint [chains]`` and ``statistics [chains]`` by name."""

    position: PyTree
    log_joint: Array
    statistics: dict[str, Array]


class AbstractSampler(Module):
    """A Markov chain Monte Carlo sampler: its settings, how all its chains begin, and how they make one draw each.

    Every sampler has ``warmup``, ``chains`` and ``jitter``. Positions are trees of raw parameters with the chains as
    leading axis. ``move`` makes one draw of every chain; its first ``warmup`` draws are not kept, and it may adapt
    itself in them. Random numbers come from ``jax.random.fold_in(target.key, index)``. Chains that are ``independent``
    run side by side, each as a sampler of one chain with a key of its own.

    ``check`` knows these statistics: ``diverging``, ``acceptance_rate``, ``reached_max_treedepth``, ``kinetic`` (the
    kinetic energy per coordinate, which should be ½); others are kept for the user.
    """

    warmup: eqx.AbstractVar[Any]  # draws before the first that is kept
    chains: eqx.AbstractVar[int]
    jitter: eqx.AbstractVar[Any]  # standard deviation, in raw numbers, of the starts around the model
    advice: ClassVar[str] = "look at the starting parameters; a start at the optimum, or stronger priors, usually help"

    def independent(self) -> bool:
        """Whether chains know nothing of each other, so that each can run by itself."""
        return True

    def starts(self, target: Target, free: PyTree, data: Any, key: Array) -> Any:
        """What chains begin from, ``[chains, ...]``: by default the model's parameters plus jitter.

        Args:
            target: What is sampled.
            free: The raw parameters of the model.
            data: What the model is fitted to.
            key: Of the random numbers.
        """
        del target, data
        return jittered(free, key, self.chains, self.jitter)

    @abstractmethod
    def begin(self, target: Target, start: PyTree, data: Any) -> Any:
        """The state of all chains at their starts.

        Args:
            target: What is sampled.
            start: What ``starts`` gives: a tree of raw parameters, ``[chains, ...]``, if it is not the sampler's own.
            data: What the model is fitted to.
        """

    @abstractmethod
    def move(self, target: Target, state: PyTree, index: Array, data: Any) -> tuple[Any, Draw]:
        """The next state of all chains, and their draws.

        Args:
            target: What is sampled.
            state: What ``begin`` or the last ``move`` gave.
            index: The number of the draw, from 0 on, those of the warm-up included.
            data: What the model is fitted to.
        """

    def optimised(self) -> tuple[Role, ...]:
        """Roles of parameters that the sampler optimises instead of sampling them."""
        return ()

    def finish(self, state: PyTree, rest: PyTree) -> Any:
        """The ``rest`` of the model at the end, with what chains that share it have optimised, from the last state."""
        del state
        return rest


_RUN = Run()


@entry_point
def sample(
    sampler: AbstractSampler,
    model: AbstractObjective,
    data: Any,
    *,
    draws: int,
    key: Key,
    roles: tuple[Role, ...] = ("latent", "hyperparameter"),
    run: Run = _RUN,
    warn: bool = True,
) -> Posterior:
    """Draws from the posterior of a model's parameters.

    The chains start at the model as it is (best: at its optimum) plus jitter. A run that was killed goes on from its
    checkpoint, bit for bit; Ctrl-C returns the draws made so far.

    Args:
        sampler: One of ``SAMPLERS``, such as ``NUTS(...)``, with the number of chains and the length of the warm-up.
        model: A model, at its optimum if possible.
        data: What it is fitted to.
        draws: Draws of each chain.
        key: An integer seed or a JAX random key.
        roles: Which parameters are sampled (but for those that the sampler optimises).
        run: Progress and checkpoints.
        warn: Whether to warn, at the end, of what ``check`` finds wrong with the draws.

    Example:
        >>> import spectrogp as sg
        >>> from spectrogp.inference import NUTS, sample
        >>> noise = sg.Positive(0.5, sg.LogNormal(0.5, 1.0))
        >>> model = sg.models.ExactGP(sg.kernels.SquaredExponential(1.0), noise)
        >>> data = sg.Data([0.0, 1.0, 2.0], [0.5, -0.5, 0.1])
        >>> posterior = sample(NUTS(warmup=20, chains=2), model, data, draws=10, key=0, warn=False)
        >>> posterior.log_joint.shape
        (2, 10)
    """
    at_least(1, draws=draws)
    of_starts, of_steps = jax.random.split(as_key(key))
    free, rest = partition(model, *(role for role in roles if role not in sampler.optimised()))
    if not jax.tree.leaves(free):
        raise ValueError(f"the model has no parameters with a role among {', '.join(map(repr, roles))}")
    target = Target(rest, of_steps, of_steps)
    step = _Chains.of(sampler, target) if sampler.independent() else _Transition(sampler, target)
    warmup = int(sampler.warmup)
    # Cores are for chains: threads of BLAS that wait for each other take them, and round differently.
    with threadpool_limits(1 if sampler.chains > 1 else None, "blas"):
        state = step.begin(sampler.starts(target, free, data, of_starts), data)
        state, records, interrupted = run_in_chunks(step, state, data, steps=warmup + draws, run=run)
    kept: Draw = jax.tree.map(lambda leaf: np.swapaxes(leaf[warmup:], 0, 1), records)
    if not sampler.independent():
        rest = sampler.finish(state, rest)
    posterior = Posterior(kept.position, rest, kept.log_joint, kept.statistics, interrupted)
    if warn:
        check(posterior, stacklevel=4)  # at the caller of the entry point
    return posterior


class _Transition(AbstractStep):
    """One draw of all chains, as a step of a run."""

    sampler: AbstractSampler
    target: Target

    def begin(self, start: PyTree, data: Any) -> Any:
        return _begin(self, start, data)

    def __call__(self, state: PyTree, index: Array, data: Any) -> tuple[Any, Draw]:
        return self.sampler.move(self.target, state, index, data)

    def objective(self, records: Draw) -> Any:
        return records.log_joint

    @property
    def advice(self) -> str:  # type: ignore[override]
        return self.sampler.advice


class _Chains(AbstractStep):
    """One draw of every independent chain: of a sampler of one chain each, with keys of their own.

    They share one compiled program, which several threads run at once. A trajectory of one chain does not wait for a
    longer one of another, except at the end of a chunk.
    """

    each: _Transition  # with keys ``[chains]``

    @classmethod
    def of(cls, sampler: AbstractSampler, target: Target) -> _Chains:
        keys = jax.random.split(target.key, sampler.chains)
        return cls(_Transition(replace(sampler, chains=1), replace(target, key=keys)))

    def begin(self, start: PyTree, data: Any) -> tuple[Any, ...]:
        keys = self.each.target.key
        return tuple(
            self._chain(key).begin(jax.tree.map(lambda leaf, c=c: leaf[c : c + 1], start), data)
            for c, key in enumerate(keys)
        )

    def __call__(self, state: tuple[Any, ...], index: Array, data: Any) -> tuple[Any, Draw]:
        keys, together = self.each.target.key, jax.tree.map(lambda *leaves: jnp.stack(leaves), *state)
        moved, draw = jax.lax.map(lambda pair: self._chain(pair[0])(pair[1], index, data), (keys, together))
        apart = tuple(jax.tree.map(lambda leaf, c=c: leaf[c], moved) for c in range(len(state)))
        return apart, jax.tree.map(lambda leaf: leaf[:, 0], draw)

    def advance(
        self, state: tuple[Any, ...], start: int, stop: int, data: Any, chunk: int, workers: int | None
    ) -> tuple[Any, Any]:
        def one(chain: int, stop: int = stop) -> tuple[Any, Any]:
            alone = self._chain(self.each.target.key[chain])
            moved, records = alone.advance(state[chain], start, stop, data, chunk, None)
            return moved, jax.tree.map(np.asarray, records)  # which waits for them

        workers = min(len(state), program_threads() if workers is None else workers)
        if workers > 1:
            one(0, start)  # no steps: threads that find no program would each compile it
        moved, records = zip(*side_by_side(one, range(len(state)), workers), strict=True)
        return moved, jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *records)

    def objective(self, records: Draw) -> Any:
        return records.log_joint

    @property
    def advice(self) -> str:  # type: ignore[override]
        return self.each.advice

    def _chain(self, key: Array) -> _Transition:
        return replace(self.each, target=replace(self.each.target, key=key))


@eqx.filter_jit
def _begin(step: _Transition, start: PyTree, data: Any) -> Any:
    return step.sampler.begin(step.target, start, data)


def jittered(free: PyTree, key: Array, chains: int, jitter: float) -> Any:
    """Raw parameters ``[chains, ...]`` with normal jitter of this standard deviation."""
    leaves, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, free))
    keys = jax.random.split(key, len(leaves))
    moved = [
        leaf + jitter * jax.random.normal(k, (chains, *leaf.shape), leaf.dtype)
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)
