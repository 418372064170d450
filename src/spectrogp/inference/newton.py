"""Optimum and posterior of models whose log likelihood is a sum over blocks of time: L-BFGS, then Newton's method.

Whitened knots of long functions and the few numbers that everything shares make the Hessian an arrow: a band around the
diagonal, as wide as a block has knots, and a border. Its columns come from differences of gradients, those of all
blocks at once (``models.Lanes``), and its Cholesky factor gives steps, draws of the normal approximation and its
evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, cho_solve, cholesky_banded, cho_solve_banded, solve_triangular

from ..models import Lanes

STEP = 1e-7  # of the differences of gradients
CONVERGED = 0.02  # nats that a step may still promise at the optimum
MEMORY = 20  # pairs that L-BFGS remembers


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
        local = member.shape[1] - q
        i, j = member[:, :local, None], member[:, None, :local]
        apart = i - j
        wide = int(np.max(np.abs(apart))) if n else 0
        lower = apart >= 0
        band = np.zeros((wide + 1, n))
        at = (apart * n + np.broadcast_to(j, apart.shape))[lower]
        band += np.bincount(at, blocks[:, :local, :local][lower], band.size).reshape(band.shape)
        band[0] += 1.0
        factor = cholesky_banded(band, lower=True) if n else band
        cross = np.zeros((n, q))
        np.add.at(cross, member[:, :local], blocks[:, :local, local:])
        solved = cho_solve_banded((factor, True), cross) if n and q else cross
        corner = cholesky(prior + np.sum(blocks[:, local:, local:], axis=0) - cross.T @ solved, lower=True) if q else prior
        return cls(order, factor, solved, corner)

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
        wide = self.band.shape[0] - 1
        # Lᵀ x = z by back substitution along the band.
        x = _solve_transposed(self.band, z) if n else z
        if border and q:
            b = solve_triangular(self.corner, rng.normal(size=(q, draws)), lower=True, trans="T")
            x = x - self.cross @ b
            result[:, n:] = b.T
        result[:, self.order] = x.T
        del wide
        return result

    @property
    def log_determinant(self) -> float:
        """log |H|."""
        return 2.0 * float(np.sum(np.log(self.band[0])) + np.sum(np.log(np.diagonal(self.corner))))


def _solve_transposed(band: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Lᵀ x = z for L in lower band form."""
    from scipy.linalg.lapack import dtbtrs

    x, info = dtbtrs(band, z, uplo="L", trans="T")
    if info:
        raise np.linalg.LinAlgError("a banded factor is singular")
    return np.asarray(x)


class Optimum(NamedTuple):
    """The end of a search.

    Args:
        numbers: Of the model, as ``Lanes`` has them.
        log_joint: Log joint density there.
        decrement: Nats that one more step promises.
        factor: Of minus the Hessian there, or None where it is not positive definite.
        history: Log joint density at every step.
    """

    numbers: np.ndarray
    log_joint: float
    decrement: float
    factor: Arrow | None
    history: list[float]

    @property
    def evidence(self) -> float:
        """Laplace's approximation of the log marginal likelihood."""
        if self.factor is None:
            return -np.inf
        return self.log_joint + 0.5 * (len(self.numbers) * np.log(2.0 * np.pi) - self.factor.log_determinant)


def curvature(lanes: Lanes, numbers: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Minus the Hessians ``[b, p, p]`` of the blocks' log likelihoods, by differences of gradients ``slopes [b, p]``."""
    b, p = lanes.members.shape
    copies = np.repeat(numbers[lanes.members], p, axis=0).reshape(b, p, p) + STEP * np.eye(p)
    changed = lanes.evaluate(np.repeat(np.arange(b), p), copies.reshape(b * p, p))[1].reshape(b, p, p)
    H = (slopes[:, None] - changed) / STEP
    return 0.5 * (H + np.swapaxes(H, 1, 2))


def newton(lanes: Lanes, numbers: np.ndarray, *, steps: int = 20) -> Optimum:
    """Newton's method, damped per block."""
    values, slopes = lanes.log_likelihoods(numbers)
    value, gradient = lanes.total(values, slopes, numbers)
    damping = np.zeros(lanes.count)
    history, decrement, factor = [value], np.inf, None
    p = lanes.members.shape[1]
    for _ in range(steps):
        H = curvature(lanes, numbers, slopes)
        prior = lanes.log_prior(numbers)[2]
        try:
            factor = Arrow.of(lanes, H, prior)
            decrement = 0.5 * float(gradient @ factor.solve(gradient))
        except np.linalg.LinAlgError:
            factor = None
            eigenvalues, vectors = np.linalg.eigh(H)
            H = (vectors * np.abs(eigenvalues)[:, None]) @ np.swapaxes(vectors, 1, 2)
        if factor is not None and decrement < CONVERGED:
            break
        for _attempt in range(8):
            damped = factor if factor is not None and not np.any(damping) else Arrow.of(lanes, H + damping[:, None, None] * np.eye(p), prior)
            trial = numbers + damped.solve(gradient)
            new, new_slopes = lanes.log_likelihoods(trial)
            total, new_gradient = lanes.total(new, new_slopes, trial)
            worse = ~np.isfinite(new) | (new < values - 1.0)
            if np.isfinite(total) and total > value:
                damping = np.where(worse, np.maximum(10.0 * damping, 1.0), np.where(damping > 0.1, 0.1 * damping, 0.0))
                break
            damping = np.where(worse | (lanes.count == 1) | ~np.any(worse), np.maximum(10.0 * damping, 1.0), damping)
        else:
            break
        numbers, values, slopes, value, gradient = trial, new, new_slopes, total, new_gradient
        history.append(value)
    return Optimum(numbers, value, decrement, factor, history)


def lbfgs(
    function: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]], start: np.ndarray, *, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Maximise from several starts ``[c, n]`` side by side; the ends, and the values there.

    Args:
        function: Values ``[m]`` and gradients ``[m, n]`` at positions ``[m, n]`` of the starts with numbers ``[m]``.
        start: Where to begin.
        steps: Evaluations of each.
    """
    count = len(start)
    x = start.copy()
    value, gradient = function(np.arange(count), x)
    pairs: list[list[tuple[np.ndarray, np.ndarray, float]]] = [[] for _ in range(count)]
    length = np.ones(count)
    direction = np.stack([_direction(g, []) for g in gradient])
    for _ in range(steps):
        trial = x + length[:, None] * direction
        new, slope = function(np.arange(count), trial)
        for c in range(count):
            rise = float(gradient[c] @ direction[c]) * length[c]
            if np.isfinite(new[c]) and np.all(np.isfinite(slope[c])) and new[c] >= value[c] + 1e-4 * rise:
                s, g = trial[c] - x[c], gradient[c] - slope[c]
                if s @ g > 1e-12 * (s @ s) ** 0.5 * (g @ g) ** 0.5:
                    pairs[c] = [*pairs[c][1 - MEMORY :], (s, g, float(s @ g))]
                x[c], value[c], gradient[c] = trial[c], new[c], slope[c]
                direction[c], length[c] = _direction(gradient[c], pairs[c]), 1.0
            else:
                length[c] *= 0.3
                if length[c] < 1e-8:
                    pairs[c], length[c] = [], 1.0
                    direction[c] = _direction(gradient[c], [])
    return x, value


def _direction(gradient: np.ndarray, pairs: list[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """Two loops over the pairs (Nocedal & Wright 2006, algorithm 7.4); the first step has length one at most."""
    q, alphas = gradient.copy(), []
    for s, g, inner in reversed(pairs):
        alphas.append(float(s @ q) / inner)
        q -= alphas[-1] * g
    if pairs:
        s, g, inner = pairs[-1]
        q *= inner / float(g @ g)
    else:
        q /= max(1.0, float(np.linalg.norm(q)))
    for (s, g, inner), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - float(g @ q) / inner) * s
    return q
