"""Quantiles of mixtures of normal distributions: what predictions at many draws are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtr, ndtri
from numpy.typing import ArrayLike

from ..models import Moments

_HALVINGS = 60  # of the bracket of a quantile, down to the last digit of a float64


def mixture_quantiles(parts: Moments, levels: ArrayLike) -> Array:
    """Quantiles ``[levels, t]`` of a mixture of normal distributions with moments ``[s, t]``, by bisection."""
    mean, std = jnp.asarray(parts.mean), jnp.sqrt(jnp.asarray(parts.variance))

    def quantile(level: Array) -> Array:
        # A quantile of the mixture lies between the smallest and the largest of its parts.
        ends = mean + ndtri(level) * std

        def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = 0.5 * (low + high)
            below = jnp.mean(ndtr((middle - mean) / std), axis=0) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.min(ends, axis=0), jnp.max(ends, axis=0)))
        return 0.5 * (low + high)

    return jax.lax.map(quantile, _checked(levels))


def _checked(levels: ArrayLike) -> Array:
    array = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if array.ndim != 1 or not np.all((array > 0.0) & (array < 1.0)):
        raise ValueError(f"levels must be numbers between 0 and 1, got {levels!r}")
    return jnp.asarray(array)
