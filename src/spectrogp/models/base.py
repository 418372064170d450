"""What every model has: a kernel, a likelihood, and the way in."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from ..core import Key, Module, as_key, at_least, in_blocks, inputs, one_blas_thread, symmetric_root
from ..kernels import AbstractKernel
from ..parameters import constrain, html_table, log_prior, realise
from .components import Selecting, count_components, without_last_column
from .conditioning import CollapsedPosterior, ExactPosterior
from .data import add_column
from .likelihoods import AbstractLikelihood, Gaussian
from .memory import require_joint
from .moments import Moments

BLOCK = 2048  # test inputs predicted at once: memory stays flat in their number


class AbstractObjective(Module):
    """What inference maximises or samples, as a function of raw parameters."""

    def _repr_html_(self) -> str:
        return html_table(self)

    @abstractmethod
    def log_joint(self, data: Any, key: Array | None = None) -> Array:
        """Log likelihood (or a bound on it, or an estimate from a minibatch) plus log prior of the raw parameters.

        Args:
            data: ``Data``, or for models with neighbours their ``Neighbourhoods``.
            key: A JAX random key, for objectives that are estimated from draws.
        """

    def pairs(self, data: Any) -> int:
        """Covariances that each row needs, where ``log_joint`` is linear in sums over rows (``chunked_sum``); else 0.

        Args:
            data: As above.
        """
        del data
        return 0


class AbstractModel(AbstractObjective):
    """A model of a function f and of outputs that the likelihood gives from it.

    ``log_joint`` is what inference maximises or samples: the log likelihood (or a bound on it, or an unbiased estimate
    of it from a minibatch) plus the log prior of all parameters, as a function of their raw values. Parameters are
    constrained and functions realised once, by ``realise``; the formulas of the models see plain arrays and functions.
    """

    inputs_of_its_own: ClassVar[tuple[str, ...]] = ()  # fields that are inputs, such as inducing ones
    draws_inside_jit: ClassVar[bool] = True  # whether one program can draw f at inputs that it knows when it runs

    def side_by_side(self, rows: int) -> int:
        """How many models like this one are best read at once, where data and inputs have so many ``rows``."""
        del rows
        return 1

    # What each model defines, on a realised model:

    @abstractmethod
    def log_likelihood(self, data: Any, key: Array | None) -> Array:
        """The log likelihood of the ``data``, its bound, or an unbiased estimate of either (with a ``key``)."""

    @abstractmethod
    def moments(self, data: Any, X: Array) -> Moments:
        """Mean and variance of f at inputs ``X [t, d]`` given the data."""

    @abstractmethod
    def joint_covariance(self, data: Any, X: Array) -> Array:
        """Covariance ``[t, t]`` of f at inputs ``X [t, d]`` given the data."""

    # What follows from it:

    def realise(self, key: Array | None = None) -> Self:
        """This model with constrained parameters and plain functions (a realised model stays as it is).

        Args:
            key: A JAX random key for a draw of the functions given their whitened values; None for conditional means.
        """
        with one_blas_thread():  # of small matrices; others would go on waiting for more, each on a core
            return jax.block_until_ready(realise(constrain(self), key))  # type: ignore[no-untyped-call]

    def prepare(self, data: Any, X: ArrayLike) -> Any:
        """What to give as ``data`` for predictions at ``X`` inside ``jit``, found outside it: mostly the data.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]`` of the predictions.
        """
        del X
        return data

    def log_joint(self, data: Any, key: Array | None = None) -> Array:
        return self.realise().log_likelihood(data, key) + log_prior(self)

    def predict(self, data: Any, X: ArrayLike) -> Moments:
        """Mean and variance of the function f.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
        """
        return self.realise().moments(data, inputs(X))

    def predict_output(self, data: Any, X: ArrayLike, error: ArrayLike = 0.0) -> Moments:
        """Mean and variance of new outputs y, noise included.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            error: Known standard deviations of these outputs, ``[t]`` or one number.
        """
        model, X = self.realise(), inputs(X)
        likelihood, scale = model.noise_at(X, error)
        return likelihood.output(model.moments(data, X), scale)

    def log_predictive_density(self, data: Any, X: ArrayLike, y: ArrayLike, error: ArrayLike = 0.0) -> Array:
        """log p(y | data) ``[t]`` of each output by itself, noise included.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            y: Outputs ``[t]``.
            error: Known standard deviations of these outputs, ``[t]`` or one number.
        """
        model, X = self.realise(), inputs(X)
        y = as_outputs(y, X)
        likelihood, scale = model.noise_at(X, error)
        return likelihood.log_predictive_density(y, model.moments(data, X), scale)

    def covariance(self, data: Any, X: ArrayLike) -> Array:
        """Joint covariance ``[t, t]`` of f.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
        """
        X = inputs(X)
        require_joint(X.shape[0])
        return self.realise().joint_covariance(data, X)

    def draw(self, data: Any, X: ArrayLike, *, key: Key, num_samples: int = 1) -> Array:
        """Draws ``[s, t]`` of f, jointly over the inputs.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            key: An integer seed or a JAX random key.
            num_samples: How many draws s.
        """
        at_least(1, num_samples=num_samples)
        model, X = self.realise(), inputs(X)
        require_joint(X.shape[0])
        mean = model.moments(data, X).mean
        root = symmetric_root(model.joint_covariance(data, X))
        return mean + jax.random.normal(as_key(key), (num_samples, X.shape[0]), X.dtype) @ root.T

    def noise_at(self, X: Array, error: ArrayLike) -> tuple[AbstractLikelihood, Array]:
        """The likelihood of a realised model, and the scale ``[t]`` of its noise at inputs ``X [t, d]``.

        Args:
            X: Inputs.
            error: Known standard deviations of the outputs, ``[t]`` or one number.
        """
        model: Any = self
        error = jnp.broadcast_to(jnp.asarray(error, X.dtype), X.shape[:1])
        return model.likelihood, model.likelihood.scale_at(X, error)

    # Components of a realised model whose kernel is a sum of them (``components``):

    def count_components(self, X: Array) -> int:
        """How many components the kernel has, with inputs ``X [t, d]`` to look at."""
        return count_components(self, X)

    def component_moments(self, data: Any, X: Array, component: Any) -> Moments:
        """Mean and variance of one component of f; the means of all components add up to the mean of f.

        Args:
            data: What ``prepare(data, X)`` gives.
            X: Inputs ``[t, d]``.
            component: Its number, from 0 on.
        """
        model: Any = self
        model = eqx.tree_at(
            lambda m: (m.kernel, m.likelihood),
            model,
            (Selecting(model.kernel), without_last_column(model.likelihood)),
        )
        if self.inputs_of_its_own:
            places = [getattr(model, name) for name in self.inputs_of_its_own]
            model = eqx.tree_at(
                lambda m: [getattr(m, name) for name in self.inputs_of_its_own],
                model,
                [add_column(place, 0.0) for place in places],
            )
        moments: Moments = model.moments(data.with_column(0.0), add_column(X, 1.0 + component))
        return moments

    def every_component(self, data: Any, X: Array) -> Moments:
        """Means and variances ``[a, t]`` of all components of f.

        Args:
            data: What ``prepare(data, X)`` gives.
            X: Inputs ``[t, d]``.
        """
        numbers = jnp.arange(self.count_components(X))
        moments: Moments = jax.lax.map(lambda a: self.component_moments(data, X, a), numbers)
        return moments


class AbstractConditionedModel(AbstractModel):
    """A model that predicts by covariances of test inputs with others: those of the data, or inducing ones."""

    kernel: eqx.AbstractVar[AbstractKernel]

    @abstractmethod
    def _conditioned(self, data: Any) -> tuple[PyTree, ExactPosterior | CollapsedPosterior]:
        """Local parameters of those others, and what prediction needs of the posterior there."""

    @eqx.filter_jit
    def moments(self, data: Any, X: Array) -> Moments:
        p, posterior = self._conditioned(data)

        def at(X: Array) -> Moments:
            q = self.kernel.local(X)
            return posterior.predict(self.kernel.cross(p, q), self.kernel.diagonal(q))

        return in_blocks(at, X, BLOCK)

    @eqx.filter_jit
    def joint_covariance(self, data: Any, X: Array) -> Array:
        (p, posterior), q = self._conditioned(data), self.kernel.local(X)
        return posterior.covariance(self.kernel.cross(p, q), self.kernel.gram(q))


def as_outputs(y: ArrayLike, X: Array | np.ndarray) -> Array:
    """Outputs ``y [t]``, one for each row of inputs ``X [t, d]``."""
    y = jnp.asarray(y, X.dtype)
    if y.shape != X.shape[:1]:
        raise ValueError(f"y must have shape [t] with t = {X.shape[0]} as X has, got {list(y.shape)}")
    return y


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
