"""The estimator: own units, times and data frames, every way of inference, files, and scikit-learn's rules."""

from __future__ import annotations

import pickle
from contextlib import contextmanager

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import spectrogp as sg
from spectrogp.estimator import regressor
from spectrogp.estimator import settings as estimator_settings
from spectrogp.estimator.settings import Settings
from spectrogp.estimator.units import standard
from spectrogp.posterior.filling import rounded

pytestmark = pytest.mark.usefixtures("compile_quickly")

ROWS = 40
FAST = {"max_iter": 30, "n_knots": 5, "random_state": 0, "inference": "map", "n_starts": 1}


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
    assert "1.5" in str(fitted.initial_values_)
    assert 1 <= fitted.n_iter_ == len(fitted.history_)


def test_units_and_offsets_change_nothing_else(fitted, tone):
    X, y = tone
    other = clone(fitted).fit(1e3 * X + 1e9, 7.0 * y + 50.0)
    new = np.linspace(0.1, 3.9, 7)[:, None]
    mean, std = fitted.predict(new, return_std=True)
    mean_other, std_other = other.predict(1e3 * new + 1e9, return_std=True)
    # 1e9 has an absolute rounding of 1e-7, of which the standardised inputs are 1e-3 wide.
    np.testing.assert_allclose(mean_other, 7.0 * mean + 50.0, atol=1e-5)
    np.testing.assert_allclose(std_other, 7.0 * std, rtol=1e-5)
    s = np.array([0.5, 1.5])
    pairs = [
        (1e3 * other.instantaneous_frequency(1e3 * new + 1e9).mean, fitted.instantaneous_frequency(new).mean),
        (other.spectrogram(1e3 * new + 1e9, s / 1e3).mean, 49e3 * fitted.spectrogram(new, s).mean),
        (1e3 * other.initial_values_.frequency, fitted.initial_values_.frequency),
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
    model = sg.SpectralGPRegressor(random_state=0, max_iter=100, n_knots=5).fit(t[:, None], y)
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
    amplitude = sg.local_spectrum(fitted.model_.realise().kernel, fitted._inputs(X)).weight[:, 0] * fitted.y_scale_**2
    np.testing.assert_allclose(total, amplitude, rtol=1e-3)


def test_density_std_and_draws_agree(fitted, tone):
    X, y = tone[0][::10], tone[1][::10]
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(fitted.log_predictive_density(X, y), norm.logpdf(y, mean, std), rtol=1e-9, atol=1e-9)
    draws = fitted.sample_y(X, 4000, random_state=1)
    assert draws.shape == (4, 4000)
    # Four Monte-Carlo standard errors of a mean and of a standard deviation.
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=4 * std.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=4 / np.sqrt(2 * 4000))
    quiet = fitted.sample_y(X, 4000, random_state=1, noise=False)
    np.testing.assert_allclose(
        quiet.std(axis=1), fitted.predict(X, return_std=True, noise=False)[1], rtol=4 / np.sqrt(2 * 4000)
    )


def test_covariances_agree_with_deviations(fitted, tone):
    X = tone[0][::10]
    for noise in (True, False):
        mean, std = fitted.predict(X, return_std=True, noise=noise)
        same, cov = fitted.predict(X, return_cov=True, noise=noise)
        np.testing.assert_array_equal(same, mean)
        np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=1e-6)
        np.testing.assert_allclose(cov, cov.T, atol=1e-12)
        assert np.linalg.eigvalsh(cov)[0] > -1e-9
    with pytest.raises(RuntimeError, match="return_std or for return_cov, not for both"):
        fitted.predict(X, return_std=True, return_cov=True)


def test_intervals_are_quantiles_of_draws(fitted, tone):
    X = tone[0][::10]
    mean, std, lower, upper = fitted.predict(X, return_std=True, interval=0.8)
    np.testing.assert_array_equal(mean, fitted.predict(X))
    draws = np.quantile(fitted.sample_y(X, 4000, random_state=2), (0.1, 0.9), axis=1)
    # A quantile of n draws has the standard error √(p (1 − p) / n) / density, here 1.7 σ / √n; four of them.
    np.testing.assert_allclose([lower, upper], draws, atol=4 * 1.71 * std.max() / np.sqrt(4000))
    _, inner, outer = fitted.predict(X, interval=0.8, noise=False)
    assert np.all((lower < inner) & (outer < upper))
    with pytest.raises(ValueError, match="level"):
        fitted.predict(X, interval=1.0)


def test_one_input_may_be_a_list_of_numbers(fitted, tone):
    t, y = tone[0][:, 0], tone[1]
    again = clone(fitted).fit(t, y)
    for model, X in ((again, tone[0]), (again, t), (again, t.tolist()), (fitted, t)):
        np.testing.assert_array_equal(model.predict(X), fitted.predict(tone[0]))
    np.testing.assert_array_equal(again.instantaneous_frequency(t).mean, fitted.instantaneous_frequency(tone[0]).mean)


def test_outliers_do_not_pull_a_fit_with_student_noise():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 4.0, 60))
    true = np.cos(2 * np.pi * 1.5 * t)
    y = true + 0.1 * rng.normal(size=60)
    wrong = np.arange(5, 60, 12)
    y[wrong] += [-3.0, 3.0, -3.0, 3.0, -3.0]
    settings = FAST | {"kernel": "sm", "n_components": 1, "highest_frequency": 3.0, "max_iter": 100, "n_inducing": 40}

    def error(likelihood):
        """Root mean square error of the function at the good rows."""
        model = sg.SpectralGPRegressor(**settings, likelihood=likelihood).fit(t, y)
        return np.sqrt(np.mean(np.delete(model.predict(t) - true, wrong) ** 2))

    assert error("student") < min(0.1, 0.4 * error("gaussian"))
    exact = sg.SpectralGPRegressor(likelihood="student", approximation="exact")
    with pytest.raises(ValueError, match=r"approximation='exact' needs Gaussian noise; .* leave it at 'auto'"):
        exact.fit(t, y)


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


def teststandard():
    mean, scale = standard(np.array([[0.1, 1.0], [0.1, 3.0], [0.1, 2.0]]), "X")
    np.testing.assert_allclose(mean, [0.1, 2.0])
    np.testing.assert_allclose(scale, [1.0, np.sqrt(2.0 / 3.0)])
    with pytest.raises(ValueError, match="X has values too large"):
        standard(np.array([[1e300], [-1e300]]), "X")


def test_few_numbers_of_rows():
    assert [rounded(n) for n in (1, 16, 17, 2048, 2049)] == [16, 16, 32, 2048, 4096]


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
    some = frame.iloc[5:9]
    for band in (model.instantaneous_frequency(some), model.decompose(some)):
        assert isinstance(band.mean, pandas.DataFrame)
        assert list(band.mean.index) == list(some.index)
        assert list(band.mean.columns) == ["component 1"]
    frequency = fitted.instantaneous_frequency(X[5:9]).mean
    assert isinstance(frequency, np.ndarray)
    np.testing.assert_allclose(model.instantaneous_frequency(some).mean, frequency, atol=1e-4)


def test_files(fitted, tone, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = sg.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(tone[0]), fitted.predict(tone[0]))
    assert loaded.get_params() == fitted.get_params()
    assert str(loaded.initial_values_) == str(fitted.initial_values_)
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.predict(tone[0]), fitted.predict(tone[0]))


# Figures and summaries


@pytest.fixture(scope="module")
def simple(tone):
    """A kernel that compiles fast."""
    return sg.SpectralGPRegressor(**FAST, kernel="sm", n_components=1).fit(*tone)


def test_plots(simple):
    assert isinstance(simple.plot(), Figure)
    axes = Figure().subplots()
    assert simple.plot("spectrogram", ax=axes) is axes
    assert axes.images
    alone = simple.plot("fit")
    assert isinstance(alone, Figure)
    assert alone.axes[0].lines
    with pytest.raises(ValueError, match=r"a panel is one of fit, spectrogram, .*; got 'waterfall'"):
        simple.plot("waterfall")
    with pytest.raises(ValueError, match="an overview is a figure of its own"):
        simple.plot(ax=axes)


def test_the_summary_names_parameters_with_values_priors_and_roles(simple):
    text = simple.summary()
    assert str(simple.initial_values_) in text
    (noise,) = [line for line in text.splitlines() if line.startswith("likelihood.noise")]
    assert f"{float(np.asarray(simple.model_.likelihood.noise.value)):.4g}" in noise
    assert "LogNormal(" in noise
    assert noise.endswith("hyperparameter")
    assert {"kernel.lengthscale", "kernel.frequency", "kernel.amplitude"} <= set(text.split())


# Fits that fail or are stopped


def test_a_failed_fit_changes_nothing(fitted, tone, monkeypatch, tmp_path):
    X, y = tone
    model, new = pickle.loads(pickle.dumps(fitted)), clone(fitted)  # noqa: S301
    before = model.predict(X)

    def fail(*_):
        raise FloatingPointError("the objective is nan")

    monkeypatch.setattr(regressor, "fit", fail)
    for estimator in (model, new):
        with pytest.raises(FloatingPointError, match="the objective is nan"):
            estimator.fit(np.column_stack([X, X]), 7.0 * y)
        with pytest.raises(ValueError, match=r"rows have missing values \(y: \d+\), and a fit needs two without"):
            estimator.fit(X, np.full(ROWS, np.nan))
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.n_features_in_ == 1
    with pytest.raises(NotFittedError):
        new.predict(X)
    with pytest.raises(NotFittedError):
        new.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_an_interrupt_stops_a_fit(fitted, tone, monkeypatch):
    """Loops of inference end early at Ctrl-C and give what they have; half a fit is none."""
    seen = []

    @contextmanager
    def interrupted(description):
        def show(done, steps, objective):
            seen.append(description)
            raise KeyboardInterrupt

        yield show

    monkeypatch.setattr(estimator_settings, "progress_bar", interrupted)
    model = clone(fitted).set_params(verbose=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*tone)
    assert seen == ["optimum"]
    with pytest.raises(NotFittedError):
        model.predict(tone[0])


@pytest.mark.filterwarnings("ignore::UserWarning")  # the draws are few
@pytest.mark.parametrize("stage", ["optimum", "posterior"])
def test_an_interrupted_fit_goes_on(tone, monkeypatch, tmp_path, stage):
    """With a checkpoint, from the stage that was interrupted, and to the same draws bit for bit."""
    model = sg.SpectralGPRegressor(
        kernel="se", inference="nuts", n_draws=60, warmup=10, chains=1, max_iter=120, random_state=0, verbose=True
    )
    never, seen = clone(model).fit(*tone), []

    @contextmanager
    def interrupted(description):
        def show(done, steps, objective):
            seen.append((description, done))
            if description == stage and done < steps and ("stop", stage) not in seen:
                seen.append(("stop", stage))
                raise KeyboardInterrupt

        yield show

    monkeypatch.setattr(estimator_settings, "progress_bar", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*tone, checkpoint=tmp_path / "fit")
    assert (tmp_path / f"fit.{stage}").exists()
    stopped = seen[-2][1]
    seen[:] = [("stop", stage)]
    model.fit(*tone, checkpoint=tmp_path / "fit")
    assert seen[1] > (stage, stopped)  # what was done is not done again
    assert not list(tmp_path.iterdir())
    for ours, theirs in zip(*(jax.tree.leaves(one.posterior_.draws) for one in (model, never)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Every way of inference


SIMPLE = {"kernel": "se", "n_inducing": 8, "n_neighbours": 4, "n_draws": 4, "warmup": 3, "chains": 2}


@pytest.mark.parametrize(
    ("approximation", "inference"),
    [
        ("sgpr", "map"),
        pytest.param("svgp", "map", marks=pytest.mark.slow),  # Student noise has it too
        pytest.param("full-scale", "map", marks=pytest.mark.slow),
        ("neighbours", "sghmc"),
        ("exact", "nuts"),
        pytest.param("exact", "dsvi", marks=pytest.mark.slow),
        ("exact", "laplace"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted, which is not the point
def test_ways_of_inference(approximation, inference, tone, tmp_path):
    X, y = tone[0], np.sin(tone[0][:, 0])
    kernel = {"kernel": "nsq"} if inference == "dsvi" else {}
    model = sg.SpectralGPRegressor(**FAST | SIMPLE | kernel | {"inference": inference}, approximation=approximation)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    assert np.all(std > 0)
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
    with pytest.warns(UserWarning, match="times the range"):
        mean, std = model.predict([[1e5]], return_std=True, noise=False)
    np.testing.assert_allclose([mean[0], std[0]], [5.0, 2.0], rtol=1e-6)


def test_automatic_choices():
    settings = Settings(**sg.SpectralGPRegressor().get_params())
    assert (settings.approximation_for(2000, 2), settings.approximation_for(2001, 2)) == ("exact", "neighbours")
    assert (settings.kernel_for(1), settings.approximation_for(10, 1), settings.approximation_for(10**6, 1)) == (
        "matern",
        "markov",
        "markov",
    )
    assert settings.kernel_for(2) == "convolutional"
    robust = Settings(**sg.SpectralGPRegressor(likelihood="student").get_params())
    assert (robust.kernel_for(1), robust.approximation_for(10, 1)) == ("phase", "svgp")
    variational = Settings(**sg.SpectralGPRegressor(inference="dsvi").get_params())
    assert (variational.kernel_for(1), variational.approximation_for(10, 1)) == ("phase", "exact")


# What is refused, beside bad data (tests/test_bad_inputs.py)


def test_bad_levels(fitted, tone):
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        fitted.instantaneous_frequency(tone[0], level=1.0)
