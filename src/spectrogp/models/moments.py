"""Mean and variance of many values at once."""

from __future__ import annotations

from typing import NamedTuple

from jax import Array


class Moments(NamedTuple):
    """Means and variances of function values or outputs: ``mean [t]`` and ``variance [t]``."""

    mean: Array
    variance: Array

    @property
    def std(self) -> Array:
        """Standard deviations."""
        return self.variance**0.5

    def mixed(self) -> Moments:
        """Of a mixture, in equal shares, of distributions with moments ``[s, ...]``: the law of total variance."""
        return Moments(self.mean.mean(axis=0), self.variance.mean(axis=0) + self.mean.var(axis=0))
