"""What is wrong is refused with a message that names the argument."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
from zoo import inputs

kernels = sg.kernels

X1, X2 = inputs(4, 1), inputs(4, 2)


def table(*shape, value=1.0):
    """A callable that gives the same numbers whatever the inputs."""
    return lambda X: jnp.full(shape, value)


def one_bad(value):
    """A callable that gives ones but for row 2."""
    return lambda X: jnp.ones_like(X).at[2, 0].set(value)


CENTRE, WAVES = np.zeros((2, 1)), np.ones((2, 3, 1))

# How to make (and, where the fault shows only then, use) a kernel wrongly; the error; its message.
BAD = {
    # lengthscales: numbers, arrays, functions
    "lengthscale 0": (lambda: kernels.SquaredExponential(0.0), ValueError, r"lengthscale must be positive, got 0"),
    "lengthscale < 0": (
        lambda: kernels.ConvolutionalSpectral([1.0, -2.0], 1.0),
        ValueError,
        r"lengthscale must be positive, got -2 at index \[1\]",
    ),
    "lengthscale nan": (lambda: kernels.NonstationaryQuadratic(np.nan), ValueError, r"lengthscale must be finite"),
    "lengthscale inf": (
        lambda: kernels.Phase(np.inf, table(4)),
        ValueError,
        r"lengthscale must be finite, got inf",
    ),
    "lengthscale jax < 0": (
        lambda: kernels.Chirplet(jnp.array([-1.0]), 1.0),
        ValueError,
        r"lengthscale must be positive, got -1",
    ),
    "lengthscale function 0": (
        lambda: kernels.NonstationaryQuadratic(one_bad(0.0))(X1),
        ValueError,
        r"NonstationaryQuadratic.lengthscale must be positive, got 0 at index \[2, 0, 0\]",
    ),
    "lengthscale function < 0": (
        lambda: kernels.Chirplet(one_bad(-3.0), 1.0)(X1),
        ValueError,
        r"Chirplet.lengthscale must be positive, got -3 at index \[2, 0, 0\]",
    ),
    "lengthscale function nan": (
        lambda: kernels.GeneralizedSpectralMixture(one_bad(np.nan), 1.0)(X1),
        ValueError,
        r"GeneralizedSpectralMixture.lengthscale must be finite, got nan at index \[2, 0\]",
    ),
    "lengthscale word": (
        lambda: kernels.SquaredExponential("long"),
        TypeError,
        r"lengthscale must be a number, an array of numbers, or a callable .* got 'long'",
    ),
    "lengthscale None": (
        lambda: kernels.SquaredExponential(None),
        (TypeError, ValueError),
        r"lengthscale must be",
    ),
    # frequencies, amplitudes, chirps
    "frequency inf": (
        lambda: kernels.ConvolutionalSpectral(1.0, np.inf),
        ValueError,
        r"frequency must be finite, got inf",
    ),
    "frequency function nan": (
        lambda: kernels.ConvolutionalSpectral(1.0, one_bad(np.nan))(X1),
        ValueError,
        r"ConvolutionalSpectral.frequency must be finite, got nan",
    ),
    "frequency list of words": (
        lambda: kernels.SpectralMixture(1.0, ["a"]),
        TypeError,
        r"frequency must be a number, an array of numbers",
    ),
    "mean nan": (lambda: kernels.ConvolutionalSpectral(1.0, mean=np.nan), ValueError, r"mean must be finite"),
    "chirp nan": (lambda: kernels.Chirplet(1.0, 1.0, chirp=np.nan), ValueError, r"chirp must be finite"),
    "amplitude < 0": (
        lambda: kernels.SpectralMixture(1.0, 1.0, -0.5),
        ValueError,
        r"amplitude must be zero or positive, got -0.5",
    ),
    "amplitude function < 0": (
        lambda: kernels.Phase(1.0, table(4), table(4, value=-1.0))(X1),
        ValueError,
        r"Phase.amplitude must be zero or positive, got -1 at index \[0, 0\]",
    ),
    "scaled amplitude < 0": (
        lambda: kernels.Scaled(kernels.SquaredExponential(1.0), -2.0),
        ValueError,
        r"amplitude must be zero or positive, got -2",
    ),
    # shapes
    "lengthscale shape": (
        lambda: kernels.SquaredExponential(np.ones(3))(X2),
        ValueError,
        r"SquaredExponential.lengthscale must have shape \[\] or \[d\] or \[a, d\] with d = 2 .*; got \[3\]",
    ),
    "lengthscale four axes": (
        lambda: kernels.SquaredExponential(np.ones((1, 2, 3, 2)))(X2),
        ValueError,
        r"SquaredExponential.lengthscale must have shape .*; got \[1, 2, 3, 2\]",
    ),
    "frequency shape": (
        lambda: kernels.SpectralMixture(1.0, np.ones((2, 3)))(X2),
        ValueError,
        r"SpectralMixture.frequency must have shape .* with d = 2 .*; got \[2, 3\]",
    ),
    "frequency no components": (
        lambda: kernels.SpectralMixture(1.0, np.ones((0, 2)))(X2),
        ValueError,
        r"SpectralMixture.frequency must have shape .*; got \[0, 2\]",
    ),
    "amplitude shape": (
        lambda: kernels.SquaredExponential(1.0, np.ones((2, 2)))(X2),
        ValueError,
        r"SquaredExponential.amplitude must have shape \[\] or \[a\] \(a = components\); got \[2, 2\]",
    ),
    "lengthscale function shape": (
        lambda: kernels.NonstationaryQuadratic(table(4, 2, 3))(X2),
        ValueError,
        r"NonstationaryQuadratic.lengthscale must have shape \[n\] or \[n, d\] or \[n, a, d\] with n = 4, d = 2 .*"
        r"callable gave \[4, 2, 3\]",
    ),
    "lengthscale function rows": (
        lambda: kernels.NonstationaryQuadratic(table(3, 2))(X2),
        ValueError,
        r"NonstationaryQuadratic.lengthscale must have shape .* n = 4, .*callable gave \[3, 2\]",
    ),
    "lengthscale function scalar": (
        lambda: kernels.NonstationaryQuadratic(lambda X: 1.0)(X2),
        ValueError,
        r"NonstationaryQuadratic.lengthscale must have shape .*callable gave \[\]",
    ),
    "frequency function shape": (
        lambda: kernels.GeneralizedSpectralMixture(1.0, table(4, 3))(X2),
        ValueError,
        r"GeneralizedSpectralMixture.frequency must have shape .*callable gave \[4, 3\]",
    ),
    "mean function shape": (
        lambda: kernels.ConvolutionalSpectral(1.0, mean=table(4, 3))(X2),
        ValueError,
        r"ConvolutionalSpectral.mean must have shape .*callable gave \[4, 3\]",
    ),
    "chirp function shape": (
        lambda: kernels.Chirplet(1.0, 1.0, chirp=table(4, 3))(X2),
        ValueError,
        r"Chirplet.chirp must have shape .*callable gave \[4, 3\]",
    ),
    "phase function shape": (
        lambda: kernels.Phase(1.0, table(4, 2, 2))(X2),
        ValueError,
        r"Phase.phase must have shape \[n\] or \[n, a\] with n = 4 .*callable gave \[4, 2, 2\]",
    ),
    "amplitude function shape": (
        lambda: kernels.Chirplet(1.0, 1.0, table(4, 2, 2))(X2),
        ValueError,
        r"Chirplet.amplitude must have shape \[n\] or \[n, a\] .*callable gave \[4, 2, 2\]",
    ),
    "first_frequency shape": (
        lambda: kernels.GeneralizedSpectral(1.0, np.ones(3), 1.0)(X2),
        ValueError,
        r"GeneralizedSpectral.first_frequency must have shape .*; got \[3\]",
    ),
    "second_frequency shape": (
        lambda: kernels.GeneralizedSpectral(1.0, 1.0, np.ones(3))(X2),
        ValueError,
        r"GeneralizedSpectral.second_frequency must have shape .*; got \[3\]",
    ),
    "components": (
        lambda: kernels.ConvolutionalSpectral(np.ones((2, 1)), np.ones((3, 1)))(X1),
        ValueError,
        r"ConvolutionalSpectral.lengthscale must have 1 or 3 components, as the other parameters have; got 2",
    ),
    "components of functions": (
        lambda: kernels.Phase(1.0, table(4, 3), table(4, 2))(X1),
        ValueError,
        r"Phase.amplitude must have 1 or 3 components, .* got 2",
    ),
    "scaled components": (
        lambda: kernels.Scaled(kernels.SquaredExponential(1.0), np.ones(2))(X1),
        ValueError,
        r"Scaled.amplitude must have one component, got 2",
    ),
    # functions where only constants are positive definite
    "SE function": (
        lambda: kernels.SquaredExponential(table(4)),
        TypeError,
        r"lengthscale must be constant here.*NonstationaryQuadratic",
    ),
    "SM lengthscale function": (
        lambda: kernels.SpectralMixture(table(4), 1.0),
        TypeError,
        r"lengthscale must be constant here",
    ),
    "SM frequency function": (
        lambda: kernels.SpectralMixture(1.0, table(4)),
        TypeError,
        r"frequency must be constant here.*ConvolutionalSpectral",
    ),
    "GSK lengthscale function": (
        lambda: kernels.GeneralizedSpectral(table(4), 1.0, 1.0),
        TypeError,
        r"lengthscale must be constant here",
    ),
    "GSK first frequency function": (
        lambda: kernels.GeneralizedSpectral(1.0, table(4), 1.0),
        TypeError,
        r"frequency must be constant here",
    ),
    "GSK second frequency function": (
        lambda: kernels.GeneralizedSpectral(1.0, 1.0, table(4)),
        TypeError,
        r"frequency must be constant here",
    ),
    "HMK centre function": (
        lambda: kernels.HarmonizableMixture(table(4), WAVES, 1.0),
        TypeError,
        r"centre must be constant here",
    ),
    "HMK window function": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, table(4)),
        TypeError,
        r"window must be constant here",
    ),
    "HMK scale function": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, scale=table(4)),
        TypeError,
        r"scale must be constant here",
    ),
    # covariance matrices
    "covariance asymmetric": (
        lambda: kernels.FullConvolutionalSpectral(np.array([[1.0, 0.5], [0.0, 1.0]]), 1.0)(X2),
        ValueError,
        r"FullConvolutionalSpectral.covariance must be symmetric",
    ),
    "covariance indefinite": (
        lambda: kernels.FullConvolutionalSpectral(np.array([[1.0, 2.0], [2.0, 1.0]]), 1.0)(X2),
        ValueError,
        r"smallest eigenvalue of FullConvolutionalSpectral.covariance must be positive, got -1",
    ),
    "covariance function singular": (
        lambda: kernels.FullConvolutionalSpectral(table(4, 2, 2, value=0.0), 1.0)(X2),
        ValueError,
        r"smallest eigenvalue of FullConvolutionalSpectral.covariance must be positive",
    ),
    "covariance vector": (
        lambda: kernels.FullConvolutionalSpectral(np.ones(2), 1.0)(X2),
        ValueError,
        r"FullConvolutionalSpectral.covariance must have shape \[d, d\] or \[a, d, d\] with d = 2 .*; got \[2\]",
    ),
    "covariance shape": (
        lambda: kernels.FullConvolutionalSpectral(np.eye(3), 1.0)(X2),
        ValueError,
        r"FullConvolutionalSpectral.covariance must have shape .*; got \[3, 3\]",
    ),
    "covariance function shape": (
        lambda: kernels.FullConvolutionalSpectral(table(4, 3, 3), 1.0)(X2),
        ValueError,
        r"FullConvolutionalSpectral.covariance must have shape .*callable gave \[4, 3, 3\]",
    ),
    "covariance nan": (
        lambda: kernels.FullConvolutionalSpectral(np.full((2, 2), np.nan), 1.0),
        ValueError,
        r"covariance must be finite",
    ),
    # harmonizable mixtures
    "HMK centre shape": (
        lambda: kernels.HarmonizableMixture(np.zeros(2), WAVES, 1.0),
        ValueError,
        r"centre must have shape \[p, d\], got \[2\]",
    ),
    "HMK frequency axes": (
        lambda: kernels.HarmonizableMixture(CENTRE, np.ones((2, 3)), 1.0),
        ValueError,
        r"frequency must have shape \[p, q, d\] with p = 2, d = 1 .*got \[2, 3\]",
    ),
    "HMK frequency centres": (
        lambda: kernels.HarmonizableMixture(CENTRE, np.ones((3, 3, 1)), 1.0),
        ValueError,
        r"frequency must have shape \[p, q, d\] with p = 2, d = 1 .*got \[3, 3, 1\]",
    ),
    "HMK weight shape": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, weight=np.ones((2, 2, 2))),
        ValueError,
        r"weight must have shape \[p, q, r\] with p = 2, q = 3, got \[2, 2, 2\]",
    ),
    "HMK weight axes": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, weight=np.ones((2, 3))),
        ValueError,
        r"weight must have shape \[p, q, r\]",
    ),
    "HMK weight nan": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, weight=np.full((2, 3, 1), np.nan)),
        ValueError,
        r"weight must be an array \[p, q, r\] of finite real or complex numbers",
    ),
    "HMK weight words": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, weight="heavy"),
        ValueError,
        r"weight must be an array .* got 'heavy'",
    ),
    "HMK lengthscale < 0": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, -1.0),
        ValueError,
        r"lengthscale must be positive, got -1",
    ),
    "HMK lengthscale nan": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, np.nan),
        ValueError,
        r"lengthscale must be positive, got nan",
    ),
    "HMK window 0": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, 0.0),
        ValueError,
        r"window must be positive, got 0",
    ),
    "HMK window shape": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, np.ones(3)),
        ValueError,
        r"window must be a number, \[d\] or \[d, d\] with d = 1, got \[3\]",
    ),
    "HMK lengthscale shape": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, np.ones((2, 3))),
        ValueError,
        r"lengthscale must be a number, \[d\] or \[d, d\] with d = 1, got \[2, 3\]",
    ),
    "HMK lengthscale singular": (
        lambda: kernels.HarmonizableMixture(np.zeros((2, 2)), np.ones((2, 3, 2)), np.ones((2, 2))),
        ValueError,
        r"lengthscale must",
    ),
    "HMK scale nan": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, scale=np.nan),
        ValueError,
        r"scale must be finite",
    ),
    "HMK scale shape": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0, scale=np.ones((3, 1))),
        ValueError,
        r"scale must .*\[3, 1\]",
    ),
    "HMK inputs": (
        lambda: kernels.HarmonizableMixture(CENTRE, WAVES, 1.0)(X2),
        ValueError,
        r"HarmonizableMixture.centre has 1 input dimensions, the inputs 2",
    ),
    # choices
    "smoothness 0.5": (
        lambda: kernels.GeneralizedSpectral(1.0, 1.0, 1.0, smoothness=0.5),
        ValueError,
        r"smoothness must be 1.5, 2.5 or inf \(squared exponential\), got 0.5",
    ),
    "smoothness word": (
        lambda: kernels.GeneralizedSpectral(1.0, 1.0, 1.0, smoothness="rough"),
        ValueError,
        r"smoothness must be 1.5, 2.5 or inf .* got 'rough'",
    ),
    "frequency and mean": (
        lambda: kernels.ConvolutionalSpectral(1.0, 1.0, mean=1.0),
        TypeError,
        r"ConvolutionalSpectral takes either frequency .* or mean .* exactly one",
    ),
    "neither frequency nor mean": (
        lambda: kernels.ConvolutionalSpectral(1.0),
        TypeError,
        r"ConvolutionalSpectral takes either frequency .* or mean .* exactly one",
    ),
    "full, frequency and mean": (
        lambda: kernels.FullConvolutionalSpectral(np.eye(2), 1.0, mean=1.0),
        TypeError,
        r"FullConvolutionalSpectral takes either frequency .* or mean .* exactly one",
    ),
    "full, neither": (
        lambda: kernels.FullConvolutionalSpectral(np.eye(2)),
        TypeError,
        r"FullConvolutionalSpectral takes either frequency .* or mean .* exactly one",
    ),
    "phase number": (lambda: kernels.Phase(1.0, 2.0), TypeError, r"phase must be a callable .* got float"),
    "warp number": (
        lambda: kernels.Warped(kernels.SquaredExponential(1.0), 2.0),
        TypeError,
        r"Warped.warp must be a callable .* got float",
    ),
    "warp shape": (
        lambda: kernels.Warped(kernels.SquaredExponential(1.0), lambda X: X[:, 0])(X2),
        ValueError,
        r"Warped.warp must give shape \[n, d'\] with n = 4, got \[4\]",
    ),
    "warp rows": (
        lambda: kernels.Warped(kernels.SquaredExponential(1.0), table(3, 2))(X2),
        ValueError,
        r"Warped.warp must give shape \[n, d'\] with n = 4, got \[3, 2\]",
    ),
    "warp nan": (
        lambda: kernels.Warped(kernels.SquaredExponential(1.0), table(4, 1, value=np.nan))(X2),
        ValueError,
        r"Warped.warp must be finite, got nan at index \[0, 0\]",
    ),
    "factor < 0": (
        lambda: -2.0 * kernels.SquaredExponential(1.0),
        ValueError,
        r"scaled by zero or a positive number, got -2.0",
    ),
    "factor nan": (
        lambda: kernels.SquaredExponential(1.0) * float("nan"),
        ValueError,
        r"scaled by zero or a positive number, got nan",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_kernels_are_refused(case):
    make, error, message = BAD[case]
    with pytest.raises(error, match=message):
        make()


PLAIN = kernels.SquaredExponential(1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (np.zeros(3),),
            ValueError,
            r"X must have shape \[n, d\] .*got \(3,\); for one input dimension pass X\[:, None\]",
        ),
        ((0.5,), ValueError, r"X must have shape \[n, d\] .*got \(\)"),
        ((np.zeros((2, 3, 4)),), ValueError, r"X must have shape \[n, d\] .*got \(2, 3, 4\)"),
        ((np.zeros((0, 1)),), ValueError, r"X must have shape .*at least one row and one column, got \(0, 1\)"),
        ((np.zeros((3, 0)),), ValueError, r"X must have shape .*at least one row and one column, got \(3, 0\)"),
        (([[0.0], [np.nan]],), ValueError, r"X must be finite, got nan at index \[1, 0\]"),
        (([[0.0, np.inf]],), ValueError, r"X must be finite, got inf at index \[0, 1\]"),
        (([["a"], ["b"]],), TypeError, r"X must be an array of numbers \[n, d\], got list"),
        ((None,), TypeError, r"X must be an array of numbers \[n, d\], got NoneType"),
        (([[0.0], [1.0, 2.0]],), TypeError, r"X must be an array of numbers"),
        ((X1, np.zeros(3)), ValueError, r"Y must have shape \[n, d\]"),
        ((X1, X2), ValueError, r"Y must have as many columns as X \(1\), got shape \(4, 2\)"),
        ((X1, np.full((2, 1), np.nan)), ValueError, r"Y must be finite, got nan at index \[0, 0\]"),
    ],
)
def test_bad_inputs_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        PLAIN(*arguments)


@pytest.mark.parametrize("name", ["float16", "double", 64])
def test_bad_precision_is_refused(name):
    with pytest.raises(ValueError, match=f"precision must be 'float32' or 'float64', got {name!r}"), sg.precision(name):
        pass


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module 'spectrogp' has no attribute 'fourier'"):
        sg.fourier  # noqa: B018
    assert set(sg.__all__) <= set(dir(sg)) | set(sg._HOME)
