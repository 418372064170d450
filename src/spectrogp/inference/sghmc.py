"""Adaptive stochastic-gradient Hamiltonian Monte Carlo, for any log density over any pytree.

Coordinates are scaled by v̂^{-1/2}, where v̂ is a running average of the squared gradient; in them, with step h, friction
1 − c and momentum p ~ N(0, 1), one step is

    q ← q + ½h v̂^{-1/2} p,   p ← c p + ξ,   q ← q + ½h v̂^{-1/2} p,   p ← p + h v̂^{-1/2} ∇log π(q).

The momentum stays between steps, each kick uses the gradient at the position already moved to (semi-implicit), and the
friction sits in the middle of the drift. With exact gradients the variances of a Gaussian are then exact at any stable
h (Leimkuhler & Matthews 2013); with ξ of the same variance in the order of Springenberg et al. they are too large by
1/(1 − h²/4). A gradient from a minibatch carries noise of variance b̂, which heats the momentum by h²b̂/v̂ each step; ξ
gets so much less: its variance is 1 − c² − ((1 + c)/2)² h² b̂/v̂.

Tuning, during burn-in only, follows Springenberg, Klein, Falkner & Hutter (2016): v̂ and the average gradient ĝ forget
at the rate 1/t, with the horizon t ← 1 + t(1 − ĝ²/v̂) of each coordinate. Differs from the paper:

- the inverse mass is v̂^{-1}, not v̂^{-1/2}: v̂ is the curvature plus the noise, so h has no units, and h² < 4(1 − c)/(1 + c)
  keeps the variance of ξ positive whatever the noise is;
- t is at least a fifth of the steps so far: gradients along a trajectory are correlated, which the rule takes for a
  trend, and v̂ would be frozen at whatever the gradient was last;
- b̂ is measured, from two independent gradients at the same place: the paper takes all of v̂ for noise, which leaves exact
  gradients too cold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

LogDensity = Callable[[Array, Any], Array]  # key, position → log density, or an unbiased estimate of it

_RAMP = 100  # steps over which the step size rises to its value, while v̂ finds its scale
_MEMORY = 0.2  # the least horizon, as a fraction of the steps so far


class Tuning(NamedTuple):
    """Running averages of each coordinate: gradient ĝ, its square v̂, its noise b̂, the horizon t; and steps so far."""

    gradient: Any
    square: Any
    noise: Any
    horizon: Any
    count: Array


class State(NamedTuple):
    """Position, momentum in scaled coordinates, and what the tuning knows."""

    position: Any
    momentum: Any
    tuning: Tuning


class Info(NamedTuple):
    """The log density (or its estimate) at the new position, and the mean kinetic energy per coordinate (½ if right)."""

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
    step_size: float | Array = 0.2,
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
    h = step_size * jnp.where(tune, jnp.minimum(1.0, (tuning.count + 1) / _RAMP), 1.0)
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
    energy = sum(jnp.sum(p**2) for p in jax.tree.leaves(momentum))
    return State(position, momentum, tuning), Info(value, 0.5 * energy / sum(map(jnp.size, jax.tree.leaves(momentum))))


def _gradients(key: Array, position: Any, log_density: LogDensity, count: Array) -> tuple[Array, Any, Any]:
    """Means of the log density and of its gradient over ``count`` evaluations, and the variance among the gradients."""
    zeros = jax.tree.map(jnp.zeros_like, position)

    def evaluate(i: Array, sums: tuple[Array, Any, Any]) -> tuple[Array, Any, Any]:
        value, slope = jax.value_and_grad(log_density, argnums=1)(jax.random.fold_in(key, i), position)
        total, mean, spread = sums
        # Welford's update: exact gradients have a spread of exactly zero.
        moved = jax.tree.map(lambda m, g: m + (g - m) / (i + 1), mean, slope)
        spread = jax.tree.map(lambda s, g, old, new: s + (g - old) * (g - new), spread, slope, mean, moved)
        return total + value / count, moved, spread

    # A loop rather than a batch, so that the gradient is compiled once for both counts.
    value, slope, spread = jax.lax.fori_loop(0, count, evaluate, (_zero(log_density, key, position), zeros, zeros))
    return value, slope, jax.tree.map(lambda s: s / jnp.maximum(count - 1, 1), spread)


def _tuned(tuning: Tuning, slope: Any, noise: Any) -> Tuning:
    gradient, square, measured, horizon, count = tuning

    def average(old: Array, new: Array, t: Array) -> Array:
        return old + (new - old) / t

    horizon = jax.tree.map(
        lambda t, g, v: jnp.maximum(1.0 + t * (1.0 - jnp.minimum(g**2 / v, 1.0)), _MEMORY * count),
        horizon,
        gradient,
        square,
    )
    # The gradient of a step is the mean of two, and has half the noise of one.
    squares = jax.tree.map(lambda g, b: g**2 + 0.5 * b, slope, noise)
    floor = jnp.finfo(jax.tree.leaves(square)[0].dtype).tiny ** 0.5
    return Tuning(
        jax.tree.map(average, gradient, slope, horizon),
        jax.tree.map(lambda v, s, t: jnp.maximum(average(v, s, t), floor), square, squares, horizon),
        jax.tree.map(average, measured, noise, horizon),
        horizon,
        count + 1,
    )


def _normals(key: Array, tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    draws = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, draws)


def _zero(log_density: LogDensity, key: Array, position: Any) -> Array:
    shape = jax.eval_shape(log_density, key, position)
    return jnp.zeros(shape.shape, shape.dtype)
