"""Data as they come to the estimator: series with an index, arrays of other libraries, gaps."""

from __future__ import annotations

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import labels_of
from spectrogp.estimator.units import Shown, Units, shown_along, shown_units

pytestmark = pytest.mark.usefixtures("compile_quickly")

FAST = {"kernel": "sm", "inference": "map", "n_starts": 1, "n_components": 1, "max_iter": 20, "random_state": 0}
T = np.arange(24.0)
Y = 3.0 + np.cos(2.0 * np.pi * T / 6.0) + 0.05 * np.random.default_rng(0).normal(size=24)
DAYS = np.datetime64("2020-01-01", "us") + T.astype(int) * np.timedelta64(1, "D")


def fit(*arguments, **settings):
    return sg.SpectralGPRegressor(**FAST | settings).fit(*arguments)


@pytest.fixture(scope="module")
def by_times():
    """What every way to give the same daily values agrees with."""
    return fit(DAYS[:, None], Y)


def test_a_series_is_its_index_and_its_values(by_times):
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(Y, index=pandas.DatetimeIndex(DAYS, name="day"), name="level")
    model = fit(series)
    expected = by_times.predict(DAYS)
    np.testing.assert_allclose(model.predict(series.index), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict(DAYS), expected, rtol=1e-9)
    assert model.names_ == ("day", "level")
    assert (labels_of(model).x, labels_of(model).y, labels_of(model).units) == (("day",), "level", ("day",))
    helsinki = series.tz_localize("UTC").tz_convert("Europe/Helsinki")
    np.testing.assert_allclose(fit(helsinki).predict(helsinki.index), expected, rtol=1e-9)
    periods = pandas.Series(Y, index=pandas.PeriodIndex(DAYS, freq="D"))
    np.testing.assert_allclose(fit(periods).predict(periods.index), expected, rtol=1e-9)


def test_a_series_over_numbers():
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(Y, index=T / 10.0)
    np.testing.assert_allclose(fit(series).predict(series.index), fit(T / 10.0, Y).predict(T / 10.0), rtol=1e-9)


def test_an_array_of_xarray_is_its_coordinate_and_its_values(by_times):
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(Y, coords={"time": DAYS.astype("datetime64[ns]")}, dims="time", name="sst")
    model = fit(array)
    expected = by_times.predict(DAYS)
    np.testing.assert_allclose(model.predict(array.time), expected, rtol=1e-9)
    np.testing.assert_allclose(fit(array.time, array).predict(DAYS), expected, rtol=1e-9)
    assert model.names_ == ("time", "sst")


def test_the_only_coordinate_along_a_dimension_without_an_index_is_the_input(by_times):
    xarray = pytest.importorskip("xarray")
    coords = {"time": ("n", DAYS.astype("datetime64[ns]")), "station": ("n", ["A"] * len(Y)), "height": 3.0}
    array = xarray.DataArray(Y, coords=coords, dims="n")
    model = fit(array)
    assert model.names_ == ("time", "y")
    np.testing.assert_allclose(model.predict(DAYS), by_times.predict(DAYS), rtol=1e-9)
    with pytest.raises(ValueError, match=r"coordinates 'time', 'depth' along 'n': .* array\.swap_dims\(n='time'\)"):
        fit(array.assign_coords(depth=("n", T)))
    assert fit(xarray.DataArray(Y, dims="n")).names_ == ("n", "y")


def test_outputs_with_the_index_of_other_rows_are_refused():
    pandas = pytest.importorskip("pandas")
    X, y = pandas.Series(T, name="t"), pandas.Series(Y)
    expected = fit(T, Y).predict(T)
    np.testing.assert_allclose(fit(X, y).predict(X), expected, rtol=1e-9)
    moved = y.set_axis(y.index + 1)
    for inputs in (X, X.to_frame()):
        with pytest.raises(
            ValueError, match=r"different indices: row 0 is 0 in X and 1 in y; .* y\.to_numpy\(\) where"
        ):
            fit(inputs, moved)
    np.testing.assert_allclose(fit(X, moved.to_numpy()).predict(X), expected, rtol=1e-9)


def test_only_a_series_goes_without_outputs():
    pandas = pytest.importorskip("pandas")
    for X in (T, T[:, None], DAYS, pandas.DataFrame({"t": T, "y": Y})):
        with pytest.raises(
            ValueError, match="the target y is None; a series of pandas, or an array of xarray with one"
        ):
            fit(X)


def test_rows_with_missing_values_are_left_out_and_counted():
    X, y, error = T.copy(), Y.copy(), np.full(24, 0.1)
    X[2], y[[2, 5]], error[7] = np.nan, np.nan, np.nan
    message = r"3 of 24 rows have missing values and are left out \(X: 1, y: 2, error: 1\)"
    with pytest.warns(UserWarning, match=message):
        model = fit(X, y, error)
    kept = ~np.isin(np.arange(24), (2, 5, 7))
    whole = fit(T[kept], Y[kept], 0.1)
    np.testing.assert_allclose(model.predict(T), whole.predict(T), rtol=1e-9)
    assert (model.diagnostics_["rows_left_out"], model.diagnostics_["rows"]) == (3, 21)
    assert whole.diagnostics_["rows_left_out"] == 0
    with pytest.warns(UserWarning, match=message):
        assert len(model.report(X, y, error).y) == 21


def test_too_many_missing_values_are_refused():
    with pytest.raises(ValueError, match=r"23 of 24 rows have missing values \(y: 23\), and a fit needs two without"):
        fit(T, np.where(T > 0, np.nan, Y))


def test_masked_values_are_missing_ones(by_times):
    y = np.ma.MaskedArray(Y, mask=T == 4.0)
    with pytest.warns(UserWarning, match=r"1 of 24 rows .*\(y: 1\)"):
        model = fit(DAYS, y)
    np.testing.assert_allclose(model.predict(DAYS), fit(DAYS[T != 4.0], Y[T != 4.0]).predict(DAYS), rtol=1e-9)
    when = np.ma.MaskedArray(DAYS, mask=T == 4.0)
    with pytest.warns(UserWarning, match=r"1 of 24 rows .*\(X: 1\)"):
        again = fit(when, Y)
    np.testing.assert_allclose(again.predict(DAYS), model.predict(DAYS), rtol=1e-9)


def test_what_was_found_is_handed_on_before_the_fit():
    seen = []
    model = sg.SpectralGPRegressor(**FAST)

    def look(initial):
        seen.append(initial)
        assert not hasattr(model, "model_")

    model.fit(T, Y, on_found=look)
    (initial,) = seen
    np.testing.assert_array_equal(initial.frequency, model.initial_values_.frequency)
    np.testing.assert_allclose(initial.frequency.mean(), 1.0 / 6.0, rtol=0.05)  # in the units of the data


@pytest.mark.parametrize(
    ("span", "unit", "shown", "size"),
    [
        (40 * 365.25, None, "year", 365.25),
        (300.0, None, "day", 1.0),
        (0.5, None, "hour", 1 / 24),
        (0.01, None, "minute", 1 / 1440),
        (1e-5, None, "s", 1 / 86400),
        (300.0, "year", "year", 365.25),
    ],
)
def test_times_are_shown_in_a_unit_that_suits_their_span(span, unit, shown, size):
    assert shown_units(("when",), (True,), np.array([span]), unit) == ((shown,), (size,))


def test_units_of_times_are_for_times():
    with pytest.raises(ValueError, match="unit='day' is for inputs that are times, and these are numbers: write"):
        shown_units(("t",), (False,), np.array([1.0]), "day")
    with pytest.raises(ValueError, match="unit must be one of year, day, hour, minute, s; got 'month'"):
        shown_units(("t",), (True,), np.array([1.0]), "month")


def test_frequencies_are_told_in_the_unit_that_is_shown():
    """Dates of twenty years that were divided by 2,000 days: 0.1 cycles of that are 365.25 / 20,000 a year."""
    units = lambda scale: Units(np.zeros(1), np.array([scale]), np.float64(6.0), np.float64(2.0))  # noqa: E731
    shown = shown_along("when", True, 20 * 365.25, units(2000.0))
    assert shown.name == "year"
    assert 0.1 * shown.size == pytest.approx(0.1 / 2000.0 * 365.25)
    assert shown_along("when", True, 20 * 365.25, units(2000.0), "hour").frequency == "cycles per hour"
    assert shown_along("time (s)", False, 3.0, units(2.0)) == Shown("s", 0.5, -3.0)
    assert shown_along("time (s)", False, 3.0, units(2.0)).frequency == "Hz"


def test_names_and_unit_are_those_of_the_inputs():
    model = sg.SpectralGPRegressor(**FAST)
    assert model.fit(T, Y, names=("t", "level")).names_ == ("t", "level")
    with pytest.raises(ValueError, match=r"names must be those of 1 inputs and of the output, got 1: \['t'\]"):
        model.fit(T, Y, names=("t",))
    with pytest.raises(ValueError, match="unit='day' is for inputs that are times, and these are numbers"):
        model.fit(T, Y, unit="day")


def test_reports_are_in_the_unit_and_level_asked_for(by_times):
    day, hour = by_times.report(), by_times.report(unit="hour", resolution=50, level=0.5)
    np.testing.assert_allclose(hour.local.frequency, day.local.frequency / 24.0)
    np.testing.assert_allclose(hour.local.frequency, 1.0 / 144.0, rtol=0.05)
    np.testing.assert_allclose(hour.band, day.band / 24.0)
    assert [len(report.along[0].at) for report in (day, hour)] == [400, 50]
    summary = sg.plots.summary(hour)
    assert (summary["unit"], summary["level"]) == ("cycles per hour", 0.5)
    np.testing.assert_allclose(summary["components"][0]["period"], 144.0, rtol=0.05)
    # Half of the outputs lie inside intervals of one half, about.
    assert summary["fit"]["coverage"] < sg.plots.summary(day)["fit"]["coverage"]
