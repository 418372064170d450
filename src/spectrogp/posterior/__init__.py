"""Posteriors: draws of a model, what can be read off the models at them, and bands."""

from .band import Band
from .mapping import filled
from .posterior import MAX_DRAWS, Posterior
from .readings import (
    Components,
    JointOutputs,
    LatentFunctions,
    LocalDraws,
    LocalFrequency,
    LocalFunctions,
    Outputs,
    Prediction,
    Spectrogram,
    log_mean_density,
)

__all__ = [
    "MAX_DRAWS",
    "Band",
    "Components",
    "JointOutputs",
    "LatentFunctions",
    "LocalDraws",
    "LocalFrequency",
    "LocalFunctions",
    "Outputs",
    "Posterior",
    "Prediction",
    "Spectrogram",
    "filled",
    "log_mean_density",
]
