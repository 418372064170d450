"""The amplitude that oscillations have at an input: the modulus of their complex envelopes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import Module, as_level, entry_point, plain_inputs
from .band import Band
from .mapping import filled
from .posterior import MAX_DRAWS, MOST, Posterior

VALUES = 1000  # of envelopes at an input, of all draws together, from which quantiles are taken
CHUNK = 2**11  # inputs at which they are held at once


class Envelopes(Module):
    """Means ``[t, a, 2]`` and covariances ``[t, a, 2, 2]`` of the complex envelopes of components at inputs.

    Args:
        data: What ``model.prepare(data, X)`` of a ``MarkovGP`` gives.
        X: Inputs ``[t, 1]``.
    """

    data: Any
    X: Any

    def __call__(self, model: Any) -> tuple[Array, Array]:
        found: tuple[Array, Array] = model.realise().envelope(self.data, jnp.asarray(self.X))
        return found


@entry_point
def instantaneous_amplitude(
    posterior: Posterior, data: Any, X: ArrayLike, level: float = 0.9, *, max_draws: int = MAX_DRAWS
) -> Band:
    """Posterior mean and interval of the amplitude ``[t, a]`` that each component of a ``MarkovGP`` has at inputs.

    A component is f = Re[(u − iv) e^{iφ}], and its amplitude |u − iv|: a sinusoid of height A has A. The σ of the
    kernel is another thing, the standard deviation of a process of which the data show one draw. Given the functions
    the envelope is normal, with what the data say of it; it is drawn for each draw of these.

    Args:
        posterior: Draws of a ``MarkovGP``.
        data: What the model was fitted to.
        X: Inputs ``[t, 1]``, or ``[t]``.
        level: Probability of the interval. There is none where there is one draw only.
        max_draws: Draws to use, at most.
    """
    X, level = plain_inputs(X), as_level(level)
    rows = filled(len(X))
    reading = Envelopes(posterior._prepared(data, X[rows]), X[rows])
    few = min(max_draws, max(MOST // (8 * len(rows)), 8))
    mean, covariance = (part[:, : len(X)] for part in posterior._read_components(reading, 1, few))
    parts = [_band(mean[:, k : k + CHUNK], covariance[:, k : k + CHUNK], level) for k in range(0, len(X), CHUNK)]
    band = Band(*map(np.concatenate, zip(*parts, strict=True)))
    return band if len(mean) > 1 else band._replace(lower=None, upper=None)


def _band(mean: np.ndarray, covariance: np.ndarray, level: float) -> Band:
    ends = (Band.over(moduli(mean[:, :, a], covariance[:, :, a]), level) for a in range(mean.shape[2]))
    return Band(*(np.stack(of_all, axis=1) for of_all in zip(*ends, strict=True)))


def moduli(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Draws ``[v, t]`` of the modulus of normal envelopes, as many from each of their distributions.

    The same normal numbers are taken at all inputs: what changes slowly along them has ends of bands that do.

    Args:
        mean: Of every draw of the functions, ``[s, t, 2]``.
        covariance: Likewise ``[s, t, 2, 2]``.
    """
    z = np.random.default_rng(0).normal(size=(-(-VALUES // len(mean)), len(mean), 1, 2))
    # The Cholesky factors; rounding may have left a covariance without one.
    first = np.sqrt(np.maximum(covariance[..., 0, 0], 0.0))
    cross = np.divide(covariance[..., 1, 0], first, out=np.zeros_like(first), where=first > 0)
    second = np.sqrt(np.maximum(covariance[..., 1, 1] - cross**2, 0.0))
    u = mean[..., 0] + first * z[..., 0]
    v = mean[..., 1] + cross * z[..., 0] + second * z[..., 1]
    return np.asarray(np.hypot(u, v).reshape(-1, mean.shape[1]))
