"""All kernels of the library as test cases: how to build each in D dimensions, and the NumPy loop it must equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import reference
import spectrogp as sg
from spectrogp.data import Data
from spectrogp.models import SparseGP

COMPONENTS = 2
DIMENSIONS = (1, 2, 3)


class Sine(eqx.Module):
    """A smooth function [n, d] → [n, a, k], offset + height sin(⟨slope, x⟩ + shift), with derivatives in NumPy."""

    offset: np.ndarray  # [a, k]
    height: np.ndarray  # [a, k]
    slope: np.ndarray  # [d, a, k]
    shift: np.ndarray  # [a, k]

    def __call__(self, X):
        return self.offset + self.height * jnp.sin(self._argument(X, jnp) + self.shift)

    def numpy(self, X):
        return self.offset + self.height * np.sin(self._argument(X, np) + self.shift)

    def jacobian(self, X):
        """∂f_k/∂x_e: [n, a, k, e]."""
        outer = self.height * np.cos(self._argument(X, np) + self.shift)
        return outer[..., None] * np.moveaxis(self.slope, 0, -1)

    def own_derivative(self, X):
        """∂f_d/∂x_d: [n, a, d]."""
        return np.einsum("nadd->nad", self.jacobian(X))

    def own_derivative_gradient(self, X):
        """∂(∂f_d/∂x_d)/∂x_e: [n, a, d, e]."""
        outer = -self.height * np.sin(self._argument(X, np) + self.shift)
        own = np.einsum("dad->ad", self.slope)
        return (outer * own)[..., None] * np.moveaxis(self.slope, 0, -1)

    def _argument(self, X, xp):
        return xp.einsum("ne,eak->nak", X, self.slope)


class First(eqx.Module):
    """The same function without its last axis (of length 1): [n, a]."""

    function: Sine

    def __call__(self, X):
        return self.function(X)[..., 0]

    def numpy(self, X):
        return self.function.numpy(X)[..., 0]


class Matrices(eqx.Module):
    """Σ(x) = L(x) L(x)ᵀ + ¼I, [n, a, d, d], from d² smooth entries of L."""

    function: Sine
    D: int = eqx.field(static=True)

    def __call__(self, X):
        return self._assemble(self.function(X), jnp)

    def numpy(self, X):
        return self._assemble(self.function.numpy(X), np)

    def _assemble(self, entries, xp):
        L = xp.reshape(entries, (*entries.shape[:2], self.D, self.D))
        return xp.einsum("nade,nafe->nadf", L, L) + 0.25 * np.eye(self.D)


class Warp(eqx.Module):
    """f(x)_k = x_k + height sin(⟨slope, x⟩ + shift): [n, d] → [n, d]."""

    function: Sine

    def __call__(self, X):
        return X + self.function(X)[:, 0]

    def numpy(self, X):
        return X + self.function.numpy(X)[:, 0]

    def jacobian(self, X):
        return np.eye(X.shape[1]) + self.function.jacobian(X)[:, 0]


class Mean(eqx.Module):
    """μ(x) = ℓ(x)² ω(x), the paper's parametrisation."""

    lengthscale: Sine
    frequency: Sine

    def __call__(self, X):
        return self.lengthscale(X) ** 2 * self.frequency(X)


def _sine(rng, D, a, k, low, high):
    middle, half = (low + high) / 2, (high - low) / 2
    offset = middle + 0.3 * half * rng.uniform(-1, 1, (a, k))
    return Sine(offset, 0.7 * half * rng.uniform(0.5, 1, (a, k)), rng.normal(size=(D, a, k)), rng.normal(size=(a, k)))


class Functions:
    """Smooth functions and constants in D dimensions, with several components."""

    def __init__(self, D, components=COMPONENTS):
        rng = np.random.default_rng(100 + D)
        a = components
        self.D = D
        self.lengthscale = _sine(rng, D, a, D, 0.5, 1.4)
        self.frequency = _sine(rng, D, a, D, 0.5, 4.0)
        self.chirp = _sine(rng, D, a, D, -1.5, 1.5)
        self.amplitude = First(_sine(rng, D, a, 1, 0.4, 1.6))
        self.phase = First(_sine(rng, D, a, 1, -6.0, 6.0))
        self.covariance = Matrices(_sine(rng, D, a, D * D, -0.8, 1.2), D)
        self.warp = Warp(_sine(rng, D, 1, D, -0.6, 0.6))
        self.scale = First(_sine(rng, D, 1, 1, 0.5, 2.0))
        self.constant_lengthscale = rng.uniform(0.5, 1.4, (a, D))
        self.constant_frequency = rng.uniform(0.5, 4.0, (a, D))
        self.other_frequency = rng.uniform(0.5, 4.0, (a, D))
        # Harmonizable: two centres, three frequencies, complex factors of rank two.
        self.centre = rng.uniform(-1, 1, (2, D))
        self.hmk_frequency = rng.uniform(-4, 4, (2, 3, D))
        self.factor = rng.normal(size=(2, 3, 2)) + 1j * rng.normal(size=(2, 3, 2))
        self.gamma = rng.uniform(0.6, 1.4, (2, D))
        self.window = 1.5 * np.eye(D) + 0.2 * rng.normal(size=(D, D))
        self.hmk_lengthscale = 0.8 * np.eye(D) + 0.2 * rng.normal(size=(D, D))


@cache
def functions(D):
    return Functions(D)


def _points(X, **values):
    return reference.points(X, **{name: getattr(value, "numpy", value) for name, value in values.items()})


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel under test: ``build(functions(D))`` makes it, ``points(functions(D), X)`` and ``pair`` its reference."""

    name: str
    build: Callable[[Functions], Any]
    points: Callable[[Functions, np.ndarray], list]
    pair: Callable[[Functions], Callable]
    derivatives: int = 6  # how many derivatives along the lag it has at lag zero (Matérn: fewer)

    def kernel(self, D):
        return self.build(functions(D))

    def reference_points(self, D, X):
        return self.points(functions(D), X)

    def reference(self, D, X, Y):
        return reference.matrix(self.pair(functions(D)), self.points(functions(D), X), self.points(functions(D), Y))


def _case(name, build, pair, *fields, derivatives=6, **renamed):
    """A case whose points need the named fields of ``Functions`` (``reference name = field`` where they differ)."""
    names = {field: field for field in fields} | renamed

    def at(f, X):
        return _points(X, **{name: getattr(f, field) for name, field in names.items()})

    return Case(name, build, at, lambda f: pair, derivatives)


def _harmonizable(f):
    def inverse(matrix):
        return np.linalg.inv(matrix @ matrix.T)

    Sigma1 = inverse(f.window) / (2 * np.pi**2)
    Sigma2 = Sigma1 / 4 + inverse(f.hmk_lengthscale) / (4 * np.pi**2)
    B = np.einsum("pqr,psr->pqs", f.factor, f.factor.conj())
    return reference.harmonizable_mixture(f.centre, f.hmk_frequency / (2 * np.pi), Sigma1, Sigma2, B, f.gamma)


def _real_harmonizable(f):
    """Diagonal extents and no coupling: B = I."""
    Sigma1 = np.eye(f.D) / (2 * np.pi**2 * 1.7**2)
    Sigma2 = Sigma1 / 4 + np.diag(f.constant_lengthscale[0] ** -2) / (4 * np.pi**2)
    B = np.stack([np.eye(3)] * 2)
    return reference.harmonizable_mixture(f.centre, f.hmk_frequency / (2 * np.pi), Sigma1, Sigma2, B, np.ones((2, f.D)))


def _generalized(smoothness):
    return lambda f: sg.kernels.GeneralizedSpectral(
        f.constant_lengthscale, f.constant_frequency, f.other_frequency, f.amplitude, smoothness=smoothness
    )


_GSK = {
    "lengthscale": "constant_lengthscale",
    "first_frequency": "constant_frequency",
    "second_frequency": "other_frequency",
    "amplitude": "amplitude",
}


def _tied_points(f, X):
    return _points(
        X,
        lengthscale=f.lengthscale,
        frequency=f.frequency,
        amplitude=f.amplitude,
        chirp=f.frequency.own_derivative,
    )


_CONVOLUTIONAL = _case(
    "convolutional",
    lambda f: sg.kernels.ConvolutionalSpectral(f.lengthscale, f.frequency, f.amplitude),
    reference.convolutional_spectral,
    "lengthscale",
    "frequency",
    "amplitude",
)
_MIXTURE = _case(
    "spectral mixture",
    lambda f: sg.kernels.SpectralMixture(f.constant_lengthscale, f.constant_frequency, f.amplitude),
    reference.spectral_mixture,
    "amplitude",
    lengthscale="constant_lengthscale",
    frequency="constant_frequency",
)
_QUADRATIC = _case(
    "nonstationary quadratic",
    lambda f: sg.kernels.NonstationaryQuadratic(f.lengthscale, f.amplitude),
    reference.nonstationary_quadratic,
    "lengthscale",
    "amplitude",
)
_DEEP = Case(
    "deep squared exponential",
    lambda f: sg.kernels.Warped(sg.kernels.SquaredExponential(f.constant_lengthscale[0], 1.3), f.warp),
    lambda f, X: _points(X, warp=f.warp, lengthscale=f.constant_lengthscale[:1], amplitude=np.array([1.3])),
    lambda f: reference.deep_squared_exponential,
)


def _combined(name, build, parts, combine):
    """A composite of other cases: its points are tuples of theirs."""

    def at(f, X):
        return list(zip(*(part.points(f, X) for part in parts), strict=True))

    def pair(f):
        kernels = [part.pair(f) for part in parts]
        return lambda p, q: combine([k(a, b) for k, a, b in zip(kernels, p, q, strict=True)])

    return Case(name, build, at, pair)


# The factor s(x_i) s(x_j) of a scaled kernel, as one more part of a product.
_SCALE = Case(
    "scale", lambda f: None, lambda f, X: _points(X, scale=f.scale), lambda f: lambda p, q: (p.scale * q.scale).item()
)

KERNELS = [
    _case(
        "squared exponential",
        lambda f: sg.kernels.SquaredExponential(f.constant_lengthscale, f.amplitude),
        reference.squared_exponential,
        "amplitude",
        lengthscale="constant_lengthscale",
    ),
    _MIXTURE,
    _QUADRATIC,
    _case(
        "generalized spectral mixture",
        lambda f: sg.kernels.GeneralizedSpectralMixture(f.lengthscale, f.frequency, f.amplitude),
        reference.generalized_spectral_mixture,
        "lengthscale",
        "frequency",
        "amplitude",
    ),
    _CONVOLUTIONAL,
    _case(
        "convolutional by mean",
        lambda f: sg.kernels.ConvolutionalSpectral(
            f.lengthscale, amplitude=f.amplitude, mean=Mean(f.lengthscale, f.frequency)
        ),
        reference.convolutional_spectral,
        "lengthscale",
        "frequency",
        "amplitude",
    ),
    _case(
        "full convolutional",
        lambda f: sg.kernels.FullConvolutionalSpectral(f.covariance, f.frequency, f.amplitude),
        reference.full_convolutional_spectral,
        "covariance",
        "frequency",
        "amplitude",
    ),
    Case(
        "chirplet tied",
        lambda f: sg.kernels.Chirplet(f.lengthscale, f.frequency, f.amplitude),
        _tied_points,
        lambda f: reference.chirplet,
    ),
    _case(
        "chirplet free",
        lambda f: sg.kernels.Chirplet(f.lengthscale, f.frequency, f.amplitude, chirp=f.chirp),
        reference.chirplet,
        "lengthscale",
        "frequency",
        "amplitude",
        "chirp",
    ),
    _case(
        "phase",
        lambda f: sg.kernels.Phase(f.lengthscale, f.phase, f.amplitude),
        reference.phase,
        "lengthscale",
        "phase",
        "amplitude",
    ),
    _case(
        "generalized spectral",
        _generalized(np.inf),
        reference.generalized_spectral(reference.base_squared_exponential),
        **_GSK,
    ),
    _case(
        "generalized spectral 3/2",
        _generalized(1.5),
        reference.generalized_spectral(reference.base_matern32),
        derivatives=2,
        **_GSK,
    ),
    _case(
        "generalized spectral 5/2",
        _generalized(2.5),
        reference.generalized_spectral(reference.base_matern52),
        derivatives=4,
        **_GSK,
    ),
    Case(
        "harmonizable",
        lambda f: sg.kernels.HarmonizableMixture(
            f.centre, f.hmk_frequency, f.hmk_lengthscale, f.window, f.factor, f.gamma
        ),
        lambda f, X: _points(X),
        _harmonizable,
    ),
    Case(
        "harmonizable real",
        lambda f: sg.kernels.HarmonizableMixture(f.centre, f.hmk_frequency, f.constant_lengthscale[0], 1.7),
        lambda f, X: _points(X),
        _real_harmonizable,
    ),
    _DEEP,
    _combined(
        "sum",
        lambda f: _MIXTURE.build(f) + _CONVOLUTIONAL.build(f) + _DEEP.build(f),
        (_MIXTURE, _CONVOLUTIONAL, _DEEP),
        sum,
    ),
    _combined(
        "product",
        lambda f: _CONVOLUTIONAL.build(f) * _QUADRATIC.build(f),
        (_CONVOLUTIONAL, _QUADRATIC),
        np.prod,
    ),
    _combined(
        "scaled",
        lambda f: sg.kernels.Scaled(_CONVOLUTIONAL.build(f), f.scale),
        (_CONVOLUTIONAL, _SCALE),
        np.prod,
    ),
]

BY_NAME = {case.name: case for case in KERNELS}


def inputs(n, D, seed=0):
    """Inputs [n, D] in general position, with one row repeated."""
    X = np.random.default_rng(seed).uniform(-1.5, 1.5, (n, D))
    X[-1] = X[0]
    return X


def value(kernel):
    """k(x, y) of two single inputs [d] as a JAX function."""
    return lambda x, y: kernel.elementwise(kernel.local(x[None]), kernel.local(y[None]))[0]


def double():
    """Float64 inside the block, for the plain JAX methods of a kernel."""
    return jax.enable_x64(True)


class Conjugate(NamedTuple):
    """A sparse GP with Gaussian noise and known hyperparameters, its data, and the exact posterior of v."""

    model: SparseGP
    data: Data
    mean: np.ndarray
    covariance: np.ndarray


def conjugate() -> Conjugate:
    """E log p(y | f) is quadratic in v, with precision I + A Aᵀ/s² for A = L⁻¹ K_zx: the posterior is normal."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-2.0, 2.0, (40, 1)), axis=0)
    data = Data.checked(X, np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=40))
    Z = np.linspace(-2.0, 2.0, 6)[:, None]
    K, k = (np.exp(-0.5 * (Z - other.T) ** 2 / 0.7**2) for other in (Z, X))
    A = np.linalg.solve(np.linalg.cholesky(K), k)
    covariance = np.linalg.inv(np.eye(6) + A @ A.T / 0.09)
    model = SparseGP(sg.kernels.SquaredExponential(0.7), 0.3, Z)
    return Conjugate(model, data, covariance @ A @ data.y / 0.09, covariance)
