"""Pictures of kernels, draws, fits and spectrograms, drawn into given matplotlib axes.

No function here touches matplotlib's global state; ``STYLE`` is the look that the project's own figures share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from ..choices import SCALINGS
from .periodogram import share_explained, window_widths
from .scales import plain_log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.image import AxesImage

    from ..posterior import Band

# A colour-blind safe cycle (Okabe & Ito), in the order in which lines are drawn.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INTENDED = "#00E5FF"
# White for nothing, so that lines in the colours of components can be seen over it, and never quite black.
GREYS = LinearSegmentedColormap.from_list("greys", ["#ffffff", "#d9d9d9", "#969696", "#3d3d3d"])

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
    "text.usetex": False,  # names of columns are no TeX
}


def decibels(density: Any, depth: float = 40.0, *, scaling: str = "record") -> np.ndarray:
    """Decibels below the largest value of a density, down to −``depth``: ridges differ by orders of magnitude.

    Args:
        density: ``[n, m]``, over inputs and frequencies.
        depth: Where it ends.
        scaling: "record" for the largest value of all; "column" for that at every input by itself, which shows what
            is weak for a while.
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}; got {scaling!r}")
    density = np.asarray(density)
    largest = np.max(density, axis=-1, keepdims=True) if scaling == "column" else np.max(density)
    return 10.0 * np.log10(np.maximum(density / np.maximum(largest, 1e-300), 10.0 ** (-depth / 10.0)))


def plot_draws(axes: Axes, x: Any, draws: Any) -> None:
    """Draws of functions.

    Args:
        axes: Where to draw.
        x: Inputs ``[n]``.
        draws: Values ``[s, n]``.
    """
    for draw, colour in zip(np.atleast_2d(draws), COLOURS, strict=False):
        axes.plot(x, draw, color=colour, linewidth=0.8)
    axes.set_xlim(np.min(x), np.max(x))


def plot_kernel_matrix(axes: Axes, x: Any, K: Any) -> AxesImage:
    """Covariance matrix over one-dimensional inputs, blue for negative, white for zero and red for positive values.

    Both axes run from the smallest input, so the diagonal rises from the lower left corner.

    Args:
        axes: Where to draw.
        x: Inputs ``[n]``.
        K: The matrix ``[n, n]``.
    """
    low, high = float(np.min(x)), float(np.max(x))
    limit = float(np.max(np.abs(K)))
    image = axes.imshow(
        K, origin="lower", extent=(low, high, low, high), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="equal"
    )
    axes.spines[:].set_visible(True)
    return image


def plot_spectrogram(
    axes: Axes,
    x: Any,
    frequency: ArrayLike,
    density: Any,
    *,
    vmin: float = 0.0,
    vmax: float | None = None,
    cmap: Any = "magma",
    gamma: float = 1.0,
) -> AxesImage | QuadMesh:
    """Spectral density over one input and frequency.

    Args:
        axes: Where to draw.
        x: Inputs ``[n]``, a regular grid.
        frequency: Frequencies ``[m]``, rising; those that are not evenly spaced make the axis logarithmic.
        density: ``[n, m]``.
        vmin: The darkest value; lower ones, as cross terms have them below zero, are shown as it.
        vmax: The brightest value; the largest when left out.
        cmap: A colour map of matplotlib.
        gamma: Power of the values that is proportional to the colour: below 1, what is weak shows better.
    """
    x, frequency, values = np.asarray(x), np.asarray(frequency), np.asarray(density).T
    norm = PowerNorm(gamma, vmin=vmin, vmax=float(np.max(density)) if vmax is None else vmax)
    style: dict[str, Any] = {"cmap": cmap, "norm": norm}
    steps = np.diff(frequency)
    image: AxesImage | QuadMesh
    if np.ptp(steps) <= 1e-6 * np.max(steps):
        ends = (float(np.min(x)), float(np.max(x)), float(frequency[0]), float(frequency[-1]))
        image = axes.imshow(values, origin="lower", aspect="auto", extent=ends, interpolation="bilinear", **style)
    else:
        image = axes.pcolormesh(x, frequency, values, shading="gouraud", rasterized=True, **style)
        axes.set(xlim=(np.min(x), np.max(x)), ylim=(frequency[0], frequency[-1]))
        plain_log_axis(axes)
    axes.spines[:].set_visible(True)
    return image


def plot_ridge(axes: Axes, x: Any, frequency: ArrayLike, *, label: str | None = None, intended: bool = False) -> None:
    """A frequency line over a spectrogram.

    Args:
        axes: Where to draw.
        x: Inputs ``[n]``.
        frequency: ``[n]``, in cycles per unit.
        label: For a legend.
        intended: Whether this is the frequency that was intended (dashed), not the kernel's own local frequency.
    """
    style: dict[str, Any] = (
        {"color": INTENDED, "linestyle": (0, (4, 4)), "linewidth": 1.0}
        if intended
        else {"color": "white", "linewidth": 1.8}
    )
    axes.plot(x, frequency, label=label, **style)


def plot_fit(axes: Axes, x: Any, y: ArrayLike, at: Any, function: Band, outputs: Band, *, level: float = 0.9) -> None:
    """Data, the mean, and the bands of the function and of new outputs.

    Args:
        axes: Where to draw.
        x: Inputs ``[n]`` of the data.
        y: Outputs ``[n]`` of the data.
        at: Inputs ``[t]`` of the bands.
        function: Band ``[t]`` of the function.
        outputs: Band ``[t]`` of new outputs.
        level: Probability of both bands, for the legend.
    """
    # In greys: a colour is that of a component.
    colour, share = "0.4", f"{100.0 * level:.3g} %"
    _fill(axes, at, outputs.lower, outputs.upper, color=colour, alpha=0.2, label=f"{share} of outputs")
    _fill(axes, at, function.lower, function.upper, color=colour, alpha=0.45, label=f"{share} band of the function")
    size = float(np.clip(45.0 / np.sqrt(max(len(x), 1)), 1.0, 3.0))
    axes.plot(x, y, ".", color="black", markersize=size, markeredgewidth=0, label="data", zorder=2.5, rasterized=True)
    axes.plot(at, function.mean, color=colour, linewidth=0.8, label="mean")
    axes.set_xlim(np.min(at), np.max(at))


def plot_frequency(
    axes: Axes, x: Any, band: Band, *, label: str | None = None, over: bool = False, truth: Any = None
) -> None:
    """Frequencies with their credible bands.

    Args:
        axes: Where to draw.
        x: Inputs ``[n]``.
        band: Frequencies ``[n, a]``.
        label: For a legend.
        over: Whether they lie over a spectrogram: then the ends of bands are dotted lines, and nothing is filled.
        truth: The true frequencies ``[n, a]``, where they are known, drawn dashed.
    """
    if over:
        for k in range(band.mean.shape[1]):
            colour, edge = COLOURS[k % len(COLOURS)], [withStroke(linewidth=2.0, foreground="white", alpha=0.6)]
            axes.plot(x, band.mean[:, k], color=colour, linewidth=1.0, path_effects=edge, label=None if k else label)
            for end in (band.lower, band.upper):
                if end is not None:
                    axes.plot(x, end[:, k], color=colour, linewidth=0.8, linestyle=(0, (1, 1.2)))
    else:
        _plot_bands(axes, x, band, label)
    if truth is not None:
        style: dict[str, Any] = {"color": "black", "linestyle": (0, (4, 3)), "linewidth": 1.0}
        for k, line in enumerate(np.asarray(truth).T):
            axes.plot(x, line, label="truth" if k == 0 else None, **style)


def plot_functions(axes: Sequence[Axes], x: Any, functions: Mapping[str, Band]) -> None:
    """Functions of the kernel: one panel a function, one colour a component.

    Positive functions that range over more than a factor of ten are drawn on a logarithmic axis.

    Args:
        axes: Where to draw, one for each function.
        x: Inputs ``[n]``.
        functions: Bands ``[n, a]`` by the label of their axis.
    """
    for panel, (label, band) in zip(axes, functions.items(), strict=True):
        _plot_bands(panel, x, band)
        panel.set_ylabel(label)
        panel.set_xlim(np.min(x), np.max(x))
        ends = [np.asarray(part) for part in band if part is not None]
        low, high = min(part.min() for part in ends), max(part.max() for part in ends)
        if low > 0 and high > 10.0 * low:
            plain_log_axis(panel)
        elif low >= 0:
            panel.set_ylim(0.0, 1.08 * high)


def plot_components(
    axes: Sequence[Axes],
    x: Any,
    components: Band,
    *,
    oscillations: int | None = None,
    overtones: Mapping[int, tuple[int, int]] | None = None,
    neutral: float = 0.0,
) -> None:
    """The part of every component, one panel and one scale each, with its credible band.

    Args:
        axes: Where to draw, one for each component.
        x: Inputs ``[n]``.
        components: Band ``[n, a]``.
        oscillations: How many of them oscillate, the first ones; the others are called background. None for all.
        overtones: Which components are overtones, of which one, and which multiple of its frequency they have.
        neutral: What a component is that changes nothing: 0 of a sum, 1 of a product.
    """
    for k, panel in enumerate(axes):
        _plot_band(panel, x, components, k, COLOURS[k % len(COLOURS)])
        panel.axhline(neutral, color="0.7", linewidth=0.5, zorder=0.5)
        panel.set_xlim(np.min(x), np.max(x))
        name = f"component {k + 1}" if oscillations is None or k < oscillations else "background"
        if overtones and k in overtones:
            name += f" ({overtones[k][1]} × the frequency of component {overtones[k][0] + 1})"
        panel.set_title(name, loc="left", color=COLOURS[k % len(COLOURS)], fontsize=8, pad=2.0)
        limit = 1.1 * max(float(np.max(np.abs(part[:, k] - neutral))) for part in components if part is not None) or 1.0
        panel.set_ylim(max(neutral - limit, 0.0) if neutral else -limit, neutral + limit)


def plot_periodogram(
    axes: Axes, x: Any, y: ArrayLike, frequency: ArrayLike, *, width: float | None = None, cmap: Any = "magma"
) -> AxesImage | QuadMesh:
    """The same data without a model: the power of a Lomb–Scargle periodogram in a sliding Gaussian window.

    Power is the share of the variance in the window, beside a line, that a sinusoid explains, from 0 to 1.

    Args:
        axes: Where to draw.
        x: Inputs ``[n]``, of any sampling.
        y: Outputs ``[n]``.
        frequency: ``[m]``, in cycles per unit, rising; those that are not evenly spaced make the axis logarithmic.
        width: Standard deviation of the window; by default 0.7 cycles of every frequency, or what holds thirty rows.
        cmap: A colour map of matplotlib.
    """
    x, y, frequency = (np.asarray(part, np.float64) for part in (x, y, frequency))
    centres = np.linspace(np.min(x), np.max(x), 200)
    widths = window_widths(x, frequency) if width is None else np.full(len(frequency), width)
    return plot_spectrogram(
        axes, centres, frequency, share_explained(x, y, centres, frequency, widths), vmax=1.0, cmap=cmap
    )


def _plot_bands(axes: Axes, x: Any, band: Band, label: str | None = None) -> None:
    """Lines ``[n, a]``, each in its colour, over what lies between their ends."""
    for k in range(band.mean.shape[1]):
        _plot_band(axes, x, band, k, COLOURS[k % len(COLOURS)], label=None if k else label)


def _plot_band(axes: Axes, x: Any, band: Band, k: int, colour: str, label: str | None = None) -> None:
    """The component k of them."""
    if band.lower is not None and band.upper is not None:
        _fill(axes, x, band.lower[:, k], band.upper[:, k], color=colour, alpha=0.3)
    axes.plot(x, band.mean[:, k], color=colour, linewidth=1.2, label=label)


def _fill(axes: Axes, x: Any, lower: Any, upper: Any, **style: Any) -> None:
    axes.fill_between(x, lower, upper, linewidth=0, **style)
