"""Numbers of rows that programs are compiled for: few, so that inputs are filled up to one of them."""

from __future__ import annotations

import numpy as np

from ..models import BLOCK


def rounded(rows: int) -> int:
    """A power of two from 16 to the rows that models predict at once, or a multiple of these."""
    return max(16, 2 ** (rows - 1).bit_length()) if rows <= BLOCK else -(-rows // BLOCK) * BLOCK


def filled(rows: int) -> np.ndarray:
    """Numbers of so many rows, and the last again and again, up to one of few counts that programs are compiled for."""
    return np.minimum(np.arange(rounded(rows)), rows - 1)
