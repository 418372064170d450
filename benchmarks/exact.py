"""One step of the exact model against the linear algebra that it cannot avoid, and against exact peers.

The aim is three times LAPACK alone (``peers.lapack_exact``: Cholesky factor, inverse, and the products of a gradient)
for 400 inputs and one CSK component, whose three functions have 30 inducing points each.
"""

from __future__ import annotations

from typing import Any

from .peers import Sizes
from .steps import EXACT, with_ratios, isolated

NAMES = ("LAPACK alone", "spectrogp exact CSK", "spectrogp exact SE", "tinygp exact RBF", "scikit-learn exact RBF")


def run(threads: int, sizes: Sizes = EXACT) -> list[dict[str, Any]]:
    """One row per contender; the ratio is to LAPACK alone."""
    return with_ratios([isolated(name, sizes, threads) for name in NAMES], "LAPACK alone")
