"""Many signals on a real Dask cluster of local processes: workers that are killed, schedulers that come back."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV, KFold
from typer.testing import CliRunner

import spectrogp as sg
from spectrogp.cli import app
from spectrogp.many import results as data_sets
from test_many import BAD, QUICK, names_in, table_of, tone, tones, wait_for

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

# Dask's own, when clusters end.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def client():
    """Of two workers, each a process with one thread."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class Running(threading.Thread):
    """``fit_many`` beside the test; ``rows`` when it is done."""

    def __init__(self, signals, out, **where):
        super().__init__(daemon=True)
        self.signals, self.out, self.where, self.rows, self.error = signals, out, where, None, None
        self.start()

    def run(self):
        estimator = sg.SpectralGPRegressor(**QUICK)
        try:
            self.rows = sg.fit_many(
                table_of(self.signals), by="station", estimator=estimator, out=self.out, **self.where
            )
        except Exception as error:
            self.error = error

    def result(self, seconds=300.0):
        self.join(seconds)
        assert not self.is_alive(), "it does not end"
        if self.error is not None:
            raise self.error
        return self.rows


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(client, tmp_path):
    signals = tones(12) | {name: (t, y) for name, (t, y, _) in BAD.items()}
    running = Running(signals, tmp_path / "rows", scheduler=client)
    wait_for(lambda: data_sets.parts_of(tmp_path / "rows"))
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    rows = running.result()
    assert sorted(names_in(tmp_path / "rows")) == sorted(signals)
    failures = {row["station"]: row["failure"] for row in rows.to_pylist() if row["failure"] is not None}
    assert set(failures) == set(BAD)
    direct = sg.SpectralGPRegressor(**QUICK).fit(*tone(3)).instantaneous_frequency(np.zeros(1)).mean
    np.testing.assert_allclose(rows["frequency"][3].as_py(), direct[0], rtol=1e-9)


@pytest.mark.slow
def test_the_command_uses_a_scheduler(client, tmp_path):
    table = table_of(tones(3) | {"constant": BAD["constant"][:2]})
    lines = ["station,t,y", *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    words = [
        "fit",
        tmp_path / "data.csv",
        "--by",
        "station",
        "--scheduler",
        client.scheduler.address,
        "--out",
        tmp_path,
    ]
    words += ["--quick", "--kernel", "sm", "--inference", "map"]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    assert "4 signals: 3 with components, 1 failed" in done.output
    assert sorted(names_in(tmp_path / "signals")) == ["constant", *tones(3)]


@pytest.mark.slow
def test_a_grid_search_uses_the_cluster(client):
    t, y = tone(2)
    search = GridSearchCV(
        sg.SpectralGPRegressor(**QUICK), {"kernel": ["se", "sm"]}, cv=KFold(2, shuffle=True, random_state=0)
    )
    here = search.fit(t[:, None], y).cv_results_["mean_test_score"]
    with parallel_config(backend="dask"):
        there = search.fit(t[:, None], y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(there, here, rtol=1e-6)


class Scheduler:
    """A scheduler at an address, and a worker, as processes of their own."""

    def __init__(self, port):
        self.address = f"tcp://127.0.0.1:{port}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        program = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
        self.scheduler = subprocess.Popen([*program, "--no-dashboard"], **quiet)  # noqa: S603
        program = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny"]
        self.worker = subprocess.Popen([*program, "--no-dashboard"], **quiet)  # noqa: S603

    def kill(self):
        for process in (self.scheduler, self.worker):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_scheduler_that_comes_back_goes_on(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = Scheduler(port)
    running = Running(tones(12), tmp_path / "rows", scheduler=first.address)
    try:
        wait_for(lambda: data_sets.parts_of(tmp_path / "rows"))
    finally:
        first.kill()
    kept = names_in(tmp_path / "rows")
    second = Scheduler(port)
    try:
        rows = running.result()
    finally:
        second.kill()
    assert 0 < len(kept) < 12
    assert sorted(names_in(tmp_path / "rows")) == sorted(tones(12))
    assert rows["failure"].null_count == 12
