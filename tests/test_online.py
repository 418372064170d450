"""Rows that come one after the other are worth as much as all at once."""

from __future__ import annotations

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.kernels import IntegratedPhase, MaternPhase, WarpedTime
from spectrogp.models import Data, ExactGP, MarkovGP, OnlineGP

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
