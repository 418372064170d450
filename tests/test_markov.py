"""The Markov model is the exact Gaussian process of its kernel, whatever its terms, times and functions."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import spectrogp as sg
from spectrogp.core import entry_point
from spectrogp.kernels import IntegratedPhase, MaternPhase, Sum, WarpedTime
from spectrogp.models import Data, ExactGP, MarkovGP, Moments, Timeline
from spectrogp.models import markov as home
from spectrogp.parameters import GridFunctionGroup, Positive, partition
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")

TEST = np.array([[2.31], [-1.0], [0.4], [7.7], [5.0], [5.0], [12.5], [30.0]])  # in no order, inside and outside


def times(n, seed=0):
    """Random times in no order with a gap, some of them twice."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.0, 9.0, n)
    t[t > 6.0] += 3.0
    t[:4] = t[4:8]
    return t


def data_at(t, seed=0):
    rng = np.random.default_rng(seed)
    return Data(t, np.cos(5 * t) + 0.3 * t + 0.2 * rng.normal(size=len(t)), error=rng.uniform(0.0, 0.2, len(t)))


DATA = data_at(times(40))


def noise(X):
    return 0.3 + 0.1 * jnp.sin(X[:, 0])


def lengths(*values):
    """Lengthscales that vary, with values ``[n, a, 1]``."""
    return lambda X: (jnp.asarray(values) * jnp.exp(0.3 * jnp.sin(0.5 * X)))[..., None]


def phases(*omegas):
    """Phases that are no straight lines, with values ``[n, a]``."""
    return lambda X: X * jnp.asarray(omegas) + jnp.cos(0.7 * X * jnp.arange(1.0, 1.0 + len(omegas)))


def amplitudes(*values):
    return lambda X: jnp.asarray(values) * (1.0 + 0.4 * jnp.sin(X * (1.0 + jnp.arange(len(values)))))


NODES = np.linspace(-2.0, 31.0, 45)


def oscillation(order=1.5, omegas=(5.0,), scale=3.0, **options):
    """Everything a function."""
    count = len(omegas)
    return MaternPhase(
        WarpedTime(lengths(*(scale / (1 + k) for k in range(count))), NODES),
        phases(*omegas),
        amplitudes(*(1.0 / (1 + k) for k in range(count))),
        order=order,
        **options,
    )


def trend(order=2.5):
    return MaternPhase(WarpedTime(8.0), amplitude=1.5, order=order)


def plain(order=1.5):
    return MaternPhase(WarpedTime(2.0), lambda X: 5.0 * X[:, 0], 0.8, order=order)


KERNELS = {
    "rough": plain(0.5),
    "smooth": plain(1.5),
    "smoother": plain(2.5),
    "functions, rough": oscillation(0.5),
    "two, smoother": oscillation(2.5, (5.0, 9.0)),
    "three": oscillation(1.5, (2.0, 5.0, 9.0)),
    "trend alone": trend(),
    "with a trend": oscillation(1.5, (5.0, 9.0)) + trend(),
    "between two trends": trend() + oscillation(1.5) + trend(0.5),
    "of all orders": oscillation(0.5) + oscillation(1.5, (3.0,)) + trend() + oscillation(2.5, (8.0,), 1.0),
    "harmonic": oscillation(0.5, (2.5, 2.5, 2.5), harmonic=True),
}
QUICK = ("with a trend",)


@entry_point
@eqx.filter_jit
def everything(model, data, X):
    """Log joint density, moments, covariance, and components."""
    plain = model.realise()
    parts = [plain.component_moments(data, X, a) for a in range(plain.count_components(X))]
    return model.log_joint(data), plain.moments(data, X), plain.joint_covariance(data, X), parts


def exact(kernel, noise, data, X):
    """The same of the exact model; components by dense algebra, since it has none of sums of kernels."""
    model = ExactGP(kernel, noise)

    @entry_point
    @eqx.filter_jit
    def covariances(X, Y):
        """Of every component, [n, m, a]."""
        p, q = kernel.local(X), kernel.local(Y)
        pairs = jax.vmap(lambda one: jax.vmap(lambda other: kernel.pair(one, other))(q))(p)
        return pairs.amplitude * jnp.exp(-0.5 * pairs.distance) * jnp.cos(pairs.phase)

    K, k, own = covariances(data.X, data.X), covariances(X, data.X), covariances(X, X)
    K = np.sum(K, axis=-1) + np.diag(np.asarray(model.likelihood.variance(data)))
    terms = getattr(kernel, "terms", (kernel,))
    background = np.concatenate([np.full(term.values_at(X)["time"].shape[1], term.phase is None) for term in terms])
    groups = [[a] for a in np.flatnonzero(~background)] + [np.flatnonzero(background)] * bool(np.any(background))
    parts = []
    for group in groups:  # all that has no phase is one
        mine, cross = np.sum(own[..., group], axis=-1), np.sum(k[..., group], axis=-1)
        variance = mine.diagonal() - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
        parts.append(Moments(cross @ np.linalg.solve(K, data.y), variance))
    return model.log_joint(data), model.predict(data, X), model.covariance(data, X), parts


def assert_equal(markov, exact, offset=0.0):
    np.testing.assert_allclose(markov[0], exact[0], rtol=1e-9)
    np.testing.assert_allclose(markov[1].mean, exact[1].mean + offset, atol=1e-8)
    np.testing.assert_allclose(markov[1].variance, exact[1].variance, atol=1e-8)
    np.testing.assert_allclose(markov[2], exact[2], atol=1e-8)
    assert len(markov[3]) == len(exact[3])
    for one, other in zip(markov[3], exact[3], strict=True):
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-8)
        np.testing.assert_allclose(one.variance, other.variance, atol=1e-8)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in KERNELS]
)
def test_equals_the_exact_model(name):
    """Log likelihood, predictions, covariances and components; noise a function, with error bars; times in no order."""
    kernel = KERNELS[name]
    assert_equal(everything(MarkovGP(kernel, noise), DATA, TEST), exact(kernel, noise, DATA, TEST))


def test_an_offset_is_the_mean_of_the_outputs():
    kernel, moved = plain(), Data(DATA.X, DATA.y - 1.7, DATA.error)
    assert_equal(everything(MarkovGP(kernel, noise, 1.7), DATA, TEST), exact(kernel, noise, moved, TEST), 1.7)
    free = MarkovGP(kernel, noise, sg.Real(1.7, sg.Normal(0.0, 2.0)))
    prior = -0.5 * (1.7 / 2.0) ** 2 - np.log(2.0 * np.sqrt(2.0 * np.pi))
    assert free.log_joint(DATA) == pytest.approx(MarkovGP(kernel, noise, 1.7).log_joint(DATA) + prior, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("t", [[0.5], [0.5, 0.5], [0.0, 1e-9, 1e6]], ids=["one", "one time twice", "very far apart"])
def test_few_rows(t):
    few = Data(np.array(t), np.arange(1.0, 1.0 + len(t)))
    kernel, X = plain(2.5), np.array([[0.2], [0.5]])
    assert_equal(everything(MarkovGP(kernel, 0.1), few, X), exact(kernel, 0.1, few, X))


@pytest.mark.slow
def test_a_sum_of_harmonics_is_a_sum_of_kernels():
    phase = lambda X: 2.5 * X[:, 0] + jnp.cos(X[:, 0])  # noqa: E731
    together = MaternPhase(
        WarpedTime(3.0), lambda X: jnp.stack([phase(X)] * 3, axis=1), np.array([1.0, 0.7, 0.4]), harmonic=True
    )
    alone = [
        MaternPhase(WarpedTime(3.0), lambda X, k=k: k * phase(X), sigma) for k, sigma in ((1, 1.0), (2, 0.7), (3, 0.4))
    ]
    t = np.linspace(0.0, 4.0, 9)
    np.testing.assert_allclose(together(t), sum(kernel(t) for kernel in alone), atol=1e-13)
    assert_equal(everything(MarkovGP(together, 0.2), DATA, TEST), exact(Sum(*alone), 0.2, DATA, TEST))


def with_functions():
    """A model of free functions on grids, hyperparameters and an offset."""
    extent, rng = (0.0, 12.0), np.random.default_rng(3)
    group = lambda initial, **options: GridFunctionGroup(extent, initial, lengthscale=3.0, **options)  # noqa: E731
    kernel = MaternPhase(
        WarpedTime(group([[2.0], [3.0]], shape=(2, 1))),
        IntegratedPhase(group([[3.0], [5.0]], shape=(2, 1), lengthscale_std=0.0)),
        group([1.0, 0.5], shape=(2,)),
    )
    model = MarkovGP(kernel + MaternPhase(WarpedTime(Positive.around(6.0)), order=0.5), group(0.3), 0.0)
    groups = lambda m: [g.whitened.raw for g in (m.kernel.terms[0].time.lengthscale, m.kernel.terms[0].phase.frequency)]  # noqa: E731
    return eqx.tree_at(groups, model, [rng.normal(size=np.shape(raw)) for raw in groups(model)])


def slopes(model, data):
    """The log joint density and its gradient in all free numbers, by name of nothing: one vector."""
    free, rest = partition(model, "latent", "hyperparameter")
    raw, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))
    return jax.jit(jax.value_and_grad(lambda raw: eqx.combine(unravel(raw), rest).log_joint(data)))(raw)


def test_gradients_equal_those_of_the_exact_model():
    markov = with_functions()
    with double():
        value, slope = slopes(markov, DATA)
        expected = slopes(ExactGP(markov.kernel, markov.likelihood), DATA)
        np.testing.assert_allclose(value, expected[0], rtol=1e-10)
        np.testing.assert_allclose(slope, expected[1], rtol=1e-7, atol=1e-7 * np.max(np.abs(expected[1])))
        assert slope.size > 60


# --- blocks ---


@pytest.fixture(scope="module")
def long():
    """More rows than a block holds, with a gap, and a model that forgets within some dozens."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 500.0, 6000))
    t[3000:] += 40.0
    y = np.cos(3.0 * t + np.sin(0.3 * t)) + 0.3 * rng.normal(size=len(t))
    kernel = MaternPhase(WarpedTime(5.0), lambda X: 3.0 * X[:, 0] + jnp.sin(0.3 * X[:, 0])) + MaternPhase(
        WarpedTime(20.0), amplitude=0.2, order=0.5
    )
    return MarkovGP(kernel, 0.3), Data(t, y)


def test_blocks_are_one_block(long):
    model, data = long
    blocks, one = model.timeline(data), Timeline.of(data)
    assert blocks.t.shape[1] > 2
    assert one.t.shape[1] == 1
    assert np.sum(blocks.weight) == np.sum(one.weight) == data.size
    whole = model.log_joint(one)
    assert model.log_joint(blocks) == pytest.approx(whole, abs=1e-6 * blocks.t.shape[1])
    assert model.log_joint(data) == pytest.approx(whole, rel=1e-11)
    parts = model.realise().block_log_likelihoods(blocks)
    assert np.sum(parts) == pytest.approx(whole, rel=1e-9)


def test_predictions_in_blocks_are_those_of_one(long):
    model, data = long
    X = np.random.default_rng(1).uniform(-10.0, 560.0, (300, 1))
    prepared = model.prepare(data, X)
    assert isinstance(prepared, Timeline)
    assert prepared.t.shape[1] > 2
    whole, blocks = model.predict(data, X), model.predict(prepared, X)
    np.testing.assert_allclose(blocks.mean, whole.mean, atol=1e-6)
    np.testing.assert_allclose(blocks.variance, whole.variance, atol=1e-6)
    np.testing.assert_array_equal(model.prepare(prepared, X).place, prepared.place)


def test_predictions_through_timelines_equal_those_from_data():
    model = MarkovGP(plain() + trend(), noise, 0.4).realise()

    @entry_point
    @eqx.filter_jit
    def read(data):
        return model.moments(data, TEST), model.component_moments(data, TEST, 1), model.envelope(data, TEST)

    found = [jax.tree.leaves(read(data)) for data in (model.prepare(DATA, TEST), DATA)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)
    assert model.log_joint(model.timeline(DATA)) == pytest.approx(model.log_joint(DATA), rel=1e-12)


@pytest.mark.parametrize("wanted", [None, TEST], ids=["rows", "rows and inputs"])
@pytest.mark.parametrize("longest", [np.inf, 1.5])
def test_timelines_have_every_row_once_and_warm_up(wanted, longest):
    rows = Timeline.of(DATA, wanted, own=7, warm_up=5, longest=longest)
    assert np.all(np.diff(rows.t, axis=0) >= 0.0)
    own = rows.weight > 0
    order = np.argsort(DATA.X[:, 0], kind="stable")
    np.testing.assert_array_equal(rows.t.T[own.T], DATA.X[order, 0])
    np.testing.assert_array_equal(rows.y.T[own.T], DATA.y[order])
    np.testing.assert_array_equal(rows.error.T[own.T], DATA.error[order])
    assert np.all(own <= rows.seen)
    if wanted is None:
        # Each block begins with rows of the block before, as many as are wanted and not too old.
        first = np.argmax(own, axis=0)
        assert first[0] == 0
        assert np.all(first[1:] <= 5)
        if np.isinf(longest):
            assert np.all(first[1:] == 5)
        else:
            begins = rows.t[first, np.arange(len(first))]
            assert np.all(begins - rows.t[0] <= longest)
            assert np.all(np.max(np.where(own, rows.t, -np.inf), axis=0) - begins <= longest)
        assert rows.place is None
    else:
        np.testing.assert_array_equal(rows.read(rows.t[:, None])[: len(TEST)], TEST)
        assert not np.any(rows.seen.ravel()[rows.place[: len(TEST)]])
        assert len(rows.place) & (len(rows.place) - 1) == 0  # a power of two
    assert rows.t.shape[0] & (rows.t.shape[0] - 1) == 0


def test_warm_up_follows_the_model(long):
    model, data = long
    rows = model.warm_up(data)
    assert 10 < rows < 1000
    assert model.warm_up(data, 1e-12) > rows
    slow = eqx.tree_at(lambda m: m.kernel.terms[0].time.lengthscale, model, 50.0)
    assert slow.warm_up(data) > rows
    # Components that nothing tells apart are never forgotten: then there is one block.
    twins = MarkovGP(Sum(plain(), plain()), 0.3)
    assert twins.warm_up(data) <= data.size


# --- draws, envelopes ---


@pytest.mark.slow
def test_draws_have_the_mean_and_the_covariance():
    kernel = plain(0.5) + trend(2.5)
    model, X, draws = MarkovGP(kernel, noise, 0.4), TEST[:6], 4000
    values = model.draw(DATA, X, key=0, num_samples=draws)
    assert values.shape == (draws, 6)
    mean, joint = model.predict(DATA, X).mean, model.covariance(DATA, X)
    std = np.sqrt(np.diag(joint))
    assert np.all(np.abs(values.mean(axis=0) - mean) < 4.5 * std / np.sqrt(draws))
    # A covariance of normal draws has variance (C_ii C_jj + C_ij²)/s.
    error = np.sqrt((np.outer(std, std) ** 2 + joint**2) / draws)
    assert np.all(np.abs(np.cov(values.T) - joint) < 4.5 * error)
    np.testing.assert_allclose(values[:, 4], values[:, 5], atol=1e-6)  # one input twice


@pytest.mark.slow
def test_draws_of_many_inputs_need_no_matrix(long):
    model, data = long
    X = np.linspace(0.0, 540.0, 3000)
    f = model.draw(data, X, key=1)[0]
    mean, variance = model.predict(data, X)
    assert np.mean(((f - mean) ** 2) / variance) == pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with a trend", "of all orders", "between two trends"])
def test_envelopes_turn_with_the_phase_into_components(name):
    """f_a = Re[(u − iv) e^{iφ}] = u cos φ + v sin φ, in mean and variance."""
    model = MarkovGP(KERNELS[name], noise).realise()
    mean, covariance = model.envelope(DATA, TEST)
    phase = [np.asarray(term.values_at(TEST)["phase"]) for term in model.terms if term.phase is not None]
    phase = np.concatenate([*phase, np.zeros((len(TEST), 1))], axis=1)  # the background is the last
    turns = np.stack([np.cos(phase), np.sin(phase)], axis=-1)  # [t, a, 2]
    f = np.real((mean[..., 0] - 1j * mean[..., 1]) * np.exp(1j * phase))
    assert mean.shape == (len(TEST), model.count_components(TEST), 2)
    for a in range(model.count_components(TEST)):
        moments = model.component_moments(DATA, TEST, a)
        np.testing.assert_allclose(f[:, a], moments.mean, atol=1e-10)
        variance = np.einsum("tk,tkl,tl->t", turns[:, a], covariance[:, a], turns[:, a])
        np.testing.assert_allclose(variance, moments.variance, atol=1e-10)
    np.testing.assert_array_equal(mean[:, -1, 1], 0.0)  # a background does not turn
    np.testing.assert_array_equal(covariance[:, -1, 1], 0.0)


def test_inputs_among_the_rows_do_not_count_as_warming_up():
    """Ten inputs to a row, in several blocks: each has as many rows of the data before it as the filter needs."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(1.0, 299.0, 900))
    data = Data(t, np.cos(3.0 * t) + 0.3 * rng.normal(size=900))
    model = MarkovGP(MaternPhase(WarpedTime(8.0), lambda X: 3.0 * X[:, :1]), 0.3)
    X = np.linspace(0.0, 300.0, 9000)[:, None]  # some of them before all rows, and behind them
    blocks, single = model.timeline(data, X), Timeline.of(data, X)
    assert blocks.t.shape[1] > 1 == single.t.shape[1]
    for found, expected in zip(model.parts(blocks, X)[0], model.parts(single, X)[0], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


# --- others ---


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.5, 2.5])
def test_stationary_models_equal_those_of_tinygp(order):
    tinygp = pytest.importorskip("tinygp")
    t = np.sort(times(40))
    y, X = np.sin(2 * t), np.linspace(-1.0, 13.0, 15)
    with double():
        kind = tinygp.kernels.quasisep.Matern32 if order == 1.5 else tinygp.kernels.quasisep.Matern52
        peer = tinygp.GaussianProcess(kind(scale=1.7, sigma=1.3), jnp.asarray(t), diag=0.2**2)
        value, posterior = peer.condition(jnp.asarray(y), jnp.asarray(X), diag=0.0)
        value, mean, variance = (np.asarray(part) for part in (value, posterior.loc, posterior.variance))
    model = MarkovGP(MaternPhase(WarpedTime(1.7), amplitude=1.3, order=order), 0.2)
    moments = model.predict(Data(t, y), X)
    assert model.log_joint(Data(t, y)) == pytest.approx(float(value), rel=1e-10)
    np.testing.assert_allclose(moments.mean, mean, atol=1e-9)
    np.testing.assert_allclose(moments.variance, variance, atol=1e-8)


@pytest.mark.slow
def test_posteriors_read_markov_models():
    """Draws of raw numbers, each a model: predictions through ``prepare``, as those of the exact model."""
    make = lambda kind: kind(MaternPhase(WarpedTime(Positive.around(2.0)), lambda X: 5.0 * X[:, 0]), 0.3)  # noqa: E731
    found = []
    for kind in (MarkovGP, ExactGP):
        free, rest = partition(make(kind), "hyperparameter")
        free = jax.tree.map(lambda leaf: np.asarray(leaf) + np.array([[0.0, 0.3]]), free)
        posterior = sg.posterior.Posterior(free, rest, np.array([[0.0, 0.5]]), {})
        found.append((posterior.predict(DATA, TEST), posterior.components(DATA, TEST)))
    for one, other in zip(jax.tree.leaves(found[0]), jax.tree.leaves(found[1]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_other_kernels_and_noise_are_refused():
    with pytest.raises(TypeError, match="MarkovGP takes MaternPhase kernels and sums of them, got SquaredExponential"):
        MarkovGP(plain() + sg.kernels.SquaredExponential(1.0), 0.1)
    with pytest.raises(TypeError, match="Gaussian noise, got StudentT"):
        MarkovGP(plain(), sg.likelihoods.StudentT(0.1))
    with pytest.raises(ValueError, match="num_samples"):
        MarkovGP(plain(), 0.1).draw(DATA, TEST, key=0, num_samples=0)


def test_short_data_are_one_block(monkeypatch):
    model = MarkovGP(plain(), 0.1)
    assert model.timeline(DATA).t.shape[1] == 1
    monkeypatch.setattr(home, "SINGLE", 10)
    monkeypatch.setattr(home, "OWN", 8)
    many = model.timeline(DATA)
    assert np.sum(many.weight) == DATA.size
    assert model.log_joint(many) == pytest.approx(model.log_joint(DATA), abs=1e-5)


def test_warm_up_of_free_lengthscales_is_that_of_their_values():
    """A background has a lengthscale that is a parameter, not a function."""
    t = np.linspace(0.0, 400.0, 4000)
    data = Data(t, np.zeros(4000))
    free, fixed = (
        MarkovGP(MaternPhase(WarpedTime(lengthscale), None, 1.0, order=0.5), 0.3)
        for lengthscale in (Positive.around(2.0, 0.5), 2.0)
    )
    assert 1 < free.warm_up(data) == fixed.warm_up(data) < 4000
    assert free.timeline(data).t.shape == fixed.timeline(data).t.shape
