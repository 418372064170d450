"""Models: a kernel, a likelihood, and how the likelihood of the data is computed or approximated."""

from .base import AbstractModel
from .collapsed import CollapsedGP
from .exact import ExactGP
from .linear import LinearRegression
from .neighbour import FullScaleGP, NeighbourGP, Neighbourhoods, Refresh
from .variational import SparseGP, VariationalGP

__all__ = [
    "AbstractModel",
    "CollapsedGP",
    "ExactGP",
    "FullScaleGP",
    "LinearRegression",
    "NeighbourGP",
    "Neighbourhoods",
    "Refresh",
    "SparseGP",
    "VariationalGP",
]
