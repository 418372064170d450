"""The model, what is simulated from it, and the draws that the library makes of its posterior."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from rich.console import Console
from rich.progress import track
from scipy.stats import multivariate_normal

from spectrogp.inference import NUTS, Run, bulk_ess, sample
from spectrogp.kernels import ConvolutionalSpectral
from spectrogp.models import Data, ExactGP
from spectrogp.parameters import FunctionGroup, LogNormal, Positive

from ..measure import Clock

QUANTITIES = ("lengthscale", "frequency", "function", "noise", "log likelihood")
_REACH = 6.0  # lengthscales that a basis function is integrated over to either side


class Settings(NamedTuple):
    """What a run does; the number of draws kept is one less than a multiple of the bins."""

    replications: int = 500
    control: int = 250  # replications of the control, whose fault is large enough for fewer
    warmup: int = 300
    kept: int = 99
    thin: int = 10
    bins: int = 20
    acceptance: float = 0.9


QUICK = Settings(replications=6, control=6, warmup=60, kept=19, thin=3, bins=2, acceptance=0.8)


# The model


class Problem(NamedTuple):
    """Where the data and the functions are known, and where they are asked for."""

    X: np.ndarray  # [n, 1]
    Z: np.ndarray  # [m, 1]
    star: np.ndarray  # [1, 1]


def problem() -> Problem:
    """Fourteen irregular inputs with a gap, which the place asked for lies in."""
    x = np.concatenate([np.linspace(-1.0, 0.1, 8), np.linspace(0.45, 1.0, 6)])
    x += 0.03 * np.sin(37.0 * np.arange(14))
    return Problem(x[:, None], np.linspace(-1.0, 1.0, 5)[:, None], np.array([[0.3]]))


def model(problem: Problem) -> ExactGP:
    """One component with a varying lengthscale and a varying frequency, and unknown noise; f is integrated out."""
    # Priors are arrays, not numbers: numbers would be part of the program, and a second prior would compile anew.
    lengthscale = FunctionGroup(problem.Z, 0.5, shape=(1, 1), lengthscale=0.8, amplitude=0.3, mean_std=0.3)
    frequency = FunctionGroup(problem.Z, 2.0 * np.pi * 1.2, shape=(1, 1), lengthscale=0.8, amplitude=0.2, mean_std=0.2)
    noise = Positive(0.3, LogNormal(np.asarray(0.3), np.asarray(0.4)))
    return ExactGP(ConvolutionalSpectral(lengthscale, frequency), noise)


def without_jacobian(model: ExactGP) -> ExactGP:
    """The same model with the Jacobian of the noise left out.

    A log-normal density without the factor d value / d raw is again log-normal, with its median exp(std²) times
    smaller.
    """
    prior = model.likelihood.noise.prior
    median = np.asarray(prior.median * np.exp(-(prior.std**2)))
    return eqx.tree_at(lambda m: m.likelihood.noise.prior.median, model, median)


# Parameters from the prior, data from the model: in NumPy, from the definitions


class Parameters(NamedTuple):
    """A draw from the prior: the functions at the inputs and, last, at x*, and the noise."""

    lengthscale: np.ndarray  # [n + 1]
    frequency: np.ndarray  # [n + 1]
    noise: float

    @classmethod
    def draw(cls, model: ExactGP, problem: Problem, rng: np.random.Generator) -> Parameters:
        """Only the numbers in the priors are read off the model."""
        x = np.concatenate([problem.X, problem.star])
        lengthscale = _function(model.kernel.lengthscale, x, rng)
        frequency = _function(model.kernel.frequency, x, rng)
        return cls(lengthscale, frequency, _log_normal(model.likelihood.noise.prior, rng))

    def basis(self, problem: Problem) -> np.ndarray:
        return _basis(np.concatenate([problem.X, problem.star]), self.lengthscale, self.frequency)

    def covariance(self, problem: Problem) -> np.ndarray:
        """Of the outputs, ``[n, n]``: of the basis functions on their grid, and of the noise."""
        K = self.basis(problem)[:-1]
        return (K @ K.conj().T).real + self.noise**2 * np.eye(len(K))


def simulate(model: ExactGP, problem: Problem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The quantities ``[5]`` that the ranks are of, and outputs y ``[n]``."""
    theta = Parameters.draw(model, problem, rng)
    K = theta.basis(problem)
    real, imaginary = rng.standard_normal((2, K.shape[1]))
    f = K.real @ real - K.imag @ imaginary
    y = f[:-1] + theta.noise * rng.standard_normal(len(problem.X))
    log_likelihood = multivariate_normal(cov=theta.covariance(problem)).logpdf(y)
    cycles = theta.frequency[-1] / (2.0 * np.pi)
    return np.array([theta.lengthscale[-1], cycles, f[-1], theta.noise, log_likelihood]), y


def _function(group: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """exp(m + h(x)), where h is interpolated by its Gaussian-process prior from a draw of its values at Z."""
    mean = group.mean.prior.mean + group.mean.prior.std * rng.standard_normal()
    lengthscale, amplitude = (_log_normal(p.prior, rng) for p in (group.lengthscale, group.amplitude))

    def covariance(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return amplitude**2 * np.exp(-0.5 * ((x - z.T) / lengthscale) ** 2)

    Kzz = covariance(group.inducing, group.inducing)
    h = rng.multivariate_normal(np.zeros(len(Kzz)), Kzz)
    return np.exp(mean.item() + covariance(x, group.inducing) @ np.linalg.solve(Kzz, h))


def _log_normal(prior: Any, rng: np.random.Generator) -> float:
    return float(prior.median * np.exp(prior.std * rng.standard_normal()))


def _basis(x: np.ndarray, lengthscale: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """Basis functions (πℓ²)^(−1/4) exp(−½((u − x)/ℓ)² + iω(u − x)) ``[n, g]`` on a grid, times the root of its cell."""
    centre, reach = x[:, 0], _REACH * lengthscale
    cell = np.pi / np.max(frequency + _REACH / lengthscale)  # fine enough for products of two of them
    t = np.arange(np.min(centre - reach), np.max(centre + reach), cell) - centre[:, None]
    exponent = -0.5 * (t / lengthscale[:, None]) ** 2 + 1j * frequency[:, None] * t
    return np.sqrt(cell) * (np.pi * lengthscale[:, None] ** 2) ** -0.25 * np.exp(exponent)


# Draws from the posterior, by the library


class Seen(eqx.Module):
    """The same quantities of a model at a draw of its parameters; of f the mean and the variance given the data.

    A module, so that the program is compiled once for all data.
    """

    data: Data
    star: Array

    def __call__(self, model: ExactGP) -> Array:
        realised = model.realise()
        mean, variance = realised.moments(self.data, self.star)
        values = [
            realised.kernel.lengthscale(self.star).ravel(),
            realised.kernel.frequency(self.star).ravel() / (2.0 * jnp.pi),
            mean,
            variance,
            realised.likelihood.noise[None],
            realised.log_likelihood(self.data, None)[None],
        ]
        return jnp.concatenate(values)


class Result(NamedTuple):
    """Of all replications: truth ``[r, q]``, thinned draws ``[r, L, q]``, and diagnostics."""

    truth: np.ndarray
    draws: np.ndarray
    ess: np.ndarray  # [r, q], of the draws before they are thinned
    divergences: np.ndarray  # [r]
    gradients: np.ndarray  # [r], a draw
    seconds: float  # of a processor


def replicate(simulated: ExactGP, sampled: ExactGP, settings: Settings, seed: int, index: int) -> tuple[Any, ...]:
    """One replication: a row of every array of ``Result``. It depends on its own index alone, not on those before."""
    where, rng = problem(), np.random.default_rng([seed, index])
    truth, y = simulate(simulated, where, rng)
    data = Data(where.X, y)
    draws = settings.kept * settings.thin
    posterior = sample(
        NUTS(warmup=settings.warmup, chains=1, acceptance=settings.acceptance),
        sampled,
        data,
        draws=draws,
        key=int(rng.integers(2**31)),
        run=Run(chunk=settings.warmup + draws),
        warn=False,  # one chain; its draws are judged over all replications
    )
    seen = posterior.map(Seen(data, where.star))[0]
    f = seen[:, 2] + np.sqrt(seen[:, 3]) * rng.standard_normal(len(seen))
    quantities = np.column_stack([seen[:, :2], f, seen[:, 4:]])
    return (
        truth,
        quantities[settings.thin - 1 :: settings.thin],
        bulk_ess(quantities[None]),
        np.sum(posterior.statistics["diverging"]),
        np.mean(posterior.statistics["n_steps"]),
    )


def run(simulated: ExactGP, sampled: ExactGP, settings: Settings, seed: int, count: int, description: str) -> Result:
    """Simulate from one model, sample the posterior of the other: the same, unless a wrong one is to be found out."""
    clock = Clock()
    indices = track(range(count), description, console=Console(stderr=True))
    rows = [replicate(simulated, sampled, settings, seed, index) for index in indices]
    return Result(*map(np.array, zip(*rows, strict=True)), clock.cpu)
