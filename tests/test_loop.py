"""The loop: what is killed goes on as if nothing had been, and what was compiled is not compiled again."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.inference import NUTS, AbstractStep, Adam, Run, maximise, progress_bar, run_in_chunks, sample, whole
from spectrogp.inference.checkpoints import fingerprint, load_checkpoint, save_checkpoint
from spectrogp.models import Data, ExactGP
from spectrogp.parameters import LogNormal, Positive

pytestmark = pytest.mark.usefixtures("compile_quickly")

SOURCE = Path(sg.__file__).parent.parent


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (20, 1))
    data = Data(X, np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=20))
    kernel = sg.kernels.SquaredExponential(Positive(1.0 + seed, LogNormal(1.0, 1.0)))
    return kernel, data


def fit(checkpoint=None, progress=None, seed=0):
    """A short run of Adam; its numbers."""
    kernel, data = problem(seed)
    run = Run(progress, checkpoint, chunk=5)
    done = maximise(ExactGP(kernel, Positive(0.5)), data, steps=95, key=seed, optimiser=Adam(batch=10), run=run)
    return done.history, done.model.kernel.lengthscale.raw


def digest(arrays):
    return hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in arrays)).hexdigest()


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
import jax, test_loop
jax.config.update("jax_disable_most_optimizations", True)  # as here: for the same result bit for bit
def progress(done, steps, objective):
    print(done, flush=True)
    time.sleep(0.05)
test_loop.fit({checkpoint!r}, progress)
"""


def test_a_killed_run_goes_on_to_the_same_result(tmp_path):
    checkpoint = tmp_path / "run.checkpoint"
    code = CHILD.format(tests=str(Path(__file__).parent), checkpoint=str(checkpoint))
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
    seen = []
    resumed = fit(checkpoint, lambda done, steps, objective: seen.append((done, steps)))
    assert seen[0][0] > 0.1 * seen[0][1]  # it did not start from nothing
    assert digest(resumed) == digest(fit())
    # What is finished is read, not run.
    assert digest(fit(checkpoint, lambda *_: pytest.fail("it ran again"))) == digest(resumed)


def test_foreign_and_broken_checkpoints_are_refused(tmp_path):
    checkpoint = tmp_path / "run.checkpoint"
    fit(checkpoint)
    with pytest.raises(ValueError, match="is the checkpoint of another run: the model, the data, the key"):
        fit(checkpoint, seed=1)
    kernel, data = problem()
    with pytest.raises(ValueError, match="is the checkpoint of another run"):
        sample(NUTS(), ExactGP(kernel, Positive(0.5)), data, draws=30, key=0, run=Run(None, checkpoint, chunk=5))
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(ValueError, match="is not a checkpoint"):
        fit(checkpoint)


STATE = {"values": np.linspace(0.0, 1.0, 3), "count": np.asarray(2), "key": jax.random.key(0)}
ROWS = {"objective": np.empty((0,)), "draws": np.empty((0, 3))}


def kept(path, **change):
    """A checkpoint of four steps of six, with parts of it forged."""
    parts = {"done": 4, "state": STATE, "records": {"objective": np.arange(4.0), "draws": np.ones((4, 3))}} | change
    save_checkpoint(path, "mark", parts["state"], parts["records"], parts["done"])
    return load_checkpoint(path, "mark", STATE, ROWS, 6)


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    state, records, done = kept(tmp_path / "run.checkpoint")
    assert done == 4
    assert jax.random.key_data(state["key"]).tolist() == jax.random.key_data(STATE["key"]).tolist()
    np.testing.assert_array_equal(state["values"], STATE["values"])
    np.testing.assert_array_equal(records["objective"], np.arange(4.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"done": -3}, "-3 of 6 steps are done"),
        ({"done": 10**9}, "1000000000 of 6 steps"),
        ({"done": 3}, r"expected float64 \[3, 3\], got float64 \[4, 3\]"),
        ({"done": True}, "True of 6"),
        ({"state": STATE | {"values": np.full(3, np.nan)}}, "not a number"),
        ({"state": STATE | {"values": np.zeros(4)}}, r"expected float64 \[3\], got float64 \[4\]"),
        ({"state": STATE | {"values": np.zeros(3, np.float32)}}, "got float32"),
        ({"state": {"values": STATE["values"]}}, "expected 3 arrays, got 1"),
        ({"records": {"draws": np.ones((4, 3))}}, "expected 2 arrays, got 1"),
    ],
)
def test_forged_checkpoints_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=rf"run.checkpoint is not a checkpoint of this run \(.*{message}"):
        kept(tmp_path / "run.checkpoint", **change)


def test_every_flipped_bit_of_a_checkpoint_is_found(tmp_path):
    path = tmp_path / "run.checkpoint"
    kept(path)
    content = path.read_bytes()
    for place in range(0, 8 * len(content), 7):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match="is not a checkpoint"):
            load_checkpoint(path, "mark", STATE, ROWS, 6)


def test_fingerprints_see_values_settings_and_structure():
    kernel, data = problem()
    marks = {
        fingerprint(x) for x in (kernel, data, (kernel, data), problem(1)[0], data.y, data.y[1:], jax.random.key(0))
    }
    assert len(marks) == 7
    assert fingerprint(problem()) == fingerprint(problem())


def test_a_second_run_of_equal_shape_compiles_nothing():
    jax.clear_caches()  # other tests have made such runs
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))
    try:
        first = fit()
        assert any("backend_compile" in event for event in compiled)
        compiled.clear()
        second = fit(seed=1)  # other data, start and key
        assert not [event for event in compiled if "backend_compile" in event]
        assert digest(first) != digest(second)
    finally:
        jax.monitoring.clear_event_listeners()


class Count(AbstractStep):
    """Adds the data to the state; the second of its records is nan at step 11."""

    shown: int = eqx.field(static=True, default=0)
    advice: ClassVar[str] = "use less"

    def __call__(self, state, index, data):
        return state + data, (state, jnp.where(index == 11, jnp.nan, state))

    def objective(self, records):
        return records[self.shown]


def test_records_may_be_any_tree_and_what_is_not_finite_is_named():
    run = Run(chunk=4)
    state, (first, second), interrupted = run_in_chunks(Count(), np.zeros(2), np.ones(2), steps=10, run=run)
    np.testing.assert_array_equal(first[:, 0], np.arange(10))
    np.testing.assert_array_equal(second, first)
    np.testing.assert_array_equal(state, [10, 10])
    assert not interrupted
    with pytest.raises(FloatingPointError, match="the objective is nan at step 11: use less"):
        run_in_chunks(Count(shown=1), np.zeros(2), np.ones(2), steps=20, run=run)


def test_an_interrupt_before_the_first_chunk_gives_no_records():
    def stop(state, index, data):
        raise KeyboardInterrupt

    step, run = Count(), Run(chunk=4)
    state, (first, _), interrupted = run_in_chunks(step, np.zeros(2), np.ones(2), steps=10, run=run, renew=stop)
    assert interrupted
    assert first.shape == (0, 2)
    np.testing.assert_array_equal(state, [0, 0])


def test_a_result_that_is_not_whole_passes_the_interrupt_on():
    kernel, data = problem()

    def stop(*_):
        raise KeyboardInterrupt

    settings = {"steps": 10, "key": 0, "optimiser": Adam(batch=10)}
    fits = [maximise(ExactGP(kernel, Positive(0.5)), data, run=Run(p, chunk=5), **settings) for p in (None, stop)]
    assert whole(fits[0]) is fits[0]
    with pytest.raises(KeyboardInterrupt):
        whole(fits[1])


def test_progress_is_drawn(capsys):
    with progress_bar("counting") as progress:
        progress(5, 10, 1.5)
        progress(10, 10, 2.5)
    drawn = capsys.readouterr().err
    assert "counting" in drawn
    assert "10/10" in drawn
    assert "2.5" in drawn
