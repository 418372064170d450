"""Categories: columns of words become columns of zeros and ones, known from the rows of the fit alone."""

from __future__ import annotations

import numpy as np
import pytest

import spectrogp as sg
from spectrogp.cli.tables import read_inputs, read_rows
from spectrogp.cli.work import Looks, fit_table, predict_table, report, shown_for, summary, write
from spectrogp.files import TableError, levels_of, read_table, zeros_and_ones

pandas = pytest.importorskip("pandas")
CUTS = ("Fair", "Good", "Ideal")


def table(rows=60, seed=0):
    """A table whose output is 0, 1 or 2 by its cut, with a slope along carat."""
    rng = np.random.default_rng(seed)
    cut = rng.permutation(np.arange(rows) % 3)
    frame = pandas.DataFrame({"cut": np.array(CUTS, object)[cut], "carat": rng.uniform(0.0, 1.0, rows)})
    return frame, cut + 0.5 * frame["carat"].to_numpy() + 0.05 * rng.normal(size=rows)


def fitted(X, y, **settings):
    settings = {"kernel": "se", "inference": "map", "max_iter": 60, "learning_rate": 0.1} | settings
    return sg.SpectralGPRegressor(random_state=0, n_starts=1, **settings).fit(X, y)


@pytest.fixture(scope="module")
def model():
    return fitted(*table())


def test_words_are_columns_of_zeros_and_ones(model):
    X, _ = table()
    same = pandas.concat([pandas.get_dummies(X[["cut"]], dtype=float, prefix_sep="="), X[["carat"]]], axis=1)
    assert model.names_ == (*same.columns, "y") == ("cut=Fair", "cut=Good", "cut=Ideal", "carat", "y")
    assert model.categories_ == (CUTS, None)
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["cut", "carat"]
    plain = fitted(same, table()[1])
    new, _ = table(seed=1)
    numbers = np.column_stack([new["cut"] == cut for cut in CUTS] + [new["carat"]]).astype(float)
    np.testing.assert_array_equal(model.predict(new), plain.predict(pandas.DataFrame(numbers, columns=same.columns)))
    np.testing.assert_array_equal(model.predict(new), model.predict(numbers))  # as an array it has them already


def test_categories_tell_what_they_know(model):
    new, true = table(seed=2)
    assert np.sqrt(np.mean((model.predict(new) - true) ** 2)) < 0.1  # of noise 0.05 and outputs from 0 to 2.5


@pytest.mark.parametrize("kind", ["category", "string"])
def test_every_type_of_words_is_taken(model, kind):
    X, y = table()
    np.testing.assert_array_equal(fitted(X.astype({"cut": kind}), y).predict(X), model.predict(X))


def test_a_category_of_numbers_is_one_and_truth_values_are_numbers():
    X, y = table()
    X = X.assign(cut=pandas.Categorical(X["cut"].map(CUTS.index)), dear=X["carat"] > 0.5)
    found = fitted(X, y)
    assert found.categories_ == (("0", "1", "2"), None, None)
    assert found.names_ == ("cut=0", "cut=1", "cut=2", "carat", "dear", "y")
    # A missing value makes floats of integers, which are the same words.
    X["cut"] = X["cut"].astype(float)
    assert np.all(np.isfinite(found.predict(X)))


def test_rows_of_missing_words_are_left_out():
    X, y = table()
    X.loc[[3, 5], "cut"] = None
    with pytest.warns(UserWarning, match="2 of 60 rows have missing values"):
        found = fitted(X, y)
    assert found.diagnostics_["rows_left_out"] == 2
    assert found.categories_ == (CUTS, None)
    with pytest.raises(ValueError, match="X contains NaN"):
        found.predict(X)


def test_words_that_the_fit_did_not_see_are_none(model):
    new, _ = table(rows=3)
    new["cut"] = ["Fair", "Odd", "Even"]
    with pytest.warns(
        UserWarning, match=r"X: the column 'cut' holds 2 words that the fit did not see, .* 'Even'"
    ) as told:
        found = model.predict(new)
    assert len(told) == 1
    numbers = np.column_stack([[1.0, 0.0, 0.0], np.zeros(3), np.zeros(3), new["carat"]])
    np.testing.assert_array_equal(found, model.predict(numbers))


def test_columns_are_those_of_the_fit(model):
    X, _ = table()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"cut": "colour"}))
    with pytest.raises(
        ValueError, match="X has 2 columns: give a data frame with the 2 of the fit, or the 4 of names_"
    ):
        model.predict(np.zeros((3, 2)))


def test_a_column_that_tells_rows_apart_is_refused():
    X, y = table()
    with pytest.raises(
        ValueError, match=r"the column 'id' holds 60 different words in 60 rows, .* leave the column out"
    ):
        fitted(X.assign(id=[f"row {k}" for k in range(60)]), y)
    words = [f"word {k % 51}" for k in range(500)]
    with pytest.raises(ValueError, match=r"51 different words in 500 rows, such as 'word 0'; .* at most 50"):
        levels_of(words, "X")
    assert len(levels_of([word for word in words if word != "word 50"], "X")) == 50


def test_times_as_words_are_told_to_be_times():
    X, y = table()
    days = [f"2001-05-{1 + k % 20:02}" for k in range(60)]
    with pytest.raises(ValueError, match=r"'day' holds times as words, .* \(pandas.to_datetime\)"):
        fitted(X.assign(day=days), y)


def test_a_file_keeps_the_words(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    X, _ = table(seed=3)
    again = sg.load(tmp_path / "model.safetensors")
    assert again.categories_ == model.categories_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert "cut=Fair" not in X  # the data frame stays as it was


def test_names_that_are_given_are_those_of_the_columns():
    X, y = table()
    found = sg.SpectralGPRegressor(kernel="se", inference="map", n_starts=1, max_iter=2)
    assert found.fit(X, y, names=("c", "w", "price")).names_ == ("c=Fair", "c=Good", "c=Ideal", "w", "price")


def test_zeros_and_ones():
    columns = zeros_and_ones(["b", None, "a"], ("a", "b"), "X")
    np.testing.assert_array_equal(columns, [[0.0, 1.0], [np.nan, np.nan], [1.0, 0.0]])


@pytest.fixture(params=["csv", "parquet"])
def path(request, tmp_path):
    """The same table as a file, with the price."""
    X, y = table()
    found = tmp_path / f"stones.{request.param}"
    if request.param == "csv":
        X.assign(price=y).to_csv(found, index=False)
    else:
        pytest.importorskip("pyarrow")
        X.assign(price=y).astype({"cut": "category"}).to_parquet(found, index=False)
    return found


def test_the_command_line_takes_words(model, path, tmp_path):
    given = read_rows(path, ["cut", "carat"], "price", None, strict=True)
    assert given.columns.x == ("cut=Fair", "cut=Good", "cut=Ideal", "carat")
    assert given.levels == {"cut": CUTS}
    settings = {"kernel": "se", "inference": "map", "max_iter": 60, "learning_rate": 0.1, "n_starts": 1}
    found = fit_table(
        path, given, shown_for(given, Looks()), lambda *_: None, quick=False, seed=0, checkpoint=None, **settings
    )
    seen = report(found, Looks())
    write(found, seen, summary(found, seen), tmp_path, Looks())
    said = predict_table(tmp_path / "model.safetensors", path, tmp_path / "new.csv", 0.9)
    predicted = read_table(tmp_path / "new.csv")
    assert not said
    assert list(predicted)[:4] == list(given.columns.x)
    np.testing.assert_allclose(predicted["mean"], model.predict(table()[0]), rtol=1e-9)


def test_the_command_line_says_what_is_wrong_with_words(tmp_path):
    place = tmp_path / "stones.csv"
    X, y = table()
    X.assign(price=y, id=[f"row {k}" for k in range(60)], size=["1"] * 59 + ["wide"]).to_csv(place, index=False)
    with pytest.raises(ValueError, match=r"stones.csv, column 'id', holds 60 different words"):
        read_rows(place, ["cut", "id"], "price", None, strict=True)
    with pytest.raises(TableError, match=r"column 'size', row 60: expected a number"):
        read_rows(place, ["cut", "size"], "price", None, strict=True)
    X.assign(price=y, cut=[None, *X["cut"][1:]]).to_csv(place, index=False)
    with pytest.raises(TableError, match=r"column 'cut', row 1: a word is missing"):
        read_rows(place, ["cut", "carat"], "price", None, strict=True)
    assert read_rows(place, ["cut", "carat"], "price", None, strict=False).left_out == 1
    X.assign(cut="Odd").to_csv(place, index=False)
    with pytest.warns(UserWarning, match="did not see, 'Odd'"):
        inputs = read_inputs(place, ["cut=Fair", "carat"], {"cut": ("Fair",)})
    np.testing.assert_array_equal(inputs["cut=Fair"], np.zeros(60))
