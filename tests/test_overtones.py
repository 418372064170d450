"""Oscillations that are no sinusoids: one component with harmonics where they are, and none where they are not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.datasets import signal
from spectrogp.initialise import find_initial_values


def cycles(seed, n=200, span=20.0):
    """A waveform of steep rises and slow falls, about one cycle a unit: times, outputs, true frequencies."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, span, n))
    phase = 2 * np.pi * (t + 0.6 * np.sin(2 * np.pi * t / span))
    y = np.cos(phase) + 0.4 * np.cos(2 * phase - 1.0) + 0.15 * rng.normal(size=n)
    return t, y, 1.0 + 0.6 * 2 * np.pi / span * np.cos(2 * np.pi * t / span)


def test_a_waveform_is_one_component_with_overtones():
    t, y, truth = cycles(0)
    found = find_initial_values(t, y)
    assert found.frequency.shape[1] == 1
    assert np.ravel(found.harmonics)[0] == 2
    there = np.interp(t, found.centres[:, 0], found.frequency[:, 0, 0])
    assert np.median(np.abs(there / truth - 1.0)) < 0.05


@pytest.mark.slow
def test_overtones_sharpen_the_frequency():
    t, y, truth = cycles(1)
    model = sg.SpectralGPRegressor(random_state=0).fit(t, y)
    band = model.instantaneous_frequency(t)
    assert np.asarray(band.mean).shape[1] == 2
    error = np.abs(np.asarray(band.mean)[:, 0] / truth - 1.0)
    assert np.median(error) < 0.02
    np.testing.assert_allclose(band.mean[:, 1], 2.0 * np.asarray(band.mean)[:, 0], rtol=1e-6)  # one phase
    assert model.warnings_ == []


@pytest.mark.parametrize("name", ["chirp", "step", "vibrato", "am-fm"])
def test_a_frequency_that_changes_has_no_overtones(name):
    """What windows miss of it must not be taken for some."""
    data = signal(name, n=200, noise=0.1, seed=0)
    assert np.max(find_initial_values(data.X, data.y).harmonics) == 1


def beats(rate, seconds, seed=0):
    """Pulses of a twentieth of a second, 200 rows a second, at a rate that wanders a little."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / 200.0)
    at = np.cumsum((1.0 + 0.03 * rng.normal(size=int(2 * rate * seconds))) / rate)
    return t, np.sum(np.exp(-0.5 * ((t[:, None] - at) / 0.02) ** 2), axis=1) + 0.05 * rng.normal(size=len(t))


def test_a_pulse_wave_has_its_rate_at_both_ends():
    """The windows there hold one beat, which is a pulse of any rate: half of the true one explained it, too."""
    t = np.arange(0.0, 25.0, 0.01)
    phase = t + 0.35 * np.sin(2 * np.pi * t / 10)
    at = np.interp(np.arange(0.6, 25.0), phase, t)
    shape = ((1.0, 0.0, 0.06), (-0.4, 0.18, 0.06), (0.3, 0.35, 0.06), (-0.2, 0.52, 0.08))  # rings after each beat
    y = sum(np.sum(a * np.exp(-0.5 * ((t[:, None] - at - late) / w) ** 2), axis=1) for a, late, w in shape)
    found = find_initial_values(t, y + 0.01 * np.random.default_rng(0).normal(size=len(t)))
    x, rate = found.centres[:, 0], found.frequency[:, 0, 0]
    np.testing.assert_allclose(rate, 1.0 + 0.07 * np.pi * np.cos(2 * np.pi * x / 10), rtol=0.1)


@pytest.mark.parametrize("seconds", [10.0, 25.0])
def test_few_beats_have_their_rate(seconds):
    """A window that holds one pulse alone would take any rate."""
    t, y = beats(1.2, seconds)
    found = find_initial_values(t, y)
    assert np.ravel(found.harmonics)[0] > 3
    np.testing.assert_allclose(np.median(found.frequency[:, 0]), 1.2, rtol=0.05)


def test_harmonics_tell_a_frequency_as_closely_as_their_orders_say():
    """Of n harmonics with powers 1/k the mean square of k is Σ k / Σ 1/k."""
    found = find_initial_values(*beats(1.2, 10.0))
    for count, square in ((1, 1.0), (2, 3.0 / 1.5), (4, 10.0 / (25.0 / 12.0))):
        same = dataclasses.replace(found, harmonics=np.array([count]), gain=np.full_like(found.gain, 4.0))
        np.testing.assert_allclose(same.frequency_error, 0.1 * np.sqrt(1.25 / square))


@pytest.mark.slow
def test_a_heart_that_breathes_has_its_rate_from_beat_to_beat():
    """Its rate changes by a twentieth every four seconds, less than windows tell of a tone but not of twelve harmonics.

    A prior that is too smooth would leave an error of 2 to 3 beats a minute with a band that holds hardly any beat.
    """
    rng = np.random.default_rng(0)
    t, fine = np.arange(0.0, 40.0, 0.01), np.arange(0.0, 40.0, 0.001)
    phase = np.cumsum(1.2 * np.exp(0.05 * np.sin(2.0 * np.pi * fine / 4.0))) * 0.001
    at = np.interp(np.arange(0.3, phase[-1]), phase, fine)
    shape = ((1.0, 0.0, 0.02), (-0.2, 0.05, 0.02), (0.3, 0.25, 0.05))
    y = sum(np.sum(a * np.exp(-0.5 * ((t[:, None] - at - late) / w) ** 2), axis=1) for a, late, w in shape)
    model = sg.SpectralGPRegressor(random_state=0).fit(t, y + 0.03 * rng.normal(size=len(t)))
    x = at[:-1, None] + np.diff(at)[:, None] * (np.arange(20) + 0.5) / 20.0
    band = [60.0 * part[:, 0].reshape(x.shape).mean(axis=1) for part in model.instantaneous_frequency(x.ravel())]
    rate = 60.0 / np.diff(at)
    assert np.mean(np.abs(band[0] - rate)) < 0.5
    assert np.mean((band[1] <= rate) & (rate <= band[2])) > 0.8


def test_a_comb_is_not_finer_than_its_harmonics():
    """A day and half of it are two harmonics, not the sixth and the twelfth of some."""
    rng = np.random.default_rng(0)
    t = np.arange(0.0, 42.0, 1.0 / 24.0)
    y = np.cos(2 * np.pi * t) + 0.4 * np.cos(4 * np.pi * t + 1.0) + 0.15 * rng.normal(size=len(t))
    found = find_initial_values(t, y)
    frequencies = np.median(found.frequency[..., 0], axis=0)
    nearest = np.min(np.abs(frequencies[:, None] / [1.0, 2.0] - 1.0), axis=1)
    assert np.all(nearest < 0.01)


@pytest.mark.slow
def test_red_noise_has_no_components():
    """One in twenty may: of 30 at most four, with a probability of 98 %."""
    false = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        shocks, y = rng.normal(size=300), np.zeros(300)
        keep = np.exp(-1.0 / rng.uniform(3.0, 30.0))
        for k in range(1, 300):
            y[k] = keep * y[k - 1] + np.sqrt(1.0 - keep**2) * shocks[k]
        false += bool(np.any(find_initial_values(np.arange(300.0), y).found))
    assert false <= 4
