"""One step of the exact model against the linear algebra that it cannot avoid, and against exact peers.

The aim is three times LAPACK alone (``peers.lapack_exact``: Cholesky factor, inverse, and the products of a gradient)
for 400 inputs and one CSK component, whose three functions have 30 inducing points each.
"""

from __future__ import annotations

from typing import Any

from .steps import EXACT, isolated

NAMES = ("spectrogp exact CSK", "spectrogp exact SE", "tinygp exact RBF", "scikit-learn exact RBF")


def run(threads: int) -> list[dict[str, Any]]:
    """One row per contender; the ratio is to LAPACK alone, which takes turns with the step in the same process."""
    return [_row(isolated(name, EXACT, threads)) for name in NAMES]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    lapack = row.get("LAPACK ms", "–")
    ratio = row["step ms"] / lapack if lapack != "–" else "–"
    columns = {name: row[name] for name in ("contender", "threads", "step ms", "compile s", "peak MB")}
    return columns | {"LAPACK ms": lapack, "ratio": ratio, "note": row["note"]}
