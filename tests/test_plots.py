"""What is drawn is what was given: values of lines, bands and images, not pixels."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from spectrogp import plots
from spectrogp.initialise import ridges
from spectrogp.posterior import Band

X = np.linspace(0.0, 2.0, 21)
MEAN = np.column_stack([1.0 + X, 4.0 - X])
BAND = Band(MEAN, MEAN - 0.5, MEAN + 0.25)


@pytest.fixture
def axes():
    return Figure().subplots()


def edges(collection):
    """Lower and upper ends of a filled band over X."""
    vertices = collection.get_paths()[0].vertices
    ends = [vertices[np.isclose(vertices[:, 0], x), 1] for x in X]
    return np.array([end.min() for end in ends]), np.array([end.max() for end in ends])


def test_fit_shows_data_mean_and_both_bands(axes):
    function, outputs = (Band(MEAN[:, 0], MEAN[:, 0] - r, MEAN[:, 0] + r) for r in (0.1, 0.4))
    plots.plot_fit(axes, [0.5, 1.5], [2.0, 3.0], X, function, outputs)
    data, mean = axes.lines
    np.testing.assert_array_equal(data.get_xydata(), [[0.5, 2.0], [1.5, 3.0]])
    np.testing.assert_array_equal(mean.get_xydata(), np.column_stack([X, MEAN[:, 0]]))
    for band, given in zip(axes.collections, (outputs, function), strict=True):
        np.testing.assert_allclose(edges(band), [given.lower, given.upper])
    assert [text.get_text() for text in axes.legend().get_texts()] == [
        "90 % of outputs",
        "90 % band of the function",
        "data",
        "mean",
    ]


def test_frequency_shows_every_component_with_its_band_and_the_truth(axes):
    plots.plot_frequency(axes, X, BAND, truth=MEAN + 1.0)
    np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], [*MEAN.T, *(MEAN + 1.0).T])
    for k, band in enumerate(axes.collections):
        np.testing.assert_allclose(edges(band), [BAND.lower[:, k], BAND.upper[:, k]])


def test_frequency_over_a_spectrogram_has_lines_for_its_ends(axes):
    plots.plot_frequency(axes, X, BAND, over=True)
    expected = [part[:, k] for k in range(2) for part in BAND]
    np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], expected)
    assert not axes.collections
    # The colour of a component is the same wherever it is drawn.
    assert [line.get_color() for line in axes.lines] == [plots.COLOURS[0]] * 3 + [plots.COLOURS[1]] * 3


def test_no_band_without_a_posterior(axes):
    plots.plot_frequency(axes, X, Band(MEAN, None, None))
    assert len(axes.lines) == 2
    assert not axes.collections


def test_functions_take_one_panel_each_and_a_logarithmic_axis_where_they_range_far():
    panels = Figure().subplots(1, 2)
    wide = Band(np.exp(3.0 * X)[:, None], None, None)
    plots.plot_functions(panels, X, {"amplitude (K)": BAND, "lengthscale (s)": wide})
    assert [panel.get_ylabel() for panel in panels] == ["amplitude (K)", "lengthscale (s)"]
    assert [panel.get_yscale() for panel in panels] == ["linear", "log"]
    np.testing.assert_array_equal(panels[1].lines[0].get_ydata(), np.exp(3.0 * X))
    assert panels[0].get_ylim()[0] == 0.0  # a positive function is read from zero


def test_components_have_scales_that_hold_their_bands():
    panels = Figure().subplots(2, 1)
    plots.plot_components(panels, X, BAND)
    for k, panel in enumerate(panels):
        np.testing.assert_array_equal(panel.lines[0].get_ydata(), MEAN[:, k])
        low, high = panel.get_ylim()
        assert -low == high > np.max(BAND.upper[:, k]) > 0.8 * high  # a weak component is not a flat line
        assert panel.lines[0].get_color() == plots.COLOURS[k]


def test_spectrogram_shows_the_density_at_its_inputs_and_frequencies(axes):
    density = np.arange(21 * 5, dtype=float).reshape(21, 5)
    image = plots.plot_spectrogram(axes, X, np.linspace(0.0, 8.0, 5), density, vmin=10.0)
    np.testing.assert_array_equal(image.get_array(), density.T)
    assert tuple(image.get_extent()) == (0.0, 2.0, 0.0, 8.0)
    assert image.get_clim() == (10.0, 104.0)


def test_periodogram_is_the_share_of_variance_and_peaks_at_the_frequency_of_a_tone(axes):
    t = np.sort(np.random.default_rng(0).uniform(0.0, 10.0, 300))  # irregular
    frequency = np.linspace(0.1, 5.0, 50)
    image = plots.plot_periodogram(axes, t, 7.0 + np.cos(2.0 * np.pi * 2.1 * t), frequency, width=1.0)
    power = np.asarray(image.get_array())  # [m, c]
    np.testing.assert_allclose(frequency[np.argmax(power, axis=0)], 2.1)
    np.testing.assert_allclose(np.max(power, axis=0), 1.0, atol=1e-9)  # a pure tone explains everything
    assert np.min(power) >= 0.0


def test_windowed_power_is_a_weighted_least_squares_fit():
    rng = np.random.default_rng(1)
    t, y = np.sort(rng.uniform(0.0, 3.0, 40)), rng.normal(size=40)
    share = ridges.windowed_power(t, y, np.array([1.2]), np.array([1.7]), 0.4)[0, 0]
    weight = np.exp(-0.5 * ((t - 1.2) / 0.4) ** 2)
    theta = 2.0 * np.pi * 1.7 * t
    design = np.sqrt(weight)[:, None] * np.column_stack([np.ones_like(t), np.cos(theta), np.sin(theta)])
    rest = np.linalg.lstsq(design, np.sqrt(weight) * y, rcond=None)[1][0]
    whole = np.sum(weight * (y - np.sum(weight * y) / np.sum(weight)) ** 2)
    np.testing.assert_allclose(share, 1.0 - rest / whole, rtol=1e-9)


@pytest.mark.parametrize("high", [20.0, 300.0, 1e5])
def test_logarithmic_axes_have_a_handful_of_ticks(high):
    axes = Figure(figsize=(3.0, 1.2)).subplots()
    axes.plot([0.0, 1.0], [1.0, high])
    plots.plain_log_axis(axes)
    low, top = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= top]
    assert 3 <= len(ticks) <= 7
