"""Draws from the prior have the kernel's covariance, in both ways of drawing them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
import zoo
from zoo import BY_NAME, functions, inputs

kernels = sg.kernels
pytestmark = pytest.mark.usefixtures("compile_quickly")

N, S = 6, 4000
SAMPLERS = {"prior": sg.sample_prior, "convolution": sg.sample_by_convolution}
every_sampler = pytest.mark.parametrize("sample", SAMPLERS.values(), ids=SAMPLERS)


def assert_covariance(draws, K):
    """Mean zero and covariance K within five standard errors.

    A mean has variance K_ii/S. An entry of the sample covariance (with the known mean zero) of Gaussian draws has
    variance (K_ii K_jj + K_ij²)/S.
    """
    count = len(draws)
    diagonal = np.diag(K)
    assert np.all(np.abs(draws.mean(axis=0)) <= 5 * np.sqrt(diagonal / count))
    error = np.sqrt((np.outer(diagonal, diagonal) + K**2) / count)
    assert np.all(np.abs(draws.T @ draws / count - K) <= 5 * error)


def stretched(D):
    """Kernels with basis functions, wide enough for a small grid."""
    f = functions(D)
    slow = lambda X: 0.5 * f.frequency(X)  # noqa: E731
    return {
        "convolutional": kernels.ConvolutionalSpectral(f.lengthscale, slow, f.amplitude),
        "chirplet tied": kernels.Chirplet(f.lengthscale, slow, f.amplitude),
        "chirplet free": kernels.Chirplet(f.lengthscale, slow, f.amplitude, chirp=lambda X: 0.3 * f.chirp(X)),
    }


@pytest.mark.parametrize("name", ["convolutional", "harmonizable", "sum"])
def test_covariance_of_prior_draws(name):
    kernel, X = BY_NAME[name].kernel(2), inputs(N, 2)
    draws = sg.sample_prior(kernel, X, key=3, num_samples=S)
    assert draws.shape == (S, N)
    assert isinstance(draws, np.ndarray)
    assert draws.dtype == np.float64
    assert_covariance(draws, kernel(X))


@pytest.mark.parametrize("name", ["convolutional", "chirplet tied", "chirplet free"])
def test_covariance_of_draws_by_convolution(name):
    kernel, X = stretched(1)[name], inputs(N, 1)
    draws = sg.sample_by_convolution(kernel, X, key=4, num_samples=S)
    assert draws.shape == (S, N)
    assert isinstance(draws, np.ndarray)
    assert draws.dtype == np.float64
    assert_covariance(draws, kernel(X))


def test_the_check_of_covariances_can_fail():
    kernel, X = stretched(1)["convolutional"], inputs(N, 1)
    draws = sg.sample_prior(kernel, X, key=3, num_samples=S)
    with pytest.raises(AssertionError):
        assert_covariance(1.1 * draws, kernel(X))
    with pytest.raises(AssertionError):
        assert_covariance(np.roll(draws, 1, axis=1), kernel(X))


@pytest.mark.parametrize("name", ["convolutional", "chirplet tied", "chirplet free"])
@pytest.mark.parametrize("D", [1, 2])
def test_basis_functions_give_the_covariance(name, D):
    kernel, X = stretched(D)[name], inputs(4, D)
    grid, K = sg.basis_on_grid(kernel, X)
    assert K.shape == (4, zoo.COMPONENTS, len(grid))
    assert grid.shape == (len(grid), D)
    gram = np.einsum("iag,jag->ij", K, K.conj()).real
    expected = kernel(X)
    assert np.max(np.abs(gram - expected)) <= 1e-8 * np.max(expected)


def test_basis_functions_have_their_formula():
    """K_x(u) = σ (πℓ²)^(−1/4) exp(−½((u − x)/ℓ)² + iω(u − x) + ½ic(u − x)²), times the root of the cell."""
    X = np.array([[0.3], [1.0]])
    grid, K = sg.basis_on_grid(kernels.Chirplet(0.6, 2.0, 1.5, chirp=0.7), X)
    v, cell = grid[:, 0] - X, grid[1, 0] - grid[0, 0]
    expected = 1.5 * (np.pi * 0.36) ** -0.25 * np.exp(-0.5 * (v / 0.6) ** 2 + 1j * (2 * v + 0.35 * v**2))
    assert np.max(np.abs(K[:, 0] - np.sqrt(cell) * expected)) < 1e-12


@every_sampler
def test_keys(sample):
    kernel, X = stretched(1)["convolutional"], inputs(N, 1)
    draws = sample(kernel, X, key=7, num_samples=3)
    assert np.array_equal(sample(kernel, X, key=7, num_samples=3), draws)
    assert np.array_equal(sample(kernel, X, key=np.int64(7), num_samples=3), draws)
    assert np.array_equal(sample(kernel, X, key=jax.random.key(7), num_samples=3), draws)
    assert not np.any(sample(kernel, X, key=8, num_samples=3) == draws)
    assert sample(kernel, X, key=7).shape == (1, N)
    old_style = sample(kernel, X, key=jax.random.PRNGKey(7), num_samples=3)
    assert np.array_equal(old_style, draws)


@every_sampler
def test_single_precision(sample):
    with sg.precision("float32"):
        draws = sample(stretched(1)["convolutional"], inputs(N, 1), key=7)
    assert draws.dtype == np.float32
    assert np.all(np.isfinite(draws))


def test_repeated_inputs_have_equal_draws():
    """Singular covariance matrices need no jitter: the draws at a repeated input agree to the root of rounding."""
    X = inputs(N, 1)
    assert np.array_equal(X[0], X[-1])
    draws = sg.sample_prior(kernels.SquaredExponential(0.5), X, key=0, num_samples=10)
    assert np.max(np.abs(draws[:, 0] - draws[:, -1])) < 1e-6
    assert np.max(np.abs(draws[:, 0] - draws[:, 1])) > 0.1


@every_sampler
@pytest.mark.parametrize("count", [0, -1])
def test_number_of_samples_must_be_positive(sample, count):
    with pytest.raises(ValueError, match=f"num_samples must be an integer of at least 1, got {count}"):
        sample(stretched(1)["convolutional"], inputs(N, 1), key=0, num_samples=count)


@every_sampler
def test_bad_inputs_are_refused(sample):
    with pytest.raises(ValueError, match=r"X must have shape \[n, d\]"):
        sample(stretched(1)["convolutional"], np.zeros((2, 3, 4)), key=0)


@every_sampler
def test_a_list_of_numbers_is_one_column(sample):
    kernel, X = stretched(1)["convolutional"], inputs(N, 1)
    assert np.array_equal(sample(kernel, X[:, 0], key=7), sample(kernel, X, key=7))


@pytest.mark.parametrize(
    "call", [lambda kernel, X: sg.sample_by_convolution(kernel, X, key=0), sg.basis_on_grid], ids=["sample", "basis"]
)
def test_only_kernels_with_basis_functions_convolve(call):
    with pytest.raises(TypeError, match=r"only ConvolutionalSpectral and Chirplet .* got SquaredExponential"):
        call(kernels.SquaredExponential(1.0), inputs(N, 1))


def test_grids_too_large_for_memory_are_refused():
    kernel = kernels.ConvolutionalSpectral(lambda X: 1e-4 + 0 * X, 1.0)
    with pytest.raises(ValueError, match=r"need a grid of \d+ × \d+ points for 4 inputs.*sample_prior"):
        sg.basis_on_grid(kernel, inputs(4, 2))


def test_prior_draws_inside_jit():
    # No input twice: the root of a singular matrix is known to the root of rounding only.
    kernel, X = stretched(1)["convolutional"], inputs(N, 1)[:-1]
    with zoo.double():
        draws = jax.jit(lambda key, X: sg.sample_prior(kernel, X, key=key, num_samples=2))(
            jax.random.key(5), jnp.asarray(X)
        )
    assert np.max(np.abs(np.asarray(draws) - sg.sample_prior(kernel, X, key=5, num_samples=2))) < 1e-10
