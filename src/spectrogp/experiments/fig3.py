"""The paper's Figure 3: the posterior of a composition of functions has many modes, that of its lengthscale one."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from ..inference import NUTS, rhat, sample
from ..kernels import NonstationaryQuadratic, compositional_layers
from ..models import Data, ExactGP, Gaussian
from ..parameters import FunctionGroup
from ..plots import COLOURS
from ..posterior import Outputs

_NOISE = 0.1
_TITLES = {
    "composition": r"composition, zero mean: $f_0(x)$",
    "monotonic": r"composition, linear mean: $f_0(x)$",
    "covariance": r"covariance function: $\ell(x)$",
}


def make(*, quick: bool, seed: int) -> tuple[Figure, dict[str, Any]]:
    """Draws of the inner function of three two-layer models of one signal, a colour for each chain.

    Numbers: R-hat of the inner function (its median and largest value over x), the distance between the means of the
    chains in units of the spread within one, and how far the predictions of the models agree.
    """
    chains, draws, warmup, doublings = (2, 20, 20, 3) if quick else (6, 300, 300, 6)
    rng = np.random.default_rng(seed)
    X = np.linspace(0.0, 1.0, 40)[:, None]
    data = Data(X, signal(X[:, 0]) + _NOISE * rng.normal(size=len(X)))
    x = np.linspace(0.0, 1.0, 201)

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    panels[0].plot(X[:, 0], data.y, ".", color="0.5", markersize=3, label="data")
    panels[0].plot(x, signal(x), color="black", linewidth=0.8, label="signal")
    numbers: dict[str, Any] = {}
    for axes, colour, (name, model) in zip(panels[1:], COLOURS, _models().items(), strict=False):
        # The starts are draws from the prior; that chains disagree is what is shown.
        sampler = NUTS(warmup=warmup, chains=chains, doublings=doublings, jitter=1.0)
        posterior = sample(sampler, model, data, draws=draws, roles=("latent",), key=seed, warn=False)
        inner = posterior.map(_Inner(x[:, None]))
        mean = np.mean(posterior.map(Outputs(data, x[:, None], 0.0)).function.mean, axis=(0, 1))
        panels[0].plot(x, mean, color=colour, linewidth=1.0, label=_TITLES[name].split(":")[0])
        for chain, chain_colour in zip(inner, COLOURS, strict=False):
            axes.plot(x, chain[:: max(1, draws // 12)].T, color=chain_colour, linewidth=0.5, alpha=0.6)
        values = np.asarray(rhat(inner))
        apart = np.std(np.mean(inner, axis=1), axis=0) / np.mean(np.std(inner, axis=1), axis=0)
        axes.set(title=_TITLES[name], xlabel="$x$")
        axes.text(0.98, 0.97, f"median R-hat {np.median(values):.2f}", transform=axes.transAxes, ha="right", va="top")
        numbers[name] = {
            "median_rhat": np.median(values),
            "largest_rhat": np.max(values),
            "distance_between_chains": np.median(apart),
            "divergences": int(np.sum(posterior.statistics["diverging"])),
            "error_of_the_mean": np.sqrt(np.mean((mean - signal(x)) ** 2)),
        }
    panels[0].set(title="data and posterior means", xlabel="$x$", ylabel="$y$")
    panels[0].legend(loc="lower left", fontsize=6, handlelength=1.0)
    panels[3].set_yscale("log")
    for panel, label in zip(panels, "abcd", strict=True):
        panel.set_title(f"({label})", loc="left", fontweight="bold")
    return figure, numbers


def signal(x: Any) -> Any:
    """Slow at both ends and fast in between: the sine of a phase whose rate peaks at 0.5."""
    return np.sin(2.0 * math.pi * (0.5 * x + 1.0 / (1.0 + np.exp(-(x - 0.5) / 0.06))))


def _models() -> dict[str, ExactGP]:
    """Three models with fixed hyperparameters: what is sampled is the inner function alone."""
    Z = np.linspace(0.0, 1.0, 10)[:, None]
    noise = Gaussian(_NOISE)

    def composition(linear_mean: bool) -> ExactGP:
        kernel = compositional_layers(Z, depth=2, lengthscale=0.3, spread=1.0, linear_mean=linear_mean)
        return ExactGP(kernel, noise)

    lengthscale = FunctionGroup(Z, 0.2, shape=(1,), lengthscale=0.3, amplitude=0.7)
    return {
        "composition": composition(False),
        "monotonic": composition(True),
        "covariance": ExactGP(NonstationaryQuadratic(lengthscale), noise),
    }


class _Inner(eqx.Module):
    """The inner function at inputs: the warp of a composition, the lengthscale of a covariance function."""

    X: Any

    def __call__(self, model: ExactGP) -> Any:
        kernel: Any = model.realise().kernel
        function: Any = kernel.lengthscale if isinstance(kernel, NonstationaryQuadratic) else kernel.warp
        return function(jnp.asarray(self.X))[:, 0]
