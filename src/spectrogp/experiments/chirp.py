"""The paper's Figure 5: the frequency of a chirp, recovered by an optimum and by draws from the posterior.

One component with functions ℓ, ω, σ of 30 inducing points each, f integrated out exactly; the convolutional spectral
kernel as in the paper, and the chirplet and phase kernels. The paper does not say how large its noise is; here its
standard deviation is 0.1. What is shown as frequency is ξ, the local frequency that the kernel has.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import datasets
from ..data import Data
from ..inference import Posterior, diagnostics, sample_nuts
from ..initialise import Kind, find_start, kernel_from, noise_from
from ..likelihoods import Gaussian
from ..models import AbstractModel, ExactGP
from ..plots import COLOURS, plain_log_axis
from ..reports import Local, band, local_of
from .runs import forget, optimum_of, resumed, timed

KERNELS: dict[Kind, str] = {"convolutional": "CSK", "chirplet": "Chirplet", "phase": "Phase"}
NOISE, AMPLITUDE = 0.1, 0.5**0.5  # σ is the standard deviation of a sinusoid of amplitude 1
SHOWN = 30  # draws


class Effort(NamedTuple):
    """What runs, and for how long."""

    kernels: tuple[Kind, ...]
    rows: int
    inducing: int
    steps: int  # of Adam
    chains: int
    warmup: int
    draws: int
    doublings: int


FULL = Effort(tuple(KERNELS), 400, 30, 500, 2, 150, 150, 5)
QUICK = Effort(("convolutional",), 80, 10, 60, 2, 5, 5, 2)  # most of its time goes into compilation


class Run(NamedTuple):
    """What one kernel gives on a grid of times, by its optimum and by its draws."""

    optimum: AbstractModel
    posterior: Posterior
    at_optimum: Local
    at_draws: Local
    seconds: tuple[float, float]


def make(*, quick: bool, seed: int, out: Path) -> tuple[Figure, dict[str, Any]]:
    """Relative errors of the frequency, by kernel: optimum, posterior mean, coverage of the posterior's 90 % band.

    The chains leave checkpoints in ``out`` until all is done, so that a run that was stopped goes on where it was.
    """
    effort = QUICK if quick else FULL
    signal = datasets.signal("chirp", seed=seed, noise=NOISE, n=effort.rows)
    data = Data.checked(signal.X, signal.y)
    t = np.linspace(-1.5, 1.5, 151)
    start = find_start(signal.X, signal.y, components=1, seed=seed)
    checkpoints = {kind: out / f"chirp.{kind}.checkpoint" for kind in effort.kernels}
    runs: dict[Kind, Run] = {}
    for kind, path in checkpoints.items():
        model = ExactGP(kernel_from(start, kind, inducing=effort.inducing, seed=seed), Gaussian(noise_from(start)))
        runs[kind] = _run(model, data, t[:, None], effort, jax.random.key(seed), path)
    numbers: dict[str, Any] = {KERNELS[kind]: _scores(run, 1.0 + 1.8 * t**2) for kind, run in runs.items()}
    numbers["start_median_error"] = float(
        np.median(np.abs(start.frequency[:, 0] / (1.0 + 1.8 * start.centres**2) - 1.0))
    )
    numbers["settings"] = [f"{name} = {value}" for name, value in effort._asdict().items()]
    numbers["versions"] = [f"{name} {version(name)}" for name in ("jax", "jaxlib", "blackjax", "equinox", "numpy")]
    figure = _figure(runs, data, t, numbers)
    forget(checkpoints.values())
    return figure, numbers


def _run(model: AbstractModel, data: Data, X: np.ndarray, effort: Effort, key: Any, checkpoint: Path) -> Run:
    of_optimum, of_draws = jax.random.split(key)
    optimum, first = timed(lambda: optimum_of(model, data, effort.steps, of_optimum))
    settings = {name: getattr(effort, name) for name in ("chains", "warmup", "draws", "doublings")}
    posterior, second = resumed(sample_nuts, optimum, data, of_draws, checkpoint, chunk=10, **settings)
    return Run(optimum, posterior, local_of(optimum, None, X), local_of(optimum, posterior, X), (first, second))


def _scores(run: Run, truth: np.ndarray) -> dict[str, float]:
    at_optimum, posterior = run.at_optimum.frequency[0, :, 0, 0], band(run.at_draws.frequency[..., 0, 0])
    chains = run.at_draws.frequency[..., 0, 0].reshape(len(run.posterior.log_joint), -1, len(truth))
    scores = {}
    for name, found in (("map", at_optimum), ("nuts", posterior.mean)):
        error = np.abs(found / truth - 1.0)
        scores[f"{name}_median_error"] = float(np.median(error))
        scores[f"{name}_90th_percentile"] = float(np.quantile(error, 0.9))
    if posterior.lower is not None and posterior.upper is not None:
        scores["band_coverage"] = float(np.mean((posterior.lower <= truth) & (truth <= posterior.upper)))
        scores["band_half_width"] = float(np.median(0.5 * (posterior.upper - posterior.lower) / truth))
    scores["median_rhat_of_frequency"] = float(np.median(diagnostics.rhat(chains)))
    scores["map_cpu_seconds"], scores["nuts_cpu_seconds"] = run.seconds
    return scores


def _figure(runs: dict[Kind, Run], data: Data, t: np.ndarray, numbers: dict[str, Any]) -> Figure:
    """One row for each kernel: data and prediction, frequency, lengthscale, amplitude."""
    figure = Figure(figsize=(7.6, 1.1 + 1.5 * len(runs)), layout="constrained")
    rows = figure.subplots(len(runs), 4, sharex=True, sharey="col", squeeze=False)
    for row, (kind, run) in zip(rows, runs.items(), strict=True):
        name = KERNELS[kind]
        first, *others = row
        first.plot(data.X[:, 0], data.y, ".", color="0.5", markersize=2.2, markeredgewidth=0, label="data")
        first.plot(t, run.optimum.predict(data, t[:, None]).mean, color=COLOURS[1], linewidth=0.9)
        first.plot(t, np.cos(2.0 * np.pi * (t + 0.6 * t**3)), color="black", linestyle="--", linewidth=0.9)
        first.set_ylabel(f"{name}\n$y$")
        truths = (1.0 + 1.8 * t**2, None, np.full_like(t, AMPLITUDE))
        curves = _curves(run.at_optimum), _curves(run.at_draws)
        for panel, truth, optimum, draws in zip(others, truths, *curves, strict=True):
            _draw(panel, t, optimum, draws, truth)
        others[0].annotate(
            f"MAP error {numbers[name]['map_median_error']:.1%}\nposterior {numbers[name]['nuts_median_error']:.1%}",
            (0.5, 0.97),
            xycoords="axes fraction",
            ha="center",
            va="top",
            fontsize=7,
        )
        others[0].set_ylim(0.0, 7.5)
        plain_log_axis(others[1])
        others[2].set_ylim(bottom=0.0)
    for panel, title in zip(rows[0], ("prediction", "frequency ξ", "lengthscale ℓ", "amplitude σ"), strict=True):
        panel.set_title(title)
    for panel in rows[-1]:
        panel.set(xlabel="$t$", xlim=(t[0], t[-1]))
    found = [*rows[0][0].get_legend_handles_labels(), *rows[0][1].get_legend_handles_labels()]
    figure.legend(found[0] + found[2], found[1] + found[3], loc="outside lower center", ncols=5, markerscale=3.0)
    return figure


def _curves(here: Local) -> tuple[np.ndarray, ...]:
    """Frequency, lengthscale and amplitude of the one component, ``[s, t]`` each."""
    return here.frequency[..., 0, 0], np.asarray(here.lengthscale)[..., 0, 0], here.amplitude[..., 0]


def _draw(panel: Axes, t: np.ndarray, optimum: np.ndarray, draws: np.ndarray, truth: np.ndarray | None) -> None:
    some = draws[np.linspace(0, len(draws) - 1, min(SHOWN, len(draws))).astype(int)]
    for k, draw in enumerate(some):
        panel.plot(t, draw, color=COLOURS[0], alpha=0.25, linewidth=0.5, label=None if k else "posterior draws (NUTS)")
    panel.plot(t, optimum[0], color=COLOURS[1], linewidth=1.1, label="optimum (MAP)")
    if truth is not None:
        panel.plot(t, truth, color="black", linestyle="--", linewidth=0.9, label="truth")
