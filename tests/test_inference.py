"""Optimisation: reaches what can be known, stops when told, and says what went wrong."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.measure import counting_programs

import spectrogp as sg
import zoo
from spectrogp.core import chunked_sum, entry_point, rows_divided
from spectrogp.inference import Adam, Run, maximise, maximise_lbfgs
from spectrogp.models import (
    AbstractObjective,
    Data,
    ExactGP,
    NeighbourGP,
    Neighbourhoods,
    VariationalGP,
    random_order,
)
from spectrogp.parameters import LogNormal, Positive, Real, partition

pytestmark = pytest.mark.usefixtures("compile_quickly")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    return Data(X, np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=60))


def model(kind=ExactGP, *rest):
    kernel = sg.kernels.SquaredExponential(Positive(1.0, LogNormal(1.0, 1.0)), Positive(1.0, LogNormal(1.0, 1.0)))
    return kind(kernel, Positive(0.5), *rest)


@entry_point
@eqx.filter_jit
def log_joint(model, data):
    return model.log_joint(data)


@pytest.fixture(scope="module")
def best(data):
    """The optimum of the exact model, by L-BFGS."""
    return maximise_lbfgs(model(), data)


def test_adam_and_lbfgs_find_the_same_optimum(data, best):
    slow = maximise(model(), data, steps=600, key=0, optimiser=Adam(learning_rate=0.05))
    value, other = (log_joint(fit.model, data) for fit in (best, slow))
    np.testing.assert_allclose(other, value, atol=1e-4)
    np.testing.assert_allclose(slow.model.realise().likelihood.noise, best.model.realise().likelihood.noise, rtol=1e-3)
    free, rest = partition(best.model, "hyperparameter", "latent")
    with zoo.double():
        slope = jax.jit(jax.grad(lambda free: eqx.combine(free, rest).log_joint(data)))(free)
    assert max(float(np.max(np.abs(leaf))) for leaf in jax.tree.leaves(slope)) < 1e-2
    assert not best.interrupted
    np.testing.assert_allclose(best.history[-1] * 60, value, rtol=1e-8)


def test_restarts_keep_the_best_of_several_optima(data):
    """From a lengthscale that explains all by noise the gradient leads nowhere; a restart finds the signal."""
    kernel = sg.kernels.SquaredExponential(Positive(500.0), Positive(1.0))
    stuck = ExactGP(kernel, Positive(1.0))
    alone = maximise_lbfgs(stuck, data)
    several = maximise_lbfgs(stuck, data, restarts=4, spread=3.0, key=0)
    assert several.model.realise().kernel.lengthscale < 2.0 < 10.0 < alone.model.realise().kernel.lengthscale
    assert several.history[-1] > alone.history[-1] + 0.1


def test_an_interrupted_lbfgs_keeps_its_best(data):
    def stop(done, steps, value):
        if done == 3:
            raise KeyboardInterrupt

    fit = maximise_lbfgs(model(), data, progress=stop)
    assert fit.interrupted
    assert len(fit.history) == 3
    np.testing.assert_allclose(log_joint(fit.model, data), 60 * max(fit.history), rtol=1e-9)


def test_a_second_run_of_lbfgs_compiles_nothing(data, best):
    """Equal shapes, other numbers: programs that a loop of fits makes anew stay in memory for good."""
    with counting_programs() as built:
        other = maximise_lbfgs(model(), Data(data.X, data.y + 0.1))
    assert not built
    assert other.history[-1] != best.history[-1]


@pytest.mark.slow
def test_minibatches_reach_the_full_optimum(data, best):
    neighbours = Neighbourhoods.of(data, np.asarray(data.X), random_order(60, 0), 15)
    some = maximise(
        model(NeighbourGP), neighbours, steps=600, key=1, optimiser=Adam(batch=20, learning_rate=0.05)
    ).model
    variational = maximise(
        model(VariationalGP, np.linspace(-2.0, 2.0, 12)[:, None]),
        data,
        steps=1500,
        key=1,
        optimiser=Adam(batch=30, learning_rate=0.03),
    ).model
    value = log_joint(best.model, data)
    # The stochastic paths end within a nat of the optimum of 60 points.
    np.testing.assert_allclose(log_joint(ExactGP(some.kernel, some.likelihood), data), value, atol=1.0)
    np.testing.assert_allclose(log_joint(variational, data), value, atol=1.0)


def test_the_same_key_gives_the_same_result(data):
    settings = {"steps": 20, "optimiser": Adam(batch=10), "run": Run(chunk=7)}
    fits = [maximise(model(), data, key=key, **settings) for key in (3, jax.random.key(3), 4)]
    np.testing.assert_array_equal(fits[0].history, fits[1].history)
    assert not np.array_equal(fits[0].history, fits[2].history)
    assert len(fits[0].history) == 20


def test_a_step_that_is_not_finite_is_named(data):
    def explode(X):
        return jnp.where(X[:, 0] > 100, 1.0, jnp.nan)

    broken = ExactGP(sg.kernels.SquaredExponential(Positive(1.0)), explode)
    with pytest.raises(FloatingPointError, match="the objective is nan at step 0: a smaller learning rate"):
        maximise(broken, data, steps=5, key=0)


def test_an_interrupt_keeps_what_there_is(data):
    def stop(done, steps, value):
        if done >= 20:
            raise KeyboardInterrupt

    fit = maximise(model(), data, steps=1000, key=0, run=Run(chunk=10, progress=stop))
    assert fit.interrupted
    assert len(fit.history) == 20
    assert log_joint(fit.model, data) > log_joint(model(), data)


class Watch:
    """New data, which are the old, after every so many steps; remembers what it saw of the model."""

    def __init__(self, data, every, pick):
        self.data, self.every, self.pick, self.seen = data, every, pick, []

    def __call__(self, model):
        self.seen.append(np.asarray(self.pick(model)))
        return self.data


def test_data_can_be_renewed_between_chunks(data):
    counts = {}
    for every in (10, 15, 100):
        refresh = Watch(data, every, lambda m: m.likelihood.noise.raw)
        maximise(model(), data, steps=35, key=0, run=Run(chunk=10), refresh=refresh)
        counts[every] = len(refresh.seen)
        assert len(np.unique(refresh.seen)) == len(refresh.seen)  # of the model as it is then
    # Never at the start, where the data are new; at 10, 20 and 30; after the chunks that end at 20 and 30; never.
    assert counts == {10: 3, 15: 2, 100: 0}


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


def test_chunked_sum_gathers_from_a_table():
    """Rows of a table that many rows name are evaluated once, and their gradients meet there."""
    rng = np.random.default_rng(0)
    members = rng.integers(-1, 7, (29, 3))
    with jax.enable_x64(True):
        shared, table = jnp.asarray(rng.normal(size=2)), {"a": jnp.asarray(rng.normal(size=7)), "b": jnp.ones((7, 2))}

        def summand(shared, picked, rows):
            value = jnp.sin(picked["a"]) * shared[0] + jnp.sum(picked["b"] * shared, axis=-1) ** 2
            return jnp.sum(jnp.where(rows >= 0, value, 0.0), axis=-1)

        def whole(shared, table):
            return jnp.sum(summand(shared, jax.tree.map(lambda leaf: leaf[np.maximum(members, 0)], table), members))

        def chunked(shared, table):
            return chunked_sum(summand, shared, members, 4, (), table)

        plain = jax.value_and_grad(whole, (0, 1))(shared, table)
        for some in (jax.value_and_grad(chunked, (0, 1))(shared, table), (chunked(shared, table), plain[1])):
            for actual, expected in zip(jax.tree.leaves(some), jax.tree.leaves(plain), strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def test_natural_gradients_reach_the_optimum_sooner(data, best):
    start = model(VariationalGP, np.linspace(-2.0, 2.0, 12)[:, None])
    settings = {"steps": 150, "key": 1}
    adams = [Adam(learning_rate=0.05, natural_rate=rate) for rate in (None, 0.5)]
    fits = [maximise(start, data, optimiser=adam, **settings) for adam in adams]
    value = log_joint(best.model, data)
    plain, natural = (float(value - log_joint(fit.model, data)) for fit in fits)
    assert 0 < natural < 1.0 < 10.0 < plain
    with pytest.raises(TypeError, match="natural gradients are for a VariationalGP, got ExactGP"):
        maximise(model(), data, optimiser=adams[1], **settings)


def test_a_run_ends_when_it_stops_improving(data, best):
    adam = Adam(learning_rate=0.1, patience=3)
    fit = maximise(model(), data, steps=5000, key=0, optimiser=adam, run=Run(chunk=20))
    assert 60 < len(fit.history) < 2500
    assert len(fit.history) % 20 == 0
    np.testing.assert_allclose(log_joint(fit.model, data), log_joint(best.model, data), atol=0.01)


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
    watch = Watch(data, 1, pick)
    maximise(start, data, steps=steps + 1, run=Run(chunk=1), refresh=watch, **settings)
    return watch.seen


@pytest.mark.parametrize("average", [1, 10, 1000])
def test_the_average_of_the_steps_is_the_moving_average(average):
    start, data = NoisyQuadratic(Real(np.zeros(50))), Data(np.zeros((1, 1)), np.zeros(1))
    settings = {"key": 0, "optimiser": Adam(learning_rate=0.2, average=average)}
    fit = maximise(start, data, steps=40, **settings)
    path = iterates(start, data, lambda m: m.theta.raw, steps=40, **settings)
    np.testing.assert_allclose(fit.model.theta.raw, by_hand(path, average), rtol=1e-12)
    # In what steps of this rate reach, ten of them, less correlated than not, have a smaller error than the last alone.
    if average == 10:
        errors = [np.mean((theta - 1.0) ** 2) for theta in (fit.model.theta.raw, path[-1])]
        assert errors[0] < 0.5 * errors[1]
    with pytest.raises(ValueError, match="average must be an integer of at least 1, got 0"):
        Adam(average=0)


@pytest.mark.slow
def test_the_average_includes_natural_steps_and_survives_an_interrupt(data, tmp_path):
    start = model(VariationalGP, np.linspace(-2.0, 2.0, 5)[:, None])
    settings = {"key": 0, "optimiser": Adam(average=4, natural_rate=0.3, batch=20)}

    def stop(done, steps, value):
        if done == 6:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "run.checkpoint"
    whole = maximise(start, data, steps=12, run=Run(chunk=3), **settings)
    paths = {
        name: iterates(start, data, lambda m, name=name: getattr(m, name).raw, steps=12, **settings)
        for name in ("mean", "root")
    }
    part = maximise(start, data, steps=12, run=Run(stop, checkpoint, chunk=3), **settings)
    resumed = maximise(start, data, steps=12, run=Run(None, checkpoint, chunk=3), **settings)
    for name, path in paths.items():
        np.testing.assert_allclose(getattr(whole.model, name).raw, by_hand(path, 4), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(getattr(part.model, name).raw, by_hand(path[:6], 4), rtol=1e-10, atol=1e-12)
    assert part.interrupted
    assert eqx.tree_equal(resumed.model, whole.model)


# --- threads ---


def near(data, m=4):
    return sg.models.Refresh(data, m)


@pytest.mark.parametrize("kind", ["neighbours", "variational"])
@pytest.mark.parametrize("batch", [None, 31])
def test_steps_by_threads_are_those_of_one(data, kind, batch, monkeypatch):
    """Each takes a part of the rows, of 60 and of 31; sums of parts round differently."""
    monkeypatch.setattr("spectrogp.inference.dividing.LEAST", 1)
    start = model(NeighbourGP) if kind == "neighbours" else model(VariationalGP, np.linspace(-2.0, 2.0, 5)[:, None])
    given = near(data)(start) if kind == "neighbours" else data
    one, two = (
        maximise(start, given, steps=7, key=0, optimiser=Adam(batch=batch), run=Run(workers=workers, chunk=4))
        for workers in (1, 2)
    )
    np.testing.assert_allclose(two.history, one.history, rtol=1e-12)
    assert not np.array_equal(two.history, one.history)  # the rows were divided
    for ours, theirs in zip(jax.tree.leaves(two.model), jax.tree.leaves(one.model), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_lbfgs_by_threads_ends_where_one_does(data, monkeypatch):
    start = model(NeighbourGP)
    one = maximise_lbfgs(start, near(data)(start))
    monkeypatch.setattr("spectrogp.inference.dividing.LEAST", 1)
    monkeypatch.setattr("spectrogp.inference.dividing.program_threads", lambda: 2)
    two = maximise_lbfgs(start, near(data)(start))
    np.testing.assert_allclose(two.history[-1], one.history[-1], rtol=1e-9)


@pytest.mark.parametrize("size", [5, 8, 17])
def test_the_mean_of_divided_sums_is_the_sum(size):
    x = np.arange(1.0, size + 1.0)
    with zoo.double():

        @jax.jit
        def of_part(part):
            with rows_divided(part, 3):
                return chunked_sum(lambda shared, x: shared * x, jnp.asarray(2.0), jnp.asarray(x), 4)

        parts = [of_part(jnp.asarray(part)) for part in range(3)]
        assert len({float(part) for part in parts}) > 1
        np.testing.assert_allclose(np.mean(parts), 2.0 * np.sum(x), rtol=1e-14)
