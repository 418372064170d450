"""Linear algebra that the rest of the library shares: factors of covariance matrices and Gaussian densities.

Covariance matrices of smooth kernels are singular to rounding. One policy serves them all: ``cholesky`` adds the least
jitter of a short ladder that lets the factorisation succeed, says how much it was, and raises by name outside ``jit``;
inside ``jit`` a failure is carried as NaN, and whoever runs the compiled function checks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_batching import custom_vmap

from .entry_points import traced

# Jitter as a fraction of the mean diagonal, tried in this order. The steps start where rounding does.
_LADDER = {8: (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4), 4: (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)}

# Triangular factors up to this size, or to this share of the whole, are inverted at once: programs of any size have the
# same number of parts, and take as long to compile.
_BLOCK, _PARTS = 128, 16

_INLINE = 2**18  # n³ of a batch of matrices [n, n], up to which LAPACK takes no further thread for it


class Factor(NamedTuple):
    """A lower triangular L with L Lᵀ = K + jitter·I, and L⁻¹; ``jitter`` is absolute.

    Multiplying by L⁻¹ is as accurate as a triangular solve, and several times faster for many columns.
    """

    L: Array
    inverse: Array
    jitter: Array

    @property
    def log_determinant(self) -> Array:
        """log |K + jitter·I|."""
        return 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.L, axis1=-2, axis2=-1)), axis=-1)


def cholesky(K: Array, name: str = "covariance matrix") -> Factor:
    """Factor a positive semidefinite matrix, with the least jitter that is needed.

    Outside ``jit`` a matrix that cannot be factored raises, called by its ``name``.
    """
    L, inverse, jitter = _cholesky(K)
    if not traced(L) and not bool(jnp.all(jnp.isfinite(L))):
        if not bool(jnp.all(jnp.isfinite(K))):
            raise FloatingPointError(f"{name} has entries that are not finite; look at the kernel's parameters")
        smallest = float(np.min(np.linalg.eigvalsh(np.asarray(K))))
        raise np.linalg.LinAlgError(
            f"{name} is not positive definite, even with jitter {_ladder(K)[-1]:g} times its mean diagonal (smallest "
            f"eigenvalue {smallest:.3g}); shorten the lengthscales, remove duplicated inputs, or add noise"
        )
    return Factor(L, inverse, jitter)


def _in_small_batches(operation: Callable[..., Array]) -> Callable[..., Array]:
    """An operation of LAPACK whose batches, under ``vmap``, are so small that each runs on the thread that calls it.

    Those of jaxlib 0.10 share larger batches among the threads of the pool in which they run, and wait for them there:
    as many such calls side by side as there are threads wait for ever. It has no derivative.
    """

    @custom_vmap
    def each(*matrices: Array) -> Array:
        return operation(*matrices)

    @each.def_vmap
    def _(size: int, batched: Sequence[bool], *matrices: Array) -> tuple[Array, bool]:
        every = tuple(
            M if along else jnp.broadcast_to(M, (size, *M.shape)) for M, along in zip(matrices, batched, strict=True)
        )
        *others, m, _ = every[0].shape[1:]
        together = max(_INLINE // (math.prod(others) * m**3), 1)
        if together >= size:
            return each(*every), True
        return jax.lax.map(lambda some: each(*some), every, batch_size=together if together > 1 else None), True

    return each


_lower = _in_small_batches(partial(jax.lax.linalg.cholesky, symmetrize_input=False))  # its lower triangle says all
_SOLVES = {
    transposed: _in_small_batches(
        partial(jax.lax.linalg.triangular_solve, left_side=True, lower=True, transpose_a=transposed)
    )
    for transposed in (False, True)
}


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def solve_lower(L: Array, B: Array, transposed: bool = False) -> Array:
    """L⁻¹B, or L⁻ᵀB, of lower triangular L ``[..., n, n]`` and B ``[..., n, k]``."""
    return _SOLVES[transposed](L, B)


@solve_lower.defjvp
def _solve_lower_jvp(
    transposed: bool, primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    (L, B), (dL, dB) = primals, tangents
    X, inverse, change = solve_lower(L, B, transposed), triangular_inverse(L), jnp.tril(dL)
    if transposed:
        inverse, change = (jnp.swapaxes(M, -1, -2) for M in (inverse, change))
    return X, inverse @ (dB - change @ X)


def triangular_inverse(L: Array) -> Array:
    """L⁻¹ of lower triangular matrices ``[..., n, n]``."""
    return solve_lower(L, jnp.broadcast_to(jnp.eye(L.shape[-1], dtype=L.dtype), L.shape))


def symmetric_root(K: Array) -> Array:
    """R with R Rᵀ = K for a positive semidefinite K, without jitter.

    The eigendecomposition needs no jitter where K is singular to rounding. Eigenvalues that rounding pushed below zero
    count as zero.
    """
    eigenvalues, vectors = jnp.linalg.eigh(K)
    return vectors * jnp.sqrt(jnp.maximum(eigenvalues, 0.0))


@jax.custom_jvp
def gaussian_log_density(y: Array, K: Array) -> Array:
    """log N(y | 0, K).

    The derivative is written by hand, ½ tr((αα ᵀ − K⁻¹) dK) − αᵀ dy with α = K⁻¹y: one inverse instead of the
    derivative of a Cholesky factor.
    """
    return _density_and_slopes(y, K)[0]


@gaussian_log_density.defjvp
def _gaussian_log_density_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    value, alpha, inverse = _density_and_slopes(*primals)
    dy, dK = tangents
    slope = 0.5 * (alpha[:, None] * alpha - inverse)
    return value, jnp.sum(slope * dK) - alpha @ dy


def _density_and_slopes(y: Array, K: Array) -> tuple[Array, Array, Array]:
    factor = cholesky(K)
    white = solve_lower(factor.L, y[:, None])[:, 0]
    alpha = solve_lower(factor.L, white[:, None], True)[:, 0]
    value = -0.5 * (white @ white + factor.log_determinant + y.shape[0] * math.log(2.0 * math.pi))
    return value, alpha, _inverse_of_product(factor.L)


def _inverse_of_product(L: Array, block: int | None = None) -> Array:
    """(L Lᵀ)⁻¹ by halves down to blocks, in half the operations of L⁻ᵀ times L⁻¹.

    With L = [[A, 0], [B, C]], W = B A⁻¹ and S = (C Cᵀ)⁻¹ it is [[(A Aᵀ)⁻¹ + Wᵀ S W, −Wᵀ S], [−S W, S]].
    """
    n = L.shape[0]
    block = max(_BLOCK, -(-n // _PARTS) + 16) if block is None else block  # halves are rounded up to whole vectors
    if n <= block:
        inverse = triangular_inverse(L)
        return inverse.T @ inverse
    h = -(-n // 16) * 8  # whole vectors
    A, B, C = L[:h, :h], L[h:, :h], L[h:, h:]
    W = solve_lower(A, B.T, True).T
    S = _inverse_of_product(C, block)
    SW = S @ W
    return jnp.block([[_inverse_of_product(A, block) + W.T @ SW, -SW.T], [-SW, S]])


def whitened_kl(mean: Array, root: Array) -> Array:
    """KL(N(mean, root rootᵀ) ‖ N(0, I)) for means ``[..., m]`` and lower triangular roots ``[..., m, m]``, summed."""
    diagonal = jnp.diagonal(root, axis1=-2, axis2=-1)
    return 0.5 * (jnp.sum(root**2) + jnp.sum(mean**2) - mean.size) - jnp.sum(jnp.log(jnp.abs(diagonal)))


def _ladder(K: Array) -> tuple[float, ...]:
    return _LADDER[np.dtype(K.dtype).itemsize]


@jax.custom_jvp
def _cholesky(K: Array) -> tuple[Array, Array, Array]:
    """L, L⁻¹ and the jitter; one derivative serves both factors, and the compiler drops what is not used."""
    scale = jnp.mean(jnp.diagonal(K, axis1=-2, axis2=-1))
    ladder = jnp.asarray(_ladder(K), K.dtype) * scale
    eye = jnp.eye(K.shape[-1], dtype=K.dtype)

    def failed(state: tuple[Array, Array]) -> Array:
        rung, L = state  # what fails anywhere shows in the diagonal
        return (rung < len(ladder) - 1) & ~jnp.all(jnp.isfinite(jnp.diagonal(L, axis1=-2, axis2=-1)))

    def climb(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rung = state[0] + 1
        return rung, _lower(K + ladder[rung] * eye)

    # The condition around the loop keeps its copies, and what the compiler moves out of it, from the usual case.
    start = jnp.asarray(0), _lower(K)
    rung, L = jax.lax.cond(failed(start), partial(jax.lax.while_loop, failed, climb), lambda state: state, start)
    return L, triangular_inverse(L), ladder[rung]


@_cholesky.defjvp
def _cholesky_jvp(
    primals: tuple[Array], tangents: tuple[Array]
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
    """dL = L Φ and d(L⁻¹) = −Φ L⁻¹, with Φ the lower triangle, and half the diagonal, of L⁻¹ dK L⁻ᵀ."""
    (K,), (dK,) = primals, tangents
    L, inverse, jitter = _cholesky(K)
    inner = inverse @ (0.5 * (dK + dK.T)) @ inverse.T
    half = jnp.tril(inner) - 0.5 * jnp.diag(jnp.diagonal(inner))
    return (L, inverse, jitter), (L @ half, -half @ inverse, jnp.zeros_like(jitter))
