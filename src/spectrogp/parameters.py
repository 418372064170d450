"""Parameters: numbers with a constraint, a prior, and a role in inference.

A model is a pytree in which some leaves are *parameters*. Inference works on their unconstrained values; the model's
formulas work on constrained ones. ``constrain`` turns one into the other, once, where a model is entered.

    raw    what optimisers and samplers move: any real number
    value  what formulas use: the raw number itself (``Real``), or its exponential (``Positive``)

A prior is a density of the value; ``log_prior`` adds the logarithm of |d value / d raw|, so that it is the log density
of the raw numbers, which is what a sampler over raw numbers needs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Tree = TypeVar("Tree")
Role = Literal["latent", "hyperparameter", "variational", "fixed"]


class Normal(eqx.Module):
    """Normal prior with a mean and a standard deviation."""

    mean: Any = eqx.field(default=0.0, converter=lambda value: _as_array(value))
    deviation: Any = eqx.field(default=1.0, converter=lambda value: _as_array(value))

    def log_density(self, value: Array) -> Array:
        z = (value - self.mean) / self.deviation
        return -0.5 * z**2 - math.log(math.sqrt(2.0 * math.pi)) - jnp.log(self.deviation)


class LogNormal(eqx.Module):
    """Prior of a positive value: its logarithm is normal around log(median) with the given standard deviation."""

    median: Any = eqx.field(default=1.0, converter=lambda value: _as_array(value))
    deviation: Any = eqx.field(default=1.0, converter=lambda value: _as_array(value))

    def log_density(self, value: Array) -> Array:
        return Normal(jnp.log(self.median), self.deviation).log_density(jnp.log(value)) - jnp.log(value)


class AbstractParameter(eqx.Module):
    """A leaf of a model: raw numbers, a constraint, a prior (None is flat) and a role.

    Roles say what an inference method may do with it: ``latent`` numbers are what posteriors are about,
    ``hyperparameter`` s are optimised or sampled, ``fixed`` ones stay.
    """

    raw: eqx.AbstractVar[Array]
    prior: eqx.AbstractVar[Any]
    role: eqx.AbstractVar[Role]

    @property
    @abstractmethod
    def value(self) -> Array:
        """The constrained value."""

    @property
    @abstractmethod
    def log_jacobian(self) -> Array:
        """log |d value / d raw|, one for each number."""

    @property
    def log_prior(self) -> Array:
        """Log density of the raw numbers under the prior (zero when it is flat)."""
        if self.prior is None:
            return jnp.zeros(())
        return jnp.sum(self.prior.log_density(self.value) + self.log_jacobian)


class Real(AbstractParameter):
    """A parameter that may take any real value."""

    raw: Any = eqx.field(converter=lambda value: _as_array(value))
    prior: Any = None
    role: Role = eqx.field(default="hyperparameter", static=True)

    @property
    def value(self) -> Array:
        return jnp.asarray(self.raw)

    @property
    def log_jacobian(self) -> Array:
        return jnp.zeros_like(self.raw)


class Positive(AbstractParameter):
    """A positive parameter, stored as its logarithm; made from its value."""

    raw: Any
    prior: Any = None
    role: Role = eqx.field(default="hyperparameter", static=True)

    def __init__(self, value: Any, prior: Any = None, role: Role = "hyperparameter") -> None:
        array = _as_array(value)
        if not np.all(np.asarray(array) > 0):
            raise ValueError(f"a Positive parameter needs a positive value, got {value!r}")
        self.raw = np.log(array)
        self.prior = prior
        self.role = role

    @property
    def value(self) -> Array:
        return jnp.exp(self.raw)

    @property
    def log_jacobian(self) -> Array:
        return jnp.asarray(self.raw)


def latent(shape: tuple[int, ...]) -> Real:
    """Whitened latent values, standard normal a priori, that start at zero."""
    return Real(np.zeros(shape), Normal(), role="latent")


def is_parameter(node: Any) -> bool:
    return isinstance(node, AbstractParameter)


def constrain(tree: Tree) -> Tree:
    """The same tree with every parameter replaced by its value."""
    return jax.tree.map(lambda node: node.value if is_parameter(node) else node, tree, is_leaf=is_parameter)


def log_prior(tree: Any, *roles: Role) -> Array:
    """Log density of the raw numbers in the tree under their priors: of the given roles, or of all."""
    nodes = [node for node in jax.tree.leaves(tree, is_leaf=is_parameter) if is_parameter(node)]
    return sum((node.log_prior for node in nodes if not roles or node.role in roles), jnp.zeros(()))


def partition(tree: Tree, *roles: Role) -> tuple[Tree, Tree]:
    """Split a tree in two: the raw numbers of the given roles, and all the rest (``equinox.combine`` joins them)."""

    def mark(node: Any) -> Any:
        if not is_parameter(node):
            return False
        nothing = jax.tree.map(lambda _: False, node)
        # The rest of an earlier partition has parameters without raw numbers.
        return nothing if node.raw is None else eqx.tree_at(lambda p: p.raw, nothing, node.role in roles)

    return eqx.partition(tree, jax.tree.map(mark, tree, is_leaf=is_parameter))


def _as_array(value: Any) -> Any:
    """Numbers as arrays: leaves of a model, where plain ones would be part of the compiled program."""
    return value if isinstance(value, jax.Array) else np.asarray(value, dtype=np.float64)
