"""The paper's Figure 1: a convolutional spectral Gaussian process as a convolution of white noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..kernels import ConvolutionalSpectral, basis_on_grid
from ..plots import COLOURS, plot_draws, plot_kernel_matrix
from .gallery import TWO_PI


def make(*, quick: bool, seed: int) -> tuple[Figure, dict[str, Any]]:
    """Basis functions over the noise, the draw they give, and the kernel matrix; numbers that tie the three."""
    kernel = ConvolutionalSpectral(lambda X: 0.16 + 0.04 * X, lambda X: TWO_PI * (3.0 + 2.0 * X))
    n = 121 if quick else 401
    x = np.linspace(-1.0, 1.0, n)
    marked = np.round(np.linspace(0.1, 0.9, 5) * (n - 1)).astype(int)

    grid, K = (np.asarray(part) for part in basis_on_grid(kernel, x[:, None], refine=4))
    noise = np.random.default_rng(seed).standard_normal((2, K.shape[-1]))
    draw = K[:, 0].real @ noise[0] - K[:, 0].imag @ noise[1]
    covariance = np.asarray(kernel(x[:, None]))
    by_convolution = (K[:, 0] @ np.conj(K[:, 0]).T).real

    figure = Figure(figsize=(7.6, 2.7), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.3, 1.2, 1.0])
    _plot_basis(left, grid[:, 0], K[marked, 0], x[marked], noise)
    _plot_points(middle, x, draw, marked)
    image = plot_kernel_matrix(right, x, covariance)
    right.set(title="(c) kernel matrix", xlabel="input $x$", ylabel="input $x'$")
    right.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    figure.colorbar(image, ax=right, shrink=0.8, label="covariance $k(x, x')$", ticks=[-1, 0, 1])
    return figure, {
        "inputs": x[marked],
        "draw": draw[marked],
        "covariance": covariance[np.ix_(marked, marked)],
        "largest_difference_of_kernel_and_convolution": np.max(np.abs(by_convolution - covariance)),
        "grid_points": len(grid),
    }


def _plot_basis(axes: Any, u: np.ndarray, K: np.ndarray, x: np.ndarray, noise: np.ndarray) -> None:
    """Real parts and envelopes of a few basis functions, above the noise that they weigh."""
    unit = np.max(np.abs(K))
    for centre, values, colour in zip(x, K, COLOURS, strict=False):
        axes.plot(u, values.real / unit, color=colour, linewidth=1.0)
        axes.plot(u, np.abs(values) / unit, color=colour, linewidth=0.6, linestyle=":")
        axes.plot([centre], [0.0], "o", color=colour, markersize=3.5)
    for level, part, name in zip((-1.75, -2.75), noise, ("Re", "Im"), strict=True):
        axes.plot(u, level + 0.13 * part, color="0.55", linewidth=0.4)
        axes.text(-1.28, level + 0.42, rf"white noise $\mathrm{{{name}}}\,g(u)$", fontsize=6.5, color="0.35")
    axes.set(title=r"(a) basis functions $\mathrm{Re}\,K_x(u)$", xlabel="position $u$", xlim=(-1.3, 1.3), yticks=[])
    axes.spines["left"].set_visible(False)


def _plot_points(axes: Any, x: np.ndarray, draw: np.ndarray, marked: np.ndarray) -> None:
    axes.axhline(0.0, color="0.85", linewidth=0.6)
    plot_draws(axes, x, draw)
    axes.lines[-1].set_color("0.3")
    for index, colour in zip(marked, COLOURS, strict=False):
        axes.plot(x[index], draw[index], "o", color=colour, markersize=4)
    axes.set(title=r"(b) draw $f(x)=\mathrm{Re}\int K_x(u)\,g(u)\,du$", xlabel="input $x$", ylabel="$f(x)$")
