"""What every sampler owes, on targets with known moments: one contract for all of ``spectrogp.inference.SAMPLERS``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.measure import counting_programs
from scipy.special import polygamma

from spectrogp.core import cores, program_threads, side_by_side
from spectrogp.inference import NUTS, SAMPLERS, SGHMC, AbstractSampler, Run, mean_error, sample, std_error
from spectrogp.inference.dividing import parts_of
from spectrogp.models import AbstractObjective, Data
from spectrogp.parameters import Real

pytestmark = pytest.mark.usefixtures("compile_quickly")

CHUNK = 25
CORRELATED = np.array([[1.0, 0.9], [0.9, 1.0]])
MEAN, STD = polygamma(0, 2.0), np.sqrt(polygamma(1, 2.0))  # of the logarithm of a gamma variable of shape 2


class Row(NamedTuple):
    """A sampler for the contract, and how many draws its moments are judged from."""

    sampler: AbstractSampler
    draws: int


# SG-HMC does not correct its steps: they are so short that the error which this leaves is not seen in so many draws.
ROWS = {
    NUTS: Row(NUTS(warmup=200, chains=4), 600),
    SGHMC: Row(SGHMC(warmup=200, chains=4, step_size=0.25), 1500),
}


class Product(AbstractObjective):
    """A correlated normal and, independent of it, a skewed variable with a short and a long tail.

    All are shifted by the one output of the data.
    """

    correlated: Any = eqx.field(default_factory=lambda: Real(np.zeros(2), role="latent"))
    skewed: Any = eqx.field(default_factory=lambda: Real(np.zeros(1)))

    def log_joint(self, data, key=None):
        del key
        x, z = self.correlated.raw - data.y, self.skewed.raw - data.y
        return -0.5 * x @ jnp.asarray(np.linalg.inv(CORRELATED)) @ x + jnp.sum(2.0 * z - jnp.exp(z))


def data(shift=0.0):
    return Data([0.0], [shift])


@pytest.fixture(scope="module", params=SAMPLERS, ids=lambda kind: kind.__name__)
def row(request):
    assert request.param in ROWS, f"{request.param.__name__} is a sampler without settings: give it a row in ROWS"
    return ROWS[request.param]


def run(row, *, draws=40, key=0, shift=0.0, progress=None, checkpoint=None):
    """A short run: of the same shapes and settings as all others of a sampler, which then share one program."""
    how = Run(progress, checkpoint, chunk=CHUNK)
    return sample(row.sampler, Product(), data(shift), draws=draws, key=key, run=how, warn=False)


@pytest.fixture(scope="module")
def short(row):
    return run(row)


def test_moments_are_those_of_the_target(row):
    posterior = run(row, draws=row.draws, shift=2.0)
    x, z = posterior.draws.correlated.raw - 2.0, posterior.draws.skewed.raw - 2.0
    # Sums and differences of the correlated pair: the wide and the narrow direction.
    draws = np.concatenate([x, x[..., :1] + x[..., 1:], x[..., :1] - x[..., 1:], z], axis=-1)
    mean, std = np.array([0.0, 0.0, 0.0, 0.0, MEAN]), np.array([1.0, 1.0, np.sqrt(3.8), np.sqrt(0.2), STD])
    # Ten comparisons: 4.5 standard errors of each are exceeded by chance once in ten thousand runs.
    np.testing.assert_array_less(np.abs(draws.mean(axis=(0, 1)) - mean), 4.5 * mean_error(draws))
    error = std_error(draws)
    assert np.all(error < 0.1 * std), f"too few draws to tell: errors {error}"
    np.testing.assert_array_less(np.abs(draws.std(axis=(0, 1)) - std), 4.5 * error)
    # Skewed as it should be: the third moment of the log-gamma, ψ''(2)/ψ'(2)^1.5 = −0.78.
    scores = (draws[..., 4] - MEAN) / STD
    np.testing.assert_allclose(np.mean(scores**3), polygamma(2, 2.0) / STD**3, atol=6 * mean_error(scores**3))


def test_draws_come_with_what_is_known_of_them(row, short):
    shape = (row.sampler.chains, 40)
    assert short.draws.correlated.raw.shape == (*shape, 2)
    assert short.draws.skewed.raw.shape == (*shape, 1)
    assert short.log_joint.shape == shape
    assert short.statistics
    assert {name: values.shape for name, values in short.statistics.items()} == dict.fromkeys(short.statistics, shape)
    assert not short.interrupted
    np.testing.assert_allclose(short.at(1, 7).log_joint(data()), short.log_joint[1, 7], rtol=1e-12)


def same(one, other):
    return eqx.tree_equal(one, other)


def test_a_run_that_was_stopped_goes_on_bit_for_bit(row, short, tmp_path):
    """Ctrl-C keeps the draws so far, in the result and in the checkpoint."""
    warmup = int(row.sampler.warmup)

    def stop(done, steps, value):
        if done == warmup + CHUNK:
            raise KeyboardInterrupt

    part = run(row, progress=stop, checkpoint=tmp_path / "run.checkpoint")
    assert part.interrupted
    assert part.log_joint.shape == (row.sampler.chains, CHUNK)
    np.testing.assert_array_equal(part.log_joint, short.log_joint[:, :CHUNK])
    seen = []
    resumed = run(row, progress=lambda done, *_: seen.append(done), checkpoint=tmp_path / "run.checkpoint")
    assert seen == [warmup + 40]  # one chunk was left
    assert same(resumed, short)


def test_an_interrupt_in_the_warm_up_leaves_no_draws(row, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    part = run(row, progress=stop)
    assert part.interrupted
    assert part.log_joint.shape == (row.sampler.chains, 0)


def test_equal_runs_with_other_numbers_compile_once(row, short):
    with counting_programs() as built:
        other = run(row, key=1, shift=0.5)
    assert not built
    assert not np.array_equal(other.log_joint, short.log_joint)


def test_seeds_are_keys(row, short):
    assert same(run(row, key=jax.random.key(0)), short)


def test_draws_are_checked(row):
    """Few draws are a warning at the line that called for them, but not for who wants none."""
    with pytest.warns(UserWarning, match=r"should be worth 400 \(100 a chain\): draw more") as caught:
        sample(row.sampler, Product(), data(), draws=40, key=0, run=Run(chunk=CHUNK))
    assert [warning.filename for warning in caught] == [__file__]


def test_all_samplers_have_a_row():
    assert set(ROWS) == set(SAMPLERS)


def test_chains_side_by_side_are_those_one_after_the_other(row, short):
    """Bit for bit: threads change when a chain moves, not how."""
    alone = sample(row.sampler, Product(), data(), draws=40, key=0, run=Run(chunk=CHUNK, workers=1), warn=False)
    beside = sample(row.sampler, Product(), data(), draws=40, key=0, run=Run(chunk=CHUNK, workers=3), warn=False)
    assert same(alone, beside)
    assert same(alone, short)
    # Chains differ from each other: each has a key of its own.
    assert len(np.unique(alone.log_joint[:, 0])) == row.sampler.chains


@pytest.mark.parametrize(
    ("told", "most"), [("1", 1), ("100000", np.inf), ("", np.inf), ("many", np.inf), ("0", np.inf)]
)
def test_cores_are_no_more_than_were_told(told, most, monkeypatch):
    """``NPROC`` bounds them, as it bounds XLA's threads; whatever is no number of cores bounds nothing."""
    monkeypatch.delenv("NPROC", raising=False)
    mine = cores()
    monkeypatch.setenv("NPROC", told)
    assert cores() == min(mine, most)


@pytest.mark.parametrize("backend", ["gpu", "tpu"])
def test_one_thread_serves_an_accelerator(backend, monkeypatch):
    """However many cores its host has; and what is left to the CPU has them all."""
    monkeypatch.setattr("spectrogp.core.threads.cores", lambda: 64)
    large, rows = SimpleNamespace(pairs=lambda _: 2**18), Data(np.zeros((100, 1)), np.zeros(100))
    assert program_threads() == parts_of(large, rows, None, None) == 64
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert program_threads() == 1
    assert parts_of(large, rows, None, None) == 1


def test_threads_share_no_further():
    """Cores that one loop has shared among its threads are not shared again by loops inside."""
    assert side_by_side(lambda _: cores(), range(3), 2) == [1, 1, 1]
    assert side_by_side(lambda _: cores(), range(3), 1) == [cores()] * 3
