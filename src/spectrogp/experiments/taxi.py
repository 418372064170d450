"""The paper's Table 2: durations of New York taxi trips over pickup and dropoff place and the date-time, as one number.

The models of the paper with inducing points, and ours with neighbours. Settings were chosen on a fifth of the training
rows that was held out (``Split.held_out``) or set beforehand; the test rows serve for the scores alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from .. import datasets
from ..datasets import Split
from ..inference import SGHMC, sample_variational
from ..initialise import cluster_centres
from ..kernels import (
    AbstractKernel,
    Chirplet,
    ConvolutionalSpectral,
    NonstationaryQuadratic,
    SpectralMixture,
    SquaredExponential,
    compositional_layers,
)
from ..models import (
    Data,
    DoublyStochasticGP,
    FullScaleGP,
    Gaussian,
    LinearRegression,
    NeighbourGP,
    Refresh,
    SparseGP,
    VariationalGP,
    random_order,
)
from ..parameters import FunctionGroup, Normal, Positive, Real
from ..plots import COLOURS, decibels, plot_spectrogram
from ..spectra import spectrogram
from .jobs import Done, Job, Outcome, Row, outputs, run, scores, summary

# Test log-likelihood and MSE in the paper's Table 2, on its own, larger sample of the same population.
PAPER = {
    "LINEAR": (-1.278, 0.755),
    "VANILLA 100": (-0.847, 0.333),
    "VANILLA 500": (-0.823, 0.314),
    "SM": (-0.805, 0.298),
    "DGP 4": (-0.623, 0.303),
    "NSQ": (-0.580, 0.293),
    "CSK": (-0.576, 0.289),
}
TIME = 4  # the column of the date-time; before it are longitude and latitude of the pickup, then of the dropoff

# Where components start: cycles a day; lengthscales in space and in time, standardised; amplitude. The sums and
# differences of the daily and the weekly cycle (8/7 and 6/7 a day) let the day differ between the working week and its
# end. Models with inducing points have the first four.
COMPONENTS = np.array(
    [
        [0.0, 1.2, 6.0, 1.0],
        [1.0, 1.2, 5.0, 0.4],
        [2.0, 1.2, 5.0, 0.25],
        [1 / 7, 1.2, 5.0, 0.3],
        [0.0, 0.3, 6.0, 0.4],
        [3.0, 0.8, 6.0, 0.15],
        [6 / 7, 0.8, 6.0, 0.2],
        [8 / 7, 0.8, 6.0, 0.2],
    ]
)
_SLOW = np.array([1.0, 1.0, 1.0, 1.0, 0.3])  # functions of the input vary less over the month than over the city


# All twelve rows take minutes even with few data, nearly all of it to compile.
QUICK_ROWS = ("LINEAR", "VANILLA 100", "SM, neighbours")


def make(*, quick: bool, seed: int, out: Path, rows: Sequence[str] | None = None) -> tuple[Figure, dict[str, Any]]:
    """Test log-likelihood and mean squared error of every model."""
    split = datasets.taxi()
    split = split.first(_FEW) if quick else split
    wanted = QUICK_ROWS if quick and rows is None else rows
    done = run("taxi", table(split, quick=quick), out, quick=quick, seed=seed, only=wanted)
    return _figure(done), summary(done)


def table(split: Split, *, quick: bool = False) -> dict[str, Row]:
    """The rows: those of the paper, then ours."""

    def row(fit: Any, **settings: Any) -> Row:
        return Row(partial(fit, split), _quick(settings) if quick else settings)

    def kernel(kind: str, components: int = 4) -> dict[str, Any]:
        return {"kind": kind, "components": components, "centres": 60}

    svi: dict[str, Any] = {"inducing": 100, "batch": 1024, "steps": 1500, "learning_rate": 0.03}
    flexible = {"noise": 60, **svi}
    chain = {"chain": {"chains": 1, "warmup": 60, "draws": 100, "mixed": 50}}
    vanilla = {"kernel": {"kind": "SE"}, **svi, "learning_rate": 0.1}
    near: dict[str, Any] = {"noise": 60, "train": 20, "batch": 512, "steps": 500, "learning_rate": 0.05}
    near |= {"kernel": kernel("SM", components=8)}
    return {
        "LINEAR": row(linear, steps=300),
        "VANILLA 100": row(variational, **vanilla),
        "VANILLA 500": row(variational, **vanilla | {"inducing": 500}),
        "VANILLA 100, noise(x)": row(variational, **vanilla, noise=60),
        "SM": row(variational, kernel={"kind": "SM", "components": 4}, **svi | {"learning_rate": 0.05}),
        "DGP 4": row(deep, depth=4, **svi, **chain),
        "NSQ": row(sampled, kernel=kernel("NSQ"), **flexible, **chain),
        "CSK": row(sampled, kernel=kernel("CSK"), **flexible, **chain),
        "chirplet": row(sampled, kernel=kernel("chirplet"), **flexible, **chain),
        "CSK, DS-VI": row(stochastic, kernel=kernel("CSK"), **flexible, draws=50),
        "SM, neighbours": row(neighbours, **near, test=150),
        "SM, full scale": row(full_scale, **near, inducing=200, test=60),
    }


# What --quick changes, wherever a row has such a setting.
_FEW = 400
_QUICK = {
    "depth": 2,
    "inducing": 10,
    "centres": 8,
    "noise": 8,
    "batch": 64,
    "steps": 10,
    "warmup": 1,
    "chains": 1,
    "mixed": 2,
    "draws": 2,
    "train": 5,
    "test": 8,
}


def _quick(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _quick(value) if isinstance(value, dict) else _QUICK.get(name, value) for name, value in settings.items()
    }


# Rows


def linear(split: Split, job: Job, *, steps: int) -> Outcome:
    """Bayesian linear regression."""
    data = Data(split.X, split.y)
    model = job.maximise(
        LinearRegression(Positive(1.0), Gaussian(Positive(1.0))), data, steps=steps, learning_rate=0.05
    )
    return _scored(model, data, split)


def variational(split: Split, job: Job, **settings: Any) -> Outcome:
    """A sparse variational model (SVGP)."""
    data = Data(split.X, split.y)
    return _scored(_variational(split, data, job, **settings), data, split)


def sampled(split: Split, job: Job, *, chain: dict[str, Any], batch: int, **settings: Any) -> Outcome:
    """Inducing values and functions by SG-HMC from the variational optimum, hyperparameters by moving-window EM."""
    data = Data(split.X, split.y)
    start = _variational(split, data, job, batch=batch, **settings)
    return _drawn(start, data, split, job, batch, pictured=settings["kernel"]["kind"] == "CSK", **chain)


def deep(
    split: Split, job: Job, *, depth: int, inducing: int, steps: int, chain: dict[str, Any], **adam: Any
) -> Outcome:
    """A composition of layers with linear means, sampled in the same way."""
    data = Data(split.X, split.y)
    Z = cluster_centres(split.X, inducing, job.seed)
    kernel = compositional_layers(Z, depth=depth, lengthscale=1.5, amplitude=0.8, spread=0.3)
    start = VariationalGP(kernel, Positive(noise_start(split)), Real(Z))
    start = job.maximise(start.with_optimal_posterior(data), data, steps=steps, **adam)
    return _drawn(start, data, split, job, adam["batch"], **chain)


def stochastic(split: Split, job: Job, *, draws: int, steps: int, batch: int, **settings: Any) -> Outcome:
    """A Gaussian q over all functions as well (doubly stochastic variational inference), from the same optimum."""
    data = Data(split.X, split.y)
    start = _variational(split, data, job, steps=steps, batch=batch, **settings)
    bound = DoublyStochasticGP(start, std=0.05)
    bound = job.maximise(bound, data, steps=steps, batch=batch, learning_rate=0.01)
    posterior = sample_variational(bound, data, draws=draws, key=job.key)
    return Outcome(scores(outputs(posterior, data, split.X_test, max_draws=draws), split.y_test))


def neighbours(split: Split, job: Job, *, test: int, **settings: Any) -> Outcome:
    """f integrated out, every trip given those most correlated with it; more of them for predictions."""
    model, near = _with_neighbours(split, job, **settings)
    scored = scores(outputs(model, model.prepare(near, split.X_test, test), split.X_test), split.y_test)
    return Outcome(scored, _pictures(model.realise().kernel, split))


def full_scale(split: Split, job: Job, *, test: int, inducing: int, **settings: Any) -> Outcome:
    """The same kernel, predicting with inducing points for what is global and neighbours for the rest."""
    model, near = _with_neighbours(split, job, **settings)
    whole = FullScaleGP(model.kernel, model.likelihood, cluster_centres(split.X, inducing, job.seed))
    return Outcome(scores(outputs(whole, whole.prepare(near, split.X_test, test), split.X_test), split.y_test))


def _variational(
    split: Split,
    data: Data,
    job: Job,
    *,
    inducing: int,
    steps: int,
    noise: int = 0,
    kernel: dict[str, Any],
    **adam: Any,
) -> VariationalGP:
    found = kernel_of(split, seed=job.seed, **kernel)
    model = VariationalGP(found, noise_of(split, noise, job.seed), Real(cluster_centres(split.X, inducing, job.seed)))
    model = job.maximise(model.with_optimal_posterior(data), data, steps=steps, **adam)
    # Adam leaves q a little off its best, which is known in closed form.
    return model.with_optimal_posterior(data)


def _drawn(
    start: VariationalGP,
    data: Data,
    split: Split,
    job: Job,
    batch: int,
    *,
    draws: int,
    mixed: int,
    pictured: bool = False,
    **chain: Any,
) -> Outcome:
    sampler = SGHMC(batch=batch, optimise=("hyperparameter",), learning_rate=0.01, jitter=0.02, **chain)
    model = SparseGP(start.kernel, start.likelihood, start.inducing)
    model = eqx.tree_at(lambda m: m.whitened.raw, model, start.mean.raw)
    posterior = job.sample(sampler, model, data, draws=draws)
    parts = outputs(posterior, data, split.X_test, max_draws=mixed)
    temperature = 2.0 * float(np.mean(posterior.statistics["kinetic"]))
    at_start = scores(outputs(start, data, split.X_test), split.y_test)
    optimum = {f"optimum_{key}": value for key, value in at_start.items()}
    return Outcome(
        {**scores(parts, split.y_test), **optimum, "temperature": temperature},
        _pictures(posterior.at(0, -1).realise().kernel, split) if pictured else {},
    )


def _with_neighbours(
    split: Split, job: Job, *, kernel: dict[str, Any], noise: int, train: int, steps: int, **adam: Any
) -> tuple[NeighbourGP, Any]:
    model = NeighbourGP(kernel_of(split, seed=job.seed, **kernel), noise_of(split, noise, job.seed))
    order = random_order(len(split.y), job.seed)
    refresh = Refresh(Data(split.X, split.y), train, order=order)
    model = job.maximise(model, refresh(model), steps=steps, refresh=refresh, **adam)
    return model, refresh(model)


def _scored(model: Any, data: Data, split: Split) -> Outcome:
    return Outcome(scores(outputs(model, data, split.X_test), split.y_test))


# Kernels and noise


def kernel_of(split: Split, *, kind: str, components: int = 1, centres: int = 0, seed: int) -> AbstractKernel:
    """A kernel by its name; those with components start at the cycles of the day and the week."""
    if kind == "SE":
        scales: Any = Positive(np.ones(5))
        size: Any = Positive(0.8)
        return SquaredExponential(scales, size)
    cycles, space, time, amplitude = COMPONENTS[:components].T
    lengthscale = np.column_stack([space, space, space, space, time])
    # In space a little off zero, where the gradient of a frequency is zero.
    frequency = np.random.default_rng(seed).choice([-0.2, 0.2], (components, 5))
    frequency[:, TIME] = 2.0 * np.pi * cycles * split.input_scale[TIME]
    function = functions(split, centres, seed) if centres else None
    strength = function(amplitude, shape=amplitude.shape) if function else Positive.around(amplitude)
    if kind == "SM":
        constant: Any = Real(frequency, Normal(frequency, 0.3))
        return SpectralMixture(Positive.around(lengthscale), constant, strength)
    if function is None:
        raise ValueError(f"{kind} has functions, which need centres")
    # Two equal windows of width ℓ/√2 overlap as a squared exponential of lengthscale ℓ does.
    spread = function(lengthscale / np.sqrt(2.0), shape=lengthscale.shape)
    if kind == "NSQ":
        return NonstationaryQuadratic(spread, strength)
    # Long lengthscales in time make small differences of frequency matter.
    turning = function(frequency, shape=frequency.shape, warp="identity", amplitude=0.1, mean_std=0.3)
    return _WITH_FREQUENCIES[kind](spread, turning, strength)


_WITH_FREQUENCIES: dict[str, Any] = {"CSK": ConvolutionalSpectral, "chirplet": Chirplet}


def functions(split: Split, count: int, seed: int) -> Any:
    """A maker of functions of the input, with values at the centres of clusters."""
    Z = cluster_centres(split.X * _SLOW, count, seed) / _SLOW
    return partial(FunctionGroup, Z, lengthscale=1.0 / _SLOW)


def noise_of(split: Split, count: int, seed: int) -> Any:
    """Noise as a function of the input, or with no centres a constant."""
    start = noise_start(split)
    return functions(split, count, seed)(start) if count else Positive(start)


def noise_start(split: Split) -> float:
    """Two thirds of what a linear function leaves."""
    features = np.column_stack([split.X, np.ones(len(split.y))])
    weights = np.linalg.lstsq(features, split.y)[0]
    return float(np.std(split.y - features @ weights)) * 2.0 / 3.0


# The figure


def _pictures(kernel: AbstractKernel, split: Split) -> dict[str, np.ndarray]:
    """The spectrogram along time of a kernel at a usual trip, with days of the month and cycles a day."""
    days, cycles = np.linspace(0.0, 31.0, 63), np.linspace(0.0, 3.5, 701)
    unit = split.input_scale[TIME]
    X = np.tile(np.median(split.X, axis=0), (len(days), 1))
    first = np.floor(np.min(split.X[:, TIME]) * unit + split.input_mean[TIME])
    X[:, TIME] = (first + days - split.input_mean[TIME]) / unit
    # Lines narrower than a pixel would be lost.
    density = spectrogram(kernel, X, cycles * unit, axis=TIME, resolution=0.01 * unit)
    return {"days": days, "cycles": cycles, "density": np.asarray(density) * unit}


def _figure(done: Mapping[str, Done]) -> Figure:
    """Scores beside the paper's; spectrograms along time."""
    pictures = [row for row in done.values() if "density" in row.arrays][:2]
    figure = Figure(figsize=(7.6, 6.2 if pictures else 3.6), layout="constrained")
    places = ["AB", "CD" if len(pictures) > 1 else "CC"][: 1 + bool(pictures)]
    parts = figure.subplot_mosaic(";".join(places), height_ratios=[1.3, 1.0][: len(places)])
    _show_scores(parts["A"], done, "log_likelihood", 0, "test log-likelihood (more is better)")
    _show_scores(parts["B"], done, "mse", 1, "test MSE (less is better)")
    parts["B"].tick_params(labelleft=False)
    handles, labels = parts["A"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    image = None
    for place, shown in zip("CD", pictures, strict=False):
        # The peak at zero is orders of magnitude above the others: decibels show both.
        depth = decibels(shown.arrays["density"], 50.0) + 50.0
        image = plot_spectrogram(parts[place], shown.arrays["days"], shown.arrays["cycles"], depth, vmax=50.0)
        parts[place].set(title=f"{shown.record['row']}: spectrogram in time", xlabel="day of January 2016")
        parts[place].set_ylabel("cycles a day")
    if image is not None:
        bar = figure.colorbar(image, ax=[parts[place] for place in "CD"[: len(pictures)]], ticks=[0, 25, 50])
        bar.ax.set_yticklabels(["−50", "−25", "0 dB"])
    return figure


def _show_scores(axes: Any, done: Mapping[str, Done], key: str, column: int, label: str) -> None:
    """A dot for each row, the paper's beside it."""
    names = list(done)
    place = np.arange(len(names))[::-1]
    ours = [done[name].scores[key] for name in names]
    known = [(PAPER[name][column], y) for name, y in zip(names, place, strict=True) if name in PAPER]
    axes.hlines(place, 0, 1, transform=axes.get_yaxis_transform(), color="0.9", linewidth=0.6, zorder=0)
    axes.axvline(_PEER[column], color="0.5", linewidth=0.8, linestyle="--", label="GPyTorch, deep GP of two layers")
    axes.plot(ours, place, "o", color=COLOURS[0], markersize=5, label="here")
    if known:
        axes.plot(*zip(*known, strict=True), "D", markersize=4, fillstyle="none", color=COLOURS[1], label="paper")
    for value, y in zip(ours, place, strict=True):
        text = f"{value:.3f}".replace("-", "−")
        axes.annotate(text, (value, y), (0, 5), textcoords="offset points", ha="center", fontsize=6)
    if key == "mse":
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.12)
    axes.set(xlabel=label, ylim=(-0.7, len(names) - 0.3))
    axes.set_yticks(place, names)
    axes.tick_params(axis="y", length=0)


_PEER = (-0.651, 0.232)  # on this split: benchmarks.accuracy
