"""How far functions of several inputs reach, by the sizes of what a stationary fit leaves over."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from spectrogp.initialise import find_reach
from spectrogp.initialise.reach import _evidence


def left_over(log_size, n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-1.0, 1.0, (n, 2)), np.full(n, 3.0)])  # the last input is constant
    return X, rng.normal(size=n) * np.exp(log_size(X))


def test_functions_reach_far_along_inputs_where_sizes_stay():
    """A sine of 4 radians a unit turns over a radian, 0.25 units; the range of the second input is 2."""
    X, rest = left_over(lambda X: 0.8 * np.sin(4.0 * X[:, 0]))
    reach = find_reach(X, rest, np.ones(3), 50, 0)
    assert 0.2 < reach[0] < 0.7
    assert reach[1] > 4.0
    assert reach[2] == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_equal_sizes_say_nothing(seed):
    X, rest = left_over(lambda X: 0.0, seed=seed)
    np.testing.assert_array_equal(find_reach(X, rest, np.ones(3), 50, 0), 1.0)
    np.testing.assert_array_equal(find_reach(X, np.ones(len(X)), np.ones(3), 50, 0), 1.0)


def test_outliers_and_exact_outputs_say_little():
    """One row in a hundred a hundred times as large, one in ten zero: at random, so that no input has a part in it."""
    X, rest = left_over(lambda X: 0.8 * np.sin(4.0 * X[:, 0]))
    rng = np.random.default_rng(1)
    rest = rest * rng.choice([100.0, 0.0, 1.0], len(X), p=[0.01, 0.1, 0.89])
    reach = find_reach(X, rest, np.ones(3), 50, 0)
    assert 0.15 < reach[0] < 1.0
    assert reach[1] > 4.0


def test_the_evidence_is_that_of_a_normal_distribution():
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(3, 8)), rng.normal(size=8)
    expected = multivariate_normal(np.zeros(8), np.eye(8) + A.T @ A).logpdf(y)
    constant = multivariate_normal(np.zeros(8), np.eye(8)).logpdf(y)
    assert _evidence(A, y) == pytest.approx(expected - constant, rel=1e-10)
