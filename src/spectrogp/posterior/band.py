"""A posterior mean with a central credible interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from ..core import as_level


class Band(NamedTuple):
    """Posterior ``mean``, and the ends of a central credible interval, ``lower`` and ``upper``.

    There are none, None, where there is one draw only.
    """

    mean: Any
    lower: Any
    upper: Any

    @classmethod
    def over(cls, values: np.ndarray, level: float) -> Band:
        """The band of draws: their mean, and quantiles.

        Args:
            values: Draws ``[s, ...]``; a single one has no interval.
            level: Probability of the interval, between 0 and 1.
        """
        level = as_level(level)
        if len(values) == 1:
            return cls(values[0], None, None)
        lower, upper = np.quantile(values, (0.5 - 0.5 * level, 0.5 + 0.5 * level), axis=0)
        return cls(np.mean(values, axis=0), lower, upper)

    @classmethod
    def normal(cls, mean: Any, std: Any, level: float) -> Band:
        """The band of normal distributions.

        Args:
            mean: Their means.
            std: Their standard deviations.
            level: Probability of the interval, between 0 and 1.
        """
        reach = norm.ppf(0.5 + 0.5 * as_level(level)) * std
        return cls(mean, mean - reach, mean + reach)

    def map(self, function: Callable[[Any], Any]) -> Band:
        """The band of an increasing function of the quantity, such as a change of units."""
        return Band(*(None if part is None else function(part) for part in self))

    def covers(self, values: ArrayLike) -> Any:
        """Whether each of some ``values`` lies inside the interval."""
        return (self.lower <= values) & (values <= self.upper)
