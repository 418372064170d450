"""What fits cost, and that it ends: work that is counted, starts that are sensible, lines with few knots."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import markov, mixture, rungs
from spectrogp.inference import newton
from spectrogp.initialise import find_initial_values, markov_from
from spectrogp.models import Data, Lanes, Timeline, grid_groups


@pytest.fixture(scope="module")
def chirp():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 10.0, 200))
    data = Data(t, np.cos(2.0 * np.pi * (2.0 * t + 0.5 * np.sin(t))) + 0.2 * rng.normal(size=200))
    initial = find_initial_values(data.X, data.y)
    return data, initial, markov_from(initial, 0.7 * float(initial.scale[0]))


def test_a_search_without_work_left_takes_no_step_but_knows_its_end(chirp):
    data, _, model = chirp
    lanes = Lanes(model, Timeline.of(data))
    found = newton(lanes, lanes.join(model), most=0.0)
    assert len(found.history) == 1
    assert np.all(found.curvature.sure)
    before = lanes.work
    lanes.log_likelihoods(found.numbers)
    assert lanes.work - before == lanes.width * 200 * (2 + 2) ** 2  # one component is two oscillators
    again = newton(lanes, lanes.join(model), most=2.0 * before)
    assert 1 < len(again.history) <= len(newton(lanes, lanes.join(model)).history)


def test_a_fit_without_work_left_ends_and_says_so(chirp, monkeypatch):
    data = chirp[0]
    monkeypatch.setattr(markov, "LEFT", 1.0)
    monkeypatch.setattr(markov, "LEFT_A_ROW", 1.0)
    model = sg.SpectralGPRegressor(random_state=0).fit(data.X, data.y)
    assert any("as much work as a fit" in said for said in model.diagnostics_["cut_short"])
    assert np.all(np.isfinite(model.instantaneous_frequency(data.X).mean))


def test_a_search_begins_with_the_likeliest_noise(chirp):
    data, initial, _ = chirp
    model = markov_from(dataclasses.replace(initial, noise=1e-3 * initial.noise), 0.7 * float(initial.scale[0]))
    lanes = Lanes(model, Timeline.of(data))
    begun = rungs.with_likely_noise(lanes, model)
    place = lanes.number_of(lambda m: m.likelihood.noise.raw)
    before, after = lanes.join(model), lanes.join(begun)
    np.testing.assert_array_equal(np.delete(before, place), np.delete(after, place))

    def density(factor: float) -> float:
        numbers = before.copy()
        numbers[place] += np.log(factor)
        return lanes.total(*lanes.log_likelihoods(numbers), numbers)[0]

    densities = [density(factor) for factor in rungs.LARGER]
    assert after[place] - before[place] == pytest.approx(np.log(rungs.LARGER[np.argmax(densities)]))
    assert after[place] > before[place]


def test_functions_of_lines_vary_over_the_whole_record(chirp):
    """However long it is and whatever changes beside it; others have as many knots as their smoothness asks for."""
    _, initial, _ = chirp
    both = dataclasses.replace(
        initial,
        **{
            name: np.repeat(getattr(initial, name), 2, axis=1)
            for name in ("frequency", "amplitude", "lengthscale", "gain")
        },
        harmonics=np.ones(2, int),
        steady=np.array([False, True]),
    )
    counts = [
        [len(group.whitened.raw) for group in grid_groups(markov_from(both, smoothness, long=True))]
        for smoothness in (0.5, 0.05)
    ]
    changing, lines = np.array([count[:3] for count in counts]), np.array([count[3:] for count in counts])
    np.testing.assert_array_equal(lines[0], lines[1])
    assert np.max(lines) < 50 < changing[1].max()
    assert changing[1].max() > changing[0].max()
    alone = dataclasses.replace(both, steady=np.ones(2, bool))
    assert len(alone.ridges()) == 1


def test_rows_that_warm_up_tell_nothing():
    """What the rows of a block tell is the information of its own rows."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 20.0, 240))
    data = Data(t, np.cos(2.0 * np.pi * (2.0 * t + 0.5 * np.sin(t))) + 0.2 * rng.normal(size=240))
    # Not in the first cell of the grids, where a stretch has no node before (tests/test_grid_functions.py).
    initial = dataclasses.replace(find_initial_values(data.X, data.y), extent=np.array([[-3.0], [23.0]]))
    model = markov_from(initial, 3.0)
    lanes = Lanes(model, Timeline.of(data, own=80, warm_up=80))
    told = lanes.information(lanes.join(model))
    assert lanes.count == 3
    silent = dataclasses.replace(lanes.timeline, weight=np.zeros_like(lanes.timeline.weight))
    np.testing.assert_array_equal(Lanes(model, silent).information(lanes.join(model)), 0.0)
    some = lanes.information(lanes.join(model), np.array([2, 0]))
    np.testing.assert_array_equal(some, told[[2, 0]])
    # A block without a warm-up is a record of its own rows.
    first = Lanes(model, Timeline.of(Data(t[:80], data.y[:80])))
    alone = np.zeros((lanes.join(model).size,) * 2)
    alone[np.ix_(first.members[0], first.members[0])] = first.information(first.join(model))[0]
    own = alone[np.ix_(lanes.members[0], lanes.members[0])]
    # The record feels no knots beyond its ends (tests/test_grid_functions.py).
    felt = np.zeros(len(alone), bool)
    felt[first.members[0]] = first.felt[0]
    felt = felt[lanes.members[0]] & lanes.felt[0]
    both = felt[:, None] & felt
    np.testing.assert_allclose(told[0][both], own[both], atol=1e-6 * np.max(own))


def test_draws_lie_to_both_sides_of_the_optimum(chirp):
    """Their mean is the optimum to rounding, not to the error of so few draws."""
    data, _, model = chirp
    work = rungs.Work(np.random.default_rng(0), None)
    rung = rungs.climb(work, Lanes(model, Timeline.of(data)), model, 25)
    drawn = mixture.mixture([rung], 10, work)
    optimum = mixture._stack(rung, rung.optimum.numbers[None])
    assert drawn.log_joint.shape == (1, 10)
    varied = 0
    for draws, same in zip(jax.tree.leaves(drawn.draws), jax.tree.leaves(optimum), strict=True):
        np.testing.assert_allclose(draws.mean(axis=1), same, atol=1e-9)
        # Any even spacing that divides the draws keeps pairs together: one is half of them after the other.
        pairs = 0.5 * (draws[:, :5] + draws[:, 5:])
        np.testing.assert_allclose(pairs, np.broadcast_to(same[:, None], pairs.shape), atol=1e-9)
        varied += np.count_nonzero(np.std(draws, axis=1) > 1e-6)
    assert varied == rung.optimum.numbers.size - 1  # the offset is subtracted from the outputs
