"""Initial values of a fit: frequencies, lengthscales, amplitudes and noise found from data, and variants of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, Any, TypeAlias, get_type_hints

import numpy as np

from ..core import entry_point
from ..kernels import AbstractKernel
from ..parameters import constrain, realise
from ..spectra import local_spectrum

COHERENT = 20.0  # lengthscale of initial values that stay coherent for long, in standard deviations of the inputs
SUDDEN = (0.45, 0.2)  # smoothness of frequencies that change faster, and suddenly
_NEAR = 0.2  # difference of the logarithms of two frequencies that may be mistaken for one another


# Fields with a unit, by which they are rescaled; every field has one.
Place: TypeAlias = Annotated[np.ndarray, "place"]
Length: TypeAlias = Annotated[np.ndarray, "length"]
Frequency: TypeAlias = Annotated[np.ndarray, "frequency"]
Output: TypeAlias = Annotated[Any, "output"]
Unitless: TypeAlias = Annotated[Any, "none"]


@dataclass(frozen=True)
class Spectrum:
    """Peaks of the spectrum of all data: ``frequency``, ``bandwidth [q, d]`` in cycles per unit, ``amplitude [q]``."""

    frequency: Frequency
    bandwidth: Frequency
    amplitude: Output


@dataclass(frozen=True)
class InitialValues:
    """What was found in the data, for c centres, a components and d input dimensions.

    Args:
        centres: Inputs ``[c, d]`` at which the data were looked at.
        frequency: ``[c, a, d]``, in cycles per unit.
        amplitude: Standard deviation σ ``[c, a]`` of a component, that of a sinusoid over √2.
        lengthscale: ``[c, a, d]``; an infinite one is that of an oscillation: how long it stays coherent is left to the
            kernel.
        gain: Log likelihood ``[c, a]`` (in nats) that a frequency gains at a centre: zero in gaps and where nothing
            significant was found.
        noise: Standard deviation of the noise.
        spectrum: Peaks of the spectrum of the whole data.
        smooth_lengthscale: ``[d]``, of the best squared-exponential fit.
        scale: Standard deviation ``[d]`` of the inputs.
        extent: Smallest and largest inputs ``[2, d]``.
        band: Lowest and highest frequency ``[2, d]`` looked at.
        spread: Standard deviation of the outputs.
        rows: Number of rows.
        smoothness: Lengthscale of the frequencies a priori, in standard deviations of the inputs.
        harmonics: Number of harmonics ``[a]``, or one number for all: 1 for a sinusoid. The frequency is that of the
            first, the amplitude that of all together.
        steady: Whether a component ``[a]`` is a line of the whole record, which keeps its frequency.
        background_amplitude: Standard deviation ``[b]`` of what there is beside the components: red noise, a trend.
        background_lengthscale: ``[b, 1]``, of these.
        background_order: Matérn order ``[b]`` of these.
        aliases: Other frequencies ``[m]`` that the data cannot tell from that of a line, and the frequencies of the
            sampling by which they differ (zero where none explains it), ``[m, 2]``.
        aliases_of: Integers ``[m, 3]``: of which component, sign s and multiple k in s · f + k · sampling.
        others: What windows of other widths found in a long record, at their own centres; None for other data.
    """

    centres: Place  # [c, d]
    frequency: Frequency  # [c, a, d]
    amplitude: Output  # [c, a], of several channels [c, a, channels], and so noise and spread
    lengthscale: Length  # [c, a, d]
    gain: Unitless  # [c, a]
    noise: Output
    spectrum: Annotated[Spectrum, "spectrum"]
    smooth_lengthscale: Length  # [d], of the best squared-exponential fit
    scale: Length  # [d], standard deviation of the inputs
    extent: Place  # [2, d], smallest and largest inputs
    band: Frequency  # [2, d], lowest and highest frequency looked at
    spread: Output  # standard deviation of the outputs
    rows: Unitless
    smoothness: Unitless = 1.0  # lengthscale of frequencies a priori, in std of the inputs
    harmonics: Unitless = 1  # [a]
    steady: Unitless = False  # [a]
    background_amplitude: Output = field(default_factory=lambda: np.zeros(0))
    background_lengthscale: Length = field(default_factory=lambda: np.zeros((0, 1)))
    background_order: Unitless = field(default_factory=lambda: np.zeros(0))
    aliases: Frequency = field(default_factory=lambda: np.zeros((0, 2)))
    aliases_of: Unitless = field(default_factory=lambda: np.zeros((0, 3), int))
    others: Annotated[tuple[InitialValues, ...] | None, "others"] = None

    @property
    def found(self) -> np.ndarray:
        """Whether a component is significant anywhere, ``[a]``."""
        return np.asarray(np.any(self.gain > 0, axis=0))

    @property
    def frequency_error(self) -> np.ndarray:
        """Standard deviation ``[c, a]`` of the logarithm of frequencies, as windows see them.

        A tenth where they see something. The k-th harmonic tells k times as closely; most is in the first ones.
        """
        harmonics = np.broadcast_to(self.harmonics, self.found.shape)
        squares = np.array(
            [np.sum(order) / np.sum(1.0 / order) for order in (np.arange(1.0, n + 1) for n in harmonics)]
        )
        return np.asarray(0.1 * np.sqrt((1.0 + 1.0 / np.maximum(self.gain, 1e-6)) / squares))

    @property
    def changing(self) -> np.ndarray:
        """Whether a component is significant anywhere, and no line, ``[a]``."""
        return self.found & ~np.broadcast_to(self.steady, self.found.shape)

    def __str__(self) -> str:
        count = int(self.found.sum())
        noise = ", ".join(f"{each:.3g}" for each in np.ravel(self.noise))
        lines = [f"{count} component{'s' * (count != 1)} in {self.rows} rows, noise {noise}"]
        lines += [
            f"input {d}: looked from {low:.3g} to {high:.3g} cycles per unit"
            for d, (low, high) in enumerate(self.band.T)
        ]
        harmonics = np.broadcast_to(self.harmonics, self.found.shape)
        for a, found in enumerate(self.found):
            if not found:
                lines.append(f"component {a + 1}: nothing significant; starts at {show_range(self.frequency[:, a])}")
                continue
            seen = self.gain[:, a] > 0
            share = f", seen at {np.mean(seen):.0%} of the centres" if np.mean(seen) < 1 else ""
            sigma = show_range(self.amplitude[seen, a].reshape(int(seen.sum()), -1), ", ")
            several = f" with {harmonics[a]} harmonics" if harmonics[a] > 1 else ""
            steady = bool(np.broadcast_to(self.steady, self.found.shape)[a])
            # A tone of the whole record is known to a tenth of a cycle in it, at least.
            shown = show_range(self.frequency[seen, a], known=0.1 * self.band[0] if steady else None)
            where = " throughout" if steady else ""
            lines.append(f"component {a + 1}: {shown} cycles per unit{several}{where}, σ {sigma}{share}")
        for amplitude, lengthscale in zip(self.background_amplitude, self.background_lengthscale[:, 0], strict=True):
            lines.append(f"background: lengthscale {lengthscale:.3g}, σ {amplitude:.3g}")
        return "\n".join([*lines, *self.ambiguities()])

    def ambiguities(self, unit: str = "cycles per unit") -> list[str]:
        """Which frequencies the data cannot tell from those that were found, in words.

        Args:
            unit: What the unit of frequencies is called.
        """
        said = []
        for a in np.unique(self.aliases_of[:, 0]):
            mine = self.aliases_of[:, 0] == a
            others = [
                f"{f:.6g}" + (f" ({_alias_of(sign, k, window)})" if window else "")
                for (f, window), (_, sign, k) in zip(self.aliases[mine], self.aliases_of[mine], strict=True)
            ]
            said.append(
                f"component {a + 1} at f = {self.frequency[0, a, 0]:.6g} {unit} may be an alias of "
                f"{' or '.join(others)}: at these times the data cannot tell them apart"
            )
        return said

    def only(self, kept: np.ndarray) -> InitialValues:
        """Some of the components.

        Args:
            kept: Their numbers ``[k]``.
        """
        every = self.found.shape
        mine = np.isin(self.aliases_of[:, 0], kept)
        return dataclasses.replace(
            self,
            **{name: getattr(self, name)[:, kept] for name in ("frequency", "amplitude", "lengthscale", "gain")},
            harmonics=np.broadcast_to(self.harmonics, every)[kept],
            steady=np.broadcast_to(self.steady, every)[kept],
            aliases=self.aliases[mine],
            aliases_of=np.column_stack([np.searchsorted(kept, self.aliases_of[mine, 0]), self.aliases_of[mine, 1:]]),
            others=None if self.others is None else tuple(other.only(kept) for other in self.others),
        )

    def channel(self, number: int) -> InitialValues:
        """What was found of one of several channels, by its ``number``."""
        return dataclasses.replace(
            self,
            amplitude=self.amplitude[..., number],
            noise=float(self.noise[number]),
            spread=float(self.spread[number]),
            background_amplitude=self.background_amplitude[:, number],
            spectrum=dataclasses.replace(self.spectrum, amplitude=self.spectrum.amplitude[..., number]),
            others=None if self.others is None else tuple(other.channel(number) for other in self.others),
        )

    def in_units(self, mean: np.ndarray, scale: np.ndarray, output: Any) -> InitialValues:
        """In the units of data whose inputs are these times ``scale`` plus ``mean``, and outputs times ``output``."""
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
        Those of a long record are what windows of other widths found in it.
        """
        if self.others is not None:
            return [dataclasses.replace(self, others=()), *self.others]
        if self.frequency.shape[-1] > 1 or not np.any(self.found):
            return [self]
        coherent = dataclasses.replace(self, lengthscale=np.broadcast_to(COHERENT * self.scale, self.lengthscale.shape))
        crossed = self._crossed()
        crossing = [] if crossed is None else [crossed._smoother(), crossed]
        sudden = [dataclasses.replace(self, smoothness=smoothness) for smoothness in SUDDEN]
        return [self, self._smoother(), *crossing, *sudden, coherent, coherent._smoother()]

    def ridges(self) -> list[InitialValues]:
        """These values, smoother ones, and both with components that cross where they come near each other."""
        if not np.any(self.changing):
            return [self]
        crossed = self._crossed()
        every = [self] if crossed is None else [self, crossed]
        smoother = [(each, each._smoother()) for each in every]
        return [start for each, smooth in smoother for start in ([each, smooth] if each._like(smooth) else [each])]

    def _crossed(self) -> InitialValues | None:
        """With components exchanged beyond where they come nearest, or None where none come near each other."""
        parts = [values.copy() for values in (self.frequency, self.amplitude, self.gain)]
        exchanged = False
        changing = np.flatnonzero(~np.broadcast_to(self.steady, self.found.shape))  # lines cross nothing
        for a, b in combinations(changing, 2):
            apart = np.abs(np.log(parts[0][:, a, 0] / parts[0][:, b, 0]))
            nearest = int(np.argmin(apart))
            # Ridges that turn where tones cross are kept apart by the width of the windows.
            if apart[nearest] < max(_NEAR, 0.5 * min(apart[0], apart[-1])):
                exchanged = True
                for values in parts:
                    values[nearest:, [a, b]] = values[nearest:, [b, a]]
        frequency, amplitude, gain = parts
        return dataclasses.replace(self, frequency=frequency, amplitude=amplitude, gain=gain) if exchanged else None

    def _like(self, other: InitialValues) -> bool:
        """Whether frequencies are those of others mostly, where any were found: else these are no explanation."""
        seen = self.gain > 0
        apart = np.abs(np.log(self.frequency[..., 0] / other.frequency[..., 0]))[seen]
        return bool(np.median(apart) < _NEAR)

    def _smoother(self) -> InitialValues:
        x = np.linspace(-1.0, 1.0, len(self.centres))  # as the centres, even
        cubic = np.polynomial.chebyshev.chebvander(x, 3)
        logarithm = np.empty(self.gain.shape)
        for a in range(self.gain.shape[1]):
            root = np.sqrt(np.maximum(self.gain[:, a], 1e-3 * self.gain.max()))
            values = np.log(self.frequency[:, a, 0])
            logarithm[:, a] = cubic @ np.linalg.lstsq(root[:, None] * cubic, root * values, rcond=None)[0]
        return dataclasses.replace(self, frequency=np.exp(logarithm)[..., None], gain=np.maximum(self.gain, 1.0))


def _alias_of(sign: int, k: int, window: float) -> str:
    """s · f + k · window in words."""
    several = f"{abs(k)} × " if abs(k) > 1 else ""
    if sign < 0:
        return f"{several}{window:.4g} − f"
    return f"f {'+' if k > 0 else '−'} {several}{window:.4g}"


def show_range(values: np.ndarray, between: str = " × ", known: Any = None) -> str:
    """Smallest to largest of ``values [n, d]`` as text for each column, or their median where they hardly differ.

    Args:
        values: The values.
        between: What stands between columns.
        known: How well values are known, ``[d]``, to the second digit of which they are shown; else three digits are.
    """
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0], axis=0)
    widths = np.full(low.shape, np.nan) if known is None else np.broadcast_to(np.asarray(known, float), low.shape)
    apart = np.where(np.isfinite(widths), 2.0 * widths, 0.005 * np.abs(high))
    return between.join(
        _digits(typical, width) if b - a <= least else f"{_digits(a, width)} to {_digits(b, width)}"
        for a, typical, b, width, least in zip(low, middle, high, widths, apart, strict=True)
    )


def _digits(value: float, known: float) -> str:
    """A number to the second digit of how well it is known, but three digits at least and twelve at most."""
    if not (np.isfinite(known) and known > 0.0 and value):
        return f"{value:.3g}"
    return f"{value:#.{int(np.clip(np.floor(np.log10(abs(value))) - np.floor(np.log10(known)) + 2, 3, 12))}g}".rstrip(
        "."
    )


def _in_units(values: InitialValues | Spectrum, mean: np.ndarray, scale: np.ndarray, output: Any) -> dict[str, Any]:
    change: dict[str, Callable[[Any], Any]] = {
        "place": lambda value: mean + value * scale,
        "length": lambda value: value * scale,
        "frequency": lambda value: value / scale if np.size(value) else value,  # aliases are of one input
        "output": lambda value: value * output,
        "others": lambda value: value and tuple(other.in_units(mean, scale, output) for other in value),
        "spectrum": lambda value: Spectrum(**_in_units(value, mean, scale, output)),
        "none": lambda value: value,
    }
    hints = get_type_hints(type(values), include_extras=True)
    units = {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(values)}
    return {name: change[unit](getattr(values, name)) for name, unit in units.items()}
