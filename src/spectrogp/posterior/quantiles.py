"""Quantiles of mixtures of normal, or Student-t, distributions: what predictions at many draws are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from ..core import as_level
from ..models import HeavyTailed, Moments
from .band import Band

_STEPS = 180  # of Newton's method at most; every third halves the bracket instead, which ends in any case
_CLOSE = 1e-12  # share of its probability to which a quantile is found, or of itself, where the mixture has a step


def freedom_of(model: Any) -> float:
    """Degrees of freedom of new outputs around what a model predicts; infinite for normal ones."""
    likelihood = getattr(model, "likelihood", None)
    return float(likelihood.freedom) if isinstance(likelihood, HeavyTailed) else np.inf


def mixture_band(parts: Moments, level: float, freedom: float = np.inf) -> Band:
    """The mean of a mixture of normal (or Student-t) distributions with moments ``[s, t]``, and its central interval.

    That of a normal distribution with the same variance would be another where the parts differ by more than their
    widths: of an oscillation whose phase nobody knows it reaches beyond all that the oscillation ever does.
    """
    level = as_level(level)
    lower, upper = mixture_quantiles(parts, (0.5 - 0.5 * level, 0.5 + 0.5 * level), freedom)
    return Band(np.asarray(parts.mean).mean(axis=0), lower, upper)


def mixture_quantiles(parts: Moments, levels: ArrayLike, freedom: float = np.inf) -> np.ndarray:
    """Quantiles ``[levels, t]`` of a mixture, in equal shares, of distributions with moments ``[s, t]``.

    They are normal, or Student-t with ``freedom`` above 2.
    """
    mean, variance = (np.asarray(part) for part in parts)
    std = np.sqrt(np.maximum(variance, np.finfo(variance.dtype).tiny))  # a part that is certain is a step
    if np.isfinite(freedom):
        std = std * np.sqrt((freedom - 2.0) / freedom)  # the scale of a Student-t distribution
    return np.stack([_quantile(mean, std, level, freedom) for level in _checked(levels)])


def _quantile(mean: np.ndarray, std: np.ndarray, level: float, freedom: float) -> np.ndarray:
    """By Newton's method inside a bracket, for all rows that are not found yet."""
    close = max(_CLOSE, 8.0 * np.finfo(mean.dtype).eps)
    # A quantile of the mixture lies between the smallest and the largest of its parts.
    reach = float(stdtrit(freedom, level) if np.isfinite(freedom) else ndtri(level))
    ends = mean + reach * std
    low, high = ends.min(axis=0), ends.max(axis=0)
    # Begun where that of a normal distribution with the same moments is.
    spread = np.sqrt(np.mean(std**2, axis=0) + np.var(mean, axis=0))
    x = np.clip(np.mean(mean, axis=0) + reach * spread, low, high)
    rows = np.arange(len(x))
    for step in range(_STEPS):
        z = (x[rows] - mean) / std
        off = np.mean(stdtr(freedom, z) if np.isfinite(freedom) else ndtr(z), axis=0) - level
        below = off < 0.0
        low[rows[below]], high[rows[~below]] = x[rows[below]], x[rows[~below]]
        left = np.abs(off) > close * min(level, 1.0 - level)
        left &= high[rows] - low[rows] > close * np.maximum(np.abs(low[rows]), np.abs(high[rows]))
        if not np.any(left):
            break
        rows, off, z, mean, std = rows[left], off[left], z[:, left], mean[:, left], std[:, left]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # between parts there is no slope
            slope = np.mean(_density(z, freedom) / std, axis=0)
            newton = x[rows] - off / slope
        inside = (newton > low[rows]) & (newton < high[rows]) & (step % 3 != 2)
        x[rows] = np.where(inside, newton, 0.5 * (low[rows] + high[rows]))
    return x


def _density(z: np.ndarray, freedom: float) -> np.ndarray:
    """Of a standard normal, or Student-t, distribution."""
    if np.isinf(freedom):
        return np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    constant = gammaln(0.5 * (freedom + 1.0)) - gammaln(0.5 * freedom) - 0.5 * np.log(freedom * np.pi)
    return np.exp(constant - 0.5 * (freedom + 1.0) * np.log1p(z**2 / freedom))


def _checked(levels: ArrayLike) -> np.ndarray:
    array = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if array.ndim != 1 or not np.all((array > 0.0) & (array < 1.0)):
        raise ValueError(f"levels must be numbers between 0 and 1, got {levels!r}")
    return array
