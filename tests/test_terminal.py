"""What the command says reaches any terminal, file or pipe; signals end it in order; names are never markup."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from spectrogp import write_table
from spectrogp.cli import app
from spectrogp.files import printable
from spectrogp.plots import Labels

SAYS = """
import sys
from spectrogp.cli import terminal
terminal.prepare()
terminal.say("cos 2π t …")
terminal.say_table(["", "amplitude σ (v [m/s])"], [["1", "± 2 × 3"], ["[/s]", "\\x1b[2J"]])
print("the work is done", file=sys.stderr)
sys.exit(terminal.finish(0))
"""


def command(code, **options):
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, **options)  # noqa: S603


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "ascii"])
def test_any_encoding_will_do(encoding):
    environment = os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "80"}
    with command(SAYS, stdout=subprocess.PIPE, env=environment, encoding=encoding) as process:
        output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "the work is done\n")
    first, head, one, two = output.splitlines()
    # The names stay whole, units in brackets too, and a terminal is not told to clear its screen.
    assert (two.split()) == ["[/s]", r"\x1b[2J"]
    if encoding == "utf-8":
        assert (first, head.strip(), one.split()) == ("cos 2π t …", "amplitude σ (v [m/s])", ["1", "±", "2", "×", "3"])
    if encoding == "ascii":
        assert (first, head.strip()) == ("cos 2pi t ...", "amplitude sigma (v [m/s])")
        assert one.split() == ["1", "+-", "2", "x", "3"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110
def test_a_full_disk_behind_standard_output_is_one_line_and_the_work_goes_on():
    with open("/dev/full", "w") as full, command(SAYS, stdout=full) as process:  # noqa: PTH123
        _, errors = process.communicate()
    assert process.returncode == 2
    first, second = errors.splitlines()
    assert first == "the work is done"
    assert second == "spectrogp: standard output: No space left on device; the work itself is done"


def test_a_reader_that_went_away_is_no_failure():
    reading, writing = os.pipe()
    os.close(reading)
    with command(SAYS, stdout=writing) as process:
        os.close(writing)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "the work is done\n")


AS_FROM_A_TERMINAL = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore them
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""

WORKS = (
    AS_FROM_A_TERMINAL
    + """
import sys, time
from spectrogp import experiments
from spectrogp.cli import main

def work(*_, **__):
    print("working", flush=True)
    time.sleep(60)

experiments.reproduce = work
sys.argv = ["spectrogp", "reproduce", "fig1", "--out", sys.argv[1]]
main()
"""
)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "terminated"),
        (signal.SIGHUP, "terminated: the terminal was closed"),
    ],
)
def test_a_signal_is_one_line_and_128_and_its_number(tmp_path, number, message):
    arguments = [sys.executable, "-c", WORKS, str(tmp_path)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, **streams) as process:  # noqa: S603
        assert process.stdout.readline() == "working\n"
        process.send_signal(number)
        _, errors = process.communicate()
    assert process.returncode == 128 + number
    assert errors.split("\n")[-2] == f"spectrogp: {message}"
    assert "Traceback" not in errors


IGNORES = (
    AS_FROM_A_TERMINAL
    + """
import sys, time, weakref
from spectrogp import experiments
from spectrogp.cli import main

class Thing:
    pass

def work(*_, **__):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
    del thing  # the callback is interrupted, and Python ignores what it raises
    time.sleep(60)

experiments.reproduce = work
sys.argv = ["spectrogp", "reproduce", "fig1", "--out", sys.argv[1]]
main()
"""
)


def test_a_signal_in_a_callback_is_heard(tmp_path):
    command = [sys.executable, "-c", IGNORES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)  # noqa: S603
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr.split("\n")[-2] == "spectrogp: terminated"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_signal_around_the_work_is_told_too(tmp_path, place):
    """Between the lines that are guarded: as typer begins, and as the paths are printed."""
    where = {"before": "app._Commands.invoke", "after": "app.print_paths"}[place]
    code = f"""
import signal, sys
from spectrogp import experiments
from spectrogp.cli import app
experiments.reproduce = lambda *_, **__: ([], {{}})
{where} = lambda *_, **__: signal.raise_signal(signal.SIGTERM)
sys.argv = ["spectrogp", "reproduce", "fig1", "--out", sys.argv[1]]
app.main()
"""
    code = code.replace(
        "from spectrogp.cli import app", "import importlib; app = importlib.import_module('spectrogp.cli.app')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr.split("\n")[-2] == "spectrogp: terminated"
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110
def test_help_that_nobody_can_read_is_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "spectrogp.cli", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    assert done.returncode == 2
    assert done.stderr == "spectrogp: standard output: No space left on device; the work itself is done\n"


def test_a_signal_that_was_ignored_stays_ignored():
    """As by nohup."""
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from spectrogp.cli import terminal; \
terminal.prepare(); signal.raise_signal(signal.SIGHUP); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "alive\n"


def test_a_command_that_is_called_inside_python_leaves_its_signals_alone():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert CliRunner().invoke(app, ["reproduce", "fig99"]).exit_code == 2
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("v [m/s] σ 温度", "v [m/s] σ 温度"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nb\x00", r"a\nb\x00"),
        ("\u202etxt\u2028\ud800", r"\u202etxt\u2028\ud800"),
    ],
)
def test_what_is_shown_of_names(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize("name", ["$x^$", "$x$", r"\$5 to $6", "cost ($)", "a_b^{c", "\x1b[2J\n"])
def test_names_in_figures_are_no_formulas(name):
    labels = Labels((name,), name, (name,), (False,), (1.0,)).drawn
    figure = Figure()
    axes = figure.subplots()
    text = axes.set_xlabel(labels.x[0])
    figure.draw_without_rendering()
    assert text._preprocess_math(text.get_text()) == (printable(name), False)


def test_names_from_a_table_reach_no_markup(tmp_path):
    """The whole way of a fit, with names that are markup, a broken formula, and a command to the terminal."""
    t = np.linspace(0.0, 3.0, 30)
    x, y = "$x^$ \x1b[2J", "rate [/s]"
    write_table(tmp_path / "u.csv", {x: t, y: np.cos(2.0 * np.pi * t)})
    options = ["--quick", "--kernel", "sm", "--inference", "map", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "u.csv"), *options], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "amplitude σ (rate [/s])" in done.stdout
    assert r"frequency (cycles per $x^$ \x1b[2J)" in done.stdout
    assert "\x1b" not in done.stdout
    assert (tmp_path / "overview.png").stat().st_size > 10_000
    record = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert (record["data"]["x"], record["data"]["y"]) == ([x], y)
