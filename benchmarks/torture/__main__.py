"""Run the campaign: ``python -m benchmarks.torture [--quick] [--only SECTION …] [--out docs/reliability.md]``."""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import tempfile
from pathlib import Path

from spectrogp import __version__
from spectrogp.files import replace_file

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
    parser.add_argument("--only", action="append", choices=SECTIONS, help="these sections only; nothing is written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/reliability.md"))
    options = parser.parse_args(arguments)
    clock, found = Clock(), {}
    for name in options.only or SECTIONS:
        section = importlib.import_module(f".{name}", __package__).section
        found[name] = []
        with tempfile.TemporaryDirectory(prefix=f"spectrogp-{name}-") as place:
            for trials in section(options.quick, options.seed, Path(place)):
                found[name].append(trials)
                print(f"{clock.wall:6.0f} s  {name}: {trials.what}: {_result(trials)}", flush=True)
                for failure in trials.failures:
                    print(f"          {failure}", flush=True)
    failed = sum(len(trials.failures) for section in found.values() for trials in section)
    if not options.only:
        replace_file(options.out, _page(found, options, clock).encode())
        print(f"wrote {options.out}")
    return 1 if failed else 0


def _result(trials: Trials) -> str:
    return f"{trials.tried} tried, {len(trials.failures)} failed" + (f"; {trials.note}" if trials.note else "")


_HEAD = """# Reliability

What was done to spectrogp {version} to break it, and what came of it: {tried} trials, **{failed} failed**.
Made by `{command}` in {minutes:.0f} minutes ({processor}, Python {python}); a short form runs with the tests.
"""


def _page(found: dict[str, list[Trials]], options: argparse.Namespace, clock: Clock) -> str:
    """The document."""
    everything = [trials for section in found.values() for trials in section]
    head = _HEAD.format(
        version=__version__,
        tried=sum(trials.tried for trials in everything),
        failed=sum(len(trials.failures) for trials in everything),
        command=f"python -m benchmarks.torture{' --quick' * options.quick} --seed {options.seed}",
        minutes=clock.wall / 60.0,
        processor=processor(),
        python=platform.python_version(),
    )
    lines = [head]
    for name, section in found.items():
        lines += [f"## {SECTIONS[name]}", "", "| tried | what must hold | trials | failed | |", "|---|---|---|---|---|"]
        lines += [f"| {_row(trials)} |" for trials in section]
        lines += [f"\nFailed: {failure}" for trials in section for failure in trials.failures]
        lines.append("")
    return "\n".join(lines)


def _row(trials: Trials) -> str:
    cells = (trials.what, trials.holds, f"{trials.tried:,}", str(len(trials.failures)), trials.note)
    return " | ".join(cell.replace("|", r"\|").replace("\n", " ") for cell in cells)


if __name__ == "__main__":
    sys.exit(main())
