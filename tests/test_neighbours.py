"""Orders and neighbour sets against brute force."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.models import NeighbourGP, Neighbourhoods
from spectrogp.models.neighbours import model as neighbour_models
from spectrogp.models.neighbours.search import (
    CorrelationFeatures,
    LengthscaleFeatures,
    earlier_neighbours,
    earlier_under,
    maxmin_order,
    nearest,
    nearest_under,
    random_order,
)
from spectrogp.parameters import partition


@pytest.mark.parametrize(
    "order", [random_order(400, 0), maxmin_order(np.random.default_rng(0).normal(size=(400, 2)), 0)]
)
@pytest.mark.parametrize("m", [1, 7, 399, 1000])
def test_neighbours_are_the_nearest_earlier_points(order, m):
    X = np.random.default_rng(0).normal(size=(400, 2))
    neighbours = earlier_neighbours(X, order, m)
    assert neighbours.shape == (400, min(m, 399))
    for position, i in enumerate(order):
        earlier = order[:position]
        distance = np.linalg.norm(X[earlier] - X[i], axis=1)
        expected = earlier[np.argsort(distance)[:m]]
        np.testing.assert_array_equal(neighbours[i][: len(expected)], expected)
        assert np.all(neighbours[i][len(expected) :] == -1)


def test_max_min_order_covers_first():
    X = np.random.default_rng(1).uniform(size=(2000, 2))
    order = maxmin_order(X, 0)
    assert sorted(order) == list(range(2000))

    def separation(order, count):
        first = X[order[:count]]
        return np.median(np.sort(np.linalg.norm(first[:, None] - first, axis=-1), axis=1)[:, 1])

    # An even cover of the square by n points leaves about n^-1/2 between them; random points only half of that.
    assert separation(order, 200) > 1.4 * separation(random_order(2000, 0), 200)


def test_duplicated_points_have_an_order():
    assert sorted(maxmin_order(np.zeros((5, 2)), 0)) == list(range(5))
    assert sorted(maxmin_order(np.repeat(np.eye(3), 4, axis=0), 0)) == list(range(12))


def test_nearest_is_brute_force():
    rng = np.random.default_rng(2)
    X, T = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    expected = np.argsort(np.linalg.norm(T[:, None] - X, axis=-1), axis=1)[:, :6]
    np.testing.assert_array_equal(nearest(X, T, 6), expected)
    assert nearest(X, T, 80).shape == (4, 50)


def test_correlation_features_follow_the_correlation():
    # Two components, one periodic: a whole period away counts as near, half a period as far.
    kernel = sg.kernels.SpectralMixture([[4.0], [6.0]], [[0.0], [2 * np.pi]], [0.3, 1.0])
    X = np.linspace(0.0, 3.0, 61)[:, None]
    features = CorrelationFeatures.of(kernel, X)(X)
    K = kernel(X)
    near = np.linalg.norm(features - features[0], axis=1)
    assert near[20] < 0.5 * near[10]  # one period against half a period
    np.testing.assert_array_equal(np.argsort(near[:31])[:8], np.argsort(-K[0, :31] / K[0, 0])[:8])
    # At short lags the squared distance is −2 log correlation.
    np.testing.assert_allclose(near[1] ** 2, -2 * np.log(K[0, 1] / K[0, 0]), rtol=0.05)


def test_lengthscale_features_are_inputs_in_lengthscales():
    X = np.random.default_rng(0).normal(size=(20, 2))
    np.testing.assert_allclose(LengthscaleFeatures.of(sg.kernels.SquaredExponential([0.5, 2.0]), X)(X), X / [0.5, 2.0])
    # Components of variance 1 and 3: the geometric mean counts the second three times.
    mixture = sg.kernels.SpectralMixture([[1.0], [16.0]], [[0.0], [1.0]], [1.0, 3.0**0.5])
    np.testing.assert_allclose(LengthscaleFeatures.of(mixture, X[:, :1]).lengthscale, [8.0])


@pytest.mark.parametrize("m", [0, -1])
def test_neighbours_without_number_or_with_nan_are_refused(m):
    with pytest.raises(ValueError, match=f"1 or more, got {m}"):
        nearest(np.zeros((3, 1)), np.zeros((1, 1)), m)
    with pytest.raises(ValueError, match="finite features"):
        earlier_neighbours(np.full((3, 1), np.nan), np.arange(3), 1)


def test_neighbours_under_a_kernel_are_the_most_correlated():
    """With candidates enough to hold everybody, against a full matrix; the frequency and the lengthscale vary."""
    kernel = sg.kernels.ConvolutionalSpectral(lambda X: 0.3 + 0.2 * X**2, lambda X: 6.0 + 3.0 * X, lambda X: 1.0 + X**2)
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 1))
    queries, order, m = np.linspace(-1.0, 1.0, 7)[:, None], random_order(50, 1), 20
    K = kernel(np.concatenate([X, queries]))
    size = np.abs(K) / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    found = nearest_under(kernel, X, queries, m, "correlation")
    earlier = earlier_under(kernel, X, order, m, "correlation")
    for t in range(7):
        np.testing.assert_array_equal(found[t], np.argsort(-size[50 + t, :50])[:m])
    for place in range(50):
        before = order[:place]
        expected = before[np.argsort(-size[order[place], before])][:m]
        np.testing.assert_array_equal(earlier[order[place]][: len(expected)], expected)
        assert np.all(earlier[order[place]][len(expected) :] == -1)


def test_neighbours_of_some_targets_are_rows_of_those_of_all():
    rng = np.random.default_rng(0)
    data = sg.Data(rng.normal(size=(300, 2)), rng.normal(size=300))
    kernel, order = sg.kernels.SquaredExponential(np.array([0.5, 1.0])), rng.permutation(300)
    targets = np.sort(rng.permutation(300)[:40])
    for metric in ("correlation", "lengthscale"):
        every = sg.models.Neighbourhoods.under(kernel, data, order, 7, metric)
        some = sg.models.Neighbourhoods.under(kernel, data, order, 7, metric, targets)
        np.testing.assert_array_equal(some.members, every.members[targets])
        assert some.scale == 300 / 40


def test_predictions_take_as_many_neighbours_as_the_data_say():
    rng = np.random.default_rng(0)
    data = sg.Data(rng.normal(size=(50, 2)), rng.normal(size=50))
    model = sg.models.NeighbourGP(sg.kernels.SquaredExponential(1.0), 0.3)
    near = sg.models.Refresh(data, m=5)(model)
    X = rng.normal(size=(4, 2))
    wide = dataclasses.replace(near, ahead=50)
    assert model.prepare(near, X).near.shape == (4, 6)
    exact = sg.models.ExactGP(model.kernel, model.likelihood).predict(data, X)
    np.testing.assert_allclose(model.predict(wide, X), exact, rtol=1e-6, atol=1e-9)


def test_predictions_in_pieces_are_those_at_once(monkeypatch):
    """Of 21 inputs in pieces of eight, by two threads: the last is filled up, and every row is its own."""
    rng = np.random.default_rng(0)
    data = sg.Data(rng.normal(size=(50, 2)), rng.normal(size=50))
    model = sg.models.NeighbourGP(sg.kernels.SquaredExponential(1.0), lambda X: 0.3 + 0.0 * X[:, 0])
    near = sg.models.Refresh(data, m=5)(model)
    X = rng.normal(size=(21, 2))
    at_once = model.predict(near, X)
    monkeypatch.setattr("spectrogp.models.neighbours.model.PIECE", 8)
    monkeypatch.setattr("spectrogp.core.threads.cores", lambda: 2)
    for _ in range(2):  # what compiles, and what is compiled
        np.testing.assert_allclose(model.predict(near, X), at_once, rtol=1e-9)


def test_functions_of_few_rows_are_evaluated_once_for_each(monkeypatch):
    """As a table of all rows or for each member of a neighbourhood: the same density and gradient."""
    rng = np.random.default_rng(0)
    X, y, error = rng.normal(size=(40, 2)), rng.normal(size=40), rng.uniform(0.1, 0.2, 40)
    Z = X[:5]
    kernel = sg.kernels.ConvolutionalSpectral(
        sg.FunctionGroup(Z, 1.0, shape=(2, 2)),
        sg.FunctionGroup(Z, rng.normal(size=(2, 2)), shape=(2, 2), warp="identity"),
        sg.FunctionGroup(Z, 1.0, shape=(2,)),
    )
    model = NeighbourGP(kernel, sg.FunctionGroup(Z, 0.3))
    near = Neighbourhoods.of(sg.Data(X, y, error), X, random_order(40, 0), 6)
    near = dataclasses.replace(near, members=np.asarray(near.members)[7:])  # 33 targets, which no chunk divides

    def step():
        free, rest = partition(model, "latent", "hyperparameter")
        free = jax.tree.map(lambda leaf: jnp.asarray(leaf) + 0.1 * rng.normal(size=np.shape(leaf)), free)
        rng.bit_generator.state = start

        @jax.jit
        def density(free):
            return eqx.combine(free, rest).log_joint(near)

        return jax.value_and_grad(density)(free), density(free)

    start = rng.bit_generator.state
    with jax.enable_x64(True):
        once = step()
        monkeypatch.setattr(neighbour_models, "_ROWS", 0)
        each = step()
    assert len(jax.tree.leaves(once)) > 8
    for actual, expected in zip(jax.tree.leaves(once), jax.tree.leaves(each), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-10)
