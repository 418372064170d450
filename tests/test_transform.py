"""Logarithms of outputs: what is told of outputs is log-normal, and the evidence chooses between both."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import spectrogp as sg
from spectrogp.cli import app
from spectrogp.estimator import Settings, markov, transforming
from spectrogp.estimator.fitting import Fitted
from spectrogp.estimator.transforming import MARGIN, fit_transformed
from spectrogp.estimator.units import Units
from spectrogp.initialise import find_initial_values
from spectrogp.models import Data, Moments
from spectrogp.posterior import Prediction
from spectrogp.posterior.readings import mixture_covariance

MONTHS = np.arange(144) / 12.0


def season(power: float = 1.0, *, seed: int = 0, noise: float = 0.04) -> np.ndarray:
    """Twelve years of months that grow sixfold, with a season and noise that grow as a power of the level."""
    level = 100.0 * np.exp(0.15 * MONTHS)
    typical = 250.0
    size = typical * (level / typical) ** power
    wave = 0.2 * np.cos(2 * np.pi * MONTHS) + 0.1 * np.sin(4 * np.pi * MONTHS)
    return level + size * (wave + noise * np.random.default_rng(seed).normal(size=MONTHS.size))


# Closed forms


def test_moments_of_exponentials_are_those_of_a_log_normal_distribution():
    """Against quadrature, which is exact to rounding for so smooth a function."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    mean, std, exponent = np.array([0.3, -2.0]), np.array([0.5, 1.1]), 0.7
    values = np.exp(exponent * (mean[:, None] + std[:, None] * nodes))
    found = Moments(mean, std**2).exponential(exponent)
    np.testing.assert_allclose(found.mean, values @ weights, rtol=1e-12)
    np.testing.assert_allclose(found.variance, values**2 @ weights - (values @ weights) ** 2, rtol=1e-10)


def test_a_small_variance_keeps_its_digits():
    found = Moments(np.zeros(1), np.array([1e-20])).exponential(2.0)
    np.testing.assert_allclose(found.variance, 4e-20, rtol=1e-12)


def test_mixtures_of_exponentials_are_mixed_after_the_exponential():
    rng = np.random.default_rng(0)
    function = Moments(rng.normal(size=(3, 4)), rng.uniform(0.1, 1.0, size=(3, 4)))
    output = Moments(function.mean, function.variance + 0.2)
    mixed = Prediction(function, output, None).mixed(0.8, exponent=0.5)
    each = np.exp(0.5 * function.mean + 0.125 * function.variance)
    second = np.exp(function.mean + 0.5 * function.variance)
    np.testing.assert_allclose(mixed.function.mean, each.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(mixed.function.variance, second.mean(axis=0) - each.mean(axis=0) ** 2, rtol=1e-10)
    plain = Prediction(function, output, None).mixed(0.8)
    for band, other in zip(mixed.bands, plain.bands, strict=True):  # quantiles are those of what is inside
        np.testing.assert_array_equal(band.lower, other.lower)


@pytest.mark.parametrize("exponent", [None, 0.8])
def test_covariance_of_a_mixture_of_exponentials(exponent):
    """Against many draws; variances against the moments, in closed form."""
    rng = np.random.default_rng(1)
    mean, root = rng.normal(size=(2, 3)), 0.4 * rng.normal(size=(2, 3, 3))
    covariance, noise = root @ np.swapaxes(root, 1, 2), np.full((2, 3), 0.05)
    parts = [(mean[k : k + 1], covariance[k : k + 1], noise[k : k + 1]) for k in range(2)]  # one after the other
    found = mixture_covariance(parts, exponent=exponent)
    parts = Moments(mean, np.diagonal(covariance, axis1=1, axis2=2) + noise)
    whole = parts if exponent is None else parts.exponential(exponent)
    np.testing.assert_allclose(np.diag(found), whole.mixed().variance, rtol=1e-10)
    joint = covariance + noise[:, :, None] * np.eye(3)
    draws = np.concatenate([rng.multivariate_normal(m, c, size=400_000) for m, c in zip(mean, joint, strict=True)])
    values = draws if exponent is None else np.exp(exponent * draws)
    # Covariances of 8e5 draws are known to a thousandth or so of the variances, those of exponentials less closely.
    np.testing.assert_allclose(found, np.cov(values.T), atol=0.02 * float(np.max(np.diag(found))))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_units_of_logarithms(scale):
    """There and back; densities by how a small interval is stretched; errors by how an error moves the logarithm."""
    rng = np.random.default_rng(2)
    y = scale * np.exp(rng.normal(size=20))
    data = Data(np.arange(20.0), y, 1e-5 * y)
    units = Units.of(data, standardise=True, log=True)
    inside = units.data(data)
    np.testing.assert_allclose([np.mean(inside.y), np.std(inside.y)], [0.0, 1.0], atol=1e-12)
    back = units.given(inside)
    for name in ("X", "y", "error"):
        np.testing.assert_allclose(getattr(back, name), getattr(data, name), rtol=1e-12, atol=1e-12)
    step = 1e-6 * y
    stretched = (units.outputs(y + step) - units.outputs(y - step)) / (2.0 * step)
    np.testing.assert_allclose(units.log_jacobian(y), np.log(stretched), atol=1e-8)
    np.testing.assert_allclose(inside.error, units.outputs(y + data.error) - units.outputs(y), rtol=1e-4)
    shift, factor = units.linear
    assert shift == 0.0
    np.testing.assert_allclose(factor * np.exp(units.exponent * inside.y), y, rtol=1e-12)
    np.testing.assert_array_equal(units.log_jacobian(np.array([0.0, -scale])), -np.inf)  # there are none such


# The estimator: a fit by "log" is one of the logarithms


@pytest.fixture(scope="module")
def pair():
    """A fit of outputs by their logarithms, and one of the logarithms as they are."""
    y = season()
    settings = {"random_state": 0, "n_starts": 1, "n_draws": 20}
    fits = [
        sg.SpectralGPRegressor(target_transform=name, **settings).fit(MONTHS, values)
        for name, values in (("log", y), ("none", np.log(y)))
    ]
    return *fits, y


LATER = np.array([1.03, 4.5, 12.02, 12.3, 13.0])


def test_quantiles_are_powers_of_e(pair):
    log, plain, _ = pair
    for noise in (False, True):
        ends = [model.predict(LATER, noise=noise, interval=0.8)[1:] for model in (log, plain)]
        np.testing.assert_allclose(ends[0], np.exp(ends[1]), rtol=1e-10)


def test_densities_have_the_jacobian(pair):
    log, plain, y = pair
    found = log.log_predictive_density(MONTHS, y)
    np.testing.assert_allclose(found, plain.log_predictive_density(MONTHS, np.log(y)) - np.log(y), atol=1e-10)
    np.testing.assert_array_equal(log.log_predictive_density(MONTHS[:2], [-1.0, 0.0]), -np.inf)


def test_errors_of_new_outputs_are_relative(pair):
    log, plain, y = pair
    error = np.full(y.shape, 3.0)
    found = log.log_predictive_density(MONTHS, y, error)
    np.testing.assert_allclose(
        found, plain.log_predictive_density(MONTHS, np.log(y), error / y) - np.log(y), atol=1e-10
    )


@pytest.mark.parametrize("noise", [False, True])
def test_means_and_deviations_are_those_of_the_mixture_of_log_normal_distributions(pair, noise):
    log, plain, _ = pair
    mean, std = log.predict(LATER, return_std=True, noise=noise)
    parts = []
    for draw in range(plain.posterior_.log_joint.shape[1]):
        model = plain.posterior_.at(0, draw)
        moments = (model.predict_output if noise else model.predict)(plain.data_, plain._inputs(LATER))
        inside = Moments(
            plain.y_mean_ + plain.y_scale_ * np.asarray(moments.mean), plain.y_scale_**2 * np.asarray(moments.variance)
        )
        parts.append(inside.exponential(1.0))
    expected = Moments(*(np.stack(part) for part in zip(*parts, strict=True))).mixed()
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8)
    np.testing.assert_allclose(std, expected.std, rtol=1e-6)


def test_joint_covariances_and_draws_agree_with_the_moments(pair):
    log, *_ = pair
    for noise in (False, True):
        mean, std = log.predict(LATER, return_std=True, noise=noise)
        _, covariance = log.predict(LATER, return_cov=True, noise=noise)
        np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-6)
        draws = log.sample_y(LATER, 4000, noise=noise)
        assert np.all(draws > 0.0)
        # Means of 4,000 draws are known to a sixtieth of their deviation; four times that is asked.
        np.testing.assert_array_less(np.abs(draws.mean(axis=1) - mean), 4.0 * std / np.sqrt(4000))
        correlation = covariance / np.outer(std, std)
        np.testing.assert_allclose(np.corrcoef(draws), correlation, atol=0.08)


def test_components_are_factors(pair):
    """Whose product is the geometric mean of the function."""
    log, plain, _ = pair
    factors, parts = log.decompose(LATER), plain.decompose(LATER)
    for one, other in zip(factors, parts, strict=True):
        np.testing.assert_allclose(one, np.exp(other), rtol=1e-10)
    product = np.exp(log.y_mean_) * np.prod(factors.mean, axis=1)
    np.testing.assert_allclose(product, np.exp(plain.predict(LATER)), rtol=1e-8)


def test_the_rest_is_that_of_the_logarithms(pair):
    log, plain, y = pair
    frequency = np.array([0.5, 1.0])
    np.testing.assert_array_equal(log.instantaneous_frequency(LATER).mean, plain.instantaneous_frequency(LATER).mean)
    np.testing.assert_array_equal(log.spectrogram(LATER, frequency).mean, plain.spectrogram(LATER, frequency).mean)
    np.testing.assert_array_equal(log.initial_values_.amplitude, plain.initial_values_.amplitude)
    mine, other = (sg.plots.summary(model.report()) for model in (log, plain))
    assert [entry["amplitude"] for entry in mine["components"]] == [entry["amplitude"] for entry in other["components"]]
    # Of log-normal moments the noise is exact where all draws have the same.
    np.testing.assert_allclose(mine["noise"], other["noise"], rtol=0.02)
    np.testing.assert_allclose(mine["fit"]["coverage"], other["fit"]["coverage"])
    assert log.score(MONTHS, y) > 0.99
    scores = log.diagnostics_["block_out"]
    assert scores["coverage"] == plain.diagnostics_["block_out"]["coverage"]
    assert scores["r2"] != plain.diagnostics_["block_out"]["r2"]  # of the outputs, and not of their logarithms
    assert 0.9 < scores["r2"] < 1.0


def test_figures_tell_what_is_of_the_logarithms(pair):
    log, _, y = pair
    report = log.report()
    np.testing.assert_allclose(report.y, y, rtol=1e-10)
    np.testing.assert_allclose(report.record[1], np.log(y), rtol=1e-10)
    figure = log.plot()
    labels = {panel.get_ylabel() for panel in figure.axes}
    assert {"y", "amplitude (log y)", "factor"} <= labels
    fit = figure.axes[0]
    assert fit.get_ylim()[0] < y.min() < y.max() < fit.get_ylim()[1] < 3.0 * y.max()
    assert "logarithms alone" in "".join(panel.get_title("left") for panel in figure.axes)


def test_summary_tells_it_and_clones_and_files_keep_it(pair, tmp_path):
    log, plain, _ = pair
    assert log.summary().startswith("logarithms of the outputs were fitted: components multiply")
    assert "logarithms" not in plain.summary()
    assert clone(log).get_params() == log.get_params()
    log.save(tmp_path / "model")
    again = sg.load(tmp_path / "model")
    assert again.target_transform == "log"
    np.testing.assert_array_equal(again.predict(LATER), log.predict(LATER))


def test_files_of_before_there_were_transforms_load(pair, tmp_path):
    _, plain, _ = pair
    before = clone(plain)
    before.__dict__.update({name: value for name, value in vars(plain).items() if name != "target_transform"})
    del before.target_transform
    before.diagnostics_ = {name: value for name, value in plain.diagnostics_.items() if name != "target_transform"}
    before.save(tmp_path / "model")
    again = sg.load(tmp_path / "model")
    assert again.get_params()["target_transform"] == "auto"
    np.testing.assert_array_equal(again.predict(LATER), plain.predict(LATER))
    assert again.summary() == plain.summary()


def test_other_kernels_take_logarithms_too():
    y = season()[:48]
    settings = {"kernel": "sm", "n_components": 1, "inference": "map", "n_starts": 1, "max_iter": 30, "random_state": 0}
    log = sg.SpectralGPRegressor(target_transform="log", **settings).fit(MONTHS[:48], y)
    plain = sg.SpectralGPRegressor(target_transform="none", **settings).fit(MONTHS[:48], np.log(y))
    at = np.array([1.03, 2.5, 3.9])
    ends = (model.predict(at, interval=0.9)[1:] for model in (log, plain))
    np.testing.assert_allclose(next(ends), np.exp(next(ends)), rtol=1e-10)


# The choice


def test_evidence_of_a_fit_to_means_is_that_of_all_rows(monkeypatch):
    """But for the noise, which 300 means tell half as closely as 1,200 rows do: log 2 nats."""
    t = np.linspace(-1.7, 1.7, 1200)
    data = Data(t, np.cos(2 * np.pi * 3.0 * t) + 0.3 * np.random.default_rng(6).normal(size=t.size))
    initial = find_initial_values(t[:, None], data.y, data.error, max_components=1)
    found = {}
    for rows in (300, 1200):
        if rows == 1200:
            monkeypatch.setattr(markov, "_thinned", lambda _, every: (every, (0.0,)))
        fit = markov.fit_markov(initial, (data,), draws=1, seed=0, n_starts=1)
        assert np.sum(fit.likeliest.lanes.timeline.weight) == rows
        found[rows] = fit.evidence(Data(data.X, data.y - fit.offset[0], data.error))
    assert abs(found[300] - found[1200] - np.log(2.0)) < 1.0


class Asked:
    """Fits of a given evidence, and whether what oscillates grows with the level in that of outputs as they are."""

    def __init__(self, plain: float, log: float, growth: str = "it grows"):
        self.evidence, self.growth, self.seen = {False: plain, True: log}, growth, []

    def __call__(self, units: Units, again: bool) -> Fitted:
        self.seen.append((units.log, again))
        growth = "" if units.log else self.growth
        return Fitted(*[None] * 5, {}, evidence=self.evidence[units.log], growth=growth)


POSITIVE = Data(np.arange(4.0), np.array([1.0, 2.0, 4.0, 8.0]))


def densities(data: Data) -> float:
    """What the units of logarithms add to their evidence, beside what those of outputs add."""
    y = np.asarray(data.y)
    return float(-len(y) * np.log(np.std(np.log(y))) - np.sum(np.log(y)) + len(y) * np.log(np.std(y)))


@pytest.mark.parametrize(("more", "log"), [(MARGIN + 0.1, True), (MARGIN - 0.1, False), (-5.0, False)])
def test_logarithms_are_taken_where_they_are_likelier_by_a_margin(more, log):
    asked = Asked(3.0, 3.0 + more - densities(POSITIVE))
    fit, units = fit_transformed(Settings(**sg.SpectralGPRegressor().get_params()), POSITIVE, True, asked)
    assert units.log is log
    assert asked.seen == [(False, False), (True, True)]
    np.testing.assert_allclose(fit.diagnostics["log_gain"], more, atol=1e-10)
    assert len(fit.warnings) == (not log)
    if not log:
        assert ("likelier by 9.9 nats only" if more > 0.0 else "less likely by 5 nats") in fit.warnings[0]


def test_they_are_not_tried_where_nothing_grows():
    asked = Asked(0.0, 1e6, growth="")
    fit, units = fit_transformed(Settings(**sg.SpectralGPRegressor().get_params()), POSITIVE, True, asked)
    assert (units.log, fit.warnings, fit.diagnostics, asked.seen) == (False, (), {}, [(False, False)])


@pytest.mark.parametrize(
    ("transform", "y", "said"),
    [("none", POSITIVE.y, "target_transform='log' fits logarithms"), ("auto", [0.0, 1.0, 2.0, 4.0], "some are zero")],
)
def test_where_they_are_not_tried_it_is_said_what_to_do(transform, y, said):
    asked = Asked(0.0, 1e6)
    settings = Settings(**sg.SpectralGPRegressor(target_transform=transform).get_params())
    fit, units = fit_transformed(settings, Data(np.arange(4.0), y), True, asked)
    assert (units.log, asked.seen) == (False, [(False, False)])
    assert len(fit.warnings) == 1
    assert fit.warnings[0].startswith("it grows; ")
    assert said in fit.warnings[0]


def test_without_an_optimum_nothing_is_compared():
    settings = Settings(**sg.SpectralGPRegressor().get_params())
    fit, units = fit_transformed(settings, POSITIVE, True, Asked(-np.inf, 5.0))
    assert not units.log
    assert "log_gain" not in fit.diagnostics
    assert "target_transform='log'" in fit.warnings[0]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_seasons_that_multiply_are_fitted_as_logarithms(scale):
    """The last two years are forecast to a few noises of 4 %; in the linear scale the season would stay too small."""
    y = scale * season(seed=3)
    past = MONTHS < 10.0
    model = sg.SpectralGPRegressor(random_state=0).fit(MONTHS[past], y[past])
    assert model.diagnostics_["target_transform"] == "log"
    assert model.diagnostics_["log_gain"] > MARGIN
    assert not [sentence for sentence in model.warnings_ if "grows with the level" in sentence]
    assert f"likelier by {model.diagnostics_['log_gain']:.3g} nats" in model.summary()
    mean, lower, upper = model.predict(MONTHS[~past], interval=0.9)
    truth = y[~past]
    assert np.sqrt(np.mean((mean / truth - 1.0) ** 2)) < 0.15
    assert np.mean((lower < truth) & (truth < upper)) > 0.75


RNG = np.random.default_rng(4)
STEPS = RNG.normal(size=160)
OTHERS = {
    "additive": (MONTHS, season(0.0)),
    "walk": (np.arange(160.0), 60.0 + np.cumsum(STEPS)),
    "white": (np.arange(160.0), 10.0 + STEPS),
    "waves": (np.arange(160.0), 30.0 + 20.0 * np.cos(2 * np.pi * np.arange(160) / 11.0) + STEPS),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_multiply_stays_as_it_is(name):
    """And pays nothing: logarithms are not tried."""
    t, y = OTHERS[name]
    assert np.min(y) > 0.0
    model = sg.SpectralGPRegressor(random_state=0).fit(t, y)
    assert model.diagnostics_["target_transform"] == "none"
    assert "log_gain" not in model.diagnostics_
    assert not [sentence for sentence in model.warnings_ if "grows with the level" in sentence]


# What is refused, before any work


@pytest.mark.parametrize(
    ("settings", "X", "y", "said"),
    [
        ({}, MONTHS[:8], [3.0, 1.0, 0.0, 2.0, 5.0, 1.0, 1.0, 2.0], "outputs above zero, and row 2 has 0"),
        ({}, np.ones((8, 2)), np.arange(1.0, 9.0), "for one input, got 2"),
        ({}, MONTHS[:8], np.ones((8, 2)), "several channels, .* take target_transform='auto' or 'none'"),
        ({"likelihood": "student"}, MONTHS[:8], np.ones(8), "needs Gaussian noise, got likelihood='student'"),
        ({"target_transform": "sqrt"}, MONTHS[:8], np.ones(8), "target_transform must be one of auto, none, log"),
    ],
)
def test_logarithms_that_there_are_not_are_refused(settings, X, y, said, monkeypatch):
    monkeypatch.setattr(transforming, "fit_transformed", None)
    model = sg.SpectralGPRegressor(**{"target_transform": "log"} | settings)
    with pytest.raises(ValueError, match=said):
        model.fit(X, y)


# The command line


def test_the_command_line_fits_logarithms_and_predicts_outputs(tmp_path):
    sg.write_table(tmp_path / "data.csv", {"year": MONTHS[:60], "sales": season()[:60]})
    options = ["--quick", "--transform", "log", "--inference", "map", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "data.csv"), *options])
    assert done.exit_code == 0, done.output
    assert "logarithms of the outputs were fitted" in done.stdout
    for words in ("amplitude σ (log sales)", "amplitude (log sales)"):  # what was found, and what was fitted
        assert done.stdout.count(words) == 1
    record = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert record["settings"]["target_transform"] == "log"
    assert record["diagnostics"]["target_transform"] == "log"
    done = CliRunner().invoke(
        app,
        ["predict", str(tmp_path / "model.safetensors"), str(tmp_path / "data.csv"), "--out", str(tmp_path / "p.csv")],
    )
    assert done.exit_code == 0, done.output
    table = sg.read_table(tmp_path / "p.csv")
    assert np.all((table["lower"] > 0.0) & (table["lower"] < table["mean"]) & (table["mean"] < table["upper"]))
    np.testing.assert_allclose(table["mean"], season()[:60], rtol=0.3)
