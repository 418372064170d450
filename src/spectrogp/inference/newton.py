"""Optimum and posterior of models whose log likelihood is a sum over blocks of time, by Newton's method.

Whitened knots of long functions and the few numbers that everything shares make the Hessian an arrow: a band around the
diagonal, as wide as a block has knots, and a border. Its columns come from differences of gradients, those of all
blocks at once (``models.Lanes``), and its Cholesky factor gives steps, draws of the normal approximation and its
evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cho_solve_banded, cholesky, cholesky_banded, solve_triangular
from scipy.linalg.lapack import dtbtrs

from ..models import Lanes
from .loop import Progress

STEP = 1e-7  # of the differences of gradients
CONVERGED = 0.02  # nats that a step may still promise at the optimum
DAMPINGS = np.array([0.0, 0.3, 1.0, 3.0, 10.0, 1e2, 1e3, 1e4])  # tried side by side
STALE = 0.1  # nats that a block has moved by, as its last curvature says, before it is computed again
FEW = 256  # blocks at once in other work
AT_ONCE = 2**22  # numbers in the copies that are evaluated at once


class Arrow(NamedTuple):
    """The Cholesky factor of a matrix with a band and a border."""

    order: np.ndarray  # of the knots, by place
    band: np.ndarray  # lower form, of the knots
    cross: np.ndarray  # A⁻¹ C, [knots, border]
    corner: np.ndarray  # lower factor of the Schur complement of the border

    @classmethod
    def of(cls, lanes: Lanes, blocks: np.ndarray, prior: np.ndarray) -> Arrow:
        """I (and the ``prior`` of the border) plus the blocks' matrices ``[b, p, p]``; LinAlgError if not positive."""
        n, q = lanes.knots, lanes.border
        order = np.argsort(lanes.places, kind="stable")
        rank = np.empty(n + q, int)
        rank[order], rank[n:] = np.arange(n), n + np.arange(q)
        member = rank[lanes.members]  # [b, p]
        local = int(np.sum(lanes.members[0] < n))  # the others are of the border, of which a channel has a part
        wide = int(np.max(np.ptp(np.where(lanes.felt, member, member[:, :1])[:, :local], axis=1))) if n else 0
        band, cross, corner = np.zeros(((wide + 1), n)), np.zeros((n, q)), prior.copy()
        for start in range(0, len(blocks), FEW):
            some, here, felt = blocks[start : start + FEW], member[start : start + FEW], lanes.felt[start : start + FEW]
            i, j = here[:, :local, None], here[:, None, :local]
            lower = (i >= j) & felt[:, :local, None] & felt[:, None, :local]
            at = ((i - j) * n + j)[lower]
            band += np.bincount(at, some[:, :local, :local][lower], band.size).reshape(band.shape)
            np.add.at(cross, (here[:, :local, None], here[:, None, local:] - n), some[:, :local, local:])
            np.add.at(corner, (here[:, local:, None] - n, here[:, None, local:] - n), some[:, local:, local:])
        band[0] += 1.0
        factor = cholesky_banded(band, lower=True) if n else band
        solved = cho_solve_banded((factor, True), cross) if n and q else cross
        return cls(order, factor, solved, cholesky(corner - cross.T @ solved, lower=True) if q else corner)

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


def _solve_transposed(band: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Lᵀ x = z for L in lower band form."""
    x, info = dtbtrs(band, z, uplo="L", trans="T")
    if info:
        raise np.linalg.LinAlgError("a banded factor is singular")
    return np.asarray(x)


class Optimum(NamedTuple):
    """The end of a search.

    Args:
        numbers: Of the model, as ``Lanes`` has them.
        log_joint: Log joint density there.
        decrement: Nats that one more step promises; infinite where minus the Hessian is not positive definite.
        factor: Of minus the Hessian there, or where it is not positive definite of its absolute value.
        history: Log joint density at every step.
    """

    numbers: np.ndarray
    log_joint: float
    decrement: float
    factor: Arrow
    history: list[float]

    @property
    def evidence(self) -> float:
        """Laplace's approximation of the log marginal likelihood; minus infinity where there is no optimum."""
        if not np.isfinite(self.decrement):
            return -np.inf
        return self.log_joint + 0.5 * (len(self.numbers) * np.log(2.0 * np.pi) - self.factor.log_determinant)


def curvature(lanes: Lanes, numbers: np.ndarray, slopes: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
    """Minus the Hessians ``[b, p, p]`` of the blocks' log likelihoods, by differences of their gradients.

    Args:
        lanes: The blocks.
        numbers: Where.
        slopes: Gradients ``[b, p]`` there, of the ``chosen`` blocks.
        chosen: Which blocks ``[b]``; all when left out.
    """
    chosen = np.arange(lanes.count) if chosen is None else chosen
    p = lanes.members.shape[1]
    H = np.zeros((len(chosen), p, p))
    block, column = np.nonzero(lanes.felt[chosen])
    few = max(1, AT_ONCE // p)  # copies at once
    for start in range(0, len(block), few):
        b, k = block[start : start + few], column[start : start + few]
        copies = numbers[lanes.members[chosen[b]]]
        copies[np.arange(len(b)), k] += STEP
        H[b, k] = (slopes[b] - lanes.evaluate(chosen[b], copies)[1]) / STEP
    # An entry comes twice, but for columns that were left out.
    twice = lanes.felt[chosen][:, :, None] & lanes.felt[chosen][:, None]
    H += np.swapaxes(H, 1, 2)
    return np.asarray(np.where(twice, 0.5 * H, 0.0))


def newton(lanes: Lanes, numbers: np.ndarray, *, steps: int = 20, progress: Progress | None = None) -> Optimum:
    """Newton's method: of one block with several dampings tried side by side, of many damped block by block.

    Args:
        lanes: The blocks.
        numbers: Where to begin.
        steps: At most so many.
        progress: What shows them: steps done, steps, and log joint density.
    """
    values, slopes = lanes.log_likelihoods(numbers)
    value, gradient = lanes.total(values, slopes, numbers)
    here = _Place(numbers, values, slopes, value, gradient)
    search = _search_whole if lanes.whole else _search_many
    damping = np.zeros(lanes.count)
    history, decrement, factor = [value], np.inf, None
    H, prior = curvature(lanes, here.numbers, here.slopes), lanes.log_prior(here.numbers)[2]
    seen = here.numbers[lanes.members]
    for step in range(steps + 1):
        if progress is not None:
            progress(step, steps, here.value)
        # Where a block has hardly moved its curvature is what it was.
        moved = here.numbers[lanes.members] - seen
        size = 0.5 * np.abs(np.einsum("bp,bpq,bq->b", moved, H, moved))
        stale = np.flatnonzero((size > STALE) | (np.max(np.abs(moved), axis=1) > 1.0))
        if len(stale):
            H[stale] = curvature(lanes, here.numbers, here.slopes[stale], stale)
            seen[stale] = here.numbers[lanes.members[stale]]
        try:
            factor = Arrow.of(lanes, H, prior)
            decrement = 0.5 * float(here.gradient @ factor.solve(here.gradient))
        except np.linalg.LinAlgError:
            factor, decrement = None, np.inf
        if decrement < CONVERGED or step == steps:
            break
        found = search(lanes, here, H, prior, factor, damping)
        if found is None:
            break
        here, damping = found
        history.append(here.value)
    return Optimum(here.numbers, here.value, decrement, _some(lanes, H, prior) if factor is None else factor, history)


def _some(lanes: Lanes, H: np.ndarray, prior: np.ndarray) -> Arrow:
    """A factor where there is no optimum: of the size of the curvature, or, where rounding ate it, of the prior."""
    try:
        return Arrow.of(lanes, _absolute(H), prior)
    except np.linalg.LinAlgError:
        return Arrow.of(lanes, np.zeros_like(H), prior + np.eye(lanes.border))


def _absolute(H: np.ndarray) -> np.ndarray:
    """Symmetric matrices ``[b, p, p]`` with the absolute values of their eigenvalues."""
    eigenvalues, vectors = np.linalg.eigh(H)
    return np.asarray((vectors * np.abs(eigenvalues)[:, None]) @ np.swapaxes(vectors, 1, 2))


class _Place(NamedTuple):
    """Where a search is."""

    numbers: np.ndarray
    values: np.ndarray  # log likelihoods [b]
    slopes: np.ndarray  # [b, p]
    value: float  # log joint density
    gradient: np.ndarray


def _search_whole(
    lanes: Lanes, here: _Place, H: np.ndarray, prior: np.ndarray, factor: Arrow | None, damping: np.ndarray
) -> tuple[_Place, np.ndarray] | None:
    """All data of a channel in one block: steps of several dampings, and along directions of negative curvature.

    They are tried in one evaluation, in a basis in which the Hessian of all numbers is diagonal.
    """
    del factor
    member = lanes.members
    whole = np.eye(len(here.numbers))
    whole[lanes.knots :, lanes.knots :] = prior
    for block, numbers in zip(H, member, strict=True):
        whole[np.ix_(numbers, numbers)] += block
    eigenvalues, vectors = np.linalg.eigh(whole)
    along = vectors.T @ here.gradient
    size = np.abs(eigenvalues)
    moves = [vectors @ (along / (size + mu)) for mu in DAMPINGS * max(1.0, float(damping[0]))]
    bent = vectors[:, 0] * np.sign(along[0] or 1.0)
    if eigenvalues[0] < 0:
        moves += [moves[0] + length * bent for length in (0.1, 0.3, 1.0)]
    trials = here.numbers + np.stack(moves)
    copies = trials[:, member]  # [m, b, p]
    new, slopes = lanes.evaluate(np.tile(np.arange(lanes.count), len(moves)), copies.reshape(-1, member.shape[1]))
    new, slopes = new.reshape(len(moves), -1), slopes.reshape(copies.shape)
    totals = np.array([lanes.total(*one)[0] for one in zip(new, slopes, trials, strict=True)])
    best = int(np.nanargmax(np.where(np.isfinite(totals), totals, -np.inf)))
    if not totals[best] > here.value:
        return None if damping[0] > 1e8 else (here, np.maximum(damping, 1.0) * 1e4)
    value, gradient = lanes.total(new[best], slopes[best], trials[best])
    return _Place(trials[best], new[best], slopes[best], value, gradient), np.zeros(lanes.count)


def _search_many(
    lanes: Lanes, here: _Place, H: np.ndarray, prior: np.ndarray, factor: Arrow | None, damping: np.ndarray
) -> tuple[_Place, np.ndarray] | None:
    """Many blocks: each is damped by itself, more where its log likelihood falls."""
    H = _absolute(H) if factor is None else H
    eye = np.eye(H.shape[1])
    for _ in range(10):
        damped = (
            factor
            if factor is not None and not np.any(damping)
            else Arrow.of(lanes, H + damping[:, None, None] * eye, prior)
        )
        trial = here.numbers + damped.solve(here.gradient)
        new, slopes = lanes.log_likelihoods(trial)
        value, gradient = lanes.total(new, slopes, trial)
        worse = ~(new > here.values - 1.0)
        if value > here.value:
            return _Place(trial, new, slopes, value, gradient), np.where(
                worse, np.maximum(10.0 * damping, 1.0), np.where(damping > 0.1, 0.1 * damping, 0.0)
            )
        worse = worse if np.any(worse) else new < here.values
        damping = np.where(worse, np.maximum(10.0 * damping, 1.0), damping)
    return None
