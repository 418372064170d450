"""Initial values from the data: ridges and plane waves where they are known, and kernels that begin there."""

from __future__ import annotations

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
from spectrogp import datasets
from spectrogp.choices import KERNELS
from spectrogp.initialise import best_of, find_initial_values, inducing_inputs, kernel_from, ridges, show_range
from spectrogp.initialise import kernels as builders
from spectrogp.parameters import constrain, realise
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")

NAMES = [name for name in KERNELS if name != "auto"]


@pytest.fixture(scope="module")
def chirp():
    return datasets.signal("linear chirp", n=200)


@pytest.fixture(scope="module")
def initial(chirp):
    return find_initial_values(chirp.X, chirp.y, highest_frequency=12.0)


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (400, 2))
    y = np.cos(2 * np.pi * (1.5 * X[:, 0] - 2.5 * X[:, 1])) + 0.2 * rng.normal(size=400)
    return X, y


def error_of(initial, signal):
    """Relative error at the data of the nearest component that was found: median over all data and true tones."""
    t = signal.X[:, 0]
    found = np.column_stack([np.interp(t, initial.centres[:, 0], column) for column in initial.frequency[..., 0].T])
    error = np.abs(found[:, :, None] - signal.frequency[:, None]) / signal.frequency[:, None]
    return np.median(np.min(error, axis=1))


# In one program each: operation by operation, every one of them would be compiled by itself.


@eqx.filter_jit
def compiled(function, *arguments):
    return function(*arguments)


def spectrum_of(kernel, X):
    with double():
        found = compiled(lambda kernel, X: sg.local_spectrum(realise(constrain(kernel)), X), kernel, X)
    return jax.tree.map(np.asarray, found)


def matrix_of(kernel, X):
    with double():
        return np.asarray(compiled(lambda kernel, X: realise(constrain(kernel))(X), kernel, X))


# Ridges


def test_power_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    t, y, window = rng.uniform(0.0, 3.0, 30), rng.normal(size=30), rng.uniform(0.1, 1.0, (1, 30))
    frequency = np.array([0.4, 1.7])
    wave = np.exp(2j * np.pi * np.outer(t, frequency))
    power = ridges.power(y, window, window @ wave, (window * y) @ wave, window @ wave**2)[0]
    root = np.sqrt(window[0])
    for k, f in enumerate(frequency):
        design = np.column_stack([np.ones(30), np.cos(2 * np.pi * f * t), np.sin(2 * np.pi * f * t)])
        rest = [
            root * (y - basis @ np.linalg.lstsq(root[:, None] * basis, root * y, rcond=None)[0])
            for basis in (design[:, :1], design)
        ]
        np.testing.assert_allclose(power[k], 1.0 - rest[1] @ rest[1] / (rest[0] @ rest[0]), rtol=1e-10)


def test_frequency_grid_is_from_span_and_average_spacing():
    t = np.append(np.linspace(0.0, 10.0, 101), 5.0 + 1e-9)  # one tiny gap must not raise the Nyquist frequency
    grid = ridges.frequency_grid(t)
    np.testing.assert_allclose([grid[0], grid[-1]], [0.1, 0.9 * 0.5 * 10.1], rtol=0.05)


def test_path_is_the_best_of_all():
    rng = np.random.default_rng(0)
    gain, place = rng.uniform(size=(4, 5)), np.sort(rng.normal(size=5))

    def value(path):
        path = list(path)
        return gain[np.arange(4), path].sum() - 0.5 * np.sum((np.diff(place[path]) / 0.7) ** 2)

    best = max(itertools.product(range(5), repeat=4), key=value)
    np.testing.assert_array_equal(ridges.best_path(gain, place, 0.7), best)


@pytest.mark.parametrize(
    ("name", "noise", "bound"), [("late chirp", 0.1, 0.05), ("gaps", 0.3, 0.12), ("step", 0.5, 0.03)]
)
def test_ridges_of_known_signals(name, noise, bound):
    # About twice the largest error that four seeds showed.
    signal = datasets.signal(name, seed=3, noise=noise, n=300)
    found = find_initial_values(signal.X, signal.y, highest_frequency=15.0)
    assert found.frequency.shape[1] == 1
    assert error_of(found, signal) < bound
    assert abs(found.noise / noise - 1.0) < 0.3


def test_two_tones_are_two_components():
    signal = datasets.signal("crossing", noise=0.2, n=300)
    found = find_initial_values(signal.X, signal.y, highest_frequency=15.0)
    assert found.found.tolist() == [True, True]
    assert error_of(found, signal) < 0.05


def test_units_and_offsets_change_nothing(chirp, initial):
    shifted = find_initial_values(chirp.X * 1e3 + 1e9, 7.0 * chirp.y + 50.0, highest_frequency=12e-3)
    np.testing.assert_allclose(1e3 * shifted.frequency, initial.frequency, rtol=1e-4)
    np.testing.assert_allclose(shifted.noise, 7.0 * initial.noise, rtol=1e-3)


def test_noise_has_no_components():
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0.0, 1.0, 150))[:, None]
    found = find_initial_values(t, rng.normal(size=150))
    assert not found.found.any()
    assert "nothing significant" in str(found)
    assert np.all(found.frequency > 0)


def test_report(initial):
    text = str(initial)
    assert text.startswith("1 component in 200 rows, noise 0.1")
    assert "looked from 0.33" in text
    low, high = np.min(initial.frequency), np.max(initial.frequency)
    assert f"component 1: {low:.3g} to {high:.3g} cycles per unit" in text


def test_ranges_have_the_digits_that_are_known():
    """What varies by less than is known of it is one number, their median: the lowest was 1.3 widths off."""
    year = np.array([[0.9965], [0.9984], [1.0002]])
    assert show_range(year, known=[0.0031]) == "0.9984"
    assert show_range(year) == "0.998"
    assert show_range(np.array([[1.0638297, 3.0], [1.0638299, 4.0]]), known=[2e-5, 0.1]) == "1.063830 × 3.00 to 4.00"
    assert show_range(np.array([[365.25], [365.25]]), known=[1.1]) == "365.2"
    assert show_range(np.array([[2.0], [3.0]]), known=[np.nan]) == "2 to 3"


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_data_with_nothing_in_them(columns, rows):
    found = find_initial_values(np.ones((rows, columns)), np.full(rows, 3.0))
    assert np.all(np.isfinite(found.frequency))
    assert np.all(found.frequency > 0)
    assert found.noise > 0


def test_bad_arguments_are_named(initial):
    with pytest.raises(ValueError, match="components must be an integer of at least 1, got 0"):
        find_initial_values(np.zeros((3, 1)), np.zeros(3), components=0)
    with pytest.raises(ValueError, match="y must be finite"):
        find_initial_values(np.zeros((2, 1)), [0.0, np.nan])
    with pytest.raises(ValueError, match="kernel must be one of auto, se, nsq"):
        kernel_from(initial, "cosine")
    with pytest.raises(ValueError, match="at least one model"):
        best_of([], None, key=0)


def test_starts_by_threads_are_those_of_one(chirp, initial, monkeypatch):
    data = sg.Data(chirp.X[:60], chirp.y[:60])
    models = [
        sg.models.ExactGP(kernel_from(initial, "convolutional", n_knots=4), sg.Positive.around(noise))
        for noise in (0.2, 0.3, 0.4)
    ]
    found = []
    for workers in (1, 2):
        monkeypatch.setattr("spectrogp.initialise.compare.program_threads", lambda workers=workers: workers)
        found.append(best_of(models, data, steps=4, key=0))
    one, two = found
    np.testing.assert_allclose(two.evidence, one.evidence, rtol=1e-9)
    np.testing.assert_allclose(two.history, one.history, rtol=1e-12)


# Several dimensions


def test_plane_wave_among_scattered_points(plane):
    found = find_initial_values(*plane)
    largest = np.argmax(found.amplitude[0])
    wave = found.frequency[0, largest]
    # The resolution is 1/span = 0.5; the top of a clear peak is found to a small part of it.
    np.testing.assert_allclose(wave * np.sign(wave[0]), [1.5, -2.5], atol=0.05)
    np.testing.assert_allclose(found.amplitude[0, largest], np.sqrt(0.5), rtol=0.1)


def test_cycle_along_one_input_beyond_the_box():
    # 600 points in three dimensions are 8 to an axis, but 20 cycles along one input show all the same.
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (600, 3))
    y = X[:, 0] + np.sin(3.0 * X[:, 2]) + 0.5 * np.cos(2 * np.pi * 20.0 * X[:, 1]) + 0.2 * rng.normal(size=600)
    found = find_initial_values(X, y)
    fastest = found.frequency[0, np.argmax(np.abs(found.frequency[0, :, 1]))]
    np.testing.assert_allclose(fastest, [0.0, 20.0, 0.0], atol=0.1)


def test_inducing_inputs():
    np.testing.assert_allclose(inducing_inputs(np.array([[3.0], [1.0]]), 3, None), [[1.0], [2.0], [3.0]])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    assert inducing_inputs(X, 8, rng).shape == (8, 2)
    assert len(inducing_inputs(X[:5], 8, rng)) == 5


# Kernels


@pytest.fixture(scope="module")
def plane_initial(plane):
    return find_initial_values(*plane, components=2)


def test_every_kernel_that_has_a_name_has_a_builder():
    assert sorted(builders._BUILDERS) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_kernels_start_with_sound_matrices(name, initial, plane_initial):
    cases = (initial, np.linspace(-1.5, 1.5, 7)[:, None]), (plane_initial, plane_initial.centres[:7])
    for begin, X in cases[: 1 if name == "matern" else 2]:  # that is for one input
        K = matrix_of(kernel_from(begin, name, n_knots=8), X)
        assert np.linalg.eigvalsh(K)[0] > -1e-9
        # As large as what was found: the variance of the outputs, less their noise.
        assert 0.3 < np.mean(np.diagonal(K)) / (begin.spread**2 - begin.noise**2) < 3.0


@pytest.mark.parametrize("name", ["gsm", "phase"])
def test_functions_start_at_the_ridge(name, initial):
    X = np.linspace(-1.4, 1.4, 20)[:, None]
    local = spectrum_of(kernel_from(initial, name, n_knots=12), X)
    # The ridge is right to 1–2 % except at the slow end, where less than a cycle is seen.
    error = np.abs(local.frequency[:, 0, 0] / (4.0 + 2.0 * X[:, 0]) - 1.0)
    assert np.median(error) < (0.1 if name == "gsm" else 0.05)


def test_stationary_start_is_in_cycles_per_unit():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 50.0, 300))[:, None]
    y = 3.0 * np.sin(2 * np.pi * 0.7 * t[:, 0]) + np.cos(2 * np.pi * 2.0 * t[:, 0]) + 0.3 * rng.normal(size=300)
    kernel = constrain(kernel_from(find_initial_values(t, y, max_components=2), "sm"))
    np.testing.assert_allclose(np.ravel(kernel.frequency) / (2 * np.pi), [0.7, 2.0], rtol=2e-3)
    np.testing.assert_allclose(kernel.amplitude, [3.0 / np.sqrt(2.0), np.sqrt(0.5)], rtol=0.1)


def test_initial_values_can_continue_a_kernel(initial):
    fitted = sg.kernels.Chirplet(0.5, lambda X: 2 * jnp.pi * (4.0 + 2.0 * X)[:, None], 0.8)
    phase = kernel_from(initial.continuing(fitted), "phase", n_knots=15)
    X = np.linspace(-1.0, 1.0, 9)[:, None]
    local = spectrum_of(phase, X)
    # Smoothed towards the latent function's prior: to 4 % inside, 12 % at the ends of the data.
    np.testing.assert_allclose(local.frequency[:, 0, 0], 4.0 + 2.0 * X[:, 0], rtol=0.06)
    np.testing.assert_allclose(local.weight[:, 0], 0.64, rtol=0.05)


def test_alternatives_cross_and_smooth():
    """Two ridges that turned where they should have crossed: exchanged beyond the middle, and cubic."""
    crossing = sg.datasets.signal("crossing", noise=0.05)
    initial = find_initial_values(crossing.X, crossing.y, components=2)
    x = initial.centres[:, 0]
    turned = np.column_stack([6.0 + 2.0 * np.abs(x), 6.0 - 2.0 * np.abs(x)])[..., None]
    initial = dataclasses.replace(initial, frequency=turned, gain=np.ones_like(initial.gain))
    starts = initial.alternatives()
    rough, smooth, cross_smooth, crossed, faster, sudden, coherent, _ = starts
    assert 1.0 > faster.smoothness > sudden.smoothness
    np.testing.assert_array_equal(rough.frequency, turned)
    np.testing.assert_array_equal(coherent.frequency, turned)
    assert np.all(coherent.lengthscale > 10.0 * initial.scale)
    middle = len(x) // 2
    for a in range(2):
        np.testing.assert_array_equal(crossed.frequency[: middle - 1, a], turned[: middle - 1, a])
        np.testing.assert_array_equal(crossed.frequency[middle + 1 :, a], turned[middle + 1 :, 1 - a])
    for before, after in ((rough, smooth), (crossed, cross_smooth)):
        for a in range(2):
            cubic = np.polynomial.Polynomial.fit(x, np.log(before.frequency[:, a, 0]), 3)(x)
            np.testing.assert_allclose(np.log(after.frequency[:, a, 0]), cubic, atol=1e-9)
    far = dataclasses.replace(initial, frequency=np.broadcast_to([[[3.0], [9.0]]], turned.shape))
    assert len(far.alternatives()) == 6
    plane = dataclasses.replace(initial, frequency=np.ones((len(x), 2, 2)))
    assert plane.alternatives() == [plane]


def test_best_of_keeps_the_better(initial, chirp):
    data = sg.Data(chirp.X[::2], chirp.y[::2])
    kernel = kernel_from(initial, "phase", n_knots=8)
    models = [sg.models.ExactGP(kernel, sg.Positive(noise)) for noise in (5.0, 0.15)]
    fit = best_of(models, data, steps=3, key=0)
    assert constrain(fit.model).likelihood.noise < 1.0


# Phases and groups


def test_integrated_phase():
    phase = sg.kernels.IntegratedPhase(
        lambda X: jnp.stack([jnp.exp(X), 2.0 + jnp.cos(X)], axis=1), np.linspace(0, 2, 9)
    )
    with double():
        x = jnp.linspace(-0.2, 2.3, 21)
        values = compiled(phase, x[:, None])
        exact = np.column_stack([np.exp(x) - 1.0, 2.0 * x + np.sin(x)])
        # Five-point sums over cells of 0.25 are exact to about 1e-14; outside the nodes the cells are as short here.
        np.testing.assert_allclose(values, exact, atol=1e-11)
        slope = compiled(jax.vmap(jax.jacfwd(lambda x: phase(x[None, None])[0])), x)
        np.testing.assert_allclose(slope, np.column_stack([np.exp(x), 2.0 + np.cos(x)]), atol=1e-9)
    with pytest.raises(ValueError, match="nodes must have shape"):
        sg.kernels.IntegratedPhase(lambda X: X, np.zeros(1))


def test_a_group_is_fitted_to_values():
    Z, X = np.linspace(0.0, 3.0, 8)[:, None], np.linspace(0.0, 3.0, 30)[:, None]
    values = np.exp(0.3 * np.sin(X))
    group = sg.FunctionGroup(Z, 1.0, shape=(1,)).fitted_to(X, values, 1e-3)
    with double():
        np.testing.assert_allclose(compiled(group, jnp.asarray(X)), values, rtol=3e-3)
        # With errors far larger than the prior's, the prior mode remains.
        loose = sg.FunctionGroup(Z, 1.0, shape=(1,)).fitted_to(X, values, 1e4)
        np.testing.assert_allclose(compiled(loose, jnp.asarray(X)), 1.0, rtol=1e-6)
