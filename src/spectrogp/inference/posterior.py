"""Draws from the posterior of a model, whichever sampler made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..numerics import entry_point
from ..parameters import Role, partition


class Posterior(eqx.Module):
    """Draws of a model's raw parameters, ``[chains, draws, ...]`` each, and the rest of the model.

    ``log_joint [chains, draws]`` belongs to each draw (an estimate where the sampler used minibatches);
    ``statistics`` are what the sampler says of each draw, under the names that arviz uses.
    """

    draws: Any
    rest: Any
    log_joint: np.ndarray
    statistics: dict[str, np.ndarray]
    interrupted: bool = eqx.field(static=True)

    def at(self, chain: int, draw: int) -> Any:
        """The model at one draw."""
        return eqx.combine(jax.tree.map(lambda leaf: leaf[chain, draw], self.draws), self.rest)

    @entry_point
    def map(self, function: Callable[[Any], Any]) -> Any:
        """``function(model)`` at every draw, stacked ``[chains, draws, ...]``; compiled once for each function.

        The models have raw parameters, as ``at`` gives them: ``posterior.map(lambda m: m.predict(data, X))``.
        """
        return _map(function, self.draws, self.rest)


@eqx.filter_jit
def _map(function: Callable[[Any], Any], draws: Any, rest: Any) -> Any:
    shape = jax.tree.leaves(draws)[0].shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(shape[0] * shape[1], *leaf.shape[2:]), draws)
    values = jax.lax.map(lambda free: function(eqx.combine(free, rest)), flat)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), values)


def starts(model: Any, roles: tuple[Role, ...], chains: int, jitter: float, key: Array) -> tuple[Any, Any]:
    """Where the chains start, ``[chains, ...]``: the model as it is plus normal jitter in raw numbers; and the rest."""
    if chains < 1:
        raise ValueError(f"chains must be at least 1, got {chains}")
    free, rest = partition(model, *roles)
    leaves, structure = jax.tree.flatten(free)
    if not leaves:
        raise ValueError(f"the model has no parameters with a role among {', '.join(map(repr, roles))}")
    keys = jax.random.split(key, len(leaves))
    moved = [
        jnp.asarray(leaf) + jitter * jax.random.normal(k, (chains, *np.shape(leaf)), jnp.asarray(leaf).dtype)
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, moved), rest


def by_chain(records: Any, skip: int) -> Any:
    """Records ``[steps, chains, ...]`` of a loop as ``[chains, draws, ...]``, without the first ones."""
    return jax.tree.map(lambda leaf: np.swapaxes(leaf[skip:], 0, 1), records)
