"""Which component of a draw is which: components are exchangeable, and chains, or draws of one chain, exchange them.

Stephens (2000), with frequency functions: the draws are matched to reference functions, which are then the mean of the
draws as they were matched, until nothing changes. Matching is an assignment problem. Its cost is the squared distance
of frequencies, at every input as much as the variance which the component has there: a component that has none may
have any frequency.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

_ROUNDS = 20  # of matching and averaging, at most


def matched(frequency: np.ndarray, weight: np.ndarray, start: int) -> np.ndarray:
    """For every draw its components in a common order, ``[s, a]``: entry k is the one that is called k.

    Args:
        frequency: Of components at inputs, ``[s, n, a, d]``, in any unit; its sign says nothing.
        weight: Their variance, ``[s, n, a]``; the sign of a cross term says nothing.
        start: The draw whose order is the first reference.
    """
    weight = np.abs(weight)
    order = np.broadcast_to(np.arange(weight.shape[-1]), (len(weight), weight.shape[-1]))
    reference = frequency[start]
    for _ in range(_ROUNDS):
        before, order = order, np.array([_assigned(*draw, reference) for draw in zip(frequency, weight, strict=True)])
        if np.array_equal(before, order):
            break
        reference = _mean(
            np.take_along_axis(frequency, order[:, None, :, None], axis=2),
            np.take_along_axis(weight, order[:, None, :], axis=2),
            reference,
        )
    return order


def _cost(frequency: np.ndarray, weight: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Of calling component i of a draw k, ``[a, a]``."""
    near, far = (np.sum((frequency[:, :, None] + sign * reference[:, None]) ** 2, axis=-1) for sign in (-1.0, 1.0))
    return np.mean(weight[:, :, None] * np.minimum(near, far), axis=0)


def _assigned(frequency: np.ndarray, weight: np.ndarray, reference: np.ndarray) -> np.ndarray:
    component, name = linear_sum_assignment(_cost(frequency, weight, reference))
    return np.asarray(component[np.argsort(name)])


def _mean(frequency: np.ndarray, weight: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Frequencies ``[n, a, d]`` averaged over draws, weighted by variance, on the side where the reference points."""
    side = np.where(np.sum(frequency * reference, axis=-1, keepdims=True) < 0.0, -1.0, 1.0)
    share = weight[..., None] / np.maximum(np.sum(weight, axis=0), np.finfo(float).tiny)[..., None]
    return np.asarray(np.sum(share * side * frequency, axis=0))
