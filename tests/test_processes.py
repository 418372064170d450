"""One fit by several real processes of ``jax.distributed``: the same optimum, one checkpoint, no waiting for ever."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import fit_together
import spectrogp as sg
from spectrogp.core import chunked_sum, entry_point, rows_shared
from spectrogp.processes import __main__ as launcher

SCRIPT = str(Path(fit_together.__file__))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Where the processes of this file keep compiled programs for each other."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def together(tmp_path, programs):
    """Run the script in some processes: the results of each, how they ended, and seconds since one was lost."""

    def run(what, count, checkpoint=None, victim=None):
        words = [SCRIPT, what, str(tmp_path / "result"), *([] if checkpoint is None else [str(checkpoint)])]
        kept = {"JAX_COMPILATION_CACHE_DIR": str(programs), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "spectrogp.processes", str(count), *words],
            env=os.environ | kept | ({} if victim is None else {"VICTIM": str(victim)}),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        files = sorted(tmp_path.glob("result-*.json"))
        results = [json.loads(file.read_text()) for file in files]
        for file in files:
            file.unlink()
        happened = tmp_path / "result-when"
        return results, ended, time.time() - happened.stat().st_mtime if happened.exists() else None

    return run


@pytest.fixture(scope="module")
def alone():
    """Optima of one process, without any group."""
    return fit_together.optima()


def test_a_sum_is_the_same_when_it_is_shared():
    rows, fixed = np.linspace(0.0, 1.0, 13), np.arange(3.0)

    @entry_point
    def both(shared):
        def summand(shared, rows, fixed):
            return jax.numpy.sin(shared[0] * rows) * jax.numpy.sum(fixed) + shared[1]

        return jax.value_and_grad(lambda shared: chunked_sum(summand, shared, rows, 4, (fixed,)))(shared)

    shared = np.array([0.7, 0.2])
    expected = np.sum(3.0 * np.sin(0.7 * rows) + 0.2), [np.sum(3.0 * rows * np.cos(0.7 * rows)), 13.0]
    for value in (both(shared), _inside(both, shared)):
        np.testing.assert_allclose(value[0], expected[0], rtol=1e-14)
        np.testing.assert_allclose(value[1], expected[1], rtol=1e-14)


def _inside(function, *arguments):
    with rows_shared():
        return function(*arguments)


def test_two_processes_reach_the_optimum_of_one(together, alone):
    results, ended, _ = together("optima", 2)
    assert ended.returncode == 0, ended.stderr
    assert [result["count"] for result in results] == [2, 2]
    for name, expected in alone.items():
        assert results[0][name] == results[1][name], "every process makes the same steps"
        np.testing.assert_allclose(results[0][name], expected, rtol=1e-8)


def test_a_process_by_itself_is_a_group_of_one(alone):
    with sg.distributed() as group:
        assert group == sg.processes.Group(0, 1)
        neighbours, refresh, _, _ = fit_together.models()
        fit = sg.inference.maximise_lbfgs(neighbours, refresh(neighbours))
    np.testing.assert_allclose(fit.history[-5:], alone["lbfgs"][:5], rtol=1e-10)


@pytest.fixture(scope="module")
def whole():
    """The history of a fit that nothing happened to."""
    return fit_together.checkpointed(sg.processes.Group(0, 1), None)["history"]


@pytest.mark.parametrize(("victim", "count"), [pytest.param(0, 2, marks=pytest.mark.slow), (1, 1)])
def test_a_process_that_is_killed_ends_the_others_and_any_number_goes_on(together, tmp_path, whole, victim, count):
    checkpoint = tmp_path / "checkpoint"
    results, ended, seconds = together("killed", 2, checkpoint, victim)
    assert not results
    assert ended.returncode == 137
    assert f"process {victim} of 2 was ended by SIGKILL" in ended.stderr
    # The survivor's own words; where it lost the first process JAX may be quicker with its own.
    said = f"process {1 - victim} of 2 has lost another one" in ended.stderr
    assert said or (victim == 0 and "another task died" in ended.stderr)
    assert seconds < 30.0
    results, ended, _ = together("whole", count, checkpoint)
    assert ended.returncode == 0, ended.stderr
    assert len(results) == count
    assert sorted(tmp_path.glob("checkpoint*")) == [checkpoint], "the first process writes, and no other"
    for result in results:
        np.testing.assert_allclose(result["history"], whole, rtol=1e-8)


@pytest.mark.slow
def test_an_error_in_one_process_ends_the_others(together):
    results, ended, seconds = together("failed", 2, victim=1)
    assert not results
    assert ended.returncode == 1
    assert "ZeroDivisionError: only here" in ended.stderr
    assert "process 0 of 2 has lost another one" in ended.stderr
    assert "process 1 of 2 failed with exit code 1" in ended.stderr
    assert seconds < 30.0


@pytest.mark.slow
def test_an_interrupt_of_one_process_stops_all_at_the_same_step(together, tmp_path, whole):
    checkpoint = tmp_path / "checkpoint"
    results, ended, _ = together("interrupted", 2, checkpoint, victim=1)
    assert ended.returncode == 0, ended.stderr
    assert [(len(result["history"]), result["interrupted"]) for result in results] == [(30, True)] * 2
    results, _, _ = together("whole", 2, checkpoint)
    np.testing.assert_allclose([result["history"] for result in results], [whole] * 2, rtol=1e-8)


@pytest.mark.slow
def test_processes_with_different_data_are_refused(together):
    results, ended, _ = together("different", 2)
    assert not results
    assert ended.returncode == 1
    assert "all processes must have the same model and data, and those of [1] differ from those of 0" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coordinator": "here:1"}, "processes, index is missing"),
        ({"processes": 2}, "coordinator, index is missing"),
        ({"coordinator": "here", "processes": 2, "index": 0}, "an address with a port, such as 'host:1234'"),
        ({"coordinator": "here:1", "processes": 0, "index": 0}, "processes must be an integer of at least 1, got 0"),
        ({"coordinator": "here:1", "processes": 2, "index": 2}, "of 2 it is at most 1: 2"),
    ],
)
def test_bad_groups_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message), sg.distributed(**arguments):
        pass


def test_a_group_comes_before_everything_else():
    jax.numpy.zeros(1)
    with (
        pytest.raises(RuntimeError, match="before anything is computed, and once in a process"),
        sg.distributed("127.0.0.1:1", 1, 0),
    ):
        pass


GROUP = """
import spectrogp as sg
with sg.distributed({}) as group:
    print(group)
"""


def grouped(arguments, count=1, **environment):
    """Processes that only begin and end as a group, each with its environment: what they said, and how they ended."""
    words = [sys.executable, "-c", GROUP.format(arguments)]
    plain = {name: value for name, value in os.environ.items() if name.split("_")[0] not in ("SLURM", "OMPI")}
    started = [
        subprocess.Popen(  # noqa: S603
            words,
            env=plain | {name: str(value).format(k=k) for name, value in environment.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(count)
    ]
    try:
        return [(*process.communicate(timeout=120), process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()


def free_port(low, high):
    for port in range(low, high):
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")


def test_auto_is_what_slurm_says():
    first = 2**16 - 2**12  # JAX takes the port from the number of the job
    step = {"SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_NTASKS": 2, "SLURM_STEP_NUM_TASKS": 2}
    mine = {"SLURM_JOB_ID": free_port(first + 700, 2**16) - first, "SLURM_PROCID": "{k}", "SLURM_LOCALID": "{k}"}
    for k, (said, errors, code) in enumerate(grouped("'auto'", 2, **step, **mine)):
        assert (said, code) == (f"Group(index={k}, count=2)\n", 0), errors


def test_auto_without_a_launcher_says_what_to_give():
    ((_, errors, code),) = grouped("'auto'")
    assert code == 1
    assert "found none of the launchers that JAX knows (Slurm, Open MPI, Kubernetes): give each process" in errors


def test_two_devices_of_one_process_are_refused_on_cpus():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    address = f"127.0.0.1:{free_port(2**15, 2**16)}"
    given = {launcher.COORDINATOR: address, launcher.COUNT: 2, launcher.INDEX: "{k}"}
    for _, errors, code in grouped("", 2, XLA_FLAGS=flags, **given):
        assert code != 0
        assert "on CPUs a process has one device, and here are 2" in errors


@pytest.mark.parametrize("end", ["sys.exit(75)", "os.kill(os.getpid(), signal.SIGABRT)"])
def test_a_process_that_fell_silent_is_named(end, monkeypatch, capsys):
    """Of two, one has lost the other, as it says or by JAX's hand; the other neither fails nor ends."""
    monkeypatch.setattr(launcher, "_GRACE", 0.5)
    lost = subprocess.Popen([sys.executable, "-c", f"import os, signal, sys; {end}"])  # noqa: S603
    silent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert launcher._watch([lost, silent]) == 75
    finally:
        silent.kill()
        silent.wait()
    said = capsys.readouterr().err
    assert "process 1 of 2 still runs, and the others have lost it: it fell silent" in said
    assert "process 0" not in said
    assert silent.returncode == -signal.SIGKILL
