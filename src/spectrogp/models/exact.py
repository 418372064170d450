"""The exact Gaussian process."""

from __future__ import annotations

import equinox as eqx
from jax import Array

from ..chunking import in_blocks
from ..conditioning import ExactPosterior, log_evidence
from ..data import Data
from ..kernels import AbstractKernel
from ..likelihoods import Gaussian, Moments
from .base import BLOCK, AbstractModel, as_gaussian


class ExactGP(AbstractModel):
    """Exact Gaussian-process regression: the log evidence log N(y | 0, K + diag s²), O(N³)."""

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)

    def log_likelihood(self, data: Data, key: Array | None) -> Array:
        del key
        return log_evidence(data.y, self.kernel.gram(self.kernel.local(data.X)), self.likelihood.variance(data))

    @eqx.filter_jit
    def moments(self, data: Data, X: Array) -> Moments:
        p, posterior = self.kernel.local(data.X), self._posterior(data)

        def at(X: Array) -> Moments:
            q = self.kernel.local(X)
            return posterior.predict(self.kernel.cross(p, q), self.kernel.diagonal(q))

        return in_blocks(at, X, BLOCK)

    @eqx.filter_jit
    def joint_covariance(self, data: Data, X: Array) -> Array:
        p, q = self.kernel.local(data.X), self.kernel.local(X)
        return self._posterior(data).covariance(self.kernel.cross(p, q), self.kernel.gram(q))

    def _posterior(self, data: Data) -> ExactPosterior:
        return ExactPosterior.of(data.y, self.kernel.gram(self.kernel.local(data.X)), self.likelihood.variance(data))
