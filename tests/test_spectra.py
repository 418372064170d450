"""Local spectra equal their closed forms; spectrograms equal Wigner distributions where they should."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import spectrogp as sg
import zoo
from spectrogp.spectra import local_frequency
from zoo import DIMENSIONS, KERNELS, broadened, diagonal, double, functions, half_inverse, inputs, same

kernels = sg.kernels
pytestmark = pytest.mark.usefixtures("compile_quickly")

N = 4  # inputs; the same everywhere, so that tests share compiled programs
every_dimension = pytest.mark.parametrize("D", DIMENSIONS)


def name_of(case):
    return case.name.replace(" ", "-")


def assert_close(actual, expected, tolerance, scale=None):
    """Equal within a tolerance relative to the largest expected entry, or to the given scale."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    scale = np.max(np.abs(expected)) if scale is None else scale
    assert scale > 0
    assert np.max(np.abs(actual - expected)) <= tolerance * scale


# --- closed forms of ξ and Λ ---


@pytest.mark.parametrize("case", [case for case in KERNELS if case.spectrum], ids=name_of)
@every_dimension
def test_local_spectrum_has_its_closed_form(case, D):
    X = inputs(N, D)
    xi, Lambda = case.spectrum(functions(D), X)
    spectrum = sg.local_spectrum(case.kernel(D), X)
    assert_close(spectrum.xi, xi, 1e-9, scale=np.max(np.abs(xi)) + 1)
    assert_close(spectrum.Lambda, Lambda, 1e-9)
    assert_close(spectrum.frequency, xi / (2 * np.pi), 1e-9, scale=np.max(np.abs(xi)) + 1)
    assert_close(spectrum.covariance, Lambda / (4 * np.pi**2), 1e-9)
    amplitude = np.array([point.amplitude for point in case.reference_points(D, X)])
    assert_close(spectrum.weight, amplitude**2, 1e-12)
    assert all(isinstance(part, np.ndarray) and part.dtype == np.float64 for part in spectrum)


def test_bandwidth_is_the_standard_deviation_along_each_axis():
    spectrum = sg.local_spectrum(zoo.BY_NAME["full convolutional"].kernel(3), inputs(N, 3))
    assert isinstance(spectrum.bandwidth, np.ndarray)
    assert spectrum.bandwidth.dtype == np.float64
    assert_close(spectrum.bandwidth, np.sqrt(np.einsum("nadd->nad", spectrum.covariance)), 1e-14)


@every_dimension
def test_chirplet_that_varies_along_its_own_axes_keeps_its_width(D):
    f, X = functions(D), inputs(N, D)
    kernel = kernels.Chirplet(f.lengthscale, lambda X: 2.0 + 3.0 * jnp.sin(X)[:, None, :])
    assert_close(sg.local_spectrum(kernel, X).Lambda, half_inverse(f, X), 1e-9)
    # The convolutional kernel is broadened there.
    wide = sg.local_spectrum(kernels.ConvolutionalSpectral(f.lengthscale, kernel.frequency), X)
    J = diagonal(3.0 * np.cos(X)[:, None, :])
    assert_close(wide.Lambda, broadened(f, X, J), 1e-9)


@pytest.mark.parametrize("x", [-0.6, 0.3, 0.9])
def test_chirplet_frequency_is_the_first_moment_of_its_wigner_distribution(x):
    """ξ = ω − ¼ℓ²c′, checked without the kernel's formula: basis functions → covariance → Wigner → mean frequency."""

    def length(x):
        return 0.6 + 0.2 * np.sin(x)

    def omega(x):
        return 4.0 + 3.0 * np.sin(1.3 * x)

    def chirp(x):  # ω′, and its own derivative ω″
        return 3.9 * np.cos(1.3 * x), -5.07 * np.sin(1.3 * x)

    def windows(X):
        at = reference.points(
            X[:, None],
            lengthscale=lambda X: length(X)[:, None],
            frequency=lambda X: omega(X)[:, None],
            chirp=lambda X: chirp(X)[0][:, None],
            amplitude=np.ones(1),
        )
        return np.array([reference.basis(point, u, 0) for point in at])

    u = np.linspace(-9, 9, 1801)[:, None]
    t = np.linspace(-7, 7, 351)
    s = np.linspace(-7, 8, 501)
    # k(x + t/2, x − t/2) before the real part, with the sign of the phase such that ω > 0 gives positive frequencies.
    covariance = np.sum(windows(x - t / 2) * windows(x + t / 2).conj(), axis=1) * (u[1, 0] - u[0, 0])
    assert np.max(np.abs(covariance[[0, -1]])) < 1e-10
    W = (np.exp(-2j * np.pi * np.outer(s, t)) @ covariance).real * (t[1] - t[0])
    assert np.max(np.abs(W[[0, -1]])) < 1e-8
    mean = 2 * np.pi * np.sum(s * W) / np.sum(W)
    expected = omega(x) - 0.25 * length(x) ** 2 * chirp(x)[1]
    assert abs(expected - omega(x)) > 0.1  # the term is not small here
    assert mean == pytest.approx(expected, abs=1e-7)
    kernel = kernels.Chirplet(lambda X: 0.6 + 0.2 * jnp.sin(X), lambda X: 4.0 + 3.0 * jnp.sin(1.3 * X))
    assert sg.local_spectrum(kernel, np.array([[x]])).xi.item() == pytest.approx(mean, abs=1e-7)


@pytest.mark.slow
def test_frequencies_are_biased_in_gsm_alone():
    """ω = 2π(1 + x/2): a GSM has its spectral peak at 1 + x cycles per unit, the others at 1 + x/2."""
    X = np.array([[0.4], [1.0], [2.0]])
    s = np.linspace(0, 4, 401)

    def omega(X):
        return 2 * np.pi * (1 + 0.5 * X)

    def phase(X):
        return 2 * np.pi * (X + 0.25 * X**2)[:, 0]

    # Long windows, so that peaks are narrow and mirror images do not overlap.
    family = {
        1.0: [kernels.GeneralizedSpectralMixture(2.0, omega)],
        0.5: [kernels.ConvolutionalSpectral(2.0, omega), kernels.Chirplet(2.0, omega), kernels.Phase(2.0, phase)],
    }
    for slope, members in family.items():
        for kernel in members:
            assert_close(sg.local_spectrum(kernel, X).frequency[:, 0], 1 + slope * X, 1e-12)
        peaks = s[np.argmax(sg.wigner(members[0], X, s), axis=1)]
        assert np.max(np.abs(peaks - (1 + slope * X[:, 0]))) < 0.02


# --- the spectrogram against Wigner integrals ---


def linear(f):
    """ω(x) = ω₀ + Bx for each component, linear in x."""
    slope = 1.5 * np.cos(np.arange(2 * f.D * f.D)).reshape(2, f.D, f.D)
    return lambda X: f.constant_frequency + jnp.einsum("ade,ne->nad", slope, jnp.asarray(X))


def linear_points(f, X):
    """Points of a convolutional kernel with constant lengthscales and linear frequencies."""
    with double():
        omega = np.asarray(linear(f)(X))
    return reference.points(
        X, lengthscale=f.constant_lengthscale, frequency=lambda X: omega, amplitude=np.array([0.8, 1.2])
    )


def exact_cases(f):
    """Kernels whose spectrogram is their Wigner distribution: name, kernel, reference, its points."""
    length, omega, other = f.constant_lengthscale, f.constant_frequency, f.other_frequency
    amplitude = np.array([0.8, 1.2])
    constants = {"lengthscale": length, "frequency": omega, "amplitude": amplitude}
    pairs = {"lengthscale": length, "first_frequency": omega, "second_frequency": other, "amplitude": amplitude}
    hmk = zoo.BY_NAME["harmonizable"]
    return {
        "squared exponential": (
            kernels.SquaredExponential(length, amplitude),
            reference.squared_exponential,
            lambda X: reference.points(X, **constants),
        ),
        "spectral mixture": (
            kernels.SpectralMixture(length, omega, amplitude),
            reference.spectral_mixture,
            lambda X: reference.points(X, **constants),
        ),
        "generalized spectral": (
            kernels.GeneralizedSpectral(length, omega, other, amplitude),
            reference.generalized_spectral(reference.base_squared_exponential),
            lambda X: reference.points(X, **pairs),
        ),
        "harmonizable": (hmk.build(f), hmk.pair(f), lambda X: hmk.points(f, X)),
        "convolutional, linear": (
            kernels.ConvolutionalSpectral(length, linear(f), amplitude),
            reference.convolutional_spectral,
            lambda X: linear_points(f, X),
        ),
    }


EXACT = list(exact_cases(functions(1)))


@pytest.mark.parametrize("name", EXACT, ids=lambda name: name.replace(" ", "-"))
def test_spectrogram_is_exact_in_one_dimension(name):
    kernel, pair, points = exact_cases(functions(1))[name]
    X, s = inputs(N, 1), np.linspace(-2.5, 2.5, 61)
    expected = reference.wigner(pair, points, X, s[:, None], reach=14, count=801)
    density = sg.spectrogram(kernel, X, s)
    assert_close(density, expected, 1e-9)
    assert_close(sg.wigner(kernel, X, s), expected, 1e-8)
    assert_close(sg.spectrogram(kernel, X, s[:, None]), density, 1e-15)


def test_cross_terms_of_the_harmonizable_kernel_matter():
    """The exact case above is no trivial one: without the cross terms the spectrogram is another."""
    f, X, s = functions(1), inputs(N, 1), np.linspace(-2.5, 2.5, 61)
    kernel = zoo.BY_NAME["harmonizable"].kernel(1)
    weight = sg.local_spectrum(kernel, X).weight
    assert weight.min() < -0.01  # cross terms may be negative
    uncoupled = kernels.HarmonizableMixture(
        f.centre,
        f.wavevectors,
        *f.extents,
        np.stack([np.diag(np.linalg.norm(factor, axis=1)) for factor in f.factors]),
        f.gamma,
    )
    full, alone = sg.spectrogram(kernel, X, s), sg.spectrogram(uncoupled, X, s)
    assert np.max(np.abs(full - alone)) > 0.1 * np.max(full)


def test_linear_frequency_is_exact_for_chirplet_and_phase_too():
    X, s = inputs(N, 1), np.linspace(-2.5, 2.5, 61)
    chirplet = kernels.Chirplet(0.8, lambda X: 2.0 + 1.5 * X)
    phase = kernels.Phase(0.8, lambda X: (2.0 * X + 0.75 * X**2)[:, 0])
    expected = np.stack(
        [reference.mirrored_gaussian(s[:, None], 2.0 + 1.5 * x, np.eye(1) / (2 * 0.8**2 * 4 * np.pi**2)) for x in X]
    )
    for kernel in (chirplet, phase):
        assert_close(sg.spectrogram(kernel, X, s), expected, 1e-9)
    assert_close(sg.wigner(chirplet, X, s), expected, 1e-8)
    assert_close(phase(X), chirplet(X), 1e-12)


@pytest.mark.parametrize("name", ["spectral mixture", "convolutional, linear"], ids=["mixture", "convolutional"])
def test_spectrogram_is_exact_in_two_dimensions(name):
    kernel, pair, points = exact_cases(functions(2))[name]
    X = inputs(3, 2)[:2]
    s = np.stack(np.meshgrid(np.linspace(-0.9, 0.9, 5), np.linspace(-0.8, 0.8, 5)), axis=-1).reshape(-1, 2)
    expected = reference.wigner(pair, points, X, s, reach=10.5, count=101)
    assert_close(sg.spectrogram(kernel, X, s), expected, 1e-9)
    assert_close(sg.wigner(kernel, X, s), expected, 1e-8)


def test_wigner_is_right_where_the_spectrogram_is_not():
    """Strongly varying functions: the numerical transforms agree, the local approximation is no longer one."""
    case, f = zoo.BY_NAME["convolutional"], functions(1)
    X, s = inputs(N, 1), np.linspace(-2.5, 2.5, 61)
    expected = reference.wigner(case.pair(f), lambda X: case.points(f, X), X, s[:, None], reach=16, count=1201)
    kernel = case.kernel(1)
    assert_close(sg.wigner(kernel, X, s), expected, 1e-7)
    error = np.max(np.abs(sg.spectrogram(kernel, X, s) - expected)) / np.max(expected)
    assert error > 0.1


def one_component(length, omega):
    """Points of a kernel with one component in one dimension, from functions [n] → [n]."""
    return lambda X: reference.points(
        X,
        lengthscale=lambda X: length(X)[:, None],
        frequency=lambda X: omega(X)[:, None],
        amplitude=np.ones(1),
    )


def test_the_printed_covariance_of_the_paper_is_not_right():
    """Λ/(2π²), as the paper prints it, misses the Wigner distribution by far; Λ/(4π²) is exact or close."""
    s = np.linspace(-4, 4, 161)[:, None]
    X = np.array([[0.4]])

    def errors(kernel, pair, points):
        W = reference.wigner(pair, points, X, s, reach=10, count=1001)[0]
        spectrum = sg.local_spectrum(kernel, X)
        xi, Lambda = spectrum.xi[0, 0], spectrum.Lambda[0, 0]
        densities = (reference.mirrored_gaussian(s, xi, Lambda / scale) for scale in (4 * np.pi**2, 2 * np.pi**2))
        return [np.max(np.abs(density - W)) / np.max(W) for density in densities]

    stationary = kernels.SpectralMixture(0.7, 9.0)
    points = one_component(lambda X: 0.7 + 0 * X, lambda X: 9.0 + 0 * X)
    ours, printed = errors(stationary, reference.spectral_mixture, points)
    assert ours < 1e-9
    # A density of twice the variance has a peak lower by 1 − 1/√2 = 0.29.
    assert printed == pytest.approx(1 - 2**-0.5, abs=0.01)

    convolutional = kernels.ConvolutionalSpectral(lambda X: 0.6 + 0.1 * jnp.sin(X), lambda X: 8.0 + 2.0 * jnp.sin(X))
    points = one_component(lambda X: 0.6 + 0.1 * np.sin(X), lambda X: 8.0 + 2.0 * np.sin(X))
    ours, printed = errors(convolutional, reference.convolutional_spectral, points)
    assert ours < 0.05
    assert printed > 0.2


def test_deep_squared_exponential_and_quadratic_kernels_share_spectrograms():
    """Σ = ℓ²/(2f′²) makes them equal; the paper prints 2ℓ²/f′²."""
    X, s = inputs(N, 1), np.linspace(-1.5, 1.5, 41)
    length = 0.7
    deep = kernels.Warped(kernels.SquaredExponential(length), lambda X: X + 0.4 * jnp.sin(2 * X))

    def slope(X):
        return 1 + 0.8 * jnp.cos(2 * X)

    equal = kernels.NonstationaryQuadratic(lambda X: length / (np.sqrt(2) * slope(X)))
    printed = kernels.NonstationaryQuadratic(lambda X: np.sqrt(2) * length / slope(X))
    density = sg.spectrogram(deep, X, s)
    assert_close(sg.spectrogram(equal, X, s), density, 1e-12)
    assert np.max(np.abs(sg.spectrogram(printed, X, s) - density)) > 0.5 * np.max(density)


# --- marginals, slices, total mass ---


def integrate(density, s):
    """Trapezoidal sum over the last axis; exact to rounding for densities that die away inside the grid."""
    assert np.max(np.abs(density[..., [0, -1]])) < 1e-10 * np.max(np.abs(density))
    return np.sum(density, axis=-1) * (s[1] - s[0])


@pytest.mark.parametrize("axis", [0, 1])
def test_marginals_and_slices_belong_to_the_full_density(axis):
    kernel, X = zoo.BY_NAME["full convolutional"].kernel(2), inputs(N, 2)
    along, across = np.linspace(-1.5, 1.5, 7), np.linspace(-6, 6, 801)
    grid = np.stack(np.meshgrid(along, across, indexing="ij"), axis=-1)
    grid = grid if axis == 0 else grid[..., ::-1]
    density = sg.spectrogram(kernel, X, grid.reshape(-1, 2)).reshape(N, len(along), len(across))
    assert_close(sg.spectrogram(kernel, X, along, axis=axis), integrate(density, across), 1e-10)
    at = np.array([0.3, -0.2])
    vectors = np.broadcast_to(at, (len(along), 2)).copy()
    vectors[:, axis] = along
    expected = sg.spectrogram(kernel, X, vectors)
    assert_close(sg.spectrogram(kernel, X, along, axis=axis, slice_at=at), expected, 1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1])
def test_marginals_and_slices_of_the_wigner_distribution(axis):
    """For a kernel with an exact spectrogram both have the same marginals and slices."""
    kernel, X, s = exact_cases(functions(2))["convolutional, linear"][0], inputs(N, 2), np.linspace(-1.5, 1.5, 7)
    assert_close(sg.wigner(kernel, X, s, axis=axis), sg.spectrogram(kernel, X, s, axis=axis), 1e-8)
    cut = {"axis": axis, "slice_at": [0.3, -0.2]}
    assert_close(sg.wigner(kernel, X, s, **cut), sg.spectrogram(kernel, X, s, **cut), 1e-8)


@pytest.mark.parametrize("case", KERNELS, ids=name_of)
def test_total_mass_is_the_variance(case):
    # Over s = tan θ, so that tails of any weight are there; what is left is smooth and periodic in θ.
    kernel, X, angle = case.kernel(1), inputs(N, 1), np.pi * (np.arange(3200) + 0.5) / 3200 - np.pi / 2
    density = sg.spectrogram(kernel, X, np.tan(angle)) / np.cos(angle) ** 2
    assert_close(np.sum(density, axis=1) * (angle[1] - angle[0]), np.diag(kernel(X)), 1e-9)


@pytest.mark.parametrize("s", [np.zeros(1), np.array([-1e-9, 0.0, 1e-9])], ids=["zero", "near-zero"])
def test_wigner_at_frequency_zero(s):
    kernel, X = kernels.SpectralMixture(0.7, 3.0), inputs(N, 1)
    expected = same(reference.mirrored_gaussian(s[:, None], np.array([3.0]), np.eye(1) / (2 * np.pi * 0.7) ** 2), X)
    assert_close(sg.wigner(kernel, X, s), expected, 1e-8)


def test_wigner_far_from_the_spectrum_is_zero():
    """Frequencies where there is nothing to see are no error: the density there is zero to rounding."""
    kernel, X = kernels.SpectralMixture(1.0, 30.0), inputs(N, 1)
    peak = sg.spectrogram(kernel, X, [30.0 / (2 * np.pi)])
    W = sg.wigner(kernel, X, np.linspace(0, 1, 5))
    assert np.max(np.abs(W)) < 1e-10 * np.max(peak)


def test_total_mass_of_the_wigner_distribution():
    """Also where it is far from its local approximation; it decays slowly there, so the grid is wide."""
    kernel, X, s = zoo.BY_NAME["product"].kernel(1), inputs(N, 1), np.linspace(-8, 8, 641)
    W = sg.wigner(kernel, X, s)
    assert np.max(np.abs(W - sg.spectrogram(kernel, X, s))) > 1e-3 * np.max(W)
    assert_close(np.sum(W, axis=1) * (s[1] - s[0]), np.diag(kernel(X)), 1e-6)


def test_composites_add_and_shift_spectra():
    """Sums add spectrograms; a product with a cosine shifts them; scaling scales them."""
    f, X, s = functions(1), inputs(N, 1), np.linspace(-3, 3, 61)
    one = kernels.ConvolutionalSpectral(f.lengthscale, f.frequency, f.amplitude)
    two = kernels.NonstationaryQuadratic(f.lengthscale)
    first, second = sg.spectrogram(one, X, s), sg.spectrogram(two, X, s)
    assert_close(sg.spectrogram(one + two, X, s), first + second, 1e-14)
    assert_close(sg.spectrogram(2.5 * one, X, s), 2.5 * first, 1e-14)
    s2 = (1 + X**2) ** 2
    assert_close(sg.spectrogram(kernels.Scaled(one, lambda X: 1 + X[:, 0] ** 2), X, s), s2 * first, 1e-14)
    # cos(ωτ) with an infinite lengthscale (nearly) moves half of the density up and half down by ω/2π.
    carrier = kernels.SpectralMixture(1e9, 2 * np.pi * 0.7)
    moved = 0.5 * (sg.spectrogram(two, X, s - 0.7) + sg.spectrogram(two, X, s + 0.7))
    assert_close(sg.spectrogram(two * carrier, X, s), moved, 1e-10)


def test_warp_by_a_network():
    # A network close to x ↦ (x, x, x) up to smooth bends, so that the warp moves everywhere.
    network = eqx.nn.MLP(1, 3, 16, 2, activation=jnp.tanh, key=jax.random.key(1))
    bent = eqx.filter_vmap(network)
    kernel = kernels.Warped(kernels.SquaredExponential(0.5), lambda X: X + bent(X))
    X, s = inputs(N, 1), np.linspace(-6, 6, 1201)
    density, W = sg.spectrogram(kernel, X, s), sg.wigner(kernel, X, s)
    assert np.all(np.isfinite(density))
    assert_close(integrate(density, s), np.ones(N), 1e-9)
    assert_close(np.sum(W, axis=1) * (s[1] - s[0]), np.ones(N), 1e-6)
    assert_close(density, W, 0.2)


def test_warp_by_a_network_given_as_a_module():
    network = eqx.nn.MLP(2, 3, 16, 2, activation=jnp.tanh, key=jax.random.key(1))
    kernel = kernels.Warped(kernels.SquaredExponential(0.2), eqx.filter_vmap(network))
    X = inputs(N, 2)
    with double():
        J = np.asarray(jax.vmap(jax.jacfwd(network))(jnp.asarray(X)), dtype=np.float64)
    Lambda = np.einsum("nke,nkf->nef", J, J)[:, None] / 0.2**2
    assert_close(sg.local_spectrum(kernel, X).Lambda, Lambda, 1e-6)
    s = np.linspace(-6, 6, 2401)
    for axis in (0, 1):
        assert_close(integrate(sg.spectrogram(kernel, X, s, axis=axis), s), np.ones(N), 1e-9)


# --- resolution and components without width ---


def test_resolution_blurs_the_density():
    X, s = inputs(N, 1), np.linspace(-2, 2, 41)
    kernel = kernels.SpectralMixture(1.3, 4.0)
    covariance = np.eye(1) / (2 * np.pi * 1.3) ** 2 + 0.3**2 * np.eye(1)
    expected = same(reference.mirrored_gaussian(s[:, None], np.array([4.0]), covariance), X)
    assert_close(sg.spectrogram(kernel, X, s, resolution=0.3), expected, 1e-12)


def test_components_without_width_need_a_resolution():
    s = np.linspace(-2, 2, 401)
    at_rest = kernels.Warped(kernels.SquaredExponential(1.0), lambda X: X**2)
    X = np.array([[1.0], [0.0]])
    with pytest.raises(ValueError, match=r"row 1 of X, component 0, has no width.*resolution"):
        sg.spectrogram(at_rest, X, s)
    density = sg.spectrogram(at_rest, X, s, resolution=0.1)
    assert_close(density[1], reference.gaussian(s[:, None], np.zeros(1), 0.1**2 * np.eye(1)), 1e-12)
    # Two dimensions seen by the kernel as one: no density, but marginals.
    summed = kernels.Warped(kernels.SquaredExponential(0.5), lambda X: jnp.sum(X, axis=1, keepdims=True))
    X = inputs(N, 2)
    with pytest.raises(ValueError, match=r"no width.*marginal"):
        sg.spectrogram(summed, X, np.zeros((1, 2)))
    covariance = np.eye(1) / (2 * np.pi * 0.5) ** 2
    expected = same(reference.gaussian(s[:, None], np.zeros(1), covariance), X)
    assert_close(sg.spectrogram(summed, X, s, axis=1), expected, 1e-12)


# --- transformations and precision ---


def test_spectrogram_under_jit_and_grad():
    X, s = inputs(N, 1), np.linspace(-2, 2, 21)

    def density(c, X):
        kernel = kernels.ConvolutionalSpectral(lambda X: 0.5 + c * X**2, lambda X: 3 * jnp.sin(c * X))
        return sg.spectrogram(kernel, X, s)

    with double():
        eager = density(0.7, X)
        weights = jnp.cos(jnp.arange(eager.size)).reshape(eager.shape)

        def weighted(c, X):
            values = density(c, X)
            return jnp.sum(weights * values), values

        loss = jax.jit(jax.value_and_grad(weighted, has_aux=True))
        (_, compiled), slope = loss(0.7, jnp.asarray(X))
        assert_close(compiled, eager, 1e-12)
        # Central differences of fourth order.
        h = 1e-3
        steps = {-2 * h: 1, -h: -8, h: 8, 2 * h: -1}
        difference = sum(w * float(loss(0.7 + step, X)[0][0]) for step, w in steps.items()) / (12 * h)
        slope = float(slope)
    assert abs(slope) > 1e-2
    assert slope == pytest.approx(difference, rel=1e-7)


@pytest.mark.parametrize("transform", [sg.spectrogram, sg.wigner], ids=["spectrogram", "wigner"])
def test_single_precision(transform):
    X, s = inputs(N, 1), np.linspace(-2, 2, 21)
    kernel = exact_cases(functions(1))["spectral mixture"][0]
    with sg.precision("float32"):
        density = transform(kernel, X, s)
    assert density.dtype == np.float32
    assert_close(density, transform(kernel, X, s), 1e-4)


def test_numpy_functions_in_the_wigner_distribution():
    """Functions that cannot be differentiated or traced, such as interpolated tables."""
    knots, values = np.linspace(-50, 50, 5), np.array([52.0, 27.0, 2.0, -23.0, -48.0])

    def table(X):
        return np.interp(np.asarray(X), knots, values)

    X, s = inputs(N, 1), np.linspace(-2, 2, 21)
    smooth = kernels.ConvolutionalSpectral(0.8, lambda X: 2.0 - X)
    assert_close(sg.wigner(kernels.ConvolutionalSpectral(0.8, table), X, s), sg.spectrogram(smooth, X, s), 1e-8)


# --- errors ---

PLAIN = kernels.SpectralMixture(0.8, 2.0)


@pytest.mark.parametrize("transform", [sg.spectrogram, sg.wigner], ids=["spectrogram", "wigner"])
@pytest.mark.parametrize(
    ("D", "frequency", "options", "message"),
    [
        (1, np.zeros((3, 2)), {}, r"frequency must have shape \[m, d\] with d = 1, got \[3, 2\]"),
        (1, 0.5, {}, r"frequency must have shape \[m, d\] with d = 1, got \[\]"),
        (2, np.zeros(3), {}, r"frequency must have shape \[m, d\] with d = 2, got \[3\].*axis=j"),
        (2, np.zeros((3, 3)), {}, r"frequency must have shape \[m, d\] with d = 2, got \[3, 3\]"),
        (2, np.zeros((3, 2)), {"axis": 0}, r"frequency must have shape \[m\] when axis is given, got \[3, 2\]"),
        (1, [0.0, np.nan], {}, r"frequency must be finite, got nan at index \[1\]"),
        (2, np.zeros(3), {"axis": 2}, "axis must be between 0 and 1, got 2"),
        (2, np.zeros(3), {"axis": -1}, "axis must be between 0 and 1, got -1"),
        (2, np.zeros((3, 2)), {"slice_at": [0.0, 0.0]}, "slice_at needs axis"),
        (2, np.zeros(3), {"axis": 0, "slice_at": [0.0]}, r"slice_at must be a wavevector \[d\] with d = 2, got shape"),
    ],
)
def test_bad_frequencies_are_refused(transform, D, frequency, options, message):
    with pytest.raises(ValueError, match=message):
        transform(PLAIN, inputs(N, D), frequency, **options)


def test_wigner_needs_a_covariance_that_decays():
    periodic = kernels.Warped(kernels.SquaredExponential(1.0), lambda X: jnp.concatenate([jnp.cos(X), jnp.sin(X)], 1))
    with pytest.raises(ValueError, match=r"row 0 of X.*does not decay with the lag.*resolution"):
        sg.wigner(periodic, inputs(N, 1), np.ones(1))


def test_wigner_is_refused_inside_transformations():
    with pytest.raises(TypeError, match=r"wigner .* cannot run inside jit, grad or vmap"):
        jax.jit(lambda X: sg.wigner(PLAIN, X, np.zeros(1)))(inputs(N, 1))


@pytest.mark.parametrize("transform", [sg.spectrogram, sg.wigner, lambda k, X, s: sg.local_spectrum(k, X)])
def test_bad_inputs_are_refused(transform):
    with pytest.raises(ValueError, match=r"X must have shape \[n, d\]"):
        transform(PLAIN, np.zeros((2, 3, 4)), np.zeros(1))
    with pytest.raises(ValueError, match=r"X must have shape \[n, d\]"):
        transform(PLAIN, 0.5, np.zeros(1))


def test_a_list_of_numbers_is_one_column():
    X, s = inputs(N, 1), np.linspace(-2, 2, 21)
    assert np.array_equal(sg.spectrogram(PLAIN, X[:, 0], s), sg.spectrogram(PLAIN, X, s))


def test_frequencies_alone_are_those_of_the_spectrum():
    """Of two components and two inputs, where frequencies change."""

    def frequency(X):
        return jnp.stack([jnp.stack([2.0 + X[:, 0], X[:, 1] ** 2], 1), jnp.stack([5.0 * X[:, 1], 1.0 - X[:, 0]], 1)], 1)

    kernel = sg.kernels.ConvolutionalSpectral(lambda X: 0.5 + X[:, :1] ** 2, frequency, np.array([1.0, 0.5]))
    X = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(local_frequency(kernel, X), sg.local_spectrum(kernel, X).frequency, rtol=1e-12)
