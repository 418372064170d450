"""Draws from a Gaussian-process prior, in two independent ways."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import Key, as_key, at_least, entry_point, inputs, symmetric_root
from ..parameters import constrain
from .base import AbstractKernel
from .chirplet import Chirplet
from .nonstationary import ConvolutionalSpectral

# Basis functions are integrated as far as six lengthscales from their input: exp(−36/2) ~ 1e-8 of the peak, 1e-16 of
# the squared norm.
_REACH = 6.0
_BASIS_VALUES = 2**27


@entry_point
def sample_prior(kernel: AbstractKernel, X: ArrayLike, *, key: Key, num_samples: int = 1) -> Array:
    """Draws ``[s, n]`` of f ~ GP(0, k).

    Args:
        kernel: k; functions with priors are at their conditional means.
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        key: An integer seed or a JAX random key.
        num_samples: How many draws s.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> k = sg.kernels.SpectralMixture(lengthscale=0.5, frequency=2 * np.pi)
        >>> sg.sample_prior(k, np.linspace(0.0, 3.0, 50), key=0, num_samples=2).shape
        (2, 50)
    """
    X, kernel = inputs(X), constrain(kernel)
    at_least(1, num_samples=num_samples)
    noise = jax.random.normal(as_key(key), (num_samples, X.shape[0]), X.dtype)
    return noise @ symmetric_root(kernel.gram(kernel.local(X))).T


@entry_point
def sample_by_convolution(
    kernel: ConvolutionalSpectral | Chirplet, X: ArrayLike, *, key: Key, num_samples: int = 1
) -> Array:
    """Draws ``[s, n]`` of f(x) = Re Σ_a ∫ K_x(u) g_a(u) du at inputs ``X [n, d]``, with g complex white noise.

    The integral is a sum over a regular grid that resolves every basis function K_x, so the draws have the covariance
    ``kernel(X)`` to about 1e-8 without ever forming it. Shen, Heinonen & Kaski (2020), Eq. 4. Differs from the paper:
    the noise is complex (independent real and imaginary parts), since real noise would give the covariance of Re K_x
    alone and not the real part of ∫ K_x K̄_y du.

    Args:
        kernel: A kernel that has basis functions.
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        key: An integer seed or a JAX random key.
        num_samples: How many draws s.
    """
    at_least(1, num_samples=num_samples)
    _, K = _basis_on_grid(kernel, inputs(X))
    real, imaginary = jax.random.normal(as_key(key), (2, num_samples, *K.shape[1:]), K.real.dtype)
    return jnp.einsum("nag,sag->sn", K.real, real) - jnp.einsum("nag,sag->sn", K.imag, imaginary)


@entry_point
def basis_on_grid(kernel: ConvolutionalSpectral | Chirplet, X: ArrayLike, *, refine: int = 1) -> tuple[Array, Array]:
    """Grid ``[g, d]`` and basis functions K ``[n, a, g]``, times the root of the grid's cell.

    So Re K Kᴴ, summed over components and grid, is the covariance matrix, and Re K times complex white noise is a draw.

    Args:
        kernel: A kernel that has basis functions.
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        refine: Divides the spacing of the grid, which is as fine as a draw needs, further: for pictures.
    """
    return _basis_on_grid(kernel, inputs(X), refine)


def _basis_on_grid(kernel: ConvolutionalSpectral | Chirplet, X: Array, refine: int = 1) -> tuple[Array, Array]:
    if not isinstance(kernel, ConvolutionalSpectral | Chirplet):
        raise TypeError(f"only ConvolutionalSpectral and Chirplet have basis functions, got {type(kernel).__name__}")
    kernel = constrain(kernel)
    p = kernel.local(X)
    reach = _REACH * p.lengthscale
    chirp = getattr(p, "chirp", 0.0)
    # K_x oscillates at up to |ω| + |c| reach and its Gaussian adds another 6/ℓ; products of two need twice that rate.
    fastest = jnp.abs(p.frequency) + jnp.abs(chirp) * reach + _REACH / p.lengthscale
    spacing = np.asarray(jnp.pi / jnp.max(fastest, axis=(0, 1))) / refine
    lower = np.asarray(jnp.min(X[:, None] - reach, axis=(0, 1)))
    upper = np.asarray(jnp.max(X[:, None] + reach, axis=(0, 1)))
    counts = np.ceil((upper - lower) / spacing).astype(int) + 1
    if np.prod(counts) * p.amplitude.size > _BASIS_VALUES:
        raise ValueError(
            f"the basis functions need a grid of {' × '.join(map(str, counts))} points for {X.shape[0]} inputs, more "
            "than fits in memory; use fewer inputs, longer lengthscales, or sample_prior"
        )
    axes = [low + h * jnp.arange(n, dtype=X.dtype) for low, h, n in zip(lower, spacing, counts, strict=True)]
    u = jnp.stack(jnp.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, X.shape[1])
    K = jax.vmap(lambda one: jax.vmap(lambda at: kernel.basis(one, at), out_axes=-1)(u))(p)
    return u, K * np.sqrt(np.prod(spacing))
