"""Linear algebra that the rest of the library shares."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def symmetric_root(K: Array) -> Array:
    """R with R Rᵀ = K for a positive semidefinite K, without jitter.

    Covariance matrices of smooth kernels are singular to rounding, where a Cholesky factor needs jitter; the
    eigendecomposition does not. Eigenvalues that rounding pushed below zero count as zero.
    """
    eigenvalues, vectors = jnp.linalg.eigh(K)
    return vectors * jnp.sqrt(jnp.maximum(eigenvalues, 0.0))
