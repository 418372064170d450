"""Which part of a function belongs to which component of its kernel.

A kernel with several components is the covariance of a sum f = Σ_a f_a of independent functions. What the data say of
one of them follows from k_a(x, ·) in the place of k(x, ·) at test inputs; the data keep the whole kernel. So inputs get
one more column, that says which component they ask for, and every model predicts parts as it predicts sums.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from .data import Data
from .functions import Function
from .kernels import AbstractKernel
from .kernels.base import AbstractInner, Local
from .likelihoods import Moments
from .models import Neighbourhoods


class _Asked(AbstractInner):
    """A kernel whose inputs have a last column: zero for all components, or 1 + the number of one of them."""

    kernel: AbstractKernel

    def local(self, X: Array) -> Local:
        local = self.kernel.local(X[:, :-1])
        asked, each = X[:, -1:], 1.0 + jnp.arange(local.amplitude.shape[1])
        return local._replace(amplitude=jnp.where((asked == 0.0) | (asked == each), local.amplitude, 0.0))


class _Unasked(eqx.Module):
    """A function of inputs without the last column."""

    function: Function

    def __call__(self, X: Array) -> Array:
        return self.function(X[:, :-1])


def count_parts(kernel: AbstractKernel, X: Array) -> int:
    """Number of components of a kernel, with inputs ``X [n, d]`` to look at."""
    local = kernel.local(X[:1])
    if not hasattr(local, "amplitude"):
        raise TypeError(f"a {type(kernel).__name__} is no sum of components with amplitudes of their own")
    return int(local.amplitude.shape[1])


def part_moments(model: Any, data: Any, X: Array, component: Any) -> Moments:
    """Mean and variance of one component's function at inputs ``X [t, d]`` given the data, of an entered model.

    The means of all components add up to the mean of f. ``data`` are what ``model.ready(data, X)`` gives.
    """

    def asking(X: Any, which: Any) -> Array:
        return jnp.column_stack([jnp.asarray(X), jnp.broadcast_to(jnp.asarray(which, float), (len(X),))])

    rows: Data = data.data if isinstance(data, Neighbourhoods) else data
    rows = dataclasses.replace(rows, X=asking(rows.X, 0.0))
    data = dataclasses.replace(data, data=rows) if isinstance(data, Neighbourhoods) else rows
    model = eqx.tree_at(lambda m: m.kernel, model, _Asked(model.kernel))
    if callable(getattr(model.likelihood, "noise", None)):
        model = eqx.tree_at(lambda m: m.likelihood.noise, model, _Unasked(model.likelihood.noise))
    if hasattr(model, "inducing"):
        model = eqx.tree_at(lambda m: m.inducing, model, asking(model.inducing, 0.0))
    moments: Moments = model.moments(data, asking(X, 1.0 + component))
    return moments
