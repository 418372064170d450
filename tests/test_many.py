"""Many signals: one row each, whatever becomes of the processes that fit them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
from typer.testing import CliRunner

import spectrogp as sg
from spectrogp.cli import app
from spectrogp.files import Columns
from spectrogp.many import results as data_sets
from spectrogp.many.dispatch import Dispatch
from spectrogp.many.one import Task, fit_signal
from spectrogp.many.pools import AbstractPool
from spectrogp.many.progress import Pace

pa = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

# What compiles fastest.
QUICK = {"kernel": "sm", "inference": "map", "n_components": 1, "n_starts": 1, "max_iter": 20, "random_state": 0}
COLUMNS = Columns(("t",), "y")
BAD = {
    "empty": (np.arange(20.0), np.full(20, np.nan), "none of its 20 rows has both an input and an output"),
    "constant": (np.arange(20.0), np.full(20, 3.0), "constant: all 20 outputs are 3"),
    "short": (np.arange(2.0), np.arange(2.0), "too short: expected at least 8 rows at different inputs, got 2"),
    "together": (np.zeros(20), np.arange(20.0), "too short: expected at least 8 rows at different inputs, got 1"),
    "infinite": (np.arange(20.0), np.full(20, np.inf), "column 'y', row 1 of the group: the value is infinite"),
}


def tone(number, rows=40):
    rng = np.random.default_rng(number)
    t = np.sort(rng.uniform(0.0, 10.0, rows))
    return t, np.cos(2.0 * np.pi * (0.5 + 0.1 * number) * t) + 0.05 * rng.normal(size=rows)


def table_of(signals):
    """A table of signals by their names."""
    return {
        "station": [name for name, (t, *_) in signals.items() for _ in t],
        "t": np.concatenate([part[0] for part in signals.values()]),
        "y": np.concatenate([part[1] for part in signals.values()]),
    }


def tones(count, rows=40):
    return {f"s{k}": tone(k, rows) for k in range(count)}


def estimator():
    return sg.SpectralGPRegressor(**QUICK)


def names_in(out):
    """The stations that have rows in a data set, as anybody reads it."""
    return dataset.dataset(out).to_table()["station"].to_pylist()


# One signal


def test_a_row_says_what_the_fit_says():
    t, y = tone(2)
    row = fit_signal(Task(COLUMNS, QUICK | {"inference": "laplace"}, 1.0, 0.9), {"t": t, "y": y})
    direct = sg.SpectralGPRegressor(**QUICK | {"inference": "laplace"}).fit(t, y)
    at = np.linspace(t.min(), t.max(), 100)
    band = direct.instantaneous_frequency(at)
    assert "failure" not in row
    assert (row["rows"], row["rows_left_out"], row["components"]) == (40, 0, 1)
    np.testing.assert_allclose(row["frequency"], np.median(band.mean, axis=0), rtol=1e-12)
    np.testing.assert_allclose(row["frequency_lower"], np.median(band.lower, axis=0), rtol=1e-12)
    np.testing.assert_allclose(row["frequency_upper"], np.median(band.upper, axis=0), rtol=1e-12)
    np.testing.assert_allclose(row["frequency"], 0.7, rtol=0.02)
    values = direct.posterior_.local_functions(
        (at[:, None] - direct.X_mean_) / direct.X_scale_, max_draws=200
    ).amplitude
    ends = np.median(np.quantile(direct.y_scale_ * values, [0.05, 0.95], axis=0), axis=1)
    np.testing.assert_allclose([row["amplitude_lower"], row["amplitude_upper"]], ends, rtol=1e-9)
    assert row["amplitude_lower"] < row["amplitude"] < row["amplitude_upper"]
    noise = direct.model_.realise().noise_at(np.zeros((1, 1)), 0.0)[1]
    np.testing.assert_allclose(row["noise"], direct.y_scale_ * np.asarray(noise).item(), rtol=1e-12)
    assert row["cpu_seconds"] > 0


def test_amplitudes_of_the_default_call_are_those_of_sinusoids():
    """Not the σ of its kernel, which is √2 smaller: the signal has a height of 1, known to a few per cent."""
    t, y = tone(2)
    row = fit_signal(Task(COLUMNS, {"n_components": 1, "random_state": 0}, 1.0, 0.9), {"t": t, "y": y})
    np.testing.assert_allclose(row["amplitude"], 1.0, atol=0.1)
    assert row["amplitude_lower"] < row["amplitude"] < row["amplitude_upper"]


def test_frequencies_are_told_in_the_unit_asked_for():
    t, y = tone(2)
    table = {"t": np.datetime64("2001-01-01", "us") + (t * 86400e6).astype("timedelta64[us]"), "y": y}
    days, years = (fit_signal(Task(COLUMNS, QUICK, size, 0.9), table) for size in (1.0, 365.25))
    np.testing.assert_allclose(years["frequency"], 365.25 * days["frequency"], rtol=1e-12)
    np.testing.assert_allclose(days["frequency"], 0.7, rtol=0.02)


@pytest.mark.parametrize("name", [name for name in BAD if name != "infinite"])
def test_a_hopeless_signal_gives_its_reason(name):
    t, y, reason = BAD[name]
    row = fit_signal(Task(COLUMNS, QUICK, 1.0, 0.9), {"t": t, "y": y})
    assert row["failure"] == reason
    assert row["rows"] == len(t)


def test_the_errors_of_a_fit_are_reasons():
    t, y = tone(2)
    row = fit_signal(Task(COLUMNS, QUICK | {"kernel": "magic"}, 1.0, 0.9), {"t": t, "y": y})
    assert row["failure"].startswith("kernel must be one of")


# Dispatch: pools of no processes


class Pool(AbstractPool):
    """Runs calls at once; ``deadly`` ones lose the pool with all that were handed out since."""

    lost = (BrokenProcessPool,)

    def __init__(self, deadly=(), *, blamed=True, lives=10**9):
        self.deadly, self.blamed, self.lives = Counter(dict(deadly)), blamed, lives
        self.opened, self.ran, self.most = 0, Counter(), 0
        self.flying = []

    def open(self):
        self.opened, self.flying, self.closed = self.opened + 1, [], None

    def workers(self):
        return 2

    def submit(self, call, name):
        future = Future()
        self.flying = [other for other in self.flying if not other[0].done()] + [(future, name)]
        self.most = max(self.most, len(self.flying))
        self.ran[name] += 1
        threading.Timer(0.01, self._settle, [future, call, name]).start()
        return future

    def _settle(self, future, call, name):
        if future.done():
            return
        if self.deadly[name] > 0:
            self.deadly[name] -= 1
            for other, _ in self.flying:
                if not other.done():
                    other.set_exception(BrokenProcessPool("killed"))
        else:
            future.set_result(call(name))

    def reason(self, error):
        del error

    def close(self, *, now):
        self.closed = now


def dispatched(pool, signals, start=None):
    kept = []
    start = start or (lambda index: (lambda name: {"name": name}, index))
    Dispatch(pool, start, lambda index, row: kept.append((index, row)), lambda: None).run(signals)
    return kept


def test_every_signal_is_kept_once():
    pool = Pool()
    kept = dispatched(pool, range(20))
    assert sorted(index for index, _ in kept) == list(range(20))
    assert all(row == {"name": index} for index, row in kept)
    assert (pool.opened, pool.closed) == (1, False)
    assert pool.most <= 4  # two for each of two workers: the others are not even read


def test_a_pool_that_is_lost_is_opened_anew_and_nothing_is_lost():
    pool = Pool({5: 1})
    kept = dispatched(pool, range(20))
    assert sorted(index for index, _ in kept) == list(range(20))
    assert all(row == {"name": index} for index, row in kept)
    assert pool.opened == 2


def test_a_signal_that_kills_its_process_is_given_up_and_no_other():
    pool = Pool({5: 10**6, 11: 10**6})
    kept = dict(dispatched(pool, range(20)))
    assert sorted(kept) == list(range(20))
    assert {index for index, row in kept.items() if "failure" in row} == {5, 11}
    assert kept[5]["failure"].startswith("its process was killed, twice")


def test_what_is_lost_with_a_scheduler_is_nobodys_fault():
    pool = Pool({5: 4}, blamed=False)
    kept = dispatched(pool, range(20))
    assert sorted(index for index, _ in kept) == list(range(20))
    assert not any("failure" in row for _, row in kept)
    assert pool.opened == 5


def test_a_signal_that_cannot_be_read_gives_its_reason():
    def start(index):
        if index == 3:
            raise ValueError("cannot  be read")
        return (lambda name: {"name": name}, index)

    kept = dict(dispatched(Pool(), range(6), start))
    assert kept[3] == {"failure": "cannot be read"}
    assert len(kept) == 6


def test_errors_of_workers_end_the_run():
    """As of a library that a worker has not: else all signals would fail."""

    def call(name):
        raise ModuleNotFoundError("No module named 'spectrogp'")

    class Failing(Pool):
        def _settle(self, future, *_):
            future.set_exception(ModuleNotFoundError("No module named 'spectrogp'"))

    pool = Failing()
    with pytest.raises(ModuleNotFoundError):
        dispatched(pool, range(6), lambda index: (call, index))
    assert pool.closed is True


# Rows on disk


@pytest.fixture
def schema():
    return data_sets.schema_of(pa.table({"station": ["a"]}))


def test_rows_are_written_soon_and_then_less_often(tmp_path, schema, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(data_sets.time, "monotonic", lambda: clock[0])
    rows = data_sets.Results(tmp_path, schema, 1)
    for second in range(300):
        clock[0] = float(second)
        rows.add({"station": f"s{second}", "failure": "none"})
    written = len(data_sets.parts_of(tmp_path))
    assert 5 < written < 20  # 1, 2, 4, 8, 16, 30, 30 … seconds apart
    rows.write()
    assert names_in(tmp_path) == [f"s{k}" for k in range(300)]
    again = data_sets.Results(tmp_path, schema, 1)
    assert again.done() == {(f"s{k}",) for k in range(300)}
    again.add({"station": "new"})
    again.write()
    assert names_in(tmp_path)[-1] == "new"
    assert again.ordered([("s5",), ("new",), ("s1",)])["station"].to_pylist() == ["s5", "new", "s1"]


def test_a_data_set_takes_rows_of_one_run_only(tmp_path, schema):
    with data_sets.claimed(tmp_path, {"level": 0.9}):
        with (
            pytest.raises(ValueError, match="another run writes there at this moment"),
            data_sets.claimed(tmp_path, {}),
        ):
            pass
        data_sets.Results(tmp_path, schema, 1).write()
    with data_sets.claimed(tmp_path, {"level": 0.8}):  # nothing was written yet
        rows = data_sets.Results(tmp_path, schema, 1)
        rows.add({"station": "a"})
        rows.write()
    with pytest.raises(ValueError, match=r"another level: 0\.8, now 0\.9"), data_sets.claimed(tmp_path, {"level": 0.9}):
        pass
    (tmp_path / data_sets.RUN).unlink()
    with pytest.raises(ValueError, match="Parquet files of something else"), data_sets.claimed(tmp_path, {}):
        pass


def test_rows_of_other_columns_are_refused(tmp_path, schema):
    pq.write_table(pa.table({"station": [[1.0]]}), tmp_path / "part-000000.parquet")
    with pytest.raises(ValueError, match="cannot be gone on with"):
        data_sets.Results(tmp_path, schema, 1)
    with pytest.raises(ValueError, match="may not be called 'noise'"):
        data_sets.schema_of(pa.table({"noise": ["a"]}))


# How it goes


def test_the_pace_is_that_of_the_last_signals(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    pace = Pace(1000)
    assert pace.left is None
    clock[0] = 100.0  # the first one waits for programs
    pace.count(failed=True)
    for _ in range(400):
        clock[0] += 0.5
        pace.count(failed=False)
    assert pace.per_minute == pytest.approx(120.0)
    assert pace.left == pytest.approx(599 * 0.5)
    assert str(pace) == "120 signals per minute, 0:05:00 left, 1 failed"


# Processes


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Good and bad signals by two processes: the data set, and the rows."""
    out = tmp_path_factory.mktemp("many") / "rows"
    signals = tones(4) | {name: (t, y) for name, (t, y, _) in BAD.items()}
    return out, sg.fit_many(table_of(signals), by="station", estimator=estimator(), out=out, jobs=2)


def test_processes_fit_what_one_fit_does(fitted):
    out, rows = fitted
    assert rows["station"].to_pylist() == [*tones(4), *BAD]
    assert sorted(names_in(out)) == sorted([*tones(4), *BAD])
    for number, name in enumerate(tones(4)):
        row = rows.slice(number, 1).to_pylist()[0]
        assert (row["station"], row["failure"], row["components"]) == (name, None, 1)
        direct = estimator().fit(*tone(number)).instantaneous_frequency(np.zeros(1)).mean
        np.testing.assert_allclose(row["frequency"], direct[0], rtol=1e-9)
        assert row["frequency_lower"] is row["amplitude_lower"] is None  # an optimum alone has no bands


def test_bad_signals_are_rows_with_reasons(fitted):
    reasons = dict(zip(*(fitted[1][name].to_pylist() for name in ("station", "failure")), strict=True))
    for name, (_, _, reason) in BAD.items():
        assert reason in reasons[name]
    assert fitted[1].num_rows == 4 + len(BAD)


def test_what_is_done_is_not_done_again(fitted):
    out, rows = fitted
    signals = tones(4) | {name: (t, y) for name, (t, y, _) in BAD.items()}
    began = time.perf_counter()
    again = sg.fit_many(table_of(signals), by="station", estimator=estimator(), out=out, jobs=2)
    assert time.perf_counter() - began < 2.0  # no process was started
    assert again.equals(rows)
    with pytest.raises(ValueError, match="holds rows of a run with another signals: 9, now 4"):
        sg.fit_many(table_of(tones(4)), by="station", estimator=estimator(), out=out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "place"}, "by: the table has no column 'place'; it has 'station', 't', 'y'"),
        ({"by": []}, "by: name the column whose values tell signals apart"),
        ({"by": "station", "y": "z"}, "y: the table has no column 'z'"),
        ({"by": "station", "x": "station"}, "x: 'station' tells signals apart"),
        ({"by": "station", "jobs": 0}, "jobs must be an integer of at least 1"),
        ({"by": "station", "jobs": 1, "scheduler": "tcp://localhost:1"}, "not both"),
        ({"by": "station", "unit": "year"}, "is for inputs that are times"),
        ({"by": "station", "estimator": sg.SpectralGPRegressor("magic")}, "kernel must be one of"),
        ({"by": "station", "level": 90}, "level must lie between 0 and 1"),
    ],
)
def test_bad_arguments_are_refused_before_the_work(arguments, message):
    """No process was started, and no row is written."""
    with pytest.raises(ValueError, match=message):
        sg.fit_many(table_of(tones(1)), **arguments)


def test_outputs_that_are_times_are_refused():
    when = np.datetime64("2001-01-01", "us") + np.arange(3).astype("timedelta64[us]")
    with pytest.raises(ValueError, match="column 'y': outputs are numbers, but these are times"):
        sg.fit_many({"station": ["a"] * 3, "t": [0.0, 1.0, 2.0], "y": when}, by="station", x="t", y="y")


DRIVER = """
import json, sys
import spectrogp as sg
table, out, settings, where = json.loads(sys.argv[1])
sg.fit_many(table, by="station", estimator=sg.SpectralGPRegressor(**settings), out=out, **where)
"""


def driver(table, out, **where):
    """Another program that fits a table."""
    command = [sys.executable, "-c", DRIVER, json.dumps([str(table), str(out), QUICK, where])]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603


def wait_for(condition, seconds=120.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def file_of_tones(tmp_path_factory):
    path = tmp_path_factory.mktemp("tones") / "tones.parquet"
    pq.write_table(pa.table(table_of(tones(24))), path)
    return path


@pytest.mark.slow
def test_a_killed_process_and_a_killed_program_lose_nothing(file_of_tones, tmp_path):
    psutil = pytest.importorskip("psutil")
    out = tmp_path / "rows"
    first = driver(file_of_tones, out, jobs=2)
    wait_for(lambda: data_sets.parts_of(out))
    children = [child for child in psutil.Process(first.pid).children(recursive=True) if child.cpu_times().user > 1]
    children[0].send_signal(signal.SIGKILL)
    before = len(data_sets.parts_of(out))
    wait_for(lambda: len(data_sets.parts_of(out)) > before or first.poll() is not None)
    first.kill()
    first.wait()
    kept = names_in(out)
    assert len(kept) == len(set(kept)) < 24
    second = driver(file_of_tones, out, jobs=2)
    assert second.wait(timeout=300) == 0
    assert sorted(names_in(out)) == sorted(tones(24))
    assert dataset.dataset(out).to_table()["failure"].null_count == 24
    psutil.wait_procs(children, timeout=20)
    assert not [child for child in children if child.is_running()]  # none works on for nobody


# The command line


def test_the_command_fits_signals(tmp_path):
    t, y = tone(1)
    lines = ["station,t,y", *(f"a,{u},{v}" for u, v in zip(t, y, strict=True)), *(f"b,{u},1.0" for u in t)]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    words = ["fit", tmp_path / "data.csv", "--by", "station", "--jobs", "1", "--quick", "--kernel", "sm"]
    words += ["--inference", "map", "--out", tmp_path]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    assert "signals by 'station': input 't', output 'y'" in done.output
    assert "2 signals: 1 with components, 1 failed" in done.output
    assert "1 failed: constant: all 40 outputs are 1" in done.output
    rows = dataset.dataset(tmp_path / "signals").to_table().to_pylist()
    found = {row["station"]: row for row in rows}
    np.testing.assert_allclose(found["a"]["frequency"], [0.6], rtol=0.05)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "place"], "--by: {} has no column 'place'; it has 'station', 't', 'y'"),
        (["--jobs", "2"], "--jobs is for many signals: give --by"),
        (["--by", "station", "--period"], "--period is for one signal: leave it out"),
        (["--by", "station", "--x", "t", "--x", "y"], "--by is for signals of one input, got 2"),
        (["--by", "station", "--jobs", "2", "--scheduler", "tcp://localhost:1"], "give one of them"),
        (["--by", "station", "--scheduler", "tcp://127.0.0.1:1"], "no scheduler of Dask answers at tcp://127.0.0.1:1"),
    ],
)
def test_the_command_says_what_is_wrong(words, message, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("station,t,y\na,1,2\na,2,3\n")
    done = CliRunner().invoke(app, ["fit", str(path), *words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert message.format(path) in " ".join(done.output.split())


def test_programs_of_a_worker_run_in_its_thread():
    """JAX is told so before it has computed anything: afterwards it would not listen."""
    code = """
import jax
from jax._src.xla_bridge import backends_are_initialized
from spectrogp.files import Columns
from spectrogp.many import one
print(backends_are_initialized())
one.fit_signal(one.Task(Columns(("x",), "y"), {}, 1.0, 0.9), {"x": [], "y": []})
print(jax.config.read("jax_cpu_enable_async_dispatch"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)  # noqa: S603
    assert done.stdout.split() == [b"False", b"False"]
