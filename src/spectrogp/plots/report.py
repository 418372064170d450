"""What a fit has to say, gathered once: a report, from which the summary and the figures are made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..choices import frequency_unit
from ..files import printable
from ..posterior import Band, LocalDraws, Prediction

LEVEL = 0.9  # of all bands, unless another is asked for


class Labels(NamedTuple):
    """How inputs ``x`` and output ``y`` are called, and what is counted in.

    ``units`` are those that frequencies and lengthscales of the inputs are in, ``sizes`` how much of an input each is
    (365.25 for years where inputs are days); ``times`` says which inputs are dates, in days since 1970; ``log`` whether
    the kernel is one of logarithms of the output.
    """

    x: tuple[str, ...]
    y: str
    units: tuple[str, ...]
    times: tuple[bool, ...]
    sizes: tuple[float, ...]
    log: bool = False

    @property
    def fitted(self) -> str:
        """What amplitudes are of: the output, or its logarithm."""
        return f"log {self.y}" if self.log else self.y

    @property
    def drawn(self) -> Labels:
        """The same as text that matplotlib draws as it is: a dollar sign begins no formula."""
        x, units = (tuple(map(as_drawn, names)) for names in (self.x, self.units))
        return self._replace(x=x, y=as_drawn(self.y), units=units)

    def frequency(self, axis: int = 0) -> str:
        """The unit of frequencies along an input."""
        return frequency_unit(self.units[axis])


class Along(NamedTuple):
    """What the kernel says (``local``) along input ``axis``: at inputs ``at [g, d]``, the others in their middle."""

    axis: int
    at: np.ndarray
    local: LocalDraws


class Report(NamedTuple):
    """A fit in the units of its data.

    Args:
        labels: How inputs and output are called.
        X: Inputs ``[n, d]`` of (some of) the rows fitted to.
        y: Their outputs ``[n]``.
        error: Known standard deviations ``[n]`` of the outputs.
        rows: Predictions at these rows.
        local: The kernel's local functions at some of the rows.
        along: The same along inputs.
        grid: For one input, predictions along it.
        amplitude: Along one input, the amplitudes of oscillations whose envelopes are known; None where there are
            none, and the σ of the kernel is what is shown.
        components: For one input and several components, the part of each along it; of logarithms the factor.
        record: For one input, inputs ``[n]`` and outputs ``[n]`` of all rows, or the logarithms that were fitted.
        band: Lowest and highest frequency ``[2, d]`` that were looked for, in the units of ``labels``.
        level: Probability of all bands.
        doubtful: Readings ("prediction", "frequency", "amplitude", "lengthscale") whose bands rest on draws that failed
            a check; figures mark them.
        overtones: Of every component that is one, which component it is an overtone of and which multiple of that one's
            frequency it has, by their numbers from 0 on.
        warnings: What a referee would ask of the fit; the overview has them below.
    """

    labels: Labels
    X: np.ndarray
    y: np.ndarray
    error: np.ndarray
    rows: Prediction
    local: LocalDraws
    along: tuple[Along, ...]
    grid: Prediction | None
    amplitude: Band | None
    components: Band | None
    record: tuple[np.ndarray, np.ndarray] | None
    band: np.ndarray
    level: float = LEVEL
    doubtful: frozenset[str] = frozenset()
    overtones: Mapping[int, tuple[int, int]] = MappingProxyType({})
    warnings: tuple[str, ...] = ()


def summary(report: Report) -> dict[str, Any]:
    """What was learned, as plain values: components, noise, quality of the fit.

    The quality is that of the rows fitted to: it says whether the fit follows them, not how well it predicts others.

    Args:
        report: What the fit has to say.
    """
    y, rows = report.y, report.rows
    noise = _noise_variance(report)
    inside = None if rows.bands is None else float(np.mean(rows.bands[1].covers(y)))
    return {
        "unit": ", ".join(map(report.labels.frequency, range(len(report.labels.units)))),
        "level": report.level,
        "components": [
            entry | ({"overtone_of": of + 1, "multiple": multiple} if (of, multiple) != (a, 1) else {})
            for a, entry in enumerate(_components(report.local, report.amplitude, report.level))
            for of, multiple in [report.overtones.get(a, (a, 1))]
        ],
        "noise": float(np.sqrt(np.mean(np.maximum(noise, 0.0)))),
        "fit": {
            "r2": float(1.0 - np.mean((y - rows.output.mean) ** 2) / np.var(y)) if np.ptp(y) > 0 else 1.0,
            "mean_log_density": float(np.mean(rows.log_density)),
            "coverage": inside,
        },
        "doubtful": sorted(report.doubtful),
    }


def _noise_variance(report: Report) -> np.ndarray:
    """Of the outputs beside their function and known errors; of logarithms theirs, from log-normal moments."""
    output, function, error = report.rows.output, report.rows.function, report.error
    if not report.labels.log:
        return np.asarray(output.variance - function.variance - error**2)
    of_output, of_function = (np.log1p(part.variance / part.mean**2) for part in (output, function))
    return np.asarray(of_output - of_function - (error / report.y) ** 2)


def as_drawn(name: str) -> str:
    """Text that matplotlib draws as it is."""
    return printable(name).replace("$", r"\$")


def _components(local: LocalDraws, heights: Band | None, level: float) -> list[dict[str, Any]]:
    """Of every component the lowest, highest and median frequency ``[d]``, half its band's median width, the amplitude.

    For one input the shortest and longest period too, with half the median width of theirs. The amplitude is that of
    the oscillation, beside the σ of the kernel, where ``heights`` tell it; else it is σ.
    """
    frequency, sigma = Band.over(local.frequency, level), Band.over(local.amplitude, level).mean
    amplitude = sigma if heights is None else heights.mean
    half = _half_widths(frequency)
    periods: Any = [{}] * amplitude.shape[1]
    if local.frequency.shape[-1] == 1 and np.all(local.frequency > 0):
        period = Band.over(1.0 / local.frequency, level)
        periods = [
            {"period": (1.0 / frequency.mean[:, a, 0][[k, m]]).tolist(), "period_band": width}
            for a, width in enumerate(_half_widths(period))
            for k, m in [(np.argmax(frequency.mean[:, a, 0]), np.argmin(frequency.mean[:, a, 0]))]
        ]
    return [
        {
            "frequency": [values.min(axis=0).tolist(), values.max(axis=0).tolist()],
            "typical": np.median(values, axis=0).tolist(),
            "band": half[a],
            **periods[a],
            "amplitude": [float(amplitude[:, a].min()), float(amplitude[:, a].max())],
            **({} if heights is None else {"sigma": [float(sigma[:, a].min()), float(sigma[:, a].max())]}),
        }
        for a, values in enumerate(np.moveaxis(frequency.mean, 1, 0))
        # What has a Matérn's density and no frequency is a background.
        if np.any(values) or not np.any(np.isfinite(local.freedom[..., a]))
    ]


def _half_widths(band: Band) -> list[Any]:
    """Half the median width of the bands ``[n, a, d]`` of every component; None where there are none."""
    if band.lower is None:
        return [None] * band.mean.shape[1]
    return list((0.5 * np.median(band.upper - band.lower, axis=0)).tolist())
