"""spectrogp: how the frequency content of a signal or field changes over its inputs, with Gaussian processes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, inference, kernels, likelihoods, models
    from .compilation import cache_compilations
    from .data import Data
    from .estimator import SpectralGPRegressor
    from .io import load, save
    from .layers import Layer, compositional_layers, covariance_layers
    from .numerics import precision
    from .parameters import LogNormal, Normal, Positive, Real
    from .processes import FunctionGroup
    from .sampling import basis_on_grid, sample_by_convolution, sample_prior
    from .spectra import LocalSpectrum, local_spectrum, spectrogram, wigner
    from .tables import read_table, write_table

__version__ = "0.1.0"

# Where each public name lives. Loading on first use keeps ``import spectrogp`` and ``spectrogp --help`` quick.
# No module may share its name with a function listed here: importing the module would hide the function.
_HOME = {
    "Data": "data",
    "FunctionGroup": "processes",
    "Layer": "layers",
    "LocalSpectrum": "spectra",
    "LogNormal": "parameters",
    "Normal": "parameters",
    "Positive": "parameters",
    "Real": "parameters",
    "SpectralGPRegressor": "estimator",
    "basis_on_grid": "sampling",
    "cache_compilations": "compilation",
    "compositional_layers": "layers",
    "covariance_layers": "layers",
    "datasets": "datasets",
    "inference": "inference",
    "kernels": "kernels",
    "likelihoods": "likelihoods",
    "load": "io",
    "local_spectrum": "spectra",
    "models": "models",
    "precision": "numerics",
    "read_table": "tables",
    "sample_by_convolution": "sampling",
    "sample_prior": "sampling",
    "save": "io",
    "spectrogram": "spectra",
    "wigner": "spectra",
    "write_table": "tables",
}

__all__ = [
    "Data",
    "FunctionGroup",
    "Layer",
    "LocalSpectrum",
    "LogNormal",
    "Normal",
    "Positive",
    "Real",
    "SpectralGPRegressor",
    "basis_on_grid",
    "cache_compilations",
    "compositional_layers",
    "covariance_layers",
    "datasets",
    "inference",
    "kernels",
    "likelihoods",
    "load",
    "local_spectrum",
    "models",
    "precision",
    "read_table",
    "sample_by_convolution",
    "sample_prior",
    "save",
    "spectrogram",
    "wigner",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_HOME[name]}", __name__)
    return module if _HOME[name] == name else getattr(module, name)
