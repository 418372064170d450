"""Prediction by mixing over posterior draws: equal to mixtures made by hand, for every way to make draws."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.measure import counting_programs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

import spectrogp as sg
from spectrogp.inference import sample_variational
from spectrogp.models import (
    AbstractLikelihood,
    AbstractModel,
    Data,
    DoublyStochasticGP,
    ExactGP,
    Gaussian,
    Moments,
    NeighbourGP,
    Neighbourhoods,
    SparseGP,
    StudentT,
)
from spectrogp.parameters import FunctionGroup, Positive, Real, partition
from spectrogp.posterior import Posterior
from spectrogp.posterior.quantiles import mixture_band, mixture_quantiles

pytestmark = pytest.mark.usefixtures("compile_quickly")

X = np.array([[-1.0], [0.0], [2.0]])


class Normals(AbstractModel):
    """f(x) ~ N(level · x, width²), independently of the data and between inputs."""

    level: Any
    width: Any
    likelihood: AbstractLikelihood

    def log_likelihood(self, data, key):
        del data, key
        return -0.5 * self.level**2

    def moments(self, data, X):
        del data
        return Moments(self.level * X[:, 0], jnp.full(X.shape[0], self.width**2))

    def joint_covariance(self, data, X):
        del data
        return self.width**2 * jnp.eye(X.shape[0])


LEVELS, WIDTHS, NOISE = np.array([1.0, -0.5]), np.array([0.3, 1.2]), 0.4


def posterior_of(levels, widths, likelihood=None):
    """A posterior whose draws ``[chains, draws]`` are given."""
    model = Normals(Real(0.0), Positive(1.0), Gaussian(NOISE) if likelihood is None else likelihood)
    _, rest = partition(model, "hyperparameter")
    free, _ = partition(
        eqx.tree_at(lambda m: (m.level.raw, m.width.raw), model, (levels, np.log(widths))), "hyperparameter"
    )
    return Posterior(
        free, rest, np.zeros(levels.shape), {"n_steps": np.arange(levels.size).reshape(levels.shape)}, False
    )


@pytest.fixture(scope="module")
def two():
    """Two draws, one in each of two chains."""
    return posterior_of(LEVELS[:, None], WIDTHS[:, None])


def test_moments_follow_the_law_of_total_variance(two):
    means, variances = LEVELS[:, None] * X[:, 0], np.broadcast_to(WIDTHS[:, None] ** 2, (2, 3))
    mean, variance = two.predict(None, X)
    np.testing.assert_allclose(mean, 0.5 * (means[0] + means[1]), rtol=1e-12)
    # E v + E m² − (E m)², written out.
    expected = variances.mean(axis=0) + (means**2).mean(axis=0) - means.mean(axis=0) ** 2
    np.testing.assert_allclose(variance, expected, rtol=1e-12)
    error = np.array([0.0, 0.1, 0.2])
    mean, variance = two.predict_output(None, X, error)
    np.testing.assert_allclose(mean, means.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(variance, expected + NOISE**2 + error**2, rtol=1e-12)


def test_density_is_the_mean_of_densities(two):
    y, error = np.array([0.3, -2.0, 40.0]), np.array([0.0, 0.1, 0.2])
    scale = np.sqrt(WIDTHS[:, None] ** 2 + NOISE**2 + error**2)
    logs = stats.norm.logpdf(y, LEVELS[:, None] * X[:, 0], scale)
    # The last output is so far away that its density underflows: only sums of logarithms survive.
    np.testing.assert_allclose(
        two.log_predictive_density(None, X, y, error), logsumexp(logs, axis=0, b=0.5), rtol=1e-12
    )


def test_quantiles_invert_the_distribution_of_the_mixture(two):
    levels = (0.001, 0.2, 0.5, 0.975)

    def cdf(values, scales):
        return np.mean(stats.norm.cdf(values, LEVELS[:, None, None] * X[:, 0], scales[:, None, None]), axis=0)

    expected = np.broadcast_to(np.array(levels)[:, None], (4, 3))
    np.testing.assert_allclose(cdf(two.quantiles(None, X, levels), WIDTHS), expected, rtol=1e-10)
    outputs = two.quantiles_output(None, X, levels)
    np.testing.assert_allclose(cdf(outputs, np.hypot(WIDTHS, NOISE)), expected, rtol=1e-10)


def test_a_band_of_an_unknown_phase_ends_where_the_oscillation_does():
    """cos φ of a uniform φ is above cos(0.05 π) with probability 0.05; a normal of its variance reaches 1.16."""
    phases = 2.0 * np.pi * (np.arange(4000) + 0.5) / 4000
    parts = Moments(np.cos(phases)[:, None], np.full((4000, 1), 1e-12))
    lower, upper = mixture_quantiles(parts, (0.05, 0.95))
    np.testing.assert_allclose([lower[0], upper[0]], np.cos(0.05 * np.pi) * np.array([-1.0, 1.0]), atol=1e-3)
    mean, low, high = mixture_band(parts, 0.9)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_array_equal([low, high], [lower, upper])


def test_quantiles_of_parts_that_are_certain_are_these_parts():
    parts = Moments(np.array([[0.0, 2.0], [1.0, 2.0], [5.0, 2.0]]), np.zeros((3, 2)))
    found = mixture_quantiles(parts, (0.1, 0.5, 0.9))
    np.testing.assert_allclose(found, [[0.0, 2.0], [1.0, 2.0], [5.0, 2.0]], atol=1e-12)


@given(st.integers(0, 10_000))
@example(272)
@settings(max_examples=30, deadline=None)
def test_quantiles_of_random_mixtures_have_their_probability(seed):
    rng = np.random.default_rng(seed)
    freedom = float(rng.choice([2.5, 6.0, np.inf]))
    narrow = np.sqrt((freedom - 2.0) / freedom) if np.isfinite(freedom) else 1.0
    shape = (int(rng.integers(1, 30)), 5)
    parts = Moments(rng.normal(size=shape) * np.exp(3.0 * rng.normal(size=5)), np.exp(4.0 * rng.normal(size=shape)))
    levels = np.sort(rng.uniform(1e-3, 1.0 - 1e-3, 4))
    found = mixture_quantiles(parts, levels, freedom)
    scale = narrow * np.sqrt(parts.variance)
    below = np.mean(stats.t.cdf(found[:, None], freedom, parts.mean, scale), axis=1)
    # A quantile is found to 1e-12 of itself, or of its probability: in a part much narrower than its mean the first.
    slope = np.mean(stats.t.pdf(found[:, None], freedom, parts.mean, scale), axis=1)
    assert np.all(np.abs(below - levels[:, None]) < 1e-9 * levels[:, None] + 2e-12 * np.abs(found) * slope)
    assert np.all(np.diff(found, axis=0) > 0)


def test_function_draws_mix_over_parameters_and_functions(two):
    """At x = 2 the mixture has two separate modes; at every input its moments are those predicted."""
    draws = two.draw(None, X, key=0, num_samples=4000)
    assert draws.shape == (4000, 3)
    mean, variance = two.predict(None, X)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 4000))
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.15)
    # Within a draw of the parameters values are jointly drawn: f(−1) and f(2) are correlated through the level only.
    covariance = np.var(LEVELS) * np.outer(X[:, 0], X[:, 0])
    np.testing.assert_allclose(np.cov(draws.T)[0, 2], covariance[0, 2], atol=0.15)


def test_thinning_is_even_and_bounds_the_cost():
    levels = np.arange(2000.0).reshape(2, 1000)
    posterior = posterior_of(levels, np.ones_like(levels))
    thin = posterior.thinned(20)
    assert thin.draws.level.raw.shape == thin.log_joint.shape == thin.statistics["n_steps"].shape == (2, 10)
    np.testing.assert_array_equal(thin.draws.level.raw[0], np.arange(50.0, 1000.0, 100.0))
    assert posterior.thinned(1).log_joint.shape == (2, 1)
    assert posterior.thinned(10**6).log_joint.shape == (2, 1000)
    mean, _ = posterior.predict(None, np.ones((1, 1)), max_draws=20)
    np.testing.assert_allclose(mean, thin.draws.level.raw.mean(), rtol=1e-12)


def test_band_of_any_function(two):
    found = two.band(lambda m: m.realise().width * jnp.array([1.0, 2.0]), 0.5)
    np.testing.assert_allclose(found.mean, WIDTHS.mean() * np.array([1.0, 2.0]), rtol=1e-12)
    expected = np.quantile(np.outer(WIDTHS, [1.0, 2.0]), [0.25, 0.75], axis=0)
    np.testing.assert_allclose([found.lower, found.upper], expected, rtol=1e-12)


def test_predictions_of_equal_shape_share_one_program(two, monkeypatch):
    traces = []
    moments = Normals.moments
    monkeypatch.setattr(Normals, "moments", lambda *arguments: traces.append(1) or moments(*arguments))
    for rows in (20, 25, 32):  # all are filled up to 32, which no other test predicts at
        two.predict(None, np.arange(float(rows))[:, None])
    assert len(traces) == 1


def test_input_is_checked(two):
    with pytest.raises(ValueError, match="max_draws must be an integer of at least 1, got 0"):
        two.predict(None, X, max_draws=0)
    with pytest.raises(ValueError, match=r"levels must be numbers between 0 and 1, got \(0.5, 1.0\)"):
        two.quantiles(None, X, (0.5, 1.0))
    with pytest.raises(ValueError, match=r"X must have shape \[n, d\] \(or \[n\] for one input\)"):
        two.predict(None, X[None])
    with pytest.raises(ValueError, match=r"y must have shape \[t\] with t = 3"):
        two.log_predictive_density(None, X, np.zeros(2))
    with pytest.raises(TypeError, match="quantiles of outputs are for Gaussian noise, got StudentT"):
        posterior_of(LEVELS[:, None], WIDTHS[:, None], StudentT(NOISE)).quantiles_output(None, X)
    empty = posterior_of(np.zeros((2, 0)), np.ones((2, 0)))
    with pytest.raises(ValueError, match="there are no draws: the run was interrupted"):
        empty.predict(None, X)


def test_neighbour_models_mix_like_exact_ones():
    """With all points before a point as its neighbours; those of test inputs are found before the draws are mapped."""
    rng = np.random.default_rng(0)
    data = Data(rng.uniform(-1, 1, (12, 1)), rng.normal(size=12))
    order = np.arange(12)
    near = Neighbourhoods.of(data, data.X, order, 11, "lengthscale")
    draws = {"kernel": np.log([[0.3, 0.6]]), "noise": np.log([[0.2, 0.4]])}
    found = []
    for kind, held in ((ExactGP, data), (NeighbourGP, near)):
        model = kind(sg.kernels.SquaredExponential(Positive(0.5)), Positive(0.3))
        free, rest = partition(model, "hyperparameter")
        free = eqx.tree_at(
            lambda m: (m.kernel.lengthscale.raw, m.likelihood.noise.raw), free, (draws["kernel"], draws["noise"])
        )
        posterior = Posterior(free, rest, np.zeros((1, 2)), {}, False)
        found.append((*posterior.predict(held, X), posterior.log_predictive_density(held, X, np.zeros(3))))
    for exact, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, exact, rtol=1e-8)
    drawn = posterior.draw(near, X, key=0, num_samples=2)  # of the neighbour model
    assert drawn.shape == (2, 3)
    assert np.all(np.abs(drawn - found[1][0]) < 6.0 * np.sqrt(found[1][1]))


# Kernels with functions


Z = np.linspace(-1.5, 1.5, 5)[:, None]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    inputs = np.sort(rng.uniform(-1.5, 1.5, (30, 1)), axis=0)
    return Data(inputs, np.sin(4 * inputs[:, 0]) + 0.3 * rng.normal(size=30))


@pytest.fixture(scope="module")
def variational(data):
    """A bound with a q that is neither the prior nor diagonal, and draws from it."""
    kernel = sg.kernels.ConvolutionalSpectral(
        FunctionGroup(Z, 0.5, shape=(2, 1)), FunctionGroup(Z, [[4.0], [9.0]], shape=(2, 1), warp="softplus")
    )
    bound = DoublyStochasticGP(ExactGP(kernel, Positive(0.3)))
    rng = np.random.default_rng(1)
    means = [rng.normal(size=mean.raw.shape) for mean in bound.means]
    roots = [0.3 * np.tril(rng.normal(size=root.raw.shape)) for root in bound.roots]
    bound = eqx.tree_at(lambda b: [m.raw for m in b.means] + [r.raw for r in b.roots], bound, means + roots)
    return bound, sample_variational(bound, data, draws=1000, key=0)


def test_draws_of_a_variational_posterior_have_the_moments_of_q(variational, data):
    bound, posterior = variational
    assert posterior.log_joint.shape == (1, 1000)
    for mean, root, group in zip(
        bound.means, bound.roots, (posterior.draws.kernel.lengthscale, posterior.draws.kernel.frequency), strict=True
    ):
        draws = group.whitened.raw[0]  # [draws, m, k]
        assert draws.shape == (1000, 5, 2)
        for k in range(2):
            covariance = np.tril(root.raw[k]) @ np.tril(root.raw[k]).T
            deviation = np.sqrt(np.diag(covariance))
            errors = (draws[:, :, k].mean(axis=0) - mean.raw[k]) / (deviation / np.sqrt(1000))
            assert np.max(np.abs(errors)) < 4.5
            np.testing.assert_allclose(np.cov(draws[:, :, k].T), covariance, atol=0.2 * np.max(covariance))
    np.testing.assert_allclose(posterior.at(0, 7).log_joint(data), posterior.log_joint[0, 7], rtol=1e-10)


def test_prediction_is_that_of_the_models_at_the_draws(variational, data):
    _, posterior = variational
    few = posterior.thinned(3)
    T, y = np.linspace(-1.0, 1.0, 4)[:, None], np.array([0.1, -0.3, 0.0, 0.5])
    models = [few.at(0, i) for i in range(3)]
    parts = [model.predict(data, T) for model in models]
    mean, variance = few.predict(data, T)
    np.testing.assert_allclose(mean, np.mean([p.mean for p in parts], axis=0), rtol=1e-9)
    second = np.mean([p.variance + p.mean**2 for p in parts], axis=0)
    np.testing.assert_allclose(variance, second - mean**2, rtol=1e-7)
    logs = [model.log_predictive_density(data, T, y) for model in models]
    np.testing.assert_allclose(few.log_predictive_density(data, T, y), logsumexp(logs, axis=0) - np.log(3), rtol=1e-9)


def test_spectrogram_and_local_frequency_over_the_posterior(variational):
    _, posterior = variational
    T, s = np.linspace(-1.0, 1.0, 4)[:, None], np.linspace(0.0, 3.0, 6)
    few = posterior.thinned(5)
    kernels = [few.at(0, i).realise().kernel for i in range(5)]
    for found, values in [
        (few.spectrogram(T, s, 0.8, resolution=0.1), [sg.spectrogram(k, T, s, resolution=0.1) for k in kernels]),
        (few.local_frequency(T, 0.8), [np.abs(sg.local_spectrum(k, T).frequency[..., 0]) for k in kernels]),
    ]:
        np.testing.assert_allclose(found.mean, np.mean(values, axis=0), rtol=1e-8)
        np.testing.assert_allclose([found.lower, found.upper], np.quantile(values, (0.1, 0.9), axis=0), rtol=1e-8)
        assert np.all(found.lower <= found.upper)


def test_draws_of_another_variational_posterior_compile_nothing(variational, data):
    """Programs that a loop of fits makes anew stay in memory for good."""
    bound, posterior = variational
    with counting_programs() as built:
        other = sample_variational(
            eqx.tree_at(lambda b: b.means[0].raw, bound, replace_fn=np.negative), data, draws=1000, key=1
        )
    assert not built
    assert not np.array_equal(other.log_joint, posterior.log_joint)


def test_a_sparse_model_needs_no_other_prediction(data):
    """q(u_f) of a sparse model: the mixture of its draws has the moments of the closed form."""
    bound = DoublyStochasticGP(SparseGP(sg.kernels.SquaredExponential(0.7), 0.3, Z), std=0.5)
    posterior = sample_variational(bound, data, draws=4000, key=0)
    mean, variance = posterior.predict(data, X[:2], max_draws=4000)
    # v ~ N(0, ¼ I) instead of N(0, I): a quarter of what v explains, and all of what it does not.
    kernel = bound.model.kernel
    z, q = kernel.local(Z), kernel.local(X[:2])
    A = np.linalg.solve(np.linalg.cholesky(kernel.gram(z)), kernel.cross(z, q))
    np.testing.assert_allclose(mean, 0.0, atol=5 * 0.5 / np.sqrt(4000))
    np.testing.assert_allclose(variance, 1.0 - 0.75 * np.sum(A**2, axis=0), rtol=0.05)


# An optimum, covariances, components


def test_an_optimum_is_a_posterior_of_one_draw(data):
    model = ExactGP(sg.kernels.SquaredExponential(Positive(0.5)), Positive(0.3))
    point = Posterior.at_point(model)
    assert point.log_joint.shape == (1, 1)
    for found, expected in zip(point.predict_output(data, X), model.predict_output(data, X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(
        point.log_predictive_density(data, X, np.zeros(3)),
        model.log_predictive_density(data, X, np.zeros(3)),
        rtol=1e-9,
    )
    assert point.local_frequency(X).lower is None  # one draw has no interval
    # Without any free parameter there is still one draw.
    fixed = Posterior.at_point(ExactGP(sg.kernels.SquaredExponential(0.5), 0.3))
    np.testing.assert_allclose(fixed.predict(data, X).mean, point.predict(data, X).mean, rtol=1e-10)


def test_covariance_is_that_of_the_mixture(two):
    """E C + E m mᵀ − E m E mᵀ, written out."""
    means = LEVELS[:, None] * X[:, 0]
    second = np.mean([np.outer(m, m) + w**2 * np.eye(3) for m, w in zip(means, WIDTHS, strict=True)], axis=0)
    expected = second - np.outer(means.mean(axis=0), means.mean(axis=0))
    np.testing.assert_allclose(two.covariance(None, X), expected, rtol=1e-12)
    np.testing.assert_allclose(two.covariance(None, X, noise=True), expected + NOISE**2 * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(np.diag(two.covariance(None, X)), two.predict(None, X).variance, rtol=1e-12)


def test_covariance_of_a_neighbour_model_is_its_own():
    rng = np.random.default_rng(0)
    data = Data(rng.uniform(-1, 1, (12, 1)), rng.normal(size=12))
    model = NeighbourGP(sg.kernels.SquaredExponential(0.5), 0.3)
    near = Neighbourhoods.of(data, data.X, np.arange(12), 11, "lengthscale")
    np.testing.assert_allclose(
        Posterior.at_point(model).covariance(near, X), model.covariance(near, X), rtol=1e-9, atol=1e-12
    )


def test_components_follow_the_law_of_total_variance(data):
    kernel = sg.kernels.SpectralMixture(0.7, [[9.0], [0.5]], Positive([0.9, 0.6]))
    model = ExactGP(kernel, 0.3)
    free, rest = partition(model, "hyperparameter")
    draws = np.log([[[0.9, 0.6], [0.5, 1.1]]])
    free = eqx.tree_at(lambda m: m.kernel.amplitude.raw, free, draws)
    posterior = Posterior(free, rest, np.array([[0.0, 1.0]]), {})
    np.testing.assert_array_equal(posterior.most_probable().kernel.amplitude.raw, draws[0, 1])
    each = []
    for i in range(2):
        realised = posterior.at(0, i).realise()
        each.append([realised.component_moments(data, X, a) for a in range(2)])
    mean, lower, upper = posterior.components(data, X, 0.9)
    assert mean.shape == (3, 2)
    for a in range(2):
        means = np.array([draw[a].mean for draw in each])
        second = np.mean([draw[a].variance + draw[a].mean ** 2 for draw in each], axis=0)
        np.testing.assert_allclose(mean[:, a], means.mean(axis=0), rtol=1e-8)
        std = np.sqrt(second - means.mean(axis=0) ** 2)
        np.testing.assert_allclose(upper[:, a] - mean[:, a], stats.norm.ppf(0.95) * std, rtol=1e-6)
        np.testing.assert_allclose(mean[:, a] - lower[:, a], stats.norm.ppf(0.95) * std, rtol=1e-6)
    np.testing.assert_allclose(mean.sum(axis=1), posterior.predict(data, X).mean, atol=1e-9)
