"""The real data of the paper's experiments.

Their files are not part of the package. Loaders look in their ``directory`` argument, or in the directory that the
environment variable SPECTROGP_DATA names, and say which file they miss.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..files import read_columns


class Split(NamedTuple):
    """Training rows ``X``, ``y`` and test rows ``X_test``, ``y_test``, standardised.

    With the mean and standard deviation of the training rows alone: ``input_mean``, ``input_scale``, ``output_mean``,
    ``output_scale``.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    input_mean: np.ndarray
    input_scale: np.ndarray
    output_mean: float
    output_scale: float

    def held_out(self, seed: int = 0) -> Split:
        """A fifth of the training rows in the place of the test rows: to choose settings without a look at the test."""
        mixed = np.random.default_rng(seed).permutation(len(self.y))
        test, train = np.split(mixed, [len(mixed) // 5])
        return self._replace(X=self.X[train], y=self.y[train], X_test=self.X[test], y_test=self.y[test])

    def first(self, rows: int) -> Split:
        """The first rows of both parts, for a quick look."""
        X, y, X_test, y_test = (part[:rows] for part in self[:4])
        return self._replace(X=X, y=y, X_test=X_test, y_test=y_test)


# The years strictly between these are the test rows of the paper.
SOLAR_GAPS = ((1620, 1650), (1700, 1720), (1780, 1800), (1850, 1870), (1930, 1950))


def solar(directory: str | Path | None = None) -> Split:
    """Total solar irradiance over the years 1610–2000 (Lean 2004): 281 training and 110 test rows.

    From solar.csv (year, irradiance, split), or from the raw file solar_data_raw.txt that the paper names (year, solar
    cycle, solar cycle with background), whose third column is used, with the paper's split.

    Args:
        directory: Where the file is; the directory that SPECTROGP_DATA names when left out.
    """
    path = _find(("solar.csv", "solar_data_raw.txt"), directory)
    if path.suffix == ".csv":
        column = read_columns(path)
        return _standardised(column["year"][:, None], column["irradiance"], column["split"])
    year, _, irradiance = np.loadtxt(path, delimiter=",", unpack=True)
    test = np.any([(low < year) & (year < high) for low, high in SOLAR_GAPS], axis=0)
    return _standardised(year[:, None], irradiance, np.where(test, "test", "train"))


def air(directory: str | Path | None = None) -> Split:
    """Monthly air temperature anomalies 1988–1993 over latitude, longitude and time in years: 26,328 and 6,582 rows.

    Args:
        directory: Where the file is; the directory that SPECTROGP_DATA names when left out.
    """
    column = read_columns(_find(("air_anomaly.parquet",), directory))
    time = column["year"] + (column["month"] - 0.5) / 12.0
    return _standardised(np.column_stack([column["lat"], column["lon"], time]), column["anomaly"], column["split"])


# Trips that are kept of a public file: between a second and two hours, inside a wide box around New York.
_LONGEST_TRIP = 7200.0
_NEW_YORK = {"longitude": (-74.3, -73.6), "latitude": (40.5, 41.0)}
_TEST_SHARE = 0.31  # that of the paper


def taxi(directory: str | Path | None = None, *, rows: int | None = None, seed: int = 0) -> Split:
    """Durations of New York taxi trips in seconds, over the places of pickup and dropoff and the pickup time in days.

    From nyc_taxi.parquet, which has a split (41,268 and 18,540 trips of January 2016); or from a public file, CSV or
    Parquet: train.csv of Kaggle's "New York City Taxi Trip Duration", or yellow_tripdata_* of the Taxi and Limousine
    Commission (of the months up to June 2016: later ones name zones instead of places). Of these, trips outside the
    city or of no plausible duration are left out, and a random 31 % are the test rows.

    Args:
        directory: Where the file is; the directory that SPECTROGP_DATA names when left out.
        rows: How many trips of a public file are drawn at random; all when left out.
        seed: Of the rows and of the split of a public file.
    """
    path = _find(("nyc_taxi.parquet", "train.csv", "yellow_tripdata_*.parquet", "yellow_tripdata_*.csv"), directory)
    column = read_columns(path)
    column = {name.lower().removeprefix("tpep_"): values for name, values in column.items()}
    places = [f"{end}_{axis}" for end in ("pickup", "dropoff") for axis in ("longitude", "latitude")]
    missing = [name for name in ("pickup_datetime", *places) if name not in column]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]}; it has {', '.join(column)}")
    pickup = column["pickup_datetime"].astype("datetime64[s]")
    if "trip_duration" in column:
        duration = column["trip_duration"].astype(np.float64)
    else:
        duration = (column["dropoff_datetime"].astype("datetime64[s]") - pickup).astype(np.float64)
    X = np.column_stack([*(column[name].astype(np.float64) for name in places), pickup.astype(np.int64) / 86400.0])
    if "split" in column:
        return _standardised(X, duration, column["split"])
    low, high = np.transpose([_NEW_YORK[name.split("_")[1]] for name in places])
    kept = np.flatnonzero((duration > 0) & (duration < _LONGEST_TRIP) & np.all((low < X[:, :4]) & (X[:, :4] < high), 1))
    mixed = np.random.default_rng(seed).permutation(kept)[:rows]
    split = np.where(np.arange(len(mixed)) < round(_TEST_SHARE * len(mixed)), "test", "train")
    return _standardised(X[mixed], duration[mixed], split)


def _find(names: tuple[str, ...], directory: str | Path | None) -> Path:
    """The first file of any of the names, which may be patterns."""
    place = directory or os.environ.get("SPECTROGP_DATA")
    wanted = " or ".join(names)
    if not place:
        raise FileNotFoundError(
            f"{wanted} is needed: name its directory, or set the environment variable SPECTROGP_DATA"
        )
    found = [path for name in names for path in sorted(Path(place).glob(name))]
    if not found:
        raise FileNotFoundError(f"no file {wanted} in the data directory {place}")
    return found[0]


def _standardised(X: np.ndarray, y: np.ndarray, split: np.ndarray) -> Split:
    X, y = X.astype(np.float64), y.astype(np.float64)
    train, test = split == "train", split == "test"
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    centre, spread = float(y[train].mean()), float(y[train].std())
    X, y = (X - mean) / scale, (y - centre) / spread
    return Split(X[train], y[train], X[test], y[test], mean, scale, centre, spread)
