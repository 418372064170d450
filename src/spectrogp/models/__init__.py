"""Models: a kernel, a likelihood, and how the likelihood of the data is computed or approximated."""

from .base import AbstractModel, AbstractObjective
from .collapsed import CollapsedGP
from .exact import ExactGP
from .linear import LinearRegression
from .neighbour import FullScaleGP, NeighbourGP, Neighbourhoods, Refresh
from .stochastic import DoublyStochasticGP
from .variational import SparseGP, VariationalGP

__all__ = [
    "AbstractModel",
    "AbstractObjective",
    "CollapsedGP",
    "DoublyStochasticGP",
    "ExactGP",
    "FullScaleGP",
    "LinearRegression",
    "NeighbourGP",
    "Neighbourhoods",
    "Refresh",
    "SparseGP",
    "VariationalGP",
]
