"""The Laplace approximation: a normal distribution around the optimum, with the curvature of the log joint density."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree
from scipy.linalg import eigh_tridiagonal

from ..core import Key, as_key, at_least, entry_point
from ..models import AbstractObjective
from ..parameters import Role, log_prior, partition
from ..posterior import Posterior
from .loop import Progress

_STEP = 1e-4  # of central differences, in prior standard deviations: errors of their square, and of rounding, ~1e-8
WIDEST = 3.0  # prior standard deviation, in raw numbers, where there is no prior or a wider one
_NEGLIGIBLE = 0.05  # curvature by the data, beside a prior curvature of 1
_EXHAUSTED = 1e-9  # norm of a remainder that is rounding
_QUIET = 3  # steps in a row that find no more than that before the search for curvature ends


class Curvature(NamedTuple):
    """−∇² of the log joint density: prior precision s² of each raw number, plus V diag(λ) Vᵀ in units of it."""

    s: np.ndarray  # [p]
    V: np.ndarray  # [p, k]
    value: np.ndarray  # [k], λ
    peak: float  # the log joint density at the optimum


@entry_point
def sample_laplace(
    model: AbstractObjective,
    data: Any,
    *,
    draws: int,
    key: Key,
    batch: int | None = None,
    max_products: int = 150,
    roles: tuple[Role, ...] = ("latent",),
    progress: Progress | None = None,
) -> Posterior:
    """Independent draws from the normal approximation of the posterior around a model at its optimum, as one chain.

    The precision is that of the prior plus the curvature of the likelihood, found by Lanczos iteration: those
    directions first that the data determine most. Directions that are left out keep the variance of the prior, as do
    those in which the density curves upwards. The ``log_joint`` of the draws is that of the approximation.

    Args:
        model: A model at its optimum.
        data: What it was fitted to.
        draws: How many draws.
        key: An integer seed or a JAX random key.
        batch: Rows that the curvature is estimated from; None for all of them.
        max_products: Products with the Hessian, at most; each is the difference of two gradients.
        roles: Which parameters are drawn; the others stay.
        progress: Called after every product as ``progress(done, max_products, log joint density per row)``.
    """
    at_least(1, draws=draws, max_products=max_products)
    free, rest, curvature, rng = _around(model, data, as_key(key), batch, max_products, roles, progress)
    z = rng.normal(size=(draws, len(curvature.s)))
    # (I + VλVᵀ)^(−½) = I − V (1 − (1 + λ)^(−½)) Vᵀ for orthonormal V.
    shrink = 1.0 - 1.0 / np.sqrt(1.0 + curvature.value)
    moves = (z - ((z @ curvature.V) * shrink) @ curvature.V.T) / curvature.s
    mean, unravel = ravel_pytree(free)
    drawn = jax.vmap(unravel)(mean + jnp.asarray(moves, mean.dtype))
    log_joint = curvature.peak - 0.5 * np.sum(z**2, axis=1)
    return Posterior(jax.tree.map(lambda leaf: np.asarray(leaf)[None], drawn), rest, log_joint[None], {})


@entry_point
def laplace_marginal_likelihood(
    model: AbstractObjective, data: Any, *, key: Key, max_products: int = 150, roles: tuple[Role, ...] = ("latent",)
) -> float:
    """log ∫ p(y, θ) dθ of the normal approximation around a model at its optimum; the other parameters stay.

    The log joint density of functions alone prefers rough ones, which follow the noise. This counts how well the data
    determine them as well, so initial values and priors can be compared by it.

    Args:
        model: A model at its optimum.
        data: What it was fitted to.
        key: An integer seed or a JAX random key.
        max_products: Products with the Hessian, at most.
        roles: Which parameters θ are integrated out.
    """
    _, _, curvature, _ = _around(model, data, as_key(key), None, max_products, roles, None)
    size = len(curvature.s)
    volume = 0.5 * size * np.log(2.0 * np.pi) - np.sum(np.log(curvature.s)) - 0.5 * np.sum(np.log1p(curvature.value))
    return float(curvature.peak + volume)


def _around(
    model: AbstractObjective,
    data: Any,
    key: Array,
    batch: int | None,
    max_products: int,
    roles: tuple[Role, ...],
    progress: Progress | None,
) -> tuple[Any, Any, Curvature, np.random.Generator]:
    """Free parameters and the rest of the model, the curvature there, and a source of random numbers."""
    free, rest = partition(model, *roles)
    free = jax.tree.map(jnp.asarray, free)
    if not jax.tree.leaves(free):
        raise ValueError(f"the model has no parameters with a role among {', '.join(map(repr, roles))}")
    of_rows, of_density, of_numbers = jax.random.split(key, 3)
    part = data if batch is None else data.minibatch(of_rows, batch)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(of_numbers)))
    return free, rest, curvature_at(Density(rest, part, of_density), free, max_products, rng, progress), rng


class Density(eqx.Module):
    """The log joint density of free parameters; arrays are leaves, so that equal shapes share a program."""

    rest: PyTree
    data: Any
    key: Array

    def __call__(self, free: PyTree) -> Array:
        return eqx.combine(free, self.rest).log_joint(self.data, self.key)


@eqx.filter_jit
def prior_precision(rest: PyTree, free: PyTree) -> Array:
    """−∂² log p of every raw number ``[p]``; priors are independent, so one difference gives all."""
    mean, unravel = ravel_pytree(free)
    slope = jax.grad(lambda raw: log_prior(eqx.combine(unravel(raw), rest)))
    return (slope(mean - _STEP) - slope(mean + _STEP)) / (2.0 * _STEP)


@eqx.filter_jit
def _product(density: Density, free: PyTree, move: Array) -> tuple[Array, Array]:
    """log p, and −∇² log p times a small move ``[p]``, by central differences."""
    mean, unravel = ravel_pytree(free)
    # In a loop: the program holds the gradient once.
    values, slopes = jax.lax.map(
        jax.value_and_grad(lambda raw: density(unravel(raw))), jnp.stack([mean - move, mean + move])
    )
    return jnp.mean(values), 0.5 * (slopes[0] - slopes[1])


def curvature_at(
    density: Density, free: PyTree, max_products: int, rng: np.random.Generator, progress: Progress | None
) -> Curvature:
    """Lanczos iteration with full reorthogonalisation on the curvature by the data, in units of the prior's."""
    prior = np.asarray(prior_precision(density.rest, free), np.float64)
    s = np.sqrt(np.maximum(prior, WIDEST**-2))
    max_products = min(max_products, len(s))
    V, w = np.empty((0, len(s))), rng.normal(size=len(s))
    alpha: list[float] = []  # the diagonal of the tridiagonal matrix VᵀBV, and beside it
    beta = [float(np.linalg.norm(w))]
    while (
        len(V) < max_products and beta[-1] > _EXHAUSTED and not (len(V) > _QUIET and max(beta[-_QUIET:]) < _NEGLIGIBLE)
    ):
        v = w / beta[-1]
        V = np.vstack([V, v])
        peak, product = _product(density, free, jnp.asarray(_STEP * v / s))
        w = np.asarray(product, np.float64) / (_STEP * s)
        if not np.all(np.isfinite(w)):
            raise FloatingPointError(
                f"the curvature of the log joint density is not finite at product {len(V)}: the fit is at the edge of "
                "what can be computed; more noise or stronger priors usually help"
            )
        w -= prior / s**2 * v
        alpha.append(float(v @ w))
        for _ in range(2):  # one pass leaves rounding
            w -= V.T @ (V @ w)
        beta.append(float(np.linalg.norm(w)))
        if progress is not None:
            progress(len(V), max_products, float(peak) / density.data.size)
    value, U = eigh_tridiagonal(alpha, beta[1:-1])
    return Curvature(s, V.T @ U, np.maximum(value, 0.0), float(peak))
