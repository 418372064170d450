"""Parameters: numbers with a constraint, a prior, and a role in inference.

A model is a pytree in which some leaves are *parameters*. Inference works on their unconstrained values; the model's
formulas work on constrained ones. ``constrain`` turns one into the other, once, where a model is realised.

    raw    what optimisers and samplers move: any real number
    value  what formulas use: the raw number itself (``Real``), or its exponential (``Positive``)

A prior is a density of the value; ``log_prior`` adds the logarithm of |d value / d raw|, so that it is the log density
of the raw numbers, which is what a sampler over raw numbers needs.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..core import Module, with_fields
from .priors import LogNormal, Normal, as_leaf

Tree = TypeVar("Tree")
Role = Literal["latent", "hyperparameter", "variational", "fixed"]


class AbstractParameter(Module):
    """A leaf of a model: raw numbers, a constraint, a prior (None is flat) and a role.

    Roles say what an inference method may do with it: ``latent`` numbers are what posteriors are about,
    ``hyperparameter`` s are optimised or sampled, ``variational`` ones belong to an approximation and are only ever
    optimised, ``fixed`` ones stay.
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
    """A parameter that may take any real value.

    Args:
        raw: Its value, a number or an array.
        prior: A prior such as ``Normal``, or None for a flat one.
        role: "hyperparameter" (optimised or sampled), "latent", "variational" or "fixed".
    """

    raw: Any = eqx.field(converter=lambda value: as_leaf(value))
    prior: Any = None
    role: Role = eqx.field(default="hyperparameter", static=True)

    @property
    def value(self) -> Array:
        return jnp.asarray(self.raw)

    @property
    def log_jacobian(self) -> Array:
        return jnp.zeros_like(self.raw)


class Positive(AbstractParameter):
    """A positive parameter, made from its value and stored as its logarithm.

    Args:
        value: Where it starts: a positive number, or an array of such.
        prior: A prior such as ``LogNormal``, or None for a flat one (on the logarithm).
        role: "hyperparameter" (optimised or sampled), "latent", "variational" or "fixed".
    """

    raw: Any
    prior: Any = None
    role: Role = eqx.field(default="hyperparameter", static=True)

    def __init__(self, value: Any, prior: Any = None, role: Role = "hyperparameter") -> None:
        array = as_leaf(value)
        if not np.all(np.asarray(array) > 0):
            raise ValueError(f"a Positive parameter needs a positive value, got {value!r}")
        self.raw = np.log(array)
        self.prior = prior
        self.role = role

    @classmethod
    def around(cls, value: Any, std: float = 1.0) -> Positive:
        """A parameter that starts at the median of its log-normal prior.

        Args:
            value: That median: a positive number, or an array of such.
            std: Standard deviation of the logarithm.
        """
        return cls(value, LogNormal(value, std))

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


def log_prior(tree: PyTree, *roles: Role) -> Array:
    """Log density of the raw numbers in the tree under their priors: of the given roles, or of all."""
    nodes = [node for node in jax.tree.leaves(tree, is_leaf=is_parameter) if is_parameter(node)]
    return sum((node.log_prior for node in nodes if not roles or node.role in roles), jnp.zeros(()))


def partition(tree: Tree, *roles: Role) -> tuple[Tree, Tree]:
    """Split a tree in two: the raw numbers of the given roles, and all the rest (``equinox.combine`` joins them)."""

    nodes, structure = jax.tree.flatten(tree, is_leaf=is_parameter)
    parts = [_parted(node, roles) for node in nodes]
    return tuple(jax.tree.unflatten(structure, [part[half] for part in parts]) for half in (0, 1))


def _parted(node: Any, roles: tuple[Role, ...]) -> tuple[Any, Any]:
    """A leaf, or a parameter, in two; field by field, since ``equinox.tree_at`` takes most of a millisecond."""
    if not is_parameter(node):
        return None, node
    nothing = jax.tree.map(lambda _: None, node)
    if node.role not in roles:
        return nothing, node
    return with_fields(nothing, raw=node.raw), with_fields(node, raw=None)
