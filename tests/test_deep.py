"""Deep kernels against NumPy recursions, their draws, spectrograms, gradients and inference."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import reference
import spectrogp as sg
import zoo
from spectrogp.inference import NUTS, SGHMC, Adam, maximise, sample
from spectrogp.kernels import Layer, Layered, Slot, compositional_layers, covariance_layers
from spectrogp.models import DoublyStochasticGP, ExactGP
from spectrogp.parameters import NUGGET, FunctionGroup, constrain, partition, realise

pytestmark = pytest.mark.usefixtures("compile_quickly")

Z = np.linspace(-1.0, 1.0, 6)[:, None]
X = np.linspace(-0.9, 0.8, 7)[:, None]


def with_random_latents(tree, seed=0, size=1.0):
    free, rest = partition(tree, "latent")
    rng = np.random.default_rng(seed)
    return eqx.combine(jax.tree.map(lambda leaf: size * rng.normal(size=np.shape(leaf)), free), rest)


def test_a_layer_over_a_stationary_kernel_is_a_function_group():
    shape = {"shape": (2,), "amplitude": 0.7}
    group = with_random_latents(FunctionGroup(Z, [1.0, 2.0], lengthscale=0.4, **shape))
    layer = with_random_latents(Layer(sg.kernels.SquaredExponential(0.4), Z, [1.0, 2.0], **shape))
    with zoo.double():
        np.testing.assert_allclose(layer(jnp.asarray(X)), group(jnp.asarray(X)), rtol=1e-9)


def at_inducing(K, v):
    """h(Z) = K L⁻ᵀ v, which but for the nugget is L v."""
    return K @ np.linalg.solve(np.linalg.cholesky(K + NUGGET * np.eye(len(K))).T, v)


def layers_from_the_top(kernel):
    while isinstance(kernel, Layered):
        yield kernel.functions
        kernel = kernel.functions.kernel


@pytest.mark.parametrize("family", ["nsq", "convolutional"])
@pytest.mark.parametrize("D", [1, 2])
def test_covariance_layers_are_the_recursion(family, D):
    """At the inducing inputs f_l = s L_l v_l, L_l the root of a covariance made by NumPy loops from f_(l−1)."""
    inducing = np.random.default_rng(1).uniform(-1, 1, (6, D))
    start = {"lengthscale": np.full((1, D), 0.5), "frequency": np.arange(3.0, 3.0 + D)[None]}
    kernel = with_random_latents(covariance_layers(inducing, depth=3, family=family, spread=0.4, **start))
    names = ["lengthscale", "frequency"][: 1 if family == "nsq" else 2]
    loop = reference.nonstationary_quadratic if family == "nsq" else reference.convolutional_spectral
    scale = np.sqrt(np.mean(start["frequency"] ** 2))

    def matrix(f):
        values = {name: np.broadcast_to(start[name], (6, 1, D)) for name in names}
        for i, name in enumerate(names):
            h = f[:, i * D : (i + 1) * D, None].swapaxes(1, 2)
            free = name == "frequency" and D > 1
            values[name] = values[name] + scale * h if free else values[name] * np.exp(h)
        P = [
            reference.Point(x=x, amplitude=np.ones(1), **{name: values[name][i] for name in names})
            for i, x in enumerate(inducing)
        ]
        return reference.matrix(loop, P, P)

    f = np.zeros((6, len(names) * D))
    for layer in reversed(list(layers_from_the_top(kernel))):
        f = 0.4 * at_inducing(matrix(f), layer.whitened.raw)
    np.testing.assert_allclose(kernel(inducing), matrix(f), atol=1e-8)


def test_compositional_layers_are_the_recursion():
    kernel = with_random_latents(compositional_layers(Z, depth=3, width=2, lengthscale=0.5, spread=0.4))

    def matrix(h):
        return np.exp(-0.5 * np.sum((h[:, None] - h[None]) ** 2, axis=-1) / 0.25)

    second = kernel.warp
    first = second.kernel.warp
    h = Z @ np.eye(1, 2) + 0.4 * at_inducing(matrix(Z), first.whitened.raw)
    h = h + 0.4 * at_inducing(matrix(h), second.whitened.raw)
    np.testing.assert_allclose(kernel(Z), matrix(h), atol=1e-8)


@pytest.mark.parametrize("family", ["nsq", "convolutional", "chirplet"])
def test_one_layer_is_stationary(family):
    K = covariance_layers(Z, depth=1, family=family, lengthscale=0.5, frequency=3.0)(Z)
    tau = Z - Z.T
    # Two equal windows of width ℓ overlap with exp(−τ²/(4ℓ²)).
    np.testing.assert_allclose(K, np.exp(-(tau**2)) * np.cos((family != "nsq") * 3.0 * tau), atol=1e-12)


@pytest.mark.parametrize("family", ["nsq", "convolutional", "chirplet"])
def test_deep_kernels_are_positive_and_normalised(family):
    kernel = with_random_latents(covariance_layers(Z, depth=3, family=family, components=2, amplitude=[1.0, 0.5]))
    K = kernel(X)
    np.testing.assert_allclose(np.diag(K), 1.25)
    assert np.linalg.eigvalsh(K)[0] > -1e-12


def test_the_spectrogram_of_a_composition_is_that_of_its_slope():
    """ξ = 0 and Λ = f′²/ℓ²: the same as NSQ's with the lengthscale ℓ/(√2 |f′|)."""
    kernel = with_random_latents(compositional_layers(Z, depth=3, lengthscale=0.5, spread=0.3))
    with zoo.double():
        warp = realise(constrain(kernel)).warp
        h = 1e-5
        slope = np.asarray(warp(jnp.asarray(X + h)) - warp(jnp.asarray(X - h)))[:, 0] / (2 * h)
    spectrum = sg.local_spectrum(kernel, X)
    np.testing.assert_allclose(spectrum.xi, 0.0, atol=1e-12)
    np.testing.assert_allclose(spectrum.Lambda[:, 0, 0, 0], (slope / 0.5) ** 2, rtol=1e-6)


def test_the_spectrogram_of_deep_csk_is_at_its_frequency():
    kernel = with_random_latents(covariance_layers(Z, depth=3, lengthscale=0.5, frequency=5.0))
    with zoo.double():
        local = constrain(kernel).local(jnp.asarray(X))
        frequency = np.asarray(local.frequency)
    np.testing.assert_allclose(sg.local_spectrum(kernel, X).xi[:, 0], frequency[:, 0], rtol=1e-9)
    density = sg.spectrogram(kernel, X, np.linspace(-30, 30, 2001))
    np.testing.assert_allclose(np.trapezoid(density, dx=0.03, axis=1), 1.0, atol=1e-6)  # the variance k(x, x)


@pytest.mark.slow
def test_draws_have_the_conditional_moments():
    """Between the inducing inputs, mean and variance over keys are those of the Gaussian conditional."""
    kernel = sg.kernels.NonstationaryQuadratic(0.25)
    layer = with_random_latents(Layer(kernel, Z, 0.0, shape=(1,), warp="identity", amplitude=0.7, mean_std=0.0))
    n = 4000
    with zoo.double():
        draw = eqx.filter_jit(lambda key: constrain(layer).realise(key)(jnp.asarray(X))[:, 0])
        draws = np.asarray(jax.lax.map(draw, jax.random.split(jax.random.key(0), n), batch_size=100))
    K, Kxz = kernel(Z), kernel(X, Z)
    mean = 0.7 * Kxz @ np.linalg.solve(np.linalg.cholesky(K).T, layer.whitened.raw[:, 0])
    variance = 0.49 * (1.0 - np.sum(Kxz.T * np.linalg.solve(K, Kxz.T), axis=0))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / n))
    # Five standard errors of a variance of normal numbers, √(2/n), and what 512 waves leave.
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=5 * np.sqrt(2 / n) + 0.02)


DEEP = {
    "covariance": covariance_layers(Z, depth=3, lengthscale=0.6, frequency=5.0),
    "composition": compositional_layers(Z, depth=3, lengthscale=0.5),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    inputs = np.sort(rng.uniform(-1, 1, (12, 1)), axis=0)
    return sg.Data(inputs, np.sin(3 * inputs[:, 0] ** 3) + 0.1 * rng.normal(size=12))


@pytest.mark.parametrize("name", DEEP)
def test_gradients(name, data):
    model = with_random_latents(ExactGP(DEEP[name], sg.Positive(0.2)), size=0.5)
    free, rest = partition(model, "latent", "hyperparameter")
    with zoo.double():
        flat, unravel = ravel_pytree(free)
        value = jax.jit(jax.value_and_grad(lambda raw: eqx.combine(unravel(raw), rest).log_joint(data)))
        direction = np.random.default_rng(2).normal(size=flat.shape)
        slope = value(flat)[1] @ direction
        h = 1e-5
        numeric = (value(flat + h * direction)[0] - value(flat - h * direction)[0]) / (2 * h)
        np.testing.assert_allclose(slope, numeric, rtol=1e-5)


@pytest.mark.slow
def test_doubly_stochastic_inference_of_a_composition(data):
    """The bound rises, and stays below the marginal likelihood, here by sampling the inner function from its prior.

    Data at inducing inputs leave nothing between them, so the draws of inner functions are certain given q's.
    """
    small = sg.Data(Z, np.interp(Z[:, 0], data.X[:, 0], data.y))
    model = ExactGP(compositional_layers(Z, depth=2, lengthscale=0.5), 0.2)
    bound = DoublyStochasticGP(model, std=1.0)  # q = prior: its latent values start at zero
    with zoo.double():
        keys = jax.random.split(jax.random.key(0), 4000)
        likelihoods = np.asarray(jax.jit(jax.vmap(lambda key: bound.log_joint(small, key)))(keys))
    marginal = np.logaddexp.reduce(likelihoods) - np.log(4000)
    error = np.exp(likelihoods - marginal).std() / np.sqrt(4000)
    assert error < 0.1
    fitted = maximise(bound, small, steps=200, key=1, optimiser=Adam(learning_rate=0.03), roles=("variational",)).model
    with zoo.double():
        after = np.asarray(jax.jit(jax.vmap(lambda key: fitted.log_joint(small, key)))(keys[:1000]))
    errors = likelihoods.std() / np.sqrt(4000) + after.std() / np.sqrt(1000)
    assert after.mean() > likelihoods.mean() + 4 * errors
    assert after.mean() < marginal + 4 * (error + errors)


@pytest.mark.slow
def test_samplers_agree_on_a_composition(data):
    """SG-HMC and NUTS over the inner function of two layers with linear mean give the same predictions."""
    model = ExactGP(compositional_layers(Z, depth=2, lengthscale=0.5), 0.2)
    at = np.array([[-0.5], [0.1], [0.9]])
    settings = {"key": 0, "roles": ("latent",), "warn": False}
    nuts = sample(NUTS(warmup=200, chains=2), model, data, draws=300, **settings)
    sghmc = sample(SGHMC(warmup=100, thin=5, chains=2), model, data, draws=600, **settings)
    mean = Prediction(data, at)
    one, two = (np.asarray(posterior.map(mean)).reshape(-1, 3) for posterior in (nuts, sghmc))
    std = one.std(axis=0)
    # Both have a hundred or more effective draws: means to within 4·√2/√100 stds, stds to 40 %.
    assert np.all(np.abs(one.mean(axis=0) - two.mean(axis=0)) < 0.57 * std)
    np.testing.assert_allclose(two.std(axis=0), std, rtol=0.4)


class Prediction(eqx.Module):
    data: sg.Data
    X: np.ndarray

    def __call__(self, model):
        return model.predict(self.data, self.X).mean


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: covariance_layers(Z, depth=0), "depth must be an integer of at least 1, got 0"),
        (lambda: covariance_layers(Z, depth=2, family="se"), "family must be one of nsq, convolutional, chirplet"),
        (lambda: covariance_layers(Z, depth=2, components=0), "components must be an integer of at least 1"),
        (lambda: compositional_layers(Z, depth=2, width=0), "width must be an integer of at least 1"),
        (lambda: covariance_layers(Z[None], depth=2), r"inducing must have shape \[m, d\]"),
        (lambda: FunctionGroup(Z, 0.0, warp="identity", trend=np.ones((2, 1))), r"trend must have shape \[1, 1\]"),
        (lambda: Layer(sg.kernels.SquaredExponential(1.0), Z, 1.0, trend=np.ones((1, 1))), "must be Warped"),
        (lambda: Slot(np.zeros(1), 1.0, 0, "exp")(jnp.zeros((1, 1))), "use it inside a Layered kernel"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
