"""Hostile tables, and a process of its own that reads them: ``python hostile_tables.py PLACE FLIPS SEED``.

For each table it prints a line of JSON: its name, what was wrong with how it was read (nothing, if all is well), and
the seconds of processor time and the megabytes that it took.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from spectrogp.cli.tables import read_rows
from spectrogp.files import TableError, read_table, write_table

SECONDS, MEGABYTES = 2.0, 200.0  # that reading may take
PACE = 20.0  # times what Python's own reader takes for 200,000 plain rows, on machines where that is more
GIGABYTE = 2**30

Content = bytes | Callable[[Path], object]  # what a file holds, or what writes it


class Case(NamedTuple):
    """A table: a file, and what is to come of it, a pattern of the error or the columns."""

    name: str
    extension: str
    content: Content
    expected: str | dict[str, Any]


def cases() -> Iterator[Case]:
    """All tables."""
    for name, (content, expected) in (_files() | _large()).items():
        yield Case(name, ".csv", content.encode() if isinstance(content, str) else content, expected)
    for cell, expected in _cells().items():
        text = f"x,y\n0.5,1\n0.25,{cell}\n".encode()
        columns = {"x": np.array([0.5, 0.25]), "y": expected}
        yield Case(f"number {cell[:40]!r}", ".csv", text, expected if isinstance(expected, str) else columns)
    for cell, expected in _times().items():
        first = "2001-01-01T00:00Z" if re.search(r"Z|T.*[+-]", cell) else "2001-01-01"
        text = f"t,y\n{first},1\n{cell},2\n".encode()
        if not isinstance(expected, str):
            expected = {"t": np.array([first.removesuffix("Z"), *expected], expected.dtype), "y": np.array([1.0, 2.0])}
        yield Case(f"time {cell!r}", ".csv", text, expected)
    for name in (
        "\x1b[2J",
        "\x1b]0;title\x07",
        "a\nb",
        "\x00",
        "\u202e",
        "\u2066",
        "\u2028",
        "\x7f",
        "\x9b31m",
        "=1+1",
    ):
        text = f'"t{name}t",y\n1,2\n3,4\n'.encode()
        yield Case(f"name {name!r}", ".csv", text, {f"t{name}t": np.array([1.0, 3.0]), "y": np.array([2.0, 4.0])})
        yield Case(f"name {name!r} twice", ".csv", f'"t{name}t","t{name}t"\n1,2\n'.encode(), "has 2 columns 't")
    for name, (content, expected) in _parquets().items():
        yield Case(f"Parquet: {name}", ".parquet", content, expected)


def _files() -> dict[str, tuple[str | bytes, Any]]:
    """CSV files whose form is odd."""
    table = {"x": np.array([1.0, 3.0]), "y": np.array([2.0, 4.0])}
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("table.csv", "x,y\n1,2\n")
    return {
        "nothing": ("", "is empty"),
        "spaces": (" \n \n", "has no name"),
        "empty lines": ("\n" * 1000, "is empty"),
        "a byte order mark alone": (b"\xef\xbb\xbf", "is empty"),
        "names alone": ("x,y\n", "has no rows of values"),
        "names alone, without an end": ("x,y", "has no rows of values"),
        "numbers alone": ("1,2\n3,4\n", table),
        "times alone": (
            "2001-01-01,2\n2001-01-02,4\n",
            {"x": np.array(["2001-01-01", "2001-01-02"], "datetime64[us]"), "y": np.array([2.0, 4.0])},
        ),
        "a byte order mark": (b"\xef\xbb\xbfx,y\n1,2\n3,4\n", table),
        "lines that end in CR": ("x,y\r1,2\r3,4\r", table),
        "lines that end in CR LF": ("x,y\r\n1,2\r\n\r\n3,4", table),
        "lines that end in CR CR LF": ("x,y\r\r\n1,2\r\r\n3,4\r\r\n", table),
        "lines that end in a form feed": ("x,y\f1,2\f3,4", "has no rows of values"),
        "all quoted": ('"x","y"\n"1","2"\n"3","4"\n', table),
        "quotes with spaces around": ('x, "y" \n1, "2" \n3, "4" \n', table),
        "a quote inside a cell": ('x,y\n1,2"\n3,4\n', "row 1: expected a number"),
        "a quote that is not closed": ('x,y\n1,2\n3,"4\n', "row 2: a quote is opened and not closed"),
        "a quote in the names that is not closed": ('x,"y\n1,2\n3,4\n', "the names: a quote is opened and not closed"),
        "a quote that is closed rows below": ('x,y\n1,"2\n3,4\n5,"6\n', r"row 1: expected a number .*, got '2\\n3,4"),
        "a row that is short": ("x,y\n1,2\n3\n", "row 2: expected 2 values"),
        "a row that is long": ("x,y\n1,2\n3,4,5\n", "row 2: expected 2 values"),
        "commas at the ends of rows": ("x,y\n1,2,\n3,4,\n", "row 1: expected 2 values, .*got 3"),
        "commas at all ends": ("x,y,\n1,2,\n3,4,\n", "column 3 has no name"),
        "a name twice": ("x,x\n1,2\n", "has 2 columns 'x'"),
        "a name twice but for spaces": ("x, x \n1,2\n", "has 2 columns 'x'"),
        "a name missing": ("x,\n1,2\n", "column 2 has no name"),
        "a name that is a number": ("1,y\n1,2\n3,4\n", {"1": table["x"], "y": table["y"]}),
        "semicolons": ("x;y\n1;2\n3;4\n", table),
        "semicolons and decimal commas": ("x;y\n1,0;2,0\n3,0;4,0\n", table),
        "commas and points": ("x;y\n1,0;2.5\n3,0;4.5\n", "got '1,0'; write numbers in the digits 0 to 9"),
        "tabs": ("x\ty\n1\t2\n3\t4\n", table),
        "bars": ("x|y\n1|2\n3|4\n", table),
        "white space": ("  x   y\n1 2\n 3\t 4 \n", table),
        "comments": ("# made by hand\nx,y\n1,2\n# here too\n3,4\n", table),
        "names in a comment": ("# made by hand\n# x y\n1 2\n3 4\n", table),
        "comments alone": ("# x,y\n% 1,2\n", "is empty"),
        "UTF-16, little end first": ("x,y\n1,2\n".encode("utf-16-le").join([b"\xff\xfe", b""]), "text in UTF-16"),
        "UTF-16, big end first": ("x,y\n1,2\n".encode("utf-16-be").join([b"\xfe\xff", b""]), "text in UTF-16"),
        "UTF-16 without a mark": ("x,y\n1,2\n".encode("utf-16-le"), "expected 2 values|has no rows|expected a number"),
        "Latin-1": ("größe,y\n1,2\n".encode("latin-1"), "is not a table of text in UTF-8: byte 0xf6"),
        "surrogates in UTF-8": (b"x\xed\xa0\x80,y\n1,2\n", "is not a table of text in UTF-8: byte 0xed"),
        "gzip": (gzip.compress(b"x,y\n1,2\n3,4\n"), table),
        "gzip, cut short": (gzip.compress(b"x,y\n1,2\n3,4\n")[:-9], "is compressed .gzip. and damaged"),
        "zip": (archive.getvalue(), "a zip archive or a spreadsheet"),
        "a Parquet file": (b"PAR1" + bytes(100) + b"PAR1", "a Parquet file: give it a name"),
        "zeros": (bytes(1000), "has no rows of values"),
        "random bytes": (np.random.default_rng(0).bytes(10_000), "is not a table of text in UTF-8"),
        "HTML": ("<html><body>404 Not Found</body></html>\n", "has no rows of values"),
        "JSON": ('{"x": [1, 2], "y": [3, 4]}\n', "has no rows of values"),
        "a cell of a megabyte": (f"x,y\n1,{'2' * 2**20}\n", "row 1: field larger than field limit"),
        "a cell of 100 kB": (f"x,y\n1,{'2' * 100_000}\n", r"got '2+'… \(100,000 characters\)"),
        "a name of 100 kB": (f"{'x' * 100_000},y\n1,\n", r"column 'y', row 1: the value is missing"),
        "10,000 columns": (_wide(10_000), {f"c{i}": np.array([1.5]) for i in range(10_000)}),
        "10,001 columns": (_wide(10_001), "has 10,001 columns, more than the 10,000"),
        "300,000 columns": (_wide(300_000), "has 300,000 columns, more than the 10,000"),
        "a million columns": (_wide(1_000_000), "the names: more than 4,194,304 characters"),
        "a row of commas": ("x,y\n" + "," * 2_000_000 + "\n", "row 1: expected 2 values, .* got 2000001"),
        "a million names of one letter": ("x," * 1_000_000, "has 1,000,001 columns"),
    }


def _wide(columns: int) -> str:
    return ",".join(f"c{i}" for i in range(columns)) + "\n" + ",".join(["1.5"] * columns) + "\n"


def _large() -> dict[str, tuple[Content, Any]]:
    """CSV files of a gigabyte, which take no room on the disk where they are holes."""

    def hole(start: bytes) -> Callable[[Path], object]:
        def make(path: Path) -> None:
            with path.open("wb") as file:
                file.write(start)
                file.truncate(GIGABYTE)

        return make

    def repeated(start: bytes, part: bytes, size: int) -> Callable[[Path], object]:
        def make(path: Path) -> None:
            with path.open("wb") as file:
                file.write(start)
                for _ in range(size // 2**20):
                    file.write(part * (2**20 // len(part)))

        return make

    long = "more than 4,194,304 characters, the most of a row"
    return {
        "a gigabyte of zeros": (hole(b""), f"the names: {long}"),
        "a last line of a gigabyte": (hole(b"x,y\n1,2\n"), f"row 2: {long}"),
        "a cell of a gigabyte, quoted": (hole(b'x,y\n1,"'), f"row 1: {long}"),
        "names of 256 MiB": (repeated(b"", b"ab,c", 2**28), f"the names: {long}"),
        "one name of 256 MiB": (repeated(b"", b"abcd", 2**28), f"the names: {long}"),
        "an open quote before 256 MiB": (repeated(b'x,y\n1,"', b"2,3\n", 2**28), "row 1: .*; is a quote opened there"),
        "empty lines of 256 MiB": (repeated(b"x,y\n1,2", b"\n", 2**28), "row 2: 1,000,001 empty lines"),
    }


def _cells() -> dict[str, Any]:
    """Numbers in the second row: what is in the column then, or why they are refused."""
    whole = {"+1": 1.0, "-0": -0.0, ".5": 0.5, "5.": 5.0, "1e3": 1000.0, "1E-3": 0.001, " 2 ": 2.0, "\t2": 2.0}
    whole |= {"007": 7.0, "1e-400": 0.0, "4.9e-324": 5e-324, "0" * 900 + "7": 7.0, f"{5e-324:.1074f}": 5e-324}
    whole |= {"0.1000000000000000055511151231257827": 0.1, "1.7976931348623157e308": 1.7976931348623157e308}
    whole |= {str(2**53): 2.0**53, str(2**70): 2.0**70, "123456789012345680000": 123456789012345680000.0}
    accepted: dict[str, Any] = {cell: np.array([1.0, value]) for cell, value in whole.items()}
    for value in (2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 1_700_000_000_123_456_789):
        accepted[str(value)] = np.array([1, value])
    missing = dict.fromkeys(("", " ", '""', "NA", "n/a", "NaN", "-nan", "null", "None", "NaT"), "row 2: .* is missing")
    infinite = dict.fromkeys(("inf", "-Infinity", "+INF"), "row 2: the value is infinite")
    large = dict.fromkeys(("1e999", "-1e309", "9" * 1000), "row 2: the value is too large for float64")
    lost = dict.fromkeys((str(2**63 + 1), str(2**64 - 1), "1" * 100), "row 2: '1?.*loses digits as float64")
    separated = ('"1,5"', '"1,234"', '"1.234,5"', "1 234", "1'234", "1_000", "1\u00a0000", "１２", "١٢")
    others = ("0x1F", "0b1", "1e", "e5", "--1", "1-", "1d5", "1j", "(1)", "50%", "$5", "½", "−1", "True", "abc", "2001")
    return (
        accepted
        | missing
        | infinite
        | large
        | lost
        | dict.fromkeys(separated, "row 2: expected a number, .*; write numbers in the digits 0 to 9")
        | dict.fromkeys(others[:-1], "row 2: expected a number, as in the rows before, got")
        | {
            "9" * 5000: r"row 2: expected a number or a time, got '9+'… \(5,000 characters\)",
            "2001-01-01": "row 2: exp",
        }
    )


def _times() -> dict[str, Any]:
    """Times in the second row."""
    accepted: dict[str, Any] = {
        "0001-01-01": np.array(["0001-01-01"], "datetime64[us]"),
        "9999-12-31T23:59:59.999999": np.array(["9999-12-31T23:59:59.999999"], "datetime64[us]"),
        "9999-12-31T23:59+14:00": np.array(["9999-12-31T09:59"], "datetime64[us]"),
        "2001-01-01 12:00:00.1000000000": np.array(["2001-01-01T12:00:00.1"], "datetime64[us]"),
        "2001-01-01 12:00:00.123456789": np.array(["2001-01-01T12:00:00.123456789"], "datetime64[ns]"),
        "1677-09-21T00:12:43.145224193": np.array(["1677-09-21T00:12:43.145224193"], "datetime64[ns]"),
        "2262-04-11T23:47:16.854775807": np.array(["2262-04-11T23:47:16.854775807"], "datetime64[ns]"),
        "2001-01-01T12:00:00.000000001-0330": np.array(["2001-01-01T15:30:00.000000001"], "datetime64[ns]"),
    }
    calendar = ("0000-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-00:01")
    beyond = ("1677-09-21T00:12:43.145224192", "2262-04-11T23:47:16.854775808", "1500-01-01T00:00:00.0000001")
    none = ("2001-13-01", "2001-02-30", "2001-01-01T24:00", "2001-01-01T12:60", "2001-06-30T23:59:60", "now", "today")
    none += (
        "20010101",
        "2001-W01-1",
        "2001-001",
        "01/02/2001",
        "10000-01-01",
        "-0001-01-01",
        "978307200",
        "२००१-०१-०१",
    )
    none += ("2001-01-01T12:00+24:00", "2001-01-01T12:00+01:60", "2001-01-01T12:00 CET", '"2001-01-01T12:00:00,5"')
    return (
        accepted
        | dict.fromkeys(calendar, "row 2: the time lies outside the years 1 to 9999")
        | dict.fromkeys(beyond, "row 2: a column with digits beyond microseconds lies within")
        | dict.fromkeys(none, "row 2: expected a time")
        | {"2001-01-01T12:00:00.0000000001": "row 2: times end at nanoseconds"}
    )


def _parquets() -> dict[str, tuple[Content, Any]]:
    """Parquet files."""

    def of(options: dict[str, Any] | None = None, **columns: Any) -> Callable[[Path], object]:
        return lambda path: parquet.write_table(pa.table(columns), path, **(options or {}))

    def raw(value: int, kind: Any) -> Any:
        return pa.array([0, value], pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)

    plain, calendar = pa.array([1.0, 2.0]), "column 't', row 2: the time lies outside the years 1 to 9999"
    late = np.array(["9999-12-31", "2001-01-01"], "datetime64[us]")
    fine = np.array([1, -1], "datetime64[ns]")
    repeated = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), pa.array(["1" * 1_000_000]))
    footer = (2**31 - 1).to_bytes(4, "little")
    return {
        "nothing": (b"", "is not a Parquet file that can be read"),
        "the mark alone": (b"PAR1", "is not a Parquet file that can be read"),
        "zeros between marks": (b"PAR1" + bytes(1000) + b"PAR1", "is not a Parquet file that can be read"),
        "a footer of 2 GiB": (b"PAR1" + bytes(1000) + footer + b"PAR1", "is not a Parquet file that can be read"),
        "text": (b"x,y\n1,2\n", "is not a Parquet file that can be read"),
        "a gigabyte of zeros": (lambda path: path.touch() or path.open("r+b").truncate(GIGABYTE), "is not a Parquet"),
        "no columns": (of(), "has no rows of values"),
        "no rows": (of(y=pa.array([], pa.float64())), "has no rows of values"),
        "2^61 ms": (of(t=raw(2**61, pa.timestamp("ms"))), calendar),
        "2^60 ms": (of(t=raw(2**60, pa.timestamp("ms"))), calendar),
        "-2^62 µs": (of(t=raw(-(2**62), pa.timestamp("us"))), calendar),
        "-2^63 µs": (of(t=raw(-(2**63), pa.timestamp("us"))), "column 't', row 2: the value is missing"),
        "the last day of 32 bits": (of(t=raw(2**31 - 1, pa.date32())), calendar),
        "the first day of 32 bits": (of(t=raw(-(2**31), pa.date32())), calendar),
        "the year 10000": (of(t=raw(253402300800000000, pa.timestamp("us"))), calendar),
        "nanoseconds": (of(t=fine, y=plain), {"t": fine, "y": np.array([1.0, 2.0])}),
        "INT96, far away": (of({"use_deprecated_int96_timestamps": True}, t=late, y=plain), {"t": late, "y": plain}),
        "INT96, fine": (of({"use_deprecated_int96_timestamps": True}, t=fine, y=plain), {"t": fine, "y": plain}),
        "ticks": (of(n=np.array([2**53 + 1, 0]), y=plain), {"n": np.array([2**53 + 1, 0]), "y": plain}),
        "uint64": (of(n=np.array([0, 2**64 - 1], np.uint64)), "column 'n', row 2: '1844.*loses digits as float64"),
        "decimals": (of(n=pa.array([2**53 + 1]).cast(pa.decimal128(38, 0))), {"n": np.array([2**53 + 1])}),
        "decimals beyond 64 bits": (of(n=pa.array([10**25 + 1], pa.decimal128(38, 0))), "loses digits as float64"),
        "a null": (of(y=pa.array([1.0, None])), "column 'y', row 2: the value is missing"),
        "not a number": (of(y=np.array([1.0, np.nan])), "column 'y', row 2: the value is missing"),
        "infinite": (of(y=np.array([1.0, np.inf], np.float32)), "column 'y', row 2: the value is infinite"),
        "lists": (of(y=pa.array([[1]])), "expected a number or a time, got a column of list"),
        "structures": (of(y=pa.array([{"a": 1}])), "expected a number or a time, got a column of struct"),
        "truth values": (of(y=pa.array([True])), "expected a number or a time, got a column of bool"),
        "durations": (of(y=pa.array([1], pa.duration("s"))), "expected a number or a time, got a column of duration"),
        "bytes": (of(y=pa.array([b"1"])), "expected a number or a time, got a column of binary"),
        "a name twice": (
            lambda path: parquet.write_table(pa.table([plain] * 2, ["y", "y"]), path),
            "has 2 columns 'y'",
        ),
        "a name missing": (lambda path: parquet.write_table(pa.table([plain], [""]), path), "column 1 has no name"),
        "a million digits, repeated": (of(y=repeated), r"row 1: expected a number or a time, got '1+'… \(1,000,000"),
        "half a gigabyte, packed": (_packed, "unpacks to 500,.* bytes, too many for 500 rows"),
        "200 million rows": (_many_rows, "has 200,000,000 rows or more of 1 columns, more than 100,000,000 values"),
        "3,000 columns": (_wide_parquet(3_000), {f"c{i}": np.array([1.5]) for i in range(3_000)}),
        "20,000 columns": (_wide_parquet(20_000), "has 20,000 columns, more than the 10,000"),
    }


def _packed(path: Path) -> None:
    _repeated(path, pa.table({"y": pa.array(["1" * 1_000_000] * 20)}), 25, use_dictionary=False, compression="zstd")


def _many_rows(path: Path) -> None:
    _repeated(path, pa.table({"y": np.zeros(2_000_000)}), 100)


def _repeated(path: Path, rows: pa.Table, times: int, **options: Any) -> None:
    """Write the same rows many times, in little memory."""
    with parquet.ParquetWriter(path, rows.schema, **options) as file:
        for _ in range(times):
            file.write_table(rows, row_group_size=len(rows))


def _wide_parquet(columns: int) -> Callable[[Path], object]:
    table = pa.array([1.5])
    return lambda path: parquet.write_table(pa.table([table] * columns, [f"c{i}" for i in range(columns)]), path)


# Reading them


def read_all(place: Path, flips: int, seed: int) -> Iterator[dict[str, Any]]:
    """What came of every table, and of a table with flipped bytes."""
    before = _memory("VmRSS")
    for number, case in enumerate(cases()):
        path = place / f"table-{number}{case.extension}"
        if callable(case.content):
            case.content(path)
        else:
            path.write_bytes(case.content)
        yield {"name": case.name} | _tried(path, case.expected, before)
        path.unlink()
    path = place / "flipped.parquet"
    whole = {"t": np.arange(50).astype("datetime64[us]"), "y": np.arange(50.0), "n": np.arange(50) + 2**60}
    write_table(path, whole)
    content, rng = path.read_bytes(), np.random.default_rng(seed)
    for number in range(flips):
        damaged = bytearray(content)
        at = rng.integers(len(content), size=rng.integers(1, 4))
        for i in at:
            damaged[i] = rng.integers(256)
        path.write_bytes(damaged)
        yield {"name": f"flipped {number}, at {at.tolist()}"} | _tried(path, "", before)


@functools.cache
def _plain_rows() -> float:
    """Seconds of the processor, at best, that Python's reader takes for 200,000 rows of three cells."""

    def once() -> float:
        began = time.process_time()
        for row in csv.reader(io.StringIO("1.5,2.5,\n" * 200_000)):
            [cell.strip() for cell in row]
        return time.process_time() - began

    return min(once() for _ in range(3))


def _tried(path: Path, expected: str | dict[str, Any], before: float) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
    began = time.process_time()
    failure = wrong_with(path, expected)
    seconds, megabytes = time.process_time() - began, _memory("VmHWM") - before
    if not failure and (seconds > max(SECONDS, PACE * _plain_rows()) or megabytes > MEGABYTES):
        failure = f"took {seconds:.1f} s and {megabytes:.0f} MB"
    return {"failure": failure, "seconds": seconds, "megabytes": megabytes}


def wrong_with(path: Path, expected: str | dict[str, Any]) -> str:
    """What is wrong with how a table is read, alone and for a fit; nothing if all is well."""
    try:
        table = read_table(path)
    except Exception as error:
        failure = _wrong_error(path, error, expected if isinstance(expected, str) else "no error")
    else:
        failure = "" if expected == "" or isinstance(expected, dict) else f"read, expected {expected!r}"
        if isinstance(expected, dict) and not failure:
            failure = _difference(table, {name: np.asarray(column) for name, column in expected.items()})
    if failure:
        return failure
    try:
        read_rows(path, None, None, None, strict=False)
    except Exception as error:
        return _wrong_error(path, error, "")
    return ""


def _wrong_error(path: Path, error: Exception, expected: str) -> str:
    message = str(error)
    if not isinstance(error, TableError):
        return f"{type(error).__name__}: {message[:200]!r}"
    if not message.isprintable() or str(path) not in message or len(message) > 1000:
        return f"a message that does not name the file in a line: {message[:200]!r}"
    return "" if re.search(expected, message) else f"expected {expected!r}, got {message[:200]!r}"


def _difference(table: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> str:
    if list(table) != list(expected):
        return f"read the columns {list(table)[:5]}, expected {list(expected)[:5]}"
    for name, column in table.items():
        if column.dtype != expected[name].dtype or not np.array_equal(column, expected[name]):
            return f"column {name!r}: read {column.dtype} {column}, expected {expected[name].dtype} {expected[name]}"
    return ""


def _memory(field: str) -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) / 1024


if __name__ == "__main__":
    pa.set_memory_pool(pa.system_memory_pool())  # gives back what it took to make a table
    for line in read_all(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps(line), flush=True)
