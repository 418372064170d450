"""Tables in and out: what is written is read again, and what is wrong is named with its file, column and row."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from spectrogp import read_table, write_table
from spectrogp.files import TableError

COLUMNS = {
    "time": np.array(["1610-01-01", "2001-05-30T12:34:56.789012", "9999-12-31"], dtype="datetime64[us]"),
    "x, in metres": np.array([0.1 + 0.2, -5e-324, 1.7976931348623157e308]),
    "Ω": np.array([1.0, 2.0, 3.0]),
}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def assert_tables_equal(one, other):
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("extension", [".csv", ".parquet", ".CSV"])
def test_what_is_written_is_read_again(tmp_path, extension):
    path = tmp_path / f"table{extension}"
    write_table(path, COLUMNS)
    assert_tables_equal(read_table(path), COLUMNS)
    chosen = read_table(path, ["Ω", "time"])
    assert_tables_equal(chosen, {name: COLUMNS[name] for name in ("Ω", "time")})
    assert [path.name for path in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("extension", [".csv", ".parquet"])
def test_integers_become_numbers_and_all_times_microseconds(tmp_path, extension):
    path = tmp_path / f"table{extension}"
    units = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")
    times = {unit: np.array(["2001-01-01"], f"datetime64[{unit}]") for unit in units}
    write_table(
        path, {"integer": [3], "small": np.array([2.5], np.float32), "unsigned": np.array([7], np.uint8)} | times
    )
    expected = {name: np.array([value]) for name, value in (("integer", 3.0), ("small", 2.5), ("unsigned", 7.0))}
    expected |= {unit: time.astype("datetime64[us]") for unit, time in times.items()}
    assert_tables_equal(read_table(path), expected)


def test_csv_as_others_write_it(tmp_path):
    text = '\ufefftime, "value, in V" ,note\r\n2001-05-30 12:00,1e3,"a\nb"\r\n\r\n2001-05-31 12:00:30.5, -2 ,c\r\n'
    table = read_table(write(tmp_path / "table.csv", text), ["time", "value, in V"])
    times = np.array(["2001-05-30T12:00", "2001-05-31T12:00:30.500000"], "datetime64[us]")
    assert_tables_equal(table, {"time": times, "value, in V": np.array([1000.0, -2.0])})


@pytest.mark.parametrize(
    ("cells", "times"),
    [
        (["2001-05", "1610-01"], ["2001-05-01", "1610-01-01"]),
        (["2001-05-30T23:30:00Z", "2001-05-30T23:30+02:00"], ["2001-05-30T23:30", "2001-05-30T21:30"]),
        (["2001-05-30T12:00:00.123456000000"], ["2001-05-30T12:00:00.123456"]),
        (["0001-01-01T00:00:00-14:00", "9999-12-31T23:59+1400"], ["0001-01-01T14:00", "9999-12-31T09:59"]),
    ],
)
def test_times(tmp_path, cells, times):
    table = read_table(write(tmp_path / "table.csv", "\n".join(["time", *cells])))
    assert_tables_equal(table, {"time": np.array(times, "datetime64[us]")})


def test_parquet_as_others_write_it(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    noon = np.array(["2001-05-30T12:00"], "datetime64[ns]")
    columns = {
        "zoned": arrow.array(noon).cast(arrow.timestamp("ms", "Europe/Helsinki")),
        "date": arrow.array(noon.astype("datetime64[D]")),
        "text": arrow.array(["2001-05-30"]),
        "number": arrow.array(["2.5"]),
        "half": arrow.array(np.array([0.5], np.float16)),
        "other": arrow.array([[1, 2]]),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "table.parquet")
    day = np.array(["2001-05-30"], "datetime64[us]")
    expected = {"zoned": noon.astype("datetime64[us]"), "date": day, "text": day}
    expected |= {"number": np.array([2.5]), "half": np.array([0.5])}
    assert_tables_equal(read_table(tmp_path / "table.parquet", list(expected)), expected)


# What is wrong is named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: expected a row of column names"),
        ("\n\n", "is empty"),
        ("t,y\n", "has no rows of values"),
        ("t,y,t\n1,2,3\n", "has 2 columns 't': rename all but one"),
        ("t,\n0,1\n", "column 2 has no name"),
        ("t,y\n1,2\n3\n", "row 2: expected 2 values, one for each column, got 1"),
        ("t,y\n1,2\n3,4,5\n", "row 2: expected 2 values, one for each column, got 3"),
        ("t,y\n1,2\n3,\n", "column 'y', row 2: the value is missing"),
        ("t,y\n1,2\n3, NaN \n", "column 'y', row 2: the value is missing"),
        ("t,y\n1,2\n3,N/A\n", "column 'y', row 2: the value is missing"),
        ("t,y\n1,2\n3,-inf\n", "column 'y', row 2: the value is infinite"),
        ("t,y\n1,2\n3,4a\n", "column 'y', row 2: expected a number, as in the rows before, got '4a'"),
        ("t;y\n1;2,a\n", "column 'y', row 1: expected a number or a time such as 2001-05.*, got '2,a'"),
        ("t,y\n1,a\n", "column 'y', row 1: expected a number or a time .*, got 'a'"),
        ("t,y\n2001-05-30,1\n2001-13-01,2\n", "column 't', row 2: expected a time .*, got '2001-13-01'"),
        ("t,y\n2001-05-30,1\ntoday,2\n", "column 't', row 2: expected a time .*, got 'today'"),
        ("t\n2001-05-30T12:00\n2001-05-30T12:00Z\n", "row 2: expected a time without a time zone, .*12:00Z'"),
        ("t\n2001-05-30T12:00Z\n2001-05-30T12:00\n", "row 2: expected a time with a time zone, .*12:00'"),
        ("t\n2001-05-30\n7\n", "row 2: expected a time without a time zone, .* got '7'"),
        (b"t,y\n1,\xff\n", "is not a table of text in UTF-8"),
        ("t,y\n1,\0\n", "column 'y', row 1: expected a number"),
        ("t\n" + "1" * 200_000, r"row 1: field larger than field limit \(131072\)$"),
    ],
)
def test_wrong_csv(tmp_path, text, message):
    path = write(tmp_path / "table.csv", text)
    with pytest.raises(TableError, match=f"^{path}.*{message}"):
        read_table(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [1.0, None]}, "column 'y', row 2: the value is missing"),
        ({"y": [1.0, float("nan")]}, "column 'y', row 2: the value is missing"),
        ({"y": [1.0, float("inf")]}, "column 'y', row 2: the value is infinite"),
        ({"y": ["1", "b"]}, "column 'y', row 2: expected a number, as in the rows before, got 'b'"),
        ({"y": [[1]]}, "column 'y', row 1: expected a number or a time, got a column of list"),
        ({"y": [True]}, "column 'y', row 1: expected a number or a time, got a column of bool"),
        ({"y": []}, "has no rows of values"),
        ({}, "has no rows of values"),
    ],
)
def test_wrong_parquet(tmp_path, columns, message):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "table.parquet"
    parquet.write_table(arrow.table(columns), path)
    with pytest.raises(TableError, match=f"^{path}.*{message}"):
        read_table(path)


def test_damaged_and_doubled_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "table.parquet"
    parquet.write_table(arrow.Table.from_arrays([arrow.array([1.0])] * 2, names=["y", "y"]), path)
    with pytest.raises(TableError, match="has 2 columns 'y'"):
        read_table(path)
    write_table(path, {"y": np.arange(100.0)})
    content = path.read_bytes()
    for damaged in (b"", content[:-20], b"PAR1" + bytes(100) + b"PAR1"):
        with pytest.raises(TableError, match=f"^{path} is not a Parquet file that can be read: "):
            read_table(write(path, damaged))


def test_wrong_names(tmp_path):
    write_table(tmp_path / "table.csv", COLUMNS)
    with pytest.raises(TableError, match=r"table\.csv has no column 'y'; it has 'time', 'x, in metres', 'Ω'"):
        read_table(tmp_path / "table.csv", ["time", "y"])
    for name in ("table.xlsx", "table", "table.parquet.gz"):
        with pytest.raises(TableError, match=rf"{name}: the name of a table ends in \.csv, \.tsv, .*\.wav, got"):
            read_table(tmp_path / name)
    for name in ("table.txt", "table", "table.csv.gz"):
        with pytest.raises(TableError, match=rf"{name}: the name of a table to be written ends in \.csv or \.parquet"):
            write_table(tmp_path / name, COLUMNS)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*other\.csv"):
        read_table(tmp_path / "other.csv")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "a table has at least one column, and every column a name"),
        ({" ": [1.0]}, "every column a name"),
        ({1: [1.0]}, "every column a name"),
        ({"y": []}, "the same number of rows, at least one; got 'y': 0"),
        ({"t": [1.0], "y": [1.0, 2.0]}, "the same number of rows, at least one; got 't': 1, 'y': 2"),
        ({"y": [[1.0]]}, r"column 'y': expected numbers or times \[n\], got float64 \[1, 1\]"),
        ({"y": ["a"]}, "column 'y': expected numbers or times"),
        ({"y": [1.0, np.nan]}, "column 'y', row 2: the value is missing"),
        ({"y": [1.0, -np.inf]}, "column 'y', row 2: the value is infinite"),
        ({"y": np.array(["2001-01-01", "NaT"], "datetime64[D]")}, "column 'y', row 2: the value is missing"),
    ],
)
def test_what_cannot_be_written(tmp_path, columns, message):
    with pytest.raises(TableError, match=f"^{tmp_path / 'table.csv'}.*{message}"):
        write_table(tmp_path / "table.csv", columns)
    assert not list(tmp_path.iterdir())


def test_parquet_without_pyarrow_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path / "table.parquet", "")
    for use in (lambda: read_table(path), lambda: write_table(path, COLUMNS)):
        with pytest.raises(
            ImportError, match=r"table\.parquet: Parquet files need pyarrow: pip install 'spectrogp\[data\]'"
        ):
            use()
