"""The paper's Table 1: ξ and Λ in closed form and by automatic differentiation, and the exact transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from .. import kernels
from ..core import entry_point
from ..kernels import AbstractKernel
from ..spectra import LocalSpectrum, local_spectrum, spectrogram, wigner
from .gallery import TWO_PI, frequency, lengthscale, phase, warp

_HEADER = (
    "kernel",
    r"$\xi$",
    r"$\Lambda$",
    r"error of $\xi$",
    r"error of $\Lambda$",
    r"$\Lambda/4\pi^2$",
    r"$\Lambda/2\pi^2$",
)
_WIDTHS = (0.18, 0.16, 0.24, 0.105, 0.105, 0.105, 0.105)


class Row(NamedTuple):
    """A kernel; its ξ and Λ in mathematical notation; and their values, one per component, at x."""

    name: str
    xi: str
    curvature: str
    kernel: AbstractKernel
    closed: Callable[[float], tuple[list[Any], list[Any]]]


def rows() -> list[Row]:
    """One row for each kernel, with the functions of the gallery: ω is linear, so ω′ is constant and ω″ = 0."""
    ell, omega, chirp = lengthscale, frequency, TWO_PI * 3.0
    one, two = TWO_PI * 2.0, TWO_PI * 6.0
    half = r"$\frac{1}{2}\ell^{-2}$"
    return [
        Row("SE", "0", r"$\ell^{-2}$", kernels.SquaredExponential(0.2), lambda _: ([0.0], [25.0])),
        Row(
            "SM",
            r"$\omega$",
            r"$\ell^{-2}$",
            kernels.SpectralMixture(0.2, one),
            lambda _: ([one], [25.0]),
        ),
        Row(
            "NSQ",
            "0",
            half,
            kernels.NonstationaryQuadratic(ell),
            lambda x: ([0.0], [0.5 / ell(x) ** 2]),
        ),
        Row(
            "GSK",
            r"$(\omega_b+\omega_c)/2$",
            r"$\ell^{-2}$",
            kernels.GeneralizedSpectral(0.2, one, two, amplitude=0.5),
            lambda _: ([one, 0.5 * (one + two), 0.5 * (one + two), two], [25.0] * 4),
        ),
        Row(
            "GSM",
            r"$\omega+\omega' x$",
            half,
            kernels.GeneralizedSpectralMixture(ell, omega),
            lambda x: ([omega(x) + chirp * x], [0.5 / ell(x) ** 2]),
        ),
        Row(
            "HMK",
            r"$\omega$",
            r"$4\pi^2\Sigma_2=\ell^{-2}+\frac{1}{2}w^{-2}$",
            kernels.HarmonizableMixture([[0.0]], [[[one]]], lengthscale=0.2, window=0.5),
            lambda _: ([one], [25.0 + 0.5 / 0.5**2]),
        ),
        Row(
            "CSK",
            r"$\omega$",
            r"$\frac{1}{2}(\ell^{-2}+\omega'^2\ell^2)$",
            kernels.ConvolutionalSpectral(ell, omega),
            lambda x: ([omega(x)], [0.5 * (ell(x) ** -2 + chirp**2 * ell(x) ** 2)]),
        ),
        Row(
            "CSK, constant ℓ",
            r"$\omega$",
            r"$\frac{1}{2}(\ell^{-2}+\omega'^2\ell^2)$",
            kernels.ConvolutionalSpectral(0.15, omega),
            lambda x: ([omega(x)], [0.5 * (0.15**-2 + chirp**2 * 0.15**2)]),
        ),
        Row(
            "Chirplet (c = ω′)",
            r"$\omega-\frac{1}{4}\ell^2\omega''$",
            half,
            kernels.Chirplet(ell, omega),
            lambda x: ([omega(x)], [0.5 / ell(x) ** 2]),
        ),
        Row("Phase", r"$\phi'$", half, kernels.Phase(ell, phase), lambda x: ([omega(x)], [0.5 / ell(x) ** 2])),
        Row(
            "Deep SE",
            "0",
            r"$f'^2\,\ell^{-2}$",
            kernels.Warped(kernels.SquaredExponential(0.6), warp),
            lambda x: ([0.0], [(3.0 + 2.0 * np.cos(2.0 * x)) ** 2 / 0.6**2]),
        ),
    ]


def make(*, quick: bool, seed: int) -> tuple[Figure, dict[str, Any]]:
    """Errors of automatic differentiation and of the spectrogram; nothing is random, so ``seed`` is not used."""
    del seed
    x = np.linspace(-0.9, 0.9, 3 if quick else 13)
    s = np.linspace(-10.0, 10.0, 61 if quick else 201)
    numbers = {row.name: _errors(row, x, s) for row in rows()}
    return _table(numbers), numbers


def _errors(row: Row, x: np.ndarray, s: np.ndarray) -> dict[str, float]:
    """Largest relative errors over the inputs x: of ξ, of Λ, and of both spectrograms against the Wigner transform."""
    X = x[:, None]
    spectrum = local_spectrum(row.kernel, X)
    xi, curvature = _closed(row, x)
    exact = wigner(row.kernel, X, s)
    peak = np.max(np.abs(exact))
    return {
        "xi_error": np.max(np.abs(spectrum.xi[..., 0] - xi)) / max(1.0, np.max(np.abs(xi))),
        "lambda_error": np.max(np.abs(spectrum.Lambda[..., 0, 0] - curvature)) / np.max(curvature),
        "spectrogram_error": np.max(np.abs(spectrogram(row.kernel, X, s) - exact)) / peak,
        "printed_spectrogram_error": np.max(np.abs(_as_printed(spectrum, s) - exact)) / peak,
    }


@entry_point
def _closed(row: Row, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ξ and Λ ``[n, a]`` in closed form (in float64, as every entry point computes)."""
    xi, curvature = zip(*(row.closed(at) for at in x), strict=True)
    return np.array(xi), np.array(curvature)


def _as_printed(spectrum: LocalSpectrum, s: np.ndarray) -> np.ndarray:
    """The spectrogram with the covariance Λ/(2π²) that the paper prints, for comparison."""
    variance = 2.0 * spectrum.covariance[..., 0, 0, None]
    halves = [np.exp(-0.5 * (s - sign * spectrum.frequency) ** 2 / variance) for sign in (1.0, -1.0)]
    return np.sum(spectrum.weight[..., None] * 0.5 * sum(halves) / np.sqrt(TWO_PI * variance), axis=1)


def _table(numbers: dict[str, dict[str, float]]) -> Figure:
    texts = [
        (row.name, row.xi, row.curvature, *map(_short, errors.values()))
        for row, errors in zip(rows(), numbers.values(), strict=True)
    ]
    figure = Figure(figsize=(9.2, 0.29 * len(texts) + 1.0))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.axis("off")
    axes.text(0.89, 0.955, "spectrogram error with", ha="center", va="center", fontsize=8, weight="bold")
    table = axes.table(
        [_HEADER, *texts],
        colWidths=_WIDTHS,
        cellLoc="center",
        bbox=Bbox.from_bounds(0.01, 0.03, 0.98, 0.89),
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    for (line, column), cell in table.get_celld().items():
        cell.set_fontsize(8)
        cell.set_linewidth(0.8 if line == 0 else 0.2)
        if column == 0:
            cell.set_text_props(ha="left")
        if line == 0:
            cell.set_text_props(weight="bold")
    return figure


def _short(error: float) -> str:
    if error == 0:
        return "0"
    return f"{error:.2f}" if error >= 0.01 else f"{error:.0e}".replace("e-0", "e-")
