"""Where functions of the input have their values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2


def cluster_centres(X: np.ndarray, count: int, seed: Any) -> np.ndarray:
    """Centres ``[count, d]`` of clusters of inputs ``X [n, d]``, by k-means from a k-means++ start with a ``seed``."""
    with warnings.catch_warnings():
        # Rows that are equal in many columns can leave a cluster empty: its centre stays where it was, which will do.
        warnings.filterwarnings("ignore", message="One of the clusters is empty")
        return np.asarray(kmeans2(X, count, minit="++", seed=seed)[0])


def inducing_inputs(X: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Where functions of the input have their values: an even grid in one dimension, k-means centres in several.

    Args:
        X: Inputs ``[n, d]``.
        count: How many (fewer where there are fewer distinct inputs).
        rng: A NumPy random generator.
    """
    if X.shape[1] == 1:
        low, high = X.min(), X.max()
        return np.linspace(low, high if high > low else low + 1.0, count)[:, None]
    distinct = np.unique(X, axis=0)
    if len(distinct) <= count:
        return distinct
    scale = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    return cluster_centres(distinct / scale, count, rng) * scale
