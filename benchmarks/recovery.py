"""How well the frequency of a signal is recovered, by the estimator as it comes and by two tools of signal processing.

``python -m benchmarks.recovery`` fits every family of ``datasets.SIGNALS``, at random and even times, at three levels
of noise and with five seeds, by ``SpectralGPRegressor`` with each kernel and otherwise default settings; and extracts
ridges from a short-time Fourier transform (SciPy) and a synchrosqueezed wavelet transform (ssqueezepy) of the same
data, interpolated to an even grid where times are random. These tools are told how many components there are; the
estimator is not. A run that was stopped goes on from the rows in its JSON file.

Errors are relative, at the times of the data. Components are compared in the order of their frequency; of more
components than there are, the strongest ones count. A signal is a failure when the median of its errors is above 20 %.
"""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import gaussian

import spectrogp as sg
from spectrogp.datasets import SIGNALS, Signal, signal
from spectrogp.initialise.ridges import CENTRES, JUMP, best_path

from .measure import Clock

KERNELS = ("auto", "phase", "chirplet", "convolutional")
NOISE = (0.05, 0.1, 0.5)
SAMPLING = {"random": True, "even": False}
PAPER = "chirp"  # 400 rows, as in the paper; the others have fewer
WINDOWS = (1 / 16, 1 / 8, 1 / 4)  # of the short-time Fourier transform, as shares of the span
FAILURE = 0.2
console = Console(highlight=False)


def by_kernel(kernel: str, data: Signal, seed: int) -> dict[str, Any]:
    """Frequencies ``[n, q]`` and their 90 % bands, by the estimator with default settings."""
    model = sg.SpectralGPRegressor(kernel=kernel, random_state=seed).fit(data.X, data.y)
    band = model.instantaneous_frequency(data.X)
    strongest = np.argsort(-model.decompose(data.X).mean.std(axis=0))[: data.frequency.shape[1]]
    return {name: part[:, strongest] for name, part in zip(("mean", "lower", "upper"), band, strict=True)}


def by_stft(data: Signal, seed: int) -> dict[str, Any]:
    """Ridges of a short-time Fourier transform, with the window that gives the most concentrated one."""
    del seed
    t, y, step = _even(data)
    best: tuple[float, Any, Any] = (-np.inf, None, None)
    for share in WINDOWS:
        width = max(share * len(t) / 4.0, 2.0)  # four standard deviations of the window are that share
        window = gaussian(2 * int(3 * width) + 1, width, sym=True)
        transform = ShortTimeFFT(window, hop=1, fs=1.0 / step, mfft=4 * len(t))
        power = np.abs(transform.stft(y, p0=0, p1=len(t))).T ** 2
        concentration = np.sum(power**2) / np.sum(power) ** 2  # of energy in few cells
        if concentration > best[0]:
            best = concentration, power[:, 1:], transform.f[1:]
    _, power, grid = best
    found = []
    for _ in range(data.frequency.shape[1]):
        gain = np.log(power + 1e-12 * power.max())
        path = best_path(gain, np.log(grid), JUMP * CENTRES / len(t))
        rows = np.arange(len(t))
        inner = np.clip(path, 1, len(grid) - 2)
        low, middle, high = (gain[rows, inner + move] for move in (-1, 0, 1))
        bend = low - 2.0 * middle + high
        off = np.where(bend < 0, 0.5 * (low - high) / np.where(bend < 0, bend, 1.0), 0.0)
        found.append(grid[inner] + np.clip(off, -0.5, 0.5) * (grid[1] - grid[0]))
        power = np.where(np.abs(grid - found[-1][:, None]) < 3.0 / (len(t) * step), 0.0, power)
    return {"mean": np.column_stack([np.interp(data.X[:, 0], t, ridge) for ridge in found])}


def by_synchrosqueezing(data: Signal, seed: int) -> dict[str, Any]:
    """Ridges of ssqueezepy's synchrosqueezed wavelet transform.

    With the wavelet and the penalty that serve these signals best: its defaults need more cycles than they have.
    """
    from ssqueezepy import extract_ridges, ssq_cwt

    del seed
    t, y, step = _even(data)
    Tx, _, frequencies, scales, *_ = ssq_cwt(y, fs=1.0 / step, wavelet=("morlet", {"mu": 3}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = extract_ridges(Tx, scales, penalty=20.0, n_ridges=data.frequency.shape[1], bw=4)
    return {"mean": np.column_stack([np.interp(data.X[:, 0], t, frequencies[ridge]) for ridge in path.T])}


def _even(data: Signal) -> tuple[np.ndarray, np.ndarray, float]:
    """Centred outputs on an even grid, by linear interpolation, and its step."""
    t = np.linspace(data.X[0, 0], data.X[-1, 0], len(data.y))
    return t, np.interp(t, data.X[:, 0], data.y - data.y.mean()), float(t[1] - t[0])


def compared(found: dict[str, Any], truth: np.ndarray) -> dict[str, Any]:
    """Relative errors, pooled over times and components, and how often the band holds the truth."""
    mean = found["mean"]
    if mean.shape[1] < truth.shape[1]:  # what was not found is as wrong as the nearest that was
        found = {name: part[:, np.zeros(truth.shape[1], int)] for name, part in found.items()}
        mean = found["mean"]
    # Only the set of frequencies is known at a time, not which is which.
    order, truth = np.argsort(mean, axis=1), np.sort(truth, axis=1)
    ends = [np.take_along_axis(found[name], order, axis=1) for name in ("lower", "upper") if name in found]
    error = np.abs(np.take_along_axis(mean, order, axis=1) / truth - 1.0)
    row = {"median": float(np.median(error)), "90 %": float(np.quantile(error, 0.9))}
    if ends:
        row["coverage"] = float(np.mean((ends[0] <= truth) & (truth <= ends[1])))
    return row


METHODS: dict[str, Any] = {"STFT": by_stft, "synchrosqueezing": by_synchrosqueezing}


def run(method: str, family: str, sampling: str, noise: float, seed: int) -> dict[str, Any]:
    data = signal(family, n=400 if family == PAPER else 200, noise=noise, irregular=SAMPLING[sampling], seed=seed)
    clock = Clock()
    found = METHODS[method](data, seed) if method in METHODS else by_kernel(method, data, seed)
    seconds = clock.cpu
    case = {"method": method, "family": family, "sampling": sampling, "noise": noise, "seed": seed}
    return case | compared(found, data.frequency) | {"seconds": seconds}


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Medians over signals (of their medians, 90th percentiles and seconds), mean coverage, share of failures."""
    columns = {name: np.array([row[name] for row in rows if name in row]) for name in (*rows[0], "coverage")}
    line = {
        "median error": float(np.median(columns["median"])),
        "90 % error": float(np.median(columns["90 %"])),
        "failures": float(np.mean(columns["median"] > FAILURE)),
        "seconds": float(np.median(columns["seconds"])),
    }
    if len(columns["coverage"]):
        line["coverage"] = float(np.mean(columns["coverage"]))
    return line


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown: a table over all signals, one of each family, and the paper's chirp at each noise."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [
        "## All signals\n",
        "| method | median error | 90 % error | coverage of the 90 % band | failures | CPU seconds |",
        "|---|---|---|---|---|---|",
    ]
    for method in methods:
        s = summary([row for row in rows if row["method"] == method])
        band = f"{s['coverage']:.0%}" if "coverage" in s else "–"
        lines.append(
            f"| {method} | {s['median error']:.2%} | {s['90 % error']:.1%} | {band} | {s['failures']:.1%} "
            f"| {s['seconds']:.2f} |"
        )
    for title, keys in (("Median error by family and sampling", ("family", "sampling")), ("By noise", ("noise",))):
        lines += [f"\n## {title}\n", f"| {' | '.join((*keys, *methods))} |", "|---" * (len(keys) + len(methods)) + "|"]
        lines += _lines(rows, keys, methods)
    lines += [
        "\n## The paper's chirp\n",
        f"| sampling | noise | {' | '.join(methods)} |",
        "|---" * (2 + len(methods)) + "|",
    ]
    lines += _lines([row for row in rows if row["family"] == PAPER], ("sampling", "noise"), methods)
    return "\n".join(lines) + "\n"


def _lines(rows: list[dict[str, Any]], keys: tuple[str, ...], methods: list[str]) -> list[str]:
    """One line a case: median error (failures, coverage) of each method."""
    lines = []
    for case in dict.fromkeys(tuple(row[key] for key in keys) for row in rows):
        cells = []
        for method in methods:
            some = [row for row in rows if row["method"] == method and tuple(row[key] for key in keys) == case]
            if not some:
                cells.append("–")
                continue
            s = summary(some)
            extra = [f"{s['coverage']:.0%} inside"] if "coverage" in s else []
            extra += [f"{s['failures']:.0%} failed"] if s["failures"] else []
            cells.append(f"{s['median error']:.2%}" + (f" ({', '.join(extra)})" if extra else ""))
        lines.append(f"| {' | '.join(map(str, case))} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Recovery of frequencies, against signal-processing tools.")
    parser.add_argument("--methods", nargs="*", default=[*KERNELS, *METHODS], choices=[*KERNELS, *METHODS])
    parser.add_argument("--families", nargs="*", default=list(SIGNALS), choices=list(SIGNALS))
    parser.add_argument("--sampling", nargs="*", default=list(SAMPLING), choices=list(SAMPLING))
    parser.add_argument("--noise", type=float, nargs="*", default=list(NOISE))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one seed, one noise, random times")
    parser.add_argument("--out", type=Path, default=Path("out/recovery"))
    options = parser.parse_args()
    sg.cache_compilations()
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / "recovery.json"
    before = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {"commands": [], "rows": []}
    chosen = [
        f"--{name} {' '.join(map(str, np.atleast_1d(value)))}"
        for name, value in vars(options).items()
        if name != "out" and value != parser.get_default(name)
    ]
    rows, command = before["rows"], " ".join(["python -m benchmarks.recovery", *chosen])
    commands = list(dict.fromkeys([*before["commands"], command]))
    done = {tuple(row[key] for key in ("method", "family", "sampling", "noise", "seed")) for row in rows}
    cases = product(
        options.methods,
        options.families,
        ("random",) if options.quick else options.sampling,
        (0.1,) if options.quick else options.noise,
        range(1 if options.quick else options.seeds),
    )
    left = [case for case in cases if case not in done]
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("signals", total=len(left))
        for case in left:
            rows.append(run(*case))
            versions = {name: version(name) for name in ("spectrogp", "jax", "scipy", "ssqueezepy")}
            content = {"commands": commands, "versions": versions | {"python": platform.python_version()}, "rows": rows}
            record.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            bar.advance(task)
    text = tables(rows)
    (options.out / "recovery.md").write_text(text, encoding="utf-8")
    console.print(text)


if __name__ == "__main__":
    main()
