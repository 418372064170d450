"""The loop: what is killed goes on as if nothing had been, and what was compiled is not compiled again."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
import zoo
from spectrogp.data import Data
from spectrogp.inference import maximise, progress_bar, sample_nuts, sample_sghmc
from spectrogp.inference.loop import fingerprint, run_in_chunks
from spectrogp.models import ExactGP, SparseGP
from spectrogp.parameters import LogNormal, Positive

SOURCE = Path(sg.__file__).parent.parent


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (20, 1))
    data = Data.checked(X, np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=20))
    kernel = sg.kernels.SquaredExponential(Positive(1.0 + seed, LogNormal(1.0, 1.0)))
    return kernel, data


def fit(name, checkpoint=None, progress=None, seed=0):
    """One short run of each kind; its numbers."""
    kernel, data = problem(seed)
    settings = {"key": jax.random.key(seed), "checkpoint": checkpoint, "progress": progress}
    if name == "adam":
        done = maximise(ExactGP(kernel, Positive(0.5)), data, steps=95, batch=10, chunk=5, **settings)
        return done.history, done.model.kernel.lengthscale.raw
    if name == "nuts":
        done = sample_nuts(
            ExactGP(kernel, Positive(0.5)), data, draws=30, warmup=30, chains=2, chunk=4, warn=False, **settings
        )
        return done.log_joint, done.draws.kernel.lengthscale.raw
    model = SparseGP(kernel, Positive(0.5), np.linspace(-2.0, 2.0, 4)[:, None])
    roles = {"optimise": ("hyperparameter",), "batch": 10, "chains": 2}
    done = sample_sghmc(model, data, steps=300, burn_in=300, thin=5, chunk=7, warn=False, **roles, **settings)
    return done.log_joint, done.draws.whitened.raw, done.rest.kernel.lengthscale.raw


def digest(arrays):
    return hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in arrays)).hexdigest()


CHILD = """
import sys, time, jax
sys.path.insert(0, {tests!r})
import test_loop
def progress(done, steps, objective):
    print(done, flush=True)
    time.sleep(0.05)
with jax.enable_x64(True):
    test_loop.fit({name!r}, {checkpoint!r}, progress)
"""


@pytest.mark.parametrize("name", ["adam", "nuts", "sghmc"])
def test_a_killed_run_goes_on_to_the_same_result(name, tmp_path):
    checkpoint = tmp_path / "run.npz"
    code = CHILD.format(tests=str(Path(__file__).parent), name=name, checkpoint=str(checkpoint))
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    child = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
    # Killed at a moment of no importance, some chunks after the first checkpoint.
    limit = time.monotonic() + 300
    while not checkpoint.exists() and time.monotonic() < limit:
        assert child.stdout.readline() != "", "the run ended before it was killed"
    child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    with zoo.double():
        seen = []
        resumed = fit(name, checkpoint, lambda done, steps, objective: seen.append((done, steps)))
        assert seen[0][0] > 0.1 * seen[0][1]  # it did not start from nothing
        assert digest(resumed) == digest(fit(name))
        # What is finished is read, not run.
        assert digest(fit(name, checkpoint, lambda *_: pytest.fail("it ran again"))) == digest(resumed)


def test_foreign_and_broken_checkpoints_are_refused(tmp_path):
    checkpoint = tmp_path / "run.npz"
    with zoo.double():
        fit("adam", checkpoint)
        with pytest.raises(ValueError, match="is the checkpoint of another run: the model, the data, the key"):
            fit("adam", checkpoint, seed=1)
        with pytest.raises(ValueError, match="is the checkpoint of another run"):
            fit("nuts", checkpoint)
        checkpoint.write_bytes(checkpoint.read_bytes()[:100])
        with pytest.raises(ValueError, match="is not a checkpoint"):
            fit("adam", checkpoint)


def test_fingerprints_see_values_settings_and_structure():
    kernel, data = problem()
    marks = {
        fingerprint(x) for x in (kernel, data, (kernel, data), problem(1)[0], data.y, data.y[1:], jax.random.key(0))
    }
    assert len(marks) == 7
    assert fingerprint(problem()) == fingerprint(problem())


@pytest.mark.parametrize("name", ["adam", "nuts", "sghmc"])
def test_a_second_run_of_equal_shape_compiles_nothing(name):
    jax.clear_caches()  # other tests have made such runs
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))
    try:
        with zoo.double():
            first = fit(name)
            assert any("backend_compile" in event for event in compiled)
            compiled.clear()
            second = fit(name, seed=1)  # other data, start and key
        assert not [event for event in compiled if "backend_compile" in event]
        assert digest(first) != digest(second)
    finally:
        jax.monitoring.clear_event_listeners()


def count(state, index, data):
    return state + data, (state, jnp.where(index == 11, jnp.nan, state))


def test_records_may_be_any_tree_and_what_is_not_finite_is_named():
    settings = {"chunk": 4, "objective": lambda record: record[0]}
    state, (first, second), interrupted = run_in_chunks(count, np.zeros(2), np.ones(2), steps=10, **settings)
    np.testing.assert_array_equal(first[:, 0], np.arange(10))
    np.testing.assert_array_equal(second, first)
    np.testing.assert_array_equal(state, [10, 10])
    assert not interrupted
    with pytest.raises(FloatingPointError, match="the objective is nan at step 11: use less"):
        run_in_chunks(
            count, np.zeros(2), np.ones(2), steps=20, chunk=4, objective=lambda record: record[1], advice="use less"
        )


def test_an_interrupt_before_the_first_chunk_gives_no_records():
    def stop(state, index):
        raise KeyboardInterrupt

    state, (first, _), interrupted = run_in_chunks(count, np.zeros(2), np.ones(2), steps=10, chunk=4, renew=stop)
    assert interrupted
    assert first.shape == (0, 2)
    np.testing.assert_array_equal(state, [0, 0])


def test_progress_is_drawn(capsys):
    with progress_bar("counting") as progress:
        progress(5, 10, 1.5)
        progress(10, 10, 2.5)
    drawn = capsys.readouterr().err
    assert "counting" in drawn
    assert "10/10" in drawn
    assert "2.5" in drawn
