"""Lines of Matérn kernels are Student-t densities: the spectrogram is exact where that of Gaussian ones is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import t as student

import reference
import spectrogp as sg
from spectrogp.posterior import LocalDraws, LocalFunctions, Posterior
from spectrogp.spectra import line_scale
from zoo import double

kernels = sg.kernels
pytestmark = pytest.mark.usefixtures("compile_quickly")

ORDERS = (0.5, 1.5, 2.5)
LENGTHSCALE, OMEGA, AMPLITUDE = np.array([0.8, 1.5]), np.array([4.0, 9.0]), np.array([0.7, 1.2])
X, S = np.array([[-0.3], [0.9]]), np.linspace(-3.0, 3.0, 41)


def stationary(order):
    """Two components with constant functions."""
    return kernels.MaternPhase(kernels.WarpedTime(LENGTHSCALE), lambda X: X * OMEGA, AMPLITUDE, order=order)


def closed_form(order, s, amplitude=AMPLITUDE):
    """Σ_a σ²/2 Σ_± ℓ S_ν((ω ∓ ω_a) ℓ)."""
    density = lambda omega, length: length * reference.matern_density(order, omega * length)  # noqa: E731
    return sum(
        0.5 * sigma**2 * (density(2 * np.pi * s - omega, length) + density(2 * np.pi * s + omega, length))
        for length, omega, sigma in zip(LENGTHSCALE, OMEGA, amplitude, strict=True)
    )


@pytest.mark.parametrize("order", ORDERS)
def test_spectrograms_of_constant_functions_are_the_spectral_density(order):
    expected = np.stack([closed_form(order, S)] * len(X))
    np.testing.assert_allclose(sg.spectrogram(stationary(order), X, S), expected, rtol=1e-10)
    np.testing.assert_allclose(sg.spectrogram(stationary(order), X, S[:, None]), expected, rtol=1e-10)


@pytest.mark.parametrize("order", [1.5, 2.5])
def test_spectrograms_of_constant_functions_are_wigner_distributions(order):
    """Not for order one half, whose kink at lag zero trapezoidal sums pass with an error of h²: ``wigner`` refuses."""
    W = sg.wigner(stationary(order), X, S)
    np.testing.assert_allclose(sg.spectrogram(stationary(order), X, S), W, atol=1e-8 * np.max(W))


def test_a_line_of_order_one_half_has_a_scale_in_programs_as_users_have_them(compile_fully):
    """There XLA fuses what makes the two times of a lag of zero, which so need not be equal to the last digit."""
    at = np.linspace(-0.7, 0.9, 7)[:, None]  # of a shape that no other test has
    expected = np.broadcast_to(LENGTHSCALE**-2.0, (7, 2))
    np.testing.assert_allclose(sg.local_spectrum(stationary(0.5), at).Lambda[..., 0, 0], expected, rtol=1e-12)


def test_a_line_follows_its_functions():
    """The density at one input is that of the values there; a frequency that changes linearly widens no line."""
    kernel = kernels.MaternPhase(
        kernels.WarpedTime(lambda X: jnp.exp(0.3 * X)[..., None], np.linspace(-2.0, 2.0, 9)),
        lambda X: 5.0 * X[:, 0] + 2.0 * X[:, 0] ** 2,
        lambda X: 1.0 + 0.1 * X[:, 0],
        order=0.5,
    )
    density = sg.spectrogram(kernel, X, S)
    for x, found in zip(X[:, 0], density, strict=True):
        scale = np.exp(-0.6 * x) / (4 * np.pi**2)
        expected = (1 + 0.1 * x) ** 2 * reference.mirrored_student(S, 5.0 + 4.0 * x, scale, 1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_marginals_along_an_axis_are_lines_too(order):
    """Time and phase along an oblique direction of two inputs: the marginal is that of the slope along the axis."""
    kernel = kernels.MaternPhase(lambda X: X @ jnp.array([1.3, 0.4]), lambda X: X @ jnp.array([5.0, 2.0]), order=order)
    for axis, (slope, omega) in enumerate([(1.3, 5.0), (0.4, 2.0)]):
        found = sg.spectrogram(kernel, np.zeros((1, 2)), S, axis=axis)[0]
        expected = reference.mirrored_student(S, omega, slope**2 / (4 * np.pi**2), 2 * order)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_lines_of_different_kinds_stand_side_by_side():
    terms = kernels.SpectralMixture(0.9, 3.0), stationary(0.5), kernels.SquaredExponential(0.4)
    whole = kernels.Sum(*terms)
    np.testing.assert_allclose(
        sg.spectrogram(whole, X, S), sum(sg.spectrogram(term, X, S) for term in terms), rtol=1e-12
    )
    np.testing.assert_array_equal(sg.local_spectrum(whole, X).freedom, [[np.inf, 1.0, 1.0, np.inf]] * 2)
    scaled = sg.spectrogram(kernels.Scaled(stationary(1.5), 2.0), X, S)
    np.testing.assert_allclose(scaled, 4.0 * sg.spectrogram(stationary(1.5), X, S), rtol=1e-12)
    warped = kernels.Warped(stationary(1.5), lambda X: 2.0 * X)
    np.testing.assert_allclose(
        sg.spectrogram(warped, X, S), 0.5 * sg.spectrogram(stationary(1.5), X, 0.5 * S), rtol=1e-12
    )


def test_a_resolution_widens_lines():
    """It adds to the variance where there is one, and else to the squared scale."""
    for order, grown in [(0.5, 1.0), (1.5, 1.0 / 3.0)]:
        kernel = kernels.MaternPhase(kernels.WarpedTime(0.8), lambda X: 4.0 * X[:, 0], order=order)
        scale = 1.0 / (2 * np.pi * 0.8) ** 2 + grown * 0.3**2
        expected = reference.mirrored_student(S, 4.0, scale, 2 * order)
        np.testing.assert_allclose(sg.spectrogram(kernel, X, S, resolution=0.3)[0], expected, rtol=1e-9)


def test_lines_under_jit_and_grad():
    def density(length):
        kernel = kernels.MaternPhase(kernels.WarpedTime(length), lambda X: 4.0 * X[:, 0], order=1.5)
        return sg.spectrogram(kernel, X, S)

    with double():
        value, slope = jax.jit(lambda length: jax.jvp(density, (length,), (jnp.ones_like(length),)))(jnp.asarray(0.8))
        np.testing.assert_allclose(value, density(0.8), rtol=1e-12)
        h = 1e-5
        np.testing.assert_allclose(slope, (density(0.8 + h) - density(0.8 - h)) / (2 * h), atol=1e-8)


def test_scales_of_lines():
    found = line_scale(np.full(5, 2.0), np.array([1.0, 2.0, 3.0, 5.0, np.inf]))
    np.testing.assert_allclose(found**2, [4.0, 4.0, 4.0 / 3.0, 4.0 * 3.0 / 5.0, 4.0])
    for freedom, scale in [(3.0, found[2]), (5.0, found[3])]:
        assert student(freedom, scale=scale).std() == pytest.approx(2.0)


@pytest.mark.parametrize("order", ORDERS)
def test_posterior_densities_are_means_over_cells(order):
    model = sg.models.ExactGP(stationary(order) + kernels.SpectralMixture(0.7, 2.0), 0.1)
    found = Posterior.at_point(model).local_functions(X)
    np.testing.assert_array_equal(found.freedom, [[[2 * order, 2 * order, np.inf]] * 2])
    edges = np.linspace(0.0, 3.0, 7)
    fine = np.linspace(0.0, 3.0, 6001)
    density = sg.spectrogram(model.kernel, X, 0.5 * (fine[1:] + fine[:-1]))
    np.testing.assert_allclose(found.density(edges), density.reshape(2, 6, -1).mean(axis=-1), rtol=1e-6)
    other = found.in_units(np.array([2.0]), 3.0)
    np.testing.assert_allclose(other.density(edges / 2.0), 18.0 * found.density(edges), rtol=1e-12)
    values = Posterior.at_point(model).read(LocalFunctions(X))
    np.testing.assert_array_equal(LocalDraws.of(values).freedom, found.freedom)
