"""Shared by all tests."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Thousands of small compiled programs add up to gigabytes: each file starts without those of the last."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory):
    """Commands keep compiled programs: not in the home of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
