"""What the kernels of the zoo are made of, by name: functions and constants in D dimensions, each in two ways.

``Functions`` gives smooth functions with known derivatives, of ordinary size. ``Wild`` gives what hypothesis draws:
functions as rough as can be, over many magnitudes. A kernel is built from either by the same line of code.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

COMPONENTS = A = 2
N = 8  # inputs of a search

# --- smooth functions ---


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

    lengthscale: Any
    frequency: Any

    def __call__(self, X):
        return self.lengthscale(X) ** 2 * self.frequency(X)


def sine(low, high, *, components=COMPONENTS, outputs=lambda D: D):
    def make(rng, D):
        shape, middle, half = (components, outputs(D)), (low + high) / 2, (high - low) / 2
        offset = middle + 0.3 * half * rng.uniform(-1, 1, shape)
        height = 0.7 * half * rng.uniform(0.5, 1, shape)
        return Sine(offset, height, rng.normal(size=(D, *shape)), rng.normal(size=shape))

    return make


def first(low, high, **options):
    return lambda rng, D: First(sine(low, high, outputs=lambda D: 1, **options)(rng, D))


def numbers(low, high, shape):
    return lambda rng, D: rng.uniform(low, high, shape(D))


# --- wild ones ---


def unit(shape):
    """Arrays of numbers in [−1, 1]: evenly spread, or as hypothesis likes them, extreme, equal and very small."""
    spread = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).uniform(-1, 1, shape))
    return spread | arrays(np.float64, shape, elements=st.floats(-1, 1)) | spread


@st.composite
def uniform(draw, low, high, *shape):
    """An array of numbers in [low, high]: independent; equal along its first axis; or all close to each other.

    Independent numbers alone would give little more than diagonal matrices, where nothing can go wrong.
    """
    table = draw(unit(draw(st.sampled_from([shape, (1, *shape[1:])]))))
    centre, spread = draw(st.just((0.0, 0.0)) | st.tuples(st.floats(-1, 1), st.floats(-8, 0)))
    values = (low + high) / 2 + (high - low) / 2 * np.clip(centre + 10.0**spread * table, -1, 1)
    return np.broadcast_to(values, shape)


def powers(low, high, *shape):
    """10 to a power, so that all magnitudes are equally likely."""
    return uniform(low, high, *shape).map(lambda exponent: 10.0**exponent)


def rotated(scale, angle):
    """Matrices R diag(scale²) Rᵀ [n, a, d, d] with R a product of rotations by the angles [n, a, d]."""
    D = scale.shape[-1]
    R = np.broadcast_to(np.eye(D), (*scale.shape, D))
    for d in range(D - 1):
        turn = np.broadcast_to(np.eye(D), R.shape).copy()
        c, s = np.cos(angle[..., d]), np.sin(angle[..., d])
        turn[..., d, d], turn[..., d, d + 1], turn[..., d + 1, d], turn[..., d + 1, d + 1] = c, -s, s, c
        R = R @ turn
    S = np.einsum("nade,nae,nafe->nadf", R, scale**2, R)
    return (S + np.swapaxes(S, -1, -2)) / 2


def wild_covariance(D):
    """Ellipsoids with axes of at most 1:100.

    A matrix Σ of condition κ gives its smallest axis only to κ times the rounding error, so nothing computed from Σ can
    be better than κ·1e-16, here 1e-12.
    """
    axes = st.tuples(powers(-2, 2, N, A, 1), powers(-1, 1, N, A, D)).map(lambda parts: parts[0] * parts[1])
    return st.builds(rotated, axes, uniform(0, 4, N, A, D))


def wild_amplitude(D):
    """Often with one component alone: a second one hides what the first does wrong."""
    alone = st.sampled_from([[1, 1], [1, 0]])
    return st.tuples(uniform(0, 1e3, N, A), alone).map(lambda parts: parts[0] * parts[1])


class Polynomial(NamedTuple):
    """ω_d(x) = Σ_k c_k (x_d/10)^k: at most 1000 where |x| ≤ 10 and |c| ≤ 250."""

    coefficients: np.ndarray  # [4, a, d]

    def __call__(self, X):
        return sum(c * (X[:, None, :] / 10) ** k for k, c in enumerate(self.coefficients))


def wild_polynomial(D):
    """Of degree 0 to 3: for kernels that differentiate it, which a table does not allow."""
    return st.tuples(uniform(-250, 250, 4, A, D), st.integers(0, 3)).map(
        lambda parts: Polynomial(parts[0] * (np.arange(4) <= parts[1])[:, None, None])
    )


# --- all of them ---


class Field(NamedTuple):
    """``smooth(rng, D)`` gives a value; ``wild(D)`` a strategy for values, or for tables [N, …] of a function."""

    smooth: Callable[[np.random.Generator, int], Any]
    wild: Callable[[int], st.SearchStrategy]
    table: bool = True


FIELDS = {
    # functions of the input
    "lengthscale": Field(sine(0.5, 1.4), lambda D: powers(-3, 3, N, A, D)),
    "frequency": Field(sine(0.5, 4.0), lambda D: uniform(-1e3, 1e3, N, A, D)),
    "smooth_frequency": Field(sine(0.5, 4.0), wild_polynomial, table=False),
    "chirp": Field(sine(-1.5, 1.5), lambda D: uniform(-1e3, 1e3, N, A, D)),
    "amplitude": Field(first(0.4, 1.6), wild_amplitude),
    "phase": Field(first(-6.0, 6.0), lambda D: uniform(-1e3, 1e3, N, A)),
    "covariance": Field(
        lambda rng, D: Matrices(sine(-0.8, 1.2, outputs=lambda D: D * D)(rng, D), D), lambda D: wild_covariance(D)
    ),
    "warp": Field(lambda rng, D: Warp(sine(-0.6, 0.6, components=1)(rng, D)), lambda D: uniform(-10, 10, N, 2)),
    "scale": Field(first(0.5, 2.0, components=1), lambda D: uniform(0, 1e3, N)),
    # constants
    "constant_lengthscale": Field(numbers(0.5, 1.4, lambda D: (A, D)), lambda D: powers(-3, 3, A, D), table=False),
    "constant_frequency": Field(numbers(0.5, 4.0, lambda D: (A, D)), lambda D: uniform(-1e3, 1e3, A, D), table=False),
    "other_frequency": Field(numbers(0.5, 4.0, lambda D: (A, D)), lambda D: uniform(-1e3, 1e3, A, D), table=False),
    "warp_lengthscale": Field(numbers(0.5, 1.4, lambda D: (D,)), lambda D: powers(-3, 3, 2), table=False),
    # of harmonizable mixtures: two centres, three frequencies, complex factors of rank two, lengthscale and window
    "centre": Field(numbers(-1, 1, lambda D: (2, D)), lambda D: uniform(-10, 10, 2, D), table=False),
    "wavevectors": Field(numbers(-4, 4, lambda D: (2, 3, D)), lambda D: uniform(-1e3, 1e3, 2, 3, D), table=False),
    "factors": Field(
        lambda rng, D: rng.normal(size=(2, 3, 2)) + 1j * rng.normal(size=(2, 3, 2)),
        lambda D: uniform(-1e3, 1e3, 2, 2, 3, 2).map(lambda parts: parts[0] + 1j * parts[1]),
        table=False,
    ),
    "gamma": Field(numbers(0.6, 1.4, lambda D: (2, D)), lambda D: powers(-1, 1, 2, D), table=False),
    "extents": Field(
        lambda rng, D: np.array([[[0.8]], [[1.5]]]) * np.eye(D) + 0.2 * rng.normal(size=(2, D, D)),
        lambda D: powers(-3, 3, 2, D),
        table=False,
    ),
}


class Functions:
    """The fields as smooth functions and constants, each from a generator of its own: a new field changes no other."""

    def __init__(self, D):
        self.D = D

    def __getattr__(self, name):
        if name not in FIELDS:
            raise AttributeError(name)
        value = FIELDS[name].smooth(np.random.default_rng([self.D, zlib.crc32(name.encode())]), self.D)
        setattr(self, name, value)
        return value


functions = cache(Functions)


class Wild:
    """The fields as hypothesis draws them, and inputs X; a table is a callable that returns it, row i for input i.

    Repeated inputs come with repeated values, as a function's must.
    """

    def __init__(self, draw, D):
        self.D, self._draw, self._drawn = D, draw, {}
        # Inputs at any distance, so that some lengthscale always fits.
        X, power = draw(st.tuples(unit((N, D)), st.floats(-3, 1)))
        repeated = arrays(np.intp, N, elements=st.integers(0, N - 1), fill=st.nothing())
        self._rows = draw(st.just(np.arange(N)) | repeated)
        self.X = X[self._rows] * 10.0**power

    def __getattr__(self, name):
        if name not in FIELDS:
            raise AttributeError(name)
        if name not in self._drawn:
            value = self._draw(FIELDS[name].wild(self.D))
            self._drawn[name] = value[self._rows] if FIELDS[name].table else value
        value = self._drawn[name]
        return (lambda X: value) if FIELDS[name].table else value

    def __repr__(self):
        return f"X = {self.X!r}, {self._drawn!r}"
