"""Groups of rows: signals of one table, in files, directories and memory."""

from __future__ import annotations

import numpy as np
import pytest

from spectrogp.files import TableError, kinds_in, read_groups

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

# Rows of the groups are scattered, and the first of b comes before the first of a.
STATION = ["b", "a", "a", "b", "a"]
DEPTH = [1, 1, 2, 1, 2]
T = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
Y = np.array([5.0, 6.0, np.nan, 8.0, 9.0])
WHEN = np.array("2001-01-01", "datetime64[us]") + (T * 86400e6).astype("timedelta64[us]")


def in_memory():
    return {"station": np.array(STATION), "depth": np.array(DEPTH), "t": T, "y": Y}


def as_csv(place):
    lines = ["station,depth,t,y", *(f"{s},{d},{t},{y}" for s, d, t, y in zip(STATION, DEPTH, T, Y, strict=True))]
    (place / "data.csv").write_text("\n".join(lines))
    return place / "data.csv"


def as_parquet(place):
    pq.write_table(pa.table(in_memory()), place / "data.parquet")
    return place / "data.parquet"


def as_partitions(place):
    pq.write_to_dataset(pa.table(in_memory()), place / "data", partition_cols=["station"])
    return place / "data"


def as_directory(place):
    (place / "plain").mkdir()
    table = pa.table(in_memory())
    pq.write_table(table.slice(0, 2), place / "plain" / "0.parquet")
    pq.write_table(table.slice(2), place / "plain" / "1.parquet")
    return place / "plain"


def as_frame(place):
    return pytest.importorskip("pandas").DataFrame(in_memory())


def as_dictionary(place):
    return in_memory()


FORMS = [as_csv, as_parquet, as_partitions, as_directory, as_frame, as_dictionary]


@pytest.mark.parametrize("form", FORMS)
def test_groups_have_their_rows_in_order(form, tmp_path):
    table = form(tmp_path)
    assert {name: kinds_in(table)[name] for name in ("t", "y")} == {"t": "number", "y": "number"}
    groups = read_groups(table, ["station"], ["t", "y"])
    keys = groups.keys["station"].to_pylist()
    # Directories come by their names.
    assert keys == (["a", "b"] if form is as_partitions else ["b", "a"])
    assert groups.rows == 5
    expected = {"b": ([0.0, 3.0], [5.0, 8.0]), "a": ([1.0, 2.0, 4.0], [6.0, np.nan, 9.0])}
    for index, key in enumerate(keys):
        found = groups.read(index)
        np.testing.assert_array_equal(found["t"], expected[key][0])
        np.testing.assert_array_equal(found["y"], expected[key][1])


@pytest.mark.parametrize("form", FORMS)
def test_several_columns_make_groups_together(form, tmp_path):
    groups = read_groups(form(tmp_path), ["station", "depth"], ["t"])
    keys = list(zip(*(map(str, column.to_pylist()) for column in groups.keys.columns), strict=True))
    assert sorted(keys) == [("a", "1"), ("a", "2"), ("b", "1")]
    np.testing.assert_array_equal(groups.read(keys.index(("a", "2")))["t"], [2.0, 4.0])
    np.testing.assert_array_equal(groups.read(keys.index(("b", "1")))["t"], [0.0, 3.0])


def test_directories_are_read_when_they_are_wanted(tmp_path):
    """A file that is damaged is the trouble of its group alone."""
    groups = read_groups(as_partitions(tmp_path), ["station"], ["t", "y"])
    for path in (tmp_path / "data" / "station=a").iterdir():
        path.write_bytes(b"PAR1 nothing")
    with pytest.raises(TableError, match="cannot be read as Parquet"):
        groups.read(0)
    np.testing.assert_array_equal(groups.read(1)["t"], [0.0, 3.0])


def test_times_and_text_numbers_keep_their_kinds():
    table = {"k": [1, 1], "when": WHEN[:2], "text": ["1.5", "2.5"]}
    groups = read_groups(table, ["k"], ["when", "text"])
    assert groups.keys["k"].to_pylist() == [1]
    found = groups.read(0)
    np.testing.assert_array_equal(found["when"], WHEN[:2])
    np.testing.assert_array_equal(found["text"], [1.5, 2.5])


def test_what_is_wrong_is_said_for_its_group():
    groups = read_groups({"k": ["a", "b"], "y": [1.0, np.inf]}, ["k"], ["y"])
    np.testing.assert_array_equal(groups.read(0)["y"], [1.0])
    with pytest.raises(TableError, match="the table, column 'y', row 1 of the group: the value is infinite"):
        groups.read(1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"k": ["a", None], "y": [1.0, 2.0]}, "1 rows have no value in 'k'"),
        ({"k": [1.0, np.nan], "y": [1.0, 2.0]}, "1 rows have no value in 'k'"),
        ({"k": ["a"], "y": [1.0, 2.0]}, "columns of equal length, got dict"),
        (3.0, "must be a path, a data frame, a table of arrow or a dictionary .* got float"),
        ({"k": [], "y": []}, "has no rows"),
    ],
)
def test_bad_tables_are_refused(table, message):
    with pytest.raises(TableError, match=message):
        read_groups(table, ["k"], ["y"])


def test_a_directory_without_files_is_refused(tmp_path):
    with pytest.raises(TableError, match="has no Parquet files"):
        kinds_in(tmp_path)


def test_many_keys_do_not_overflow():
    """Products of the numbers of different values exceed 64 bits."""
    rng = np.random.default_rng(0)
    table = {f"k{k}": rng.permutation(3000) for k in range(8)} | {"y": np.arange(3000.0)}
    groups = read_groups(table, [f"k{k}" for k in range(8)], ["y"])
    assert len(groups.keys) == 3000
    assert groups.read(7)["y"] == 7.0
