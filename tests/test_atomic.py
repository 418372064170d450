"""Files are whole or not there: whatever happens to who writes them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import spectrogp
from spectrogp.files import replace_file, write_json

DIES = """
import os, signal, sys
from spectrogp.files import replace_file

def die(file):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

replace_file(sys.argv[1], die)
"""


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_tidies_up(tmp_path):
    path = tmp_path / "model"
    replace_file(path, b"old")
    done = subprocess.run([sys.executable, "-c", DIES, path], check=False)  # noqa: S603
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (part,) = set(names(tmp_path)) - {"model"}
    assert part.startswith("model.")
    assert part.endswith(".part")
    (tmp_path / "model.notes.part").write_bytes(b"somebody's own")
    replace_file(path, b"new", lambda file: file.write(b"er"))
    assert path.read_bytes() == b"newer"
    assert names(tmp_path) == ["model", "model.notes.part"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, {"σ": 1.0})

    def fail(file):
        file.write(b"half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        replace_file(path, fail)
    assert path.read_text(encoding="utf-8") == '{\n  "σ": 1.0\n}\n'
    assert names(tmp_path) == ["summary.json"]


def test_writers_at_the_same_time_do_not_mix(tmp_path):
    """Each waits inside its write until all are there; the last to move wins, and no part stays."""
    path, together = tmp_path / "rows", threading.Barrier(4)

    def write(letter):
        def part(file):
            file.write(letter * 1000)
            together.wait()
            file.write(letter * 1000)

        replace_file(path, part)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = path.read_bytes()
    assert content in [letter * 2000 for letter in (b"a", b"b", b"c", b"d")]
    assert names(tmp_path) == ["rows"]


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    waits = DIES.replace("os.kill(os.getpid(), signal.SIGKILL)", "print('ready', flush=True); sys.stdin.read()")
    path = tmp_path / "model"
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", waits, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "ready\n"
        replace_file(path, b"ours")
        assert len(names(tmp_path)) == 2  # theirs is still there
        other.stdin.close()
        assert other.wait() == 0
    assert path.read_bytes() == b"half"
    assert names(tmp_path) == ["model"]


def test_an_error_names_the_file_and_not_its_part(tmp_path):
    missing = tmp_path / "nowhere" / "model"
    with pytest.raises(FileNotFoundError) as caught:
        replace_file(missing, b"")
    assert caught.value.filename == str(missing)

    def full(file):
        raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match=r"No space left on device: '.*summary.json'"):
        replace_file(tmp_path / "summary.json", full)


def test_no_file_takes_the_place_of_a_device_or_directory(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link", "."):
        with pytest.raises(OSError, match="this is no file that could be replaced"):
            replace_file(tmp_path / name, b"new")
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "model").symlink_to(tmp_path / "disk" / "model")
    replace_file(tmp_path / "model", b"new")
    assert (tmp_path / "model").is_symlink()
    assert (tmp_path / "disk" / "model").read_bytes() == b"new"


# What may write in another way, and why.
OTHERWISE = {
    "files/atomic.py": "it is the writer",
    "experiments/jobs.py": "a log that lines are added to",
    "core/compilation.py": "programs, of which only whole ones are kept",
    "cli/tables.py": "standard input, in a directory that is gone once it is read",
    "many/results.py": "an empty file to be locked",
    "cli/terminal.py": "standard output, sent nowhere once it is closed",
    "large/arranging.py": "a directory of files, which gets its name once all of it is on the disk",
    "processes/together.py": "a copy, in a directory that is gone once it is read",
}
WRITES = re.compile(
    r"\.write_(text|bytes)\(|\.savefig\(|np\.(save|savez|savez_compressed|savetxt)\((?!file)|\.to_(csv|parquet|pickle)\("
    r"|open\([^)]*[\"'][wax]b?\+?[\"']|json\.dump\("
)


def test_nothing_is_written_in_another_way():
    """Every file by one writer: no other place in the library opens a file to write, or lets another library do so."""
    source = Path(spectrogp.__file__).parent
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(WRITES.search(line) for line in path.read_text(encoding="utf-8").splitlines())
    }
    assert found <= set(OTHERWISE), f"write by replace_file: {sorted(found - set(OTHERWISE))}"
    assert {"files/atomic.py", "experiments/jobs.py"} <= found  # the pattern sees what there is
