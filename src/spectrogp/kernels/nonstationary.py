"""Non-stationary kernels with input-dependent lengthscale and frequency: NSQ, GSM and CSK.

Throughout, with τ = x_i − x_j and sums and products over input dimensions,

    Q_ij = Σ τ² / (ℓ_i² + ℓ_j²)        ρ_ij = Π sqrt(2 ℓ_i ℓ_j / (ℓ_i² + ℓ_j²))
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .. import functions as fn
from . import pairwise
from .base import AbstractMixture, Characteristic
from .stationary import QuadraticLocal, SpectralLocal


class NonstationaryQuadratic(AbstractMixture):
    """Non-stationary quadratic (NSQ): Σ_a σ(x_i) σ(x_j) ρ_ij exp(−Q_ij/2).

    Gibbs (1997); Paciorek & Schervish (2004); Eq. 11 of Shen, Heinonen & Kaski (2020), diagonal Σ(x) = diag ℓ(x)².
    """

    lengthscale: fn.Parameter = eqx.field(converter=fn.as_lengthscale)
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)

    def local(self, X: Array) -> QuadraticLocal:
        return QuadraticLocal(x=X, **fn.evaluate(self, X, lengthscale=fn.lengthscale, amplitude=fn.amplitude))

    def pair(self, p: QuadraticLocal, q: QuadraticLocal) -> Characteristic:
        rho, Q = overlap(p.x, p.lengthscale, q.x, q.lengthscale)
        return Characteristic(p.amplitude * q.amplitude * rho, Q, jnp.zeros_like(Q))

    def cross(self, p: QuadraticLocal, q: QuadraticLocal) -> Array:
        return pairwise.windowed_cross(pairwise.Window(**p._asdict()), pairwise.Window(**q._asdict()))


class GeneralizedSpectralMixture(AbstractMixture):
    """Generalised spectral mixture (GSM): Σ_a σ(x_i) σ(x_j) ρ_ij exp(−Q_ij/2) cos(⟨ω_i, x_i⟩ − ⟨ω_j, x_j⟩).

    Remes, Heinonen & Kaski (2017). Its local frequency is ω(x) + J_ω(x)ᵀx, not ω(x): the kernel is biased
    wherever ω varies, and the more so the farther x lies from the origin.
    """

    lengthscale: fn.Parameter = eqx.field(converter=fn.as_lengthscale)
    frequency: fn.Parameter = eqx.field(converter=fn.as_frequency)
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)

    def local(self, X: Array) -> SpectralLocal:
        values = fn.evaluate(self, X, lengthscale=fn.lengthscale, frequency=fn.frequency, amplitude=fn.amplitude)
        return SpectralLocal(x=X, **values)

    def pair(self, p: SpectralLocal, q: SpectralLocal) -> Characteristic:
        rho, Q = overlap(p.x, p.lengthscale, q.x, q.lengthscale)
        U = jnp.sum(p.frequency * p.x - q.frequency * q.x, axis=-1)
        return Characteristic(p.amplitude * q.amplitude * rho, Q, U)

    def cross(self, p: SpectralLocal, q: SpectralLocal) -> Array:
        def window(local: SpectralLocal) -> pairwise.Window:
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
    """

    lengthscale: fn.Parameter = eqx.field(converter=fn.as_lengthscale)
    frequency: fn.Parameter | None = eqx.field(default=None, converter=fn.optional(fn.as_frequency))
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)
    mean: fn.Parameter | None = eqx.field(default=None, converter=fn.optional(fn.as_mean), kw_only=True)

    def __check_init__(self) -> None:
        _frequency_or_mean(self)

    def local(self, X: Array) -> SpectralLocal:
        if self.mean is None:
            values = fn.evaluate(self, X, lengthscale=fn.lengthscale, frequency=fn.frequency, amplitude=fn.amplitude)
        else:
            values = fn.evaluate(self, X, lengthscale=fn.lengthscale, mean=fn.frequency, amplitude=fn.amplitude)
            values["frequency"] = values.pop("mean") / values["lengthscale"] ** 2
        return SpectralLocal(x=X, **values)

    def pair(self, p: SpectralLocal, q: SpectralLocal) -> Characteristic:
        rho, Q = overlap(p.x, p.lengthscale, q.x, q.lengthscale)
        a, b = p.lengthscale**2, q.lengthscale**2
        U = jnp.sum((a * p.frequency + b * q.frequency) / (a + b) * (p.x - q.x), axis=-1)
        S = jnp.sum((p.frequency - q.frequency) ** 2 * (a / (a + b)) * b, axis=-1)
        return Characteristic(p.amplitude * q.amplitude * rho, Q + S, U)

    def cross(self, p: SpectralLocal, q: SpectralLocal) -> Array:
        return pairwise.windowed_cross(pairwise.Window(**p._asdict()), pairwise.Window(**q._asdict()))

    def basis(self, p: SpectralLocal, u: Array) -> Array:
        """K_x(u) of one input at one point u: complex ``[a]``, of unit norm times the amplitude.

        K_x(u) = σ Π (π ℓ²)^(−1/4) exp(−½((u − x)/ℓ)² + iω(u − x)); Eq. 3 of the paper, normalised.
        """
        return window(u - p.x, p.lengthscale, p.frequency, jnp.zeros_like(p.frequency), p.amplitude)


class FullLocal(NamedTuple):
    """Inputs ``[n, d]``, matrices Σ ``[n, a, d, d]``, log|Σ| and amplitudes ``[n, a]``, frequencies ``[n, a, d]``."""

    x: Array
    covariance: Array
    log_determinant: Array
    frequency: Array
    amplitude: Array


class FullConvolutionalSpectral(AbstractMixture):
    """Convolutional spectral kernel with full matrices Σ(x): the same form as ``ConvolutionalSpectral``, with

        ρ_ij = |Σ_i|^¼ |Σ_j|^¼ / |(Σ_i + Σ_j)/2|^½         Q_ij = τᵀ (Σ_i + Σ_j)⁻¹ τ
        ω_ij = (Σ_i + Σ_j)⁻¹ (Σ_i ω_i + Σ_j ω_j)           S_ij = (ω_i − ω_j)ᵀ (Σ_i⁻¹ + Σ_j⁻¹)⁻¹ (ω_i − ω_j)

    Shen, Heinonen & Kaski (2020), Eqs. 6–10 as printed there. ``covariance`` gives Σ(x), ``[d, d]`` or ``[a, d, d]``;
    ``mean`` instead of ``frequency`` is the paper's μ = Σω.
    """

    covariance: fn.Parameter = eqx.field(converter=fn.as_covariance)
    frequency: fn.Parameter | None = eqx.field(default=None, converter=fn.optional(fn.as_frequency))
    amplitude: fn.Parameter = eqx.field(default=1.0, converter=fn.as_amplitude)
    mean: fn.Parameter | None = eqx.field(default=None, converter=fn.optional(fn.as_mean), kw_only=True)

    def __check_init__(self) -> None:
        _frequency_or_mean(self)

    def local(self, X: Array) -> FullLocal:
        if self.mean is None:
            values = fn.evaluate(self, X, covariance=fn.covariance, frequency=fn.frequency, amplitude=fn.amplitude)
        else:
            values = fn.evaluate(self, X, covariance=fn.covariance, mean=fn.frequency, amplitude=fn.amplitude)
            values["frequency"] = jnp.linalg.solve(values["covariance"], values.pop("mean")[..., None])[..., 0]
        return FullLocal(x=X, log_determinant=jnp.linalg.slogdet(values["covariance"])[1], **values)

    def pair(self, p: FullLocal, q: FullLocal) -> Characteristic:
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
