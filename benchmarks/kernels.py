"""Covariance matrices of two components in three dimensions, against the same formula in NumPy and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.gaussian_process.kernels import RBF

import spectrogp as sg

from .measure import first_and_best

_ELL = np.array([[0.5, 0.8, 1.1], [0.9, 0.6, 0.4]])
_OMEGA = np.array([[3.0, 1.0, 2.0], [8.0, 5.0, 4.0]])


def lengthscale(X: Any) -> Any:
    return _ELL * (1.0 + 0.3 * jnp.sin(X))[:, None, :]


def frequency(X: Any) -> Any:
    return _OMEGA + X[:, None, :]


def run(inputs: int) -> list[dict[str, Any]]:
    """One row per kernel: first call (with compilation), later calls, the peer's time and the ratio."""
    X = np.random.default_rng(0).normal(size=(inputs, 3))
    k = sg.kernels
    cases: list[tuple[str, sg.kernels.AbstractKernel, str | None, Callable[[], np.ndarray] | None]] = [
        ("SquaredExponential", k.SquaredExponential(_ELL[0]), "scikit-learn RBF", lambda: RBF(_ELL[0])(X)),
        ("SpectralMixture", k.SpectralMixture(_ELL, _OMEGA), "NumPy", lambda: spectral_mixture(X)),
        ("NonstationaryQuadratic", k.NonstationaryQuadratic(lengthscale), None, None),
        ("GeneralizedSpectralMixture", k.GeneralizedSpectralMixture(lengthscale, frequency), None, None),
        ("ConvolutionalSpectral", k.ConvolutionalSpectral(lengthscale, frequency), "NumPy", lambda: convolutional(X)),
        ("Chirplet", k.Chirplet(lengthscale, frequency), None, None),
    ]
    rows = []
    for name, kernel, peer, other in cases:
        first, ours = first_and_best(lambda kernel=kernel: kernel(X))
        row = {"kernel": name, "first call s": first, "call ms": 1e3 * ours, "peer": peer or "–"}
        theirs = first_and_best(other)[1] if other else None
        row["peer ms"] = 1e3 * theirs if theirs else "–"
        row["ratio"] = ours / theirs if theirs else "–"
        if other:
            np.testing.assert_allclose(kernel(X), other(), atol=1e-10)
        rows.append(row)
    return rows


def spectral_mixture(X: np.ndarray) -> np.ndarray:
    tau = (X[:, None] - X[None])[:, :, None]
    return np.sum(np.exp(-0.5 * np.sum((tau / _ELL) ** 2, -1)) * np.cos(np.sum(_OMEGA * tau, -1)), -1)


def convolutional(X: np.ndarray) -> np.ndarray:
    ell, omega = _ELL * (1.0 + 0.3 * np.sin(X))[:, None, :], _OMEGA + X[:, None, :]
    total = 0.0
    for component in range(2):
        a, w = ell[:, component] ** 2, omega[:, component]
        tau = X[:, None] - X[None]
        both = a[:, None] + a[None]
        rho = np.prod(np.sqrt(2.0 * np.sqrt(a[:, None] * a[None]) / both), -1)
        exponent = np.sum((tau**2 + (w[:, None] - w[None]) ** 2 * a[:, None] * a[None]) / both, -1)
        phase = np.sum((a[:, None] * w[:, None] + a[None] * w[None]) / both * tau, -1)
        total = total + rho * np.exp(-0.5 * exponent) * np.cos(phase)
    return np.asarray(total)
