"""Synthetic signals whose frequency is known, and the real data of the paper's experiments."""

from .paper import SOLAR_GAPS, Split, air, solar, taxi
from .signals import SIGNALS, Signal, noiseless, signal, true_frequency

__all__ = [
    "SIGNALS",
    "SOLAR_GAPS",
    "Signal",
    "Split",
    "air",
    "noiseless",
    "signal",
    "solar",
    "taxi",
    "true_frequency",
]
