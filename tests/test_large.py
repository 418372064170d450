"""Data larger than memory: order on disk, neighbours of blocks against exact ones, batches, and predictions."""

from __future__ import annotations

import subprocess
import sys

import equinox as eqx
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.core import entry_point
from spectrogp.inference import Adam, Run, maximise
from spectrogp.large import arranging
from spectrogp.large.batches import joined
from spectrogp.large.curve import place_on_curve
from spectrogp.models import Data, Neighbourhoods

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 3000
NAMES = ("a", "b", "c")


def table(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 3)) * [1.0, 10.0, 0.1] + [0.0, -5.0, 3.0]
    y = np.sin(6.0 * X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.normal(size=rows)
    return {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "e": rng.uniform(0.01, 0.1, rows)}


def model():
    kernel = sg.kernels.ConvolutionalSpectral(
        sg.Positive.around(np.array([0.3, 3.0, 0.1])), sg.Real(np.array([1.0, 0.1, 0.0])), sg.Positive.around(1.0)
    )
    return sg.models.NeighbourGP(kernel, sg.Positive.around(0.2))


@eqx.filter_jit
def compiled(model, near):
    return model.log_joint(near)


@entry_point
def log_likelihood(near):
    """With the log prior of the parameters, the same in all."""
    return float(compiled(model(), near))


@pytest.fixture
def small(monkeypatch):
    """Blocks, batches and buckets so small that there are many of few rows."""
    monkeypatch.setattr(arranging, "BLOCK", 100)
    monkeypatch.setattr(arranging, "BATCH", 700)
    monkeypatch.setattr(arranging, "_SAMPLE", 500)
    monkeypatch.setattr(arranging, "room", lambda *_: 4 * 500 * (8 * 5 + 16))  # 500 rows of a bucket


@pytest.fixture
def arranged(tmp_path, small):
    pq.write_table(pa.table(table()), tmp_path / "rows.parquet", row_group_size=900)
    return sg.large.arrange(tmp_path / "rows.parquet", tmp_path / "arranged", x=NAMES, y="y", error="e")


def whole(rows):
    return rows.read(np.arange(rows.blocks))


def test_places_on_the_curve_interleave_bits():
    X = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [0.5, 0.5], [1.0, 1.0]])
    place = place_on_curve(X, np.zeros(2), np.ones(2))
    top = 1 << 60  # of 31 bits a coordinate, the highest of the first
    assert place.tolist() == [0, top, 2 * top, 3 * top, 4 * top - 1]
    np.testing.assert_array_equal(
        np.argsort(place_on_curve(X[:, :1], np.zeros(1), np.ones(1)), kind="stable"), [0, 2, 1, 3, 4]
    )
    assert place_on_curve(np.array([[-1.0, 2.0]]), np.zeros(2), np.ones(2)).tolist() == [int("10" * 31, 2)]


def test_arranged_rows_are_the_rows_in_the_order_of_the_curve(arranged):
    given = table()
    X = np.stack([given[name] for name in NAMES], axis=1)
    order = np.argsort(place_on_curve(X, X.min(axis=0), X.max(axis=0)), kind="stable")
    found = whole(arranged)
    for value, expected in zip(found, (X, given["y"], given["e"]), strict=True):
        np.testing.assert_array_equal(value, expected[order])
    for b in range(arranged.blocks):
        inside = arranged.read(np.array([b]))[0]
        np.testing.assert_array_equal(arranged.corners[b], [inside.min(axis=0), inside.max(axis=0)])
        assert arranged.first[b] == place_on_curve(inside, arranged.low, arranged.high)[0]
    assert arranged.blocks == 30
    assert arranged.size == ROWS


def test_single_precision_halves_the_disk_and_rounds(tmp_path, arranged):
    short = sg.large.arrange(tmp_path / "rows.parquet", tmp_path / "short", x=NAMES, y="y", error="e", dtype="float32")
    assert (short.path / "X").stat().st_size == (arranged.path / "X").stat().st_size / 2 == 4 * 3 * ROWS
    np.testing.assert_array_equal(whole(short)[1], whole(arranged)[1].astype(np.float32))


def test_directories_may_be_named_by_columns(tmp_path, small):
    given = table(1000)
    for s in (1, 2):
        place = tmp_path / "rows" / f"s={s}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"a": given["a"], "y": given["y"]}), place / "part.parquet")
    rows = sg.large.arrange(tmp_path / "rows", tmp_path / "arranged", x=["a", "s"], y="y")
    X, y, _ = whole(rows)
    order = np.lexsort((X[:, 0], X[:, 1]))
    np.testing.assert_array_equal(X[order, 1], np.repeat([1.0, 2.0], 1000))
    np.testing.assert_array_equal(y[order], np.tile(given["y"][np.argsort(given["a"])], 2))


def exact(rows, m):
    """Every row given its exact nearest before it on the curve."""
    data = Data(*whole(rows))
    return Neighbourhoods.under(model().realise().kernel, data, np.arange(data.size), m, "lengthscale")


def of_blocks(rows, m, reach):
    """The same by blocks, all rows of each."""
    batches = sg.large.Batches(rows, m, targets=100, reach=reach)
    kernel, rng = model().realise().kernel, np.random.default_rng(0)
    return [batches.of_block(kernel, batches.scale_of(kernel), b, rng) for b in range(rows.blocks)]


def test_neighbours_of_all_blocks_are_the_exact_ones(arranged):
    expected = exact(arranged, 5)
    parts = of_blocks(arranged, 5, arranged.blocks)
    # With all blocks within reach, rows of a part are those of the whole up to its block.
    short = [np.pad(part.members, ((0, 0), (6 - part.members.shape[1], 0)), constant_values=-1) for part, _ in parts]
    np.testing.assert_array_equal(np.concatenate(short), expected.members)


def test_neighbours_of_near_blocks_are_nearly_the_exact_ones(arranged):
    """By the default reach 98 % are the same, and the log likelihood is that of the exact ones to 10⁻³ a row."""
    expected, parts = exact(arranged, 5), of_blocks(arranged, 5, 12)
    assert len(parts[-1][0].data.X) == 13 * 100 < ROWS
    same = []
    for b, (part, _) in enumerate(parts):
        for found, known in zip(part.members, expected.members[arranged.edges[b] : arranged.edges[b + 1]], strict=True):
            mine = {tuple(row) for row in np.asarray(part.data.X)[found[found >= 0]]}
            theirs = {tuple(row) for row in np.asarray(expected.data.X)[known[known >= 0]]}
            same.append(len(mine & theirs) / len(theirs))
    assert np.mean(same) > 0.98
    together = joined(parts, ROWS)
    assert together.scale == 1.0
    assert np.max(together.members) == ROWS - 1, "each row is there once"
    np.testing.assert_allclose(log_likelihood(together) / ROWS, log_likelihood(expected) / ROWS, atol=1e-3)


def test_batches_have_one_shape_and_average_to_the_whole(arranged):
    batches = sg.large.Batches(arranged, 5, blocks=3, targets=20, reach=arranged.blocks)
    drawn = [batches.at(step)(model()) for step in range(40)]
    assert {(part.members.shape, part.data.X.shape, part.size) for part in drawn} == {((60, 6), (360, 3), ROWS)}
    again = batches.at(7)(model())
    np.testing.assert_array_equal(again.members, drawn[7].members)
    values, expected = [log_likelihood(part) for part in drawn], log_likelihood(exact(arranged, 5))
    assert abs(np.mean(values) - expected) < 3.0 * np.std(values) / np.sqrt(len(values))
    assert np.std(values) < 0.5 * abs(expected)  # so that the mean says something


def test_a_fit_goes_on_from_its_checkpoint_and_predicts_the_function(tmp_path, arranged):
    batches = sg.large.Batches(arranged, 8, every=5)

    def fitted(steps, **run):
        first = model()
        settings = {"optimiser": Adam(0.05, batch=64), "refresh": batches, "run": Run(chunk=5, **run)}
        return maximise(first, batches(first), steps=steps, key=0, **settings)

    def stop(done, *_):
        if done == 15:
            raise ZeroDivisionError

    kept = {"checkpoint": tmp_path / "checkpoint", "save_every": 1}
    straight = fitted(30)
    with pytest.raises(ZeroDivisionError):
        fitted(30, progress=stop, **kept)
    resumed = fitted(30, **kept)
    np.testing.assert_array_equal(resumed.history, straight.history)

    tests = table(500, seed=1)
    pq.write_table(pa.table(tests), tmp_path / "tests.parquet")
    done = []
    count = sg.large.predict_table(
        straight.model, batches, tmp_path / "tests.parquet", tmp_path / "out.parquet", progress=done.append
    )
    found = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert count == done[-1] == 500
    assert list(found) == ["a", "b", "c", "mean", "std"]
    np.testing.assert_array_equal(found["b"], tests["b"])
    # The same model with all rows in memory, and its exact nearest neighbours.
    everything = Neighbourhoods(Data(*whole(arranged)), np.zeros((1, 9), np.int32), "lengthscale")
    X = np.stack([tests[name] for name in NAMES], axis=1)
    near = straight.model.prepare(everything, X, 8)
    exactly = straight.model.predict_output(near, X)
    np.testing.assert_allclose(found["mean"], exactly.mean, atol=1e-10)
    np.testing.assert_allclose(found["std"], np.sqrt(exactly.variance), rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "arguments", "kind", "message"),
    [
        ({"y": np.append(np.zeros(ROWS - 1), np.nan)}, {}, ValueError, r"column 'y', row 3000, has no finite value"),
        ({"b": np.full(ROWS, "text")}, {}, ValueError, r"column 'b' of .* must have numbers"),
        (
            {"b": np.arange(ROWS).astype("datetime64[ms]")},
            {},
            ValueError,
            r"'b' of .* must have numbers, got timestamp\[ms\]: subtract an origin .* number of seconds or days",
        ),
        ({}, {"y": "z"}, ValueError, r"has no column 'z'; it has \['a', 'b', 'c', 'y', 'e'\]"),
        ({}, {"x": ()}, ValueError, r"x must name between 1 and 16 columns, got 0"),
        ({}, {"dtype": "int8"}, ValueError, r"dtype must be 'float64' or 'float32', got 'int8'"),
        (
            {"e": np.append(0.0, -np.eye(ROWS - 1)[7])},
            {"error": "e"},
            ValueError,
            r"'e' must be zero or positive, got -1",
        ),
        ({}, {"memory_limit": 10}, MemoryError, r"leaves too little: \d+ are in use before it begins"),
    ],
)
def test_bad_tables_are_refused(tmp_path, change, arguments, kind, message):
    pq.write_table(pa.table(table() | change), tmp_path / "rows.parquet")
    with pytest.raises(kind, match=message):
        sg.large.arrange(tmp_path / "rows.parquet", tmp_path / "out", **({"x": NAMES, "y": "y"} | arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"], "nothing is left"


def test_directories_that_exist_or_do_not_are_refused(tmp_path, arranged):
    with pytest.raises(FileExistsError, match="arranged exists: remove it, or name another directory"):
        sg.large.arrange(tmp_path / "rows.parquet", arranged.path, x=NAMES, y="y")
    with pytest.raises(ValueError, match=r"is no directory of arranged rows .*; spectrogp.large.arrange makes one"):
        sg.large.Rows(tmp_path)


def test_batches_that_would_not_fit_are_refused(arranged, monkeypatch):
    with pytest.raises(MemoryError, match=r"drawing batches within memory_limit=10 bytes leaves too little"):
        sg.large.Batches(arranged, 8, memory_limit=10)
    # Eight blocks, each read with two others of 100 rows; 128 targets of each with 8 neighbours; three inputs.
    needed = 8 * 5 * (8 * 3 * 100 + 8 * 128 * 9)
    monkeypatch.setattr("spectrogp.large.batches.room", lambda *_: needed)
    sg.large.Batches(arranged, 8, reach=2)
    message = f"takes {needed + 32000} bytes, and memory_limit leaves {needed} .*: raise it, or lower reach, blocks"
    with pytest.raises(MemoryError, match=message):
        sg.large.Batches(arranged, 8, reach=3)
    with pytest.raises(MemoryError, match="2400 rows read and 10240 kept"):
        sg.large.Batches(arranged, 9, reach=2)


def test_rows_at_one_place_need_memory_for_all_of_them(tmp_path, small):
    same = {name: np.zeros(ROWS) for name in (*NAMES, "y")}
    pq.write_table(pa.table(same), tmp_path / "rows.parquet")
    with pytest.raises(MemoryError, match=f"{ROWS} rows are too near to each other to be sorted in memory_limit"):
        sg.large.arrange(tmp_path / "rows.parquet", tmp_path / "out", x=NAMES, y="y")


LIMITED = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
import spectrogp as sg
from pathlib import Path
peak = lambda: 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
path, rng = Path(sys.argv[1]), np.random.default_rng(0)
schema = pa.schema([("x", pa.float64()), ("y", pa.float64())])
with pq.ParquetWriter(path / "rows.parquet", schema) as writer:
    for _ in range(100):
        writer.write_table(pa.table([rng.uniform(size=100_000), rng.normal(size=100_000)], schema))
import spectrogp.large
limit = peak() + 2**28
rows = sg.large.arrange(path / "rows.parquet", path / "out", x=["x"], y="y", memory_limit=limit)
left = limit - peak()
print(rows.size, bool(np.all(np.diff(np.memmap(path / "out" / "X", float, "r")) >= 0)), left >= 0, left)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read from Linux")
def test_memory_stays_within_its_limit(tmp_path):
    """Ten million rows of 16 bytes, as read, sorted and written, within 256 MiB more than is in use before."""
    words = [sys.executable, "-c", LIMITED, str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert ended.stdout.split()[:3] == ["10000000", "True", "True"], (ended.stdout, ended.stderr)
