"""Tables of models: rows are kept as they are done, stopped ones go on, and what was made otherwise is made anew."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.experiments import jobs
from spectrogp.inference import SGHMC
from spectrogp.models import Moments

pytestmark = pytest.mark.usefixtures("compile_quickly")

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (40, 1))
DATA = sg.Data(X, np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=40))


def fit(job, *, steps):
    """Two runs of inference: an optimum, and draws from there."""
    kernel = sg.kernels.NonstationaryQuadratic(sg.FunctionGroup(X[:3], 1.0, shape=(1, 1)))
    model = sg.models.ExactGP(kernel, sg.Positive.around(0.3))
    model = job.maximise(model, DATA, steps=steps, learning_rate=0.05)
    posterior = job.sample(SGHMC(warmup=6, chains=1), model, DATA, draws=6, chunk=1)
    parts = jobs.outputs(posterior, DATA, X, max_draws=3)
    return jobs.Outcome(jobs.scores(parts, DATA.y), {"mean": parts.mean})


TABLE = {"first": jobs.Row(fit, {"steps": 20}), "Second, (2)": jobs.Row(fit, {"steps": 60})}


def run(out, table=TABLE, **options):
    return jobs.run("trial", table, out, **({"quick": False, "seed": 0} | options))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("rows")
    return out, run(out)


def test_rows_are_written_with_what_made_them(made):
    out, done = made
    assert list(done) == list(TABLE)
    files = sorted(path.name for path in (out / "trial.rows").iterdir())
    assert files == ["first.json", "first.npz", "second-2.json", "second-2.npz"]  # no checkpoints are left
    record = json.loads((out / "trial.rows" / "second-2.json").read_text(encoding="utf-8"))
    assert (record["row"], record["settings"], record["seed"]) == ("Second, (2)", {"steps": 60}, 0)
    assert any(line.startswith("jax ") for line in record["versions"])
    assert record["cost"]["cpu_seconds"] > 0.0
    assert 0.1 < record["cost"]["peak_gib"] < 10.0
    assert done["first"].arrays["mean"].shape == (3, 40)
    # Better than the mean (0.5), and by far, though noise of 0.1 stays.
    assert 0.001 < done["first"].scores["mse"] < 0.1
    log = (out / "trial.log").read_text(encoding="utf-8")
    assert "first: fit 20/20" in log
    assert "Second, (2): log likelihood" in log
    numbers = jobs.summary(done)
    assert numbers["first"]["mse"] == done["first"].scores["mse"]
    assert numbers["settings"] == ["first: steps 20", "Second, (2): steps 60"]


def test_rows_that_are_there_are_kept_unless_their_settings_differ(made, monkeypatch):
    out, done = made

    def never(job, *, steps):
        raise AssertionError("a row that is done was run again")

    again = run(out, {name: jobs.Row(never, settings) for name, (_, settings) in TABLE.items()})
    assert again["first"].record == done["first"].record
    np.testing.assert_array_equal(again["first"].arrays["mean"], done["first"].arrays["mean"])
    changed = {"first": jobs.Row(lambda job, *, steps: jobs.Outcome({"mse": 0.0}), {"steps": 21})}
    assert run(out, changed, only=[]) == {}  # not asked for, and what is there is another
    with pytest.raises(AssertionError, match="run again"):
        run(out, {"first": jobs.Row(never, {"steps": 20})}, seed=1)


def test_no_row_replaces_another(tmp_path):
    """A quick version, another seed, or other settings: each is kept beside what was there."""

    def constant(job, *, steps):
        return jobs.Outcome({"mse": float(steps)}, {"steps": np.array(steps)})

    def made(steps, **options):
        return run(tmp_path, {"first": jobs.Row(constant, {"steps": steps})}, **options)["first"].scores["mse"]

    assert made(20) == 20.0
    assert made(5, quick=True) == 5.0
    assert made(6, seed=3) == 6.0
    assert made(21) == 21.0
    places = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert sorted(path.name for path in places) == ["trial-quick.rows", "trial-seed-3.rows", "trial.rows"]
    kept = tmp_path / "trial.rows"
    assert sorted(path.name for path in kept.iterdir()) == ["first.1.json", "first.1.npz", "first.json", "first.npz"]
    assert json.loads((kept / "first.1.json").read_text(encoding="utf-8"))["scores"] == {"mse": 20.0}
    assert np.load(kept / "first.1.npz")["steps"] == 20
    assert "is kept as first.1.json" in (tmp_path / "trial.log").read_text(encoding="utf-8")


def test_peak_memory_is_left_out_where_the_system_does_not_tell(monkeypatch):
    """As on Windows, which has no module ``resource``."""
    monkeypatch.setitem(sys.modules, "resource", None)
    assert jobs._peak_memory() == {}


@pytest.mark.parametrize("stage", ["fit", "draws"])
def test_a_stopped_row_goes_on_and_ends_the_same(made, tmp_path, monkeypatch, stage):
    _, done = made
    steps = jobs._Display.steps
    seen = []

    def stop(self, what, count, total, value):
        steps(self, what, count, total, value)
        seen.append((what, count))
        if what == f"Second, (2): {stage}" and count >= total / 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(jobs._Display, "steps", stop)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert (tmp_path / "trial.rows" / "first.json").exists()
    assert not (tmp_path / "trial.rows" / "second-2.json").exists()
    clock = json.loads((tmp_path / "trial.rows" / "second-2.clock").read_text(encoding="utf-8"))
    seen.clear()
    monkeypatch.setattr(jobs._Display, "steps", lambda self, *what: seen.append(what[:2]) or steps(self, *what))
    again = run(tmp_path)
    assert not [what for what, _ in seen if what.startswith("first")]
    first = next(count for what, count in seen if what.endswith(stage))
    assert first > (40 if stage == "fit" else 6)  # not from the start
    assert again["Second, (2)"].scores == done["Second, (2)"].scores  # bit for bit
    assert again["Second, (2)"].record["cost"]["cpu_seconds"] > clock[1]


def test_some_rows_can_be_chosen(tmp_path):
    assert list(run(tmp_path, only=["first"])) == ["first"]
    with pytest.raises(jobs.UnknownRowError, match="trial has no row 'third'; there are 'first', 'Second"):
        run(tmp_path, only=["third"])


def test_scores_of_a_mixture():
    """Two equally weighted normals: the density is their mean, the prediction the mean of means."""
    parts = Moments(np.array([[0.0], [2.0]]), np.array([[1.0], [4.0]]))
    found = jobs.scores(parts, np.array([0.5]))
    density = 0.5 * (np.exp(-0.125) / np.sqrt(2 * np.pi) + np.exp(-0.5 * 1.5**2 / 4.0) / np.sqrt(8 * np.pi))
    np.testing.assert_allclose([found["log_likelihood"], found["mse"]], [np.log(density), 0.25])
