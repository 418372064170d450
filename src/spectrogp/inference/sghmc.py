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
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from ..models import AbstractObjective
from ..numerics import entry_point
from ..parameters import Role, partition
from .diagnostics import check
from .loop import Progress, run_in_chunks
from .posterior import Posterior, by_chain, starts

LogDensity = Callable[[Array, Any], Array]  # key, position → log density, or an unbiased estimate of it

_RAMP = 100  # steps over which the step size rises to its value, while v̂ finds its scale
_FLOOR = 1e-15  # of v̂: a coordinate that the density does not depend on must not give 1/0
_MEMORY = 0.2  # the least horizon, as a fraction of the steps so far


class Tuning(NamedTuple):
    """Running averages of each coordinate: gradient ĝ, its square v̂, its noise b̂, the horizon t; and steps so far."""

    gradient: Any
    square: Any
    noise: Any
    horizon: Any
    steps: Array


class State(NamedTuple):
    """Position, momentum in scaled coordinates, and what the tuning knows."""

    position: Any
    momentum: Any
    tuning: Tuning


class Info(NamedTuple):
    """Log density (or its estimate) at the new position; kinetic energy per coordinate, ½ on average if all is well."""

    log_density: Array
    kinetic: Array


def init(position: Any) -> State:
    """The start at a position: at rest, untuned."""
    position = jax.tree.map(jnp.asarray, position)
    zeros, ones = (jax.tree.map(make, position) for make in (jnp.zeros_like, jnp.ones_like))
    return State(position, zeros, Tuning(zeros, ones, zeros, ones, jnp.zeros((), int)))


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
    are not draws. ``friction`` is the part 1 − c of the momentum that is lost in a step.
    """
    position, momentum, tuning = state
    key_noise, key_gradient = jax.random.split(key)
    tune = jnp.asarray(tune)
    keep = 1.0 - friction
    h = step_size * jnp.where(tune, jnp.minimum(1.0, (tuning.steps + 1) / _RAMP), 1.0)
    half = jax.tree.map(lambda v: 0.5 * h / jnp.sqrt(v), tuning.square)

    def refresh(p: Array, v: Array, b: Array, noise: Array) -> Array:
        variance = 1.0 - keep**2 - (0.5 * (1.0 + keep) * h) ** 2 * b / v
        return keep * p + jnp.sqrt(jnp.maximum(variance, 0.0)) * noise

    def drift(q: Any, p: Any) -> Any:
        return jax.tree.map(lambda q, p, a: q + a * p, q, p, half)

    position = drift(position, momentum)
    momentum = jax.tree.map(refresh, momentum, tuning.square, tuning.noise, _normals(key_noise, position))
    position = drift(position, momentum)
    value, slope, noise = _gradients(key_gradient, position, log_density, jnp.where(tune, 2, 1))
    momentum = jax.tree.map(lambda p, g, a: p + 2.0 * a * g, momentum, slope, half)
    tuning = jax.tree.map(lambda new, old: jnp.where(tune, new, old), _tuned(tuning, slope, noise), tuning)
    flat = ravel_pytree(momentum)[0]
    return State(position, momentum, tuning), Info(value, 0.5 * jnp.mean(flat**2))


def _gradients(key: Array, position: Any, log_density: LogDensity, count: Array) -> tuple[Array, Any, Any]:
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


def _normals(key: Array, tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    draws = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, draws)


# Models


class Maximisation(NamedTuple):
    """Moving-window Monte-Carlo EM: the hyperparameters, Adam's moments, and the last W positions of all chains."""

    hyperparameters: Any
    moments: Any
    window: Any


class Draw(NamedTuple):
    """What a loop keeps of a step: position, log joint density and kinetic energy, of all chains."""

    position: Any
    log_joint: Array
    kinetic: Array


@entry_point
def sample_sghmc(
    model: AbstractObjective,
    data: Any,
    *,
    steps: int,
    key: Array,
    burn_in: int = 2000,
    thin: int = 10,
    chains: int = 4,
    batch: int | None = None,
    step_size: float = 0.1,
    friction: float = 0.1,
    roles: tuple[Role, ...] = ("latent",),
    optimise: tuple[Role, ...] = (),
    window: int = 100,
    learning_rate: float = 0.02,
    jitter: float = 0.1,
    chunk: int = 50,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    warn: bool = True,
) -> Posterior:
    """Sample the parameters of the given roles by SG-HMC; optimise others by moving-window Monte-Carlo EM.

    After ``burn_in`` steps of tuning, one in ``thin`` of ``steps`` steps is a draw, in each of ``chains`` chains, which
    start at the model as it is plus jitter. ``batch`` rows are drawn anew for each gradient (all when left out).

    Parameters of the roles ``optimise`` move during burn-in and stay where it leaves them: each of Adam's steps climbs
    the log joint density at a position drawn uniformly from the last ``window`` ones (Havasi, Hernández-Lobato &
    Murillo-Fuentes 2018). All chains share them. A ``chunk`` is counted in draws.

    At the end ``check`` looks at the draws, and warns of what is wrong with them unless ``warn`` is false.
    """
    for name, value, least in (("steps", steps, 1), ("burn_in", burn_in, 1), ("thin", thin, 1), ("window", window, 1)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    if not 0.0 < friction < 1.0:
        raise ValueError(f"friction is the part of the momentum lost in a step, between 0 and 1; got {friction}")
    if not 0.0 < step_size**2 < 4.0 * friction / (2.0 - friction):
        most = math.sqrt(4.0 * friction / (2.0 - friction))
        raise ValueError(f"step_size must lie between 0 and {most:.3g} for a friction of {friction}, got {step_size}")
    key_start, key_steps = jax.random.split(key)
    position, rest = starts(model, roles, chains, jitter, key_start)
    hyperparameters, rest = partition(rest, *optimise)
    skip = -(-burn_in // thin)
    numbers = {"step_size": step_size, "friction": friction, "learning_rate": learning_rate, "burn_in": skip}
    step = _Step(rest, key_steps, **jax.tree.map(jnp.asarray, numbers), batch=batch, thin=thin, chains=chains)
    state = jax.vmap(init)(position), _learner(jax.tree.map(jnp.asarray, hyperparameters), position, window)
    (_, learned), draws, interrupted = run_in_chunks(
        step,
        state,
        data,
        steps=skip + steps // thin,
        chunk=chunk,
        objective=lambda draws: draws.log_joint,
        progress=progress,
        checkpoint=checkpoint,
        advice="a smaller step_size, a longer burn_in, or a start at the optimum usually help",
    )
    draws = by_chain(draws, skip)
    rest = eqx.combine(learned.hyperparameters, rest)
    posterior = Posterior(draws.position, rest, draws.log_joint, {"kinetic": draws.kinetic}, interrupted)
    if warn:
        check(posterior, stacklevel=4)  # at the caller of the entry point
    return posterior


def _learner(hyperparameters: Any, position: Any, window: int) -> Maximisation:
    # Without hyperparameters to learn there is no use for past positions.
    length = window if jax.tree.leaves(hyperparameters) else 0
    past = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (length, *leaf.shape)), position)
    return Maximisation(hyperparameters, optax.scale_by_adam().init(hyperparameters), past)


class _Step(eqx.Module):
    """``thin`` steps of all chains, each followed by one of the hyperparameters if these are optimised."""

    rest: Any
    key: Array
    step_size: Array
    friction: Array
    learning_rate: Array
    burn_in: Array  # in draws
    batch: int | None = eqx.field(static=True)
    thin: int = eqx.field(static=True)
    chains: int = eqx.field(static=True)

    def __call__(self, state: Any, index: Array, data: Any) -> tuple[Any, Draw]:
        tune = index < self.burn_in

        def log_joint(free: Any, hyperparameters: Any, key: Array) -> Array:
            part = data if self.batch is None else data.minibatch(key, self.batch)
            return eqx.combine(free, hyperparameters, self.rest).log_joint(part, key)

        def move(i: Array, carry: tuple[Any, Any, Info]) -> tuple[Any, Any, Info]:
            chains, learned, _ = carry
            key_move, key_learn = jax.random.split(jax.random.fold_in(self.key, index * self.thin + i))

            def one(key: Array, chain: State) -> tuple[State, Info]:
                target = lambda key, free: log_joint(free, learned.hyperparameters, key)  # noqa: E731
                return step(key, chain, target, step_size=self.step_size, friction=self.friction, tune=tune)

            chains, info = jax.vmap(one)(jax.random.split(key_move, self.chains), chains)
            if jax.tree.leaves(learned.hyperparameters):
                time = index * self.thin + i
                climb = lambda: self._climb(key_learn, time, learned, chains.position, log_joint, data.size)  # noqa: E731
                learned = jax.lax.cond(tune, climb, lambda: learned)
            return chains, learned, info

        chains, learned = state
        zeros = jnp.zeros(self.chains, jax.tree.leaves(chains.position)[0].dtype)
        chains, learned, info = jax.lax.fori_loop(0, self.thin, move, (chains, learned, Info(zeros, zeros)))
        return (chains, learned), Draw(chains.position, info.log_density, info.kinetic)

    def _climb(
        self, key: Array, time: Array, learned: Maximisation, position: Any, log_joint: Any, size: int
    ) -> Maximisation:
        hyperparameters, moments, window = learned
        length = jax.tree.leaves(window)[0].shape[0]
        window = jax.tree.map(lambda past, now: past.at[time % length].set(now), window, position)
        key_choice, key_rows = jax.random.split(key)
        chosen = jax.tree.map(lambda past: past[jax.random.randint(key_choice, (), 0, length)], window)
        keys = jax.random.split(key_rows, self.chains)

        def loss(hyperparameters: Any) -> Array:
            return -jnp.mean(jax.vmap(lambda free, key: log_joint(free, hyperparameters, key))(chosen, keys)) / size

        slope = jax.grad(loss)(hyperparameters)
        direction, moments = optax.scale_by_adam().update(slope, moments)
        # The cosine brings them to rest before they are frozen.
        rate = self.learning_rate * 0.5 * (1.0 + jnp.cos(jnp.pi * time / (self.burn_in * self.thin)))
        moved = jax.tree.map(lambda value, d: value - rate * d, hyperparameters, direction)
        return Maximisation(moved, moments, window)
