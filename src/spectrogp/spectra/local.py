"""Spectrograms: how the frequency content of a kernel changes over its inputs.

The exact distribution over inputs x and frequencies s (cycles per input unit) is the Wigner transform

    W(x, s) = ∫ k(x + t/2, x − t/2) exp(−2πi⟨s, t⟩) dt

and the spectrogram is its local approximation, read off the lag function t ↦ (σ, D, U)(x + t/2, x − t/2) at t = 0:

    ξ = ∂U/∂t    Λ = ½ ∂²D/∂t∂tᵀ    Ŵ(x, s) = Σ_a σ cos U · ½[N(s | ξ/2π, Λ/4π²) + N(s | −ξ/2π, Λ/4π²)]

Shen, Heinonen & Kaski (2020), Eqs. 16–21. Differs from the paper: Λ carries the factor ½ of a second-order expansion,
and the covariance is Λ/(4π²), not Λ/(2π²); only so are stationary kernels exact and the paper's own Table 1 true.
Both transforms are two-sided densities: their integral over all s is k(x, x).

A Matérn envelope is not Gaussian, nor is its line: along one axis that is a Student-t density with k = 2ν degrees of
freedom (Rasmussen & Williams 2006, Eq. 4.15), whose squared scale is C(k − 2)/k for the covariance C = Λ/4π². For k ≤ 2
it has no variance, since D has no second derivative, and the squared scale itself stands in the place of C. With such a
density for N stationary Matérn kernels are exact too.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import entry_point, inputs, require, traced
from ..kernels import AbstractKernel, Characteristic
from ..parameters import constrain


class LocalSpectrum(NamedTuple):
    """The components of the local spectrum at each input, Gaussian or Student-t, in cycles per input unit.

    ``weight`` ``[n, a]`` is the share of the variance k(x, x) (of a cross term it can be negative), ``frequency``
    ``[n, a, d]`` the centre and ``covariance`` ``[n, a, d, d]`` the spread of the component and of its mirror image;
    ``freedom`` ``[n, a]`` are its degrees of freedom, infinite for a Gaussian one. With two or fewer there is no
    covariance, and the squared scale is in its place.
    """

    weight: Array
    frequency: Array
    covariance: Array
    freedom: Array

    @property
    def xi(self) -> Array:
        """ξ ``[n, a, d]``: the local angular frequency."""
        return 2.0 * math.pi * self.frequency

    @property
    def Lambda(self) -> Array:
        """Λ ``[n, a, d, d]``: the curvature of the lag function, in squared angular frequency."""
        return 4.0 * math.pi**2 * self.covariance

    @property
    def bandwidth(self) -> Array:
        """Standard deviations ``[n, a, d]`` along each axis (with two degrees of freedom or fewer, scales)."""
        return self.covariance.diagonal(axis1=-2, axis2=-1) ** 0.5


@entry_point
def local_spectrum(kernel: AbstractKernel, X: ArrayLike) -> LocalSpectrum:
    """Weight, centre and covariance of every component of the kernel's spectrum.

    Args:
        kernel: Any kernel; functions with priors are at their conditional means.
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
    """
    return _local_spectrum(constrain(kernel), inputs(X))


@entry_point
def spectrogram(
    kernel: AbstractKernel,
    X: ArrayLike,
    frequency: ArrayLike,
    *,
    axis: int | None = None,
    slice_at: ArrayLike | None = None,
    resolution: float = 0.0,
) -> Array:
    """Approximate Wigner distribution Ŵ ``[n, m]``: a two-sided density, in squared output units per cycle per unit.

    Args:
        kernel: Any kernel; functions with priors are at their conditional means.
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
        frequency: In cycles per input unit: ``[m]`` for one input dimension, wavevectors ``[m, d]`` in general.
        axis: For d > 1, with ``frequency [m]``: the marginal density along this input.
        slice_at: A wavevector ``[d]``: the slice along ``axis`` through it, instead of the marginal.
        resolution: Standard deviation, in cycles per unit, of a Gaussian that blurs the density, as a measurement
            would; needed where a component has no width of its own, such as a warp at rest. Student-t components stay
            such, with a scale that has grown by it.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> k = sg.kernels.SpectralMixture(lengthscale=1.0, frequency=2 * np.pi * 3.0)
        >>> s = np.linspace(0.0, 6.0, 601)
        >>> float(s[np.argmax(sg.spectrogram(k, [0.0], s))])
        3.0
    """
    X = inputs(X)
    s = wavevectors(frequency, X.shape[1], axis, slice_at)
    kernel = constrain(kernel)
    spectrum = _local_spectrum(kernel, X)
    centre, covariance = spectrum.frequency, spectrum.covariance
    if axis is not None and slice_at is None:
        centre, covariance = centre[..., axis, None], covariance[..., axis, None, axis, None]
    covariance = covariance + resolution**2 * jnp.eye(s.shape[1], dtype=X.dtype)
    _require_density(covariance)
    freedom = _freedom(kernel, X)
    if s.shape[1] > 1 or np.all(np.isinf(freedom)):
        return _density(spectrum.weight, centre, covariance, s)
    scale = line_scale(jnp.sqrt(covariance[..., 0, 0]), freedom)
    return _line_density(spectrum.weight, centre[..., 0], scale, s[:, 0], tuple(freedom.tolist()))


def line_scale(bandwidth: Any, freedom: Any) -> Any:
    """Scales ``[..., a]`` of Student-t densities of one axis, from their standard deviations; those of Gaussian ones.

    Args:
        bandwidth: Standard deviations ``[..., a]``, or scales where there are two degrees of freedom or fewer.
        freedom: Degrees of freedom, broadcast to it.
    """
    some = np.isfinite(freedom) & (freedom > 2.0)
    return bandwidth * np.where(some, 1.0 - 2.0 / np.where(some, freedom, np.inf), 1.0) ** 0.5


@entry_point
def local_frequency(kernel: AbstractKernel, X: ArrayLike) -> Array:
    """Centres ``[n, a, d]`` of the components of ``local_spectrum``, in cycles per unit, and nothing else.

    Args:
        kernel: Any kernel; functions with priors are at their conditional means.
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension.
    """
    return _local_frequency(constrain(kernel), inputs(X))


@eqx.filter_jit
def _local_frequency(kernel: AbstractKernel, X: Array) -> Array:
    def at(x: Array) -> Array:
        return jax.jacfwd(lambda t: _lag(kernel, x, t).phase)(jnp.zeros_like(x)) / (2.0 * math.pi)

    return jax.vmap(at)(X)


def _lag(kernel: AbstractKernel, x: Array, t: Array) -> Characteristic:
    """(σ, D, U)(x + t/2, x − t/2), ``[a]`` each."""
    ends = kernel.local(jnp.stack([x + 0.5 * t, x - 0.5 * t]))
    return kernel.pair(_at(ends, 0), _at(ends, 1))


def _at(local: Any, row: int) -> Any:
    """Local parameters of one of several inputs."""
    return jax.tree.map(lambda leaf: leaf[row], local)


def _freedom(kernel: AbstractKernel, X: Array) -> np.ndarray:
    """Degrees of freedom ``[a]`` of the lines of a kernel; they belong to its form and are known inside ``jit``."""
    found: list[np.ndarray] = []
    jax.eval_shape(lambda X: found.append(kernel.line_freedom(kernel.local(X))), X[:1])
    return found[0]


@eqx.filter_jit
def _local_spectrum(kernel: AbstractKernel, X: Array) -> LocalSpectrum:
    def at(x: Array) -> LocalSpectrum:
        # D is zero where both inputs are the same, and least: the functions enter by their slopes alone, and the many
        # second derivatives are those of the pair.
        middle, slope_of = jax.linearize(lambda x: _at(kernel.local(x[None]), 0), x)

        def lag(t: Array) -> Characteristic:
            step = slope_of(0.5 * t)
            return kernel.pair(jax.tree.map(jnp.add, middle, step), jax.tree.map(jnp.subtract, middle, step))

        def slopes(t: Array) -> tuple[Characteristic, tuple[Characteristic, Characteristic]]:
            slope, value = jax.jacfwd(lambda t: (lag(t),) * 2, has_aux=True)(t)
            return slope, (slope, value)

        # Value, first and second derivatives of one trace, which takes longer than the program.
        bend, (slope, centre) = jax.jacfwd(slopes, has_aux=True)(jnp.zeros_like(x))
        xi, Lambda = slope.phase, 0.5 * bend.distance
        # A symmetric kernel's odd parts in t cancel between its components, so the phase at t = 0 acts as a cosine.
        weight = centre.amplitude * jnp.exp(-0.5 * centre.distance) * jnp.cos(centre.phase)
        freedom = jnp.asarray(kernel.line_freedom(kernel.local(x[None])), x.dtype)
        return LocalSpectrum(weight, xi / (2.0 * math.pi), Lambda / (4.0 * math.pi**2), freedom)

    return jax.vmap(at)(X)


def wavevectors(frequency: ArrayLike, d: int, axis: int | None, slice_at: ArrayLike | None) -> Array:
    """Check frequencies and bring them to ``[m, d]``, or ``[m, 1]`` for a marginal."""
    s = jnp.asarray(frequency, dtype=float)
    require(jnp.isfinite(s), s, "frequency", "finite")
    if axis is None:
        if slice_at is not None:
            raise ValueError("slice_at needs axis, the direction of the slice")
        s = s[:, None] if s.ndim == 1 and d == 1 else s
        if s.ndim != 2 or s.shape[1] != d:
            hint = "" if d == 1 else "; for one axis of several pass axis=j with frequency [m]"
            raise ValueError(f"frequency must have shape [m, d] with d = {d}, got {list(s.shape)}{hint}")
        return s
    if not 0 <= axis < d:
        raise ValueError(f"axis must be between 0 and {d - 1}, got {axis}")
    if s.ndim != 1:
        raise ValueError(f"frequency must have shape [m] when axis is given, got {list(s.shape)}")
    if slice_at is None:
        return s[:, None]
    base = jnp.asarray(slice_at, dtype=float)
    if base.shape != (d,):
        raise ValueError(f"slice_at must be a wavevector [d] with d = {d}, got shape {list(base.shape)}")
    return jnp.broadcast_to(base, (s.shape[0], d)).at[:, axis].set(s)


def _require_density(covariance: Array) -> None:
    """A component whose spectrum has no width in some direction has no density: say so instead of dividing by zero."""
    if traced(covariance):
        return
    eigenvalues = np.linalg.eigvalsh(np.asarray(covariance))
    flat = ~(eigenvalues[..., 0] > 1e-14 * np.max(eigenvalues, initial=0.0))
    if flat.any():
        row, component = np.argwhere(flat)[0]
        raise ValueError(
            f"the local spectrum at row {row} of X, component {component}, has no width in some direction and so no "
            "density; pass resolution=… (cycles per input unit) to blur it, or axis=… for a marginal"
        )


@jax.jit
def _density(weight: Array, centre: Array, covariance: Array, s: Array) -> Array:
    """Σ_a w ½[N(s | c, C) + N(s | −c, C)] for weights ``[n, a]`` at wavevectors ``[m, d]``."""
    L = jnp.linalg.cholesky(covariance)
    norm = jnp.prod(math.sqrt(2.0 * math.pi) * jnp.diagonal(L, axis1=-2, axis2=-1), axis=-1)
    inverse = jnp.linalg.inv(L)

    def half(sign: float) -> Array:
        z = jnp.einsum("nade,name->namd", inverse, s - sign * centre[:, :, None, :])
        return jnp.exp(-0.5 * jnp.sum(z**2, axis=-1))

    return jnp.einsum("na,nam->nm", 0.5 * weight / norm, half(1.0) + half(-1.0))


@partial(jax.jit, static_argnums=4)
def _line_density(weight: Array, centre: Array, scale: Array, s: Array, freedom: tuple[float, ...]) -> Array:
    """The same of one axis, centres and scales ``[n, a]`` at frequencies ``[m]``, with Student-t densities."""
    total = jnp.zeros((weight.shape[0], s.shape[0]), weight.dtype)
    for a, k in enumerate(freedom):
        norm = 0.5 * weight[:, a] / scale[:, a]
        for sign in (1.0, -1.0):
            square = ((s - sign * centre[:, a, None]) / scale[:, a, None]) ** 2
            if math.isinf(k):
                shape = jnp.exp(-0.5 * square) / math.sqrt(2.0 * math.pi)
            else:
                factor = math.gamma(0.5 * k + 0.5) / (math.gamma(0.5 * k) * math.sqrt(k * math.pi))
                shape = factor * (1.0 + square / k) ** (-0.5 * (k + 1.0))
            total += norm[:, None] * shape
    return total
