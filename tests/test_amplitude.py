"""The amplitude that an oscillation has: the modulus of its complex envelope."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rice

import spectrogp as sg
from spectrogp.kernels import MaternPhase, WarpedTime
from spectrogp.models import Data, MarkovGP
from spectrogp.plots import overview, summary
from spectrogp.posterior import Band, Envelopes, Posterior, instantaneous_amplitude, moduli

DRAWS = 40_000


def test_the_modulus_of_a_round_normal_envelope_is_that_of_rice():
    """With equal variances in u and v; mean and quantiles to four standard errors of so many draws."""
    mean, std = np.array([[1.2, -0.9], [0.3, 0.0], [0.0, 0.0]]), np.array([0.1, 0.5, 2.0])
    covariance = std[:, None, None] ** 2 * np.eye(2)
    values = moduli(*(np.broadcast_to(part, (DRAWS, *part.shape)) for part in (mean, covariance)))
    truth = rice(np.hypot(*mean.T) / std, scale=std)
    assert np.all(np.abs(values.mean(axis=0) - truth.mean()) < 4.0 * truth.std() / np.sqrt(DRAWS))
    for level in (0.05, 0.95):
        edge = truth.ppf(level)
        error = np.sqrt(level * (1.0 - level) / DRAWS) / truth.pdf(edge)
        assert np.all(np.abs(np.quantile(values, level, axis=0) - edge) < 4.0 * error)


def test_covariances_are_those_of_the_draws():
    """u alone is known: the modulus is |v| folded; and what is known for certain has no width."""
    flat = np.array([[0.0, 0.0], [0.0, 4.0]])
    values = moduli(np.zeros((DRAWS, 1, 2)), np.broadcast_to(flat, (DRAWS, 1, 2, 2)))
    assert values.mean() == pytest.approx(2.0 * np.sqrt(2.0 / np.pi), abs=4.0 * 2.0 / np.sqrt(DRAWS))
    tied = np.array([[1.0, 1.0], [1.0, 1.0]])  # u = v
    values = moduli(np.zeros((DRAWS, 1, 2)), np.broadcast_to(tied, (DRAWS, 1, 2, 2)))
    assert np.mean(values**2) == pytest.approx(2.0, abs=4.0 * np.sqrt(8.0 / DRAWS))
    certain = moduli(np.full((5, 1, 2), [3.0, 4.0]), np.zeros((5, 1, 2, 2)))
    np.testing.assert_allclose(certain, 5.0, rtol=1e-12)


def test_envelopes_are_those_of_dense_normal_distributions():
    """u and v are independent Matérn processes in time, seen as σ (cos φ u + sin φ v) beside noise."""
    rng = np.random.default_rng(0)
    t, X, noise, length = np.sort(rng.uniform(0.0, 10.0, 30)), np.linspace(-0.5, 11.0, 9), 0.3, 2.5
    y = np.cos(3.0 * t + 0.4) + noise * rng.normal(size=30)
    model = MarkovGP(MaternPhase(WarpedTime(length), lambda x: 3.0 * x[:, :1], lambda x: 1.0 + 0.1 * x[:, :1]), noise)
    found = Posterior.at_point(model).read(Envelopes(model.prepare(Data(t, y), X[:, None]), X[:, None]))

    def alike(a, b):
        r = np.sqrt(3.0) * np.abs(a[:, None] - b) / length
        return (1.0 + r) * np.exp(-r)

    size = 1.0 + 0.1 * t
    waves = size * np.cos(3.0 * t), size * np.sin(3.0 * t)
    K = sum(np.outer(wave, wave) for wave in waves) * alike(t, t) + noise**2 * np.eye(30)
    here = 1.0 + 0.1 * X
    cross = np.stack([here[:, None] * alike(X, t) * wave for wave in waves], axis=1)  # [t, 2, n]
    mean = cross @ np.linalg.solve(K, y)
    covariance = here[:, None, None] ** 2 * np.eye(2) - np.einsum(
        "tkn,tln->tkl", cross, np.linalg.solve(K, cross.reshape(-1, 30).T).T.reshape(cross.shape)
    )
    np.testing.assert_allclose(found[0][0, :, 0], mean, atol=1e-9)
    np.testing.assert_allclose(found[1][0, :, 0], covariance, atol=1e-9)


@pytest.fixture(scope="module")
def swelling():
    """A tone whose frequency changes and whose amplitude swells, in units of thousands, on a level."""
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0.0, 20.0, 250))
    phase = 2.0 * np.pi * (1.1 * t + 0.6 * np.cos(0.4 * t))
    y = 5000.0 + height(t) * np.cos(phase) + 200.0 * rng.normal(size=250)
    return sg.SpectralGPRegressor(n_components=1, random_state=0).fit(t, y), np.linspace(0.5, 19.5, 60)


def height(t):
    return 1000.0 * (1.5 + np.sin(0.5 * t))


def test_a_tone_has_its_own_amplitude(swelling):
    """Noise of 0.13 of the amplitude, ten rows to half a period of the swelling: a few per cent of error."""
    model, at = swelling
    band = model.instantaneous_amplitude(at)
    truth = height(at)[:, None]
    assert band.mean.shape == (60, 1)
    assert np.median(np.abs(band.mean / truth - 1.0)) < 0.05
    assert np.mean(band.covers(truth)) > 0.7  # of a few independent places: 90 % on average
    assert np.all(band.upper - band.lower < 0.5 * 1500.0)
    np.testing.assert_array_equal(
        model.instantaneous_amplitude(tuple(at[:3])).mean, model.instantaneous_amplitude(at[:3]).mean
    )
    narrow = model.instantaneous_amplitude(at, level=0.5)
    assert np.all((narrow.lower > band.lower) & (narrow.upper < band.upper))


def test_where_nothing_is_known_it_is_as_wide_as_the_prior(swelling):
    """Far beyond the data the envelope is a draw of its prior, whose modulus is Rayleigh's given σ."""
    model, _ = swelling
    band = model.instantaneous_amplitude([2000.0])
    inside = (np.array([[2000.0]]) - model.X_mean_) / model.X_scale_
    sigma = model.posterior_.local_functions(inside).amplitude[:, 0, 0] * model.y_scale_
    assert band.mean.item() == pytest.approx(np.mean(sigma) * np.sqrt(np.pi / 2.0), rel=0.1)
    assert band.lower.item() < 0.6 * np.median(sigma) < 2.0 * np.median(sigma) < band.upper.item()


def test_reports_and_figures_show_it_and_keep_sigma(swelling):
    model, _ = swelling
    report = model.report()
    truth = height(report.along[0].at)
    assert np.mean(report.amplitude.covers(truth)) > 0.7
    (component,) = summary(report)["components"]
    assert component["amplitude"] == [report.amplitude.mean.min(), report.amplitude.mean.max()]
    sigma = Band.over(report.local.amplitude, 0.9).mean
    assert component["sigma"] == [sigma.min(), sigma.max()]
    panels = {axes.get_title(loc="left"): axes for axes in overview(report).axes}
    assert panels["(d) amplitude of components"].get_ylabel() == "amplitude (y)"
    assert panels["(d) amplitude of components"].get_ylim()[1] > truth.max()


def test_several_channels_have_their_own():
    rng = np.random.default_rng(2)
    t = np.sort(rng.uniform(0.0, 10.0, 80))
    tone = np.cos(2.0 * np.pi * 1.3 * t)
    y = np.stack([tone, 4.0 * tone], axis=1) + 0.1 * rng.normal(size=(80, 2))
    model = sg.SpectralGPRegressor(n_components=1, random_state=0).fit(t, y)
    band = model.instantaneous_amplitude([3.0, 5.0, 7.0])
    assert band.mean.shape == (3, 1, 2)
    np.testing.assert_allclose(band.mean[:, 0], np.broadcast_to([1.0, 4.0], (3, 2)), rtol=0.1)
    np.testing.assert_array_equal(band.mean[..., 1], model.channel(1).instantaneous_amplitude([3.0, 5.0, 7.0]).mean)


def test_of_other_kernels_and_of_noise():
    rng = np.random.default_rng(3)
    t = np.linspace(0.0, 5.0, 60)
    y = np.cos(2.0 * np.pi * 1.5 * t) + 0.1 * rng.normal(size=60)
    quick = {"n_starts": 1, "max_iter": 20, "random_state": 0}
    other = sg.SpectralGPRegressor("chirplet", inference="map", n_knots=6, **quick).fit(t, y)
    with pytest.raises(TypeError, match=r"have no envelope.*kernel='auto'"):
        other.instantaneous_amplitude(t)
    assert other.report().amplitude is None
    optimum = sg.SpectralGPRegressor(inference="map", **quick).fit(t, y)
    band = optimum.instantaneous_amplitude(t)
    assert band.lower is band.upper is None
    np.testing.assert_allclose(band.mean, 1.0, atol=0.1)
    nothing = sg.SpectralGPRegressor(**quick).fit(t, rng.normal(size=60))
    assert nothing.instantaneous_amplitude(t).mean.shape == (60, 0)


def test_draws_of_many_inputs_are_looked_at_in_parts():
    t = np.linspace(0.0, 5.0, 20)
    model = MarkovGP(MaternPhase(WarpedTime(3.0), lambda x: 3.0 * x[:, :1]), 0.1)
    posterior, data = Posterior.at_point(model, model), Data(t, np.cos(3.0 * t))
    X = np.linspace(0.0, 5.0, 5000)
    whole = instantaneous_amplitude(posterior, data, X)
    part = instantaneous_amplitude(posterior, data, X[3000:3003])
    np.testing.assert_allclose(np.stack(part), np.stack(whole)[:, 3000:3003], rtol=1e-9)
