"""Sparse Gaussian processes with explicit inducing values: variational (SVGP) and for sampling."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..core import cholesky, chunked_sum, in_blocks, triangular_inverse, whitened_kl
from ..kernels import AbstractKernel
from ..parameters import Real, as_inducing, is_parameter, latent
from .base import BLOCK, AbstractModel, as_gaussian, as_likelihood
from .conditioning import collapsed, whitened_covariance, whitened_marginals
from .data import Data
from .likelihoods import AbstractLikelihood
from .memory import require_collapsed
from .moments import Moments

_CHUNK = 64


class SparseGP(AbstractModel):
    """Sparse Gaussian process p(y | v): whitened inducing values v ~ N(0, I) are latent, for sampling and MAP.

    f(Z) = L v with L Lᵀ = K(Z, Z). The likelihood of a row is E log p(y | f) under p(f | v), whose sum over rows is a
    lower bound of log p(y | v) and unbiased under minibatches. Shen, Heinonen & Kaski (2020), Eqs. 33 and 34.
    Differs from the paper: the expectation over f is exact (or by quadrature), not one draw.

    Args:
        kernel: The prior covariance of f.
        likelihood: Any likelihood; a number, parameter or function is Gaussian noise of that standard deviation.
        inducing: Inducing inputs ``[m, d]``, or a ``Real`` of them, which is trained too.
    """

    kernel: AbstractKernel
    likelihood: AbstractLikelihood = eqx.field(converter=as_likelihood)
    inducing: Any  # [m, d]
    whitened: Any  # [m]

    inputs_of_its_own: ClassVar[tuple[str, ...]] = ("inducing",)

    def __init__(self, kernel: AbstractKernel, likelihood: Any, inducing: Any) -> None:
        self.kernel, self.likelihood, self.inducing = kernel, as_likelihood(likelihood), as_inducing(inducing)
        self.whitened = latent((_count(inducing),))

    def log_likelihood(self, data: Data, key: Array | None) -> Array:
        del key
        return _expected_log_likelihood(self, data, self.whitened, None)

    def pairs(self, data: Data) -> int:
        del data
        return _count(self.inducing)

    @eqx.filter_jit
    def moments(self, data: Data, X: Array) -> Moments:
        del data
        return _marginals(self, X, self.whitened, None)

    @eqx.filter_jit
    def joint_covariance(self, data: Data, X: Array) -> Array:
        del data
        return _covariance(self, X, None)


class VariationalGP(AbstractModel):
    """Variational sparse Gaussian process (SVGP): q(v) = N(mean, root rootᵀ) over whitened inducing values.

    The bound E_q log p(y | f) − KL(q ‖ N(0, I)); sums over rows are evaluated in chunks, with their gradient, so memory
    does not grow with the minibatch. Hensman, Matthews & Ghahramani (2015).

    Args:
        kernel: The prior covariance of f.
        likelihood: Any likelihood; a number, parameter or function is Gaussian noise of that standard deviation.
        inducing: Inducing inputs ``[m, d]``, or a ``Real`` of them, which is trained too.
    """

    kernel: AbstractKernel
    likelihood: AbstractLikelihood
    inducing: Any  # [m, d]; a Real is trained too
    mean: Any  # [m]
    root: Any  # [m, m], lower triangle

    inputs_of_its_own: ClassVar[tuple[str, ...]] = ("inducing",)

    def __init__(self, kernel: AbstractKernel, likelihood: Any, inducing: Any) -> None:
        self.kernel, self.likelihood, self.inducing = kernel, as_likelihood(likelihood), as_inducing(inducing)
        self.mean = Real(np.zeros(_count(inducing)), role="variational")
        self.root = Real(np.eye(_count(inducing)), role="variational")

    def log_likelihood(self, data: Data, key: Array | None) -> Array:
        del key
        root = jnp.tril(self.root)
        return _expected_log_likelihood(self, data, self.mean, root) - whitened_kl(self.mean, root)

    def pairs(self, data: Data) -> int:
        del data
        return _count(self.inducing)

    @eqx.filter_jit
    def moments(self, data: Data, X: Array) -> Moments:
        del data
        return _marginals(self, X, self.mean, jnp.tril(self.root))

    @eqx.filter_jit
    def joint_covariance(self, data: Data, X: Array) -> Array:
        del data
        return _covariance(self, X, jnp.tril(self.root))

    def with_optimal_posterior(self, data: Data) -> Self:
        """The same model with the best q for Gaussian noise, in closed form from all data.

        Args:
            data: All the data, not a minibatch.
        """
        model = self.realise()
        noise = as_gaussian(model.likelihood).variance(data)
        require_collapsed(data.y.shape[0], model.inducing.shape[0])
        z, p = model.kernel.local(model.inducing), model.kernel.local(data.X)
        Kzx = model.kernel.cross(z, p)
        _, posterior = collapsed(data.y, model.kernel.gram(z), Kzx, model.kernel.diagonal(p), noise)
        root = cholesky(posterior.inner.T @ posterior.inner, "the covariance of q").L
        return eqx.tree_at(lambda m: (m.mean.raw, m.root.raw), self, (posterior.inner.T @ posterior.c, root))

    def with_posterior_of(self, other: VariationalGP) -> Self:
        """The same model with the q of another one, of as many inducing inputs.

        Args:
            other: A variational model.
        """
        return eqx.tree_at(lambda m: (m.mean.raw, m.root.raw), self, (other.mean.raw, other.root.raw))

    def natural_step(self, data: Data, rate: float | Array) -> Self:
        """The same model with q moved along the natural gradient of the bound, from all data or a minibatch.

        In natural parameters, S⁻¹ ← (1 − r) S⁻¹ + r (I − 2G) and S⁻¹m ← (1 − r) S⁻¹m + r (g − 2Gm), with g and G the
        derivatives of the expected log likelihood with respect to m and S. With Gaussian noise, all data and r = 1 one
        step gives the best q. A step that would leave the positive definite matrices, as outliers under a Student-t
        likelihood may ask for, is not taken. Hensman, Fusi & Lawrence (2013); Salimbeni et al. (2018).

        Args:
            data: All the data, or a minibatch.
            rate: r, between 0 and 1.
        """
        realised = self.realise()
        m, root = realised.mean, jnp.tril(realised.root)

        def expected(m: Array, root: Array) -> Array:
            return _expected_log_likelihood(realised, data, m, root)

        g, slope = jax.grad(expected, (0, 1))(m, root)
        inverse = triangular_inverse(root)
        G = 0.5 * slope @ inverse  # S = R Rᵀ, so dE/dR = 2 G R
        precision = inverse.T @ inverse
        target = jnp.eye(len(m), dtype=m.dtype) - (G + G.T)
        new_precision = (1.0 - rate) * precision + rate * target
        weighted_mean = (1.0 - rate) * (precision @ m) + rate * (g - (G + G.T) @ m)
        half = triangular_inverse(jnp.linalg.cholesky(new_precision))
        S = half.T @ half
        new = S @ weighted_mean, jnp.linalg.cholesky(S)
        fine = jnp.all(jnp.isfinite(new[0])) & jnp.all(jnp.isfinite(new[1]))
        chosen = tuple(jnp.where(fine, *pair) for pair in zip(new, (m, root), strict=True))
        return eqx.tree_at(lambda q: (q.mean.raw, q.root.raw), self, chosen)


def _count(inducing: Any) -> int:
    """The number of inducing inputs, which may be a parameter."""
    return int(np.shape(inducing.raw if is_parameter(inducing) else inducing)[0])


def _marginals(model: SparseGP | VariationalGP, X: Array, mean: Array, root: Array | None) -> Moments:
    z, inverse = _inducing(model)

    def at(X: Array) -> Moments:
        q = model.kernel.local(X)
        return whitened_marginals(inverse, model.kernel.cross(z, q), model.kernel.diagonal(q), mean, root)

    return in_blocks(at, X, BLOCK)


def _covariance(model: SparseGP | VariationalGP, X: Array, root: Array | None) -> Array:
    z, inverse = _inducing(model)
    q = model.kernel.local(X)
    return whitened_covariance(inverse, model.kernel.cross(z, q), model.kernel.gram(q), root)


def _inducing(model: SparseGP | VariationalGP) -> tuple[Any, Array]:
    """Local parameters of the inducing inputs, and L⁻¹ of their covariance."""
    z = model.kernel.local(model.inducing)
    return z, cholesky(model.kernel.gram(z), "K(Z, Z)").inverse


def _expected_log_likelihood(model: Any, data: Data, mean: Array, root: Array | None) -> Array:
    """Σ over rows of E log p(y | f), scaled to the whole data."""
    arrays, rest = eqx.partition((model.kernel, model.likelihood), eqx.is_array)
    z, inverse = _inducing(model)

    def summand(shared: PyTree, rows: tuple[Array, Array, Array]) -> Array:
        arrays, z, inverse, mean, root = shared
        kernel, likelihood = eqx.combine(arrays, rest)
        X, y, error = rows
        p = kernel.local(X)
        f = whitened_marginals(inverse, kernel.cross(z, p), kernel.diagonal(p), mean, root)
        return likelihood.expected_log_density(y, f, likelihood.scale_at(X, error))

    rows = tuple(jnp.asarray(part) for part in (data.X, data.y, data.error))
    return data.scale * chunked_sum(summand, (arrays, z, inverse, mean, root), rows, _CHUNK)
