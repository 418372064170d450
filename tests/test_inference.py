"""Optimisation: reaches what can be known, stops when told, and says what went wrong."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
import zoo
from spectrogp.chunking import chunked_sum
from spectrogp.data import Data
from spectrogp.inference import maximise, maximise_lbfgs
from spectrogp.models import ExactGP, NeighbourGP, Neighbourhoods, VariationalGP
from spectrogp.models.base import AbstractObjective
from spectrogp.neighbours import random_order
from spectrogp.parameters import LogNormal, Positive, Real, partition


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    return Data.checked(X, np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=60))


def model(kind=ExactGP, *rest):
    kernel = sg.kernels.SquaredExponential(Positive(1.0, LogNormal(1.0, 1.0)), Positive(1.0, LogNormal(1.0, 1.0)))
    return kind(kernel, Positive(0.5), *rest)


def test_adam_and_lbfgs_find_the_same_optimum(data):
    with zoo.double():
        best = maximise_lbfgs(model(), data)
        slow = maximise(model(), data, steps=600, key=jax.random.key(0), learning_rate=0.05)
        value, other = (fit.model.log_joint(data) for fit in (best, slow))
        np.testing.assert_allclose(other, value, atol=1e-4)
        np.testing.assert_allclose(slow.model.enter().likelihood.noise, best.model.enter().likelihood.noise, rtol=1e-3)
        free, rest = partition(best.model, "hyperparameter", "latent")
        slope = jax.grad(lambda free: eqx.combine(free, rest).log_joint(data))(free)
        assert max(float(np.max(np.abs(leaf))) for leaf in jax.tree.leaves(slope)) < 1e-2
    assert not best.interrupted
    np.testing.assert_allclose(best.history[-1] * 60, value, rtol=1e-8)


def test_restarts_keep_the_best_of_several_optima(data):
    """From a lengthscale that explains all by noise the gradient leads nowhere; a restart finds the signal."""
    kernel = sg.kernels.SquaredExponential(Positive(500.0), Positive(1.0))
    stuck = ExactGP(kernel, Positive(1.0))
    alone = maximise_lbfgs(stuck, data)
    several = maximise_lbfgs(stuck, data, restarts=4, spread=3.0, key=jax.random.key(0))
    assert several.model.enter().kernel.lengthscale < 2.0 < 10.0 < alone.model.enter().kernel.lengthscale
    assert several.history[-1] > alone.history[-1] + 0.1
    with pytest.raises(ValueError, match="restarts need a key"):
        maximise_lbfgs(stuck, data, restarts=1)


def test_an_interrupted_lbfgs_keeps_its_best(data):
    def stop(done, steps, value):
        if done == 3:
            raise KeyboardInterrupt

    fit = maximise_lbfgs(model(), data, progress=stop)
    assert fit.interrupted
    assert len(fit.history) == 3
    with zoo.double():
        np.testing.assert_allclose(fit.model.log_joint(data), 60 * max(fit.history), rtol=1e-9)


def test_minibatches_reach_the_full_optimum(data):
    neighbours = Neighbourhoods.of(data, np.asarray(data.X), random_order(60, 0), 15)
    with zoo.double():
        best = maximise_lbfgs(model(), data)
        some = maximise(model(NeighbourGP), neighbours, steps=600, key=jax.random.key(1), batch=20, learning_rate=0.05)
        variational = maximise(
            model(VariationalGP, np.linspace(-2.0, 2.0, 12)[:, None]),
            data,
            steps=1500,
            key=jax.random.key(1),
            batch=30,
            learning_rate=0.03,
        )
        value = best.model.log_joint(data)
        # The stochastic paths end within a nat of the optimum of 60 points.
        np.testing.assert_allclose(ExactGP(some.model.kernel, some.model.likelihood).log_joint(data), value, atol=1.0)
        np.testing.assert_allclose(variational.model.log_joint(data), value, atol=1.0)


def test_the_same_key_gives_the_same_result(data):
    with zoo.double():
        fits = [maximise(model(), data, steps=20, key=jax.random.key(k), batch=10, chunk=7) for k in (3, 3, 4)]
    np.testing.assert_array_equal(fits[0].history, fits[1].history)
    assert not np.array_equal(fits[0].history, fits[2].history)
    assert len(fits[0].history) == 20


def test_a_step_that_is_not_finite_is_named(data):
    def explode(X):
        return jnp.where(X[:, 0] > 100, 1.0, jnp.nan)

    with (
        zoo.double(),
        pytest.raises(FloatingPointError, match="the objective is nan at step 0: a smaller learning rate"),
    ):
        maximise(ExactGP(sg.kernels.SquaredExponential(Positive(1.0)), explode), data, steps=5, key=jax.random.key(0))


def test_an_interrupt_keeps_what_there_is(data):
    def stop(done, steps, value):
        if done >= 20:
            raise KeyboardInterrupt

    with zoo.double():
        fit = maximise(model(), data, steps=1000, key=jax.random.key(0), chunk=10, progress=stop)
        assert fit.interrupted
        assert len(fit.history) == 20
        assert fit.model.log_joint(data) > model().log_joint(data)


def test_data_can_be_renewed_between_chunks(data):
    seen = []

    def refresh(current, step):
        seen.append((step, float(current.enter().likelihood.noise)))
        return data

    with zoo.double():
        maximise(model(), data, steps=30, key=jax.random.key(0), chunk=10, refresh=refresh)
    assert [step for step, _ in seen] == [0, 10, 20]
    assert seen[0][1] != seen[2][1]


@pytest.mark.parametrize("size", [5, 8, 17])
def test_chunked_sum_equals_the_sum_in_value_and_gradient(size):
    rows = (np.linspace(-1.0, 1.0, size), np.arange(float(size)))

    def summand(shared, rows):
        x, y = rows
        return (y - shared["a"] * jnp.sin(shared["b"] * x)) ** 2

    with zoo.double():
        shared = {"a": jnp.asarray(0.7), "b": jnp.asarray(2.0)}
        rows = tuple(map(jnp.asarray, rows))
        plain = jax.value_and_grad(lambda shared: jnp.sum(summand(shared, rows)))(shared)
        chunked = jax.jit(jax.value_and_grad(lambda shared: 2.0 * chunked_sum(summand, shared, rows, 8)))(shared)
        for ours, theirs in zip(jax.tree.leaves(chunked), jax.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(ours, 2.0 * theirs, rtol=1e-13)
        np.testing.assert_allclose(chunked_sum(summand, shared, rows, 8), plain[0], rtol=1e-13)


def test_natural_gradients_reach_the_optimum_sooner(data):
    start = model(VariationalGP, np.linspace(-2.0, 2.0, 12)[:, None])
    best = maximise_lbfgs(model(), data)
    settings = {"steps": 150, "key": jax.random.key(1), "learning_rate": 0.05}
    fits = [maximise(start, data, natural_rate=rate, **settings) for rate in (None, 0.5)]
    with zoo.double():
        value = best.model.log_joint(data)
        plain, natural = (float(value - fit.model.log_joint(data)) for fit in fits)
    assert 0 < natural < 1.0 < 10.0 < plain
    with pytest.raises(TypeError, match="natural gradients are for a VariationalGP, got ExactGP"):
        maximise(model(), data, natural_rate=0.1, **settings)


def test_a_run_ends_when_it_stops_improving(data):
    fit = maximise(model(), data, steps=5000, key=jax.random.key(0), chunk=20, learning_rate=0.1, patience=3)
    assert 60 < len(fit.history) < 2500
    assert len(fit.history) % 20 == 0
    with zoo.double():
        np.testing.assert_allclose(
            fit.model.log_joint(data), maximise_lbfgs(model(), data).model.log_joint(data), atol=0.01
        )


class NoisyQuadratic(AbstractObjective):
    """−½‖θ − 1 − ε‖², with an ε ~ N(0, I) of each key in the place of a minibatch."""

    theta: Real

    def log_joint(self, data, key=None):  # noqa: ARG002
        noise = jax.random.normal(key, self.theta.raw.shape)
        return -0.5 * jnp.sum((self.theta.raw - 1.0 - noise) ** 2)


def by_hand(iterates, average):
    """The moving average: a plain mean at first, then of weights that fall by 1 − 1/average a step."""
    mean = 0.0
    for count, theta in enumerate(iterates, start=1):
        weight = max(1.0 / count, 1.0 / average)
        mean = (1.0 - weight) * mean + weight * theta
    return mean


def iterates(start, data, pick, *, steps, **settings):
    """What ``pick`` finds in the model after each step."""
    seen = []

    def watch(current, step):
        seen.append(np.asarray(pick(current)))
        return data

    maximise(start, data, steps=steps + 1, chunk=1, refresh=watch, **settings)
    return seen[1:]


@pytest.mark.parametrize("average", [1, 10, 1000])
def test_the_average_of_the_steps_is_the_moving_average(average):
    start, data = NoisyQuadratic(Real(np.zeros(50))), Data.checked(np.zeros((1, 1)), np.zeros(1))
    settings = {"key": jax.random.key(0), "learning_rate": 0.2, "average": average}
    with zoo.double():
        fit = maximise(start, data, steps=40, **settings)
        path = iterates(start, data, lambda m: m.theta.raw, steps=40, **settings)
    np.testing.assert_allclose(fit.model.theta.raw, by_hand(path, average), rtol=1e-12)
    # In what steps of this rate reach, ten of them, less correlated than not, have a smaller error than the last alone.
    if average == 10:
        errors = [np.mean((theta - 1.0) ** 2) for theta in (fit.model.theta.raw, path[-1])]
        assert errors[0] < 0.5 * errors[1]
    with pytest.raises(ValueError, match="average must be 1 step or more, got 0"):
        maximise(start, data, steps=1, key=jax.random.key(0), average=0)


def test_the_average_includes_natural_steps_and_survives_an_interrupt(data, tmp_path):
    start = model(VariationalGP, np.linspace(-2.0, 2.0, 5)[:, None])
    settings = {"key": jax.random.key(0), "average": 4, "natural_rate": 0.3, "batch": 20}

    def stop(done, steps, value):
        if done == 6:
            raise KeyboardInterrupt

    with zoo.double():
        whole = maximise(start, data, steps=12, chunk=3, **settings)
        paths = {
            name: iterates(start, data, lambda m, name=name: getattr(m, name).raw, steps=12, **settings)
            for name in ("mean", "root")
        }
        part = maximise(start, data, steps=12, chunk=3, checkpoint=tmp_path / "run.npz", progress=stop, **settings)
        resumed = maximise(start, data, steps=12, chunk=3, checkpoint=tmp_path / "run.npz", **settings)
    for name, path in paths.items():
        np.testing.assert_allclose(getattr(whole.model, name).raw, by_hand(path, 4), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(getattr(part.model, name).raw, by_hand(path[:6], 4), rtol=1e-10, atol=1e-12)
    assert part.interrupted
    assert eqx.tree_equal(resumed.model, whole.model)
