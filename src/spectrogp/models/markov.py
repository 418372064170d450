"""The exact Gaussian process of Matérn phase kernels, in linear time."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import SOON, Key, as_key, at_least, inputs, plain_inputs, traced
from ..kernels import AbstractKernel, MaternPhase, Sum
from ..parameters import as_parameter
from . import filtering
from .base import AbstractModel, as_gaussian
from .data import Data
from .likelihoods import Gaussian
from .moments import Moments
from .oscillators import simulate, stationary
from .smoothing import smooth
from .system import System
from .timeline import UNSEEN, Timeline

SINGLE = 4096  # rows up to which one block holds them all
OWN = 1024  # rows of its own that a block has at least
STRETCH, STRETCHES = 64, 12  # rows and number of the stretches that tell how long a block has to warm up
MODELS, NUMBERS = 8, 2**20  # that are read side by side, at most, and pairs of oscillators at their rows in all


class MarkovGP(AbstractModel):
    """Exact regression with Matérn phase kernels of one input, by a Kalman filter: O(N).

    A component σ [cos φ u(τ) + sin φ v(τ)] has two oscillators, u and v, that are Markov with their derivatives; one
    without a phase has one. The filter carries what is known of all of them along the rows; phases and amplitudes are
    how they are seen. Log likelihood and predictions are those of ``ExactGP``, for any times, gaps, repeated times,
    functions and error bars. Times τ must increase with the input.

    Args:
        kernel: A ``MaternPhase``, or a sum of several, such as oscillations, a trend and low-frequency noise.
        likelihood: The noise: a number, a ``Positive`` parameter, a function of the input, or a ``Gaussian``.
        offset: The mean of f a priori, in units of the output: a number, or a ``Real`` parameter to be fitted. It is
            no part of any component.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> kernel = sg.kernels.MaternPhase(sg.kernels.WarpedTime(2.0), lambda X: 3.0 * X[:, 0])
        >>> model = sg.models.MarkovGP(kernel, 0.1)
        >>> data = sg.Data([0.0, 1.0], [0.5, -0.5])
        >>> bool(np.isclose(model.log_joint(data), sg.models.ExactGP(kernel, 0.1).log_joint(data)))
        True
    """

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)
    offset: Any = eqx.field(default=0.0, converter=lambda value: as_parameter(value, "offset"), metadata={"unit": "y"})

    def __check_init__(self) -> None:
        for term in self.terms:
            if not isinstance(term, MaternPhase):
                raise TypeError(
                    f"MarkovGP takes MaternPhase kernels and sums of them, got {type(term).__name__}; ExactGP takes any"
                )

    def log_likelihood(self, data: Data | Timeline, key: Array | None) -> Array:
        del key
        return jnp.sum(self.block_log_likelihoods(data if isinstance(data, Timeline) else Timeline.traced(data)))

    def block_log_likelihoods(self, timeline: Timeline) -> Array:
        """Log likelihoods ``[b]`` of the own rows of each block, given those before them."""
        system = self.systems(timeline)
        return system.log_likelihoods(timeline.y, timeline.weight, self.stationary(), timeline.steps)

    def prepare(self, data: Data | Timeline, X: ArrayLike) -> Any:
        return data if isinstance(data, Timeline) else self.timeline(data, X)

    def timeline(self, data: Data, X: ArrayLike | None = None) -> Timeline:
        """The data in blocks that begin so early that the filter has forgotten its start; short data in one.

        Args:
            data: Rows of one input.
            X: Inputs ``[t, 1]`` at which the function is wanted, or None.
        """
        wanted = None if X is None else plain_inputs(X)
        rows = data.size + (0 if wanted is None else len(wanted))
        if rows <= SINGLE:
            return Timeline.of(data, wanted)
        warm_up = self.warm_up(data)
        own = max(OWN, 2 * warm_up * rows // data.size)  # inputs among the rows do not help to forget
        return Timeline.of(data, wanted, own=own if 2 * own < rows else None, warm_up=warm_up)

    def warm_up(self, data: Data, tolerance: float = 1e-6) -> int:
        """Rows after which the filter has forgotten its start, but for ``tolerance`` in the log likelihood.

        The most of what several stretches of the data need, by their typical steps, frequencies and noise.

        Args:
            data: The rows.
            tolerance: Nats.
        """
        order = np.argsort(np.asarray(data.X)[:, 0], kind="stable")
        starts = np.linspace(0, max(data.size - STRETCH, 0), STRETCHES).astype(int)
        rows = order[np.minimum(starts[:, None] + np.arange(STRETCH), data.size - 1)]
        plain = self.realise()
        orders = [
            term.order for term, (count, _) in zip(self.terms, plain._counts(), strict=True) for _ in range(count)
        ]
        X, error = (jnp.asarray(np.asarray(part)[rows]) for part in (data.X, data.error))
        found = _stretches(plain, X, error)
        needed = [0]
        for step, ratio, turn in zip(*(np.asarray(part) for part in found), strict=True):
            try:
                needed.append(
                    filtering.warm_up(np.maximum(step, 1e-8), np.maximum(ratio, 1e-8), orders, turn, tolerance)[0]
                )
            except np.linalg.LinAlgError:  # components that nothing tells apart are never forgotten
                needed.append(data.size)
        return min(max(needed), data.size)

    def side_by_side(self, rows: int) -> int:
        """Several, of few rows: steps along these are on small arrays, and take hardly longer for more models."""
        most = NUMBERS // (max(rows, 1) * len(self.owners()) ** 2)
        return min(MODELS, 2 ** (max(most, 1).bit_length() - 1))

    def predict(self, data: Data | Timeline, X: ArrayLike) -> Moments:
        return self.parts(data, inputs(X))[0]

    def moments(self, data: Data | Timeline, X: Array) -> Moments:
        return self.parts(data, X)[0]

    def component_moments(self, data: Data | Timeline, X: Array, component: Any) -> Moments:
        mean, variance = self.parts(data, X)[1]
        return Moments(mean[component], variance[component])

    def every_component(self, data: Data | Timeline, X: Array) -> Moments:
        return self.parts(data, X)[1]

    def parts(self, data: Data | Timeline, X: Any) -> tuple[Moments, Moments]:
        """Moments of f ``[t]`` and of each of its components ``[a, t]``, by one program for many numbers of inputs.

        Args:
            data: What ``prepare(data, X)`` gives, or the data.
            X: Inputs ``[t, 1]``.
        """
        timeline, count = self._timeline(data, X), X.shape[0]
        if traced((self, timeline)):  # inside another program there are no options of a compiler
            found = _parts(self, timeline)
        else:  # cutting is no program then
            found = jax.tree.map(np.asarray, _compiled_parts(self, timeline))
        f, components = jax.tree.map(lambda values: values[..., :count], found)
        return f, components

    def _timeline(self, data: Data | Timeline, X: Any) -> Timeline:
        if isinstance(data, Timeline):
            return data
        return Timeline.traced(data, X) if traced((data.X, X)) else self.timeline(data, X)

    def count_components(self, X: Array) -> int:
        del X
        return int(np.max(self._shown())) + 1

    @eqx.filter_jit
    def joint_covariance(self, data: Data, X: Array) -> Array:
        timeline = Timeline.traced(data)
        system, P = self.systems(timeline), self.stationary()

        def solve(y: Array) -> Array:
            """(K + R)⁻¹ y of rows in the order of time: minus the slope of the log density in the outputs."""

            def density(y: Array) -> Array:
                return jnp.sum(system.log_likelihoods(y[:, None] + system.mean, timeline.weight, P, timeline.steps))

            return -jax.grad(density)(y)

        p, q = self.kernel.local(timeline.t), self.kernel.local(X)
        cross = self.kernel.cross(p, q)
        covariance = self.kernel.gram(q) - cross.T @ jax.vmap(solve, in_axes=1, out_axes=1)(cross)
        return 0.5 * (covariance + covariance.T)

    def draw(self, data: Data, X: ArrayLike, *, key: Key, num_samples: int = 1) -> Array:
        """Draws ``[s, t]`` of f, jointly over the inputs, by the simulation smoother of Durbin & Koopman (2002).

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, 1]``, or ``[t]``.
            key: An integer seed or a JAX random key.
            num_samples: How many draws s.
        """
        at_least(1, num_samples=num_samples)
        model, X = self.realise(), inputs(X)
        timeline = Timeline.traced(data, X) if traced((data.X, X)) else Timeline.of(data, np.asarray(X))
        keys = jax.random.split(as_key(key), num_samples)
        return _draws(model, timeline, keys)[:, : X.shape[0]]

    def envelope(self, data: Data | Timeline, X: Any) -> tuple[Array, Array]:
        """The complex envelope of every component: f_a = Re[(u − iv) e^{iφ}].

        Its modulus is the amplitude of the oscillation, and its angle what the phase lacks.

        Args:
            data: What the model was fitted to.
            X: Inputs ``[t, 1]``.

        Returns:
            The means of (u, v), ``[t, a, 2]``, in units of the output, and covariances ``[t, a, 2, 2]``; without a
            phase v is zero.
        """
        timeline = self._timeline(data, X)
        if traced((self, timeline)):
            mean, covariance = _envelope(self, timeline)
        else:
            mean, covariance = jax.tree.map(np.asarray, _compiled_envelope(self, timeline))
        return mean[: X.shape[0]], covariance[: X.shape[0]]

    # Of a realised model:

    def systems(self, timeline: Timeline) -> System:
        """What the filter needs of the blocks of a timeline: arrays ``[l, ..., b]``."""

        def of_block(t: Array, error: Array, seen: Array) -> System:
            return self.system(t[:, None], error, seen)

        columns = (jnp.asarray(part) for part in (timeline.t, timeline.error, timeline.seen))
        return jax.vmap(of_block, in_axes=1, out_axes=-1)(*columns)

    def system(self, X: Array, error: Array, seen: Array) -> System:
        """What the filter needs of rows in the order of time.

        Args:
            X: Their inputs ``[l, 1]``.
            error: Known standard deviations of the outputs ``[l]``.
            seen: Whether they have outputs ``[l]``.
        """
        decays, weights = [], []
        for term in self.terms:
            values = term.values_at(X)
            time, amplitude = values["time"], values["amplitude"]
            decay = jnp.diff(time, axis=0, prepend=time[:1]) * (2.0 * term.order) ** 0.5
            waves = term.waves(values)
            decays += [decay] * len(waves)
            weights += [amplitude * wave for wave in waves]
        variance = self.likelihood.scale_at(X, error) ** 2
        return System(
            jnp.concatenate(decays, axis=1),
            jnp.concatenate(weights, axis=1),
            jnp.where(seen, variance, UNSEEN),
            jnp.full_like(variance, self.offset),
        )

    def orders(self) -> list[float]:
        """ν of every oscillator."""
        counts = self._counts()
        return [
            term.order
            for term, (components, waves) in zip(self.terms, counts, strict=True)
            for _ in range(components * waves)
        ]

    def stationary(self) -> np.ndarray:
        """Stationary covariances ``[q, d, d]`` of the oscillators' states."""
        return stationary(self.orders())

    def _smoothed(self, timeline: Timeline) -> tuple[Array, Array, Array]:
        """At inputs: weights ``[t, q]`` of the oscillators, their means ``[t, q]`` and covariances ``[t, q, q]``."""
        system = self.systems(timeline)
        mean, covariance = smooth(
            system.decay, system.weight, timeline.y - system.mean, system.variance, self.stationary(), timeline.steps
        )
        return tuple(timeline.read(part) for part in (system.weight, mean, covariance))

    def _counts(self) -> list[tuple[int, int]]:
        """Of every term how many components it has, and how many oscillators each of these."""
        leaves, structure = jax.tree.flatten(self)
        return _counts_of(structure, tuple(leaf if callable(leaf) else np.shape(leaf) for leaf in leaves))

    def owners(self) -> np.ndarray:
        """The component ``[q]`` that every oscillator belongs to: those of a term first have their u, then their v."""
        owners, before = [], 0
        for components, waves in self._counts():
            owners.append(np.tile(before + np.arange(components), waves))
            before += components
        return np.concatenate(owners)

    def _shown(self) -> np.ndarray:
        """The component ``[q]`` that every oscillator is shown as: all that has no phase is one, the background.

        Slow processes exchange their levels freely, so that each alone is hardly known where their sum is known well.
        """
        pairs = zip(self.terms, self._counts(), strict=True)
        has_phase = np.concatenate([np.full(components, term.phase is not None) for term, (components, _) in pairs])
        return np.where(has_phase, np.cumsum(has_phase) - 1, np.sum(has_phase))[self.owners()]

    @property
    def channels(self) -> tuple[MarkovGP, ...]:
        """Models of the outputs, of which there is one; ``ChannelGP`` has several."""
        return (self,)

    @property
    def oscillations(self) -> int:
        """How many components have a phase; what has none is the background, which is the last."""
        pairs = zip(self.terms, self._counts(), strict=True)
        return sum(components for term, (components, _) in pairs if term.phase is not None)

    @property
    def terms(self) -> tuple[Any, ...]:
        """The ``MaternPhase`` kernels that the kernel is the sum of."""
        return self.kernel.terms if isinstance(self.kernel, Sum) else (self.kernel,)


@functools.lru_cache(maxsize=256)
def _counts_of(structure: Any, leaves: tuple[Any, ...]) -> list[tuple[int, int]]:
    """The same of a model with leaves of these shapes, or that are these functions: to trace a model takes long."""
    model = jax.tree.unflatten(structure, [leaf if callable(leaf) else np.ones(leaf) for leaf in leaves])

    def times(x: Array) -> list[Array]:
        return [term.values_at(x)["time"] for term in model.realise().terms]

    shapes = jax.eval_shape(times, jnp.zeros((1, 1)))
    return [(time.shape[1], 1 if term.phase is None else 2) for time, term in zip(shapes, model.terms, strict=True)]


def _parts(model: MarkovGP, timeline: Timeline) -> tuple[Moments, Moments]:
    """Moments of f ``[t]`` and of its components ``[a, t]`` at the inputs that were asked for."""
    model = model.realise()
    weight, mean, covariance = model._smoothed(timeline)
    shown = model._shown()
    picked = weight * (shown == np.arange(np.max(shown) + 1)[:, None])[:, None]  # [a, t, q]
    return (
        Moments(jnp.sum(weight * mean, axis=-1) + model.offset, jnp.einsum("tq,tqr,tr->t", weight, covariance, weight)),
        Moments(jnp.sum(picked * mean, axis=-1), jnp.einsum("atq,tqr,atr->at", picked, covariance, picked)),
    )


_compiled_parts = eqx.filter_jit(_parts, **SOON)


@eqx.filter_jit
def _stretches(model: MarkovGP, X: Any, error: Any) -> tuple[Array, Array, Array]:
    """Of rows ``[s, l, 1]``: decay, variance over that of the noise, and turn of phase per row, ``[s, a]`` each."""

    def of_one(X: Array, error: Array) -> tuple[Array, Array, Array]:
        variance = jnp.median(model.likelihood.scale_at(X, error) ** 2)
        parts = []
        for term in model.terms:
            values = term.values_at(X)
            decay = (2.0 * term.order) ** 0.5 * jnp.diff(values["time"], axis=0)
            turn = jnp.zeros_like(decay) if term.phase is None else jnp.abs(jnp.diff(values["phase"], axis=0))
            parts.append(
                (jnp.mean(decay, axis=0), jnp.mean(values["amplitude"] ** 2, axis=0) / variance, jnp.mean(turn, axis=0))
            )
        return tuple(jnp.concatenate(kind) for kind in zip(*parts, strict=True))  # type: ignore[return-value]

    return jax.vmap(of_one)(X, error)


@eqx.filter_jit
def _draws(model: MarkovGP, timeline: Timeline, keys: Array) -> Array:
    """Draws ``[s, t]`` of f: paths of the prior, moved by what the data say of the difference."""
    system, P = model.systems(timeline), model.stationary()
    seen = jnp.asarray(timeline.seen)

    def one(key: Array) -> Array:
        of_paths, of_noise = jax.random.split(key)
        paths = simulate(of_paths, system.decay, P, timeline.steps)
        noise = jnp.where(seen, jnp.sqrt(system.variance), 0.0) * jax.random.normal(of_noise, seen.shape)
        made = jnp.sum(system.weight * paths, axis=1) + noise
        rest = jnp.where(seen, timeline.y - system.mean - made, 0.0)
        moved = smooth(system.decay, system.weight, rest, system.variance, P, timeline.steps, covariance=False)[0]
        return timeline.read(system.mean + jnp.sum(system.weight * (paths + moved), axis=1))

    return jax.lax.map(one, keys)


def _envelope(model: MarkovGP, timeline: Timeline) -> tuple[Array, Array]:
    """Means ``[t, a, 2]`` of (u, v), times the amplitude, and covariances, at the inputs that were asked for."""
    model = model.realise()
    _, mean, covariance = model._smoothed(timeline)
    X = timeline.read(timeline.t[:, None])
    amplitude = jnp.concatenate([term.values_at(X)["amplitude"] for term in model.terms], axis=1)
    shown = model._shown()
    picks = np.zeros((np.max(shown) + 1, 2, len(shown)))  # which oscillators are u and v of a component
    for q, a in enumerate(shown):  # those of a background are u, all of them
        picks[a, int(a < model.oscillations and a in shown[:q]), q] = 1.0
    scale = amplitude[:, model.owners()]  # [t, q]
    return (
        jnp.einsum("akq,tq->tak", picks, scale * mean),
        jnp.einsum("akq,tq,tqr,tr,alr->takl", picks, scale, covariance, scale, picks),
    )


_compiled_envelope = eqx.filter_jit(_envelope, **SOON)
