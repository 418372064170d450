"""Pictures: of kernels, draws, fits and spectrograms in given axes; and of a whole fit, from its report."""

from .axes import (
    COLOURS,
    STYLE,
    decibels,
    plot_components,
    plot_draws,
    plot_fit,
    plot_frequency,
    plot_functions,
    plot_kernel_matrix,
    plot_periodogram,
    plot_ridge,
    plot_spectrogram,
)
from .overview import PANELS, draw_panel, overview, spectrogram_figure
from .report import LEVEL, Along, Labels, Report, summary
from .scales import plain_log_axis

__all__ = [
    "COLOURS",
    "LEVEL",
    "PANELS",
    "STYLE",
    "Along",
    "Labels",
    "Report",
    "decibels",
    "draw_panel",
    "overview",
    "plain_log_axis",
    "plot_components",
    "plot_draws",
    "plot_fit",
    "plot_frequency",
    "plot_functions",
    "plot_kernel_matrix",
    "plot_periodogram",
    "plot_ridge",
    "plot_spectrogram",
    "spectrogram_figure",
    "summary",
]
