"""What the default call takes, fit and reading of the band: ``taskset -c 0 python -m benchmarks.call``.

In a new process: first 400 rows, then other numbers of rows, then 2,000 and 1,900. With ``XDG_CACHE_HOME`` of an empty
directory it is the first call of all; again, one that finds its programs on disk. CPU seconds include what has to be
loaded.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console

import spectrogp as sg

from .measure import Clock, peak_memory

ROWS = (400, 370, 310, 400, 2000, 1900)


def main() -> None:
    console = Console(highlight=False)
    console.print("| rows | CPU s | median error | coverage |\n|---|---|---|---|")
    for seed, rows in enumerate(ROWS):
        rng = np.random.default_rng(seed)
        t = np.sort(rng.uniform(0.0, rows / 20.0, rows))
        y = np.cos(2.0 * np.pi * (2.0 * t + np.sin(t))) + 0.2 * rng.normal(size=rows)
        clock = Clock()
        band = sg.SpectralGPRegressor(random_state=0).fit(t, y).instantaneous_frequency(t)
        seconds, truth = clock.cpu, 2.0 + np.cos(t)[:, None]
        error = np.median(np.abs(band.mean[:, :1] / truth - 1.0))
        inside = np.mean((band.lower[:, :1] <= truth) & (truth <= band.upper[:, :1]))
        console.print(f"| {rows} | {seconds:.2f} | {error:.2%} | {inside:.0%} |")
    console.print(f"\n{peak_memory():.0f} MB at most")


if __name__ == "__main__":
    main()
