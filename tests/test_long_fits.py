"""Fits to long records: the part in which the prior is chosen, and records in which there is nothing."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import long, markov, mixture, rungs
from spectrogp.inference import CONVERGED, Optimum
from spectrogp.initialise import find_initial_values, markov_from


def record(rows):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, rows / 50.0, rows))
    data = sg.Data(t, np.cos(2.0 * np.pi * 5.0 * t) + 0.2 * rng.normal(size=rows))
    return data, find_initial_values(data.X, data.y).alternatives()[0]


def test_the_part_of_a_record_that_is_short_is_all_of_it():
    data, start = record(3000)
    part, same = long._part(start, (data,), 1.0)
    assert part == (data,)
    assert same is start


def test_the_part_of_a_long_record_is_a_stretch_of_it():
    data, start = record(9000)
    (part,), few = long._part(start, (data,), 2.0)
    first = int(np.searchsorted(np.asarray(data.y)[np.argsort(data.y)], part.y[0]))
    first = int(np.argsort(data.y)[first])
    rows = slice(first, first + long.PART)
    assert part.size == few.rows == long.PART
    np.testing.assert_array_equal(part.y, np.asarray(data.y)[rows])
    np.testing.assert_allclose(np.diff(part.X[:, 0]), np.diff(np.asarray(data.X)[rows, 0]), atol=1e-12)


def test_the_part_of_pulses_is_made_of_stretches():
    """Rows next to each other in each of them, from all over the record, with what was found there; moved together."""
    data, start = record(9000)
    start = dataclasses.replace(start, harmonics=np.array([6]))
    t, y = np.asarray(data.X)[:, 0], np.asarray(data.y)
    (part,), few = long._part(start, (data,), 2.0)
    assert part.size == few.rows == long.PART
    rows = np.searchsorted(y[np.argsort(y)], part.y)
    rows = np.argsort(y)[rows]  # by their outputs, which are all different
    ends = np.flatnonzero(np.diff(rows) != 1)
    np.testing.assert_array_equal(ends, np.arange(1, long.STRETCHES) * long.PART // long.STRETCHES - 1)
    assert rows[0] < 0.2 * len(t) < 0.8 * len(t) < rows[-1]
    moves = part.X[:, 0] - t[rows]
    steps = np.flatnonzero(np.abs(np.diff(moves)) > 1e-9)
    np.testing.assert_array_equal(steps, ends)
    np.testing.assert_allclose(np.diff(part.X[:, 0])[ends], 2.0)
    # What was found keeps its place among the rows.
    at = np.interp(few.centres[:, 0], part.X[:, 0], t[rows])
    place = np.searchsorted(start.centres[:, 0], at - 1e-9)
    np.testing.assert_allclose(start.centres[place, 0], at, atol=1e-9)
    np.testing.assert_array_equal(few.frequency, start.frequency[place])
    np.testing.assert_array_equal(few.extent[:, 0], part.X[[0, -1], 0])


def test_a_long_record_of_noise_is_fitted_to_some_rows(monkeypatch):
    monkeypatch.setattr(markov, "SHORT", (60, 60))
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
    joined = mixture._joined(draws, rng)
    assert joined.shape == (5, 40, 1)
    np.testing.assert_array_equal(joined[3:], draws[1])
    assert 0.5 < np.std(joined[:3, 24:]) < 1.5  # as the prior has it
    at = lambda group, v: eqx.tree_at(lambda g: g.whitened.raw, group, v)(x)  # noqa: E731
    for before, after in zip(draws[0], joined, strict=False):
        np.testing.assert_allclose(at(many, after), at(few, before), rtol=1e-6)


def test_a_fit_without_any_evidence_ends(monkeypatch):
    """Where no candidate has come to an optimum the likeliest of them is the fit."""
    monkeypatch.setattr(Optimum, "evidence", property(lambda self: -np.inf))
    t = np.linspace(0.0, 1.0, 80)
    y = np.cos(2.0 * np.pi * 6.0 * t) + 0.1 * np.random.default_rng(0).normal(size=t.size)
    assert sg.SpectralGPRegressor(n_components=1, n_starts=1, random_state=0).fit(t, y).score(t, y) > 0.9


def test_a_background_that_is_left_out_at_first_is_noise_until_then():
    """Red noise of a few rows, three times as strong as the noise: a search that began with the noise alone began
    millions of nats too low, and stepped to where densities overflow."""
    _, start = record(300)
    left = {"background_amplitude": [0.3], "background_lengthscale": [[1e-3]], "background_order": [0.5]}
    start = dataclasses.replace(
        start, noise=0.1, steady=False, **{name: np.array(value) for name, value in left.items()}
    )
    chosen, doubtful = markov._without_doubtful_background(start)
    assert (len(chosen.background_order), len(doubtful.background_order)) == (0, 1)
    np.testing.assert_allclose((chosen.noise, doubtful.noise), (np.hypot(0.1, 0.3), 0.1))


def test_a_chirp_in_blocks_comes_to_its_optimum():
    """Knots beyond the ends of the record change it by less than a hundredth, and its phase by much: where no block
    felt them a step moved them forty standard deviations of the prior, and no damping of the blocks held it."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 100.0, 2000))
    y = np.cos(2.0 * np.pi * (t + 0.75 * t**2 / 100.0)) + 0.2 * rng.normal(size=t.size)
    data, start = sg.Data(t, y), find_initial_values(t, y)
    model = markov_from(start, 12.0, long=True)
    lanes, model = rungs.with_lanes(model, rungs.side_by_side((data,), own=500, warm_up=160))
    assert lanes.count == 4
    work = rungs.Work(rng, None)
    found = rungs.approach(work, lanes, rungs.with_likely_noise(lanes, model), rungs.LAST)
    assert found.optimum.decrement < CONVERGED
    frequency = np.exp(rungs.frequencies(found.model)[0].unwarped(t[:, None]))[:, 0, 0] / (2.0 * np.pi)
    assert np.median(np.abs(frequency / (1.0 + 1.5 * t / 100.0) - 1.0)) < 1e-3


def test_noise_that_means_of_rows_hide_is_told_beside_a_strong_signal():
    """First differences of these rows have twenty times as much of the signal in them as of the noise."""
    t = np.arange(1200.0)
    signal = 5.0 * np.cos(2.0 * np.pi * t / 24.0) + 1.5 * np.cos(2.0 * np.pi * t / 10.0)
    y = signal + 0.2 * np.random.default_rng(0).normal(size=t.size)
    means, hidden = markov._means(sg.Data(t, y), np.arange(1200).reshape(600, 2))
    np.testing.assert_allclose(means.y, 0.5 * (y[::2] + y[1::2]))
    # Mean squares of fourth differences have a standard deviation of 7 % here; 0.9 % are left of the signal.
    assert hidden == pytest.approx(0.5 * 0.2**2, rel=0.2)
    _, known = markov._means(sg.Data(t, y, np.full(t.size, 0.3)), np.arange(1200).reshape(600, 2))
    assert known == 0.0  # the errors are more than there is
