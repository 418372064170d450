"""Readings: what one looks at in a model, as functions of a model with raw parameters.

They are modules whose arrays are leaves, so that readings of equal shapes share one compiled program. A ``Posterior``
evaluates a reading at its draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr, stdtr

from ..core import Module
from ..kernels import Local
from ..models import Moments
from ..spectra import LocalSpectrum, line_scale, local_frequency, local_spectrum, spectrogram
from .band import Band
from .quantiles import mixture_band


class Prediction(NamedTuple):
    """Moments of the ``function`` and of new ``output`` s, and the ``log_density [t]`` of given outputs (or None).

    ``bands`` are those of the function and of new outputs, where a level was given.
    """

    function: Moments
    output: Moments
    log_density: Any
    bands: tuple[Band, Band] | None = None

    def mixed(self, level: float | None = None, freedom: float = np.inf, exponent: float | None = None) -> Prediction:
        """Of the mixture, in equal shares, of predictions ``[s, t]``, with the bands of a level.

        Args:
            level: Probability of the central intervals; None for no bands.
            freedom: Degrees of freedom of outputs around each prediction; infinite for normal ones.
            exponent: If given, the moments are those of exp(exponent · f) and exp(exponent · y), for normal f and y.
        """
        function, output = self.function, self.output
        if exponent is not None:
            function, output = function.exponential(exponent), output.exponential(exponent)
        return Prediction(
            function.mixed(),
            output.mixed(),
            None if self.log_density is None else log_mean_density(self.log_density),
            None if level is None else (mixture_band(self.function, level), mixture_band(self.output, level, freedom)),
        )


def mixture_covariance(
    parts: Iterable[tuple[Any, np.ndarray, np.ndarray]], *, noise: bool = True, exponent: float | None = None
) -> np.ndarray:
    """Covariance ``[t, t]`` of a mixture, in equal shares, of normal distributions of values with noise.

    Args:
        parts: Means ``[s, t]``, covariances without the noise ``[s, t, t]``, and variances of the noise ``[s, t]``, of
            some of them after the other, since all covariances may be more than memory holds.
        noise: Whether there is noise, or these variances are left out.
        exponent: If given, the covariance is that of exp(exponent · value).
    """
    means, inside = [], np.zeros(())
    for mean, covariance, own in parts:
        own = own if noise else np.zeros_like(own)
        if exponent is None:
            inside = inside + np.sum(covariance, axis=0) + np.diag(np.sum(own, axis=0))
        else:
            variance: Any = np.diagonal(covariance, axis1=1, axis2=2) + own
            mean = np.asarray(Moments(mean, variance).exponential(exponent).mean)
            for m, around, extra in zip(mean, covariance, own, strict=True):
                inside = inside + np.outer(m, m) * np.expm1(exponent**2 * (around + np.diag(extra)))
        means.append(mean)
    apart = np.concatenate(means)
    apart = apart - np.mean(apart, axis=0)
    return np.asarray((inside + apart.T @ apart) / len(apart))


def log_mean_density(log_densities: Any) -> Any:
    """Log density of a mixture, from the ``log_densities [s, ...]`` of its parts: the log of their mean density."""
    return logsumexp(log_densities, axis=0) - np.log(len(log_densities))


class Outputs(Module):
    """A ``Prediction`` at inputs.

    Args:
        data: What ``model.prepare(data, X)`` gives.
        X: Inputs ``[t, d]``.
        error: Known standard deviations of the outputs, ``[t]`` or one number.
        y: Outputs ``[t]`` whose log density is wanted, or None.
    """

    data: Any
    X: Any
    error: Any
    y: ArrayLike | None = None

    def __call__(self, model: Any) -> Prediction:
        model, X = model.realise(), jnp.asarray(self.X)
        f = model.moments(self.data, X)
        likelihood, scale = model.noise_at(X, self.error)
        density = None if self.y is None else likelihood.log_predictive_density(jnp.asarray(self.y), f, scale)
        return Prediction(f, likelihood.output(f, scale), density)


class JointOutputs(Module):
    """Mean ``[t]`` and covariance ``[t, t]`` of f given ``data`` at inputs ``X [t, d]``, and the noise variance."""

    data: Any
    X: Any

    def __call__(self, model: Any) -> tuple[Array, Array, Array]:
        model, X = model.realise(), jnp.asarray(self.X)
        f = model.moments(self.data, X)
        likelihood, scale = model.noise_at(X, 0.0)
        noise = likelihood.output(f, scale).variance - f.variance
        return f.mean, model.joint_covariance(self.data, X), noise


class Components(Module):
    """Moments ``[a, t]`` of every component of f given ``data`` at inputs ``X [t, d]``."""

    data: Any
    X: Any

    def __call__(self, model: Any) -> Moments:
        moments: Moments = model.realise().every_component(self.data, jnp.asarray(self.X))
        return moments


class LocalFrequency(Module):
    """Local frequencies at ``X``, in cycles per unit: ``[n, a]`` without a sign for one input, else ``[n, a, d]``."""

    X: Any

    def __call__(self, model: Any) -> Array:
        frequency = local_frequency(model.realise().kernel, self.X)
        return frequency if self.X.shape[1] > 1 else jnp.abs(frequency[..., 0])


class Spectrogram(Module):
    """The kernel's spectrogram ``[n, m]``.

    ``X``, ``frequency``, ``axis``, ``slice_at`` and ``resolution`` as ``spectrogp.spectrogram`` has them.
    """

    X: Any
    frequency: Any
    axis: int | None = eqx.field(static=True, default=None)
    slice_at: ArrayLike | None = None
    resolution: Any = 0.0

    def __call__(self, model: Any) -> Array:
        return spectrogram(
            model.realise().kernel,
            self.X,
            self.frequency,
            axis=self.axis,
            slice_at=self.slice_at,
            resolution=self.resolution,
        )


class LatentFunctions(Module):
    """Values at inputs ``X [n, d]`` of the kernel's functions, by name, such as ``lengthscale [n, a, d]``."""

    X: Any

    def __call__(self, model: Any) -> dict[str, Array]:
        local = model.realise().kernel.local(jnp.asarray(self.X))
        return {name: values for name, values in vars(local).items() if name != "x"} if _is_plain(local) else {}


class LocalFunctions(Module):
    """The local spectrum at inputs ``X [n, d]``, and the latent functions."""

    X: Any

    def __call__(self, model: Any) -> tuple[LocalSpectrum, dict[str, Array]]:
        model = model.realise()
        return local_spectrum(model.kernel, jnp.asarray(self.X)), LatentFunctions(self.X)(model)


class LocalDraws(NamedTuple):
    """What a kernel says at n inputs, at s draws: the components of its local spectrum, in cycles per unit.

    Variance ``weight [s, n, a]``, ``frequency [s, n, a, d]``, the standard deviation ``bandwidth [s, n, a, d]`` around
    it; ``lengthscale [s, n, a, d]``, or None for a kernel without one; and the degrees of ``freedom [s, n, a]`` of the
    line, infinite for a Gaussian one.
    """

    weight: Any
    frequency: Any
    bandwidth: Any
    lengthscale: Any
    freedom: Any

    @classmethod
    def of(cls, values: tuple[LocalSpectrum, dict[str, np.ndarray]]) -> LocalDraws:
        """From the ``values`` that ``LocalFunctions`` gives at draws."""
        spectrum, functions = values
        # With one input the sign of a frequency says nothing.
        frequency = np.abs(spectrum.frequency) if spectrum.frequency.shape[-1] == 1 else spectrum.frequency
        length = functions.get("lengthscale")
        length = None if length is None else np.broadcast_to(length, frequency.shape)
        weight, bandwidth, freedom = map(np.asarray, (spectrum.weight, spectrum.bandwidth, spectrum.freedom))
        return cls(weight, np.asarray(frequency), bandwidth, length, freedom)

    def in_units(self, x: np.ndarray, y: float | np.float64) -> LocalDraws:
        """For inputs measured in units that are 1/x ``[d]`` as large, and outputs in units that are 1/y as large."""
        length = None if self.lengthscale is None else self.lengthscale * x
        return LocalDraws(self.weight * y**2, self.frequency / x, self.bandwidth / x, length, self.freedom)

    @property
    def amplitude(self) -> np.ndarray:
        """Standard deviation of a component, ``[s, n, a]``."""
        return np.sqrt(np.maximum(self.weight, 0.0))

    def density(self, edges: np.ndarray, axis: int = 0) -> np.ndarray:
        """The posterior mean of the spectrogram along input ``axis``, ``[n, m]``: its mean in each cell between edges.

        Means over cells, since the ridge of a coherent oscillation is narrower than a cell, and values between them
        would miss it.
        """
        total = np.zeros((self.weight.shape[1], len(edges) - 1))
        scale = line_scale(self.bandwidth[..., axis], self.freedom)
        for w, f, b, k in zip(self.weight, self.frequency[..., axis], scale, self.freedom, strict=True):
            for sign in (1.0, -1.0):  # a component and its mirror image
                below = _below((edges - sign * f[..., None]) / b[..., None], k)
                total += 0.5 * np.sum(w[..., None] * np.diff(below, axis=-1), axis=1)
        return np.asarray(total / (len(self.weight) * np.diff(edges)))


def _is_plain(local: Any) -> bool:
    """Whether local parameters are those of one kernel, and not of several."""
    return isinstance(local, Local)


def _below(z: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """Distribution function ``[n, a, e]`` of standard Student-t or, with infinite ``freedom [n, a]``, normal ones."""
    below = np.empty_like(z)
    for each in np.unique(freedom):
        chosen = freedom == each
        t = z[chosen] / np.sqrt(each) if np.isfinite(each) else z[chosen]
        # Those of Matérn lines in closed form, five times as fast as SciPy's for any freedom.
        terms = {1.0: 0.0, 3.0: t / (1.0 + t**2), 5.0: t / (1.0 + t**2) * (1.0 + 2.0 / (3.0 * (1.0 + t**2)))}
        if np.isinf(each):
            below[chosen] = ndtr(t)
        elif each in terms:
            below[chosen] = 0.5 + (np.arctan(t) + terms[each]) / np.pi
        else:
            below[chosen] = stdtr(each, z[chosen])
    return below
