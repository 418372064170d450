"""The campaign of ``make torture`` in its short form: the same trials, a few of each kind."""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from benchmarks.torture import commands, damage, disk, kills, long_use
from benchmarks.torture.__main__ import SECTIONS
from benchmarks.torture.commands import Ended
from benchmarks.torture.flaws import FLAWS

from spectrogp import ModelFileError, load, save

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits, signals and /proc are those of Linux")


@pytest.fixture
def place():
    """A directory that other users can reach too: those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="spectrogp-test-") as path:
        yield Path(path)


def run(section, place):
    """What failed, of a section that tried something."""
    found = list(section(True, 0, place))
    assert sum(trials.tried for trials in found) > 0
    return [f"{trials.what}: {failure}" for trials in found for failure in trials.failures]


@pytest.mark.slow
def test_killed_processes_leave_whole_files_and_go_on(place):
    assert run(kills.section, place) == []


@pytest.mark.slow
def test_disks_that_are_full_or_read_only(place):
    assert run(disk.section, place) == []


@pytest.mark.slow
def test_damaged_and_forged_files_are_refused(place):
    assert run(damage.section, place) == []


@pytest.mark.slow
def test_workers_give_the_bits_of_one_process_with_as_many_threads_of_blas(place):
    found = long_use.in_workers(place)
    assert (found.tried, found.failures) == (7, ())


# The campaign finds what it looks for


def test_flipped_bits_that_are_not_seen_are_counted(tmp_path):
    """A reader that looks at the first half of a file only misses the bits of the second."""
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))

    def half(path):
        return "not seen" if path.read_bytes()[:100] == bytes(range(100)) else None

    flipped, cut = damage._damaged("file", path, random.Random(0), half, 1600, "")  # noqa: S311
    assert (flipped.tried, len(flipped.failures)) == (1600, 800)
    assert (cut.tried, len(cut.failures)) == (200, 100)  # of 100 to 199 bytes


def test_half_files_are_found(tmp_path):
    save(tmp_path / "model.safetensors", [np.arange(100.0)])
    (tmp_path / "a.json").write_text("{}")
    assert commands.left_wrong(tmp_path, ["a.json"]) == []
    (tmp_path / "a.json").write_text("{")
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:-1])
    (tmp_path / "b.png.1.part").write_bytes(b"")
    found = commands.left_wrong(tmp_path, ["b.png"])
    assert [line.split(" (")[0] for line in found] == [
        "b.png is gone",
        "a.json is broken",
        "model.safetensors is broken",
    ]
    assert commands.parts_in(tmp_path) == ["b.png.1.part is left"]
    with pytest.raises(ModelFileError):
        load(tmp_path / "model.safetensors")


def test_ends_are_judged():
    good = Ended(143, "", "fit ━━━━ 3/4\nterminated\n", 1)
    assert good.wrong(143, line="^terminated$") == []
    assert good.wrong(-signal.SIGTERM) == ["exit code 143 instead of -15", "said ['terminated']"]
    assert Ended(2, "", "Traceback (most recent call last):\nOSError: x\n", 1).wrong(2)[0].startswith("a traceback")
    assert Ended(2, "", "one\ntwo\n", 1).wrong(2, line="one")[0] == "not one line with one"


AIMED = """if True:
    import os, pathlib, sys
    sys.path.insert(0, sys.argv[1])
    import child
    directory = pathlib.Path(sys.argv[2])
    child.aim(sys.argv[3], directory)
    for name in ("a", "b", "a"):
        with (directory / f"{name}.part").open("wb") as file:
            file.write(bytes(100))
            file.flush()
            os.fsync(file.fileno())
        (directory / f"{name}.part").replace(directory / name)
        print(name, flush=True)
"""


@pytest.mark.parametrize(
    ("aim", "written", "code"),
    [
        ("-", ["a", "b", "a"], 0),
        ("SIGKILL:move:b:1", ["a"], -signal.SIGKILL),
        ("SIGKILL:move:a:2", ["a", "b"], -signal.SIGKILL),
        ("SIGTERM:sync:b:1", ["a"], -signal.SIGTERM),
        ("SIGXFSZ:write:b:50", ["a"], -signal.SIGXFSZ),
        ("ENOSPC:move:b:1", ["a"], 1),
        ("EFBIG:write:b:50", ["a"], 1),
    ],
)
def test_aims_strike_where_they_say(tmp_path, aim, written, code):
    source = str(Path(commands.__file__).parent)
    done = commands.ended(commands.python("-P", "-c", AIMED, source, tmp_path, aim))
    assert (done.out.split(), done.code) == (written, code)
    left = {"move": 100, "sync": 100, "write": 50}
    parts = {path.name: path.stat().st_size for path in tmp_path.glob("*.part")}
    name = aim.split(":")[2] if aim != "-" else ""
    assert parts == ({} if aim == "-" else {f"{name}.part": left[aim.split(":")[1]]})


# What it has found is in the documents

ROOT = Path(__file__).parent.parent


def test_the_page_is_of_the_whole_campaign_and_nothing_failed():
    kept = json.loads((ROOT / "docs" / "results" / "reliability.json").read_text(encoding="utf-8"))
    assert list(kept) == list(SECTIONS)
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert "**0 failed**" in page
    for name, section in kept.items():
        assert not section["quick"], name
        assert not [failure for trials in section["trials"] for failure in trials["failures"]], name
        assert f"## {SECTIONS[name]}" in page
    assert [trials["what"].split(":")[0] for trials in kept["flaws"]["trials"]] == list(FLAWS)


@pytest.mark.parametrize("name", FLAWS)
def test_the_tests_of_every_flaw_exist(name):
    for test in FLAWS[name].tests:
        file, _, function = test.partition("::")
        assert f"def {function}" in (ROOT / "tests" / file).read_text(encoding="utf-8"), test
