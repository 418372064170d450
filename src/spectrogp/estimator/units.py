"""Units: data standardised for the models inside, and what these say in the units of the data."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from ..choices import UNITS, frequency_unit
from ..models import Data, Moments
from ..posterior import Prediction

FEW = 3.0  # of a unit that a span has, at least, for it to be shown in that

# Names that say their unit in another way.
_SAME = dict.fromkeys(("jd", "mjd", "bjd", "hjd", "days"), "day") | dict.fromkeys(("years", "yr"), "year")
_SAME |= {"hours": "hour", "minutes": "minute"} | dict.fromkeys(("sec", "second", "seconds"), "s")


class Units(NamedTuple):
    """What inputs and outputs, or the logarithms of these, are standardised with."""

    X_mean: np.ndarray  # [d]
    X_scale: np.ndarray  # [d]
    y_mean: Any  # a number, or those of several channels [c]
    y_scale: Any
    log: bool = False  # whether outputs are logarithms inside

    @classmethod
    def of(cls, data: Data, *, standardise: bool, log: bool = False) -> Units:
        """Those of data; without ``standardise`` the units stay, and outputs are centred only."""
        X, y = np.asarray(data.X), np.asarray(data.y)
        units = cls(*standard(X, "X"), *standard(np.log(y) if log else y, "y"), log)
        if standardise:
            return units
        return units._replace(X_mean=np.zeros(X.shape[1]), X_scale=np.ones(X.shape[1]), y_scale=np.float64(1.0))

    @classmethod
    def of_channels(cls, X: np.ndarray, channels: tuple[Data, ...]) -> Units:
        """Those of inputs ``[n, 1]``, and of the outputs of every channel."""
        pairs = [standard(np.asarray(part.y), f"channel {k} of y") for k, part in enumerate(channels)]
        mean, scale = (np.array(parts) for parts in zip(*pairs, strict=True))
        return cls(*standard(X, "X"), mean, scale)

    def channel(self, number: int) -> Units:
        """Those of one of several channels."""
        return Units(self.X_mean, self.X_scale, self.y_mean[number], self.y_scale[number])

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """Inputs inside."""
        return (X - self.X_mean) / self.X_scale

    def outputs(self, y: Any) -> Any:
        """Outputs inside; what is not above zero has a logarithm of minus infinity."""
        if self.log:
            with np.errstate(divide="ignore"):
                y = np.log(np.maximum(y, 0.0))
        return (y - self.y_mean) / self.y_scale

    def errors(self, error: Any, y: Any) -> Any:
        """Standard deviations of outputs inside: of logarithms that there are the relative ones."""
        if self.log and y is not None:
            error = error / np.where(y > 0.0, y, 1.0)
        return error / self.y_scale

    def told(self, inside: Any) -> Any:
        """Outputs, or quantiles of them, as they are told outside."""
        outside = self.y_mean + self.y_scale * inside
        if not self.log:
            return outside
        with np.errstate(over="ignore"):  # whoever asks looks at whether they are finite
            return np.exp(outside)

    def factors(self, inside: Any) -> Any:
        """Parts of a sum inside: as parts of the sum outside, or of logarithms as factors of the product."""
        return np.exp(self.y_scale * inside) if self.log else self.y_scale * inside

    @property
    def exponent(self) -> float | None:
        """What a model's values are multiplied by before moments are those of powers of e; None for those as they are.

        Such moments are relative to the power of the mean (``linear``).
        """
        return float(self.y_scale) if self.log else None

    @property
    def linear(self) -> tuple[Any, Any]:
        """What is added to means, and what means and deviations are multiplied by, outside."""
        return (0.0, np.exp(self.y_mean)) if self.log else (self.y_mean, self.y_scale)

    def log_jacobian(self, y: Any) -> Any:
        """Logarithms of how many times as large densities of outputs are as those inside."""
        if not self.log:
            return -np.log(self.y_scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.asarray(y) > 0.0, -np.log(self.y_scale) - np.log(y), -np.inf)

    def data(self, data: Data) -> Data:
        """Data inside."""
        y = np.asarray(data.y)
        inside = Data(self.inputs(np.asarray(data.X)), self.outputs(y), self.errors(np.asarray(data.error), y))
        with np.errstate(over="ignore"):
            if not np.all(np.isfinite(inside.error**2)):
                raise ValueError("error has values too large beside the spread of y: leave these rows out")
        return inside

    def given(self, inside: Data) -> Data:
        """The data that are these inside."""
        y = self.told(np.asarray(inside.y))
        error = self.y_scale * np.asarray(inside.error) * (y if self.log else 1.0)
        return Data(self.X_mean + self.X_scale * np.asarray(inside.X), y, error)

    def prediction(self, inside: Prediction, y: Any = None) -> Prediction:
        """A prediction in the units of the data, of outputs ``y`` if densities are among it."""
        density = None if inside.log_density is None else inside.log_density + self.log_jacobian(y)
        bands = None
        if inside.bands is not None:
            function, output = (band.map(self.told) for band in inside.bands)
            bands = function, output
        return Prediction(self._moments(inside.function), self._moments(inside.output), density, bands)

    def _moments(self, inside: Moments) -> Moments:
        shift, factor = self.linear
        return Moments(shift + factor * inside.mean, factor**2 * inside.variance)


def standard(values: np.ndarray, name: str) -> tuple[Any, Any]:
    """Mean and standard deviation of every column; those of a constant one are its value and 1."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        # By its range, since rounding gives a constant column a tiny deviation, and a tiny one a deviation of zero.
        width = np.ptp(values, axis=0)
        std = np.where(width > 0, width * ((values - values[0]) / width).std(axis=0), 1.0)
        mean = np.where(width > 0, values.mean(axis=0), values[0])
        if not np.all(np.isfinite(mean) & np.isfinite(std**2)):
            raise ValueError(f"{name} has values too large for their variance to be a float64: scale them")
        if not np.all(np.isfinite(1.0 / std)):
            raise ValueError(f"{name} has values too close together for what lies between them: scale them")
    return mean[()], std[()]


class Shown(NamedTuple):
    """What a fit along one input is told in: the unit of frequencies, how much of a standardised input it is, and zero.

    Outputs are zero where standardised ones are ``zero``; those of which there are logarithms inside nowhere, and
    outputs are proportional to powers of e to ``exponent`` times these.
    """

    name: str
    size: float
    zero: float
    exponent: float | None = None

    @property
    def frequency(self) -> str:
        """The unit of frequencies."""
        return frequency_unit(self.name)


def shown_along(name: str, time: bool, span: float, units: Units, unit: str | None = None) -> Shown:
    """That of an input of this name and span: of times, in days, the ``unit`` or one that suits; else its own."""
    (name,), (size,) = shown_units((name,), (time,), np.array([span]), unit)
    zero = -np.inf if units.log else float(np.max(-units.y_mean / units.y_scale))
    return Shown(name, size / float(units.X_scale[0]), zero, units.exponent)


def unit_names(names: tuple[str, ...], times: tuple[bool, ...], unit: str = "day") -> tuple[str, ...]:
    """The unit of every input: ``unit`` of times, what stands in the last brackets of a name, or the name."""
    found = (re.search(r"[(\[]([^()\[\]]+)[)\]]$", name.strip()) for name in names)
    plain = (name if inside is None else inside[1] for name, inside in zip(names, found, strict=True))
    return tuple(unit if time else _SAME.get(name.lower(), name) for name, time in zip(plain, times, strict=True))


def shown_units(
    names: tuple[str, ...], times: tuple[bool, ...], spans: np.ndarray, unit: str | None
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The units in which frequencies of inputs are shown, and how much of an input each is.

    Args:
        names: What the inputs are called.
        times: Which of them are times, in days.
        spans: How far each extends, ``[d]``.
        unit: That of times, one of ``UNITS``; None for the largest that the longest of them has a few of.
    """
    if unit is not None and unit not in UNITS:
        raise ValueError(f"unit must be one of {', '.join(UNITS)}; got {unit!r}")
    if unit is not None and not any(times):
        raise ValueError(
            f"unit={unit!r} is for inputs that are times, and these are numbers: write their unit in brackets behind "
            "their name, such as 'time (s)'"
        )
    if unit is None:
        longest = max((span for span, time in zip(spans, times, strict=True) if time), default=0.0)
        unit = next((unit for unit, days in UNITS.items() if longest >= FEW * days), "s")
    return unit_names(names, times, unit), tuple(UNITS[unit] if time else 1.0 for time in times)
