"""Distinct optima: gaps that can be crossed with a cycle more or less, and what is told of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid

import spectrogp as sg

LOW, HIGH = 4.0, 6.5  # of the gap


def record(cycles, seed=0, noise=0.1):
    """A tone whose frequency changes slowly, with so many cycles more in a gap; and its frequency at any times."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, 10.0, 140))
    t = t[(t < LOW) | (t > HIGH)]
    fine = np.linspace(0.0, 10.0, 20_001)

    def frequency(x, cycles=cycles):
        inside = np.clip((x - LOW) / (HIGH - LOW), 0.0, 1.0)
        bump = (1.0 - np.cos(2.0 * np.pi * inside)) / (HIGH - LOW)
        return 2.0 * np.exp(0.15 * np.sin(1.3 * x + 1.0)) + cycles * bump

    phase = 2.0 * np.pi * cumulative_trapezoid(frequency(fine), fine, initial=0.0)
    y = np.cos(np.interp(t, fine, phase)) + noise * rng.normal(size=len(t))
    return t, y, frequency


@pytest.fixture(scope="module")
def fitted():
    """A record that a fit with the larger count and one with the smaller count follow as well."""
    t, y, frequency = record(0.3)
    return sg.SpectralGPRegressor(random_state=0).fit(t, y), frequency


def counts(model):
    """Cycles in the gap of every draw of the posterior."""
    x = np.linspace(LOW, HIGH, 200)
    inside = (x[:, None] - model.X_mean_) / model.X_scale_
    draws = model.posterior_.local_functions(inside, max_draws=model.posterior_.log_joint.size)
    return np.trapezoid(draws.frequency[:, :, 0, 0] / model.X_scale_[0], x, axis=1)


def test_a_gap_is_crossed_with_both_counts_of_cycles(fitted):
    """Whole cycles apart, what is on both sides is the same: the posterior has both, and bands hold both."""
    model, frequency = fitted
    cycles = counts(model)
    x = np.linspace(LOW, HIGH, 2001)
    true = np.trapezoid(frequency(x), x)
    apart = np.round(cycles - true)
    assert set(apart) == {0.0, -1.0}
    np.testing.assert_allclose(cycles - apart, true, atol=0.2)  # none in between
    assert 0.05 < np.mean(apart == 0.0) < 0.95
    band = model.instantaneous_frequency([5.25], level=0.99)
    # Of both counts the mean frequency of the gap, about which it is that in the middle.
    assert band.lower.item() < (true - 1.0) / (HIGH - LOW) < true / (HIGH - LOW) < band.upper.item()


def test_it_is_told_with_the_share_of_draws(fitted):
    model, _ = fitted
    (said,) = [sentence for sentence in model.warnings_ if "cycle" in sentence]
    cycles = counts(model)
    middle = 0.5 * (cycles.min() + cycles.max())
    shares = [f"{np.mean(side):.0%}" for side in (cycles > middle, cycles < middle)]
    assert said.startswith("component 1 has 1 cycle ")
    assert any(f"in {share} of the draws" in said for share in shares)
    assert f"warning: {said}" in model.summary()
