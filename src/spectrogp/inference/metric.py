"""The metric of Hamiltonian Monte Carlo: coordinates z in which a posterior is nearly round, x = R z.

It begins as the Laplace approximation at the model, R Rᵀ = (prior precision + curvature)⁻¹, and learns from the draws
of each window of the warm-up. In the coordinates that it has so far let A be the covariance of the positions and B
that of the gradients. The matrix that fits both best (in Fisher divergence) is the geometric mean of A and B⁻¹, the M
with M B M = A; for a normal distribution it is its covariance as soon as there are more draws than numbers, exactly.
Both are drawn towards the unit matrix by some prior draws, so that directions which no draw has shown keep their
length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from ..core import cholesky, solve_lower
from .laplace import curvature_at

DENSE = 500  # raw numbers up to which the metric is a matrix; beyond, it has a length for each number
_PRODUCTS = 150  # with the Hessian, for the lengths of more numbers than that
_FIRST_WINDOW = 10  # draws
# How much the last metric counts beside the draws of a window. For a matrix as many draws as it has rows: the
# covariance of fewer is that much too wide along them and too narrow across.
_PRIOR_DRAWS, _PRIOR_ROWS = 5.0, 1.0


class Window(NamedTuple):
    """Sums over the draws of a window: how many, means of positions and gradients, and products around the means."""

    draws: Array
    position: Array  # [p]
    gradient: Array  # [p]
    positions: Array  # [p, p], or [p] for lengths alone
    gradients: Array


def window_ends(warmup: int) -> tuple[int, ...]:
    """After how many draws of a warm-up windows end: they double, and leave a tenth for the step size alone.

    Windows begin with the first draw and are short at first: chains start within the posterior, and every trajectory in
    a metric that does not fit is as long as may be. One that could not double any more is joined to the last.
    """
    ends, length, last = [0], _FIRST_WINDOW, warmup - -(-warmup // 10)
    while ends[-1] + 3 * length <= last:
        ends.append(ends[-1] + length)
        length *= 2
    return (*ends[1:], last) if ends[-1] + _FIRST_WINDOW <= last else tuple(ends[1:])


def initial_root(density: Any, free: PyTree, *, dense: bool, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """R ``[p, p]`` of the Laplace approximation at a model, or its standard deviations ``[p]``; the density there."""
    size = sum(map(np.size, jax.tree.leaves(free)))
    s, V, value, peak = curvature_at(density, free, size if dense else _PRODUCTS, rng, None)
    if dense:
        root = np.eye(size) - (V * (1.0 - 1.0 / np.sqrt(1.0 + value))) @ V.T
        return root / s[:, None], peak
    return np.sqrt(1.0 - V**2 @ (value / (1.0 + value))) / s, peak


def empty_window(root: Array) -> Window:
    zeros, sums = jnp.zeros(root.shape[0], root.dtype), jnp.zeros_like(root)
    return Window(jnp.zeros((), root.dtype), zeros, zeros, sums, sums)


def extended(window: Window, position: PyTree, gradient: PyTree) -> Window:
    """The window with one more draw: Welford's update."""
    x, g = ravel_pytree(position)[0], ravel_pytree(gradient)[0]
    draws = window.draws + 1.0
    mean_x, mean_g = (mean + (new - mean) / draws for mean, new in ((window.position, x), (window.gradient, g)))
    product = jnp.outer if window.positions.ndim == 2 else jnp.multiply
    positions = window.positions + product(x - window.position, x - mean_x)
    gradients = window.gradients + product(g - window.gradient, g - mean_g)
    return Window(draws, mean_x, mean_g, positions, gradients)


def learned(root: Array, window: Window) -> Array:
    """The root R of the metric after a window."""
    if root.ndim == 1:
        A, B = window.positions / root**2 + _PRIOR_DRAWS, window.gradients * root**2 + _PRIOR_DRAWS
        return root * (A / B) ** 0.25
    eye = _PRIOR_ROWS * len(root) * jnp.eye(len(root), dtype=root.dtype)
    back = jnp.linalg.inv(root)
    A, B = back @ window.positions @ back.T + eye, root.T @ window.gradients @ root + eye
    # M = L⁻ᵀ (Lᵀ A L)^½ L⁻¹ with L Lᵀ = B; the counts of A and B cancel.
    L = cholesky(0.5 * (B + B.T)).L
    value, Q = jnp.linalg.eigh(L.T @ A @ L)
    return root @ solve_lower(L, Q * jnp.maximum(value, 0.0) ** 0.25, True)


def covariance(root: Array) -> Array:
    """R Rᵀ ``[p, p]``, or the squares ``[p]`` of lengths: the inverse mass matrix of Hamiltonian Monte Carlo."""
    return root @ root.T if root.ndim == 2 else root**2
