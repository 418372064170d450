"""Shared by all tests."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Thousands of small compiled programs add up to gigabytes: each file starts without those of the last."""
    yield
    jax.clear_caches()
