"""The figures and tables of the paper, in their quick versions."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from spectrogp import experiments
from spectrogp.choices import EXPERIMENTS, TABLES
from spectrogp.cli import app

pytestmark = pytest.mark.usefixtures("compile_quickly")

SHORT = [name for name in EXPERIMENTS if name not in TABLES]  # tables have tests of their own


SLOW = ("fig2", "fig3", "fig4", "table1")  # what they have in common is tested with figure 1


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A figure or table, made once in its quick version: name → (directory, terminal output, record)."""

    @functools.cache
    def make(name):
        out = tmp_path_factory.mktemp(name) / "new" / "directory"
        run = CliRunner().invoke(app, ["reproduce", name, "--out", str(out), "--quick"])
        assert run.exit_code == 0, run.output
        return out, run.output, json.loads((out / f"{name}-quick.json").read_text(encoding="utf-8"))

    return make


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in SHORT]
)
def test_writes_a_picture_and_its_numbers(made, name):
    out, output, record = made(name)
    assert sorted(path.name for path in out.iterdir()) == [f"{name}-quick.json", f"{name}-quick.png"]
    assert f"{name}-quick.png" in output.replace("\n", "")
    assert (record["name"], record["seed"], record["quick"]) == (name, 0, True)
    picture = imread(out / f"{name}-quick.png")
    assert picture.shape[1] > 1000
    assert np.ptp(picture[..., :3]) > 0.9  # something is drawn


def test_the_draw_of_figure_1_is_the_convolution(made):
    assert made("fig1")[2]["numbers"]["largest_difference_of_kernel_and_convolution"] < 1e-8


@pytest.mark.slow
def test_figure_2_shows_the_bias_of_one_kernel_only(made):
    numbers = made("fig2")[2]["numbers"]
    assert set(numbers) == {"SE", "NSQ", "SM", "GSK", "GSM", "HMK", "CSK", "Chirplet", "Phase"}
    bias = {
        name: entry["largest_frequency_bias"] for name, entry in numbers.items() if "largest_frequency_bias" in entry
    }
    assert bias.pop("GSM") == pytest.approx(3.0)  # ω′x/2π at x = ±1
    assert set(bias) == {"CSK", "Chirplet", "Phase"}
    assert max(bias.values()) < 1e-9
    for entry in numbers.values():
        assert entry["largest_difference_of_total_weight_and_variance"] < 1e-12
        assert entry["smallest_eigenvalue"] > -1e-10


@pytest.mark.slow
def test_figure_3_predicts_with_each_of_its_models(made):
    numbers = made("fig3")[2]["numbers"]
    assert set(numbers) == {"composition", "monotonic", "covariance"}
    for entry in numbers.values():
        assert entry["median_rhat"] >= 0.99
        assert entry["error_of_the_mean"] < 0.3  # of a signal with deviation 0.6, after 20 draws


@pytest.mark.slow
def test_figure_4_has_unit_fields_that_grow_rougher(made):
    numbers = made("fig4")[2]["numbers"]
    for family in ("nsq", "convolutional"):
        first, last = (numbers[f"{family}_layer_{level}"] for level in (0, 3))
        assert last["root_mean_square_slope"] > first["root_mean_square_slope"]
    for entry in numbers.values():
        assert 0.3 < entry["standard_deviation"] < 2.0  # one draw of a field with variance 1 and few waves


@pytest.mark.slow
def test_table_1_closed_forms_and_exact_transforms(made):
    numbers = made("table1")[2]["numbers"]
    for name, errors in numbers.items():
        assert errors["xi_error"] < 1e-9, name
        assert errors["lambda_error"] < 1e-9, name
        # The covariance that the paper prints is worse everywhere, and wrong even where ours is exact.
        assert errors["printed_spectrogram_error"] > 1.2 * errors["spectrogram_error"], name
    for name in ("SE", "SM", "GSK", "HMK", "CSK, constant ℓ"):
        assert numbers[name]["spectrogram_error"] < 1e-6, name


def test_the_same_seed_gives_the_same_numbers(made, tmp_path):
    _, numbers = experiments.reproduce("fig1", tmp_path, quick=True, seed=0)
    assert numbers == made("fig1")[2]["numbers"]
    _, other = experiments.reproduce("fig1", tmp_path, quick=True, seed=1)
    assert other["draw"] != numbers["draw"]


def test_unknown_experiments_are_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"no figure or table called 'fig99'; there are fig1, fig2, .*, solar"):
        experiments.reproduce("fig99", tmp_path)
