"""The paper's Figure 6: solar irradiance with five gaps, by stationary and non-stationary kernels.

SM and HMK are fitted with inducing points (SGPR) and the functions of NSQ and CSK sampled by SG-HMC, as in the paper;
beside them stand an optimum, doubly stochastic variational inference, and NUTS, with f integrated out exactly. The
settings were chosen on gaps of the same length cut out of the training years.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import equinox as eqx
import jax
import numpy as np
from jax import Array
from matplotlib.figure import Figure
from scipy.signal import find_peaks, lombscargle
from scipy.stats import norm

from .. import datasets
from ..datasets import SOLAR_GAPS, Split
from ..inference import NUTS, SGHMC, rhat, sample_variational
from ..kernels import (
    AbstractKernel,
    Chirplet,
    ConvolutionalSpectral,
    HarmonizableMixture,
    IntegratedPhase,
    NonstationaryQuadratic,
    Phase,
    SpectralMixture,
    SquaredExponential,
)
from ..models import AbstractModel, CollapsedGP, Data, DoublyStochasticGP, ExactGP, Gaussian, Moments
from ..parameters import FunctionGroup, Normal, Positive, Real
from ..plots import COLOURS, decibels, plain_log_axis, plot_spectrogram
from ..posterior import LatentFunctions, LocalFrequency, Outputs, Posterior, Spectrogram
from . import jobs
from .gallery import TWO_PI
from .jobs import Job, Outcome, Row

KernelName: TypeAlias = Literal["SE", "SM", "HMK", "NSQ", "CSK", "chirplet", "phase"]
Inference: TypeAlias = Literal["MAP", "SGPR", "DS-VI", "SG-HMC", "NUTS"]

# A trend, the cycle, and what is irregular in it, in standardised time (of about 110 years). Priors that tell these
# apart let chains agree: two alike components of the cycle exchange their roles.
LENGTHSCALES = np.array([0.3, 0.8, 0.03])
AMPLITUDES = np.array([1.0, 0.25, 0.1])
YEARS = np.linspace(1610.5, 2000.5, 391)
CYCLES = np.linspace(0.0, 0.16, 161)  # per year


# How long everything runs, in full and for a first look: steps of Adam and every how many-th row of the training data;
# then what the ways of inference add.
FULL: dict[str, Any] = {"steps": 600, "every": 1}
FULL_EFFORT: dict[Inference, dict[str, int | float]] = {
    "NUTS": {"chains": 4, "warmup": 100, "draws": 100, "doublings": 5},
    # Half the default step: with close inducing inputs the default ran off during the burn-in.
    "SG-HMC": {"chains": 4, "warmup": 100, "draws": 400, "step_size": 0.05},
    "DS-VI": {"draws": 200},
}
QUICK: dict[str, Any] = {"steps": 10, "every": 6}
QUICK_EFFORT: dict[Inference, dict[str, int | float]] = {
    "NUTS": {"chains": 2, "warmup": 3, "draws": 4, "doublings": 1},
    "SG-HMC": {"chains": 2, "warmup": 1, "draws": 4, "step_size": 0.05},
    "DS-VI": {"draws": 4},
}
MIXED = 200  # draws that predictions mix over

ROWS: dict[str, tuple[KernelName, Inference]] = {
    "SE, MAP": ("SE", "MAP"),
    "SM (3), MAP": ("SM", "MAP"),
    "SM (3), SGPR": ("SM", "SGPR"),
    "HMK (6 × 3), SGPR": ("HMK", "SGPR"),
    "NSQ, SG-HMC": ("NSQ", "SG-HMC"),
    "NSQ, NUTS": ("NSQ", "NUTS"),
    "CSK (3), MAP": ("CSK", "MAP"),
    "CSK (3), DS-VI": ("CSK", "DS-VI"),
    "CSK (3), SG-HMC": ("CSK", "SG-HMC"),
    "CSK (3), NUTS": ("CSK", "NUTS"),
    "chirplet (3), NUTS": ("chirplet", "NUTS"),
    "phase (3), NUTS": ("phase", "NUTS"),
}
QUICK_ROWS = ("SE, MAP", "HMK (6 × 3), SGPR", "CSK (3), SG-HMC")
BEST = ("CSK (3), NUTS", "CSK (3), SG-HMC")  # the first of them that there is shows its functions
SHOWN = ("SE, MAP", "SM (3), SGPR", "HMK (6 × 3), SGPR", "NSQ, SG-HMC", *list(ROWS)[-4:])


def make(*, quick: bool, seed: int, out: Path, rows: Sequence[str] | None = None) -> tuple[Figure, dict[str, Any]]:
    """Test log-likelihood and mean squared error of every model; predictions through the gaps and spectrograms."""
    split, common, efforts = datasets.solar(), QUICK if quick else FULL, QUICK_EFFORT if quick else FULL_EFFORT
    found = {
        name: Row(partial(fitted, split=split), {"kind": kind, "by": by, **common, "effort": efforts.get(by, {})})
        for name, (kind, by) in ROWS.items()
    }
    wanted = QUICK_ROWS if quick and rows is None else rows
    done = jobs.run("solar", found, out, quick=quick, seed=seed, only=wanted)
    return _figure(split, done), jobs.summary(done)


def fitted(
    job: Job, *, split: Split, kind: KernelName, by: Inference, steps: int, every: int, effort: dict[str, Any]
) -> Outcome:
    """One row: a kernel and a way of inference, started at an optimum; scores and curves."""
    data = Data(split.X[::every], split.y[::every])
    of_optimum, of_draws = jax.random.split(job.key)
    best = partial(job.maximise, data=data, key=of_optimum, learning_rate=0.03)
    start = _model(kind, data, sparse=by == "SGPR")
    if by == "DS-VI":
        bound = best(DoublyStochasticGP(start), steps=3 * steps)
        result = sample_variational(bound, data, key=of_draws, **effort)
    else:
        optimum = best(start, steps=steps)
        settings = dict(effort)
        draws = settings.pop("draws", 0)
        if by == "NUTS":
            result = job.sample(NUTS(**settings), optimum, data, draws=draws, key=of_draws)
        elif by == "SG-HMC":  # gradients of all data; hyperparameters by moving-window EM
            sampler = SGHMC(optimise=("hyperparameter",), **settings)
            result = job.sample(sampler, optimum, data, draws=draws, key=of_draws)
        else:
            result = Posterior.at_point(optimum)
    return _outcome(result, data, split, kind)


# Models and inference


def kernel(kind: KernelName, data: Data) -> AbstractKernel:
    """A kernel started at a trend and at the peaks of the spectrum of what it leaves."""
    omega = TWO_PI * frequencies(data)[:, None]
    low, high = float(np.min(data.X)), float(np.max(data.X))
    Z = np.linspace(low, high, 10)[:, None]
    amplitude = FunctionGroup(Z, AMPLITUDES, shape=(3,), mean_std=0.5)
    lengthscale = FunctionGroup(Z, LENGTHSCALES[:, None], shape=(3, 1), mean_std=0.5)
    # A tenth of a frequency: the cycle's length stays between nine and thirteen years.
    frequency = FunctionGroup(Z, omega, shape=(3, 1), amplitude=0.1, mean_std=0.2)
    match kind:
        case "SE":
            return SquaredExponential(Positive.around(0.25), Positive.around(1.0))
        case "SM":
            # Without functions to vary, two components of the cycle do better.
            parts = (np.array([[0.7], [0.7], [0.3]]), omega, np.array([1.0, 0.3, 0.3]))
            return SpectralMixture(*(Positive.around(part) for part in parts))
        case "HMK":
            return _harmonizable(omega, np.linspace(low, high, 6)[:, None])
        case "NSQ":
            return NonstationaryQuadratic(FunctionGroup(Z, 0.1, shape=(1,)), FunctionGroup(Z, 1.0))
        case "CSK":
            return ConvolutionalSpectral(lengthscale, frequency, amplitude)
        case "chirplet":
            return Chirplet(lengthscale, frequency, amplitude)
        case "phase":
            return Phase(lengthscale, IntegratedPhase(frequency, Z[:, 0]), amplitude)


def _harmonizable(omega: np.ndarray, centre: np.ndarray) -> AbstractKernel:
    """Three frequencies at each of the centres, in windows that overlap."""
    gap = centre[1, 0] - centre[0, 0]
    weight = np.broadcast_to(np.diag([0.7, 0.2, 0.2]), (len(centre), 3, 3))
    every = np.broadcast_to(omega, (len(centre), *omega.shape))
    return HarmonizableMixture(
        Real(centre, Normal(centre, 0.1)),
        Real(every, Normal(every, 0.1 * every)),
        Positive.around(0.5),
        Positive.around(gap),
        Real(weight, Normal(0.0, 1.0)),
    )


def _model(kind: KernelName, data: Data, *, sparse: bool) -> AbstractModel:
    noise = Gaussian(Positive.around(0.1))
    if not sparse:
        return ExactGP(kernel(kind, data), noise)
    inducing: Any = Real(np.linspace(np.min(data.X), np.max(data.X), 100)[:, None])
    return CollapsedGP(kernel(kind, data), noise, inducing)


def frequencies(data: Data) -> np.ndarray:
    """Where the components start, in cycles per unit: one cycle in the whole span, and the two highest other peaks."""
    x, span = data.X[:, 0], float(np.ptp(data.X))
    smooth = ExactGP(SquaredExponential(0.25), Gaussian(0.3)).predict(data, data.X).mean
    # Up to half of the average Nyquist frequency, and in steps that no peak can hide between.
    grid = np.arange(2.0, 0.25 * len(x), 0.1) / span
    power = lombscargle(x, data.y - smooth, TWO_PI * grid)
    peaks = find_peaks(power)[0]
    highest = peaks[np.argsort(power[peaks])[::-1][:2]]
    return np.array([1.0 / span, *np.sort(grid[highest])])


# Scores, curves and the figure


def _outcome(result: Posterior, data: Data, split: Split, kind: KernelName) -> Outcome:
    """Scores in standardised units, R-hat of chains, and curves in years and W/m²: quantiles are of 5, 50 and 95 %."""
    X = (YEARS[:, None] - split.input_mean) / split.input_scale
    unit = float(split.input_scale[0])
    drawn = result.thinned(MIXED)
    seen = drawn.map(_Views(data, split.X_test, X, CYCLES * unit, kind))
    flat: dict[str, Any] = {name: np.asarray(values).reshape(-1, *values.shape[2:]) for name, values in seen.items()}
    scores = jobs.scores(Moments(flat["test_mean"], flat["test_variance"]), split.y_test)
    if result.log_joint.shape[0] > 1:
        functions = [np.log(seen[name]) for name in ("lengthscale", "frequency", "amplitude") if name in seen]
        scores["rhat_functions"] = max(float(np.max(rhat(values[:, :, ::80]))) for values in functions)
        scores["rhat_predictions"] = float(np.max(rhat(seen["test_mean"])))

    def quantiles(values: np.ndarray) -> np.ndarray:
        return np.quantile(values, (0.05, 0.5, 0.95), axis=0)

    # Of a mixture of normal distributions: of values at equal steps of probability in each of them.
    steps = norm.ppf((np.arange(20) + 0.5) / 20)[:, None, None]
    outputs = (flat["mean"] + steps * np.sqrt(flat["variance"])).reshape(-1, len(YEARS))
    curves = {
        "output": split.output_mean + split.output_scale * quantiles(outputs),
        "density": split.output_scale**2 * unit * np.mean(flat["density"], axis=0),
    }
    scales = {"frequency": 1.0 / unit, "lengthscale": unit, "amplitude": split.output_scale}
    curves |= {name: scale * quantiles(flat[name]) for name, scale in scales.items() if name in flat}
    if kind == "HMK":
        found = result.at(0, 0).realise().kernel
        curves["centre"] = split.input_mean + unit * np.asarray(found.centre[:, 0])
        curves["frequency"] = np.abs(np.asarray(found.frequency[..., 0])) / (TWO_PI * unit)
    return Outcome(scores, curves)


class _Views(eqx.Module):
    """All that is shown of a model, in one program: outputs at test years and at all, spectrogram, functions."""

    data: Data
    X_test: Any
    X: Any
    frequency: Any
    kind: KernelName = eqx.field(static=True)

    def __call__(self, model: Any) -> dict[str, Array]:
        model = model.realise()
        test, every = (Outputs(self.data, at, 0.0)(model).output for at in (self.X_test, self.X))
        views = {"test_mean": test.mean, "test_variance": test.variance}
        views |= {"mean": every.mean, "variance": every.variance}
        views["density"] = Spectrogram(self.X[::2], self.frequency)(model)
        if self.kind in ("SM", "CSK", "chirplet", "phase"):
            views["frequency"] = LocalFrequency(self.X)(model)
        if self.kind in ("NSQ", "CSK", "chirplet", "phase"):
            functions = LatentFunctions(self.X)(model)
            views |= {name: functions[name].reshape(len(self.X), -1) for name in ("lengthscale", "amplitude")}
        return views


def _figure(split: Split, done: dict[str, jobs.Done]) -> Figure:
    """Predictions through the gaps and spectrograms of the models; lengthscales and amplitudes of CSK."""
    shown = [name for name in SHOWN if name in done]
    figure = Figure(figsize=(9.0, 1.15 * len(shown) + 2.4), layout="constrained")
    heights = [1.0] * len(shown) + [1.4]
    axes = figure.subplots(len(shown) + 1, 2, squeeze=False, height_ratios=heights, width_ratios=[1.5, 1.0])
    for number, (name, (left, right)) in enumerate(zip(shown, axes, strict=False), 1):
        curves, scores = done[name].arrays, done[name].scores
        _prediction(left, split, curves["output"])
        left.set_title(f"({number}a) {name} ({scores['log_likelihood']:.3f})", loc="left")
        image = _spectrogram(right, curves)
        right.set_title(f"({number}b) {_periods(curves)}", loc="left")
        for place in (left, right):
            place.tick_params(labelbottom=number == len(shown))
    best = next((name for name in BEST if name in done), None)
    middle = axes[(len(shown) - 1) // 2]
    middle[0].set_ylabel("irradiance (W/m²)")
    middle[1].set_ylabel("cycles per year")
    axes[0, 0].legend(ncols=4, loc="upper left", fontsize=6, handlelength=1.0, columnspacing=1.0)
    bar = figure.colorbar(
        image, ax=axes[:-1, 1], label="spectrogram (dB below its peak)", ticks=[0, 20, 40], shrink=0.4, aspect=40
    )
    bar.ax.set_yticklabels(["−40", "−20", "0"])
    for place, letter, name, label in zip(axes[-1], "ab", ("lengthscale", "amplitude"), ("years", "W/m²"), strict=True):
        if best is not None:
            _function(place, done[best].arrays, name)
        place.set_title(f"({len(shown) + 1}{letter}) {best}: {name} ({label})", loc="left")
        place.set_xlabel("year")
    return figure


def _prediction(axes: Any, split: Split, quantiles: np.ndarray) -> None:
    low, middle, high = quantiles
    for start, end in SOLAR_GAPS:
        axes.axvspan(start, end, color="0.93", linewidth=0)
    axes.fill_between(YEARS, low, high, color=COLOURS[0], alpha=0.25, linewidth=0, label="90 % of outputs")
    axes.plot(YEARS, middle, color=COLOURS[0], linewidth=0.8, label="median")
    for X, y, colour, label in (
        (split.X, split.y, "0.25", "training years"),
        (split.X_test, split.y_test, COLOURS[1], "test years"),
    ):
        years = X * split.input_scale + split.input_mean
        axes.plot(years, split.output_mean + split.output_scale * y, ".", markersize=1.5, color=colour, label=label)
    axes.set(xlim=(YEARS[0], YEARS[-1]), ylim=(1362.8, 1367.4), yticks=[1363, 1365, 1367])


def _spectrogram(axes: Any, curves: Mapping[str, np.ndarray]) -> Any:
    # The trend's peak is orders of magnitude above the cycle's: decibels show both.
    image = plot_spectrogram(axes, YEARS, CYCLES, decibels(curves["density"]) + 40.0, vmax=40.0)
    if "centre" in curves:
        for centre, found in zip(curves["centre"], curves["frequency"], strict=True):
            axes.plot(np.full(len(found), centre), found, ".", color="white", markersize=3)
    elif "frequency" in curves:
        for band in np.moveaxis(curves["frequency"], 2, 0):
            for quantile, style in zip(band, (":", "-", ":"), strict=True):
                axes.plot(YEARS, quantile, color="white", linewidth=0.7, linestyle=style)
    axes.set(xlim=(YEARS[0], YEARS[-1]), ylim=(0.0, CYCLES[-1]), yticks=[0.0, 0.05, 0.1, 0.15])
    return image


def _periods(curves: Mapping[str, np.ndarray]) -> str:
    """What the learned frequencies are, as periods in years: medians over time."""
    if "frequency" not in curves:
        return "no frequencies"
    found = curves["frequency"] if "centre" in curves else curves["frequency"][1]
    return "periods " + ", ".join(f"{1.0 / value:.3g}" for value in np.median(found, axis=0)) + " years"


def _function(axes: Any, curves: Mapping[str, np.ndarray], name: str) -> None:
    """Median and 90 % band of a function, one colour for each component."""
    for component, colour in enumerate(COLOURS[:3]):
        low, middle, high = curves[name][:, :, component]
        period = 1.0 / np.median(curves["frequency"][1, :, component])
        axes.fill_between(YEARS, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(YEARS, middle, color=colour, label=f"period {period:.3g} years")
    axes.set_xlim(YEARS[0], YEARS[-1])
    plain_log_axis(axes)
    axes.legend(fontsize=6)
