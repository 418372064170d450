"""The paper's Figure 2, with two kernels beyond it: draws, kernel matrix and spectrogram of every kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..kernels import sample_prior
from ..plots import plot_draws, plot_kernel_matrix, plot_ridge, plot_spectrogram
from ..spectra import local_spectrum, spectrogram
from .gallery import TWO_PI, frequency, gallery

_TOP = 12.0  # cycles per unit; GSM's biased ridge leaves the others' range


def make(*, quick: bool, seed: int) -> tuple[Figure, dict[str, Any]]:
    """One column for each kernel; numbers: how far its local frequency is from the intended one, and its mass."""
    n = 81 if quick else 241
    x = np.linspace(-1.0, 1.0, n)
    X = x[:, None]
    s = np.linspace(0.0, _TOP, n)
    intended = np.asarray(frequency(X))[:, 0] / TWO_PI
    entries = gallery()

    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    rows = figure.subplots(3, len(entries), sharex=True, height_ratios=[0.7, 1.0, 1.0])
    numbers = {}
    for column, entry in enumerate(entries):
        draws, matrix, picture = rows[:, column]
        covariance = entry.kernel(X)
        density = spectrogram(entry.kernel, X, s)
        spectrum = local_spectrum(entry.kernel, X)

        plot_draws(draws, x, sample_prior(entry.kernel, X, key=seed + column, num_samples=2))
        draws.set(title=entry.title, ylim=(-4.2, 4.2), yticks=[-2, 0, 2])
        plot_kernel_matrix(matrix, x, covariance)
        plot_spectrogram(picture, x, s, density)
        numbers[entry.name] = {
            "smallest_eigenvalue": np.linalg.eigvalsh(covariance)[0],
            "largest_difference_of_total_weight_and_variance": np.max(
                np.abs(np.sum(spectrum.weight, axis=1) - np.diag(covariance))
            ),
        }
        if entry.follows_frequency:
            local = spectrum.frequency[:, 0, 0]
            plot_ridge(picture, x, np.abs(local), label="local frequency")
            plot_ridge(picture, x, intended, label=r"intended $\omega(x)/2\pi$", intended=True)
            numbers[entry.name]["largest_frequency_bias"] = np.max(np.abs(local - intended))
        picture.set(xlabel="$x$", ylim=(0.0, _TOP))
        for axes in rows[:, column][1 if column == 0 else 0 :]:
            axes.tick_params(labelleft=column == 0)
    for axes, label in zip(
        rows[:, 0], ["prior draws", "kernel matrix\n$x'$", "frequency\n(cycles per unit)"], strict=True
    ):
        axes.set_ylabel(label)
    handles, labels = rows[2, 4].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2, frameon=True, facecolor="0.15", labelcolor="white"
    )
    return figure, numbers
