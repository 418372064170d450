"""What a referee would ask of a fit along one input, and the answers that are warnings, in words and with a remedy."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jax import Array

from ..core import entry_point
from ..initialise import HARMONICS, InitialValues, common_frequency, find_lines, fundamentals, nyquist
from ..models import Data, MarkovGP, Moments
from ..posterior import Posterior, filled
from ..spectra import local_frequency
from .units import Shown

ROWS = 20_000  # next to each other that are looked at, at most
BLOCKS, SHARE = 10, 0.2  # that are left out of the data, and their share of all rows
LEVEL, WIDTH = 0.9, 1.645  # of intervals, and half their width in standard deviations
CALIBRATED = 0.7  # share inside 90 % intervals, below which predictions of blocks that were left out are poor
CARRIES = 0.3  # of R² in blocks that the model expects, from which on none at all is worth a warning
UNSEEN = 1e15  # error of a row that is not observed
EDGE = 0.03  # of the frequency at which a search ends, within which a component is at its edge
APART = 0.2  # of a frequency, by which fit and data may differ
APART_BY = 0.5  # turns in all the data by which two components differ at least
IN_TUNE = 0.05  # by which a line may miss the multiple of a frequency that is its harmonic
CENTRES = 60  # at which frequencies are looked at
STRETCHES = 10  # of a record, in which the size of oscillations is compared with the level, at most
CYCLES = 2.0  # in each of these at least, by how often what oscillates changes its sign
GROWN = 1.5  # times its least, below which the level tells nothing of whether oscillations grow with it
ROUNDING = 1e-9  # of the range of the outputs: zeros that were standardised are that near to zero
WITH_LEVEL = 0.9  # correlation of the logarithms of sizes and levels, from which on they do


class Verdict(NamedTuple):
    """Warnings, how well blocks of rows are predicted from the others, and what grows with the level, in words."""

    warnings: list[str]
    block_out: dict[str, float]
    growth: str = ""


def judge(model: MarkovGP, data: Data, posterior: Posterior, initial: InitialValues, unit: Shown) -> Verdict:
    """Judge a fit.

    Args:
        model: At its optimum.
        data: What it was fitted to, less the offset.
        posterior: Its draws.
        initial: What was found in the data.
        unit: In which frequencies are told, where outputs are zero, and of which powers of e they are.
    """
    record, count = _Stretch.of(data), model.oscillations
    block_out = _block_out(model, record, unit.exponent)
    if not np.any(initial.band):
        said = [
            "nothing was looked for: outputs are all the same, or there are fewer than eight different inputs; what "
            "is told of frequencies is what was assumed"
        ]
        return Verdict(said, block_out)
    components = _at_rows(model, record, record.error)[1]
    said = [sentence for sentence in _told(initial, unit) if count]
    if not count:
        low, high = initial.band[:, 0] * unit.size
        said.append(
            f"nothing significant: no oscillation between {low:.3g} and {high:.3g} {unit.frequency} stands out "
            "of noise and background; n_components=1 fits one all the same, and longer or less noisy data may show one"
        )
    said += _of_components(count, record, components, posterior, initial, unit)
    if count:
        said += [
            f"components {min(pair) + 1} and {max(pair) + 1} have the same frequency, but for {APART_BY} turns in all "
            "the data: which of them is there cannot be told; fewer components may serve"
            for pair in _repeated(model, record, components, initial).items()
        ]
    # Beside a trend alone, too: oscillations that grow with it may be noise to a model in which they add to it.
    parts = np.asarray(components.mean)
    growing = np.sum(parts[:count], axis=0) if count else record.y - np.sum(parts, axis=0)
    growth = _growth(record, growing, "what oscillates" if count else "what is left beside the background", unit)
    # What the oscillations leave over is noise and background, which could hide one that was missed.
    rest = record.y - np.sum(parts[:count], axis=0)
    said += _of_residuals(record, rest, initial, unit)
    return Verdict(said + _of_blocks(count, block_out), block_out, growth)


def telling(model: MarkovGP, data: Data, initial: InitialValues) -> np.ndarray:
    """Numbers of the components that explain something that no stronger one does; where none does, of the strongest.

    Args:
        model: At its optimum.
        data: What it was fitted to, less the offset.
        initial: What was found in the data.
    """
    record = _Stretch.of(data)
    components = _at_rows(model, record, record.error)[1]
    again = _repeated(model, record, components, initial)
    kept = [a for a, idle in enumerate(_idle(components, initial)) if not idle and a not in again]
    return np.array(kept or [int(np.argmax(_power(components)[fundamentals(initial)]))])


def _power(components: Moments) -> np.ndarray:
    """Mean squares of components ``[a]``, overtones among them."""
    return np.asarray(np.mean(np.square(components.mean), axis=1))


def _repeated(model: MarkovGP, record: _Stretch, components: Moments, initial: InitialValues) -> dict[int, int]:
    """Components that hardly turn against a stronger one in all the data: which that is."""
    first = fundamentals(initial)
    if len(first) == 1:
        return {}
    X = np.linspace(record.t[0], record.t[-1], CENTRES)[:, None]
    frequency = np.abs(np.asarray(local_frequency(model.kernel, X))[:, first, 0])
    order = np.argsort(-_power(components)[first])
    turns = np.mean(np.abs(frequency[:, :, None] - frequency[:, None]), axis=0) * (record.t[-1] - record.t[0])
    return {
        int(a): int(order[k]) for i, a in enumerate(order) for k in reversed(range(i)) if turns[a, order[k]] < APART_BY
    }


def _idle(components: Moments, initial: InitialValues) -> np.ndarray:
    """Whether components ``[a]``, each with its overtones, are smaller than what is known of them."""
    mean, variance = _power(components), np.mean(components.variance, axis=1)
    first = fundamentals(initial)
    ends = np.append(first[1:], first[-1] + min(int(np.broadcast_to(initial.harmonics, first.shape)[-1]), HARMONICS))
    return np.array([mean[a:b].sum() < variance[a:b].sum() for a, b in zip(first, ends, strict=True)])


class _Stretch(NamedTuple):
    """Rows in the order of time: all, or those in the middle of a long record."""

    t: np.ndarray
    y: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, data: Data) -> _Stretch:
        t = np.asarray(data.X)[:, 0]
        order = np.argsort(t, kind="stable")
        first = max((len(t) - ROWS) // 2, 0)
        rows = order[first : first + ROWS]
        return cls(t[rows], *(np.asarray(part)[rows] for part in (data.y, data.error)))


def _told(initial: InitialValues, unit: Shown) -> list[str]:
    """Ambiguities of what was found, in the units in which frequencies are told."""
    told = initial.in_units(np.zeros(1), np.array([1.0 / unit.size]), 1.0).ambiguities(unit.frequency)
    return [f"{sentence}; times at other fractions of that period would tell" for sentence in told]


def _block_out(model: MarkovGP, record: _Stretch, exponent: float | None = None) -> dict[str, float]:
    """How rows are predicted that were left out in blocks: share inside 90 % intervals, and R².

    That is 1 − error / variance, with the squared errors that there are, and with those that the model expects: of
    outputs, which are proportional to powers of e where there is an ``exponent``.
    """
    n = len(record.t)
    wide = max(int(SHARE * n / BLOCKS), 1)
    starts = ((np.arange(BLOCKS) + 0.5) * n / BLOCKS - 0.5 * wide).astype(int)
    rows = np.unique(np.clip(starts[:, None] + np.arange(wide), 0, n - 1))
    error = record.error.copy()
    error[rows] = UNSEEN
    found = _at_rows(model, record, error)[0]
    y, noise = record.y[rows], _noise(model, record, rows)
    mean, variance = (np.asarray(part)[rows] for part in found)
    wanted: Any = Moments(mean, variance + noise**2)  # type: ignore[arg-type]
    inside = np.abs(y - wanted.mean) < WIDTH * wanted.std
    if exponent is not None:
        y, wanted = np.exp(exponent * y), wanted.exponential(exponent)
    total = max(float(np.var(y)), 1e-300)
    return {
        "coverage": float(np.mean(inside)),
        "r2": 1.0 - float(np.mean((y - wanted.mean) ** 2)) / total,
        "expected_r2": 1.0 - float(np.mean(wanted.variance)) / total,
    }


def _of_blocks(count: int, block_out: dict[str, float]) -> list[str]:
    """Whether rows left out in blocks are predicted as well as the model has it.

    Oscillations that lose their phase within a block are predicted by their mean, and the model says so: that is right.
    """
    said = []
    if block_out["coverage"] < CALIBRATED:
        said.append(
            f"of rows that were left out in blocks {block_out['coverage']:.0%} lie inside 90 % intervals: predictions "
            "in gaps and beyond the data are not to be trusted; something other than these components may be there"
        )
    if count and block_out["r2"] <= 0.0 and block_out["expected_r2"] > CARRIES:
        said.append(
            f"rows that were left out in blocks are predicted no better than by their mean (R² {block_out['r2']:.2g}, "
            f"where the model has {block_out['expected_r2']:.2g}): what is found does not carry over gaps; compare the "
            "components with the periodogram in the overview, and give fewer by n_components"
        )
    return said


def _noise(model: MarkovGP, record: _Stretch, rows: np.ndarray) -> np.ndarray:
    """Standard deviation of the noise at some of the rows."""
    those = rows[filled(len(rows))]
    return np.asarray(_scale(model, record.t[those, None], record.error[those]))[: len(rows)]


@entry_point
@eqx.filter_jit
def _scale(model: MarkovGP, X: Any, error: Any) -> Array:
    return model.realise().likelihood.scale_at(X, error)


def _at_rows(model: MarkovGP, record: _Stretch, error: np.ndarray) -> tuple[Moments, Moments]:
    """Moments of f ``[n]`` and of its components ``[a, n]`` at the rows, whose errors are these."""
    X = record.t[:, None]
    return model.parts(model.prepare(Data(record.t, record.y, error), X), X)


def _growth(record: _Stretch, together: np.ndarray, name: str, unit: Shown) -> str:
    """Whether what goes up and down is a share of the level, in words: such records are sums in their logarithms.

    Sizes that go with a power of the level have logarithms that go with its logarithm, by a slope that is the power: 0
    where oscillations are added to the level, 1 where they multiply it. Outputs may be zero, but not negative.
    """
    outputs = record.y - unit.zero
    crossings = np.count_nonzero(np.diff(np.sign(together)) != 0)
    count = min(STRETCHES, int(0.5 * crossings / CYCLES))
    if count < 4 or not np.isfinite(unit.zero) or np.min(outputs) < -ROUNDING * np.ptp(outputs):
        return ""
    parts = np.array_split(np.arange(len(outputs)), count)
    level = np.log([max(float(np.mean(outputs[rows])), 1e-300) for rows in parts])
    size = np.log([max(np.std(together[rows]), 1e-300) for rows in parts])
    if np.ptp(level) < np.log(GROWN) or np.corrcoef(level, size)[0, 1] < WITH_LEVEL:
        return ""
    power = float(np.polyfit(level, size, 1)[0])
    if power < 0.5:
        return ""
    return (
        f"{name} grows with the level of the outputs (as its power {power:.2g}): beyond the data its size returns to "
        "what it was on average, and intervals there may be too narrow"
    )


def _of_residuals(record: _Stretch, residual: np.ndarray, initial: InitialValues, unit: Shown) -> list[str]:
    """Whether a line is left over that no component explains."""
    if len(np.unique(record.t)) < 8 or not np.any(residual):
        return []
    highest = min(nyquist(record.t), float(initial.band[1, 0]) or np.inf)
    lines = find_lines(record.t, residual - np.mean(residual), record.error, highest, 1).lines
    if not lines:
        return []
    f = lines[0].frequency * unit.size
    line = f"the residuals have a line at {f:.6g} {unit.frequency} (a period of {1.0 / f:.4g})"
    for a, count in enumerate(np.broadcast_to(initial.harmonics, initial.found.shape)):
        multiple = lines[0].frequency / float(np.median(initial.frequency[:, a, 0]))
        if HARMONICS < round(multiple) <= count and abs(multiple / round(multiple) - 1.0) < IN_TUNE:
            return [
                f"{line}, about {round(multiple)} times the frequency of component {a + 1}: of its {count} harmonics "
                f"the first {HARMONICS} are fitted, and what is sharp in its shape is left over"
            ]
    steady = np.broadcast_to(initial.steady, initial.found.shape)
    others = np.median(initial.frequency[:, initial.found, 0], axis=0) if np.all(steady[initial.found]) else []
    f0 = common_frequency([lines[0].frequency, *others], record.t[-1] - record.t[0])
    if f0:
        return [
            f"{line} that no component explains; it and all components are multiples of {f0 * unit.size:.6g} "
            f"{unit.frequency} (a period of {1.0 / (f0 * unit.size):.4g}): what repeats has at least that period, and "
            "more overtones than there are components; n_components fits more of them"
        ]
    return [f"{line} that no component explains; n_components fits more of them"]


def _of_components(
    count: int,
    record: _Stretch,
    components: Moments,
    posterior: Posterior,
    initial: InitialValues,
    unit: Shown,
) -> list[str]:
    """Whether components are at an edge of the search, hardly known, hardly there, or not what the data show."""
    said: list[str] = []
    if not count:
        return said
    X = np.linspace(record.t[0], record.t[-1], CENTRES)[:, None]
    band = posterior.local_frequency(X, LEVEL, max_draws=100)
    low, high = initial.band[:, 0]
    idle = _idle(components, initial)
    typical = np.median(np.abs(np.asarray(band.mean)), axis=0)
    for k, a in enumerate(fundamentals(initial)):  # overtones are judged with theirs
        f = np.abs(np.asarray(band.mean)[:, a])
        name = f"component {a + 1}"
        if typical[a] > (1.0 - EDGE) * high and not _is_multiple(typical[a], typical, record.t[-1] - record.t[0]):
            said.append(
                f"{name} lies where the search ends, at {high * unit.size:.4g} {unit.frequency}: it may be the "
                "alias of a faster one; highest_frequency says where to look"
            )
        if np.median(f) < low:
            said.append(
                f"{name} turns less than once in the data ({np.median(f) * unit.size:.3g} {unit.frequency}): it "
                "is a trend rather than an oscillation"
            )
        if band.lower is not None and band.upper is not None:
            wide = np.median(np.asarray(band.upper)[:, a] - np.asarray(band.lower)[:, a])
            if wide > np.median(f):
                said.append(
                    f"the 90 % band of the frequency of {name} is as wide as the frequency itself: the data say "
                    "nothing of it; fewer components may serve"
                )
        if idle[k]:
            said.append(f"{name} explains nothing: it is smaller than what is known of it; fewer components may serve")
    return said + _of_frequencies(X[:, 0], np.abs(np.asarray(band.mean))[:, :count], initial)


def _is_multiple(f: float, others: np.ndarray, span: float) -> bool:
    """Whether a frequency is a multiple of another one, from the second on, to less than a cycle in the record."""
    times = np.round(f / others)
    return bool(np.any((times > 1.5) & (np.abs(f - times * others) * span < 1.0)))


def _of_frequencies(x: np.ndarray, fitted: np.ndarray, initial: InitialValues) -> list[str]:
    """Whether frequencies are those that the data alone show, where these show any."""
    harmonics = np.broadcast_to(initial.harmonics, initial.found.shape)
    if fitted.shape[1] != len(harmonics) or np.any(harmonics > 1):
        return []
    said = []
    for a in np.flatnonzero(initial.found):
        seen = (initial.gain[:, a] > 0) & (initial.centres[:, 0] >= x[0]) & (initial.centres[:, 0] <= x[-1])
        # By the nearest: ridges that come near each other may turn where components cross.
        there = np.stack([np.interp(initial.centres[seen, 0], x, own) for own in fitted.T])
        off = np.min(np.abs(there / initial.frequency[seen, a, 0] - 1.0), axis=0)
        apart = np.median(off) if np.any(seen) else 0.0
        if apart > APART:
            said.append(
                f"the frequency of component {a + 1} is {apart:.0%} off what a periodogram of the data shows: compare "
                "both in the overview, and give n_components if a component was lost"
            )
    return said
