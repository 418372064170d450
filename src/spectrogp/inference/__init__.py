"""Inference: optimisers, samplers and approximations of posteriors, for any model."""

from .arrow import Arrow
from .bends import Curvature
from .diagnosis import Diagnosis, ReadingCheck, diagnose
from .diagnostics import bulk_ess, check, mean_error, rhat, std_error, tail_ess, to_arviz
from .fisher import fisher_information, sample_fisher
from .laplace import laplace_marginal_likelihood, sample_laplace
from .lbfgs import maximise_lbfgs
from .loop import AbstractStep, Progress, Run, progress_bar, run_in_chunks, whole
from .newton import CONVERGED, Optimum, newton
from .nuts import NUTS
from .optimise import OPTIMISED, Adam, Fit, maximise
from .sampler import AbstractSampler, Draw, Target, sample
from .sghmc import SGHMC
from .variational import sample_variational

SAMPLERS: tuple[type[AbstractSampler], ...] = (NUTS, SGHMC)

__all__ = [
    "CONVERGED",
    "NUTS",
    "OPTIMISED",
    "SAMPLERS",
    "SGHMC",
    "AbstractSampler",
    "AbstractStep",
    "Adam",
    "Arrow",
    "Curvature",
    "Diagnosis",
    "Draw",
    "Fit",
    "Optimum",
    "Progress",
    "ReadingCheck",
    "Run",
    "Target",
    "bulk_ess",
    "check",
    "diagnose",
    "fisher_information",
    "laplace_marginal_likelihood",
    "maximise",
    "maximise_lbfgs",
    "mean_error",
    "newton",
    "progress_bar",
    "rhat",
    "run_in_chunks",
    "sample",
    "sample_fisher",
    "sample_laplace",
    "sample_variational",
    "std_error",
    "tail_ess",
    "to_arviz",
    "whole",
]
