"""Rows that come one after the other are worth as much as all at once."""

from __future__ import annotations

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.kernels import IntegratedPhase, MaternPhase, WarpedTime
from spectrogp.models import Data, ExactGP, MarkovGP, OnlineGP, grid_groups, recent

pytestmark = pytest.mark.usefixtures("compile_quickly")

RNG = np.random.default_rng(0)
T = np.sort(RNG.uniform(0.0, 10.0, 90))
T[41] = T[40]  # at one time twice, and once more where updates meet
T[60] = T[59]
Y = np.cos(8.0 * T) + 0.1 * RNG.normal(size=90)


@pytest.fixture(scope="module")
def model():
    frequency = sg.GridFunctionGroup((0.0, 10.0), 8.0, shape=(1, 1), lengthscale=2.0)
    oscillation = MaternPhase(WarpedTime(3.0), IntegratedPhase(frequency), 0.7)
    return MarkovGP(oscillation + MaternPhase(WarpedTime(5.0), order=2.5), 0.2, 0.3)


def test_updates_equal_one_pass(model):
    once, whole = OnlineGP(model).update(T, Y, 0.05)
    online, parts = OnlineGP(model), []
    for rows in (slice(0, 1), slice(1, 60), slice(60, 90)):
        online, predicted = online.update(T[rows], Y[rows], 0.05)
        parts.append(predicted)
    np.testing.assert_allclose(online.log_likelihood, once.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([part.mean for part in parts]), whole.mean, atol=1e-12)
    np.testing.assert_allclose(np.concatenate([part.variance for part in parts]), whole.variance, atol=1e-12)


def test_updates_equal_the_exact_model(model):
    """The likelihood of all rows, and predictions of each from those before it alone."""
    online, predicted = OnlineGP(model).update(T, Y)
    exact = ExactGP(model.kernel, 0.2)
    np.testing.assert_allclose(
        online.log_likelihood, exact.realise().log_likelihood(Data(T, Y - 0.3), None), rtol=1e-10
    )
    for row in (1, 30, 89):
        before = exact.predict(Data(T[:row], Y[:row] - 0.3), T[row : row + 1])
        np.testing.assert_allclose(predicted.mean[row], before.mean[0] + 0.3, atol=1e-9)
        np.testing.assert_allclose(predicted.variance[row], before.variance[0], atol=1e-9)


def test_time_does_not_go_back(model):
    online, _ = OnlineGP(model).update(T[:50], Y[:50])
    with pytest.raises(ValueError, match="must not decrease, nor begin before the last time"):
        online.update(T[10:20], Y[10:20])
    with pytest.raises(ValueError, match="must not decrease"):
        OnlineGP(model).update(T[::-1], Y)


# The recent past


def vibrato(span, seed=0, rate=50):
    """Five cycles a unit that swing by 1.5, noise 0.2; outputs, and the true frequency."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, span, int(rate * span)))
    phase = 2 * np.pi * (5.0 * t - 1.5 / np.pi * np.cos(np.pi * t))
    return t, np.cos(phase) + 0.2 * rng.normal(size=len(t))


def swinging(t):
    return 5.0 + 1.5 * np.sin(np.pi * t)


@pytest.fixture(scope="module")
def swing():
    """A model whose functions are right up to t = 8 and know nothing beyond."""
    grid = {"lengthscale_std": 0.0}
    c = np.linspace(0.0, 8.0, 200)[:, None]
    frequency = sg.GridFunctionGroup((0.0, 8.0), 10 * np.pi, shape=(1, 1), lengthscale=0.5, amplitude=0.25, **grid)
    frequency = frequency.fitted_to(c, 2 * np.pi * swinging(c)[..., None], 0.01)
    amplitude = sg.GridFunctionGroup((0.0, 8.0), 0.7, shape=(1,), lengthscale=2.0, amplitude=0.2, **grid)
    return MarkovGP(MaternPhase(WarpedTime(20.0), IntegratedPhase(frequency), amplitude), 0.2)


def test_functions_around_a_time_are_those_of_the_model(swing):
    """To rounding, phase included: from the time on, through one stretch and through a stretch of a stretch."""
    X = np.linspace(1.5, 1.5 + recent.SERVED * recent.span_of(swing), 30)[:, None]
    whole = swing.realise().terms[0].values_at(X)
    for model in (recent.around(swing, 1.5), recent.around(recent.around(swing, 0.4), 1.5)):
        part = model.realise().terms[0].values_at(X)
        np.testing.assert_allclose(part["phase"], whole["phase"], atol=1e-9)
        np.testing.assert_allclose(part["amplitude"], whole["amplitude"], rtol=1e-9)
        assert len(model.terms[0].phase.phase.frequency.whitened.raw) < 50


def test_free_knots_lie_after_the_anchor_where_phases_stay(swing):
    model = recent.around(swing, 1.5)
    numbers, free = recent._numbers(model), recent._free(model)
    places = np.concatenate([group.places[:, 0] for group in grid_groups(model)])  # of one function each
    np.testing.assert_array_equal(np.flatnonzero(places > 1.5), free)
    assert len(free) > 20
    numbers[free] += 1.0
    X = np.array([[1.5], [5.0]])
    one, other = (m.realise().terms[0].values_at(X)["phase"][:, 0] for m in (model, recent._filled(model, numbers)))
    assert one[0] == other[0]
    assert abs(one[1] - other[1]) > 1.0


def test_rows_after_a_state_have_the_gradient_of_differences(swing):
    """Their log density is what the filter adds when it goes on, and so are its derivatives in all knots."""
    t, y = vibrato(5.0)
    half = np.searchsorted(t, 2.0)
    state = OnlineGP(swing).update(t[:half], y[:half])[0].state
    window = recent.Recent.of(swing, t[half - 1], state).with_rows(t[half:], y[half:], np.zeros(len(t) - half))
    rows = recent._rows(window.anchor, window.t, window.y, window.error)
    numbers = recent._numbers(window.model)
    along = np.random.default_rng(0).normal(size=len(numbers))
    copies = numbers + np.array([0.0, 1e-5, -1e-5])[:, None] * along
    values, slopes = recent._evaluate(window.model, state, rows, copies)
    both = [OnlineGP(swing).update(t[:count], y[:count])[0].log_likelihood for count in (len(t), half)]
    assert values[0] == pytest.approx(both[0] - both[1], rel=1e-10)
    assert (values[1] - values[2]) / 2e-5 == pytest.approx(slopes[0] @ along, rel=1e-5)


def test_before_it_refines_nothing_differs(swing):
    t, y = vibrato(6.0)
    plain, predicted = OnlineGP(swing).update(t, y)
    online, same = OnlineGP(swing, refine=10**6).update(t, y)
    assert online.recent.anchor > 0.0  # it went on from one anchor to the next
    np.testing.assert_allclose(online.log_likelihood, plain.log_likelihood, rtol=1e-10)
    np.testing.assert_allclose(same.mean, predicted.mean, atol=1e-9)


def test_a_frequency_that_moves_on_is_followed(swing):
    """Four cycles of the vibrato beyond the fit; what the model knows of them is that they are smooth."""
    t, y = vibrato(16.0)
    known = t < 8.0
    before, _ = OnlineGP(swing).update(t[known], y[known])
    errors = {}
    for refine in (None, 8):
        online, off = OnlineGP(swing, before.time, before.state, refine=refine), []
        for rows in np.array_split(np.flatnonzero(~known), 8):
            online, _ = online.update(t[rows], y[rows])
            found = sg.local_spectrum(online.model.realise().kernel, t[rows, None]).frequency[:, 0, 0]
            off.append(np.abs(found / swinging(t[rows]) - 1.0))
        errors[refine] = np.concatenate(off)
    assert np.median(errors[None]) > 0.15
    assert np.median(errors[8]) < 0.02
    assert np.max(errors[8]) < 0.3


def test_gaps_and_what_cannot_be_refined(swing, model):
    """After a gap longer than the recent past the functions begin anew."""
    t, y = vibrato(4.0)
    online, _ = OnlineGP(swing, refine=40).update(t, y)
    online, predicted = online.update(t + 1e3, y)
    assert online.recent.anchor > 900.0
    assert np.all(np.isfinite(predicted.mean))
    with pytest.raises(ValueError, match="refine is for models with functions on grids"):
        OnlineGP(MarkovGP(MaternPhase(WarpedTime(3.0), lambda X: 8.0 * X[:, 0]), 0.1), refine=5)
    with pytest.raises(ValueError, match="refine must be an integer of at least 1, got 0"):
        OnlineGP(model, refine=0)
