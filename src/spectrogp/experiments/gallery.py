"""The kernels that the overview figure and the table of spectrograms show: one list, the same functions for all.

Inputs run over [−1, 1]. Every kernel with a varying frequency is given the same ω(x)/2π = 4.5 + 3x cycles per unit, and
every kernel with a varying lengthscale the same ℓ(x).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import kernels
from ..kernels import AbstractKernel

TWO_PI = 2.0 * math.pi


def lengthscale(X: Any) -> Array:
    """ℓ(x), 0.1 in the middle and 0.3 at the ends; bounded, or the covariance would not decay with the lag."""
    return 0.2 - 0.1 * jnp.cos(jnp.pi * X)


def frequency(X: Any) -> Array:
    """ω(x) = 2π(4.5 + 3x)."""
    return TWO_PI * (4.5 + 3.0 * X)


def phase(X: Any) -> Array:
    """φ(x) with φ′ = ω."""
    return TWO_PI * jnp.sum(4.5 * X + 1.5 * X**2, axis=-1)


def warp(X: Any) -> Array:
    """A monotone warp that stretches the middle."""
    return 3.0 * X + jnp.sin(2.0 * X)


class Entry(NamedTuple):
    """A kernel with its names, and whether its parameters intend the frequency ω(x)."""

    name: str
    title: str
    kernel: AbstractKernel
    follows_frequency: bool


def gallery() -> list[Entry]:
    """The kernels of the overview figure, in its order."""
    return [
        Entry("SE", "squared\nexponential", kernels.SquaredExponential(0.15), False),
        Entry("NSQ", "non-stationary\nquadratic", kernels.NonstationaryQuadratic(lengthscale), False),
        Entry("SM", "spectral\nmixture", kernels.SpectralMixture(0.25, [[TWO_PI * 2.0], [TWO_PI * 6.0]], 0.7), False),
        Entry(
            "GSK",
            "generalised\nspectral",
            kernels.GeneralizedSpectral(0.4, TWO_PI * 2.0, TWO_PI * 6.0, amplitude=0.5, smoothness=2.5),
            False,
        ),
        Entry("GSM", "generalised\nspectral mixture", kernels.GeneralizedSpectralMixture(lengthscale, frequency), True),
        Entry("HMK", "harmonizable\nmixture", _harmonizable(), False),
        Entry("CSK", "convolutional\nspectral", kernels.ConvolutionalSpectral(lengthscale, frequency), True),
        Entry("Chirplet", "chirplet", kernels.Chirplet(lengthscale, frequency), True),
        Entry("Phase", "phase", kernels.Phase(lengthscale, phase), True),
    ]


def _harmonizable() -> AbstractKernel:
    """Three local patterns, each with two coupled frequencies, rising from left to right."""
    centre = np.array([[-0.7], [0.0], [0.7]])
    rates = np.array([[2.0, 3.0], [4.0, 5.5], [6.0, 8.0]])
    weight = np.array([[1.0, 0.0], [0.5, 0.6]])
    return kernels.HarmonizableMixture(
        centre, TWO_PI * rates[..., None], lengthscale=0.3, window=0.45, weight=np.broadcast_to(weight, (3, 2, 2))
    )
