"""The rule by which columns of a table are inputs, output and error bars, where they are not named."""

from __future__ import annotations

import numpy as np
import pytest

from spectrogp.files import TableError, chosen_columns, columns_among, has_names, read_table

NUMBERS, DATE, CLOCK = "{}.5", "2001-05-3{}", "9:0{} pm"


def table(path, names, **kinds):
    """A table of two rows with these names, of numbers but for those whose ``kinds`` are given."""
    rows = [[kinds.get(name.strip(), NUMBERS).format(k) for name in names.split(",")] for k in range(2)]
    path.write_text("\n".join([names, *map(",".join, rows)]))
    return path


@pytest.mark.parametrize(
    ("names", "kinds", "x", "y", "error"),
    [
        ("t,y", {}, "t", "y", None),
        ("a,b", {}, "a", "b", None),  # two columns of numbers: the first is the input
        ("y,t", {}, "t", "y", None),  # names decide before order
        ("flux,flux_err,BJD", {}, "BJD", "flux", "flux_err"),
        ("mag,e_mag,jd", {}, "jd", "mag", "e_mag"),
        ("time (s),v,dv", {}, "time (s)", "v", "dv"),
        ("obs_time,mag,magError", {}, "obs_time", "mag", "magError"),
        ("jd,mag,magerr", {}, "jd", "mag", "magerr"),
        ("hjd,mag,mag_se", {}, "hjd", "mag", "mag_se"),
        ("t,v,stderr", {}, "t", "v", "stderr"),
        ("t,flux,yerr", {}, "t", "flux", "yerr"),
        ("t,v,se", {}, "t", "v", "se"),
        ("t,v,sig", {}, "t", "v", "sig"),
        ("t,sig", {}, "t", "sig", None),  # a signal
        ("t,sig,sig_err", {}, "t", "sig", "sig_err"),
        ("t,v,u_v", {}, "t", "v", "u_v"),
        ("year,spots", {}, "year", "spots", None),
        ("co2,date", {"date": DATE}, "date", "co2", None),
        ("date,year,co2", {"date": DATE}, "date", "co2", None),  # dates decide before names
        ("when,station,T", {"when": DATE, "station": "Oulu"}, "when", "T", None),
        (",date,co2", {"date": DATE}, "date", "co2", None),  # as pandas writes an index
        ("id,date,co2", {"date": DATE}, "date", "co2", None),
        ("date,time,v", {"date": DATE, "time": CLOCK}, "date + time", "v", None),
        ("clock,v,v_err,day", {"day": DATE, "clock": CLOCK}, "day + clock", "v", "v_err"),
        ("date,hour,v", {"date": DATE}, "date + hour", "v", None),
        ("when,hour,v", {"when": DATE + " 12:00"}, "when", "v", None),  # which have their times of day
        ("t,y,sigma,note", {"note": "good"}, "t", "y", "sigma"),
        ("t,u,u_err,v_err", {}, "t", "u", "u_err"),
    ],
)
def test_the_rule(tmp_path, names, kinds, x, y, error):
    assert chosen_columns(table(tmp_path / "data.csv", names, **kinds), None, None, None) == ((x,), y, error)


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        ("t,u,v", {"y": "v"}, (("t",), "v", None)),
        ("jd,mag,magerr,colour", {"y": "mag"}, (("jd",), "mag", "magerr")),
        ("t,u,v,u_err", {"y": "v"}, (("t",), "v", None)),  # those of another column
        ("t,u,v,u_err,err", {"y": "v"}, (("t",), "v", "err")),
        ("t,u,v,du,dv", {"y": "v"}, (("t",), "v", "dv")),
        ("t,y,e", {"x": ["t"], "y": "y"}, (("t",), "y", None)),  # all is said: nothing is guessed
        ("t,y,s", {"error": "s"}, (("t",), "y", "s")),  # error bars are no input, whatever they are called
        ("a,b,c", {"x": ["a", "b"]}, (("a", "b"), "c", None)),
        ("a,b,c", {"y": "b", "error": "c"}, (("a",), "b", "c")),
    ],
)
def test_what_is_named_is_taken(tmp_path, names, given, expected):
    options = {"x": None, "y": None, "error": None} | given
    assert chosen_columns(table(tmp_path / "data.csv", names), **options) == expected


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("t,u,v", "the output may be 'u' or 'v': choose by --y NAME; the columns are 't', 'u', 'v'"),
        ("a,b,c", "the input may be 'a' or 'b' or 'c': choose by --x NAME; give it for each input; the columns are"),
        ("year,month,y", "the input may be 'year' or 'month': choose by --x NAME"),
        ("t,y,err_a,err_b", "error bars may be 'err_a' or 'err_b': choose by --error NAME; with --x and --y none are"),
        ("y", "has only the column 'y': expected one of outputs and at least one of inputs"),
        ("t", "has only the column 't'"),
        ("t,err", "has no column left for the outputs: give --y; it has 't', 'err'"),
        ("y,err", "has no column left for the inputs: give --x; it has 'y', 'err'"),
    ],
)
def test_what_is_ambiguous_is_refused_with_the_option_to_give(tmp_path, names, message):
    with pytest.raises(TableError, match=message):
        chosen_columns(table(tmp_path / "data.csv", names), None, None, None)


def test_the_first_of_two_columns_is_the_input_if_its_values_rise(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("mlii,v5\n0.1,0.2\n0.1,0.3\n0.4,0.1\n")
    assert chosen_columns(path, None, None, None) == (("mlii",), "v5", None)
    path.write_text("mlii,v5\n0.1,0.2\n0.4,0.3\n0.1,0.1\n")  # two channels of a recording, and no time
    with pytest.raises(TableError, match="the input may be 'mlii' or 'v5': choose by --x NAME; the columns are"):
        chosen_columns(path, None, None, None)
    assert chosen_columns(path, None, "v5", None) == (("mlii",), "v5", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5\n2.5\n0.5\n", (("row",), "y", None)),
        ("0.0e+00 1.5\n1.0e+00 2.5\n", (("x",), "y", None)),
        ("2001-05-30;1,5\n2001-05-31;2,5\n", (("x",), "y", None)),
        ("0 1 0.1\n1 2 0.2\n", (("x",), "y", "column 3")),
        (",0\n0,1.5\n1,2.5\n", (("index",), "0", None)),  # a series of pandas
        (",0\n2001-05-30,1.5\n2001-05-31,2.5\n", (("index",), "0", None)),
    ],
)
def test_columns_without_names_are_taken_by_their_positions(tmp_path, text, expected):
    path = tmp_path / "data.dat"
    path.write_text(text)
    chosen = chosen_columns(path, None, None, None)
    assert chosen == expected
    assert has_names(path) == (text[0] == ",")
    rows = text.count("\n") - (text[0] == ",")
    assert {len(part) for part in read_table(path, chosen.names).values()} == {rows}
    if expected[0] == ("row",):
        np.testing.assert_array_equal(read_table(path)["row"], np.arange(1.0, 1.0 + rows))


def test_a_third_column_without_a_name_that_is_no_error_is_asked_about(tmp_path):
    path = tmp_path / "data.dat"
    path.write_text("0 1 0.1\n1 2 -0.2\n")
    with pytest.raises(TableError, match="the output may be 'y' or 'column 3': choose by --y NAME"):
        chosen_columns(path, None, None, None)
    path.write_text("x,y,column 3\n0,1,1\n1,2,2\n")  # which the table calls so
    with pytest.raises(TableError, match="the output may be 'y' or 'column 3': choose by --y NAME"):
        chosen_columns(path, None, None, None)
    path.write_text("0 1 0.1\n1 2 0.1\n2 3\n")
    with pytest.raises(TableError, match="row 3: expected 3 values, one for each column, got 2"):
        read_table(path)


def test_dates_and_times_of_day_are_read_together(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("date,time,v\n30.05.2001,12:05 AM,1\n30.05.2001,1:05:30.5 p.m.,2\n31.05.2001,,3\n")
    x = chosen_columns(path, None, None, None).x
    found = read_table(path, ["v", *x], missing=True)
    assert list(found) == ["v", "date + time"]
    expected = np.array(["2001-05-30T00:05", "2001-05-30T13:05:30.5", "NaT"], "M8[us]")
    np.testing.assert_array_equal(found["date + time"], expected)
    assert chosen_columns(path, ["date + time"], None, None).y == "v"
    with pytest.raises(TableError, match=r"column 'date \+ time', row 3: the value is missing"):
        read_table(path, x)
    path.write_text("date,hour,v\n2001-05-30,0,1\n2001-05-30,25,2\n")
    with pytest.raises(TableError, match=r"row 2: expected a time of day, such as 9:05, .* got '25'"):
        read_table(path, ["date + hour"])


@pytest.mark.parametrize("names", ["date,time,v", "date,hour,minute,v"])
def test_numbers_that_may_be_times_of_day_are_asked_about(tmp_path, names):
    path = table(tmp_path / "data.csv", names, date=DATE)
    with pytest.raises(TableError, match=r"the input may be 'date' or 'date \+ .*: choose by --x NAME \(dates alone"):
        chosen_columns(path, None, None, None)
    assert chosen_columns(path, ["date"], "v", None).x == ("date",)


def test_signals_of_a_table_have_dates_in_one_column():
    kinds = {"date": "time", "time": "clock", "v": "number"}
    with pytest.raises(TableError, match="'date' may have its times of day in 'time': make one column of both, or"):
        columns_among(kinds, None, None, None, "data.csv", lambda _: False)


def test_they_are_said_in_words(tmp_path):
    chosen = chosen_columns(table(tmp_path / "data.csv", "jd,mag,e_mag"), None, None, None)
    assert str(chosen) == "input 'jd', output 'mag', error bars 'e_mag'"
