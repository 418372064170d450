"""Hostile tables: each is read rightly, or refused in a line, soon and in little memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from . import hostile_tables
from .trials import Trials, python

FLIPS = 5000  # damaged Parquet files; a few in the quick form


def section(quick: bool, seed: int, place: Path) -> Iterator[Trials]:
    """Read all tables in a process of their own, whose memory can be measured and which may die."""
    child = python(hostile_tables.__file__, place, 20 if quick else FLIPS, seed)
    output, errors = child.communicate()
    lines = [json.loads(line) for line in output.splitlines()]
    if child.returncode:
        last = lines[-1]["name"] if lines else "the start"
        reason = f"the process ended with {child.returncode}: {' '.join(errors.split())[-300:]}"
        lines.append({"name": f"after {last}", "failure": reason, "seconds": 0.0, "megabytes": 0.0})
    kinds = {
        "hostile CSV files": lambda name: not name.startswith(("Parquet: ", "flipped ", "after ")),
        "hostile Parquet files": lambda name: name.startswith("Parquet: "),
        "Parquet files with one to three changed bytes": lambda name: name.startswith(("flipped ", "after ")),
    }
    # Pages have checksums, but names and types, which stand in the footer of a Parquet file, have none.
    ends = "{}, or one line that names the file; nothing else is raised; "
    ends += f"at most {hostile_tables.SECONDS:.0f} s and {hostile_tables.MEGABYTES:.0f} MB"
    for what, belongs in kinds.items():
        some = [line for line in lines if belongs(line["name"])]
        failures = tuple(f"{line['name']}: {line['failure']}" for line in some if line["failure"])
        seconds, megabytes = (max((line[key] for line in some), default=0.0) for key in ("seconds", "megabytes"))
        note = f"at most {seconds:.1f} s of processor time and {megabytes:.0f} MB"
        holds = ends.format("a table" if "changed" in what else "the right values")
        yield Trials(f"read_table and fit: {what}", holds, len(some), failures, note)
