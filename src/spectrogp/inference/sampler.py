"""The one shape of a sampler, and the driver that runs any of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..core import Key, Module, as_key, at_least, entry_point
from ..models import AbstractObjective
from ..parameters import Role, partition
from ..posterior import Posterior
from .diagnostics import check
from .loop import AbstractStep, Run, run_in_chunks


class Target(Module):
    """What is sampled: the log joint density of the free parameters, with the rest of the model and a key."""

    rest: PyTree
    key: Array

    def log_joint(self, free: PyTree, data: Any, key: Array | None = None) -> Array:
        """The log joint density of free parameters with ``data``; without a ``key`` it is one fixed function."""
        return eqx.combine(free, self.rest).log_joint(data, self.key if key is None else key)


class Draw(NamedTuple):
    """What is kept of a transition: ``position``, ``log_joint [chains]`` and ``statistics [chains]`` by name."""

    position: PyTree
    log_joint: Array
    statistics: dict[str, Array]


class AbstractSampler(Module):
    """A Markov chain Monte Carlo sampler: its settings, how all its chains begin, and how they make one draw each.

    Every sampler has ``warmup``, ``chains`` and ``jitter``. Positions are trees of raw parameters with the chains as
    leading axis. ``move`` makes one draw of every chain; its first ``warmup`` draws are not kept, and it may adapt
    itself in them. Random numbers come from ``jax.random.fold_in(target.key, index)``.

    ``check`` knows these statistics: ``diverging``, ``acceptance_rate``, ``reached_max_treedepth``, ``kinetic`` (the
    kinetic energy per coordinate, which should be ½); others are kept for the user.
    """

    warmup: eqx.AbstractVar[Any]  # draws before the first that is kept
    chains: eqx.AbstractVar[int]
    jitter: eqx.AbstractVar[Any]  # standard deviation, in raw numbers, of the starts around the model
    advice: ClassVar[str] = "look at the starting parameters; a start at the optimum, or stronger priors, usually help"

    @abstractmethod
    def begin(self, target: Target, position: PyTree, data: Any) -> Any:
        """The state of all chains at their starting positions.

        Args:
            target: What is sampled.
            position: A tree of raw parameters, ``[chains, ...]``.
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
        """The ``rest`` of the model at the end, with what the sampler has optimised, from its last ``state``."""
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
    position, rest = _starts(
        model, tuple(role for role in roles if role not in sampler.optimised()), sampler, of_starts
    )
    step = _Transition(sampler, Target(rest, of_steps))
    warmup = int(sampler.warmup)
    state, records, interrupted = run_in_chunks(step, _begin(step, position, data), data, steps=warmup + draws, run=run)
    kept: Draw = jax.tree.map(lambda leaf: np.swapaxes(leaf[warmup:], 0, 1), records)
    posterior = Posterior(kept.position, sampler.finish(state, rest), kept.log_joint, kept.statistics, interrupted)
    if warn:
        check(posterior, stacklevel=4)  # at the caller of the entry point
    return posterior


class _Transition(AbstractStep):
    """One draw of all chains, as a step of a run."""

    sampler: AbstractSampler
    target: Target

    def __call__(self, state: PyTree, index: Array, data: Any) -> tuple[Any, Draw]:
        return self.sampler.move(self.target, state, index, data)

    def objective(self, records: Draw) -> Any:
        return records.log_joint

    @property
    def advice(self) -> str:  # type: ignore[override]
        return self.sampler.advice


@eqx.filter_jit
def _begin(step: _Transition, position: PyTree, data: Any) -> Any:
    return step.sampler.begin(step.target, position, data)


def _starts(model: Any, roles: tuple[Role, ...], sampler: AbstractSampler, key: Array) -> tuple[Any, Any]:
    """Where the chains start, ``[chains, ...]``: the model as it is plus normal jitter in raw numbers; and the rest."""
    free, rest = partition(model, *roles)
    leaves, structure = jax.tree.flatten(free)
    if not leaves:
        raise ValueError(f"the model has no parameters with a role among {', '.join(map(repr, roles))}")
    keys = jax.random.split(key, len(leaves))
    moved = [
        jnp.asarray(leaf)
        + sampler.jitter * jax.random.normal(k, (sampler.chains, *np.shape(leaf)), jnp.asarray(leaf).dtype)
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, moved), rest
