"""Sparse Gaussian processes with explicit inducing values: variational (SVGP) and for sampling."""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..chunking import chunked_sum
from ..conditioning import collapsed, whitened_marginals
from ..data import Data
from ..kernels import AbstractKernel
from ..likelihoods import AbstractLikelihood, Moments
from ..linalg import cholesky, whitened_kl
from ..parameters import Real, latent
from .base import AbstractModel, as_gaussian, as_likelihood

_CHUNK = 128


class SparseGP(AbstractModel):
    """Sparse Gaussian process p(y | v): whitened inducing values v ~ N(0, I) are latent, for sampling and MAP.

    f(Z) = L v with L Lᵀ = K(Z, Z). The likelihood of a row is E log p(y | f) under p(f | v), whose sum over rows is a
    lower bound of log p(y | v) and unbiased under minibatches. Shen, Heinonen & Kaski (2020), Eqs. 33 and 34.
    Differs from the paper: the expectation over f is exact (or by quadrature), not one draw.
    """

    kernel: AbstractKernel
    likelihood: AbstractLikelihood = eqx.field(converter=as_likelihood)
    inducing: Any  # [m, d]
    whitened: Any  # [m]

    def __init__(self, kernel: AbstractKernel, likelihood: Any, inducing: Any) -> None:
        self.kernel, self.likelihood, self.inducing = kernel, as_likelihood(likelihood), inducing
        self.whitened = latent((len(inducing),))

    def log_likelihood(self, data: Data, key: Array | None) -> Array:
        del key
        return _expected_log_likelihood(self, data, self.whitened, None)

    def predict(self, data: Data, X: Array) -> Moments:
        del data
        return _marginals(self, X, self.whitened, None)


class VariationalGP(AbstractModel):
    """Variational sparse Gaussian process (SVGP): q(v) = N(mean, root rootᵀ) over whitened inducing values.

    The bound E_q log p(y | f) − KL(q ‖ N(0, I)); sums over rows are evaluated in chunks, with their gradient, so memory
    does not grow with the minibatch. Hensman, Matthews & Ghahramani (2015).
    """

    kernel: AbstractKernel
    likelihood: AbstractLikelihood
    inducing: Any  # [m, d]
    mean: Any  # [m]
    root: Any  # [m, m], lower triangle

    def __init__(self, kernel: AbstractKernel, likelihood: Any, inducing: Any) -> None:
        self.kernel, self.likelihood, self.inducing = kernel, as_likelihood(likelihood), inducing
        self.mean = Real(np.zeros(len(inducing)), role="variational")
        self.root = Real(np.eye(len(inducing)), role="variational")

    def log_likelihood(self, data: Data, key: Array | None) -> Array:
        del key
        root = jnp.tril(self.root)
        return _expected_log_likelihood(self, data, self.mean, root) - whitened_kl(self.mean, root)

    def predict(self, data: Data, X: Array) -> Moments:
        del data
        return _marginals(self, X, self.mean, jnp.tril(self.root))

    def with_optimal_posterior(self, data: Data) -> Self:
        """The same model with the best q for Gaussian noise, in closed form from all data."""
        model = self.enter()
        noise = as_gaussian(model.likelihood).variance(data)
        z, p = model.kernel.local(model.inducing), model.kernel.local(data.X)
        Kzx = model.kernel.cross(z, p)
        _, posterior = collapsed(data.y, model.kernel.gram(z), Kzx, model.kernel.diagonal(p), noise)
        root = cholesky(posterior.inner.T @ posterior.inner, "the covariance of q").L
        return eqx.tree_at(lambda m: (m.mean.raw, m.root.raw), self, (posterior.inner.T @ posterior.c, root))


def _marginals(model: SparseGP | VariationalGP, X: Array, mean: Array, root: Array | None) -> Moments:
    z, q = model.kernel.local(model.inducing), model.kernel.local(X)
    inverse = cholesky(model.kernel.gram(z), "K(Z, Z)").inverse
    return whitened_marginals(inverse, model.kernel.cross(z, q), model.kernel.diagonal(q), mean, root)


def _expected_log_likelihood(model: Any, data: Data, mean: Array, root: Array | None) -> Array:
    """Σ over rows of E log p(y | f), scaled to the whole data."""
    arrays, rest = eqx.partition((model.kernel, model.likelihood), eqx.is_array)
    z = model.kernel.local(model.inducing)
    inverse = cholesky(model.kernel.gram(z), "K(Z, Z)").inverse

    def summand(shared: Any, rows: tuple[Array, Array, Array]) -> Array:
        arrays, z, inverse, mean, root = shared
        kernel, likelihood = eqx.combine(arrays, rest)
        X, y, error = rows
        p = kernel.local(X)
        f = whitened_marginals(inverse, kernel.cross(z, p), kernel.diagonal(p), mean, root)
        return likelihood.expected_log_density(y, f, likelihood.scale_at(X, error))

    rows = tuple(jnp.asarray(part) for part in (data.X, data.y, data.error))
    return data.scale * chunked_sum(summand, (arrays, z, inverse, mean, root), rows, _CHUNK)
