"""Are ranks uniform? The statistics of simulation-based calibration, whatever made the ranks.

If parameters are drawn from the prior and data from the model, then the rank of the drawn value among L independent
draws from the posterior is uniform on 0 … L. Talts, Betancourt, Simpson, Vehtari & Gelman (2018).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import binom, chisquare

_SIMULATIONS = 9999


def ranks(truth: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """How many of the draws ``[replications, L, ...]`` lie below the truth ``[replications, ...]``: 0 … L."""
    return np.sum(draws < truth[:, None], axis=1)


def histogram(ranks: np.ndarray, top: int, bins: int) -> np.ndarray:
    """Counts of ranks 0 … top in bins that hold equally many of them."""
    if (top + 1) % bins:
        raise ValueError(f"{top + 1} possible ranks do not fall into {bins} equal bins")
    return np.bincount(ranks * bins // (top + 1), minlength=bins)


def histogram_band(replications: int, bins: int, level: float) -> tuple[float, float]:
    """What all counts of uniform ranks stay within with a probability of at least 1 − level (Bonferroni)."""
    low, high = binom.ppf([0.5 * level / bins, 1.0 - 0.5 * level / bins], replications, 1.0 / bins)
    return float(low), float(high)


def chi_square(ranks: np.ndarray, top: int, bins: int) -> float:
    """p-value of Pearson's test on the histogram: sensitive to any departure, to none in particular."""
    return float(chisquare(histogram(ranks, top, bins)).pvalue)


class CumulativeTest(NamedTuple):
    """Do the cumulative counts S(i) of ranks ≤ i, i < top, stay where uniform ranks' counts do, all at the same time?

    Each S(i) is binomial; the statistic is the smallest two-sided tail probability of any, and its distribution under
    uniformity is simulated, so that the test is exact. It sees shifts and wrong widths that a histogram spreads over
    many bins. Säilynoja, Bürkner & Vehtari (2022).
    """

    replications: int
    top: int
    tails: np.ndarray  # [top, replications + 1]: two-sided tail probability of every value of every S(i)
    simulated: np.ndarray  # the statistic of uniform ranks

    @classmethod
    def of(cls, replications: int, top: int, seed: int = 0) -> CumulativeTest:
        counts = np.arange(replications + 1)
        chance = (np.arange(1, top + 1) / (top + 1))[:, None]
        below, above = binom.cdf(counts, replications, chance), binom.sf(counts - 1, replications, chance)
        test = cls(replications, top, 2.0 * np.minimum(below, above), np.empty(0))
        even = np.full(top + 1, 1.0 / (top + 1))
        uniform = np.random.default_rng(seed).multinomial(replications, even, size=_SIMULATIONS)
        return test._replace(simulated=test._statistic(np.cumsum(uniform, axis=1)[:, :-1]))

    def p_value(self, ranks: np.ndarray) -> float:
        statistic = self._statistic(self.cumulative(ranks)[None])[0]
        return float((1 + np.sum(self.simulated <= statistic)) / (1 + len(self.simulated)))

    def cumulative(self, ranks: np.ndarray) -> np.ndarray:
        """S(i), ``[top]``."""
        return np.cumsum(np.bincount(ranks, minlength=self.top + 1))[:-1]

    def expected(self) -> np.ndarray:
        """The probability of a rank ≤ i, ``[top]``."""
        return np.arange(1, self.top + 1) / (self.top + 1)

    def band(self, level: float) -> np.ndarray:
        """Lower and upper limits ``[2, top]`` that all S(i) of uniform ranks keep with probability 1 − level."""
        tail = 0.5 * np.quantile(self.simulated, level)
        return np.stack([binom.ppf(q, self.replications, self.expected()) for q in (tail, 1.0 - tail)])

    def _statistic(self, cumulative: np.ndarray) -> np.ndarray:
        return np.min(self.tails[np.arange(self.top), cumulative], axis=1)
