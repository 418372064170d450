"""Shared by all tests."""

from __future__ import annotations

import os
from importlib.metadata import version

# Threads of BLAS from several test processes would fight for the same cores; to be set before NumPy starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What tests of small programs cost is their compilation. XLA's older emitters compile them three times as fast, and the
# programs do the same; to be set before JAX starts. From jaxlib 0.11.1 on they are gone, and unknown flags end Python.
if tuple(map(int, version("jaxlib").split(".")[:3])) < (0, 11, 1):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Thousands of small compiled programs add up to gigabytes: each file starts without those of the last.

    What other files have compiled is read from this process's own directory. Nothing else writes there: a program that
    is read while it is being written would be broken.
    """
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # the command line, where tested, sets more
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory):
    """Commands keep compiled programs: not in the home of who runs the tests."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("programs")))
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def compile_quickly():
    """For files of many programs that run for moments only."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def compile_fully(compile_quickly):
    """For single tests in such a file that need programs as users have them (of shapes that no other test has)."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)
