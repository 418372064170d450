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
from spectrogp.core import entry_point
from spectrogp.models import (
    Bernoulli,
    CollapsedGP,
    Data,
    ExactGP,
    FullScaleGP,
    Gaussian,
    LinearRegression,
    MarkovGP,
    NeighbourGP,
    Neighbourhoods,
    Refresh,
    SparseGP,
    StudentT,
    VariationalGP,
    base,
    random_order,
    variational,
)
from spectrogp.models.data import draw_rows
from spectrogp.parameters import FunctionGroup, GridFunctionGroup, Positive, Real, partition

pytestmark = pytest.mark.usefixtures("compile_quickly")

N = 14
TEST = np.linspace(-1.1, 1.3, 6)


def noise(X):
    return 0.3 + 0.1 * jnp.sin(X[:, 0])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-1.5, 1.5, N))[:, None]
    return Data(X, np.sin(4 * X[:, 0]) + 0.2 * rng.normal(size=N), error=0.05 + 0.1 * rng.uniform(size=N))


@pytest.fixture(scope="module")
def everyone(data):
    """Neighbourhoods in which every point is conditioned on all before it."""
    return Neighbourhoods.of(data, np.asarray(data.X), random_order(N, 0), N - 1)


def predict(model, data, X):
    if isinstance(data, Neighbourhoods):
        data = dataclasses.replace(data, near=np.tile(np.arange(N), (len(X), 1)))
    return model.realise().moments(data, jnp.asarray(X))


# One kernel of each way to make matrices, and the rest where there is time: programs of five models are large.
# The sum has a stationary, a convolutional and a deep kernel in it.
QUICK = ("chirplet free", "harmonizable")


@entry_point
@eqx.filter_jit
def log_joint(model, data):
    return model.log_joint(data)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case.name in QUICK else pytest.mark.slow) for case in zoo.KERNELS],
    ids=lambda case: case.name,
)
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
        if isinstance(kernel, sg.kernels.MaternPhase):
            models.append((MarkovGP(kernel, noise), data))
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


def on_grids(rng):
    """An oscillation with functions on grids, none of them constant, and a trend."""

    def group(initial, **options):
        made = GridFunctionGroup((-1.5, 1.5), initial, **options)
        return eqx.tree_at(lambda g: g.whitened.raw, made, rng.normal(size=made.whitened.raw.shape))

    oscillation = sg.kernels.MaternPhase(
        sg.kernels.WarpedTime(group([[0.8], [0.6]], shape=(2, 1))),
        sg.kernels.IntegratedPhase(group([[1.0], [5.0]], shape=(2, 1), warp="softplus")),
        group(0.8, shape=(2,)),
    )
    return oscillation + sg.kernels.MaternPhase(sg.kernels.WarpedTime(Positive(2.0)), amplitude=0.5, order=2.5)


OBJECTIVES = (
    "exact",
    "collapsed",
    "variational",
    "variational, Student",
    "variational, Bernoulli",
    "sparse",
    "neighbours",
    "full-scale",
    "linear",
    "Markov",
)


@pytest.fixture(scope="module")
def objectives(data):
    """Models of all kinds with functions, and their data."""
    rng = np.random.default_rng(3)
    kernel, sigma = functional(rng), FunctionGroup(np.array([[-1.0], [1.0]]), 0.3)
    Z = data.X[::3]
    few = Neighbourhoods.of(data, np.asarray(data.X), random_order(N, 1), 3)
    with zoo.double():
        fitted = eqx.filter_jit(VariationalGP.with_optimal_posterior)(VariationalGP(kernel, sigma, Z), data)
    shifted = lambda likelihood: eqx.tree_at(lambda m: m.likelihood, fitted, likelihood)  # noqa: E731
    sparse = SparseGP(kernel, sigma, Z)
    ones = Data(data.X, (data.y > 0).astype(float))
    made = {
        "exact": (ExactGP(kernel, sigma), data),
        "collapsed": (CollapsedGP(kernel, sigma, Z), data),
        "variational": (fitted, data),
        "variational, Student": (shifted(StudentT(sigma, 5.0)), data),
        "variational, Bernoulli": (shifted(Bernoulli()), ones),
        "sparse": (eqx.tree_at(lambda m: m.whitened.raw, sparse, rng.normal(size=len(Z))), data),
        "neighbours": (NeighbourGP(kernel, sigma), few),
        "full-scale": (FullScaleGP(kernel, sigma, Z), few),
        "linear": (LinearRegression(Positive(2.0), Positive(0.3)), data),
        "Markov": (MarkovGP(on_grids(rng), GridFunctionGroup((-1.5, 1.5), 0.3), Real(0.2)), data),
    }
    assert tuple(made) == OBJECTIVES
    return made


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_equal_finite_differences(name, objectives):
    with zoo.double():
        model, seen = objectives[name]
        free, rest = partition(model, "latent", "hyperparameter", "variational")
        raw, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))
        both = jax.jit(jax.value_and_grad(lambda raw: eqx.combine(unravel(raw), rest).log_joint(seen)))
        slope = both(raw)[1]
        # Directional derivatives along random directions, by central differences of step h: error O(h²) + O(eps/h).
        for seed in range(3):
            v = jnp.asarray(np.random.default_rng(seed).normal(size=raw.shape))
            v, h = v / jnp.linalg.norm(v), 1e-5
            difference = (both(raw + h * v)[0] - both(raw - h * v)[0]) / (2 * h)
            np.testing.assert_allclose(slope @ v, difference, rtol=1e-5, atol=1e-6)


def test_collapsed_bound_lies_below_the_marginal_likelihood():
    kernel = sg.kernels.ConvolutionalSpectral(0.4, lambda X: 3.0 + X)
    with zoo.double():

        @jax.jit
        def both(X, y, Z, sigma):
            seen = Data.unchecked(X, y)
            return CollapsedGP(kernel, sigma, Z).log_joint(seen), ExactGP(kernel, sigma).log_joint(seen)

        for seed in range(100):
            rng = np.random.default_rng(seed)
            X, Z = rng.uniform(-2, 2, (12, 1)), rng.uniform(-2, 2, (5, 1))
            bound, evidence = both(X, rng.normal(size=12), Z, jnp.asarray(rng.uniform(0.05, 1.0)))
            assert bound <= evidence + 1e-9


best_posterior = entry_point(eqx.filter_jit(VariationalGP.with_optimal_posterior))


def test_variational_bound_lies_below_the_collapsed_one(data):
    kernel, Z = functional(np.random.default_rng(0)), np.asarray(data.X)[::3]
    start = VariationalGP(kernel, noise, Z)
    best = best_posterior(start, data)
    assert log_joint(start, data) < log_joint(best, data)
    np.testing.assert_allclose(log_joint(best, data), log_joint(CollapsedGP(kernel, noise, Z), data), rtol=1e-8)


@pytest.mark.parametrize("name", ["neighbours", "variational", "sparse"])
def test_minibatches_average_to_the_whole(name, objectives):
    with zoo.double():
        model, seen = objectives[name]
        likelihood = eqx.filter_jit(lambda seen: model.realise().log_likelihood(seen, None))
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
    plain = Data(data.X, data.y)
    with zoo.double():
        model = ExactGP(sg.kernels.SquaredExponential(ell), sigma)
        moments = predict(model, plain, TEST[:, None])
        np.testing.assert_allclose(log_joint(model, plain), peer.log_marginal_likelihood_value_, rtol=1e-10)
        np.testing.assert_allclose(moments.mean, mean, atol=1e-10)
        np.testing.assert_allclose(np.sqrt(moments.variance), deviation, atol=1e-8)
        joint = model.realise().covariance(plain, jnp.asarray(TEST[:, None]))
        np.testing.assert_allclose(joint, peer.predict(TEST[:, None], return_cov=True)[1], atol=1e-10)
        sparse = CollapsedGP(sg.kernels.SquaredExponential(ell), sigma, plain.X).realise()
        np.testing.assert_allclose(sparse.covariance(plain, jnp.asarray(TEST[:, None])), joint, atol=1e-6)


@entry_point
@eqx.filter_jit
def all_predictions(model, data, X, y, error):
    """Of f, of outputs, jointly, the density of outputs, and draws."""
    return (
        model.predict(data, X),
        model.predict_output(data, X, error),
        model.covariance(data, X),
        model.log_predictive_density(data, X, y, error),
        model.draw(data, X, key=0, num_samples=20_000),
    )


@pytest.mark.slow
def test_joint_predictions_agree_with_each_other(data):
    """Of every model without neighbour sets: covariance, draws and densities are those of its mean and variance."""
    kernel = sg.kernels.ConvolutionalSpectral(0.5, lambda X: 3.0 + X, [0.5, 1.0])
    Z = data.X[::3]
    sparse = eqx.tree_at(lambda m: m.whitened.raw, SparseGP(kernel, noise, Z), np.linspace(-1.0, 1.0, len(Z)))
    best = best_posterior(VariationalGP(kernel, noise, Z), data)
    models = [ExactGP(kernel, noise), CollapsedGP(kernel, noise, Z), best, sparse, LinearRegression(2.0, noise)]
    markov = sg.kernels.MaternPhase(sg.kernels.WarpedTime(0.5), lambda X: 5.0 * X[:, 0], [0.5, 1.0])
    models.append(MarkovGP(markov, noise, 0.3))
    X, y, error, joints = TEST[:, None], np.cos(TEST), 0.1 + 0.1 * TEST**2, []
    for model in models:
        name = type(model).__name__
        f, output, joint, density, draws = all_predictions(model, data, X, y, error)
        np.testing.assert_allclose(np.diag(joint), f.variance, atol=1e-12, err_msg=name)
        assert np.min(np.linalg.eigvalsh(joint)) > -1e-10
        np.testing.assert_array_equal(output.mean, f.mean)
        scale = 0.3 + 0.1 * np.sin(TEST)
        np.testing.assert_allclose(output.variance, f.variance + scale**2 + error**2, rtol=1e-12, err_msg=name)
        expected = norm.logpdf(y, output.mean, np.sqrt(output.variance))
        np.testing.assert_allclose(density, expected, rtol=1e-10, err_msg=name)
        top = np.sqrt(np.max(f.variance))
        np.testing.assert_allclose(draws.mean(axis=0), f.mean, atol=5 * top / np.sqrt(20_000), err_msg=name)
        np.testing.assert_allclose(np.cov(draws.T), joint, atol=5 * top**2 * np.sqrt(2 / 20_000), err_msg=name)
        joints.append(joint)
    np.testing.assert_allclose(joints[2], joints[1], atol=1e-8)  # the variational and the collapsed one


@pytest.mark.parametrize(("kind", "home"), [(CollapsedGP, base), (VariationalGP, variational)])
def test_predictions_in_blocks_equal_those_at_once(kind, home, data, monkeypatch):
    model, X = kind(sg.kernels.SquaredExponential(0.5), 0.3, data.X[::2]), np.linspace(-2.0, 2.0, 11)[:, None]
    whole = model.predict(data, X)
    monkeypatch.setattr(home, "BLOCK", 4)
    blocks = model.predict(data, X[:10])  # of another shape, so that it is compiled anew
    np.testing.assert_allclose(np.stack(blocks), np.stack(whole)[:, :10], rtol=1e-12)


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
    start = VariationalGP(kernel, noise, data.X[::3])
    root = np.tril(rng.normal(size=(5, 5))) + 3.0 * np.eye(5)
    start = eqx.tree_at(lambda m: (m.mean.raw, m.root.raw), start, (rng.normal(size=5), root))
    natural_step = entry_point(eqx.filter_jit(lambda model, rate: model.natural_step(data, rate)))
    best, one, half = best_posterior(start, data), *(natural_step(start, np.array(rate)) for rate in (1.0, 0.5))
    np.testing.assert_allclose(one.mean.raw, best.mean.raw, atol=1e-9)
    np.testing.assert_allclose(one.root.raw, best.root.raw, atol=1e-9)
    assert log_joint(start, data) < log_joint(half, data) < log_joint(best, data)


def test_natural_steps_find_the_posterior_of_other_likelihoods(data):
    """For Bernoulli outputs the natural gradient vanishes only at the optimum of the bound over q."""
    ones = Data(data.X, (data.y > 0).astype(float))
    with zoo.double():
        model = VariationalGP(sg.kernels.SquaredExponential(0.5), Bernoulli(), data.X[::3])
        step = eqx.filter_jit(lambda model: model.natural_step(ones, 0.5))
        for _ in range(60):
            model = step(model)
        free, rest = partition(model, "variational")
        slope = jax.jit(jax.grad(lambda free: eqx.combine(free, rest).log_joint(ones)))(free)
        assert max(float(np.max(np.abs(np.tril(leaf)))) for leaf in jax.tree.leaves(slope)) < 1e-6


def test_linear_regression_is_a_gaussian_process_with_a_linear_kernel(data):
    plain = Data(data.X, data.y)
    with zoo.double():
        model = LinearRegression(2.0, 0.3)
        K = 4.0 * (plain.X @ plain.X.T + 1.0) + 0.09 * np.eye(N)
        expected = -0.5 * (plain.y @ np.linalg.solve(K, plain.y) + np.linalg.slogdet(2 * np.pi * K)[1])
        np.testing.assert_allclose(model.log_joint(plain), expected, rtol=1e-9)
        k = 4.0 * (TEST[:, None] @ plain.X.T + 1.0)
        np.testing.assert_allclose(
            predict(model, plain, TEST[:, None]).mean, k @ np.linalg.solve(K, plain.y), atol=1e-9
        )


@pytest.mark.parametrize(
    ("case", "metric", "makes"),
    [
        (
            zoo.BY_NAME["nonstationary quadratic"],
            "correlation",
            [NeighbourGP, lambda *given: FullScaleGP(*given, np.linspace(-1.4, 1.4, 5)[:, None])],
        ),
        (zoo.BY_NAME["generalized spectral mixture"], "lengthscale", [NeighbourGP]),
    ],
    ids=["correlation", "lengthscale"],
)
def test_joint_prediction_by_neighbours_is_exact_at_full_sets(case, metric, makes, data):
    kernel, X = case.kernel(1), TEST[:, None]
    exact = ExactGP(kernel, noise)
    (mean, variance), expected = exact.predict(data, X), exact.covariance(data, X)
    for model in [make(kernel, noise) for make in makes]:
        # Neighbours of the test inputs are found by the model itself, under its own kernel.
        everyone = Refresh(data, N - 1, metric=metric)(model)
        moments = model.predict(everyone, X)
        np.testing.assert_allclose(moments.mean, mean, atol=1e-6)
        np.testing.assert_allclose(moments.variance, variance, atol=1e-6)
        np.testing.assert_allclose(model.covariance(everyone, X), expected, atol=1e-6)


def test_joint_prediction_holds_for_repeated_and_single_test_inputs(data):
    with zoo.double():
        model = NeighbourGP(sg.kernels.SquaredExponential(0.7), 0.3)
        near = Refresh(data, 5)(model)
        same = model.realise().covariance(near, jnp.zeros((3, 1)))
        # Equal inputs have equal values: one covariance everywhere, up to the jitter that factors singular matrices.
        np.testing.assert_allclose(same, jnp.full((3, 3), same[0, 0]), atol=1e-6)
        np.testing.assert_allclose(same[:1, :1], model.realise().covariance(near, jnp.zeros((1, 1))), atol=1e-6)


def test_neighbours_are_those_of_the_model_as_it_is(data):
    model = NeighbourGP(sg.kernels.SpectralMixture(2.0, 2 * np.pi), 0.3)
    other = NeighbourGP(sg.kernels.SpectralMixture(2.0, 0.1), 0.3)
    refresh = Refresh(data, 3)
    first, second = refresh(model), refresh(other)
    assert second.members.shape == first.members.shape
    assert np.any(second.members != first.members)
    with zoo.double(), pytest.raises(TypeError, match="neighbours are found outside jit"):
        jax.jit(lambda X: model.realise().predict(first, X))(jnp.zeros((2, 1)))
    with pytest.raises(ValueError, match="every must be an integer of at least 1, got 0"):
        Refresh(data, 3, every=0)
    with pytest.raises(ValueError, match="metric must be 'correlation' or 'lengthscale', got 'far'"):
        Refresh(data, 3, metric="far")(model)
    with pytest.raises(ValueError, match="m must be an integer of at least 1, got 0"):
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
    exact = log_joint(ExactGP(kernel, 0.3), data)
    near = abs(log_joint(NeighbourGP(kernel, 0.3), few) - exact)
    both = abs(log_joint(FullScaleGP(kernel, 0.3, data.X[::3]), few) - exact)
    assert both < 0.2 * near


def test_models_that_integrate_f_out_refuse_other_likelihoods():
    with pytest.raises(TypeError, match="needs Gaussian noise, got StudentT; VariationalGP and SparseGP take any"):
        ExactGP(sg.kernels.SquaredExponential(1.0), StudentT(0.1))
    assert isinstance(ExactGP(sg.kernels.SquaredExponential(1.0), 0.1).likelihood, Gaussian)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.zeros((3, 1, 1)), "y": np.zeros(3)}, r"X must have shape \[n, d\] \(or \[n\] for one input\)"),
        ({"X": np.zeros((3, 1)), "y": np.zeros(2)}, r"y must have shape \[n\] with n = 3 as X has, got \[2\]"),
        ({"X": np.full((3, 1), np.nan), "y": np.zeros(3)}, r"X must be finite, got nan at index \[0, 0\]"),
        ({"X": np.zeros((3, 1)), "y": np.array([0, np.inf, 0])}, r"y must be finite, got inf at index \[1\]"),
        ({"X": np.zeros((3, 1)), "y": np.zeros(3), "error": -1.0}, "error must be zero or positive, got -1"),
        ({"X": np.zeros((0, 1)), "y": np.zeros(0)}, "at least one row"),
    ],
)
def test_bad_data_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        Data(**arguments)


@pytest.mark.parametrize("y", [np.zeros(6), np.arange(6.0)])
def test_constant_outputs_and_duplicated_inputs_give_finite_answers(y):
    data = Data(np.repeat([[0.0], [1.0]], 3, axis=0), y)
    few = Neighbourhoods.of(data, np.asarray(data.X), random_order(6, 0), 20)  # more neighbours asked than there are
    kernel = sg.kernels.SquaredExponential(1.0)
    for model, seen in [
        (ExactGP(kernel, 0.1), data),
        (CollapsedGP(kernel, 0.1, np.zeros((9, 1))), data),  # more inducing points than data, all the same
        (NeighbourGP(kernel, 0.1), few),
        (FullScaleGP(kernel, 0.1, np.zeros((2, 1))), few),
    ]:
        assert np.isfinite(log_joint(model, seen)), type(model).__name__
