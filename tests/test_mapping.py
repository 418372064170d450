"""Readings at draws: those of several models side by side are those of one after the other."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.models import Data
from spectrogp.posterior import LocalFrequency, Outputs, Posterior, mapping


def markov(count):
    """A posterior of so many draws of an oscillation, and data."""
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 3.0, 40)
    data = Data(t, np.cos(2.0 * np.pi * 2.0 * t) + 0.1 * rng.normal(size=40))
    models = [
        sg.models.MarkovGP(
            sg.kernels.MaternPhase(
                sg.kernels.WarpedTime(sg.Positive.around(length)),
                sg.kernels.IntegratedPhase(sg.GridFunctionGroup((0.0, 3.0), 12.0 + k, shape=(1, 1))),
                sg.Positive.around(1.0),
            ),
            sg.Positive.around(0.1),
        )
        for k, length in enumerate(rng.uniform(1.0, 4.0, count))
    ]
    return data, Posterior.at_point(*models)


@pytest.fixture
def seen(monkeypatch):
    """How many models each program read side by side."""
    counts, true = [], jax.lax.map

    def mapped(f, xs, *, batch_size=None):
        counts.append(batch_size)
        return true(f, xs, batch_size=batch_size)

    monkeypatch.setattr(jax.lax, "map", mapped)
    return counts


@pytest.mark.parametrize(("draws", "expected"), [(16, 8), (12, 4), (5, None)])
def test_models_side_by_side_are_those_one_after_the_other(draws, expected, seen):
    """A count that others share, so that there is one program, and no rest of them."""
    data, posterior = markov(draws)
    X = np.linspace(2.0, 5.0, 16)[:, None]
    reading = Outputs(posterior.at(0, 0).prepare(data, X), X, 0.0)
    found = posterior.map(reading)
    assert expected in seen
    for k in range(draws):
        alone = reading(posterior.at(0, k))
        for part, one in ((found.function, alone.function), (found.output, alone.output)):
            np.testing.assert_allclose(part.mean[0, k], one.mean, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(part.variance[0, k], one.variance, rtol=1e-9, atol=1e-12)
    frequency = posterior.map(LocalFrequency(X))[0]
    np.testing.assert_allclose(frequency[-1], LocalFrequency(X)(posterior.at(0, draws - 1)), rtol=1e-12)


def test_only_what_is_small_is_read_side_by_side():
    """Few rows of a Markov model; not many, nor other models, nor what a function holds."""
    _, posterior = markov(8)
    model = posterior.at(0, 0)
    assert model.side_by_side(100) == 8
    assert model.side_by_side(10**5) == 2  # of two oscillators
    assert model.side_by_side(10**7) == 1
    assert sg.models.ExactGP(model.kernel, 0.1).side_by_side(1) == 1
    draws = jax.tree.map(lambda leaf: leaf[0], posterior.draws)
    assert mapping._side_by_side(LocalFrequency(np.zeros((10, 1))), draws, 8, posterior.rest) == 8
    assert mapping._side_by_side(lambda model: 1.0, draws, 8, posterior.rest) == 1


def test_joint_covariances_are_found_in_parts(monkeypatch):
    """Some draws at a time, since each has a number for every pair of inputs."""
    data, posterior = markov(6)
    X = np.linspace(2.0, 4.0, 4)[:, None]
    whole = posterior.covariance(data, X, noise=True)
    monkeypatch.setattr("spectrogp.posterior.posterior.AT_ONCE", 4)
    np.testing.assert_allclose(posterior.covariance(data, X, noise=True), whole, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.diag(whole), posterior.predict_output(data, X).variance, rtol=1e-8)
