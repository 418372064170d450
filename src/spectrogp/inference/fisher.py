"""A normal approximation of the posterior by Fisher information: a curvature of all directions, for many rows.

Lanczos iteration (``laplace``) follows the curvature of the log joint density in as many directions as it has products,
and leaves the others at the width of the prior. Where the data determine thousands of function values, each a little,
these others are most of them, and draws along them ruin predictions. The conditionals of a neighbour model are normal,
so their Fisher information is known from first derivatives of two numbers for each row; a sum over rows covers every
direction, and is never negative.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree
from scipy.linalg import cholesky, solve_triangular

from ..core import Key, as_key, at_least, entry_point
from ..models import Neighbourhoods, conditional_moments
from ..parameters import Role, partition
from ..posterior import Posterior
from .laplace import WIDEST, prior_precision

_CHUNK = 32  # neighbourhoods whose derivatives are held at once
LARGEST = 4096  # raw numbers up to which the whole matrix is held: beyond, its diagonal


@entry_point
def fisher_information(
    model: Any, near: Neighbourhoods, *, roles: tuple[Role, ...] = ("latent",), diagonal: bool = False
) -> np.ndarray:
    """The Fisher information of all rows about the raw numbers of some roles, ``[p, p]``, or its diagonal ``[p]``.

    A row's conditional is normal with mean m and variance v, so its information is ∂m ∂mᵀ/v + ½ ∂log v ∂log vᵀ. Exact
    for the model of the conditioning sets; with all rows before each it is that of the exact Gaussian process, on
    average over outputs of the model. Neighbourhoods of some rows stand for all.

    Args:
        model: A ``NeighbourGP``, or an ``ExactGP`` whose information is wanted by neighbours.
        near: Neighbourhoods of its data.
        roles: Which parameters.
        diagonal: Whether the diagonal alone is wanted.
    """
    free, rest = _parts(model, roles)
    return np.asarray(near.scale * _information(free, rest, near, diagonal), np.float64)


@entry_point
def sample_fisher(
    model: Any, near: Neighbourhoods, *, draws: int, key: Key, roles: tuple[Role, ...] = ("latent",)
) -> Posterior:
    """Draws from the normal approximation N(θ̂, (prior precision + Fisher information)⁻¹) at an optimum, as one chain.

    Beyond 4096 raw numbers the information is that of each number by itself (its diagonal): the expected loss of the
    log joint density is the same, half of one for each number, but what the numbers trade off is left out.

    Args:
        model: A ``NeighbourGP`` or ``ExactGP`` at its optimum.
        near: Neighbourhoods of its data.
        draws: How many draws.
        key: An integer seed or a JAX random key.
        roles: Which parameters are drawn; the others stay.
    """
    at_least(1, draws=draws)
    free, rest = _parts(model, roles)
    mean, unravel = ravel_pytree(free)
    prior = np.maximum(np.asarray(prior_precision(rest, free), np.float64), WIDEST**-2)
    information = fisher_information(model, near, roles=roles, diagonal=mean.size > LARGEST)
    if not np.all(np.isfinite(information)):
        raise FloatingPointError(
            "the Fisher information is not finite: the fit is at the edge of what can be computed; more noise or "
            "stronger priors usually help"
        )
    rng = np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))))
    z = rng.normal(size=(draws, mean.size))
    if information.ndim == 1:
        moves = z / np.sqrt(prior + information)
    else:
        upper = cholesky(np.diag(prior) + information, lower=False, overwrite_a=True)
        moves = solve_triangular(upper, z.T, lower=False).T
    drawn = jax.vmap(unravel)(mean + jnp.asarray(moves, mean.dtype))
    log_joint = -0.5 * np.sum(z**2, axis=1)
    return Posterior(jax.tree.map(lambda leaf: np.asarray(leaf)[None], drawn), rest, log_joint[None], {})


def _parts(model: Any, roles: tuple[Role, ...]) -> tuple[Any, Any]:
    free, rest = partition(model, *roles)
    if not jax.tree.leaves(free):
        raise ValueError(f"the model has no parameters with a role among {', '.join(map(repr, roles))}")
    return jax.tree.map(jnp.asarray, free), rest


@eqx.filter_jit
def _information(free: PyTree, rest: PyTree, near: Neighbourhoods, diagonal: bool) -> Array:
    raw, unravel = ravel_pytree(free)

    def moments(raw: Array, members: Array) -> Array:
        mean, variance = conditional_moments(eqx.combine(unravel(raw), rest).realise(), near.data, members[None])
        return jnp.stack([mean[0], jnp.log(variance[0])])

    def slopes(members: Array) -> Array:
        """∂m/√v and ∂log v/√2, ``[2, p]``; zero for a neighbourhood of no members, which fills the last chunk."""
        (_, log_variance), slope = moments(raw, members), jax.jacrev(moments)(raw, members)
        weight = jnp.stack([jnp.exp(-0.5 * log_variance), jnp.asarray(np.sqrt(0.5), raw.dtype)])
        return jnp.where(members[-1] >= 0, weight[:, None] * slope, 0.0)

    def add(total: Array, members: Array) -> tuple[Array, None]:
        J = jax.vmap(slopes)(members).reshape(-1, raw.size)
        return total + (jnp.sum(J**2, axis=0) if diagonal else J.T @ J), None

    members = jnp.asarray(near.members)
    count = -(-members.shape[0] // _CHUNK) * _CHUNK
    chunks = jnp.pad(members, ((0, count - members.shape[0]), (0, 0)), constant_values=-1)
    start = jnp.zeros(raw.shape if diagonal else (raw.size, raw.size), raw.dtype)
    return jax.lax.scan(add, start, chunks.reshape(-1, _CHUNK, members.shape[1]))[0]
