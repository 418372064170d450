"""A kernel is two methods, ``local`` and ``pair``; everything else follows from them here, once.

Every kernel of the library has the form (Shen, Heinonen & Kaski 2020, Eq. 17; ``docs/equations.md``)

    k(x_i, x_j) = Σ_a σ_ij exp(−D_ij / 2) cos U_ij

with σ symmetric, D ≥ 0 symmetric and zero on the diagonal, and U the phase. ``local`` evaluates the functions of a
kernel once per input, ``pair`` gives (σ, D, U) of one pair of inputs. The family is closed under sums, products,
scaling and warps of the input, so these live here too.
"""

from __future__ import annotations

import functools
import itertools
from abc import abstractmethod
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from ..core import entry_point, inputs, require_memory, traced
from ..parameters import Function, Parameter, Parametrised, constrain, scalar

# Pairs whose local parameters fill about this many numbers are evaluated at once; larger matrices go by blocks of
# rows, so that memory beyond the matrix itself stays flat.
_BLOCK = 2**22


class Characteristic(NamedTuple):
    """One pair of inputs: amplitude σ, distance D and phase U of every component, each ``[a]``."""

    amplitude: Array
    distance: Array
    phase: Array

    @property
    @entry_point
    def value(self) -> Array:
        """The covariance Σ_a σ exp(−D/2) cos U."""
        return jnp.sum(self.amplitude * jnp.exp(-0.5 * self.distance) * jnp.cos(self.phase), axis=-1)


class Local(SimpleNamespace):
    """Local parameters of a kernel at inputs: arrays with the inputs as leading axis, by name; a pytree.

    Of most kernels these are ``x [n, d]`` and the values of its parameters, such as ``lengthscale [n, a, d]`` and
    ``amplitude [n, a]``.
    """

    def replace(self, **arrays: Any) -> Local:
        """The same with other arrays in the place of those named."""
        return Local(**(vars(self) | arrays))


jax.tree_util.register_pytree_with_keys(
    Local,
    lambda local: ([(jax.tree_util.GetAttrKey(name), leaf) for name, leaf in vars(local).items()], tuple(vars(local))),
    lambda names, leaves: Local(**dict(zip(names, leaves, strict=True))),
)


class AbstractKernel(Parametrised):
    """A positive semidefinite covariance function given by ``local`` and ``pair``.

    Matrices are computed from *local parameters*, so one evaluation (or one random draw) of a kernel's functions is
    shared by every matrix made from it and the joint matrix stays positive semidefinite.
    """

    __array_ufunc__ = None  # an array times a kernel is an error, not an array of kernels

    def local(self, X: Array) -> Any:
        """Local parameters at inputs ``X [n, d]``: the inputs and the values of all fields there, a pytree of arrays.

        A kernel that needs something else in ``pair`` overrides it.
        """
        return Local(x=X, **self.values_at(X))

    @abstractmethod
    def pair(self, p: PyTree, q: PyTree) -> Characteristic:
        """(σ, D, U) of one pair of inputs, from their local parameters ``p`` and ``q`` (no leading axis).

        Uses arrays and static fields of the kernel only, never its callables: these belong to ``local``.
        """

    def cross(self, p: PyTree, q: PyTree) -> Array:
        """Covariance matrix ``[n, m]`` between inputs with local parameters ``p`` (n of them) and ``q`` (m)."""
        return _cross(self.without_callables(), p, q)

    def gram(self, p: PyTree) -> Array:
        """Covariance matrix ``[n, n]`` of inputs with local parameters ``p``."""
        return self.cross(p, p)

    def elementwise(self, p: PyTree, q: PyTree) -> Array:
        """Covariances ``[n]`` of matching inputs of ``p`` and ``q``."""
        return _elementwise(self.without_callables(), p, q)

    def diagonal(self, p: PyTree) -> Array:
        """Variances ``[n]``: the diagonal of ``gram(p)`` without the matrix."""
        return self.elementwise(p, p)

    def line_freedom(self, p: PyTree) -> np.ndarray:
        """Degrees of freedom ``[a]`` of the Student-t density that is each component's line in the local spectrum.

        Infinite ones are those of a normal density, which lines of most kernels have; those of Matérn ones are finite.

        Args:
            p: Local parameters at inputs, at least one.
        """
        one = jax.tree.map(lambda leaf: leaf[0], p)
        return np.full(jax.eval_shape(self.without_callables().pair, one, one).amplitude.shape[-1], np.inf)

    def without_callables(self) -> Self:
        """This kernel for use in ``pair`` alone, which never calls its functions: equal shapes then compile once."""
        return eqx.filter(self, lambda leaf: not callable(leaf))

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Array:
        """Covariance matrix ``[n, m]`` between two sets of inputs.

        Args:
            X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
            Y: Other inputs ``[m, d]``; X again when left out.
        """
        X, kernel = inputs(X), constrain(self)
        shape = X.shape[0], np.shape(X if Y is None else Y)[0]
        size = float(shape[0]) * shape[1] * X.dtype.itemsize
        require_memory(size, f"a covariance matrix {list(shape)}", "ask for some rows at a time")
        if Y is None:
            return kernel.gram(kernel.local(X))
        Y = inputs(Y, "Y")
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"Y must have as many columns as X ({X.shape[1]}), got shape {Y.shape}")
        return kernel.cross(kernel.local(X), kernel.local(Y))

    def __add__(self, other: AbstractKernel) -> Sum:
        return Sum(self, other) if isinstance(other, AbstractKernel) else NotImplemented

    def __mul__(self, other: AbstractKernel | float) -> AbstractKernel:
        if isinstance(other, AbstractKernel):
            return Product(self, other)
        return _scaled(self, other) if _is_number(other) else NotImplemented

    def __rmul__(self, other: float) -> AbstractKernel:
        return _scaled(self, other) if _is_number(other) else NotImplemented


class AbstractMixture(AbstractKernel):
    """Σ_a σ_a(x_i) σ_a(x_j) r_a(x_i, x_j) with correlations r_a(x, x) = 1; local parameters have an ``amplitude``."""

    def diagonal(self, p: PyTree) -> Array:
        return jnp.sum(p.amplitude**2, axis=-1)


class Sum(AbstractKernel):
    """k₁ + k₂ + …: the components of all terms side by side.

    Args:
        kernels: The terms; those that are sums themselves are taken apart.
    """

    terms: tuple[AbstractKernel, ...]

    def __init__(self, *kernels: AbstractKernel) -> None:
        nested = [kernel.terms if isinstance(kernel, Sum) else (kernel,) for kernel in kernels]
        self.terms = tuple(itertools.chain.from_iterable(nested))

    def local(self, X: Array) -> Any:
        return tuple(kernel.local(X) for kernel in self.terms)

    def pair(self, p: PyTree, q: PyTree) -> Characteristic:
        terms = [kernel.pair(a, b) for kernel, a, b in zip(self.terms, p, q, strict=True)]
        return Characteristic(*(jnp.concatenate(fields, axis=-1) for fields in zip(*terms, strict=True)))

    # Matrices of composite kernels come from those of their parts, which may know a faster way than ``pair``.
    def cross(self, p: PyTree, q: PyTree) -> Array:
        return functools.reduce(jnp.add, (k.cross(a, b) for k, a, b in zip(self.terms, p, q, strict=True)))

    def diagonal(self, p: PyTree) -> Array:
        return functools.reduce(jnp.add, (k.diagonal(a) for k, a in zip(self.terms, p, strict=True)))

    def line_freedom(self, p: PyTree) -> np.ndarray:
        return np.concatenate([kernel.line_freedom(a) for kernel, a in zip(self.terms, p, strict=True)])


class Product(AbstractKernel):
    """k₁ · k₂: every pair of components gives two, (½σ₁σ₂, D₁ + D₂, U₁ ± U₂).

    From Re z₁ Re z₂ = ½ Re(z₁ z₂ + z₁ z̄₂): frequencies add and subtract, as in amplitude modulation.

    Args:
        first: k₁.
        second: k₂.
    """

    first: AbstractKernel
    second: AbstractKernel

    def local(self, X: Array) -> Any:
        return self.first.local(X), self.second.local(X)

    def pair(self, p: PyTree, q: PyTree) -> Characteristic:
        one = self.first.pair(p[0], q[0])
        two = self.second.pair(p[1], q[1])
        sigma = 0.5 * jnp.outer(one.amplitude, two.amplitude)
        D = one.distance[:, None] + two.distance
        U, V = one.phase[:, None], two.phase
        both = [(sigma, sigma), (D, D), (U + V, U - V)]
        return Characteristic(*(jnp.concatenate([plus.ravel(), minus.ravel()]) for plus, minus in both))

    def cross(self, p: PyTree, q: PyTree) -> Array:
        return self.first.cross(p[0], q[0]) * self.second.cross(p[1], q[1])

    def diagonal(self, p: PyTree) -> Array:
        return self.first.diagonal(p[0]) * self.second.diagonal(p[1])


class Scaled(AbstractKernel):
    """s(x_i) k(x_i, x_j) s(x_j) with an amplitude s(x) ≥ 0; ``2.0 * k`` is a constant s = √2.

    Args:
        kernel: k.
        amplitude: s: a number, or a callable of inputs with values ``[n]``.
    """

    kernel: AbstractKernel
    amplitude: Parameter = scalar(nonnegative=True)

    def local(self, X: Array) -> Any:
        s = self.values_at(X)["amplitude"]
        if s.shape[1] != 1:
            raise ValueError(f"Scaled.amplitude must have one component, got {s.shape[1]}")
        return self.kernel.local(X), s

    def pair(self, p: PyTree, q: PyTree) -> Characteristic:
        inner = self.kernel.pair(p[0], q[0])
        return inner._replace(amplitude=inner.amplitude * p[1] * q[1])

    def cross(self, p: PyTree, q: PyTree) -> Array:
        return p[1] * self.kernel.cross(p[0], q[0]) * q[1].T

    def diagonal(self, p: PyTree) -> Array:
        return self.kernel.diagonal(p[0]) * p[1][:, 0] ** 2

    def line_freedom(self, p: PyTree) -> np.ndarray:
        return self.kernel.line_freedom(p[0])


class AbstractInner(AbstractKernel):
    """Another kernel with local parameters of its own making: pairs of them are that kernel's."""

    kernel: eqx.AbstractVar[AbstractKernel]

    def pair(self, p: PyTree, q: PyTree) -> Characteristic:
        return self.kernel.pair(p, q)

    def cross(self, p: PyTree, q: PyTree) -> Array:
        return self.kernel.cross(p, q)

    def diagonal(self, p: PyTree) -> Array:
        return self.kernel.diagonal(p)

    def line_freedom(self, p: PyTree) -> np.ndarray:
        return self.kernel.line_freedom(p)


class Warped(AbstractInner):
    """k(f(x_i), f(x_j)): a kernel on warped inputs, f any callable ``[n, d] → [n, d']``.

    ``Warped(SquaredExponential(ℓ), f)`` is the conditional kernel of a deep GP (Shen, Heinonen & Kaski 2020, Eq. 26);
    with a neural network for f it is deep kernel learning (Wilson et al. 2016). Give an equinox network as
    ``equinox.filter_vmap(network)``: its weights then are leaves of the kernel and can be trained.

    Args:
        kernel: k, a kernel on d' inputs.
        warp: f.
    """

    kernel: AbstractKernel
    warp: Function

    def __check_init__(self) -> None:
        if not callable(self.warp):
            raise TypeError(f"Warped.warp must be a callable of inputs [n, d], got {type(self.warp).__name__}")

    def local(self, X: Array) -> Any:
        warped = jnp.asarray(self.warp(X))
        if warped.ndim != 2 or warped.shape[0] != X.shape[0]:
            raise ValueError(f"Warped.warp must give shape [n, d'] with n = {X.shape[0]}, got {list(warped.shape)}")
        return self.kernel.local(inputs(warped, "Warped.warp"))


def _is_number(value: Any) -> bool:
    """Whether a kernel can be multiplied by it."""
    return isinstance(value, int | float | np.number | np.ndarray | jax.Array) and np.ndim(value) == 0


def _scaled(kernel: AbstractKernel, factor: float) -> Scaled:
    """factor · k, for a factor of zero or more."""
    if not traced(factor) and not factor >= 0:
        raise ValueError(f"a kernel can be scaled by zero or a positive number, got {factor!r}")
    return Scaled(kernel, jnp.sqrt(factor) if traced(factor) else np.sqrt(np.float64(factor)))


@eqx.filter_jit
def _cross(kernel: AbstractKernel, p: PyTree, q: PyTree) -> Array:
    def row(one: PyTree) -> Array:
        return jax.vmap(lambda other: kernel.pair(one, other).value)(q)

    n, m = (jax.tree.leaves(side)[0].shape[0] for side in (p, q))
    per_pair = sum(leaf[0].size for leaf in jax.tree.leaves(q))
    rows = max(1, _BLOCK // (m * per_pair))
    return jax.vmap(row)(p) if n <= rows else jax.lax.map(row, p, batch_size=rows)


@eqx.filter_jit
def _elementwise(kernel: AbstractKernel, p: PyTree, q: PyTree) -> Array:
    return jax.vmap(lambda one, other: kernel.pair(one, other).value)(p, q)
