"""Neighbourhoods: rows of the data with those that each is conditioned on."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...core import Module, at_least
from ...kernels import AbstractKernel
from ..data import Data, draw_rows
from ..memory import require_neighbours
from .search import Metric, earlier_neighbours, earlier_under, random_order


class Neighbourhoods(Module):
    """Targets with their conditioning sets.

    Args:
        data: The data.
        members: Rows of the data, ``[n, m + 1]``, with the target last; −1 for none.
        metric: How neighbours of test inputs are to be found, "correlation" or "lengthscale".
        near: Those found before, ``[t, m]`` (``AbstractModel.prepare``), or None.
        ahead: How many neighbours test inputs have; None for as many as a neighbourhood has members.
    """

    data: Data
    members: Any
    metric: Metric = eqx.field(default="correlation", static=True)
    near: Any = None
    ahead: int | None = eqx.field(default=None, static=True)

    @classmethod
    def of(cls, data: Data, features: np.ndarray, order: np.ndarray, m: int, metric: Metric = "correlation") -> Self:
        """Every row of ``data`` given its m nearest (in the features) before it in the order; ``metric`` is kept."""
        return cls(data, _with_targets(earlier_neighbours(features, order, m)), metric)

    @classmethod
    def under(
        cls,
        kernel: AbstractKernel,
        data: Data,
        order: np.ndarray,
        m: int,
        metric: Metric,
        targets: np.ndarray | None = None,
    ) -> Self:
        """Every row of ``data`` given the m nearest, under a kernel and ``metric``, before it in the order.

        With ``targets [t]``, row numbers, these rows alone: their sum stands for all, and takes less to find.
        """
        rows = data.size if targets is None else len(targets)
        require_neighbours(rows, m)
        found = earlier_under(kernel, np.asarray(data.X), order, m, metric, targets)
        return cls(data, _with_targets(found, targets), metric)

    @property
    def size(self) -> int:
        """Number N of all data."""
        return self.data.size

    @property
    def scale(self) -> float:
        """N/n: what a sum over these targets must be multiplied by to stand for all data."""
        return self.data.size / self.members.shape[0]

    def minibatch(self, key: Array, rows: int) -> Neighbourhoods:
        """So many ``rows`` as targets, drawn with a ``key`` without replacement, and their conditioning sets."""
        chosen = draw_rows(key, self.members.shape[0], rows)
        return Neighbourhoods(self.data, jnp.asarray(self.members)[chosen], self.metric, ahead=self.ahead)

    def with_column(self, value: Any) -> Neighbourhoods:
        """The same with one more column of inputs, that holds one value."""
        return dataclasses.replace(self, data=self.data.with_column(value))


class Refresh(Module):
    """Neighbourhoods under a model's current kernel, to be found anew as a fit goes on.

    The order of the data is random and stays.

    Args:
        data: The data.
        m: How many neighbours each row is conditioned on.
        every: After how many steps ``maximise`` finds them anew.
        metric: "correlation", near is much correlated under the kernel, or "lengthscale", near in scaled inputs.
        order: A permutation of the rows; random when left out.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> data = sg.Data(np.linspace(0.0, 1.0, 20), np.zeros(20))
        >>> model = sg.models.NeighbourGP(sg.kernels.SquaredExponential(sg.Positive(0.3)), 0.1)
        >>> refresh = sg.models.Refresh(data, m=5)
        >>> fit = sg.inference.maximise(model, refresh(model), refresh=refresh, steps=2, key=0)
        >>> fit.model.predict(refresh(fit.model), [0.5]).mean.shape
        (1,)
    """

    data: Data
    m: int = eqx.field(static=True)
    every: int = eqx.field(static=True)
    metric: Metric = eqx.field(static=True)
    order: Any

    def __init__(
        self, data: Data, m: int, *, every: int = 200, metric: Metric = "correlation", order: np.ndarray | None = None
    ) -> None:
        at_least(1, m=m, every=every)
        self.data, self.m, self.every, self.metric = data, m, every, metric
        self.order = random_order(data.size, 0) if order is None else order

    def __call__(self, model: Any) -> Neighbourhoods:
        """The neighbourhoods under a model's kernel."""
        return Neighbourhoods.under(model.realise().kernel, self.data, self.order, self.m, self.metric)


def _with_targets(neighbours: np.ndarray, targets: np.ndarray | None = None) -> np.ndarray:
    targets = np.arange(len(neighbours)) if targets is None else targets
    return np.concatenate([neighbours, targets[:, None]], axis=1).astype(np.int32)
