"""Where a fit begins: initial values found in the data, kernels that begin there, and the choice among several."""

from .background import fit_null
from .centres import cluster_centres, inducing_inputs
from .compare import Best, best_of
from .covariance import Null
from .cycles import Cycle, find_cycles
from .initial import InitialValues, Spectrum, show_range
from .kernels import builds, kernel_from, kernel_name, noise_from
from .lines import Line, Lines, find_lines, nyquist
from .markov import HARMONICS, are_pulses, fundamentals, likely_smoothness, markov_from, smoothness_served
from .multiples import common_frequency
from .reach import find_reach
from .richer import (
    Places,
    amplitudes_from,
    convolutional_from,
    further_scales,
    noise_function,
    quadratic_from,
    smooth_kernel,
    usual_components,
    with_cycles,
)
from .ridges import Ridge, find_ridges, frequency_grid, windowed_power
from .search import find_initial_values

__all__ = [
    "HARMONICS",
    "Best",
    "Cycle",
    "InitialValues",
    "Line",
    "Lines",
    "Null",
    "Places",
    "Ridge",
    "Spectrum",
    "amplitudes_from",
    "are_pulses",
    "best_of",
    "builds",
    "cluster_centres",
    "common_frequency",
    "convolutional_from",
    "find_cycles",
    "find_initial_values",
    "find_lines",
    "find_reach",
    "find_ridges",
    "fit_null",
    "frequency_grid",
    "fundamentals",
    "further_scales",
    "inducing_inputs",
    "kernel_from",
    "kernel_name",
    "likely_smoothness",
    "markov_from",
    "noise_from",
    "noise_function",
    "nyquist",
    "quadratic_from",
    "show_range",
    "smooth_kernel",
    "smoothness_served",
    "usual_components",
    "windowed_power",
    "with_cycles",
]
