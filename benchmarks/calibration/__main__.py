"""``python -m benchmarks.calibration --out DIR``: the run, its report, and an exit code of 1 when it fails."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from .report import judge, p_text, write
from .simulation import QUICK, Settings, model, problem, run, without_jacobian


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Simulation-based calibration of NUTS.")
    parser.add_argument("--out", type=Path, default=Path("out/sbc"), help="directory for the report")
    parser.add_argument("--quick", action="store_true", help="few replications: shows that it runs, proves nothing")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    settings = QUICK if options.quick else Settings()
    right = model(problem())
    verdicts = [
        judge(run(right, sampled, settings, options.seed, count, name), settings)
        for sampled, count, name in (
            (right, settings.replications, "NUTS"),
            (without_jacobian(right), settings.control, "control"),
        )
    ]
    write(options.out, *verdicts, settings, options.seed)
    console = Console()
    for name, row in verdicts[0].rows.items():
        console.print(
            f"{name:15s} p = {p_text(row['chi_square'])} (chi-square), {p_text(row['cumulative'])} (cumulative)"
        )
    console.print(f"wrote {options.out / 'calibration.md'}", highlight=False)
    if options.quick:
        return 0
    return int(not verdicts[0].calibrated() or verdicts[1].calibrated())


if __name__ == "__main__":
    sys.exit(main())
