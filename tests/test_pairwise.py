"""The fast ``cross`` of each kernel equals the generic one, made from ``pair``, in value and gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
import zoo
from spectrogp.kernels import Local, base, pairwise
from spectrogp.kernels.waves import sincos
from zoo import double

kernels = sg.kernels
pytestmark = pytest.mark.usefixtures("compile_quickly")
optimised = pytest.mark.usefixtures("compile_fully")

VALUE, GRADIENT = 1e-12, 1e-9


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel with a fast path and the names of its local parameters (its own parameters do not matter here)."""

    name: str
    kernel: Any
    needs: tuple[str, ...]

    def generic(self, p, q):
        return base._cross(self.kernel.without_callables(), p, q)

    def fast(self, p, q):
        return self.kernel.cross(p, q)

    def sides(self, n=13, m=9, D=3, components=2, **changes):
        """Local parameters of n and of m inputs. Most tests keep one shape, which then is compiled once."""
        return tuple(self.parameters(size, D, components, seed, **changes) for seed, size in enumerate((n, m)))

    def parameters(self, n, D, components, seed, **changes):
        """Random local parameters of n inputs; ``changes`` maps a name to a function of the usual values."""
        rng = np.random.default_rng(seed)
        vector, scalar = (n, components, D), (n, components)
        values = {
            "x": rng.normal(size=(n, D)),
            "lengthscale": np.exp(0.4 * rng.normal(size=vector)),
            "frequency": 2.0 * rng.normal(size=vector),
            "chirp": rng.normal(size=vector),
            "phase": 4.0 * rng.normal(size=scalar),
            "amplitude": rng.uniform(0.3, 1.5, scalar),
        }
        for name, change in changes.items():
            values[name] = change(values[name], rng)
        return Local(**{name: jnp.asarray(values[name]) for name in self.needs})


def with_fast_paths():
    """One case for each class in the zoo that has a ``cross`` of its own (that of composites is their parts')."""
    found = {}
    for row in zoo.KERNELS:
        kernel = row.kernel(1)
        own = type(kernel).cross is not kernels.AbstractKernel.cross
        if own and isinstance(kernel, kernels.AbstractMixture) and type(kernel) not in found:
            found[type(kernel)] = Case(row.name, kernel, tuple(vars(kernel.local(np.zeros((1, 1))))))
    return list(found.values())


CASES = with_fast_paths()
BY_NAME = {case.name: case for case in CASES}

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))


def weights(n, m, dtype=float):
    return jnp.asarray(np.random.default_rng(9).normal(size=(n, m)), dtype=dtype)


@cache
def with_gradients(case, path):
    """A function of (p, q, G): the matrix, and the gradients of Σ G K in every local parameter of both sides."""

    def run(p, q, G):
        K, pull = jax.vjp(getattr(case, path), p, q)
        return K, pull(G)

    return jax.jit(run)


def assert_close(actual, expected, tolerance):
    """Equal within a tolerance relative to the largest expected entry."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    assert np.all(np.isfinite(actual))
    assert np.max(np.abs(actual - expected)) <= tolerance * np.max(np.abs(expected))


def assert_equal_paths(case, p, q, value=VALUE, gradient=GRADIENT):
    G = weights(len(p.x), len(q.x))
    K, sides = with_gradients(case, "generic")(p, q, G)
    fast, fast_sides = with_gradients(case, "fast")(p, q, G)
    assert_close(fast, K, value)
    for actual, expected in zip(jax.tree.leaves(fast_sides), jax.tree.leaves(sides), strict=True):
        assert_close(actual, expected, gradient)


# --- equal to the generic path ---


@optimised
@every_case
@pytest.mark.parametrize(("D", "components"), [pytest.param(1, 1, marks=pytest.mark.slow), (3, 2)])
def test_equals_the_generic_path(case, D, components):
    with double():
        assert_equal_paths(case, *case.sides(12, 8, D, components))


def small_tiles(monkeypatch):
    """Tiles of 256 entries also for small matrices, whose gradients otherwise are taken whole."""
    for name, value in {"_COLUMNS": 16, "_TILE": 256, "_AT_ONCE": 0}.items():
        monkeypatch.setattr(pairwise, name, value)


@pytest.mark.parametrize(
    ("name", "n", "m"),
    [
        ("squared exponential", 37, 53),
        ("phase", 37, 53),
        ("convolutional", 37, 53),
        ("convolutional", 5, 90),
        ("convolutional", 90, 5),
        ("convolutional", 48, 32),
        ("chirplet tied", 37, 53),
    ],
)
def test_gradients_go_by_tiles_of_any_size(name, n, m, monkeypatch):
    case = BY_NAME[name]
    small_tiles(monkeypatch)
    rows, columns = pairwise._tile_shape(n, m, 2)
    assert (rows, columns) != (n, m)
    assert rows * columns * 2 <= 256
    with double():
        assert_equal_paths(case, *case.sides(n, m, 2, 2))


@pytest.mark.parametrize(
    ("n", "m", "components"), [(1, 1, 1), (1500, 1500, 4), (100, 10_000, 4), (7, 401, 40), (3, 256, 2)]
)
def test_tiles_cover_the_matrix(n, m, components):
    rows, columns = pairwise._tile_shape(n, m, components)
    assert 1 <= rows <= n
    assert 1 <= columns <= min(m, pairwise._COLUMNS)
    assert rows == 1 or rows * columns * components <= pairwise._TILE
    assert columns % 128


@every_case
def test_large_frequencies(case):
    # Values of a phase of a few thousand lose three digits to rounding on either path.
    changes = {
        "frequency": lambda w, rng: w + 1000.0,
        "phase": lambda phi, rng: phi + 1000.0,
        "chirp": lambda c, rng: 10.0 * c,
    }
    with double():
        assert_equal_paths(case, *case.sides(**changes))


@pytest.mark.slow
@every_case
def test_extreme_lengthscales(case):
    changes = {
        "lengthscale": lambda ell, rng: 10.0 ** rng.uniform(-5, 5, ell.shape),
        "x": lambda x, rng: 10.0 ** rng.uniform(-6, 3, x.shape),
    }
    with double():
        assert_equal_paths(case, *case.sides(**changes))


@every_case
def test_coincident_inputs_and_zero_amplitudes(case):
    def repeated(x, rng):
        return x[np.arange(len(x)) % 3]

    def switched_off(sigma, rng):
        return np.where(np.arange(sigma.size).reshape(sigma.shape) % 2, sigma, 0.0)

    with double():
        p, _ = case.sides(x=repeated, amplitude=switched_off)
        assert_equal_paths(case, p, jax.tree.map(lambda leaf: leaf[:9], p))


@every_case
def test_clustered_inputs_far_from_the_origin(case):
    def clustered(x, rng):
        return 1e6 + rng.choice([0.0, 3.0], (len(x), 1)) + 1e-7 * x

    # The angle ⟨ω, x⟩ of a GSM is of the size 1e6 and rounds at 1e-10 on either path.
    tolerance = 1e-8 if case.name == "generalized spectral mixture" else VALUE
    with double():
        assert_equal_paths(case, *case.sides(x=clustered), tolerance, max(tolerance, GRADIENT))


@every_case
def test_gram_is_symmetric_and_positive(case):
    with double():
        changes = {}
        if isinstance(case.kernel, kernels.SquaredExponential | kernels.SpectralMixture):
            changes = {name: lambda values, rng: 0 * values + values[:1] for name in ("lengthscale", "frequency")}
        p = case.parameters(12, 3, 2, 1, **changes)
        K = np.asarray(case.kernel.gram(p))
        assert_close(K, K.T, 1e-15)
        assert np.min(np.linalg.eigvalsh(K)) > -1e-12 * np.max(K)


@every_case
@pytest.mark.parametrize("n", [11, 35])
def test_gradient_of_gram_equals_that_of_the_generic_path(case, n, monkeypatch):
    """Whole and by tiles, and for a G that is not symmetric."""
    if n == 35:
        small_tiles(monkeypatch)
    with double():
        p, G = case.parameters(n, 2, 2, 1), weights(n, n)
        actual = jax.jit(jax.grad(lambda p: jnp.vdot(G, case.kernel.gram(p))))(p)
        expected = jax.jit(jax.grad(lambda p: jnp.vdot(G, case.generic(p, p))))(p)
        for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
            assert_close(one, other, GRADIENT)


# --- single precision ---


@every_case
def test_single_precision(case):
    with double():
        wide = case.sides()
        K, sides = with_gradients(case, "generic")(*wide, weights(13, 9))
    p, q = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), dtype=np.float32), wide)
    fast, fast_sides = with_gradients(case, "fast")(p, q, weights(13, 9, np.float32))
    assert fast.dtype == np.float32
    assert_close(fast, K, 1e-6)
    for actual, expected in zip(jax.tree.leaves(fast_sides), jax.tree.leaves(sides), strict=True):
        assert actual.dtype == np.float32
        assert_close(actual, expected, 1e-5)


@pytest.mark.parametrize("name", ["nonstationary quadratic", "convolutional", "chirplet tied"])
@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_products_over_many_dimensions_do_not_overflow(name, scale):
    # (ℓ_i² + ℓ_j²)^10 is 1e100 here; float32 ends at 1e38.
    case = BY_NAME[name]

    changes = {
        "x": lambda x, rng: 0.3 * scale * x,
        "lengthscale": lambda ell, rng: scale * ell,
        "frequency": lambda w, rng: w / scale,
        "chirp": lambda c, rng: c / scale**2,
    }
    with double():
        wide = case.sides(6, 5, 10, 2, **changes)
        expected = np.asarray(case.generic(*wide))
    narrow = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), dtype=np.float32), wide)
    assert_close(case.fast(*narrow), expected, 1e-5)


# --- sine and cosine ---


def angles(dtype):
    rng = np.random.default_rng(0)
    turns = np.arange(-6000, 6000) * (np.pi / 4)
    u = np.concatenate([rng.uniform(-1e4, 1e4, 200_000), rng.uniform(-4, 4, 100_000), turns, turns + 1e-6, [0.0]])
    return u[np.abs(u) <= 1e4].astype(dtype)


@optimised
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 3e-16), (np.float32, 1e-7)])
def test_sine_and_cosine(dtype, error):
    u = angles(dtype)
    with double():
        sine, cosine = (np.asarray(value) for value in jax.jit(sincos)(jnp.asarray(u)))
    assert sine.dtype == cosine.dtype == dtype
    wide = u.astype(np.longdouble)
    assert np.max(np.abs(sine - np.sin(wide))) <= error
    assert np.max(np.abs(cosine - np.cos(wide))) <= error


@optimised
def test_sine_is_odd_and_cosine_even():
    u = angles(np.float64)
    with double():
        sine, cosine = sincos(jnp.asarray(u))
        negative_sine, same_cosine = sincos(jnp.asarray(-u))
    assert np.array_equal(negative_sine, -sine)
    assert np.array_equal(same_cosine, cosine)


@optimised
@pytest.mark.parametrize("size", [1e6, 1e8, 1e12])
def test_sine_and_cosine_of_large_angles_are_those_of_a_rounded_angle(size):
    u = np.random.default_rng(0).uniform(-size, size, 10_000)
    with double():
        sine, cosine = (np.asarray(value) for value in sincos(jnp.asarray(u)))
    assert np.max(np.abs(sine - np.sin(u))) <= 3e-16 + 2 * np.spacing(size)
    assert np.max(np.abs(cosine - np.cos(u))) <= 3e-16 + 2 * np.spacing(size)


# --- transformations ---


@pytest.fixture
def batch():
    """Local parameters of a CSK for four small matrices, stacked, and weights for each."""
    case = BY_NAME["convolutional"]
    with double():
        p, q = ([case.parameters(size, 2, 2, seed + shift) for seed in range(4)] for size, shift in ((6, 0), (5, 9)))
        yield case, *(jax.tree.map(lambda *leaves: jnp.stack(leaves), *side) for side in (p, q)), weights(6, 5)


def one_by_one(case, p, q, G):
    parts = [with_gradients(case, "generic")(*jax.tree.map(lambda leaf, b=b: leaf[b], (p, q)), G) for b in range(4)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)


def test_vmap(batch):
    case, p, q, G = batch
    actual = jax.jit(jax.vmap(with_gradients(case, "fast"), (0, 0, None)))(p, q, G)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(one_by_one(case, p, q, G)), strict=True):
        assert_close(one, other, GRADIENT)


def test_gradient_of_vmap_with_one_side_shared(batch):
    case, p, q, G = batch
    first = jax.tree.map(lambda leaf: leaf[0], q)

    def loss(cross):
        return lambda p, q: jnp.sum(jax.vmap(lambda p: jnp.vdot(G, cross(p, q)))(p))

    actual, expected = (jax.jit(jax.grad(loss(cross), (0, 1)))(p, first) for cross in (case.fast, case.generic))
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert_close(one, other, GRADIENT)


def test_scan(batch):
    case, p, q, G = batch
    run = with_gradients(case, "fast")
    actual = jax.jit(lambda p, q: jax.lax.scan(lambda _, pq: (None, run(*pq, G)), None, (p, q))[1])(p, q)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(one_by_one(case, p, q, G)), strict=True):
        assert_close(one, other, GRADIENT)


def test_gradient_through_scan(batch):
    case, p, q, G = batch

    def loss(cross):
        def step(total, pq):
            return total + jnp.vdot(G, cross(*pq)) ** 2, None

        return lambda p, q: jax.lax.scan(step, 0.0, (p, q))[0]

    actual, expected = (jax.jit(jax.grad(loss(cross), (0, 1)))(p, q) for cross in (case.fast, case.generic))
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert_close(one, other, GRADIENT)


def second(derivative, cross, p, q, G):
    """A second derivative of a loss along a line through the local parameters."""

    def loss(step):
        moved = p.replace(x=p.x + step * p.x[::-1], lengthscale=p.lengthscale * jnp.exp(0.1 * step))
        return jnp.vdot(G, cross(moved, q) ** 2)

    return float(jax.jit(derivative(loss))(0.2))


@pytest.mark.parametrize(
    ("name", "derivative"),
    [
        ("spectral mixture", jax.hessian),
        ("convolutional", jax.hessian),
        ("convolutional", lambda f: jax.grad(jax.grad(f))),
        ("chirplet tied", jax.hessian),
    ],
)
def test_second_derivatives(name, derivative):
    case = BY_NAME[name]
    with double():
        p, q, G = case.parameters(6, 2, 2, 1), case.parameters(5, 2, 2, 2), weights(6, 5)
        expected = second(jax.hessian, case.generic, p, q, G)
        assert second(derivative, case.fast, p, q, G) == pytest.approx(expected, rel=1e-9)


@every_case
def test_forward_mode_is_refused(case):
    with double():
        p, q = case.sides()
        with pytest.raises(TypeError, match="forward-mode"):
            jax.jvp(lambda p: case.fast(p, q), (p,), (p,))


def test_forward_mode_on_the_generic_path():
    case = BY_NAME["convolutional"]
    with double():
        p, q = case.sides()
        _, tangent = jax.jvp(lambda p: kernels.AbstractKernel.cross(case.kernel, p, q), (p,), (p,))
        # Along the parameters themselves, against the gradient of the fast path.
        gradient = with_gradients(case, "fast")(p, q, jnp.ones((13, 9)))[1][0]
        inner = sum(
            jnp.vdot(one, other) for one, other in zip(jax.tree.leaves(p), jax.tree.leaves(gradient), strict=True)
        )
        assert float(jnp.sum(tangent)) == pytest.approx(float(inner), rel=1e-9)


@pytest.mark.slow
@optimised
def test_memory_beyond_the_result_stays_flat():
    case = BY_NAME["convolutional"]
    with double():
        G = weights(60, 20_000)
        p, q = case.parameters(60, 3, 2, 1), case.parameters(20_000, 3, 2, 2)

        def temporary(m):
            cut = jax.tree.map(lambda leaf: leaf[:m], q)
            pull = jax.jit(lambda p, q, G: jax.vjp(case.fast, p, q)[1](G))
            return pull.lower(p, cut, G[:, :m]).compile().memory_analysis().temp_size_in_bytes

        matrix = 8 * G.size
        # The vectors of the columns grow with their number; one matrix per component would be 19 MB.
        assert temporary(20_000) - temporary(2000) < matrix
        assert jax.jit(case.fast).lower(p, q).compile().memory_analysis().temp_size_in_bytes < matrix
