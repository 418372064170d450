"""The search along one input: sums against direct ones, the null against dense matrices, signals that are known."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammainc

import spectrogp as sg
from spectrogp.estimator import fitting
from spectrogp.initialise import along, common_frequency, find_initial_values, find_lines, fit_null, nyquist
from spectrogp.initialise.background import _Search
from spectrogp.initialise.beside import smooth_walk
from spectrogp.initialise.covariance import Covariance, Likelihoods, Null, Process, _step
from spectrogp.initialise.lines import _Record
from spectrogp.initialise.transform import fourier_sums

DATA = os.environ.get("SPECTROGP_DATA")


def star(seed, n=1000, amplitude=1.5, period=0.94):
    """Nights of three seasons, at random fractions of the night: times, outputs, error bars."""
    rng = np.random.default_rng(seed)
    nights = np.array([day for day in range(1100) if day % 365 < 345 or n < 900])
    t = np.sort(rng.choice(nights, n, replace=False)) + rng.uniform(-0.125, 0.125, n)
    error = rng.uniform(0.7, 1.3, n)
    return t, 5.0 + amplitude * np.cos(2 * np.pi * t / period + 1.0) + error * rng.normal(size=n), error


def red(seed, n, length, even=True):
    """An Ornstein–Uhlenbeck process."""
    rng = np.random.default_rng(seed)
    t = np.arange(float(n)) if even else np.sort(rng.uniform(0.0, n, n))
    y = rng.normal(size=n)
    for k, decay in enumerate(np.exp(-np.diff(t) / length), 1):
        y[k] = decay * y[k - 1] + np.sqrt(1.0 - decay**2) * y[k]
    return t, y


# Sums, covariances, periodogram


def test_fourier_sums_are_direct_sums():
    """The window's tail is 1e-7 of its top, and sums have as much of the values' size."""
    rng = np.random.default_rng(0)
    t, values, step, count = np.sort(rng.uniform(3.0, 50.0, 200)), rng.normal(size=200), 1.0 / (5 * 47.0), 1500
    direct = np.exp(2j * np.pi * step * np.outer(np.arange(count), t)) @ values
    np.testing.assert_allclose(fourier_sums(t, values, step, count), direct, atol=1e-6 * np.sum(np.abs(values)))


@pytest.mark.parametrize(
    "processes",
    [
        (),
        (Process(0.8, 1.7, 0.5),),
        (Process(0.8, 1.7, 1.5),),
        (Process(0.8, 1.7, 0.5), Process(0.5, 2.0, 1.5, 1.3)),
        (Process(0.8, 0.3, 1.5), Process(0.5, 4.0, 1.5)),
    ],
)
def test_null_is_its_dense_covariance(processes):
    rng = np.random.default_rng(1)
    t = np.sort(np.arange(80) * 0.1 + rng.uniform(0.0, 0.08, 80))
    error, y = rng.uniform(0.1, 0.3, 80), rng.normal(size=80)
    lag = np.abs(t[:, None] - t)
    K = np.diag(error**2 + 0.2**2)
    for amplitude, length, order, frequency in processes:
        x = np.sqrt(2.0 * order) * lag / length
        matern = np.exp(-x) * (1.0 if order == 0.5 else 1.0 + x)
        K += amplitude**2 * matern * np.cos(2 * np.pi * frequency * lag)
    design = 10.0 * np.polynomial.legendre.legvander(2.0 * (t - t[0]) / np.ptp(t) - 1.0, 2)
    K += design @ design.T
    expected = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2.0 * np.pi * K)[1])
    found = Covariance(t, error, 1.0, Null(0.2, processes))
    np.testing.assert_allclose(found.log_likelihood(y), expected, rtol=1e-7)
    np.testing.assert_allclose(found.solve(y), np.linalg.solve(K, y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "kinds", [(), ((0.5, False),), ((1.5, False),), ((0.5, False), (1.5, True)), ((1.5, False), (1.5, False))]
)
def test_many_nulls_at_once_are_each_alone(kinds):
    """More of them than one banded matrix holds: sums of the same numbers, in any order."""
    rng = np.random.default_rng(1)
    t, y, error = np.sort(rng.uniform(0.0, 300.0, 300)), np.cumsum(rng.normal(size=300)), rng.uniform(0.1, 0.3, 300)

    def null():
        noise, amplitude, length, frequency = np.exp(rng.normal(size=4)).tolist()
        processes = [Process(amplitude, length, order, 0.02 * frequency * turns) for order, turns in kinds]
        return Null(noise, tuple(processes))

    nulls = [null() for _ in range(25)]
    alone = [Covariance(t, error, 2.0, one).log_likelihood(y) for one in nulls]
    np.testing.assert_allclose(Likelihoods(t, y, error, 2.0, 2)(nulls), alone, rtol=1e-9)


@pytest.mark.parametrize("order", [0.5, 1.5])
def test_steps_have_closed_forms(order):
    """Against Q itself, whose first entry is an incomplete gamma function: I − A Aᵀ loses digits at short steps."""
    u = np.geomspace(2e-4, 49.0, 400)
    e = np.exp(-u)
    if order == 0.5:
        A, Q = e[:, None, None], -np.expm1(-2.0 * u)[:, None, None]
        determinant = Q[:, 0, 0]
        inverse = 1.0 / Q
    else:
        first = gammainc(3.0, 2.0 * u)
        corner, last = 2.0 * (u * e) ** 2, first + 4.0 * u * e**2
        determinant = first * last - corner**2
        A = np.moveaxis(np.array([[e + u * e, u * e], [-u * e, e - u * e]]), 2, 0)
        inverse = np.moveaxis(np.array([[last, -corner], [-corner, first]]) / determinant, 2, 0)
    own, across, log_Q = _step(u[None], order, np.full((1, 1), 3.0))
    between = -inverse @ A
    for (i, j), entry in own.items():
        expected = inverse[:, i, j] - 0.5 if i == j else -inverse[:, i, j]
        np.testing.assert_allclose(entry[0], 3.0 * expected, rtol=1e-12)
    for (i, j), entry in across.items():
        np.testing.assert_allclose(entry[0], 3.0 * between[:, i, j], rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(np.exp(log_Q[0]), determinant, rtol=1e-12)


def test_nulls_that_rounding_makes_impossible_fail_alone():
    """A billionth of noise beside two smooth processes: the banded matrix is not positive definite."""
    t, y = red(0, 100, 10.0)
    processes = Process(1.0, 10.0, 1.5), Process(1.0, 300.0, 1.5)
    none, nulls = np.zeros(100), [Null(noise, processes) for noise in (0.3, 1e-9, 0.2)]
    with pytest.raises(np.linalg.LinAlgError):
        Covariance(t, none, 1.0, nulls[1])
    alone = [Covariance(t, none, 1.0, null).log_likelihood(y) for null in (nulls[0], nulls[2])]
    np.testing.assert_allclose(Likelihoods(t, y, none, 1.0, 2)(nulls), [alone[0], -np.inf, alone[1]])


def test_information_of_waves_is_that_of_solutions():
    rng = np.random.default_rng(2)
    t, error = np.sort(rng.uniform(0.0, 50.0, 120)), rng.uniform(0.1, 0.3, 120)
    designs = rng.normal(size=(7, 2, 120))
    for processes in ((), (Process(0.8, 1.7, 0.5), Process(0.5, 2.0, 1.5, 1.3))):
        covariance = Covariance(t, error, 1.0, Null(0.2, processes))
        direct = [X @ covariance.solve(X.T) for X in designs]
        np.testing.assert_allclose(covariance.information(designs), direct, rtol=1e-9, atol=1e-9)


def test_null_finds_the_numbers_of_red_noise():
    """Standard errors of a lengthscale of 20 in 1000 rows: 2/√50 of it."""
    t, y = red(3, 1000, 20.0)
    null, _ = fit_null(t, y + 0.5 * np.random.default_rng(4).normal(size=1000), np.zeros(1000))
    (process,) = null.processes
    np.testing.assert_allclose([null.noise, process.amplitude], [0.5, 1.0], rtol=0.2)
    np.testing.assert_allclose(process.lengthscale, 20.0, rtol=0.6)


@pytest.mark.parametrize(("noise", "expected"), [(0.4, 0.4), (0.0, 1e-3), (1e3, 1e3)])
def test_white_noise_beside_error_bars(noise, expected):
    """The noise of largest likelihood, as a search of one number finds it; none is a thousandth of the spread."""
    rng = np.random.default_rng(5)
    t, error = np.sort(rng.uniform(0.0, 10.0, 400)), rng.uniform(0.1, 0.3, 400)
    y = t + 0.1 * t**2 + error * rng.normal(size=400) * (noise > 0) + noise * rng.normal(size=400)
    spread = float(np.std(y))
    likelihoods = Likelihoods(t, y, error, spread, 2)
    null, likelihood = _Search.of(t, y, error, 2).white()
    best = minimize_scalar(lambda x: -likelihoods([Null(np.exp(x))])[0], bounds=np.log(np.multiply((1e-3, 3), spread)))
    np.testing.assert_allclose(likelihood, -best.fun, atol=1e-3)
    np.testing.assert_allclose(null.noise, expected * (spread if noise == 0 else 1.0), rtol=0.1)


def test_periodogram_is_least_squares():
    """Δχ² of a line is what a fit of it beside mean and trend gains, with error bars, by dense algebra."""
    t, y, error = star(0, 200)
    y, t = y - y.mean(), t - t[0]
    record = _Record(t, y, error, Null(0.3), [])
    frequency, gain, _ = record.periodogram(2.0)
    root = 1.0 / np.sqrt(error**2 + 0.3**2)
    trend = np.polynomial.legendre.legvander(2.0 * t / t[-1] - 1.0, 2)
    chosen = np.argsort(-gain)[:5]
    for f, exact, fast in zip(frequency[chosen], record.exact(frequency[chosen]), gain[chosen], strict=True):
        waves = np.column_stack([trend, np.cos(2 * np.pi * f * t), np.sin(2 * np.pi * f * t)])
        rest = [
            np.sum((root * y - (root[:, None] * X) @ np.linalg.lstsq(root[:, None] * X, root * y)[0]) ** 2)
            for X in (trend, waves)
        ]
        np.testing.assert_allclose(exact, rest[0] - rest[1], rtol=2e-3)  # the trend has a prior of ten deviations
        np.testing.assert_allclose(fast, exact, rtol=0.25)  # where its information is that of other frequencies


def test_nyquist_of_a_sampling_pattern():
    rng = np.random.default_rng(0)
    t = np.arange(400.0)
    np.testing.assert_allclose(nyquist(t), 0.5, rtol=5e-3)
    np.testing.assert_allclose(nyquist(np.delete(t, np.arange(100, 220))), 0.5, rtol=5e-3)
    np.testing.assert_allclose(nyquist(t + rng.uniform(-0.05, 0.05, 400)), 0.5, rtol=5e-3)  # nearly even, as months
    assert nyquist(np.sort(rng.uniform(0.0, 400.0, 400))) > 4.0  # ten times the average
    nights = np.concatenate([365 * k + np.sort(rng.choice(220, 100, replace=False)) for k in range(5)])
    assert nyquist(nights + rng.uniform(-0.15, 0.15, 500)) > 4.0  # of close nights, not of all days in five years


# Lines


@pytest.mark.parametrize("seed", range(3))
def test_a_star_with_daily_aliases(seed):
    """σ of the frequency is √6 σ / (π A T √N) = 1.5e-5 cycles a day: 1e-4 is far outside."""
    t, y, error = star(seed)
    found = find_lines(t, y - y.mean(), error, nyquist(t), 3)
    assert [round(line.frequency * 0.94, 4) for line in found.lines] == [1.0]
    assert not found.lines[0].aliases


@pytest.mark.parametrize("seed", [2, 4, 6])
def test_a_pulsating_star_and_its_overtones(seed):
    """At one time in every other night: overtones are at the multiples, not at their aliases by days or seasons.

    The fundamental is beyond ten times the Nyquist frequency of the average spacing, the overtones far beyond.
    """
    rng = np.random.default_rng(seed)
    nights = np.concatenate([365 * k + np.arange(220) for k in range(5)])
    t = np.sort(rng.choice(nights, 500, replace=False)) + rng.uniform(-0.15, 0.15, 500)
    f = rng.uniform(1.5, 1.6)
    y = sum(a * np.cos(k * 2 * np.pi * f * t + k) for k, a in ((1, 0.3), (2, 0.15), (3, 0.1)))
    y = y + 0.1 * rng.normal(size=500)
    found = find_lines(t, y - y.mean(), np.full(500, 0.05), nyquist(t), 4)
    np.testing.assert_allclose([line.frequency / f for line in found.lines], [1.0, 2.0, 3.0], rtol=1e-4)
    assert not any(line.aliases for line in found.lines)


def test_a_tone_beside_strong_red_noise_is_steady():
    """Parts of a record share the red noise: the whole is not what each of them says without the others."""
    t = np.arange(1920.0)
    null = Null(0.01, (Process(1.0, 16.0, 1.5, 0.0),))
    assert _Record(t, np.cos(2 * np.pi * t / 48 + 0.5), np.zeros(1920), null, []).is_steady(1 / 48)
    turned = np.cos(2 * np.pi * t / 48 + 0.9 * np.pi * (t > 960))
    assert not _Record(t, turned, np.zeros(1920), null, []).is_steady(1 / 48)


def test_an_alias_explains_as_much(monkeypatch):
    """However much there is around another frequency: on a grid no other one is the same."""
    t, rng = np.arange(400.0), np.random.default_rng(0)
    y = np.cos(2 * np.pi * t / 24) + 0.1 * rng.normal(size=400)
    seen = _Record.periodogram
    monkeypatch.setattr(_Record, "periodogram", lambda *args: (*seen(*args)[:2], 1e4 * seen(*args)[2]))
    assert _Record(t, y, np.zeros(400), Null(0.1, ()), []).aliases(1 / 24, 0.5)[1] == ()


def test_aliases_are_named():
    """A line that is hardly there is as likely one day away, and that is said in words."""
    t, y, error = star(1, 700, amplitude=0.27)
    found = find_initial_values(t, y, error)
    (a,) = np.flatnonzero(found.found)
    candidates = np.append(found.aliases[:, 0], found.frequency[0, a, 0])
    assert np.min(np.abs(candidates * 0.94 - 1.0)) < 1e-3
    assert len(found.aliases)
    said = str(found)
    assert "may be an alias of" in said
    assert "f + 1" in said or "f − 1" in said or "− f" in said


def test_a_line_among_many_rows():
    """A tenth of the noise in 20,000 uneven rows, at four times the average Nyquist frequency."""
    rng = np.random.default_rng(2)
    t = np.sort(rng.uniform(0.0, 2000.0, 20_000))
    y = 0.1 * np.cos(2 * np.pi * 21.3 * t) + rng.normal(size=t.size)
    (line,) = find_lines(t, y, np.zeros_like(t), nyquist(t), 3).lines
    np.testing.assert_allclose(line.frequency, 21.3, atol=1e-4)


def test_a_line_in_red_noise():
    t, y = red(5, 400, 20.0)
    found = find_initial_values(t, y + np.cos(2 * np.pi * 0.11 * t))
    assert found.steady.tolist() == [True]
    np.testing.assert_allclose(found.frequency[0, 0, 0], 0.11, rtol=2e-3)
    assert len(found.background_amplitude) == 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_quarters_have_a_year_and_its_half(seed):
    """A line at the end of the band was taken for its own surroundings, and hid the year beside it."""
    rng = np.random.default_rng(seed)
    t = 1980.0 + np.arange(100) / 4.0
    y = np.tile([2.0, -4.0, 8.0, -6.0], 25) + np.cumsum(rng.normal(size=100)) * 0.7
    found = find_initial_values(t, y)
    np.testing.assert_allclose(np.sort(found.frequency[0, found.found, 0]), [1.0, 2.0], atol=0.005)


def test_what_all_lines_are_multiples_of():
    span = 15.0
    assert common_frequency([2.0, 5.0, 3.0], span) == pytest.approx(1.0)
    assert common_frequency([2.0, 4.02, 6.01], span) == pytest.approx((2.0 + 2 * 4.02 + 3 * 6.01) / 14.0)
    assert common_frequency([2.0, 5.0], span) == 0.0  # two are multiples of something in any case
    assert common_frequency([2.0, 5.0, 3.1], span) == 0.0  # one and a half cycles in the record from a multiple
    assert common_frequency([0.5, 1.0, 1.5], span) == 0.0  # repeats too seldom


def test_overtones_of_a_season_do_not_count():
    """Months of any shape have six lines; four are for what has nothing to do with each other."""
    rng = np.random.default_rng(3)
    t = 2000.0 + np.arange(180) / 12.0
    season = sum(np.cos(2.0 * np.pi * k * t + k) / k**0.5 for k in range(1, 6))
    y = 3.0 * (t - 2000.0) + season + 0.2 * rng.normal(size=t.size)
    found = find_initial_values(t, y)
    np.testing.assert_allclose(np.sort(found.frequency[0, found.found, 0]), np.arange(1.0, 6.0), atol=0.005)
    # What is left of a season needs to gain more than the best of few multiples does by chance, not of all frequencies.
    faint = season + 0.14 * np.cos(12.0 * np.pi * t) + 0.35 * np.random.default_rng(4).normal(size=t.size)
    lines = find_lines(t, faint - faint.mean(), np.zeros_like(t), nyquist(t), 4, overtones=True).lines
    np.testing.assert_allclose(np.sort([line.frequency for line in lines]), np.arange(1.0, 7.0), atol=0.02)
    assert find_lines(t, faint - season, np.zeros_like(t), nyquist(t), 4, overtones=True).lines == []
    assert find_initial_values(t, y, components=4).frequency.shape[1] == 4
    other = y + 0.9 * np.cos(2.0 * np.pi * 2.37 * t)  # which has nothing in common with them
    found = find_lines(t, other - other.mean(), np.zeros_like(t), nyquist(t), 4, overtones=True)
    assert len(found.lines) == 4
    assert min(abs(line.frequency - 2.37) for line in found.lines) < 0.005


# Nothing


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("kind", ["white", "red", "walk", "line", "parabola"])
def test_noise_and_trends_have_no_components(kind, even):
    t, y = red(11, 300, 15.0, even)
    rng = np.random.default_rng(12)
    x = t / 300.0
    y = {
        "white": rng.normal(size=300),
        "red": y,
        "walk": np.cumsum(rng.normal(size=300)),
        "line": 5.0 * x + rng.normal(size=300),
        "parabola": 20.0 * (x - 0.4) ** 2 + rng.normal(size=300),
    }[kind]
    found = find_initial_values(t, y)
    assert not np.any(found.found)
    assert len(found.background_amplitude) >= 1


# A background beside components


def test_a_trend_is_no_component():
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 10.0, 300)
    y = np.cos(2 * np.pi * (t + 0.075 * t**2)) + 3.0 * t - 0.3 * t**2 + 0.2 * rng.normal(size=300)
    found = find_initial_values(t, y)
    assert found.found.tolist() == [True]
    truth = 1.0 + 0.15 * found.centres[:, 0]
    assert np.median(np.abs(found.frequency[:, 0, 0] / truth - 1.0)) < 0.02
    assert found.background_lengthscale[-1, 0] > 10.0


def test_two_tones_beside_a_random_walk():
    rng = np.random.default_rng(3)
    t = np.linspace(0.0, 10.0, 300)
    tones = np.cos(2 * np.pi * 2.0 * t) + 0.7 * np.cos(2 * np.pi * 3.3 * t)
    found = find_initial_values(t, tones + 0.15 * np.cumsum(rng.normal(size=300)))
    np.testing.assert_allclose(np.sort(found.frequency[0, found.found, 0]), [2.0, 3.3], rtol=0.01)
    assert found.steady.all()
    assert len(found.background_amplitude)


def draw_of(rng, lag, length, order=1.5, frequency=0.0):
    """A draw of a Matérn process, or of one that oscillates."""
    x = np.sqrt(2.0 * order) * lag / length
    K = np.exp(-x) * (1.0 if order == 0.5 else 1.0 + x) * np.cos(2 * np.pi * frequency * lag)
    return np.linalg.cholesky(K + 1e-9 * np.eye(len(lag))) @ rng.normal(size=len(lag))


@pytest.mark.parametrize("seed", [6, 11, 15])
def test_ups_and_downs_of_a_slow_process_are_no_component(seed):
    """Beside an oscillation and red noise, where the process turns like something of a frequency; a tone is one."""
    rng = np.random.default_rng(seed)
    t = np.arange(280.0)
    lag = np.abs(t[:, None] - t)
    smooth = [np.linalg.cholesky(np.exp(-0.5 * (lag / length) ** 2) + 1e-9 * np.eye(280)) for length in (25.0, 40.0)]
    phase = 2 * np.pi * np.cumsum(0.09 * np.exp(0.1 * smooth[0] @ rng.normal(size=280)))
    y = (1.0 + 0.3 * smooth[1] @ rng.normal(size=280)) * np.cos(phase)
    y += 0.3 * draw_of(rng, lag, 1.5) + 0.05 * rng.normal(size=280)
    found = find_initial_values(t, y + 0.5 * draw_of(rng, lag, 16.0))
    assert found.found.tolist() == [True]
    assert 8.0 < np.max(found.background_lengthscale) < 50.0
    both = find_initial_values(t, y + 0.6 * np.cos(2 * np.pi * t / 35.0))
    assert both.found.tolist() == [True, True]
    np.testing.assert_allclose(np.min(np.median(both.frequency[..., 0], axis=0)), 1.0 / 35.0, rtol=0.1)


def test_a_path_that_follows_the_background_gives_way_to_a_band(monkeypatch):
    """A slow process stronger than what oscillates above it: one path follows the one first, and then the other."""
    rng = np.random.default_rng(3)
    t = np.arange(280.0)
    lag = np.abs(t[:, None] - t)
    grows = 0.1 + 0.35 * (t / 280.0) ** 2

    def smooth(length):
        return (1.0 + np.sqrt(3.0) * lag / length) * np.exp(-np.sqrt(3.0) * lag / length)

    K = 0.64 * smooth(42.0) + np.outer(grows, grows) * smooth(25.0) * np.cos(2.0 * np.pi * 0.095 * lag)
    y = np.linalg.cholesky(K + 1e-9 * np.eye(280)) @ rng.normal(size=280) + 0.06 * rng.normal(size=280)
    found = find_initial_values(t, y)
    assert found.found.sum() == 1
    np.testing.assert_allclose(found.frequency, 0.095, rtol=0.05)
    assert np.any(found.background_lengthscale > 30.0)
    monkeypatch.setattr(along, "_or_band", lambda record, kept, null, worth: (kept, null, worth))
    path = find_initial_values(t, y).frequency[:, 0, 0]
    assert np.min(path) < 0.095 / 2.0 < np.max(path)


def test_a_band_has_the_frequency_of_its_process():
    """Its phase is lost within a cycle, as that of El Niño, too early for windows to follow."""
    rng = np.random.default_rng(0)
    t = np.arange(480) / 4.0
    lag = np.abs(t[:, None] - t)
    y = draw_of(rng, lag, 1.3, frequency=0.35) + 0.3 * rng.normal(size=480)
    found = find_initial_values(t, y)
    assert found.found.tolist() == [True]
    np.testing.assert_allclose(found.frequency[:, 0, 0], 0.35, rtol=0.1)  # twice 1 / (2π 1.3 √(120 / 1.3))
    np.testing.assert_allclose(found.lengthscale[:, 0, 0], 1.3, rtol=0.4)


# Fits


@pytest.fixture(scope="module")
def of_noise():
    rng = np.random.default_rng(0)
    t = np.arange(120.0)
    return t, sg.SpectralGPRegressor(random_state=0, n_draws=20).fit(t, rng.normal(size=120), names=("time (s)", "u"))


def test_nothing_significant_is_said(of_noise):
    t, model = of_noise
    assert "nothing significant" in model.warnings_[0]
    assert " Hz stands out of noise" in model.warnings_[0]  # the unit that its figures have
    assert model.warnings_[0] in model.summary()
    assert f"predicted from the others: R² {model.diagnostics_['block_out']['r2']:.4f}, " in model.summary()
    assert model.instantaneous_frequency(t).mean.shape == (120, 0)
    assert sg.plots.summary(model.report())["components"] == []
    np.testing.assert_allclose(model.predict(t).std(), 0.0, atol=0.5)  # noise is not followed
    assert 0.8 < model.diagnostics_["block_out"]["coverage"] <= 1.0


def test_a_fit_of_nothing_is_drawn_and_kept(of_noise, tmp_path):
    t, model = of_noise
    model.plot().savefig(tmp_path / "overview.png")
    model.save(tmp_path / "model.safetensors")
    again = sg.load(tmp_path / "model.safetensors")
    assert again.warnings_ == model.warnings_
    np.testing.assert_array_equal(again.predict(t), model.predict(t))


def test_a_line_that_no_component_explains_is_told():
    rng = np.random.default_rng(1)
    t = np.arange(200.0)
    y = 2.0 * np.cos(2 * np.pi * 0.05 * t) + np.cos(2 * np.pi * 0.21 * t) + 0.2 * rng.normal(size=200)
    model = sg.SpectralGPRegressor(n_components=1, random_state=0, n_draws=20).fit(t, y)
    fitted = float(np.median(model.instantaneous_frequency(t).mean))
    (said,) = (sentence for sentence in model.warnings_ if "residuals" in sentence)
    missed = float(said.split(" line at ")[1].split()[0])
    np.testing.assert_allclose(sorted([fitted, missed]), [0.05, 0.21], rtol=0.01)


@pytest.mark.skipif(DATA is None, reason="SPECTROGP_DATA names no directory with the real records")
def test_carbon_dioxide_has_years_and_a_trend():
    table = np.genfromtxt(Path(DATA) / "first/co2m_train.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    days = (table["date"].astype("datetime64[D]") - np.datetime64("1958-01-01")).astype(float)
    seen = np.isfinite(table["co2"])
    found = find_initial_values(days[seen] / 365.25, table["co2"][seen])
    frequency = np.sort(found.frequency[0, found.found, 0])
    np.testing.assert_allclose(frequency[:2], [1.0, 2.0], atol=2e-3)
    assert found.background_lengthscale.max() > 37.0


def test_components_that_show_only_together_are_found():
    """Of two tones that cross each alone leaves the other to red noise, and gains less than it must."""
    data = sg.datasets.signal("crossing", n=200, noise=0.5, irregular=False, seed=0)
    found = find_initial_values(data.X, data.y, max_components=4)
    assert found.found.sum() == 2
    at = np.array([np.argmin(np.abs(data.X[:, 0] - c)) for c in found.centres[:, 0]])
    apart = np.abs(np.sort(found.frequency[..., 0], axis=1) / np.sort(data.frequency[at], axis=1) - 1.0)
    assert np.median(apart) < 0.1


def test_components_that_are_asked_for_may_be_seen_nowhere():
    """A tone at random times, found as a line, beside a ridge without any significant centre."""
    rng = np.random.default_rng(18)
    t = np.sort(rng.uniform(0.0, 10.0, 40))
    found = find_initial_values(t, np.cos(2 * np.pi * 2.3 * t) + 0.05 * rng.normal(size=40), components=1)
    np.testing.assert_allclose(np.median(found.frequency), 2.3, rtol=0.02)


def test_tides_are_lines_and_not_overtones():
    """Five tones of sixty days: two of a day and three of half a day, which a comb that changes explains nearly."""
    rng = np.random.default_rng(7)
    t = np.arange(0.0, 1440.0)
    tide = {12.4206: 1.0, 12.0: 0.46, 12.6583: 0.19, 23.9345: 0.58, 25.8193: 0.41}
    y = sum(size * np.cos(2.0 * np.pi * t / period + size) for period, size in tide.items())
    y = y + 0.05 * rng.normal(size=len(t)) + 0.005 * np.cumsum(rng.normal(size=len(t)))
    found = find_initial_values(t[:, None], y)
    assert np.all(np.broadcast_to(found.harmonics, found.found.shape) == 1)
    typical = np.sort(np.median(found.frequency[..., 0], axis=0))
    np.testing.assert_allclose(typical, np.sort(1.0 / np.array(list(tide))), rtol=0.005)
    # Lines are near each other and cross nothing: no start exchanges them.
    for start in found.ridges():
        np.testing.assert_allclose(
            np.median(start.frequency[..., 0], axis=0), np.median(found.frequency[..., 0], 0), 0.005
        )


def test_some_of_the_components():
    """Their values, and the aliases of these under their new numbers."""
    t, y, error = star(0)
    found = find_initial_values(t[:, None], y + 2.0 * np.cos(2.0 * np.pi * t / 31.0), error)
    assert found.found.sum() == 2
    last = found.only(np.array([1]))
    np.testing.assert_array_equal(last.frequency[:, 0], found.frequency[:, 1])
    np.testing.assert_array_equal(last.aliases, found.aliases[found.aliases_of[:, 0] == 1])
    assert np.all(last.aliases_of[:, 0] == 0)
    assert last.gain.shape[1] == 1


def test_components_that_explain_nothing_are_left_out(monkeypatch):
    """A search that found the same line twice: which of both is there cannot be told, and one is enough."""
    rng = np.random.default_rng(3)
    t = np.arange(0.0, 20.0, 0.125)
    y = np.cos(2.0 * np.pi * t) + 0.1 * rng.normal(size=len(t))
    once = fitting._initial_values
    monkeypatch.setattr(fitting, "_initial_values", lambda *given: once(*given).only(np.array([0, 0])))
    model = sg.SpectralGPRegressor(random_state=0).fit(t, y)
    assert model.initial_values_.frequency.shape[1] == 1
    np.testing.assert_allclose(model.instantaneous_frequency(t).mean, 1.0, rtol=5e-3)
    asked = sg.SpectralGPRegressor(n_components=2, random_state=0).fit(t, y)
    assert asked.initial_values_.frequency.shape[1] == 2
    assert any("components 1 and 2 have the same frequency" in said for said in asked.warnings_)


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="SPECTROGP_DATA names no directory with the real records")
def test_a_fast_background_beside_a_slow_one_is_judged_by_its_evidence():
    """Sunspots to 1979: what a fit leaves over is white, since its slow background takes the fast one in, but without
    the fast one the evidence is six nats lower and the cycle is forecast worse."""
    rows = np.genfromtxt(Path(DATA) / "first/sunspots_train.csv", delimiter=",", skip_header=1)
    later = np.genfromtxt(Path(DATA) / "first/sunspots_test.csv", delimiter=",", skip_header=1)
    model = sg.SpectralGPRegressor(random_state=0).fit(rows[:, 0], rows[:, 1])
    backgrounds = [term for term in model.model_.terms if term.phase is None]
    assert len(backgrounds) == 2
    mean, std = model.predict(later[:, 0], return_std=True)
    assert np.sqrt(np.mean((mean - later[:, 1]) ** 2)) < 36.0  # 31 to 34 by the seed of the draws
    assert np.mean(np.abs(mean - later[:, 1]) < 1.645 * std) > 0.8


@pytest.mark.parametrize("seed", [0, 6])
def test_a_trend_that_bends_goes_on(seed):
    """A slope that wanders, beside a tone: no polynomial follows it, and a process that turns back to the mean within
    the record is no likelier than one that keeps its slope."""
    rng = np.random.default_rng(seed)
    t = np.arange(150) / 12.0
    trend = np.cumsum(0.1 + np.cumsum(0.02 * rng.normal(size=t.size)))
    y = 3.0 * trend / np.std(trend) + np.cos(2.0 * np.pi * t) + 0.2 * rng.normal(size=t.size)
    found = find_initial_values(t, y, max_components=4)
    np.testing.assert_allclose(found.frequency[:, found.found, 0].mean(), 1.0, rtol=0.02)
    slowest = int(np.argmax(found.background_lengthscale[:, 0]))
    span = np.ptp(t)
    assert found.background_lengthscale[slowest, 0] > 10.0 * span
    # Over the record such a process leaves its tangent by √(4√3) (span / ℓ)^1.5 of its amplitude: as the trend does.
    leaves = np.sqrt(4.0 * np.sqrt(3.0)) * (span / found.background_lengthscale[slowest, 0]) ** 1.5
    assert 1.0 < leaves * found.background_amplitude[slowest] < 30.0


@pytest.mark.parametrize("seed", [5, 18])
def test_a_trend_that_steepens_goes_on(seed):
    """Still, rising, still, rising: a process of two fifths of the record is hardly likelier than one that keeps its
    slope, and forecasts by the first would turn back to the mean in a narrow band."""
    rng = np.random.default_rng(seed)
    t = np.arange(147.0)
    red = np.zeros(t.size)
    for k in range(1, t.size):
        red[k] = 0.4 * red[k - 1] + 0.09 * rng.normal()
    y = np.interp(t, [0, 60, 90, 120, 147], [0, -0.1, 0.3, 0.3, 0.9]) + red
    found = find_initial_values(t, y, max_components=4)
    assert not np.any(found.found)
    assert found.background_lengthscale[:, 0].max() > 10.0 * np.ptp(t)


@pytest.mark.parametrize("seed", [0, 4])
def test_ups_and_downs_beside_a_trend_turn_back_to_it(seed):
    """A smooth process of a twentieth of the record beside a trend that bends: it is the trend that goes on."""
    rng = np.random.default_rng(seed)
    t = np.arange(200) / 200.0
    r = np.sqrt(3.0) * np.abs(t[:, None] - t) / 0.05
    g = np.linalg.cholesky((1.0 + r) * np.exp(-r) + 1e-10 * np.eye(t.size)) @ rng.normal(size=t.size)
    found = find_initial_values(t, 10.0 * t + 8.0 * t**2 + 0.3 * g + 0.02 * rng.normal(size=t.size), max_components=4)
    shorter, longer = np.sort(found.background_lengthscale[:, 0])
    assert 0.025 < shorter < 0.1  # a factor of two either way: twenty lengthscales tell their length so well
    assert longer > 10.0


def test_processes_that_are_each_eight_times_as_slow_are_a_walk_of_smooth_steps():
    """They wander as an integrated Ornstein–Uhlenbeck process: by τ/b − (1 − e^{−bτ})/b² in the mean square."""
    span = 20.0
    parts = smooth_walk(Process(1.0, 1.0, 1.5), 1.0, 1.0, span)
    tau = np.geomspace(0.05, span, 60)
    r = [np.sqrt(3.0) * tau / part.lengthscale for part in parts]
    wanders = sum(part.amplitude**2 * (1.0 - (1.0 + x) * np.exp(-x)) for part, x in zip(parts, r, strict=True))
    b = np.geomspace(1.0, 20.0, 200)[:, None]
    ratio = np.log(wanders / (tau / b - (1.0 - np.exp(-b * tau)) / b**2))
    assert np.min(np.max(np.abs(ratio - np.mean(ratio, axis=1, keepdims=True)), axis=1)) < 0.1


def test_a_level_that_wandered_by_smooth_steps_does_so_beyond_the_data():
    """Neither a walk, whose steps are rough, nor a slope that stays: of sixteen seeds all were told right, and three
    when it was no choice; others were red noise that turns back to the mean."""
    t = np.arange(102.0)
    for seed in range(4):
        steps = np.random.default_rng(seed).normal(size=302)
        for k in range(1, steps.size):
            steps[k] += 0.8 * steps[k - 1]
        level = np.cumsum(steps)[-t.size :]
        found = find_initial_values(t, level - level.mean())
        assert np.max(found.background_lengthscale) > np.ptp(t)


@pytest.mark.parametrize(("kept", "stays"), [(1.0, True), (np.exp(-0.25), False)])
def test_a_level_that_wandered_in_the_data_does_so_beyond_them(kept, stays):
    """A walk in noise is hardly told from red noise of a lengthscale within the record, by which forecasts would turn
    back to the mean in a narrow band; red noise of forty lengthscales is. Of twelve seeds eleven were told right in
    either case, and no walk of twelve when it was no choice: two errors in six at a rate of one in twelve
    have a chance of 8 %, and these seeds are fixed."""
    t, right = np.arange(160.0) / 12.0, 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        steps, noise = rng.normal(size=(2, t.size))
        level = np.zeros(t.size)
        for k in range(1, t.size):
            level[k] = kept * level[k - 1] + (1.0 if stays else 3.0 * np.sqrt(1.0 - kept**2)) * steps[k]
        found = find_initial_values(t, level + 1.5 * noise)
        right += bool(np.max(found.background_lengthscale) > 10.0 * np.ptp(t)) == stays
    assert right >= 5
