"""Inference: loops that know nothing of kernels."""

from .optimise import Fit, maximise, maximise_lbfgs

__all__ = ["Fit", "maximise", "maximise_lbfgs"]
