"""The filter of oscillators against dense Gaussian densities and conditioning."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from spectrogp.models.filtering import MISSING, filter_from, initial_state, log_likelihood, warm_up
from spectrogp.models.oscillators import STATIONARY, _noise_factor, simulate, stationary
from spectrogp.models.smoothing import smooth

ORDERS = {
    "half": (0.5,) * 2,
    "three halves": (1.5,) * 2,
    "five halves": (2.5,) * 2,
    "two components": (1.5,) * 4,
    "three components": (0.5,) * 6,
    "trend": (0.5, 0.5, 2.5, 2.5, 1.5),
    "single": (1.5,),
}
pytestmark = pytest.mark.usefixtures("compile_quickly")
all_orders = pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def signal(orders, L=30, B=2, seed=0, noise=0.1):
    """Irregular rows with a repeated time, a gap, and one row that is not observed; all weights are one."""
    rng = np.random.default_rng(seed)
    x = rng.exponential(0.3, (L, len(orders), B))
    x[7], x[17] = 0.0, 50.0
    h = rng.normal(size=(L, len(orders), B))
    y = rng.normal(size=(L, B))
    r = noise * rng.uniform(0.5, 2.0, (L, B))
    y[11], r[11] = np.nan, MISSING
    return x, h, y, r, np.ones((L, B))


def dense(x, h, y, r, orders):
    """Log densities, means and covariances of all blocks by linear algebra."""
    r = np.where(r < MISSING, r, np.inf)
    blocks = [reference.oscillator_posterior(x[..., b], h[..., b], y[:, b], r[:, b], orders) for b in range(y.shape[1])]
    return [np.stack(part, axis=-1) for part in zip(*blocks, strict=True)]


def differentiable_density(x, h, y, r, orders):
    """Log density ``[B]`` of observed rows by the kernel, for automatic differentiation."""

    def one(x, h, y, r):
        t = jnp.cumsum(x, axis=0)
        later = jnp.arange(len(t))[:, None] >= jnp.arange(len(t))
        C = jnp.diag(r)
        for q, order in enumerate(orders):
            step = t[:, None, q] - t[None, :, q]
            # At equal times the derivative is that from the right, as decays are never negative.
            step = jnp.where(later, step, -step)
            polynomial = {0.5: 1.0, 1.5: 1.0 + step, 2.5: 1.0 + step + step**2 / 3.0}[order]
            C += h[:, None, q] * h[None, :, q] * jnp.exp(-step) * polynomial
        return jax.scipy.stats.multivariate_normal.logpdf(y, jnp.zeros_like(y), C)

    return jax.vmap(one, -1, -1)(x, h, y, r)


@pytest.mark.parametrize("order", STATIONARY)
def test_first_coordinate_has_the_matern_kernel(order):
    P = STATIONARY[order]
    for x in (0.0, 0.3, 4.0):
        A = np.exp(-x) * np.array([[1.0, x, x * x / 2.0], [0.0, 1.0, x], [0.0, 0.0, 1.0]])[: len(P), : len(P)]
        assert (A @ P)[0, 0] == pytest.approx(reference.matern(order, x), rel=1e-14)
        # Stationary: what A takes away the noise gives, and it can be noise.
        assert np.linalg.eigvalsh(P - A @ P @ A.T).min() > -1e-15


@all_orders
def test_log_likelihood_is_the_dense_density(orders):
    x, h, y, r, w = signal(orders)
    value = log_likelihood(x, h, y, r, w, stationary(orders), len(y))
    np.testing.assert_allclose(value, dense(x, h, y, r, orders)[0], rtol=1e-11)


@all_orders
def test_smoother_is_dense_conditioning(orders):
    x, h, y, r, _ = signal(orders)
    _, expected_mean, expected_covariance = dense(x, h, y, r, orders)
    mean, covariance = smooth(x, h, y, r, stationary(orders), len(y))
    np.testing.assert_allclose(mean, expected_mean, atol=1e-11)
    np.testing.assert_allclose(covariance, expected_covariance, atol=1e-11)
    alone, none = smooth(x, h, y, r, stationary(orders), len(y), covariance=False)
    np.testing.assert_allclose(alone, mean, atol=1e-13)
    assert none is None


@all_orders
def test_gradient_is_that_of_the_dense_density(orders):
    x, h, y, r, w = signal(orders, L=24)
    seen = np.flatnonzero(r[:, 0] < MISSING)
    weights = jnp.array([1.0, -2.5])  # of the blocks

    def filtered(*arguments):
        return weights @ log_likelihood(*arguments, w, stationary(orders), len(y))

    def by_kernel(x, h, y, r):
        # A row that is left out passes its decay on to the next.
        x = jnp.diff(jnp.cumsum(x, axis=0)[seen], axis=0, prepend=0.0)
        return weights @ differentiable_density(x, h[seen], y[seen], r[seen], orders)

    value, gradient = jax.value_and_grad(filtered, (0, 1, 2, 3))(x, h, y, r)
    expected_value, expected = jax.value_and_grad(by_kernel, (0, 1, 2, 3))(x, h, y, r)
    assert float(value) == pytest.approx(float(expected_value), rel=1e-12)
    for name, a, b in zip("xhyr", gradient, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10 * np.abs(b).max(), err_msg=name)


def test_gradient_is_that_of_differences(compile_fully):
    orders = ORDERS["trend"]
    *arguments, w = signal(orders, L=25)
    r, P = arguments[3], stationary(orders)
    rng = np.random.default_rng(1)
    direction = [rng.normal(size=np.shape(a)) for a in arguments]
    direction[0] *= arguments[0]  # decays stay positive
    direction[3] *= np.where(r < MISSING, r, 0.0)

    def along(step):
        moved = (a + step * d for a, d in zip(arguments, direction, strict=True))
        return float(np.sum(log_likelihood(*moved, w, P, 25)))

    gradient = jax.grad(lambda *a: jnp.sum(log_likelihood(*a, w, P, 25)), (0, 1, 2, 3))(*arguments)
    slope = sum(np.vdot(g, d) for g, d in zip(gradient, direction, strict=True))
    # Richardson's rule from steps of 1e-3 and 2e-3: error of fourth order, 1e-12 times a fifth derivative.
    differences = [(along(step) - along(-step)) / (2.0 * step) for step in (1e-3, 2e-3)]
    assert (4.0 * differences[0] - differences[1]) / 3.0 == pytest.approx(float(slope), rel=1e-8)


def test_rows_after_the_last_are_not_read():
    orders = ORDERS["three halves"]
    x, h, y, r, w = signal(orders)
    P = stationary(orders)
    padded = [np.concatenate([a, np.full((5, *a.shape[1:]), np.nan)]) for a in (x, h, y, r, w)]
    objective = jax.value_and_grad(lambda n, *a: jnp.sum(log_likelihood(*a, P, n)), (1, 2, 3, 4))
    value, gradient = objective(len(y), x, h, y, r, w)
    padded_value, padded_gradient = objective(len(y), *padded)
    assert float(padded_value) == pytest.approx(float(value), rel=1e-14)
    for a, b in zip(padded_gradient, gradient, strict=True):
        np.testing.assert_allclose(a[: len(y)], b, atol=1e-13)
        np.testing.assert_array_equal(a[len(y) :], 0.0)
    mean, covariance = smooth(*padded[:4], P, len(y))
    expected = smooth(x, h, y, r, P, len(y))
    np.testing.assert_allclose(mean[: len(y)], expected[0], atol=1e-13)
    np.testing.assert_allclose(covariance[: len(y)], expected[1], atol=1e-13)


def test_rows_of_infinite_noise_are_not_observed():
    orders = ORDERS["three halves"]
    x, h, y, r, w = signal(orders)
    P = stationary(orders)
    infinite = np.where(r < MISSING, r, np.inf)
    value, gradient = jax.value_and_grad(lambda r: jnp.sum(log_likelihood(x, h, y, r, w, P, len(y))))(infinite)
    assert float(value) == pytest.approx(float(jnp.sum(log_likelihood(x, h, y, r, w, P, len(y)))), rel=1e-13)
    assert np.all(np.isfinite(gradient))
    np.testing.assert_array_equal(smooth(x, h, y, infinite, P, len(y))[1], smooth(x, h, y, r, P, len(y))[1])


def test_weights_leave_a_density_given_the_warm_up():
    orders = ORDERS["trend"]
    x, h, y, r, w = signal(orders)
    late = w * (np.arange(len(y)) >= 9)[:, None]
    P = stationary(orders)
    value = log_likelihood(x, h, y, r, late, P, len(y))
    expected = dense(x, h, y, r, orders)[0] - dense(*(a[:9] for a in (x, h, y, r)), orders)[0]
    np.testing.assert_allclose(value, expected, rtol=1e-11)
    gradient = jax.grad(lambda y: jnp.sum(log_likelihood(x, h, y, r, late, P, len(y))))(y)
    step = 1e-4  # the log density is quadratic in y: central differences have no error but rounding, 1e-11
    for row in (3, 20):
        up, down = (y + s * step * (np.arange(len(y)) == row)[:, None] for s in (1, -1))
        difference = (log_likelihood(x, h, up, r, late, P, len(y)) - log_likelihood(x, h, down, r, late, P, len(y))) / (
            2 * step
        )
        np.testing.assert_allclose(gradient[row], difference, rtol=1e-7)


def test_batches_of_signals():
    orders = ORDERS["three halves"]
    *arguments, w = (np.stack(parts) for parts in zip(*(signal(orders, seed=s) for s in range(3)), strict=True))
    P = stationary(orders)
    objective = jax.value_and_grad(lambda *a: jnp.sum(log_likelihood(*a, P, 30)), (0, 1, 2, 3))
    values, gradients = jax.vmap(objective)(*arguments, w)
    for s in range(3):
        value, gradient = objective(*(a[s] for a in arguments), w[s])
        assert float(values[s]) == pytest.approx(float(value), rel=1e-13)
        for a, b in zip(gradients, gradient, strict=True):
            np.testing.assert_allclose(a[s], b, atol=1e-12 * np.abs(b).max())


@pytest.mark.parametrize("order", STATIONARY)
def test_small_noise(order):
    """Noise of 1e-6 of the signal's variance: the subtraction in D = P − P∞ costs no more than that."""
    x, h, y, r, w = signal((order,) * 2, noise=1e-6)
    value = log_likelihood(x, h, y, r, w, stationary((order,) * 2), len(y))
    np.testing.assert_allclose(value, dense(x, h, y, r, (order,) * 2)[0], rtol=1e-8)


def test_filter_goes_on_from_a_state():
    orders = ORDERS["trend"]
    x, h, y, r, w = signal(orders)
    P = stationary(orders)
    start = initial_state(jnp.asarray(x), P)
    _, density, mean, variance = filter_from(start, x, h, y, r, P, len(y))
    np.testing.assert_allclose(density, log_likelihood(x, h, y, r, w, P, len(y)), rtol=1e-13)

    halves = []
    state = start
    for part in (slice(0, 13), slice(13, 30)):
        state, *results = filter_from(state, x[part], h[part], y[part], r[part], P, len(y[part]))
        halves.append(results)
    np.testing.assert_allclose(halves[0][0] + halves[1][0], density, rtol=1e-13)
    np.testing.assert_allclose(np.concatenate([half[1] for half in halves]), mean, atol=1e-13)
    np.testing.assert_allclose(np.concatenate([half[2] for half in halves]), variance, atol=1e-13)

    # Row 22 from the rows before it: it and those after it are not observed.
    hidden = np.where(np.arange(len(y))[:, None] < 22, r, MISSING)
    _, means, covariances = dense(x, h, y, hidden, orders)
    np.testing.assert_allclose(mean[22], np.einsum("qb,qb->b", h[22], means[22]), atol=1e-11)
    np.testing.assert_allclose(variance[22], np.einsum("qb,qpb,pb->b", h[22], covariances[22], h[22]), atol=1e-11)


def test_smoother_goes_on_from_a_state():
    orders = ORDERS["three halves"]
    x, h, y, r, _ = signal(orders)
    P = stationary(orders)
    state, *_ = filter_from(initial_state(jnp.asarray(x), P), x[:9], h[:9], y[:9], r[:9], P, 9)
    mean, covariance = smooth(x[9:], h[9:], y[9:], r[9:], P, 21, state)
    expected_mean, expected_covariance = smooth(x, h, y, r, P, 30)
    np.testing.assert_allclose(mean, expected_mean[9:], atol=1e-12)
    np.testing.assert_allclose(covariance, expected_covariance[9:], atol=1e-12)


def test_paths_have_the_kernel():
    orders, B = (0.5, 1.5, 2.5), 40_000
    x = np.random.default_rng(0).exponential(0.3, (8, 3, 1))
    x[0], x[3], x[5] = 0.0, 0.0, 1e-4
    paths = np.asarray(simulate(jax.random.key(0), jnp.asarray(np.tile(x, (1, 1, B))), stationary(orders), 8))
    np.testing.assert_array_equal(paths[3], paths[2])
    covariance = np.einsum("iqb,jqb->qij", paths, paths) / B
    # Products of unit normals have at most the variance 2: four standard errors of 192 numbers.
    np.testing.assert_allclose(
        covariance, reference.oscillator_correlations(x[..., 0], orders), atol=4.0 * np.sqrt(2.0 / B)
    )
    assert np.abs(np.einsum("iqb,ipb->iqp", paths, paths)[:, ~np.eye(3, dtype=bool)] / B).max() < 4.0 / np.sqrt(B)


@pytest.mark.parametrize("order", STATIONARY)
def test_process_noise_of_short_steps_is_not_lost(order):
    """Over x ≪ 1 the noise of z₁ has the variance 2 P∞_dd x^{2d−1} / ((d−1)!² (2d−1)), up to terms of order x."""
    P = stationary((order,))
    d = P.shape[-1]
    factor = _noise_factor(jnp.full((1, 1, 1), 1e-6), jnp.asarray(P), (d,))
    expected = 2.0 * P[0, -1, -1] * 1e-6 ** (2 * d - 1) / (math.factorial(d - 1) ** 2 * (2 * d - 1))
    assert float(factor[0][0].squeeze()) ** 2 == pytest.approx(expected, rel=1e-5)
    # At any step the factor is one of P∞ − A P∞ Aᵀ.
    x = 0.7
    A = np.exp(-x) * np.array([[1.0, x, x * x / 2.0], [0.0, 1.0, x], [0.0, 0.0, 1.0]])[:d, :d]
    rows = _noise_factor(jnp.full((1, 1, 1), x), jnp.asarray(P), (d,))
    L = np.array([[float(a.squeeze()) for a in row] + [0.0] * (d - 1 - k) for k, row in enumerate(rows)])
    np.testing.assert_allclose(L @ L.T, P[0] - A @ P[0] @ A.T, atol=1e-14)


@pytest.mark.parametrize(
    ("orders", "turn", "noise", "irregular"),
    [
        ((1.5,), (0.6,), 1.0, False),
        ((0.5,), (0.05,), 0.1, False),  # the filter would forget in a few rows, but the phase turns slowly
        ((1.5, 1.5, 0.5), (0.2, 0.274, 0.0), 0.3, False),  # the two components are told apart slowly; and a trend
        ((2.5,), (0.6,), 0.3, True),
        ((0.5,), (0.6,), 0.1, True),
    ],
)
def test_blocks_with_warm_up_equal_one_block(orders, turn, noise, irregular):
    rng = np.random.default_rng(0)
    N, own = 3000, 100
    steps = rng.exponential(1.0, N) if irregular else np.ones(N)
    decays = np.sqrt(2.0 * np.array(orders)) / 50.0
    oscillators = [(p, part) for p in range(len(orders)) for part in ((np.cos, np.sin) if turn[p] else (np.cos,))]
    x = np.stack([decays[p] * steps for p, _ in oscillators], axis=1)
    h = np.stack([part(turn[p] * np.cumsum(steps)) for p, part in oscillators], axis=1)
    P = stationary([orders[p] for p, _ in oscillators])
    paths = simulate(jax.random.key(0), jnp.asarray(x[..., None]), P, N)[..., 0]
    y, r = np.sum(h * paths, axis=1) + noise * rng.normal(size=N), np.full(N, noise**2)

    start = initial_state(jnp.asarray(x[..., None]), P)
    _, _, mean, variance = filter_from(start, x[..., None], h[..., None], y[:, None], r[:, None], P, N)
    S = np.asarray(variance[:, 0]) + r
    density = -0.5 * (np.log(2.0 * np.pi * S) + (y - np.asarray(mean[:, 0])) ** 2 / S)

    starts = np.arange(1000, N - own, own)
    expected = np.array([density[s : s + own].sum() for s in starts])

    def error(W):
        rows = starts - W + np.arange(W + own)[:, None]
        counted = np.broadcast_to(np.arange(W + own)[:, None] >= W, rows.shape).astype(float)
        blocks = (np.moveaxis(a[rows], 1, -1) for a in (x, h))
        return np.abs(log_likelihood(*blocks, y[rows], r[rows], counted, P, W + own) - expected).max()

    W, _ = warm_up(decays, noise**-2.0, orders, turn)
    assert error(W) < 1e-6 < error(W // 3)  # enough, and not many times what is needed


@pytest.mark.parametrize("order", STATIONARY)
def test_forgetting_is_that_of_the_filter_in_continuous_time(order):
    """Slow decay, fast turning: the poles s of (x² − s²)^d = −P∞_dd snr x^{2d−1}, with ½ for the mean of cos²."""
    x, snr, d = 1e-3, 1.0, round(order + 0.5)
    gain = STATIONARY[order][-1, -1] * snr * x ** (2 * d - 1)
    roots = np.exp(1j * np.pi * (2 * np.arange(d) + 1) / d)
    poles = np.sqrt(x**2 - gain ** (1 / d) * roots)
    # Over one row, the unit of time here, the poles move by their squares, at most (0.03)² of 0.03.
    assert warm_up([x], [snr], [order], [1.5])[1] == pytest.approx(poles.real.min(), rel=3e-3)


def test_posterior_draws_come_from_prior_paths():
    """A path plus the smoothed rest of the data has the smoothed mean and covariance (Matheron's rule)."""
    orders, B = ORDERS["three halves"], 4000
    x, h, y, r, _ = (np.tile(a[..., :1], B) for a in signal(orders, L=20))
    P = stationary(orders)
    paths = simulate(jax.random.key(0), jnp.asarray(x), P, 20)
    noise = np.sqrt(np.where(r < MISSING, r, 0.0)) * np.random.default_rng(0).normal(size=y.shape)
    rest, _ = smooth(x, h, y - jnp.sum(h * paths, axis=1) - noise, r, P, 20, covariance=False)
    draws = np.asarray(paths + rest)
    mean, covariance = (np.asarray(part)[..., 0] for part in smooth(*(a[..., :1] for a in (x, h, y, r)), P, 20))
    deviation = np.sqrt(np.einsum("iqq->iq", covariance))
    assert np.abs((draws.mean(axis=-1) - mean) / deviation).max() < 4.0 / np.sqrt(B)
    rest = draws - mean[..., None]
    scale = deviation[:, :, None] * deviation[:, None, :]
    assert np.abs((np.einsum("iqb,ipb->iqp", rest, rest) / B - covariance) / scale).max() < 4.0 * np.sqrt(2.0 / B)
