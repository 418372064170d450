"""Conditioning algebra of Gaussian processes, in one place: exact, by inducing points, by neighbours.

Everything here takes matrices and vectors, not kernels: y are the outputs (mean zero), ``variance`` the noise variance
of each, ``Kzz``, ``Kzx``, ``kxx`` covariances of inducing values z and function values x (kxx: the diagonal).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..core import Factor, cholesky, gaussian_log_density, solve_lower, triangular_inverse
from .moments import Moments

_LOG_2PI = math.log(2.0 * math.pi)


# Exact


def log_marginal_likelihood(y: Array, K: Array, variance: Array) -> Array:
    """log N(y | 0, K + diag variance)."""
    return gaussian_log_density(y, K + jnp.diag(variance))


class ExactPosterior(NamedTuple):
    """What prediction needs of N(y | 0, K + diag variance): L⁻¹ and L⁻¹ y."""

    inverse: Array
    white: Array

    @classmethod
    def of(cls, y: Array, K: Array, variance: Array) -> ExactPosterior:
        inverse = cholesky(K + jnp.diag(variance), "the covariance of the outputs").inverse
        return cls(inverse, inverse @ y)

    def predict(self, Kxt: Array, ktt: Array) -> Moments:
        """At test points t, from the covariances ``[n, t]`` with the data and the prior variances ``[t]``."""
        A = self.inverse @ Kxt
        return Moments(A.T @ self.white, jnp.maximum(ktt - jnp.sum(A**2, axis=0), 0.0))

    def covariance(self, Kxt: Array, Ktt: Array) -> Array:
        """Joint posterior covariance ``[t, t]``."""
        A = self.inverse @ Kxt
        return Ktt - A.T @ A


# Inducing points


class CollapsedPosterior(NamedTuple):
    """Titsias' optimal posterior of the inducing values: L⁻¹ of Kzz, L_B⁻¹ of B = I + A Aᵀ, and c = L_B⁻¹ A y/s."""

    inverse: Array
    inner: Array
    c: Array

    def predict(self, Kzt: Array, ktt: Array) -> Moments:
        A = self.inverse @ Kzt
        B = self.inner @ A
        return Moments(B.T @ self.c, jnp.maximum(ktt - jnp.sum(A**2, axis=0) + jnp.sum(B**2, axis=0), 0.0))

    def covariance(self, Kzt: Array, Ktt: Array) -> Array:
        A = self.inverse @ Kzt
        B = self.inner @ A
        return Ktt - A.T @ A + B.T @ B


def collapsed(y: Array, Kzz: Array, Kzx: Array, kxx: Array, variance: Array) -> tuple[Array, CollapsedPosterior]:
    """The collapsed bound on the marginal likelihood with inducing values integrated out, and their optimal posterior.

    log N(y | 0, Q + diag s²) − ½ Σ (kxx − diag Q)/s², Q = Kxz Kzz⁻¹ Kzx, s² = variance. Titsias (2009), Eq. 9.
    """
    s = jnp.sqrt(variance)
    inverse = cholesky(Kzz, "K(Z, Z)").inverse
    A = inverse @ (Kzx / s)
    factor: Factor = cholesky(jnp.eye(A.shape[0], dtype=A.dtype) + A @ A.T, "I + A Aᵀ of the collapsed bound")
    inner = factor.inverse
    white = y / s
    c = inner @ (A @ white)
    log_density = -0.5 * (
        y.shape[0] * _LOG_2PI + 2.0 * jnp.sum(jnp.log(s)) + factor.log_determinant + white @ white - c @ c
    )
    trace = jnp.sum(kxx / variance) - jnp.sum(A**2)
    return log_density - 0.5 * trace, CollapsedPosterior(inverse, inner, c)


def whitened_marginals(inverse: Array, Kzx: Array, kxx: Array, mean: Array, root: Array | None) -> Moments:
    """Mean and variance of f(x) when the whitened inducing values have mean and root (None: they are known)."""
    A = inverse @ Kzx
    variance = kxx - jnp.sum(A**2, axis=0)
    if root is not None:
        variance = variance + jnp.sum((root.T @ A) ** 2, axis=0)
    return Moments(A.T @ mean, jnp.maximum(variance, 0.0))


def whitened_covariance(inverse: Array, Kzx: Array, Kxx: Array, root: Array | None) -> Array:
    """Joint covariance of f when the whitened inducing values have this root (None: they are known)."""
    A = inverse @ Kzx
    covariance = Kxx - A.T @ A
    if root is None:
        return covariance
    B = root.T @ A
    return covariance + B.T @ B


# Neighbours


class Conditional(NamedTuple):
    """The last of jointly Gaussian outputs given the others: log density, w = (−K_NN⁻¹ k, 1), α, e = wᵀy, v = wᵀKw."""

    log_density: Array
    w: Array
    alpha: Array
    e: Array
    v: Array


def condition_last(y: Array, K: Array) -> Conditional:
    """Condition y_last on y_others under N(y | 0, K), for y ``[m + 1]`` and K ``[m + 1, m + 1]``."""
    L = cholesky(K, "the covariance of a neighbourhood").L
    others, last = L[:-1, :-1], L[-1, :-1]
    v = L[-1, -1] ** 2
    white = solve_lower(others, y[:-1, None])[:, 0]
    back = solve_lower(others, jnp.stack([last, white], axis=1), True)
    e = y[-1] - last @ white
    one, zero = jnp.ones(1, y.dtype), jnp.zeros(1, y.dtype)
    w, alpha = jnp.concatenate([-back[:, 0], one]), jnp.concatenate([back[:, 1], zero])
    return Conditional(-0.5 * (_LOG_2PI + jnp.log(v) + e**2 / v), w, alpha, e, v)


@jax.custom_jvp
def conditional_log_density(y: Array, K: Array) -> Array:
    """log p(y_last | y_others) under N(y | 0, K).

    In the terms of ``Conditional``, with α = (K_NN⁻¹ y_N, 0), the derivative has rank two,
    dlog p = ½(e²/v² − 1/v) wᵀdK w + (e/v) αᵀdK w − (e/v) wᵀdy, so that a gradient costs two solves.
    """
    return condition_last(y, K).log_density


@conditional_log_density.defjvp
def _conditional_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    value, w, alpha, e, v = condition_last(*primals)
    dy, dK = tangents
    slope = 0.5 * (e**2 / v - 1.0) / v * jnp.outer(w, w) + (e / v) * jnp.outer(alpha, w)
    return value, jnp.sum(slope * dK) - (e / v) * (w @ dy)


def sequential_covariance(w: Array, v: Array, earlier: Array, shared: Array) -> Array:
    """Covariance ``[t, t]`` of values that each depend on some before them, f_i = −Σ_k w_ik f_j(i,k) + g_iᵀu + ε_i.

    ``w [t, k]`` belongs to the values numbered ``earlier [t, k]`` (−1: to none), ``v [t]`` are the variances of ε, and
    ``shared [t, r]`` has g_iᵀ times a root of the covariance of u. With (I − C) f = g u + ε and C strictly lower
    triangular, the covariance is (I − C)⁻¹ (diag v + shared sharedᵀ) (I − C)⁻ᵀ.
    """
    t = v.shape[0]
    # Values that do not exist go to a column t, which is dropped.
    rows, columns = jnp.arange(t)[:, None], jnp.where(earlier >= 0, earlier, t)
    factor = jnp.eye(t, t + 1, dtype=w.dtype).at[rows, columns].add(w)[:, :t]
    root = triangular_inverse(factor)
    inner = root @ shared
    return (root * v) @ root.T + inner @ inner.T
