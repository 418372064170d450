"""The estimator: own units, times and data frames, every way of inference, files, and scikit-learn's rules."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone

import spectrogp as sg
from spectrogp.estimator import _rounded, _standard

pytestmark = pytest.mark.usefixtures("compile_quickly")

ROWS = 40
FAST = {"max_iter": 30, "resolution": 5, "random_state": 0, "inference": "map", "n_starts": 1}


@pytest.fixture(scope="module")
def tone():
    """1.5 cycles per unit, noise 0.1."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 4.0, ROWS))
    return t[:, None], np.cos(2 * np.pi * 1.5 * t) + 0.1 * rng.normal(size=ROWS)


@pytest.fixture(scope="module")
def fitted(tone):
    return sg.SpectralGPRegressor(**FAST).fit(*tone)


# Values and units


def test_a_tone_is_found(fitted, tone):
    X, y = tone
    assert fitted.score(X, y) > 0.9
    frequency, lower, upper = fitted.instantaneous_frequency(X)
    assert frequency.shape == (ROWS, 1)
    # The data resolve 0.25 cycles per unit: half of that at their ends, and a small part of it in the middle.
    np.testing.assert_allclose(frequency, 1.5, atol=0.125)
    np.testing.assert_allclose(np.median(frequency), 1.5, atol=0.05)
    assert lower is None
    assert upper is None
    assert "1.5" in str(fitted.start_)
    assert fitted.n_iter_ == len(fitted.history_) == 30


def test_units_and_offsets_change_nothing_else(fitted, tone):
    X, y = tone
    other = clone(fitted).fit(1e3 * X + 1e9, 7.0 * y + 50.0)
    new = np.linspace(0.1, 3.9, 7)[:, None]
    mean, deviation = fitted.predict(new, return_std=True)
    mean_other, deviation_other = other.predict(1e3 * new + 1e9, return_std=True)
    # 1e9 has an absolute rounding of 1e-7, of which the standardised inputs are 1e-3 wide.
    np.testing.assert_allclose(mean_other, 7.0 * mean + 50.0, atol=1e-5)
    np.testing.assert_allclose(deviation_other, 7.0 * deviation, rtol=1e-5)
    s = np.array([0.5, 1.5])
    pairs = [
        (1e3 * other.instantaneous_frequency(1e3 * new + 1e9).mean, fitted.instantaneous_frequency(new).mean),
        (other.spectrogram(1e3 * new + 1e9, s / 1e3).mean, 49e3 * fitted.spectrogram(new, s).mean),
        (1e3 * other.start_.frequency, fitted.start_.frequency),
        (
            other.log_predictive_density(1e3 * new + 1e9, 7.0 * mean + 50.0, 0.7) + np.log(7.0),
            fitted.log_predictive_density(new, mean, 0.1),
        ),
    ]
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_two_tones_are_told_apart_with_bands():
    """By default: each part of the prediction is one of the tones, and the bands hold the true frequencies."""
    rng = np.random.default_rng(1)
    t, true = np.sort(rng.uniform(0.0, 4.0, 120)), np.array([1.5, 3.5])
    tones = np.cos(2 * np.pi * true * t[:, None]) * [1.0, 0.6]
    y = 2.0 + tones.sum(axis=1) + 0.05 * rng.normal(size=120)
    model = sg.SpectralGPRegressor(random_state=0, max_iter=100, resolution=5).fit(t[:, None], y)
    X, tones = t[::4, None], tones[::4]
    frequency, lower, upper = model.instantaneous_frequency(X)
    order = np.argsort(np.median(frequency, axis=0))
    # Half a band of nine tenths is 1.64 standard deviations; errors are correlated, but twice as large in no such case.
    error = 1.64 * (frequency - true[np.argsort(order)]) / (0.5 * (upper - lower))
    assert np.sqrt(np.mean(error**2)) < 2.0
    assert np.median(upper - lower) < 0.1  # well below the 0.25 that the span resolves
    parts, low, high = model.decompose(X)
    np.testing.assert_allclose(parts.sum(axis=1) + model.y_mean_, model.predict(X), atol=1e-6)
    # As near to its tone as the noise is large.
    np.testing.assert_array_less(np.sqrt(np.mean((parts[:, order] - tones) ** 2, axis=0)), 0.05)
    assert np.all((low < parts) & (parts < high))


def test_spectrogram_is_a_density_of_the_variance(fitted, tone):
    X = tone[0][:3]
    s = np.linspace(-6.0, 6.0, 4001)
    total = np.sum(fitted.spectrogram(X, s).mean, axis=1) * (s[1] - s[0])
    amplitude = sg.local_spectrum(fitted.model_.enter().kernel, fitted._inputs(X)).weight[:, 0] * fitted.y_scale_**2
    np.testing.assert_allclose(total, amplitude, rtol=1e-3)


def test_density_deviation_and_draws_agree(fitted, tone):
    X, y = tone[0][::10], tone[1][::10]
    mean, deviation = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(
        fitted.log_predictive_density(X, y), norm.logpdf(y, mean, deviation), rtol=1e-9, atol=1e-9
    )
    draws = fitted.sample_y(X, 4000, random_state=1)
    assert draws.shape == (4, 4000)
    # Four Monte-Carlo standard errors of a mean and of a standard deviation.
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=4 * deviation.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=1), deviation, rtol=4 / np.sqrt(2 * 4000))
    quiet = fitted.sample_y(X, 4000, random_state=1, noise=False)
    np.testing.assert_allclose(
        quiet.std(axis=1), fitted.predict(X, return_std=True, noise=False)[1], rtol=4 / np.sqrt(2 * 4000)
    )


def test_equal_outputs_are_predicted(tone):
    mean = sg.SpectralGPRegressor(**FAST).fit(tone[0], np.full(ROWS, 0.1)).predict(tone[0])
    np.testing.assert_allclose(mean, 0.1, atol=1e-9)


def test_known_errors_count(tone):
    """A row with a huge error bar is as good as absent."""
    X, y = tone
    wrong, error = y.copy(), np.zeros(ROWS)
    wrong[20], error[20] = 3.0, 1e3
    found = sg.SpectralGPRegressor(**FAST).fit(X, wrong, error=error)
    assert abs(found.predict(X[20:21])[0] - np.cos(2 * np.pi * 1.5 * X[20, 0])) < 0.5


def test_standard():
    mean, scale = _standard(np.array([[0.1, 1.0], [0.1, 3.0], [0.1, 2.0]]), "X")
    np.testing.assert_allclose(mean, [0.1, 2.0])
    np.testing.assert_allclose(scale, [1.0, np.sqrt(2.0 / 3.0)])
    with pytest.raises(ValueError, match="X has values too large"):
        _standard(np.array([[1e300], [-1e300]]), "X")


def test_few_numbers_of_rows():
    assert [_rounded(n) for n in (1, 16, 17, 2048, 2049)] == [16, 16, 32, 2048, 4096]


# Times, frames, files


def test_times_are_days(fitted, tone):
    X, y = tone
    seconds = np.round(X * 86400.0).astype("int64")
    times = np.datetime64("2020-03-01", "s") + seconds.astype("timedelta64[s]")
    days = 18322.0 + seconds / 86400.0
    by_time, by_number = clone(fitted).fit(times, y), clone(fitted).fit(days, y)
    np.testing.assert_allclose(by_time.predict(times), by_number.predict(days), atol=1e-8)
    np.testing.assert_allclose(by_time.predict(times.astype(object)), by_time.predict(times), atol=1e-12)
    with pytest.raises(ValueError, match="column 0 of X held times in fit, but holds numbers now"):
        by_time.predict(days)
    times[3] = np.datetime64("NaT")
    with pytest.raises(ValueError, match="X contains NaN"):
        by_time.predict(times)


def test_data_frames(fitted, tone):
    pandas = pytest.importorskip("pandas")
    X, y = tone
    frame = pandas.DataFrame({"time": pandas.to_datetime("2020-03-01") + pandas.to_timedelta(X[:, 0], unit="D")})
    model = clone(fitted).fit(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == ["time"]
    assert model.times_.tolist() == [True]
    # Times are kept to the microsecond.
    np.testing.assert_allclose(model.predict(frame), fitted.predict(X), atol=1e-4)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"time": "other"}))


def test_files(fitted, tone, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = sg.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(tone[0]), fitted.predict(tone[0]))
    assert loaded.get_params() == fitted.get_params()
    assert str(loaded.start_) == str(fitted.start_)
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.predict(tone[0]), fitted.predict(tone[0]))


# Every way of inference


SIMPLE = {"kernel": "se", "n_inducing": 8, "n_neighbors": 4, "n_draws": 4, "warmup": 3, "chains": 2}


@pytest.mark.parametrize(
    ("approximation", "inference"),
    [
        ("sgpr", "map"),
        ("svgp", "map"),
        ("full-scale", "map"),
        ("neighbours", "sghmc"),
        ("exact", "nuts"),
        ("exact", "dsvi"),
        ("exact", "laplace"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted, which is not the point
def test_ways_of_inference(approximation, inference, tone, tmp_path):
    X, y = tone[0], np.sin(tone[0][:, 0])
    kernel = {"kernel": "nsq"} if inference == "dsvi" else {}
    model = sg.SpectralGPRegressor(**FAST | SIMPLE | kernel | {"inference": inference}, approximation=approximation)
    mean, deviation = model.fit(X, y).predict(X, return_std=True)
    assert np.all(deviation > 0)
    # q of svgp starts at the prior, and is not there after so few steps.
    assert np.max(np.abs(mean - y)) < (1.5 if approximation == "svgp" else 0.3)
    assert model.log_predictive_density(X, y).shape == (ROWS,)
    assert model.sample_y(X[:3], 2).shape == (3, 2)
    if inference != "map":
        assert model.posterior_.log_joint.size == 4
        middle, lower, upper = model.spectrogram(X[:2], [0.0, 0.1])
        assert np.all((lower <= middle) & (middle <= upper))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(sg.load(tmp_path / "model").predict(X), mean)


def test_a_kernel_object_is_in_own_units(tone):
    X, y = 1e3 * tone[0], 5.0 + 0.0 * tone[1]
    kernel = sg.kernels.SquaredExponential(1e3, 2.0)
    model = sg.SpectralGPRegressor(kernel, **FAST).fit(X, y)
    # Far from the data the prior is back: the mean of the outputs, and the kernel's deviation.
    mean, deviation = model.predict([[1e5]], return_std=True, noise=False)
    np.testing.assert_allclose([mean[0], deviation[0]], [5.0, 2.0], rtol=1e-6)


def test_automatic_choices():
    model = sg.SpectralGPRegressor()
    assert (model._approximation(2000), model._approximation(2001)) == ("exact", "neighbours")


# What is refused, beside bad data (tests/test_bad_inputs.py)


def test_bad_levels(fitted, tone):
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        fitted.instantaneous_frequency(tone[0], level=1.0)
