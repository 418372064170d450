"""Inference: loops that know nothing of kernels."""

from .diagnostics import check, to_arviz
from .laplace import sample_laplace
from .loop import progress_bar
from .nuts import sample_nuts
from .optimise import Fit, maximise, maximise_lbfgs
from .posterior import Posterior
from .sghmc import sample_sghmc

__all__ = [
    "Fit",
    "Posterior",
    "check",
    "maximise",
    "maximise_lbfgs",
    "progress_bar",
    "sample_laplace",
    "sample_nuts",
    "sample_sghmc",
    "to_arviz",
]
