"""The work of the command line on a user's own tables: fit, predict, spectrogram; and the demonstration."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from . import __version__, datasets, reports
from .data import naming
from .estimator import SpectralGPRegressor
from .io import load, load_metadata, save
from .reports import LEVEL, Columns
from .tables import TableError, column_names, read_table, write_table

QUICK: dict[str, Any] = {"max_iter": 100, "n_starts": 1, "resolution": 12, "n_draws": 40, "warmup": 20, "chains": 2}
DPI = 200
PREDICTED = ("mean", "sd", "lower", "upper")


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
    path: Path, x: list[str] | None, y: str | None, error: str | None, *, quick: bool, seed: int, **settings: Any
) -> Fitted:
    """Fit to columns of a table: the last one over all others, unless they are named."""
    columns = _chosen(path, x, y, error)
    table = read_table(path, [*columns.x, columns.y, *([] if error is None else [error])])
    if table[columns.y].dtype.kind == "M":
        raise TableError(f"{path}, column {columns.y!r}: outputs are numbers, but these are times")
    settings = (QUICK if quick else {}) | settings
    estimator = SpectralGPRegressor(random_state=seed, verbose=True, **settings)
    deviations = None if error is None else table[error]
    with naming(str(path)):
        return fit(estimator, _inputs(table, columns.x), table[columns.y], columns, deviations)


def fit(estimator: SpectralGPRegressor, X: Any, y: np.ndarray, columns: Columns, error: Any = None) -> Fitted:
    """Fit, and keep what was warned of."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y, error)
    messages = list(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
    return Fitted(estimator, columns, X, y, error, time.perf_counter() - began, messages)


def summary(fitted: Fitted) -> dict[str, Any]:
    """Everything about a fit that is worth a line, as plain values."""
    estimator, columns = fitted.estimator, fitted.columns
    settings = estimator.get_params()
    return {
        "spectrogp": __version__,
        "data": {"rows": len(fitted.y), "x": list(columns.x), "y": columns.y, "error": columns.error},
        "settings": {name: settings[name] for name in ("kernel", "n_components", "inference", "approximation")},
        "seed": settings["random_state"],
        "start": str(estimator.start_).splitlines(),
        **reports.summary(estimator, fitted.X, fitted.y, columns, fitted.error),
        "steps": estimator.n_iter_,
        "seconds": fitted.seconds,
        "warnings": fitted.warnings,
    }


def write(fitted: Fitted, record: dict[str, Any], out: Path, *, truth: Any = None) -> list[Path]:
    """The model, the summary and the figure of a fit, as files."""
    paths = [out / name for name in ("model.safetensors", "summary.json", "overview.png")]
    save(paths[0], fitted.estimator, fitted.columns._asdict())
    paths[1].write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    reports.overview(fitted.estimator, fitted.X, fitted.y, fitted.columns, truth=truth).savefig(paths[2], dpi=DPI)
    return paths


def predict_table(model: Path, data: Path, out: Path) -> None:
    """Mean, standard deviation and 90 % interval of new outputs at the inputs in a table."""
    estimator, columns = load_model(model)
    if taken := set(PREDICTED) & set(columns.x):
        raise TableError(f"{out}: inputs may not be called like the predictions, got {', '.join(sorted(taken))}")
    table = read_table(data, columns.x)
    with naming(str(data)):
        mean, deviation = estimator.predict(_inputs(table, columns.x), return_std=True)
    reach = norm.ppf(0.5 + 0.5 * LEVEL) * deviation
    write_table(out, table | dict(zip(PREDICTED, (mean, deviation, mean - reach, mean + reach), strict=True)))


def spectrogram_table(model: Path, along: str | None, out: Path) -> list[Path]:
    """The local frequencies along one input as a table, and the spectrogram as a picture."""
    estimator, columns = load_model(model)
    if along is not None and along not in columns.x:
        raise ValueError(f"--along: the model has no input {along!r}; it has {', '.join(map(repr, columns.x))}")
    axis = 0 if along is None else columns.x.index(along)
    at = reports.along(estimator, axis)
    table: dict[str, Any] = {
        name: at[:, k].astype("datetime64[us]") if estimator.times_[k] else at[:, k].astype(np.float64)
        for k, name in enumerate(columns.x)
    }
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
    reports.spectrogram_figure(estimator, columns, axis).savefig(paths[1], dpi=DPI)
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
    return estimator, reports.columns_of(estimator)


def _chosen(path: Path, x: list[str] | None, y: str | None, error: str | None) -> Columns:
    names = column_names(path)
    for option, name in (*(("--x", name) for name in x or ()), ("--y", y), ("--error", error)):
        if name is not None and name not in names:
            raise TableError(f"{option}: {path} has no column {name!r}; it has {', '.join(map(repr, names))}")
    y = names[-1] if y is None else y
    x = [name for name in dict.fromkeys(names) if name not in (y, error)] if x is None else x
    wanted = [*x, y, *([] if error is None else [error])]
    if not x:
        raise TableError(f"{path} has only the column {y!r}: expected one of outputs and at least one of inputs")
    if twice := [name for name in wanted if wanted.count(name) > 1]:
        raise TableError(f"column {twice[0]!r} is asked for twice: --x, --y and --error name different columns")
    return Columns(tuple(x), y, error)


def _inputs(table: dict[str, np.ndarray], names: tuple[str, ...]) -> Any:
    """Inputs ``[n, d]``: numbers, times, or both as objects."""
    parts = [table[name] for name in names]
    kinds = {part.dtype.kind for part in parts}
    return np.column_stack(parts if len(kinds) == 1 else [part.astype(object) for part in parts])


# The demonstration


def demo(
    out: Path, *, quick: bool, seed: int, say: Callable[[str], Any]
) -> tuple[dict[str, Any], dict[str, Any], list[Path]]:
    """The paper's chirp end to end: how well its frequency is recovered, the summary, and the files that were made."""
    signal = datasets.signal("chirp", seed=seed)
    say(f"data: {len(signal.y)} noisy values of cos 2π(t + 0.6 t³) at irregular times; frequency 1 + 1.8 t²")
    columns = Columns(("t",), "y")
    write_table(out / "data.csv", {"t": signal.X[:, 0], "y": signal.y})
    estimator = SpectralGPRegressor(n_components=1, random_state=seed, verbose=True, **(QUICK if quick else {}))
    fitted = fit(estimator, signal.X, signal.y, columns)
    say("\n".join(f"found before the fit: {line}" for line in str(estimator.start_).splitlines()))
    band = estimator.instantaneous_frequency(signal.X, level=LEVEL)
    relative = np.abs(band.mean / signal.frequency - 1.0)
    numbers: dict[str, Any] = {
        "median relative error of the frequency": float(np.median(relative)),
        "90th percentile of the same": float(np.quantile(relative, 0.9)),
        "median relative error of the start": float(np.median(_start_error(estimator))),
    }
    if band.lower is not None and band.upper is not None:
        inside = (band.lower <= signal.frequency) & (signal.frequency <= band.upper)
        numbers["coverage of the 90 % band"] = float(np.mean(inside))
    record = summary(fitted)
    paths = write(fitted, record | {"recovery": numbers}, out, truth=chirp_frequency)
    return numbers, record, [out / "data.csv", *paths]


def chirp_frequency(X: Any) -> np.ndarray:
    return 1.0 + 1.8 * np.asarray(X) ** 2


def _start_error(estimator: SpectralGPRegressor) -> np.ndarray:
    start = estimator.start_
    return np.abs(start.frequency[:, 0] / chirp_frequency(start.centres) - 1.0)
