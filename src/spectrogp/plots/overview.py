"""Figures of a whole fit, drawn from its report."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from ..posterior import Band, LocalDraws
from .axes import (
    COLOURS,
    GREYS,
    STYLE,
    decibels,
    plot_components,
    plot_fit,
    plot_frequency,
    plot_functions,
    plot_spectrogram,
)
from .periodogram import share_explained, window_widths
from .report import LEVEL, Along, Labels, Report, as_drawn
from .scales import date_axis, period_axis, plain_log_axis

PANELS = ("fit", "spectrogram", "frequency", "periodogram", "amplitude", "lengthscale")
CELLS = 200  # of the axis of frequencies
COLUMNS = 250  # of a spectrogram, at most
SHALLOWEST, DEEPEST = 25.0, 60.0  # range of a spectrogram's colours, in dB
BELOW = 15.0  # dB of colours below the ridge of the weakest component
SEEN = 5.0  # cycles in the data, the least that the axis of a kernel without frequencies ends with
WIDE = 8.0  # times the lowest frequency is the highest, or the end of the axis, where it is logarithmic
LETTERS = 130  # of a line of warnings below the panels
TICK = 0.55  # inches that the label of a date takes, with what keeps it apart from the next


def overview(report: Report, *, truth: Any = None, scaling: str = "record", period: bool = False) -> Figure:
    """One figure of a fit.

    For one input: the fit, the spectrogram with the frequencies and their bands, the same data without a model
    (windowed Lomb–Scargle) over all frequencies that were looked for, the functions of the kernel, and the components
    of the signal if there are several; a component has one colour throughout. For several inputs: predicted against
    observed outputs, and the spectrogram along each input.

    Args:
        report: What the fit has to say.
        truth: A callable that gives the true frequencies ``[t, a]`` at inputs ``[t, d]``, where they are known.
        scaling: Of the spectrogram's colours: "record" for decibels below its largest value, "column" for decibels
            below the largest at every input.
        period: Whether periods stand at the left of axes of frequencies, and not at the right.
    """
    with matplotlib.rc_context(STYLE):
        if report.grid is None:
            return _of_several_inputs(report, scaling)
        return _of_one_input(report, truth, scaling, period)


def spectrogram_figure(
    along: Along, labels: Labels, *, level: float = LEVEL, scaling: str = "record", period: bool = False
) -> Figure:
    """The spectrogram along one input, with the frequencies and their bands over it.

    Args:
        along: What the kernel says along that input.
        labels: How inputs and output are called.
        level: Probability of the bands.
        scaling: "record" for decibels below the largest value, "column" for decibels below that at every input.
        period: Whether periods stand at the left, and not at the right.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.4), layout="constrained")
        panel = figure.subplots()
        image = _spectrogram(panel, along, labels.drawn, level, scaling)
        if len(labels.x) == 1:
            period_axis(panel, f"period ({labels.drawn.units[0]})", left=period)
        _colours(figure, image, panel, _density_label(scaling))
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
    along, labels, level = report.along[0], report.labels.drawn, report.level
    t = along.at[:, along.axis]
    match name:
        case "fit":
            _fit(axes, report)
        case "spectrogram":
            _spectrogram(axes, along, labels, level, "record")
        case "frequency":
            plot_frequency(axes, t, _frequency(along, level))
            axes.set(ylabel=labels.frequency(), xlim=(np.min(t), np.max(t)), ylim=(0.0, None))
        case "periodogram":
            _periodogram(axes, report)
        case _:
            functions = _functions(report)
            if name not in functions:
                raise ValueError(f"this kernel has no {name}")
            plot_functions([axes], t, {functions[name][0]: functions[name][1]})
    _mark_doubtful(axes, name, report)
    _label_input(axes, labels, along.axis)


def _of_one_input(report: Report, truth: Any, scaling: str, period: bool) -> Figure:
    along, labels, level = report.along[0], report.labels.drawn, report.level
    t, frequency, functions = along.at[:, 0], _frequency(along, level), _functions(report)
    layout: Any = [["fit"] * 2, ["spectrogram", "periodogram"], [*functions] * (3 - len(functions))]
    count = 0 if report.components is None else report.components.mean.shape[1]
    below = [f"component {k}" for k in range(count)]
    layout += [[name] * 2 for name in below]
    heights = [1.0, 1.6, 0.8, *([0.5] * count)]
    figure = Figure(figsize=(7.2, 1.85 * sum(heights) + 0.4), layout="constrained")
    panels: dict[str, Axes] = figure.subplot_mosaic(layout, height_ratios=heights)

    _fit(panels["fit"], report)
    panels["fit"].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.2, markerscale=2.5)

    known = None if truth is None else truth(along.at)
    image = _density(panels["spectrogram"], along, labels, level, scaling)
    power = _periodogram(panels["periodogram"], report)
    for name, band in (("spectrogram", frequency), ("periodogram", frequency._replace(lower=None, upper=None))):
        limits = panels[name].get_ylim()
        plot_frequency(panels[name], t, band, over=True, truth=known)
        panels[name].set(ylim=limits, ylabel=labels.frequency())
        period_axis(panels[name], f"period ({labels.units[0]})", left=period)
    _colours(figure, image, panels["spectrogram"], _density_label(scaling))
    _colours(figure, power, panels["periodogram"], "share of the variance in a window")
    if known is not None:
        panels["spectrogram"].legend(loc="upper center")
    else:  # what is slower is a trend, of which no cycle was seen
        _mark_record(panels["spectrogram"], labels.sizes[0] / float(np.ptp(t)), "one cycle in the record")

    plot_functions([panels[name] for name in functions], t, dict(functions.values()))
    if "lengthscale" in functions:
        length, panel = float(np.ptp(t)) / labels.sizes[0], panels["lengthscale"]
        if panel.get_yscale() == "log":
            panel.set_ylim(min(panel.get_ylim()[0], max(0.7 * length, 0.1 * panel.get_ylim()[0])), None)
        _mark_record(panel, length, "length of the record")
    if report.components is not None:
        plot_components(
            [panels[name] for name in below],
            t,
            report.components,
            oscillations=report.local.weight.shape[-1],
            overtones=report.overtones,
            neutral=float(labels.log),
        )
    titles = {
        "fit": "data and fit",
        "spectrogram": "model: spectrogram, frequency"
        + (" (MAP: no band)" if frequency.lower is None else f", {100.0 * level:.3g} % band"),
        "periodogram": f"{'logarithms' if labels.log else 'data'} alone: windowed Lomb–Scargle",
        "amplitude": f"amplitude{' σ' * (report.amplitude is None)}{' of components' * bool(np.any(frequency.mean))}",
        "lengthscale": "lengthscale ℓ: coherence",
    }
    for letter, name in zip("abcde", ("fit", "spectrogram", "periodogram", *functions), strict=False):
        panels[name].set_title(f"({letter}) {titles[name]}", loc="left")
        _mark_doubtful(panels[name], name, report)
    for name, panel in panels.items():
        _label_input(panel, labels, 0, hidden=name in below[:-1])
        if name in below:
            panel.set_ylabel("factor" if labels.log else labels.y)
    _warn_below(figure, report)
    return figure


def _warn_below(figure: Figure, report: Report) -> None:
    """What a referee would ask, in words below the panels."""
    if not report.warnings:
        return
    lines = [textwrap.fill(f"! {as_drawn(sentence)}", LETTERS) for sentence in report.warnings]
    text = "\n".join(lines)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.13 * (text.count("\n") + 1))
    figure.supxlabel(text, x=0.01, ha="left", fontsize=7, color="#9a3412")


def _of_several_inputs(report: Report, scaling: str) -> Figure:
    labels, y, mean = report.labels.drawn, report.y, report.rows.function.mean
    figure = Figure(figsize=(2.5 * (len(report.along) + 1), 2.7), layout="constrained")
    first, *others = figure.subplots(1, len(report.along) + 1)
    ends = min(y.min(), mean.min()), max(y.max(), mean.max())
    first.plot(ends, ends, color="0.7", linewidth=0.8)
    first.plot(y, mean, ".", color=COLOURS[0], markersize=2.0, markeredgewidth=0, rasterized=True)
    first.set(xlabel=f"{labels.y}, observed", ylabel=f"{labels.y}, predicted", aspect="equal", title="fit")
    for along, panel in zip(report.along, others, strict=True):
        _spectrogram(panel, along, labels, report.level, scaling)
        _mark_doubtful(panel, "spectrogram", report)
    return figure


# Panels


def _fit(panel: Axes, report: Report) -> None:
    grid, t, level = report.grid, report.along[0].at[:, 0], report.level
    if grid is not None and grid.bands is not None:
        plot_fit(panel, report.X[:, 0], report.y, t, *grid.bands, level=level)
    panel.set_ylabel(report.labels.drawn.y)


def _spectrogram(panel: Axes, along: Along, labels: Labels, level: float, scaling: str) -> Any:
    """Spectrogram along an input, the others in the middle of theirs, with frequencies and bands."""
    frequency = _frequency(along, level)
    image = _density(panel, along, labels, level, scaling)
    limits = panel.get_ylim()
    plot_frequency(panel, along.at[:, along.axis], frequency, over=True)
    panel.set(ylim=limits, ylabel=labels.frequency(along.axis))
    band = "" if frequency.lower is None else f" with {100.0 * level:.3g} % band"
    panel.set_title(f"spectrogram, frequency{band}")
    _label_input(panel, labels, along.axis)
    return image


def _density(panel: Axes, along: Along, labels: Labels, level: float, scaling: str) -> Any:
    """The model's spectrogram, over the frequencies that it has."""
    low, high = _limits(along, labels, level)
    log = low > 0 and high > WIDE * low
    edges = np.geomspace(low, high, CELLS + 1) if log else np.linspace(low, high, CELLS + 1)
    columns = np.unique(np.linspace(0, len(along.at) - 1, COLUMNS).astype(int))
    some = LocalDraws(*(None if part is None else part[:, columns] for part in along.local))
    depth = decibels(some.density(edges, along.axis), DEEPEST, scaling=scaling)
    frequency = np.abs(np.mean(some.frequency[..., along.axis], axis=0))
    cell: Any = np.clip(np.searchsorted(edges, frequency) - 1, 0, CELLS - 1)
    ridges = np.median(np.take_along_axis(depth, cell, axis=1), axis=0)
    lowest = float(np.clip(np.min(ridges) - BELOW, -DEEPEST, -SHALLOWEST))
    x = along.at[columns, along.axis]
    middle = np.sqrt(edges[1:] * edges[:-1]) if log else 0.5 * (edges[1:] + edges[:-1])
    image = plot_spectrogram(panel, x, middle, depth, vmin=lowest, vmax=0.0, cmap=GREYS)
    panel.set_ylim(low, high)
    if log:
        plain_log_axis(panel)
    return image


def _periodogram(panel: Axes, report: Report) -> Any:
    """The data without a model, at all frequencies that were looked for: it shows what the model has missed."""
    labels, along = report.labels.drawn, report.along[0]
    _, high = _limits(along, labels, report.level)
    lowest, highest = report.band[:, 0]
    lowest, highest = (lowest, max(highest, high)) if highest > lowest > 0 else (high / CELLS, high)
    log = highest > WIDE * high or highest > WIDE * WIDE * lowest
    frequency = np.geomspace(lowest, highest, CELLS) if log else np.linspace(lowest, highest, CELLS)
    t, y = report.record if report.record is not None else (report.X[:, 0], report.y)
    centres, inside = np.linspace(np.min(t), np.max(t), COLUMNS), frequency / labels.sizes[0]
    share = share_explained(t, y, centres, inside, window_widths(t, inside))
    image = plot_spectrogram(panel, centres, frequency, share, vmax=1.0, cmap=GREYS, gamma=0.5)
    panel.set(ylabel=labels.frequency(), xlim=(np.min(t), np.max(t)))
    return image


def _functions(report: Report) -> dict[str, tuple[str, Band]]:
    """Amplitudes, and the functions of the kernel, by name, each with the label of its axis."""
    local, labels, level = report.along[0].local, report.labels.drawn, report.level
    if report.amplitude is None:
        functions = {"amplitude": (f"σ ({labels.fitted})", Band.over(local.amplitude, level))}
    else:
        functions = {"amplitude": (f"amplitude ({labels.fitted})", report.amplitude)}
    if local.lengthscale is not None:
        functions["lengthscale"] = f"ℓ ({labels.units[0]})", Band.over(local.lengthscale[..., 0], level)
    return functions


def _frequency(along: Along, level: float) -> Band:
    """Frequencies ``[g, a]`` along the input."""
    return Band.over(np.abs(along.local.frequency[..., along.axis]), level)


def _limits(along: Along, labels: Labels, level: float) -> tuple[float, float]:
    """Where the axis of the model's frequencies begins and ends; at zero, where that is near."""
    band = _frequency(along, level)
    ends = band._replace(lower=band.mean, upper=band.mean) if band.lower is None else band
    mean, width = band.mean, np.median(along.local.bandwidth[..., along.axis], axis=0)
    # Lines that are broader than their frequency, as those of kernels without one, are shown as far as they matter.
    broad = np.minimum(2.0 * width, np.where(mean > 0, 2.0 * mean, np.inf))
    high = float(max(np.quantile(ends.upper, 0.98), np.max(mean), np.quantile(mean + broad, 0.98))) or 1.0
    if not np.any(mean):  # no frequency: slow or not is told by the length of the data
        high = max(high, SEEN * labels.sizes[along.axis] / float(np.ptp(along.at[:, along.axis])))
    low = float(min(np.quantile(ends.lower, 0.02), np.min(mean)))
    if low > 0 and np.max(mean) > WIDE * np.min(mean):  # a logarithmic axis
        return max(low, np.min(mean) / 3.0) / 1.3, 1.3 * high
    margin = max(0.25 * (high - low), 0.08 * high)
    return (0.0 if low < 0.4 * high or np.any(width > mean) else low - margin), high + margin


def _mark_record(panel: Axes, at: float, label: str) -> None:
    """The length of the record beside lengthscales, or its frequency beside others, if the axis holds it."""
    low, high = panel.get_ylim()
    if low < at < high:
        panel.axhline(at, color="0.2", linewidth=0.8, linestyle=(0, (5, 2)))
        above = {"xycoords": ("axes fraction", "data"), "xytext": (-2, 2), "textcoords": "offset points"}
        text = panel.annotate(label, (1.0, at), ha="right", va="bottom", fontsize=7, **above)  # type: ignore[arg-type]
        text.set_path_effects([withStroke(linewidth=2.0, foreground="white")])


def _mark_doubtful(panel: Axes, name: str, report: Report) -> None:
    """Say so where the band of a panel rests on draws that failed a check."""
    if {"fit": "prediction", "spectrogram": "frequency"}.get(name, name) in report.doubtful:
        where = {"xycoords": "axes fraction", "ha": "left", "va": "bottom", "fontsize": 7, "color": "#b2182b"}
        text = panel.annotate("band not converged: see diagnostics()", (0.01, 0.02), **where)  # type: ignore[arg-type]
        text.set_path_effects([withStroke(linewidth=2.0, foreground="white")])


def _density_label(scaling: str) -> str:
    return f"spectral density (dB below its maximum{' at each input' * (scaling == 'column')})"


def _colours(figure: Figure, image: Any, panel: Axes, label: str) -> None:
    """A scale of colours below a panel."""
    figure.colorbar(image, ax=panel, label=label, location="bottom", pad=0.02, aspect=35, shrink=0.9)


def _label_input(panel: Axes, labels: Labels, axis: int, *, hidden: bool = False) -> None:
    if labels.times[axis]:
        figure: Any = panel.get_figure()
        spec = panel.get_subplotspec()
        share = 1.0 if spec is None else len(spec.colspan) / spec.get_gridspec().ncols
        date_axis(panel, int(share * figure.get_figwidth() * 0.75 / TICK))
    panel.tick_params(labelbottom=not hidden)
    panel.set_xlabel("" if hidden else labels.x[axis])
