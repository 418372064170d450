"""Posteriors: draws of a model, what can be read off the models at them, and bands."""

from .amplitude import Envelopes, instantaneous_amplitude, moduli
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
    "Envelopes",
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
    "instantaneous_amplitude",
    "log_mean_density",
    "moduli",
]
