"""What is reported of a fitted estimator agrees with what the library computes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import inputs_along, with_times
from spectrogp.estimator.reporting import scattered
from spectrogp.estimator.units import unit_names
from spectrogp.models import ExactGP
from spectrogp.plots import LEVEL
from spectrogp.posterior import Band, Posterior

X = np.linspace(-1.0, 1.0, 7)[:, None]
KERNEL = sg.kernels.ConvolutionalSpectral(
    lengthscale=np.array([[0.3], [0.5]]),
    frequency=2.0 * np.pi * np.array([[2.0], [-4.0]]),
    amplitude=np.array([1.0, 0.5]),
)


def test_the_local_functions_are_those_of_the_kernel():
    here = Posterior.at_point(ExactGP(KERNEL, 0.1)).local_functions(X)
    np.testing.assert_allclose(here.amplitude, np.broadcast_to([1.0, 0.5], (1, 7, 2)), rtol=1e-12)
    np.testing.assert_allclose(here.frequency[..., 0], np.broadcast_to([2.0, 4.0], (1, 7, 2)), rtol=1e-12)
    np.testing.assert_allclose(here.lengthscale[..., 0], np.broadcast_to([0.3, 0.5], (1, 7, 2)), rtol=1e-12)


def test_the_density_is_the_mean_of_the_spectrogram_in_each_cell():
    here = Posterior.at_point(ExactGP(KERNEL, 0.1)).local_functions(X)
    edges = np.linspace(0.0, 8.0, 9)
    fine = (np.arange(8000) + 0.5) / 1000.0
    expected = sg.spectrogram(KERNEL, X, fine).reshape(7, 8, 1000).mean(axis=-1)
    np.testing.assert_allclose(here.density(edges), expected, atol=1e-7)
    # Two-sided: positive frequencies hold half of the variance.
    np.testing.assert_allclose(here.density(edges) @ np.diff(edges), 0.5 * 1.25, rtol=1e-5)


def test_bands_are_quantiles_of_draws_and_one_draw_has_none():
    draws = np.arange(101.0)[:, None]
    np.testing.assert_allclose(np.ravel(Band.over(draws, LEVEL)), [50.0, 5.0, 95.0])
    assert Band.over(draws[:1], LEVEL).lower is None


@pytest.mark.parametrize(
    ("name", "times", "unit"),
    [
        ("t", False, "t"),
        ("time (s)", False, "s"),
        ("length [km]", False, "km"),
        ("f(x)", False, "x"),
        ("w", True, "day"),
    ],
)
def test_units_of_inputs(name, times, unit):
    assert unit_names((name,), (times,)) == (unit,)


def test_inputs_along_a_column_are_of_the_kind_that_was_fitted():
    initial = SimpleNamespace(extent=np.array([[0.0, 10.0], [2.0, 30.0]]))
    estimator = SimpleNamespace(initial_values_=initial)
    plain = with_times(inputs_along(estimator, 1, count=3), np.array([False, False]))
    np.testing.assert_allclose(plain, [[1.0, 10.0], [1.0, 20.0], [1.0, 30.0]])
    mixed = with_times(inputs_along(estimator, 0, count=3), np.array([True, False]))
    assert [np.datetime64(value, "D") for value in mixed[:, 0]] == list(
        np.arange("1970-01-01", "1970-01-04", dtype="M8[D]")
    )
    assert list(mixed[:, 1]) == [20.0] * 3


def test_inputs_too_few_for_an_oscillation_show_no_slower_one():
    """At 1,200 even inputs 1,823 cycles look like 577; the values at scattered ones have no frequency."""
    even = np.linspace(0.0, 1700.0, 1200)[:, None]
    at = scattered(even)
    assert np.all(np.diff(at[:, 0]) > 0)
    np.testing.assert_array_equal(at[[0, -1]], even[[0, -1]])
    assert np.max(np.abs(at - even)) < 0.5 * (even[1, 0] - even[0, 0])

    def share(x):
        """Of the variance that the strongest sinusoid in the number of an input explains."""
        power = np.abs(np.fft.rfft(np.cos(2 * np.pi * 1.0723 * x[:, 0])))[1:] ** 2
        return power.max() / power.sum()

    assert share(even) > 0.4
    assert share(at) < 0.05
