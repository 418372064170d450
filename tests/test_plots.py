"""What is drawn is what was given: values of lines, bands and images, not pixels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from spectrogp import plots
from spectrogp.initialise import ridges
from spectrogp.plots import periodogram, scales
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
    plots.plot_components(panels, X, BAND, oscillations=1)
    assert [panel.get_title(loc="left") for panel in panels] == ["component 1", "background"]
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


def test_periodogram_without_a_width_follows_the_frequency_and_leaves_trends_out(axes):
    """A trend of ten times the deviation hides no tone, and all of a wide band is shown on a logarithmic axis."""
    t = np.arange(600) / 10.0
    y = 2.0 * t + np.cos(2.0 * np.pi * t) + 0.5 * np.sin(2.0 * np.pi * 4.0 * t)
    frequency = np.geomspace(1.0 / 60.0, 4.9, 120)
    image = plots.plot_periodogram(axes, t, y, frequency)
    assert axes.get_yscale() == "log"
    power = np.asarray(image.get_array()).reshape(120, 200)
    inner = power[:, 20:-20].mean(axis=1)
    assert frequency[np.argmax(np.where(frequency > 0.5, inner, 0.0))] == pytest.approx(1.0, rel=0.05)
    assert frequency[np.argmax(np.where(frequency > 2.0, inner, 0.0))] == pytest.approx(4.0, rel=0.05)
    near = np.argmin(np.abs(frequency - 1.0))
    assert inner[near] > 0.7  # of 1/2 + 1/8, the tone has four fifths
    np.testing.assert_allclose(image.get_clim(), (0.0, 1.0))


def test_the_share_explained_is_a_weighted_least_squares_fit_beside_a_line():
    rng = np.random.default_rng(1)
    t, y = np.sort(rng.uniform(0.0, 3.0, 40)), rng.normal(size=40)
    share = periodogram.share_explained(t, y, np.array([1.2]), np.array([1.7]), np.array([0.4]))[0, 0]
    weight, theta = np.exp(-0.5 * ((t - 1.2) / 0.4) ** 2), 2.0 * np.pi * 1.7 * t
    weight[np.abs(t - 1.2) > periodogram.REACH * 0.4] = 0.0
    line = np.sqrt(weight)[:, None] * np.column_stack([np.ones_like(t), t])
    both = np.column_stack([line, np.sqrt(weight)[:, None] * np.column_stack([np.cos(theta), np.sin(theta)])])
    whole, rest = (np.linalg.lstsq(design, np.sqrt(weight) * y, rcond=None)[1][0] for design in (line, both))
    np.testing.assert_allclose(share, 1.0 - rest / whole, rtol=1e-9)


def test_rows_that_are_taken_together_tell_the_same():
    """Of a hundred thousand rows, and not of every fiftieth, which would see another frequency."""
    rng = np.random.default_rng(2)
    t = np.arange(100_000) / 1000.0
    y = np.sin(2.0 * np.pi * 7.3 * t) + rng.normal(size=len(t))
    frequency, centres = np.geomspace(0.05, 200.0, 150), np.array([30.0, 50.0, 70.0])
    share = periodogram.share_explained(t, y, centres, frequency, periodogram.window_widths(t, frequency))
    np.testing.assert_allclose(frequency[np.argmax(share, axis=1)], 7.3, rtol=0.06)
    np.testing.assert_allclose(np.max(share, axis=1), 1.0 / 3.0, atol=0.08)  # ½ of 1½, noise of all rows included


def test_decibels_of_each_column_show_what_is_weak_for_a_while():
    density = np.array([[1.0, 100.0], [0.001, 0.01]])
    np.testing.assert_allclose(plots.decibels(density), [[-20.0, 0.0], [-40.0, -40.0]])
    np.testing.assert_allclose(plots.decibels(density, scaling="column"), [[-20.0, 0.0], [-10.0, 0.0]])
    with pytest.raises(ValueError, match="scaling must be one of record, column; got 'row'"):
        plots.decibels(density, scaling="row")


def test_weak_values_take_more_of_the_colours_with_a_gamma(axes):
    image = plots.plot_spectrogram(axes, X, np.linspace(0.0, 8.0, 5), np.ones((21, 5)), gamma=0.5)
    np.testing.assert_allclose(image.norm([0.0, 0.25, 1.0]), [0.0, 0.5, 1.0])


@pytest.mark.parametrize(
    ("limits", "log", "expected"),
    [((0.0, 1.2), False, [100.0, 10.0, 5.0, 2.0, 1.0]), ((0.02, 5.0), True, [20.0, 10.0, 5.0, 2.0, 1.0, 0.5])],
)
def test_periods_are_round_and_apart(limits, log, expected):
    periods = scales.round_periods(limits, log=log)
    assert set(expected) <= {float(f"{period:.3g}") for period in periods}
    place = np.log(1.0 / periods) / np.log(limits[1] / limits[0]) if log else 1.0 / periods / limits[1]
    assert np.all(np.diff(place) >= scales.APART - 1e-9)


def test_a_period_axis_stands_beside_its_frequencies(axes):
    axes.set_ylim(0.0, 1.0)
    other = scales.period_axis(axes, "period (year)")
    assert other.get_ylim() == axes.get_ylim()
    labels = [other.yaxis.get_major_formatter()(tick, 0) for tick in other.get_yticks()]
    np.testing.assert_allclose(1.0 / np.array(labels, float), other.get_yticks(), rtol=1e-3)
    assert axes.yaxis.get_label_position() == "left"
    scales.period_axis(axes, "period (year)", left=True)
    assert axes.yaxis.get_label_position() == "right"


@pytest.mark.parametrize("days", [1e-4, 0.01, 0.3, 2.0, 29.7, 400.0, 13_800.0, 3e5])
def test_labels_of_dates_do_not_overlap(days):
    figure = Figure(figsize=(7.2, 2.0), layout="constrained", dpi=150)
    panel = figure.subplots(1, 2)[1]
    for start in (-20_000.3, 0.0, 11_111.7):
        panel.set_xlim(start, start + days)
        scales.date_axis(panel, 4)
        figure.canvas.draw()
        boxes = [label.get_window_extent() for label in panel.get_xticklabels() if label.get_text()]
        assert 2 <= len(boxes) <= 4
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_dates_are_round():
    decades = scales.round_dates(-4000.0, 10_000.0, 5)
    expected = np.array(["1960", "1970", "1980", "1990"], "datetime64[Y]").astype("datetime64[D]").astype(float)
    np.testing.assert_array_equal(decades, expected)


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
