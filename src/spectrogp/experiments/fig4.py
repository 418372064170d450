"""The paper's Figure 4: prior draws of deep Gaussian processes with two inputs, layer after layer."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from matplotlib.figure import Figure

from ..kernels import Layered, covariance_layers, sample_prior
from ..parameters import partition

_DEPTH = 4
_ROWS = {"nsq": "NSQ", "convolutional": "CSK"}


def make(*, quick: bool, seed: int) -> tuple[Figure, dict[str, Any]]:
    """One row for each kernel, one column for each layer of a single draw; numbers: how rough each layer is.

    Every layer is drawn exactly: its inducing inputs are the points of the picture.
    """
    side = 16 if quick else 40
    axis = np.linspace(-1.0, 1.0, side)
    grid = np.stack(np.meshgrid(axis, axis, indexing="xy"), axis=-1).reshape(-1, 2)

    figure = Figure(figsize=(7.2, 3.5), layout="constrained")
    rows = figure.subplots(len(_ROWS), _DEPTH, sharex=True, sharey=True)
    numbers: dict[str, Any] = {}
    for row, (family, title) in zip(rows, _ROWS.items(), strict=True):
        fields = _draw(family, grid, seed)
        for level, (axes, field) in enumerate(zip(row, fields, strict=True)):
            field = field.reshape(side, side)
            limit = np.max(np.abs(field))
            image = axes.imshow(
                field, origin="lower", extent=(-1, 1, -1, 1), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="equal"
            )
            axes.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
            axes.spines[:].set_visible(True)
            figure.colorbar(image, ax=axes, shrink=0.75, pad=0.03).ax.tick_params(labelsize=6)
            if axes.get_subplotspec().is_first_row():
                axes.set_title(f"$f_{level}$" + (rf" given $f_{level - 1}$" if level else ""))
            slopes = np.gradient(field, axis, axis)
            numbers[f"{family}_layer_{level}"] = {
                "standard_deviation": np.std(field),
                "root_mean_square_slope": np.sqrt(np.mean(slopes[0] ** 2 + slopes[1] ** 2)),
            }
        row[0].set_ylabel(f"{title}\n$x_2$")
    for axes in rows[-1]:
        axes.set_xlabel("$x_1$")
    return figure, numbers


def _draw(family: Any, grid: Any, seed: int) -> list[Any]:
    """One draw of f_0, f_1 given f_0, … at the grid: of vector-valued layers the first function."""
    kernel = covariance_layers(grid, depth=_DEPTH, family=family, lengthscale=0.4, frequency=[4.0, -2.0], spread=0.6)
    free, rest = partition(kernel, "latent")
    rng = np.random.default_rng(seed)
    kernel = eqx.combine(jax.tree.map(lambda leaf: rng.normal(size=np.shape(leaf)), free), rest)
    fields: list[Any] = [sample_prior(kernel, grid, key=seed)[0]]
    while isinstance(kernel, Layered):
        layer = kernel.functions
        with jax.enable_x64(True):
            fields.append(np.asarray(layer(grid))[:, 0] / float(layer.amplitude.value))
        kernel = layer.kernel
    return fields[::-1]
