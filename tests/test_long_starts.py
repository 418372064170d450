"""Initial values of long records: frames against direct sums, paths against brute force, signals that are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spectrogp.initialise import along, beside, find_initial_values, ridges
from spectrogp.initialise import frames as framing
from spectrogp.initialise.harmonics import find_comb, in_step, overtones
from spectrogp.initialise.tracks import NOWHERE, best_track, between_bins, find_path, fit_path
from spectrogp.initialise.windows import Record


def vibrato(span, seed):
    """f = 5 + 1.5 sin(πt) at 50 random times a unit, noise 0.2."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, span, 50 * span))
    phase = 2 * np.pi * (5.0 * t - 1.5 / np.pi * np.cos(np.pi * t))
    return t, np.cos(phase) + 0.2 * rng.normal(size=len(t))


def heart(seed, harmonics, span=120):
    """A tone of about 1.25 with harmonics of equal size and random phases, noise 0.5; times, outputs, its frequency."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, span, 50 * span))
    phase = 1.25 * t + 0.2 * np.sin(t) - 0.5 * np.cos(0.3 * t)
    y = sum(np.cos(2 * np.pi * h * phase + rng.uniform(0.0, 6.0)) for h in range(1, harmonics + 1))
    return t, y + 0.5 * rng.normal(size=len(t)), lambda x: 1.25 + 0.2 * np.cos(x) + 0.15 * np.sin(0.3 * x)


def errors(found, truth, component=0):
    centres = found.centres[:, 0]
    return np.abs(found.frequency[:, component, 0] / truth(centres) - 1.0)


def uneven():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 12.0, 600))
    y = np.cos(2 * np.pi * (4.0 * t + 0.3 * t**2)) + 0.3 * rng.normal(size=600)
    return t, y, rng.uniform(0.5, 1.5, 600)


# Frames


def test_a_grid_keeps_the_sums_and_first_moments_of_the_rows():
    t, y, weight = uneven()
    grid = framing.even_grid(t, weight, 20.0)
    assert not grid.even
    place = grid.start + np.arange(len(grid.weight)) / grid.rate
    np.testing.assert_allclose(np.sum(grid.weight), np.sum(weight), rtol=1e-12)
    np.testing.assert_allclose(grid.sums(weight * y) @ place, (weight * y) @ t, rtol=1e-10)


@pytest.mark.parametrize("gap", [False, True])
def test_an_even_record_is_its_own_grid(gap):
    rows = np.delete(np.arange(200), np.arange(50, 70)) if gap else np.arange(200)
    t = 1e6 + 0.25 * rows
    grid = framing.even_grid(t, np.ones(len(t)), 1.8)
    assert grid.even
    assert len(grid.weight) == 200
    np.testing.assert_allclose(grid.rate, 4.0, rtol=1e-12)
    np.testing.assert_array_equal(np.flatnonzero(grid.weight), rows)


@pytest.mark.parametrize("even", [True, False])
def test_power_in_frames_is_that_of_a_direct_sum(even):
    t, y, weight = uneven()
    if even:
        t = np.linspace(0.0, 12.0, 600)
    y = y - y.mean()
    grid = framing.even_grid(t, weight, 22.0)
    hop = round(0.5 * grid.rate)
    cells = framing.find_cells([framing.Channel(grid, y, weight)], hop, 22.0, best=False)
    low = cells.frequency < 11.0
    for frame in (6, 12):
        tau = t - (grid.start + frame * cells.width)
        near = np.abs(tau) <= framing.REACH * cells.width + 1e-9
        window = (weight * np.exp(-0.5 * (tau / cells.width) ** 2) * near)[None]
        for k, rate in enumerate(framing.RATES):
            seen = low & (1.5 * abs(rate) / cells.width <= cells.frequency)
            f = cells.frequency[seen]
            wave = np.exp(2j * np.pi * (np.outer(tau, f) + 0.5 * rate * (tau[:, None] / cells.width) ** 2))
            power = ridges.power(y, window, window @ wave, (window * y) @ wave, window @ wave**2)[0]
            # Even rows: single precision. Uneven ones: images of the grid are a few per cent at a quarter of its rate.
            np.testing.assert_allclose(cells.share[k, frame, seen], power, atol=1e-5 if even else 0.03)
        count = np.sum(window) ** 2 / np.sum(window**2)
        np.testing.assert_allclose(cells.rows[frame], count, rtol=1e-9 if even else 0.1)


def test_a_slow_trend_is_left_out_and_a_wave_is_not():
    t = np.arange(4000) / 50.0
    slow, wave = 10.0 * np.sin(2 * np.pi * t / 60.0), np.cos(2 * np.pi * 4.0 * t)
    grid = framing.even_grid(t, np.ones(4000), 20.0)
    rest = grid.without_trend(slow + wave, np.ones(4000), 15)
    # Smoothing over s = 0.45 moves the trend by ½ (2πs/60)² of its size, 0.01, and leaves e^−½(8πs)² of the wave.
    np.testing.assert_allclose(rest[200:-200], wave[200:-200], atol=0.05)


# Paths


def test_a_track_is_the_best_of_all():
    rng = np.random.default_rng(1)
    gain = rng.normal(0.0, 1.5, (5, 3)).astype(np.float32)
    drift = rng.normal(0.0, 0.5, (5, 3)).astype(np.float32)
    std, birth = 0.8, 0.7

    def worth(path):
        total, before = 0.0, NOWHERE
        for k, state in enumerate(path):
            if state == NOWHERE:
                before = NOWHERE
                continue
            if before == NOWHERE:
                price = birth
            else:
                miss = (before - state + drift[k - 1, before] + drift[k, state]) / std
                price = min(0.5 * miss**2, birth)  # a path may also end, and another begin
            total, before = total + gain[k, state] - price, state
        return total

    best = max(itertools.product((NOWHERE, 0, 1, 2), repeat=5), key=worth)
    path, total = best_track(gain, drift, std, birth)
    np.testing.assert_allclose(total, worth(best), rtol=1e-5)
    np.testing.assert_allclose(worth(path), total, rtol=1e-5)


def test_a_path_between_bins_is_the_top_of_parabolas():
    tops = np.array([3.2, 3.4, 3.1])
    gain = -20.0 * (np.arange(7) - tops[:, None]) ** 2
    # The jumps are free, so that each parabola counts alone; those at the ends count less but for the same top.
    found = between_bins(gain, np.zeros((3, 7)), np.array([3, 3, 3]), 1e6)
    np.testing.assert_allclose(found, tops, atol=1e-6)
    np.testing.assert_allclose(between_bins(gain, np.zeros((3, 7)), np.full(3, NOWHERE), 1.0), 0.0)
    alone = between_bins(gain, np.zeros((3, 7)), np.array([NOWHERE, 3, NOWHERE]), 1.0)
    np.testing.assert_allclose(alone, 3.4, atol=1e-6)


def test_waves_along_a_path_explain_a_chirp():
    t = np.arange(3000) / 50.0
    truth = 2.0 * np.cos(2 * np.pi * (3.0 * t + 0.02 * t**2) + 0.3)
    channels = [framing.Channel(framing.even_grid(t, np.ones(3000), 20.0), truth, np.ones(3000))]
    track = fit_path(channels, t, find_path(channels, 40, 20.0), 20.0)
    inside = slice(200, -200)
    np.testing.assert_allclose(track.signal[0, inside], truth[inside], atol=0.01)
    np.testing.assert_allclose(np.abs(track.wave[5:-5, 0]), 2.0, rtol=1e-3)
    centres = np.arange(len(track.path.gain)) * 40 / 50.0
    np.testing.assert_allclose(track.path.frequency[5:-5], (3.0 + 0.04 * centres)[5:-5], rtol=1e-3)


# Records


def test_a_vibrato_of_a_thousand_cycles():
    t, y = vibrato(200, seed=5)
    found = find_initial_values(t, y)
    assert found.frequency.shape[1] == 1
    error = errors(found, lambda x: 5.0 + 1.5 * np.sin(np.pi * x))
    # Seeds 101 to 107: medians of 1.2 %, at most one place of 10,000 above 20 %.
    assert np.median(error) < 0.015
    assert np.mean(error > 0.2) < 2e-3
    assert abs(found.noise / 0.2 - 1.0) < 0.15
    others = found.alternatives()
    assert 1 < len(others) <= 5
    assert len({len(other.centres) for other in others}) == len(others)
    assert all(other.gain.sum() > 0.4 * found.gain.sum() for other in others)


def test_units_change_nothing_in_a_long_record():
    t, y = vibrato(20, seed=6)
    found = find_initial_values(t, y)
    other = find_initial_values(1e3 * t + 1e7, 7.0 * y + 50.0).in_units(np.array([-1e4]), np.array([1e-3]), 1 / 7)
    np.testing.assert_allclose(other.frequency, found.frequency, rtol=1e-4)
    assert len(other.others) == len(found.others)
    for mine, theirs in zip(found.others, other.others, strict=True):
        np.testing.assert_allclose(theirs.centres, mine.centres, atol=1e-5)
        np.testing.assert_allclose(theirs.amplitude, mine.amplitude, rtol=1e-3)


def test_white_noise_has_no_tracks():
    rng = np.random.default_rng(3)
    for _ in range(3):
        found = find_initial_values(np.sort(rng.uniform(0.0, 60.0, 3000)), rng.normal(size=3000))
        assert not found.found.any()
        assert found.alternatives() == [found]


def test_crossing_chirps_go_straight_on():
    rng = np.random.default_rng(4)
    t = np.sort(rng.uniform(0.0, 100.0, 5000))
    y = np.cos(2 * np.pi * (3.0 * t + 0.03 * t**2)) + 0.8 * np.cos(2 * np.pi * (9.0 * t - 0.03 * t**2))
    found = find_initial_values(t, y + 0.3 * rng.normal(size=5000))
    assert found.found.tolist() == [True, True]
    rising = int(np.argmax(found.frequency[-5, :, 0]))
    for component, truth in ((rising, lambda x: 3.0 + 0.06 * x), (1 - rising, lambda x: 9.0 - 0.06 * x)):
        assert np.quantile(errors(found, truth, component), 0.99) < 0.05


def test_a_component_that_fades_and_a_gap():
    rng = np.random.default_rng(5)
    t = np.sort(rng.uniform(0.0, 100.0, 5000))
    t = t[(t < 78.0) | (t > 90.0)]
    size = np.clip(np.abs(t - 40.0) / 10.0 - 1.0, 0.0, 1.0)  # nothing from 30 to 50
    y = size * np.cos(2 * np.pi * (5.0 * t + 2.0 * np.sin(0.3 * t))) + 0.2 * rng.normal(size=len(t))
    found = find_initial_values(t, y)
    x, gain = found.centres[:, 0], found.gain[:, 0]
    assert not np.any(gain[(x > 33.0) & (x < 47.0)])
    assert not np.any(gain[(x > 83.0) & (x < 85.0)])
    there = (np.abs(x - 40.0) > 13.0) & ((x < 77.0) | (x > 91.0))
    assert np.all(gain[there] > 0)
    assert np.max(errors(found, lambda x: 5.0 + 0.6 * np.cos(0.3 * x))[there]) < 0.1
    assert "seen at" in str(found)


def test_few_cycles_are_left_to_ridges():
    t = np.linspace(0.0, 3.0, 400)
    found = find_initial_values(t, np.cos(2 * np.pi * 4.0 * t) + 0.1 * np.sin(1e3 * t**2))
    assert found.others is None


# Harmonics


def test_a_tone_with_harmonics_is_one_component():
    t, y, truth = heart(1, harmonics=5)
    found = find_initial_values(t, y)
    assert found.frequency.shape[1] == 1
    assert np.ravel(found.harmonics).tolist() == [5]
    assert "with 5 harmonics" in str(found)
    error = errors(found, truth)
    assert np.median(error) < 0.03
    assert np.mean(error > 0.2) < 0.01
    # Five waves of amplitude 1 together.
    np.testing.assert_allclose(np.median(found.amplitude), np.sqrt(2.5), rtol=0.1)


def test_overtones_keep_step_and_other_tones_do_not():
    rng = np.random.default_rng(2)
    t = np.sort(rng.uniform(0.0, 100.0, 5000))
    phase = 3.0 * t + 0.5 * np.sin(0.3 * t)
    noise, weight = 0.2 * rng.normal(size=5000), np.ones(5000)
    grid = framing.even_grid(t, weight, 20.0)
    base = np.cos(2 * np.pi * phase) + noise
    for ratio, expected in ((2.0, [2]), (2.01, [1, 1])):  # 0.03 apart: the windows resolve 1
        other = 0.7 * np.cos(2 * np.pi * ratio * phase + 1.0)
        tracks = [
            fit_path(channels, t, find_path(channels, 80, 20.0), 20.0)
            for channels in ([framing.Channel(grid, part, weight)] for part in (base, other + noise))
        ]
        assert [harmonics for _, harmonics in overtones(tracks, 80 / grid.rate)] == expected
        both = [framing.Channel(grid, base + other, weight)]
        together = in_step(fit_path(both, t, find_comb(both, 80, 20.0), 20.0).wave)
        assert (together > 0.8) == (ratio == 2.0)
        assert (together < 0.4) == (ratio != 2.0)


# Backgrounds of records whose rows are too many to look at all of them for one


@pytest.fixture
def few_rows_are_many(monkeypatch):
    for module in (along, beside):
        monkeypatch.setattr(module, "MANY", 2000)
        monkeypatch.setattr(module, "COARSE", 500)


def test_means_of_rows_keep_what_is_slow():
    t, y, error = uneven()
    coarse = Record(t, y, error, np.ones_like(t)).coarse(7)
    groups = np.split(np.arange(600), np.linspace(0, 600, 7, endpoint=False).astype(int)[1:])
    np.testing.assert_allclose(coarse.t, [np.mean(t[rows]) for rows in groups])
    np.testing.assert_allclose(coarse.y, [np.mean(y[rows]) for rows in groups])
    # Of independent errors that of a mean is smaller by the square root of the rows in it.
    np.testing.assert_allclose(coarse.error, [np.sqrt(np.mean(error[rows] ** 2) * 7 / 600) for rows in groups])


@pytest.mark.parametrize("kind", ["trend", "red noise"])
def test_a_long_record_has_a_background_beside_its_tone(few_rows_are_many, kind):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 300.0, 6000))
    slow = 0.03 * t if kind == "trend" else np.interp(t, np.arange(0.0, 301.0, 5.0), rng.normal(size=61))
    y = np.cos(2 * np.pi * (1.5 * t + np.sin(0.1 * t))) + slow + 0.3 * rng.normal(size=6000)
    found = find_initial_values(t, y)
    assert found.found.tolist() == [True]
    assert np.median(errors(found, lambda x: 1.5 + 0.1 * np.cos(0.1 * x))) < 0.01
    assert found.noise == pytest.approx(0.3, rel=0.1)
    # What windows missed of the tone is in a background, too, that is weaker than the noise.
    strong = found.background_amplitude > 0.3
    (amplitude,), (lengthscale,) = found.background_amplitude[strong], found.background_lengthscale[strong, 0]
    assert (lengthscale > 300.0) == (kind == "trend")
    if kind == "red noise":  # straight lines between values of deviation one
        assert 2.0 < lengthscale < 20.0
        assert 0.5 < amplitude < 1.5


def test_a_long_random_walk_is_no_oscillation(few_rows_are_many):
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0.0, 300.0, 6000))
    found = find_initial_values(t, 0.1 * np.cumsum(rng.normal(size=6000)) + 0.3 * rng.normal(size=6000))
    assert not np.any(found.found)
    assert len(found.background_amplitude)
