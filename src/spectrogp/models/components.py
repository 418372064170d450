"""Which part of a function belongs to which component of its kernel.

A kernel with several components is the covariance of a sum f = Σ_a f_a of independent functions. What the data say of
one of them follows from k_a(x, ·) in the place of k(x, ·) at test inputs; the data keep the whole kernel. So inputs get
one more column, that says which component they ask for, and every model predicts components as it predicts sums
(``AbstractModel.component_moments``).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from ..core import Module
from ..kernels import AbstractInner, AbstractKernel
from ..parameters import Function


class Selecting(AbstractInner):
    """A kernel whose inputs have a last column: zero for all components, or 1 + the number of one of them."""

    kernel: AbstractKernel

    def local(self, X: Array) -> Any:
        local = self.kernel.local(X[:, :-1])
        asked, each = X[:, -1:], 1.0 + jnp.arange(local.amplitude.shape[1])
        return local.replace(amplitude=jnp.where((asked == 0.0) | (asked == each), local.amplitude, 0.0))


class _WithoutLastColumn(Module):
    """A function of inputs that have one more column than it takes."""

    function: Function

    def __call__(self, X: Array) -> Array:
        return self.function(X[:, :-1])


def without_last_column(likelihood: Any) -> Any:
    """The same likelihood for inputs with one more column."""
    names = [field.name for field in dataclasses.fields(likelihood) if callable(getattr(likelihood, field.name))]
    if not names:
        return likelihood
    functions = [_WithoutLastColumn(getattr(likelihood, name)) for name in names]
    return eqx.tree_at(lambda owner: [getattr(owner, name) for name in names], likelihood, functions)


def count_components(model: Any, X: Array) -> int:
    """Number of components of a realised model's kernel, with inputs ``X [n, d]`` to look at."""
    kernel = getattr(model, "kernel", None)
    local: Any = None if kernel is None else kernel.local(X[:1])
    if not hasattr(local, "amplitude"):
        name = type(model if kernel is None else kernel).__name__
        raise TypeError(f"a {name} is no sum of components with amplitudes of their own")
    return int(local.amplitude.shape[1])
