"""All kernels of the library, one row each: how to build it, and what it must equal, have and refuse.

Tests that hold for every kernel walk over ``KERNELS``. A new kernel is a new row here, and a loop in ``reference``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import spectrogp as sg
from spectrogp.models import Data, SparseGP
from zoo_fields import COMPONENTS, FIELDS, Field, First, Functions, Mean, N, Wild, first, functions, uniform

__all__ = ["BY_NAME", "COMPONENTS", "DIMENSIONS", "KERNELS", "Case", "functions", "inputs"]

DIMENSIONS = (1, 3)

Make = Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel under test.

    ``build(fields)`` makes it, from smooth functions or from wild ones. ``points(fields, X)`` and ``pair(fields)`` are
    the NumPy loop it equals.
    """

    name: str
    build: Callable[[Any], Any]
    points: Callable[[Functions, np.ndarray], list]
    pair: Callable[[Functions], Callable]
    derivatives: int = 6  # how many derivatives along the lag it has at lag zero (Matérn: fewer)
    spectrum: Callable[[Functions, np.ndarray], tuple] | None = None  # ξ [n, a, d] and Λ [n, a, d, d] by hand
    search: Callable[[Wild], Any] | bool = True  # built for the search of negative eigenvalues: as always, so, or not
    refused: Mapping[str, Make] = field(default_factory=dict)  # the message of a ValueError, and what raises it
    mistyped: Mapping[str, Make] = field(default_factory=dict)  # the same of a TypeError
    reduces: Callable[[Functions], tuple] | None = None  # this kernel in a special case, and the one that it then is

    def kernel(self, D):
        return self.build(functions(D))

    def reference_points(self, D, X):
        return self.points(functions(D), X)

    def reference(self, D, X, Y):
        return reference.matrix(self.pair(functions(D)), self.points(functions(D), X), self.points(functions(D), Y))

    def wild(self, fields):
        return (self.build if self.search is True else self.search)(fields)


def _points(X, **values):
    return reference.points(X, **{name: getattr(value, "numpy", value) for name, value in values.items()})


def _case(name, build, pair, needs, *, fields=None, **options):
    """A case whose points need the named fields (``name=field`` where the loop calls it otherwise).

    ``fields`` are those that this kernel alone has, beside the ones of ``zoo_fields``.
    """
    assert not set(fields or {}) & set(FIELDS), f"{name}: there is a field of this name"
    FIELDS.update(fields or {})
    pairs = [word.split("=") if "=" in word else (word, word) for word in needs.split()]

    def at(f, X):
        return _points(X, **{name: getattr(f, field) for name, field in pairs})

    return Case(name, build, at, lambda f: pair, **options)


def _combined(name, build, parts, combine, **options):
    """A composite of other cases: its points are tuples of theirs."""

    def at(f, X):
        return list(zip(*(part.points(f, X) for part in parts), strict=True))

    def pair(f):
        kernels = [part.pair(f) for part in parts]
        return lambda p, q: combine([k(a, b) for k, a, b in zip(kernels, p, q, strict=True)])

    return Case(name, build, at, pair, **options)


class Time(eqx.Module):
    """τ(x) = Σ_d x_d + a bend, with values [n, a]: increasing along one input, as time is."""

    bend: First

    @classmethod
    def make(cls, rng, D):
        return cls(first(-0.3, 0.3)(rng, D))

    def __call__(self, X):
        return jnp.sum(X, axis=1, keepdims=True) + self.bend(X)

    def numpy(self, X):
        return np.sum(X, axis=1, keepdims=True) + self.bend.numpy(X)

    def jacobian(self, X):
        return 1.0 + self.bend.function.jacobian(X)[..., 0, :]


# --- pieces of closed forms ---


def diagonal(values):
    """Diagonal matrices [..., d, d] from values [..., d]."""
    return values[..., None] * np.eye(values.shape[-1])


def same(value, X):
    """A constant [a, ...] at every input."""
    return np.broadcast_to(value, (len(X), *np.shape(value)))


def half_inverse(f, X):
    """½Σ⁻¹."""
    return 0.5 * diagonal(f.lengthscale.numpy(X) ** -2.0)


def broadened(f, X, J):
    """½(Σ⁻¹ + JᵀΣJ)."""
    return half_inverse(f, X) + 0.5 * np.einsum("nade,nad,nadf->naef", J, f.lengthscale.numpy(X) ** 2, J)


def _still(f, X, components=COMPONENTS):
    """ξ = 0."""
    return np.zeros((len(X), components, f.D))


def _full_width(f, X):
    Sigma, J = f.covariance.numpy(X), f.frequency.jacobian(X)
    return 0.5 * (np.linalg.inv(Sigma) + np.einsum("nade,nadf,nafg->naeg", J, Sigma, J))


def _chirped(f, X, omega, chirp, gradient):
    """ω_e − ¼ Σ_d ℓ_d² ∂c_d/∂x_e, from ∂c_d/∂x_e [n, a, d, e]; and ½(Σ⁻¹ + JᵀΣJ) for J = J_ω − diag c."""
    shift = -0.25 * np.einsum("nad,nade->nae", f.lengthscale.numpy(X) ** 2, gradient)
    return omega.numpy(X) + shift, broadened(f, X, omega.jacobian(X) - diagonal(chirp))


def _warped_width(f, X):
    J = f.warp.jacobian(X)
    return np.einsum("nde,d,ndf->nef", J, f.warp_lengthscale**-2.0, J)[:, None]


def _matern(order, **options):
    """Λ = 2ν/(2ν − 2) ∇τ ∇τᵀ, which is minus the curvature of M_ν; at ν = ½, where there is none, ∇τ ∇τᵀ."""
    factor = {0.5: 1.0, 1.5: 3.0, 2.5: 5.0 / 3.0}[order]

    def spectrum(f, X):
        slope = f.time.jacobian(X)
        return f.phase.function.jacobian(X)[..., 0, :], factor * slope[..., None] * slope[..., None, :]

    return _case(
        f"matern phase {order}",
        lambda f: sg.kernels.MaternPhase(f.time, f.phase, f.amplitude, order=order),
        reference.matern_phase(order),
        "time phase amplitude",
        spectrum=spectrum,
        **options,
    )


def _convolutional_spectrum(f, X):
    return f.frequency.numpy(X), broadened(f, X, f.frequency.jacobian(X))


# --- pieces of bad arguments ---


def inputs(n, D, seed=0):
    """Inputs [n, D] in general position, with one row repeated."""
    X = np.random.default_rng(seed).uniform(-1.5, 1.5, (n, D))
    X[-1] = X[0]
    return X


X1, X2 = inputs(4, 1), inputs(4, 2)
CENTRE, WAVES = np.zeros((2, 1)), np.ones((2, 3, 1))


def table(*shape, value=1.0):
    """A callable that gives the same numbers whatever the inputs."""
    return lambda X: jnp.full(shape, value)


def one_bad(value):
    """A callable that gives ones but for row 2."""
    return lambda X: jnp.ones_like(X).at[2, 0].set(value)


def _hmk(centre=CENTRE, frequency=WAVES, lengthscale=1.0, *rest, **options):
    return sg.kernels.HarmonizableMixture(centre, frequency, lengthscale, *rest, **options)


# --- pieces of loops ---


def _sigmas(lengthscale, window):
    """Σ₁ and Σ₂ of a harmonizable mixture from its extents, matrices."""
    inverse = [np.linalg.inv(matrix @ matrix.T) for matrix in (lengthscale, window)]
    Sigma1 = inverse[1] / (2 * np.pi**2)
    return Sigma1, Sigma1 / 4 + inverse[0] / (4 * np.pi**2)


def _harmonizable(f):
    B = np.einsum("pqr,psr->pqs", f.factors, f.factors.conj())
    return reference.harmonizable_mixture(f.centre, f.wavevectors / (2 * np.pi), *_sigmas(*f.extents), B, f.gamma)


def _real_harmonizable(f):
    """Diagonal extents and no coupling: B = I."""
    extents = np.diag(f.constant_lengthscale[0]), 1.7 * np.eye(f.D)
    B, gamma = np.stack([np.eye(3)] * 2), np.ones((2, f.D))
    return reference.harmonizable_mixture(f.centre, f.wavevectors / (2 * np.pi), *_sigmas(*extents), B, gamma)


def _generalized(smoothness):
    return lambda f: sg.kernels.GeneralizedSpectral(
        f.constant_lengthscale, f.constant_frequency, f.other_frequency, f.amplitude, smoothness=smoothness
    )


_GENERALIZED = (
    "lengthscale=constant_lengthscale first_frequency=constant_frequency second_frequency=other_frequency amplitude"
)


def _tied_points(f, X):
    return _points(
        X,
        lengthscale=f.lengthscale,
        frequency=f.smooth_frequency,
        amplitude=f.amplitude,
        chirp=f.smooth_frequency.own_derivative,
    )


def _lengths(f):
    """Lengthscales so long in all dimensions but the first that a time along the first is all there is."""
    return np.where(np.arange(f.D) == 0, f.constant_lengthscale, 1e9)


def _scaled_time(f):
    return lambda X: X[:, :1] / f.constant_lengthscale[:, 0]


# --- the kernels ---

_MIXTURE = _case(
    "spectral mixture",
    lambda f: sg.kernels.SpectralMixture(f.constant_lengthscale, f.constant_frequency, f.amplitude),
    reference.spectral_mixture,
    "lengthscale=constant_lengthscale frequency=constant_frequency amplitude",
    reduces=lambda f: (
        sg.kernels.SpectralMixture(f.constant_lengthscale, 0.0, f.amplitude),
        sg.kernels.SquaredExponential(f.constant_lengthscale, f.amplitude),
    ),
    spectrum=lambda f, X: (same(f.constant_frequency, X), same(diagonal(f.constant_lengthscale**-2.0), X)),
    refused={
        r"amplitude must be zero or positive, got -0.5": lambda: sg.kernels.SpectralMixture(1.0, 1.0, -0.5),
        r"SpectralMixture.frequency must have shape .* with d = 2 .*; got \[2, 3\]": (
            lambda: sg.kernels.SpectralMixture(1.0, np.ones((2, 3)))(X2)
        ),
        r"SpectralMixture.frequency must have shape .*; got \[0, 2\]": (
            lambda: sg.kernels.SpectralMixture(1.0, np.ones((0, 2)))(X2)
        ),
    },
    mistyped={
        r"frequency must be a number, an array of numbers": lambda: sg.kernels.SpectralMixture(1.0, ["a"]),
        r"lengthscale must be constant here": lambda: sg.kernels.SpectralMixture(table(4), 1.0),
        r"frequency must be constant here.*ConvolutionalSpectral": lambda: sg.kernels.SpectralMixture(1.0, table(4)),
    },
)

_QUADRATIC = _case(
    "nonstationary quadratic",
    lambda f: sg.kernels.NonstationaryQuadratic(f.lengthscale, f.amplitude),
    reference.nonstationary_quadratic,
    "lengthscale amplitude",
    spectrum=lambda f, X: (_still(f, X), half_inverse(f, X)),
    refused={
        r"lengthscale must be finite": lambda: sg.kernels.NonstationaryQuadratic(np.nan),
        r"NonstationaryQuadratic.lengthscale must be positive, got 0 at index \[2, 0, 0\]": (
            lambda: sg.kernels.NonstationaryQuadratic(one_bad(0.0))(X1)
        ),
        r"NonstationaryQuadratic.lengthscale must have shape \[n\] or \[n, d\] or \[n, a, d\] with n = 4, d = 2 .*"
        r"callable gave \[4, 2, 3\]": lambda: sg.kernels.NonstationaryQuadratic(table(4, 2, 3))(X2),
        r"NonstationaryQuadratic.lengthscale must have shape .* n = 4, .*callable gave \[3, 2\]": (
            lambda: sg.kernels.NonstationaryQuadratic(table(3, 2))(X2)
        ),
        r"NonstationaryQuadratic.lengthscale must have shape .*callable gave \[\]": (
            lambda: sg.kernels.NonstationaryQuadratic(lambda X: 1.0)(X2)
        ),
    },
)

_CONVOLUTIONAL = _case(
    "convolutional",
    lambda f: sg.kernels.ConvolutionalSpectral(f.lengthscale, f.frequency, f.amplitude),
    reference.convolutional_spectral,
    "lengthscale frequency amplitude",
    spectrum=_convolutional_spectrum,
    refused={
        r"lengthscale must be positive, got -2 at index \[1\]": (
            lambda: sg.kernels.ConvolutionalSpectral([1.0, -2.0], 1.0)
        ),
        r"frequency must be finite, got inf": lambda: sg.kernels.ConvolutionalSpectral(1.0, np.inf),
        r"ConvolutionalSpectral.frequency must be finite, got nan": (
            lambda: sg.kernels.ConvolutionalSpectral(1.0, one_bad(np.nan))(X1)
        ),
        r"ConvolutionalSpectral.lengthscale must have 1 or 3 components, as the other parameters have; got 2": (
            lambda: sg.kernels.ConvolutionalSpectral(np.ones((2, 1)), np.ones((3, 1)))(X1)
        ),
    },
)

_DEEP = Case(
    "deep squared exponential",
    lambda f: sg.kernels.Warped(sg.kernels.SquaredExponential(f.warp_lengthscale, 1.3), f.warp),
    lambda f, X: _points(X, warp=f.warp, lengthscale=f.warp_lengthscale[None], amplitude=np.array([1.3])),
    lambda f: reference.deep_squared_exponential,
    spectrum=lambda f, X: (_still(f, X, components=1), _warped_width(f, X)),
    search=lambda v: sg.kernels.Warped(sg.kernels.SquaredExponential(v.warp_lengthscale, v.amplitude), v.warp),
    refused={
        r"Warped.warp must give shape \[n, d'\] with n = 4, got \[4\]": (
            lambda: sg.kernels.Warped(sg.kernels.SquaredExponential(1.0), lambda X: X[:, 0])(X2)
        ),
        r"Warped.warp must give shape \[n, d'\] with n = 4, got \[3, 2\]": (
            lambda: sg.kernels.Warped(sg.kernels.SquaredExponential(1.0), table(3, 2))(X2)
        ),
        r"Warped.warp must be finite, got nan at index \[0, 0\]": (
            lambda: sg.kernels.Warped(sg.kernels.SquaredExponential(1.0), table(4, 1, value=np.nan))(X2)
        ),
    },
    mistyped={
        r"Warped.warp must be a callable .* got float": (
            lambda: sg.kernels.Warped(sg.kernels.SquaredExponential(1.0), 2.0)
        ),
    },
)

# The factor s(x_i) s(x_j) of a scaled kernel, as one more part of a product.
_SCALE = Case(
    "scale", lambda f: None, lambda f, X: _points(X, scale=f.scale), lambda f: lambda p, q: (p.scale * q.scale).item()
)

KERNELS = [
    _case(
        "squared exponential",
        lambda f: sg.kernels.SquaredExponential(f.constant_lengthscale, f.amplitude),
        reference.squared_exponential,
        "lengthscale=constant_lengthscale amplitude",
        spectrum=lambda f, X: (_still(f, X), same(diagonal(f.constant_lengthscale**-2.0), X)),
        refused={
            r"lengthscale must be positive, got 0": lambda: sg.kernels.SquaredExponential(0.0),
            r"lengthscale must be": lambda: sg.kernels.SquaredExponential(None),
            r"SquaredExponential.lengthscale must have shape \[\] or \[d\] or \[a, d\] with d = 2 .*; got \[3\]": (
                lambda: sg.kernels.SquaredExponential(np.ones(3))(X2)
            ),
            r"SquaredExponential.lengthscale must have shape .*; got \[1, 2, 3, 2\]": (
                lambda: sg.kernels.SquaredExponential(np.ones((1, 2, 3, 2)))(X2)
            ),
            r"SquaredExponential.amplitude must have shape \[\] or \[a\] \(a = components\); got \[2, 2\]": (
                lambda: sg.kernels.SquaredExponential(1.0, np.ones((2, 2)))(X2)
            ),
        },
        mistyped={
            r"lengthscale must be a number, an array of numbers, or a callable .* got 'long'": (
                lambda: sg.kernels.SquaredExponential("long")
            ),
            r"lengthscale must be constant here.*non-stationary kernels": (
                lambda: sg.kernels.SquaredExponential(table(4))
            ),
        },
    ),
    _MIXTURE,
    _QUADRATIC,
    _case(
        "generalized spectral mixture",
        lambda f: sg.kernels.GeneralizedSpectralMixture(f.lengthscale, f.frequency, f.amplitude),
        reference.generalized_spectral_mixture,
        "lengthscale frequency amplitude",
        spectrum=lambda f, X: (
            f.frequency.numpy(X) + np.einsum("nade,nd->nae", f.frequency.jacobian(X), X),
            half_inverse(f, X),
        ),
        refused={
            r"GeneralizedSpectralMixture.lengthscale must be finite, got nan at index \[2, 0\]": (
                lambda: sg.kernels.GeneralizedSpectralMixture(one_bad(np.nan), 1.0)(X1)
            ),
            r"GeneralizedSpectralMixture.frequency must have shape .*callable gave \[4, 3\]": (
                lambda: sg.kernels.GeneralizedSpectralMixture(1.0, table(4, 3))(X2)
            ),
        },
    ),
    _CONVOLUTIONAL,
    _case(
        "convolutional by mean",
        lambda f: sg.kernels.ConvolutionalSpectral(
            f.lengthscale, amplitude=f.amplitude, mean=Mean(f.lengthscale, f.frequency)
        ),
        reference.convolutional_spectral,
        "lengthscale frequency amplitude",
        spectrum=_convolutional_spectrum,
        search=False,  # the same kernel as the row above
        refused={
            r"mean must be finite": lambda: sg.kernels.ConvolutionalSpectral(1.0, mean=np.nan),
            r"ConvolutionalSpectral.mean must have shape .*callable gave \[4, 3\]": (
                lambda: sg.kernels.ConvolutionalSpectral(1.0, mean=table(4, 3))(X2)
            ),
        },
        mistyped={
            r"ConvolutionalSpectral takes either frequency .* or mean .* exactly one": (
                lambda: sg.kernels.ConvolutionalSpectral(1.0, 1.0, mean=1.0)
            ),
            r"ConvolutionalSpectral takes either frequency .* or mean .*, exactly one": (
                lambda: sg.kernels.ConvolutionalSpectral(1.0)
            ),
        },
    ),
    _case(
        "full convolutional",
        lambda f: sg.kernels.FullConvolutionalSpectral(f.covariance, f.frequency, f.amplitude),
        reference.full_convolutional_spectral,
        "covariance frequency amplitude",
        spectrum=lambda f, X: (f.frequency.numpy(X), _full_width(f, X)),
        refused={
            r"FullConvolutionalSpectral.covariance must be symmetric": (
                lambda: sg.kernels.FullConvolutionalSpectral(np.array([[1.0, 0.5], [0.0, 1.0]]), 1.0)(X2)
            ),
            r"smallest eigenvalue of FullConvolutionalSpectral.covariance must be positive, got -1": (
                lambda: sg.kernels.FullConvolutionalSpectral(np.array([[1.0, 2.0], [2.0, 1.0]]), 1.0)(X2)
            ),
            r"smallest eigenvalue of FullConvolutionalSpectral.covariance must be positive": (
                lambda: sg.kernels.FullConvolutionalSpectral(table(4, 2, 2, value=0.0), 1.0)(X2)
            ),
            r"FullConvolutionalSpectral.covariance must have shape \[d, d\] or \[a, d, d\] with d = 2 .*; got \[2\]": (
                lambda: sg.kernels.FullConvolutionalSpectral(np.ones(2), 1.0)(X2)
            ),
            r"FullConvolutionalSpectral.covariance must have shape .*; got \[3, 3\]": (
                lambda: sg.kernels.FullConvolutionalSpectral(np.eye(3), 1.0)(X2)
            ),
            r"FullConvolutionalSpectral.covariance must have shape .*callable gave \[4, 3, 3\]": (
                lambda: sg.kernels.FullConvolutionalSpectral(table(4, 3, 3), 1.0)(X2)
            ),
            r"covariance must be finite": lambda: sg.kernels.FullConvolutionalSpectral(np.full((2, 2), np.nan), 1.0),
        },
        mistyped={
            r"FullConvolutionalSpectral takes either frequency .* or mean .* exactly one": (
                lambda: sg.kernels.FullConvolutionalSpectral(np.eye(2), 1.0, mean=1.0)
            ),
            r"FullConvolutionalSpectral takes either frequency .* or mean .*, exactly one": (
                lambda: sg.kernels.FullConvolutionalSpectral(np.eye(2))
            ),
        },
    ),
    Case(
        "chirplet tied",
        lambda f: sg.kernels.Chirplet(f.lengthscale, f.smooth_frequency, f.amplitude),
        _tied_points,
        lambda f: reference.chirplet,
        spectrum=lambda f, X: _chirped(
            f,
            X,
            f.smooth_frequency,
            f.smooth_frequency.own_derivative(X),
            f.smooth_frequency.own_derivative_gradient(X),
        ),
        refused={
            r"lengthscale must be positive, got -1": lambda: sg.kernels.Chirplet(jnp.array([-1.0]), 1.0),
            r"Chirplet.lengthscale must be positive, got -3 at index \[2, 0, 0\]": (
                lambda: sg.kernels.Chirplet(one_bad(-3.0), 1.0)(X1)
            ),
            r"Chirplet.amplitude must have shape \[n\] or \[n, a\] .*callable gave \[4, 2, 2\]": (
                lambda: sg.kernels.Chirplet(1.0, 1.0, table(4, 2, 2))(X2)
            ),
        },
    ),
    _case(
        "chirplet free",
        lambda f: sg.kernels.Chirplet(f.lengthscale, f.frequency, f.amplitude, chirp=f.chirp),
        reference.chirplet,
        "lengthscale frequency amplitude chirp",
        spectrum=lambda f, X: _chirped(f, X, f.frequency, f.chirp.numpy(X), f.chirp.jacobian(X)),
        refused={
            r"chirp must be finite": lambda: sg.kernels.Chirplet(1.0, 1.0, chirp=np.nan),
            r"Chirplet.chirp must have shape .*callable gave \[4, 3\]": (
                lambda: sg.kernels.Chirplet(1.0, 1.0, chirp=table(4, 3))(X2)
            ),
        },
    ),
    _case(
        "phase",
        lambda f: sg.kernels.Phase(f.lengthscale, f.phase, f.amplitude),
        reference.phase,
        "lengthscale phase amplitude",
        spectrum=lambda f, X: (f.phase.function.jacobian(X)[..., 0, :], half_inverse(f, X)),
        refused={
            r"lengthscale must be finite, got inf": lambda: sg.kernels.Phase(np.inf, table(4)),
            r"Phase.amplitude must be zero or positive, got -1 at index \[0, 0\]": (
                lambda: sg.kernels.Phase(1.0, table(4), table(4, value=-1.0))(X1)
            ),
            r"Phase.phase must have shape \[n\] or \[n, a\] with n = 4 .*callable gave \[4, 2, 2\]": (
                lambda: sg.kernels.Phase(1.0, table(4, 2, 2))(X2)
            ),
            r"Phase.amplitude must have 1 or 3 components, .* got 2": (
                lambda: sg.kernels.Phase(1.0, table(4, 3), table(4, 2))(X1)
            ),
        },
        mistyped={r"phase must be a callable .* got float": lambda: sg.kernels.Phase(1.0, 2.0)},
    ),
    _matern(
        0.5,
        derivatives=0,
        fields={"time": Field(Time.make, lambda D: uniform(-1e3, 1e3, N, COMPONENTS))},
        refused={
            r"order must be one of 0.5, 1.5, 2.5, got 2": lambda: sg.kernels.MaternPhase(table(4), order=2),
            r"MaternPhase.time must have shape \[n\] or \[n, a\] with n = 4 .*callable gave \[4, 2, 2\]": (
                lambda: sg.kernels.MaternPhase(table(4, 2, 2))(X2)
            ),
            r"MaternPhase.time must be finite, got nan": lambda: sg.kernels.MaternPhase(table(4, value=np.nan))(X1),
            r"MaternPhase.phase must have shape .*callable gave \[3\]": (
                lambda: sg.kernels.MaternPhase(table(4), table(3))(X2)
            ),
            r"MaternPhase.amplitude must be zero or positive, got -1": (
                lambda: sg.kernels.MaternPhase(table(4), amplitude=table(4, value=-1.0))(X1)
            ),
            r"lengthscale must be positive, got 0": lambda: sg.kernels.WarpedTime(0.0),
            r"nodes must have shape \[m\] with m of at least 2, got none": lambda: sg.kernels.WarpedTime(
                table(4, 1, 1)
            ),
            r"nodes must have shape .* got \[1\]": lambda: sg.kernels.WarpedTime(table(4, 1, 1), np.zeros(1)),
            r"a warped time needs one input dimension, got 2": (
                lambda: sg.kernels.MaternPhase(sg.kernels.WarpedTime(1.0))(X2)
            ),
        },
        mistyped={
            r"time must be a callable .* got float": lambda: sg.kernels.MaternPhase(2.0),
            r"phase must be a callable .* got float": lambda: sg.kernels.MaternPhase(table(4), 2.0),
        },
    ),
    _matern(
        1.5,
        derivatives=2,
        reduces=lambda f: (
            sg.kernels.MaternPhase(_scaled_time(f), amplitude=f.amplitude),
            0.25 * sg.kernels.GeneralizedSpectral(_lengths(f), 0.0, 0.0, f.amplitude, smoothness=1.5),
        ),
    ),
    _matern(
        2.5,
        derivatives=4,
        reduces=lambda f: (
            sg.kernels.MaternPhase(_scaled_time(f), lambda X: X @ f.constant_frequency.T, f.amplitude, order=2.5),
            0.25
            * sg.kernels.GeneralizedSpectral(
                _lengths(f), f.constant_frequency, f.constant_frequency, f.amplitude, smoothness=2.5
            ),
        ),
    ),
    _case(
        "generalized spectral",
        _generalized(np.inf),
        reference.generalized_spectral(reference.base_squared_exponential),
        _GENERALIZED,
        refused={
            r"GeneralizedSpectral.first_frequency must have shape .*; got \[3\]": (
                lambda: sg.kernels.GeneralizedSpectral(1.0, np.ones(3), 1.0)(X2)
            ),
            r"GeneralizedSpectral.second_frequency must have shape .*; got \[3\]": (
                lambda: sg.kernels.GeneralizedSpectral(1.0, 1.0, np.ones(3))(X2)
            ),
        },
        mistyped={
            r"lengthscale must be constant here": lambda: sg.kernels.GeneralizedSpectral(table(4), 1.0, 1.0),
            r"first_frequency must be constant here": lambda: sg.kernels.GeneralizedSpectral(1.0, table(4), 1.0),
            r"second_frequency must be constant here": lambda: sg.kernels.GeneralizedSpectral(1.0, 1.0, table(4)),
        },
    ),
    _case(
        "generalized spectral 3/2",
        _generalized(1.5),
        reference.generalized_spectral(reference.base_matern32),
        _GENERALIZED,
        derivatives=2,
        refused={
            r"smoothness must be 1.5, 2.5 or inf \(squared exponential\), got 0.5": (
                lambda: sg.kernels.GeneralizedSpectral(1.0, 1.0, 1.0, smoothness=0.5)
            ),
            r"smoothness must be 1.5, 2.5 or inf .* got 'rough'": (
                lambda: sg.kernels.GeneralizedSpectral(1.0, 1.0, 1.0, smoothness="rough")
            ),
        },
    ),
    _case(
        "generalized spectral 5/2",
        _generalized(2.5),
        reference.generalized_spectral(reference.base_matern52),
        _GENERALIZED,
        derivatives=4,
    ),
    Case(
        "harmonizable",
        lambda f: sg.kernels.HarmonizableMixture(f.centre, f.wavevectors, *f.extents, f.factors, f.gamma),
        lambda f, X: _points(X),
        _harmonizable,
        refused={
            r"centre must have shape \[p, d\], got \[2\]": lambda: _hmk(np.zeros(2)),
            r"frequency must have shape \[p, q, d\] with p = 2, d = 1 .*got \[2, 3\]": (
                lambda: _hmk(frequency=np.ones((2, 3)))
            ),
            r"frequency must have shape \[p, q, d\] with p = 2, d = 1 .*got \[3, 3, 1\]": (
                lambda: _hmk(frequency=np.ones((3, 3, 1)))
            ),
            r"weight must have shape \[p, q, r\] with p = 2, q = 3, got \[2, 2, 2\]": (
                lambda: _hmk(weight=np.ones((2, 2, 2)))
            ),
            r"weight must have shape \[p, q, r\]": lambda: _hmk(weight=np.ones((2, 3))),
            r"weight must be an array \[p, q, r\] of finite real or complex numbers": (
                lambda: _hmk(weight=np.full((2, 3, 1), np.nan))
            ),
            r"weight must be an array .* got 'heavy'": lambda: _hmk(weight="heavy"),
            r"lengthscale must be positive, got -1": lambda: _hmk(lengthscale=-1.0),
            r"lengthscale must be positive, got nan": lambda: _hmk(lengthscale=np.nan),
            r"window must be positive, got 0": lambda: _hmk(window=0.0),
            r"window must be a number, \[d\] or \[d, d\] with d = 1, got \[3\]": lambda: _hmk(window=np.ones(3)),
            r"lengthscale must be a number, \[d\] or \[d, d\] with d = 1, got \[2, 3\]": (
                lambda: _hmk(lengthscale=np.ones((2, 3)))
            ),
            r"lengthscale must": lambda: _hmk(np.zeros((2, 2)), np.ones((2, 3, 2)), np.ones((2, 2))),
            r"scale must be finite": lambda: _hmk(scale=np.nan),
            r"scale must .*\[3, 1\]": lambda: _hmk(scale=np.ones((3, 1))),
            r"HarmonizableMixture.centre has 1 input dimensions, the inputs 2": lambda: _hmk()(X2),
        },
        mistyped={
            r"centre must be constant here": lambda: _hmk(table(4)),
            r"window must be constant here": lambda: _hmk(window=table(4)),
            r"scale must be constant here": lambda: _hmk(scale=table(4)),
        },
    ),
    Case(
        "harmonizable real",
        lambda f: sg.kernels.HarmonizableMixture(f.centre, f.wavevectors, f.constant_lengthscale[0], 1.7),
        lambda f, X: _points(X),
        _real_harmonizable,
        search=False,  # the row above with a simple B
    ),
    _DEEP,
    _combined(
        "sum",
        lambda f: _MIXTURE.build(f) + _CONVOLUTIONAL.build(f) + _DEEP.build(f),
        (_MIXTURE, _CONVOLUTIONAL, _DEEP),
        sum,
        search=lambda v: (
            _CONVOLUTIONAL.build(v) + sg.kernels.SpectralMixture(v.constant_lengthscale, v.constant_frequency)
        ),
    ),
    _combined(
        "product",
        lambda f: _CONVOLUTIONAL.build(f) * _QUADRATIC.build(f),
        (_CONVOLUTIONAL, _QUADRATIC),
        np.prod,
        search=lambda v: sg.kernels.Scaled(_CONVOLUTIONAL.build(v) * sg.kernels.Phase(v.lengthscale, v.phase), v.scale),
    ),
    _combined(
        "scaled",
        lambda f: sg.kernels.Scaled(_CONVOLUTIONAL.build(f), f.scale),
        (_CONVOLUTIONAL, _SCALE),
        np.prod,
        search=False,  # the row above is scaled too
        refused={
            r"amplitude must be zero or positive, got -2": (
                lambda: sg.kernels.Scaled(sg.kernels.SquaredExponential(1.0), -2.0)
            ),
            r"Scaled.amplitude must have one component, got 2": (
                lambda: sg.kernels.Scaled(sg.kernels.SquaredExponential(1.0), np.ones(2))(X1)
            ),
            r"scaled by zero or a positive number, got -2.0": lambda: -2.0 * sg.kernels.SquaredExponential(1.0),
            r"scaled by zero or a positive number, got nan": (
                lambda: sg.kernels.SquaredExponential(1.0) * float("nan")
            ),
        },
    ),
]

BY_NAME = {case.name: case for case in KERNELS}

# What kernels inherit is tried quickly on one of each kind of formula, and on all of them by `make test-all`.
_REPRESENTATIVES = (
    "spectral mixture",
    "convolutional",
    "chirplet free",
    "generalized spectral 3/2",
    "harmonizable",
    "sum",
)


def every_kernel_or_slow():
    """All kernels as parameters of a test, those that stand for no others marked as slow."""
    return [
        pytest.param(
            case, id=case.name.replace(" ", "-"), marks=() if case.name in _REPRESENTATIVES else pytest.mark.slow
        )
        for case in KERNELS
    ]


def value(kernel):
    """k(x, y) of two single inputs [d] as a JAX function."""
    return lambda x, y: kernel.elementwise(kernel.local(x[None]), kernel.local(y[None]))[0]


def double():
    """Float64 inside the block, for JAX of the test's own."""
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
    data = Data(X, np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=40))
    Z = np.linspace(-2.0, 2.0, 6)[:, None]
    K, k = (np.exp(-0.5 * (Z - other.T) ** 2 / 0.7**2) for other in (Z, X))
    A = np.linalg.solve(np.linalg.cholesky(K), k)
    covariance = np.linalg.inv(np.eye(6) + A @ A.T / 0.09)
    model = SparseGP(sg.kernels.SquaredExponential(0.7), 0.3, Z)
    return Conjugate(model, data, covariance @ A @ data.y / 0.09, covariance)
