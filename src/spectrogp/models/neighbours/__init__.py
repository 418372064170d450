"""Nearest neighbours: how they are found, the sets of them, and the models that condition on them."""

from .model import AbstractNeighbourModel, FullScaleGP, NeighbourGP, conditional_moments, joint
from .search import Metric, mean_lengthscales, random_order
from .sets import Neighbourhoods, Refresh

__all__ = [
    "AbstractNeighbourModel",
    "FullScaleGP",
    "Metric",
    "NeighbourGP",
    "Neighbourhoods",
    "Refresh",
    "conditional_moments",
    "joint",
    "mean_lengthscales",
    "random_order",
]
