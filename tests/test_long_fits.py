"""Fits to long records: the part in which the prior is chosen, and records in which there is nothing."""

from __future__ import annotations

import equinox as eqx
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import long, markov
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
