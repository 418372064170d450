"""Bayesian linear regression, as a Gaussian process in closed form."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from .base import AbstractModel, as_gaussian
from .conditioning import CollapsedPosterior, collapsed
from .data import Data
from .likelihoods import Gaussian
from .moments import Moments


class LinearRegression(AbstractModel):
    """y = ⟨w, (x, 1)⟩ + ε with w ~ N(0, weight_std² I), integrated out: the log marginal likelihood, O(N D²).

    Args:
        weight_std: Prior standard deviation of the weights: a number or a ``Positive`` parameter.
        likelihood: The noise: a number, a ``Positive`` parameter, a function of the input, or a ``Gaussian``.
    """

    weight_std: Any
    likelihood: Gaussian = eqx.field(converter=as_gaussian)

    def log_likelihood(self, data: Data, key: Array | None) -> Array:
        del key
        return self._solve(data)[0]

    @eqx.filter_jit
    def moments(self, data: Data, X: Array) -> Moments:
        features = self._features(X)
        return self._solve(data)[1].predict(features, jnp.sum(features**2, axis=0))

    @eqx.filter_jit
    def joint_covariance(self, data: Data, X: Array) -> Array:
        features = self._features(X)
        return self._solve(data)[1].covariance(features, features.T @ features)

    def _features(self, X: Array) -> Array:
        return self.weight_std * jnp.concatenate([X, jnp.ones_like(X[:, :1])], axis=1).T

    def _solve(self, data: Data) -> tuple[Array, CollapsedPosterior]:
        # The weights are D + 1 inducing values with identity covariance: the bound is exact, its trace term zero.
        features = self._features(data.X)
        eye = jnp.eye(features.shape[0], dtype=features.dtype)
        return collapsed(data.y, eye, features, jnp.sum(features**2, axis=0), self.likelihood.variance(data))
