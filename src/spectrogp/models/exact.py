"""The exact Gaussian process."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import PyTree

from ..kernels import AbstractKernel
from .base import AbstractConditionedModel, as_gaussian
from .conditioning import ExactPosterior, log_marginal_likelihood
from .data import Data
from .likelihoods import Gaussian
from .memory import require_exact
from .moments import Moments


class ExactGP(AbstractConditionedModel):
    """Exact Gaussian-process regression: the log marginal likelihood log N(y | 0, K + diag s²), O(N³).

    Args:
        kernel: The prior covariance of f.
        likelihood: The noise: a number, a ``Positive`` parameter, a function of the input, or a ``Gaussian``.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> model = sg.models.ExactGP(sg.kernels.SquaredExponential(1.0), 0.1)
        >>> data = sg.Data([0.0, 1.0], [0.5, -0.5])
        >>> model.predict(data, [0.5]).mean.round(6)
        array([0.])
    """

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)

    def log_likelihood(self, data: Data, key: Array | None) -> Array:
        del key
        require_exact(data.y.shape[0])
        return log_marginal_likelihood(
            data.y, self.kernel.gram(self.kernel.local(data.X)), self.likelihood.variance(data)
        )

    def leave_one_out(self, data: Data) -> Moments:
        """Mean and variance ``[n]`` of every output given all others, noise included.

        Of the inverse covariance alone: y_i − [K⁻¹y]_i/[K⁻¹]_ii and 1/[K⁻¹]_ii. Rasmussen & Williams (2006), Eq. 5.12.
        """
        return _leave_one_out(self.realise(), data)

    def _conditioned(self, data: Data) -> tuple[PyTree, ExactPosterior]:
        require_exact(data.y.shape[0])
        p = self.kernel.local(data.X)
        return p, ExactPosterior.of(data.y, self.kernel.gram(p), self.likelihood.variance(data))


@eqx.filter_jit
def _leave_one_out(model: ExactGP, data: Data) -> Moments:
    _, posterior = model._conditioned(data)
    precision = jnp.sum(posterior.inverse**2, axis=0)
    return Moments(data.y - posterior.white @ posterior.inverse / precision, 1.0 / precision)
