"""Rows on disk in the order of a curve, read block by block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..files import FilePath, printable

ABOUT = "about.json"  # what is in a directory


class Rows:
    """Rows that ``arrange`` brought into the order of a curve: a directory of arrays, of which blocks are read.

    Nothing stays in memory but the corners of the blocks, about 16 bytes a row and input for every 4096 rows.

    Args:
        path: The directory that ``arrange`` has made.
    """

    def __init__(self, path: FilePath) -> None:
        self.path = Path(path)
        try:
            about = json.loads((self.path / ABOUT).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            shown = printable(str(path))
            raise ValueError(
                f"{shown} is no directory of arranged rows ({error}); spectrogp.large.arrange makes one"
            ) from error
        self.x, self.y, self.error = tuple(about["x"]), about["y"], about["error"]
        self.size: int = about["rows"]
        self.dtype = np.dtype(about["dtype"])
        self.low, self.high = np.array(about["low"]), np.array(about["high"])
        self.corners = np.load(self.path / "corners.npy")
        self.edges = edges_of(self.size, len(self.corners))
        self.first = np.load(self.path / "first.npy")

    def __repr__(self) -> str:
        return f"Rows({str(self.path)!r}: {self.size} rows of {', '.join(map(repr, self.x))} and {self.y!r})"

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self.edges) - 1

    def read(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs ``[n, d]``, outputs and error bars ``[n]`` of the rows of some blocks, one after the other."""
        parts = [self._stretch(self.edges[b], self.edges[b + 1]) for b in blocks]
        X, y, error = (np.concatenate(part) for part in zip(*parts, strict=True))
        return X, y, error

    def near(
        self, low: np.ndarray, high: np.ndarray, scale: np.ndarray, count: int, before: int | None = None
    ) -> np.ndarray:
        """The ``count`` blocks nearest to a box, ascending; with ``before``, of the blocks before that one alone.

        Distances are those of boxes, in units of a ``scale`` of each input; of boxes that touch, of their centres.
        """
        corners = self.corners[:before]
        gap = _gap(corners, low, high) / scale
        apart = (corners.mean(axis=1) - 0.5 * (low + high)) / scale
        distance = np.sqrt(np.sum(gap**2, axis=1)) + 1e-3 * np.sqrt(np.sum(apart**2, axis=1))
        if len(distance) <= count:
            return np.arange(len(distance))
        return np.sort(np.argpartition(distance, count)[:count])

    def within(self, X: np.ndarray, radius: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The blocks that may have a row nearer to one of the inputs ``X [n, d]`` than its ``radius [n]``."""
        around = _gap(self.corners, X.min(axis=0), X.max(axis=0)) / scale
        some = np.flatnonzero(np.sum(around**2, axis=1) < np.max(radius) ** 2)
        gap = _gap(self.corners[some, :, None], X, X) / scale  # [blocks, n, d]
        return some[np.any(np.sum(gap**2, axis=2) < radius**2, axis=1)]

    def _stretch(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # Mapped for the moment of reading: what stays mapped would count as memory of the process.
        d, count = len(self.x), int(stop - start)
        X = self._values("X", start * d, count * d).reshape(count, d)
        error = np.zeros(count) if self.error is None else self._values("error", start, count)
        return X, self._values("y", start, count), error

    def _values(self, name: str, start: int, count: int) -> np.ndarray:
        offset = int(start) * self.dtype.itemsize
        mapped: Any = np.memmap(self.path / name, self.dtype, "r", offset, (count,))
        return np.array(mapped, np.float64)


def _gap(corners: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Distances between boxes along each input; zero where they overlap."""
    return np.maximum(np.maximum(corners[:, 0] - high, low - corners[:, 1]), 0.0)


def edges_of(size: int, blocks: int) -> np.ndarray:
    """Where blocks begin and end, of nearly equal sizes: so that a row of any block is drawn equally often."""
    return np.arange(blocks + 1) * size // blocks
