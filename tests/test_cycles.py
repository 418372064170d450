"""Cycles along single inputs, in rows that scatter along others."""

import numpy as np
import pytest

from spectrogp.initialise import find_cycles

DAYS = 31.0


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), rng.uniform(0.0, DAYS, n)])
    return X, rng.normal(size=n)


@pytest.mark.parametrize("unit", [1.0, 86400.0])
def test_the_day_and_the_week_are_found_in_any_unit(unit):
    X, noise = rows(5000)
    X[:, 2] *= unit
    angle = 2.0 * np.pi * X[:, 2] / unit
    found = find_cycles(X, 0.4 * np.cos(angle + 1.0) + 0.2 * np.sin(angle / 7.0) + noise)
    assert [cycle.axis for cycle in found] == [2, 2]
    # A frequency is known to about √6/(π T a √n/σ), of a sinusoid of amplitude a: 0.001 and 0.002 a day.
    np.testing.assert_allclose([cycle.frequency * unit for cycle in found], [1.0, 1.0 / 7.0], atol=0.008)
    np.testing.assert_allclose([cycle.amplitude for cycle in found], [0.4 / 2**0.5, 0.2 / 2**0.5], atol=0.03)


def test_nothing_is_found_in_noise():
    """A false alarm has one chance in a hundred."""
    assert [find_cycles(*rows(2000, seed)) for seed in range(10)].count([]) >= 9


def test_what_turns_less_than_three_times_is_no_cycle():
    X, noise = rows(5000)
    assert find_cycles(X, np.cos(2.0 * np.pi * X[:, 2] / DAYS) + 0.3 * noise) == []


@pytest.mark.parametrize("column", [np.zeros(50), np.arange(50) % 3])
def test_constants_and_categories_have_no_cycles(column):
    rng = np.random.default_rng(0)
    assert find_cycles(np.asarray(column, float)[:, None], rng.normal(size=50)) == []
