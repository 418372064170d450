"""What rows tell of the numbers of a Markov model: against dense algebra, and against the Hessian."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import eigh

import spectrogp as sg
from spectrogp.inference import newton
from spectrogp.inference.bends import curvature
from spectrogp.initialise import find_initial_values, markov_from
from spectrogp.kernels import IntegratedPhase, MaternPhase, Sum, WarpedTime
from spectrogp.models import Data, Lanes, MarkovGP, Timeline
from spectrogp.models.lanes import _filled
from spectrogp.parameters import GridFunctionGroup, Positive
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")


def data_of(n, span):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, span, n))
    return Data(t, np.cos(5.0 * t + 2.0 * np.sin(0.4 * t)) + 0.2 * rng.normal(size=n), 0.1 * rng.uniform(size=n))


def model_of(span):
    """Two components with functions, a background, error bars and an offset."""
    group = lambda initial, **options: GridFunctionGroup(  # noqa: E731
        (0.0, span), initial, lengthscale_std=0.0, mean_std=0.5, lengthscale=3.0, **options
    )
    oscillation = MaternPhase(
        WarpedTime(group([[8.0], [5.0]], shape=(2, 1))),
        IntegratedPhase(group([[5.0], [2.0]], shape=(2, 1), amplitude=0.2)),
        group([1.0, 0.5], shape=(2,)),
    )
    background = MaternPhase(WarpedTime(Positive.around(4.0, 0.5)), None, Positive.around(0.4, 0.5))
    return MarkovGP(Sum(oscillation, background), Positive.around(0.2, 0.5), sg.Real(0.1, sg.Normal()))


def by_dense_algebra(lanes, numbers, data):
    """The formulas of models/information.py with the matrices of all rows."""
    y = np.asarray(data.y)
    compiled = jax.jit(
        lambda numbers: _filled(lanes.model, numbers).realise().system(*map(jnp.asarray, (data.X, data.error, y == y)))
    )

    def system(numbers):
        with double():
            return [np.asarray(part) for part in compiled(jnp.asarray(numbers))]

    decay, h, r, mean = system(numbers)
    place = np.cumsum(decay, axis=0)
    lag = np.abs(place[:, None] - place)
    C = (1.0 + lag) * np.exp(-lag)  # [n, n, q], of order 3/2
    K = np.einsum("iq,jq,ijq->ij", h, h, C) + np.diag(r)
    alpha = np.linalg.solve(K, y - mean)
    z = np.einsum("ijq,jq,j->iq", C, h, alpha)
    step = 1e-6
    columns, noise = [], []
    for e in step * np.eye(len(numbers)):
        (_, h1, r1, m1), (_, h0, r0, m0) = system(numbers + e), system(numbers - e)
        columns.append((np.sum((h1 - h0) * z, axis=1) + m1 - m0) / (2 * step))
        noise.append((r1 - r0) / (2 * step))
    L = np.linalg.cholesky(K)
    # u of both components, v of both, background
    phases = np.stack([h[:, a] * z[:, 2 + a] - h[:, 2 + a] * z[:, a] for a in range(2)], axis=1)
    W, turned = np.linalg.solve(L, np.stack(columns, axis=1)), np.linalg.solve(L, phases)
    W = W - turned @ np.linalg.lstsq(turned, W, rcond=None)[0]
    noise = np.stack(noise, axis=1) / np.diag(L)[:, None] ** 2
    return W.T @ W + 0.5 * noise.T @ noise


def test_information_is_that_of_dense_matrices():
    data, model = data_of(60, 12.0), model_of(12.0)
    lanes = Lanes(model, Timeline.of(data))
    numbers = lanes.join(model)
    numbers = numbers + 0.1 * np.random.default_rng(1).normal(size=numbers.shape)
    found, expected = lanes.information(numbers), by_dense_algebra(lanes, numbers, data)
    assert found.shape == (1, len(numbers), len(numbers))
    member, felt = lanes.members[0], np.outer(lanes.felt[0], lanes.felt[0])
    expected = np.where(felt, expected[np.ix_(member, member)], 0.0)
    np.testing.assert_allclose(found[0], expected, atol=1e-6 * np.max(np.abs(expected)))


def test_information_is_nearly_the_hessian_at_an_optimum():
    """In units of the posterior: directions of frequency, amplitude and noise to a fifth or so, and no phase counts."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 15.0, 300))
    data = Data(t, np.cos(2.0 * np.pi * (2.0 * t + np.sin(t))) + 0.2 * rng.normal(size=300))
    initial = find_initial_values(t, data.y)
    model = markov_from(initial, 0.5 * float(initial.scale[0]))
    lanes = Lanes(model, Timeline.of(data))
    found = newton(lanes, lanes.join(model))
    assert found.decrement < 0.02
    G = lanes.information(found.numbers)
    H = curvature(lanes, found.numbers, lanes.log_likelihoods(found.numbers)[1], None, G)
    prior = np.eye(len(found.numbers))
    prior[lanes.knots :, lanes.knots :] = lanes.log_prior(found.numbers)[2]
    ratios = eigh(prior + H[0], prior + G[0], eigvals_only=True)
    assert np.max(np.diagonal(G[0])) > 1e6
    assert ratios[0] > 0.8
    assert np.sum(ratios > 1.25) <= 3  # how long envelopes last, of which it says nothing
    assert ratios[-1] < 3.0


def test_information_of_channels_is_that_of_each():
    data, model = data_of(60, 12.0), model_of(12.0)
    both = sg.models.ChannelGP(
        model.kernel, [tuple(term.amplitude for term in model.terms)] * 2, [model.likelihood] * 2, [model.offset] * 2
    )
    two = Lanes(both, Timeline.side_by_side([Timeline.of(data), Timeline.of(data)]))
    alone = Lanes(model, Timeline.of(data))
    expected = alone.information(alone.join(model))[0]
    for found in two.information(two.join(both)):
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.max(np.abs(expected)))
