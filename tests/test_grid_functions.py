"""Functions on even grids: their prior, their values, their integrals, and stretches of them."""

from __future__ import annotations

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.special import gamma, kv

import spectrogp as sg
from spectrogp.models import Data, MarkovGP
from spectrogp.parameters import GridFunctionGroup, OnGrid, Positive, constrain, knots_needed, log_prior, summary
from spectrogp.parameters.grid import DENSITY, OVER, RANGE
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")

EXTENT = (-1.0, 3.0)


def drawn(group, seed=0):
    """The group with whitened values of its prior."""
    raw = np.random.default_rng(seed).normal(size=group.whitened.raw.shape)
    return eqx.tree_at(lambda g: g.whitened.raw, group, raw)


def plain(lengthscale=0.5, amplitude=0.7, **options):
    """One function before any warp, around zero."""
    options = {"warp": "identity", "mean_std": 0.0, "lengthscale_std": 0.0} | options
    return GridFunctionGroup(EXTENT, 0.0, lengthscale=lengthscale, amplitude=amplitude, **options)


def features(group, x):
    """h at inputs as a matrix ``[n, r]`` times the whitened values."""
    with double():
        place = lambda v: eqx.tree_at(lambda g: g.whitened.raw, group, v[:, None])(x[:, None])  # noqa: E731
        return np.asarray(jax.jit(jax.jacfwd(place))(jnp.zeros(len(group.whitened.raw))))


def h_of(group, x):
    """a Σ_j g(x − z_j) v_j ``[n, k]``, a loop over all knots."""
    ell, a = float(constrain(group).lengthscale), float(constrain(group).amplitude)
    total = np.zeros((len(x), group.whitened.raw.shape[1]))
    for z, v in zip(group.places[:, 0], group.whitened.raw, strict=True):
        window = np.sqrt(group.spacing / ell * np.sqrt(2 / np.pi)) * np.exp(-(((x - z) / ell) ** 2))
        total += a * window[:, None] * v
    return total


# --- the prior ---


def test_covariance_is_the_squared_exponential():
    """To 2 exp(−π²ℓ²/2δ²) of it at nodes, by Poisson's summation; between them the cubic has an error of its own."""
    group = plain()
    by_theory = 2 * np.exp(-0.5 * (np.pi / DENSITY[np.inf]) ** 2)
    assert by_theory < 3.2e-4
    step = group.spacing / OVER
    nodes = group.origin + group.spacing * group.reach + step * np.arange(1, 41)
    for x, error in [(nodes, by_theory), (nodes + 0.4 * step, 5e-4)]:
        A = features(group, x)
        lag, mean = x[:, None] - x, 0.5 * (x[:, None] + x)
        expected = 0.7**2 * np.exp(-0.5 * (lag / 0.5) ** 2)
        assert np.max(np.abs(A @ A.T - expected)) < 0.7**2 * (error + 1e-5)
        if x is nodes:
            ripple = by_theory * np.cos(2 * np.pi * (mean - group.origin) / group.spacing)
            np.testing.assert_allclose(A @ A.T, expected * (1 + ripple), atol=2e-5)


def test_covariance_of_order_eleven_halves_is_the_matern_one():
    """But for a ripple that the transform of the squared window tells, and what is cut off at its end."""
    group = plain(order=5.5)
    c = 2 - 2j * np.pi / (np.sqrt(11) * DENSITY[5.5])
    squared = [1, 2, 5 / 3, 2 / 3, 1 / 9]  # coefficients of (1 + r + r²/3)²
    ripple = 8 / 7 * sum(math.factorial(k) * part / c ** (k + 1) for k, part in enumerate(squared)).real
    assert 0.002 < ripple < 0.003
    x = np.linspace(*EXTENT, 41)
    A = features(group, x)
    variance = 0.7**2 * (1 + ripple * np.cos(2 * np.pi * (x - group.origin) / group.spacing))
    np.testing.assert_allclose(np.sum(A**2, axis=1), variance, rtol=2e-4)  # and the error of the cubic
    r = np.sqrt(11) * np.abs(x[:, None] - x) / 0.5
    expected = 2 ** (1 - 5.5) / gamma(5.5) * np.maximum(r, 1e-9) ** 5.5 * kv(5.5, np.maximum(r, 1e-9))
    np.testing.assert_allclose(A @ A.T, 0.7**2 * expected, atol=0.7**2 * 1.1 * ripple)
    assert np.max(np.abs(expected - np.exp(-0.5 * ((x[:, None] - x) / 0.5) ** 2))) > 10 * ripple


@pytest.mark.parametrize("order", [np.inf, 5.5])
def test_knots_are_as_many_as_are_needed(order):
    group = plain(order=order)
    assert len(group.places) == knots_needed(EXTENT, 0.5, order)
    at = group.places[len(group.places) // 2]
    window, lag = np.abs(features(group, at))[0], np.abs(group.places[:, 0] - at)
    assert np.max(window[lag > group.near]) < 0.011 * np.max(window)  # which is what ``near`` says, and no nearer
    assert np.min(window[lag < 0.9 * group.near]) > 0.009 * np.max(window)


def test_functions_are_as_uncertain_at_the_ends_as_inside():
    x = np.array([EXTENT[0], 1.0, EXTENT[1]])
    for group in (plain(), plain(lengthscale_std=0.3)):
        np.testing.assert_allclose(np.sum(features(group, x) ** 2, axis=1), 0.7**2, rtol=1e-3)


def test_a_free_lengthscale_has_finer_knots_and_a_longer_reach():
    fixed, free = plain(), plain(lengthscale_std=0.3)
    assert fixed.spacing == pytest.approx(DENSITY[np.inf] * 0.5)
    assert free.spacing == pytest.approx(DENSITY[np.inf] * RANGE[0] * 0.5)
    assert fixed.lengthscale.role == "fixed"
    assert free.lengthscale.role == "hyperparameter"
    x = np.linspace(*EXTENT, 41)
    for factor in RANGE:  # the prior is right at both ends of the range
        group = eqx.tree_at(lambda g, f=factor: g.lengthscale, free, Positive(0.5 * factor))
        A = features(group, x)
        expected = 0.7**2 * np.exp(-0.5 * ((x[:, None] - x) / (0.5 * factor)) ** 2)
        np.testing.assert_allclose(A @ A.T, expected, atol=6e-4)


def test_the_log_prior_is_that_of_white_noise():
    group = drawn(plain(amplitude=0.7))
    white = -0.5 * np.sum(group.whitened.raw**2 + np.log(2 * np.pi))
    with double():
        assert float(log_prior(group, "latent")) == pytest.approx(white, rel=1e-12)


# --- values ---


def test_values_are_sums_over_knots():
    """At nodes up to what is cut off, and between them up to the cubic's error, (step/ℓ)⁴."""
    group = drawn(plain(shape=(3,)))
    nodes = group.origin + group.spacing * (group.reach + np.arange(4 * OVER) / OVER)
    h = h_of(group, nodes)
    np.testing.assert_allclose(group(nodes[:, None]), h, atol=2e-3)
    x = np.linspace(*EXTENT, 57)
    np.testing.assert_allclose(group(x[:, None]), h_of(group, x), atol=3e-3)
    np.testing.assert_allclose(group.unwarped(x[:, None]), h_of(group, x), atol=2e-3)
    warped = drawn(GridFunctionGroup(EXTENT, [1.0, 2.0], shape=(2,), lengthscale=0.5))
    np.testing.assert_allclose(np.exp(warped.unwarped(x[:, None])), warped(x[:, None]), rtol=5e-3)


def test_between_nodes_is_the_cubic_through_four():
    with double():
        nodes = np.random.default_rng(0).normal(size=(9, 2))
        on_grid = OnGrid(np.array(-1.0), np.array(0.5), nodes, (2,), "identity")
        x = np.linspace(-0.5, 2.5, 41)[:-1]
        found = np.asarray(on_grid(jnp.asarray(x[:, None])))
    for i, one in enumerate(x):
        cell = int(np.floor((one + 1.0) / 0.5))
        around = slice(cell - 1, cell + 3)
        fitted = np.polyfit(-1.0 + 0.5 * np.arange(9)[around], nodes[around], 3)
        np.testing.assert_allclose(found[i], [np.polyval(c, one) for c in fitted.T], atol=1e-10)


@pytest.mark.parametrize("warp", ["exp", "softplus", "identity"])
def test_functions_begin_at_their_initial_value(warp):
    group = GridFunctionGroup(EXTENT, [[2.0], [0.5]], shape=(2, 1), warp=warp)
    values = group(np.linspace(-9.0, 9.0, 5)[:, None])
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, np.broadcast_to([[2.0], [0.5]], (5, 2, 1)), rtol=1e-12)


def test_far_outside_functions_return_to_their_typical_value():
    group = drawn(GridFunctionGroup(EXTENT, 2.0, amplitude=1.0, lengthscale=0.3, lengthscale_std=0.0))
    inside = group(np.linspace(*EXTENT, 21)[:, None])
    assert np.max(np.abs(np.log(inside / 2.0))) > 0.5
    last = group.places[-1, 0]
    np.testing.assert_allclose(group(np.array([[-1e6], [last + 3 * 0.3], [last + 5.0], [1e9]])), 2.0, rtol=2e-3)
    np.testing.assert_allclose(group(np.array([[-1e6], [last + 5.0], [1e9]])), 2.0, rtol=1e-12)


def test_a_draw_is_the_function_itself():
    group = constrain(drawn(plain(shape=(2,))))
    x = np.linspace(*EXTENT, 7)[:, None]
    np.testing.assert_array_equal(group.realise(jax.random.key(0))(x), group.realise()(x))


# --- integrals ---


@pytest.mark.parametrize("warp", ["exp", "softplus", "identity"])
@pytest.mark.parametrize("power", [1, -1])
def test_integrals_equal_quadrature(warp, power):
    """Of the functions as they are between nodes, to the error of the cubic through values instead of h."""
    group = drawn(GridFunctionGroup(EXTENT, 1.3, warp=warp, amplitude=0.2, lengthscale=0.6, shape=(1, 1)))
    ends = np.array([[-0.9], [0.3], [0.31], [2.8], [2.9999]])
    found = constrain(group).realise().integral(ends, power)
    assert found.shape == (5, 1, 1)

    for (low, high), difference in zip(itertools.pairwise(ends[:, 0]), np.diff(found[:, 0, 0]), strict=True):
        fine = np.linspace(low, high, 4001)
        expected = simpson(group(fine[:, None])[:, 0, 0] ** power, x=fine)
        assert difference == pytest.approx(expected, abs=1e-4)


def test_the_slope_of_an_integral_is_the_function():
    group = drawn(GridFunctionGroup(EXTENT, 5.0, amplitude=0.3, lengthscale=0.5, shape=(2, 1)))
    x = np.linspace(-1.2, 3.2, 45)[:, None]
    with double():
        phase = sg.kernels.IntegratedPhase(group)
        found, slope = jax.jvp(phase, (jnp.asarray(x),), (jnp.ones_like(x),))
    assert found.shape == (45, 2)
    # Slopes at nodes are the values, and between them those of the cubic through nodes.
    np.testing.assert_allclose(slope, group(x)[..., 0], rtol=2e-3)


def test_integrals_are_straight_lines_far_outside():
    group = drawn(GridFunctionGroup(EXTENT, [2.0], amplitude=0.3, shape=(1,), lengthscale_std=0.0))
    x = np.array([[-500.0], [-400.0], [600.0], [800.0]])
    for power in (1, -1):
        found = constrain(group).realise().integral(x, power)[:, 0]
        np.testing.assert_allclose([found[1] - found[0], found[3] - found[2]], [100 * 2.0**power, 200 * 2.0**power])


def test_warped_time_and_phase_take_functions_on_grids():
    group = drawn(GridFunctionGroup(EXTENT, [[0.4]], shape=(1, 1), amplitude=0.3, lengthscale=0.8))
    nodes, x = np.linspace(*EXTENT, 65), np.linspace(*EXTENT, 9)[:, None]
    values = lambda X: group(X)  # the same as any callable, by Gauss' sums  # noqa: E731
    with double():
        for one, other in [
            (sg.kernels.WarpedTime(group), sg.kernels.WarpedTime(values, nodes)),
            (sg.kernels.IntegratedPhase(group), sg.kernels.IntegratedPhase(values, nodes)),
        ]:
            left, right = np.asarray(one(jnp.asarray(x))), np.asarray(other(jnp.asarray(x)))
            np.testing.assert_allclose(left - left[0], right - right[0], atol=1e-4)


# --- fits, stretches, gradients ---


@pytest.mark.parametrize("n", [3, 40])
def test_fitted_to_gives_the_posterior_mode(n):
    """Against dense algebra with the weights of all knots; beyond the reach they are 2e-4 of the largest and less."""
    rng = np.random.default_rng(n)
    x = np.sort(rng.uniform(*EXTENT, n))
    group = GridFunctionGroup(EXTENT, [2.0, 3.0], shape=(2,), lengthscale=0.7, lengthscale_std=0.0)
    values, std = np.exp(rng.normal(0.8, 0.3, (n, 2))), rng.uniform(0.05, 0.3, (n, 2))
    found = group.fitted_to(x[:, None], values, std)
    a, ell = 0.5, 0.7
    W = a * np.sqrt(0.75 * np.sqrt(2 / np.pi)) * np.exp(-(((x[:, None] - group.places[:, 0]) / ell) ** 2))
    W[np.abs(x[:, None] - group.places[:, 0]) > (group.reach + 1) * group.spacing] = 0.0
    for k, mean in enumerate(np.log([2.0, 3.0])):
        P = np.diag(std[:, k] ** -2)
        mode = np.linalg.solve(np.eye(W.shape[1]) + W.T @ P @ W, W.T @ P @ (np.log(values[:, k]) - mean))
        np.testing.assert_allclose(found.whitened.raw[:, k], mode, atol=3e-3)
    # Where much is known the functions follow; std of one number is that of all.
    same = group.fitted_to(x[:, None], np.exp(np.sin(x))[:, None] * [2.0, 3.0], 0.01)
    np.testing.assert_allclose(np.log(same(x[:, None]) / [2.0, 3.0]), np.sin(x)[:, None] * [1, 1], atol=0.03)


def test_shared_functions_differ_by_constant_factors():
    """They are those of a group that has the same white noise twice, and follow what both of them should be."""
    x = np.linspace(*EXTENT, 30)[:, None]
    options = {"shape": (2,), "lengthscale": 0.7, "lengthscale_std": 0.0}
    one, two = (GridFunctionGroup(EXTENT, [2.0, 3.0], shared=shared, **options) for shared in (True, False))
    noise = np.random.default_rng(0).normal(size=one.whitened.raw.shape)
    one, two = (eqx.tree_at(lambda g: g.whitened.raw, g, n) for g, n in ((one, noise), (two, np.tile(noise, 2))))
    assert one.whitened.raw.shape[1] == 1
    np.testing.assert_allclose(one(x), two(x), rtol=1e-12)
    np.testing.assert_allclose(np.exp(one.unwarped(x)), one(x), rtol=1e-3)
    np.testing.assert_allclose(one(x)[:, 1], 1.5 * np.asarray(one(x)[:, 0]), rtol=1e-12)
    # Seen twice with errors of one size is seen once, in the middle, with errors of 1/√2 of it.
    values = np.exp(np.sin(x)) * np.exp([0.1, -0.1]) * [2.0, 3.0]
    both, middle = one.fitted_to(x, values, 0.1), two.fitted_to(x, np.exp(np.sin(x)) * [2.0, 3.0], 0.1 / np.sqrt(2.0))
    np.testing.assert_allclose(both(x), middle(x), rtol=1e-9)


def test_fits_beyond_the_extent_stay_inside_the_grid():
    group = GridFunctionGroup(EXTENT, 2.0, lengthscale=0.7)
    found = group.fitted_to([[-100.0], [100.0]], [3.0, 4.0], 0.1)
    np.testing.assert_allclose(found.whitened.raw, 0.0, atol=1e-12)


@pytest.mark.parametrize("std", [0.0, 0.3])
def test_a_stretch_is_the_whole_where_all_knots_are_there(std):
    group = drawn(GridFunctionGroup((0.0, 60.0), 2.0, shape=(1, 1), lengthscale=1.0, lengthscale_std=std))
    low, high = np.array([0.0, 20.0, 53.0]), np.array([6.0, 29.0, 60.0])
    first, count = group.knots_between(low, high)
    assert first.shape == (3,)
    assert count < len(group.whitened.raw)
    for start, left, right in zip(first, low, high, strict=True):
        # The whole has one more node before the first input than a stretch that begins with its first knot.
        x = np.linspace(left + (group.spacing / OVER if start == 0 else 0.0), right, 33)[:, None]
        part = group.stretch(start, count)
        assert not part.whole
        np.testing.assert_allclose(part(x), group(x), rtol=1e-11)
        for power in (1, -1):
            one, other = (constrain(g).realise().integral(x, power).ravel() for g in (part, group))
            np.testing.assert_allclose(one - one[0], other - other[0], rtol=1e-10, atol=1e-10)
    x = np.linspace(0.0, group.spacing / OVER, 9)[:, None]
    np.testing.assert_allclose(group.stretch(0, count)(x), group(x), rtol=1e-3)
    # Beyond it goes on as it ended: it is no end of the grid.
    part = group.stretch(first[1], count)
    assert abs(np.log(part(np.array([[1e4]])) / 2.0)).item() > 1e-3


def test_every_knot_that_changes_anything_is_felt_by_a_stretch():
    """Those near to it; and beyond the ends of all stretches, and between them, those that reach it."""
    group = GridFunctionGroup((0.0, 60.0), 2.0, shape=(1, 1), lengthscale=1.0, lengthscale_std=0.0, order=5.5)
    low, high = np.array([0.0, 10.0, 40.0]), np.array([10.0, 20.0, 60.0])
    first, count = group.knots_between(low, high)
    places = group.places[:, 0][first[:, None] + np.arange(count)]
    apart = np.maximum(np.maximum(low[:, None] - places, places - high[:, None]), 0.0)
    near, reach = apart < group.near, apart < group.reach * group.spacing
    felt = group.knots_felt(first, count, low, high)
    assert group.near < group.reach * group.spacing
    np.testing.assert_array_equal(group.knots_felt(first, count, low, high, whole=True), near)
    assert np.all(felt[near])
    assert not np.any(felt & ~reach)
    further = places[felt & ~near]
    assert np.any(further < 0.0)
    assert np.any((further > 20.0) & (further < 40.0))
    assert np.any(further > 60.0)
    # Not those beyond a stretch that its neighbour is near to.
    assert not np.any((further > 0.0) & (further < 20.0))


def test_stretches_have_numbers_of_knots_to_share():
    group = GridFunctionGroup((0.0, 200.0), 2.0, lengthscale=1.0, lengthscale_std=0.0)
    first, count = group.knots_between([10.0, 100.0, 199.0], [14.0, 106.0, 200.0], multiple=16)
    assert count % 16 == 0
    assert np.all(first >= 0)
    assert np.all(first + count <= len(group.whitened.raw))
    # Short grids have what they have.
    short = GridFunctionGroup((0.0, 2.0), 2.0, lengthscale=1.0, lengthscale_std=0.0)
    first, count = short.knots_between([0.0], [2.0], multiple=64)
    assert (first.tolist(), count) == ([0], len(short.whitened.raw))


def test_more_knots_reach_further_and_change_nothing_inside():
    few, more = (drawn(plain(knots=knots)) for knots in (None, 40))
    assert len(few.whitened.raw) < 40
    shared = more.whitened.raw[: len(few.whitened.raw)]
    few = eqx.tree_at(lambda g: g.whitened.raw, few, shared)
    x = np.linspace(*EXTENT, 21)[:, None]
    np.testing.assert_allclose(few(x), more(x), rtol=1e-12, atol=1e-12)


def test_gradients_equal_finite_differences():
    group = drawn(GridFunctionGroup(EXTENT, 2.0, shape=(2, 1), lengthscale=0.7))
    x = np.linspace(-1.3, 3.3, 17)[:, None]
    with double():
        leaves, structure = jax.tree.flatten(eqx.filter(group, eqx.is_inexact_array))
        rest = eqx.filter(group, eqx.is_inexact_array, inverse=True)
        rng = np.random.default_rng(1)
        along = [0.1 * rng.normal(size=np.shape(leaf)) for leaf in leaves]
        along = [a if np.ndim(leaf) or i > 1 else 0.0 for i, (a, leaf) in enumerate(zip(along, leaves, strict=True))]

        @jax.jit
        @jax.value_and_grad
        def loss(step):
            moved = [leaf + step * a for leaf, a in zip(leaves, along, strict=True)]
            functions = constrain(eqx.combine(jax.tree.unflatten(structure, moved), rest)).realise()
            parts = (
                functions(jnp.asarray(x)),
                functions.integral(jnp.asarray(x)),
                functions.integral(jnp.asarray(x), -1),
            )
            return sum(jnp.sum(jnp.cos(1.0 + jnp.arange(part.size)) * part.ravel()) for part in parts)

        slope, h = float(loss(0.0)[1]), 1e-4
        difference = (float(loss(h)[0]) - float(loss(-h)[0])) / (2 * h)
    assert abs(slope) > 1e-2
    assert slope == pytest.approx(difference, rel=1e-6)


# --- as part of models ---


def model():
    frequency = drawn(GridFunctionGroup((0.0, 5.0), 6.0, shape=(1, 1), lengthscale=1.0), 1)
    envelope = drawn(GridFunctionGroup((0.0, 5.0), 2.0, shape=(1, 1), lengthscale=2.0, lengthscale_std=0.0), 2)
    kernel = sg.kernels.MaternPhase(
        sg.kernels.WarpedTime(envelope),
        sg.kernels.IntegratedPhase(frequency),
        GridFunctionGroup((0.0, 5.0), 1.0, shape=(1,), warp="softplus", knots=40),
    )
    return MarkovGP(kernel, GridFunctionGroup((0.0, 5.0), 0.2), sg.Real(0.3, sg.Normal()))


def test_models_with_functions_on_grids_are_shown():
    text = str(summary(model()))
    for name in ("kernel.phase.frequency.whitened", "kernel.time.lengthscale.lengthscale", "likelihood.noise.mean"):
        assert name in text
    assert "GridFunctionGroup" in repr(model())
    assert "<table" in model()._repr_html_()


def test_models_with_functions_on_grids_are_saved_and_loaded(tmp_path):
    first = model()
    sg.save(tmp_path / "model.spectrogp", first)
    second = sg.load(tmp_path / "model.spectrogp")
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)
    data = Data(np.linspace(0.0, 5.0, 9), np.sin(np.arange(9.0)))
    assert first.log_joint(data) == second.log_joint(data)


def test_functions_on_grids_serve_any_kernel_and_model():
    frequency = drawn(GridFunctionGroup(EXTENT, 6.0, shape=(1, 1), lengthscale=1.0))
    kernel = sg.kernels.ConvolutionalSpectral(0.5, frequency, GridFunctionGroup(EXTENT, 1.0, shape=(1,)))
    x = np.linspace(*EXTENT, 6)
    expected = sg.kernels.ConvolutionalSpectral(0.5, lambda X: frequency(X))(x)
    np.testing.assert_allclose(kernel(x), expected, rtol=1e-9, atol=1e-12)
    model = sg.models.ExactGP(kernel, 0.1)
    assert np.isfinite(model.log_joint(Data(x, np.sin(x))))


# --- errors ---


@pytest.mark.parametrize(
    ("extent", "options", "message"),
    [
        ((1.0, 1.0), {}, r"extent must be two increasing numbers, got \(1.0, 1.0\)"),
        ((0.0, np.inf), {}, "extent must be two increasing numbers"),
        ((np.nan, 1.0), {}, "extent must be two increasing numbers"),
        ((0.0, 1.0), {"lengthscale": 0.0}, "lengthscale must be positive, got 0.0"),
        ((0.0, 1.0), {"lengthscale": np.nan}, "lengthscale must be positive, got nan"),
        ((0.0, 9.0), {"knots": 5}, r"this extent and lengthscale need at least \d+ knots, got 5"),
        ((0.0, 1.0), {"warp": "log"}, "warp must be one of exp, softplus, identity, got 'log'"),
    ],
)
def test_bad_arguments_are_refused(extent, options, message):
    options = {"initial": 1.0} | options
    with pytest.raises(ValueError, match=message):
        GridFunctionGroup(extent, **options)
