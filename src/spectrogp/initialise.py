"""Where a fit begins: frequencies, lengthscales, amplitudes and noise found from the data, and kernels that start there.

In one dimension the frequencies are ridges of a windowed Lomb–Scargle periodogram (``ridges``). In several dimensions
they are plane waves, found one after the other in what a smooth fit and the waves before leave over. Stationary kernels
start from the spectrum of the whole data. All of it in the units of the inputs and outputs that are given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import numpy as np
from jax import Array
from scipy.cluster.vq import kmeans2
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import qmc

from . import kernels
from .data import Data
from .inference import Fit, maximise
from .kernels import AbstractKernel
from .parameters import LogNormal, Normal, Positive, Real, constrain
from .processes import FunctionGroup, realise
from .ridges import CENTRES, find_ridges, frequency_grid
from .spectra import local_spectrum

Kind = Literal["se", "nsq", "sm", "gsm", "hmk", "convolutional", "chirplet", "phase"]

ROWS = 1500  # of the data are looked at, at most: drawn at random from larger ones
LATENT_LENGTHSCALES = (1.0, 0.7, 0.5, 0.35, 0.25)  # tried for the functions, in standard deviations of the inputs


@dataclass(frozen=True)
class Spectrum:
    """Peaks of the spectrum of the whole data: centre and standard deviation ``[q, d]`` in cycles per unit, amplitude."""

    frequency: np.ndarray
    bandwidth: np.ndarray
    amplitude: np.ndarray


@dataclass(frozen=True)
class Start:
    """What was found in the data; c centres, a components, d input dimensions, frequencies in cycles per unit.

    ``amplitude`` is the standard deviation σ of a component, that of a sinusoid over √2. ``worth`` (nats) is how much
    the data say about the frequency at a centre: zero in gaps and where nothing significant was found.
    """

    centres: np.ndarray  # [c, d]
    frequency: np.ndarray  # [c, a, d]
    amplitude: np.ndarray  # [c, a]
    lengthscale: np.ndarray  # [c, a, d]
    worth: np.ndarray  # [c, a]
    noise: float
    spectrum: Spectrum
    smooth_lengthscale: np.ndarray  # [d], of the best squared-exponential fit
    scale: np.ndarray  # [d], standard deviation of the inputs
    extent: np.ndarray  # [2, d], smallest and largest inputs
    band: np.ndarray  # [2, d], lowest and highest frequency looked at
    spread: float  # standard deviation of the outputs
    rows: int

    @property
    def found(self) -> np.ndarray:
        """Whether a component is significant anywhere, ``[a]``."""
        return np.asarray(np.any(self.worth > 0, axis=0))

    def __str__(self) -> str:
        lines = [f"{int(self.found.sum())} components in {self.rows} rows, noise {self.noise:.3g}"]
        lines += [
            f"input {d}: looked from {low:.3g} to {high:.3g} cycles per unit"
            for d, (low, high) in enumerate(self.band.T)
        ]
        for a, found in enumerate(self.found):
            if not found:
                lines.append(f"component {a + 1}: nothing significant; starts at {_range(self.frequency[:, a])}")
                continue
            seen = self.worth[:, a] > 0
            share = f", seen at {np.mean(seen):.0%} of the centres" if np.mean(seen) < 1 else ""
            sigma = _range(self.amplitude[seen, a, None])
            lines.append(f"component {a + 1}: {_range(self.frequency[seen, a])} cycles per unit, σ {sigma}{share}")
        return "\n".join(lines)

    def following(self, kernel: AbstractKernel) -> Start:
        """This start with the local frequencies, lengthscales and amplitudes of a fitted kernel: how one kernel goes on
        from where another ended."""
        kernel = realise(constrain(kernel))
        spectrum = local_spectrum(kernel, self.centres)
        if spectrum.frequency.shape != self.frequency.shape:
            raise ValueError(f"the kernel has {spectrum.frequency.shape[1]} components, the start {self.frequency.shape[1]}")
        sign = np.where(spectrum.frequency[..., :1] < 0, -1.0, 1.0) if self.centres.shape[1] == 1 else 1.0
        # Λ = ½ ℓ⁻² for the kernels of this module that have functions.
        lengthscale = np.sqrt(0.5 / np.maximum(spectrum.Lambda.diagonal(axis1=-2, axis2=-1), 1e-300))
        return dataclasses.replace(
            self,
            frequency=np.asarray(sign * spectrum.frequency),
            amplitude=np.sqrt(np.maximum(spectrum.weight, 1e-12 * self.spread**2)),
            lengthscale=lengthscale,
            worth=np.maximum(self.worth, 1.0),
        )


def _range(values: np.ndarray) -> str:
    """Smallest to largest, for each input dimension."""
    ends = zip(values.min(axis=0), values.max(axis=0), strict=True)
    return " × ".join(f"{low:.3g}" if high - low < 0.005 * abs(high) else f"{low:.3g} to {high:.3g}" for low, high in ends)


def find_start(
    X: Any,
    y: Any,
    error: Any = None,
    *,
    components: int | None = None,
    most: int = 4,
    highest_frequency: Any = None,
    seed: int = 0,
) -> Start:
    """Look at data ``X [n, d]``, ``y [n]`` with known error bars ``error [n]`` for what a kernel can start from.

    ``components`` is their number, or None for as many as are significant, up to ``most`` (one when there are none).
    ``highest_frequency`` (a number or ``[d]``, cycles per unit) bounds the search; by default that is the Nyquist
    frequency of the average spacing. Large data are looked at through 1500 of their rows.
    """
    if components is not None and components < 1:
        raise ValueError(f"components must be at least 1, got {components}")
    data = Data.checked(X, y, error)
    rng = np.random.default_rng(seed)
    keep = np.sort(rng.permutation(len(data.y))[:ROWS])
    X, y, error = np.asarray(data.X)[keep], np.asarray(data.y)[keep], np.asarray(data.error)[keep]
    extent, scale = np.array([X.min(axis=0), X.max(axis=0)]), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    spread = max(float(y.std()), 1e-12 * max(1.0, float(np.abs(y).max())))
    y = y - y.mean()
    weight = 1.0 / (error**2 + 0.01 * spread**2)
    weight /= weight.mean()
    highest = None if highest_frequency is None else np.broadcast_to(np.asarray(highest_frequency, float), scale.shape)
    look = _look_along if X.shape[1] == 1 else _look_around
    found = look(X, y, weight, components, most, highest, scale, rng)
    return Start(scale=scale, extent=extent, spread=spread, rows=len(data.y), **found)
