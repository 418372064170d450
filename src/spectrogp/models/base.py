"""What every model has: a kernel, a likelihood, and the way in."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from ..functions import inputs
from ..likelihoods import AbstractLikelihood, Gaussian, Moments
from ..linalg import symmetric_root
from ..numerics import entry_point
from ..parameters import constrain, log_prior
from ..processes import realise
from ..sampling import as_count, as_key

BLOCK = 2048  # test inputs predicted at once: memory stays flat in their number


class AbstractObjective(eqx.Module):
    """What inference maximises or samples, as a function of raw parameters."""

    @abstractmethod
    def log_joint(self, data: Any, key: Array | None = None) -> Array:
        """Log likelihood (or a bound on it, or an estimate from a minibatch) plus log prior of the raw parameters."""


class AbstractModel(AbstractObjective):
    """A model of a function f and of outputs that the likelihood gives from it.

    ``log_joint`` is what inference maximises or samples: the log likelihood (or a bound on it, or an unbiased estimate
    of it from a minibatch) plus the log prior of all parameters, as a function of their raw values. Parameters are
    constrained and functions realised once, by ``enter``; the formulas of the models see plain arrays and functions.
    """

    # What each model defines, on an entered model:

    @abstractmethod
    def log_likelihood(self, data: Any, key: Array | None) -> Array:
        """The log likelihood, its bound, or an unbiased estimate of either."""

    @abstractmethod
    def moments(self, data: Any, X: Array) -> Moments:
        """Mean and variance of f at inputs ``X [t, d]`` given the data."""

    @abstractmethod
    def joint_covariance(self, data: Any, X: Array) -> Array:
        """Covariance ``[t, t]`` of f at inputs ``X [t, d]`` given the data."""

    # What follows from it:

    @entry_point
    def enter(self) -> Self:
        """This model with constrained parameters and plain functions (an entered model stays as it is)."""
        return realise(constrain(self))

    def ready(self, data: Any, X: Any) -> Any:
        """What to give as ``data`` for predictions at ``X`` inside ``jit``, found outside it: mostly the data."""
        del X
        return data

    def log_joint(self, data: Any, key: Array | None = None) -> Array:
        return self.enter().log_likelihood(data, key) + log_prior(self)

    @entry_point
    def predict(self, data: Any, X: Any) -> Moments:
        """Mean and variance of the function f at inputs ``X [t, d]``."""
        return self.enter().moments(data, inputs(X))

    @entry_point
    def predict_output(self, data: Any, X: Any, error: Any = 0.0) -> Moments:
        """Mean and variance of outputs y at inputs ``X [t, d]``, noise included, with known error bars ``[t]``."""
        model, X = self.enter(), inputs(X)
        f = model.moments(data, X)
        likelihood, scale = _noise(model, X, error)
        return likelihood.output(f, scale)

    @entry_point
    def log_predictive_density(self, data: Any, X: Any, y: Any, error: Any = 0.0) -> Array:
        """log p(y | data) of each output ``y [t]`` at inputs ``X [t, d]``, noise included."""
        model, X = self.enter(), inputs(X)
        y = jnp.asarray(y, X.dtype)
        if y.shape != X.shape[:1]:
            raise ValueError(f"y must have shape [t] with t = {X.shape[0]} as X has, got {list(y.shape)}")
        f = model.moments(data, X)
        likelihood, scale = _noise(model, X, error)
        return likelihood.log_predictive_density(y, f, scale)

    @entry_point
    def covariance(self, data: Any, X: Any) -> Array:
        """Joint covariance ``[t, t]`` of f at inputs ``X [t, d]``."""
        return self.enter().joint_covariance(data, inputs(X))

    @entry_point
    def draw(self, data: Any, X: Any, *, key: Any, num_samples: int = 1) -> Array:
        """Draws ``[s, t]`` of f at inputs ``X [t, d]``, jointly; ``key`` is a JAX random key or an integer seed."""
        model, X = self.enter(), inputs(X)
        mean = model.moments(data, X).mean
        root = symmetric_root(model.joint_covariance(data, X))
        return mean + jax.random.normal(as_key(key), (as_count(num_samples), X.shape[0]), X.dtype) @ root.T


def _noise(model: Any, X: Array, error: Any) -> tuple[AbstractLikelihood, Array]:
    """The likelihood of an entered model, and the scale of its noise at inputs."""
    error = jnp.broadcast_to(jnp.asarray(error, X.dtype), X.shape[:1])
    return model.likelihood, model.likelihood.scale_at(X, error)


def as_likelihood(value: Any) -> AbstractLikelihood:
    """A likelihood as it is; a number, parameter or function as Gaussian noise."""
    return value if isinstance(value, AbstractLikelihood) else Gaussian(value)


def as_gaussian(value: Any) -> Gaussian:
    """The likelihood of a model that integrates f out, which needs Gaussian noise."""
    likelihood = as_likelihood(value)
    if not isinstance(likelihood, Gaussian):
        raise TypeError(
            f"this model integrates f out and so needs Gaussian noise, got {type(likelihood).__name__}; "
            "VariationalGP and SparseGP take any likelihood"
        )
    return likelihood
