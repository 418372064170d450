"""Which part of a prediction belongs to which component of the kernel: against dense formulas, for every model."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.core import entry_point
from spectrogp.models import (
    CollapsedGP,
    Data,
    ExactGP,
    FullScaleGP,
    MarkovGP,
    NeighbourGP,
    Refresh,
    SparseGP,
    VariationalGP,
)

pytestmark = pytest.mark.usefixtures("compile_quickly")

N, NOISE = 30, 0.3
rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-2.0, 2.0, (N, 1)), axis=0)
DATA = Data(X, np.cos(9 * X[:, 0]) + 0.5 * X[:, 0] + NOISE * rng.normal(size=N))
TEST = np.linspace(-2.2, 2.2, 7)[:, None]
LENGTHSCALE, FREQUENCY, AMPLITUDE = np.array([[1.0], [0.8]]), np.array([[9.0], [0.5]]), np.array([0.9, 0.6])
KERNEL = sg.kernels.SpectralMixture(LENGTHSCALE, FREQUENCY, AMPLITUDE)


MATERN = sg.kernels.MaternPhase(sg.kernels.WarpedTime(LENGTHSCALE[:, 0]), lambda X: X * FREQUENCY[:, 0], AMPLITUDE)


def component(a, left, right, matern):
    lag = left - right.T
    r = np.sqrt(3.0) * np.abs(lag) / LENGTHSCALE[a]
    envelope = (1.0 + r) * np.exp(-r) if matern else np.exp(-0.5 * (lag / LENGTHSCALE[a]) ** 2)
    return AMPLITUDE[a] ** 2 * envelope * np.cos(FREQUENCY[a] * lag)


@entry_point
@eqx.filter_jit
def everything(model, data, X):
    """Moments of f and of both components, in one program."""
    return model.moments(data, X), [model.component_moments(data, X, a) for a in range(2)]


def noise(X):
    """A function of inputs, as noise may be one."""
    return jnp.full(X.shape[0], NOISE)


MODELS = {
    "exact": ExactGP(KERNEL, NOISE),
    "noise function": ExactGP(KERNEL, noise),
    "collapsed": CollapsedGP(KERNEL, NOISE, X),
    "neighbours": NeighbourGP(KERNEL, NOISE),
    "full scale": FullScaleGP(KERNEL, NOISE, X[::3]),
    "exact, Matérn": ExactGP(MATERN, NOISE),
    "Markov": MarkovGP(MATERN, NOISE),
}


@pytest.mark.parametrize("name", MODELS)
def test_components_are_those_of_dense_formulas(name):
    """All models are exact here: inducing points at the data, or all data as neighbours."""
    model = MODELS[name]
    matern = model.kernel is MATERN
    K = sum(component(a, X, X, matern) for a in range(2)) + NOISE**2 * np.eye(N)
    data = Refresh(DATA, N - 1)(model) if name in ("neighbours", "full scale") else DATA
    prepared = model.prepare(data, TEST, N) if data is not DATA else data
    model = model.realise()
    assert model.count_components(TEST) == 2
    whole, parts = everything(model, prepared, TEST)
    for a, moments in enumerate(parts):
        k = component(a, TEST, X, matern)
        # Jitter of 1e-6 or less of the variance in the inducing points' matrix.
        np.testing.assert_allclose(moments.mean, k @ np.linalg.solve(K, DATA.y), atol=2e-5)
        variance = AMPLITUDE[a] ** 2 - np.sum(k * np.linalg.solve(K, k.T).T, axis=1)
        np.testing.assert_allclose(moments.variance, variance, atol=2e-5)
    np.testing.assert_allclose(parts[0].mean + parts[1].mean, whole.mean, atol=1e-9)


@pytest.mark.parametrize("kind", [SparseGP, VariationalGP])
def test_components_of_explicit_inducing_values_add_up(kind):
    model = kind(KERNEL, NOISE, X[::3]).realise()
    moved = eqx.tree_at(lambda m: m.whitened if kind is SparseGP else m.mean, model, np.linspace(-1.0, 1.0, 10))
    whole, parts = everything(moved, DATA, TEST)
    assert np.max(np.abs(whole.mean)) > 0.1
    np.testing.assert_allclose(parts[0].mean + parts[1].mean, whole.mean, atol=1e-9)


def test_kernels_without_components_are_refused():
    kernel = sg.kernels.HarmonizableMixture(X[:2], np.ones((2, 1, 1)), 1.0, 1.0, np.ones((2, 1, 1)))
    with pytest.raises(TypeError, match="no sum of components"):
        ExactGP(kernel, NOISE).count_components(X)
