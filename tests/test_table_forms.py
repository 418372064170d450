"""Tables as they come: separators, comments, decimal commas, dates, gaps, compression, sound."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from scipy.io import wavfile

from spectrogp import read_table, write_table
from spectrogp.files import TableError, column_kinds
from test_tables import assert_tables_equal, write

TABLE = {"t": np.array([1.0, 3.5]), "y": np.array([2.5, -4.0])}
FORMS = {
    "commas": "t,y\n1,2.5\n3.5,-4\n",
    "semicolons": "t;y\n1;2.5\n3.5;-4\n",
    "decimal commas": "t;y\n1;2,5\n3,5;-4\n",
    "tabs": "t\ty\n1\t2.5\n3.5\t-4\n",
    "tabs and decimal commas": "t\ty\n1\t2,5\n3,5\t-4,0e0\n",
    "bars": "t | y\n1 | 2.5\n3.5 | -4\n",
    "white space": "   t      y\n 1.0  2.5\n\n3.5\t-4.0  \n",
    "comments": "# station 7\n%\nt,y\n1,2.5\n# a gap\n3.5,-4\n",
    "names in a comment": "# station 7\n# t   y\n1 2.5\n3.5 -4\n",
    "names in a comment, with commas": "#t,y\n1,2.5\n3.5,-4\n",
    "names in a comment, decimal commas": "#t;y\n1;2,5\n3,5;-4\n",
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("packed", [False, True])
def test_forms_of_text(tmp_path, name, packed):
    content = FORMS[name].encode()
    path = write(tmp_path / f"table.txt{'.gz' * packed}", gzip.compress(content) if packed else content)
    assert_tables_equal(read_table(path), TABLE)
    assert column_kinds(path) == {"t": "number", "y": "number"}


def test_names_that_look_like_comments_or_separators_are_kept(tmp_path):
    for names in (("#t", "y"), ("% of t", "y"), ("t;u", "y"), ("t u", "y v"), ("a;b",), ("a|b", "#")):
        columns = {name: np.array([1.5, 2.5]) for name in names}
        write_table(tmp_path / "table.csv", columns)
        assert_tables_equal(read_table(tmp_path / "table.csv"), columns)


@pytest.mark.parametrize(
    ("cells", "dates"),
    [
        (["30.05.2001", "1.6.2001"], ["2001-05-30", "2001-06-01"]),
        (["01.02.2001"], ["2001-02-01"]),
        (["05/06/2001", "30/06/2001 9:05"], ["2001-06-05", "2001-06-30T09:05"]),
        (["05/06/2001", "06/30/2001 12:00:01.5"], ["2001-05-06", "2001-06-30T12:00:01.5"]),
        (["30-05-2001", "01-06-2001"], ["2001-05-30", "2001-06-01"]),
        (["20010530", "20010601"], ["2001-05-30", "2001-06-01"]),  # whose differences as numbers jump at every month
        (["30/05/2001 9:05 PM", "01/06/2001 12:00 am"], ["2001-05-30T21:05", "2001-06-01"]),
        (["2001-05-30 9:05 PM", "2001-06-01 10:05:30 AM"], ["2001-05-30T21:05", "2001-06-01T10:05:30"]),
        (["Jan 1990", "Sept 1990", "May 1991"], ["1990-01-01", "1990-09-01", "1991-05-01"]),
        (["30-May-2001", "1-June-2001"], ["2001-05-30", "2001-06-01"]),
        (["1990Q1", "1990 q4"], ["1990-01-01", "1990-10-01"]),
        (["2001/5/6", "2001/12/30"], ["2001-05-06", "2001-12-30"]),
    ],
)
def test_dates_as_people_write_them(tmp_path, cells, dates):
    path = write(tmp_path / "table.csv", "\n".join(["when", *cells]))
    assert_tables_equal(read_table(path), {"when": np.array(dates, "datetime64[us]")})
    assert column_kinds(path) == {"when": "time"}


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["05/06/2001", "06/07/2001"], "row 1: '05/06/2001' begins with a day or with a month, and no row tells"),
        (["30/05/2001", "05/30/2001"], "row 2: '05/30/2001' begins with a day or with a month, while days come first"),
        (["30.05.2001", "31/05/2001"], "row 2: expected a date as in the rows before, got '31/05/2001'"),
        (["May 2001", "Mai 2001"], "row 2: expected a date as in the rows before, got 'Mai 2001'"),
        (["30.05.2001", "7"], "row 2: expected a date as in the rows before, got '7'"),
        (["30.13.2001"], "row 1: expected a time without a time zone, .* got '2001-13-30'"),
    ],
)
def test_dates_that_do_not_tell(tmp_path, cells, message):
    path = write(tmp_path / "table.csv", "\n".join(["when", *cells]))
    with pytest.raises(TableError, match=message):
        read_table(path)


def test_what_no_row_tells_is_told_by_an_option(tmp_path):
    path = write(tmp_path / "table.csv", "when,y\n01/02/1990,1\n01/03/1990,2\n")
    with pytest.raises(TableError, match=r"and no row tells: .* by --day-first or --month-first \(day_first=True or"):
        read_table(path)
    for day_first, dates in ((True, ["1990-02-01", "1990-03-01"]), (False, ["1990-01-02", "1990-01-03"])):
        found = read_table(path, ["when"], day_first=day_first)
        assert_tables_equal(found, {"when": np.array(dates, "datetime64[us]")})
    path = write(tmp_path / "table.csv", "when,y\n01/02/1990,1\n01/30/1990,2\n")
    with pytest.raises(TableError, match="row 2: '01/30/1990' begins with no day, as was said of the column"):
        read_table(path, day_first=True)


@pytest.mark.parametrize("extension", [".csv", ".parquet"])
def test_gaps_are_missing_numbers_and_times_where_they_are_allowed(tmp_path, extension):
    path = tmp_path / f"table{extension}"
    if extension == ".csv":
        write(path, "when,y,z,w\n,1,NA,\n2001-05-30,-nan,?,\n2001-05-31,2.5,7,null\n")
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        days = arrow.array([None, *np.array(["2001-05-30", "2001-05-31"], "datetime64[D]").tolist()])
        columns = {"when": days, "y": [1.0, float("nan"), 2.5], "z": [None, None, 7]}
        parquet.write_table(arrow.table(columns | {"w": arrow.array([None] * 3, arrow.float64())}), path)
    nothing = np.full(3, np.nan)
    expected = {
        "when": np.array(["NaT", "2001-05-30", "2001-05-31"], "datetime64[us]"),
        "y": np.array([1.0, np.nan, 2.5]),
        "z": np.array([np.nan, np.nan, 7.0]),
        "w": nothing,
    }
    assert_tables_equal(read_table(path, missing=True), expected)
    with pytest.raises(TableError, match="column 'when', row 1: the value is missing"):
        read_table(path)
    if extension == ".csv":
        assert column_kinds(path) == {"when": "time", "y": "number", "z": "number", "w": "nothing"}


def test_what_is_wrong_beside_gaps_is_named_by_its_row(tmp_path):
    for cell, message in (("inf", "infinite"), ("late", "expected a number, as in the rows before, got 'late'")):
        path = write(tmp_path / "table.csv", f"y,z\n,1\n1,2\n,3\n{cell},4\n")
        with pytest.raises(TableError, match=f"column 'y', row 4: .*{message}"):
            read_table(path, missing=True)
    path = write(tmp_path / "table.csv", "n,z\n9007199254740993,1\n,2\n")
    with pytest.raises(TableError, match="row 2: the value is missing, beside integers that float64 does not hold"):
        read_table(path, missing=True)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.float32])
def test_sound_is_time_in_seconds_and_channels_of_full_scale(tmp_path, kind):
    wave = np.column_stack([[0.0, 0.5, -0.5, -1.0], [0.25, 0.0, 0.0, 0.75]])
    scale = 1.0 if kind == np.float32 else 128.0 if kind == np.uint8 else float(np.iinfo(kind).max) + 1.0
    samples = (wave * scale + (128.0 if kind == np.uint8 else 0.0)).astype(kind)
    wavfile.write(tmp_path / "tone.wav", 8, samples)
    found = read_table(tmp_path / "tone.wav")
    expected = {"time (s)": np.arange(4) / 8.0, "channel 1": wave[:, 0], "channel 2": wave[:, 1]}
    assert_tables_equal(found, expected)
    assert list(read_table(tmp_path / "tone.wav", ["channel 2"])) == ["channel 2"]


def test_sound_that_is_none(tmp_path):
    path = write(tmp_path / "tone.wav", b"RIFF1234WAVEnothing")
    with pytest.raises(TableError, match=r"tone\.wav is not a sound file \(\.wav\) that can be read"):
        read_table(path)
