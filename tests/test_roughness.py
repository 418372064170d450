"""Envelopes that are rougher than smooth ones are: what tells of them, and what fits make of it."""

from __future__ import annotations

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.estimator import roughness


def record(amplitude, seed=0, rows=300):
    """Seven to thirteen cycles a unit, with an amplitude that is the same or a random one that passes through zero."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 3.0, rows)
    size = np.ones(rows)
    if amplitude == "random":  # Ornstein–Uhlenbeck, of lengthscale and standard deviation one
        step = np.exp(-(t[1] - t[0]))
        for k in range(1, rows):
            size[k] = step * size[k - 1] + np.sqrt(1.0 - step**2) * rng.normal()
    phase = 2.0 * np.pi * (10.0 * t - 1.5 * np.cos(2.0 * t))
    return t, size * np.cos(phase) + 0.1 * rng.normal(size=rows), 10.0 + 3.0 * np.sin(2.0 * t)


@pytest.mark.parametrize(("amplitude", "order"), [("same", 1.5), ("random", 0.5)])
def test_envelopes_are_as_rough_as_the_evidence_says(amplitude, order):
    t, y, frequency = record(amplitude, seed=3)
    model = sg.SpectralGPRegressor(n_components=1, random_state=0).fit(t, y)
    assert model.model_.kernel.order == order
    band = model.instantaneous_frequency(t)
    assert np.median(np.abs(band.mean[:, 0] / frequency - 1.0)) < 0.02


def test_rough_envelopes_are_tried_only_where_something_tells_of_them(monkeypatch):
    tried = []
    kept = roughness.may_be_rough
    monkeypatch.setattr(roughness, "may_be_rough", lambda *of: tried.append(kept(*of)) or tried[-1])
    for amplitude in ("same", "random"):
        sg.SpectralGPRegressor(n_components=1, random_state=0).fit(*record(amplitude, seed=3)[:2])
    assert tried == [False, True]


@pytest.mark.parametrize(("left", "told"), [(0.0, False), (0.5, True)])
def test_what_is_left_over_tells_whether_it_turns_with_a_component(left, told):
    """A wave beside a model that knows only noise, and noise alone."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 10.0, 200))
    group = sg.GridFunctionGroup((0.0, 10.0), 2 * np.pi * 2.0, shape=(1, 1), lengthscale=1.0)
    kernel = sg.kernels.MaternPhase(sg.kernels.WarpedTime(20.0), sg.kernels.IntegratedPhase(group), amplitude=1e-6)
    y = left * np.cos(4.0 * np.pi * t + np.cumsum(0.05 * rng.normal(size=200))) + 0.5 * rng.normal(size=200)
    turning = roughness._turning(sg.models.MarkovGP(kernel, sg.parameters.Positive(0.5)), sg.Data(t, y))
    assert (turning > roughness.SURPRISE) == told


def test_phases_are_integrals_of_frequencies():
    group = sg.GridFunctionGroup((0.0, 10.0), 3.0, shape=(1, 1), lengthscale=1.0)
    x = np.linspace(0.0, 10.0, 40)
    group = group.fitted_to(x[:, None], 3.0 * np.exp(0.3 * np.sin(x))[:, None, None], 0.01)
    exact = np.asarray(sg.kernels.IntegratedPhase(group)(x[:, None]))
    np.testing.assert_allclose(roughness.phases(group, x), exact - exact[0], atol=2e-3)
