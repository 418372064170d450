"""Non-stationary kernels with input-dependent lengthscale and frequency: NSQ, GSM and CSK.

Throughout, with τ = x_i − x_j and sums and products over input dimensions,

    Q_ij = Σ τ² / (ℓ_i² + ℓ_j²)        ρ_ij = Π sqrt(2 ℓ_i ℓ_j / (ℓ_i² + ℓ_j²))
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from ..parameters import Parameter, matrix, scalar, vector
from . import pairwise
from .base import AbstractMixture, Characteristic, Local


class NonstationaryQuadratic(AbstractMixture):
    """Non-stationary quadratic (NSQ): Σ_a σ(x_i) σ(x_j) ρ_ij exp(−Q_ij/2).

    Gibbs (1997); Paciorek & Schervish (2004); Eq. 11 of Shen, Heinonen & Kaski (2020), diagonal Σ(x) = diag ℓ(x)².

    Args:
        lengthscale: ℓ, in units of the input: a number, ``[d]`` or ``[a, d]`` for a components, a ``Positive`` to be
            fitted, or a function of the input (a callable with values ``[n, d]`` or ``[n, a, d]``, or a
            ``FunctionGroup``).
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
    """

    lengthscale: Parameter = vector(positive=True, unit="x")
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)

    def pair(self, p: Local, q: Local) -> Characteristic:
        rho, Q = overlap(p.x, p.lengthscale, q.x, q.lengthscale)
        return Characteristic(p.amplitude * q.amplitude * rho, Q, jnp.zeros_like(Q))

    def cross(self, p: Local, q: Local) -> Array:
        return pairwise.windowed_cross(pairwise.Window(**vars(p)), pairwise.Window(**vars(q)))


class GeneralizedSpectralMixture(AbstractMixture):
    """Generalised spectral mixture (GSM): Σ_a σ(x_i) σ(x_j) ρ_ij exp(−Q_ij/2) cos(⟨ω_i, x_i⟩ − ⟨ω_j, x_j⟩).

    Remes, Heinonen & Kaski (2017). Its local frequency is ω(x) + J_ω(x)ᵀx, not ω(x): the kernel is biased
    wherever ω varies, and the more so the farther x lies from the origin.

    Args:
        lengthscale: ℓ, in units of the input: a number, ``[d]`` or ``[a, d]`` for a components, a ``Positive`` to be
            fitted, or a function of the input (a callable with values ``[n, d]`` or ``[n, a, d]``, or a
            ``FunctionGroup``).
        frequency: ω, *angular* (2π times cycles per unit of the input), likewise; ``Real`` to be fitted.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
    """

    lengthscale: Parameter = vector(positive=True, unit="x")
    frequency: Parameter = vector(unit="rad/x")
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)

    def pair(self, p: Local, q: Local) -> Characteristic:
        rho, Q = overlap(p.x, p.lengthscale, q.x, q.lengthscale)
        U = jnp.sum(p.frequency * p.x - q.frequency * q.x, axis=-1)
        return Characteristic(p.amplitude * q.amplitude * rho, Q, U)

    def cross(self, p: Local, q: Local) -> Array:
        def window(local: Local) -> pairwise.Window:
            angle = jnp.sum(local.frequency * local.x[:, None], axis=-1)
            return pairwise.Window(local.x, local.lengthscale, local.amplitude, angle=angle)

        return pairwise.windowed_cross(window(p), window(q))


class ConvolutionalSpectral(AbstractMixture):
    """Convolutional spectral kernel (CSK): Σ_a σ(x_i) σ(x_j) ρ_ij exp(−(Q_ij + S_ij)/2) cos⟨ω_ij, τ⟩, with

        ω_ij = (ℓ_i² ω_i + ℓ_j² ω_j) / (ℓ_i² + ℓ_j²)      S_ij = Σ (ω_i − ω_j)² ℓ_i² ℓ_j² / (ℓ_i² + ℓ_j²)

    Shen, Heinonen & Kaski (2020), Eqs. 6–10 and 13, diagonal Σ(x) = diag ℓ(x)². It is the real part of the inner
    product of the basis functions K_x(u) (``basis``), so it is positive semidefinite for any functions.
    Differs from the paper: parametrised by the angular frequency ω = Σ⁻¹μ, which is what one reads off a spectrogram;
    give ``mean`` instead of ``frequency`` for the paper's μ. ``FullConvolutionalSpectral`` takes full matrices Σ(x).

    Args:
        lengthscale: ℓ, in units of the input: a number, ``[d]`` or ``[a, d]`` for a components, a ``Positive`` to be
            fitted, or a function of the input (a callable with values ``[n, d]`` or ``[n, a, d]``, or a
            ``FunctionGroup``).
        frequency: ω, *angular* (2π times cycles per unit of the input), likewise; ``Real`` to be fitted.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
        mean: The paper's μ = ℓ²ω, instead of ``frequency``.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> k = sg.kernels.ConvolutionalSpectral(0.3, lambda x: 2 * jnp.pi * (5 + 3 * x))  # 5 + 3x cycles per unit
        >>> sg.local_spectrum(k, [0.0, 1.0]).frequency.ravel().round(6)
        array([5., 8.])
    """

    lengthscale: Parameter = vector(positive=True, unit="x")
    frequency: Parameter | None = vector(unit="rad/x", default=None)
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)
    mean: Parameter | None = vector(unit="rad x", default=None, kw_only=True)

    def __check_init__(self) -> None:
        _frequency_or_mean(self)

    def local(self, X: Array) -> Local:
        values = self.values_at(X)
        if self.mean is not None:
            values["frequency"] = values.pop("mean") / values["lengthscale"] ** 2
        return Local(x=X, **values)

    def pair(self, p: Local, q: Local) -> Characteristic:
        rho, Q = overlap(p.x, p.lengthscale, q.x, q.lengthscale)
        a, b = p.lengthscale**2, q.lengthscale**2
        U = jnp.sum((a * p.frequency + b * q.frequency) / (a + b) * (p.x - q.x), axis=-1)
        S = jnp.sum((p.frequency - q.frequency) ** 2 * (a / (a + b)) * b, axis=-1)
        return Characteristic(p.amplitude * q.amplitude * rho, Q + S, U)

    def cross(self, p: Local, q: Local) -> Array:
        return pairwise.windowed_cross(pairwise.Window(**vars(p)), pairwise.Window(**vars(q)))

    def basis(self, p: Local, u: Array) -> Array:
        """K_x(u) of one input, with local parameters ``p``, at one point ``u [d]``: complex ``[a]``, of norm σ.

        K_x(u) = σ Π (π ℓ²)^(−1/4) exp(−½((u − x)/ℓ)² + iω(u − x)); Eq. 3 of the paper, normalised.
        """
        return window(u - p.x, p.lengthscale, p.frequency, jnp.zeros_like(p.frequency), p.amplitude)


class FullConvolutionalSpectral(AbstractMixture):
    """Convolutional spectral kernel with full matrices Σ(x): the same form as ``ConvolutionalSpectral``, with

        ρ_ij = |Σ_i|^¼ |Σ_j|^¼ / |(Σ_i + Σ_j)/2|^½         Q_ij = τᵀ (Σ_i + Σ_j)⁻¹ τ
        ω_ij = (Σ_i + Σ_j)⁻¹ (Σ_i ω_i + Σ_j ω_j)           S_ij = (ω_i − ω_j)ᵀ (Σ_i⁻¹ + Σ_j⁻¹)⁻¹ (ω_i − ω_j)

    Shen, Heinonen & Kaski (2020), Eqs. 6–10 as printed there.

    Args:
        covariance: Σ, in squared units of the input: ``[d, d]``, ``[a, d, d]`` for a components, or a function of the
            input with values ``[n, d, d]`` or ``[n, a, d, d]``; symmetric and positive definite.
        frequency: ω, *angular* (2π times cycles per unit of the input): a number, ``[d]``, ``[a, d]``, or a function of
            the input.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
        mean: The paper's μ = Σω, instead of ``frequency``.
    """

    covariance: Parameter = matrix(unit="x²")
    frequency: Parameter | None = vector(unit="rad/x", default=None)
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)
    mean: Parameter | None = vector(unit="rad x", default=None, kw_only=True)

    def __check_init__(self) -> None:
        _frequency_or_mean(self)

    def local(self, X: Array) -> Local:
        values = self.values_at(X)
        if self.mean is not None:
            values["frequency"] = jnp.linalg.solve(values["covariance"], values.pop("mean")[..., None])[..., 0]
        return Local(x=X, log_determinant=jnp.linalg.slogdet(values["covariance"])[1], **values)

    def pair(self, p: Local, q: Local) -> Characteristic:
        tau = p.x - q.x
        delta = p.frequency - q.frequency
        mean = _apply(p.covariance, p.frequency) + _apply(q.covariance, q.frequency)
        # One factor L Lᵀ = Σ_i + Σ_j serves everything; (Σ_i⁻¹ + Σ_j⁻¹)⁻¹ = Σ_i (Σ_i + Σ_j)⁻¹ Σ_j needs no inverse.
        L = jnp.linalg.cholesky(p.covariance + q.covariance)
        sides = [jnp.broadcast_to(tau, mean.shape), mean, _apply(p.covariance, delta), _apply(q.covariance, delta)]
        t, m, u, v = jnp.moveaxis(jax.scipy.linalg.solve_triangular(L, jnp.stack(sides, axis=-1), lower=True), -1, 0)
        log_rho = (
            0.25 * (p.log_determinant + q.log_determinant)
            - jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), axis=-1)
            + 0.5 * tau.shape[-1] * jnp.log(2.0)
        )
        D = jnp.sum(t * t + u * v, axis=-1)
        return Characteristic(p.amplitude * q.amplitude * jnp.exp(log_rho), D, jnp.sum(m * t, axis=-1))


def overlap(x: Array, lengthscale: Array, y: Array, other: Array) -> tuple[Array, Array]:
    """ρ_ij and Q_ij, each ``[a]``: how far two Gaussian windows of different widths overlap.

    The square root in ρ is taken per dimension: a single one for D > 1 gives indefinite matrices.
    """
    total = lengthscale**2 + other**2
    rho = jnp.prod(jnp.sqrt(2.0 * lengthscale * other / total), axis=-1)
    return rho, jnp.sum((x - y) ** 2 / total, axis=-1)


def window(v: Array, lengthscale: Array, frequency: Array, chirp: Array, amplitude: Array) -> Array:
    """σ Π (π ℓ²)^(−1/4) exp(−½ v²/ℓ² + iωv + ½icv²): a complex Gaussian window ``[a]`` at the offset v ``[d]``."""
    exponent = jnp.sum(-0.5 * (v / lengthscale) ** 2 + 1j * (frequency * v + 0.5 * chirp * v**2), axis=-1)
    return amplitude * jnp.prod(jnp.pi * lengthscale**2, axis=-1) ** -0.25 * jnp.exp(exponent)


def _apply(matrix: Array, vector: Array) -> Array:
    return jnp.einsum("ade,ae->ad", matrix, vector)


def _frequency_or_mean(kernel: ConvolutionalSpectral | FullConvolutionalSpectral) -> None:
    if (kernel.frequency is None) == (kernel.mean is None):
        raise TypeError(f"{type(kernel).__name__} takes either frequency (ω) or mean (the paper's μ = Σω), exactly one")
