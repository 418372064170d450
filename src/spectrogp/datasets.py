"""The real data of the paper's experiments, read from a directory that the user names.

The files are not part of the package. Loaders look in their ``directory`` argument, or in the directory that the
environment variable SPECTROGP_DATA names, and say which file they miss.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Split(NamedTuple):
    """Training and test rows, standardised by the mean and standard deviation of the training rows alone."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    input_mean: np.ndarray
    input_scale: np.ndarray
    output_mean: float
    output_scale: float


def solar(directory: str | Path | None = None) -> Split:
    """Total solar irradiance over the years 1610–2000 (Lean 2004): 281 training and 110 test rows."""
    with _find("solar.csv", directory).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return _standardised(column["year"][:, None], column["irradiance"], column["split"])


def air(directory: str | Path | None = None) -> Split:
    """Monthly air temperature anomalies 1988–1993 over latitude, longitude and time in years: 26,328 and 6,582 rows."""
    column = _parquet("air_anomaly.parquet", directory)
    time = column["year"] + (column["month"] - 0.5) / 12.0
    return _standardised(np.column_stack([column["lat"], column["lon"], time]), column["anomaly"], column["split"])


def taxi(directory: str | Path | None = None) -> Split:
    """Durations of New York taxi trips, January 2016, over pickup and dropoff place and pickup time in days."""
    column = _parquet("nyc_taxi.parquet", directory)
    days = column["pickup_datetime"].astype("datetime64[s]").astype(np.int64) / 86400.0
    places = [f"{end}_{axis}" for end in ("pickup", "dropoff") for axis in ("longitude", "latitude")]
    X = np.column_stack([*(column[name] for name in places), days])
    return _standardised(X, column["trip_duration"], column["split"])


def _find(name: str, directory: str | Path | None) -> Path:
    place = directory or os.environ.get("SPECTROGP_DATA")
    if not place:
        raise FileNotFoundError(f"{name} is needed: name its directory, or set the environment variable SPECTROGP_DATA")
    path = Path(place) / name
    if not path.is_file():
        raise FileNotFoundError(f"no file {name} in the data directory {place}")
    return path


def _parquet(name: str, directory: str | Path | None) -> dict[str, Any]:
    path = _find(name, directory)
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{name} is a Parquet file: pip install 'spectrogp[data]'") from error
    table = parquet.read_table(path)
    return {column: table[column].to_numpy() for column in table.column_names}


def _standardised(X: np.ndarray, y: np.ndarray, split: np.ndarray) -> Split:
    X, y = X.astype(np.float64), y.astype(np.float64)
    train, test = split == "train", split == "test"
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    centre, spread = float(y[train].mean()), float(y[train].std())
    X, y = (X - mean) / scale, (y - centre) / spread
    return Split(X[train], y[train], X[test], y[test], mean, scale, centre, spread)
