"""Tables of several inputs by the estimator as it comes: ``python -m benchmarks.uci`` (``make bench-uci``).

UCI regression sets in the layout of the public ``uci_datasets`` collection, in the directory ``uci`` of
``SPECTROGP_DATA`` (NAME.csv.gz with the target last, NAME_mask.csv.gz with a column for each split, 1 for test rows),
the air and taxi data, and small tables (``small``). All units are standardised by the training rows; NLPD is the mean
negative log predictive density of a test row, noise included, and "inside" the share of test rows in 90 % bands. Beside
it gradient boosting of scikit-learn, whose NLPD takes the noise from a tenth of the training rows that it did not see,
and with the extra ``bench`` GPBoost and GPyTorch (``uci_peers``). Rows are kept one by one in a JSON file, and a run
that was stopped goes on with those that are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from sklearn.ensemble import HistGradientBoostingRegressor

import spectrogp as sg
from spectrogp import datasets

from . import small, uci_peers
from .measure import Clock, peak_memory

console = Console(highlight=False)
PAPER = ("air", "taxi")  # data of the paper, with one split each


class Table(NamedTuple):
    """Training and test rows, standardised by the former."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def read(name: str, split: int) -> Table:
    """A set by its name and the number of its split."""
    if name in small.TABLES:
        fitted, tests = small.standardised(name, split)
        return Table(*fitted, *tests)
    if name in PAPER:
        rows = getattr(datasets, name)()
        return Table(rows.X, rows.y, rows.X_test, rows.y_test)
    place = Path(os.environ["SPECTROGP_DATA"]) / "uci"
    values = np.loadtxt(place / f"{name}.csv.gz", delimiter=",")
    test = np.loadtxt(place / f"{name}_mask.csv.gz", delimiter=",")[:, split] > 0.5
    mean, std = values[~test].mean(axis=0), values[~test].std(axis=0)
    values = (values - mean) / np.where(std > 0, std, 1.0)
    return Table(values[~test, :-1], values[~test, -1], values[test, :-1], values[test, -1])


def ours(table: Table) -> dict[str, Any]:
    """The estimator with nothing set."""
    clock = Clock()
    model = sg.SpectralGPRegressor(random_state=0).fit(table.X, table.y)
    fit = clock.cpu
    density = model.log_predictive_density(table.X_test, table.y_test)
    mean, lower, upper = model.predict(table.X_test, interval=0.9)
    inside = (lower < table.y_test) & (table.y_test < upper)
    scores = {"rmse": float(np.sqrt(np.mean((mean - table.y_test) ** 2))), "nlpd": float(-np.mean(density))}
    scores["inside"] = float(np.mean(inside))
    return scores | {"fit": fit, "predict": clock.cpu - fit, "MB": peak_memory(), "choice": str(model.choice_)}


def boosting(table: Table) -> dict[str, Any]:
    """Gradient boosting, which stops early by rows that it holds out."""
    clock = Clock()
    rows = np.random.default_rng(0).permutation(len(table.y))
    held, rest = rows[: len(rows) // 10], rows[len(rows) // 10 :]
    model = HistGradientBoostingRegressor(max_iter=1000, early_stopping=True, random_state=0)
    model.fit(table.X[rest], table.y[rest])
    variance = float(np.mean((model.predict(table.X[held]) - table.y[held]) ** 2))
    fit = clock.cpu
    scores = _scores(model.predict(table.X_test) - table.y_test, np.full(len(table.y_test), variance))
    return scores | {"fit": fit, "predict": clock.cpu - fit, "MB": peak_memory()}


def peer(fit: Callable[..., uci_peers.Moments], table: Table) -> dict[str, Any]:
    """Another library; its seconds are those of fit and predictions together."""
    clock = Clock()
    mean, variance = fit(table.X, table.y, table.X_test)
    return _scores(mean - table.y_test, variance) | {"fit": clock.cpu, "predict": 0.0, "MB": peak_memory()}


def _scores(error: np.ndarray, variance: np.ndarray) -> dict[str, float]:
    """Those of normal predictions."""
    nlpd = 0.5 * (np.log(2.0 * np.pi * variance) + error**2 / variance)
    inside = np.abs(error) < 1.645 * np.sqrt(variance)
    return {"rmse": float(np.sqrt(np.mean(error**2))), "nlpd": float(np.mean(nlpd)), "inside": float(np.mean(inside))}


MODELS: dict[str, Callable[[Table], dict[str, Any]]] = {
    "spectrogp": ours,
    "boosting": boosting,
    "GPBoost": partial(peer, uci_peers.gpboost),
    "SVGP": partial(peer, uci_peers.svgp),
    "VNNGP": partial(peer, uci_peers.vnngp),
}


def show(rows: list[dict[str, Any]]) -> str:
    """Markdown: means over splits, and standard deviations where there are several."""
    lines = ["| data | model | splits | RMSE | NLPD | inside | fit, CPU s | predict, CPU s | MB |", "|---" * 9 + "|"]
    for name, model in sorted({(row["data"], row["model"]) for row in rows}):
        some = [row for row in rows if (row["data"], row["model"]) == (name, model)]

        def cell(key: str, digits: int, some: list[dict[str, Any]] = some) -> str:
            values = [row[key] for row in some if key in row]
            spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
            return f"{np.mean(values):.{digits}f}{spread}" if values else "–"

        cells = [cell("rmse", 4), cell("nlpd", 3), cell("inside", 3), cell("fit", 0), cell("predict", 0), cell("MB", 0)]
        lines.append(f"| {name} | {model} | {len(some)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables of several inputs by the default call.")
    parser.add_argument("--data", nargs="*", default=["kin40k", "elevators", *PAPER])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--splits", type=int, default=1, help="how many of the splits of a UCI set")
    parser.add_argument("--out", type=Path, default=Path("out/uci"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / "uci.json"
    rows = json.loads(record.read_text(encoding="utf-8"))["rows"] if record.exists() else []
    done = {(row["data"], row["split"], row["model"]) for row in rows}
    for name in options.data:
        for split in range(1 if name in PAPER else options.splits):
            for model in options.models:
                if (name, split, model) in done:
                    continue
                scores = MODELS[model](read(name, split))
                rows.append({"data": name, "split": split, "model": model} | scores)
                versions = {package: version(package) for package in ("spectrogp", "jax", "scikit-learn")}
                content = {"versions": versions | {"python": platform.python_version()}, "rows": rows}
                record.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
                console.print(rows[-1])
    text = show(rows)
    (options.out / "uci.md").write_text(text, encoding="utf-8")
    console.print(text)


if __name__ == "__main__":
    main()
