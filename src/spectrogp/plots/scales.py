"""Axes of figures: dates that do not run into each other, logarithms in plain numbers, periods beside frequencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.dates import ConciseDateFormatter
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator, LogLocator, NullLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DAY = 86400e6  # microseconds
APART = 0.07  # of the height of an axis, between ticks of periods


# Steps between dates, by the unit of NumPy that counts them, from the finest on.
STEPS = {
    "us": (1, 10, 100, 1_000, 10_000, 100_000, 500_000),
    "s": (1, 2, 5, 10, 15, 30),
    "m": (1, 2, 5, 10, 15, 30),
    "h": (1, 2, 3, 6, 12),
    "D": (1, 2, 4, 7, 14),
    "M": (1, 2, 3, 6),
    "Y": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000),
}


def date_axis(axes: Axes, ticks: int) -> None:
    """A horizontal axis of dates (days since 1970) with at most so many ticks, so that their labels stay apart.

    Args:
        axes: Those to be labelled.
        ticks: At most.
    """
    locator = _Dates(ticks)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


class _Dates(Locator):
    """Round dates, at most so many: matplotlib's own finds none for some spans, and too many for others."""

    def __init__(self, most: int) -> None:
        self.most = max(most, 2)

    def __call__(self) -> Any:
        low, high = sorted(self.axis.get_view_interval())  # type: ignore[union-attr]
        return self.tick_values(float(low), float(high))

    def tick_values(self, vmin: float, vmax: float) -> Any:
        return round_dates(vmin, vmax, self.most)


def round_dates(low: float, high: float, most: int) -> np.ndarray:
    """Dates from ``low`` to ``high``, in days since 1970, that are evenly spaced and round: as many as may be."""
    ends = np.round(np.array([low, high]) * DAY).astype(np.int64).astype("datetime64[us]")
    for unit, steps in STEPS.items():
        first, last = ends.astype(f"datetime64[{unit}]").astype(np.int64)
        zero = 1970 if unit == "Y" else 0  # years are round in themselves, not since 1970
        for step in steps:
            if (last - first) / step > 2 * most:
                continue
            count = np.arange((first + zero) // step * step, last + zero + 1, step) - zero
            dates = count.astype(f"datetime64[{unit}]").astype("datetime64[us]").astype(np.int64) / DAY
            inside = dates[(dates >= low) & (dates <= high)]
            if len(inside) <= most:
                return np.asarray(inside)
    return np.array([])


def plain_log_axis(axes: Axes) -> None:
    """A logarithmic vertical axis for what is drawn in ``axes``, with a handful of ticks written as plain numbers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    decades = np.log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 1.5 else (1.0, 3.0) if decades < 3.0 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=50))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def period_axis(axes: Axes, label: str, *, left: bool = False) -> Axes:
    """The periods of a vertical axis of frequencies, at its right, as an axis of its own.

    Args:
        axes: Those of the frequencies, with their limits and scale.
        label: Of the periods.
        left: Whether the periods stand at the left, and the frequencies at the right.
    """
    other = axes.twinx()
    other.set_ylim(axes.get_ylim())
    other.set_yscale(axes.get_yscale())
    periods = round_periods(axes.get_ylim(), log=axes.get_yscale() == "log")
    other.yaxis.set_major_locator(FixedLocator((1.0 / periods).tolist()))
    other.yaxis.set_minor_locator(NullLocator())
    other.yaxis.set_major_formatter(FuncFormatter(lambda frequency, _: f"{1.0 / frequency:.4g}"))
    other.set_ylabel(label)
    if left:
        axes.yaxis.tick_right()
        axes.yaxis.set_label_position("right")
        other.yaxis.tick_left()
        other.yaxis.set_label_position("left")
    other.spines[:].set_visible(False)
    return other


def round_periods(limits: tuple[float, float], *, log: bool) -> np.ndarray:
    """Round periods, the longest first, whose frequencies lie within ``limits`` and apart on a linear or log axis."""
    low, high = limits
    start = max(low, 1e-3 * high)
    tens = 10.0 ** np.arange(np.floor(-np.log10(high)) - 1.0, np.ceil(-np.log10(start)) + 1.0)

    def place(frequency: float) -> float:
        if log:
            return float(np.log(frequency / low) / np.log(high / low))
        return (frequency - low) / (high - low)

    chosen: dict[float, float] = {}  # place on the axis, by period
    # Rounder ones first: 1, then 2 and 5, then those between.
    for steps in ((1.0,), (2.0, 5.0), (1.5, 3.0, 4.0, 6.0, 8.0), (1.2, 2.5, 7.0, 9.0), (1.1, 1.3, 1.4, 1.6, 1.8)):
        if len(chosen) >= 4:
            break
        for period in np.outer(steps, tens).ravel().tolist():
            at = place(1.0 / period) if 1.0 / period > start else -1.0
            if 0.0 <= at <= 1.0 and all(abs(at - other) >= APART for other in chosen.values()):
                chosen[period] = at
    return np.array(sorted(chosen)[::-1])
