"""Digits of integers and times that float64 and microseconds would lose: kept, or refused in words."""

from __future__ import annotations

import numpy as np
import pytest

from spectrogp import read_table, write_table
from spectrogp.files import TableError
from test_tables import assert_tables_equal, write

INTEGERS = {
    "exact": (["9007199254740992", "-9007199254740992"], np.float64),
    "ticks": (["1700000000123456789", "1700000000123456790"], np.int64),
    "one beyond": (["9007199254740993", "0"], np.int64),
    "the ends of int64": (["-9223372036854775808", "9223372036854775807"], np.int64),
    "leading zeros": (["0" * 1000 + "9007199254740993"], np.int64),
    "beyond int64, exact in float64": ([str(2**70), "1"], np.float64),
    "beyond int64, as JavaScript writes a float64": (["123456789012345680000"], np.float64),
    "decimals that are large": (["9007199254740993.0", "1e300", "4"], np.float64),
    "an exact integer among decimals": (["9007199254740994", "0.5"], np.float64),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_in_text_keep_their_digits(tmp_path, name):
    cells, dtype = INTEGERS[name]
    column = read_table(write(tmp_path / "table.csv", "\n".join(["n", *cells])))["n"]
    assert column.dtype == dtype
    assert column.tolist() == [dtype(int(cell) if dtype == np.int64 else float(cell)) for cell in cells]


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        (["9223372036854775809", "1"], 1),
        (["1", "-9223372036854775809"], 2),
        (["0.5", "9007199254740993"], 2),
    ],
)
def test_integers_that_nothing_holds_are_refused(tmp_path, cells, row):
    path = write(tmp_path / "table.csv", "\n".join(["n", *cells]))
    message = f"row {row}: '{cells[row - 1]}' loses digits as float64: subtract a number from the whole column first"
    with pytest.raises(TableError, match=message):
        read_table(path)


@pytest.mark.parametrize("extension", [".csv", ".parquet"])
def test_ticks_and_nanoseconds_are_written_and_read_exactly(tmp_path, extension):
    ends = np.array([-(2**63) + 1, -1, 1_700_000_000_123_456_789, 2**63 - 1])
    columns = {"ticks": ends, "time": ends.astype("datetime64[ns]"), "y": np.arange(4.0)}
    write_table(tmp_path / f"table{extension}", columns)
    assert_tables_equal(read_table(tmp_path / f"table{extension}"), columns)


@pytest.mark.parametrize("extension", [".csv", ".parquet"])
def test_nothing_is_written_that_would_be_read_as_something_else(tmp_path, extension):
    path = tmp_path / f"table{extension}"
    for array, message in {
        "large": (np.array([0, 2**63 + 1], np.uint64), "row 2: '9223372036854775809' loses digits as float64"),
        "wide": (np.array([1.0], np.longdouble), "expected numbers or times"),
        "fine": (np.array([1], "datetime64[ps]"), "row 1: times end at nanoseconds"),
        "late": (np.array([0, 10**12], "datetime64[D]"), "row 2: the time lies outside the years 1 to 9999"),
        "early": (np.array(["0000-12-31"], "datetime64[s]"), "row 1: the time lies outside the years 1 to 9999"),
        "week": (np.array(["0001-01-01"], "datetime64[W]"), "row 1: the time lies outside the years 1 to 9999"),
    }.values():
        with pytest.raises(TableError, match=f"^{path}, column 'y'.*{message}"):
            write_table(path, {"y": array})
    assert not list(tmp_path.iterdir())
    swapped = {"y": np.array([1.5], ">f8"), "t": np.array(["2001-01-01"], ">M8[s]"), "n": np.array([2**62], ">u8")}
    write_table(path, swapped)
    expected = {"y": np.array([1.5]), "t": np.array(["2001-01-01"], "M8[us]"), "n": np.array([2**62])}
    assert_tables_equal(read_table(path), expected)


def test_names_that_csv_cannot_keep_are_refused(tmp_path):
    path = tmp_path / "table.csv"
    for names in (["1", "2.5"], ["a", " a"], ["\ud800"], ["a\rb"], ["y" * 200_000]):
        with pytest.raises(TableError, match=f"^{path}: CSV cannot keep the names "):
            write_table(path, {name: [1.0] for name in names})
    names = ["t", "a\nb", 'q"', "\x00", "\u202e", "1"]
    write_table(path, {name: [1.0] for name in names})
    assert list(read_table(path)) == names


NANOSECONDS = {
    "fine": (["2001-05-30T12:00:00.123456789", "2001-05-30"], ["2001-05-30T12:00:00.123456789", "2001-05-30"]),
    "seven digits": (["2001-05-30T12:00:00.0000001+01:00"], ["2001-05-30T11:00:00.000000100"]),
    "before 1970": (["1969-12-31T23:59:59.999999999"], ["1969-12-31T23:59:59.999999999"]),
}


@pytest.mark.parametrize("name", NANOSECONDS)
def test_times_with_nanoseconds(tmp_path, name):
    cells, times = NANOSECONDS[name]
    table = read_table(write(tmp_path / "table.csv", "\n".join(["time", *cells])))
    assert_tables_equal(table, {"time": np.array(times, "datetime64[ns]")})


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["0001-01-01T00:00:00+14:00"], "row 1: the time lies outside the years 1 to 9999"),
        (["2000-01-01T00:00Z", "9999-12-31T23:00:00-02:00"], "row 2: the time lies outside the years 1 to 9999"),
        (["0000-01-01"], "row 1: the time lies outside the years 1 to 9999"),
        (["10000-01-01"], "row 1: expected a number or a time"),
        (["2001-05-30T12:00:00.1234567891"], "row 1: times end at nanoseconds, nine digits after the second"),
        (
            ["2001-05-30T12:00:00.123456789", "1600-01-01"],
            "row 2: a column with digits beyond microseconds lies within",
        ),
        (["2262-04-11T23:47:16.854775808"], "row 1: a column with digits beyond microseconds lies within"),
        (["1677-09-21T00:12:43.145224192"], "row 1: a column with digits beyond microseconds lies within"),
        (["2001-05-30T12:00+24:00"], "row 1: expected a time with a time zone"),
        (["2001-05-30T12:00+23:60"], "row 1: expected a time with a time zone"),
        (["2001-05-30Z"], "row 1: expected a number or a time"),
    ],
)
def test_times_that_nothing_holds_are_refused(tmp_path, cells, message):
    path = write(tmp_path / "table.csv", "\n".join(["time", *cells]))
    with pytest.raises(TableError, match=f"^{path}, column 'time', {message}"):
        read_table(path)


def parquet_of(path, columns, **options):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    arrays = {name: arrow.array(values, kind).cast(cast) for name, (values, kind, cast) in columns(arrow).items()}
    parquet.write_table(arrow.table(arrays), path, **options)
    return path


@pytest.mark.parametrize(
    ("value", "unit"),
    [(2**61, "ms"), (2**60, "ms"), (-(2**61), "us"), (2**31 - 1, "D"), (2_932_897, "D"), (-719_163, "D")],
)
def test_parquet_times_outside_the_calendar_are_refused(tmp_path, value, unit):
    def columns(arrow):
        if unit == "D":
            return {"t": ([0, value], arrow.int32(), arrow.date32())}
        return {"t": ([0, value], arrow.int64(), arrow.timestamp(unit))}

    path = parquet_of(tmp_path / "table.parquet", columns)
    with pytest.raises(TableError, match=f"^{path}, column 't', row 2: the time lies outside the years 1 to 9999"):
        read_table(path)


def test_parquet_integers_and_decimals(tmp_path):
    def columns(arrow):
        return {
            "small": ([3, -4], arrow.int64(), arrow.int64()),
            "ticks": ([2**53 + 1, 0], arrow.int64(), arrow.int64()),
            "unsigned": ([2**62 + 1, 0], arrow.uint64(), arrow.uint64()),
            "decimal": ([2**53 + 1, 0], arrow.int64(), arrow.decimal128(38, 0)),
            "cents": ([1, 2], arrow.int64(), arrow.decimal128(38, 2)),
        }

    expected = {
        "small": np.array([3.0, -4.0]),
        "ticks": np.array([2**53 + 1, 0]),
        "unsigned": np.array([2**62 + 1, 0]),
        "decimal": np.array([2**53 + 1, 0]),
        "cents": np.array([1.0, 2.0]),
    }
    assert_tables_equal(read_table(parquet_of(tmp_path / "table.parquet", columns)), expected)
    path = parquet_of(tmp_path / "table.parquet", lambda a: {"n": ([0, 2**64 - 1], a.uint64(), a.uint64())})
    with pytest.raises(TableError, match="column 'n', row 2: '18446744073709551615' loses digits as float64"):
        read_table(path)


def test_old_times_of_parquet_do_not_wrap_around(tmp_path):
    """INT96, which Spark wrote: pyarrow makes 64-bit nanoseconds of them, and 1816 of 9999."""

    def times(unit, *texts):
        moments = np.array(texts, f"datetime64[{unit}]").astype(np.int64).tolist()
        columns = lambda arrow: {"t": (moments, arrow.int64(), arrow.timestamp(unit))}  # noqa: E731
        return read_table(parquet_of(tmp_path / "table.parquet", columns, use_deprecated_int96_timestamps=True))["t"]

    late = ["9999-12-31", "1970-01-01T00:00:00.000001"]
    np.testing.assert_array_equal(times("us", *late), np.array(late, "datetime64[us]"), strict=True)
    fine = ["2001-01-01T00:00:00.000000001", "1969-12-31T23:59:59.999999999"]
    np.testing.assert_array_equal(times("ns", *fine), np.array(fine, "datetime64[ns]"), strict=True)


def test_a_bit_that_flips_in_a_parquet_file_is_found(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    write_table(path, {"y": np.random.default_rng(0).normal(size=1000)})
    content = bytearray(path.read_bytes())
    content[4000] ^= 1  # 8,000 bytes of incompressible numbers begin at the fourth
    with pytest.raises(TableError, match=r"is not a Parquet file that can be read: .*(checksum|CRC)"):
        read_table(write(path, bytes(content)))
