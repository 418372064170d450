"""Simulation-based calibration of NUTS on a small model with a convolutional spectral kernel.

``python -m benchmarks.calibration --out DIR``. In every replication parameters are drawn from their priors and data
from the model, ``sample_nuts`` draws from the posterior given these data, and the rank of each drawn quantity among the
posterior draws is noted. All ranks must be uniform. Talts et al. (2018).

What is simulated is written here anew, in NumPy, from the definitions: functions by their Gaussian conditional, data by
convolution of white noise (the covariance formula of the kernel is never used). So the ranks also test the kernel, the
functions, their priors with their Jacobians, and the evidence, not only that the sampler draws from what it is given.
A second run over the same data leaves out the Jacobian of the noise: the test must see it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jax import Array
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from scipy.stats import multivariate_normal

from spectrogp import __version__
from spectrogp.data import Data
from spectrogp.inference import diagnostics, sample_nuts
from spectrogp.kernels import ConvolutionalSpectral
from spectrogp.models import ExactGP
from spectrogp.parameters import LogNormal, Positive
from spectrogp.plots import COLOURS, STYLE
from spectrogp.processes import FunctionGroup

from .uniformity import CumulativeTest, chi_square, histogram, histogram_band, ranks

LEVEL = 0.01
QUANTITIES = ("lengthscale", "frequency", "function", "noise", "log likelihood")
TESTS = 2 * len(QUANTITIES)
LABELS = (
    r"lengthscale $\ell(x_*)$",
    r"frequency $\omega(x_*)/2\pi$",
    "function $f(x_*)$",
    "noise $s$",
    r"log likelihood $\log\,p(y\,|\,\theta)$",
)
_REACH = 6.0  # lengthscales that a basis function is integrated over to either side


class Settings(NamedTuple):
    """What a run does; the number of draws kept is one less than a multiple of the bins."""

    replications: int = 500
    control: int = 250  # replications of the control, whose fault is large enough for fewer
    warmup: int = 200
    kept: int = 99
    thin: int = 4
    bins: int = 20
    acceptance: float = 0.9


QUICK = Settings(replications=6, control=6, warmup=60, kept=19, thin=3, bins=2, acceptance=0.8)


# The model


class Problem(NamedTuple):
    """Where the data and the functions are known, and where they are asked for."""

    X: np.ndarray  # [n, 1]
    Z: np.ndarray  # [m, 1]
    star: np.ndarray  # [1, 1]


def problem() -> Problem:
    """Fourteen irregular inputs with a gap, which the place asked for lies in."""
    x = np.concatenate([np.linspace(-1.0, 0.1, 8), np.linspace(0.45, 1.0, 6)])
    x += 0.03 * np.sin(37.0 * np.arange(14))
    return Problem(x[:, None], np.linspace(-1.0, 1.0, 5)[:, None], np.array([[0.3]]))


def model(problem: Problem) -> ExactGP:
    """One component with a varying lengthscale and a varying frequency, and unknown noise; f is integrated out."""
    # Priors are arrays, not numbers: numbers would be part of the program, and a second prior would compile anew.
    lengthscale = FunctionGroup(problem.Z, 0.5, shape=(1, 1), lengthscale=0.8, amplitude=0.3, mean_deviation=0.3)
    frequency = FunctionGroup(
        problem.Z, 2.0 * np.pi * 1.2, shape=(1, 1), lengthscale=0.8, amplitude=0.2, mean_deviation=0.2
    )
    noise = Positive(0.3, LogNormal(np.asarray(0.3), np.asarray(0.4)))
    return ExactGP(ConvolutionalSpectral(lengthscale, frequency), noise)


def without_jacobian(model: ExactGP) -> ExactGP:
    """The same model with the Jacobian of the noise left out.

    A log-normal density without the factor d value / d raw is again log-normal, with its median exp(deviation²) times
    smaller.
    """
    prior = model.likelihood.noise.prior
    median = np.asarray(prior.median * np.exp(-(prior.deviation**2)))
    return eqx.tree_at(lambda m: m.likelihood.noise.prior.median, model, median)


# Parameters from the prior, data from the model: in NumPy, from the definitions


class Parameters(NamedTuple):
    """A draw from the prior: the functions at the inputs and, last, at x*, and the noise."""

    lengthscale: np.ndarray  # [n + 1]
    frequency: np.ndarray  # [n + 1]
    noise: float

    @classmethod
    def draw(cls, model: ExactGP, problem: Problem, rng: np.random.Generator) -> Parameters:
        """Only the numbers in the priors are read off the model."""
        x = np.concatenate([problem.X, problem.star])
        lengthscale = _function(model.kernel.lengthscale, x, rng)
        frequency = _function(model.kernel.frequency, x, rng)
        return cls(lengthscale, frequency, _log_normal(model.likelihood.noise.prior, rng))

    def basis(self, problem: Problem) -> np.ndarray:
        return _basis(np.concatenate([problem.X, problem.star]), self.lengthscale, self.frequency)

    def covariance(self, problem: Problem) -> np.ndarray:
        """Of the outputs, ``[n, n]``: of the basis functions on their grid, and of the noise."""
        K = self.basis(problem)[:-1]
        return (K @ K.conj().T).real + self.noise**2 * np.eye(len(K))


def simulate(model: ExactGP, problem: Problem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The quantities ``[5]`` that the ranks are of, and outputs y ``[n]``."""
    theta = Parameters.draw(model, problem, rng)
    K = theta.basis(problem)
    real, imaginary = rng.standard_normal((2, K.shape[1]))
    f = K.real @ real - K.imag @ imaginary
    y = f[:-1] + theta.noise * rng.standard_normal(len(problem.X))
    log_likelihood = multivariate_normal(cov=theta.covariance(problem)).logpdf(y)
    cycles = theta.frequency[-1] / (2.0 * np.pi)
    return np.array([theta.lengthscale[-1], cycles, f[-1], theta.noise, log_likelihood]), y


def _function(group: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """exp(m + h(x)), where h is interpolated by its Gaussian-process prior from a draw of its values at Z."""
    mean = group.mean.prior.mean + group.mean.prior.deviation * rng.standard_normal()
    lengthscale, amplitude = (_log_normal(p.prior, rng) for p in (group.lengthscale, group.amplitude))

    def covariance(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return amplitude**2 * np.exp(-0.5 * ((x - z.T) / lengthscale) ** 2)

    Kzz = covariance(group.inducing, group.inducing)
    h = rng.multivariate_normal(np.zeros(len(Kzz)), Kzz)
    return np.exp(mean.item() + covariance(x, group.inducing) @ np.linalg.solve(Kzz, h))


def _log_normal(prior: Any, rng: np.random.Generator) -> float:
    return float(prior.median * np.exp(prior.deviation * rng.standard_normal()))


def _basis(x: np.ndarray, lengthscale: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """Basis functions (πℓ²)^(−1/4) exp(−½((u − x)/ℓ)² + iω(u − x)) ``[n, g]`` on a grid, times the root of its cell."""
    centre, reach = x[:, 0], _REACH * lengthscale
    cell = np.pi / np.max(frequency + _REACH / lengthscale)  # fine enough for products of two of them
    t = np.arange(np.min(centre - reach), np.max(centre + reach), cell) - centre[:, None]
    exponent = -0.5 * (t / lengthscale[:, None]) ** 2 + 1j * frequency[:, None] * t
    return np.sqrt(cell) * (np.pi * lengthscale[:, None] ** 2) ** -0.25 * np.exp(exponent)


# Draws from the posterior, by the library


class Seen(eqx.Module):
    """The same quantities of a model at a draw of its parameters; of f the mean and the variance given the data.

    A module, so that the program is compiled once for all data.
    """

    data: Data
    star: Array

    def __call__(self, model: ExactGP) -> Array:
        entered = model.enter()
        mean, variance = entered.moments(self.data, self.star)
        values = [
            entered.kernel.lengthscale(self.star).ravel(),
            entered.kernel.frequency(self.star).ravel() / (2.0 * jnp.pi),
            mean,
            variance,
            entered.likelihood.noise[None],
            entered.log_likelihood(self.data, None)[None],
        ]
        return jnp.concatenate(values)


class Result(NamedTuple):
    """Of all replications: truth ``[r, q]``, thinned draws ``[r, L, q]``, and diagnostics."""

    truth: np.ndarray
    draws: np.ndarray
    ess: np.ndarray  # [r, q], of the draws before they are thinned
    divergences: np.ndarray  # [r]
    gradients: np.ndarray  # [r], a draw
    seconds: float  # of a processor


def replicate(simulated: ExactGP, sampled: ExactGP, settings: Settings, seed: int, index: int) -> tuple[Any, ...]:
    """One replication: a row of every array of ``Result``. It depends on its own index alone, not on those before."""
    where, rng = problem(), np.random.default_rng([seed, index])
    truth, y = simulate(simulated, where, rng)
    data = Data.checked(where.X, y)
    posterior = sample_nuts(
        sampled,
        data,
        draws=settings.kept * settings.thin,
        warmup=settings.warmup,
        chains=1,
        acceptance=settings.acceptance,
        key=jax.random.key(int(rng.integers(2**31))),
        chunk=settings.warmup + settings.kept * settings.thin,
    )
    seen = posterior.map(Seen(data, where.star))[0]
    f = seen[:, 2] + np.sqrt(seen[:, 3]) * rng.standard_normal(len(seen))
    draws = np.column_stack([seen[:, :2], f, seen[:, 4:]])
    return (
        truth,
        draws[settings.thin - 1 :: settings.thin],
        diagnostics.bulk_ess(draws[None]),
        np.sum(posterior.statistics["diverging"]),
        np.mean(posterior.statistics["n_steps"]),
    )


def run(simulated: ExactGP, sampled: ExactGP, settings: Settings, seed: int, count: int, description: str) -> Result:
    """Simulate from one model, sample the posterior of the other: the same, unless a wrong one is to be found out."""
    began = time.process_time()
    indices = track(range(count), description, console=Console(stderr=True))
    rows = [replicate(simulated, sampled, settings, seed, index) for index in indices]
    return Result(*map(np.array, zip(*rows, strict=True)), time.process_time() - began)


# What the ranks say


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
                text = f"p = {_p(verdict.rows[name][kind])}"
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
        "Made by `python -m benchmarks.calibration --out docs` (`make sbc` writes the same below `out/sbc`).",
        "",
        "Parameters are drawn from their priors, data from the model, and `sample_nuts` draws from the posterior given",
        "these data. Over many replications, the rank of each drawn quantity among the posterior draws must be uniform",
        "(Talts et al. 2018). The simulation is written from the definitions in NumPy, by convolution of white noise,",
        "and shares no code with the library; so the ranks test the kernel, the functions, the priors with their",
        "Jacobians, the evidence and the sampler together.",
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
                _p(row["chi_square"]),
                _p(row["cumulative"]),
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
        f"{settings.replications} replications; one chain each, started at the centre of the prior plus jitter; "
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


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def write(out: Path, right: Verdict, wrong: Verdict, settings: Settings, seed: int) -> None:
    """The page, its picture and its numbers, at their places below ``out``."""
    about = {
        "seed": seed,
        "processor": _processor(),
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
    (out / "calibration.md").write_text(report(right, wrong, settings, about), encoding="utf-8")
    (out / "results" / "calibration" / "results.json").write_text(_json(content), encoding="utf-8")


def _json(content: dict[str, Any]) -> str:
    """Indented, but each list on one line."""
    text = json.dumps(content, indent=1)
    return re.sub(r"\[[^\[\]]*\]", lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


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
        console.print(f"{name:15s} p = {_p(row['chi_square'])} (chi-square), {_p(row['cumulative'])} (cumulative)")
    console.print(f"wrote {options.out / 'calibration.md'}", highlight=False)
    if options.quick:
        return 0
    return int(not verdicts[0].calibrated() or verdicts[1].calibrated())


if __name__ == "__main__":
    sys.exit(main())
