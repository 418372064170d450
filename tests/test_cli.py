"""The command line: own tables in, models, tables and pictures out; and what it says of wrong input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.io import wavfile
from typer.testing import CliRunner

from spectrogp import experiments, load, read_table, write_table
from spectrogp.choices import EXPERIMENTS
from spectrogp.cli import app, work
from spectrogp.cli import tables as tables_of_the_command
from spectrogp.cli.app import Experiment
from spectrogp.cli.printing import print_summary
from spectrogp.files import Columns
from spectrogp.posterior import Posterior

pytestmark = pytest.mark.usefixtures("compile_quickly")


def python(*arguments):
    environment = os.environ | {"COLUMNS": "300"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)  # noqa: S603


def test_command_line_knows_every_experiment():
    assert list(Experiment) == list(EXPERIMENTS)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# One's own data

FAST = ("--kernel", "sm", "--inference", "map")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same signal as a CSV file over numbers, and as a Parquet file over times with errors."""
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 4.0, 60))
    y = 5.0 + np.cos(2.0 * np.pi * 1.5 * t) + 0.1 * rng.normal(size=60)
    write_table(place / "data.csv", {"t": t, "y": y})
    when = np.datetime64("2020-01-01") + (t * 86400e6).astype("timedelta64[us]")
    write_table(place / "data.parquet", {"when": when, "y": y, "e": np.full(60, 0.1)})
    (place / "text.csv").write_text("t,y\n0,a\n1,b\n")
    (place / "gaps.csv").write_text("t,y\n0,1\n1,2\n2,\n")
    (place / "many.csv").write_text("date,u,v\n2001-05-30,1,2\n2001-05-31,3,4\n")
    (place / "broken.safetensors").write_bytes(b"nonsense")
    return place


@pytest.fixture(scope="module")
def fitted(tables):
    """A quick fit to each table, by what compiles fastest: where it was written to, and the terminal output.

    Under "evaluations" is how often the fit to each table made predictions with the model.
    """
    result, evaluations, outputs = {}, [], Posterior.outputs

    def counted(self, *arguments, **options):
        evaluations[-1] += 1
        return outputs(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Posterior, "outputs", counted)
        for name, more in {"csv": (), "parquet": ("--x", "when", "--y", "y", "--error", "e")}.items():
            evaluations.append(0)
            out = tables / f"fit-{name}"
            done = run("fit", tables / f"data.{name}", "--quick", *FAST, *more, "--out", out)
            assert done.exit_code == 0, done.output
            result[name] = out, done.stdout
    return result | {"evaluations": evaluations}


def test_fit_evaluates_the_model_once(fitted):
    """Rows and grid, for the summary and the figure, all together."""
    assert fitted["evaluations"] == [1, 1]


@pytest.mark.parametrize("kernel", ["se", "nsq"])
def test_kernels_without_frequencies_have_an_overview(tables, tmp_path, kernel):
    done = run("fit", tables / "data.csv", "--quick", "--kernel", kernel, "--inference", "map", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert record["components"][0]["frequency"] == [[0.0], [0.0]]
    assert imread(tmp_path / "overview.png").shape[1] > 1000


@pytest.mark.parametrize(("name", "unit"), [("csv", "cycles per t"), ("parquet", "cycles per day")])
def test_fit_writes_a_model_a_summary_and_a_picture(fitted, name, unit):
    out, output = fitted[name]
    assert sorted(path.name for path in out.iterdir()) == ["model.safetensors", "overview.png", "summary.json"]
    record = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert record["unit"] == unit
    assert unit in " ".join(output.split())
    assert record["data"] == {
        "rows": 60,
        "rows_left_out": 0,
        "x": ["t" if name == "csv" else "when"],
        "y": "y",
        "error": None if name == "csv" else "e",
    }
    assert imread(out / "overview.png").shape[1] > 1000


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_the_summary_is_right_about_a_tone(fitted, name):
    record = json.loads((fitted[name][0] / "summary.json").read_text(encoding="utf-8"))
    component = record["components"][0]
    np.testing.assert_allclose(component["frequency"], 1.5, atol=0.03)  # a tenth of 1/span, what the data resolve
    # One sinusoid says little about the standard deviation of many: 0.7 is in the middle of what it allows.
    assert 0.3 < component["amplitude"][0] < 2.0
    # Known errors of 0.1 leave no more noise to be found.
    assert record["noise"] == pytest.approx(0.1, rel=0.3) if name == "csv" else record["noise"] < 0.08
    assert record["fit"]["r2"] > 0.95


def test_scores_of_rows_left_out_are_printed_where_there_are_some(fitted, capsys):
    record = json.loads((fitted["csv"][0] / "summary.json").read_text(encoding="utf-8"))
    shown = work.Shown(Columns(("t",), "y"), ("t",), (1.0,), False)
    for scores in ({}, {"block_out": {"coverage": 0.875, "r2": -0.25}}):
        print_summary(record | {"diagnostics": record["diagnostics"] | scores}, shown)
        printed = " ".join(capsys.readouterr().out.split())
        said = "of rows that were left out in blocks and predicted from the others: R² -0.2500, 87.5% inside 90 %"
        assert (said in printed) == bool(scores)


@pytest.mark.parametrize(("name", "ending"), [("csv", ".parquet"), ("parquet", ".csv")])
def test_predictions_are_those_of_the_saved_model(tables, fitted, name, ending):
    out = tables / f"prediction{ending}"
    model = fitted[name][0] / "model.safetensors"
    done = run("predict", model, tables / f"data.{name}", "--out", out)
    assert done.exit_code == 0, done.output
    given, table = read_table(tables / f"data.{name}"), read_table(out)
    first = next(iter(given))
    assert list(table) == [first, "mean", "std", "lower", "upper"]
    np.testing.assert_array_equal(table[first], given[first])
    same = load(model).predict(given[first][:, None], return_std=True, interval=0.9)
    for column, values in zip(("mean", "std", "lower", "upper"), same, strict=True):
        np.testing.assert_allclose(table[column], values, rtol=1e-12)


def test_a_warning_of_predict_is_a_line_as_those_of_fit(tables, fitted, tmp_path):
    write_table(tmp_path / "far.csv", {"t": np.array([1.0, 40.0])})
    done = run("predict", fitted["csv"][0] / "model.safetensors", tmp_path / "far.csv", "--out", tmp_path / "p.csv")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("warning: X lies up to 9.")
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_the_table_of_frequencies_is_that_of_the_model(tables, fitted, name):
    out, model = tables / f"spectrogram-{name}", fitted[name][0] / "model.safetensors"
    done = run("spectrogram", model, "--out", out)
    assert done.exit_code == 0, done.output
    table = read_table(out / "frequency.csv")
    first = next(iter(table))
    frequency = load(model).instantaneous_frequency(table[first][:, None]).mean
    unit = " (cycles per day)" if name == "parquet" else ""
    np.testing.assert_allclose(table[f"frequency_1{unit}"], frequency[:, 0], rtol=1e-6)
    assert imread(out / "spectrogram.png").shape[1] > 900


# Data as they come


@pytest.fixture(scope="module")
def gaps(tables):
    """A table of a tone of one and a half cycles a day over nine days, as exported: gaps, error bars, commas, gzip."""
    rng = np.random.default_rng(1)
    t = np.arange(72) / 8.0
    y = np.cos(2.0 * np.pi * 1.5 * t) + 0.1 * rng.normal(size=72)
    when = np.datetime64("2020-01-20T00:00") + (t * 1440).astype("timedelta64[m]")
    lines = ["# station 7", "Datum;Wert;e_Wert;Note"]
    for k, (time, value) in enumerate(zip(when.tolist(), y, strict=True)):
        cell = "NA" if k in (3, 40) else f"{value:.4f}".replace(".", ",")
        lines.append(f"{time:%d.%m.%Y %H:%M};{cell};{'' if k == 50 else '0,1'};gut")
    path = tables / "messung.txt.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    out = tables / "fit-gaps"
    options = (
        "--unit",
        "hour",
        "--period",
        "--level",
        "0.5",
        "--resolution",
        "150",
        "--format",
        "pdf",
        "--starts",
        "1",
    )
    done = run("fit", path, "--quick", *FAST, *options, "--highest-frequency", "0.15", "--out", out)
    assert done.exit_code == 0, done.output
    return path, out, " ".join(done.stdout.split())


def test_rows_with_missing_values_are_left_out_and_counted(gaps):
    _, out, printed = gaps
    assert "69 rows: input 'Datum', output 'Wert', error bars 'e_Wert'" in printed
    assert "3 of 72 rows have missing values: left out" in printed
    record = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert record["data"] == {"rows": 69, "rows_left_out": 3, "x": ["Datum"], "y": "Wert", "error": "e_Wert"}


def test_what_was_found_is_printed_before_the_fit_and_in_the_unit_asked_for(gaps):
    _, out, printed = gaps
    found, learned = printed.index("found before the fit: 1 component in 69 rows"), printed.index("component period")
    assert found < learned
    assert "0.15 cycles per hour" in printed[found:learned]  # where the search ended, as asked for
    assert "period (hour)" in printed[found:learned]
    assert "median 50 % band" in printed
    record = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert (record["unit"], record["level"], record["settings"]["n_starts"]) == ("cycles per hour", 0.5, 1)
    np.testing.assert_allclose(record["components"][0]["period"], 16.0, rtol=0.02)
    np.testing.assert_allclose(record["components"][0]["frequency"], 1.0 / 16.0, rtol=0.02)
    (start,) = record["found"]["components"]
    np.testing.assert_allclose(start["frequency"], 1.0 / 16.0, rtol=0.05)
    np.testing.assert_allclose(record["found"]["band"][1], 0.15, rtol=0.02)
    assert start["gain"] > 20.0
    assert f"{start['gain']:.3g} 100%" in printed[found:learned]


def test_figures_have_the_format_asked_for(gaps, tables):
    _, out, _ = gaps
    assert (out / "overview.pdf").read_bytes().startswith(b"%PDF")
    assert not (out / "overview.png").exists()
    done = run(
        "spectrogram", out / "model.safetensors", "--format", "svg", "--period", "--resolution", "50", "--out", out
    )
    assert done.exit_code == 0, done.output
    assert b"<svg" in (out / "spectrogram.svg").read_bytes()
    table = read_table(out / "frequency.csv")
    np.testing.assert_allclose(table["period_1 (day)"], 1.0 / 1.5, rtol=0.02)
    assert len(table["Datum"]) == 50


def test_tables_of_others():
    """Those that the measure of first calls is taken on: what they are is clear from names and kinds."""
    if "SPECTROGP_DATA" not in os.environ:
        pytest.skip("SPECTROGP_DATA does not name a directory with first/co2_raw.csv and others")
    place = Path(os.environ["SPECTROGP_DATA"]) / "first"
    expected = {
        "co2_raw": ("date", "co2", 2225, 59),
        "co2m_train": ("date", "co2", 454, 0),
        "elnino": ("date", "sst", 732, 0),
        "nino": ("year", "nino3", 264, 0),
        "sunspots": ("year", "spots", 309, 0),
    }
    for name, (x, y, rows, left_out) in expected.items():
        given = tables_of_the_command.read_rows(place / f"{name}.csv", None, None, None, strict=False)
        assert (given.columns, given.rows, given.left_out) == (((x,), y, None), rows, left_out)
        assert work.shown_for(given, work.Looks()).frequency() == "cycles per year"


def test_whether_days_come_first_may_be_said(tables, tmp_path):
    path = tmp_path / "monthly.csv"
    path.write_text("month,v\n" + "\n".join(f"01/{k:02}/1990,{k % 3}" for k in range(1, 13)))
    done = run("fit", path, "--out", tmp_path)
    assert (done.exit_code, "--day-first or --month-first" in done.stderr) == (2, True)
    given = tables_of_the_command.read_rows(path, None, None, None, strict=False, day_first=True)
    assert given.X[1, 0] == np.datetime64("1990-02-01")
    done = run("fit", path, "--by", "v", "--month-first", "--out", tmp_path)
    assert "--day-first is for one signal" in done.stderr


def test_standard_input(gaps, tables, monkeypatch):
    path, _, _ = gaps
    for name, content in {"text": gzip.decompress(path.read_bytes()), "packed": path.read_bytes()}.items():
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))
        with tables_of_the_command.at_hand(Path("-")) as kept:
            given = tables_of_the_command.read_rows(kept, None, None, None, strict=False)
        assert (given.rows, given.left_out) == (69, 3), name
        assert not kept.exists()
    here = Path("table.csv")
    with tables_of_the_command.at_hand(here) as kept:
        assert kept is here


def test_sound_is_a_table_of_its_first_channel(tmp_path):
    tone = np.sin(2.0 * np.pi * 40.0 * np.arange(200) / 1000.0)
    wavfile.write(tmp_path / "tone.wav", 1000, np.column_stack([tone, 0.0 * tone]).astype(np.float32))
    done = run("fit", tmp_path / "tone.wav", "--quick", *FAST, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert (record["data"]["x"], record["data"]["y"], record["unit"]) == (["time (s)"], "channel 1", "Hz")
    np.testing.assert_allclose(record["components"][0]["frequency"], 40.0, rtol=0.02)


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
        (["fit", "{}/data.csv", "--x", "y", "--y", "y"], "column 'y' is asked for twice"),
        (["fit", "{}/data.parquet", "--y", "when"], "outputs are numbers, but these are times"),
        (["fit", "{}/text.csv"], "column 'y', row 1: expected a number"),
        (["fit", "{}/data.csv", "--kernel", "magic"], "kernel must be one of"),
        (["fit", "{}/data.csv", "--components", "0"], "components"),
        (["fit", "{}/data.csv", "--unit", "year"], "unit='year' is for inputs that are times, and these are numbers"),
        (["fit", "{}/data.csv", "--unit", "month"], "month"),
        (["fit", "{}/data.csv", "--level", "90"], "level must lie between 0 and 1, got 90"),
        (["fit", "{}/data.csv", "--highest-frequency", "0"], "highest_frequency must be positive"),
        (["fit", "{}/data.csv", "--format", "gif"], "gif"),
        (["fit", "{}/gaps.csv", "--strict"], "gaps.csv, column 'y', row 3: the value is missing"),
        (["fit", "{}/many.csv", "--x", "date", "--x", "u", "--y", "v", "--period"], "--period is for one input, got 2"),
        (["fit", "{}/many.csv"], "the output may be 'u' or 'v': choose by --y NAME; the columns are 'date', 'u', 'v'"),
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


def test_demo_compares_with_the_truth(tmp_path, monkeypatch):
    """With a kernel that compiles fast and cannot follow a chirp: the default one is tested with the estimator."""
    monkeypatch.setitem(work.QUICK, "kernel", "sm")
    monkeypatch.setitem(work.QUICK, "inference", "map")
    done = run("demo", "--quick", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    names = ["data.csv", "model.safetensors", "overview.png", "summary.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    numbers = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["recovery"]
    table = read_table(tmp_path / "data.csv")
    frequency = load(tmp_path / "model.safetensors").instantaneous_frequency(table["t"][:, None]).mean[:, 0]
    error = np.median(np.abs(frequency / (1.0 + 1.8 * table["t"] ** 2) - 1.0))
    assert numbers["median relative error of the frequency"] == pytest.approx(error)
    assert numbers["median relative error of the initial values"] < 0.1
    assert "relative error of the frequency" in " ".join(done.stdout.split())


def test_help_does_not_load_jax():
    code = "import sys; from typer.testing import CliRunner; from spectrogp.cli import app; \
print(CliRunner().invoke(app, ['--help']).exit_code, 'jax' in sys.modules, 'matplotlib' in sys.modules)"
    assert python("-c", code).stdout.split() == ["0", "False", "False"]
