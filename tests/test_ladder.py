"""The ladder of models for several inputs: what it begins with, keeps, records and predicts."""

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import ladder
from spectrogp.estimator.choice import gain_of
from spectrogp.estimator.ladder import _Rows, _told
from spectrogp.initialise import (
    Cycle,
    Places,
    amplitudes_from,
    convolutional_from,
    find_initial_values,
    further_scales,
    noise_function,
    quadratic_from,
    smooth_kernel,
    with_cycles,
)
from spectrogp.parameters import Positive

FAST = {"max_iter": 60, "n_knots": 6, "n_neighbours": 8, "n_draws": 20, "random_state": 0}


def rows(n, seed=0):
    """A smooth function of the first of three inputs, the third of which is constant."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-2.0, 2.0, (n, 2)), np.full(n, 7.0)])
    return X, np.sin(2.0 * X[:, 0]), rng


# Rungs begin where the one before them ended


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 2.0, 0.0]  # the last is constant


def test_lengthscales_as_functions_begin_as_the_squared_exponential(inputs):
    kernel = smooth_kernel(3)
    places = Places.of(kernel, inputs, 5, 0)
    rich = quadratic_from(kernel, places)
    np.testing.assert_allclose(rich(inputs), kernel(inputs), rtol=1e-10)
    np.testing.assert_allclose(noise_function(Positive(0.3), places)(inputs), 0.3, rtol=1e-12)


def test_cycles_are_added_as_waves_along_their_input(inputs):
    kernel = smooth_kernel(3)
    both = with_cycles(kernel, [Cycle(1, 0.7, 0.4, 10.0)], inputs)
    lag = inputs[:, None] - inputs
    lengthscale = np.array([2.0 * np.sqrt(3.0), 1.5 * np.ptp(inputs[:, 1]), 2.0 * np.sqrt(3.0)])
    wave = 0.4**2 * np.exp(-0.5 * np.sum((lag / lengthscale) ** 2, axis=-1)) * np.cos(2.0 * np.pi * 0.7 * lag[..., 1])
    np.testing.assert_allclose(both(inputs), kernel(inputs) + wave, rtol=1e-9, atol=1e-12)
    # The functions of what follows reach as far along the inputs as without the cycle.
    for one, other in zip(Places.of(both, inputs, 5, 0), Places.of(kernel, inputs, 5, 0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_functions_reach_as_far_as_the_inputs_scatter(inputs):
    places = Places.of(smooth_kernel(3), inputs, 5, 0)
    assert np.sum(inputs.var(axis=0) / places.lengthscale**2) == pytest.approx(1.0)
    assert places.Z.shape == (5, 3)


def test_further_scales_share_the_variance(inputs):
    """All lengthscales shorter, all longer, and long along the second input, the only one that spreads beyond them."""
    kernel = sg.kernels.SquaredExponential(Positive([1.5, 1.0, 1.0]), Positive(2.0))
    square = (inputs[:, None] - inputs) ** 2
    long = 3.0 * inputs[:, 1].std()
    begun = [np.array([0.5, 1 / 3, 1 / 3]), np.array([4.5, 3.0, 3.0]), np.array([1.5, long, 1.0])]
    found = further_scales(kernel, inputs)
    assert len(found) == len(begun)
    for one, lengthscale in zip(found, begun, strict=True):
        further = 4.0 * np.exp(-0.5 * np.sum(square / lengthscale**2, axis=-1))
        np.testing.assert_allclose(one(inputs), 0.7 * kernel(inputs) + 0.3 * further, rtol=1e-9, atol=1e-12)
    third = further_scales(found[0], inputs)[0]
    np.testing.assert_allclose(np.diagonal(third(inputs)), 4.0, rtol=1e-10)


def test_amplitudes_as_functions_begin_as_they_are(inputs):
    smooth = further_scales(smooth_kernel(3), inputs)[0]
    for kernel in (smooth_kernel(3), smooth, with_cycles(smooth, [Cycle(1, 0.7, 0.4, 10.0)], inputs)):
        places = Places.of(kernel, inputs, 5, 0)
        varying = amplitudes_from(kernel, places)
        np.testing.assert_allclose(varying(inputs), kernel(inputs), rtol=1e-9, atol=1e-12)
        # Functions that are there already stay as they are.
        np.testing.assert_array_equal(amplitudes_from(varying, places)(inputs), varying(inputs))


def test_convolutional_components_begin_at_the_scales(inputs):
    """Frequencies of a fifth of a radian a lengthscale turn what is correlated by little."""
    kernel = further_scales(further_scales(smooth_kernel(3), inputs)[0], inputs)[1]
    initial = find_initial_values(inputs, np.sin(inputs[:, 0]), components=1, max_components=1)
    rich = convolutional_from(kernel, initial, Places.of(kernel, inputs, 5, 0), None, 0)
    np.testing.assert_allclose(np.diagonal(rich(inputs)), np.diagonal(kernel(inputs)), rtol=1e-9)
    np.testing.assert_allclose(rich(inputs), kernel(inputs), atol=0.1)


def test_places_are_few_along_inputs_where_functions_reach_far():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 2))
    places = Places.spread(X, np.array([0.2, 20.0]), 16, 0)
    assert places.Z.shape == (16, 2)
    np.testing.assert_allclose(places.lengthscale, [0.2, 20.0])
    assert np.ptp(places.Z[:, 0]) > 1.7
    assert np.ptp(places.Z[:, 1]) < 0.4  # means of many rows


def test_functions_have_a_row_for_every_value(inputs):
    """Lengthscales of three inputs and an amplitude at five places are twenty values."""
    kernel = quadratic_from(smooth_kernel(3), Places.of(smooth_kernel(3), inputs, 5, 0))
    none = np.empty(0, int)
    assert _told(kernel, _Rows(None, none, np.arange(20), 5, 20))
    assert not _told(kernel, _Rows(None, none, np.arange(19), 5, 19))
    assert _told(smooth_kernel(3), _Rows(None, none, none, 5, 0))


def test_a_gain_is_judged_row_by_row():
    """The rows differ much more from each other than the two models do: 1 ± 0.1, not 1 ± 10."""
    rng = np.random.default_rng(0)
    before = 100.0 * rng.normal(size=400)
    gain, error = gain_of(before + 1.0 + 2.0 * rng.normal(size=400), before)
    assert gain == pytest.approx(1.0, abs=0.4)
    assert error == pytest.approx(0.1, rel=0.1)


def test_predictions_by_neighbours_warn_far_out():
    """The rows of the fit are held by neighbourhoods there."""
    X, signal, _ = rows(60)
    model = sg.SpectralGPRegressor("se", inference="map", approximation="neighbours", max_iter=2, n_neighbours=5)
    model.fit(X[:, :2], signal)
    assert model.predict(X[:3, :2]).shape == (3,)
    with pytest.warns(UserWarning, match="beyond them"):
        model.predict([[30.0, 0.0]])


# The whole ladder


@pytest.fixture(scope="module")
def smooth():
    X, signal, rng = rows(400)
    return X, signal, sg.SpectralGPRegressor(**FAST).fit(X, signal + 0.1 * rng.normal(size=len(X)))


@pytest.mark.slow
def test_a_smooth_function_needs_the_first_rung_only(smooth):
    _, _, model = smooth
    kept = {rung.name: rung.kept for rung in model.choice_.rungs}
    assert kept["squared exponential"]
    assert not kept["lengthscales, frequencies and amplitudes as functions"]
    assert model.choice_.held_out == 80
    assert model.choice_.cycles == ()
    assert model.n_iter_ == model.choice_.rungs[0].steps  # no steps that held-out rows have not judged


@pytest.mark.slow
def test_the_gain_of_a_rung_is_that_over_the_one_kept_before_it(smooth):
    _, _, model = smooth
    kept = None
    names = [rung.name for rung in model.choice_.rungs]
    last = names.index("tails, by rows left out in turn")
    tails, models = model.choice_.rungs[last], model.choice_.rungs[:last]
    assert tails.kept == (tails.gain > -tails.error)  # of all rows, unlike the others
    for rung in models:
        if kept is not None:
            assert rung.gain == pytest.approx(rung.density - kept, abs=1e-12)
            assert rung.kept == (rung.gain > rung.error)
        kept = rung.density if rung.kept else kept
        assert rung.steps <= FAST["max_iter"]


@pytest.mark.slow
def test_inputs_that_do_not_matter_are_switched_off(smooth):
    X, signal, model = smooth
    lengthscale = np.exp(np.asarray(model.model_.kernel.lengthscale.raw))
    assert lengthscale[1] > 3.0 * lengthscale[0]
    moved = X * [1.0, 0.0, 1.0]
    np.testing.assert_allclose(model.predict(moved), signal, atol=0.15)


@pytest.mark.slow
def test_predictions_are_calibrated(smooth):
    X, signal, model = smooth
    rng = np.random.default_rng(1)
    mean, std = model.predict(X, return_std=True)
    assert np.sqrt(np.mean((mean - signal) ** 2)) < 0.06  # noise of 0.1 in 400 rows
    inside = np.abs(signal + 0.1 * rng.normal(size=len(X)) - mean) < 1.96 * std
    assert 0.88 < np.mean(inside) <= 1.0


@pytest.mark.slow
def test_the_summary_and_a_file_hold_the_choice(smooth, tmp_path):
    _, _, model = smooth
    assert "held-out training rows" in model.summary()
    assert "squared exponential" in model.summary()
    model.save(tmp_path / "model")
    assert sg.load(tmp_path / "model").choice_ == model.choice_


@pytest.mark.slow
def test_noise_that_grows_is_found():
    X, signal, rng = rows(600)
    noise = 0.05 * np.exp(0.8 * X[:, 0])
    model = sg.SpectralGPRegressor(**FAST, inference="map").fit(X, signal + noise * rng.normal(size=len(X)))
    kept = {rung.name: rung for rung in model.choice_.rungs}["noise as a function"]
    assert kept.kept
    assert kept.gain > 0.1  # the mean of log σ(x) lies 0.3 below the logarithm of its root mean square
    _, std = model.predict(X, return_std=True)
    assert np.mean(std[X[:, 0] > 1.0]) > 4.0 * np.mean(std[X[:, 0] < -1.0])


@pytest.mark.slow
def test_a_cycle_is_found_in_units_of_its_input():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1.0, 1.0, 600), rng.uniform(0.0, 40.0, 600)])
    y = X[:, 0] + np.cos(2.0 * np.pi * X[:, 1]) + 0.2 * rng.normal(size=600)
    model = sg.SpectralGPRegressor(**FAST, inference="map").fit(X[:500], y[:500])
    assert [axis for axis, _ in model.choice_.cycles][:1] == [1]
    assert model.choice_.cycles[0][1] == pytest.approx(1.0, abs=0.003)  # a tenth of 1/40
    assert {rung.name: rung.kept for rung in model.choice_.rungs}["cycles"]
    assert model.score(X[500:], y[500:]) > 0.85  # of 0.95 that the noise leaves


@pytest.mark.slow
def test_large_data_predict_from_the_optimum_and_say_so():
    """Draws of the functions stay for bands; predictions are those of ``inference="map"``, to the last digit.

    They are those of the last three stages together.
    """
    X, signal, rng = rows(2100)
    y = signal + 0.1 * rng.normal(size=len(X))
    quick = FAST | {"max_iter": 10}
    models = [sg.SpectralGPRegressor(**quick, inference=name).fit(X, y) for name in ("laplace", "map")]
    densities = [model.log_predictive_density(X[:50], y[:50]) for model in models]
    np.testing.assert_array_equal(*densities)
    assert "predictions are averaged over the last optima of the fit" in models[0].summary()
    assert models[0].posterior_.log_joint.size == FAST["n_draws"]
    averaged = models[0].averaged_
    new = models[0]._inputs(X[:50])
    given = averaged.most_probable().prepare(models[0].data_, new)  # one set of neighbours for all
    each = [averaged.at(0, k).predict(given, new).mean for k in range(3)]
    mean = models[0].y_mean_ + models[0].y_scale_ * np.mean(each, axis=0)
    np.testing.assert_allclose(models[0].predict(X[:50]), mean, rtol=1e-6)


# Rows that are held out, and rows that count less


def some_rows(n, held, seed=0):
    """A smooth function of two inputs with noise of 0.1, its rows with one far out, and a model of it."""
    X, signal, rng = rows(n, seed)
    y = signal + 0.1 * rng.normal(size=n)
    y[n - 1] += 2.0
    data = sg.Data(X[:, :2], y)
    model = sg.models.NeighbourGP(sg.kernels.SquaredExponential(Positive([0.7, 3.0]), Positive(1.0)), Positive(0.1))
    return _Rows(data, np.arange(held), np.arange(held, n), 10, n - held), model


def test_rows_far_out_get_wider_error_bars():
    """By one step of EM from their predictions by all others, here by the exact process."""
    some, model = some_rows(60, 12)
    some = some._replace(m=47)  # all others
    wider = np.asarray(some.wary(model, 3.0).data.error)
    assert np.all(wider[:12] == 0.0)
    X, y = (np.asarray(part)[12:] for part in (some.data.X, some.data.y))
    inverse = np.linalg.inv(model.realise().kernel(X) + 0.01 * np.eye(48))
    variance = 1.0 / np.diagonal(inverse)  # of each row given the others (Rasmussen & Williams, Eq. 5.12)
    rest = inverse @ y * variance
    f = variance - 0.01
    expected = (0.01 / variance * rest) ** 2 + 0.01 * f / variance
    np.testing.assert_allclose(wider[12:] ** 2, np.maximum(expected - 0.03, 0.0) / 4.0, rtol=1e-6, atol=1e-12)
    assert wider[-1] > 0.5


def test_rows_far_out_pull_their_neighbours_less():
    some, model = some_rows(300, 60)
    wary = some.wary(model, 3.0)
    there = np.asarray(some.data.X)[-1:]
    truth = np.sin(2.0 * there[0, 0])
    off = [abs(float(model.predict(one._given(model, there, 10), there).mean[0]) - truth) for one in (some, wary)]
    assert off[1] < 0.5 * off[0]


def test_rows_of_few_are_predicted_by_all_others():
    """In closed form what a prediction of each row by the exact process of the others gives."""
    some, model = some_rows(40, 8)
    apart, std = some.apart_by_others(model)
    exact = sg.models.ExactGP(model.kernel, model.likelihood)
    for k, row in enumerate(some.order[:5]):
        others = some.data.rows(np.delete(some.order, k))
        found = exact.predict_output(others, some.data.X[row : row + 1])
        np.testing.assert_allclose(std[k] ** 2, found.variance[0], rtol=1e-8)
        np.testing.assert_allclose(apart[k] * std[k], some.data.y[row] - found.mean[0], rtol=1e-8)


def test_what_is_too_sure_of_the_rows_of_the_fit_is_told():
    some, model = some_rows(60, 12)
    sure = sg.models.NeighbourGP(model.kernel, Positive(0.02))
    assert some.surer(sure, model)
    assert not some.surer(model, sure)


@pytest.mark.slow
def test_tails_of_few_rows_are_found():
    """Of 160 rows with Student-t noise of three degrees of freedom 32 are held out, too few to tell."""
    X, signal, rng = rows(160)
    y = signal + 0.1 * rng.standard_t(3.0, size=len(X))
    model = sg.SpectralGPRegressor(**FAST, inference="map").fit(X, y)
    assert {rung.name: rung.kept for rung in model.choice_.rungs}["tails, by rows left out in turn"]
    assert model.model_.likelihood.freedom < 10.0
    fresh = rng.uniform(-2.0, 2.0, (2000, 3)) * [1.0, 1.0, 0.0] + [0.0, 0.0, 7.0]
    outputs = np.sin(2.0 * fresh[:, 0]) + 0.1 * rng.standard_t(3.0, size=len(fresh))
    _, lower, upper = model.predict(fresh, interval=0.9)
    assert 0.85 < np.mean((lower < outputs) & (outputs < upper)) < 0.95


def test_every_row_is_a_target_at_times(monkeypatch):
    monkeypatch.setattr(ladder, "ALL", 10)
    some, model = some_rows(60, 12)
    rng = np.random.default_rng(0)
    targets = [np.asarray(some.near(model, rng).members)[:, -1] for _ in range(12)]
    assert all(len(one) == 24 for one in targets)  # those of the later half of an order
    assert set(np.concatenate(targets)) == set(some.order)
