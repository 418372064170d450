"""Reports of a fitted estimator: what it says of its data and its kernel, in the units of the data, evaluated once.

The room ``plots`` is imported where a report is made: a fit alone does not load matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..core import as_level, at_least
from ..initialise import HARMONICS, fundamentals
from ..models import Data, MarkovGP
from ..posterior import Band, LocalDraws, Prediction, instantaneous_amplitude
from .beyond import finite
from .categories import numbers_as_fitted
from .rows import complete_rows, separated
from .settings import DEFAULT_DRAWS, FEW_DRAWS, draws_read
from .times import outputs_of
from .units import shown_units

if TYPE_CHECKING:
    from ..plots import Along, Labels, Report

ROWS = 2000  # that a report looks at, at most
DRAWS = 200  # likewise
GRID = 400, 1200  # inputs at which functions are shown: so many to a cycle, but at least and at most these
TO_A_CYCLE, LEAST_TO_A_CYCLE = 16.0, 4.0  # below which a curve through them would show another frequency
# Draws that amplitudes are read at, at most, each as long as a prediction: they differ little beside what is not known
# of the envelope given one.
OF_AMPLITUDES = 100
COMPONENTS = 6  # that are drawn one by one, at most
INPUTS = 3  # along which spectrograms are shown, at most


def report(
    estimator: Any,
    X: Any,
    y: Any,
    error: Any,
    names: Any,
    *,
    level: float = 0.9,
    unit: str | None = None,
    resolution: int | None = None,
) -> Report:
    """The report of a fitted estimator on data, or on those that it was fitted to."""
    from ..plots import Along, Report

    level, labels = as_level(level), labels_of(estimator, names, unit)
    given = _training(estimator) if X is None else _given(estimator, X, y, error)
    rows = spread(len(given.y), ROWS)
    X, y, error = (np.asarray(part)[rows] for part in (given.X, given.y, given.error))
    some = spread(len(y), GRID[0])
    one = X.shape[1] == 1
    grids = [inputs_along(estimator, axis, resolution) for axis in range(min(X.shape[1], INPUTS))]
    if one and cycles_along(estimator) * LEAST_TO_A_CYCLE > len(grids[0]):
        grids = [scattered(grids[0])]
    units = estimator._units
    # One evaluation of the model for all rows and the grid, and one of the kernel for all inputs that are shown.
    count, wanted = len(y), np.concatenate([X, grids[0]]) if one else X
    beyond = len(wanted) - count
    everything = estimator._predicted(
        units.inputs(wanted), np.append(error, np.zeros(beyond)), np.append(y, np.full(beyond, y[0])), level
    )
    local = local_functions(estimator, np.concatenate([X[some], *grids]), labels.sizes)
    ends = len(some) + np.cumsum([0, *map(len, grids)])
    along = tuple(Along(axis, at, _part(local, ends[axis], ends[axis + 1])) for axis, at in enumerate(grids))
    return Report(
        labels=labels,
        X=X,
        y=y,
        error=error,
        rows=_rows(everything, slice(0, count)),
        local=_part(local, 0, len(some)),
        along=along,
        grid=_rows(everything, slice(count, None)) if one else None,
        amplitude=_amplitude(estimator, grids[0], level),
        components=_components(estimator, grids[0], local.weight.shape[-1], level) if one else None,
        record=_record(given, units.log) if one else None,
        band=estimator.initial_values_.band * np.array(labels.sizes),
        level=level,
        doubtful=estimator.diagnostics().failed,
        overtones=_overtones(estimator),
        warnings=tuple(estimator.warnings_),
    )


def view_along(estimator: Any, axis: int, *, unit: str | None = None, resolution: int | None = None) -> Along:
    """What the kernel says along one input."""
    from ..plots import Along

    at = inputs_along(estimator, axis, resolution)
    return Along(axis, at, local_functions(estimator, at, labels_of(estimator, None, unit).sizes))


def local_functions(estimator: Any, X: np.ndarray, sizes: tuple[float, ...]) -> LocalDraws:
    """What the kernel says at inputs ``X [n, d]``, in the units of the data, or ``sizes`` of them."""
    inside = estimator.posterior_.local_functions(estimator._units.inputs(X), max_draws=DRAWS)
    count = oscillations(estimator.model_) or None  # where nothing oscillates the background is shown
    seen = LocalDraws(*(None if part is None else part[:, :, :count] for part in inside))
    return seen.in_units(estimator.X_scale_ / np.array(sizes), estimator.y_scale_)


def amplitudes_at(estimator: Any, rows: np.ndarray, level: float) -> Band:
    """The amplitudes ``[n, a]`` of oscillations at standardised inputs ``rows [n, 1]``, of a model that has envelopes.

    Args:
        estimator: Fitted by a ``MarkovGP`` of one channel.
        rows: The inputs.
        level: Probability of the intervals.
    """
    draws = min(averaged_over(estimator, len(rows)), OF_AMPLITUDES)
    band = instantaneous_amplitude(estimator.posterior_, estimator.data_, rows, level, max_draws=draws)
    return band.map(lambda part: estimator.y_scale_ * finite(part)[:, : estimator.model_.oscillations])


def oscillations(model: Any) -> int | None:
    """How many of a model's components oscillate, the first ones; None where all of them may."""
    return model.oscillations if isinstance(model, MarkovGP) else None


def inputs_along(estimator: Any, axis: int = 0, count: int | None = None) -> np.ndarray:
    """Inputs ``[count, d]`` along one column over the range of the data, the others in the middle of theirs.

    By default there are as many as the cycles that were found need, within limits.
    """
    low, high = estimator.initial_values_.extent
    if count is None:
        count = int(np.clip(TO_A_CYCLE * cycles_along(estimator, axis), *GRID)) if len(low) == 1 else GRID[0]
    at_least(2, resolution=count)
    X = np.broadcast_to(0.5 * (low + high), (count, len(low))).copy()
    X[:, axis] = np.linspace(low[axis], high[axis], count)
    return X


def cycles_along(estimator: Any, axis: int = 0) -> float:
    """How many cycles of the fastest frequency that was found there may be along an input."""
    initial = estimator.initial_values_
    return float(np.max(np.abs(initial.frequency[..., axis])) * np.ptp(initial.extent[:, axis]))


def scattered(X: np.ndarray) -> np.ndarray:
    """Even inputs ``[n, 1]``, each but the ends moved to somewhere in its cell, in the same order.

    Of an oscillation that they are too few for, even inputs would show a slower one; these show how far it swings.
    """
    move = np.random.default_rng(0).uniform(-0.5, 0.5, len(X) - 2)
    return np.concatenate([X[:1], X[1:-1] + move[:, None] * (X[1] - X[0]), X[-1:]])


def columns_of(estimator: Any) -> tuple[str, ...]:
    """The names of the inputs and of the output, as containers had them or plain ones."""
    return tuple(estimator.names_)


def labels_of(estimator: Any, names: Any = None, unit: str | None = None) -> Labels:
    """How inputs and output are called in figures; ``names`` are those of the inputs, then that of the output.

    Times are shown in a ``unit`` of ``choices.UNITS``, or in one that suits the span of the data.
    """
    from ..plots import Labels

    *x, y = columns_of(estimator) if names is None else names
    times, origins = tuple(bool(time) for time in estimator.times_), estimator.X_origin_
    units, sizes = shown_units(tuple(x), times, np.ptp(estimator.initial_values_.extent, axis=0), unit)
    called = (
        name if not origin else _since(name, time, origin) for name, time, origin in zip(x, times, origins, strict=True)
    )
    # Those that are counted from an origin are drawn as numbers.
    dates = tuple(time and not origin for time, origin in zip(times, origins, strict=True))
    return Labels(tuple(called), y, units, dates, sizes, estimator._units.log)


def _since(name: str, time: bool, origin: Any) -> str:
    if not origin:
        return name
    return f"{name} (days since {origin})" if time else f"{name} − {origin}"


def said_of_blocks(block_out: Mapping[str, float]) -> str:
    """How well rows are predicted that were left out in blocks, in words: R² of rows fitted to does not tell."""
    return (
        f"of rows that were left out in blocks and predicted from the others: R² {block_out['r2']:.4f}, "
        f"{block_out['coverage']:.1%} inside 90 % intervals"
    )


def said_of_transform(diagnostics: Mapping[str, Any]) -> str:
    """That logarithms of the outputs were fitted, and why, in words; nothing where they were not."""
    if diagnostics.get("target_transform") != "log":
        return ""
    gain = diagnostics.get("log_gain")
    why = "" if gain is None else f", which are likelier by {gain:.3g} nats than outputs as they are"
    return (
        f"logarithms of the outputs were fitted{why}: components multiply, and amplitudes and noise are shares of the "
        "level"
    )


def spread(count: int, most: int) -> np.ndarray:
    """Evenly spaced rows, at most so many."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def _record(given: Data, log: bool) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs of all rows, or the logarithms of outputs that have one."""
    t, y = np.asarray(given.X)[:, 0], np.asarray(given.y)
    return (t[y > 0.0], np.log(y[y > 0.0])) if log else (t, y)


def _given(estimator: Any, X: Any, y: Any, error: Any) -> Data:
    X, y, *_ = separated(X, y)
    rows = np.asarray(numbers_as_fitted(estimator, X).numbers, float)
    return Data(*complete_rows(rows, outputs_of(y), error)[:3])


def _training(estimator: Any) -> Data:
    given: Data = estimator._units.given(getattr(estimator.data_, "data", estimator.data_))  # that of neighbourhoods
    return given


def _components(estimator: Any, at: np.ndarray, count: int, level: float) -> Band | None:
    """Each component's part of the signal, or factor of it, if there are a few: those of many say little one by one."""
    if not 1 < count <= COMPONENTS:
        return None
    try:
        inside = estimator.posterior_.components(
            estimator.data_, estimator._units.inputs(at), level, max_draws=averaged_over(estimator, len(at))
        )
    except TypeError:  # a kernel that is no sum of components
        return None
    return inside.map(estimator._units.factors)


def _amplitude(estimator: Any, at: np.ndarray, level: float) -> Band | None:
    """The amplitudes of oscillations, where the model has envelopes and something oscillates."""
    if not oscillations(estimator.model_):
        return None
    return amplitudes_at(estimator, estimator._units.inputs(at), level)


def averaged_over(estimator: Any, inputs: int) -> int:
    """Draws that predictions at so many inputs average over."""
    if not isinstance(estimator.model_, MarkovGP):
        return FEW_DRAWS
    rows = estimator.data_.size
    # Of many inputs, as a figure has them, no more than for what the eye sees.
    return max(draws_read(rows + inputs), min(draws_read(rows), DEFAULT_DRAWS))


def _overtones(estimator: Any) -> dict[int, tuple[int, int]]:
    """Which components are overtones, of which one, and which multiple of its frequency they have."""
    initial = estimator.initial_values_
    if not oscillations(estimator.model_) or not np.any(initial.found):
        return {}
    harmonics = np.minimum(np.broadcast_to(initial.harmonics, initial.found.shape), HARMONICS)
    pairs = zip(fundamentals(initial).tolist(), harmonics.tolist(), strict=True)
    return {first + k: (first, k + 1) for first, count in pairs for k in range(1, count)}


def _rows(prediction: Prediction, rows: slice) -> Prediction:
    return Prediction(*jax.tree.map(lambda part: part[rows], tuple(prediction)))


def _part(local: LocalDraws, start: int, stop: int) -> LocalDraws:
    return LocalDraws(*(None if part is None else part[:, start:stop] for part in local))
