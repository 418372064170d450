"""Plane waves and smooth functions in data of any dimension."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .initial import Spectrum
from .ridges import FALSE_ALARM, power

_FACTORS, _SHARES = (0.05, 0.12, 0.3, 0.8, 2.0), (0.01, 0.1, 0.5, 2.0)  # of the smooth fit: lengthscale, noise


class SmoothFit(NamedTuple):
    """The squared exponential of largest marginal likelihood: lengthscale ``[d]``, amplitude, noise."""

    lengthscale: np.ndarray
    amplitude: Any  # a number, or those of several channels
    noise: Any


def smooth_fit(X: np.ndarray, y: np.ndarray, scale: np.ndarray, rng: np.random.Generator) -> SmoothFit:
    """By coordinate search over a few lengthscales and noise shares on some rows; the amplitude is solved for."""
    rows = rng.permutation(len(y))[:200]
    X, y = X[rows], y[rows]
    if not np.any(y):
        return SmoothFit(scale, 1e-6, 1e-6)
    factors, chosen = np.full(X.shape[1], 2), 1
    squares = [((column[:, None] - column) / s) ** 2 for column, s in zip(X.T, scale, strict=True)]

    def log_marginal_likelihood(factors: np.ndarray, share: int) -> tuple[float, float]:
        D = sum(square / _FACTORS[k] ** 2 for square, k in zip(squares, factors, strict=True))
        K = np.exp(-0.5 * np.asarray(D)) + _SHARES[share] * np.eye(len(y))
        factor = cho_factor(K, lower=True)
        variance = float(y @ cho_solve(factor, y)) / len(y)
        return -0.5 * len(y) * np.log(variance) - float(np.sum(np.log(np.diagonal(factor[0])))), variance

    best = log_marginal_likelihood(factors, chosen)
    for _ in range(2):
        for k in range(X.shape[1] + 1):
            for choice in range(len(_FACTORS) if k < X.shape[1] else len(_SHARES)):
                trial, share = factors.copy(), chosen
                if k < X.shape[1]:
                    trial[k] = choice
                else:
                    share = choice
                value = log_marginal_likelihood(trial, share)
                if value[0] > best[0]:
                    best, factors, chosen = value, trial, share
    amplitude = np.sqrt(best[1])
    return SmoothFit(np.array(_FACTORS)[factors] * scale, amplitude, amplitude * np.sqrt(_SHARES[chosen]))


def smooth_trend(X: np.ndarray, y: np.ndarray, scale: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """The mean ``[n]`` of a Gaussian process as smooth as the inputs are wide, given some of the rows."""
    rows = rng.permutation(len(y))[:400]
    D = sum((column[:, None] - column[rows]) ** 2 / s**2 for column, s in zip(X.T, scale, strict=True))
    K = np.exp(-0.5 * np.asarray(D))
    return np.asarray(K @ np.linalg.solve(K[rows] + share * np.eye(len(rows)), y[rows]))


def peaks(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, candidates: np.ndarray, max_peaks: int, rng: np.random.Generator
) -> Spectrum:
    """Significant plane waves in the whole data, each found in what those before leave over; widths from the spectrum.

    The width of a peak is the spread of the power, above that of noise, of the candidates that are nearest to it.
    """
    window, middle, span = weight[None], X.mean(axis=0), np.maximum(np.ptp(X, axis=0), 1e-300)
    waves = np.exp(2j * np.pi * (X - middle) @ candidates.T)
    chance = np.log(len(candidates) / FALSE_ALARM)

    def gain(rest: np.ndarray, waves: np.ndarray) -> np.ndarray:
        share = power(rest, window, window @ waves, (window * rest) @ waves, window @ waves**2)[0]
        return -0.5 * (len(y) - 3.0) * np.log1p(-np.minimum(share, 1.0 - 1e-9))

    rest, found, amplitudes = y, [], []
    first = gain(y, waves)
    for _ in range(max_peaks):
        values = gain(rest, waves)
        f, value = candidates[np.argmax(values)], float(np.max(values))
        if value < chance:
            break
        for width in (0.3, 0.15, 0.07, 0.03):  # climb to the top between candidates
            trials = f + width / span * rng.normal(size=(32, len(f))) * (f != 0)
            values = gain(rest, np.exp(2j * np.pi * (X - middle) @ trials.T))
            if np.max(values) > value:
                f, value = trials[np.argmax(values)], float(np.max(values))
        theta = 2.0 * np.pi * (X - middle) @ f
        design = np.column_stack([np.ones_like(theta), np.cos(theta), np.sin(theta)])
        root = np.sqrt(weight)
        solution = np.linalg.lstsq(root[:, None] * design, root * rest, rcond=None)[0]
        rest = rest - design[:, 1:] @ solution[1:]
        found.append(np.sign(f[np.argmax(np.abs(f * span))]) * f)
        amplitudes.append(np.hypot(*solution[1:]) / np.sqrt(2.0))
    if not found:
        slow = 0.25 / span
        return Spectrum(slow[None], slow[None], np.zeros(1))
    frequency = np.array(found)
    offsets = np.minimum(
        *(np.abs(((side * candidates)[:, None] - frequency) * span) for side in (1.0, -1.0))
    )  # [F, q, d], of the wave or its mirror image
    nearest = np.argmin(np.sum(offsets**2, axis=-1), axis=1)
    excess = np.maximum(np.expm1(2.0 * np.minimum(first - 1.0, 300.0) / len(y)), 0.0)
    bandwidth = np.empty_like(frequency)
    for k in range(len(frequency)):
        share = excess * (nearest == k)
        moment = (share @ offsets[:, k] ** 2) / max(share.sum(), 1e-300)
        bandwidth[k] = np.sqrt(np.clip(moment, 0.1**2, None)) / span
    return Spectrum(frequency, bandwidth, np.array(amplitudes))
