"""Likelihoods: how an output y arises from the function value f at its input."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln, logsumexp

from ..parameters import Parametrised, scalar
from .data import Data
from .moments import Moments

_LOG_2PI = math.log(2.0 * math.pi)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / np.sum(_WEIGHTS)


class AbstractLikelihood(Parametrised):
    """p(y | f) at an input, with what follows from it when f is Gaussian (by 32-point Gauss–Hermite quadrature)."""

    @abstractmethod
    def log_density(self, y: Array, f: Array, scale: Array) -> Array:
        """log p(y | f), elementwise; ``scale`` is what ``scale_at`` gives."""

    @abstractmethod
    def scale_at(self, X: Array, error: Array) -> Array:
        """The scale ``[n]`` of the noise at inputs ``X [n, d]`` with known error bars ``error [n]``."""

    @abstractmethod
    def output(self, f: Moments, scale: Array) -> Moments:
        """Mean and variance of y when f has the given ones; ``scale`` is what ``scale_at`` gives."""

    def expected_log_density(self, y: Array, f: Moments, scale: Array) -> Array:
        """E log p(y | f) under f ~ N(mean, variance), ``[n]``; ``scale`` is what ``scale_at`` gives."""
        return jnp.asarray(_WEIGHTS) @ self.log_density(y, _spread(f), scale)

    def log_predictive_density(self, y: Array, f: Moments, scale: Array) -> Array:
        """log E p(y | f) under f ~ N(mean, variance), ``[n]``; ``scale`` is what ``scale_at`` gives."""
        return logsumexp(self.log_density(y, _spread(f), scale), axis=0, b=jnp.asarray(_WEIGHTS)[:, None])


class Gaussian(AbstractLikelihood):
    """y = f + ε, ε ~ N(0, noise(x)² + error²), with the known error bars of the data.

    Args:
        noise: Standard deviation of the noise, in units of the output: a number, a ``Positive`` parameter to be fitted,
            or a function of the input (a callable with values ``[n]``, or a ``FunctionGroup``).
    """

    noise: Any = scalar(nonnegative=True, unit="y")

    def scale_at(self, X: Array, error: Array) -> Array:
        return jnp.sqrt(_noise(self, X) ** 2 + error**2)

    def variance(self, data: Data) -> Array:
        """Variance of the noise at the rows of the data, ``[n]``."""
        return self.scale_at(data.X, data.error) ** 2

    def log_density(self, y: Array, f: Array, scale: Array) -> Array:
        return -0.5 * (_LOG_2PI + ((y - f) / scale) ** 2) - jnp.log(scale)

    def expected_log_density(self, y: Array, f: Moments, scale: Array) -> Array:
        return self.log_density(y, f.mean, scale) - 0.5 * f.variance / scale**2

    def log_predictive_density(self, y: Array, f: Moments, scale: Array) -> Array:
        return self.log_density(y, f.mean, jnp.sqrt(f.variance + scale**2))

    def output(self, f: Moments, scale: Array) -> Moments:
        return Moments(f.mean, f.variance + scale**2)


class StudentT(AbstractLikelihood):
    """y = f + noise(x)·t with t of ``freedom`` > 2 degrees of freedom: outliers do not pull the function.

    Known error bars widen the scale as if they added in variance.

    Args:
        noise: Scale of the noise, in units of the output: a number, a ``Positive`` parameter to be fitted, or a
            function of the input.
        freedom: Degrees of freedom, above 2: the fewer, the more outliers are expected.
    """

    noise: Any = scalar(nonnegative=True, unit="y")
    freedom: float = 4.0

    def __check_init__(self) -> None:
        if not self.freedom > 2:
            raise ValueError(f"freedom must be above 2 for the noise to have a variance, got {self.freedom!r}")

    def scale_at(self, X: Array, error: Array) -> Array:
        return jnp.sqrt(_noise(self, X) ** 2 + error**2)

    def log_density(self, y: Array, f: Array, scale: Array) -> Array:
        nu = self.freedom
        constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * math.log(nu * math.pi)
        return constant - jnp.log(scale) - 0.5 * (nu + 1.0) * jnp.log1p(((y - f) / scale) ** 2 / nu)

    def output(self, f: Moments, scale: Array) -> Moments:
        return Moments(f.mean, f.variance + scale**2 * self.freedom / (self.freedom - 2.0))


class HeavyTailed(Gaussian):
    """Normal noise for whatever is conditioned on, and new outputs with heavier tails than a normal distribution has.

    A new output is Student-t around its mean: a few rows far out, which no scale of normal noise foretells, then cost
    little. Models still integrate f out as with ``Gaussian``.

    Args:
        noise: As of ``Gaussian``.
        freedom: Degrees of freedom of new outputs, above 2.
        stretch: Their standard deviation over the one that normal noise would give them, 1 or more.
    """

    freedom: float = 4.0
    stretch: float = 1.0

    def __check_init__(self) -> None:
        if not (self.freedom > 2 and self.stretch >= 1):
            raise ValueError(f"freedom must be above 2 and stretch 1 or more, got {self.freedom!r}, {self.stretch!r}")

    def log_predictive_density(self, y: Array, f: Moments, scale: Array) -> Array:
        return student_log_density(y - f.mean, jnp.sqrt(self.output(f, scale).variance), self.freedom)

    def output(self, f: Moments, scale: Array) -> Moments:
        return Moments(f.mean, self.stretch**2 * (f.variance + scale**2))


def student_log_density(rest: Any, std: Any, freedom: Any) -> Array:
    """Log density of Student-t around zero, elementwise.

    Args:
        rest: Where.
        std: Its standard deviation.
        freedom: Its degrees of freedom, above 2.
    """
    scale = std * jnp.sqrt((freedom - 2.0) / freedom)
    constant = gammaln(0.5 * (freedom + 1.0)) - gammaln(0.5 * freedom) - 0.5 * jnp.log(freedom * math.pi)
    return constant - jnp.log(scale) - 0.5 * (freedom + 1.0) * jnp.log1p((rest / scale) ** 2 / freedom)


class Bernoulli(AbstractLikelihood):
    """y ∈ {0, 1} with log-odds f."""

    def scale_at(self, X: Array, error: Array) -> Array:
        del X
        return jnp.ones_like(error)

    def log_density(self, y: Array, f: Array, scale: Array) -> Array:
        del scale
        return jax.nn.log_sigmoid((2.0 * y - 1.0) * f)

    def output(self, f: Moments, scale: Array) -> Moments:
        del scale
        probability = jnp.asarray(_WEIGHTS) @ jax.nn.sigmoid(_spread(f))
        return Moments(probability, probability * (1.0 - probability))


def _spread(f: Moments) -> Array:
    """Quadrature points ``[nodes, n]`` of N(mean, variance)."""
    # The tiny floor keeps the derivative of the root finite where a variance is zero.
    return f.mean + jnp.asarray(_NODES)[:, None] * jnp.sqrt(f.variance + np.finfo(f.mean.dtype).tiny)


def _noise(likelihood: Gaussian | StudentT, X: Array) -> Array:
    values = likelihood.field_at("noise", X)
    if values.shape[1] != 1:
        raise ValueError(f"noise must be a number or one function of the input, got {values.shape[1]} of them")
    return values[:, 0]
