"""The paper's Figure 7: monthly air temperature anomalies over latitude, longitude and time, 1988–1993.

Five kernels, each with inducing points as in the paper and with nearest neighbours, and a mixture over several fits of
the best. All settings were chosen on held-out training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from .. import datasets
from ..core import entry_point
from ..datasets import Split
from ..initialise import cluster_centres
from ..kernels import (
    AbstractKernel,
    Chirplet,
    ConvolutionalSpectral,
    NonstationaryQuadratic,
    SpectralMixture,
    SquaredExponential,
)
from ..models import Data, Moments, NeighbourGP, Refresh, VariationalGP, random_order
from ..parameters import FunctionGroup, Normal, Positive, Real
from . import jobs
from .jobs import Job, Outcome, Row

KernelName: TypeAlias = Literal["SE", "SM", "NSQ", "CSK", "chirplet"]
Noise: TypeAlias = Literal["number", "function"]

# Latitude, longitude, time. The weather of a month, near and wide; what stays for years at a place; and in between.
LENGTHSCALES = np.array([[0.2, 0.12, 0.04], [0.5, 0.35, 0.04], [0.15, 0.1, 0.4], [0.3, 0.2, 0.15], [1.0, 0.7, 0.05]])
# Not zero: the kernel is even in its frequencies, so there the gradient would be zero as well.
FREQUENCIES = np.array([[2.0, 1.0, 3.0], [0.5, -1.0, 2.0], [1.0, -1.0, 0.5], [1.0, 1.0, 1.0], [0.5, 0.5, -2.0]])

# Kernel, components at most, and whether the noise is a number or a function too.
KERNELS: dict[str, tuple[KernelName, int, Noise]] = {
    "SE": ("SE", 1, "number"),
    "SE with noise(x)": ("SE", 1, "function"),
    "SM": ("SM", 5, "number"),
    "NSQ": ("NSQ", 1, "function"),
    "CSK": ("CSK", 5, "function"),
    "chirplet": ("chirplet", 5, "function"),
}
INDUCING = {"inducing": 100, "centres": 100, "steps": 1500}
NEIGHBOURS = {"train": 20, "test": 40, "centres": 120, "steps": 350}
QUICK_INDUCING = {"inducing": 20, "centres": 10, "steps": 20}
QUICK_NEIGHBOURS = {"train": 5, "test": 5, "centres": 10, "steps": 20}
BEST = "CSK, neighbours, mixture of three fits"
SHOWN = ("SE, inducing points", "CSK, inducing points", "CSK, neighbours")  # in the figure
QUICK_ROWS = ("SE, inducing points", "CSK, neighbours")

# Cells of five degrees.
LATITUDES, LONGITUDES = np.arange(-87.5, 90.0, 5.0), np.arange(-177.5, 180.0, 5.0)
MAY_1991 = 1991.0 + 4.5 / 12.0
LONDON = (51.5, 0.0)


def make(*, quick: bool, seed: int, out: Path, rows: Sequence[str] | None = None) -> tuple[Figure, dict[str, Any]]:
    """Test log-likelihood and mean squared error of every model; maps of May 1991 and of correlations with London."""
    split = datasets.air()
    wanted = QUICK_ROWS if quick and rows is None else rows
    done = jobs.run("air", models(split, quick), out, quick=quick, seed=seed, only=wanted)
    return _figure(split, done), jobs.summary(done)


# Models


def models(split: Split, quick: bool) -> dict[str, Row]:
    """The rows of the table."""
    if quick:
        split = split.first(400)
    inducing = partial(with_inducing_points, split=split)
    near = partial(with_neighbours, split=split)
    few, close = (QUICK_INDUCING, QUICK_NEIGHBOURS) if quick else (INDUCING, NEIGHBOURS)
    found = {}
    for fit, way, sizes, most in ((inducing, "inducing points", few, 5), (near, "neighbours", close, 3)):
        for name, (kind, components, noise) in KERNELS.items():
            settings = {"kind": kind, "components": min(components, most), "noise": noise}
            found[f"{name}, {way}"] = Row(fit, settings | sizes)
    best = found["CSK, neighbours"].settings
    found[BEST] = Row(near, {**best, "fits": 2 if quick else 3})
    return found


def kernel(kind: KernelName, components: int, Z: np.ndarray) -> AbstractKernel:
    """A kernel whose lengthscales, frequencies and amplitudes are functions (of SE and SM: numbers)."""
    L, W = LENGTHSCALES[:components], FREQUENCIES[:components]
    if kind == "SE":
        # Started at longer lengthscales in time, the fit with inducing points stays in a poor optimum.
        return SquaredExponential(Positive.around([0.3, 0.3, 0.1]), Positive.around(0.8))
    if kind == "SM":
        # A convolution has √2 times the lengthscale of its window.
        frequency: Any = Real(W, Normal(W, 2.0))
        return SpectralMixture(Positive.around(np.sqrt(2.0) * L), frequency, Positive.around(np.full(components, 0.5)))
    function = _functions(Z)
    lengthscale, amplitude = function(L, shape=L.shape), function(0.5, shape=(components,))
    if kind == "NSQ":
        return NonstationaryQuadratic(lengthscale, amplitude)
    make = {"CSK": ConvolutionalSpectral, "chirplet": Chirplet}[kind]
    return make(lengthscale, function(W, shape=W.shape, warp="identity", amplitude=2.0), amplitude)


def _functions(Z: np.ndarray) -> Any:
    return partial(FunctionGroup, Z, lengthscale=[0.4, 0.7, 1.5], amplitude=1.0)


def _noise(noise: Noise, Z: np.ndarray) -> Any:
    return Positive.around(0.5) if noise == "number" else _functions(Z)(0.4)


def _centres(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Centres of clusters of the inputs; what differs between places matters more than what differs between years."""
    slow = np.array([1.0, 1.0, 0.4])
    return cluster_centres(X * slow, count, seed) / slow


# Inference


def with_inducing_points(
    job: Job, *, split: Split, kind: KernelName, components: int, noise: Noise, inducing: int, centres: int, steps: int
) -> Outcome:
    """SVGP: the bound over functions, inducing points and the noise, from minibatches."""
    data = Data(split.X, split.y)
    Z = _centres(split.X, centres, job.seed)
    inducing_inputs: Any = Real(cluster_centres(split.X, inducing, job.seed))
    model = VariationalGP(kernel(kind, components, Z), _noise(noise, Z), inducing_inputs)
    # With Gaussian noise the best q is known in closed form: at the start, and where the steps have left it.
    model = model.with_optimal_posterior(data)
    rate = 0.1 if kind in ("SE", "SM") else 0.05
    model = job.maximise(model, data, steps=steps, batch=min(1024, data.size), learning_rate=rate)
    model = model.with_optimal_posterior(data)
    return _outcome([(model, lambda _: data)], split)


def neighbour_model(
    X: np.ndarray, *, kind: KernelName, components: int, noise: Noise, centres: int, seed: int
) -> NeighbourGP:
    """A kernel and noise whose functions have their values at centres of clusters of the inputs."""
    Z = _centres(X, centres, seed)
    return NeighbourGP(kernel(kind, components, Z), _noise(noise, Z))


def with_neighbours(
    job: Job, *, split: Split, train: int, test: int, steps: int, fits: int = 1, **model_settings: Any
) -> Outcome:
    """MAP with the nearest neighbours by correlation under the current kernel; of several fits their mixture.

    Fits differ in the centres of their functions, in the order of the data, and in the minibatches. The settings of the
    model are those of ``neighbour_model``.
    """
    data = Data(split.X, split.y)
    fitted = []
    for seed in range(job.seed, job.seed + fits):
        model = neighbour_model(split.X, seed=seed, **model_settings)
        refresh = Refresh(data, train, order=random_order(data.size, seed))
        # Many functions follow the noise of small batches; an average over steps does not.
        model = job.maximise(
            model,
            refresh(model),
            refresh=refresh,
            steps=steps,
            key=jax.random.key(seed),
            batch=min(768, data.size),
            learning_rate=0.05,
            average=60,
        )
        fitted.append((model, partial(model.prepare, refresh(model), m=test)))
    return _outcome(fitted, split)


# Scores, maps and the figure


def _outcome(fitted: Sequence[tuple[Any, Callable[[Any], Any]]], split: Split) -> Outcome:
    """Scores of a mixture of models, each with a function that gives the data it needs for predictions at inputs."""

    grid = _inputs(split, *np.meshgrid(LATITUDES, LONGITUDES, indexing="ij"))
    london = _inputs(split, *LONDON)
    X, tests = np.concatenate([split.X_test, grid]), len(split.X_test)
    each = [model.predict_output(given(X), X) for model, given in fitted]
    mean: Any
    variance: Any
    mean, variance = (np.stack([np.asarray(part) for part in parts]) for parts in zip(*each, strict=True))
    arrays = {
        "mean": np.mean(mean[:, tests:], axis=0),
        "correlation": np.mean([_correlation(model.realise().kernel, grid, london) for model, _ in fitted], axis=0),
    }
    return Outcome(jobs.scores(Moments(mean[:, :tests], variance[:, :tests]), split.y_test), arrays)


def _inputs(split: Split, latitude: Any, longitude: Any) -> np.ndarray:
    """Standardised inputs ``[n, 3]`` of places in May 1991."""
    latitude, longitude = np.broadcast_arrays(np.asarray(latitude, float), longitude)
    places = np.column_stack([latitude.ravel(), longitude.ravel(), np.full(latitude.size, MAY_1991)])
    return np.asarray((places - split.input_mean) / split.input_scale)


@entry_point
def _correlation(kernel: AbstractKernel, X: np.ndarray, one: np.ndarray) -> Any:
    """Prior correlation ``[n]`` of f at inputs with f at one of them."""
    p, q = kernel.local(jnp.asarray(X)), kernel.local(jnp.asarray(one))
    return kernel.cross(p, q)[:, 0] / jnp.sqrt(kernel.diagonal(p) * kernel.diagonal(q))


def _figure(split: Split, done: dict[str, jobs.Done]) -> Figure:
    """Maps: readings and predictions of May 1991 on the left, correlations with London on the right."""
    figure = Figure(figsize=(8.4, 8.2), layout="constrained")
    axes = figure.subplots(4, 2, sharex=True, sharey=True)
    X = np.concatenate([split.X, split.X_test]) * split.input_scale + split.input_mean
    y = np.concatenate([split.y, split.y_test])
    now = np.abs(X[:, 2] - MAY_1991) < 0.01
    anomalies = [("readings of May 1991", _on_cells(X[now], y[now]))]
    correlations = [("correlation with London in the readings", _seen_correlation(X, y))]
    for name in SHOWN:
        if name in done:
            LL, mse = (done[name].scores[key] for key in ("log_likelihood", "mse"))
            anomalies.append((f"{name} ({mse:.3f}, {LL:.3f})", done[name].arrays["mean"]))
            correlation = done[name].arrays["correlation"]
            correlations.append((f"{name}: lowest {np.min(correlation):.2f}", correlation))
    anomalies = [(title, split.output_mean + split.output_scale * values) for title, values in anomalies]
    panels: tuple[Any, ...] = (
        (axes[:, 0], "abcd", anomalies, 4.0, {"label": "anomaly (°C)", "extend": "both"}),
        (axes[:, 1], "efgh", correlations, 0.5, {"label": "correlation", "extend": "both"}),
    )
    for places, letters, maps, limit, bar in panels:
        for place, letter, (title, values) in zip(places, letters, maps, strict=False):
            image = _map(place, values, limit)
            place.set_title(f"({letter}) {title}")
        figure.colorbar(image, ax=places, location="bottom", shrink=0.7, aspect=40, pad=0.01, **bar)
    for place in axes[:, 1]:
        place.plot(LONDON[1], LONDON[0], "*", color="black", markersize=5, markeredgewidth=0.3, markeredgecolor="white")
    for place in axes[-1]:
        place.set(xlabel="longitude", xticks=[-120, -60, 0, 60, 120])
    for place in axes[:, 0]:
        place.set(ylabel="latitude", yticks=[-60, -30, 0, 30, 60])
    return figure


def _on_cells(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Values ``[cells]`` of rows that lie on cells, and NaN on the others."""
    values = np.full((len(LATITUDES), len(LONGITUDES)), np.nan)
    values[_cell(X)] = y
    return values.ravel()


def _cell(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    row, column = ((X[:, i] - start[0]) / 5.0 for i, start in enumerate((LATITUDES, LONGITUDES)))
    return np.rint(row).astype(int), np.rint(column).astype(int)


def _seen_correlation(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Correlation ``[cells]`` of the months of each cell with those of London's; NaN where they share few months."""
    months = np.rint((X[:, 2] - 1988.0) * 12.0 - 0.5).astype(int)
    series = np.full((len(LATITUDES), len(LONGITUDES), 72), np.nan)
    series[(*_cell(X), months)] = y
    # London lies on the edge of two cells: the one to the west, or else the one to the east.
    west, east = series[_cell(np.array([[52.5, -2.5], [52.5, 2.5]]))]
    here = np.where(np.isfinite(west), west, east)
    found = np.full(len(LATITUDES) * len(LONGITUDES), np.nan)
    for cell, there in enumerate(series.reshape(-1, 72)):
        both = np.isfinite(here) & np.isfinite(there)
        if np.sum(both) >= 24:
            found[cell] = np.corrcoef(here[both], there[both])[0, 1]
    return found


def _map(axes: Any, values: np.ndarray, limit: float) -> Any:
    """Values of all cells with the coast lines; blue is negative, white zero, red positive."""
    shape = (len(LATITUDES), len(LONGITUDES))
    image = axes.imshow(
        values.reshape(shape), origin="lower", extent=(-180, 180, -90, 90), cmap="RdBu_r", vmin=-limit, vmax=limit
    )
    for line in _coast():
        axes.plot(*line.T, color="0.3", linewidth=0.4)
    axes.spines[:].set_visible(True)
    axes.set_facecolor("0.9")  # no readings
    axes.set(xlim=(-180, 180), ylim=(-90, 90), aspect="auto")
    return image


def _coast() -> list[np.ndarray]:
    """Coast lines, longitude and latitude: Natural Earth 1:110m (public domain), to a quarter of a degree."""
    text = files(__package__).joinpath("coast.txt").read_text(encoding="ascii")
    return [np.array([point.split(",") for point in line.split()], dtype=float) for line in text.splitlines()]
