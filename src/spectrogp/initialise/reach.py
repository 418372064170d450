"""Along which inputs, and over what distances, functions of several inputs vary.

Where noise or amplitudes change with the input, so does the size of what a stationary fit leaves over. A smooth
function of the inputs is fitted to it, and the distances over which that function varies are those of largest evidence:
sums over some thousand rows, where fits of the model itself for each guess would take minutes.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

ROWS = 8192  # at most
VARIES = 0.5  # standard deviation of the logarithm of the size: that of functions a priori
LEVEL = 1.0  # that of its mean
NUGGET = 1e-4  # of the variance of the function at its places, which may lie close together
FACTORS = (3.0, 1.5)  # by which a distance changes at a time, coarse ones first
WORTH = 0.5  # nats that a change gains, at least: less is no evidence
SWEEPS = 10  # over all inputs with each factor, at most


def find_reach(X: np.ndarray, rest: np.ndarray, start: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Distances ``[d]`` along the inputs over which the size of what is left over varies; ``start`` where it does not.

    A distance far beyond the range of an input says that the size hardly changes along it.

    Args:
        X: Inputs ``[n, d]``.
        rest: What is left of the outputs ``[n]``, each over its standard deviation.
        start: Distances ``[d]`` at which to begin.
        count: How many values the function has.
        seed: Of the rows at which it has them.
    """
    some = np.random.default_rng(seed).permutation(len(X))[:ROWS]
    X, rest, places = X[some], rest[some], np.arange(min(count, len(some)))
    # Roots of sizes are nearly normal, so that neither outliers nor outputs that were met exactly weigh much.
    root = np.sqrt(np.abs(rest))
    if not np.ptp(root) > 0:
        return start
    size = 2.0 * (root / root.mean() - 1.0)  # the logarithm of the size to first order, and noise
    size /= (noise := float(size.std()))

    def evidence(reach: np.ndarray) -> float:
        """Log likelihood of the sizes beyond that of a constant one."""
        features = np.vstack([VARIES * _features(X / reach, places), np.full(len(X), LEVEL)]) / noise
        return _evidence(features, size) - constant

    constant = _evidence(np.full((1, len(X)), LEVEL) / noise, size)
    reach, best = start, evidence(start)
    for factor in FACTORS:
        for _ in range(SWEEPS):
            before = best
            for axis in np.flatnonzero(np.ptp(X, axis=0) > 0):
                for times in (factor, 1.0 / factor):
                    tried = reach.copy()
                    tried[axis] *= times
                    if (found := evidence(tried)) > best + WORTH:
                        reach, best = tried, found
                        break
            if best == before:
                break
    return reach if best > WORTH else start


def _features(X: np.ndarray, places: np.ndarray) -> np.ndarray:
    """L⁻¹ k(Z, X) ``[m, n]`` of a squared exponential of unit lengthscale: independent parts of a function."""
    squares = np.sum(X**2, axis=1)
    between = squares[places, None] + squares - 2.0 * X[places] @ X.T
    K = np.exp(-0.5 * np.maximum(between, 0.0))
    L = np.linalg.cholesky(K[:, places] + NUGGET * np.eye(len(places)))
    return np.asarray(solve_triangular(L, K, lower=True, check_finite=False))


def _evidence(features: np.ndarray, y: np.ndarray) -> float:
    """log N(y; 0, I + AᵀA), but for what does not depend on the features A ``[m, n]``."""
    factor = cho_factor(features @ features.T + np.eye(len(features)), lower=True, check_finite=False)
    seen = features @ y
    return float(0.5 * seen @ cho_solve(factor, seen) - np.sum(np.log(np.diag(factor[0]))))
