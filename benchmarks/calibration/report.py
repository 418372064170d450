"""What the ranks say: p-values, the figure, the page of the documentation, and the numbers."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from spectrogp import __version__
from spectrogp.plots import COLOURS, STYLE

from ..measure import processor
from .page import write_part
from .simulation import QUANTITIES, Result, Settings, problem
from .uniformity import CumulativeTest, chi_square, histogram, histogram_band, ranks

LEVEL = 0.01
TESTS = 2 * len(QUANTITIES)
LABELS = (
    r"lengthscale $\ell(x_*)$",
    r"frequency $\omega(x_*)/2\pi$",
    "function $f(x_*)$",
    "noise $s$",
    r"log likelihood $\log\,p(y\,|\,\theta)$",
)


class Verdict(NamedTuple):
    """Of one run: ranks ``[r, q]``, p-values of both tests for each quantity, and how good the draws were."""

    ranks: np.ndarray
    rows: dict[str, dict[str, float]]
    divergences: dict[str, float]
    seconds: float

    def smallest(self, quantity: str) -> float:
        """The smaller of the two p-values."""
        return min(self.rows[quantity]["chi_square"], self.rows[quantity]["cumulative"])

    def calibrated(self) -> bool:
        """Whether all tests pass together: a perfect sampler fails for at most ``LEVEL`` of seeds (Bonferroni)."""
        return min(map(self.smallest, QUANTITIES)) >= LEVEL / TESTS


def judge(result: Result, settings: Settings) -> Verdict:
    found = ranks(result.truth, result.draws)
    test = CumulativeTest.of(len(found), settings.kept)
    centred = result.draws - np.mean(result.draws, axis=1, keepdims=True)
    echo = np.mean(centred[:, 1:] * centred[:, :-1], axis=1) / np.mean(centred**2, axis=1)
    rows = {
        name: {
            "chi_square": chi_square(found[:, q], settings.kept, settings.bins),
            "cumulative": test.p_value(found[:, q]),
            "ess_median": float(np.median(result.ess[:, q])),
            "ess_5_percent": float(np.quantile(result.ess[:, q], 0.05)),
            "autocorrelation_kept": float(np.mean(echo[:, q])),
        }
        for q, name in enumerate(QUANTITIES)
    }
    divergences = {
        "of_all_draws": float(np.sum(result.divergences) / (result.draws.shape[1] * settings.thin * len(found))),
        "replications_with_any": float(np.mean(result.divergences > 0)),
        "gradients_a_draw": float(np.mean(result.gradients)),
    }
    return Verdict(found, rows, divergences, result.seconds)


def picture(right: Verdict, wrong: Verdict, settings: Settings) -> Figure:
    """Above, histograms of ranks; below, their cumulative fractions minus the expected ones; grey is the 99 % band."""
    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    rows = figure.subplots(2, len(QUANTITIES), sharey="row", sharex=True)
    r, top, bins = settings.replications, settings.kept, settings.bins
    test = CumulativeTest.of(r, top)
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.concatenate([[0.0], test.expected(), [1.0]])
    limits = np.pad(test.band(LEVEL) / r - test.expected(), ((0, 0), (1, 1)))
    low, high = histogram_band(r, bins, LEVEL)
    runs = ((wrong, COLOURS[1], "control: Jacobian of the noise left out"), (right, COLOURS[0], "NUTS"))
    for q, (name, label) in enumerate(zip(QUANTITIES, LABELS, strict=True)):
        above, below = rows[:, q]
        above.axhspan(low, high, color="0.9", linewidth=0)
        below.fill_between(place, *limits, color="0.9", linewidth=0, label=f"where uniform ranks stay, {1 - LEVEL:.0%}")
        for verdict, colour, title in runs:
            count = len(verdict.ranks)
            bars = histogram(verdict.ranks[:, q], top, bins) * (r / count)
            above.stairs(bars, edges, color=colour, linewidth=1.0 if verdict is right else 0.7)
            cumulative = test.cumulative(verdict.ranks[:, q]) / count - test.expected()
            below.plot(place, np.pad(cumulative, 1), color=colour, linewidth=1.2, label=title)
        above.stairs(bars, edges, fill=True, color=COLOURS[0], alpha=0.25)
        for axes, level in ((above, r / bins), (below, 0.0)):
            axes.axhline(level, color="0.4", linewidth=0.6, linestyle=":")
        for axes, kind in ((above, "chi_square"), (below, "cumulative")):
            for height, (verdict, colour, _) in zip((0.03, 0.13), runs, strict=True):
                text = f"p = {p_text(verdict.rows[name][kind])}"
                axes.text(0.03, height, text, color=colour, fontsize=7, transform=axes.transAxes)
        above.set_title(label)
        below.set(xlabel="rank / largest rank", xlim=(0.0, 1.0), xticks=[0.0, 0.5, 1.0], xticklabels=["0", "0.5", "1"])
    rows[0, 0].set_ylabel("replications in a bin")
    rows[1, 0].set_ylabel("cumulative fraction\nminus expected")
    figure.legend(*rows[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def report(right: Verdict, wrong: Verdict, settings: Settings, about: dict[str, Any]) -> str:
    """The page of the documentation."""
    lines = [
        "# Calibration of the sampler",
        "",
        f"Made by `python -m benchmarks.calibration --seed {about['seed']} --out docs` (`make sbc` writes the same",
        "below `out/sbc`).",
        "",
        "Parameters are drawn from their priors, data from the model, and `NUTS` draws from the posterior given",
        "these data. Over many replications, the rank of each drawn quantity among the posterior draws must be uniform",
        "(Talts et al. 2018). The simulation is written from the definitions in NumPy, by convolution of white noise,",
        "and shares no code with the library; so the ranks test the kernel, the functions, the priors with their",
        "Jacobians, the marginal likelihood and the sampler together.",
        "",
        "The model: `ExactGP` (f is integrated out) with a `ConvolutionalSpectral` kernel of one component whose",
        "lengthscale and frequency are `FunctionGroup`s (five inducing values and three hyperparameters each), unknown",
        f"noise, and {len(problem().X)} irregular inputs; 17 numbers are sampled. All quantities are at x* = "
        f"{problem().star.item()}, inside a gap of",
        "the data. The log likelihood is ranked as well, since it depends on the data (Modrák et al. 2023).",
        "",
        "![Rank histograms and cumulative differences](images/calibration.png)",
        "",
        "Above: ranks in bins. Below: the cumulative fraction of ranks minus the expected one. Grey: where all bars,",
        "or the whole line, of uniform ranks stay with a probability of 99 %. Orange is a control that must leave it:",
        f"the first {settings.control} data sets, sampled with the Jacobian of the noise left out (bars scaled).",
        "",
        "## p-values",
        "",
        f"Pearson's chi-square on {settings.bins} bins, and the simultaneous test on cumulative counts (Säilynoja et",
        f"al. 2022), each at {LEVEL:.0%}.",
        "",
        "| quantity | chi-square | cumulative | | control: chi-square | cumulative | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in QUANTITIES:
        cells = [name]
        for verdict in (right, wrong):
            row = verdict.rows[name]
            cells += [
                p_text(row["chi_square"]),
                p_text(row["cumulative"]),
                "passed" if verdict.smallest(name) >= LEVEL else "**failed**",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"A perfect sampler fails one of these {TESTS} tests for up to {TESTS * LEVEL:.0%} of seeds. All together,",
        f"at {LEVEL:.0%} (no p-value below {LEVEL / TESTS:g}, after Bonferroni): **{_word(right)}**.",
        f"The control, which must fail: **{_word(wrong)}**.",
        "",
        "## The draws",
        "",
        f"{settings.replications} replications; one chain each, started at a draw of the Laplace approximation at the "
        "centre of the prior; "
        f"{settings.warmup} steps of warm-up, then {settings.kept * settings.thin}",
        f"draws, of which every {settings.thin}th is kept ({settings.kept}); target acceptance {settings.acceptance}.",
        "",
        "| quantity | effective draws, median | 5 % quantile | lag-1 autocorrelation of kept draws |",
        "|---|---|---|---|",
    ]
    for name in QUANTITIES:
        row = right.rows[name]
        lines.append(
            f"| {name} | {row['ess_median']:.0f} | {row['ess_5_percent']:.0f} | {row['autocorrelation_kept']:.3f} |"
        )
    share = right.divergences
    lines += [
        "",
        f"Divergent: {share['of_all_draws']:.2%} of draws, in {share['replications_with_any']:.0%} of replications. "
        f"Gradients a draw: {share['gradients_a_draw']:.1f}.",
        "",
        f"Seed {about['seed']}; {about['processor']}; "
        + ", ".join(f"{package} {version}" for package, version in about["versions"].items())
        + ".",
        f"Processor time {right.seconds:.0f} s, and {wrong.seconds:.0f} s for the control. All ranks, and the record",
        "of all full runs, are in [results/calibration](results/calibration/README.md).",
        "",
        "## References",
        "",
        "- Talts, Betancourt, Simpson, Vehtari & Gelman (2018). Validating Bayesian inference algorithms with",
        "  simulation-based calibration. arXiv:1804.06788.",
        "- Säilynoja, Bürkner & Vehtari (2022). Graphical test for discrete uniformity and its applications in",
        "  goodness-of-fit evaluation and multiple sample comparison. Statistics and Computing 32.",
        "- Modrák et al. (2023). Simulation-based calibration checking for Bayesian computation: the choice of test",
        "  quantities shapes sensitivity. Bayesian Analysis.",
    ]
    return "\n".join(lines) + "\n"


def _word(verdict: Verdict) -> str:
    return "passed" if verdict.calibrated() else "failed"


def p_text(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def write(out: Path, right: Verdict, wrong: Verdict, settings: Settings, seed: int) -> None:
    """The page, its picture and its numbers, at their places below ``out``."""
    about = {
        "seed": seed,
        "processor": processor(),
        "versions": {"spectrogp": __version__, "python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in ("jax", "blackjax", "numpy", "scipy")},
    }
    content = about | {"settings": settings._asdict(), "level": LEVEL}
    for name, verdict in (("nuts", right), ("control", wrong)):
        listed = {quantity: verdict.ranks[:, q].tolist() for q, quantity in enumerate(QUANTITIES)}
        content[name] = verdict._asdict() | {"ranks": listed}
    for directory in (out / "images", out / "results" / "calibration"):
        directory.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        picture(right, wrong, settings).savefig(out / "images" / "calibration.png")
    write_part(out / "calibration.md", "sampler", report(right, wrong, settings, about))
    (out / "results" / "calibration" / "results.json").write_text(_json(content), encoding="utf-8")


def _json(content: dict[str, Any]) -> str:
    """Indented, but each list on one line."""
    text = json.dumps(content, indent=1)
    return re.sub(r"\[[^\[\]]*\]", lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"
