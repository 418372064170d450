"""Priors of parameters."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core import Module


class Normal(Module):
    """Normal prior.

    Args:
        mean: Its mean, in the units of the parameter.
        std: Its standard deviation, in the same units.
    """

    mean: Any = eqx.field(default=0.0, converter=lambda value: as_leaf(value))
    std: Any = eqx.field(default=1.0, converter=lambda value: as_leaf(value))

    def log_density(self, value: Array) -> Array:
        """Log density of each ``value``."""
        z = (value - self.mean) / self.std
        return -0.5 * z**2 - math.log(math.sqrt(2.0 * math.pi)) - jnp.log(self.std)


class LogNormal(Module):
    """Prior of a positive value whose logarithm is normal.

    Args:
        median: Its median, in the units of the parameter: the logarithm has mean log(median).
        std: Standard deviation of the logarithm (0.7 is about a factor of two either way).
    """

    median: Any = eqx.field(default=1.0, converter=lambda value: as_leaf(value))
    std: Any = eqx.field(default=1.0, converter=lambda value: as_leaf(value))

    def log_density(self, value: Array) -> Array:
        """Log density of each positive ``value``."""
        return Normal(jnp.log(self.median), self.std).log_density(jnp.log(value)) - jnp.log(value)


def as_leaf(value: Any) -> Any:
    """Numbers as arrays: leaves of a model, where plain ones would be part of the compiled program."""
    return value if isinstance(value, jax.Array) else np.asarray(value, dtype=np.float64)
