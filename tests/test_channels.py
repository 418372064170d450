"""Several channels that share phases: exact, found together, and better known the more there are."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import spectrogp as sg
from spectrogp.inference import newton
from spectrogp.kernels import IntegratedPhase, MaternPhase, WarpedTime
from spectrogp.models import ChannelGP, Data, ExactGP, Lanes, MarkovGP, Timeline
from spectrogp.parameters import GridFunctionGroup, Normal, Positive, Real, log_prior, partition
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")

EXTENT = (0.0, 10.0)


def group(initial, shape, **options):
    return GridFunctionGroup(EXTENT, initial, shape=shape, lengthscale=2.5, lengthscale_std=0.0, **options)


def shared():
    kernel = MaternPhase(
        WarpedTime(group([[3.0], [4.0]], (2, 1))), IntegratedPhase(group([[3.0], [7.0]], (2, 1))), np.ones(2)
    )
    return kernel + MaternPhase(WarpedTime(Positive.around(6.0)), order=0.5)


def amplitudes(size):
    """Of two oscillations and a trend; the prior is another one in each channel."""
    return group(size * np.array([1.0, 0.5]), (2,), amplitude=0.3 * size), Positive.around(0.3 * size)


@pytest.fixture(scope="module")
def model():
    """Functions of the input, at random; noise and offset of its own in every channel."""
    rng = np.random.default_rng(1)
    model = ChannelGP(
        shared(),
        [amplitudes(size) for size in (1.0, 0.4, 2.0)],
        [Positive.around(noise) for noise in (0.2, 0.1, 0.5)],
        [Real(mean, Normal()) for mean in (0.0, 0.3, -1.0)],
    )
    free, rest = partition(model, "latent")
    return eqx.combine(jax.tree.map(lambda leaf: 0.5 * rng.normal(size=leaf.shape), free), rest)


@pytest.fixture(scope="module")
def data():
    """Rows at one set of times, of which the channels miss some; one has times of its own."""
    rng = np.random.default_rng(0)
    t = rng.uniform(*EXTENT, 40)
    parts = [t, np.delete(t, [3, 4, 20]), rng.uniform(*EXTENT, 25)]
    return tuple(
        Data(t, np.cos(3 * t + k) + 0.2 * rng.normal(size=len(t)), error=rng.uniform(0.0, 0.2, len(t)))
        for k, t in enumerate(parts)
    )


def test_log_joint_is_that_of_one_dense_normal_distribution(model, data):
    """Of all rows of all channels together: covariances between channels are zero, and no prior counts twice."""
    plain = model.realise()
    rows = [len(part.y) for part in data]
    K, rest = np.zeros((sum(rows), sum(rows))), []
    for k, (one, part, end) in enumerate(zip(plain.channels, data, np.cumsum(rows), strict=True)):
        here = slice(end - rows[k], end)
        K[here, here] = np.asarray(one.kernel(part.X)) + np.diag(np.asarray(one.likelihood.variance(part)))
        rest.append(np.asarray(part.y) - float(one.offset))
    rest = np.concatenate(rest)
    with double():
        prior = float(log_prior(model))
    expected = -0.5 * (rest @ np.linalg.solve(K, rest) + np.linalg.slogdet(2.0 * np.pi * K)[1]) + prior
    assert model.log_joint(data) == pytest.approx(expected, rel=1e-9)


def test_predictions_are_those_of_the_exact_models(model, data):
    X = np.array([[2.3], [-1.0], [12.0], [5.0]])
    found = model.predict(data, X)
    assert found.mean.shape == (4, 3)
    for k, (one, part) in enumerate(zip(model.channels, data, strict=True)):
        offset = float(one.offset.value)
        exact = ExactGP(one.kernel, one.likelihood).predict(Data(part.X, part.y - offset, part.error), X)
        np.testing.assert_allclose(found.mean[:, k], exact.mean + offset, atol=1e-8)
        np.testing.assert_allclose(found.variance[:, k], exact.variance, atol=1e-8)


def test_a_channel_is_a_markov_model(model, data):
    """Also where it is taken out of a tree of draws, or of the rest of the model."""
    kernel = shared()
    plain = ChannelGP(kernel, [amplitudes(1.0), amplitudes(0.4)], [Positive.around(0.2), Positive.around(0.1)])
    one = MarkovGP(_with(kernel, amplitudes(0.4)), Positive.around(0.1))
    assert plain.channel(1).log_joint(data[1]) == pytest.approx(one.log_joint(data[1]), rel=1e-12)
    free, rest = partition(model, "latent", "hyperparameter")
    again = eqx.combine(free.channel(2), rest.channel(2))
    assert eqx.tree_equal(again, model.channel(2))


def _with(kernel, amplitudes):
    first, second = kernel.terms
    return MaternPhase(first.time, first.phase, amplitudes[0]) + MaternPhase(
        second.time, amplitude=amplitudes[1], order=0.5
    )


def lanes_of(model, data, **options):
    return Lanes(model, Timeline.side_by_side([Timeline.of(part, **options) for part in data]))


def log_joint(model, data):
    free, rest = partition(model, "latent", "hyperparameter")
    raw, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))
    return raw, jax.jit(lambda raw: eqx.combine(unravel(raw), rest).log_joint(data))


def test_lanes_and_gradients(model, data):
    """Lanes of all channels give the log joint density, but for the priors that they hold fixed, and its gradient."""
    lanes = lanes_of(model, data)
    numbers = lanes.join(model)
    assert lanes.count == 3
    assert lanes.whole
    value, gradient = lanes.total(*lanes.log_likelihoods(numbers), numbers)
    likelihood = sum(one.log_likelihood(part, None) for one, part in zip(model.realise().channels, data, strict=True))
    assert value - lanes.log_prior(numbers)[0] == pytest.approx(float(likelihood), rel=1e-10)
    rng = np.random.default_rng(2)
    for _ in range(3):  # central differences along random directions, of values whose rounding is about 1e-13 of 100
        along = rng.normal(size=numbers.shape)
        ends = [
            lanes.total(*lanes.log_likelihoods(at), at)[0] for at in (numbers + 1e-5 * along, numbers - 1e-5 * along)
        ]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient @ along, rel=1e-6)
    with double():
        raw, density = log_joint(model, data)
        along = rng.normal(size=raw.shape)
        slope = jax.grad(density)(raw) @ along
        ends = [density(raw + step * along) for step in (1e-5, -1e-5)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(slope), rel=1e-6)


def test_newton_ends_at_the_optimum_of_all_channels(model, data):
    """In one block a channel, and in several blocks, whose Hessian is a band and a border."""
    found = newton(lanes_of(model, data), lanes_of(model, data).join(model), steps=40)
    assert found.decrement < 0.02
    blocks = lanes_of(model, data, own=20, warm_up=40)
    assert blocks.count > 3
    assert not blocks.whole
    again = newton(blocks, found.numbers, steps=3)  # blocks that begin with the first row are exact
    assert again.log_joint == pytest.approx(found.log_joint, abs=0.1)


def test_what_does_not_fit_is_refused(model, data):
    with pytest.raises(ValueError, match="data must be those of 3 channels, one Data each, got 2"):
        model.log_joint(data[:2])
    with pytest.raises(ValueError, match="of the same channels, got 1, 2 and 2"):
        ChannelGP(shared(), [amplitudes(1.0)], [0.1, 0.2])
    with pytest.raises(ValueError, match="as many amplitudes as the kernel has terms, 2, got 1"):
        ChannelGP(shared(), [1.0], [0.1])
    with pytest.raises(TypeError, match="MarkovGP takes MaternPhase kernels"):
        ChannelGP(sg.kernels.SquaredExponential(1.0), [1.0], [0.1])
    mixed = ChannelGP(shared(), [amplitudes(1.0), amplitudes(1.0)], [0.1, Positive.around(0.2)])
    with pytest.raises(ValueError, match="must differ in numbers alone"):
        lanes_of(mixed, data[:2])
