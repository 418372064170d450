"""What happened on the way of a fit is on the fitted object and in the summary."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import spectrogp as sg
from spectrogp.cli import app
from spectrogp.estimator import fitting, inferring
from spectrogp.estimator.referee import _growth, _is_multiple, _of_blocks, _of_residuals, _Stretch
from spectrogp.estimator.units import Shown
from spectrogp.initialise import best_of, compare, find_initial_values
from spectrogp.models import CollapsedGP, Data, ExactGP, NeighbourGP, Refresh, relative_jitter

pytestmark = pytest.mark.usefixtures("compile_quickly")

X = np.linspace(0.0, 3.0, 40)[:, None]
DATA = Data(X, np.cos(2.0 * np.pi * X[:, 0]))
QUICK = {"n_starts": 1, "n_knots": 6, "random_state": 0}


@pytest.mark.parametrize("noise", [1e-9, 0.1])
def test_jitter_is_told(noise):
    """A smooth kernel on close inputs is singular to rounding unless there is noise."""
    kernel = sg.kernels.SquaredExponential(1.0)
    exact, collapsed, near = ExactGP(kernel, noise), CollapsedGP(kernel, noise, X), NeighbourGP(kernel, noise)
    found = [relative_jitter(exact, DATA), relative_jitter(collapsed, DATA)]
    found.append(relative_jitter(near, Refresh(DATA, 30)(near)))
    ladder = [1e-12, 1e-10, 1e-8]
    expected = [noise < 0.1, True, noise < 0.1]  # that of inducing inputs has no noise
    assert [value > 0.0 for value in found] == expected
    for value in found:
        assert value == 0.0 or np.min(np.abs(value / np.array(ladder) - 1.0)) < 1e-6


def test_a_start_that_fails_is_told(monkeypatch):
    density = compare.laplace_marginal_likelihood

    def second_fails(model, *arguments, **options):
        if 1.5 < np.exp(np.mean(model.kernel.lengthscale.mean.raw)) < 2.5:  # starts are compared in any order
            raise FloatingPointError("the curvature is not finite")
        return density(model, *arguments, **options)

    monkeypatch.setattr(compare, "laplace_marginal_likelihood", second_fails)
    models = [
        ExactGP(sg.kernels.NonstationaryQuadratic(sg.FunctionGroup(X[:3], s, shape=(1, 1))), 0.1) for s in (1, 2, 3)
    ]
    best = best_of(models, DATA, steps=2, key=0)
    assert best.failures == ("the curvature is not finite",)
    assert [np.isfinite(value) for value in best.evidence] == [True, False, True]
    assert len(best.history) == 2
    with pytest.raises(FloatingPointError, match="not finite"):  # there is no other
        best_of(models[1:2], DATA, steps=2, key=0)


@pytest.mark.parametrize(
    ("history", "rising"),
    [
        (np.linspace(0.0, 1.0, 100), True),  # 40 rows: by 0.25 · 40 in 25 steps
        (np.append(np.linspace(0.0, 1.0, 50), np.ones(50)), False),
        (np.random.default_rng(0).normal(size=100), False),  # noise of minibatches
        (np.arange(10.0), False),  # too few to tell
    ],
)
def test_an_optimum_that_was_not_reached(history, rising):
    assert bool(fitting._still_rising(history, 40)) == rising


def test_stages_that_were_cut_short_are_on_the_estimator():
    model = sg.SpectralGPRegressor("phase", inference="laplace", max_iter=60, n_draws=5, **QUICK)
    whole, limited = inferring.sample_laplace, []

    def few(*arguments, **options):
        return whole(*arguments, max_products=2, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inferring, "sample_laplace", few)
        model.fit(X, DATA.y)
    limited = model.diagnostics_["cut_short"]
    assert any("the curvature was followed in 2 of" in line for line in limited)
    assert any("still rose by" in line for line in limited)  # 60 steps are few
    assert (model.diagnostics_["rows"], model.diagnostics_["approximation"]) == (40, "exact")
    assert model.diagnostics_["starts_failed"] == []


def test_they_are_in_the_summary(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting.models, "relative_jitter", lambda *_: 1e-8)
    sg.write_table(tmp_path / "data.csv", {"t": X[:, 0], "y": np.asarray(DATA.y)})
    options = ["--quick", "--kernel", "sm", "--inference", "map", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "data.csv"), *options])
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["diagnostics"]
    assert record["jitter"] == 1e-8
    assert "covariances needed jitter of 1e-08 of their variance" in done.stdout
    assert [f"cut short: {line}" in done.stdout for line in record["cut_short"]] == [True] * len(record["cut_short"])


def _judged(level, size, zero=-5.0):
    """What is said of an oscillation of this size around this level, in standardised outputs less the offset."""
    t = np.linspace(0.0, 24.0, 480)
    oscillation = size(t) * np.cos(2.0 * np.pi * t)
    record = _Stretch(t, level(t) + oscillation, np.zeros_like(t))
    return _growth(record, oscillation, "what oscillates", Shown("year", 1.0, zero))


@pytest.mark.parametrize(("power", "told"), [(0.0, False), (0.3, False), (0.7, True), (1.0, True), (2.0, True)])
def test_oscillations_that_grow_with_the_level_are_told(power, told):
    level = lambda t: -5.0 + 2.0 * np.exp(0.08 * t)  # noqa: E731  # seven times as high at the end
    said = _judged(level, lambda t: 1.4 * ((level(t) + 5.0) / 14.0) ** power)
    assert bool(said) == told
    if told:
        assert said.startswith(f"what oscillates grows with the level of the outputs (as its power {power:.2g})")


@pytest.mark.parametrize(("share", "told"), [(1.0, True), (1.05, False)])
def test_outputs_may_be_zero_but_not_negative(share, told):
    level = lambda t: -5.0 + 2.0 * np.exp(0.08 * t)  # noqa: E731
    assert bool(_judged(level, lambda t: share * (level(t) + 5.0))) == told


@pytest.mark.parametrize(
    ("level", "size", "zero"),
    [
        (lambda t: 0.01 * t, lambda t: 0.2 + 0.05 * t, -5.0),  # a level that hardly changes
        (lambda t: 0.1 * t, lambda t: 0.3 - 0.01 * t, -1.0),  # smaller where the level is higher
        (lambda t: 0.1 * t, lambda t: 0.2 + 0.02 * t, 0.0),  # outputs that are negative have no logarithm
        (lambda t: 2.0 * np.exp(0.08 * t), lambda t: 1.4 * np.exp(0.08 * t), -np.inf),  # logarithms have no zero
        (lambda t: np.cos(0.4 * t), lambda t: 0.2 + 0.02 * t, -2.0),  # both change, but not together
    ],
)
def test_other_oscillations_are_not(level, size, zero):
    assert not _judged(level, size, zero)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_what_is_left_beside_a_trend_may_grow_with_its_level(power):
    """Where nothing oscillates it is told as well: in the logarithm it may be an oscillation."""
    rng = np.random.default_rng(1)
    t = np.arange(120) / 4.0
    level = 2.0 * np.exp(0.08 * t)
    model = sg.SpectralGPRegressor(target_transform="none", random_state=0)
    model.fit(t, level + 0.1 * level**power * rng.normal(size=t.size))
    told = [sentence for sentence in model.warnings_ if "'log' fits logarithms" in sentence]
    assert len(told) == power
    assert all(sentence.startswith("what is left beside the background grows") for sentence in told)


def test_a_tone_without_noise_is_no_endless_ascent():
    """The likelihood of outputs without noise would rise without end: errors of a thousandth of the tone end it.

    The frequency is known to √6 / (π T √n) of that, 2e-5 cycles; ten times as much is allowed for its function.
    """
    t = np.linspace(0.0, 10.0, 300)
    model = sg.SpectralGPRegressor(random_state=0).fit(t, np.sin(2.0 * np.pi * 1.3 * t))
    assert model.warnings_ == []
    assert model.diagnostics_["cut_short"] == []
    np.testing.assert_allclose(model.instantaneous_frequency(t).mean, 1.3, atol=2e-4)


@pytest.mark.parametrize(
    ("count", "coverage", "r2", "expected", "said"),
    [
        (1, 0.9, 0.8, 0.8, []),
        (1, 0.9, -0.05, 0.02, []),  # phases that are lost in a block: the model says so
        (1, 0.8, -0.1, 0.6, [r"predicted no better than by their mean \(R² -0.1, where the model has 0.6\)"]),
        (0, 0.8, -0.1, 0.6, []),  # nothing oscillates
        (1, 0.5, 0.5, 0.6, ["left out in blocks 50% lie inside 90 % intervals"]),
    ],
)
def test_rows_left_out_in_blocks_that_are_not_predicted_are_told(count, coverage, r2, expected, said):
    told = _of_blocks(count, {"coverage": coverage, "r2": r2, "expected_r2": expected})
    assert len(told) == len(said)
    assert all(re.search(pattern, sentence) for pattern, sentence in zip(said, told, strict=True))


@pytest.mark.parametrize("y", [np.full(40, 3.0), np.sin(np.arange(6.0))])
def test_of_outputs_that_tell_nothing_one_thing_is_said(y):
    """Constant outputs, or six: a frequency at the end of a search that there was not would be no news."""
    model = sg.SpectralGPRegressor(random_state=0).fit(np.arange(float(len(y))), y)
    (sentence,) = model.warnings_
    assert sentence.startswith("nothing was looked for")
    mean, std = model.predict(np.arange(float(len(y))), return_std=True)
    assert np.all(np.abs(mean - y) <= 3.0 * std)


def test_a_harmonic_that_is_not_fitted_is_no_component_that_was_missed():
    t = np.arange(600) / 40.0
    found = find_initial_values(t, np.cos(2 * np.pi * 1.3 * t))
    found = dataclasses.replace(found, harmonics=np.array([8]), band=np.array([[0.05], [20.0]]))
    record = _Stretch(t, t, np.zeros(600))
    rest = 0.1 * np.cos(2 * np.pi * 7 * 1.3 * t) + 0.05 * np.random.default_rng(0).normal(size=600)
    (said,) = _of_residuals(record, rest, found, Shown("s", 1.0, 0.0))
    assert float(re.match("the residuals have a line at ([0-9.]+) Hz", said)[1]) == pytest.approx(9.1, rel=1e-3)
    assert said.endswith("of its 8 harmonics the first 6 are fitted, and what is sharp in its shape is left over")
    alone = dataclasses.replace(found, harmonics=np.array([1]))
    (said,) = _of_residuals(record, rest, alone, Shown("s", 1.0, 0.0))
    assert said.endswith("that no component explains; n_components fits more of them")


def test_frequencies_that_are_multiples_of_others():
    others = np.array([1.0, 2.003])
    assert _is_multiple(2.003, others, 20.0)
    assert not _is_multiple(2.003, others[1:], 20.0)  # of itself it is the first
    assert not _is_multiple(1.3, others, 20.0)
    assert not _is_multiple(2.003, others, 1000.0)  # three cycles apart in a longer record


@pytest.mark.parametrize(("left", "common"), [(1.0, 1.0), (5.0, 1.0), (1.37, None)])
def test_a_line_that_is_left_of_what_repeats_is_called_so(left, common):
    """Of a cycle whose strongest overtones are the components the period was told nowhere, as of loads by the hour."""
    t = np.arange(600) / 24.0
    noise = 0.05 * np.random.default_rng(0).normal(size=t.size)
    found = find_initial_values(t, np.cos(4 * np.pi * t) + noise)
    three = np.tile([[[2.0], [3.001], [4.0]]], (len(found.centres), 1, 1))
    found = dataclasses.replace(found, frequency=three, gain=np.ones(three.shape[:2]), harmonics=1, steady=True)
    rest = 0.1 * np.cos(2 * np.pi * left * t) + noise
    (said,) = _of_residuals(_Stretch(t, t, np.zeros(t.size)), rest, found, Shown("day", 1.0, 0.0))
    told = re.search(r"it and all components are multiples of ([0-9.]+) cycles per day", said)
    assert bool(told) == (common is not None)
    if told:
        assert float(told[1]) == pytest.approx(common, rel=2e-3)
