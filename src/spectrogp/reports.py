"""What a fitted estimator says of itself: its functions in own units, a summary, and one figure of everything."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from scipy.special import ndtr
from scipy.stats import norm

from .estimator import DAY, Band, SpectralGPRegressor, at_draws, numbers_of
from .inference import Posterior
from .plots import (
    COLOURS,
    STYLE,
    plot_decomposition,
    plot_fit,
    plot_frequency,
    plot_functions,
    plot_periodogram,
    plot_spectrogram,
)
from .spectra import local_spectrum

LEVEL = 0.9
ROWS = 2000  # that a summary or a picture looks at, at most
DRAWS = 200  # likewise
GRID = 400  # inputs at which functions are shown
PARTS = 6  # of a signal that are drawn, at most
RANGE = 40.0  # of a spectrogram's colours, in dB


class Columns(NamedTuple):
    """What the columns of the data are called."""

    x: tuple[str, ...]
    y: str
    error: str | None = None


# Inputs


def along(estimator: SpectralGPRegressor, axis: int = 0, count: int = GRID) -> Any:
    """Inputs ``[count, d]`` along one column over the range of the data, the others in the middle of theirs."""
    low, high = estimator.start_.extent
    X = np.broadcast_to(0.5 * (low + high), (count, len(low))).copy()
    X[:, axis] = np.linspace(low[axis], high[axis], count)
    if not np.any(estimator.times_):
        return X
    times = (X * DAY).round().astype(np.int64).astype("datetime64[us]")
    if len(low) == 1:
        return times
    mixed = X.astype(object)
    for column in np.flatnonzero(estimator.times_):
        mixed[:, column] = times[:, column].astype(object)
    return mixed


def units(estimator: SpectralGPRegressor, columns: Columns) -> list[str]:
    """The unit of every input: days of times, what stands in the last brackets of a name, or the name."""
    found = (re.search(r"[(\[]([^()\[\]]+)[)\]]$", name.strip()) for name in columns.x)
    names = (name if unit is None else unit[1] for name, unit in zip(columns.x, found, strict=True))
    return ["day" if time else name for name, time in zip(names, estimator.times_, strict=True)]


# Functions of the kernel


class Local(NamedTuple):
    """What the kernel says at inputs ``[n, d]``, at every draw of the posterior (one without a posterior).

    The components of the local spectrum: variance ``weight [s, n, a]``, ``frequency [s, n, a, d]`` and the standard
    deviation ``bandwidth [s, n, a, d]`` around it, in cycles per unit; and ``lengthscale [s, n, a, d]``, if it has one.
    """

    weight: np.ndarray
    frequency: np.ndarray
    bandwidth: np.ndarray
    lengthscale: np.ndarray | None

    @property
    def amplitude(self) -> np.ndarray:
        """Standard deviation of a component, ``[s, n, a]``."""
        return np.sqrt(np.maximum(self.weight, 0.0))

    def density(self, edges: np.ndarray, axis: int = 0) -> np.ndarray:
        """The posterior mean of the spectrogram along an input, ``[n, m]``: its mean in each cell between m + 1 edges.

        Means over cells, since the ridge of a coherent oscillation is narrower than a cell, and values between them
        would miss it.
        """
        total = np.zeros((self.weight.shape[1], len(edges) - 1))
        for w, f, b in zip(self.weight, self.frequency[..., axis], self.bandwidth[..., axis], strict=True):
            for sign in (1.0, -1.0):  # a component and its mirror image
                below = ndtr((edges - sign * f[..., None]) / b[..., None])
                total += 0.5 * np.sum(w[..., None] * np.diff(below, axis=-1), axis=1)
        return np.asarray(total / (len(self.weight) * np.diff(edges)))


class _Local(eqx.Module):
    X: Any

    def __call__(self, model: Any) -> tuple[Any, ...]:
        kernel, X = model.enter().kernel, jnp.asarray(self.X)
        spectrum = local_spectrum(kernel, X)
        return spectrum.weight, spectrum.frequency, spectrum.bandwidth, getattr(kernel.local(X), "lengthscale", None)


def local_of(model: Any, posterior: Posterior | None, X: np.ndarray, most: int = DRAWS) -> Local:
    """What a model says at its own inputs ``X [n, d]``, at some draws of its posterior."""
    weight, frequency, bandwidth, lengthscale = at_draws(_Local(X), model, posterior, most)
    if frequency.shape[-1] == 1:  # the sign of a frequency says nothing
        frequency = np.abs(frequency)
    length = None if lengthscale is None else np.broadcast_to(lengthscale, frequency.shape)
    return Local(weight, frequency, bandwidth, length)


def local(estimator: SpectralGPRegressor, X: Any, most: int = DRAWS) -> Local:
    """What a fitted estimator says at inputs ``X [n, d]``, in own units."""
    unit = estimator.X_scale_
    inside = (_numbers(X) - estimator.X_mean_) / unit
    weight, frequency, bandwidth, length = local_of(estimator.model_, estimator.posterior_, inside, most)
    length = None if length is None else length * unit
    return Local(weight * estimator.y_scale_**2, frequency / unit, bandwidth / unit, length)


def _band(values: np.ndarray) -> Band:
    return Band.over(values, LEVEL)


# Summary


def summary(estimator: SpectralGPRegressor, X: Any, y: Any, columns: Columns, error: Any = None) -> dict[str, Any]:
    """What was learned from data ``X [n, d]``, ``y [n]``, as plain values: components, noise, quality of the fit.

    The quality is that of the rows fitted to, 2000 of them at most: it says whether the fit follows them, not how well
    it predicts others.
    """
    rows = _some(len(y), ROWS)
    X, y = _taken(X, rows), np.asarray(y)[rows]
    error = np.zeros(len(y)) if error is None else np.asarray(error)[rows]
    mean, deviation = estimator.predict(X, return_std=True)
    noise = np.sqrt(np.maximum(deviation**2 - estimator.predict(X, return_std=True, noise=False)[1] ** 2, 0.0))
    inside = np.abs(y - mean) < norm.ppf(0.5 + 0.5 * LEVEL) * np.hypot(deviation, error)
    return {
        "unit": ", ".join(f"cycles per {unit}" for unit in units(estimator, columns)),
        "components": _components(estimator, _taken(X, _some(len(y), GRID))),
        "noise": float(np.sqrt(np.mean(noise**2))),
        "fit": {
            "r2": float(1.0 - np.mean((y - mean) ** 2) / np.var(y)) if np.ptp(y) > 0 else 1.0,
            "mean_log_density": float(np.mean(estimator.log_predictive_density(X, y, error))),
            "coverage": float(np.mean(inside)),
        },
    }


def _some(count: int, most: int) -> np.ndarray:
    """Evenly spaced rows."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def _taken(X: Any, rows: np.ndarray) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]


def _components(estimator: SpectralGPRegressor, X: Any) -> list[dict[str, Any]]:
    """Of every component the lowest and highest frequency ``[d]``, half the median width of its band, the amplitude."""
    at = local(estimator, X)
    frequency, amplitude = _band(at.frequency), _band(at.amplitude).mean
    half = [None] * amplitude.shape[1]
    if frequency.lower is not None and frequency.upper is not None:
        half = (0.5 * np.median(frequency.upper - frequency.lower, axis=0)).tolist()
    return [
        {
            "frequency": [values.min(axis=0).tolist(), values.max(axis=0).tolist()],
            "band": half[a],
            "amplitude": [float(amplitude[:, a].min()), float(amplitude[:, a].max())],
        }
        for a, values in enumerate(np.moveaxis(frequency.mean, 1, 0))
    ]


# Figures


def columns_of(estimator: SpectralGPRegressor) -> Columns:
    """The names of a data frame that the estimator was fitted to, or plain ones."""
    count = estimator.n_features_in_
    plain = ["x"] if count == 1 else [f"x{k + 1}" for k in range(count)]
    return Columns(tuple(getattr(estimator, "feature_names_in_", plain)), "y")


def overview(
    estimator: SpectralGPRegressor, X: Any, y: Any, columns: Columns | None = None, *, truth: Any = None
) -> Figure:
    """One figure of a fit to data ``X [n, d]``, ``y [n]``.

    For one input: the fit, the spectrogram with the frequencies and their bands, the same data without a model
    (windowed Lomb–Scargle), the functions of the kernel, and the parts of the signal if there are several components.
    For several inputs: predicted against observed outputs, and the spectrogram along each input. A known ``truth`` is
    a callable that gives frequencies ``[t, a]`` at inputs ``[t, d]``.
    """
    rows = _some(len(y), ROWS)
    X, y, columns = _taken(X, rows), np.asarray(y)[rows], columns or columns_of(estimator)
    with matplotlib.rc_context(STYLE):
        if estimator.n_features_in_ > 1:
            return _overview_of_several(estimator, X, y, columns)
        return _overview_of_one(estimator, X, y, columns, truth)


def spectrogram_figure(estimator: SpectralGPRegressor, columns: Columns | None = None, axis: int = 0) -> Figure:
    """The spectrogram along one input, with the frequencies and their bands over it."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        panel = figure.subplots()
        image = _spectrogram_panel(panel, estimator, columns or columns_of(estimator), axis)
        figure.colorbar(image, ax=panel, label="density (dB)", pad=0.02)
    return figure


def _overview_of_one(estimator: SpectralGPRegressor, X: Any, y: np.ndarray, columns: Columns, truth: Any) -> Figure:
    at = along(estimator)
    x, t, here = _numbers(X)[:, 0], _numbers(at)[:, 0], local(estimator, at)
    frequency, count = _band(here.frequency[..., 0]), here.weight.shape[-1]
    unit = units(estimator, columns)[0]
    layout: Any = [["fit"] * 2, ["spectrogram", "periodogram"], ["amplitude", "lengthscale"]]
    parts = _parts(estimator, at, count)
    below = [f"part {k}" for k in range(0 if parts is None else parts.mean.shape[1])]
    layout += [[name] * 2 for name in below]
    heights = [1.0, 1.2, 0.8, *([0.5] * (len(layout) - 3))]
    figure = Figure(figsize=(7.2, 1.85 * sum(heights) + 0.4), layout="constrained")
    panels: dict[str, Axes] = figure.subplot_mosaic(layout, height_ratios=heights)

    mean, deviation = estimator.predict(at, return_std=True)
    smooth = estimator.predict(at, return_std=True, noise=False)[1]
    plot_fit(panels["fit"], x, y, t, _normal(mean, smooth), _normal(mean, deviation))
    panels["fit"].set_ylabel(columns.y)
    panels["fit"].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.2, markerscale=2.5)

    known = None if truth is None else truth(at)
    image = _draw_spectrogram(panels["spectrogram"], t, here, 0)
    plot_frequency(panels["spectrogram"], t, frequency, over=True, truth=known)
    highest = panels["spectrogram"].get_ylim()[1]
    # A window of about two cycles of the strongest component: shorter ones see nothing, longer ones no change.
    strongest = int(np.argmax(here.weight.mean(axis=(0, 1))))
    span, cycle = float(np.ptp(x)), 1.0 / float(np.median(frequency.mean[:, strongest]))
    width = float(np.clip(0.45 * cycle, 0.01 * span, 0.15 * span))
    grid = np.linspace(0.0, highest, 201)[1:]
    power = plot_periodogram(panels["periodogram"], x, y, grid, width=width)
    plot_frequency(panels["periodogram"], t, frequency._replace(lower=None, upper=None), over=True, truth=known)
    panels["periodogram"].set(ylim=(0.0, highest), facecolor="black")
    for name in ("spectrogram", "periodogram"):
        panels[name].set_ylabel(f"cycles per {unit}")
    figure.colorbar(image, ax=panels["spectrogram"], label="density (dB)", pad=0.02)
    figure.colorbar(power, ax=panels["periodogram"], label="share of variance", pad=0.02)
    if known is not None:
        panels["spectrogram"].legend(loc="upper center", labelcolor="white")

    shown = {"amplitude": (f"σ ({columns.y})", _band(here.amplitude))}
    if here.lengthscale is None:
        panels["lengthscale"].set_axis_off()
    else:
        shown["lengthscale"] = f"ℓ ({unit})", _band(here.lengthscale[..., 0])
    plot_functions([panels[name] for name in shown], t, dict(shown.values()))
    if parts is not None:
        plot_decomposition([panels[name] for name in below], t, parts)
    titles = {
        "fit": "data and fit",
        "spectrogram": "spectrogram, "
        + ("frequency (MAP: no band)" if frequency.lower is None else "frequency, 90 % band"),
        "periodogram": "data alone: windowed Lomb–Scargle",
        **{name: name for name in shown},
    }
    for letter, (name, title) in zip("abcde", titles.items(), strict=False):
        panels[name].set_title(f"({letter}) {title}", loc="left")
    for name, panel in panels.items():
        _label_input(panel, columns.x[0], times=bool(estimator.times_[0]), hidden=name in below[:-1])
        if name in below:
            panel.set_ylabel(columns.y)
    return figure


def _parts(estimator: SpectralGPRegressor, at: Any, count: int) -> Band | None:
    """The parts of the signal, if there are a few: those of many components say little one by one."""
    if not 1 < count <= PARTS:
        return None
    try:
        return estimator.decompose(at, level=LEVEL)
    except TypeError:  # a kernel that is no sum of components
        return None


def _overview_of_several(estimator: SpectralGPRegressor, X: Any, y: np.ndarray, columns: Columns) -> Figure:
    inputs = range(min(len(columns.x), 3))
    figure = Figure(figsize=(2.5 * (len(inputs) + 1), 2.7), layout="constrained")
    first, *others = figure.subplots(1, len(inputs) + 1)
    mean = estimator.predict(X)
    ends = min(y.min(), mean.min()), max(y.max(), mean.max())
    first.plot(ends, ends, color="0.7", linewidth=0.8)
    first.plot(y, mean, ".", color=COLOURS[0], markersize=2.0, markeredgewidth=0, rasterized=True)
    first.set(xlabel=f"{columns.y}, observed", ylabel=f"{columns.y}, predicted", aspect="equal", title="fit")
    for axis, panel in zip(inputs, others, strict=True):
        _spectrogram_panel(panel, estimator, columns, axis)
    return figure


def _spectrogram_panel(panel: Axes, estimator: SpectralGPRegressor, columns: Columns, axis: int) -> AxesImage:
    """Spectrogram along an input, the others in the middle of theirs, with frequencies and bands."""
    at = along(estimator, axis)
    t, here = _numbers(at)[:, axis], local(estimator, at)
    image = _draw_spectrogram(panel, t, here, axis)
    plot_frequency(panel, t, _band(np.abs(here.frequency[..., axis])), over=True)
    panel.set_ylabel(f"cycles per {units(estimator, columns)[axis]}")
    panel.set_title("spectrogram, frequency" + ("" if estimator.posterior_ is None else " with 90 % band"))
    _label_input(panel, columns.x[axis], times=bool(estimator.times_[axis]), hidden=False)
    return image


def _draw_spectrogram(panel: Axes, t: np.ndarray, here: Local, axis: int) -> AxesImage:
    """In decibels below the largest value: the ridges of different components differ by orders of magnitude."""
    frequency = _band(np.abs(here.frequency[..., axis]))
    upper = frequency.mean if frequency.upper is None else frequency.upper
    wide = np.max(frequency.mean + 2.0 * np.median(here.bandwidth[..., axis], axis=0))
    highest = 1.25 * float(max(np.quantile(upper, 0.98), np.max(frequency.mean), min(wide, 2.0 * np.max(upper))))
    edges = np.linspace(0.0, highest or 1.0, 301)
    density = here.density(edges, axis)
    decibels = 10.0 * np.log10(np.maximum(density / np.max(density), 10.0 ** (-RANGE / 10.0)))
    return plot_spectrogram(panel, t, edges, decibels, vmin=-RANGE, vmax=0.0)


def _label_input(panel: Axes, name: str, *, times: bool, hidden: bool) -> None:
    if times:
        locator = AutoDateLocator(minticks=3)  # type: ignore[no-untyped-call]
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    panel.tick_params(labelbottom=not hidden)
    panel.set_xlabel("" if hidden else name)


def _numbers(X: Any) -> np.ndarray:
    return np.asarray(numbers_of(X)[0], np.float64)


def _normal(mean: np.ndarray, deviation: np.ndarray) -> Band:
    reach = norm.ppf(0.5 + 0.5 * LEVEL) * deviation
    return Band(mean, mean - reach, mean + reach)
