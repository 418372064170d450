"""The work of the command line on a user's own tables: fit, predict, spectrogram."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from .. import __version__, plots
from ..choices import frequency_unit
from ..core import as_level, naming
from ..estimator import (
    SpectralGPRegressor,
    columns_of,
    inputs_along,
    labels_of,
    shown_units,
    view_along,
    with_times,
)
from ..files import Columns, TableError, replace_file, save, write_json, write_table
from ..initialise import InitialValues
from ..loading import load, load_metadata
from ..plots import LEVEL, Report
from ..posterior import Band
from .tables import Rows, read_inputs

QUICK: dict[str, Any] = {"max_iter": 100, "n_starts": 1, "n_knots": 12, "n_draws": 40, "warmup": 20, "chains": 2}
DPI = 200
PREDICTED = ("mean", "std", "lower", "upper")


class Looks(NamedTuple):
    """How results are shown: the unit of times, periods or frequencies, the level of bands, points, colours, format."""

    unit: str | None = None
    period: bool = False
    level: float = LEVEL
    resolution: int | None = None
    scaling: str = "record"
    figures: str = "png"


class Shown(NamedTuple):
    """What frequencies are shown in: units of the inputs, how much of an input each is, and whether as periods.

    ``asked_for`` is the unit of times that was asked for, if one was.
    """

    columns: Columns
    units: tuple[str, ...]
    sizes: tuple[float, ...]
    period: bool
    asked_for: str | None = None

    def frequency(self, axis: int = 0) -> str:
        """The unit of frequencies along an input."""
        return frequency_unit(self.units[axis])

    @property
    def head(self) -> str:
        """The head of a column of frequencies, or of periods."""
        units = self.units if self.period else map(self.frequency, range(len(self.units)))
        return f"{'period' if self.period else 'frequency'} ({', '.join(units)})"


class Fitted(NamedTuple):
    """An estimator with what it was fitted to."""

    estimator: SpectralGPRegressor
    given: Rows
    shown: Shown
    seconds: float
    warnings: list[str]


def shown_for(given: Rows, looks: Looks) -> Shown:
    """What the frequencies of a fit are shown in, known before it."""
    as_level(looks.level)
    if looks.period and len(given.columns.x) > 1:
        raise ValueError(f"--period is for one input, got {len(given.columns.x)}: leave it out")
    columns = [np.asarray(given.X)[:, k] for k in range(len(given.columns.x))]
    times = tuple(isinstance(column[0], date | np.datetime64) for column in columns)
    spans = [
        float((np.max(column) - np.min(column)) / np.timedelta64(1, "D")) if time else 0.0
        for column, time in zip((np.asarray(part.tolist(), part.dtype) for part in columns), times, strict=True)
    ]
    return Shown(
        given.columns, *shown_units(given.columns.x, times, np.array(spans), looks.unit), looks.period, looks.unit
    )


def found(initial: InitialValues, shown: Shown, *, log: bool = False) -> dict[str, Any]:
    """What was found in the data before a fit, as plain values, in the units that frequencies are shown in.

    Amplitudes are those of the outputs, or of their logarithms (``log``).
    The gain is the log likelihood, in nats, that a component adds to noise, less what chance would; zero where nothing
    significant was found, and the fit begins there for want of better.
    """
    sizes, harmonics = np.array(shown.sizes), np.broadcast_to(initial.harmonics, initial.found.shape)
    components = []
    for a, there in enumerate(initial.found):
        seen = initial.gain[:, a] > 0
        some = seen if there else ~seen
        frequency, amplitude = initial.frequency[some, a] * sizes, initial.amplitude[some, a]
        components.append(
            {
                "frequency": [frequency.min(axis=0).tolist(), frequency.max(axis=0).tolist()],
                "amplitude": [float(amplitude.min()), float(amplitude.max())],
                "harmonics": int(harmonics[a]),
                "gain": float(initial.gain[:, a].sum()),
                "seen": float(np.mean(seen)),
            }
        )
    fitted = f"log {shown.columns.y}" if log else shown.columns.y
    return {
        "rows": int(initial.rows),
        "outputs": fitted,
        "band": (initial.band * sizes).tolist(),
        "components": components,
    }


def fit_table(
    path: Path,
    given: Rows,
    shown: Shown,
    on_found: Callable[[dict[str, Any], Shown], Any],
    *,
    quick: bool,
    seed: int,
    checkpoint: Path | None,
    **settings: Any,
) -> Fitted:
    """Fit to columns of a table."""
    settings = (QUICK if quick else {}) | settings
    if "highest_frequency" in settings:
        settings["highest_frequency"] = settings["highest_frequency"] / np.array(shown.sizes)
    estimator = SpectralGPRegressor(random_state=seed, verbose=True, **settings)
    with naming(str(path)):
        return fit(estimator, given, shown, on_found, checkpoint)


def fit(
    estimator: SpectralGPRegressor,
    given: Rows,
    shown: Shown,
    on_found: Callable[[dict[str, Any], Shown], Any],
    checkpoint: Path | None = None,
) -> Fitted:
    """Fit, and keep what was warned of; what is found before the long part of it is handed on."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(
            given.X,
            given.y,
            given.error,
            names=(*given.columns.x, given.columns.y),
            unit=shown.asked_for,
            checkpoint=checkpoint,
            on_found=lambda initial: on_found(found(initial, shown, log=estimator.target_transform == "log"), shown),
        )
    return Fitted(estimator, given, shown, time.perf_counter() - began, _sentences(caught))


def report(fitted: Fitted, looks: Looks) -> Report:
    """Everything that is shown of a fit."""
    given = fitted.given
    return fitted.estimator.report(
        given.X,
        given.y,
        given.error,
        names=(*given.columns.x, given.columns.y),
        level=looks.level,
        unit=looks.unit,
        resolution=looks.resolution,
    )


def summary(fitted: Fitted, report: Report) -> dict[str, Any]:
    """Everything about a fit that is worth a line, as plain values."""
    estimator, given = fitted.estimator, fitted.given
    settings, columns = estimator.get_params(), given.columns
    chosen = ("kernel", "n_components", "inference", "approximation", "likelihood", "n_starts", "target_transform")
    log = estimator.diagnostics_["target_transform"] == "log"
    highest = settings["highest_frequency"]
    return {
        "spectrogp": __version__,
        "data": {"rows": given.rows, "rows_left_out": given.left_out, **columns._asdict(), "x": list(columns.x)},
        "settings": {name: settings[name] for name in chosen}
        | {"highest_frequency": None if highest is None else np.asarray(highest).tolist()},
        "seed": settings["random_state"],
        "found": found(estimator.initial_values_, fitted.shown, log=log),
        **plots.summary(report),
        "steps": estimator.n_iter_,
        "diagnostics": estimator.diagnostics_,
        "seconds": fitted.seconds,
        "warnings": [*fitted.warnings, *estimator.warnings_],
    }


def write(
    fitted: Fitted, report: Report, record: dict[str, Any], out: Path, looks: Looks, *, truth: Any = None
) -> list[Path]:
    """The model, the summary and the figure of a fit, as files."""
    paths = [out / name for name in ("model.safetensors", "summary.json", f"overview.{looks.figures}")]
    levels = {name: list(words) for name, words in fitted.given.levels.items()}
    save(paths[0], fitted.estimator, fitted.given.columns._asdict() | {"levels": levels})
    write_json(paths[1], record)
    _write_picture(paths[2], plots.overview(report, truth=truth, scaling=looks.scaling, period=looks.period))
    return paths


def predict_table(model: Path, data: Path, out: Path, level: float, *, day_first: bool | None = None) -> list[str]:
    """Mean, standard deviation and interval of new outputs at the inputs in a table; gives what was warned of."""
    level = as_level(level)
    estimator, columns = load_model(model)
    if taken := set(PREDICTED) & set(columns.x):
        raise TableError(f"{out}: inputs may not be called like the predictions, got {', '.join(sorted(taken))}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read_inputs(data, columns.x, load_metadata(model).get("levels", {}), day_first=day_first)
        with naming(str(data)):
            predicted = estimator.predict(columns.inputs(table), return_std=True, interval=level)
    write_table(out, table | dict(zip(PREDICTED, predicted, strict=True)))
    return _sentences(caught)


def spectrogram_table(model: Path, along: str | None, out: Path, looks: Looks) -> list[Path]:
    """The local frequencies along one input as a table, or their periods, and the spectrogram as a picture."""
    level = as_level(looks.level)
    estimator, columns = load_model(model)
    if along is not None and along not in columns.x:
        raise ValueError(f"--along: the model has no input {along!r}; it has {', '.join(map(repr, columns.x))}")
    if looks.period and len(columns.x) > 1:
        raise ValueError(f"--period is for one input, the model has {len(columns.x)}: leave it out")
    axis = 0 if along is None else columns.x.index(along)
    labels = labels_of(estimator, (*columns.x, columns.y), looks.unit)
    at = with_times(inputs_along(estimator, axis, looks.resolution), estimator.times_, estimator.X_origin_)
    table: dict[str, Any] = {name: _as_column(at[:, k]) for k, name in enumerate(columns.x)}
    band = estimator.instantaneous_frequency(at, level=level)
    if looks.period:
        band = Band(*(None if part is None else 1.0 / part for part in (band.mean, band.upper, band.lower)))
    for end, values in zip(("", "_lower", "_upper"), band, strict=True):
        if values is not None:
            values = values.reshape(len(at), -1, len(columns.x))
            for a in range(values.shape[1]):
                for d, name in enumerate(columns.x):
                    suffix = f"_{name}" if len(columns.x) > 1 else ""
                    size = labels.sizes[d]
                    # Of times the unit is said; of numbers it is that of the column of inputs.
                    unit = "" if not estimator.times_[d] else labels.units[d] if looks.period else labels.frequency(d)
                    said = f" ({unit})" if unit else ""
                    kind = "period" if looks.period else "frequency"
                    table[f"{kind}_{a + 1}{suffix}{end}{said}"] = values[:, a, d] * (1 / size if looks.period else size)
    paths = [out / "frequency.csv", out / f"spectrogram.{looks.figures}"]
    write_table(paths[0], table)
    view = view_along(estimator, axis, unit=looks.unit, resolution=looks.resolution)
    figure = plots.spectrogram_figure(view, labels, level=level, scaling=looks.scaling, period=looks.period)
    _write_picture(paths[1], figure)
    return paths


def load_model(path: Path) -> tuple[SpectralGPRegressor, Columns]:
    """A fitted estimator, and what the columns of its data were called."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    estimator = load(path)
    if not isinstance(estimator, SpectralGPRegressor) or not hasattr(estimator, "model_"):
        raise ValueError(f"{path} holds no fitted SpectralGPRegressor")
    names = load_metadata(path)
    if "x" in names:
        return estimator, Columns(tuple(names["x"]), names["y"], names["error"])
    *x, y = columns_of(estimator)
    return estimator, Columns(tuple(x), y)


def _sentences(caught: list[warnings.WarningMessage]) -> list[str]:
    """Warnings in one line each, once each."""
    return list(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))


def _as_column(values: np.ndarray) -> np.ndarray:
    """Values of one kind, as a table has them."""
    if values.dtype == object:
        return np.array(values.tolist(), "datetime64[us]" if isinstance(values[0], date) else None)
    return values


def _write_picture(path: Path, figure: Figure) -> None:
    replace_file(path, partial(figure.savefig, format=path.suffix[1:], dpi=DPI))
