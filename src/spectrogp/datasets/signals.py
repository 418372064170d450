"""Synthetic signals whose frequency is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core import at_least


class Signal(NamedTuple):
    """Inputs ``X [n, 1]``, noisy outputs ``y [n]``, and the true ``frequency [n, a]`` in cycles per unit."""

    X: np.ndarray
    y: np.ndarray
    frequency: np.ndarray


class _Tone(NamedTuple):
    """A(t) cos 2πφ(t), with the frequency φ′ written out."""

    phase: Callable[[np.ndarray], np.ndarray]
    frequency: Callable[[np.ndarray], np.ndarray]
    amplitude: Callable[[np.ndarray], np.ndarray] = np.ones_like


class _Family(NamedTuple):
    low: float
    high: float
    tones: tuple[_Tone, ...]
    gaps: tuple[tuple[float, float], ...] = ()  # no data in these intervals


_CHIRP = _Tone(lambda t: t + 0.6 * t**3, lambda t: 1.0 + 1.8 * t**2)

# "chirp" is the signal of the paper's Fig. 5.
SIGNALS = {
    "chirp": _Family(-1.5, 1.5, (_CHIRP,)),
    "late chirp": _Family(0.0, 2.0, (_CHIRP,)),
    "linear chirp": _Family(-1.5, 1.5, (_Tone(lambda t: 4.0 * t + t**2, lambda t: 4.0 + 2.0 * t),)),
    "am-fm": _Family(
        -1.5,
        1.5,
        (
            _Tone(
                lambda t: 5.0 * t - 0.5 * np.cos(2.0 * t),
                lambda t: 5.0 + np.sin(2.0 * t),
                lambda t: 1.0 + 0.5 * np.cos(3.0 * t),
            ),
        ),
    ),
    "crossing": _Family(
        -1.5,
        1.5,
        (
            _Tone(lambda t: 6.0 * t + t**2, lambda t: 6.0 + 2.0 * t),
            _Tone(lambda t: 6.0 * t - t**2, lambda t: 6.0 - 2.0 * t),
        ),
    ),
    "step": _Family(
        -1.5, 1.5, (_Tone(lambda t: np.where(t < 0, 3.0 * t, 6.0 * t), lambda t: np.where(t < 0, 3.0, 6.0)),)
    ),
    "vibrato": _Family(
        -1.5, 1.5, (_Tone(lambda t: 6.0 * t - 0.25 * np.cos(4.0 * t), lambda t: 6.0 + np.sin(4.0 * t)),)
    ),
    "gaps": _Family(-1.5, 1.5, (_CHIRP,), gaps=((-1.0, -0.6), (-0.1, 0.2), (0.8, 1.1))),
}


def signal(name: str = "chirp", *, n: int = 400, noise: float = 0.1, irregular: bool = True, seed: int = 0) -> Signal:
    """One of ``SIGNALS``: tones of changing frequency in normal noise.

    Args:
        name: Which signal; "chirp" is that of the paper's Fig. 5.
        n: Number of rows; of evenly spaced ones, those inside the gaps of a signal are left out.
        noise: Standard deviation of the noise (tones have an amplitude of about 1).
        irregular: Random times (never inside gaps), or evenly spaced ones.
        seed: Of the times and the noise.

    Example:
        >>> import spectrogp as sg
        >>> t, y, frequency = sg.datasets.signal("chirp", n=5)
        >>> t.shape, y.shape, frequency.shape
        ((5, 1), (5,), (5, 1))
    """
    at_least(1, n=n)
    family, rng = _family(name), np.random.default_rng(seed)
    if irregular:
        t = np.sort(rng.uniform(family.low, family.high - sum(high - low for low, high in family.gaps), n))
        for low, high in family.gaps:  # in order: what lies beyond a gap moves by its length
            t = np.where(t > low, t + (high - low), t)
    else:
        t = np.linspace(family.low, family.high, n)
    y = noiseless(name, t) + noise * rng.normal(size=n)
    seen = np.all([(t < low) | (t > high) for low, high in ((-np.inf, -np.inf), *family.gaps)], axis=0)
    return Signal(t[seen, None], y[seen], true_frequency(name, t[seen]))


def noiseless(name: str, t: Any) -> np.ndarray:
    """The values ``[n]`` of the signal of this ``name`` without noise, at times ``t [n]``."""
    t = np.ravel(t)
    tones = _family(name).tones
    return np.sum([tone.amplitude(t) * np.cos(2.0 * np.pi * tone.phase(t)) for tone in tones], axis=0)


def true_frequency(name: str, t: Any) -> np.ndarray:
    """The frequencies ``[n, a]`` of the signal of this ``name``, in cycles per unit, at times ``t [n]``."""
    t = np.ravel(t)
    return np.column_stack([tone.frequency(t) for tone in _family(name).tones])


def _family(name: str) -> _Family:
    if name not in SIGNALS:
        raise ValueError(f"name must be one of {', '.join(SIGNALS)}, got {name!r}")
    return SIGNALS[name]
