"""The estimator as a part of scikit-learn: its own checks, and pipelines, searches and frames around it."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_subset_invariance,
    parametrize_with_checks,
)

import spectrogp as sg
from spectrogp.initialise import find_initial_values, kernel_from, noise_from
from spectrogp.models import ExactGP

pytestmark = pytest.mark.usefixtures("compile_quickly")

FAST = {"inference": "map", "n_starts": 1, "n_components": 1, "max_iter": 10, "n_knots": 4, "random_state": 0}
# The checks are of the interface, with many shapes of data: a ladder of models would compile programs for each of them.
ONE_KERNEL = FAST | {"kernel": "convolutional"}


def expected_failures(estimator):
    return {
        "check_fit1d": "one input may be given as a list of numbers or times, on purpose: signals come as such",
        "check_estimators_nan_inf": "fit leaves rows with missing values out, with a warning; predict refuses them",
    }


@pytest.mark.slow
@parametrize_with_checks([sg.SpectralGPRegressor(**ONE_KERNEL)], expected_failed_checks=expected_failures)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        check_fit_idempotent,
        pytest.param(check_methods_subset_invariance, marks=pytest.mark.slow),
        pytest.param(check_estimators_pickle, marks=pytest.mark.slow),
    ],
    ids=lambda f: f.__name__,
)
def test_checks_of_scikit_learn_with_a_posterior(check):
    """Those that could tell the way of inference, which by default has a posterior."""
    settings = {name: value for name, value in FAST.items() if name not in ("inference", "n_starts")}
    check("SpectralGPRegressor", sg.SpectralGPRegressor(**settings, n_draws=10))


@pytest.mark.slow
def test_names_of_columns_are_kept_and_compared():
    pytest.importorskip("pandas")
    check_dataframe_column_names_consistency("SpectralGPRegressor", sg.SpectralGPRegressor(**ONE_KERNEL))


@pytest.fixture(scope="module")
def tone():
    """1.5 cycles per unit, noise 0.1, 32 rows in random order: folds of a search have 16 each."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0.0, 4.0, 32)
    return t[:, None], np.cos(2 * np.pi * 1.5 * t) + 0.1 * rng.normal(size=32)


@pytest.mark.slow
def test_a_pipeline_that_standardises_first_changes_nothing(tone):
    X, y = tone
    alone = sg.SpectralGPRegressor(**FAST).fit(X, y)
    pipeline = make_pipeline(StandardScaler(), sg.SpectralGPRegressor())
    pipeline.set_params(**{f"spectralgpregressor__{name}": value for name, value in FAST.items()}).fit(X, y)
    np.testing.assert_allclose(
        pipeline.predict(X), alone.predict(X), rtol=1e-6, atol=1e-7
    )  # some are near zero, all of size one
    assert pipeline.score(X, y) > 0.9


@pytest.mark.slow
def test_a_search_over_kernels_finds_the_one_for_tones(tone):
    X, y = tone
    search = GridSearchCV(sg.SpectralGPRegressor(**FAST), {"kernel": ["se", "phase"]}, cv=2, error_score="raise")
    search.fit(X, y)
    scores = dict(zip(("se", "phase"), search.cv_results_["mean_test_score"], strict=True))
    assert search.best_params_ == {"kernel": "phase"}
    assert scores["phase"] > scores["se"] + 0.2  # 16 rows are four to a cycle: too few for a smooth kernel
    again = cross_val_score(sg.SpectralGPRegressor(**FAST, kernel="phase"), X, y, cv=2)
    np.testing.assert_allclose(np.mean(again), scores["phase"], rtol=1e-9)
    assert search.best_estimator_.score(X, y) > 0.9


@pytest.mark.parametrize("d", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_plane_waves_in_several_dimensions(d):
    """A wave of one and a half cycles over each input, from 80 rows with noise of a seventh of its deviation."""
    rng = np.random.default_rng(d)
    X = rng.uniform(-1.0, 1.0, size=(160, d))
    signal = np.cos(2 * np.pi * 0.75 * X.sum(axis=1) / np.sqrt(d))
    y = signal + 0.1 * rng.normal(size=160)
    model = sg.SpectralGPRegressor(**FAST | {"max_iter": 30, "n_components": None}).fit(X[:80], y[:80])
    mean, std = model.predict(X[80:], return_std=True)
    assert np.sqrt(np.mean((mean - signal[80:]) ** 2)) < 0.2
    assert np.mean(np.abs(mean - y[80:]) < 1.96 * std) > 0.8


@pytest.mark.parametrize(("name", "d"), [("se", 1), ("phase", 1), ("hmk", 1), ("convolutional", 2)])
def test_other_data_of_the_same_shape_need_no_compilation(name, d):
    """Folds and repetitions share programs: what comes from the data is in arrays, not in constants of programs."""

    def constants(seed):
        rng = np.random.default_rng(seed)
        initial = find_initial_values(rng.normal(size=(20, d)), rng.normal(size=20), components=1)
        model = ExactGP(kernel_from(initial, name, n_knots=4), noise_from(initial))
        return jax.tree.leaves(eqx.filter(model, eqx.is_array, inverse=True))

    assert constants(0) == constants(1)
