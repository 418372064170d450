"""The estimator, in scikit-learn's interface and the units of the data."""

from .choice import Choice, Rung
from .regressor import SpectralGPRegressor
from .reporting import (
    amplitudes_at,
    columns_of,
    inputs_along,
    labels_of,
    local_functions,
    said_of_blocks,
    said_of_transform,
    view_along,
)
from .settings import Settings
from .times import with_times
from .units import shown_units

__all__ = [
    "Choice",
    "Rung",
    "Settings",
    "SpectralGPRegressor",
    "amplitudes_at",
    "columns_of",
    "inputs_along",
    "labels_of",
    "local_functions",
    "said_of_blocks",
    "said_of_transform",
    "shown_units",
    "view_along",
    "with_times",
]
