"""Optimum and posterior of models whose log likelihood is a sum over blocks of time, by Newton's method.

Whitened knots of long functions and the few numbers that everything shares make the Hessian an arrow: a band around the
diagonal, as wide as a block has knots, and a border. Its columns come from differences of gradients, those of all
blocks at once (``models.Lanes``), and its Cholesky factor gives steps, draws of the normal approximation and its
evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..core import one_blas_thread
from ..models import Lanes
from .arrow import Arrow
from .loop import Progress

STEP, FINE = 1e-7, 1e-4  # of the differences of gradients; and, where widths are known, in these
CONVERGED = 0.02  # nats that a step may still promise at the optimum
DAMPINGS = np.array([0.0, 0.3, 1.0, 3.0, 10.0, 1e2, 1e3, 1e4])  # tried side by side
STALE = 0.1  # nats that a block may lose by its last curvature before it is computed again
NEAR = 1.0  # nats from where it was computed that curvature of another search serves to begin with
FORETOLD = 0.3  # share of a step by which it may be wrong, likewise
POOR = 0.1  # share of what a step promised that it gains where what the rows tell is not the curvature
LITTLE = 0.5  # nats gained below which a search may be at a saddle
DIRECTIONS = 4  # of negative curvature that it then tries
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


class Optimum(NamedTuple):
    """The end of a search.

    Args:
        numbers: Of the model, as ``Lanes`` has them.
        log_joint: Log joint density there.
        decrement: Nats that one more step promises; infinite where minus the Hessian is not positive definite.
        factor: Of minus the Hessian there, or where it is not positive definite of its absolute value.
        history: Log joint density at every step.
        curvature: Of the blocks, as the search knew it at its end.
    """

    numbers: np.ndarray
    log_joint: float
    decrement: float
    factor: Arrow
    history: list[float]
    curvature: Curvature

    @property
    def evidence(self) -> float:
        """Laplace's approximation of the log marginal likelihood; minus infinity where there is no optimum."""
        if not np.isfinite(self.decrement):
            return -np.inf
        return self.log_joint + 0.5 * (len(self.numbers) * np.log(2.0 * np.pi) - self.factor.log_determinant)


def curvature(
    lanes: Lanes,
    numbers: np.ndarray,
    slopes: np.ndarray,
    chosen: np.ndarray | None = None,
    known: np.ndarray | None = None,
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
    """
    chosen = np.arange(lanes.count) if chosen is None else chosen
    bends = np.zeros(slopes.shape) if known is None else np.diagonal(known, axis1=1, axis2=2)
    step = np.full(bends.shape, STEP) if known is None else FINE / np.sqrt(1.0 + np.abs(bends))
    p = lanes.members.shape[1]
    H = np.zeros((len(chosen), p, p))
    block, column = np.nonzero(lanes.felt[chosen])
    few = max(1, AT_ONCE // p)  # copies at once
    for start in range(0, len(block), few):
        b, k = block[start : start + few], column[start : start + few]
        copies = numbers[lanes.members[chosen[b]]]
        copies[np.arange(len(b)), k] += step[b, k]
        H[b, k] = (slopes[b] - lanes.evaluate(chosen[b], copies)[1]) / step[b, k, None]
    # An entry comes twice, but for columns that were left out.
    twice = lanes.felt[chosen][:, :, None] & lanes.felt[chosen][:, None]
    H += np.swapaxes(H, 1, 2)
    return np.asarray(np.where(twice, 0.5 * H, 0.0))


def newton(
    lanes: Lanes,
    numbers: np.ndarray,
    *,
    steps: int = 20,
    least: float = -np.inf,
    exact: bool = True,
    known: Curvature | None = None,
    progress: Progress | None = None,
) -> Optimum:
    """Newton's method: of one block with several dampings tried side by side, of many damped block by block.

    Hessians cost as many gradients as a block has numbers. Where a step changed a block's gradient nearly as its
    Hessian said, that is kept, with the symmetric correction of rank one that the step asks for (partitioned
    quasi-Newton; Griewank & Toint 1982); else it is computed again, and at the end so are those that are not of there.
    Of one block what the rows tell of the numbers (``Lanes.information``) serves on the way, for a tenth of the cost.

    Args:
        lanes: The blocks.
        numbers: Where to begin.
        steps: At most so many.
        least: The search ends where steps that gain as the last two did would not reach this log joint density.
        exact: Whether Hessians at the end are computed there, for the posterior and the evidence; a place from which
            another search begins needs none.
        known: Curvature from another search, which serves for blocks that it was near to; computed when left out.
        progress: What shows them: steps done, steps, and log joint density.
    """
    with one_blas_thread():
        return _newton(lanes, numbers, steps, least, exact, known, progress)


def _newton(
    lanes: Lanes,
    numbers: np.ndarray,
    steps: int,
    least: float,
    exact: bool,
    known: Curvature | None,
    progress: Progress | None,
) -> Optimum:
    values, slopes = lanes.log_likelihoods(numbers)
    value, gradient = lanes.total(values, slopes, numbers)
    here = _Place(numbers, values, slopes, value, gradient)
    search = _search_whole if lanes.whole else _search_many
    damping = np.zeros(lanes.count)
    history = [value]
    bends, prior = _Bends(lanes, here, known), lanes.log_prior(here.numbers)[2]
    for step in range(steps + 1):
        if progress is not None:
            progress(step, steps, here.value)
        factor, decrement = _step_at(lanes, here, bends.H, prior)
        if factor is None and bends.reconsider(here, step in (0, steps) or history[-1] - history[-2] < LITTLE):
            factor, decrement = _step_at(lanes, here, bends.H, prior)
        if exact and decrement < CONVERGED and bends.ensure(here):  # what looks like an optimum may be a saddle
            factor, decrement = _step_at(lanes, here, bends.H, prior)
        gained = (history[-1] - history[-3]) / 2.0 if step > 2 else np.inf
        if decrement < CONVERGED or step == steps or here.value + (steps - step) * gained < least:
            break
        found = search(lanes, here, bends.H, prior, factor, damping)
        if found is None:
            break
        bends.doubt(found[0].value - here.value < POOR * decrement)
        bends.follow(here, found[0])
        here, damping = found
        history.append(here.value)
    if exact and bends.ensure(here):
        factor, decrement = _step_at(lanes, here, bends.H, prior)
    factor = _some(lanes, bends.H, prior) if factor is None else factor
    return Optimum(here.numbers, here.value, decrement, factor, history, bends.known)


def _step_at(lanes: Lanes, here: _Place, H: np.ndarray, prior: np.ndarray) -> tuple[Arrow | None, float]:
    """The factor of minus the Hessian, or None where it is not positive definite, and what a step promises."""
    try:
        factor = Arrow.of(lanes, H, prior)
    except np.linalg.LinAlgError:
        return None, np.inf
    return factor, 0.5 * float(here.gradient @ factor.solve(here.gradient))


class _Bends:
    """Minus the Hessians ``[b, p, p]`` of blocks, computed where they are known no longer."""

    def __init__(self, lanes: Lanes, here: _Place, known: Curvature | None) -> None:
        self.lanes, self._informed, self._doubted = lanes, lanes.whole, False
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

    def doubt(self, poor: bool) -> None:
        """After two poor steps, one after the other, differences alone serve.

        That is where envelopes are short, and how they decay counts, of which information says nothing.
        """
        self._informed &= not (poor and self._doubted)
        self._doubted = poor

    def follow(self, before: _Place, now: _Place) -> None:
        """After a step: kept and corrected where they foretold what it did to the gradients, else computed again."""
        moved = (now.numbers - before.numbers)[self.lanes.members]
        told = np.einsum("bpq,bq->bp", self.H, moved)
        off = np.where(self.lanes.felt, now.slopes - before.slopes + told, 0.0)
        along, size = (np.einsum("bp,bp->b", moved, part) for part in (off, told))
        # Nats that the next step would lose by it, and those of this one.
        eye = np.eye(off.shape[1])
        lost = 0.5 * np.abs(np.einsum("bp,bp->b", off, np.linalg.solve(self.H + eye, off[..., None])[..., 0]))
        stale = ~(lost < STALE + FORETOLD**2 * 0.5 * np.abs(size))
        self._compute(now, np.flatnonzero(stale))
        sizes = np.linalg.norm(off, axis=1) * np.linalg.norm(moved, axis=1)
        kept = np.flatnonzero(~stale & (np.abs(along) > 1e-8 * sizes))
        self.H[kept] -= off[kept, :, None] * off[kept, None] / along[kept, None, None]

    def refresh(self, here: _Place, most: float) -> bool:
        """Those of places more than so many nats away, computed again; whether there were any."""
        stale = np.flatnonzero(self._away(here) > most)
        self._compute(here, stale)
        return len(stale) > 0

    def reconsider(self, here: _Place, everywhere: bool) -> bool:
        """Where all together are indefinite: those of other places computed again; whether there were any.

        Corrections of rank one may have made them so. Far from an optimum they are so in truth, and only blocks that
        are indefinite by themselves, with the prior, are looked at; ``everywhere`` where a search ends or makes no way.
        """
        moved = np.any(here.numbers[self.lanes.members] != self.seen, axis=1)
        alone = np.linalg.eigvalsh(self.H[moved])[:, 0] < -1.0
        stale = np.flatnonzero(moved) if everywhere else np.flatnonzero(moved)[alone]
        self._compute(here, stale)
        return len(stale) > 0

    def ensure(self, here: _Place) -> bool:
        """Those that are not from differences, or not of here, computed so; whether there were any."""
        stale = np.flatnonzero(~self.sure | (self._away(here) > STALE))
        self._differences(here, stale)
        return len(stale) > 0

    def _away(self, here: _Place) -> np.ndarray:
        moved = here.numbers[self.lanes.members] - self.seen
        return np.asarray(0.5 * np.abs(np.einsum("bp,bpq,bq->b", moved, self.H, moved)))

    def _compute(self, here: _Place, stale: np.ndarray) -> None:
        if not self._informed:
            self._differences(here, stale)
        elif len(stale):
            self.H[stale], self.sure[stale] = self.lanes.information(here.numbers)[stale], False
            self.seen[stale] = here.numbers[self.lanes.members[stale]]

    def _differences(self, here: _Place, stale: np.ndarray) -> None:
        if len(stale):
            known = self.H[stale] if self.lanes.whole else None
            self.H[stale] = curvature(self.lanes, here.numbers, here.slopes[stale], stale, known)
            self.seen[stale], self.sure[stale] = here.numbers[self.lanes.members[stale]], True


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
    size = np.maximum(size, 1e-9 * np.max(size))  # a flat prior of what rows say nothing of, as information has it
    moves = [vectors @ (along / (size + mu)) for mu in DAMPINGS * max(1.0, float(damping[0]))]
    bent = vectors[:, 0] * np.sign(along[0] or 1.0)
    if eigenvalues[0] < 0:
        moves += [moves[0] + length * bent for length in (0.1, 0.3, 1.0)]
    trials = here.numbers + np.stack(moves)
    copies = trials[:, member]  # [m, b, p]
    new, slopes = lanes.evaluate(np.tile(np.arange(lanes.count), len(moves)), copies.reshape(-1, member.shape[1]))
    new, slopes = new.reshape(len(moves), -1), slopes.reshape(copies.shape)
    totals = _where_finite([lanes.total(*one) for one in zip(new, slopes, trials, strict=True)])
    best = int(np.argmax(totals))
    if not totals[best] > here.value:
        return None if damping[0] > 1e8 else (here, np.maximum(damping, 1.0) * 1e4)
    value, gradient = lanes.total(new[best], slopes[best], trials[best])
    return _Place(trials[best], new[best], slopes[best], value, gradient), np.zeros(lanes.count)


def _search_many(
    lanes: Lanes, here: _Place, H: np.ndarray, prior: np.ndarray, factor: Arrow | None, damping: np.ndarray
) -> tuple[_Place, np.ndarray] | None:
    """Many blocks: each is damped by itself, more where its log likelihood falls.

    Few blocks leave lanes free, in which larger dampings of all blocks are tried beside.
    """
    size = _absolute(H) if factor is None else H
    eye = np.eye(H.shape[1])
    beside = int(np.clip(lanes.width // lanes.count, 1, 4))
    for _ in range(10):
        moves = []
        for k in range(beside):
            more = damping if k == 0 else np.maximum(damping * 10.0**k, 10.0 ** (k - 1))
            bent = size + more[:, None, None] * eye if np.any(more) else size
            damped = factor if bent is H and factor is not None else Arrow.of(lanes, bent, prior)
            moves.append(damped.solve(here.gradient))
        best, values = _best_of(lanes, here, np.stack(moves))
        if factor is None and best.value < here.value + LITTLE:
            downhill = _best_of(lanes, here, _bent_moves(lanes, here, H, prior, moves[0]))[0]
            best = max(best, downhill, key=lambda place: place.value)
        worse = ~(values[0] > here.values - 1.0)
        if best.value > here.value:
            raised = np.where(worse, np.maximum(10.0 * damping, 1.0), np.where(damping > 0.1, 0.1 * damping, 0.0))
            return best, raised
        worse = worse if np.any(worse) else values[0] < here.values
        damping = np.where(worse, np.maximum(10.0 * damping, 1.0), damping)
    return None


def _best_of(lanes: Lanes, here: _Place, moves: np.ndarray) -> tuple[_Place, np.ndarray]:
    """The best of the places that moves ``[m, n]`` lead to, and the blocks' log likelihoods ``[m, b]`` at all."""
    trials = here.numbers + moves
    blocks = np.tile(np.arange(lanes.count), len(moves))
    values, slopes = lanes.evaluate(blocks, trials[:, lanes.members].reshape(len(blocks), -1))
    values, slopes = values.reshape(len(moves), -1), slopes.reshape(len(moves), lanes.count, -1)
    totals = [lanes.total(*one) for one in zip(values, slopes, trials, strict=True)]
    reached = _where_finite(totals)
    best = int(np.argmax(reached))
    return _Place(trials[best], values[best], slopes[best], float(reached[best]), totals[best][1]), values


def _where_finite(totals: list[tuple[float, np.ndarray]]) -> np.ndarray:
    """Log joint densities, minus infinity where one or its gradient has overflowed: no search goes on from there."""
    return np.array([value if np.all(np.isfinite([value, *slope])) else -np.inf for value, slope in totals])


def _bent_moves(lanes: Lanes, here: _Place, H: np.ndarray, prior: np.ndarray, step: np.ndarray) -> np.ndarray:
    """A step, and on from it along the directions of the most negative curvature, to both sides: off a saddle."""

    def times(vector: np.ndarray) -> np.ndarray:
        vector = np.ravel(vector)
        result = np.append(vector[: lanes.knots], prior @ vector[lanes.knots :])
        each = np.einsum("bpq,bq->bp", H, np.where(lanes.felt, vector[lanes.members], 0.0))
        return result + np.bincount(lanes.members.ravel(), each.ravel(), len(vector))

    n = len(here.numbers)
    operator = LinearOperator((n, n), matvec=times, dtype=float)
    try:
        values, vectors = eigsh(
            operator, k=min(DIRECTIONS, n - 1), which="SA", v0=np.ones(n), tol=1e-2, maxiter=50 * DIRECTIONS
        )
    except ArpackNoConvergence as some:
        values, vectors = some.eigenvalues, some.eigenvectors
    bent = vectors.T[values < 0.0]
    return np.concatenate([[step], *(step + length * bent for length in (0.3, -0.3, 1.0, -1.0))])
