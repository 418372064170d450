"""What is wrong is refused with a message that names the argument."""

from __future__ import annotations

import numpy as np
import pytest

import spectrogp as sg
from zoo import KERNELS, X1, X2

# What the rows of the zoo say their kernels refuse: the error, its message, and how to make (and, where the fault shows
# only then, use) a kernel wrongly.
BAD = [
    pytest.param(error, message, make, id=f"{case.name}-{message}")
    for case in KERNELS
    for error, cases in ((ValueError, case.refused), (TypeError, case.mistyped))
    for message, make in cases.items()
]


@pytest.mark.parametrize(("error", "message", "make"), BAD)
def test_bad_kernels_are_refused(error, message, make):
    with pytest.raises(error, match=message):
        make()


PLAIN = sg.kernels.SquaredExponential(1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.5,), ValueError, r"X must have shape \[n, d\] .*got \[\]"),
        ((np.zeros((2, 3, 4)),), ValueError, r"X must have shape \[n, d\] .*got \[2, 3, 4\]"),
        ((np.zeros((0, 1)),), ValueError, r"X must have shape .*at least one row and one column, got \[0, 1\]"),
        ((np.zeros((3, 0)),), ValueError, r"X must have shape .*at least one row and one column, got \[3, 0\]"),
        (([[0.0], [np.nan]],), ValueError, r"X must be finite, got nan at index \[1, 0\]"),
        (([[0.0, np.inf]],), ValueError, r"X must be finite, got inf at index \[0, 1\]"),
        (([["a"], ["b"]],), TypeError, r"X must be an array of numbers \[n, d\], got list"),
        ((None,), TypeError, r"X must be an array of numbers \[n, d\], got NoneType"),
        (([[0.0], [1.0, 2.0]],), TypeError, r"X must be an array of numbers"),
        ((X1, np.zeros((2, 3, 4))), ValueError, r"Y must have shape \[n, d\] .*got \[2, 3, 4\]"),
        ((X1, X2), ValueError, r"Y must have as many columns as X \(1\), got shape \(4, 2\)"),
        ((X1, np.full((2, 1), np.nan)), ValueError, r"Y must be finite, got nan at index \[0, 0\]"),
    ],
)
def test_bad_inputs_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        PLAIN(*arguments)


def test_a_list_of_numbers_is_one_column():
    assert np.array_equal(PLAIN(X1[:, 0]), PLAIN(X1))
    assert np.array_equal(PLAIN(X1, X1[:2, 0].tolist()), PLAIN(X1, X1[:2]))
    with pytest.raises(ValueError, match=r"Y must have as many columns as X \(2\), got shape \(3, 1\)"):
        PLAIN(X2, np.zeros(3))


@pytest.mark.parametrize("name", ["float16", "double", 64])
def test_bad_precision_is_refused(name):
    with pytest.raises(ValueError, match=f"precision must be 'float32' or 'float64', got {name!r}"), sg.precision(name):
        pass


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="No spectrogp attribute fourier"):
        sg.fourier  # noqa: B018
