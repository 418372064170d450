"""The covariance of a record without any oscillation: a trend, red noise and white noise, in linear time.

A Matérn process of order ½ or 3/2 is Markov: with its derivative, of order 3/2, it has a precision matrix Λ of few
diagonals at any times, and with R the variances of the noise C⁻¹ = R⁻¹ − R⁻¹ H (Λ + HᵀR⁻¹H)⁻¹ HᵀR⁻¹. So solutions and
determinants of the covariance C are those of banded matrices (Rue & Held 2005). The polynomial has a wide normal prior,
and is integrated over. NumPy and SciPy, no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import cho_solve, cho_solve_banded, cholesky, cholesky_banded
from scipy.linalg.lapack import dpbtrf, dtbtrs
from scipy.special import factorial

DEGREE = 2  # of the polynomial
WIDE = 10.0  # standard deviation of its coefficients, in that of the outputs
CLOSEST = {0.5: 1e-9, 1.5: 2e-4}  # steps, in lengthscales over √2ν, that count as these: shorter ones cost digits
FARTHEST = 50.0  # and steps that count as this: beyond it rows have nothing to do with each other
SERIES, TERMS = 0.2, 1.0 / factorial(np.arange(13, 2, -2))  # steps for which sinh u − u is a series, and the series
_NUMBERS = 2**16  # of banded matrices that are factorised at once: what fits into a cache

Blocks: TypeAlias = dict[tuple[int, int], np.ndarray]  # entries of small matrices by row and column, one for each step


class Process(NamedTuple):
    """A Matérn process, or one that oscillates: standard deviation, lengthscale, order, frequency in cycles per unit.

    The covariance of one with a frequency is that of the Matérn process times cos(2πfΔ).
    """

    amplitude: float
    lengthscale: float
    order: float
    frequency: float = 0.0


class Null(NamedTuple):
    """Numbers of the null: standard deviation of white noise, and the processes beside it, red noise first."""

    noise: float
    processes: tuple[Process, ...] = ()


class Covariance:
    """The covariance of rows under a null, with all that is solved for in linear time.

    Args:
        t: Times ``[n]``, sorted.
        error: Known standard deviations ``[n]``.
        spread: Standard deviation of the outputs.
        null: The numbers.
        degree: Of the polynomial.
    """

    def __init__(self, t: np.ndarray, error: np.ndarray, spread: float, null: Null, degree: int = DEGREE) -> None:
        self.precision = 1.0 / (error**2 + null.noise**2)  # [n], of white noise
        self._log = -float(np.sum(np.log(self.precision)))
        self._size, self._seen = _places(null)
        if null.processes:
            band, determinants = _band(np.diff(t), self.precision[None], [null])
            self._band = cholesky_banded(band, lower=True)
            self._log += 2.0 * float(np.sum(np.log(self._band[0]))) - float(determinants[0])
        self.design = _polynomial(t, spread, degree)
        self._solved = self._solve(self.design)
        inner = np.eye(degree + 1) + self.design.T @ self._solved
        self._corner = cholesky(inner, lower=True)
        self._log += 2.0 * float(np.sum(np.log(np.diagonal(self._corner))))

    def _solve(self, right: np.ndarray) -> np.ndarray:
        """The same without the polynomial."""
        weighted = (self.precision * right.T).T
        if not self._size:
            return weighted
        inside = np.zeros((self._band.shape[1], *right.shape[1:]))
        for first in self._seen:
            inside[first :: self._size] = weighted
        states = cho_solve_banded((self._band, True), inside, check_finite=False)
        inner = sum(states[first :: self._size] for first in self._seen)
        return np.asarray(weighted - (self.precision * np.asarray(inner).T).T)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """C⁻¹ times a vector ``[n]`` or several ``[n, k]``."""
        return self._solve(right) - self._solved @ self.coefficients(right)

    def coefficients(self, right: np.ndarray) -> np.ndarray:
        """Mean of the polynomial's coefficients a posteriori, in units of their prior, ``[degree + 1, ...]``."""
        return np.asarray(cho_solve((self._corner, True), self._solved.T @ right))

    def information(self, designs: np.ndarray) -> np.ndarray:
        """Xᵀ C⁻¹ X ``[k, m, m]`` of several designs ``Xᵀ [k, m, n]``."""
        weighted = self.precision * designs
        inner = weighted @ designs.swapaxes(1, 2)
        if self._size:
            inside = np.zeros((*designs.shape, self._size))
            for first in self._seen:
                inside[..., first] = weighted
            columns = inside.reshape(-1, self._band.shape[1]).T
            half = dtbtrs(self._band, columns, uplo="L", overwrite_b=1)[0].T.reshape(*designs.shape[:2], -1)
            inner -= half @ half.swapaxes(1, 2)
        across = designs @ self._solved
        return np.asarray(
            inner - across @ cho_solve((self._corner, True), np.eye(across.shape[2])) @ across.swapaxes(1, 2)
        )

    def log_likelihood(self, y: np.ndarray) -> float:
        """Log density of outputs ``[n]``."""
        return -0.5 * (float(y @ self.solve(y)) + self._log + len(y) * np.log(2.0 * np.pi))


class Likelihoods:
    """Log likelihoods of one record under many nulls of the same kinds, by one banded matrix that has all of theirs.

    Args:
        t: Times ``[n]``, sorted.
        y: Outputs ``[n]``.
        error: Known standard deviations ``[n]``.
        spread: Standard deviation of the outputs.
        degree: Of the polynomial.
    """

    def __init__(self, t: np.ndarray, y: np.ndarray, error: np.ndarray, spread: float, degree: int) -> None:
        self._steps, self._variance = np.diff(t), error**2
        self._columns = np.vstack([_polynomial(t, spread, degree).T, y])  # [k, n]

    def __call__(self, nulls: Sequence[Null]) -> np.ndarray:
        """Log densities ``[m]`` of the outputs; −∞ where so little noise is left that rounding is more."""
        size, _ = _places(nulls[0])
        chunk = max(1, _NUMBERS // max(2 * size**2 * len(self._variance), 1))
        return np.array([value for k in range(0, len(nulls), chunk) for value in self._some(nulls[k : k + chunk])])

    def _some(self, nulls: Sequence[Null]) -> list[float]:
        try:
            return self._together(nulls)
        except np.linalg.LinAlgError:
            return [-np.inf] if len(nulls) == 1 else [value for null in nulls for value in self._some([null])]

    def _together(self, nulls: Sequence[Null]) -> list[float]:
        precision = 1.0 / (self._variance + _column([null.noise**2 for null in nulls]))  # [m, n]
        logs = -np.sum(np.log(precision), axis=1)
        weighted = precision * self._columns[:, None]  # [k, m, n]
        inner = (weighted @ self._columns.T).swapaxes(0, 1)  # [m, k, k], of the columns with C⁻¹ between them
        size, seen = _places(nulls[0])
        if seen:
            band, determinants = _band(self._steps, precision, nulls)
            # One null after the other, and nothing between them: each is factorised as if it were alone.
            factor, failed = dpbtrf(band, lower=1, overwrite_ab=1)
            if failed:
                raise np.linalg.LinAlgError("not positive definite")
            logs += 2.0 * np.sum(np.log(factor[0].reshape(len(nulls), -1)), axis=1) - determinants
            inside = np.zeros((*weighted.shape, size))
            for first in seen:
                inside[..., first] = weighted
            half = dtbtrs(factor, inside.reshape(len(inside), -1).T, uplo="L", overwrite_b=1)[0].T
            half = half.reshape(len(inside), len(nulls), -1).swapaxes(0, 1)
            inner = inner - half @ half.swapaxes(1, 2)
        # The last row of the factor is what y has beside the polynomial; one more is added to it, and taken off.
        corner = np.linalg.cholesky(np.eye(len(self._columns)) + inner).diagonal(axis1=1, axis2=2)
        logs += 2.0 * np.sum(np.log(corner[:, :-1]), axis=1) + corner[:, -1] ** 2 - 1.0
        return (-0.5 * (logs + len(self._variance) * np.log(2.0 * np.pi))).tolist()


def _column(values: Any) -> np.ndarray:
    return np.asarray(values)[..., None]


def _polynomial(t: np.ndarray, spread: float, degree: int) -> np.ndarray:
    """The terms of the polynomial ``[n, degree + 1]``, as large as they are a priori."""
    x = 2.0 * (t - t[0]) / (t[-1] - t[0]) - 1.0
    return np.asarray(WIDE * spread * np.polynomial.legendre.legvander(x, degree))


def _places(null: Null) -> tuple[int, list[int]]:
    """Size of the state at a row, and the coordinates of it that outputs are sums of."""
    sizes = [round(process.order + 0.5) * (2 if process.frequency else 1) for process in null.processes]
    ends = [0, *accumulate(sizes)]
    return ends[-1], ends[:-1]


def _band(steps: np.ndarray, precision: np.ndarray, nulls: Sequence[Null]) -> tuple[np.ndarray, np.ndarray]:
    """The precision of all states given outputs ``[2s, m · n · s]``, of nulls of the same kinds and rows one after the
    other, each column from the diagonal on; and log determinants ``[m]`` without outputs.

    Args:
        steps: Between times, ``[n − 1]``.
        precision: Of the noise, ``[m, n]``.
        nulls: The numbers, ``m`` of them.
    """
    size, seen = _places(nulls[0])
    band = np.zeros((*precision.shape, size, 2 * size))
    determinants = np.zeros(len(nulls))
    for first, *alike in zip(seen, *(null.processes for null in nulls), strict=True):
        amplitude, lengthscale, (order, *_), frequency = zip(*alike, strict=True)
        weight = _column(amplitude) ** -2.0
        own, across, log_Q = _step(steps * (np.sqrt(2.0 * order) / _column(lengthscale)), order, weight)
        d = round(order + 0.5)
        for (i, j), entry in own.items():
            here = np.zeros_like(precision)
            here[:, :-1] = entry
            here[:, 1:] += entry if i == j else -entry
            if i == j:
                here[:, :: len(steps)] += 0.5 * weight  # the first row and the last, with a step on one side
            for start in (first, first + d) if frequency[0] else (first,):
                band[..., start + j, i - j] = here
        for below, beside, turn in _turns(_column(frequency) * steps, d) if frequency[0] else ((0, 0, 1.0),):
            for (i, j), entry in across.items():
                band[:, :-1, first + beside + j, size + below + i - beside - j] = turn * entry
        each = np.sum(log_Q, axis=1) - d * (len(steps) + 1) * np.log(weight[:, 0])
        determinants -= 2.0 * each if frequency[0] else each
    for k, first in enumerate(seen):
        for second in seen[: k + 1]:
            band[..., second, first - second] += precision
    return band.reshape(-1, 2 * size).T, determinants


def _step(u: np.ndarray, order: float, weight: np.ndarray) -> tuple[Blocks, Blocks, np.ndarray]:
    """What steps ``u = λΔ [m, n − 1]`` add to the precision of a process of variance 1 / weight, and log det Q.

    The state of order 3/2 is the process and its derivative over λ, that of an oscillation has its quadrature beside
    it, all of variance σ². A step of u makes of it A z + N(0, σ² Q), so that the precision is that of a chain, with
    −Q⁻¹ A between two rows. To the later row it adds Q⁻¹ − ½, and to the earlier one I + Aᵀ Q⁻¹ A − ½ without the prior
    that it had: the same, with the other sign beside the diagonal, as a process has no direction. With s = sinh u and
    c = cosh u these have closed forms, in which nothing cancels that is not in s − u, c − 1 and s − u c: of order ½

        Q⁻¹ − ½ = c / 2s,    Q⁻¹ A = 1 / 2s,    det Q = 2s e⁻ᵘ,

    and of order 3/2, with w = 1 / 2(s² − u²),

        Q⁻¹ − ½ = w [[s c + u, −u²], [−u², s c − u]],    Q⁻¹ A = w [[s + u c, u s], [−u s, s − u c]],
        det Q = 4 (s² − u²) e⁻²ᵘ.

    Returns:
        The blocks of a row, but for the sign; those between two rows; and log det Q ``[m, n − 1]``.
    """
    u = np.minimum(np.maximum(u, CLOSEST[order]), FARTHEST)
    more = np.expm1(u)
    less = more / (1.0 + more)
    s, c1 = 0.5 * (more + less), 0.5 * more * less  # c − 1
    if order == 0.5:
        w = 0.5 / s
        log_Q, w = -np.log(w) - u, weight * w
        return {(0, 0): w + w * c1}, {(0, 0): -w}, log_Q
    square = u * u
    series = np.full_like(u, TERMS[0])
    for term in TERMS[1:]:
        series *= square
        series += term
    beyond = np.where(u < SERIES, u * square * series, s - u)  # s − u
    w = 0.5 / (beyond * (s + u))
    log_Q, w = -np.log(0.5 * w) - 2.0 * u, weight * w
    sc, uc, wus = s * c1, u * c1, w * u * s
    own = {(0, 0): w * (sc + s + u), (1, 0): w * square, (1, 1): w * (sc + beyond)}
    return own, {(0, 0): -w * (s + u + uc), (0, 1): -wus, (1, 0): wus, (1, 1): w * (uc - beyond)}, log_Q


def _turns(cycles: np.ndarray, d: int) -> list[tuple[int, int, np.ndarray]]:
    """How the state of an oscillation and its quadrature turn: first rows and columns of blocks, and their factors."""
    cos, sin = np.cos(2.0 * np.pi * cycles), np.sin(2.0 * np.pi * cycles)
    return [(0, 0, cos), (d, d, cos), (d, 0, sin), (0, d, -sin)]
