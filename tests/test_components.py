"""Which part of a prediction belongs to which component: against dense formulas, for every model."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
import zoo
from spectrogp.data import Data
from spectrogp.models import CollapsedGP, ExactGP, FullScaleGP, NeighbourGP, Refresh, SparseGP, VariationalGP
from spectrogp.parts import count_parts, part_moments

N, NOISE = 30, 0.3
rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-2.0, 2.0, (N, 1)), axis=0)
DATA = Data.checked(X, np.cos(9 * X[:, 0]) + 0.5 * X[:, 0] + NOISE * rng.normal(size=N))
TEST = np.linspace(-2.2, 2.2, 7)[:, None]
LENGTHSCALE, FREQUENCY, AMPLITUDE = np.array([[1.0], [0.8]]), np.array([[9.0], [0.5]]), np.array([0.9, 0.6])
KERNEL = sg.kernels.SpectralMixture(LENGTHSCALE, FREQUENCY, AMPLITUDE)


def part(a, left, right):
    lag = left - right.T
    return AMPLITUDE[a] ** 2 * np.exp(-0.5 * (lag / LENGTHSCALE[a]) ** 2) * np.cos(FREQUENCY[a] * lag)


def noise(X):
    """A function of inputs, as noise may be one."""
    return jnp.full(X.shape[0], NOISE)


MODELS = {
    "exact": ExactGP(KERNEL, NOISE),
    "noise function": ExactGP(KERNEL, noise),
    "collapsed": CollapsedGP(KERNEL, NOISE, X),
    "neighbours": NeighbourGP(KERNEL, NOISE),
    "full scale": FullScaleGP(KERNEL, NOISE, X[::3]),
}


@pytest.mark.parametrize("name", MODELS)
def test_parts_are_those_of_dense_formulas(name):
    """All models are exact here: inducing points at the data, or all data as neighbours."""
    K = sum(part(a, X, X) for a in range(2)) + NOISE**2 * np.eye(N)
    with zoo.double():
        model = MODELS[name]
        data = Refresh(DATA, N - 1)(model) if name in ("neighbours", "full scale") else DATA
        ready = model.ready(data, TEST, N) if data is not DATA else data
        model = model.enter()
        assert count_parts(model.kernel, jnp.asarray(TEST)) == 2
        whole = model.moments(ready, jnp.asarray(TEST))
        parts = [part_moments(model, ready, jnp.asarray(TEST), a) for a in range(2)]
    for a, moments in enumerate(parts):
        k = part(a, TEST, X)
        # Jitter of 1e-6 or less of the variance in the inducing points' matrix.
        np.testing.assert_allclose(moments.mean, k @ np.linalg.solve(K, DATA.y), atol=2e-5)
        variance = AMPLITUDE[a] ** 2 - np.sum(k * np.linalg.solve(K, k.T).T, axis=1)
        np.testing.assert_allclose(moments.variance, variance, atol=2e-5)
    np.testing.assert_allclose(parts[0].mean + parts[1].mean, whole.mean, atol=1e-9)


@pytest.mark.parametrize("kind", [SparseGP, VariationalGP])
def test_parts_of_explicit_inducing_values_add_up(kind):
    model = kind(KERNEL, NOISE, X[::3])
    with zoo.double():
        model = model.enter()
        values = jnp.linspace(-1.0, 1.0, 10)
        moved = eqx.tree_at(lambda m: m.whitened if kind is SparseGP else m.mean, model, values)
        whole = moved.moments(DATA, jnp.asarray(TEST)).mean
        parts = [part_moments(moved, DATA, jnp.asarray(TEST), a).mean for a in range(2)]
    assert np.max(np.abs(whole)) > 0.1
    np.testing.assert_allclose(parts[0] + parts[1], whole, atol=1e-9)


def test_kernels_without_components_are_refused():
    with zoo.double(), pytest.raises(TypeError, match="no sum of components"):
        count_parts(sg.kernels.HarmonizableMixture(X[:2], np.ones((2, 1, 1)), 1.0, 1.0, np.ones((2, 1, 1))), X)
