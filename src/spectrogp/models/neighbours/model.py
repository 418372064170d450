"""The nearest-neighbour (Vecchia) Gaussian process."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from ...core import cholesky, chunked_sum, in_pieces, traced
from ...kernels import AbstractKernel
from ...parameters import as_inducing
from ..base import AbstractModel, as_gaussian
from ..conditioning import condition_last, conditional_log_density, sequential_covariance
from ..data import Data
from ..likelihoods import Gaussian
from ..moments import Moments
from .search import earlier_neighbours, features, maxmin_order, nearest_under
from .sets import Neighbourhoods

_CHUNK = 16  # neighbourhoods of one program step: a core keeps their matrices in its own cache
_ROWS = 2**13  # rows whose functions are evaluated at once: k(X, Z) of all of them is in memory
PIECE = 1024  # test inputs predicted by one program, of which several run side by side


class AbstractNeighbourModel(AbstractModel):
    """What the models of this file share: how they predict.

    Predictions need the neighbours of the test inputs under the model's ``kernel``, and its ``likelihood`` is Gaussian.
    Neighbours are found with trees, outside ``jit``; for predictions inside it, ``prepare`` finds them before.
    """

    kernel: eqx.AbstractVar[AbstractKernel]
    likelihood: eqx.AbstractVar[Gaussian]
    draws_inside_jit: ClassVar[bool] = False
    apart: ClassVar[bool] = True  # whether a prediction needs nothing of the data but its neighbours

    def neighbours(self, data: Neighbourhoods, X: ArrayLike, m: int | None = None) -> np.ndarray:
        """The m rows of the data nearest to each test input ``X [t, d]``: ``[t, m]``, by default as data say."""
        _require_values(self, data, X)
        usual = data.members.shape[1] if data.ahead is None else data.ahead
        m = usual if m is None else m
        return nearest_under(self.kernel, np.asarray(data.data.X), np.asarray(X), m, data.metric)

    def prepare(self, data: Neighbourhoods, X: ArrayLike, m: int | None = None) -> Neighbourhoods:
        """The same ``data`` with neighbourhoods of test inputs ``X [t, d]``, of ``m`` rows (by default as in data)."""
        return dataclasses.replace(data, near=self.realise().neighbours(data, X, m))

    def moments(self, data: Neighbourhoods, X: Array) -> Moments:
        """Mean and variance of f at inputs ``X [t, d]``, each given its nearest rows of the data."""
        near = self.neighbours(data, X) if data.near is None else data.near
        if len(X) <= PIECE or not self.apart or traced(self, data, X):
            return _predict(self, data, jnp.asarray(X), jnp.asarray(near))
        bare = jax.tree.map(jnp.asarray, dataclasses.replace(data, near=None))

        def piece(rows: tuple[np.ndarray, np.ndarray]) -> Moments:
            return _predict(self, bare, *map(jnp.asarray, rows))

        return in_pieces(piece, (np.asarray(X), np.asarray(near)), PIECE, (self, bare))

    def joint_covariance(self, data: Neighbourhoods, X: Array) -> Array:
        """Joint posterior covariance ``[t, t]`` of f at inputs ``X``.

        Each value is conditioned on its neighbours in the data and on as many values at test inputs before it, in an
        order that covers these coarsely first.
        """
        near = self.neighbours(data, X)
        of = features(self.kernel, np.asarray(data.data.X), data.metric)(np.asarray(X))
        order = maxmin_order(of, 0)
        before = earlier_neighbours(of[order], np.arange(len(of)), near.shape[1])
        covariance = _covariance(self, data, jnp.asarray(X)[order], jnp.asarray(near[order]), jnp.asarray(before))
        place = np.argsort(order)
        return covariance[place][:, place]

    @abstractmethod
    def conditionals(self, data: Neighbourhoods) -> Callable[[Data, Array], Conditionals]:
        """A function that gives the last of each neighbourhood ``[n, m + 1]`` in some data given the others.

        Test inputs are rows of the data without noise (``_with_tests``).
        """


class Conditionals(NamedTuple):
    """f_i = mean_i − Σ_k w_ik f_k + s_iᵀu + ε_i: values given those before them, ε of variance v, u standard normal."""

    mean: Array  # [n]
    w: Array  # [n, m + 1]
    v: Array  # [n]
    s: Array  # [n, r]


class NeighbourGP(AbstractNeighbourModel):
    """Nearest-neighbour Gaussian process: Σ_i log p(y_i | y_N(i)), a product of small Gaussian conditionals, O(N m³).

    A valid model by itself, exact when every point is conditioned on all before it, and an unbiased sum over targets:
    minibatches need no correction. Vecchia (1988); Datta et al. (2016).

    Its data are ``Neighbourhoods``, as ``Refresh`` makes them.

    Args:
        kernel: The prior covariance of f.
        likelihood: The noise: a number, a ``Positive`` parameter, a function of the input, or a ``Gaussian``.
    """

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)

    def log_likelihood(self, data: Neighbourhoods, key: Array | None) -> Array:
        del key
        arrays, rest = eqx.partition(self, eqx.is_array)
        members, rows = jnp.asarray(data.members), data.data

        def summand(arrays: Any, *given: Any) -> Array:
            model: NeighbourGP = eqx.combine(arrays, rest)
            *picked, members, rows = given
            values = picked[0] if picked else _values_at(model, rows, members)
            y, K, _, _ = _assembled(model, rows, members, values)
            return jax.vmap(conditional_log_density)(y, K)

        # Functions of the input are evaluated once for each row, if that is less than once for each member.
        count = len(rows.X)
        table = _values_at(self, rows, jnp.arange(count)) if count <= min(_ROWS, members.size // 2) else None
        return data.scale * chunked_sum(summand, arrays, members, _CHUNK, (rows,), table)

    def pairs(self, data: Neighbourhoods) -> int:
        return int(data.members.shape[1] ** 2)

    def conditionals(self, data: Neighbourhoods) -> Callable[[Data, Array], Conditionals]:
        del data

        def given(rows: Data, members: Array) -> Conditionals:
            y, K, _, _ = joint(self, rows, members)
            last = jax.vmap(condition_last)(y, K)
            return Conditionals(-last.e, last.w, last.v, jnp.zeros((len(members), 1), y.dtype))

        return given


class FullScaleGP(AbstractNeighbourModel):
    """Full-scale approximation: inducing points for what is global, neighbours for the residual.

    The covariance is Q + R: Q = K_xz K_zz⁻¹ K_zx of the inducing points exactly, and the residual K − Q plus the noise
    by the nearest-neighbour approximation; O(N(m³ + M² + M m)). Exact at full neighbour sets for any inducing points.
    Sang & Huang (2012); Zhang, Sang & Huang (2019).

    Its data are ``Neighbourhoods``, as ``Refresh`` makes them.

    Args:
        kernel: The prior covariance of f.
        likelihood: The noise: a number, a ``Positive`` parameter, a function of the input, or a ``Gaussian``.
        inducing: Inducing inputs ``[m, d]``.
    """

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)
    inducing: Any = eqx.field(converter=as_inducing)  # [m, d]

    inputs_of_its_own: ClassVar[tuple[str, ...]] = ("inducing",)
    apart: ClassVar[bool] = False

    def log_likelihood(self, data: Neighbourhoods, key: Array | None) -> Array:
        del key
        return self._solve(data)[0]

    def conditionals(self, data: Neighbourhoods) -> Callable[[Data, Array], Conditionals]:
        z, inverse = self._inducing()
        _, mean, root = self._solve(data)

        def given(rows: Data, members: Array) -> Conditionals:
            y, K, A = self._residual(rows, members, z, inverse)
            last = jax.vmap(condition_last)(y, K)
            g = jnp.einsum("nmk,nk->nm", A, last.w)
            return Conditionals(-last.e + g @ mean, last.w, last.v, g @ root.T)

        return given

    def _inducing(self) -> tuple[Any, Array]:
        z = self.kernel.local(self.inducing)
        return z, cholesky(self.kernel.gram(z), "K(Z, Z)").inverse

    def _residual(self, data: Data, members: Array, z: PyTree, inverse: Array) -> tuple[Array, Array, Array]:
        """Outputs, residual covariance and A = L⁻¹ K(Z, ·) of each neighbourhood."""
        y, K, local, present = joint(self, data, members)
        A = inverse @ jax.vmap(lambda some: self.kernel.cross(z, some))(local)
        A = jnp.where(present[:, None, :], A, 0.0)
        return y, K - jnp.swapaxes(A, 1, 2) @ A, A

    def _solve(self, data: Neighbourhoods) -> tuple[Array, Array, Array]:
        """Log density, and mean and inverse root of the posterior of the whitened inducing values."""
        z, inverse = self._inducing()
        M = inverse.shape[0]

        @jax.checkpoint
        def add(totals: Any, members: Array) -> tuple[Any, None]:
            y, K, A = self._residual(data.data, members, z, inverse)
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


def _require_values(*trees: PyTree) -> None:
    if traced(*trees):
        raise TypeError("neighbours are found outside jit: find them first, and give what prepare returns as data")


def joint(model: Any, data: Data, members: Array) -> tuple[Array, Array, Any, Array]:
    """Outputs ``[n, m]`` and covariances ``[n, m, m]`` of each neighbourhood, local parameters, and who is present.

    Missing members are independent of all others, with zero output and unit variance: they change nothing. So have the
    rows of test inputs (beyond the size of the data) zero output; they have no noise.
    """
    return _assembled(model, data, members, _values_at(model, data, members))


class _Values(NamedTuple):
    """What functions of the input say at rows of data: those of the kernel, and the variance of the noise."""

    local: PyTree
    variance: Array


def _values_at(model: Any, data: Data, members: Array) -> _Values:
    """At members of any shape; where none is, those of the first row."""
    block = data.rows(jnp.maximum(members, 0).ravel())
    values = _Values(model.kernel.local(block.X), model.likelihood.variance(block))
    return jax.tree.map(lambda leaf: leaf.reshape(*members.shape, *leaf.shape[1:]), values)


def _assembled(model: Any, data: Data, members: Array, values: _Values) -> tuple[Array, Array, Any, Array]:
    present = members >= 0
    variance = jnp.where(members < data.size, values.variance, 0.0)
    y = jnp.where(present, jnp.asarray(data.y)[jnp.maximum(members, 0)], 0.0)
    eye = jnp.eye(members.shape[1], dtype=y.dtype)
    K = jax.vmap(model.kernel.gram)(values.local) + variance[:, :, None] * eye
    return y, jnp.where(present[:, :, None] & present[:, None, :], K, eye), values.local, present


def conditional_moments(model: Any, data: Data, members: Array) -> Moments:
    """Mean and variance of the output of the last member of each neighbourhood ``[n, m + 1]`` given the others'.

    Args:
        model: A realised model with a kernel and Gaussian noise, which integrates f out.
        data: The data that the members are rows of.
        members: Row numbers, with the target last; −1 for none.
    """
    y, K, _, _ = joint(model, data, members)
    last = jax.vmap(condition_last)(y, K)
    return Moments(y[:, -1] - last.e, last.v)


def _with_tests(data: Data, X: Array) -> Data:
    """The data followed by test inputs."""

    def joined(part: Array, rest: Array) -> Array:
        return jnp.concatenate([jnp.asarray(part), jnp.asarray(rest, part.dtype)])

    nothing = jnp.zeros(len(X))
    return Data.unchecked(joined(data.X, X), joined(data.y, nothing), joined(data.error, nothing), data.size)


@eqx.filter_jit
def _predict(model: AbstractNeighbourModel, data: Neighbourhoods, X: Array, members: Array) -> Moments:
    given, rows = model.conditionals(data), _with_tests(data.data, X)

    def at(members: Array) -> Moments:
        mean, _, v, s = jax.tree.map(lambda leaf: leaf[0], given(rows, members[None]))
        return Moments(mean, v + jnp.sum(s**2))

    members = jnp.concatenate([members, data.size + jnp.arange(len(X))[:, None]], axis=1)
    return jax.lax.map(at, members, batch_size=_CHUNK)


@eqx.filter_jit
def _covariance(model: AbstractNeighbourModel, data: Neighbourhoods, X: Array, near: Array, before: Array) -> Array:
    given, rows = model.conditionals(data), _with_tests(data.data, X)
    values = jnp.where(before >= 0, data.size + before, -1)
    members = jnp.concatenate([near, values, data.size + jnp.arange(len(X))[:, None]], axis=1)

    def at(members: Array) -> Conditionals:
        return jax.tree.map(lambda leaf: leaf[0], given(rows, members[None]))

    _, w, v, s = jax.lax.map(at, members, batch_size=_CHUNK)
    return sequential_covariance(w[:, near.shape[1] : -1], v, before, s)
