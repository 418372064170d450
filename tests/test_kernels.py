"""Every kernel equals its formula, its relatives, and itself under JAX's transformations."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import spectrogp as sg
import zoo
from spectrogp.kernels import base
from zoo import BY_NAME, DIMENSIONS, KERNELS, double, every_kernel_or_slow, functions, inputs

kernels = sg.kernels
pytestmark = pytest.mark.usefixtures("compile_quickly")

N, M = 7, 5
ROUNDING = 1e-12

every_kernel = pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name.replace(" ", "-"))
every_kind_of_kernel = pytest.mark.parametrize("case", every_kernel_or_slow())
every_dimension = pytest.mark.parametrize("D", DIMENSIONS)


def assert_close(actual, expected, tolerance=ROUNDING):
    """Equal within a tolerance relative to the largest expected entry."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    scale = np.max(np.abs(expected))
    assert scale > 0
    assert np.max(np.abs(actual - expected)) <= tolerance * scale


# --- the formulas ---


@every_kernel
@every_dimension
def test_equals_the_loops(case, D):
    kernel, X, Y = case.kernel(D), inputs(N, D), inputs(M, D, seed=1)
    K = kernel(X)
    assert isinstance(K, np.ndarray)
    assert K.dtype == np.float64
    assert_close(K, case.reference(D, X, X))
    assert_close(kernel(X, Y), case.reference(D, X, Y))


@every_kind_of_kernel
def test_matrices_agree_with_each_other(case):
    kernel, X = case.kernel(3), inputs(N, 3)
    p, q = kernel.local(X), kernel.local(X[::-1].copy())
    K, crossed = kernel.gram(p), kernel.cross(p, q)
    assert_close(kernel.diagonal(p), np.diag(K))
    assert_close(kernel.elementwise(p, q), np.diag(crossed))
    assert_close(crossed, K[:, ::-1])
    # A kernel with its own fast ``cross`` equals the general one, made from ``pair``.
    assert_close(kernels.AbstractKernel.cross(kernel, p, q), K[:, ::-1])
    assert_close(K, K.T)


def quadrature_grids(P, D, count):
    """Grids wide enough for every basis function of the points: 7 lengthscales, where it is 1e-11 of its peak."""
    reach = 7 * max(point.lengthscale.max() for point in P)
    x = np.array([point.x for point in P])
    return [np.linspace(x[:, d].min() - reach, x[:, d].max() + reach, count) for d in range(D)]


@pytest.mark.parametrize("name", ["convolutional", "chirplet tied", "chirplet free"])
@pytest.mark.parametrize(("D", "count"), [(1, 2000), (2, 300)])
def test_equals_the_quadrature_of_the_basis_functions(name, D, count):
    case, X, Y = BY_NAME[name], inputs(N, D), inputs(M, D, seed=1)
    P, Q = case.reference_points(D, X), case.reference_points(D, Y)
    for point in P + Q:
        point.chirp = getattr(point, "chirp", np.zeros_like(point.frequency))
    grids = quadrature_grids(P + Q, D, count)
    assert_close(case.kernel(D)(X), reference.inner_products(P, P, grids), 1e-8)
    assert_close(case.kernel(D)(X, Y), reference.inner_products(P, Q, grids), 1e-8)


# --- reductions of one kernel to another ---


@every_dimension
def test_convolutional_without_frequency_is_quadratic(D):
    f, X = functions(D), inputs(N, D)
    K = kernels.NonstationaryQuadratic(f.lengthscale, f.amplitude)(X)
    assert_close(kernels.ConvolutionalSpectral(f.lengthscale, 0.0, f.amplitude)(X), K)
    assert_close(kernels.GeneralizedSpectralMixture(f.lengthscale, 0.0, f.amplitude)(X), K)
    assert_close(kernels.Phase(f.lengthscale, lambda X: jnp.ones(len(X)), f.amplitude)(X), K)


@pytest.mark.parametrize("case", [case for case in KERNELS if case.reduces], ids=lambda case: case.name)
@every_dimension
def test_reduces_to_another(case, D):
    one, other = case.reduces(functions(D))
    assert_close(one(inputs(N, D)), other(inputs(N, D)))


def test_every_kernel_has_a_row():
    rows = {type(case.kernel(1)) for case in KERNELS} | {kernels.Layered}
    found = {getattr(kernels, name) for name in kernels.__all__ if not name.startswith("Abstract")}
    missing = [
        kind.__name__ for kind in found - rows if isinstance(kind, type) and issubclass(kind, base.AbstractKernel)
    ]
    assert not missing, f"{missing}: give each a row in KERNELS of tests/zoo.py"


@every_dimension
def test_constant_functions_give_a_spectral_mixture(D):
    f, X = functions(D), inputs(N, D)
    length, omega = f.constant_lengthscale, f.constant_frequency
    # Two windows of width ℓ overlap like a squared exponential of width √2 ℓ.
    K = kernels.SpectralMixture(np.sqrt(2) * length, omega, f.amplitude)(X)
    assert_close(kernels.ConvolutionalSpectral(length, omega, f.amplitude)(X), K)
    assert_close(kernels.GeneralizedSpectralMixture(length, omega, f.amplitude)(X), K)
    assert_close(kernels.Chirplet(length, omega, f.amplitude)(X), K)
    assert_close(kernels.Phase(length, lambda X: X @ omega.T, f.amplitude)(X), K)


@every_dimension
def test_chirplet_without_chirp_is_convolutional(D):
    f, X = functions(D), inputs(N, D)
    K = kernels.ConvolutionalSpectral(f.lengthscale, f.frequency, f.amplitude)(X)
    assert_close(kernels.Chirplet(f.lengthscale, f.frequency, f.amplitude, chirp=0.0)(X), K)


@every_dimension
def test_tied_chirplet_is_the_free_one_with_the_derivative(D):
    f, X = functions(D), inputs(N, D)
    free = kernels.Chirplet(f.lengthscale, f.frequency, f.amplitude, chirp=f.frequency.own_derivative)
    assert_close(kernels.Chirplet(f.lengthscale, f.frequency, f.amplitude)(X), free(X))


@every_dimension
def test_harmonizable_with_infinite_window_and_one_frequency_is_a_spectral_mixture(D):
    f, X = functions(D), inputs(N, D)
    omega = f.constant_frequency
    centre = np.broadcast_to(f.centre[0], omega.shape)
    length = f.constant_lengthscale[0]
    weight = np.sqrt([[[0.7]], [[1.9]]])
    K = kernels.SpectralMixture(length, omega, weight[:, 0, 0])(X)
    assert_close(kernels.HarmonizableMixture(centre, omega[:, None, :], length, weight=weight)(X), K)
    # The scale γ divides the lengthscale.
    assert_close(kernels.HarmonizableMixture(centre, omega[:, None], 3 * length, weight=weight, scale=3.0)(X), K)


@every_dimension
def test_harmonizable_extents_as_numbers_vectors_and_matrices_agree(D):
    f, X = functions(D), inputs(N, D)

    def build(length, window):
        return kernels.HarmonizableMixture(f.centre, f.wavevectors, length, window, f.factors, f.gamma)(X)

    K = build(0.8, 1.6)
    assert_close(build(np.full(D, 0.8), np.full(D, 1.6)), K)
    assert_close(build(0.8 * np.eye(D), 1.6 * np.eye(D)), K)
    # Only ww' matters: a rotation (here a reflection) of the columns of a matrix changes nothing.
    assert_close(build(0.8 * np.eye(D)[:, ::-1], -1.6 * np.eye(D)), K)


@every_dimension
def test_generalized_spectral_with_equal_frequencies_is_four_spectral_mixtures(D):
    f, X = functions(D), inputs(N, D)
    length, omega = f.constant_lengthscale, f.constant_frequency
    K = 4.0 * kernels.SpectralMixture(length, omega, f.amplitude)(X)
    assert_close(kernels.GeneralizedSpectral(length, omega, omega, f.amplitude)(X), K)


@every_dimension
def test_full_convolutional_with_diagonal_matrices_is_convolutional(D):
    f, X = functions(D), inputs(N, D)
    K = kernels.ConvolutionalSpectral(f.lengthscale, f.frequency, f.amplitude)(X)

    def covariance(X):
        return f.lengthscale(X)[..., None] ** 2 * jnp.eye(D)

    assert_close(kernels.FullConvolutionalSpectral(covariance, f.frequency, f.amplitude)(X), K)


@every_dimension
def test_mean_parametrises_the_same_kernels_as_frequency(D):
    f, X = functions(D), inputs(N, D)
    by_frequency = kernels.FullConvolutionalSpectral(f.covariance, f.frequency, f.amplitude)

    def mean(X):
        return jnp.einsum("nade,nae->nad", f.covariance(X), f.frequency(X))

    by_mean = kernels.FullConvolutionalSpectral(f.covariance, amplitude=f.amplitude, mean=mean)
    assert_close(by_mean(X), by_frequency(X))
    # Diagonal: constants too.
    by_mean = kernels.ConvolutionalSpectral(f.constant_lengthscale, mean=2.0)
    by_frequency = kernels.ConvolutionalSpectral(f.constant_lengthscale, 2.0 / f.constant_lengthscale**2)
    assert_close(by_mean(X), by_frequency(X))


@every_dimension
def test_warp_by_a_matrix_changes_lengthscale_and_frequency(D):
    f, X = functions(D), inputs(N, D)
    stretch = 1.0 + 0.5 * np.arange(D)
    warped = kernels.Warped(kernels.SpectralMixture(1.2, f.constant_frequency), lambda X: X * stretch)
    assert_close(warped(X), kernels.SpectralMixture(1.2 / stretch, f.constant_frequency * stretch)(X))


def test_warp_may_change_the_number_of_dimensions():
    X = inputs(N, 1)
    warped = kernels.Warped(
        kernels.SquaredExponential(0.9), lambda X: jnp.concatenate([jnp.cos(X), jnp.sin(X)], axis=1)
    )
    circle = np.concatenate([np.cos(X), np.sin(X)], axis=1)
    assert_close(warped(X), kernels.SquaredExponential(0.9)(circle))


# --- the algebra of kernels ---


@pytest.fixture(scope="module")
def three():
    f = functions(3)
    return (
        kernels.SpectralMixture(f.constant_lengthscale, f.constant_frequency),
        kernels.Chirplet(f.lengthscale, f.frequency, f.amplitude),
        kernels.NonstationaryQuadratic(f.lengthscale, f.amplitude),
    )


def test_sums_and_products_are_those_of_matrices(three):
    X, Y = inputs(N, 3), inputs(M, 3, seed=1)
    one, two, other = three
    for at in [(X,), (X, Y)]:
        A, B, C = (kernel(*at) for kernel in three)
        assert_close((one + two)(*at), A + B)
        assert_close((one + two + other)(*at), A + B + C)
        assert_close((one * two)(*at), A * B)
        assert_close((one * two * other)(*at), A * B * C)
        assert_close(((one + two) * other)(*at), (A + B) * C)
        assert_close((one * two + 0.5 * other)(*at), A * B + 0.5 * C)


def test_scaling_is_that_of_matrices(three):
    X, Y = inputs(N, 3), inputs(M, 3, seed=1)
    one = three[1]
    K, Kxy = one(X), one(X, Y)
    for factor in (3, 2.5, np.float32(0.25), np.array(1.5), jnp.asarray(0.5)):
        assert_close((factor * one)(X), float(factor) * K)
        assert_close((one * factor)(X, Y), float(factor) * Kxy)
    assert np.array_equal((0.0 * one)(X), np.zeros((N, N)))
    s = 1.0 + X[:, 0] ** 2
    scaled = kernels.Scaled(one, lambda X: 1.0 + X[:, 0] ** 2)
    assert_close(scaled(X), s[:, None] * K * s)
    assert_close(scaled(X, Y), s[:, None] * Kxy * (1.0 + Y[:, 0] ** 2))
    assert_close(kernels.Scaled(one, 1.5)(X), 2.25 * K)


def test_a_sum_of_three_is_flat(three):
    one, two, other = three
    assert (one + two + other).terms == (one, two, other)
    assert (one + (two + other)).terms == (one, two, other)
    assert kernels.Sum(one, two, other).terms == (one, two, other)


@pytest.mark.parametrize("other", ["2", None, np.ones(2), [1.0]])
def test_kernels_combine_with_kernels_and_numbers_only(three, other):
    with pytest.raises(TypeError):
        three[0] + other
    with pytest.raises(TypeError):
        three[0] * other


# --- derivatives ---

# Weights of central differences of fourth order at offsets −2h … 2h.
FIRST = np.array([1, -8, 0, 8, -1]) / 12
SECOND = np.array([-1, 16, -30, 16, -1]) / 12


def differences(value, x, y, h):
    """Gradient and Hessian in x of value(x, y), and the mixed ∂²/∂x∂y, by central differences of fourth order."""
    D, offsets = len(x), range(-2, 3)
    unit = np.eye(D) * h

    def stencil(left, right):
        return np.array([[value(x + i * left, y + j * right) for j in offsets] for i in offsets])

    gradient = [FIRST @ stencil(unit[d], 0 * x)[:, 2] / h for d in range(D)]
    mixed = [[FIRST @ stencil(unit[d], unit[e]) @ FIRST / h**2 for e in range(D)] for d in range(D)]

    def second(d, e):
        if d == e:
            return SECOND @ stencil(unit[d], 0 * x)[:, 2] / h**2
        cross = [[value(x + i * unit[d] + j * unit[e], y) for j in offsets] for i in offsets]
        return FIRST @ np.array(cross) @ FIRST / h**2

    return np.array(gradient), np.array([[second(d, e) for e in range(D)] for d in range(D)]), np.array(mixed)


# Step and tolerance by the number of derivatives k has at lag zero. Smooth: h⁴/90 k⁽⁶⁾ and ε/h² are both below 1e-8.
# Matérn-5/2: |lag|⁵ leaves h³ (√5/ℓ)⁵ ~ 1e-6. Matérn-3/2: |lag|³ leaves h (√3/ℓ)³ ~ 1e-3. Matérn-1/2: |lag| cancels.
STEPS = {6: (3e-3, 1e-6), 4: (3e-3, 2e-5), 2: (3e-5, 3e-3), 0: (3e-5, 3e-3)}


@every_kind_of_kernel
def test_derivatives_at_coincident_inputs(case):
    D = 2
    x = inputs(3, D, seed=4)[1]
    with double():
        k = zoo.value(case.kernel(D))
        both = jax.grad(lambda ends: k(ends[:D], ends[D:]))
        at = jnp.concatenate([jnp.asarray(x)] * 2)
        slope, curvature = jax.jit(lambda ends: (both(ends), jax.jacfwd(both)(ends)))(at)
    actual = [np.asarray(part) for part in (slope[:D], curvature[:D, :D], curvature[:D, D:])]
    pair = case.pair(functions(D))

    def value(x, y):
        return pair(case.reference_points(D, x[None])[0], case.reference_points(D, y[None])[0])

    step, tolerance = STEPS[case.derivatives]
    expected = differences(value, x, x, step)
    scale = max(np.max(np.abs(part)) for part in expected)
    if not case.derivatives:  # a kink: finite, and the slope between those of both sides
        assert all(np.all(np.isfinite(part)) for part in actual)
        actual, expected, scale = actual[:1], expected[:1], np.max(np.abs(expected[0]))
    for part, truth in zip(actual, expected, strict=True):
        assert np.all(np.isfinite(part))
        assert np.max(np.abs(part - truth)) <= tolerance * scale


def squared_loss(K):
    """A scalar of a covariance matrix that every entry enters with its own weight."""
    weights = jnp.cos(jnp.arange(K.size, dtype=K.dtype)).reshape(K.shape)
    return jnp.sum(weights * K**2)


@every_kind_of_kernel
def test_gradient_in_the_parameters(case):
    D = 3
    X = inputs(N, D)
    with double():
        X = jnp.asarray(X)
        arrays, rest = eqx.partition(case.kernel(D), eqx.is_inexact_array)
        leaves, structure = jax.tree.flatten(arrays)
        assert leaves
        rng = np.random.default_rng(0)
        direction = jax.tree.unflatten(structure, [rng.normal(size=np.shape(leaf)) for leaf in leaves])

        @jax.jit
        @jax.value_and_grad
        def loss(step):
            moved = jax.tree.map(lambda leaf, along: leaf + step * along, arrays, direction)
            kernel = eqx.combine(moved, rest)
            return squared_loss(kernel.gram(kernel.local(X)))

        gradient = float(loss(0.0)[1])
        h = 5e-4
        expected = sum(w * float(loss((i - 2) * h)[0]) for i, w in enumerate(FIRST)) / h
    # Fourth-order differences: h⁴ times a fifth derivative of a few hundred.
    assert abs(expected) > 1e-2
    assert gradient == pytest.approx(expected, rel=1e-6)


def chirp_of(c, X):
    """A scalar that depends on c through the closure of a kernel's callables only."""
    kernel = kernels.Chirplet(lambda X: 0.5 + 0.1 * c * X**2, lambda X: 2.0 + c * X**3)
    return squared_loss(kernel(X))


@pytest.mark.parametrize("wide", [True, False])
def test_gradient_in_a_parameter_held_by_a_closure(wide):
    X = inputs(N, 1)
    h = 1e-3
    with double():
        expected = sum(w * float(chirp_of(0.7 + (i - 2) * h, X)) for i, w in enumerate(FIRST)) / h
    with jax.enable_x64(wide):
        gradient = jax.grad(chirp_of)(0.7, X)
    assert gradient.dtype == (np.float64 if wide else np.float32)
    assert float(gradient) == pytest.approx(expected, rel=1e-7 if wide else 1e-5)


def test_weights_of_a_network_in_a_warp_have_gradients():
    X = inputs(N, 2)
    network = eqx.nn.MLP(2, 3, 8, 2, activation=jnp.tanh, key=jax.random.key(0))
    kernel = kernels.Warped(kernels.SquaredExponential(1.0), eqx.filter_vmap(network))
    outputs = jax.vmap(network)(jnp.asarray(X, dtype=jnp.float32))
    assert_close(kernel(X), kernels.SquaredExponential(1.0)(outputs), 1e-5)

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(kernel, X):
        return squared_loss(kernel(X))

    layers = gradient(kernel, jnp.asarray(X)).warp._fun.layers
    assert len(layers) == 3
    # The last bias shifts all outputs alike and drops out of a stationary kernel; every other weight counts.
    for layer in layers:
        assert np.count_nonzero(np.asarray(layer.weight)) == layer.weight.size
    for layer in layers[:-1]:
        assert np.count_nonzero(np.asarray(layer.bias)) == layer.bias.size


# --- transformations, precision, blocks ---


@every_kind_of_kernel
def test_jit_and_vmap(case):
    D = 3
    kernel, X, Y = case.kernel(D), inputs(N, D), inputs(N, D, seed=1)
    with double():
        compiled = jax.jit(lambda both: (kernel(both[0]), jax.vmap(lambda X: kernel(X))(both)))
        one, both = compiled(jnp.stack([X, Y]))
    assert_close(one, kernel(X))
    assert_close(both, np.stack([kernel(X), kernel(Y)]))


@every_kind_of_kernel
def test_single_precision(case):
    D = 3
    # As many of both: what is compiled for X serves Y.
    kernel, X, Y = case.kernel(D), inputs(N, D), inputs(N, D, seed=1)
    with sg.precision("float32"):
        K, Kxy = kernel(X), kernel(X, Y)
        with sg.precision("float64"):
            inner = kernel(X)
    assert K.dtype == Kxy.dtype == np.float32
    assert_close(K, kernel(X), 1e-5)
    assert_close(Kxy, kernel(X, Y), 1e-5)
    assert inner.dtype == np.float64
    assert np.array_equal(inner, kernel(X))


def test_precision_is_restored_after_an_error():
    def fail():
        with sg.precision("float32"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert kernels.SquaredExponential(1.0)(inputs(N, 1)).dtype == np.float64


def test_the_caller_keeps_float32():
    K = kernels.SquaredExponential(1.0)(inputs(N, 1))
    sg.spectrogram(kernels.SquaredExponential(1.0), inputs(N, 1), np.linspace(-1, 1, 5))
    assert K.dtype == np.float64
    assert jnp.ones(1).dtype == jnp.float32


def test_numpy_functions_and_integer_inputs():
    X = np.arange(N)[:, None]
    knots = np.linspace(0, N, 4)

    def table(X):
        return np.interp(np.asarray(X), knots, [0.5, 0.9, 0.4, 0.7])

    kernel = kernels.ConvolutionalSpectral(table, 1.0, lambda X: table(X)[:, 0])
    P = reference.points(
        X.astype(float),
        lengthscale=lambda X: table(X)[:, None],
        frequency=np.ones((1, 1)),
        amplitude=table,
    )
    assert_close(kernel(X), reference.matrix(reference.convolutional_spectral, P, P))
    assert_close(kernel(X.tolist()), kernel(X))


@pytest.mark.parametrize("name", ["convolutional", "harmonizable", "sum"])
def test_large_matrices_go_by_blocks_of_rows(name, monkeypatch):
    # A shape no other test uses, since blocks are chosen when a shape is first compiled.
    D, case, X, Y = 2, BY_NAME[name], inputs(13, 2), inputs(11, 2, seed=1)
    kernel = case.kernel(D)
    p, q = kernel.local(X), kernel.local(Y)
    batches = []
    mapped = jax.lax.map
    monkeypatch.setattr(jax.lax, "map", lambda *args, **kw: batches.append(kw["batch_size"]) or mapped(*args, **kw))

    monkeypatch.setattr(base, "_BLOCK", 200)
    assert_close(kernels.AbstractKernel.cross(kernel, p, q), case.reference(D, X, Y))
    assert len(batches) == 1
    assert 1 <= batches[0] < len(X)
    # Small enough, here only traced, it needs no blocks.
    monkeypatch.setattr(base, "_BLOCK", 2**22)
    fewer = jax.tree.map(lambda leaf: leaf[1:], p)
    jax.eval_shape(lambda p, q: kernels.AbstractKernel.cross(kernel, p, q), fewer, q)
    assert len(batches) == 1


@pytest.fixture(scope="module")
def compilations():
    """The names of JAX's events as they come, one for each program that it compiles."""
    events = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *rest, **more: events.append(name))
    return lambda: sum("backend_compile" in name for name in events)


@pytest.mark.parametrize(
    "make",
    [
        lambda c: kernels.ConvolutionalSpectral(lambda X: c + X**2, lambda X: c * X, lambda X: c + X[:, 0] ** 2),
        lambda c: kernels.Warped(kernels.SquaredExponential(c), lambda X: X + c * X**3),
        lambda c: kernels.Scaled(
            kernels.GeneralizedSpectral(c, c, 2.0, lambda X: c + X[:, 0] ** 2), lambda X: c * X[:, 0] ** 2
        ),
        lambda c: c * kernels.Phase(lambda X: c + X**2, lambda X: c * X[:, 0]) + kernels.SpectralMixture(c, 1.0),
    ],
    ids=["convolutional", "warped", "scaled", "sum"],
)
def test_new_functions_of_equal_shape_compile_nothing_new(make, compilations):
    X = inputs(9, 1)
    before = compilations()
    first = make(0.5)(X)
    once = compilations()
    assert once > before  # the counter does count
    others = [make(c)(X) for c in (0.6, 0.7, 0.8)]
    assert compilations() == once
    assert all(np.max(np.abs(first - other)) > 1e-3 for other in others)
