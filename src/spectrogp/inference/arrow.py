"""The Cholesky factor of a matrix that is an arrow: a band around the diagonal, and a border."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cho_solve_banded, cholesky, cholesky_banded, solve_triangular
from scipy.linalg.lapack import dpotrf, dtbtrs

from ..models import Lanes

FEW = 256  # blocks at once in other work


class Arrow(NamedTuple):
    """The Cholesky factor of a matrix with a band and a border."""

    order: np.ndarray  # of the knots, by place
    band: np.ndarray  # lower form, of the knots
    cross: np.ndarray  # A⁻¹ C, [knots, border]
    corner: np.ndarray  # lower factor of the Schur complement of the border

    @classmethod
    def of(cls, lanes: Lanes, blocks: np.ndarray, prior: np.ndarray, shift: float = 0.0) -> Arrow:
        """I (and the ``prior`` of the border) plus the blocks' matrices ``[b, p, p]``; LinAlgError if not positive.

        Args:
            lanes: The blocks.
            blocks: Their matrices.
            prior: Minus the Hessian of the log prior of the border.
            shift: What is added to all eigenvalues.
        """
        whole = _Whole.of(lanes, blocks, prior, shift)
        n, q = lanes.knots, lanes.border
        factor = cholesky_banded(whole.band, lower=True) if n else whole.band
        solved = cho_solve_banded((factor, True), whole.cross) if n and q else whole.cross
        corner = cholesky(whole.corner - whole.cross.T @ solved, lower=True) if q else whole.corner
        return cls(whole.order, factor, solved, corner)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """H⁻¹ times a vector."""
        n = len(self.order)
        top, bottom = right[:n][self.order], right[n:]
        top = cho_solve_banded((self.band, True), top) if n else top
        if len(bottom):
            bottom = cho_solve((self.corner, True), bottom - self.cross.T @ right[:n][self.order])
            top = top - self.cross @ bottom
        result = np.empty(len(right))
        result[:n][self.order] = top
        result[n:] = bottom
        return result

    def draw(self, rng: np.random.Generator, draws: int, *, border: bool) -> np.ndarray:
        """Draws ``[s, n]`` of N(0, H⁻¹); without ``border`` at its fixed numbers."""
        n, q = len(self.order), len(self.corner)
        result = np.zeros((draws, n + q))
        z = rng.normal(size=(n, draws))
        # Lᵀ x = z by back substitution along the band.
        x = _solve_transposed(self.band, z) if n else z
        if border and q:
            b = solve_triangular(self.corner, rng.normal(size=(q, draws)), lower=True, trans="T")
            x = x - self.cross @ b
            result[:, n:] = b.T
        result[:, self.order] = x.T
        return result

    @property
    def log_determinant(self) -> float:
        """log |H|."""
        return 2.0 * float(np.sum(np.log(self.band[0])) + np.sum(np.log(np.diagonal(self.corner))))


class _Whole(NamedTuple):
    """A matrix with a band and a border, from those of the blocks."""

    order: np.ndarray  # of the knots, by place
    member: np.ndarray  # [b, p], where in it the numbers of blocks are
    band: np.ndarray  # lower form, of the knots
    cross: np.ndarray  # [knots, border]
    corner: np.ndarray

    @classmethod
    def of(cls, lanes: Lanes, blocks: np.ndarray, prior: np.ndarray, shift: float = 0.0) -> _Whole:
        n, q = lanes.knots, lanes.border
        # Knots of several functions at the same place keep their order, whatever the rounding of the places.
        span = float(np.ptp(lanes.places)) if n else 0.0
        order = np.argsort(np.round(lanes.places / (span or 1.0), 9), kind="stable")
        rank = np.empty(n + q, int)
        rank[order], rank[n:] = np.arange(n), n + np.arange(q)
        member = rank[lanes.members]  # [b, p]
        local = int(np.sum(lanes.members[0] < n))  # the others are of the border, of which a channel has a part
        wide = int(np.max(np.ptp(np.where(lanes.felt, member, member[:, :1])[:, :local], axis=1))) if n else 0
        band, cross, corner = np.zeros(((wide + 1), n)), np.zeros((n, q)), prior + shift * np.eye(q)
        for start in range(0, len(blocks), FEW):
            some, here, felt = blocks[start : start + FEW], member[start : start + FEW], lanes.felt[start : start + FEW]
            i, j = here[:, :local, None], here[:, None, :local]
            lower = (i >= j) & felt[:, :local, None] & felt[:, None, :local]
            at = ((i - j) * n + j)[lower]
            band += np.bincount(at, some[:, :local, :local][lower], band.size).reshape(band.shape)
            np.add.at(cross, (here[:, :local, None], here[:, None, local:] - n), some[:, :local, local:])
            np.add.at(corner, (here[:, local:, None] - n, here[:, None, local:] - n), some[:, local:, local:])
        band[0] += 1.0 + shift
        return cls(order, member, band, cross, corner)

    def around(self, blocks: np.ndarray) -> np.ndarray:
        """What it is ``[m, p, p]`` for the numbers of some blocks, with what others add there."""
        here, n, wide = self.member[blocks], self.band.shape[1], len(self.band) - 1
        local = int(np.sum(here[0] < n))
        i, j = here[:, :local, None], here[:, None, :local]
        apart = np.abs(i - j)
        found = np.empty((*here.shape, here.shape[1]))
        found[:, :local, :local] = np.where(apart > wide, 0.0, self.band[np.minimum(apart, wide), np.minimum(i, j)])
        found[:, :local, local:] = self.cross[here[:, :local, None], here[:, None, local:] - n]
        found[:, local:, :local] = found[:, :local, local:].swapaxes(1, 2)
        found[:, local:, local:] = self.corner[here[:, local:, None] - n, here[:, None, local:] - n]
        return found


def not_positive(lanes: Lanes, blocks: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """In which blocks ``[b]`` such a matrix is not positive definite, for their numbers alone.

    Where it is so in one, all of it is not; where it is not in any, what is wrong reaches over several.
    """
    whole = _Whole.of(lanes, blocks, prior)
    return np.array(
        [
            not _is_positive(one)
            for start in range(0, len(blocks), FEW)
            for one in whole.around(np.arange(start, min(start + FEW, len(blocks))))
        ]
    )


def _is_positive(matrix: np.ndarray) -> bool:
    return bool(dpotrf(matrix, lower=1)[1] == 0)


def _solve_transposed(band: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Lᵀ x = z for L in lower band form."""
    x, info = dtbtrs(band, z, uplo="L", trans="T")
    if info:
        raise np.linalg.LinAlgError("a banded factor is singular")
    return np.asarray(x)
