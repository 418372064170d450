"""The fast path behind ``cross``: covariance matrices and their gradients in real arithmetic, by hand.

``pair`` defines a kernel; ``cross`` over all pairs is where the time goes, and most of it in the gradient. Here every
kernel with Gaussian windows is one sum over components,

    K_ij = Σ_a h_i h_j C_ij        C + iS = exp(−E/2 + iU) / N

with a factor h per input and E, U, N of pairs, made from vectors per input (a form, ``forms``). With G the gradient in
K, the gradient in a vector θ_i is a row sum, that in θ_j a column sum, of a matrix linear in GC and GS. A small matrix
keeps C and S for its gradient, a large one stores nothing between the passes. What makes it fast on a CPU, where XLA
compiles elementwise operations to loops:

- sine and cosine by polynomials (``sincos``): XLA calls a scalar function for each, ten times slower;
- inputs along the last axis, so that loops are vectors, and one loop over all components and dimensions for K;
- the gradient goes by tiles that stay in cache, and its sums are products with h, which XLA hands to a fast library;
- XLA computes a value again in every loop that uses it, and fuses slices into loops, which then are not vectorised,
  unless the value ends in an operation it deems expensive, like a division: hence ``_stored``.

A sum over all of K would be fused with its loop and slow it; a matrix product or ``jnp.vdot`` is not. Batches of small
matrices by ``vmap`` are best taken 16 to 64 at a time (``lax.map`` with ``batch_size``).
Reverse mode only: ``jax.jvp`` of a fast ``cross`` raises TypeError; the generic ``AbstractKernel.cross(kernel, p, q)``
has every derivative. Derivatives of gradients (``jax.hessian``) work, since the rules here are plain JAX.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import PyTree

from .forms import CHIRPLET, CONVOLUTIONAL, QUADRATIC, STATIONARY, Form, Vectors
from .waves import sincos

# A tile of the gradient has at most so many columns, and so many entries over all components: 1 MB in float64. Smaller
# ones are as fast on one thread but too small to share among several, larger ones leave the cache, and those of 128
# columns take a fifth longer: rows a power of two apart compete for the same cache lines.
_COLUMNS, _TILE = 200, 2**17
# A matrix with so many entries over all components is evaluated for all of them at once, and its C and S are kept for
# the gradient: they stay in the cache, and the code for them is compiled once. Larger ones go component by component.
_AT_ONCE = 2**16


class Window(NamedTuple):
    """Local parameters as kernels have them, inputs first."""

    x: Array  # [n, d]
    lengthscale: Array  # [n, a, d]
    amplitude: Array  # [n, a]
    frequency: Array | None = None  # [n, a, d]
    angle: Array | None = None  # [n, a]: φ of U = φ_i − φ_j


class _Side(NamedTuple):
    """One side of a covariance matrix, inputs last."""

    vectors: Array  # [d, f, a, n]: what the form needs along f, the inputs x first
    factor: Array  # [a, n]: h
    angle: Array | None  # [a, n]


@jax.jit
def stationary_cross(p: Window, q: Window) -> Array:
    """SE and, with ``frequency``, SM: Σ_a σ_i σ_j exp(−‖τ/ℓ_i‖²/2) cos⟨ω_i, τ⟩ ``[n, m]``.

    By differences τ: the matrix product in ‖x‖² − 2⟨x, y⟩ + ‖y‖² cancels for inputs that are close to each other and
    far from their mean, and the exponential dominates the time either way.
    """
    narrow = 1.0 / p.lengthscale
    left = (p.x[:, None], narrow) if p.frequency is None else (p.x[:, None], narrow, p.frequency)
    return _cross(STATIONARY, _side(left, p.amplitude), _side((q.x[:, None],), q.amplitude))


def windowed_cross(p: Window, q: Window) -> Array:
    """NSQ, CSK, GSM and Phase: Σ_a σ_i σ_j ρ_ij exp(−(Q_ij + S_ij)/2) cos U_ij ``[n, m]``.

    With ``frequency``, S and U = ⟨ω_ij, τ⟩ are those of CSK; with ``angle``, S = 0 and U = φ_i − φ_j; else S = U = 0.
    """
    return _windowed(p, None if _same(p, q) else q)


def chirplet_cross(p: PyTree, q: PyTree) -> Array:
    """The covariance matrix ``[n, m]`` of ``Chirplet``, from its own local parameters."""
    return _chirplet(p, None if _same(p, q) else q)


@jax.jit
def _windowed(p: Window, q: Window | None) -> Array:
    unit = _unit(p.lengthscale)

    def side(w: Window) -> _Side:
        lengthscale = w.lengthscale / unit
        h = w.amplitude * jnp.sqrt(_product(lengthscale))
        vectors = (w.x[:, None] / unit, lengthscale**2)
        return _side(vectors if w.frequency is None else (*vectors, w.frequency * unit), h, w.angle)

    form = QUADRATIC if p.frequency is None else CONVOLUTIONAL
    return _gram(form, side(p)) if q is None else _cross(form, side(p), side(q))


@jax.jit
def _chirplet(p: PyTree, q: PyTree) -> Array:
    unit = _unit(p.lengthscale)

    def side(w: Any) -> _Side:
        alpha = (w.lengthscale / unit) ** -2
        h = w.amplitude * jnp.sqrt(jnp.sqrt(_product(alpha)))
        return _side((w.x[:, None] / unit, alpha, w.frequency * unit, w.chirp * unit**2), h)

    return _gram(CHIRPLET, side(p)) if q is None else _cross(CHIRPLET, side(p), side(q))


def _same(p: PyTree, q: PyTree) -> bool:
    """Whether both are the very same arrays: the matrix is then symmetric, and half the gradient is all of it."""
    return all(left is right for left, right in zip(jax.tree.leaves(p), jax.tree.leaves(q), strict=True))


# Matrices and gradients of any form


def _matrix(form: Form, p: _Side, q: _Side) -> Array:
    if _small(p, q):
        return _matrix_and_pairs(form, p, q)[0]
    rows, columns = _packed((p, q))
    K: Any = 0.0
    for a in range(p.factor.shape[0]):
        left, right = (jax.tree.map(lambda leaf, a=a: leaf[..., a, :], side) for side in (rows, columns))
        modulus, cosine, _, N = _waves(form, left, right, lambda U: U)
        C = modulus * cosine if N is None else modulus * cosine / N
        K = K + (left.factor[:, None] * right.factor) * C
    return K


def _small(p: _Side, q: _Side) -> bool:
    return p.factor.size * q.factor.shape[-1] <= _AT_ONCE


def _matrix_and_pairs(form: Form, p: _Side, q: _Side) -> tuple[Array, tuple[Array, Array] | None]:
    """K and, of a small matrix, the C and S that its gradient needs as well."""
    if not _small(p, q):
        return _matrix(form, p, q), None
    p, q = _packed((p, q))
    C, S = _pairs(form, p, q)
    return functools.reduce(jnp.add, (p.factor[..., None] * q.factor[..., None, :]) * C), (C, S)


def _pairs(form: Form, p: _Side, q: _Side, G: Any = 1.0) -> tuple[Array, Array]:
    """G times C and S of all pairs ``[a, n, m]``."""
    modulus, cosine, sine, N = _waves(form, p, q, _stored)
    waves = (G * modulus * wave for wave in (cosine, sine))
    C, S = (_stored(wave) if N is None else wave / N for wave in waves)
    return C, S


def _gradients(form: Form, p: _Side, q: _Side, pairs: Any, G: Array, sides: tuple[_Side, ...]) -> tuple[_Side, ...]:
    """Row sums for p and, with q among the ``sides``, column sums for it: from C and S if there are, else over tiles.

    A last tile that would overhang moves back, with G = 0 where it overlaps.
    """
    if pairs is not None:
        left, right = _packed((p, q))
        return _tile_gradient(form, left, right, G * pairs[0], G * pairs[1])[: len(sides)]
    n, m = G.shape
    rows, columns = _tile_shape(n, m, p.factor.shape[0])
    down, along = -(-n // rows), -(-m // columns)

    def tile(k: Array, gradients: tuple[_Side, ...]) -> tuple[_Side, ...]:
        i, j = rows * (k // along), columns * (k % along)
        top, start = jnp.minimum(i, n - rows), jnp.minimum(j, m - columns)
        fresh = (top + jnp.arange(rows) >= i)[:, None] & (start + jnp.arange(columns) >= j)
        part = jnp.where(fresh, lax.dynamic_slice(G, (top, start), (rows, columns)), 0.0)
        left, right, part = _stored((_cut(p, top, rows), _cut(q, start, columns), part))
        found = _tile_gradient(form, left, right, *_pairs(form, left, right, part))
        return tuple(map(_added, gradients, found, (top, start)))

    return lax.fori_loop(0, down * along, tile, jax.tree.map(jnp.zeros_like, sides))


_cross = jax.custom_vjp(_matrix, nondiff_argnums=(0,))
_gram = jax.custom_vjp(lambda form, p: _matrix(form, p, p), nondiff_argnums=(0,))


def _cross_forward(form: Form, p: _Side, q: _Side) -> tuple[Array, Any]:
    K, pairs = _matrix_and_pairs(form, p, q)
    return K, (p, q, pairs)


def _cross_backward(form: Form, residuals: tuple[_Side, _Side, Any], G: Array) -> tuple[_Side, ...]:
    p, q, pairs = residuals
    return _gradients(form, p, q, pairs, G, (p, q))


def _gram_backward(form: Form, residuals: tuple[_Side, _Side, Any], G: Array) -> tuple[_Side, ...]:
    """K_ij = K_ji, so a column sum of the gradient is a row sum with Gᵀ in the place of G."""
    p, _, pairs = residuals
    return _gradients(form, p, p, pairs, G + G.T, (p,))


_cross.defvjp(_cross_forward, _cross_backward)
_gram.defvjp(lambda form, p: _cross_forward(form, p, p), _gram_backward)


def _tile_gradient(form: Form, p: _Side, q: _Side, C: Array, S: Array) -> tuple[_Side, _Side]:
    """The gradients in both sides, from GC and GS."""

    def along_rows(Z: Array) -> Array:
        return jnp.matmul(Z, q.factor[..., None], precision=lax.Precision.HIGHEST)[..., 0]

    def along_columns(Z: Array) -> Array:
        return jnp.matmul(p.factor[..., None, :], Z, precision=lax.Precision.HIGHEST)[..., 0, :]

    def dimension(_: None, vectors: tuple[Array, Array]) -> tuple[None, tuple[Array, Array]]:
        left, right = _stored(vectors)
        slopes = form.slopes(left[..., None], right[..., None, :], C, S)
        rows, columns = [along_rows(Z) for Z in slopes[0]], [along_columns(Z) for Z in slopes[1]]
        return None, (p.factor * jnp.stack([-rows[0], *rows[1:]]), q.factor * jnp.stack(columns))

    # One dimension at a time: the code is compiled once, whatever their number.
    _, (left, right) = lax.scan(dimension, None, (p.vectors, q.vectors))
    angles = (None, None) if p.angle is None else (-p.factor * along_rows(S), q.factor * along_columns(S))
    return _Side(left, along_rows(C), angles[0]), _Side(right, along_columns(C), angles[1])


def _waves(form: Form, p: _Side, q: _Side, store: Callable[[Array], Array]) -> tuple[Array, Any, Any, Array | None]:
    """exp(−E/2), cosine and sine of U less the turn, and N of all pairs ``[..., n, m]``."""
    E, U, N, turn = form.polar(p.vectors[..., None], q.vectors[..., None, :])
    if p.angle is not None and q.angle is not None:
        U = p.angle[..., None] - q.angle[..., None, :]
    modulus = jnp.exp(-0.5 * E)
    if U is None:
        return modulus, 1.0, 0.0, N
    s, c = sincos(store(U))
    if turn is not None:
        s, c = s * turn[0] - c * turn[1], c * turn[0] + s * turn[1]
    return modulus, c, s, N


def _side(vectors: Vectors, factor: Array, angle: Array | None = None) -> _Side:
    """Inputs last: vectors ``[n, a, d] → [d, f, a, n]``, the others ``[n, a] → [a, n]``."""
    shape = (*factor.shape, vectors[0].shape[-1])
    turned = jnp.stack([jnp.broadcast_to(v, shape).T for v in vectors], axis=1)
    return _Side(turned, factor.T, None if angle is None else angle.T)


def _unit(lengthscale: Array) -> Array:
    """A unit of length ``[a, d]`` in which products over dimensions do not overflow; a power of two divides exactly."""
    _, exponent = jnp.frexp(lax.stop_gradient(lengthscale[0]))
    return jnp.ldexp(jnp.ones_like(lengthscale[0]), exponent)


def _product(values: Array) -> Array:
    return functools.reduce(jnp.multiply, values.T).T  # along the last axis; the gradient of jnp.prod is slow


def _stored(tree: PyTree) -> Any:
    """The same arrays, each divided by a 1 that the compiler does not see through, so that it stores them."""
    return jax.tree.map(lambda leaf: leaf / (1.0 + 0.0 * leaf), tree)


def _packed(tree: PyTree) -> Any:
    """The same arrays, stored side by side in one vector: else XLA leaves the inputs first and loads become gathers."""
    leaves, structure = jax.tree.flatten(tree)
    ends = list(itertools.accumulate(leaf.size for leaf in leaves))
    parts = jnp.split(_stored(jnp.concatenate([leaf.ravel() for leaf in leaves])), ends[:-1])
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])


def _tile_shape(n: int, m: int, components: int) -> tuple[int, int]:
    """Rows and columns of equal tiles that cover ``[n, m]``."""
    columns = 8 * -(-m // (8 * -(-m // _COLUMNS)))  # whole vectors
    columns = min(m, columns + 8 * (columns % 128 == 0))
    down = -(-n // max(1, _TILE // (columns * components)))
    return -(-n // down), columns


def _cut(side: _Side, start: Array, size: int) -> _Side:
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, size, axis=-1), side)


def _added(total: _Side, part: _Side, start: Array) -> _Side:
    new = jax.tree.map(jnp.add, _cut(total, start, part.factor.shape[-1]), part)
    return jax.tree.map(lambda old, piece: lax.dynamic_update_slice_in_dim(old, piece, start, axis=-1), total, new)
