"""Compiled programs are kept for the next process, in a private directory only."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from spectrogp.core import cache_compilations

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


def test_the_second_process_compiles_nothing(tmp_path):
    place = tmp_path / "cache"
    counts = []
    for _ in range(2):
        command = [sys.executable, "-c", PROGRAM, str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        counts.append([int(word) for word in done.stdout.split()])
    (hits, misses), (later_hits, later_misses) = counts
    assert (hits, misses > 0) == (0, True)
    assert (later_hits, later_misses) == (misses, 0)
    assert place.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are those of POSIX")
def test_a_directory_that_others_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match=r"in a private directory only, but .* can be written to by others"):
        cache_compilations(tmp_path)
