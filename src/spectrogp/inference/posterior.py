"""Draws from the posterior of a model, whichever way they were made, and prediction by mixing over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp, ndtr, ndtri

from ..functions import inputs
from ..likelihoods import Gaussian, Moments
from ..models import DoublyStochasticGP
from ..numerics import entry_point
from ..parameters import Role, partition
from ..sampling import as_key
from ..spectra import local_spectrum, spectrogram

_MOST = 400  # draws that a prediction mixes over, unless told otherwise
_LEVELS = (0.05, 0.5, 0.95)
_HALVINGS = 60  # of the bracket of a quantile, down to the last digit of a float64


class Summary(NamedTuple):
    """Mean ``[...]`` and quantiles ``[levels, ...]`` of a quantity over the posterior."""

    mean: Array
    quantiles: Array


class Posterior(eqx.Module):
    """Draws of a model's raw parameters, ``[chains, draws, ...]`` each, and the rest of the model.

    ``log_joint [chains, draws]`` belongs to each draw (an estimate where the sampler used minibatches);
    ``statistics`` are what the sampler says of each draw, under the names that arviz uses.

    Predictions are those of the mixture of the models at the draws. They use at most ``most`` draws, evenly spaced in
    every chain, so that their cost does not grow with the length of the chains.
    """

    draws: Any
    rest: Any
    log_joint: np.ndarray
    statistics: dict[str, np.ndarray]
    interrupted: bool = eqx.field(static=True)

    @staticmethod
    def of_variational(bound: DoublyStochasticGP, data: Any, *, draws: int, key: Any) -> Posterior:
        """Independent draws from q of a fitted doubly stochastic bound, as one chain."""
        free, log_joint, rest = _of_variational(bound, data, _at_least_one(draws, "draws"), key)
        return Posterior(free, rest, log_joint, {}, False)

    def at(self, chain: int, draw: int) -> Any:
        """The model at one draw."""
        return eqx.combine(jax.tree.map(lambda leaf: leaf[chain, draw], self.draws), self.rest)

    def thinned(self, most: int) -> Posterior:
        """At most so many of the draws (but one of every chain at least), evenly spaced in the chains."""
        chains, length = self.log_joint.shape
        if length == 0:
            raise ValueError("there are no draws: the run was interrupted before the first one")
        count = min(length, max(1, _at_least_one(most, "most") // chains))
        # The middles of equal stretches: neither the start of a chain nor its end counts more.
        index = ((np.arange(count) + 0.5) * length / count).astype(int)
        parts = (self.draws, self.log_joint, self.statistics)
        draws, log_joint, statistics = jax.tree.map(lambda leaf: leaf[:, index], parts)
        return Posterior(draws, self.rest, log_joint, statistics, self.interrupted)

    @entry_point
    def map(self, function: Callable[[Any], Any]) -> Any:
        """``function(model)`` at every draw, stacked ``[chains, draws, ...]``; compiled once for each function.

        The models have raw parameters, as ``at`` gives them: ``posterior.map(lambda m: m.predict(data, X))``.
        """
        shape = self.log_joint.shape
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.draws)
        # Flat outside the program, which is then the same for any chains and draws that are as many together.
        values = _map(function, flat, self.rest)
        return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), values)

    # Prediction

    @entry_point
    def predict(self, data: Any, X: Any, *, most: int = _MOST) -> Moments:
        """Mean and variance of the function f at inputs ``X [t, d]``, by the laws of total mean and variance."""
        return _mixed(self._at_draws(_Predict(data, inputs(X)), most))

    @entry_point
    def predict_output(self, data: Any, X: Any, error: Any = 0.0, *, most: int = _MOST) -> Moments:
        """Mean and variance of outputs y at inputs ``X [t, d]``, noise included, with known error bars ``[t]``."""
        return _mixed(self._at_draws(_PredictOutput(data, inputs(X), jnp.asarray(error)), most))

    @entry_point
    def log_predictive_density(self, data: Any, X: Any, y: Any, error: Any = 0.0, *, most: int = _MOST) -> Array:
        """log p(y | data) of each output ``y [t]``: the logarithm of the mean density, not the mean of logarithms."""
        densities = self._at_draws(_LogDensity(data, inputs(X), jnp.asarray(y), jnp.asarray(error)), most)
        return logsumexp(densities, axis=0) - math.log(len(densities))

    @entry_point
    def quantiles(self, data: Any, X: Any, levels: Any = _LEVELS, *, most: int = _MOST) -> Array:
        """Quantiles ``[levels, t]`` of the function f at inputs ``X [t, d]``."""
        return _mixture_quantiles(self._at_draws(_Predict(data, inputs(X)), most), _checked(levels))

    @entry_point
    def quantiles_output(
        self, data: Any, X: Any, levels: Any = _LEVELS, error: Any = 0.0, *, most: int = _MOST
    ) -> Array:
        """Quantiles ``[levels, t]`` of outputs y at inputs ``X [t, d]``, their Gaussian noise included."""
        if not isinstance(self.rest.likelihood, Gaussian):
            raise TypeError(
                f"quantiles of outputs are for Gaussian noise, got {type(self.rest.likelihood).__name__}; "
                "quantiles gives those of f"
            )
        outputs = self._at_draws(_PredictOutput(data, inputs(X), jnp.asarray(error)), most)
        return _mixture_quantiles(outputs, _checked(levels))

    @entry_point
    def draw(self, data: Any, X: Any, *, key: Any, num_samples: int = 1) -> Array:
        """Draws ``[s, t]`` of f at inputs ``X [t, d]``: a random draw of the parameters, then f jointly given it."""
        of_parameters, of_functions = jax.random.split(as_key(key))
        count = _at_least_one(num_samples, "num_samples")
        chain, draw = jnp.divmod(
            jax.random.randint(of_parameters, (count,), 0, self.log_joint.size), self.log_joint.shape[1]
        )
        chosen = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chain, draw], self.draws)
        return _draw(chosen, self.rest, jax.random.split(of_functions, count), data, inputs(X))

    # What the models at the draws say of themselves

    @entry_point
    def summary(self, function: Callable[[Any], Any], levels: Any = _LEVELS, *, most: int = _MOST) -> Summary:
        """Posterior mean and quantiles of ``function(model)``, any array made from a model (with raw parameters).

        ``posterior.summary(lambda m: m.enter().kernel.lengthscale(X))`` gives the lengthscales ``[n, a, d]``.
        """
        values = self._at_draws(function, most)
        return Summary(jnp.mean(values, axis=0), jnp.quantile(values, _checked(levels), axis=0))

    def spectrogram(
        self, X: Any, frequency: Any, levels: Any = _LEVELS, *, most: int = _MOST, **options: Any
    ) -> Summary:
        """Posterior mean ``[n, m]`` and quantiles of the kernel's spectrogram; options as ``spectrogram`` has them."""
        return self.summary(_Spectrogram(np.asarray(X), np.asarray(frequency), options), levels, most=most)

    def local_frequency(self, X: Any, levels: Any = _LEVELS, *, most: int = _MOST) -> Summary:
        """Posterior mean ``[n, a, d]`` and quantiles of the local frequency of every component, in cycles per unit.

        A component means the same in all draws only as long as the chains do not exchange components.
        """
        return self.summary(_LocalFrequency(np.asarray(X)), levels, most=most)

    def _at_draws(self, function: Callable[[Any], Any], most: int) -> Any:
        """``function(model)`` at some of the draws of all chains, ``[s, ...]``."""
        values = self.thinned(most).map(function)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), values)


# Functions of a model as modules: their arrays are leaves, so that calls of equal shapes share one compiled program.


class _Predict(eqx.Module):
    data: Any
    X: Any

    def __call__(self, model: Any) -> Moments:
        return model.predict(self.data, self.X)


class _PredictOutput(eqx.Module):
    data: Any
    X: Any
    error: Any

    def __call__(self, model: Any) -> Moments:
        return model.predict_output(self.data, self.X, self.error)


class _LogDensity(eqx.Module):
    data: Any
    X: Any
    y: Any
    error: Any

    def __call__(self, model: Any) -> Array:
        return model.log_predictive_density(self.data, self.X, self.y, self.error)


class _LogJoint(eqx.Module):
    data: Any
    key: Array

    def __call__(self, model: Any) -> Array:
        return model.log_joint(self.data, self.key)


class _Spectrogram(eqx.Module):
    X: Any
    frequency: Any
    options: dict[str, Any]

    def __call__(self, model: Any) -> Array:
        return spectrogram(model.enter().kernel, self.X, self.frequency, **self.options)


class _LocalFrequency(eqx.Module):
    X: Any

    def __call__(self, model: Any) -> Array:
        return local_spectrum(model.enter().kernel, self.X).frequency


@eqx.filter_jit
def _map(function: Callable[[Any], Any], draws: Any, rest: Any) -> Any:
    return jax.lax.map(lambda free: function(eqx.combine(free, rest)), draws)


@eqx.filter_jit
def _draw(draws: Any, rest: Any, keys: Array, data: Any, X: Array) -> Array:
    return jax.lax.map(lambda pair: eqx.combine(pair[0], rest).draw(data, X, key=pair[1])[0], (draws, keys))


@entry_point
def _of_variational(bound: DoublyStochasticGP, data: Any, draws: int, key: Any) -> tuple[Any, Any, Any]:
    """Draws ``[1, draws, ...]``, the log joint density at each, and the rest of the model."""
    keys = jax.random.split(as_key(key), draws)
    free = eqx.filter_jit(jax.vmap(lambda key: partition(bound.sampled(key), "latent")[0]))(keys)
    rest = partition(bound.model, "latent")[1]
    log_joint = _map(_LogJoint(data, keys[0]), free, rest)
    return *jax.tree.map(lambda leaf: leaf[None], (free, log_joint)), rest


def _mixed(parts: Moments) -> Moments:
    """Mean and variance of a mixture of distributions with moments ``[s, t]``, all of the same weight."""
    mean, variance = parts
    return Moments(jnp.mean(mean, axis=0), jnp.mean(variance, axis=0) + jnp.var(mean, axis=0))


def _mixture_quantiles(parts: Moments, levels: Array) -> Array:
    """Quantiles ``[levels, t]`` of a mixture of normal distributions with moments ``[s, t]``, by bisection."""
    mean, deviation = jnp.asarray(parts.mean), jnp.sqrt(jnp.asarray(parts.variance))

    def quantile(level: Array) -> Array:
        # A quantile of the mixture lies between the smallest and the largest of its parts.
        ends = mean + ndtri(level) * deviation

        def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = 0.5 * (low + high)
            below = jnp.mean(ndtr((middle - mean) / deviation), axis=0) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.min(ends, axis=0), jnp.max(ends, axis=0)))
        return 0.5 * (low + high)

    return jax.lax.map(quantile, levels)


def _checked(levels: Any) -> Array:
    array = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if array.ndim != 1 or not np.all((array > 0.0) & (array < 1.0)):
        raise ValueError(f"levels must be numbers between 0 and 1, got {levels!r}")
    return jnp.asarray(array)


def _at_least_one(value: int, name: str) -> int:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)


def starts(model: Any, roles: tuple[Role, ...], chains: int, jitter: float, key: Array) -> tuple[Any, Any]:
    """Where the chains start, ``[chains, ...]``: the model as it is plus normal jitter in raw numbers; and the rest."""
    if chains < 1:
        raise ValueError(f"chains must be at least 1, got {chains}")
    free, rest = partition(model, *roles)
    leaves, structure = jax.tree.flatten(free)
    if not leaves:
        raise ValueError(f"the model has no parameters with a role among {', '.join(map(repr, roles))}")
    keys = jax.random.split(key, len(leaves))
    moved = [
        jnp.asarray(leaf) + jitter * jax.random.normal(k, (chains, *np.shape(leaf)), jnp.asarray(leaf).dtype)
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, moved), rest


def by_chain(records: Any, skip: int) -> Any:
    """Records ``[steps, chains, ...]`` of a loop as ``[chains, draws, ...]``, without the first ones."""
    return jax.tree.map(lambda leaf: np.swapaxes(leaf[skip:], 0, 1), records)
