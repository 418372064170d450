"""What single precision costs: models, predictions and steps in float32 against float64, with tolerances from rounding.

A sum of n rounded terms is off by at most n times ε = 6e-8 of its size, and what a Cholesky factor solves by about ε
times the condition of the matrix: the variance that many rows share, over that of the noise. Errors that were found are
a tenth of this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.inference import Adam, Run, maximise
from spectrogp.kernels import MaternPhase, SpectralMixture, SquaredExponential, WarpedTime
from spectrogp.models import Data, ExactGP, MarkovGP, NeighbourGP, Refresh, VariationalGP
from test_markov import NODES, lengths, phases

pytestmark = pytest.mark.usefixtures("compile_quickly")

ROWS, TESTS = 200, np.linspace(0.0, 10.0, 37)[:, None]
EPSILON = float(np.finfo(np.float32).eps) / 2
CONDITION = 4000.0  # about: 40 rows within a lengthscale or two, of variance 1, over a noise of 0.1²


def data():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 10.0, ROWS))
    return Data(t[:, None], np.cos(2.0 * np.pi * 0.7 * t) + 0.1 * rng.normal(size=ROWS))


class Case(NamedTuple):
    """A model, what it is fitted to, and by which steps."""

    model: Any
    data: Any
    optimiser: Adam = Adam(0.02)


def mixture():
    return SpectralMixture(sg.Positive.around(0.8), sg.Real(np.array([4.2])), sg.Positive.around(1.0))


def neighbours():
    model = NeighbourGP(mixture(), sg.Positive.around(0.1))
    return Case(model, Refresh(data(), m=12)(model))


def markov():
    kernel = MaternPhase(WarpedTime(lengths(2.0), NODES), phases(4.4), sg.Positive.around(np.ones(1)), order=1.5)
    return Case(MarkovGP(kernel, sg.Positive.around(0.1)), data())


CASES = {
    "exact": lambda: Case(ExactGP(mixture(), sg.Positive.around(0.1)), data()),
    "neighbours": neighbours,
    "markov": markov,
    # Inducing points about a lengthscale apart.
    "variational": lambda: Case(
        VariationalGP(
            SquaredExponential(sg.Positive.around(0.7)), sg.Positive.around(0.3), np.linspace(0, 10, 15)[:, None]
        ),
        data(),
        Adam(0.02, natural_rate=0.5),
    ),
}


def fitted(case):
    return maximise(case.model, case.data, steps=8, key=0, optimiser=case.optimiser, run=Run(chunk=4))


def found(case, fit, model):
    """Log joint density of a model, its moments at test inputs, and what some steps came to."""
    value, moments = model.log_joint(case.data), model.predict(case.data, TESTS)
    numbers = [np.ravel(leaf) for leaf in jax.tree.leaves(fit.model) if eqx.is_inexact_array_like(leaf)]
    return value, moments.mean, moments.variance, fit.history, np.concatenate(numbers)


@pytest.mark.parametrize("name", CASES)
def test_single_precision_is_as_near_as_its_rounding(name):
    case = CASES[name]()
    fit = fitted(case)
    double = found(case, fit, fit.model)
    with sg.precision("float32"):
        single = found(case, fitted(case), fit.model)
    assert all(np.asarray(part).dtype == np.float32 for part in single[:3])
    value, mean, variance, history, numbers = (np.asarray(part, float) for part in single)
    sums, solved = ROWS * EPSILON, CONDITION * EPSILON
    np.testing.assert_allclose(value, double[0], rtol=sums)
    np.testing.assert_allclose(mean, double[1], atol=solved)
    np.testing.assert_allclose(variance, double[2], rtol=10.0 * solved)  # a difference, most of which cancels
    np.testing.assert_allclose(history, double[3], rtol=sums)
    np.testing.assert_allclose(numbers, double[4], atol=sums)
