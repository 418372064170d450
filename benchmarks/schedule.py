"""What one large fit would take on other numbers of machines, by simulation: ``python -m benchmarks.schedule``.

The figures are those that other benchmarks measured (``docs/scale.md`` says which), on cores like those. Two designs:
processes that share every sum over all rows (``together``), and rows that stay on the disk of one machine, from which
one process fits batches and several predict (``from_disk``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from rich.console import Console

CORES = 2  # of a machine, a process each
RARELY = 3.6e6  # seconds after which a process is lost, on average: a thousand hours
RESTART = 60.0  # seconds until all processes of a group are there again
STEPS, BATCH = 200, 256  # of Adam; targets of a step from the disk
SAVED = 25  # steps between two checkpoints
HOPELESS = 3.6e8  # seconds after which a run is given up: a hundred thousand hours
ROWS, MACHINES = (1e6, 1e7, 1e8, 1e9), (1, 16, 256)


class Costs(NamedTuple):
    """Measured seconds of a core for a row, and bytes; of three inputs with 15 neighbours.

    Args:
        search: Seconds to find the neighbours of a row, among all rows in memory.
        step: Seconds of a row in a step with all rows, its gradient included.
        latency: Seconds of a sum over two processes; of more, so many times their logarithm.
        held: Bytes of a row in every process: its values, and the numbers of its neighbours.
        arrange: Seconds to bring a row into its order on the disk.
        target: Seconds of a target in a step with a batch from the disk, the search for its neighbours included.
        predict: Seconds of a prediction with neighbours from the disk.
        kept: Bytes of a row on the disk, and as many again while rows are arranged.
    """

    search: float = 90e-6
    step: float = 35e-6
    latency: float = 1e-3
    held: float = 8.0 * 5 + 4.0 * 16
    arrange: float = 0.84e-6
    target: float = 105e-6
    predict: float = 216e-6
    kept: float = 8.0 * 4


COSTS = Costs()


def together(rows: float, machines: int, costs: Costs = COSTS, *, rarely: float = RARELY, runs: int = 20) -> float:
    """Hours of a fit with all rows in every step, shared by processes: the mean of some runs; infinite if none ends.

    Each process finds all neighbours. A step lasts as long as the slowest process, and one in twenty is half as fast.
    When a process is lost, all begin again from the last checkpoint, and find the neighbours anew.

    Args:
        rows: How many there are.
        machines: Of ``CORES`` cores.
        costs: What was measured.
        rarely: Seconds after which a process is lost, on average.
        runs: How many are simulated.
    """
    processes = machines * CORES
    hours = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        slow = 2.0 if np.any(rng.uniform(size=processes) < 0.05) else 1.0
        step = slow * costs.step * rows / processes + costs.latency * math.log2(processes)
        search, part = slow * costs.search * rows, SAVED * step
        now, done, ready = 0.0, 0, False
        while done < STEPS and now < HOPELESS:
            needed = part if ready else search + part
            lost = rng.exponential(rarely / processes)
            if lost < needed:
                now, ready = now + lost + RESTART, False
            else:
                now, done, ready = now + needed, done + SAVED, True
        hours.append(now / 3600.0 if done >= STEPS else math.inf)
    return float(np.mean(hours))


def table() -> dict[str, dict[str, float | None]]:
    """Hours of one fit that shares all rows, of each number of rows and machines; None where it never ends."""
    hours = {rows: {machines: together(rows, machines) for machines in MACHINES} for rows in ROWS}
    return {
        f"{rows:.0e} rows": {f"{k} machines": took if math.isfinite(took) else None for k, took in each.items()}
        for rows, each in hours.items()
    }


def from_disk(rows: float, machines: int, costs: Costs = COSTS) -> tuple[float, float]:
    """Hours of one process that arranges rows and fits batches of them, and of all that predict a tenth as many.

    Each of these predicts a part of the table, and the slowest of them is waited for, half as fast where they are many.
    """
    fit = costs.arrange * rows + costs.target * STEPS * BATCH
    processes = machines * CORES
    slow = 2.0 if np.any(np.random.default_rng(0).uniform(size=processes) < 0.05) else 1.0
    return fit / 3600.0, slow * costs.predict * 0.1 * rows / processes / 3600.0


def main() -> None:
    console = Console(highlight=False)
    for rows in ROWS:
        shared = [together(rows, machines) for machines in MACHINES]
        disk = [from_disk(rows, machines) for machines in MACHINES]
        console.print(f"{rows:.0e} rows on {MACHINES} machines, hours")
        console.print(
            f"  together   {', '.join(f'{hours:.3g}' for hours in shared)}; {COSTS.held * rows:.2e} bytes a process"
        )
        console.print(f"  from disk  {disk[0][0]:.3g}; {2.0 * COSTS.kept * rows:.2e} bytes of the disk")
        console.print(f"  predicting {', '.join(f'{hours:.3g}' for _, hours in disk)}")


if __name__ == "__main__":
    main()
