"""The kernel family; ``docs/equations.md`` ties each kernel to its papers."""

from .base import AbstractKernel, Characteristic, Product, Scaled, Sum, Warped
from .chirplet import Chirplet
from .harmonizable import GeneralizedSpectral, HarmonizableMixture
from .nonstationary import (
    ConvolutionalSpectral,
    FullConvolutionalSpectral,
    GeneralizedSpectralMixture,
    NonstationaryQuadratic,
)
from .phase import IntegratedPhase, Phase, PlanePhase
from .stationary import SpectralMixture, SquaredExponential

__all__ = [
    "AbstractKernel",
    "Characteristic",
    "Chirplet",
    "ConvolutionalSpectral",
    "FullConvolutionalSpectral",
    "GeneralizedSpectral",
    "GeneralizedSpectralMixture",
    "HarmonizableMixture",
    "IntegratedPhase",
    "NonstationaryQuadratic",
    "Phase",
    "PlanePhase",
    "Product",
    "Scaled",
    "SpectralMixture",
    "SquaredExponential",
    "Sum",
    "Warped",
]
