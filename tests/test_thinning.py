"""Even records with more rows than a fit needs: what passes, what does not, and the noise that is left out."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import thinning
from spectrogp.initialise import InitialValues, find_initial_values

RATE, SPAN = 200.0, 60.0
T = np.arange(int(RATE * SPAN)) / RATE


@pytest.fixture(scope="module")
def tone() -> InitialValues:
    """What is found of one cycle a unit."""
    found = find_initial_values(T[::20, None], np.cos(2.0 * np.pi * T[::20]))
    assert np.median(found.frequency[..., 0]) == pytest.approx(1.0, rel=0.01)
    return found


def passed(initial: InitialValues, y: np.ndarray, error: np.ndarray | None = None) -> tuple[sg.Data, float]:
    data = sg.Data(T, y) if error is None else sg.Data(T, y, error)
    (few,), (hidden,) = thinning.thinned(initial, (data,))
    return few, hidden


@pytest.mark.parametrize("harmonics", [1, 6])
def test_harmonics_pass_and_what_is_beyond_does_not(tone, harmonics):
    """The highest harmonic is as it was, and what would be taken for a lower one is not there."""
    initial = dataclasses.replace(tone, harmonics=np.full(tone.gain.shape[1], harmonics))
    few, _ = passed(initial, np.cos(2.0 * np.pi * harmonics * T))
    rate = 1.0 / np.diff(few.X[:, 0]).mean()
    needed = thinning.FASTER * max(thinning.ROWS_A_CYCLE, thinning.ROWS_A_HARMONIC * harmonics)
    assert needed <= rate < 1.35 * needed  # a whole number of rows become one
    inside = slice(thinning.REACH + 1, -thinning.REACH - 1)
    np.testing.assert_allclose(few.y[inside], np.cos(2.0 * np.pi * harmonics * few.X[inside, 0]), atol=0.02)
    beyond, _ = passed(initial, np.cos(2.0 * np.pi * (rate - harmonics) * T))
    assert np.max(np.abs(beyond.y[inside])) < 0.02


def test_ends_are_no_smaller(tone):
    few, _ = passed(tone, np.full(len(T), 3.0))
    np.testing.assert_allclose(few.y, 3.0, rtol=1e-12)


def test_noise_is_that_of_the_rows_that_are_left_and_what_does_not_pass(tone):
    """White noise of variance one: neighbours are hardly alike, and nothing of it is lost."""
    few, hidden = passed(tone, np.random.default_rng(0).normal(size=len(T)))
    left = np.var(few.y)
    assert left + hidden == pytest.approx(1.0, abs=0.05)
    assert left < 0.05
    assert abs(np.corrcoef(few.y[1:], few.y[:-1])[0, 1]) < 0.15  # standard error 0.06


def test_error_bars_become_those_of_weighted_means(tone):
    few, hidden = passed(tone, np.zeros(len(T)), np.full(len(T), 0.3))
    together = RATE * np.diff(few.X[:, 0]).mean()
    inside = few.error[thinning.REACH + 1 : -thinning.REACH - 1]
    np.testing.assert_allclose(inside, inside[0], rtol=1e-6)
    # As that of a mean, but for the edge of the filter: what is near it passes in part.
    assert 0.95 * 0.3 < inside[0] * np.sqrt(together) < 0.3
    assert hidden == 0.0


def test_uneven_times_stay_as_they_are(tone):
    t = np.sort(np.random.default_rng(0).uniform(0.0, SPAN, len(T)))
    data = (sg.Data(t, np.cos(2.0 * np.pi * t)),)
    assert thinning.thinned(tone, data) == (data, (0.0,))
