"""Initial values of a fit: frequencies, lengthscales, amplitudes and noise found from data, and variants of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..core import entry_point
from ..kernels import AbstractKernel
from ..parameters import constrain, realise
from ..spectra import local_spectrum

COHERENT = 20.0  # lengthscale of initial values that stay coherent for long, in standard deviations of the inputs
SUDDEN = (0.45, 0.2)  # smoothness of frequencies that change faster, and suddenly
_NEAR = 0.2  # difference of the logarithms of two frequencies that may be mistaken for one another


def _in(unit: str, **options: Any) -> Any:
    """A field with a unit: a place or a length along the input, a frequency, an output, or none."""
    return dataclasses.field(metadata={"unit": unit}, **options)


@dataclass(frozen=True)
class Spectrum:
    """Peaks of the spectrum of the whole data: centre and standard deviation ``[q, d]`` in cycles per unit, amplitude."""

    frequency: np.ndarray = _in("frequency")
    bandwidth: np.ndarray = _in("frequency")
    amplitude: np.ndarray = _in("output")


@dataclass(frozen=True)
class InitialValues:
    """What was found in the data; c centres, a components, d input dimensions, frequencies in cycles per unit.

    ``amplitude`` is the standard deviation σ of a component, that of a sinusoid over √2. ``gain`` is the log
    likelihood (in nats) that a frequency gains at a centre: zero in gaps and where nothing significant was found. An infinite
    ``lengthscale`` is that of an oscillation: how long it stays coherent is left to the kernel.
    """

    centres: np.ndarray = _in("place")  # [c, d]
    frequency: np.ndarray = _in("frequency")  # [c, a, d]
    amplitude: np.ndarray = _in("output")  # [c, a]
    lengthscale: np.ndarray = _in("length")  # [c, a, d]
    gain: np.ndarray = _in("none")  # [c, a]
    noise: float = _in("output")
    spectrum: Spectrum = _in("spectrum")
    smooth_lengthscale: np.ndarray = _in("length")  # [d], of the best squared-exponential fit
    scale: np.ndarray = _in("length")  # [d], standard deviation of the inputs
    extent: np.ndarray = _in("place")  # [2, d], smallest and largest inputs
    band: np.ndarray = _in("frequency")  # [2, d], lowest and highest frequency looked at
    spread: float = _in("output")  # standard deviation of the outputs
    rows: int = _in("none")
    smoothness: float = _in("none", default=1.0)  # lengthscale of frequencies a priori, in std of the inputs

    @property
    def found(self) -> np.ndarray:
        """Whether a component is significant anywhere, ``[a]``."""
        return np.asarray(np.any(self.gain > 0, axis=0))

    def __str__(self) -> str:
        count = int(self.found.sum())
        lines = [f"{count} component{'s' * (count != 1)} in {self.rows} rows, noise {self.noise:.3g}"]
        lines += [
            f"input {d}: looked from {low:.3g} to {high:.3g} cycles per unit"
            for d, (low, high) in enumerate(self.band.T)
        ]
        for a, found in enumerate(self.found):
            if not found:
                lines.append(f"component {a + 1}: nothing significant; starts at {show_range(self.frequency[:, a])}")
                continue
            seen = self.gain[:, a] > 0
            share = f", seen at {np.mean(seen):.0%} of the centres" if np.mean(seen) < 1 else ""
            sigma = show_range(self.amplitude[seen, a, None])
            lines.append(f"component {a + 1}: {show_range(self.frequency[seen, a])} cycles per unit, σ {sigma}{share}")
        return "\n".join(lines)

    def in_units(self, mean: np.ndarray, scale: np.ndarray, output: float) -> InitialValues:
        """For data of which these are the standardised ones: inputs times ``scale`` plus ``mean``, outputs ``output``."""
        return dataclasses.replace(self, **_in_units(self, mean, scale, output))

    @entry_point
    def continuing(self, kernel: AbstractKernel) -> InitialValues:
        """The same with the frequencies and amplitudes of a fitted kernel: one begins where another ended."""
        spectrum = local_spectrum(realise(constrain(kernel)), self.centres)
        if spectrum.frequency.shape != self.frequency.shape:
            shapes = f"{list(spectrum.frequency.shape)}, these values {list(self.frequency.shape)}"
            raise ValueError(f"the kernel has frequencies of shape {shapes}: centres, components, inputs")
        frequency = np.asarray(spectrum.frequency)
        if frequency.shape[-1] == 1:  # its sign says nothing; zero would stay zero
            frequency = np.maximum(np.abs(frequency), 0.015 / self.scale)
        return dataclasses.replace(
            self,
            frequency=frequency,
            amplitude=np.sqrt(np.maximum(np.asarray(spectrum.weight), 1e-6 * self.spread**2)),
            gain=np.maximum(self.gain, 1.0),
        )

    def alternatives(self) -> list[InitialValues]:
        """These values and others that the data allow, in one dimension.

        Some have smoother frequencies, cubic in their logarithm; some stay coherent for longer, which makes the first
        steps of a fit correct the frequencies rather than shorten the lengthscale. In some, components that come near
        each other go on as the other one: a ridge cannot tell whether they cross or turn. Some allow sudden changes.
        """
        if self.frequency.shape[-1] > 1 or not np.any(self.found):
            return [self]
        coherent = dataclasses.replace(self, lengthscale=np.broadcast_to(COHERENT * self.scale, self.lengthscale.shape))
        crossed = self._crossed()
        crossing = [] if crossed is None else [crossed._smoother(), crossed]
        sudden = [dataclasses.replace(self, smoothness=smoothness) for smoothness in SUDDEN]
        return [self, self._smoother(), *crossing, *sudden, coherent, coherent._smoother()]

    def _crossed(self) -> InitialValues | None:
        """With components exchanged beyond where they come nearest, or None where none come near."""
        parts = [values.copy() for values in (self.frequency, self.amplitude, self.gain)]
        exchanged = False
        for a, b in combinations(range(self.gain.shape[1]), 2):
            apart = np.abs(np.log(parts[0][:, a, 0] / parts[0][:, b, 0]))
            nearest = int(np.argmin(apart))
            if apart[nearest] < _NEAR:
                exchanged = True
                for values in parts:
                    values[nearest:, [a, b]] = values[nearest:, [b, a]]
        frequency, amplitude, gain = parts
        return dataclasses.replace(self, frequency=frequency, amplitude=amplitude, gain=gain) if exchanged else None

    def _smoother(self) -> InitialValues:
        x = np.linspace(-1.0, 1.0, len(self.centres))  # as the centres, even
        cubic = np.polynomial.chebyshev.chebvander(x, 3)
        logarithm = np.empty(self.gain.shape)
        for a in range(self.gain.shape[1]):
            root = np.sqrt(np.maximum(self.gain[:, a], 1e-3 * self.gain.max()))
            values = np.log(self.frequency[:, a, 0])
            logarithm[:, a] = cubic @ np.linalg.lstsq(root[:, None] * cubic, root * values, rcond=None)[0]
        return dataclasses.replace(self, frequency=np.exp(logarithm)[..., None], gain=np.maximum(self.gain, 1.0))


def show_range(values: np.ndarray) -> str:
    """Smallest to largest, for each input dimension."""
    ends = zip(values.min(axis=0), values.max(axis=0), strict=True)
    return " × ".join(
        f"{low:.3g}" if high - low < 0.005 * abs(high) else f"{low:.3g} to {high:.3g}" for low, high in ends
    )


def _in_units(values: Any, mean: np.ndarray, scale: np.ndarray, output: float) -> dict[str, Any]:
    changed = {}
    for field in dataclasses.fields(values):
        value = getattr(values, field.name)
        match field.metadata["unit"]:
            case "place":
                changed[field.name] = mean + value * scale
            case "length":
                changed[field.name] = value * scale
            case "frequency":
                changed[field.name] = value / scale
            case "output":
                changed[field.name] = value * output
            case "spectrum":
                changed[field.name] = Spectrum(**_in_units(value, mean, scale, output))
    return changed
