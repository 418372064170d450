"""The paper's Figure 6 with posteriors: solar irradiance with five gaps, by an optimum and by three ways to average.

A convolutional spectral kernel with three components, whose lengthscales, frequencies and amplitudes are all functions
of time; f is integrated out exactly. The settings were chosen on gaps of the same length cut out of the training years.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from matplotlib.figure import Figure
from scipy.signal import find_peaks, lombscargle
from scipy.special import logsumexp
from scipy.stats import norm

from .. import datasets
from ..data import Data
from ..inference import Posterior, diagnostics, sample_nuts, sample_sghmc
from ..kernels import ConvolutionalSpectral, SpectralMixture, SquaredExponential
from ..likelihoods import Gaussian, Moments
from ..models import AbstractModel, DoublyStochasticGP, ExactGP
from ..parameters import LogNormal, Positive
from ..plots import COLOURS, plain_log_axis, plot_spectrogram
from ..processes import FunctionGroup
from .gallery import TWO_PI
from .runs import forget, optimum_of, resumed, timed

LENGTHSCALES = np.array([0.5, 0.5, 0.2])  # in standardised time, of about 110 years
AMPLITUDES = np.array([1.0, 0.3, 0.3])


class Effort(NamedTuple):
    """How long everything runs, and how many of the training rows there are for it."""

    every: int  # training row
    steps: int  # of Adam
    chains: int
    warmup: int
    draws: int
    doublings: int
    burn_in: int
    sghmc_steps: int
    mixed: int  # draws that predictions mix over


FULL = Effort(1, 600, 4, 150, 150, 6, 2000, 8000, 400)
QUICK = Effort(4, 20, 2, 5, 5, 2, 20, 50, 10)


def make(*, quick: bool, seed: int, out: Path) -> tuple[Figure, dict[str, Any]]:
    """Test log-likelihood and mean squared error of every way of inference, from the same start.

    The chains leave checkpoints in ``out`` until all is done, so that a run that was stopped goes on where it was.
    """
    effort = QUICK if quick else FULL
    split = datasets.solar()
    data = Data.checked(split.X[:: effort.every], split.y[:: effort.every])
    model = convolutional(data)
    of_optimum, of_nuts, of_sghmc, of_bound, of_mixture = jax.random.split(jax.random.key(seed), 5)
    checkpoints = [out / f"solar.{name}.checkpoint" for name in ("nuts", "sghmc")]

    def approximate() -> Posterior:
        bound = optimum_of(DoublyStochasticGP(model), data, 3 * effort.steps, of_bound)
        return Posterior.of_variational(bound, data, draws=effort.mixed, key=of_bound)

    optimum, at_optimum = timed(lambda: optimum_of(model, data, effort.steps, of_optimum))
    runs: dict[str, tuple[Any, float]] = {
        "spectral mixture, MAP": timed(lambda: optimum_of(stationary(data), data, effort.steps, of_mixture)),
        "CSK, MAP": (optimum, at_optimum),
        "CSK, DS-VI": timed(approximate),
        "CSK, NUTS": by_nuts(optimum, data, effort, of_nuts, checkpoints[0]),
        "CSK, SG-HMC": by_sghmc(optimum, data, effort, of_sghmc, checkpoints[1]),
    }
    numbers: dict[str, Any] = {
        name: {**_scores(result, data, split, effort.mixed), "cpu_seconds": seconds}
        for name, (result, seconds) in runs.items()
    }
    numbers["settings"] = [f"{name} = {value}" for name, value in effort._asdict().items()]
    numbers["versions"] = [f"{name} {version(name)}" for name in ("jax", "jaxlib", "blackjax", "equinox", "numpy")]
    figure = _figure(runs["CSK, NUTS"][0], data, split, numbers, effort.mixed)
    forget(checkpoints)
    return figure, numbers


# Models and inference


def convolutional(data: Data) -> AbstractModel:
    """Three components, started at a trend and at the peaks of the spectrum of what it leaves."""
    frequency = frequencies(data)
    Z = np.linspace(np.min(data.X), np.max(data.X), 20)[:, None]
    kernel = ConvolutionalSpectral(
        FunctionGroup(Z, LENGTHSCALES[:, None], shape=(3, 1)),
        # A tenth of a frequency: the cycle's length stays between nine and thirteen years.
        FunctionGroup(Z, TWO_PI * frequency[:, None], shape=(3, 1), amplitude=0.1, mean_deviation=0.2),
        FunctionGroup(Z, AMPLITUDES, shape=(3,)),
    )
    return ExactGP(kernel, Gaussian(_positive(0.1)))


def stationary(data: Data) -> AbstractModel:
    """The same without functions: a spectral mixture, from the same start."""
    start = (np.sqrt(2.0) * LENGTHSCALES[:, None], TWO_PI * frequencies(data)[:, None], AMPLITUDES)
    lengthscale, frequency, amplitude = (_positive(value) for value in start)
    return ExactGP(SpectralMixture(lengthscale, frequency, amplitude), Gaussian(_positive(0.1)))


def _positive(start: Any) -> Any:
    return Positive(start, LogNormal(start, 1.0))


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


def by_nuts(
    optimum: AbstractModel, data: Data, effort: Effort, key: Array, checkpoint: Path
) -> tuple[Posterior, float]:
    """Draws of all functions and hyperparameters by NUTS, and seconds."""
    settings: dict[str, Any] = {
        "draws": effort.draws,
        "warmup": effort.warmup,
        "doublings": effort.doublings,
        "chunk": 5,
    }
    settings["roles"] = ("latent", "hyperparameter")
    return resumed(sample_nuts, optimum, data, key, checkpoint, chains=effort.chains, **settings)


def by_sghmc(
    optimum: AbstractModel, data: Data, effort: Effort, key: Array, checkpoint: Path
) -> tuple[Posterior, float]:
    """Draws of the functions by SG-HMC with gradients of all data; hyperparameters by moving-window EM."""
    # Half the default step: with 20 close inducing inputs a function the default ran off during the burn-in.
    settings = {"steps": effort.sghmc_steps, "burn_in": effort.burn_in, "chunk": 5, "step_size": 0.05}
    roles = {"roles": ("latent",), "optimise": ("hyperparameter",)}
    return resumed(sample_sghmc, optimum, data, key, checkpoint, chains=effort.chains, **settings, **roles)


# Scores and the figure


def _scores(result: Any, data: Data, split: datasets.Split, mixed: int) -> dict[str, float]:
    """Standardised, means over test points; for chains also R-hat, the largest over functions and over predictions."""
    # R-hat needs the predictions at every draw, so the mixture of them is taken here, from the same ones.
    sampled, predict = isinstance(result, Posterior), _Outputs(data, split.X_test)
    outputs = result.thinned(mixed).map(predict) if sampled else predict(result)
    densities = norm.logpdf(split.y_test, outputs.mean, np.sqrt(outputs.variance)).reshape(-1, len(split.y_test))
    mean = outputs.mean.reshape(densities.shape).mean(axis=0)
    scores = {
        "log_likelihood": float(np.mean(logsumexp(densities, axis=0) - np.log(len(densities)))),
        "mse": float(np.mean((mean - split.y_test) ** 2)),
    }
    if sampled and len(outputs.mean) > 1:
        inputs = np.linspace(np.min(data.X), np.max(data.X), 5)[:, None]
        functions = [result.map(_Values(name, inputs)) for name in ("lengthscale", "frequency", "amplitude")]
        scores["rhat_functions"] = max(float(np.max(diagnostics.rhat(values))) for values in functions)
        scores["rhat_predictions"] = float(np.max(diagnostics.rhat(outputs.mean)))
    return scores


class _Outputs(eqx.Module):
    """Mean and variance of outputs at inputs."""

    data: Data
    X: Any

    def __call__(self, model: Any) -> Moments:
        moments: Moments = model.predict_output(self.data, self.X)
        return moments


class _Values(eqx.Module):
    """A function of the kernel at inputs."""

    name: str = eqx.field(static=True)
    X: Any

    def __call__(self, model: Any) -> Array:
        return jnp.asarray(getattr(model.enter().kernel, self.name)(jnp.asarray(self.X)))


def _figure(posterior: Posterior, data: Data, split: datasets.Split, numbers: dict[str, Any], mixed: int) -> Figure:
    """Prediction through the gaps; the spectrogram; lengthscales and amplitudes. Lines and bands of 90 %."""
    unit = float(split.input_scale[0])
    years = np.linspace(1610.5, 2000.5, 391)
    X = (years[:, None] - split.input_mean) / split.input_scale
    figure = Figure(figsize=(7.6, 6.4), layout="constrained")
    parts = figure.subplot_mosaic("AA;BB;CD", height_ratios=[1.0, 0.9, 0.8])

    def irradiance(y: Any) -> Any:
        return split.output_mean + split.output_scale * np.asarray(y)

    low, middle, high = irradiance(posterior.quantiles_output(data, X, most=mixed))
    top = parts["A"]
    top.fill_between(years, low, high, color=COLOURS[0], alpha=0.25, linewidth=0, label="90 % of outputs")
    top.plot(years, middle, color=COLOURS[0], linewidth=1.0, label="posterior median")
    for rows, y, colour, label in (
        (data.X, data.y, "0.25", "training years"),
        (split.X_test, split.y_test, COLOURS[1], "test years"),
    ):
        top.plot(rows * unit + split.input_mean, irradiance(y), ".", markersize=2.2, color=colour, label=label)
    scores = numbers["CSK, NUTS"]
    top.set(
        title=f"(a) prediction: test log-likelihood {scores['log_likelihood']:.3f}, MSE {scores['mse']:.3f}",
        ylabel="irradiance (W/m²)",
        xlim=(years[0], years[-1]),
    )
    top.legend(ncols=4, loc="upper left")

    s = np.linspace(0.0, 0.16, 161)
    density = posterior.spectrogram(X[::2], s * unit, most=mixed).mean * split.output_scale**2 * unit
    # The trend's peak is orders of magnitude above the cycle's: decibels show both.
    decibels = 10.0 * np.log10(np.maximum(density, 1e-12))
    image = plot_spectrogram(parts["B"], years, s, decibels - np.max(decibels) + 40.0)
    found = posterior.local_frequency(X, most=mixed).quantiles[..., 0] / unit
    for component in range(found.shape[2]):
        for quantile, style in zip(found[:, :, component], (":", "-", ":"), strict=True):
            parts["B"].plot(years, quantile, color="white", linewidth=0.8, linestyle=style)
    parts["B"].set(
        title="(b) posterior mean of the spectrogram, local frequencies with 90 % bands",
        ylabel="cycles per year",
        xlabel="year",
    )
    figure.colorbar(image, ax=parts["B"], label="dB", ticks=[0, 20, 40]).ax.set_yticklabels(["−40", "−20", "0"])

    for place, name, scale, label in (
        ("C", "lengthscale", unit, "(c) lengthscale (years)"),
        ("D", "amplitude", split.output_scale, "(d) amplitude (W/m²)"),
    ):
        quantiles = posterior.summary(_Values(name, X), most=mixed).quantiles
        curves = scale * quantiles.reshape(3, len(years), 3)
        for component, colour in enumerate(COLOURS[:3]):
            low, middle, high = curves[:, :, component]
            period = 1.0 / np.median(found[1, :, component])
            parts[place].fill_between(years, low, high, color=colour, alpha=0.2, linewidth=0)
            parts[place].plot(years, middle, color=colour, label=f"period {period:.3g} years")
        parts[place].set(title=label, xlabel="year", xlim=(years[0], years[-1]))
        plain_log_axis(parts[place])
    handles, labels = parts["C"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
