"""Envelopes that are rougher than was assumed: what tells of them, and fits that have them where they are likelier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..initialise import InitialValues, are_pulses
from ..models import Data, MarkovGP, grid_groups
from .mixture import without_offset
from .rungs import Channels, Rung, Work, frequencies, phases

SURPRISE = 3.0  # standard deviations by which what a fit leaves over turns with a component more than noise does
NEAR = 8, 64  # rows that are looked at together, at least and at most: between them those of a cycle
SHORT = 0.15  # of the lengthscale that envelopes have a priori: where they are shorter a smooth one serves ill


def smooth_or_rough(
    fitted: Callable[[bool], list[Rung]], initial: InitialValues, data: Channels, work: Work
) -> list[list[Rung]]:
    """What fits with smooth envelopes give, and beside it what those with rough ones give, where these may be needed.

    Args:
        fitted: Rungs, the best first, of fits with rough envelopes or smooth ones.
        initial: What was found in the data.
        data: They, of every channel.
        work: What may still be done.
    """
    smooth = fitted(False)
    if not np.any(initial.changing) or are_pulses(initial) or work.spent or not may_be_rough(smooth[0], data):
        return [smooth]
    return [smooth, fitted(True)]


def may_be_rough(rung: Rung, data: Channels) -> bool:
    """Whether envelopes lose their phase somewhere, or what is left over turns with a component that they belong to.

    An amplitude that passes through zero takes the phase with it, by half a cycle. Smooth envelopes that do it are far
    shorter than is likely; those that do not leave it to the frequency, or to the noise.
    """
    model = without_offset(rung.model)
    envelopes = [group for term in model.terms if term.phase is not None for group in grid_groups(term.time)]
    for group in envelopes:
        X = float(group.origin) + float(group.spacing) * np.arange(len(group.whitened.raw))[:, None]
        if np.any(group.unwarped(X) < np.asarray(group.mean.prior.mean) + np.log(SHORT)):
            return True
    offsets = [float(one.offset.value) for one in rung.model.channels]
    return any(
        _turning(one, Data(part.X, np.asarray(part.y) - offset, part.error)) > SURPRISE
        for one, part, offset in zip(model.channels, data, offsets, strict=True)
    )


def _turning(model: MarkovGP, data: Data) -> float:
    """Standard deviations by which what a fit leaves over turns with one of its components more than noise does.

    Products of rows that are near each other, turned by how much the phase of the component differs, have no sign in
    noise, or the other one, since the fit has taken its part. How far what is left keeps step with the component is not
    known: it may have lost it.
    """
    order = np.argsort(np.asarray(data.X)[:, 0], kind="stable")
    X, y, error = (np.asarray(part)[order] for part in (data.X, data.y, data.error))
    left = y - np.asarray(model.parts(model.prepare(Data(X, y, error), X), X)[0].mean)
    left = left / np.hypot(error, float(model.likelihood.noise.value))
    left = left / max(float(np.sqrt(np.mean(left**2))), 1e-300)
    most = 0.0
    for phase in (phase for group in frequencies(model) for phase in phases(group, X[:, 0]).T):
        cycle = 2.0 * np.pi * len(phase) / max(float(phase[-1]), 1e-300)  # in rows
        along = variance = 0.0
        for lag in range(1, int(np.clip(cycle, *NEAR)) + 1):
            turn = np.cos(phase[lag:] - phase[:-lag])
            along += float(np.sum(left[lag:] * left[:-lag] * turn))
            variance += float(np.sum(turn**2))
            most = max(most, along / np.sqrt(variance))
    return most
