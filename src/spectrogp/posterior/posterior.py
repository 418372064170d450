"""Draws from the posterior of a model, whichever way they were made, and readings of the models at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from ..core import Key, Module, as_key, at_least, inputs, plain_inputs, traced
from ..models import Gaussian, Moments, as_outputs, require_joint
from ..parameters import partition
from .band import Band
from .labels import matched
from .mapping import at_draws, filled
from .quantiles import freedom_of, mixture_quantiles
from .readings import (
    Components,
    JointOutputs,
    LocalDraws,
    LocalFrequency,
    LocalFunctions,
    Outputs,
    Prediction,
    Spectrogram,
    mixture_covariance,
)

MAX_DRAWS = 400  # that a reading is evaluated at, unless told otherwise
AT_ONCE = 50  # draws whose joint covariances are held at once
CHUNK = 2**15  # inputs at which draws of a function are held at once
MOST = 2**24  # numbers that a reading of predictions holds for all draws: of many inputs fewer draws are mixed over
_LEVELS = (0.05, 0.5, 0.95)


class Posterior(Module):
    """Draws of a model's raw parameters and the rest of the model; an optimum is a posterior of one draw.

    Predictions are those of the mixture of the models at the draws. They use at most ``max_draws`` draws, evenly spaced
    in every chain, so that their cost does not grow with the length of the chains.

    Args:
        draws: A tree of draws ``[chains, draws, ...]`` of raw parameters.
        rest: The rest of the model.
        log_joint: Log joint density ``[chains, draws]`` of each draw (an estimate where the sampler used minibatches).
        statistics: What the sampler says of each draw, ``[chains, draws]``, under the names that arviz uses.
        interrupted: Whether the run ended before all draws were made.
        order: Which component of each draw is which, ``[chains, draws, a]`` (``relabelled``); None where every draw has
            the same order.
    """

    draws: PyTree
    rest: PyTree
    log_joint: Any
    statistics: dict[str, Any]
    interrupted: bool = eqx.field(static=True, default=False)
    order: Any = None

    @classmethod
    def at_point(cls, *models: Any) -> Posterior:
        """The posterior that is one model for certain, such as an optimum, or several, each as likely as the others.

        Args:
            models: Models with raw parameters, which differ in these alone.
        """
        parts = [partition(model, "latent", "hyperparameter", "variational") for model in models]
        draws = jax.tree.map(lambda *leaves: np.stack(leaves)[None], *(free for free, _ in parts))
        return cls(draws, parts[-1][1], np.zeros((1, len(models))), {})

    def at(self, chain: int, draw: int) -> Any:
        """The model at one draw, by the numbers of its ``chain`` and ``draw``."""
        return eqx.combine(jax.tree.map(lambda leaf: leaf[chain, draw], self.draws), self.rest)

    def most_probable(self) -> Any:
        """The model at the draw of the largest log joint density."""
        self._require_draws()
        return self.at(*divmod(int(np.argmax(self.log_joint)), self.log_joint.shape[1]))

    def channel(self, number: int) -> Posterior:
        """The posterior of one channel of a ``ChannelGP``, by its ``number``: draws of a ``MarkovGP``."""
        draws, rest = self.draws.channel(number), self.rest.channel(number)
        return Posterior(draws, rest, self.log_joint, self.statistics, self.interrupted, self.order)

    def thinned(self, max_draws: int) -> Posterior:
        """At most ``max_draws`` of the draws (but one of every chain at least), evenly spaced in the chains."""
        at_least(1, max_draws=max_draws)
        self._require_draws()
        chains, length = self.log_joint.shape
        count = min(length, max(1, max_draws // chains))
        # The middles of equal stretches: neither the start of a chain nor its end counts more.
        index = ((np.arange(count) + 0.5) * length / count).astype(int)
        parts = (self.draws, self.log_joint, self.statistics, self.order)
        draws, log_joint, statistics, order = jax.tree.map(lambda leaf: leaf[:, index], parts)
        return Posterior(draws, self.rest, log_joint, statistics, self.interrupted, order)

    def relabelled(self, X: ArrayLike) -> Posterior:
        """The same draws with their components in a common order, that of the most probable draw.

        Components are exchangeable as far as their priors are: what one draw calls the first another may call the
        second. Draws are matched by their frequency functions, and ``local_frequency``, ``local_functions`` and
        ``components`` read every draw in the common order. Readings of one's own see the draws as they are.

        Args:
            X: Inputs ``[n, d]``, or ``[n]`` for one input dimension, at which frequencies are compared.
        """
        self._require_draws()
        seen, _ = self.map(LocalFunctions(plain_inputs(X)))
        frequency, weight = (np.asarray(part).reshape(-1, *part.shape[2:]) for part in (seen.frequency, seen.weight))
        order = matched(frequency, weight, int(np.argmax(self.log_joint)))
        plain = np.array_equal(order, np.broadcast_to(np.arange(order.shape[1]), order.shape))
        return replace(self, order=None if plain else order.reshape(*self.log_joint.shape, -1))

    # Readings

    def map(self, reading: Callable[[Any], Any]) -> Any:
        """``reading(model)`` at every draw, stacked ``[chains, draws, ...]``; compiled once for each reading.

        Args:
            reading: Any function of a model with raw parameters, as ``at`` gives it, such as those of
                ``spectrogp.posterior`` or ``lambda m: m.predict(data, X)``.
        """
        shape = self.log_joint.shape
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (self.draws, self.log_joint))
        # Flat outside the program, which is then the same for any chains and draws that are as many together.
        values = at_draws(reading, flat[0], flat[1], self.rest)
        if not traced(values):  # to shape them is no program then
            values = jax.tree.map(np.asarray, values)
        return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), values)

    def read(self, reading: Callable[[Any], Any], *, max_draws: int = MAX_DRAWS) -> Any:
        """``reading(model)`` at no more than ``max_draws`` draws of all chains, ``[s, ...]``."""
        values = self.thinned(max_draws).map(reading)
        return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:]), values)

    def _read_components(self, reading: Callable[[Any], Any], axis: int, max_draws: int) -> Any:
        """The same of a reading whose arrays have the components on this ``axis``, in their common order."""
        values = self.read(reading, max_draws=max_draws)
        if self.order is None:
            return values
        order = self.thinned(max_draws).order.reshape(-1, self.order.shape[-1])

        def ordered(leaf: np.ndarray) -> np.ndarray:
            if leaf.shape[axis + 1] == 1:  # the same for all components
                return leaf
            return np.stack([value.take(own, axis) for value, own in zip(leaf, order, strict=True)])

        return jax.tree.map(ordered, values)

    def band(self, reading: Callable[[Any], Any], level: float = 0.9, *, max_draws: int = MAX_DRAWS) -> Band:
        """Posterior mean and central credible interval of ``reading(model)``, any array made from a model.

        Args:
            reading: A function of a model with raw parameters: ``lambda m: m.realise().kernel.lengthscale(X)`` gives
                the lengthscales ``[n, a, d]``.
            level: Probability of the interval.
            max_draws: Draws to use, at most.
        """
        return Band.over(self.read(reading, max_draws=max_draws), level)

    def outputs(
        self,
        data: Any,
        X: ArrayLike,
        error: ArrayLike = 0.0,
        *,
        y: ArrayLike | None = None,
        level: float | None = None,
        exponent: float | None = None,
        max_draws: int = MAX_DRAWS,
    ) -> Prediction:
        """Everything about f and new outputs at inputs: moments of both, and the log density of given outputs.

        Programs are compiled for a number of rows, so inputs are filled up to one of few numbers.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            error: Known standard deviations of the outputs, ``[t]`` or one number.
            y: Outputs ``[t]`` whose log density is wanted, or None.
            level: Probability of the central intervals that are wanted, or None. Noise that is neither Gaussian nor
                ``HeavyTailed`` is taken for Gaussian with the same variance in them.
            exponent: If given, moments are those of exp(exponent · f) and exp(exponent · y); the rest stays.
            max_draws: Draws to mix over, at most.
        """
        X = plain_inputs(X)
        rows = filled(len(X))
        error = np.broadcast_to(np.asarray(error, X.dtype), (len(X),))[rows]
        y = None if y is None else np.asarray(as_outputs(y, X))[rows]
        reading = Outputs(self._prepared(data, X[rows]), X[rows], error, y)
        values = self.read(reading, max_draws=min(max_draws, max(MOST // len(rows), 8)))
        mixed = values.mixed(level, freedom_of(self.rest), exponent)
        return jax.tree.map(lambda leaf: leaf[: len(X)], mixed)

    # Prediction

    def predict(self, data: Any, X: ArrayLike, *, max_draws: int = MAX_DRAWS) -> Moments:
        """Mean and variance of the function f, by the laws of total mean and variance.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            max_draws: Draws to use, at most.
        """
        return self.outputs(data, X, max_draws=max_draws).function

    def predict_output(self, data: Any, X: ArrayLike, error: ArrayLike = 0.0, *, max_draws: int = MAX_DRAWS) -> Moments:
        """Mean and variance of outputs y, noise included.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            error: Known standard deviations of the outputs, ``[t]`` or one number.
            max_draws: Draws to use, at most.
        """
        return self.outputs(data, X, error, max_draws=max_draws).output

    def log_predictive_density(
        self, data: Any, X: ArrayLike, y: ArrayLike, error: ArrayLike = 0.0, *, max_draws: int = MAX_DRAWS
    ) -> np.ndarray:
        """log p(y | data) ``[t]`` of each output: the logarithm of the mean density, not the mean of logarithms.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            y: Outputs ``[t]``.
            error: Known standard deviations of the outputs, ``[t]`` or one number.
            max_draws: Draws to use, at most.
        """
        return np.asarray(self.outputs(data, X, error, y=y, max_draws=max_draws).log_density)

    def quantiles(self, data: Any, X: ArrayLike, levels: Any = _LEVELS, *, max_draws: int = MAX_DRAWS) -> np.ndarray:
        """Quantiles ``[levels, t]`` of the function f.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            levels: Probabilities, one or several.
            max_draws: Draws to use, at most.
        """
        reading = Outputs(self._prepared(data, X), inputs(X), 0.0)
        return mixture_quantiles(self.read(reading, max_draws=max_draws).function, levels)

    def quantiles_output(
        self, data: Any, X: ArrayLike, levels: Any = _LEVELS, error: ArrayLike = 0.0, *, max_draws: int = MAX_DRAWS
    ) -> np.ndarray:
        """Quantiles ``[levels, t]`` of outputs y, their noise included: Gaussian, or ``HeavyTailed``.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            levels: Probabilities, one or several.
            error: Known standard deviations of the outputs, ``[t]`` or one number.
            max_draws: Draws to use, at most.
        """
        if not isinstance(self.rest.likelihood, Gaussian):
            raise TypeError(
                f"quantiles of outputs are for Gaussian noise, got {type(self.rest.likelihood).__name__}; "
                "quantiles gives those of f"
            )
        reading = Outputs(self._prepared(data, X), inputs(X), jnp.asarray(error))
        return mixture_quantiles(self.read(reading, max_draws=max_draws).output, levels, freedom_of(self.rest))

    def covariance(
        self, data: Any, X: ArrayLike, *, noise: bool = False, exponent: float | None = None, max_draws: int = 50
    ) -> np.ndarray:
        """Joint covariance ``[t, t]`` of the mixture.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            noise: Whether of outputs, or of f.
            exponent: If given, of exp(exponent · y), or of exp(exponent · f).
            max_draws: Draws to use, at most.
        """
        require_joint(len(np.asarray(X)), min(max_draws, self.log_joint.size, AT_ONCE))
        prepared, X = self._prepared(data, X), plain_inputs(X)
        reading = JointOutputs(data, X)

        def read(part: Posterior) -> Any:
            if prepared is data:
                return part.read(reading)
            # Such a model looks at values, which one program for all draws cannot.
            return (np.stack(of) for of in zip(*(_apply(reading, model) for model in part._models()), strict=True))

        return mixture_covariance(map(read, self.thinned(max_draws)._parts(AT_ONCE)), noise=noise, exponent=exponent)

    def draw(self, data: Any, X: ArrayLike, *, key: Key, num_samples: int = 1) -> Array:
        """Draws ``[s, t]`` of f: a random draw of the parameters, then f jointly given it.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            key: An integer seed or a JAX random key.
            num_samples: How many draws s.
        """
        at_least(1, num_samples=num_samples)
        of_parameters, of_functions = jax.random.split(as_key(key))
        chain, draw = jnp.divmod(
            jax.random.randint(of_parameters, (num_samples,), 0, self.log_joint.size), self.log_joint.shape[1]
        )
        keys = jax.random.split(of_functions, num_samples)
        if not self.rest.draws_inside_jit:  # such a model looks at values, which one program for all draws cannot
            places = zip(np.asarray(chain), np.asarray(draw), keys, strict=True)
            return jnp.concatenate([self.at(c, d).draw(data, X, key=one) for c, d, one in places])
        chosen = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chain, draw], self.draws)
        return _draw(chosen, self.rest, keys, data, inputs(X))

    # What the models at the draws say of themselves

    def components(self, data: Any, X: ArrayLike, level: float = 0.9, *, max_draws: int = MAX_DRAWS) -> Band:
        """The part ``[t, a]`` of f that belongs to each component, with credible intervals.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            level: Probability of the credible interval.
            max_draws: Draws to use, at most.
        """
        reading = Components(self._prepared(data, X), plain_inputs(X))
        moments = self._read_components(reading, 0, max_draws).mixed()
        return Band.normal(moments.mean, moments.std, level).map(np.transpose)

    def spectrogram(
        self, X: ArrayLike, frequency: ArrayLike, level: float = 0.9, *, max_draws: int = MAX_DRAWS, **options: Any
    ) -> Band:
        """Posterior mean ``[t, m]`` and interval of the kernel's spectrogram.

        Args:
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            frequency: In cycles per unit, ``[m]`` or wavevectors ``[m, d]``.
            level: Probability of the credible interval.
            options: Further arguments of ``spectrogp.spectrogram``.
            max_draws: Draws to use, at most.
        """
        reading = Spectrogram(plain_inputs(X), np.asarray(frequency), **options)
        return self.band(reading, level, max_draws=max_draws)

    def local_frequency(self, X: ArrayLike, level: float = 0.9, *, max_draws: int = MAX_DRAWS) -> Band:
        """Posterior mean and interval of the local frequency of every component, in cycles per unit.

        ``[t, a]`` for one input, ``[t, a, d]`` for several. Chains may exchange components: ``relabelled`` sees to it
        that one means the same in all draws.

        Args:
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            level: Probability of the credible interval.
            max_draws: Draws to use, at most.
        """
        X = plain_inputs(X)
        parts = []
        for start in range(0, len(X), CHUNK):
            part = X[start : start + CHUNK]
            values = self._read_components(LocalFrequency(part[filled(len(part))]), 1, max_draws)
            parts.append(Band.over(values[:, : len(part)], level))
        return Band(*(None if ends[0] is None else np.concatenate(ends) for ends in zip(*parts, strict=True)))

    def local_functions(self, X: ArrayLike, *, max_draws: int = MAX_DRAWS) -> LocalDraws:
        """The components of the local spectrum, and the lengthscales, at some of the draws.

        Args:
            X: Inputs ``[t, d]``, or ``[t]`` for one input dimension.
            max_draws: Draws to use, at most.
        """
        return LocalDraws.of(self._read_components(LocalFunctions(plain_inputs(X)), 1, max_draws))

    def _prepared(self, data: Any, X: ArrayLike) -> Any:
        """What predictions at X need besides the draws, as the most probable of these sees it."""
        return self.most_probable().prepare(data, plain_inputs(X))

    def _parts(self, most: int) -> Iterator[Posterior]:
        """All draws, so many at a time."""
        leaves = (self.draws, self.log_joint, self.statistics, self.order)
        flat = jax.tree.map(lambda leaf: leaf.reshape(1, -1, *leaf.shape[2:]), leaves)
        for k in range(0, self.log_joint.size, most):
            draws, log_joint, statistics, order = jax.tree.map(lambda leaf, k=k: leaf[:, k : k + most], flat)
            yield Posterior(draws, self.rest, log_joint, statistics, self.interrupted, order)

    def _models(self) -> list[Any]:
        chains, length = self.log_joint.shape
        return [self.at(chain, draw) for chain in range(chains) for draw in range(length)]

    def _require_draws(self) -> None:
        if self.log_joint.size == 0:
            raise ValueError("there are no draws: the run was interrupted before the first one")


@eqx.filter_jit
def _draw(draws: PyTree, rest: PyTree, keys: Array, data: Any, X: Array) -> Array:
    return jax.lax.map(lambda pair: eqx.combine(pair[0], rest).draw(data, X, key=pair[1])[0], (draws, keys))


def _apply(reading: Callable[[Any], Any], model: Any) -> Any:
    return jax.tree.map(np.asarray, reading(model))
