"""Pictures of kernels, draws and spectrograms, drawn into given matplotlib axes.

No function here touches matplotlib's global state; ``STYLE`` is the look that the project's own figures share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# A colour-blind safe cycle (Okabe & Ito), in the order in which lines are drawn.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INTENDED = "#00E5FF"

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "figure.dpi": 150,
    "savefig.dpi": 200,
    "image.interpolation": "nearest",
}


def plot_draws(axes: Axes, x: Any, draws: Any) -> None:
    """Function draws ``[s, n]`` over one-dimensional inputs ``[n]``."""
    for draw, colour in zip(np.atleast_2d(draws), COLOURS, strict=False):
        axes.plot(x, draw, color=colour, linewidth=0.8)
    axes.set_xlim(np.min(x), np.max(x))


def plot_kernel_matrix(axes: Axes, x: Any, K: Any) -> AxesImage:
    """Covariance matrix over one-dimensional inputs, blue for negative, white for zero and red for positive values.

    Both axes run from the smallest input, so the diagonal rises from the lower left corner.
    """
    low, high = float(np.min(x)), float(np.max(x))
    limit = float(np.max(np.abs(K)))
    image = axes.imshow(
        K, origin="lower", extent=(low, high, low, high), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="equal"
    )
    axes.spines[:].set_visible(True)
    return image


def plot_spectrogram(axes: Axes, x: Any, frequency: Any, density: Any, *, vmax: float | None = None) -> AxesImage:
    """Spectral density ``[n, m]`` over one-dimensional inputs ``[n]`` and frequencies ``[m]`` (a regular grid).

    Negative values, which cross terms have, are shown as zero.
    """
    image = axes.imshow(
        np.asarray(density).T,
        origin="lower",
        aspect="auto",
        extent=(float(np.min(x)), float(np.max(x)), float(np.min(frequency)), float(np.max(frequency))),
        cmap="magma",
        vmin=0.0,
        vmax=float(np.max(density)) if vmax is None else vmax,
        interpolation="bilinear",
    )
    axes.spines[:].set_visible(True)
    return image


def plot_ridge(axes: Axes, x: Any, frequency: Any, *, label: str | None = None, intended: bool = False) -> None:
    """A frequency line over a spectrogram: the kernel's own local frequency, or the one that was intended (dashed)."""
    style: dict[str, Any] = (
        {"color": INTENDED, "linestyle": (0, (4, 4)), "linewidth": 1.0}
        if intended
        else {"color": "white", "linewidth": 1.8}
    )
    axes.plot(x, frequency, label=label, **style)
