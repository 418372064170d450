"""Minus the Hessians of the log likelihoods of blocks of time, as a search by Newton's method knows them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ..models import Lanes
from .arrow import not_positive

STEP, FINE = 1e-7, 1e-4  # of the differences of gradients; and, where widths are known, in these
STALE = 0.1  # nats that a block may lose by its last curvature before it is computed again
NEAR = 1.0  # nats from where it was computed that curvature of another search serves to begin with
FORETOLD = 0.3  # share of a step by which it may be wrong, likewise
AT_ONCE = 2**22  # numbers in the copies that are evaluated at once


class Curvature(NamedTuple):
    """Minus the Hessians of the blocks' log likelihoods, as a search knows them.

    Args:
        H: They, ``[b, p, p]``.
        seen: The numbers ``[b, p]`` of where they are.
        sure: Whether they are from differences ``[b]``, and not what the rows tell of the numbers, which is near.
    """

    H: np.ndarray
    seen: np.ndarray
    sure: np.ndarray

    def stretched(self, sizes: np.ndarray) -> Curvature:
        """The same where the numbers ``[b, p]`` of blocks are told in units of these sizes."""
        return Curvature(self.H * sizes[:, :, None] * sizes[:, None], self.seen / sizes, self.sure)


class Told(IntEnum):
    """Of which numbers the information of rows serves as curvature; of the others differences of gradients do."""

    NOTHING = 0
    KNOTS = 1  # but how envelopes decay, and the numbers that all blocks share
    ALL = 2


class Place(NamedTuple):
    """Where a search is."""

    numbers: np.ndarray
    values: np.ndarray  # log likelihoods [b]
    slopes: np.ndarray  # [b, p]
    value: float  # log joint density
    gradient: np.ndarray


def curvature(
    lanes: Lanes,
    numbers: np.ndarray,
    slopes: np.ndarray,
    chosen: np.ndarray | None = None,
    known: np.ndarray | None = None,
    columns: np.ndarray | None = None,
) -> np.ndarray:
    """Minus the Hessians ``[b, p, p]`` of the blocks' log likelihoods, by differences of their gradients.

    Args:
        lanes: The blocks.
        numbers: Where.
        slopes: Gradients ``[b, p]`` there, of the ``chosen`` blocks.
        chosen: Which blocks ``[b]``; all when left out.
        known: Nearly the Hessians of the chosen, where they are known: a difference that is small beside the width of
            the posterior for each number. Widths are from 1 to 1e-5, and in numbers that hardly count an error is
            large that is nothing beside the largest: log determinants were off by up to two.
        columns: Which numbers ``[m, p]`` of the chosen to change; the others keep what is known of them. All that are
            felt when left out.
    """
    chosen = np.arange(lanes.count) if chosen is None else chosen
    bends = np.zeros(slopes.shape) if known is None else np.diagonal(known, axis1=1, axis2=2)
    step = np.full(bends.shape, STEP) if known is None else FINE / np.sqrt(1.0 + np.abs(bends))
    felt = lanes.felt[chosen]
    changed = felt if columns is None else felt & columns
    p = felt.shape[1]
    H = np.zeros((len(chosen), p, p))
    block, column = np.nonzero(changed)
    few = max(1, AT_ONCE // p)  # copies at once
    for start in range(0, len(block), few):
        b, k = block[start : start + few], column[start : start + few]
        copies = numbers[lanes.members[chosen[b]]]
        copies[np.arange(len(b)), k] += step[b, k]
        H[b, k] = (slopes[b] - lanes.evaluate(chosen[b], copies)[1]) / step[b, k, None]
    H += np.swapaxes(H, 1, 2)
    H[changed[:, :, None] & changed[:, None]] *= 0.5  # which came twice
    left = ~(changed[:, :, None] | changed[:, None])
    H[left] = 0.0 if columns is None or known is None else known[left]
    H[~(felt[:, :, None] & felt[:, None])] = 0.0
    return H


class Bends:
    """Minus the Hessians ``[b, p, p]`` of blocks, computed where they are known no longer."""

    def __init__(self, lanes: Lanes, here: Place, known: Curvature | None) -> None:
        self.lanes, self._told, self._poor = lanes, Told.ALL if lanes.informed else Told.NOTHING, False
        self._shared = lanes.members >= lanes.knots
        if known is None:
            p = lanes.members.shape[1]
            unseen = np.zeros((lanes.count, p, p)), np.zeros((lanes.count, p)), np.zeros(lanes.count, bool)
            self.H, self.seen, self.sure = unseen
            self._compute(here, np.arange(lanes.count))
        else:  # which stays as it is
            self.H, self.seen, self.sure = (part.copy() for part in known)
            self.refresh(here, NEAR)

    @property
    def known(self) -> Curvature:
        return Curvature(self.H, self.seen, self.sure)

    def doubt(self, here: Place, told: Told) -> bool:
        """From here on rows serve for no more than this; whether blocks that are not of differences were computed."""
        before, self._told = self._told, min(self._told, told)
        return self._told < before and self.ensure(here)

    def judge(self, poor: bool) -> None:
        """After two poor steps rows serve for less: where envelopes are short, how they decay counts."""
        if poor and self._poor:
            self._told = min(self._told, Told.KNOTS)
        self._poor = poor

    def follow(self, before: Place, now: Place) -> None:
        """After a step: kept and corrected where they foretold what it did to the gradients, else computed again."""
        moved = (now.numbers - before.numbers)[self.lanes.members]
        told = np.einsum("bpq,bq->bp", self.H, moved)
        off = np.where(self.lanes.felt, now.slopes - before.slopes + told, 0.0)
        along, size = (np.einsum("bp,bp->b", moved, part) for part in (off, told))
        # Nats that the next step would lose by it, and those of this one.
        eye = np.eye(off.shape[1])
        every = [np.linalg.solve(self.H[some] + eye, off[some, :, None]) for some in self._parted(np.arange(len(off)))]
        lost = 0.5 * np.abs(np.einsum("bp,bp->b", off, np.concatenate(every)[..., 0]))
        stale = ~(lost < STALE + FORETOLD**2 * 0.5 * np.abs(size))
        self._compute(now, np.flatnonzero(stale))
        sizes = np.linalg.norm(off, axis=1) * np.linalg.norm(moved, axis=1)
        kept = np.flatnonzero(~stale & (np.abs(along) > 1e-8 * sizes))
        self.H[kept] -= off[kept, :, None] * off[kept, None] / along[kept, None, None]

    def refresh(self, here: Place, most: float) -> bool:
        """Those of places more than so many nats away, computed again; whether there were any."""
        stale = np.flatnonzero(self._away(here) > most)
        self._compute(here, stale)
        return len(stale) > 0

    def reconsider(self, here: Place, prior: np.ndarray, everywhere: bool) -> bool:
        """Where all together are indefinite: those of other places computed again; whether there were any.

        Corrections of rank one may have made them so. They are those in which all together are indefinite already, or,
        where there are none, all. Far from an optimum they are so in truth, and only blocks that are indefinite by
        themselves, too, with the prior, are looked at; ``everywhere`` where a search ends or makes no way.

        Args:
            here: Where.
            prior: Minus the Hessian of the log prior of the border.
            everywhere: Whether the others are, too.
        """
        moved = np.any(here.numbers[self.lanes.members] != self.seen, axis=1)
        bent = not_positive(self.lanes, self.H, prior)
        stale = np.flatnonzero(moved & bent if np.any(bent) or not everywhere else moved)
        if not everywhere:
            stale = stale[np.linalg.eigvalsh(self.H[stale])[:, 0] < -1.0]
        self._compute(here, stale)
        return len(stale) > 0

    def ensure(self, here: Place) -> bool:
        """Those that are not from differences, or not of here, computed so; whether there were any."""
        stale = np.flatnonzero(~self.sure | (self._away(here) > STALE))
        self._differences(here, stale)
        return len(stale) > 0

    def _away(self, here: Place) -> np.ndarray:
        moved = here.numbers[self.lanes.members] - self.seen
        return np.asarray(0.5 * np.abs(np.einsum("bp,bpq,bq->b", moved, self.H, moved)))

    def _compute(self, here: Place, stale: np.ndarray) -> None:
        if self._told == Told.NOTHING:
            self._differences(here, stale)
            return
        for some in self._parted(stale):
            H = self.lanes.information(here.numbers, some)
            diagonal = np.einsum("bpp->bp", H)
            silent = diagonal == 0.0  # how envelopes decay
            if self._told == Told.ALL:  # of that, what keeps a step in their logarithms from being above one
                diagonal += np.where(silent, np.abs(here.slopes[some]), 0.0)
            else:
                H = curvature(self.lanes, here.numbers, here.slopes[some], some, H, silent | self._shared[some])
            self.H[some] = H
        self.seen[stale], self.sure[stale] = here.numbers[self.lanes.members[stale]], False

    def _differences(self, here: Place, stale: np.ndarray) -> None:
        for some in self._parted(stale):
            # Of blocks that nothing is known of yet differences are as coarse as they may be.
            known = self.H[some] if self.lanes.whole or np.all(self.sure[some]) else None
            self.H[some] = curvature(self.lanes, here.numbers, here.slopes[some], some, known)
        self.seen[stale], self.sure[stale] = here.numbers[self.lanes.members[stale]], True

    def _parted(self, blocks: np.ndarray) -> list[np.ndarray]:
        """As many blocks at once as there is to be memory for."""
        few = max(1, AT_ONCE // self.H.shape[1] ** 2)
        return [blocks[start : start + few] for start in range(0, len(blocks), few)]
