"""Run the campaign: ``python -m benchmarks.torture [--quick] [--only SECTION …] [--out docs]``.

What a section has found is kept in OUT/results/reliability.json, and OUT/reliability.md is made from all that are
there: a section alone (``--only``) can be made anew.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from spectrogp import __version__
from spectrogp.files import replace_file, write_json

from ..measure import Clock, processor
from .trials import Trials

SECTIONS = {
    "flaws": "What broke once",
    "kills": "Killed and interrupted",
    "disk": "Disks that are full, small or read-only",
    "damage": "Damaged and forged files",
    "tables": "Hostile tables",
    "long_use": "Long use and many processes",
    "samplers": "Samplers draw from what they claim",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign and write its table; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few trials of each kind")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="these sections only, beside those kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the directory of documents")
    options = parser.parse_args(arguments)
    record, failed = options.out / "results" / "reliability.json", 0
    for name in options.only or SECTIONS:
        section = importlib.import_module(f".{name}", __package__).section
        clock, found = Clock(), []
        with tempfile.TemporaryDirectory(prefix=f"spectrogp-{name}-") as place:
            for trials in section(options.quick, options.seed, Path(place)):
                found.append(trials)
                print(f"{clock.wall:6.0f} s  {name}: {trials.what}: {_result(trials)}", flush=True)
                for failure in trials.failures:
                    print(f"          {failure}", flush=True)
        failed += sum(len(trials.failures) for trials in found)
        made = {"minutes": clock.wall / 60.0, "version": __version__, "python": platform.python_version()}
        made |= {"quick": options.quick, "seed": options.seed, "processor": processor()}
        kept = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
        kept[name] = made | {"trials": [trials._asdict() for trials in found]}
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, {name: kept[name] for name in SECTIONS if name in kept})
        replace_file(options.out / "reliability.md", _page(kept).encode())
    return 1 if failed else 0


def _result(trials: Trials) -> str:
    return f"{trials.tried} tried, {len(trials.failures)} failed" + (f"; {trials.note}" if trials.note else "")


_HEAD = """# Reliability

What was done to spectrogp to break it, and what came of it: {tried:,} trials, **{failed} failed**. Made by
`make torture` (`python -m benchmarks.torture`) in {minutes:.0f} minutes; a short form runs with the tests. The numbers
are in [results/reliability.json](results/reliability.json).
"""


def _page(kept: dict[str, Any]) -> str:
    """The document."""
    found = {name: [Trials(**trials) for trials in kept[name]["trials"]] for name in SECTIONS if name in kept}
    everything = [trials for section in found.values() for trials in section]
    lines = [
        _HEAD.format(
            tried=sum(trials.tried for trials in everything),
            failed=sum(len(trials.failures) for trials in everything),
            minutes=sum(section["minutes"] for section in kept.values()),
        )
    ]
    for name, section in found.items():
        made = kept[name]
        short = ", short form" * made["quick"]
        lines += [
            f"## {SECTIONS[name]}",
            "",
            f"spectrogp {made['version']}, Python {made['python']}, {made['processor']}, seed {made['seed']}{short}; "
            f"{made['minutes']:.1f} minutes.",
            "",
            "| tried | what must hold | trials | failed | |",
            "|---|---|---|---|---|",
            *(f"| {_row(trials)} |" for trials in section),
            *(f"\nFailed: {failure}" for trials in section for failure in trials.failures),
            "",
        ]
    return "\n".join(lines)


def _row(trials: Trials) -> str:
    cells = (trials.what, trials.holds, f"{trials.tried:,}", str(len(trials.failures)), trials.note)
    return " | ".join(cell.replace("|", r"\|").replace("\n", " ") for cell in cells)


if __name__ == "__main__":
    sys.exit(main())
