"""What a fitted estimator says of itself: its functions in own units, a summary, and one figure of everything."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from scipy.stats import norm

from .estimator import DAY, Band, SpectralGPRegressor, numbers_of
from .numerics import entry_point
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


class Columns(NamedTuple):
    """What the columns of the data are called."""

    x: tuple[str, ...]
    y: str
    error: str | None = None


# Inputs


def along(estimator: SpectralGPRegressor, axis: int = 0, count: int = 400) -> Any:
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


def frequency_units(estimator: SpectralGPRegressor, columns: Columns) -> list[str]:
    """Cycles per what, for every input."""
    names = ("day" if time else name for name, time in zip(columns.x, estimator.times_, strict=True))
    return [f"cycles per {name}" for name in names]


# Functions of the kernel


class Functions(NamedTuple):
    """Amplitude (standard deviation, ``[n, a]``) and lengthscale ``[n, a, d]`` (None where the kernel has none)."""

    amplitude: Band
    lengthscale: Band | None


class _Functions(eqx.Module):
    X: Any

    def __call__(self, model: Any) -> Functions:
        kernel, X = model.enter().kernel, jnp.asarray(self.X)
        amplitude: Any = jnp.sqrt(jnp.maximum(local_spectrum(kernel, X).weight, 0.0))
        return Functions(amplitude, getattr(kernel.local(X), "lengthscale", None))


@entry_point
def _call(function: Any, model: Any) -> Any:
    return function(model)


def functions(estimator: SpectralGPRegressor, X: Any, level: float = LEVEL) -> Functions:
    """The functions of the kernel at inputs ``X [n, d]``, in own units, with credible intervals."""
    function = _Functions((_numbers(X) - estimator.X_mean_) / estimator.X_scale_)
    posterior, levels = estimator.posterior_, (0.5 - 0.5 * level, 0.5 + 0.5 * level)

    def band(values: Any) -> Band:
        if posterior is None:
            return Band(values, None, None)
        values = values.reshape(-1, *values.shape[2:])
        return Band(np.mean(values, axis=0), *np.quantile(values, levels, axis=0))

    drawn = (
        _call(function, estimator.model_) if posterior is None else posterior.thinned(estimator.n_draws).map(function)
    )
    amplitude = band(drawn.amplitude).times(estimator.y_scale_)
    return Functions(
        amplitude, None if drawn.lengthscale is None else band(drawn.lengthscale).times(estimator.X_scale_)
    )


# Summary


def summary(estimator: SpectralGPRegressor, X: Any, y: Any, columns: Columns, error: Any = None) -> dict[str, Any]:
    """What was learned from data ``X [n, d]``, ``y [n]``, as plain values: components, noise, quality of the fit.

    The quality is that of the rows fitted to, 2000 of them at most: it says whether the fit follows them, not how well
    it predicts others.
    """
    rows = _some(len(y), ROWS)
    X, y = X[rows], np.asarray(y)[rows]
    error = np.zeros(len(y)) if error is None else np.asarray(error)[rows]
    mean, deviation = estimator.predict(X, return_std=True)
    noise = np.sqrt(np.maximum(deviation**2 - estimator.predict(X, return_std=True, noise=False)[1] ** 2, 0.0))
    inside = np.abs(y - mean) < norm.ppf(0.5 + 0.5 * LEVEL) * np.hypot(deviation, error)
    return {
        "unit": ", ".join(frequency_units(estimator, columns)),
        "components": _components(estimator, X[_some(len(y), 200)]),
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


def _components(estimator: SpectralGPRegressor, X: Any) -> list[dict[str, Any]]:
    """Of every component the lowest and highest frequency ``[d]``, half the median width of its band, the amplitude."""
    frequency = Band(
        *(
            None if part is None else part.reshape(*part.shape[:2], -1)
            for part in estimator.instantaneous_frequency(X, level=LEVEL)
        )
    )
    amplitude = functions(estimator, X).amplitude.mean
    result = []
    for a in range(frequency.mean.shape[1]):
        values, sigma = frequency.mean[:, a], amplitude[:, a]
        half = None
        if frequency.lower is not None and frequency.upper is not None:
            half = (0.5 * np.median(frequency.upper[:, a] - frequency.lower[:, a], axis=0)).tolist()
        result.append(
            {
                "frequency": [values.min(axis=0).tolist(), values.max(axis=0).tolist()],
                "band": half,
                "amplitude": [float(sigma.min()), float(sigma.max())],
            }
        )
    return result


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
    X, y, columns = X[rows], np.asarray(y)[rows], columns or columns_of(estimator)
    with matplotlib.rc_context(STYLE):
        if estimator.n_features_in_ > 1:
            return _overview_of_several(estimator, X, y, columns)
        return _overview_of_one(estimator, X, y, columns, truth)


def spectrogram_figure(estimator: SpectralGPRegressor, columns: Columns, axis: int = 0, *, truth: Any = None) -> Figure:
    """The spectrogram along one input, with the frequencies and their bands over it."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        panel = figure.subplots()
        image = _draw_spectrogram(panel, estimator, columns, axis, truth)
        figure.colorbar(image, ax=panel, label=f"density, of the largest ({columns.y})")
    return figure


def _overview_of_one(estimator: SpectralGPRegressor, X: Any, y: np.ndarray, columns: Columns, truth: Any) -> Figure:
    at = along(estimator)
    x, t = _numbers(X)[:, 0], _numbers(at)[:, 0]
    frequency, own = estimator.instantaneous_frequency(at, level=LEVEL), functions(estimator, at)
    panels: dict[str, Axes]
    count = frequency.mean.shape[1]
    layout = [["fit", "fit"], ["spectrogram", "periodogram"], ["amplitude", "lengthscale"]]
    layout += [[f"part {k}"] * 2 for k in range(count if count > 1 else 0)]
    heights = [1.0, 1.2, 0.8, *([0.45] * (len(layout) - 3))]
    figure = Figure(figsize=(7.2, 1.9 * sum(heights) + 0.4), layout="constrained")
    panels = figure.subplot_mosaic(layout, height_ratios=heights)

    mean, deviation = estimator.predict(at, return_std=True)
    smooth = estimator.predict(at, return_std=True, noise=False)[1]
    plot_fit(panels["fit"], x, y, t, _normal(mean, smooth), _normal(mean, deviation))
    panels["fit"].set(ylabel=columns.y)
    panels["fit"].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.2)

    image = _draw_spectrogram(panels["spectrogram"], estimator, columns, 0, truth)
    low, high = panels["spectrogram"].get_ylim()
    # A window of about two cycles of the strongest component: shorter ones see nothing, longer ones no change.
    strongest = int(np.argmax(own.amplitude.mean.mean(axis=0)))
    span, cycle = np.ptp(x), 1.0 / np.median(frequency.mean[:, strongest])
    width = float(np.clip(0.6 * cycle, 0.01 * span, 0.15 * span))
    second = plot_periodogram(panels["periodogram"], x, y, np.linspace(max(low, 0.02 * high), high, 200), width=width)
    plot_frequency(panels["periodogram"], t, Band(frequency.mean, None, None), over=True)
    panels["periodogram"].set(ylim=(low, high), title="the data alone: windowed Lomb–Scargle, same lines")
    figure.colorbar(image, ax=panels["spectrogram"], label="density / largest", pad=0.02)
    figure.colorbar(second, ax=panels["periodogram"], label="share of variance", pad=0.02)

    unit = "days" if estimator.times_[0] else columns.x[0]
    shown = {"amplitude": (f"amplitude σ ({columns.y})", own.amplitude)}
    if own.lengthscale is not None:
        shown["lengthscale"] = (
            f"lengthscale ℓ ({unit})",
            Band(*(part if part is None else part[..., 0] for part in own.lengthscale)),
        )
    else:
        panels["lengthscale"].set_axis_off()
    plot_functions([panels[name] for name in shown], t, dict(shown.values()))
    if count > 1:
        parts = [panels[f"part {k}"] for k in range(count)]
        plot_decomposition(parts, t, estimator.decompose(at))
        for panel in parts:
            panel.set_ylabel(columns.y)
    for name, panel in panels.items():
        _label_input(
            panel, columns.x[0], bool(estimator.times_[0]), name.startswith("part") and name != f"part {count - 1}"
        )
    return figure


def _overview_of_several(estimator: SpectralGPRegressor, X: Any, y: np.ndarray, columns: Columns) -> Figure:
    count = len(columns.x)
    figure = Figure(figsize=(min(2.4 * (count + 1), 9.6), 2.8), layout="constrained")
    first, *others = figure.subplots(1, min(count, 3) + 1)
    mean = estimator.predict(X)
    ends = min(y.min(), mean.min()), max(y.max(), mean.max())
    first.plot(ends, ends, color="0.7", linewidth=0.8)
    first.plot(y, mean, ".", color=COLOURS[0], markersize=2.0, markeredgewidth=0, rasterized=True)
    first.set(xlabel=f"{columns.y}, observed", ylabel=f"{columns.y}, predicted", aspect="equal")
    for axis, panel in enumerate(others):
        _draw_spectrogram(panel, estimator, columns, axis, None)
        _label_input(panel, columns.x[axis], bool(estimator.times_[axis]), False)
        panel.set_title("other inputs in the middle")
    return figure


def _draw_spectrogram(
    panel: Axes, estimator: SpectralGPRegressor, columns: Columns, axis: int, truth: Any
) -> AxesImage:
    """Spectrogram along an input, with the frequencies along the same input; each column has its largest value as 1."""
    at, several = along(estimator, axis), estimator.n_features_in_ > 1
    t, band = _numbers(at)[:, axis], estimator.instantaneous_frequency(at, level=LEVEL)
    if several:
        band = Band(*(None if part is None else np.abs(part[..., axis]) for part in band))
    ends = band.mean if band.upper is None else band.upper
    highest = min(1.3 * float(np.max(ends)), max(1.6 * float(np.max(band.mean)), float(estimator.start_.band[0, axis])))
    s = np.linspace(0.0, highest, 241)
    density = estimator.spectrogram(at[::2], s, axis=axis if several else None).mean
    image = plot_spectrogram(panel, t, s, density / np.max(density))
    plot_frequency(
        panel, t, band, over=True, label="frequency and 90 % band", truth=None if truth is None else truth(at)
    )
    panel.set(ylabel=frequency_units(estimator, columns)[axis], title="spectrogram, frequency with 90 % band")
    _label_input(panel, columns.x[axis], bool(estimator.times_[axis]), False)
    return image


def _label_input(panel: Axes, name: str, times: bool, hidden: bool) -> None:
    if times:
        locator = AutoDateLocator(maxticks=7)
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    panel.tick_params(labelbottom=not hidden)
    panel.set_xlabel("" if hidden else name)


def _numbers(X: Any) -> np.ndarray:
    return np.asarray(numbers_of(X)[0], np.float64)


def _normal(mean: np.ndarray, deviation: np.ndarray) -> Band:
    reach = norm.ppf(0.5 + 0.5 * LEVEL) * deviation
    return Band(mean, mean - reach, mean + reach)
