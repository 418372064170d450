"""Fits to long records: the part in which the prior is chosen, and records in which there is nothing."""

from __future__ import annotations

import equinox as eqx
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import long, markov, rungs, sudden
from spectrogp.initialise import find_initial_values


@pytest.mark.parametrize("rows", [3000, 9000])
def test_the_part_is_a_stretch_of_the_record(rows):
    """Of at most as many rows as are asked for, next to each other, with what was found in it."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, rows / 50.0, rows))
    data = sg.Data(t, np.cos(2.0 * np.pi * 5.0 * t) + 0.2 * rng.normal(size=rows))
    (part,), start = long._part(find_initial_values(data.X, data.y).alternatives()[0], (data,))
    count = min(rows, long.PART)
    first = int(np.searchsorted(t, part.X[0, 0]))
    np.testing.assert_array_equal(part.X[:, 0], t[first : first + count])
    assert part.size == start.rows == count
    assert np.all((start.centres >= part.X.min()) & (start.centres <= part.X.max()))


@pytest.fixture(scope="module")
def jumping():
    """A tone whose frequency is half as large again for one unit of thirty, and a model that was told of it."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 30.0, 900))
    omega = 5.0 * np.where(np.abs(t - 15.0) < 0.5, 1.5, 1.0)
    phase = 5.0 * t + 2.5 * np.clip(t - 14.5, 0.0, 1.0)
    data = sg.Data(t, np.cos(phase) + 0.1 * rng.normal(size=len(t)))
    frequency = sg.GridFunctionGroup(
        (0.0, 30.0), [[5.0]], shape=(1, 1), lengthscale=0.8, lengthscale_std=0.0, amplitude=0.03
    ).fitted_to(t[:, None], omega[:, None, None], 0.1)
    kernel = sg.kernels.MaternPhase(
        sg.kernels.WarpedTime(50.0), sg.kernels.IntegratedPhase(frequency), sg.Positive.around(0.7), order=0.5
    )
    model = sg.models.MarkovGP(kernel, sg.Positive.around(0.1))
    return rungs.Work(rng, None), model, data


def test_sudden_changes_are_followed(jumping):
    """A normal prior knows no jump of twelve standard deviations, unless it takes all of them for large."""
    work, model, data = jumping
    plain = rungs.climb(work, *rungs.with_lanes(model, rungs.side_by_side((data,))), rungs.LAST)
    found = sudden.with_sudden_changes(work, plain, [0])
    assert found.optimum.decrement < 0.02
    frequency = lambda rung: np.exp(rungs.frequencies(rung.model)[0].unwarped([[15.0], [10.0]]))[:, 0, 0]  # noqa: E731
    assert frequency(found)[0] == pytest.approx(7.5, rel=0.05)
    assert abs(frequency(found)[0] - 7.5) < abs(frequency(plain)[0] - 7.5)
    assert frequency(found)[1] == pytest.approx(5.0, rel=0.02)
    # Precisions are what Student's distribution expects of the knots: few are small, and those at the jump.
    precision, places = found.lanes.precision, found.lanes.places
    assert np.all(precision <= (sudden.FREEDOM + 1.0) / sudden.FREEDOM)
    assert abs(places[np.argmin(precision)] - 15.0) < 1.5
    assert np.min(precision) < 0.3 < np.median(precision)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_single_cycles_that_come_early_are_found_and_no_others(jumping, shift):
    """One of many cycles comes early, the next in time: a knot is larger and the next smaller."""
    work, model, _ = jumping
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0.0, 30.0, 900))
    phase = 5.0 * t + 2.0 * np.pi * shift * np.exp(-(((t - 15.0) / 0.5) ** 2))
    data = sg.Data(t, np.cos(phase) + 0.1 * rng.normal(size=len(t)))
    level = eqx.tree_at(lambda m: m.kernel.phase.frequency.whitened.raw, model, replace_fn=np.zeros_like)
    rung = rungs.climb(work, *rungs.with_lanes(level, rungs.side_by_side((data,))), 0)
    numbers = sudden.with_shifts(rung, [0])
    moved = np.flatnonzero(numbers - rung.optimum.numbers)
    if not shift:
        assert not len(moved)
        return
    assert np.all(np.abs(rung.lanes.places[moved] - 15.0) < 1.2)
    before, after = (rung.lanes.log_likelihoods(v)[0][0] for v in (rung.optimum.numbers, numbers))
    assert after > before + 50.0  # nats; Student's distribution takes back twenty of them
    turned = np.ravel(rung.lanes.at(numbers).kernel.phase(np.array([[13.0], [15.0], [17.0]])))
    assert turned[1] - turned[0] - 10.0 == pytest.approx(2.0 * np.pi * shift, rel=0.5)
    assert abs(turned[2] - turned[0] - 20.0) < 0.8  # back but for a little: it is the logarithm that rises and falls


def test_a_model_follows_the_frequencies_of_another(jumping):
    _, model, data = jumping
    other = eqx.tree_at(
        lambda m: m.kernel.phase.frequency,
        model,
        sg.GridFunctionGroup((0.0, 30.0), [[4.0]], shape=(1, 1), lengthscale=0.4, lengthscale_std=0.0, amplitude=0.3),
    )
    start = find_initial_values(data.X, data.y)
    x = np.linspace(0.5, 29.5, 200)[:, None]
    seen = [rungs.frequencies(m)[0].unwarped(x) for m in (model, rungs.following(other, model, start))]
    np.testing.assert_allclose(seen[1], seen[0], atol=0.01)


def test_a_long_record_of_noise_is_fitted_to_some_rows(monkeypatch):
    monkeypatch.setattr(markov, "SHORT", 60)
    rng = np.random.default_rng(0)
    model = sg.SpectralGPRegressor(inference="map", n_starts=1, random_state=0)
    model.fit(np.sort(rng.uniform(0.0, 1.0, 100)), rng.normal(size=100))
    assert not np.any(model.initial_values_.found)
    assert (
        "optimum: nothing significant was found, and 60 of 100 rows were fitted to" in model.diagnostics_["cut_short"]
    )
    assert len(model.data_.y) == 100  # predictions have all of them


def test_draws_of_rungs_with_fewer_knots_are_lengthened_beyond_the_data():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 50)[:, None]
    few, many = (
        sg.GridFunctionGroup((0.0, 10.0), 1.0, lengthscale=1.0, lengthscale_std=0.0, knots=knots) for knots in (24, 40)
    )
    draws = rng.normal(size=(3, 24, 1)), rng.normal(size=(2, 40, 1))
    joined = markov._joined(draws, rng)
    assert joined.shape == (5, 40, 1)
    np.testing.assert_array_equal(joined[3:], draws[1])
    assert 0.5 < np.std(joined[:3, 24:]) < 1.5  # as the prior has it
    at = lambda group, v: eqx.tree_at(lambda g: g.whitened.raw, group, v)(x)  # noqa: E731
    for before, after in zip(draws[0], joined, strict=False):
        np.testing.assert_allclose(at(many, after), at(few, before), rtol=1e-6)
