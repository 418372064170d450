"""What there is along one input: components that change, steady lines, and a background beside them.

Components that change are seen through windows: ridges (``ridges``), or, where there are more cycles than these can
follow, tracks through all the data (``long``). Tones that stay the same are lines of the whole record (``lines``): it
shows what is weaker than windows see, and faster than the average spacing allows. Both must be there beside a trend and
red noise (``background``): the log likelihood of what they leave over, whose background is fitted again, has to rise by
more than they gain by chance. Windows may be first and lines in what they leave over, or lines first and windows then;
the one of these that the data are more likely with is taken; but both kinds only where windows leave a line over, or
fall short by far.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammainccinv

from .background import fit_band, fit_slow
from .beside import COARSE, MANY, trend_of
from .covariance import Null, Process
from .harmonics import IN_STEP, REPEATED, in_step
from .lines import LEAST, Lines, find_lines, nyquist
from .long import SHARE, WHOLE
from .ridges import FALSE_ALARM, SIGNIFICANT
from .windows import Component, Record, View, windows_of

SLOWLY = 0.25  # of a cycle, that means of rows are long at most, in which a component shows
SURE = 10.0  # nats that a component gains beside red noise: the best of many paths through that gains by chance, too
BAND = 2.0  # nats that a process with a frequency gains where nothing else oscillates, beside what its numbers cost
OVERTONES = (2, 3, 4)  # numbers of harmonics that a ridge is tried with
WEAK = 0.01  # of its own power, that an overtone of a ridge has at least
NEARLY = 0.05  # by which a ridge may miss the multiple of another that it is
FAINT = 0.1  # of the spread, of the background that there is where nothing else is


class Choice(NamedTuple):
    """Components, lines among them, with the background beside them and the log likelihood less all costs."""

    view: View
    lines: Lines | None
    null: Null
    worth: float


def look_along(
    record: Record, components: int | None, most: int, highest: float | None, rng: np.random.Generator
) -> tuple[list[View], Lines | None, Null, np.ndarray]:
    """Components of a record, in several views of which the first is the best; its lines; the background; the band.

    Args:
        record: The record.
        components: Their number, or None for as many as are significant.
        most: How many of these, at most.
        highest: Where the search ends, in cycles per unit; None for where the times tell no more.
        rng: For the rows that ridges look at.
    """
    most = most if components is None else components
    windows, band = windows_of(record, highest, rng)
    limit = nyquist(record.t) if highest is None else highest
    band = np.array([band[0], max(band[1], limit)])
    if len(record.t) > MANY:
        views = windows(record.y, components, most)
        if any(np.any(component.gain > 0) for component in views[0].components):
            views, null = _beside_slow(record, views, components is not None)
            return views, None, null, band
    none = np.zeros_like(record.y)
    bent = record.null(none)
    flat = record.null(none, bent[0], degree=0)
    trend = none if flat[1] >= bent[1] else trend_of(record, bent[0])
    views = windows(record.y - trend, components, most)
    first = _windows_first(record, views[0], components, most, limit, bent)
    lines = find_lines(record.t, record.y, record.error, limit, most, near=bent[0], overtones=components is None)
    if lines.lines:
        left = None if components is None else components - len(lines.lines)
        others: list[View] = [View(views[0].centres, [])]
        if left != 0:
            others = windows(record.y - trend - lines.signal, left, max(most - len(lines.lines), 0))
        second = _lines_first(record, others[0], lines, components, limit)
        # Windows that leave no line over need none, unless they fall short by far, and not of weak lines alone; lines
        # that leave nothing else need no windows.
        enough = components is None and first.view.components and first.lines is None
        mixed = any(not component.steady for component in second.view.components)
        strong = any(_power(line.wave) > WHOLE * float(np.var(record.y)) for line in lines.lines)
        margin = 0.0 if not (enough and mixed) else SURE * len(second.view.components) if strong else np.inf
        least = second.worth - margin
        if least > first.worth and least > _worth_as_band(record, first):
            return _all_views(second, others), second.lines, second.null, band
    return _all_views(first, views), first.lines, first.null, band


def _beside_slow(record: Record, views: list[View], every: bool) -> tuple[list[View], Null]:
    """What windows see in a long record, less slow components that are none beside a background; and the background.

    Both are judged by means of rows, in which fast components hardly show: these are taken as windows see them.
    """
    coarse, some = record.coarse(COARSE), views[0].components
    slow = [component.typical * record.span < SLOWLY * COARSE for component in some]
    fast = record.means(_sum([part for part, slowly in zip(some, slow, strict=True) if not slowly], record), COARSE)
    judged = {
        k: component._replace(signal=record.means(component.signal, COARSE))
        for k, component in enumerate(some)
        if slow[k]
    }
    kept, null, _ = _there(coarse, list(judged.values()), fast, coarse.null(fast), every)
    there = {k: found for k, own in judged.items() for found in kept if found.signal is own.signal}
    components = [
        there[k]._replace(signal=component.signal) if k in there else component
        for k, component in enumerate(some)
        if k in there or not slow[k]
    ]
    if len(components) < len(some) or any(not np.isinf(component.lengthscale) for component in components):
        views = [View(views[0].centres, components)]
    signal = _sum(components, record)
    rest, seen = record.y - signal, record.means(signal, COARSE)
    if null.processes or coarse.null(seen, null)[1] > coarse.null(seen, null, degree=0)[1]:
        rest = rest - np.interp(record.t, coarse.t, record.means(rest, COARSE))
    return views, null._replace(noise=1.4826 * float(np.median(np.abs(rest))))


# Components and lines


def _windows_first(
    record: Record, view: View, count: int | None, most: int, limit: float, bent: tuple[Null, float]
) -> Choice:
    """Components seen through windows, as far as they are there, and lines in what they leave over."""
    kept, null, worth = _there(record, view.components, np.zeros_like(record.y), bent, count is not None)
    if count is None:
        kept, null, worth = _or_band(record, kept, null, worth)
    kept, null, worth = _with_overtones(record, kept, np.zeros_like(record.y), null, worth, limit)
    if count is not None or len(kept) == most:
        return Choice(View(view.centres, kept), None, null, worth)
    signal = _sum(kept, record)
    without = [_swept(component, view.centres) for component in kept]
    rest = record.y - signal
    lines = find_lines(record.t, rest, record.error, limit, most - len(kept), null, without)
    if kept and lines.lines:
        # As of further tracks: what is weaker is not worth a component beside others, and is warned of after the fit.
        least = max(SHARE * float(np.var(rest)), WHOLE * float(np.var(record.y)))
        strong = sum(_power(line.wave) > least for line in lines.lines)
        if strong < len(lines.lines):
            lines = find_lines(record.t, rest, record.error, limit, strong, null, without)
    if not lines.lines:
        return Choice(View(view.centres, kept), None, null, worth)
    worth = lines.likelihood - sum(part.cost for part in kept) - sum(line.price for line in lines.lines)
    return Choice(_with_lines(View(view.centres, kept), lines), lines, lines.null, worth)


def _power(wave: np.ndarray) -> float:
    """Mean square of a tone by its waves."""
    return 0.5 * float(np.sum(np.square(wave)))


def _swept(component: Component, centres: np.ndarray) -> tuple[float, float]:
    """Where windows may have missed some of a component: the frequencies that it sweeps over, and half as many beside.

    A frequency that swings to and fro makes lines there of what is left of it. A tone of its own that another sweeps
    over is seen through windows, too.
    """
    seen = component.frequency[component.gain > 0]
    low, high = (float(np.min(seen)), float(np.max(seen))) if len(seen) else (0.0, 0.0)
    beside = 0.5 * (high - low) + 1.0 / float(centres[1] - centres[0])
    return low - beside, high + beside


def _lines_first(record: Record, view: View, lines: Lines, count: int | None, limit: float) -> Choice:
    """Lines, and components seen through windows in what they leave over."""
    begin = lines.null, lines.likelihood
    kept, null, worth = _there(record, view.components, lines.signal, begin, count is not None)
    kept, null, worth = _with_overtones(record, kept, lines.signal, null, worth, limit)
    worth -= sum(line.price for line in lines.lines)
    return Choice(_with_lines(View(view.centres, kept), lines), lines, null, worth)


def _there(
    record: Record, candidates: list[Component], signal: np.ndarray, begin: tuple[Null, float], every: bool
) -> tuple[list[Component], Null, float]:
    """Those of several components that are there beside the background; and what all of it is worth.

    One that is there makes the background smaller, and others show then that did not before: where none shows alone,
    several may together, unless a single process of a band explains as much. Those that turn less than twice belong to
    the background, and few cycles may be the ups and downs of a slow process that has no frequency.
    """

    def costs(some: list[Component]) -> float:
        return sum(component.cost for component in some)

    def repeats(component: Component) -> bool:
        return component.typical * record.span >= REPEATED

    kept: list[Component] = []
    null, worth = begin
    waiting = [component for component in candidates if every or np.any(component.gain > 0)]
    while waiting:
        trials = [record.null(signal + component.signal, null)[1] - component.cost for component in waiting]
        turns = [every or component.typical * record.span >= LEAST for component in waiting]
        best = int(np.argmax(np.where(turns, trials, -np.inf)))
        gain = trials[best] - costs(kept) - worth
        if not every and not (turns[best] and gain > SURE):
            several = [component for component in waiting if repeats(component)]
            found, likelihood = record.null(signal + _sum(several, record))
            likelihood -= costs(kept) + costs(several)
            band = _band(record, several, signal, null)
            others = worth if band is None else max(worth, band[2] - costs(kept))
            if len(several) > 1 and likelihood - others > len(several) * SURE:
                kept, null, worth, signal = kept + several, found, likelihood, signal + _sum(several, record)
                waiting = [component for component in waiting if not repeats(component)]
            break
        if not (every or repeats(waiting[best])):
            slow, likelihood = fit_slow(record.t, record.y - signal, record.error, null, waiting[best].typical)
            if trials[best] < likelihood + SURE:
                waiting.pop(best)
                if likelihood - costs(kept) > worth:
                    null, worth = slow, likelihood - costs(kept)
                continue
        kept.append(waiting.pop(best))
        signal = signal + kept[-1].signal
        # The background of what is left may be of another kind.
        null, likelihood = max(record.null(signal), record.null(signal, null), key=lambda pair: pair[1])
        worth = likelihood - costs(kept)
    band = None if every else _band(record, waiting, signal, null)
    margin = 0.0 if np.any(signal) else BAND
    if band is not None and band[2] - costs(kept) > worth + margin:
        slow, likelihood = fit_slow(record.t, record.y - signal, record.error, null, band[0].typical)
        if band[2] > likelihood + (margin if repeats(band[0]) else SURE):
            null, worth = band[1], band[2] - costs(kept)
            kept.append(band[0])
        elif likelihood - costs(kept) > worth:
            null, worth = slow, likelihood - costs(kept)
    return kept, null, worth


def _with_overtones(
    record: Record, kept: list[Component], beside: np.ndarray, null: Null, worth: float, highest: float
) -> tuple[list[Component], Null, float]:
    """Components with the overtones that are there: one that is no sinusoid is one oscillation, not several.

    What windows missed of a frequency that changes is explained by any other waves, but these do not keep step.
    """
    for first in sorted(kept, key=lambda component: component.typical):
        now = first
        for count in OVERTONES:
            repeats = now.typical * record.span > REPEATED and count * now.typical < highest
            if now.overtones is None or not repeats or not any(now is part for part in kept):
                break
            others = [part for part in kept if part is not now and not _is_overtone(part, now, count)]
            joined = len(others) < len(kept) - 1
            signal = beside + _sum(others, record)
            explained, waves = now.overtones(count, record.y - signal)
            power = np.sum(np.abs(waves) ** 2, axis=0)
            if in_step(waves[..., None]) < IN_STEP or power[-1] < WEAK * power[0]:
                break
            chance = float(gammainccinv((count - 1) * max(now.windows, 1.0), FALSE_ALARM))
            richer = now._replace(signal=explained, harmonics=count, price=first.price + chance)
            found, likelihood = record.null(signal + explained, null)
            rise = likelihood - sum(part.cost for part in others) - richer.cost - worth
            if rise > (0.0 if joined else SIGNIFICANT):
                kept, now, null, worth = [*others, richer], richer, found, worth + rise
    return kept, null, worth


def _is_overtone(component: Component, base: Component, count: int) -> bool:
    """Whether a component has a multiple of the frequency of another, up to the ``count``-th."""
    both = (component.gain > 0) & (base.gain > 0)
    if not np.any(both):
        return False
    ratio = component.frequency[both] / base.frequency[both]
    multiple = float(np.round(np.median(ratio)))
    return 2 <= multiple <= count and float(np.median(np.abs(ratio / multiple - 1.0))) < NEARLY


def _band(
    record: Record, candidates: list[Component], signal: np.ndarray, null: Null
) -> tuple[Component, Null, float] | None:
    """That of several components which a process of its band explains best, with its null and log likelihood.

    What loses its phase too often to be followed through windows may still be no red noise, but have a frequency: that
    of the process, and how long it keeps its phase.
    """
    t, rest, best = record.t, record.y - signal, None
    for component in (part for part in candidates if np.any(part.gain > 0)):
        limits = np.quantile(component.frequency[component.gain > 0], [0.1, 0.9]) * (0.7, 1.4)
        low = max(float(limits[0]), LEAST / record.span)
        if limits[1] > low:
            frequency = float(np.clip(component.typical, low, limits[1]))
            found, likelihood = fit_band(t, rest, record.error, null, frequency, (low, float(limits[1])))
            if best is None or likelihood > best[2]:
                best = _of_process(component, found.processes[-1]), found, likelihood
    return best


def _or_band(record: Record, kept: list[Component], null: Null, worth: float) -> tuple[list[Component], Null, float]:
    """The same with a process of a band instead of the strongest component, if that is no path of it.

    Where slow ups and downs are stronger than what oscillates a path may follow these, and the other one where it is
    stronger: a single function of two things. A process of its band beside a slow one explains both.
    """
    if not kept:
        return kept, null, worth
    strongest = max(kept, key=lambda component: float(np.var(component.signal)))
    if strongest.harmonics > 1:
        return kept, null, worth
    others = [component for component in kept if component is not strongest]
    signal = _sum(others, record)
    found = _band(record, [strongest], signal, record.null(signal)[0])
    if found is None:
        return kept, null, worth
    band, beside, likelihood = found
    likelihood -= sum(component.cost for component in others)
    elsewhere = np.abs(np.log(strongest.frequency / band.frequency))[strongest.gain > 0] > np.log(2.0)
    if likelihood > worth + SURE and np.mean(elsewhere) > 0.5:
        return [*others, band._replace(signal=np.zeros_like(record.y))], beside, likelihood
    return kept, null, worth


def _of_process(component: Component, process: Process) -> Component:
    """A component as the process that explains it, at the same frequency throughout; one with harmonics as it is."""
    if component.harmonics > 1:
        return component
    same = np.ones_like(component.gain)
    values = {"frequency": process.frequency * same, "amplitude": np.sqrt(2.0) * process.amplitude * same, "gain": same}
    return component._replace(**values, lengthscale=process.lengthscale)


def _worth_as_band(record: Record, choice: Choice) -> float:
    """What components are worth with the strongest one as a process of its band, which pays for no window."""
    changing = [component for component in choice.view.components if not component.steady]
    if not changing:
        return -np.inf
    lines = choice.lines.lines if choice.lines else []
    strongest = max(changing, key=lambda component: float(np.var(component.signal)))
    others = signal_of(record, choice.view, choice.lines) - strongest.signal
    found = _band(record, [strongest], others, choice.null)
    costs = sum(line.price for line in lines) + sum(part.cost for part in changing) - strongest.cost
    return -np.inf if found is None else found[2] - costs


def _with_lines(view: View, lines: Lines) -> View:
    """A view with steady components beside those that it has."""
    count = len(view.centres)
    steady = [
        Component(
            np.full(count, line.frequency),
            np.full(count, float(np.hypot(*line.wave))),
            np.full(count, max(line.gain / count, 1.0)),
            np.zeros(0),
            line.price,
            steady=True,
        )
        for line in lines.lines
    ]
    return View(view.centres, [*view.components, *steady])


def _all_views(choice: Choice, views: list[View]) -> list[View]:
    """The chosen view, and others like it with the same lines."""
    changing = [component for component in choice.view.components if not component.steady]
    others = []
    if len(changing) == len(views[0].components):
        others = [view for view in views[1:] if len(view.components) == len(changing)]
    if choice.lines is not None:
        others = [_with_lines(view, choice.lines) for view in others]
    return [choice.view, *others]


def _sum(components: list[Component], record: Record) -> np.ndarray:
    return sum((component.signal for component in components), np.zeros_like(record.y))


def signal_of(record: Record, view: View, lines: Lines | None) -> np.ndarray:
    """What all components of a view are together at the rows, ``[n]``."""
    changing = [component for component in view.components if not component.steady]
    return _sum(changing, record) + (0.0 if lines is None else lines.signal)
