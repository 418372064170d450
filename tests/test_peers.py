"""Values of the exact model against tinygp (scikit-learn's are in test_models.py)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import tinygp

import spectrogp as sg
from spectrogp.models import Data, ExactGP
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [1, 3])
def test_squared_exponential_equals_tinygp(dimensions):
    rng = np.random.default_rng(0)
    X, T = rng.uniform(-2.0, 2.0, (40, dimensions)), rng.uniform(-3.0, 3.0, (15, dimensions))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=40)
    ell, sigma, noise = np.linspace(0.6, 1.0, dimensions), 1.3, 0.2
    with double():
        kernel = sigma**2 * tinygp.transforms.Linear(jnp.asarray(1.0 / ell), tinygp.kernels.ExpSquared())
        peer = tinygp.GaussianProcess(kernel, jnp.asarray(X), diag=noise**2)
        value, posterior = peer.condition(jnp.asarray(y), jnp.asarray(T), diag=0.0)

        data = Data(X, y)
        model = ExactGP(sg.kernels.SquaredExponential(ell, sigma), noise)
        moments = model.realise().predict(data, jnp.asarray(T))
        np.testing.assert_allclose(model.log_joint(data), value, rtol=1e-10)
        np.testing.assert_allclose(moments.mean, posterior.loc, atol=1e-8)
        np.testing.assert_allclose(moments.variance, posterior.variance, atol=1e-8)
