"""Doubly stochastic variational inference: a Gaussian q over every latent value of any model."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core import Key, as_key, whitened_kl
from ..parameters import Real, constrain, is_parameter, log_prior, realise
from .base import AbstractModel, AbstractObjective


class DoublyStochasticGP(AbstractObjective):
    """q(v) = Π N(m, R Rᵀ) over the whitened latent values of a model, one factor for each function.

    The bound E_q log p(y | v) − KL(q ‖ N(0, I)) plus the log prior of the hyperparameters, estimated from one draw: v
    from q by reparametrisation, then whole functions given v, so that every matrix of the model is made from the same
    ones, and perhaps a minibatch of the data. Around a ``VariationalGP`` it is the bound with q(u_f) q(u_θ), around a
    model that integrates f out that with q(u_θ). Predictions come from draws, ``sampled``. Salimbeni & Deisenroth
    (2017); Shen, Heinonen & Kaski (2020), §4.

    Args:
        model: Any model with latent values; q starts at them.
        std: The standard deviation at which q starts, in whitened units.
    """

    model: Any
    means: Any  # for each latent parameter, [k, m]
    roots: Any  # [k, m, m], lower triangles

    def __init__(self, model: AbstractModel, *, std: float = 0.1) -> None:
        latents = _latents(model)
        if not latents:
            raise ValueError("the model has no latent values: give a kernel or noise functions, or use a SparseGP")
        self.model = model
        self.means = [Real(_rows(np.asarray(node.raw)), role="variational") for node in latents]
        self.roots = [
            Real(np.broadcast_to(std * np.eye(m.shape[1]), (*m.shape, m.shape[1])).copy(), role="variational")
            for m in (mean.raw for mean in self.means)
        ]

    def sampled(self, key: Key) -> AbstractModel:
        """The model with latent values drawn from q, in raw parameters.

        Args:
            key: An integer seed or a JAX random key.
        """
        keys = jax.random.split(as_key(key), len(self.means))
        values = []
        for node, mean, root, one in zip(_latents(self.model), self.means, self.roots, keys, strict=True):
            m, R = jnp.asarray(mean.raw), jnp.tril(root.raw)
            v = m + jnp.einsum("kij,kj->ki", R, jax.random.normal(one, m.shape, m.dtype))
            values.append(v.T.reshape(np.shape(node.raw)))
        return eqx.tree_at(lambda model: [node.raw for node in _latents(model)], self.model, values)

    def log_joint(self, data: Any, key: Key | None = None) -> Array:
        if key is None:
            raise ValueError("a doubly stochastic bound is estimated from random draws: give a key")
        of_values, of_functions, of_rows = jax.random.split(as_key(key), 3)
        model = self.sampled(of_values)
        realised = realise(constrain(model), of_functions)
        kl = sum(whitened_kl(mean.raw, jnp.tril(root.raw)) for mean, root in zip(self.means, self.roots, strict=True))
        prior = log_prior(model, "hyperparameter", "variational", "fixed")
        return realised.log_likelihood(data, of_rows) - kl + prior


def _latents(model: Any) -> list[Any]:
    nodes = jax.tree.leaves(model, is_leaf=is_parameter)
    return [node for node in nodes if is_parameter(node) and node.role == "latent"]


def _rows(values: np.ndarray) -> np.ndarray:
    """Values ``[m, k]`` (or ``[m]``) of k functions as rows ``[k, m]``."""
    return values.reshape(values.shape[0], -1).T
