"""Adaptive stochastic-gradient Hamiltonian Monte Carlo, for any log density over any pytree.

Coordinates are scaled by v̂^{-1/2}, where v̂ is a running average of the squared gradient; in them, with step h, friction
1 − c and momentum p ~ N(0, 1), one step is

    q ← q + ½h v̂^{-1/2} p,   p ← c p + ξ,   q ← q + ½h v̂^{-1/2} p,   p ← p + h v̂^{-1/2} ∇log π(q).

The momentum stays between steps, each kick uses the gradient at the position already moved to (semi-implicit), and the
friction sits in the middle of the drift. With exact gradients the variances of a Gaussian are then exact at any stable
h (Leimkuhler & Matthews 2013); with ξ of the same variance in the order of Springenberg et al. they are too large by
1/(1 − h²/4). A gradient from a minibatch carries noise of variance b̂, which heats the momentum by h²b̂/v̂ each step; ξ
gets so much less: its variance is 1 − c² − ((1 + c)/2)² h² b̂/v̂. The correction is one of each coordinate: noise that is
correlated between coordinates leaves an error of the variances of at most h²/(1 − c²) (5 % as it is by default).

Tuning, during burn-in only, follows Springenberg, Klein, Falkner & Hutter (2016): v̂ and the average gradient ĝ forget
at the rate 1/t, with the horizon t ← 1 + t(1 − ĝ²/v̂) of each coordinate. Differs from the paper:

- the inverse mass is v̂^{-1}, not v̂^{-1/2}: v̂ is the curvature plus the noise, so h has no units, and any
  h² < 4(1 − c)/(1 + c) keeps the variance of ξ positive, whatever the noise is;
- t is at least a fifth of the steps so far: gradients along a trajectory are correlated, which the rule takes for a
  trend, and v̂ would be frozen at whatever the gradient was last;
- b̂ is measured, from two independent gradients at the same place: the paper takes all of v̂ for noise, which leaves
  exact gradients too cold.

A step that is too long for the curvature makes the energy grow, without end. In equilibrium every momentum is standard
normal, wherever the position is; so one beyond seven standard deviations, or a density that is not finite, tells that a
step ran off. It is taken back, the momentum is drawn anew, and h is half as long from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from ..core import at_least
from ..parameters import Role, partition
from .sampler import AbstractSampler, Draw, Target

LogDensity = Callable[[Array, Any], Array]  # key, position → log density, or an unbiased estimate of it

_RAMP = 100  # steps over which the step size rises to its value, while v̂ finds its scale
_FLOOR = 1e-15  # of v̂: a coordinate that the density does not depend on must not give 1/0
_MEMORY = 0.2  # the least horizon, as a fraction of the steps so far
_FASTEST = 7.0  # standard deviations of a momentum: chance exceeds them once in 4e11


class Tuning(NamedTuple):
    """Running averages of each coordinate: gradient ĝ, its square v̂, its noise b̂, the horizon t; and steps so far."""

    gradient: PyTree
    square: PyTree
    noise: Any
    horizon: PyTree
    steps: Array


class State(NamedTuple):
    """Position, momentum in scaled coordinates, what the tuning knows, the log density, and how often h was halved."""

    position: PyTree
    momentum: PyTree
    tuning: Tuning
    log_density: Array
    halvings: Array


class Info(NamedTuple):
    """Log density (or its estimate) at the new position; kinetic energy per coordinate, ½ on average if all is well."""

    log_density: Array
    kinetic: Array


def init(position: PyTree) -> State:
    """The start at a position: at rest, untuned."""
    position = jax.tree.map(jnp.asarray, position)
    zeros, ones = (jax.tree.map(make, position) for make in (jnp.zeros_like, jnp.ones_like))
    unknown = jnp.asarray(-jnp.inf, jax.tree.leaves(position)[0].dtype)  # until the first step
    return State(position, zeros, Tuning(zeros, ones, zeros, ones, jnp.zeros((), int)), unknown, jnp.zeros((), int))


def step(
    key: Array,
    state: State,
    log_density: LogDensity,
    *,
    step_size: float | Array = 0.1,
    friction: float | Array = 0.1,
    tune: bool | Array = False,
) -> tuple[State, Info]:
    """One step with a fresh key, which ``log_density(key, position)`` may use for a minibatch.

    While ``tune`` is true the step takes two gradients instead of one, and changes the sampler itself: what it visits
    are not draws. ``friction`` is the part 1 − c of the momentum that is lost in a step. A step that ran off is taken
    back, and those after it are half as long.
    """
    position, momentum, tuning, _, halvings = state
    key_noise, key_gradient = jax.random.split(key)
    tune = jnp.asarray(tune)
    keep = 1.0 - friction
    h = step_size * 0.5**halvings * jnp.where(tune, jnp.minimum(1.0, (tuning.steps + 1) / _RAMP), 1.0)
    half = jax.tree.map(lambda v: 0.5 * h / jnp.sqrt(v), tuning.square)

    def refresh(p: Array, v: Array, b: Array, noise: Array) -> Array:
        variance = 1.0 - keep**2 - (0.5 * (1.0 + keep) * h) ** 2 * b / v
        return keep * p + jnp.sqrt(jnp.maximum(variance, 0.0)) * noise

    def drift(q: PyTree, p: PyTree) -> Any:
        return jax.tree.map(lambda q, p, a: q + a * p, q, p, half)

    position = drift(position, momentum)
    momentum = jax.tree.map(refresh, momentum, tuning.square, tuning.noise, _normals(key_noise, position))
    position = drift(position, momentum)
    value, slope, noise = _gradients(key_gradient, position, log_density, jnp.where(tune, 2, 1))
    momentum = jax.tree.map(lambda p, g, a: p + 2.0 * a * g, momentum, slope, half)
    tuning = jax.tree.map(lambda new, old: jnp.where(tune, new, old), _tuned(tuning, slope, noise), tuning)
    moved = State(position, momentum, tuning, value, halvings)
    back = state._replace(momentum=_normals(key_noise, position), halvings=halvings + 1)
    steady = jnp.isfinite(value) & (jnp.max(jnp.abs(ravel_pytree(momentum)[0])) < _FASTEST)  # NaN is not less
    state = jax.tree.map(lambda new, old: jnp.where(steady, new, old), moved, back)
    return state, Info(state.log_density, 0.5 * jnp.mean(ravel_pytree(state.momentum)[0] ** 2))


def _gradients(key: Array, position: PyTree, log_density: LogDensity, count: Array) -> tuple[Array, Any, Any]:
    """Means of the log density and of its gradient over ``count`` evaluations, and the variance among the gradients."""
    zeros = jax.tree.map(jnp.zeros_like, position)
    zero = jnp.zeros((), jax.tree.leaves(zeros)[0].dtype)

    def evaluate(i: Array, sums: tuple[Array, Any, Any]) -> tuple[Array, Any, Any]:
        value, slope = jax.value_and_grad(log_density, argnums=1)(jax.random.fold_in(key, i), position)
        total, mean, spread = sums
        # Welford's update: exact gradients have a spread of exactly zero.
        moved = jax.tree.map(lambda m, g: m + (g - m) / (i + 1), mean, slope)
        spread = jax.tree.map(lambda s, g, old, new: s + (g - old) * (g - new), spread, slope, mean, moved)
        return total + (value / count).astype(total.dtype), moved, spread

    # A loop rather than a batch, so that the gradient is compiled once for both counts.
    value, slope, spread = jax.lax.fori_loop(0, count, evaluate, (zero, zeros, zeros))
    return value, slope, jax.tree.map(lambda s: s / jnp.maximum(count - 1, 1), spread)


def _tuned(tuning: Tuning, slope: Any, noise: Any) -> Tuning:
    gradient, square, measured, horizon, steps = tuning

    def average(old: Array, new: Array, t: Array) -> Array:
        return old + (new - old) / t

    horizon = jax.tree.map(
        lambda t, g, v: jnp.maximum(1.0 + t * (1.0 - jnp.minimum(g**2 / v, 1.0)), _MEMORY * steps),
        horizon,
        gradient,
        square,
    )
    # The gradient of a step is the mean of two, and has half the noise of one.
    squares = jax.tree.map(lambda g, b: g**2 + 0.5 * b, slope, noise)
    return Tuning(
        jax.tree.map(average, gradient, slope, horizon),
        jax.tree.map(lambda v, s, t: jnp.maximum(average(v, s, t), _FLOOR), square, squares, horizon),
        jax.tree.map(average, measured, noise, horizon),
        horizon,
        steps + 1,
    )


def _normals(key: Array, tree: PyTree) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    draws = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, draws)


# Models


class Maximisation(NamedTuple):
    """Moving-window Monte-Carlo EM: the hyperparameters, Adam's moments, and the last W positions of all chains."""

    hyperparameters: PyTree
    moments: PyTree
    window: PyTree


class SGHMC(AbstractSampler):
    """Adaptive stochastic-gradient Hamiltonian Monte Carlo; other parameters by moving-window Monte-Carlo EM.

    One in ``thin`` steps is a draw; the sampler tunes itself during the warm-up. Parameters of the roles ``optimise``
    move during the warm-up and stay where it leaves them: each of Adam's steps climbs the log joint density at a
    position drawn uniformly from the last ``window`` ones (Havasi, Hernández-Lobato & Murillo-Fuentes 2018). All chains
    share them.

    Args:
        warmup: Draws of each chain before the first that is kept; each takes ``thin`` steps.
        chains: Number of chains.
        thin: Steps for each draw.
        batch: Rows drawn anew for each gradient; None for all of them.
        step_size: h, without a unit; between 0 and the square root of 4 friction/(2 − friction). A chain that runs off
            halves its own, and says so in the statistic ``halvings``.
        friction: Part of the momentum lost in a step, between 0 and 1.
        optimise: Roles of parameters that are optimised, such as ("hyperparameter",).
        window: Positions that the optimised parameters look back on.
        learning_rate: Of Adam, for the optimised parameters.
        jitter: Standard deviation, in raw numbers, of the starts of the chains around the model.
    """

    warmup: Any = eqx.field(default=200, converter=lambda value: np.asarray(value))
    chains: int = eqx.field(static=True, default=4)
    thin: int = eqx.field(static=True, default=10)
    batch: int | None = eqx.field(static=True, default=None)
    step_size: Any = eqx.field(default=0.1, converter=lambda value: np.asarray(value, np.float64))
    friction: Any = eqx.field(default=0.1, converter=lambda value: np.asarray(value, np.float64))
    optimise: tuple[Role, ...] = eqx.field(static=True, default=())
    window: int = eqx.field(static=True, default=100)
    learning_rate: Any = eqx.field(default=0.02, converter=lambda value: np.asarray(value, np.float64))
    jitter: float = eqx.field(static=True, default=0.1)

    advice: ClassVar[str] = "a smaller step_size, a longer warmup, or a start at the optimum usually help"

    def __check_init__(self) -> None:
        at_least(1, warmup=self.warmup.item(), chains=self.chains, thin=self.thin, window=self.window)
        friction, step_size = float(self.friction), float(self.step_size)
        if not 0.0 < friction < 1.0:
            raise ValueError(f"friction is the part of the momentum lost in a step, between 0 and 1; got {friction}")
        longest = math.sqrt(4.0 * friction / (2.0 - friction))
        if not 0.0 < step_size < longest:
            raise ValueError(
                f"step_size must lie between 0 and {longest:.3g} for a friction of {friction}, got {step_size}"
            )

    def optimised(self) -> tuple[Role, ...]:
        return self.optimise

    def independent(self) -> bool:
        return not self.optimise  # chains share what is optimised

    def begin(self, target: Target, position: PyTree, data: Any) -> tuple[Any, Maximisation]:
        del data
        hyperparameters, _ = partition(target.rest, *self.optimise)
        return jax.vmap(init)(position), _learner(jax.tree.map(jnp.asarray, hyperparameters), position, self.window)

    def finish(self, state: PyTree, rest: PyTree) -> Any:
        return eqx.combine(state[1].hyperparameters, rest)

    def move(self, target: Target, state: PyTree, index: Array, data: Any) -> tuple[Any, Draw]:
        # ``thin`` steps of all chains, each followed by one of the hyperparameters if these are optimised.
        tune = index < self.warmup

        def log_joint(free: PyTree, hyperparameters: PyTree, key: Array) -> Array:
            part = data if self.batch is None else data.minibatch(key, self.batch)
            return target.log_joint(eqx.combine(free, hyperparameters), part, key)

        def once(i: Array, carry: tuple[Any, Any, Info]) -> tuple[Any, Any, Info]:
            chains, learned, _ = carry
            time = index * self.thin + i
            key_move, key_learn = jax.random.split(jax.random.fold_in(target.key, time))

            def one(key: Array, chain: State) -> tuple[State, Info]:
                density = lambda key, free: log_joint(free, learned.hyperparameters, key)  # noqa: E731
                return step(key, chain, density, step_size=self.step_size, friction=self.friction, tune=tune)

            chains, info = jax.vmap(one)(jax.random.split(key_move, self.chains), chains)
            if jax.tree.leaves(learned.hyperparameters):
                climb = lambda: self._climb(key_learn, time, learned, chains.position, log_joint, data.size)  # noqa: E731
                learned = jax.lax.cond(tune, climb, lambda: learned)
            return chains, learned, info

        chains, learned = state
        zeros = jnp.zeros(self.chains, jax.tree.leaves(chains.position)[0].dtype)
        chains, learned, info = jax.lax.fori_loop(0, self.thin, once, (chains, learned, Info(zeros, zeros)))
        statistics = {"kinetic": info.kinetic, "halvings": chains.halvings}
        return (chains, learned), Draw(chains.position, info.log_density, statistics)

    def _climb(
        self, key: Array, time: Array, learned: Maximisation, position: PyTree, log_joint: Any, size: int
    ) -> Maximisation:
        hyperparameters, moments, window = learned
        length = jax.tree.leaves(window)[0].shape[0]
        window = jax.tree.map(lambda past, now: past.at[time % length].set(now), window, position)
        key_choice, key_rows = jax.random.split(key)
        chosen = jax.tree.map(lambda past: past[jax.random.randint(key_choice, (), 0, length)], window)
        keys = jax.random.split(key_rows, self.chains)

        def loss(hyperparameters: PyTree) -> Array:
            return -jnp.mean(jax.vmap(lambda free, key: log_joint(free, hyperparameters, key))(chosen, keys)) / size

        slope = jax.grad(loss)(hyperparameters)
        direction, moments = optax.scale_by_adam().update(slope, moments)
        # The cosine brings them to rest before they are frozen.
        rate = self.learning_rate * 0.5 * (1.0 + jnp.cos(jnp.pi * time / (self.warmup * self.thin)))
        moved = jax.tree.map(lambda value, d: value - rate * d, hyperparameters, direction)
        return Maximisation(moved, moments, window)


def _learner(hyperparameters: PyTree, position: PyTree, window: int) -> Maximisation:
    # Without hyperparameters to learn there is no use for past positions.
    length = window if jax.tree.leaves(hyperparameters) else 0
    past = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (length, *leaf.shape)), position)
    return Maximisation(hyperparameters, optax.scale_by_adam().init(hyperparameters), past)
