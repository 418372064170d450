"""Optimum and posterior of models whose log likelihood is a sum over blocks of time, by Newton's method.

Whitened knots of long functions and the few numbers that everything shares make the Hessian an arrow: a band around the
diagonal, as wide as a block has knots, and a border. Its columns come from differences of gradients, those of all
blocks at once (``models.Lanes``), and its Cholesky factor gives steps, draws of the normal approximation and its
evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from ..core import one_blas_thread
from ..models import Lanes
from .arrow import FEW, Arrow
from .bends import Bends, Curvature, Place, Told
from .loop import Progress

CONVERGED = 0.02  # nats that a step may still promise at the optimum
DAMPINGS = np.array([0.0, 0.3, 1.0, 3.0, 10.0, 1e2, 1e3, 1e4])  # tried side by side
POOR = 0.1  # share of what a step promised that it gains where what the rows tell is not the curvature
LITTLE = 0.5  # nats gained below which a search may be at a saddle, or what the rows tell not be the curvature
DIRECTIONS = 4  # of negative curvature that it then tries
SHIFTS = 4.0 ** np.arange(20)  # of eigenvalues, of which the least that makes them positive tells these directions


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


def newton(
    lanes: Lanes,
    numbers: np.ndarray,
    *,
    steps: int = 20,
    least: float = -np.inf,
    exact: bool = True,
    known: Curvature | None = None,
    most: float = np.inf,
    progress: Progress | None = None,
) -> Optimum:
    """Newton's method: of one block with several dampings tried side by side, of many damped block by block.

    Hessians cost as many gradients as a block has numbers. Where a step changed a block's gradient nearly as its
    Hessian said, that is kept, with the symmetric correction of rank one that the step asks for (partitioned
    quasi-Newton; Griewank & Toint 1982); else it is computed again, and at the end so are those that are not of there.
    On the way what the rows tell of the numbers (``Lanes.information``) serves where it costs much less.

    Args:
        lanes: The blocks.
        numbers: Where to begin.
        steps: At most so many.
        least: The search ends where steps that gain as the last two did would not reach this log joint density.
        exact: Whether Hessians at the end are computed there, for the posterior and the evidence; a place from which
            another search begins needs none.
        known: Curvature from another search, which serves for blocks that it was near to; computed when left out.
        most: Work (``Lanes.work``) after which it takes no further step; the end is computed all the same.
        progress: What shows them: steps done, steps, and log joint density.
    """
    with one_blas_thread():
        return _newton(lanes, numbers, steps, least, exact, known, most, progress)


def _newton(
    lanes: Lanes,
    numbers: np.ndarray,
    steps: int,
    least: float,
    exact: bool,
    known: Curvature | None,
    most: float,
    progress: Progress | None,
) -> Optimum:
    most += lanes.work
    values, slopes = lanes.log_likelihoods(numbers)
    value, gradient = lanes.total(values, slopes, numbers)
    here = Place(numbers, values, slopes, value, gradient)
    search = _search_whole if lanes.whole else _search_many
    damping = np.zeros(lanes.count)
    history = [value]
    bends, prior = Bends(lanes, here, known), lanes.log_prior(here.numbers)[2]
    for step in range(steps + 1):
        if progress is not None:
            progress(step, steps, here.value)
        factor, decrement = _step_at(lanes, here, bends.H, prior)
        idle = step > 0 and 0.0 < history[-1] - history[-2] < LITTLE  # not where steps are to be damped more
        if factor is None and bends.reconsider(here, prior, idle or step in (0, steps)):
            factor, decrement = _step_at(lanes, here, bends.H, prior)
        spent = lanes.work >= most
        if idle and decrement > CONVERGED and not spent and bends.doubt(here, Told.NOTHING):
            factor, decrement = _step_at(lanes, here, bends.H, prior)
        if exact and decrement < CONVERGED and bends.ensure(here):  # what looks like an optimum may be a saddle
            factor, decrement = _step_at(lanes, here, bends.H, prior)
        gained = (history[-1] - history[-3]) / 2.0 if step > 2 else np.inf
        if decrement < CONVERGED or step == steps or spent or here.value + (steps - step) * gained < least:
            break
        found = search(lanes, here, bends.H, prior, factor, damping)
        if found is None:
            if bends.doubt(here, Told.NOTHING):
                continue
            break
        bends.judge(found[0].value - here.value < POOR * decrement)
        bends.follow(here, found[0])
        here, damping = found
        history.append(here.value)
    if exact and bends.ensure(here):
        factor, decrement = _step_at(lanes, here, bends.H, prior)
    factor = _some(lanes, bends.H, prior) if factor is None else factor
    return Optimum(here.numbers, here.value, decrement, factor, history, bends.known)


def _step_at(lanes: Lanes, here: Place, H: np.ndarray, prior: np.ndarray) -> tuple[Arrow | None, float]:
    """The factor of minus the Hessian, or None where it is not positive definite, and what a step promises."""
    try:
        factor = Arrow.of(lanes, H, prior)
    except np.linalg.LinAlgError:
        return None, np.inf
    return factor, 0.5 * float(here.gradient @ factor.solve(here.gradient))


def _some(lanes: Lanes, H: np.ndarray, prior: np.ndarray) -> Arrow:
    """A factor where there is no optimum: of the size of the curvature, or, where rounding ate it, of the prior."""
    try:
        return Arrow.of(lanes, _absolute(H), prior)
    except np.linalg.LinAlgError:
        return Arrow.of(lanes, np.zeros_like(H), prior + np.eye(lanes.border))


def _absolute(H: np.ndarray) -> np.ndarray:
    """Symmetric matrices ``[b, p, p]`` with the absolute values of their eigenvalues."""
    result = np.empty_like(H)
    for start in range(0, len(H), FEW):  # a copy of all of them takes much of the memory of a fit
        eigenvalues, vectors = np.linalg.eigh(H[start : start + FEW])
        result[start : start + FEW] = (vectors * np.abs(eigenvalues)[:, None]) @ np.swapaxes(vectors, 1, 2)
    return result


def _search_whole(
    lanes: Lanes, here: Place, H: np.ndarray, prior: np.ndarray, factor: Arrow | None, damping: np.ndarray
) -> tuple[Place, np.ndarray] | None:
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
    return Place(trials[best], new[best], slopes[best], value, gradient), np.zeros(lanes.count)


def _search_many(
    lanes: Lanes, here: Place, H: np.ndarray, prior: np.ndarray, factor: Arrow | None, damping: np.ndarray
) -> tuple[Place, np.ndarray] | None:
    """Many blocks: each is damped by itself, more where its log likelihood falls.

    Few blocks leave lanes free, in which larger dampings of all blocks are tried beside.
    """
    size = _absolute(H) if factor is None else H
    beside = int(np.clip(lanes.width // lanes.count, 1, 4))
    for _ in range(10):
        moves = []
        for k in range(beside):
            more = damping if k == 0 else np.maximum(damping * 10.0**k, 10.0 ** (k - 1))
            bent = size
            if np.any(more):
                bent = size.copy()
                np.einsum("bpp->bp", bent)[:] += more[:, None]
            damped = factor if bent is H and factor is not None else Arrow.of(lanes, bent, prior)
            moves.append(damped.solve(here.gradient))
        best, values = _best_of(lanes, here, np.stack(moves))
        # Where a step leads down it is too long, and is damped first.
        if factor is None and here.value < best.value < here.value + LITTLE:
            downhill = _best_of(lanes, here, _bent_moves(lanes, here, H, prior, moves[0]))[0]
            best = max(best, downhill, key=lambda place: place.value)
        worse = ~(values[0] > here.values - 1.0)
        if best.value > here.value:
            raised = np.where(worse, np.maximum(10.0 * damping, 1.0), np.where(damping > 0.1, 0.1 * damping, 0.0))
            return best, raised
        worse = worse if np.any(worse) else values[0] < here.values
        damping = np.where(worse, np.maximum(10.0 * damping, 1.0), damping)
    return None


def _best_of(lanes: Lanes, here: Place, moves: np.ndarray) -> tuple[Place, np.ndarray]:
    """The best of the places that moves ``[m, n]`` lead to, and the blocks' log likelihoods ``[m, b]`` at all."""
    trials = here.numbers + moves
    blocks = np.tile(np.arange(lanes.count), len(moves))
    values, slopes = lanes.evaluate(blocks, trials[:, lanes.members].reshape(len(blocks), -1))
    values, slopes = values.reshape(len(moves), -1), slopes.reshape(len(moves), lanes.count, -1)
    totals = [lanes.total(*one) for one in zip(values, slopes, trials, strict=True)]
    reached = _where_finite(totals)
    best = int(np.argmax(reached))
    return Place(trials[best], values[best], slopes[best], float(reached[best]), totals[best][1]), values


def _where_finite(totals: list[tuple[float, np.ndarray]]) -> np.ndarray:
    """Log joint densities, minus infinity where one or its gradient has overflowed: no search goes on from there."""
    return np.array([value if np.all(np.isfinite([value, *slope])) else -np.inf for value, slope in totals])


def _bent_moves(lanes: Lanes, here: Place, H: np.ndarray, prior: np.ndarray, step: np.ndarray) -> np.ndarray:
    """A step, and on from it along the directions of the most negative curvature, to both sides: off a saddle.

    They are those of the largest eigenvalues of the inverse of minus the Hessian plus so much that it is positive
    definite: an iteration with the matrix itself would take thousands of turns to tell them from so many others.
    """
    n = len(here.numbers)
    for shift in SHIFTS:
        try:
            factor = Arrow.of(lanes, H, prior, shift)
        except np.linalg.LinAlgError:
            continue
        inverse = LinearOperator((n, n), matvec=lambda right: factor.solve(np.ravel(right)), dtype=float)  # noqa: B023
        values, vectors = eigsh(inverse, k=min(DIRECTIONS, n - 1), which="LA", v0=np.ones(n), tol=1e-3)
        bent = vectors.T[values > 1.0 / shift]
        return np.concatenate([[step], *(step + length * bent for length in (0.3, -0.3, 1.0, -1.0))])
    return step[None]
