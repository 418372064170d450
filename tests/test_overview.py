"""The figure of a whole fit: one colour a component, axes that hold what was looked for, units, levels."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.plots import COLOURS, draw_panel, overview
from spectrogp.plots.axes import GREYS

pytestmark = pytest.mark.usefixtures("compile_quickly")

YEARS = 20
DAYS = np.datetime64("1990-01-15", "us") + (np.arange(12 * YEARS) * 30.4375 * 86400e6).astype("timedelta64[us]")
T = np.arange(12 * YEARS) / 12.0


@pytest.fixture(scope="module")
def report():
    """Monthly values of an annual cycle, one of nine years, and a fast one that the model is not told of."""
    y = 2.0 * np.cos(2 * np.pi * T) + np.sin(2 * np.pi * T / 9.0) + 0.7 * np.cos(2 * np.pi * 4.5 * T)
    y = y + 0.1 * np.random.default_rng(0).normal(size=len(T))
    settings = {"kernel": "sm", "n_components": 2, "max_iter": 60, "n_starts": 1, "random_state": 0, "n_draws": 40}
    return sg.SpectralGPRegressor(**settings).fit(DAYS, y).report(names=("date", "level (m)"))


@pytest.fixture(scope="module")
def figure(report):
    return overview(report)


def panels(figure):
    return {panel.get_title(loc="left"): panel for panel in figure.axes if panel.get_title(loc="left")}


def panel_of(figure, letter):
    return next(panel for title, panel in panels(figure).items() if title.startswith(f"({letter})"))


def test_a_component_has_one_colour_in_all_panels(figure):
    model, data, amplitude = (panel_of(figure, letter) for letter in "bcd")
    assert [line.get_color() for line in data.lines[:2]] == list(COLOURS[:2])
    assert {line.get_color() for line in model.lines[:6]} == set(COLOURS[:2])
    assert [line.get_color() for line in amplitude.lines[:2]] == list(COLOURS[:2])
    for k in range(2):
        assert panels(figure)[f"component {k + 1}"].lines[0].get_color() == COLOURS[k]
    fit = panel_of(figure, "a")
    assert not {line.get_color() for line in fit.lines} & set(COLOURS)


def test_data_alone_are_shown_over_all_that_was_looked_for_and_show_what_the_model_missed(figure, report):
    data = panel_of(figure, "c")
    low, high = data.get_ylim()
    assert low == pytest.approx(report.band[0, 0])
    assert high == pytest.approx(report.band[1, 0], rel=0.01)
    assert high > 5.0  # cycles per year: monthly values end at six
    image = data.collections[0] if data.collections else data.images[0]
    power = np.asarray(image.get_array())
    frequency = np.geomspace(low, high, power.shape[0])
    mean = power[:, 20:-20].mean(axis=1)
    missed = np.abs(frequency - 4.5) < 0.3
    assert mean[missed].max() > 5 * np.median(mean[frequency > 2.0])


def test_no_panel_is_nearly_black_and_every_component_is_seen(figure):
    for letter in "bc":
        panel = panel_of(figure, letter)
        image = panel.collections[0] if panel.collections else panel.images[0]
        shade = np.asarray(image.norm(image.get_array()))
        assert image.get_cmap() is GREYS
        assert np.mean(shade > 0.9) < 0.3
        assert np.mean(shade > 0.15) > 0.005
        assert min(GREYS(1.0)[:3]) > 0.2


def test_axes_say_their_units(figure):
    for letter in "bc":
        assert panel_of(figure, letter).get_ylabel() == "cycles per year"
    assert [panel.get_ylabel() for panel in figure.axes].count("period (year)") == 2
    assert panel_of(figure, "a").get_ylabel() == "level (m)"
    assert "90 % band" in panel_of(figure, "b").get_title(loc="left")
    labels = {panel.get_xlabel() for panel in figure.axes}
    assert {"spectral density (dB below its maximum)", "share of the variance in a window", "date"} <= labels


def test_dates_do_not_overlap_in_any_panel(figure):
    figure.canvas.draw()
    for panel in figure.axes:
        boxes = [label.get_window_extent() for label in panel.get_xticklabels() if label.get_text()]
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_options_reach_the_figure(report):
    other = overview(report._replace(level=0.5), scaling="column", period=True)
    assert "50 % band" in panel_of(other, "b").get_title(loc="left")
    assert panel_of(other, "b").yaxis.get_label_position() == "right"
    texts = [text.get_text() for text in panel_of(other, "a").get_legend().get_texts()]
    assert texts[:2] == ["50 % of outputs", "50 % band of the function"]
    assert "at each input" in " ".join(panel.get_xlabel() for panel in other.axes)


@pytest.mark.parametrize(("name", "start"), [("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_for_print(figure, name, start):
    content = io.BytesIO()
    figure.savefig(content, format=name)
    assert content.getvalue().startswith(start)
    assert len(content.getvalue()) < 3e6  # pictures inside are pixels, not thousands of shapes


@pytest.mark.parametrize("panel", sg.plots.PANELS)
def test_panels_alone(report, panel):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    draw_panel(panel, report, axes)
    assert axes.get_xlabel() == "date"
    assert axes.get_ylabel()


def test_overtones_are_called_so(report):
    told = report._replace(overtones={1: (0, 2)})
    assert "component 2 (2 × the frequency of component 1)" in panels(overview(told))
    first, second = sg.plots.summary(told)["components"]
    assert "overtone_of" not in first
    assert (second["overtone_of"], second["multiple"]) == (1, 2)


def test_warnings_stand_below_the_panels_and_nothing_overlaps(report, figure):
    sentence = "the residuals have a line at 4.5 cycles per year that no component explains; " * 3 + "it costs $5 or $6"
    warned = overview(report._replace(warnings=(sentence, "nothing significant")))
    warned.draw_without_rendering()
    text = warned.get_supxlabel()
    assert text.startswith("! the residuals have a line at 4.5")
    assert text.count("\n") == 2  # 247 letters are two lines
    assert text.replace("\n", " ").endswith(r"it costs \$5 or \$6 ! nothing significant")
    written = warned._supxlabel.get_window_extent()
    assert written.x1 <= warned.bbox.x1
    assert all(written.y1 <= panel.get_tightbbox().y0 for panel in warned.axes)
    assert not figure.get_supxlabel()


def test_axes_of_a_fit_that_found_nothing_are_told_by_the_record():
    y = np.cumsum(np.random.default_rng(0).normal(size=60))
    model = sg.SpectralGPRegressor(kernel="se", max_iter=20, n_starts=1, random_state=0, n_draws=20).fit(T[:60], y)
    figure = overview(model.report())
    low, high = panel_of(figure, "b").get_ylim()
    assert low == 0.0
    assert high >= 5.0 / np.ptp(T[:60])
    assert any("one cycle in the record" in text.get_text() for text in panel_of(figure, "b").texts)
    assert panel_of(figure, "d").get_title(loc="left") == "(d) amplitude σ"
