"""Components in a common order: the assignment is the cheapest of all, and readings follow it."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import jax
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.models import Data, ExactGP
from spectrogp.parameters import Positive
from spectrogp.posterior import Posterior, labels

T = np.linspace(0.0, 1.0, 7)


def curves(rng, draws=40):
    """Frequencies ``[s, n, 3, 1]`` of components that come close to each other but do not cross, and variances."""
    base = np.stack([1.0 + 0.5 * T, 2.0 + 0.2 * np.sin(6 * T), 3.5 - 1.0 * T], axis=-1)
    frequency = base * np.exp(0.05 * rng.normal(size=(draws, 1, 3)))
    weight = np.broadcast_to([1.0, 0.5, 0.2], (draws, len(T), 3)) * np.exp(0.1 * rng.normal(size=(draws, 1, 3)))
    return frequency[..., None], weight


def shuffled(rng, frequency, weight):
    orders = np.array([rng.permutation(frequency.shape[2]) for _ in frequency])
    return orders, *(np.stack([v[:, o] for v, o in zip(part, orders, strict=True)]) for part in (frequency, weight))


def test_exchanged_components_are_put_back():
    rng = np.random.default_rng(0)
    frequency, weight = curves(rng)
    _, mixed, weights = shuffled(rng, frequency, weight)
    order = labels.matched(mixed, weights, 3)
    back = np.take_along_axis(mixed, order[:, None, :, None], axis=2)
    # In the order of the draw that is the first reference, whichever that is.
    names = [int(np.argmin(np.abs(frequency[3, 0, :, 0] - mixed[3, 0, k, 0]))) for k in range(3)]
    np.testing.assert_array_equal(back, frequency[:, :, names])
    np.testing.assert_array_equal(order[3], [0, 1, 2])


@pytest.mark.parametrize("dimensions", [1, 2])
def test_the_assignment_is_the_cheapest_of_all(dimensions):
    """Against every permutation, with the cost as a plain loop."""
    rng = np.random.default_rng(1)
    frequency, reference = rng.normal(size=(2, 5, 4, dimensions))
    weight = rng.uniform(size=(5, 4))

    def total(order):
        cost = 0.0
        for name, component in enumerate(order):
            for x in range(5):
                f, g = frequency[x, component], reference[x, name]
                cost += weight[x, component] * min(np.sum((f - g) ** 2), np.sum((f + g) ** 2))
        return cost

    best = min(permutations(range(4)), key=total)
    np.testing.assert_array_equal(labels._assigned(frequency, weight, reference), best)


def test_a_component_without_variance_gives_way():
    """The second, almost nothing in the last draw, has wandered below the first: squares alone would exchange them."""
    frequency = np.tile(np.array([2.0, 4.0])[:, None], (3, 5, 1, 1))
    frequency[2, :, 1] = 1.0
    weight = np.tile(np.array([1.0, 0.5]), (3, 5, 1))
    weight[2, :, 1] = 1e-3
    assert labels.matched(frequency, weight, 0).tolist() == [[0, 1]] * 3
    assert labels.matched(frequency, np.ones_like(weight), 0)[2].tolist() == [1, 0]


@pytest.fixture(scope="module")
def exchanged():
    """Two draws of a spectral mixture, the second with its components the other way round, and the same in order."""
    data = Data(np.linspace(0.0, 4.0, 20), np.sin(np.linspace(0.0, 4.0, 20)))

    def model(order):
        parts = (np.array([[1.0], [2.0]]), 2 * np.pi * np.array([[0.5], [1.5]]), np.array([1.0, 0.3]))
        return ExactGP(sg.kernels.SpectralMixture(*(Positive(part[order]) for part in parts)), 0.1)

    def posterior(*orders):
        points = [Posterior.at_point(model(order)) for order in orders]
        draws = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *(p.draws for p in points))
        return Posterior(draws, points[0].rest, np.array([[1.0, 0.0]]), {})

    return data, posterior([0, 1], [1, 0]), posterior([0, 1], [0, 1])


def test_readings_follow_the_order(exchanged):
    data, mixed, plain = exchanged
    x = np.linspace(0.0, 4.0, 6)
    found = mixed.relabelled(x)
    assert found.order.tolist() == [[[0, 1], [1, 0]]]
    np.testing.assert_allclose(found.local_frequency(x).mean, plain.local_frequency(x).mean, rtol=1e-12)
    np.testing.assert_allclose(found.components(data, x).mean, plain.components(data, x).mean, rtol=1e-9)
    for one, other in zip(found.local_functions(x), plain.local_functions(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    # As they are, both components have the same mean: that of the two frequencies.
    np.testing.assert_allclose(mixed.local_frequency(x).mean, 1.0)
    thinned = found.thinned(1)
    assert thinned.order.shape == (1, 1, 2)
    assert plain.relabelled(x).order is None
    # Predictions do not depend on names.
    np.testing.assert_array_equal(found.predict(data, x).mean, mixed.predict(data, x).mean)
    assert replace(found, order=None).order is None
