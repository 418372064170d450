"""The work of the command line on a user's own tables: fit, predict, spectrogram."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from .. import __version__, plots
from ..core import naming
from ..estimator import SpectralGPRegressor, columns_of, inputs_along, labels_of, view_along, with_times
from ..files import (
    TableError,
    column_names,
    listed,
    quoted,
    read_table,
    replace_file,
    save,
    write_json,
    write_table,
)
from ..loading import load, load_metadata
from ..plots import LEVEL, Report
from ..posterior import Band

QUICK: dict[str, Any] = {"max_iter": 100, "n_starts": 1, "n_knots": 12, "n_draws": 40, "warmup": 20, "chains": 2}
DPI = 200
INPUTS = 30  # taken unasked: of a hundred, twenty steps to the optimum of a hundred rows take minutes
PREDICTED = ("mean", "std", "lower", "upper")


class Columns(NamedTuple):
    """What the columns of the data are called."""

    x: tuple[str, ...]
    y: str
    error: str | None = None


class Fitted(NamedTuple):
    """An estimator with what it was fitted to."""

    estimator: SpectralGPRegressor
    columns: Columns
    X: Any
    y: np.ndarray
    error: np.ndarray | None
    seconds: float
    warnings: list[str]


def fit_table(
    path: Path,
    x: list[str] | None,
    y: str | None,
    error: str | None,
    *,
    quick: bool,
    seed: int,
    checkpoint: Path | None,
    **settings: Any,
) -> Fitted:
    """Fit to columns of a table: the last one over all others, unless they are named."""
    columns = _chosen(path, x, y, error)
    table = read_table(path, [*columns.x, columns.y, *([] if error is None else [error])])
    if table[columns.y].dtype.kind == "M":
        raise TableError(f"{path}, column {columns.y!r}: outputs are numbers, but these are times")
    settings = (QUICK if quick else {}) | settings
    estimator = SpectralGPRegressor(random_state=seed, verbose=True, **settings)
    known = None if error is None else table[error]
    with naming(str(path)):
        return fit(estimator, _inputs(table, columns.x), table[columns.y], columns, known, checkpoint)


def fit(
    estimator: SpectralGPRegressor,
    X: Any,
    y: np.ndarray,
    columns: Columns,
    error: Any = None,
    checkpoint: Path | None = None,
) -> Fitted:
    """Fit, and keep what was warned of."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y, error, checkpoint=checkpoint)
    messages = list(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
    return Fitted(estimator, columns, X, y, error, time.perf_counter() - began, messages)


def report(fitted: Fitted) -> Report:
    """Everything that is shown of a fit."""
    names = (*fitted.columns.x, fitted.columns.y)
    return fitted.estimator.report(fitted.X, fitted.y, fitted.error, names=names)


def summary(fitted: Fitted, report: Report) -> dict[str, Any]:
    """Everything about a fit that is worth a line, as plain values."""
    estimator, columns = fitted.estimator, fitted.columns
    settings = estimator.get_params()
    chosen = ("kernel", "n_components", "inference", "approximation", "likelihood")
    return {
        "spectrogp": __version__,
        "data": {"rows": len(fitted.y), "x": list(columns.x), "y": columns.y, "error": columns.error},
        "settings": {name: settings[name] for name in chosen},
        "seed": settings["random_state"],
        "initial_values": str(estimator.initial_values_).splitlines(),
        **plots.summary(report),
        "steps": estimator.n_iter_,
        "diagnostics": estimator.diagnostics_,
        "seconds": fitted.seconds,
        "warnings": [*fitted.warnings, *estimator.warnings_],
    }


def write(fitted: Fitted, report: Report, record: dict[str, Any], out: Path, *, truth: Any = None) -> list[Path]:
    """The model, the summary and the figure of a fit, as files."""
    paths = [out / name for name in ("model.safetensors", "summary.json", "overview.png")]
    save(paths[0], fitted.estimator, fitted.columns._asdict())
    write_json(paths[1], record)
    _write_picture(paths[2], plots.overview(report, truth=truth))
    return paths


def predict_table(model: Path, data: Path, out: Path) -> None:
    """Mean, standard deviation and 90 % interval of new outputs at the inputs in a table."""
    estimator, columns = load_model(model)
    if taken := set(PREDICTED) & set(columns.x):
        raise TableError(f"{out}: inputs may not be called like the predictions, got {', '.join(sorted(taken))}")
    table = read_table(data, columns.x)
    with naming(str(data)):
        mean, std = estimator.predict(_inputs(table, columns.x), return_std=True)
    _, lower, upper = Band.normal(mean, std, LEVEL)
    write_table(out, table | dict(zip(PREDICTED, (mean, std, lower, upper), strict=True)))


def spectrogram_table(model: Path, along: str | None, out: Path) -> list[Path]:
    """The local frequencies along one input as a table, and the spectrogram as a picture."""
    estimator, columns = load_model(model)
    if along is not None and along not in columns.x:
        raise ValueError(f"--along: the model has no input {along!r}; it has {', '.join(map(repr, columns.x))}")
    axis = 0 if along is None else columns.x.index(along)
    at = with_times(inputs_along(estimator, axis), estimator.times_, estimator.X_origin_)
    table: dict[str, Any] = {name: _as_column(at[:, k]) for k, name in enumerate(columns.x)}
    band = estimator.instantaneous_frequency(at, level=LEVEL)
    for end, values in zip(("", "_lower", "_upper"), band, strict=True):
        if values is not None:
            values = values.reshape(len(at), -1, len(columns.x))
            for a in range(values.shape[1]):
                for d, name in enumerate(columns.x):
                    suffix = f"_{name}" if len(columns.x) > 1 else ""
                    table[f"frequency_{a + 1}{suffix}{end}"] = values[:, a, d]
    paths = [out / "frequency.csv", out / "spectrogram.png"]
    write_table(paths[0], table)
    labels = labels_of(estimator, (*columns.x, columns.y))
    _write_picture(paths[1], plots.spectrogram_figure(view_along(estimator, axis), labels))
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


def _chosen(path: Path, x: list[str] | None, y: str | None, error: str | None) -> Columns:
    names = column_names(path)
    if not names:
        raise TableError(f"{path} has no columns: expected one of outputs and at least one of inputs")
    known = set(names)
    for option, name in (*(("--x", name) for name in x or ()), ("--y", y), ("--error", error)):
        if name is not None and name not in known:
            raise TableError(f"{option}: {path} has no column {quoted(name)}; it has {listed(names)}")
    y = names[-1] if y is None else y
    if x is None:
        x = [name for name in dict.fromkeys(names) if name not in (y, error)]
        if len(x) > INPUTS:
            raise TableError(
                f"{path} has {len(x):,} columns beside the outputs, more than the {INPUTS} that are taken as inputs "
                "unasked, since each has frequencies and lengthscales of its own: name the inputs by --x"
            )
    wanted = [*x, y, *([] if error is None else [error])]
    if not x:
        raise TableError(f"{path} has only the column {quoted(y)}: expected one of outputs and at least one of inputs")
    if twice := [name for name, times in Counter(wanted).items() if times > 1]:
        raise TableError(f"column {quoted(twice[0])} is asked for twice: --x, --y and --error name different columns")
    return Columns(tuple(x), y, error)


def _as_column(values: np.ndarray) -> np.ndarray:
    """Values of one kind, as a table has them."""
    if values.dtype == object:
        return np.array(values.tolist(), "datetime64[us]" if isinstance(values[0], date) else None)
    return values


def _write_picture(path: Path, figure: Figure) -> None:
    replace_file(path, partial(figure.savefig, format="png", dpi=DPI))


def _inputs(table: dict[str, np.ndarray], names: tuple[str, ...]) -> Any:
    """Inputs ``[n, d]``: all numbers or all times, or objects where a common type would lose digits."""
    parts = [table[name] for name in names]
    if len({part.dtype for part in parts}) == 1:
        return np.column_stack(parts)
    # As objects of Python, but for nanoseconds, which it has none for.
    return np.column_stack(
        [np.fromiter(part, object) if part.dtype == "M8[ns]" else part.astype(object) for part in parts]
    )
