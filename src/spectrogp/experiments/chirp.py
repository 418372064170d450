"""The paper's Figure 5: the frequency of a chirp, recovered by an optimum and by draws from the posterior.

One component with functions ℓ, ω, σ of 30 inducing points each, f integrated out exactly; the convolutional spectral
kernel as in the paper, and the chirplet and phase kernels. The paper does not say how large its noise is; here its
standard deviation is 0.1. What is shown as frequency is ξ, the local frequency that the kernel has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import datasets
from ..inference import NUTS, rhat
from ..initialise import InitialValues, find_initial_values, kernel_from, noise_from
from ..models import Data, ExactGP, Gaussian
from ..plots import COLOURS, LEVEL, plain_log_axis
from ..posterior import Band, LocalDraws, Posterior
from . import jobs
from .jobs import Done, Job, Outcome, Row

KERNELS = {"CSK": "convolutional", "Chirplet": "chirplet", "Phase": "phase"}
NOISE, AMPLITUDE = 0.1, 0.5**0.5  # σ is the standard deviation of a sinusoid of amplitude 1
T = np.linspace(-1.5, 1.5, 151)
TRUTH = datasets.true_frequency("chirp", T)[:, 0]
SHOWN = 30  # draws

# How many rows of data, and how long everything runs; the quick version is mostly compilation, so of one kernel.
FULL = {"rows": 400, "n_knots": 30, "steps": 500, "chains": 2, "warmup": 150, "draws": 150, "doublings": 5}
QUICK = {"rows": 80, "n_knots": 10, "steps": 60, "chains": 2, "warmup": 5, "draws": 5, "doublings": 2}
QUICK_ROWS = ("CSK",)


def make(*, quick: bool, seed: int, out: Path, rows: Sequence[str] | None = None) -> tuple[Figure, dict[str, Any]]:
    """Relative errors of the frequency, by kernel: optimum, posterior mean, coverage of the posterior's 90 % band."""
    effort = QUICK if quick else FULL
    signal = datasets.signal("chirp", seed=seed, noise=NOISE, n=effort["rows"])
    data = Data(signal.X, signal.y)
    initial = find_initial_values(signal.X, signal.y, components=1, seed=seed)
    found = {
        name: Row(partial(fitted, data=data, initial=initial), {"kernel": kernel, **effort})
        for name, kernel in KERNELS.items()
    }
    done = jobs.run("chirp", found, out, quick=quick, seed=seed, only=QUICK_ROWS if quick and rows is None else rows)
    numbers = jobs.summary(done)
    error = initial.frequency[:, 0] / datasets.true_frequency("chirp", initial.centres) - 1.0
    numbers["initial_median_error"] = float(np.median(np.abs(error)))
    return _figure(done, data), numbers


def fitted(
    job: Job, *, data: Data, initial: InitialValues, kernel: str, rows: int, n_knots: int, steps: int, **effort: Any
) -> Outcome:
    """One kernel: its optimum and its posterior."""
    del rows  # as many as there are data
    of_optimum, of_draws = jax.random.split(job.key)
    model = ExactGP(kernel_from(initial, kernel, n_knots=n_knots, seed=job.seed), Gaussian(noise_from(initial)))
    optimum = job.maximise(model, data, steps=steps, key=of_optimum, learning_rate=0.03)
    before = job.cost()["cpu_seconds"]
    draws = effort.pop("draws")
    posterior = job.sample(NUTS(**effort), optimum, data, draws=draws, key=of_draws, chunk=10)
    here, draws = (_curves(each.local_functions(T, max_draws=200)) for each in (Posterior.at_point(optimum), posterior))
    scores = _errors(here[0][0], "map") | _errors(np.mean(draws[0], axis=0), "nuts")
    ends = Band.over(draws[0], LEVEL)
    if ends.lower is not None:
        scores["band_coverage"] = float(np.mean(ends.covers(TRUTH)))
        scores["band_half_width"] = float(np.median(0.5 * (ends.upper - ends.lower) / TRUTH))
    chains = draws[0].reshape(len(posterior.log_joint), -1, len(T))
    scores["median_rhat_of_frequency"] = float(np.median(rhat(chains)))
    scores["map_cpu_seconds"] = before
    arrays = {"mean": np.asarray(optimum.predict(data, T).mean)}
    for name, optimal, drawn in zip(("frequency", "lengthscale", "amplitude"), here, draws, strict=True):
        some = np.linspace(0, len(drawn) - 1, min(SHOWN, len(drawn))).astype(int)
        arrays |= {name: optimal[0], f"{name} draws": drawn[some]}
    return Outcome(scores, arrays)


def _curves(here: LocalDraws) -> tuple[np.ndarray, ...]:
    """Frequency, lengthscale and amplitude of the one component, ``[s, t]`` each."""
    return here.frequency[..., 0, 0], np.asarray(here.lengthscale)[..., 0, 0], here.amplitude[..., 0]


def _errors(frequency: np.ndarray, name: str) -> dict[str, float]:
    error = np.abs(frequency / TRUTH - 1.0)
    return {f"{name}_median_error": float(np.median(error)), f"{name}_90th_percentile": float(np.quantile(error, 0.9))}


def _figure(done: dict[str, Done], data: Data) -> Figure:
    """One row for each kernel: data and prediction, frequency, lengthscale, amplitude."""
    figure = Figure(figsize=(7.6, 1.1 + 1.5 * len(done)), layout="constrained")
    rows = figure.subplots(len(done), 4, sharex=True, sharey="col", squeeze=False)
    for row, (name, each) in zip(rows, done.items(), strict=True):
        first, *others = row
        first.plot(data.X[:, 0], data.y, ".", color="0.5", markersize=2.2, markeredgewidth=0, label="data")
        first.plot(T, each.arrays["mean"], color=COLOURS[1], linewidth=0.9)
        first.plot(T, datasets.noiseless("chirp", T), color="black", linestyle="--", linewidth=0.9)
        first.set_ylabel(f"{name}\n$y$")
        truths = {"frequency": TRUTH, "lengthscale": None, "amplitude": np.full_like(T, AMPLITUDE)}
        for panel, (function, truth) in zip(others, truths.items(), strict=True):
            _draw(panel, each.arrays[function], each.arrays[f"{function} draws"], truth)
        others[0].annotate(
            f"MAP error {each.scores['map_median_error']:.1%}\nposterior {each.scores['nuts_median_error']:.1%}",
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
        panel.set(xlabel="$t$", xlim=(T[0], T[-1]))
    found = [*rows[0][0].get_legend_handles_labels(), *rows[0][1].get_legend_handles_labels()]
    figure.legend(found[0] + found[2], found[1] + found[3], loc="outside lower center", ncols=5, markerscale=3.0)
    return figure


def _draw(panel: Axes, optimum: np.ndarray, draws: np.ndarray, truth: np.ndarray | None) -> None:
    for k, draw in enumerate(draws):
        panel.plot(T, draw, color=COLOURS[0], alpha=0.25, linewidth=0.5, label=None if k else "posterior draws (NUTS)")
    panel.plot(T, optimum, color=COLOURS[1], linewidth=1.1, label="optimum (MAP)")
    if truth is not None:
        panel.plot(T, truth, color="black", linestyle="--", linewidth=0.9, label="truth")
