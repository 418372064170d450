"""Models: data, a kernel, a likelihood, and how the likelihood of the data is computed or approximated."""

from . import likelihoods
from .base import BLOCK, AbstractModel, AbstractObjective, as_outputs
from .channels import ChannelGP
from .collapsed import CollapsedGP
from .data import Data, channels_of
from .exact import ExactGP
from .jitter import relative_jitter
from .lanes import Lanes, grid_groups, with_groups
from .likelihoods import AbstractLikelihood, Bernoulli, Gaussian, HeavyTailed, StudentT, student_log_density
from .linear import LinearRegression
from .markov import MarkovGP
from .memory import require_collapsed, require_exact, require_joint, require_neighbours
from .moments import Moments
from .neighbours import (
    AbstractNeighbourModel,
    FullScaleGP,
    NeighbourGP,
    Neighbourhoods,
    Refresh,
    conditional_moments,
    mean_lengthscales,
    random_order,
)
from .online import OnlineGP
from .recent import AnchoredPhase, Recent
from .stochastic import DoublyStochasticGP
from .timeline import Timeline
from .variational import SparseGP, VariationalGP

__all__ = [
    "BLOCK",
    "AbstractLikelihood",
    "AbstractModel",
    "AbstractNeighbourModel",
    "AbstractObjective",
    "AnchoredPhase",
    "Bernoulli",
    "ChannelGP",
    "CollapsedGP",
    "Data",
    "DoublyStochasticGP",
    "ExactGP",
    "FullScaleGP",
    "Gaussian",
    "HeavyTailed",
    "Lanes",
    "LinearRegression",
    "MarkovGP",
    "Moments",
    "NeighbourGP",
    "Neighbourhoods",
    "OnlineGP",
    "Recent",
    "Refresh",
    "SparseGP",
    "StudentT",
    "Timeline",
    "VariationalGP",
    "as_outputs",
    "channels_of",
    "conditional_moments",
    "grid_groups",
    "likelihoods",
    "mean_lengthscales",
    "random_order",
    "relative_jitter",
    "require_collapsed",
    "require_exact",
    "require_joint",
    "require_neighbours",
    "student_log_density",
    "with_groups",
]
