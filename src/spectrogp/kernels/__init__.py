"""Kernels and draws from their priors; ``docs/equations.md`` ties each kernel to its papers."""

from .base import (
    AbstractInner,
    AbstractKernel,
    AbstractMixture,
    Characteristic,
    Local,
    Product,
    Scaled,
    Sum,
    Warped,
)
from .chirplet import Chirplet
from .deep import Layer, Layered, RealisedLayer, Slot, compositional_layers, covariance_layers
from .harmonizable import GeneralizedSpectral, HarmonizableMixture
from .matern import MaternPhase, WarpedTime
from .nonstationary import (
    ConvolutionalSpectral,
    FullConvolutionalSpectral,
    GeneralizedSpectralMixture,
    NonstationaryQuadratic,
)
from .phase import IntegratedPhase, Phase, PlanePhase
from .prior import basis_on_grid, sample_by_convolution, sample_prior
from .stationary import SpectralMixture, SquaredExponential

__all__ = [
    "AbstractInner",
    "AbstractKernel",
    "AbstractMixture",
    "Characteristic",
    "Chirplet",
    "ConvolutionalSpectral",
    "FullConvolutionalSpectral",
    "GeneralizedSpectral",
    "GeneralizedSpectralMixture",
    "HarmonizableMixture",
    "IntegratedPhase",
    "Layer",
    "Layered",
    "Local",
    "MaternPhase",
    "NonstationaryQuadratic",
    "Phase",
    "PlanePhase",
    "Product",
    "RealisedLayer",
    "Scaled",
    "Slot",
    "SpectralMixture",
    "SquaredExponential",
    "Sum",
    "Warped",
    "WarpedTime",
    "basis_on_grid",
    "compositional_layers",
    "covariance_layers",
    "sample_by_convolution",
    "sample_prior",
]
