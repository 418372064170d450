"""The metric of NUTS: the covariance of a normal distribution is found exactly; what no draw has shown stays."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import zoo
from spectrogp.inference import NUTS, Run, bulk_ess, metric, nuts, sample
from spectrogp.inference.laplace import Density
from spectrogp.inference.sampler import Target
from spectrogp.models import AbstractObjective, Data
from spectrogp.parameters import Real

pytestmark = pytest.mark.usefixtures("compile_quickly")

SIZE = 12


def stiff(rng, size=SIZE, condition=1e4):
    """A covariance matrix with widths over two decades, in no direction that a coordinate has."""
    Q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return Q @ np.diag(np.geomspace(1.0 / condition, 1.0, size)) @ Q.T


COVARIANCE = stiff(np.random.default_rng(0))


class Normal(AbstractObjective):
    """A normal distribution with the given precision matrix around the outputs of the data."""

    x: Any = eqx.field(default_factory=lambda: Real(np.zeros(SIZE), role="latent"))

    def log_joint(self, data, key=None):
        del key
        z = self.x.raw - data.y
        return -0.5 * z @ jnp.asarray(np.linalg.inv(COVARIANCE)) @ z


DATA = Data(np.arange(SIZE, dtype=float), np.zeros(SIZE))


def window_of(root, draws, gradients):
    window = metric.empty_window(root)
    for x, g in zip(draws, gradients, strict=True):
        window = metric.extended(window, x, g)
    return window


def test_windows_are_sums_of_products():
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=(2, 30, 4))
    with zoo.double():
        dense = window_of(jnp.eye(4), x, g)
        lengths = window_of(jnp.ones(4), x, g)
    for found, given in ((dense.positions, x), (dense.gradients, g)):
        np.testing.assert_allclose(found, 29 * np.cov(given.T), rtol=1e-10)
    np.testing.assert_allclose(lengths.positions, 29 * np.var(x, axis=0, ddof=1), rtol=1e-10)


def test_windows_double_and_leave_a_tenth():
    assert metric.window_ends(500) == (10, 30, 70, 150, 450)
    assert metric.window_ends(100) == (10, 30, 90)
    assert metric.window_ends(12) == (10,)
    assert metric.window_ends(5) == ()
    for warmup in range(1, 700):
        lengths = np.diff([0, *metric.window_ends(warmup)])
        assert sum(lengths) <= 0.9 * warmup
        assert np.all(lengths >= 10)


def test_the_metric_of_a_normal_distribution_is_its_covariance(monkeypatch):
    """Without prior draws, exactly, as soon as there are more draws than numbers, however far off it began."""
    monkeypatch.setattr(metric, "_PRIOR_DRAWS", 0.0)
    monkeypatch.setattr(metric, "_PRIOR_ROWS", 0.0)
    rng = np.random.default_rng(2)
    draws = rng.multivariate_normal(np.zeros(SIZE), COVARIANCE, SIZE + 3)
    with zoo.double():
        begin = jnp.asarray(np.linalg.cholesky(stiff(rng)))
        found = metric.learned(begin, window_of(begin, draws, -draws @ np.linalg.inv(COVARIANCE)))
        np.testing.assert_allclose(metric.covariance(found), COVARIANCE, rtol=1e-6, atol=1e-9)
        # Lengths alone: the geometric mean of the variance and of the inverse of the precision.
        lengths = metric.learned(jnp.ones(SIZE), window_of(jnp.ones(SIZE), draws, -draws / np.diag(COVARIANCE)))
        np.testing.assert_allclose(metric.covariance(lengths), np.diag(COVARIANCE), rtol=1e-10)


def test_directions_that_no_draw_has_shown_keep_their_length():
    with zoo.double():
        root = jnp.asarray(np.linalg.cholesky(COVARIANCE))
        found = metric.learned(root, window_of(root, np.zeros((3, SIZE)), np.zeros((3, SIZE))))
        np.testing.assert_allclose(metric.covariance(found), COVARIANCE, rtol=1e-8)


def test_the_metric_begins_as_the_laplace_approximation():
    density = Density(eqx.tree_at(lambda m: m.x.raw, Normal(), None), DATA, jax.random.key(0))
    free = eqx.filter(Normal(), eqx.is_inexact_array_like)
    rng = np.random.default_rng(0)
    with zoo.double():
        free = jax.tree.map(jnp.asarray, free)
        root, peak = metric.initial_root(density, free, dense=True, rng=rng)
        lengths, _ = metric.initial_root(density, free, dense=False, rng=rng)
    # Numbers without a prior have one of standard deviation three, so that no direction is wider.
    expected = np.linalg.inv(np.linalg.inv(COVARIANCE) + np.eye(SIZE) / 9.0)
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(lengths**2, np.diag(expected), rtol=1e-4)
    assert peak == pytest.approx(0.0, abs=1e-6)


@pytest.fixture(scope="module")
def runs():
    return {
        kind: sample(
            NUTS(warmup=100, chains=2, metric=kind), Normal(), DATA, draws=200, key=0, run=Run(chunk=50), warn=False
        )
        for kind in ("dense", "diagonal")
    }


def test_a_dense_metric_needs_a_fraction_of_the_gradients(runs):
    """Stiff in no direction of a coordinate: a metric of lengths cannot follow, a matrix makes it round."""
    worth = {
        kind: float(np.min(bulk_ess(run.draws.x.raw)) / np.sum(run.statistics["n_steps"])) for kind, run in runs.items()
    }
    assert worth["dense"] > 10.0 * worth["diagonal"], worth
    assert np.mean(runs["dense"].statistics["n_steps"]) < 8.0


def test_chains_start_within_the_posterior():
    """At draws from it, when it is normal; taken back where its density is lower than a normal one's would be."""
    rest = eqx.tree_at(lambda m: m.x.raw, Normal(), None)
    free = eqx.filter(Normal(), eqx.is_inexact_array_like)
    key = jax.random.key(3)
    with zoo.double():
        start = NUTS(chains=400).starts(Target(rest, key, key), free, DATA, key)
        z = np.linalg.solve(np.linalg.cholesky(COVARIANCE), np.asarray(start.position.x.raw).T)
        # As drawn but for two in a hundred, χ² of 12 numbers beyond 24, which are halved; widths are less than those of
        # the target by one in nine, at most. The mean of 4800 squares is known to 2 %.
        np.testing.assert_allclose(np.mean(z**2), 0.96, atol=0.08)
        assert np.max(np.sum(z**2, axis=0)) <= 24.0 + 1e-6
        given = NUTS(chains=400, jitter=0.5).starts(Target(rest, key, key), free, DATA, key)
        np.testing.assert_allclose(np.std(given.position.x.raw), 0.5, rtol=0.05)
    assert start.root.shape == (400, SIZE, SIZE)


def test_more_numbers_get_a_metric_of_lengths(monkeypatch):
    monkeypatch.setattr(nuts, "DENSE", SIZE - 1)
    few = sample(NUTS(warmup=20, chains=1), Normal(), DATA, draws=5, key=0, warn=False)
    assert few.log_joint.shape == (1, 5)
    with pytest.raises(ValueError, match="metric must be 'dense', 'diagonal' or None, got 'full'"):
        NUTS(metric="full")
