"""How much jitter the covariance matrices of a model need."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core import cholesky, entry_point
from .base import AbstractModel
from .neighbours import FullScaleGP, NeighbourGP, joint

_SOME = 1000  # neighbourhoods that are looked at


@entry_point
def relative_jitter(model: AbstractModel, data: Any) -> float:
    """The largest jitter, as a share of the mean variance, with which the covariances of a model are factored.

    Zero is the rule. More says that they are singular to rounding: too little noise beside lengthscales that are long
    for the spacing of the inputs.

    Args:
        model: A model that has a kernel.
        data: What it was fitted to; of neighbourhoods at most a thousand are looked at.
    """
    if isinstance(model, NeighbourGP | FullScaleGP):
        members = np.asarray(data.members)
        some = np.linspace(0, len(members) - 1, min(len(members), _SOME)).astype(int)
        data = eqx.tree_at(lambda one: one.members, data, members[some])
    return float(_largest(model, data))


@eqx.filter_jit
def _largest(model: Any, data: Any) -> Array:
    model = model.realise()
    if isinstance(model, NeighbourGP | FullScaleGP):
        K = joint(model, data.data, jnp.asarray(data.members))[1]
    elif hasattr(model, "inducing"):
        K = model.kernel.gram(model.kernel.local(model.inducing))[None]
    else:
        K = (model.kernel.gram(model.kernel.local(data.X)) + jnp.diag(model.likelihood.variance(data)))[None]
    return jnp.max(jax.vmap(_share)(K))


def _share(K: Array) -> Array:
    return cholesky(K).jitter / jnp.mean(jnp.diagonal(K))
