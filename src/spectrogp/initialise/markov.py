"""Markov models that begin at the initial values found in data."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import numpy as np

from ..kernels import AbstractKernel, IntegratedPhase, MaternPhase, Sum, WarpedTime
from ..models import ChannelGP, Gaussian, MarkovGP
from ..parameters import ELEVEN_HALVES, GridFunctionGroup, LogNormal, Normal, Positive, Real, knots_needed
from .initial import InitialValues
from .kernels import VARIES, builds, noise_from

KNOTS = (44, 88, 176, 264)  # of the frequencies of a short signal: the least that serve, so that programs are shared
LEAST = 96  # of every function of a long one, likewise
SLOWER = (4.0, 10.0)  # lengthscales of amplitudes and of the envelopes' lengthscales, in those of the frequencies
SHARES = (0.5, 1.0)  # the same of short data, in standard deviations of the inputs
# Lengthscales of oscillations, in standard deviations of the inputs or, of long data, in lengthscales of frequencies: a
# priori, with the standard deviation of their logarithm, and where those that have lost their phase begin. What an
# envelope's own turning could explain belongs to the frequency, unless the data say much else.
COHERENT, SURE, LOOSE = (20.0, 40.0), 0.5, (3.0, 4.0)
STRAYS = 0.3  # standard deviation of the frequency of a line, a priori, in cycles to the record
HARMONICS = 6  # at most: those beyond cost as the square of their number, and say little more of the phase
PULSES = 2  # harmonics beyond which envelopes are of order one half, and amplitudes change together: both cost less


def markov_from(
    initial: InitialValues, smoothness: float, *, long: bool = False, loose: bool = False, rough: bool = False
) -> MarkovGP | ChannelGP:
    """The phase model with Matérn envelopes whose functions begin at what was found, one term for each fundamental.

    Of several channels it is a ``ChannelGP``, with amplitudes, noise and offset of each.

    Args:
        initial: What was found in the data, of one input.
        smoothness: Lengthscale of the frequencies a priori, in units of the input.
        long: Whether the knots grow with the data; else their number is fixed.
        loose: Whether oscillations begin with a short lengthscale, so that envelopes turn where frequencies are wrong.
        rough: Whether the envelopes of components that change have no derivative, as random amplitudes have none.
    """
    if np.ndim(initial.noise):
        ones: list[Any] = [
            markov_from(initial.channel(k), smoothness, long=long, loose=loose, rough=rough)
            for k in range(len(initial.noise))
        ]
        amplitudes = [tuple(term.amplitude for term in one.terms) for one in ones]
        return ChannelGP(ones[0].kernel, amplitudes, [one.likelihood for one in ones], [one.offset for one in ones])
    count = initial.gain.shape[1]
    harmonics = np.minimum(np.broadcast_to(initial.harmonics, (count,)), HARMONICS)
    steady = np.broadcast_to(initial.steady, (count,))
    # Components that share a term share the prior of how much they vary; harmonics are those of one fundamental.
    together = [np.flatnonzero(~steady), np.flatnonzero(steady)]
    if np.any(harmonics > 1):
        together = [np.array([a]) for a in range(count)]
    if not np.any(initial.found) and len(initial.background_amplitude):  # nothing oscillates
        together = []
    terms: list[Any] = [
        _term(initial, chosen, int(harmonics[chosen[0]]), smoothness, long, loose, rough)
        for chosen in together
        if len(chosen)
    ]
    terms += [
        MaternPhase(WarpedTime(_around(lengthscale)), None, _around(amplitude), order=float(order))
        for amplitude, lengthscale, order in zip(
            initial.background_amplitude, initial.background_lengthscale[:, 0], initial.background_order, strict=True
        )
    ]
    kernel = Sum(*terms) if len(terms) > 1 else terms[0]
    # The mean of the data is that of the signal only if cycles are many and whole.
    return MarkovGP(kernel, Gaussian(noise_from(initial)), Real(0.0, Normal(0.0, max(initial.spread, 1e-3))))


def are_pulses(initial: InitialValues) -> bool:
    """Whether an oscillation that was found has many harmonics."""
    return bool(np.any(np.broadcast_to(initial.harmonics, initial.found.shape)[initial.found] > PULSES))


def fundamentals(initial: InitialValues) -> np.ndarray:
    """Which components of the model are those that were found, ``[a]``: the overtones of each follow it."""
    harmonics = np.minimum(np.broadcast_to(initial.harmonics, initial.found.shape), HARMONICS)
    return np.asarray(np.cumsum(harmonics) - harmonics)


def _around(value: float) -> Positive:
    return Positive(float(value), LogNormal(float(value), 1.0))


@builds("matern")
def _matern(initial: InitialValues, Z: np.ndarray) -> AbstractKernel:
    del Z  # its functions have knots of their own
    return markov_from(initial, float(initial.scale[0])).kernel


def _term(
    initial: InitialValues, chosen: np.ndarray, harmonics: int, smoothness: float, long: bool, loose: bool, rough: bool
) -> MaternPhase:
    low, high = float(initial.extent[0, 0]), float(initial.extent[1, 0])
    extent, scale = (low, high if high > low else low + 1.0), float(initial.scale[0])
    steady = bool(np.all(np.broadcast_to(initial.steady, initial.gain.shape[1:])[chosen]))
    if steady:  # what is the same throughout changes over the whole record, however long that is
        long, smoothness = False, scale
    slower = [
        min(scale, factor * smoothness) if long else share * scale for factor, share in zip(SLOWER, SHARES, strict=True)
    ]
    omega = 2.0 * np.pi * initial.frequency[:, chosen]
    # Where the data say nothing the smoothness of the functions decides. Harmonics tell more (``frequency_error``), but
    # single windows may be far off, and a fit that began there would stay.
    std = (0.1 * np.sqrt(1.0 + 1.0 / np.maximum(initial.gain[:, chosen], 1e-6)))[..., None]
    weight = std**-2.0
    typical = np.exp(np.sum(weight * np.log(omega), axis=0) / np.sum(weight, axis=0))
    varies = float(np.sqrt(np.sum(weight * np.log(omega / typical) ** 2) / np.sum(weight)))
    span = extent[1] - extent[0]
    if steady:
        # A line of the whole record strays by less than it can tell apart.
        amplitude_of_change = STRAYS * 2.0 * np.pi / (span * float(np.max(typical)))
    else:
        amplitude_of_change = float(np.clip(1.5 * varies, *VARIES))
    # Of finite order: a squared exponential is so sure of what it has not seen that its bands are too narrow. But it
    # has fewer knots, and those of pulses cost most.
    kind = math.inf if harmonics > PULSES else ELEVEN_HALVES
    knots = knots_needed(extent, smoothness, kind)
    frequency = GridFunctionGroup(
        extent,
        typical,
        shape=typical.shape,
        lengthscale=smoothness,
        amplitude=amplitude_of_change,
        lengthscale_std=0.0,
        knots=max(knots, LEAST) if long else next(count for count in KNOTS if count >= knots),
        order=kind,
    )
    unit, lengthscale = smoothness if long else scale, initial.lengthscale[:, chosen]
    oscillating = np.isinf(lengthscale)
    envelope = _slow(
        initial.centres, extent, slower[1], np.where(oscillating, COHERENT[long] * unit, lengthscale), long, SURE
    )
    if loose:
        shorter = np.where(np.all(oscillating, axis=0), np.log(LOOSE[long] / COHERENT[long]), 0.0)
        envelope = eqx.tree_at(lambda group: group.mean.raw, envelope, envelope.mean.raw + shorter)
    # What harmonics have together is in their first ones, mostly.
    shares = np.arange(1.0, harmonics + 1.0) ** -0.5
    amplitude = initial.amplitude[:, chosen] * (shares / np.linalg.norm(shares) if harmonics > 1 else 1.0)
    return MaternPhase(
        WarpedTime(envelope),
        IntegratedPhase(frequency.fitted_to(initial.centres, omega, std)),
        _slow(initial.centres, extent, slower[0], amplitude, long, shared=harmonics > PULSES),
        order=0.5 if harmonics > PULSES or (rough and not steady) else 1.5,
        harmonic=harmonics > 1,
    )


def _slow(
    centres: np.ndarray,
    extent: tuple[float, float],
    scale: float,
    values: np.ndarray,
    long: bool,
    sure: float = 1.0,
    shared: bool = False,
) -> Any:
    """Positive functions that follow values ``[c, ...]`` at the centres, loosely; if ``shared``, up to factors."""
    typical = np.exp(np.mean(np.log(values), axis=0))
    # The span of evenly spread inputs is 3.5 of their standard deviations: 20 knots serve nearly all short data.
    group = GridFunctionGroup(
        extent,
        typical,
        shape=typical.shape,
        lengthscale=scale,
        mean_std=sure,
        lengthscale_std=0.0,
        knots=max(knots_needed(extent, scale), LEAST if long else 20),
        shared=shared,
    )
    return group.fitted_to(centres, values, 0.5)


def smoothness_served(initial: InitialValues, scales: np.ndarray) -> np.ndarray:
    """Those lengthscales of the frequencies for which there are knots enough in short data.

    Args:
        initial: What was found.
        scales: Lengthscales in units of the input.
    """
    extent = float(initial.extent[0, 0]), float(initial.extent[1, 0])
    return scales[[knots_needed(extent, float(scale), ELEVEN_HALVES) <= KNOTS[-1] for scale in scales]]


def likely_smoothness(initial: InitialValues, scales: np.ndarray) -> int:
    """Which of several lengthscales of the frequencies suits those that were found best, by its marginal likelihood.

    Args:
        initial: What was found.
        scales: Lengthscales in units of the input.
    """
    x = initial.centres[:, 0]
    some = np.unique(np.linspace(0, len(x) - 1, min(len(x), 200)).astype(int))
    x, total = x[some], np.zeros(len(scales))
    for a in np.flatnonzero(initial.found):
        seen = np.log(initial.frequency[some, a, 0])
        variance = initial.frequency_error[some, a] ** 2
        centred = seen - np.average(seen, weights=1.0 / variance)
        size = max(float(np.average(centred**2, weights=1.0 / variance)), VARIES[0] ** 2)
        for k, scale in enumerate(scales):
            r = np.sqrt(11.0) * np.abs(x[:, None] - x) / scale
            alike = np.polyval([1 / 945, 1 / 63, 1 / 9, 4 / 9, 1.0, 1.0], r) * np.exp(-r)  # Matérn, of order 11/2
            K = size * alike + np.diag(variance) + size
            factor = np.linalg.cholesky(K)
            white = np.linalg.solve(factor, centred)
            total[k] -= 0.5 * float(white @ white) + float(np.sum(np.log(np.diagonal(factor))))
    return int(np.argmax(total))
