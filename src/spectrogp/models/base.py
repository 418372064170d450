"""What every model has: a kernel, a likelihood, and the way in."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import equinox as eqx
from jax import Array

from ..likelihoods import AbstractLikelihood, Gaussian
from ..parameters import constrain, log_prior
from ..processes import realise


class AbstractModel(eqx.Module):
    """A model of a function f and of outputs that the likelihood gives from it.

    ``log_joint`` is what inference maximises or samples: the log likelihood (or a bound on it, or an unbiased estimate
    of it from a minibatch) plus the log prior of all parameters, as a function of their raw values. Parameters are
    constrained and functions realised once, by ``enter``; the formulas of the models see plain arrays and functions.
    """

    def enter(self) -> Self:
        """This model with constrained parameters and plain functions."""
        return realise(constrain(self))

    def log_joint(self, data: Any, key: Array | None = None) -> Array:
        """Log likelihood plus log prior of the raw parameters."""
        return self.enter().log_likelihood(data, key) + log_prior(self)

    @abstractmethod
    def log_likelihood(self, data: Any, key: Array | None) -> Array:
        """Of an entered model: the log likelihood, its bound, or an unbiased estimate of either."""


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
