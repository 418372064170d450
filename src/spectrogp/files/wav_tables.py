"""Sound files as tables: the time in seconds, and every channel as a share of full scale."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .cells import refuse_infinite, refuse_not_finite
from .errors import TableError
from .selection import place_in, refuse_too_many_values, wanted_of

TIME = "time (s)"
# What the reader says of files that are cut short or forged.
DAMAGED = (ValueError, TypeError, IndexError, ArithmeticError, UnboundLocalError, EOFError, OSError, struct.error)


def read(
    path: Path, columns: Sequence[str] | None, *, missing: bool = False, day_first: bool | None = None
) -> dict[str, np.ndarray]:
    """The columns that are wanted: ``time (s)``, ``channel 1``, … (no dates, whatever is said of them)."""
    del day_first
    found = read_raw(path, columns)
    for name, values in found.items():
        (refuse_infinite if missing else refuse_not_finite)(values, place_in(path, name))
    return found


def read_raw(path: Path, columns: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The columns that are wanted, as float64: PCM integers are divided by the largest of their kind."""
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # parts that say nothing about the sound
            rate, samples = wavfile.read(path, mmap=False)
    except DAMAGED as error:
        raise TableError(f"{path} is not a sound file (.wav) that can be read: {error}") from error
    samples = samples[:, None] if samples.ndim == 1 else samples
    if not len(samples) or not rate > 0:
        raise TableError(f"{path} has no samples: expected some, and how many there are in a second")
    refuse_too_many_values(path, *samples.shape)
    values = samples.astype(np.float64)
    match samples.dtype.kind:
        case "u":  # 8 bits, around 128
            values = values / 128.0 - 1.0
        case "i":
            values /= float(2 ** (8 * samples.dtype.itemsize - 1))
    every = {TIME: np.arange(len(values)) / rate} | {f"channel {k + 1}": part for k, part in enumerate(values.T)}
    return {name: every[name] for name in wanted_of(path, list(every), columns)}


def kinds_of(path: Path) -> dict[str, str]:
    """Numbers, all of them."""
    return dict.fromkeys(read_raw(path), "number")
