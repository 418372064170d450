"""Mean and variance of many values at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
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

    def exponential(self, exponent: float) -> Moments:
        """Of exp(exponent · z) where z is normal with these: log-normal ones."""
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asks looks at whether they are finite
            mean: Any = np.exp(exponent * self.mean + 0.5 * exponent**2 * self.variance)
            relative: Any = np.expm1(exponent**2 * self.variance)
            return Moments(mean, mean**2 * relative)
