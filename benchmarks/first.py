"""What scientists try first, by the estimator as it comes: ``python -m benchmarks.first`` (``make bench-first``).

Real series whose truth is known (``SPECTROGP_DATA``), simulated stars with one-day aliases, chirps of many lengths, and
signals in which nothing oscillates. All with default settings; beside them what people use instead, where that is
installed: Lomb–Scargle (astropy), autoregression and SARIMA (statsmodels), a quasi-periodic Gaussian process
(scikit-learn). Rows are kept one by one in a JSON file, and a run that was stopped goes on with those that are missing.

A signal is *right* where every frequency that is known to be there is found as closely as the case says, *said* where
the warnings of the fit name the failure, and *wrong* otherwise. ``--figures`` draws the overview of every fit, and
forecasts, into the same directory.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import unicodedata
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

import spectrogp as sg

from . import first_peers
from .measure import Clock

console = Console(highlight=False)


def columns(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Time in years and values of one of the real series."""
    rows = np.genfromtxt(
        Path(os.environ["SPECTROGP_DATA"]) / "first" / name, delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    first, second = rows.dtype.names
    t = rows[first]
    if t.dtype.kind == "U":
        t = 1970.0 + np.asarray(t, "datetime64[D]").astype(float) / 365.2425
    keep = np.isfinite(rows[second])
    return np.asarray(t, float)[keep], np.asarray(rows[second], float)[keep]


def heart(seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times and voltages of the beginning of an electrocardiogram, and its annotated beats."""
    import pyarrow.parquet as pq

    place = Path(os.environ["SPECTROGP_DATA"]) / "ecg"
    y = pq.read_table(place / "ecg.parquet", columns=["mlii"])["mlii"].to_numpy()[: int(360 * seconds)]
    beats = np.genfromtxt(place / "beats.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    at = np.sort(np.asarray(beats["seconds"], float))
    return np.arange(len(y)) / 360.0, y, at[at < seconds]


def star(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A thousand nights in three years with a season each, within three hours of midnight; a period near 0.94 days."""
    rng = np.random.default_rng(5000 + seed)
    night = np.sort(rng.choice(np.concatenate([365 * k + np.arange(240) for k in range(5)]), 1000, replace=False))
    t = night + rng.uniform(-0.125, 0.125, len(night))
    f = 1.0 / rng.uniform(0.93, 0.95)
    error = rng.uniform(0.5, 1.5, len(t)) * 0.02
    y = 12.0 + 0.025 * np.cos(2.0 * np.pi * (f * t + rng.uniform())) + error * rng.normal(size=len(t))
    return t, y, error, f


def nothing(kind: str, seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """A signal in which nothing oscillates."""
    rng = np.random.default_rng(9000 + seed)
    t = np.arange(n, dtype=float) if seed % 2 else np.sort(rng.uniform(0.0, n, n))
    if kind == "white noise":
        return t, rng.normal(size=n)
    if kind == "trend":
        return t, 3.0 * t / n + rng.normal(size=n) * 0.5
    shocks = rng.normal(size=n)
    if kind == "random walk":
        return t, np.cumsum(shocks)
    y = np.empty(n)  # red noise: correlated over 3 to 30 samples
    keep = np.exp(-1.0 / (3.0 * 10.0 ** rng.uniform()))
    y[0] = shocks[0]
    for k in range(1, n):
        y[k] = keep * y[k - 1] + np.sqrt(1.0 - keep**2) * shocks[k]
    return t, y


# One case each: a row of figures


def fitted(t: np.ndarray, y: np.ndarray, error: np.ndarray | None = None) -> tuple[Any, dict[str, Any]]:
    """The default fit, which the row has too, its frequencies at the rows, and what it cost and said."""
    clock = Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sg.SpectralGPRegressor(random_state=0).fit(t, y, error)
    row: dict[str, Any] = {"seconds": clock.cpu, "rows": len(t), "warnings": list(model.warnings_), "model": model}
    found = np.asarray(model.instantaneous_frequency(np.sort(t)[:: max(1, len(t) // 2000)]).mean)
    row["frequencies"] = [[float(v) for v in np.quantile(f, [0.0, 0.5, 1.0])] for f in found.T]
    return model, row


def judged(row: dict[str, Any], right: bool) -> dict[str, Any]:
    return row | {"verdict": "right" if right else "said" if row["warnings"] else "wrong"}


def known(name: str, lines: dict[float, float], band: tuple[float, float] | None = None) -> dict[str, Any]:
    """Whether steady frequencies are found throughout, each within a share of itself, and one between two others."""
    t, y = columns(name)
    _, row = fitted(t, y)
    tones = row["frequencies"]
    right = all(any(max(abs(v / f - 1.0) for v in tone) < share for tone in tones) for f, share in lines.items())
    right &= band is None or any(band[0] <= tone[1] <= band[1] for tone in tones)
    row["others"] = first_peers.frequencies(t, y, None, len(lines) + (band is not None))
    return judged(row, right)


def forecast(train: str, test: str, output: str) -> dict[str, Any]:
    """How rows after the end are predicted, from those before."""
    (t, y), (later, truth) = columns(train), columns(test)
    model, row = fitted(t, y)
    mean, lower, upper = model.predict(later, interval=LEVEL)
    inside = (lower <= truth) & (truth <= upper)
    far = model.predict(np.linspace(t[-1], t[-1] + 2.0 * np.ptp(t), 200))
    row |= {"rmse": float(np.sqrt(np.mean((mean - truth) ** 2))), "coverage": float(np.mean(inside))}
    row["beyond"] = float(np.max(np.abs(far - np.mean(y))) / np.ptp(y))  # of the range of the data
    others = first_peers.forecasts(t, y, later, truth)
    return (
        row
        | {"verdict": "", "later": (later, truth, output)}
        | {f"rmse of {name}": rmse for name, rmse in others.items()}
    )


def rate(seconds: float) -> dict[str, Any]:
    """The heart rate against annotated beats, over ten of them."""
    t, y, at = heart(seconds)
    model, row = fitted(t, y)
    many = min(10, len(at) - 1)
    true = 60.0 * many / (at[many:] - at[:-many])
    cells = 20
    x = (at[:-1, None] + np.diff(at)[:, None] * (np.arange(cells) + 0.5) / cells).ravel()
    frequency = np.asarray(model.instantaneous_frequency(x).mean)
    if frequency.shape[1]:
        each = frequency[:, 0].reshape(-1, cells).mean(axis=1) * np.diff(at)
        cycles = np.cumsum(np.append(0.0, each))
        row["bpm off"] = float(
            np.mean(np.abs(60.0 * (cycles[many:] - cycles[:-many]) / (at[many:] - at[:-many]) - true))
        )
    return judged(row, row.get("bpm off", np.inf) < 1.0)


def stars(seed: int) -> dict[str, Any]:
    t, y, error, f = star(seed)
    _, row = fitted(t, y, error)
    found = row["frequencies"][0][1] if row["frequencies"] else np.nan
    row["error"] = abs(found / f - 1.0)
    try:
        from astropy.timeseries import LombScargle

        grid = np.arange(1e-3, 5.0, 0.1 / np.ptp(t))
        row["error of Lomb–Scargle"] = abs(float(grid[np.argmax(LombScargle(t, y, error).power(grid))]) / f - 1.0)
    except ImportError:
        pass
    alias = any("alias" in sentence for sentence in row["warnings"])
    return row | {"verdict": "right" if row["error"] < 1e-4 else "said" if alias else "wrong"}


def chirp(n: int) -> dict[str, Any]:
    """From 1 to 2.5 cycles a unit, 20 rows a unit, noise 0.2."""
    rng = np.random.default_rng(n)
    t = np.sort(rng.uniform(0.0, n / 20.0, n))
    y = np.cos(2.0 * np.pi * (t + 0.75 * t**2 / (n / 20.0))) + 0.2 * rng.normal(size=n)
    model, row = fitted(t, y)
    x = np.linspace(t[0], t[-1], 2000)
    frequency = np.asarray(model.instantaneous_frequency(x).mean)
    truth = 1.0 + 1.5 * x / (n / 20.0)
    row["error"] = float(np.median(np.abs(frequency[:, 0] / truth - 1.0))) if frequency.shape[1] else np.nan
    return judged(row, row["error"] < 3e-3)


def null(kind: str, seed: int) -> dict[str, Any]:
    _, row = fitted(*nothing(kind, seed))
    return row | {"verdict": "wrong" if row["frequencies"] else "right"}


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "CO₂, monthly: 1 and 2 cycles a year": lambda: known("co2m_train.csv", {1.0: 0.002, 2.0: 0.0025}),
    "CO₂, weekly: 1 and 2 cycles a year": lambda: known("co2_raw.csv", {1.0: 0.002, 2.0: 0.0025}),
    "CO₂, forecast of six years": lambda: forecast("co2m_train.csv", "co2m_test.csv", "CO₂ (ppm)"),
    "El Niño: the annual line and 2 to 7 years": lambda: known("elnino.csv", {1.0: 0.005}, (1 / 7.5, 0.55)),
    "NINO3: the annual line and 2 to 7 years": lambda: known("nino.csv", {1.0: 0.005}, (1 / 7.5, 0.55)),
    "sunspots: 10 to 12 years": lambda: known("sunspots.csv", {}, (1 / 12.0, 1 / 10.0)),
    "sunspots, forecast of 29 years": lambda: forecast("sunspots_train.csv", "sunspots_test.csv", "sunspot number"),
    "heart, 10 s": lambda: rate(10.0),
    "heart, 60 s": lambda: rate(60.0),
    "heart, 30 min": lambda: rate(1806.0),
    **{f"star {seed}": lambda seed=seed: stars(seed) for seed in range(20)},
    **{f"chirp, {n} rows": lambda n=n: chirp(n) for n in (200, 1000, 5000, 20_000, 100_000)},
    **{
        f"{kind} {seed}": lambda kind=kind, seed=seed: null(kind, seed)
        for kind in ("white noise", "red noise", "trend", "random walk")
        for seed in range(50)
    },
}
LONG = ("heart, 30 min", "chirp, 100000 rows")
LEVEL = 0.9  # of intervals of forecasts


def draw(row: dict[str, Any], path: Path) -> None:
    """The overview of a fit, or its forecast beside what came."""
    if "later" not in row:
        row["model"].plot().savefig(path, dpi=80)
        return
    (later, truth, output), model = row["later"], row["model"]
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    ax = figure.subplots()
    x = np.asarray(model.data_.X)[:, 0] * model.X_scale_[0] + model.X_mean_[0]
    y = np.asarray(model.data_.y) * model.y_scale_ + model.y_mean_
    shown = x > later[0] - 3.0 * np.ptp(later)
    ahead = np.linspace(later[0], later[-1], 400)
    mean, lower, upper = model.predict(ahead, interval=LEVEL)
    ax.plot(x[shown], y[shown], ".", color="0.4", ms=4, label="fitted to")
    ax.fill_between(ahead, lower, upper, alpha=0.25, color="C0", lw=0, label=f"{LEVEL:.0%} of new values")
    ax.plot(ahead, mean, color="C0", label="forecast")
    ax.plot(later, truth, ".", color="C3", ms=4, label="what came")
    ax.set(xlabel="year", ylabel=output, title=row["case"])
    ax.legend(loc="upper left", fontsize=8, ncols=4)
    figure.savefig(path, dpi=80)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: cases one by one, and of those with seeds how many are right."""
    text = ["| data | rows | verdict | found (median) | figures | others find | CPU s | warnings |", "|---" * 8 + "|"]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        many = row["case"].rsplit(" ", 1)[0] if row["case"].split()[-1].isdigit() else ""
        if many:
            kinds.setdefault(many, []).append(row)
            continue
        found = ", ".join(f"{part[1]:.4g}" for part in row["frequencies"])
        keys = ("error", "bpm off", "rmse", "coverage", "beyond", *(k for k in row if k.startswith("rmse of")))
        figures = ", ".join(f"{key} {row[key]:.3g}" for key in keys if key in row)
        others = "; ".join(
            f"{tool}: {', '.join(f'{f:.4g}' for f in tones)}" for tool, tones in row.get("others", {}).items()
        )
        text.append(
            f"| {row['case']} | {row['rows']} | {row['verdict']} | {found} | {figures} | {others} "
            f"| {row['seconds']:.0f} | {len(row['warnings'])} |"
        )
    text += ["", "| simulated | signals | right | said | wrong | CPU s, median |", "|---" * 6 + "|"]
    for kind, some in kinds.items():
        counts = [sum(row["verdict"] == verdict for row in some) for verdict in ("right", "said", "wrong")]
        seconds = np.median([row["seconds"] for row in some])
        text.append(f"| {kind} | {len(some)} | {counts[0]} | {counts[1]} | {counts[2]} | {seconds:.1f} |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="What scientists try first, by the default call.")
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=50, help="at most so many of each kind")
    parser.add_argument("--figures", action="store_true", help="draw every fit")
    parser.add_argument("--quick", action="store_true", help="without the long records")
    parser.add_argument("--out", type=Path, default=Path("out/first"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / "first.json"
    rows = json.loads(record.read_text(encoding="utf-8"))["rows"] if record.exists() else []
    done = {row["case"] for row in rows}
    for name, case in CASES.items():
        last = name.split()[-1]
        wanted = name.startswith(tuple(options.only)) and not (last.isdigit() and int(last) >= options.seeds)
        if name in done or not wanted or (options.quick and name in LONG):
            continue
        row = {"case": name} | case()
        if options.figures:
            plain = unicodedata.normalize("NFKD", name.lower()).encode("ascii", "ignore").decode()  # ₂ is 2, ñ is n
            draw(row, options.out / f"{re.sub('[^a-z0-9]+', '-', plain).strip('-')}.png")
        rows.append({key: value for key, value in row.items() if key not in ("model", "later")})
        versions = {package: version(package) for package in ("spectrogp", "jax", "scipy")}
        content = {"versions": versions | {"python": platform.python_version()}, "rows": rows}
        record.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        console.print({key: value for key, value in rows[-1].items() if key != "rows"})
    text = table(rows)
    (options.out / "first.md").write_text(text, encoding="utf-8")
    console.print(text)


if __name__ == "__main__":
    main()
