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
from spectrogp.initialise import find_initial_values, frames, ridges
from spectrogp.initialise.tracks import find_path, fit_path
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
    # As many in each, so that one program serves all.
    parts = [np.delete(t, [0, 1, 30]), np.delete(t, [3, 4, 20]), rng.uniform(*EXTENT, 37)]
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


# --- what is found in the data ---


def weak(rows, span, size, channels, seed=0, f=1.7):
    """A tone of another phase in every channel, in noise of standard deviation 1; channels in units of their own."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, span, rows))
    y = size * np.cos(2 * np.pi * f * t[:, None] + rng.uniform(0.0, 2 * np.pi, channels))
    return t, (y + rng.normal(size=y.shape)) * 10.0 ** np.arange(channels)


def test_the_gains_of_channels_add_up():
    """One share of the variance, and one number of rows, that are worth as much as those of all channels."""
    rng = np.random.default_rng(0)
    shares, counts = rng.uniform(0.0, 0.5, (3, 5, 4)), rng.uniform(4.0, 50.0, (3, 5))
    share, count = frames.together(shares, counts)
    one = [frames.nats(*pair, 1.0, 1.0) for pair in zip(shares, counts[..., None], strict=True)]
    cost = frames.price(1.0, 1.0)
    expected = sum(gain * ridges.LENGTH + cost for gain in one) - frames.price(1.0, 1.0, channels=3)
    there = np.all(counts > frames.ROWS, axis=0)
    assert np.any(there)
    found = frames.nats(share, count[:, None], 1.0, 1.0, channels=3) * ridges.LENGTH
    np.testing.assert_allclose(found[there], expected[there], rtol=1e-9)
    # By chance: the largest of many sums of three exponentially distributed numbers.
    many = rng.gamma(3.0, size=(20000, int(np.ceil(ridges.LENGTH)) * len(frames.RATES))).max(axis=1)
    assert np.mean(many > frames.price(1.0, 1.0, channels=3)) == pytest.approx(0.01, abs=0.004)


@pytest.mark.parametrize("rows", [130, 700], ids=["ridges", "tracks"])
def test_a_tone_too_weak_for_each_channel_is_found_in_all(rows):
    t, y = weak(rows, rows / 14.0, 0.62 if rows == 130 else 0.34, 4, seed=1)
    y[5:9, 2] = np.nan
    options = {"highest_frequency": 3.0}
    alone = find_initial_values(t, y[:, :1], **options)  # as a channel: through windows
    assert not np.any(alone.found)
    found = find_initial_values(t, y, **options)
    assert np.any(found.found)
    assert found.amplitude.shape == (*found.gain.shape, 4)
    seen = found.gain[:, 0] > 0
    np.testing.assert_allclose(np.median(found.frequency[seen, 0, 0]), 1.7, atol=0.05)
    # Each in its own units.
    np.testing.assert_allclose(found.noise / 10.0 ** np.arange(4), 1.0, rtol=0.25)
    assert found.channel(2).noise == found.noise[2]


def test_frequencies_are_known_better_the_more_channels_there_are():
    """Errors along tracks fall as the square root of the number of channels: by 2 of four, to the spread of medians."""
    errors = []
    for channels in (1, 4):
        off = []
        for seed in range(3):
            t, y = weak(1500, 100.0, 1.0, channels, seed)
            y = y / 10.0 ** np.arange(channels)
            grid = frames.even_grid(t, np.ones(1500), 5.0)
            parts = [frames.Channel(grid, own, np.ones(1500)) for own in y.T]
            track = fit_path(parts, t, find_path(parts, 40, 5.0), 5.0)
            off.append(np.abs(track.path.frequency[track.path.alive] - 1.7))
        errors.append(np.median(np.concatenate(off)))
    assert 1.5 < errors[0] / errors[1] < 2.7


# --- the estimator ---


@pytest.fixture(scope="module")
def fitted():
    t, y = weak(90, 8.0, 2.5, 2)
    y[3:7, 1] = np.nan
    return t, y, sg.SpectralGPRegressor(inference="map", n_components=1, n_starts=1, random_state=0).fit(t, y)


def test_the_estimator_fits_channels(fitted, tmp_path):
    t, y, model = fitted
    assert model.n_channels_ == 2
    assert model.diagnostics_["approximation"] == "markov"
    frequency = model.instantaneous_frequency(t).mean
    assert frequency.shape == (90, 1)
    np.testing.assert_allclose(np.median(frequency), 1.7, atol=0.02)
    mean, std = model.predict(t, return_std=True)
    assert mean.shape == std.shape == (90, 2)
    np.testing.assert_allclose(np.nanstd((y - mean) / std, axis=0), 1.0, atol=0.25)
    np.testing.assert_allclose(std.mean(axis=0) / [1.0, 10.0], 1.0, atol=0.3)
    one = model.channel(1)
    np.testing.assert_array_equal(one.predict(t), mean[:, 1])
    parts = model.decompose(t[:5]).mean
    assert parts.shape == (5, 1, 2)
    np.testing.assert_allclose(parts.sum(axis=1) + model.y_mean_, mean[:5], atol=1e-6)
    assert model.sample_y(t[:5], 3).shape == (5, 2, 3)
    assert model.spectrogram(t[:5], [1.0, 1.7]).mean.shape == (5, 2, 2)
    assert model.log_predictive_density(t[:3], y[:3]).shape == (3, 2)
    model.save(tmp_path / "file")
    np.testing.assert_array_equal(sg.load(tmp_path / "file").predict(t), mean)


def test_what_channels_cannot_do_is_said(fitted):
    t, y, model = fitted
    with pytest.raises(ValueError, match=r"report shows one channel: choose it, as in model.channel\(0\).report"):
        model.report()
    with pytest.raises(ValueError, match="one of the 2 channels from 0 on, got 2"):
        model.channel(2)
    with pytest.raises(ValueError, match=r"several channels, y \[n, c\], take approximation='auto' or 'markov'"):
        sg.SpectralGPRegressor(approximation="neighbours").fit(t, y)
    with pytest.raises(ValueError, match=r"several channels, y \[n, c\], take inference='laplace' or 'map'"):
        sg.SpectralGPRegressor(inference="nuts").fit(t, y)
    with pytest.raises(ValueError, match=r"several channels, .* are for one input"):
        sg.SpectralGPRegressor().fit(np.column_stack([t, t]), y)
    with pytest.raises(ValueError, match="channel 1 of y has no output"):
        sg.SpectralGPRegressor().fit(t, np.column_stack([t, np.full(90, np.nan)]))
    with pytest.raises(ValueError, match=r"error must be one number or have shape \[n\] or \[n, c\]"):
        sg.SpectralGPRegressor().fit(t, y, error=np.ones((90, 3)))
