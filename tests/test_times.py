"""Times and integers keep their digits on their way to floats, and come back."""

from __future__ import annotations

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator.times import numbers_of, with_times

TICKS = 1_700_000_000_000_000_000  # nanoseconds since 1970, in November 2023
STEPS = 10 * np.arange(60)


def as_given(found, columns=1):
    times = np.isin(np.arange(columns), found.times)
    return with_times(np.asarray(found.numbers, float), times, found.origins)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, object])
def test_integers_beyond_all_floats_are_counted_from_their_least(dtype):
    found = numbers_of((TICKS + STEPS).astype(dtype)[:, None])
    assert found.origins == (TICKS,)
    np.testing.assert_array_equal(found.numbers[:, 0], STEPS)
    assert as_given(found)[:, 0].tolist() == (TICKS + STEPS).tolist()
    later = numbers_of(np.array([[TICKS + 1], [0], [2**63 - 1]]), found.origins)  # differences may not fit an int64
    np.testing.assert_array_equal(later.numbers[:, 0], [1.0, -float(TICKS), float(2**63 - 1 - TICKS)])


def test_integers_that_are_floats_stay_as_they_are():
    X = np.array([[2**53], [-5]])
    assert numbers_of(X) == (X, [], ())


@pytest.mark.parametrize("frame", [False, True])
def test_nanoseconds_of_times_are_kept(frame):
    times = (TICKS + STEPS).astype("datetime64[ns]")
    X = times[:, None]
    if frame:
        pandas = pytest.importorskip("pandas")
        X = pandas.DataFrame({"when": times, "n": TICKS + STEPS})
    found = numbers_of(X)
    assert found.origins[0] == times[0]
    days = np.asarray(found.numbers, float)[:, 0]
    np.testing.assert_allclose(days * 86400e9, STEPS, rtol=1e-12)
    np.testing.assert_array_equal(as_given(found, np.shape(X)[1])[:, 0].astype("datetime64[ns]"), times)
    if frame:
        assert found.origins[1] == TICKS
        np.testing.assert_array_equal(found.numbers["n"], STEPS)


def test_times_that_are_close_together_are_counted_from_the_first():
    """Days since 1970 are rounded to 0.3 microseconds by now: nothing for days, a third for microseconds."""
    start = np.datetime64("2026-01-01T00:00:00", "us")
    apart = numbers_of((start + np.arange(5) * np.timedelta64(1, "D"))[:, None])
    assert apart.origins == (0,)
    np.testing.assert_array_equal(apart.numbers[:, 0], 20454.0 + np.arange(5))
    close = numbers_of((start + np.arange(5) * np.timedelta64(1, "us"))[:, None])
    assert close.origins == (start,)
    np.testing.assert_allclose(close.numbers[:, 0] * 86400e6, np.arange(5), rtol=1e-12)
    before = numbers_of(np.array([["0001-01-01"]], "datetime64[us]"), close.origins)  # no nanoseconds reach so far
    assert before.numbers[0, 0] == -(20454.0 + 719162.0)


def test_missing_times_are_no_numbers():
    found = numbers_of(np.array([["NaT"], ["2020-01-01"], ["2020-01-02"]], "datetime64[ns]"))
    np.testing.assert_array_equal(found.numbers[:, 0], [np.nan, 18262.0, 18263.0])


def tone(X, **options):
    """A fast fit to a tone of six cycles over sixty rows."""
    y = np.cos(2.0 * np.pi * 0.1 * np.arange(60))
    options = {"kernel": "sm", "inference": "map", "n_starts": 1, "max_iter": 60, "random_state": 0} | options
    return sg.SpectralGPRegressor(**options).fit(X, y), y


@pytest.mark.parametrize(
    ("X", "unit"),
    [((TICKS + STEPS)[:, None], 10.0), ((TICKS + STEPS).astype("datetime64[ns]")[:, None], 10.0 / 86400e9)],
)
def test_a_tone_in_nanoseconds_is_found(X, unit, tmp_path):
    model, y = tone(X)
    assert model.score(X, y) > 0.99
    frequency = model.instantaneous_frequency(X[:1]).mean[0, 0]
    assert frequency == pytest.approx(0.1 / unit, rel=0.01)
    model.save(tmp_path / "model")
    loaded = sg.load(tmp_path / "model")
    assert loaded.X_origin_ == model.X_origin_
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    figure = model.plot("fit")
    assert str(model.X_origin_[0]) in figure.axes[0].get_xlabel()


def test_floats_that_have_lost_their_digits_are_told():
    with pytest.warns(UserWarning, match=r"column 0 of X has lost digits: .* multiples of 2, "):
        tone((1e16 + np.arange(60) / 10.0)[:, None])
    with pytest.warns(UserWarning, match="y has lost digits"):
        sg.SpectralGPRegressor(kernel="sm", inference="map", n_starts=1, max_iter=5).fit(
            np.arange(20.0)[:, None], 1e16 + np.arange(20.0)
        )


def test_a_kernel_object_cannot_follow_an_origin():
    with pytest.raises(ValueError, match="the kernel counts them from zero: subtract a reference"):
        tone((TICKS + STEPS)[:, None], kernel=sg.kernels.SquaredExponential(1.0))


def test_numbers_as_text_are_numbers():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"carat": [0.2, 0.3, 0.4], "size": ["1.5", "2", "3"]})  # numbers, in whatever form
    assert list(numbers_of(X).numbers.astype(float)["size"]) == [1.5, 2.0, 3.0]


@pytest.mark.parametrize("X", [[[0.2, "Fair"], [0.3, "Good"]], np.array([[0.2, "Fair"], [0.3, "Good"]], object)])
def test_words_without_a_frame_are_named_by_their_column(X):
    with pytest.raises(ValueError, match=r"words in the column 1, such as 'Fair': .* zeros and ones for each word"):
        sg.SpectralGPRegressor().fit(X, [1.0, 2.0])


def test_words_among_numbers_are_said_to_be_missing():
    """Tables of old write a question mark where nobody knows, as the horsepower of cars."""
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"weight": [1.0, 2.0, 3.0], "horsepower": ["130", "?", "95"]})
    with pytest.raises(ValueError, match=r"numbers of the column 'horsepower', such as '\?': .*errors='coerce'"):
        sg.SpectralGPRegressor().fit(X, [1.0, 2.0, 3.0])
    X["horsepower"] = pandas.to_numeric(X["horsepower"], errors="coerce")
    assert list(np.isnan(numbers_of(X).numbers["horsepower"])) == [False, True, False]
