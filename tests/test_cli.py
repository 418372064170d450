"""The command line and the figures and tables it makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from spectrogp import experiments, load, read_table, write_table
from spectrogp.cli import Experiment, app

SHORT = [name for name in experiments.NAMES if name not in experiments.LONG]  # long ones have tests of their own


def python(*arguments):
    environment = os.environ | {"COLUMNS": "300"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)  # noqa: S603


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Every figure and table, made once in its quick version: name → (directory, terminal output, numbers)."""
    result = {}
    for name in SHORT:
        out = tmp_path_factory.mktemp(name) / "new" / "directory"
        run = CliRunner().invoke(app, ["reproduce", name, "--out", str(out), "--quick"])
        assert run.exit_code == 0, run.output
        result[name] = out, run.output, json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize("name", SHORT)
def test_writes_a_picture_and_its_numbers(made, name):
    out, output, record = made[name]
    assert sorted(path.name for path in out.iterdir()) == [f"{name}.json", f"{name}.png"]
    assert f"{name}.png" in output.replace("\n", "")
    assert (record["name"], record["seed"], record["quick"]) == (name, 0, True)
    picture = imread(out / f"{name}.png")
    assert picture.shape[1] > 1000
    assert np.ptp(picture[..., :3]) > 0.9  # something is drawn


def test_the_draw_of_figure_1_is_the_convolution(made):
    assert made["fig1"][2]["numbers"]["largest_difference_of_kernel_and_convolution"] < 1e-8


def test_figure_2_shows_the_bias_of_one_kernel_only(made):
    numbers = made["fig2"][2]["numbers"]
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


def test_figure_3_predicts_with_each_of_its_models(made):
    numbers = made["fig3"][2]["numbers"]
    assert set(numbers) == {"composition", "monotonic", "covariance"}
    for entry in numbers.values():
        assert entry["median_rhat"] >= 0.99
        assert entry["error_of_the_mean"] < 0.3  # of a signal with deviation 0.6, after 20 draws


def test_figure_4_has_unit_fields_that_grow_rougher(made):
    numbers = made["fig4"][2]["numbers"]
    for family in ("nsq", "convolutional"):
        first, last = (numbers[f"{family}_layer_{level}"] for level in (0, 3))
        assert last["root_mean_square_slope"] > first["root_mean_square_slope"]
    for entry in numbers.values():
        assert 0.3 < entry["standard_deviation"] < 2.0  # one draw of a field with variance 1 and few waves


def test_table_1_closed_forms_and_exact_transforms(made):
    numbers = made["table1"][2]["numbers"]
    for name, errors in numbers.items():
        assert errors["xi_error"] < 1e-9, name
        assert errors["lambda_error"] < 1e-9, name
        # The covariance that the paper prints is worse everywhere, and wrong even where ours is exact.
        assert errors["printed_spectrogram_error"] > 1.2 * errors["spectrogram_error"], name
    for name in ("SE", "SM", "GSK", "HMK", "CSK, constant ℓ"):
        assert numbers[name]["spectrogram_error"] < 1e-6, name


def test_the_same_seed_gives_the_same_numbers(made, tmp_path):
    _, numbers = experiments.reproduce("fig1", tmp_path, quick=True, seed=0)
    assert numbers == made["fig1"][2]["numbers"]
    _, other = experiments.reproduce("fig1", tmp_path, quick=True, seed=1)
    assert other["draw"] != numbers["draw"]


def test_command_line_knows_every_experiment():
    assert tuple(Experiment) == experiments.NAMES


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# One's own data


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same signal as a CSV file over numbers, and as a Parquet file over times with errors."""
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 4.0, 60))
    y = 5.0 + np.cos(2.0 * np.pi * (t + 0.2 * t**2)) + 0.1 * rng.normal(size=60)
    write_table(place / "data.csv", {"t": t, "y": y})
    when = np.datetime64("2020-01-01") + (t * 86400e6).astype("timedelta64[us]")
    write_table(place / "data.parquet", {"when": when, "y": y, "e": np.full(60, 0.1)})
    (place / "text.csv").write_text("t,y\n0,a\n1,b\n")
    (place / "broken.safetensors").write_bytes(b"nonsense")
    return place


@pytest.fixture(scope="module")
def fitted(tables):
    """A quick fit to each table: the directory that it was written to, and the terminal output."""
    result = {}
    for name, more in {"csv": (), "parquet": ("--x", "when", "--y", "y", "--error", "e", "--kernel", "sm")}.items():
        out = tables / f"fit-{name}"
        done = run("fit", tables / f"data.{name}", "--quick", "--inference", "map", *more, "--out", out)
        assert done.exit_code == 0, done.output
        result[name] = out, done.stdout
    return result


@pytest.mark.parametrize(("name", "unit"), [("csv", "cycles per t"), ("parquet", "cycles per day")])
def test_fit_writes_a_model_a_summary_and_a_picture(fitted, name, unit):
    out, output = fitted[name]
    assert sorted(path.name for path in out.iterdir()) == ["model.safetensors", "overview.png", "summary.json"]
    record = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert record["unit"] == unit
    assert unit in " ".join(output.split())
    assert record["data"] == {
        "rows": 60,
        "x": ["t" if name == "csv" else "when"],
        "y": "y",
        "error": None if name == "csv" else "e",
    }
    assert imread(out / "overview.png").shape[1] > 1000


def test_the_summary_is_right_about_a_chirp(fitted):
    record = json.loads((fitted["csv"][0] / "summary.json").read_text(encoding="utf-8"))
    (component,) = record["components"]
    low, high = (end[0] for end in component["frequency"])
    assert low == pytest.approx(1.0, abs=0.2)  # the truth runs from 1 to 2.6
    assert high == pytest.approx(2.6, abs=0.3)
    assert record["noise"] == pytest.approx(0.1, rel=0.4)
    assert record["fit"]["r2"] > 0.95


@pytest.mark.parametrize(("name", "ending"), [("csv", ".parquet"), ("parquet", ".csv")])
def test_predictions_are_those_of_the_saved_model(tables, fitted, name, ending):
    out = tables / f"prediction{ending}"
    model = fitted[name][0] / "model.safetensors"
    done = run("predict", model, tables / f"data.{name}", "--out", out)
    assert done.exit_code == 0, done.output
    given, table = read_table(tables / f"data.{name}"), read_table(out)
    first = next(iter(given))
    assert list(table) == [first, "mean", "sd", "lower", "upper"]
    np.testing.assert_array_equal(table[first], given[first])
    mean, deviation = load(model).predict(given[first][:, None], return_std=True)
    np.testing.assert_allclose(table["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(table["upper"] - table["lower"], 2.0 * 1.6448536 * deviation, rtol=1e-6)


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_the_table_of_frequencies_is_that_of_the_model(tables, fitted, name):
    out, model = tables / f"spectrogram-{name}", fitted[name][0] / "model.safetensors"
    done = run("spectrogram", model, "--out", out)
    assert done.exit_code == 0, done.output
    table = read_table(out / "frequency.csv")
    first = next(iter(table))
    frequency = load(model).instantaneous_frequency(table[first][:, None]).mean
    np.testing.assert_allclose(table["frequency_1"], frequency[:, 0], rtol=1e-6)
    assert imread(out / "spectrogram.png").shape[1] > 900


# What can be wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "fig99"], "fig99"),
        (["reproduce", "fig1", "--out", __file__], "is a file, not a directory"),
        (["reproduce", "fig1", "--seed", "-1"], "seed"),
        (["nonsense"], "nonsense"),
        (["fit"], "data"),
        (["fit", "{}/none.csv"], "there is no file"),
        (["fit", "{}/data.csv", "--y", "z"], "--y: {}/data.csv has no column 'z'; it has 't', 'y'"),
        (["fit", "{}/data.csv", "--x", "y"], "column 'y' is asked for twice"),
        (["fit", "{}/data.parquet", "--y", "when"], "outputs are numbers, but these are times"),
        (["fit", "{}/text.csv"], "column 'y', row 1: expected a number"),
        (["fit", "{}/data.csv", "--kernel", "magic"], "kernel must be one of"),
        (["fit", "{}/data.csv", "--components", "0"], "components"),
        (["predict", "{}/none.safetensors", "{}/data.csv"], "there is no file"),
        (["predict", "{}/broken.safetensors", "{}/data.csv"], "broken.safetensors cannot be loaded"),
        (["spectrogram", "{}/broken.safetensors"], "broken.safetensors cannot be loaded"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tables, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = run(*(argument.replace("{}", str(tables)) for argument in arguments))
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert message.replace("{}", str(tables)) in line


def test_predict_wants_the_columns_of_the_fit(tables, fitted):
    done = run("predict", fitted["csv"][0] / "model.safetensors", tables / "data.parquet", "--out", tables / "p.csv")
    assert done.exit_code == 2
    assert "has no column 't'" in done.stderr
    done = run("spectrogram", fitted["csv"][0] / "model.safetensors", "--along", "z")
    assert done.exit_code == 2
    assert "the model has no input 'z'" in done.stderr


def test_wrong_input_has_no_traceback_in_a_process_of_its_own():
    done = python("-m", "spectrogp.cli", "reproduce", "fig99")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_an_interrupt_ends_with_130(monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "reproduce", interrupted)
    assert run("reproduce", "fig1", "--out", tmp_path).exit_code == 130


def test_demo_recovers_the_chirp(tmp_path):
    done = run("demo", "--quick", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    names = ["data.csv", "model.safetensors", "overview.png", "summary.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    numbers = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["recovery"]
    assert numbers["median relative error of the frequency"] < 0.05
    assert "relative error of the frequency" in " ".join(done.stdout.split())


def test_help_does_not_load_jax():
    code = "import sys; from typer.testing import CliRunner; from spectrogp.cli import app; \
print(CliRunner().invoke(app, ['--help']).exit_code, 'jax' in sys.modules, 'matplotlib' in sys.modules)"
    assert python("-c", code).stdout.split() == ["0", "False", "False"]


def test_unknown_experiments_are_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"no figure or table called 'fig99'; there are fig1, fig2, .*, solar"):
        experiments.reproduce("fig99", tmp_path)
