"""The loaders of the real data: counts, units, and standardisation by training rows alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from spectrogp import datasets

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("SPECTROGP_DATA") or "/nowhere").is_dir(),
    reason="the real data are not here: SPECTROGP_DATA names no directory",
)


@needs_data
@pytest.mark.parametrize(
    ("load", "train", "test", "columns"),
    [(datasets.solar, 281, 110, 1), (datasets.air, 26328, 6582, 3), (datasets.taxi, 41268, 18540, 5)],
)
def test_sizes_and_standardisation(load, train, test, columns):
    split = load()
    assert (split.X.shape, split.y.shape) == ((train, columns), (train,))
    assert (split.X_test.shape, split.y_test.shape) == ((test, columns), (test,))
    np.testing.assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(split.X.std(axis=0), 1.0, rtol=1e-8)
    np.testing.assert_allclose([split.y.mean(), split.y.std() - 1.0], 0.0, atol=1e-8)
    # Were the test rows used as well, their mean would be pulled to zero too.
    assert abs(split.y_test.mean()) > 1e-4


@needs_data
def test_units():
    years = datasets.solar()
    year = np.concatenate([years.X, years.X_test])[:, 0] * years.input_scale + years.input_mean
    np.testing.assert_allclose([year.min(), year.max()], [1610.5, 2000.5], atol=1e-6)
    days = datasets.taxi()
    pickup = days.X[:, 4] * days.input_scale[4] + days.input_mean[4]
    january = np.datetime64("2016-01-01").astype("datetime64[D]").astype(int)
    assert january <= pickup.min() < pickup.max() < january + 31


def test_missing_files_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("SPECTROGP_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"solar\.csv or .* is needed: .* set the environment variable SPECTROGP_DATA"
    ):
        datasets.solar()
    with pytest.raises(FileNotFoundError, match=r"no file air_anomaly\.parquet in the data directory"):
        datasets.air(Path(tmp_path))


@needs_data
def test_solar_from_the_raw_file_has_the_same_split(tmp_path):
    source = Path(os.environ["SPECTROGP_DATA"])
    (tmp_path / "solar_data_raw.txt").write_bytes((source / "solar_data_raw.txt").read_bytes())
    for raw, table in zip(datasets.solar(tmp_path), datasets.solar(source), strict=True):
        np.testing.assert_array_equal(raw, table)


KAGGLE = ("id", "vendor_id", "pickup_datetime", "dropoff_datetime", "passenger_count", "pickup_longitude")
KAGGLE += ("pickup_latitude", "dropoff_longitude", "dropoff_latitude", "store_and_fwd_flag", "trip_duration")
TLC = ("VendorID", "tpep_pickup_datetime", "tpep_dropoff_datetime", "pickup_longitude", "pickup_latitude", "RatecodeID")
TLC += ("dropoff_longitude", "dropoff_latitude", "fare_amount")


def trips(count):
    """Trips of 100, 101, … seconds, one an hour, and then two that no one can have taken."""
    trips = [
        {
            "pickup_datetime": np.datetime64("2016-01-01T00:00:00") + np.timedelta64(i, "h"),
            "trip_duration": 100 + i,
            "pickup_longitude": -73.9 - 0.001 * i,
            "pickup_latitude": 40.7,
            "dropoff_longitude": -73.95,
            "dropoff_latitude": 40.75 + 0.001 * i,
        }
        for i in range(count)
    ]
    trips += [trips[0] | {"trip_duration": 86392}, trips[1] | {"dropoff_longitude": 0.0}]
    for trip in trips:
        trip["dropoff_datetime"] = trip["pickup_datetime"] + np.timedelta64(trip["trip_duration"], "s")
    return trips


def write_trips(path, header, rows):
    cells = [[str(row.get(name.removeprefix("tpep_"), "1")).replace("T", " ") for name in header] for row in rows]
    if path.suffix == ".csv":
        path.write_text("\n".join(",".join(line) for line in [header, *cells]) + "\n")
        return
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {name: [row.get(name.removeprefix("tpep_"), 1) for row in rows] for name in header}
    for name, values in columns.items():
        if "datetime" in name:  # the Commission's own type
            columns[name] = np.array(values, dtype="datetime64[us]")
    parquet.write_table(pyarrow.table(columns), path)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("train.csv", KAGGLE),
        ("train.csv", tuple(name for name in KAGGLE if name != "trip_duration")),
        ("yellow_tripdata_2016-01.csv", TLC),
        ("yellow_tripdata_2016-01.parquet", TLC),
    ],
)
def test_taxi_reads_public_files(tmp_path, name, header):
    write_trips(tmp_path / name, header, trips(100))
    split = datasets.taxi(tmp_path)
    assert (split.X.shape, split.X_test.shape) == ((69, 5), (31, 5))
    np.testing.assert_allclose([split.X.mean(), split.X[:, 4].std(), split.y.std()], [0.0, 1.0, 1.0], atol=1e-9)
    y = np.concatenate([split.y, split.y_test]) * split.output_scale + split.output_mean
    X = np.concatenate([split.X, split.X_test]) * split.input_scale + split.input_mean
    np.testing.assert_allclose(np.sort(y), 100.0 + np.arange(100))  # the two impossible trips are gone
    first = X[np.argmin(y)]
    np.testing.assert_allclose(first, [-73.9, 40.7, -73.95, 40.75, 16801.0], rtol=1e-9)  # days since 1970
    again, other, fewer = datasets.taxi(tmp_path), datasets.taxi(tmp_path, seed=1), datasets.taxi(tmp_path, rows=50)
    np.testing.assert_array_equal(again.y, split.y)
    assert not np.array_equal(other.y, split.y)
    assert len(fewer.y) + len(fewer.y_test) == 50


def test_taxi_says_what_a_file_lacks(tmp_path):
    write_trips(tmp_path / "yellow_tripdata_2017-01.csv", ("tpep_pickup_datetime", "PULocationID"), trips(3))
    with pytest.raises(ValueError, match="has no column pickup_longitude; it has pickup_datetime, pulocationid"):
        datasets.taxi(tmp_path)


@needs_data
def test_a_part_of_the_training_rows_can_be_held_out():
    split = datasets.solar()
    part = split.held_out(3)
    assert (len(part.y), len(part.y_test)) == (225, 56)
    np.testing.assert_array_equal(np.sort(np.concatenate([part.y, part.y_test])), np.sort(split.y))
    few = split.first(7)
    assert (few.X.shape, few.y_test.shape) == ((7, 1), (7,))


@pytest.mark.parametrize("name", datasets.SIGNALS)
def test_frequency_of_a_signal_is_the_slope_of_its_phase(name):
    family = datasets.SIGNALS[name]
    t = np.linspace(family.low + 0.01, family.high - 0.01, 50)
    for tone in family.tones:
        slope = (tone.phase(t + 1e-5) - tone.phase(t - 1e-5)) / 2e-5
        np.testing.assert_allclose(slope, tone.frequency(t), rtol=1e-6)
    signal = datasets.signal(name, seed=1, noise=0.0, irregular=False, n=301)
    assert signal.frequency.shape == (len(signal.y), len(family.tones))
    lost = sum(high - low for low, high in family.gaps) / (family.high - family.low)
    np.testing.assert_allclose(len(signal.y) / 301, 1.0 - lost, atol=0.02)


def test_signals_are_named():
    with pytest.raises(ValueError, match="name must be one of chirp, late chirp"):
        datasets.signal("noise")
