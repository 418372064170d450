"""The nearest-neighbour (Vecchia) Gaussian process."""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..chunking import chunked_sum
from ..conditioning import condition_last, conditional_log_density
from ..data import Data
from ..kernels import AbstractKernel
from ..kernels.base import Local
from ..likelihoods import Gaussian, Moments
from ..linalg import cholesky
from ..neighbours import earlier_neighbours
from .base import AbstractModel, as_gaussian

_CHUNK = 256


class Neighbourhoods(eqx.Module):
    """Targets with their conditioning sets: rows of the data, ``[n, m + 1]`` with the target last, −1 for none."""

    data: Data
    members: Any

    @classmethod
    def of(cls, data: Data, features: np.ndarray, order: np.ndarray, m: int) -> Self:
        """Every point given its m nearest (in the features) among those before it in the order."""
        neighbours = earlier_neighbours(features, order, m)
        return cls(data, np.concatenate([neighbours, np.arange(len(features))[:, None]], axis=1))

    @property
    def size(self) -> int:
        """Number N of all data."""
        return self.data.size

    @property
    def scale(self) -> float:
        """N/n: what a sum over these targets must be multiplied by to stand for all data."""
        return self.data.size / self.members.shape[0]

    def minibatch(self, key: Array, rows: int) -> Neighbourhoods:
        """Some of the targets, drawn at random without replacement, with their conditioning sets."""
        chosen = jax.random.choice(key, self.members.shape[0], (rows,), replace=False)
        return Neighbourhoods(self.data, jnp.asarray(self.members)[chosen])


class NeighbourGP(AbstractModel):
    """Nearest-neighbour Gaussian process: Σ_i log p(y_i | y_N(i)), a product of small Gaussian conditionals, O(N m³).

    A valid model by itself, exact when every point is conditioned on all before it, and an unbiased sum over targets:
    minibatches need no correction. Vecchia (1988); Datta et al. (2016).
    """

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)

    def log_likelihood(self, data: Neighbourhoods, key: Array | None) -> Array:
        del key
        arrays, rest = eqx.partition(self, eqx.is_array)

        def summand(arrays: Any, members: Array) -> Array:
            model: NeighbourGP = eqx.combine(arrays, rest)
            y, K, _, _ = joint(model, data.data, members, None)
            return jax.vmap(conditional_log_density)(y, K)

        return data.scale * chunked_sum(summand, arrays, jnp.asarray(data.members), _CHUNK)

    def predict(self, data: Neighbourhoods, X: Array, members: Array) -> Moments:
        def at(inputs: tuple[Array, Array]) -> Moments:
            x, chosen = inputs
            y, K, _, _ = joint(self, data.data, chosen[None], x[None])
            last = condition_last(y[0], K[0])
            return Moments(-last.e, last.v)

        return jax.lax.map(at, (X, jnp.asarray(members)), batch_size=_CHUNK)


class FullScaleGP(AbstractModel):
    """Full-scale approximation: inducing points for what is global, neighbours for the residual.

    The covariance is Q + R: Q = K_xz K_zz⁻¹ K_zx of the inducing points exactly, and the residual K − Q plus the noise
    by the nearest-neighbour approximation; O(N(m³ + M² + M m)). Exact at full neighbour sets for any inducing points.
    Sang & Huang (2012); Zhang, Sang & Huang (2019).
    """

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)
    inducing: Any  # [m, d]

    def log_likelihood(self, data: Neighbourhoods, key: Array | None) -> Array:
        del key
        return self._solve(data)[0]

    def predict(self, data: Neighbourhoods, X: Array, members: Array) -> Moments:
        z, inverse = self._inducing()
        _, mean, root = self._solve(data)

        def at(inputs: tuple[Array, Array]) -> Moments:
            x, chosen = inputs
            y, K, A = jax.tree.map(lambda leaf: leaf[0], self._residual(data.data, chosen[None], z, inverse, x[None]))
            last = condition_last(y, K)
            g = A @ last.w
            return Moments(-last.e + g @ mean, last.v + jnp.sum((root @ g) ** 2))

        return jax.lax.map(at, (X, jnp.asarray(members)), batch_size=_CHUNK)

    def _inducing(self) -> tuple[Local, Array]:
        z = self.kernel.local(self.inducing)
        return z, cholesky(self.kernel.gram(z), "K(Z, Z)").inverse

    def _residual(
        self, data: Data, members: Array, z: Local, inverse: Array, X: Array | None
    ) -> tuple[Array, Array, Array]:
        """Outputs, residual covariance and A = L⁻¹ K(Z, ·) of each neighbourhood."""
        y, K, local, present = joint(self, data, members, X)
        A = inverse @ jax.vmap(lambda some: self.kernel.cross(z, some))(local)
        A = jnp.where(present[:, None, :], A, 0.0)
        return y, K - jnp.swapaxes(A, 1, 2) @ A, A

    def _solve(self, data: Neighbourhoods) -> tuple[Array, Array, Array]:
        """Log density, and mean and inverse root of the posterior of the whitened inducing values."""
        z, inverse = self._inducing()
        M = inverse.shape[0]

        @jax.checkpoint
        def add(totals: Any, members: Array) -> tuple[Any, None]:
            y, K, A = self._residual(data.data, members, z, inverse, None)
            each = jax.vmap(condition_last)(y, K)
            g = jnp.einsum("nmk,nk->nm", A, each.w)
            parts = (jnp.sum(each.log_density), (g.T / each.v) @ g, g.T @ (each.e / each.v))
            return jax.tree.map(jnp.add, totals, parts), None

        members = jnp.asarray(data.members)
        n = members.shape[0]
        # Rows of −1 fill the last chunk: each adds the log density of a standard normal zero, taken off again.
        chunks = jnp.pad(members, ((0, -n % _CHUNK), (0, 0)), constant_values=-1).reshape(-1, _CHUNK, members.shape[1])
        zeros = (jnp.zeros(()), jnp.zeros((M, M)), jnp.zeros(M))
        (total, G, h), _ = jax.lax.scan(add, zeros, chunks)
        total = total + (-n % _CHUNK) * 0.5 * jnp.log(2.0 * jnp.pi)
        factor = cholesky(jnp.eye(M) + G, "I + G of the full-scale approximation")
        root = factor.inverse
        c = root @ h
        return total - 0.5 * factor.log_determinant + 0.5 * c @ c, root.T @ c, root


def joint(
    model: NeighbourGP | FullScaleGP, data: Data, members: Array, X: Array | None
) -> tuple[Array, Array, Local, Array]:
    """Outputs ``[n, m]`` and covariances ``[n, m, m]`` of each neighbourhood, local parameters, and who is present.

    With test inputs ``X [n, d]``, these join their neighbourhoods as last members, without noise. Missing members are
    independent of all others, with zero output and unit variance: they change nothing.
    """
    n, size = members.shape
    present = members >= 0
    block = data.rows(jnp.maximum(members, 0).ravel())

    def shaped(leaf: Array) -> Array:
        return leaf.reshape(n, size, *leaf.shape[1:])

    variance, y = shaped(model.likelihood.variance(block)), jnp.where(present, shaped(block.y), 0.0)
    local = jax.tree.map(shaped, model.kernel.local(block.X))
    if X is not None:
        target = model.kernel.local(X)
        local = jax.tree.map(lambda some, one: jnp.concatenate([some, one[:, None]], axis=1), local, target)
        last = ((0, 0), (0, 1))
        present = jnp.pad(present, last, constant_values=True)
        variance, y = jnp.pad(variance, last), jnp.pad(y, last)
    eye = jnp.eye(y.shape[1], dtype=y.dtype)
    K = jax.vmap(model.kernel.gram)(local) + variance[:, :, None] * eye
    return y, jnp.where(present[:, :, None] & present[:, None, :], K, eye), local, present
