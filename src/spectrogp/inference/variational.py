"""Draws from the Gaussian q of a fitted doubly stochastic bound."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jax import Array
from jaxtyping import PyTree

from ..core import Key, as_key, at_least, entry_point
from ..models import DoublyStochasticGP
from ..parameters import partition
from ..posterior import Posterior


class _LogJoint(eqx.Module):
    data: Any
    key: Array

    def __call__(self, model: Any) -> Array:
        return model.log_joint(self.data, self.key)


@entry_point
def sample_variational(bound: DoublyStochasticGP, data: Any, *, draws: int, key: Key) -> Posterior:
    """Independent draws from q, as one chain.

    Args:
        bound: A bound that ``maximise`` has fitted.
        data: What it was fitted to.
        draws: How many draws.
        key: An integer seed or a JAX random key.
    """
    at_least(1, draws=draws)
    keys = jax.random.split(as_key(key), draws)
    free = _draws(bound, keys)
    rest = partition(bound.model, "latent")[1]
    log_joint = _log_joint(_LogJoint(data, keys[0]), free, rest)
    return Posterior(jax.tree.map(lambda leaf: leaf[None], free), rest, log_joint[None], {})


# At the top, with all arrays as arguments: what is jitted inside a call is compiled anew by every call, and kept.
@eqx.filter_jit
def _draws(bound: DoublyStochasticGP, keys: Array) -> Any:
    return jax.vmap(lambda key: partition(bound.sampled(key), "latent")[0])(keys)


@eqx.filter_jit
def _log_joint(density: _LogJoint, draws: PyTree, rest: PyTree) -> Array:
    return jax.lax.map(lambda free: density(eqx.combine(free, rest)), draws)
