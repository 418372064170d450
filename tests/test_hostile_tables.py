"""Tables that are wide, long, odd or none at all: read rightly or refused in a line, soon and in little memory."""

from __future__ import annotations

import csv
import gzip
import time

import numpy as np
import pytest

from spectrogp import read_table, write_table
from spectrogp.estimator.times import numbers_of
from spectrogp.files import Columns, TableError, chosen_columns
from test_tables import assert_tables_equal, write


def test_wide_tables_take_time_by_their_width(tmp_path):
    """Ten thousand columns took seconds, and thirty thousand a minute, as the square of their number."""
    names = [f"c{i}" for i in range(200_000)]
    path = write(tmp_path / "table.csv", ",".join(names) + "\n" + ",".join(["1.5"] * len(names)) + "\n")
    began = time.process_time()
    with pytest.raises(TableError, match=r"has 200,000 columns, more than the 10,000 .*: name those to read$"):
        read_table(path)
    with pytest.raises(TableError, match=r"no column 'x'; it has 'c0', 'c1', .*'c9' … and 199,990 more$"):
        read_table(path, ["x"])
    assert_tables_equal(read_table(path, ["c9", "c199999"]), {"c9": np.array([1.5]), "c199999": np.array([1.5])})
    some = read_table(path, names[:10_000])
    assert list(some) == names[:10_000]
    assert time.process_time() - began < 10.0  # one second alone; the square of 200,000 would take an hour


def test_a_long_name_or_cell_is_shown_in_part(tmp_path):
    path = write(tmp_path / "table.csv", f"{'n' * 1000},y\n1,{'9' * 5000}\n")
    with pytest.raises(TableError) as caught:
        read_table(path, ["x"])
    assert str(caught.value).endswith(f"it has '{'n' * 60}'… (1,000 characters), 'y'")
    with pytest.raises(TableError, match=f"row 1: expected a number or a time, got '{'9' * 60}'… .5,000 characters.$"):
        read_table(path)


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "\x00", "\u202eevil", "\u2028", "\x9b31m", "\u200b"])
@pytest.mark.parametrize("extension", [".csv", ".parquet"])
def test_names_are_keys_as_they_are_and_escaped_in_errors(tmp_path, name, extension):
    path = tmp_path / f"table{extension}"
    write_table(path, {"t": [1.0], f"x{name}x": [2.0]})
    assert read_table(path)[f"x{name}x"] == [2.0]
    with pytest.raises(TableError) as caught:
        read_table(path, ["y"])
    assert str(caught.value).isprintable()
    assert repr(f"x{name}x") in str(caught.value)


ODD = {
    "open quote": ('t,y\n1,2\n3,"4\n5,6\n', "row 2: a quote is opened and not closed$"),
    "open quote in the names": ('t,"y\n1,2\n', "the names: a quote is opened and not closed$"),
    "open quote and much below": (
        't,y\n1,"2\n' + "3,4\n" * 50_000,
        r"row 1: field larger .*; is a quote opened there and not closed\?$",
    ),
    "zeros": (
        "t,y\n1,2\n" + "\0" * 5_000_000,
        "row 2: more than 4,194,304 characters, the most of a row; is it a table",
    ),
    "empty lines": ("t,y\n1,2" + "\n" * 1_000_003, "row 2: 1,000,001 empty lines before it, is this a table"),
    "UTF-16": ("t,y\n1,2".encode("utf-16"), "is not a table of text in UTF-8 but text in UTF-16: save it as UTF-8$"),
    "gzip": (gzip.compress(b"t,y\n1,2\n")[:-6], r"is compressed \(gzip\) and damaged"),
    "zip": (b"PK\x03\x04rest", "a zip archive or a spreadsheet"),
    "Parquet": (b"PAR1rest", "a Parquet file: give it a name that ends in .parquet$"),
    "semicolons below a single name": ("t\n1,5;2,5\n", "row 1: expected 1 values, .* got 3$"),
    "decimal commas beside points": ("t;y\n1,5;2.5\n", "got '1,5'; write numbers in the digits 0 to 9"),
    "decimal comma": ('t,y\n1,"2,5"\n', "got '2,5'; write numbers in the digits 0 to 9 with a decimal point"),
    "thousands": ('t,y\n1,"1,234.5"\n', "got '1,234.5'; write numbers .* without separators of thousands"),
    "underscore": ("t,y\n1,1_000\n", "got '1_000'; write numbers .* without separators"),
    "other digits": ("t,y\n1,١٢\n", "got '١٢'; write numbers in the digits 0 to 9"),
    "hexadecimal": ("t,y\n1,0x1F\n", "column 'y', row 1: expected a number .*, got '0x1F'$"),
    "too large": ("t,y\n1,1e999\n", "column 'y', row 1: the value is too large for float64, got '1e999'$"),
    "infinite": ("t,y\n1,Infinity\n", "column 'y', row 1: the value is infinite$"),
    "missing": ("t,y\n1,-nan\n", "column 'y', row 1: the value is missing$"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_csv(tmp_path, name):
    text, message = ODD[name]
    path = write(tmp_path / "table.csv", text)
    with pytest.raises(TableError, match=f"^{path}.*{message}"):
        read_table(path)


def test_an_unclosed_quote_is_found_in_a_column_that_is_not_wanted(tmp_path):
    path = write(tmp_path / "table.csv", 't,note\n1,"a\n2,b\n3,c\n')
    with pytest.raises(TableError, match="row 1: a quote is opened and not closed"):
        read_table(path, ["t"])


def test_a_row_is_bounded_whatever_the_limit_of_cells(tmp_path):
    """Programs raise the limit of the csv module, which is one for all."""
    path = write(tmp_path / "table.csv", 't,y\n1,"2\n' + "3,4\n" * 1_100_000)
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with pytest.raises(TableError, match=r"row 1: more than 4,194,304 characters, .* a quote opened there"):
            read_table(path)
    finally:
        csv.field_size_limit(limit)


def test_line_ends_of_all_systems(tmp_path):
    for end in ("\n", "\r\n", "\r"):
        table = read_table(write(tmp_path / "table.csv", end.join(["t,y", "1,2", "", "3,4", ""])))
        assert_tables_equal(table, {"t": np.array([1.0, 3.0]), "y": np.array([2.0, 4.0])})


def test_too_little_memory_is_said_in_a_line(tmp_path, monkeypatch):
    def short(*_, **__):
        raise MemoryError

    path = write(tmp_path / "table.csv", "t\n1\n")
    monkeypatch.setattr("spectrogp.files.csv_tables.parsed", short)
    with pytest.raises(TableError, match=r"table\.csv does not fit into memory: name fewer columns"):
        read_table(path)


# What the command line takes of a table


def test_inputs_of_a_wide_table_are_to_be_named(tmp_path):
    path = tmp_path / "table.csv"
    write_table(path, {f"c{i}": [1.0] for i in range(32)})
    with pytest.raises(TableError, match=r"the input may be 'c0' or .*'c4' …: choose by --x NAME; give it for each"):
        chosen_columns(path, None, None, None)
    assert chosen_columns(path, ["c3", "c4"], "c5", None) == (("c3", "c4"), "c5", None)
    with pytest.raises(TableError, match=r"--y: .* has no column 'z'; it has 'c0', .*'c9' … and 22 more$"):
        chosen_columns(path, None, "z", None)


def test_inputs_of_several_kinds_keep_their_digits():
    ticks, numbers = np.array([2**53 + 1, 2**53 + 2]), np.array([0.5, 1.5])
    fine = np.array([1, 2], "datetime64[ns]")
    coarse = np.array(["1600-01-01", "2001-01-01"], "datetime64[us]")
    table = {"ticks": ticks, "numbers": numbers, "fine": fine, "coarse": coarse}
    np.testing.assert_array_equal(
        Columns(("ticks", "ticks"), "").inputs(table), np.stack([ticks, ticks], 1), strict=True
    )
    mixed = Columns(("ticks", "numbers", "fine", "coarse"), "").inputs(table)
    assert mixed.dtype == object
    assert mixed[:, 0].tolist() == [2**53 + 1, 2**53 + 2]
    assert mixed[:, 1].tolist() == [0.5, 1.5]
    np.testing.assert_array_equal(mixed[:, 2].astype("datetime64[ns]"), fine)
    np.testing.assert_array_equal(mixed[:, 3].astype("datetime64[us]"), coarse)
    numbers, times, _ = numbers_of(mixed)  # of the estimator, which knows all of these kinds
    assert times == [2, 3]
    apart = np.diff(numbers.astype(np.float64), axis=0)[0]
    np.testing.assert_array_equal(apart[:2], [1.0, 1.0])
    np.testing.assert_allclose(apart[2] * 86400e9, 1.0, rtol=1e-9)  # a nanosecond, in days


def test_a_table_without_columns_has_no_inputs(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({}), tmp_path / "table.parquet")
    with pytest.raises(TableError, match=r"table\.parquet has no columns: expected one of outputs"):
        chosen_columns(tmp_path / "table.parquet", None, None, None)


# The campaign of benchmarks/torture, in short


def test_small_hostile_tables_are_read_rightly_or_refused_in_a_line(tmp_path):
    pytest.importorskip("pyarrow")
    from benchmarks.torture.hostile_tables import cases, wrong_with

    tried, wrong = 0, {}
    for case in cases():
        if isinstance(case.content, bytes) and len(case.content) < 100_000:
            tried += 1
            path = write(tmp_path / f"table{case.extension}", case.content)
            if failure := wrong_with(path, case.expected):
                wrong[case.name] = failure
    assert not wrong
    assert tried > 150


@pytest.mark.slow
def test_hostile_tables_take_little_time_and_memory(tmp_path):
    pytest.importorskip("pyarrow")
    from benchmarks.torture.tables import section

    for trials in section(True, 0, tmp_path):
        assert not trials.failures
        assert trials.tried >= 20
