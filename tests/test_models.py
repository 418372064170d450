"""Every approximation is tied to the exact Gaussian process; every objective's gradient to finite differences."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import spectrogp as sg
import zoo
from spectrogp.data import Data, draw_rows
from spectrogp.likelihoods import Bernoulli, Gaussian, StudentT
from spectrogp.models import (
    CollapsedGP,
    ExactGP,
    FullScaleGP,
    LinearRegression,
    NeighbourGP,
    Neighbourhoods,
    Refresh,
    SparseGP,
    VariationalGP,
)
from spectrogp.models import collapsed as collapsed_module
from spectrogp.neighbours import random_order
from spectrogp.parameters import Positive, partition
from spectrogp.processes import FunctionGroup

N = 14
TEST = np.linspace(-1.1, 1.3, 6)


def noise(X):
    return 0.3 + 0.1 * jnp.sin(X[:, 0])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-1.5, 1.5, N))[:, None]
    return Data.checked(X, np.sin(4 * X[:, 0]) + 0.2 * rng.normal(size=N), error=0.05 + 0.1 * rng.uniform(size=N))


@pytest.fixture(scope="module")
def everyone(data):
    """Neighbourhoods in which every point is conditioned on all before it."""
    return Neighbourhoods.of(data, np.asarray(data.X), random_order(N, 0), N - 1)


def predict(model, data, X):
    if isinstance(data, Neighbourhoods):
        data = dataclasses.replace(data, near=np.tile(np.arange(N), (len(X), 1)))
    return model.enter().moments(data, jnp.asarray(X))


@pytest.mark.parametrize("case", zoo.KERNELS, ids=lambda case: case.name)
def test_all_models_equal_the_exact_one_in_the_limit(case, data, everyone):
    # One compilation for all models of a kernel.
    @eqx.filter_jit
    def everything(kernel):
        exact = ExactGP(kernel, noise)
        models = [
            (exact, data),
            (CollapsedGP(kernel, noise, data.X), data),
            (VariationalGP(kernel, noise, data.X).with_optimal_posterior(data), data),
            (NeighbourGP(kernel, noise), everyone),
            (FullScaleGP(kernel, noise, data.X[::3]), everyone),
        ]
        return {
            type(model).__name__: (model.log_joint(seen), *predict(model, seen, TEST[:, None]))
            for model, seen in models
        }

    with zoo.double():
        results = everything(case.kernel(1))
        value, mean, variance = results.pop("ExactGP")
        # Some kernels of the zoo are so smooth that K(Z, Z) is singular to rounding: jitter then costs up to 1e-7.
        for name, (other_value, other_mean, other_variance) in results.items():
            np.testing.assert_allclose(other_value, value, rtol=1e-6, atol=1e-6, err_msg=name)
            np.testing.assert_allclose(other_mean, mean, atol=1e-6, err_msg=name)
            np.testing.assert_allclose(other_variance, variance, atol=1e-6, err_msg=name)


def functional(rng):
    """A CSK with functions for lengthscale, frequency and amplitude, none of them constant."""
    Z = np.linspace(-1.5, 1.5, 4)[:, None]
    kernel = sg.kernels.ConvolutionalSpectral(
        FunctionGroup(Z, [[0.4], [0.6]], shape=(2, 1)),
        FunctionGroup(Z, [[1.0], [5.0]], shape=(2, 1), warp="softplus"),
        FunctionGroup(Z, 0.8, shape=(2,)),
    )
    groups = lambda k: (k.lengthscale.whitened.raw, k.frequency.whitened.raw, k.amplitude.whitened.raw)  # noqa: E731
    return eqx.tree_at(groups, kernel, tuple(rng.normal(size=np.shape(v)) for v in groups(kernel)))


def objectives(data, everyone):
    rng = np.random.default_rng(3)
    kernel, sigma = functional(rng), FunctionGroup(np.array([[-1.0], [1.0]]), 0.3)
    Z = data.X[::3]
    few = Neighbourhoods.of(data, np.asarray(data.X), random_order(N, 1), 3)
    variational = eqx.filter_jit(VariationalGP.with_optimal_posterior)(VariationalGP(kernel, sigma, Z), data)
    shifted = lambda likelihood: eqx.tree_at(lambda m: m.likelihood, variational, likelihood)  # noqa: E731
    sparse = SparseGP(kernel, sigma, Z)
    ones = Data.checked(data.X, (data.y > 0).astype(float))
    return {
        "exact": (ExactGP(kernel, sigma), data),
        "collapsed": (CollapsedGP(kernel, sigma, Z), data),
        "variational": (variational, data),
        "variational, Student": (shifted(StudentT(sigma, 5.0)), data),
        "variational, Bernoulli": (shifted(Bernoulli()), ones),
        "sparse": (eqx.tree_at(lambda m: m.whitened.raw, sparse, rng.normal(size=len(Z))), data),
        "neighbours": (NeighbourGP(kernel, sigma), few),
        "full-scale": (FullScaleGP(kernel, sigma, Z), few),
        "linear": (LinearRegression(Positive(2.0), Positive(0.3)), data),
    }


NAMES = ["exact", "collapsed", "variational", "variational, Student", "variational, Bernoulli", "sparse"]


@pytest.mark.parametrize("name", [*NAMES, "neighbours", "full-scale", "linear"])
def test_gradients_equal_finite_differences(name, data, everyone):
    with zoo.double():
        model, seen = objectives(data, everyone)[name]
        free, rest = partition(model, "latent", "hyperparameter", "variational")
        raw, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))
        value = jax.jit(lambda raw: eqx.combine(unravel(raw), rest).log_joint(seen))
        slope = jax.jit(jax.grad(value))(raw)
        # Directional derivatives along random directions, by central differences of step h: error O(h²) + O(eps/h).
        for seed in range(3):
            v = jnp.asarray(np.random.default_rng(seed).normal(size=raw.shape))
            v, h = v / jnp.linalg.norm(v), 1e-5
            difference = (value(raw + h * v) - value(raw - h * v)) / (2 * h)
            np.testing.assert_allclose(slope @ v, difference, rtol=1e-5, atol=1e-6)


def test_collapsed_bound_lies_below_the_evidence():
    kernel = sg.kernels.ConvolutionalSpectral(0.4, lambda X: 3.0 + X)
    with zoo.double():

        @jax.jit
        def both(X, y, Z, sigma):
            seen = Data(X, y, jnp.zeros_like(y))
            return CollapsedGP(kernel, sigma, Z).log_joint(seen), ExactGP(kernel, sigma).log_joint(seen)

        for seed in range(100):
            rng = np.random.default_rng(seed)
            X, Z = rng.uniform(-2, 2, (12, 1)), rng.uniform(-2, 2, (5, 1))
            bound, evidence = both(X, rng.normal(size=12), Z, jnp.asarray(rng.uniform(0.05, 1.0)))
            assert bound <= evidence + 1e-9


def test_variational_bound_lies_below_the_collapsed_one(data):
    kernel, Z = functional(np.random.default_rng(0)), np.asarray(data.X)[::3]
    with zoo.double():
        collapsed = CollapsedGP(kernel, noise, Z).log_joint(data)
        start = VariationalGP(kernel, noise, Z)
        best = start.with_optimal_posterior(data)
        assert start.log_joint(data) < best.log_joint(data)
        np.testing.assert_allclose(best.log_joint(data), collapsed, rtol=1e-8)


@pytest.mark.parametrize("name", ["neighbours", "variational", "sparse"])
def test_minibatches_average_to_the_whole(name, data, everyone):
    with zoo.double():
        model, seen = objectives(data, everyone)[name]
        likelihood = eqx.filter_jit(lambda seen: model.enter().log_likelihood(seen, None))
        whole = likelihood(seen)
        parts = [np.arange(0, 7), np.arange(7, 14)]
        if isinstance(seen, Neighbourhoods):
            batches = [Neighbourhoods(seen.data, np.asarray(seen.members)[part]) for part in parts]
        else:
            batches = [seen.rows(part) for part in parts]
        mean = np.mean([likelihood(batch) for batch in batches])
        np.testing.assert_allclose(mean, whole, rtol=1e-10)
        assert seen.minibatch(jax.random.key(0), 5).scale == N / 5


def test_values_equal_scikit_learn(data):
    sigma, ell = 0.3, 0.7
    peer = GaussianProcessRegressor(RBF(ell), alpha=sigma**2, optimizer=None).fit(data.X, data.y)
    mean, deviation = peer.predict(TEST[:, None], return_std=True)
    plain = Data.checked(data.X, data.y)
    with zoo.double():
        model = ExactGP(sg.kernels.SquaredExponential(ell), sigma)
        moments = predict(model, plain, TEST[:, None])
        np.testing.assert_allclose(model.log_joint(plain), peer.log_marginal_likelihood_value_, rtol=1e-10)
        np.testing.assert_allclose(moments.mean, mean, atol=1e-10)
        np.testing.assert_allclose(np.sqrt(moments.variance), deviation, atol=1e-8)
        joint = model.enter().covariance(plain, jnp.asarray(TEST[:, None]))
        np.testing.assert_allclose(joint, peer.predict(TEST[:, None], return_cov=True)[1], atol=1e-10)
        sparse = CollapsedGP(sg.kernels.SquaredExponential(ell), sigma, plain.X).enter()
        np.testing.assert_allclose(sparse.covariance(plain, jnp.asarray(TEST[:, None])), joint, atol=1e-6)


def test_joint_predictions_agree_with_each_other(data):
    """Of every model without neighbour sets: covariance, draws and densities are those of its mean and variance."""
    kernel = functional(np.random.default_rng(0))
    Z = data.X[::3]
    sparse = eqx.tree_at(lambda m: m.whitened.raw, SparseGP(kernel, noise, Z), np.linspace(-1.0, 1.0, len(Z)))
    with zoo.double():
        best = VariationalGP(kernel, noise, Z).with_optimal_posterior(data)
    models = [ExactGP(kernel, noise), CollapsedGP(kernel, noise, Z), best, sparse, LinearRegression(2.0, noise)]
    X, y, error = TEST[:, None], np.cos(TEST), 0.1 + 0.1 * TEST**2
    for model in models:
        name = type(model).__name__
        f, output = model.predict(data, X), model.predict_output(data, X, error)
        joint = model.covariance(data, X)
        np.testing.assert_allclose(np.diag(joint), f.variance, atol=1e-12, err_msg=name)
        assert np.min(np.linalg.eigvalsh(joint)) > -1e-10
        np.testing.assert_array_equal(output.mean, f.mean)
        scale = 0.3 + 0.1 * np.sin(TEST)
        np.testing.assert_allclose(output.variance, f.variance + scale**2 + error**2, rtol=1e-12, err_msg=name)
        density = model.log_predictive_density(data, X, y, error)
        expected = norm.logpdf(y, output.mean, np.sqrt(output.variance))
        np.testing.assert_allclose(density, expected, rtol=1e-10, err_msg=name)
        draws = model.draw(data, X, key=0, num_samples=20_000)
        top = np.sqrt(np.max(f.variance))
        np.testing.assert_allclose(draws.mean(axis=0), f.mean, atol=5 * top / np.sqrt(20_000), err_msg=name)
        np.testing.assert_allclose(np.cov(draws.T), joint, atol=5 * top**2 * np.sqrt(2 / 20_000), err_msg=name)
    with zoo.double():
        collapsed, variational = models[1], models[2]
        np.testing.assert_allclose(variational.covariance(data, X), collapsed.covariance(data, X), atol=1e-8)


def test_predictions_in_blocks_equal_those_at_once(data, monkeypatch):
    model, X = CollapsedGP(sg.kernels.SquaredExponential(0.5), 0.3, data.X[::2]), np.linspace(-2.0, 2.0, 11)[:, None]
    whole = model.predict(data, X)
    monkeypatch.setattr(collapsed_module, "BLOCK", 4)
    with zoo.double():
        blocks = model.moments(data, jnp.asarray(X))
    np.testing.assert_allclose(np.stack(blocks), np.stack(whole), rtol=1e-12)


def test_bad_arguments_of_predictions_are_refused_by_name(data):
    model = ExactGP(sg.kernels.SquaredExponential(0.5), 0.3)
    with pytest.raises(ValueError, match="X must be finite"):
        model.predict(data, [[np.nan]])
    with pytest.raises(ValueError, match=r"y must have shape \[t\] with t = 2 as X has, got \[3\]"):
        model.log_predictive_density(data, [[0.0], [1.0]], np.zeros(3))
    with pytest.raises(ValueError, match="num_samples"):
        model.draw(data, [[0.0]], key=0, num_samples=0)


def test_one_natural_step_gives_the_best_posterior(data):
    """With Gaussian noise, all data and rate 1, from any start; smaller steps approach it."""
    kernel, rng = functional(np.random.default_rng(0)), np.random.default_rng(5)
    with zoo.double():
        start = VariationalGP(kernel, noise, data.X[::3])
        root = np.tril(rng.normal(size=(5, 5))) + 3.0 * np.eye(5)
        start = eqx.tree_at(lambda m: (m.mean.raw, m.root.raw), start, (rng.normal(size=5), root))
        best, one = start.with_optimal_posterior(data), start.natural_step(data, 1.0)
        np.testing.assert_allclose(one.mean.raw, best.mean.raw, atol=1e-9)
        np.testing.assert_allclose(one.root.raw, best.root.raw, atol=1e-9)
        half = start.natural_step(data, 0.5)
        assert start.log_joint(data) < half.log_joint(data) < best.log_joint(data)


def test_natural_steps_find_the_posterior_of_other_likelihoods(data):
    """For Bernoulli outputs the natural gradient vanishes only at the optimum of the bound over q."""
    ones = Data.checked(data.X, (data.y > 0).astype(float))
    with zoo.double():
        model = VariationalGP(sg.kernels.SquaredExponential(0.5), Bernoulli(), data.X[::3])
        step = eqx.filter_jit(lambda model: model.natural_step(ones, 0.5))
        for _ in range(60):
            model = step(model)
        free, rest = partition(model, "variational")
        slope = jax.grad(lambda free: eqx.combine(free, rest).log_joint(ones))(free)
        assert max(float(np.max(np.abs(np.tril(leaf)))) for leaf in jax.tree.leaves(slope)) < 1e-6


def test_linear_regression_is_a_gaussian_process_with_a_linear_kernel(data):
    plain = Data.checked(data.X, data.y)
    with zoo.double():
        model = LinearRegression(2.0, 0.3)
        K = 4.0 * (plain.X @ plain.X.T + 1.0) + 0.09 * np.eye(N)
        expected = -0.5 * (plain.y @ np.linalg.solve(K, plain.y) + np.linalg.slogdet(2 * np.pi * K)[1])
        np.testing.assert_allclose(model.log_joint(plain), expected, rtol=1e-9)
        k = 4.0 * (TEST[:, None] @ plain.X.T + 1.0)
        np.testing.assert_allclose(
            predict(model, plain, TEST[:, None]).mean, k @ np.linalg.solve(K, plain.y), atol=1e-9
        )


@pytest.mark.parametrize(("metric", "case"), [("correlation", zoo.KERNELS[2]), ("lengthscale", zoo.KERNELS[3])])
def test_joint_prediction_by_neighbours_is_exact_at_full_sets(case, metric, data):
    with zoo.double():
        kernel = case.kernel(1)
        exact = ExactGP(kernel, noise).enter()
        X = jnp.asarray(TEST[:, None])
        mean, variance = exact.predict(data, X)
        for model in [NeighbourGP(kernel, noise), FullScaleGP(kernel, noise, data.X[::3])]:
            # Neighbours of the test inputs are found by the model itself, under its own kernel.
            everyone = Refresh(data, N - 1, metric=metric)(model)
            moments = model.enter().predict(everyone, X)
            np.testing.assert_allclose(moments.mean, mean, atol=1e-6)
            np.testing.assert_allclose(moments.variance, variance, atol=1e-6)
            joint = model.enter().covariance(everyone, X)
            np.testing.assert_allclose(joint, exact.covariance(data, X), atol=1e-6)


def test_joint_prediction_holds_for_repeated_and_single_test_inputs(data):
    with zoo.double():
        model = NeighbourGP(sg.kernels.SquaredExponential(0.7), 0.3)
        near = Refresh(data, 5)(model)
        same = model.enter().covariance(near, jnp.zeros((3, 1)))
        # Equal inputs have equal values: one covariance everywhere, up to the jitter that factors singular matrices.
        np.testing.assert_allclose(same, jnp.full((3, 3), same[0, 0]), atol=1e-6)
        np.testing.assert_allclose(same[:1, :1], model.enter().covariance(near, jnp.zeros((1, 1))), atol=1e-6)


def test_neighbours_are_renewed_when_they_are_due(data):
    model = NeighbourGP(sg.kernels.SpectralMixture(2.0, 2 * np.pi), 0.3)
    other = NeighbourGP(sg.kernels.SpectralMixture(2.0, 0.1), 0.3)
    refresh = Refresh(data, 3, every=100)
    with zoo.double():
        first = refresh(model, 0)
        assert refresh(other, 50) is first
        second = refresh(other, 100)
        assert second.members.shape == first.members.shape
        assert np.any(second.members != first.members)
        with pytest.raises(TypeError, match="neighbours are found outside jit"):
            jax.jit(lambda X: model.enter().predict(first, X))(jnp.zeros((2, 1)))
    with pytest.raises(ValueError, match="every must be 1 step or more, got 0"):
        Refresh(data, 3, every=0)
    with pytest.raises(ValueError, match="metric must be 'correlation' or 'lengthscale', got 'far'"):
        Refresh(data, 3, metric="far")(model)
    with pytest.raises(ValueError, match="number of neighbours must be 1 or more, got 0"):
        Refresh(data, 0)(model)


def test_minibatch_rows_differ_and_are_equally_likely():
    drawn = np.asarray(jax.vmap(lambda key: draw_rows(key, 11, 4))(jax.random.split(jax.random.key(0), 20_000)))
    assert all(len(set(rows)) == 4 for rows in drawn[:200])
    # Each row is in a batch with probability 4/11; a count has a standard deviation of at most 68.
    np.testing.assert_allclose(np.bincount(drawn.ravel(), minlength=11), 20_000 * 4 / 11, atol=5 * 68)
    assert sorted(np.asarray(draw_rows(jax.random.key(1), 11, 11))) == list(range(11))
    with pytest.raises(ValueError, match="between 1 and all 11 rows, got 12"):
        draw_rows(jax.random.key(0), 11, 12)


def test_full_scale_improves_on_neighbours_alone(data):
    kernel = sg.kernels.SquaredExponential(1.0)
    few = Neighbourhoods.of(data, np.asarray(data.X), random_order(N, 0), 2)
    with zoo.double():
        evidence = ExactGP(kernel, 0.3).log_joint(data)
        near = abs(NeighbourGP(kernel, 0.3).log_joint(few) - evidence)
        both = abs(FullScaleGP(kernel, 0.3, data.X[::3]).log_joint(few) - evidence)
        assert both < 0.2 * near


def test_models_that_integrate_f_out_refuse_other_likelihoods():
    with pytest.raises(TypeError, match="needs Gaussian noise, got StudentT; VariationalGP and SparseGP take any"):
        ExactGP(sg.kernels.SquaredExponential(1.0), StudentT(0.1))
    assert isinstance(ExactGP(sg.kernels.SquaredExponential(1.0), 0.1).likelihood, Gaussian)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.zeros(3), "y": np.zeros(3)}, r"X must have shape \[n, d\]"),
        ({"X": np.zeros((3, 1)), "y": np.zeros(2)}, r"y must have shape \[n\] with n = 3 as X has, got \[2\]"),
        ({"X": np.full((3, 1), np.nan), "y": np.zeros(3)}, r"X must be finite, got nan at index \[0, 0\]"),
        ({"X": np.zeros((3, 1)), "y": np.array([0, np.inf, 0])}, r"y must be finite, got inf at index \[1\]"),
        ({"X": np.zeros((3, 1)), "y": np.zeros(3), "error": -1.0}, "error must be zero or positive, got -1"),
        ({"X": np.zeros((0, 1)), "y": np.zeros(0)}, "at least one row"),
    ],
)
def test_bad_data_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        Data.checked(**arguments)


@pytest.mark.parametrize("y", [np.zeros(6), np.arange(6.0)])
def test_constant_outputs_and_duplicated_inputs_give_finite_answers(y):
    data = Data.checked(np.repeat([[0.0], [1.0]], 3, axis=0), y)
    few = Neighbourhoods.of(data, np.asarray(data.X), random_order(6, 0), 20)  # more neighbours asked than there are
    kernel = sg.kernels.SquaredExponential(1.0)
    with zoo.double():
        for model, seen in [
            (ExactGP(kernel, 0.1), data),
            (CollapsedGP(kernel, 0.1, np.zeros((9, 1))), data),  # more inducing points than data, all the same
            (NeighbourGP(kernel, 0.1), few),
            (FullScaleGP(kernel, 0.1, np.zeros((2, 1))), few),
        ]:
            assert np.isfinite(model.log_joint(seen)), type(model).__name__
