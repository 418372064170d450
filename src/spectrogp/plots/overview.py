"""Figures of a whole fit, drawn from its report."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from ..models import Moments
from ..posterior import Band, LocalDraws
from .axes import (
    COLOURS,
    STYLE,
    decibels,
    plot_components,
    plot_fit,
    plot_frequency,
    plot_functions,
    plot_periodogram,
    plot_spectrogram,
)
from .report import LEVEL, Along, Labels, Report

PANELS = ("fit", "spectrogram", "frequency", "periodogram", "amplitude", "lengthscale")
RANGE = 40.0  # of a spectrogram's colours, in dB


def overview(report: Report, *, truth: Any = None) -> Figure:
    """One figure of a fit.

    For one input: the fit, the spectrogram with the frequencies and their bands, the same data without a model
    (windowed Lomb–Scargle), the functions of the kernel, and the components of the signal if there are several. For
    several inputs: predicted against observed outputs, and the spectrogram along each input.

    Args:
        report: What the fit has to say.
        truth: A callable that gives the true frequencies ``[t, a]`` at inputs ``[t, d]``, where they are known.
    """
    with matplotlib.rc_context(STYLE):
        return _of_one_input(report, truth) if report.grid is not None else _of_several_inputs(report)


def spectrogram_figure(along: Along, labels: Labels) -> Figure:
    """The spectrogram along one input, with the frequencies and their bands over it.

    Args:
        along: What the kernel says along that input.
        labels: How inputs and output are called.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        panel = figure.subplots()
        figure.colorbar(_spectrogram(panel, along, labels.drawn), ax=panel, label="density (dB)", pad=0.02)
    return figure


def draw_panel(name: str, report: Report, axes: Axes) -> None:
    """Draw one panel of a fit into given axes.

    Args:
        name: One of ``PANELS``; for several inputs "spectrogram" only.
        report: What the fit has to say.
        axes: Where to draw.
    """
    if name not in PANELS:
        raise ValueError(f"a panel is one of {', '.join(PANELS)}; got {name!r}")
    if report.grid is None and name != "spectrogram":
        raise ValueError(f"for several inputs there is the panel 'spectrogram' only, got {name!r}")
    along, labels = report.along[0], report.labels.drawn
    t, local = along.at[:, along.axis], along.local
    match name:
        case "fit":
            _fit(axes, report)
        case "spectrogram":
            _spectrogram(axes, along, labels)
        case "frequency":
            plot_frequency(axes, t, _frequency(along))
            axes.set(ylabel=f"cycles per {labels.units[0]}", xlim=(np.min(t), np.max(t)), ylim=(0.0, None))
        case "periodogram":
            _periodogram(axes, report, _highest(along))
            axes.set_ylabel(f"cycles per {labels.units[0]}")
        case _:
            functions = _functions(local, labels)
            if name not in functions:
                raise ValueError(f"this kernel has no {name}")
            plot_functions([axes], t, {functions[name][0]: functions[name][1]})
    _label_input(axes, labels, along.axis)


def _of_one_input(report: Report, truth: Any) -> Figure:
    along, labels = report.along[0], report.labels.drawn
    t, local, frequency = along.at[:, 0], along.local, _frequency(along)
    layout: Any = [["fit"] * 2, ["spectrogram", "periodogram"], ["amplitude", "lengthscale"]]
    count = 0 if report.components is None else report.components.mean.shape[1]
    below = [f"component {k}" for k in range(count)]
    layout += [[name] * 2 for name in below]
    heights = [1.0, 1.2, 0.8, *([0.5] * count)]
    figure = Figure(figsize=(7.2, 1.85 * sum(heights) + 0.4), layout="constrained")
    panels: dict[str, Axes] = figure.subplot_mosaic(layout, height_ratios=heights)

    _fit(panels["fit"], report)
    panels["fit"].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.2, markerscale=2.5)

    known, highest = None if truth is None else truth(along.at), _highest(along)
    image = _density(panels["spectrogram"], along, highest)
    plot_frequency(panels["spectrogram"], t, frequency, over=True, truth=known)
    power = _periodogram(panels["periodogram"], report, highest)
    plot_frequency(panels["periodogram"], t, frequency._replace(lower=None, upper=None), over=True, truth=known)
    panels["periodogram"].set(ylim=(0.0, highest), facecolor="black")
    for name in ("spectrogram", "periodogram"):
        panels[name].set_ylabel(f"cycles per {labels.units[0]}")
    figure.colorbar(image, ax=panels["spectrogram"], label="density (dB)", pad=0.02)
    figure.colorbar(power, ax=panels["periodogram"], label="share of variance", pad=0.02)
    if known is not None:
        panels["spectrogram"].legend(loc="upper center", labelcolor="white")

    functions = _functions(local, labels)
    if "lengthscale" not in functions:
        panels["lengthscale"].set_axis_off()
    plot_functions([panels[name] for name in functions], t, dict(functions.values()))
    if report.components is not None:
        plot_components([panels[name] for name in below], t, report.components)
    titles = {
        "fit": "data and fit",
        "spectrogram": "spectrogram, "
        + ("frequency (MAP: no band)" if frequency.lower is None else "frequency, 90 % band"),
        "periodogram": "data alone: windowed Lomb–Scargle",
        **{name: name for name in functions},
    }
    for letter, (name, title) in zip("abcde", titles.items(), strict=False):
        panels[name].set_title(f"({letter}) {title}", loc="left")
    for name, panel in panels.items():
        _label_input(panel, labels, 0, hidden=name in below[:-1])
        if name in below:
            panel.set_ylabel(labels.y)
    return figure


def _of_several_inputs(report: Report) -> Figure:
    labels, y, mean = report.labels.drawn, report.y, report.rows.function.mean
    figure = Figure(figsize=(2.5 * (len(report.along) + 1), 2.7), layout="constrained")
    first, *others = figure.subplots(1, len(report.along) + 1)
    ends = min(y.min(), mean.min()), max(y.max(), mean.max())
    first.plot(ends, ends, color="0.7", linewidth=0.8)
    first.plot(y, mean, ".", color=COLOURS[0], markersize=2.0, markeredgewidth=0, rasterized=True)
    first.set(xlabel=f"{labels.y}, observed", ylabel=f"{labels.y}, predicted", aspect="equal", title="fit")
    for along, panel in zip(report.along, others, strict=True):
        _spectrogram(panel, along, labels)
    return figure


# Panels


def _fit(panel: Axes, report: Report) -> None:
    grid, t = report.grid, report.along[0].at[:, 0]
    if grid is not None:
        plot_fit(panel, report.X[:, 0], report.y, t, _band(grid.function), _band(grid.output))
    panel.set_ylabel(report.labels.drawn.y)


def _spectrogram(panel: Axes, along: Along, labels: Labels) -> AxesImage:
    """Spectrogram along an input, the others in the middle of theirs, with frequencies and bands."""
    frequency = _frequency(along)
    image = _density(panel, along, _highest(along))
    plot_frequency(panel, along.at[:, along.axis], frequency, over=True)
    panel.set_ylabel(f"cycles per {labels.units[along.axis]}")
    panel.set_title("spectrogram, frequency" + ("" if frequency.lower is None else " with 90 % band"))
    _label_input(panel, labels, along.axis)
    return image


def _density(panel: Axes, along: Along, highest: float) -> AxesImage:
    edges = np.linspace(0.0, highest, 301)
    density = decibels(along.local.density(edges, along.axis), RANGE)
    return plot_spectrogram(panel, along.at[:, along.axis], edges, density, vmin=-RANGE, vmax=0.0)


def _periodogram(panel: Axes, report: Report, highest: float) -> AxesImage:
    """The data without a model, in windows of about two cycles of the strongest component.

    Shorter ones see nothing, longer ones no change; a kernel without frequencies has the widest.
    """
    local, x = report.along[0].local, report.X[:, 0]
    strongest = int(np.argmax(local.weight.mean(axis=(0, 1))))
    middle, span = float(np.median(np.mean(local.frequency[..., strongest, 0], axis=0))), float(np.ptp(x))
    width = float(np.clip(0.45 / middle, 0.01 * span, 0.15 * span)) if middle > 0 else 0.15 * span
    return plot_periodogram(panel, x, report.y, np.linspace(0.0, highest, 201)[1:], width=width)


def _functions(local: LocalDraws, labels: Labels) -> dict[str, tuple[str, Band]]:
    """The functions of the kernel by name, each with the label of its axis."""
    functions = {"amplitude": (f"σ ({labels.y})", Band.over(local.amplitude, LEVEL))}
    if local.lengthscale is not None:
        functions["lengthscale"] = f"ℓ ({labels.units[0]})", Band.over(local.lengthscale[..., 0], LEVEL)
    return functions


def _frequency(along: Along) -> Band:
    """Frequencies ``[g, a]`` along the input."""
    return Band.over(np.abs(along.local.frequency[..., along.axis]), LEVEL)


def _highest(along: Along) -> float:
    """Where the axis of frequencies ends."""
    frequency = _frequency(along)
    upper = frequency.mean if frequency.upper is None else frequency.upper
    wide = np.max(frequency.mean + 2.0 * np.median(along.local.bandwidth[..., along.axis], axis=0))
    bound = 2.0 * np.max(upper) if np.max(upper) > 0 else wide
    return 1.25 * float(max(np.quantile(upper, 0.98), np.max(frequency.mean), min(wide, bound))) or 1.0


def _label_input(panel: Axes, labels: Labels, axis: int, *, hidden: bool = False) -> None:
    if labels.times[axis]:
        locator = AutoDateLocator(minticks=3)  # type: ignore[no-untyped-call]
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    panel.tick_params(labelbottom=not hidden)
    panel.set_xlabel("" if hidden else labels.x[axis])


def _band(moments: Moments) -> Band:
    return Band.normal(moments.mean, moments.std, LEVEL)
