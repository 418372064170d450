"""Long signals by the estimator as it comes: ``python -m benchmarks.long`` (``make bench-long``).

Signals whose frequency is known, of a thousand to a million samples; chirpgp's toy (Zhao et al. 2023) with three kinds
of amplitudes; and thirty minutes of an electrocardiogram with annotated beats (``SPECTROGP_DATA``). All with default
settings. Rows are kept one by one in a JSON file, and a run that was stopped goes on with those that are missing.

Errors are relative, at even times. "Lost" is the share of the time in which the error is above 20 %.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

import spectrogp as sg

from .measure import Clock, peak_memory

console = Console(highlight=False)
PLACES = 20_000  # at which frequencies are compared


class Record(NamedTuple):
    """A signal: times and outputs, and its true frequencies ``[a]`` at times ``[n]`` as a function, ``[n, a]``."""

    t: np.ndarray
    y: np.ndarray
    truth: Callable[[np.ndarray], np.ndarray]
    where: Callable[[np.ndarray], np.ndarray] = np.ones_like  # whether there is anything to compare, at times


def vibrato(T: float, seed: int) -> Record:
    """f = 5 + 1.5 sin πt at 50 random times a unit, noise 0.2."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, T, int(50 * T)))
    y = np.cos(_vibrato_phase(t)) + 0.2 * rng.normal(size=len(t))
    return Record(t, y, lambda x: 5.0 + 1.5 * np.sin(np.pi * x)[:, None])


def _vibrato_phase(t: np.ndarray) -> np.ndarray:
    return 2.0 * np.pi * (5.0 * t - 1.5 / np.pi * np.cos(np.pi * t))


def gap(T: float, seed: int) -> Record:
    """The same without a twentieth of the time, in one piece."""
    t, y, truth, _ = vibrato(T, seed)
    inside = (t > 0.5 * T) & (t < 0.55 * T)
    return Record(t[~inside], y[~inside], truth, lambda x: (x < 0.5 * T) | (x > 0.55 * T))


def fading(T: float, seed: int) -> Record:
    """A vibrato of slow turns whose amplitude fades to nothing and returns, twenty times."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, T, int(50 * T)))
    size = np.maximum(np.cos(40.0 * np.pi * t / T), 0.0)
    y = size * np.cos(2.0 * np.pi * (5.0 * t - 2.5 / np.pi * np.cos(0.2 * np.pi * t))) + 0.2 * rng.normal(size=len(t))
    return Record(
        t, y, lambda x: 5.0 + 0.5 * np.sin(0.2 * np.pi * x)[:, None], lambda x: np.cos(40.0 * np.pi * x / T) > 0.2
    )


def crossing(T: float, seed: int) -> Record:
    """Two chirps that cross in the middle: 3 to 7 and 7 to 3 cycles a unit."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, T, int(50 * T)))
    phases = 3.0 * t + 2.0 * t**2 / T, 7.0 * t - 2.0 * t**2 / T
    y = np.cos(2.0 * np.pi * phases[0]) + 0.8 * np.cos(2.0 * np.pi * phases[1]) + 0.2 * rng.normal(size=len(t))
    return Record(t, y, lambda x: np.column_stack([3.0 + 4.0 * x / T, 7.0 - 4.0 * x / T]))


def toy(amplitude: str, seed: int) -> Record:
    """chirpgp's toy: 3,141 samples a millisecond apart, 2.8 to 13.2 cycles a second, noise of variance 0.1."""
    rng = np.random.default_rng(1000 + seed)
    t = 0.001 * np.arange(1, 3142)
    size = {"constant": np.ones_like(t), "damped": np.exp(-0.3 * t), "random": np.empty_like(t)}[amplitude]
    if amplitude == "random":  # Ornstein–Uhlenbeck, of lengthscale and standard deviation one
        step = np.exp(-0.001)
        size[0] = rng.normal()
        for k in range(1, len(t)):
            size[k] = step * size[k - 1] + np.sqrt(1.0 - step**2) * rng.normal()
    phase = 500.0 * np.exp(-5.0 / np.sin(t)) + 8.0 * t
    y = size * np.sin(2.0 * np.pi * phase) + np.sqrt(0.1) * rng.normal(size=len(t))

    def truth(x: np.ndarray) -> np.ndarray:
        return (2500.0 * np.cos(x) / np.sin(x) ** 2 * np.exp(-5.0 / np.sin(x)) + 8.0)[:, None]

    return Record(t, y, truth)


SIGNALS: dict[str, Callable[[int], Record]] = {
    "vibrato, 1e3": lambda seed: vibrato(20.0, seed),
    "vibrato, 1e4": lambda seed: vibrato(200.0, seed),
    "vibrato, 1e5": lambda seed: vibrato(2000.0, seed),
    "vibrato, 1e6": lambda seed: vibrato(20_000.0, seed),
    "gap of 5 %, 1e4": lambda seed: gap(200.0, seed),
    "fading, 1e4": lambda seed: fading(200.0, seed),
    "two crossing, 1e4": lambda seed: crossing(200.0, seed),
    "toy, constant": lambda seed: toy("constant", seed),
    "toy, damped": lambda seed: toy("damped", seed),
    "toy, random": lambda seed: toy("random", seed),
}
SEEDS = {name: 20 if name.startswith("toy") else 1 if name.endswith("1e6") else 3 for name in SIGNALS}


def run(name: str, seed: int) -> dict[str, Any]:
    """One fit by default settings, and how its frequencies compare with the truth."""
    record = SIGNALS[name](seed)
    clock = Clock()
    model = sg.SpectralGPRegressor(random_state=seed).fit(record.t, record.y)
    fit = clock.cpu
    x = np.linspace(record.t.min(), record.t.max(), PLACES)
    x = x[np.asarray(record.where(x), bool)]
    band, truth = model.instantaneous_frequency(x), record.truth(x)
    count = truth.shape[1]
    strongest = np.argsort(-np.mean(model.report().local.weight, axis=(0, 1)))[:count]
    parts = [part[:, strongest] for part in band]
    order = np.argsort(parts[0], axis=1)  # only the set of frequencies is known at a time, not which is which
    mean, lower, upper = (np.take_along_axis(part, order, axis=1) for part in parts)
    truth = np.sort(truth, axis=1)
    if mean.shape[1] < count:
        mean, lower, upper = (np.repeat(part[:, :1], count, axis=1) for part in (mean, lower, upper))
    error = np.abs(mean / truth - 1.0)
    return {
        "signal": name,
        "seed": seed,
        "median": float(np.median(error)),
        "90 %": float(np.quantile(error, 0.9)),
        "lost": float(np.mean(error > 0.2)),
        "rmse": float(np.sqrt(np.mean((mean - truth) ** 2))),
        "coverage": float(np.mean((lower <= truth) & (truth <= upper))),
        "components": int(band.mean.shape[1]),
        "seconds": fit,
        "MB": peak_memory(),
        "cut short": model.diagnostics_["cut_short"],
    }


def heart(seed: int) -> dict[str, Any]:
    """Thirty minutes of an electrocardiogram: the rate against that of annotated beats."""
    import pyarrow.parquet as pq

    place = Path(os.environ["SPECTROGP_DATA"]) / "ecg"
    y = pq.read_table(place / "ecg.parquet", columns=["mlii"])["mlii"].to_numpy()
    beats = np.atleast_1d(np.genfromtxt(place / "beats.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"))
    at = np.sort(np.asarray(beats[beats.dtype.names[0]], float))
    clock = Clock()
    model = sg.SpectralGPRegressor(random_state=seed).fit(np.arange(len(y)) / 360.0, y)
    fit = clock.cpu
    cells = 20  # steps of a sum between beats
    x = (at[:-1, None] + np.diff(at)[:, None] * (np.arange(cells) + 0.5) / cells).ravel()
    band = [60.0 * part[:, 0].reshape(-1, cells).mean(axis=1) for part in model.instantaneous_frequency(x)]
    rate, true = band[0], 60.0 / np.diff(at)
    cycles = np.cumsum(np.append(0.0, rate * np.diff(at) / 60.0))
    ten = 600.0 / (at[10:] - at[:-10])
    return {
        "signal": "heart",
        "seed": seed,
        "beat to beat": float(np.mean(np.abs(rate - true))),
        "over ten": float(np.mean(np.abs(6.0 * 10.0 * (cycles[10:] - cycles[:-10]) / (at[10:] - at[:-10]) - ten))),
        "cycles": float(cycles[-1]),
        "beats": len(at) - 1,
        "coverage": float(np.mean((band[1] <= true) & (true <= band[2]))),
        "harmonics": np.max(model.initial_values_.harmonics).item(),
        "seconds": fit,
        "MB": peak_memory(),
        "cut short": model.diagnostics_["cut_short"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: means over seeds."""
    lines = [
        "| signal | seeds | median error | 90 % error | lost | RMSE | coverage | CPU s | MB |",
        "|---" * 9 + "|",
    ]
    for name in SIGNALS:
        some = [row for row in rows if row["signal"] == name]
        if some:
            mean = {
                key: float(np.mean([row[key] for row in some])) for key in some[0] if isinstance(some[0][key], float)
            }
            lines.append(
                f"| {name} | {len(some)} | {mean['median']:.2%} | {mean['90 %']:.1%} | {mean['lost']:.2%} "
                f"| {mean['rmse']:.3f} | {mean['coverage']:.0%} | {mean['seconds']:.0f} | {mean['MB']:.0f} |"
            )
    for row in (row for row in rows if row["signal"] == "heart"):
        lines += [
            "",
            f"Heart rate: mean absolute error {row['over ten']:.2f} a minute over ten beats and "
            f"{row['beat to beat']:.2f} beat to beat; {row['cycles']:.1f} cycles counted of {row['beats']}; "
            f"{row['coverage']:.0%} of the beats inside the 90 % band; {row['harmonics']} harmonics; "
            f"{row['seconds']:.0f} CPU s, {row['MB']:.0f} MB.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Long signals by the default call.")
    parser.add_argument("--only", nargs="*", default=[*SIGNALS, "heart"], choices=[*SIGNALS, "heart"])
    parser.add_argument("--seeds", type=int, default=None, help="at most so many of each")
    parser.add_argument("--quick", action="store_true", help="one seed, and no more than ten thousand samples")
    parser.add_argument("--out", type=Path, default=Path("out/long"))
    options = parser.parse_args()
    sg.cache_compilations()
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / "long.json"
    rows = json.loads(record.read_text(encoding="utf-8"))["rows"] if record.exists() else []
    done = {(row["signal"], row["seed"]) for row in rows}
    for name in options.only:
        if options.quick and (name == "heart" or name.endswith(("1e5", "1e6"))):
            continue
        most = 1 if options.quick else options.seeds
        for seed in range(min(SEEDS.get(name, 1), most or 1000)):
            if (name, seed) not in done:
                rows.append(heart(seed) if name == "heart" else run(name, seed))
                versions = {package: version(package) for package in ("spectrogp", "jax", "scipy")}
                content = {"versions": versions | {"python": platform.python_version()}, "rows": rows}
                record.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
                console.print({key: value for key, value in rows[-1].items() if key != "cut short"})
    text = table(rows)
    (options.out / "long.md").write_text(text, encoding="utf-8")
    console.print(text)


if __name__ == "__main__":
    main()
