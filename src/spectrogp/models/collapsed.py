"""The collapsed sparse Gaussian process (SGPR)."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
from jax import Array
from jaxtyping import PyTree

from ..kernels import AbstractKernel
from ..parameters import as_inducing
from .base import AbstractConditionedModel, as_gaussian
from .conditioning import CollapsedPosterior, collapsed
from .data import Data
from .likelihoods import Gaussian
from .memory import require_collapsed


class CollapsedGP(AbstractConditionedModel):
    """Sparse regression with inducing values integrated out: Titsias' bound on the log marginal likelihood, O(N M²).

    At ``inducing`` = X the bound is that likelihood. Titsias (2009).

    Args:
        kernel: The prior covariance of f.
        likelihood: The noise: a number, a ``Positive`` parameter, a function of the input, or a ``Gaussian``.
        inducing: Inducing inputs ``[m, d]``, or a ``Real`` of them, which is trained too.
    """

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)
    inducing: Any = eqx.field(converter=as_inducing)  # [m, d]

    inputs_of_its_own: ClassVar[tuple[str, ...]] = ("inducing",)

    def log_likelihood(self, data: Data, key: Array | None) -> Array:
        del key
        return self._solve(data)[0]

    def _conditioned(self, data: Data) -> tuple[PyTree, CollapsedPosterior]:
        return self.kernel.local(self.inducing), self._solve(data)[1]

    def _solve(self, data: Data) -> tuple[Array, CollapsedPosterior]:
        require_collapsed(data.y.shape[0], self.inducing.shape[0])
        z, p = self.kernel.local(self.inducing), self.kernel.local(data.X)
        return collapsed(
            data.y,
            self.kernel.gram(z),
            self.kernel.cross(z, p),
            self.kernel.diagonal(p),
            self.likelihood.variance(data),
        )
