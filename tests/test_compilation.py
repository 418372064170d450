"""Compiled programs are kept for the next process, in a private directory only."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib

import numpy as np
import pytest
from benchmarks.measure import counting_programs

from spectrogp.core import cache_compilations, compilation, plain_inputs
from spectrogp.files import Columns
from spectrogp.many.one import Task, fit_signal

PROGRAM = """
import sys
import jax
import numpy as np
import spectrogp as sg

events = []
jax.monitoring.register_event_listener(lambda name, **more: events.append(name))
sg.cache_compilations(sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
sg.kernels.ConvolutionalSpectral(0.3, 2.0)(np.linspace(0.0, 1.0, 7)[:, None])
print(sum("cache_hits" in name for name in events), sum("cache_misses" in name for name in events))
"""


def hits_and_misses(place):
    command = [sys.executable, "-c", PROGRAM, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return tuple(int(word) for word in done.stdout.split())


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The directory after a first process, and what that had to compile."""
    place = tmp_path_factory.mktemp("programs") / "cache"
    hits, misses = hits_and_misses(place)
    assert hits == 0
    return place, misses


def test_the_second_process_compiles_nothing(first):
    place, misses = first
    assert misses > 0
    assert len(list(place.iterdir())) == misses  # and nothing else: the process has tidied up
    assert hits_and_misses(place) == (misses, 0)
    assert place.stat().st_mode & 0o077 == 0


def test_programs_that_lost_their_end_are_compiled_once_more(first):
    place, misses = first
    for entry in place.iterdir():
        os.truncate(entry, entry.stat().st_size // 2)
    assert hits_and_misses(place) == (0, misses)
    assert hits_and_misses(place) == (misses, 0)


def test_what_a_process_wrote_by_halves_is_not_kept(tmp_path, monkeypatch):
    """A full disk in the middle of an entry, and a process that is killed: neither leaves a trace."""
    monkeypatch.setattr(compilation, "LARGEST", 150)
    own = compilation._own.__wrapped__(tmp_path)
    whole = {name: zlib.compress(os.urandom(60)) for name in "abc"}
    for age, (name, content) in enumerate(whole.items()):
        (own / f"{name}-cache").write_bytes(content)
        os.utime(own / f"{name}-cache", (age, age))
    (own / "d-cache").write_bytes(whole["a"][:-1])
    other = tmp_path / "process-killed"
    other.mkdir()
    (other / "lock").touch()
    (other / "x-cache").write_bytes(whole["a"])
    again = compilation._own.__wrapped__(tmp_path)
    assert not other.exists()
    assert own.exists()  # it is alive
    with (own / "lock").open("rb") as lock:
        compilation._give_back(tmp_path, own, lock, os.getpid())
    # The oldest had to go: three have more than 150 bytes.
    kept = {f"{name}-cache.{len(whole[name])}" for name in "bc"}
    assert {path.name for path in tmp_path.iterdir()} == kept | {again.name}


def test_without_a_home_directory_the_error_says_what_to_set(monkeypatch):
    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(compilation.Path, "home", nobody)
    with pytest.raises(FileNotFoundError, match=r"this user has no home directory .*: set XDG_CACHE_HOME"):
        cache_compilations()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are those of POSIX")
def test_a_directory_that_others_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match=r"in a private directory only, but .* can be written to by others"):
        cache_compilations(tmp_path)


FIT = """
import numpy as np
import spectrogp as sg

sg.SpectralGPRegressor(kernel="se", inference="map", max_iter=2).fit(np.linspace(0.0, 1.0, 20), np.arange(20.0) % 3)
"""


@pytest.mark.parametrize("said", [{}, {"SPECTROGP_CACHE": "off"}, {"JAX_ENABLE_COMPILATION_CACHE": "false"}])
def test_a_fit_keeps_programs_unless_told_otherwise(tmp_path, said):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), **said}
    subprocess.run([sys.executable, "-c", FIT], env=environment, check=True)  # noqa: S603
    assert (tmp_path / "spectrogp").exists() == (not said)


def test_a_fit_goes_on_where_no_programs_can_be_kept(tmp_path):
    (tmp_path / "spectrogp").touch()  # a file, not a directory
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", FIT], env=environment, check=True)  # noqa: S603


def test_processes_side_by_side_hand_their_programs_on(tmp_path, monkeypatch):
    """New programs that are whole are there for others at once, and theirs here; nothing is handed on twice."""
    monkeypatch.setattr(compilation, "_places", {})
    shared = tmp_path / "cache"
    one, other = shared / "process-1", shared / "process-2"
    for own in (one, other):
        own.mkdir(parents=True)
    content = zlib.compress(b"program")
    (one / "jit_f-cache").write_bytes(content)
    (one / "jit_g-cache").write_bytes(content[:-3])  # while it is being written
    compilation._places[shared] = one
    compilation.share_compilations()
    compilation.share_compilations()
    assert [path.name for path in shared.glob("*-cache.*")] == [f"jit_f-cache.{len(content)}"]
    compilation._places[shared] = other
    compilation.share_compilations()
    assert (other / "jit_f-cache").read_bytes() == content
    assert not (other / "jit_g-cache").exists()
    assert len(list(shared.glob("*-cache.*"))) == 1


def test_inputs_of_any_length_are_checked_without_a_program():
    with counting_programs() as built:
        for rows in (23, 29, 31):
            assert plain_inputs(np.linspace(0.0, 1.0, rows)).shape == (rows, 1)
    assert not built


def programs_of(rows):
    """How many programs the default fit of a tone of so many rows compiles."""
    rng = np.random.default_rng(rows)
    t = np.sort(rng.uniform(0.0, 10.0, rows))
    y = np.cos(2.0 * np.pi * 0.7 * t) + 0.05 * rng.normal(size=rows)
    with counting_programs() as built:
        row = fit_signal(Task(Columns(("t",), "y"), {"random_state": 0}, 1.0, 0.9), {"t": t, "y": y})
    assert "failure" not in row
    np.testing.assert_allclose(row["frequency"], [0.7], rtol=0.01)
    return len(built)


@pytest.mark.slow
def test_signals_of_any_length_share_programs():
    """Rows are filled up to one of a few sizes: once these were met, other lengths compile nothing."""
    first, *sizes = (programs_of(rows) for rows in (400, 311, 200))
    assert sum(sizes) < 0.2 * first
    assert [programs_of(rows) for rows in (237, 350, 220)] == [0, 0, 0]
