"""One table of bad inputs: each is refused by an error that names what is wrong, or has a finite answer; never NaN."""

from __future__ import annotations

import datetime
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import spectrogp as sg
from spectrogp.cli import app

pytestmark = pytest.mark.usefixtures("compile_quickly")

FAST = {"inference": "map", "n_components": 1, "max_iter": 5, "n_knots": 4, "random_state": 0}
REFUSED = (TypeError, ValueError, FloatingPointError)
ROWS = 12
T = np.linspace(0.0, 3.0, ROWS)
X = T[:, None]
Y = np.cos(2 * np.pi * T) + 0.1 * np.sin(40.0 * T)
TIMES = np.datetime64("2024-01-01T00:00", "us") + (86400e6 * X).astype("timedelta64[us]")


def but(values: np.ndarray, wrong: Any, kind: Any = None) -> np.ndarray:
    """The same array with one wrong entry."""
    changed = values.astype(type(wrong) if kind is None else kind)
    changed[(5, *(0,) * (values.ndim - 1))] = wrong
    return changed


def masked(values: np.ndarray) -> np.ma.MaskedArray:
    return np.ma.MaskedArray(values, mask=but(np.zeros(values.shape), True, bool))


class Case(NamedTuple):
    """A bad input, and what fit and predict say of it: a pattern of the message, or FINITE; None where X is good.

    Rows with missing values are left out by fit, with a warning.
    """

    name: str
    fit: str
    predict: str | None = None
    X: Any = X
    y: Any = Y
    error: Any = None


FINITE = "finite"

CASES = [
    # Numbers in odd units
    Case("Unix times", FINITE, X=X + 1.7e9),
    Case("an offset of 1e9", FINITE, X=1e-3 * X + 1e9),
    Case("nanoseconds since 1970", FINITE, X=(86400e9 * X).astype(np.int64) + 1_700_000_000_000_000_000),
    Case("outputs with an offset of 1e9", FINITE, y=Y + 1e9),
    Case("huge inputs", "X has values too large", "X lies too far", X=1e300 * X),
    Case("inputs a thousand times as far", FINITE, FINITE, X=1e3 * X),
    Case("tiny inputs", FINITE, FINITE, X=1e-300 * X),
    Case("inputs between subnormal numbers", "X has values too close", FINITE, X=1e-322 * X),
    Case("huge outputs", "y has values too large", y=1e300 * Y),
    Case("tiny outputs", FINITE, y=1e-300 * Y),
    # Poor data
    Case("equal inputs", FINITE, FINITE, X=np.full((ROWS, 1), 0.1)),
    Case("a constant column", FINITE, "2 features", X=np.column_stack([T, np.full(ROWS, 0.1)])),
    Case("equal outputs", FINITE, y=np.full(ROWS, 0.1)),
    Case("rows in pairs", FINITE, FINITE, X=X[np.arange(ROWS) // 2], y=Y[np.arange(ROWS) // 2]),
    Case("rows in pairs that contradict each other", FINITE, X=X[np.arange(ROWS) // 2]),
    Case("two rows", FINITE, FINITE, X=X[:2], y=Y[:2]),
    Case("one row", "X: .*1 sample", FINITE, X=X[:1], y=Y[:1]),
    Case("no rows", "X: .*0 sample", "X: .*0 sample", X=X[:0], y=Y[:0]),
    Case("no columns", "X: .*0 feature", "X: .*0 feature", X=X[:, :0]),
    Case("one that stands out", FINITE, y=but(Y, 1e6)),
    # What is no number
    Case("NaN in X", "1 of 12 rows have missing values", "X contains NaN", X=but(X, np.nan)),
    Case("∞ in X", "X contains infinity", "X contains infinity", X=but(X, np.inf)),
    Case("-∞ in X", "X contains infinity", "X contains infinity", X=but(X, -np.inf)),
    Case("NaN in y", "1 of 12 rows have missing values", y=but(Y, np.nan)),
    Case("∞ in y", "y contains infinity", y=but(Y, np.inf)),
    Case("-∞ in y", "y contains infinity", y=but(Y, -np.inf)),
    Case("None in X", "1 of 12 rows have missing values", "X contains NaN", X=but(X, None, object)),
    Case("None in y", "1 of 12 rows have missing values", y=but(Y, None, object)),
    Case(
        "strings in X",
        "X holds words in the column 0, such as",
        "X holds words in the column 0, such as",
        X=but(X, "a", object),
    ),
    Case("strings in y", "y: could not convert", y=but(Y, "a", object)),
    Case(
        "text",
        "X holds words in the column 0, such as",
        "X holds words in the column 0, such as",
        X=np.full((ROWS, 1), "late"),
    ),
    Case("complex inputs", "X: Complex data", "X: Complex data", X=X + 1j),
    Case("complex outputs", "y: Complex data", y=Y + 1j),
    Case("masked inputs", "1 of 12 rows have missing values", "X has masked values", X=masked(X)),
    Case("masked outputs", "1 of 12 rows have missing values", y=masked(Y)),
    Case("a mask that hides nothing", FINITE, FINITE, X=np.ma.MaskedArray(X), y=np.ma.MaskedArray(Y)),
    Case("a sparse matrix", "data was passed for X", "data was passed for X", X=sparse.csr_matrix(X)),
    Case("sparse outputs", "data was passed for y", y=sparse.csr_matrix(Y[:, None])),
    Case("a dictionary", "X: .*dict", "X: .*dict", X={"t": T}),
    Case("a set", "X: .*set", "X: .*set", X=set(T)),
    Case("no inputs", "X: .*scalar", "X: .*scalar", X=None),
    Case("no outputs", "y is None", y=None),
    # Shapes
    Case("X of one dimension", FINITE, FINITE, X=T),
    Case("X of three dimensions", "X: .*dim 3", "X: .*dim 3", X=X[None]),
    Case("a number", "X: .*scalar", "X: .*scalar", X=3.0),
    Case("rows of several lengths", "X: .*inhomogeneous", "X: .*inhomogeneous", X=[[0.0], [1.0, 2.0], [3.0]]),
    Case("fewer outputs", r"y must have shape \[n\] with n = 12", y=Y[:-1]),
    Case("more outputs", r"y must have shape \[n\] with n = 12", y=np.append(Y, 0.0)),
    Case("a single output", "y should be a 1d array", y=1.0),
    Case("a column too many", FINITE, "2 features, but", X=np.column_stack([T, T**2])),
    # Types that stand for numbers
    Case("lists", FINITE, FINITE, X=X.tolist(), y=Y.tolist()),
    Case("float32", FINITE, FINITE, X=X.astype(np.float32), y=Y.astype(np.float32)),
    Case("integers", FINITE, FINITE, X=np.arange(ROWS)[:, None], y=np.arange(ROWS) % 3),
    Case("truth values", FINITE, FINITE, X=X > 1.0, y=Y > 0.0),
    Case("numbers as objects", FINITE, FINITE, X=X.astype(object), y=Y.astype(object)),
    Case("numbers as text", FINITE, FINITE, X=X.astype(str).astype(object)),
    # Times
    Case("times", FINITE, "column 0 of X held numbers in fit, but holds times now", X=TIMES),
    Case(
        "a missing time",
        "1 of 12 rows have missing values",
        "X contains NaN",
        X=but(TIMES, np.datetime64("NaT"), TIMES.dtype),
    ),
    Case("times among numbers", "X: .*datetime", "X: .*datetime", X=but(X, datetime.datetime(2024, 1, 1), object)),
    Case("lengths of time", "X holds lengths of time", "X holds lengths of time", X=TIMES - TIMES[0]),
    # Known errors
    Case("errors below zero", "error must be zero or positive", error=but(np.ones(ROWS), -1.0)),
    Case("NaN among the errors", "1 of 12 rows have missing values", error=but(np.ones(ROWS), np.nan)),
    Case("infinite errors", "error must be finite", error=np.inf),
    Case("errors too large", "error has values too large", error=1e300),
    Case("large errors", FINITE, error=1e9),
    Case("errors of zero", FINITE, error=0.0),
    Case("one error too few", r"error must be one number or have shape \[12\]", error=np.ones(ROWS - 1)),
    Case("strings as errors", "error must be an array of numbers", error=["a"] * ROWS),
    Case("complex errors", "error must be an array of numbers", error=1j),
    Case("masked errors", "1 of 12 rows have missing values", error=masked(np.ones(ROWS))),
]


FAR = ("inputs a thousand times as far", "integers")  # beyond the data, of which predictions warn


def finite(model: sg.SpectralGPRegressor, X: Any) -> None:
    mean, deviation = model.predict(X, return_std=True)
    assert mean.shape == deviation.shape == (len(X),)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(deviation) & (deviation > 0))


@pytest.fixture(scope="module")
def good():
    return sg.SpectralGPRegressor(**FAST).fit(X, Y)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fit(case):
    model = sg.SpectralGPRegressor(**FAST)
    if case.fit == FINITE:
        finite(model.fit(case.X, case.y, case.error), case.X)
        return
    if "missing" in case.fit:
        with pytest.warns(UserWarning, match=case.fit):
            model.fit(case.X, case.y, case.error)
        assert model.diagnostics_["rows_left_out"] == 1
        assert np.all(np.isfinite(model.predict(X[:3]) if not model.times_[0] else [0.0]))
        return
    with pytest.raises(REFUSED, match=case.fit):
        model.fit(case.X, case.y, case.error)


@pytest.mark.parametrize("case", [case for case in CASES if case.predict], ids=lambda case: case.name)
def test_predict(case, good):
    if case.predict == FINITE:
        with pytest.warns(UserWarning, match="times the range") if case.name in FAR else nullcontext():
            finite(good, case.X)
        return
    with pytest.raises(REFUSED, match=case.predict):
        good.predict(case.X)


def test_a_frame_with_missing_values(good):
    pandas = pytest.importorskip("pandas")
    for kind in ("float64", "Int64"):
        frame = pandas.DataFrame({"t": pandas.array([None if i == 5 else i for i in range(ROWS)], dtype=kind)})
        with pytest.warns(UserWarning, match=r"1 of 12 rows have missing values and are left out \(X: 1\)"):
            assert sg.SpectralGPRegressor(**FAST).fit(frame, Y).diagnostics_["rows"] == ROWS - 1
        with pytest.raises(REFUSED, match=r"X contains NaN|X: .*NAType"):
            good.predict(frame.to_numpy(object))


def test_one_column_of_outputs_is_flattened(good):
    with pytest.warns(UserWarning, match="column-vector y"):
        model = sg.SpectralGPRegressor(**FAST).fit(X, Y[:, None])
    np.testing.assert_array_equal(model.predict(X), good.predict(X))


@pytest.mark.parametrize("method", ["predict", "sample_y", "instantaneous_frequency"])
def test_before_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(sg.SpectralGPRegressor(), method)(X)


def test_far_away_is_no_nan(good):
    with pytest.raises(FloatingPointError, match="X lies too far from the inputs of fit"):
        good.sample_y(1e300 * X)
    assert np.all(np.isfinite(good.instantaneous_frequency(1e300 * X).mean))
    assert np.all(np.isfinite(good.spectrogram(1e300 * X, [0.5, 1.0]).mean))


@pytest.mark.parametrize("frequency", [["a"], [np.nan], 1j])
def test_bad_frequencies(frequency, good):
    with pytest.raises(REFUSED, match="frequency must be"):
        good.spectrogram(X, frequency)


PARAMETERS: list[dict[str, Any]] = [
    {"kernel": "matern52"},
    {"kernel": np.ones(2)},
    {"inference": "mcmc"},
    {"approximation": "none"},
    {"max_iter": 0},
    {"n_components": 0},
    {"chains": 1.5},
    {"learning_rate": 0.0},
    {"learning_rate": "fast"},
    {"highest_frequency": -1.0},
    {"highest_frequency": np.nan},
    {"highest_frequency": [1.0, 2.0]},
]


@pytest.mark.parametrize("parameter", PARAMETERS, ids=str)
def test_bad_parameters(parameter):
    with pytest.raises(REFUSED, match=f"{next(iter(parameter))} must be"):
        sg.SpectralGPRegressor(**parameter).fit(X, Y)


def test_kernels_and_approximations_that_do_not_go_together():
    with pytest.raises(ValueError, match="approximation='markov' is for the kernel 'matern' of one input, got kernel="):
        sg.SpectralGPRegressor("phase", approximation="markov").fit(X, Y)
    with pytest.raises(ValueError, match="the kernel 'matern' takes likelihood='gaussian', got 'student'"):
        sg.SpectralGPRegressor("matern", likelihood="student").fit(X, Y)
    with pytest.raises(ValueError, match="are for one input, got 2; leave both at 'auto'"):
        sg.SpectralGPRegressor("matern").fit(np.column_stack([X, X]), Y)


def test_bad_seeds():
    with pytest.raises(ValueError, match="random_state: 'x' cannot be used"):
        sg.SpectralGPRegressor(random_state="x").fit(X, Y)


# The same from the command line: files


class File(NamedTuple):
    """A table with something wrong, and what is said of it by ``fit`` (and by ``predict``, if its inputs are wrong)."""

    name: str
    content: str | bytes | None  # None: there is no such file
    fit: str | None
    predict: str | None = None
    options: tuple[str, ...] = ()


def table(cell: str = "1.0", *, column: int = 0, names: str = "x,y", rows: int = ROWS) -> str:
    """A good table in which the sixth cell of a column is replaced."""
    cells = [[f"{t}", f"{y}"] for t, y in zip(T[:rows], Y[:rows], strict=True)]
    if rows > 5:
        cells[5][column] = cell
    return "\n".join([names, *(",".join(row) for row in cells)]) + "\n"


FILES = [
    File("no file", None, "there is no file .*data.csv", "there is no file .*data.csv"),
    File("nothing", "", "data.csv is empty", "data.csv is empty"),
    File("names only", "x,y\n", "data.csv has no rows", "data.csv has no rows"),
    File("one column", "y\n1\n2\n", "data.csv has only the column 'y'", "data.csv has no column 'x'"),
    File("a name twice", "x,x,y\n0,1,2\n1,2,3\n", "data.csv has 2 columns 'x'", "data.csv has 2 columns 'x'"),
    File("an empty name", table(names="x,"), "data.csv, column 2 has no name", None),  # predictions need x alone
    File("another name", table(), "data.csv has no column 'time'", options=("--x", "time")),
    File(
        "another alphabet",
        table().encode() + b"\xff\xfe",
        "data.csv is not a table of text in UTF-8",
        "not a table of text",
    ),
    File("an archive", b"PK\x03\x04\x00\xff\x00", "data.csv is not a table of text", "data.csv is not a table of text"),
    File("rows of several lengths", "x,y\n0,1\n1\n", "data.csv, row 2: expected 2", "data.csv, row 2: expected 2"),
    File("a cell too many", "x,y\n0,1\n1,2,3\n", "data.csv, row 2: expected 2", "data.csv, row 2: expected 2"),
    File("an empty cell", table(""), "column 'x', row 6: .* missing", "column 'x', row 6: .* missing", ("--strict",)),
    File("NaN", table("NaN"), "column 'x', row 6: .* missing", "column 'x', row 6: .* missing", ("--strict",)),
    File("∞", table("inf"), "column 'x', row 6: .* infinite", "column 'x', row 6: .* infinite"),
    File("too large a number", table("1e999"), "column 'x', row 6: .* too large", "column 'x', row 6: .* too large"),
    File("a word", table("late"), "column 'x', row 6: expected a number", "column 'x', row 6: expected a number"),
    File("a decimal comma", table('"1,5"'), "column 'x', row 6: expected a number", "column 'x', row 6: expected"),
    File("a complex number", table("1+2j"), "column 'x', row 6: expected a number", "column 'x', row 6: expected"),
    File("a time among numbers", table("2024-01-01"), "column 'x', row 6: expected a number", "column 'x', row 6"),
    File("times", "x,y\n2024-01-01,1\n2024-01-02,2\n", None, "data.csv: column 0 of X held numbers in fit"),
    File("an empty output", table("", column=1), "column 'y', row 6: .* missing", options=("--strict",)),
    File("no output", "x,y\n1,\n2,\n", "data.csv has no row in which none of 'x', 'y' is missing"),
    File("a word as output", table("high", column=1), "column 'y', row 6: expected a number"),
    File("∞ as output", table("-inf", column=1), "column 'y', row 6: .* infinite"),
    File(
        "times as outputs", "x,y\n1,2024-01-01\n2,2024-01-02\n", "column 'y': outputs are numbers", options=("--y", "y")
    ),
    File("one row", table(rows=1), "data.csv: X: .*1 sample"),
    File("huge inputs", table("1e300"), "data.csv: X has values too large", "data.csv: X lies too far"),
    File("huge outputs", table("1e300", column=1), "data.csv: y has values too large"),
    File(
        "errors below zero",
        "x,y,e\n0,1,1\n1,2,-1\n",
        "data.csv: error must be zero",
        options=("--y", "y", "--error", "e"),
    ),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.csv"


def refused(arguments: list[str], pattern: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert re.search(pattern, result.stderr), result.stderr
    assert "Traceback" not in result.output


def write(path: Path, content: str | bytes | None) -> None:
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize("file", [file for file in FILES if file.fit], ids=lambda file: file.name)
def test_command_fit(file, path):
    write(path, file.content)
    refused(["fit", str(path), "--out", str(path.parent), *file.options], file.fit)


@pytest.mark.parametrize("file", [file for file in FILES if file.predict], ids=lambda file: file.name)
def test_command_predict(file, path, good):
    write(path, file.content)
    good.save(path.parent / "model")
    refused(["predict", str(path.parent / "model"), str(path), "--out", str(path.parent / "out.csv")], file.predict)


@pytest.mark.parametrize("content", [None, b"", b"no model", b"\x80\x04."])
def test_command_with_a_bad_model(content, path):
    write(path, table())
    write(path.parent / "model", content)
    refused(["predict", str(path.parent / "model"), str(path)], "model")
    refused(["spectrogram", str(path.parent / "model"), "--out", str(path.parent)], "model")


def test_a_directory_is_no_table(tmp_path):
    (tmp_path / "data.csv").mkdir()
    refused(["fit", str(tmp_path / "data.csv"), "--out", str(tmp_path)], "there is no file .*data.csv")
