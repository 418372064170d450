"""The covariance of a record without any oscillation: a trend, red noise and white noise, in linear time.

A Matérn process of order ½ or 3/2 is Markov: with its derivative, of order 3/2, it has a precision matrix Λ of few
diagonals at any times, and with R the variances of the noise C⁻¹ = R⁻¹ − R⁻¹ H (Λ + HᵀR⁻¹H)⁻¹ HᵀR⁻¹. So solutions and
determinants of the covariance C are those of banded matrices (Rue & Held 2005). The polynomial has a wide normal prior,
and is integrated over. NumPy and SciPy, no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cho_solve_banded, cholesky, cholesky_banded
from scipy.linalg.lapack import dpbtrf, dpotrf, dpotrs, dtbtrs
from scipy.special import gammainc

DEGREE = 2  # of the polynomial
WIDE = 10.0  # standard deviation of its coefficients, in that of the outputs
CLOSEST = {0.5: 1e-9, 1.5: 2e-4}  # steps, in lengthscales over √2ν, that count as these: shorter ones cost digits
_NUMBERS = 2**15  # of banded matrices that are factorised at once: what fits into a cache


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
        chains = [_chain(np.diff(t), *process) for process in null.processes]
        self._size, self._seen = _places(chains)
        if chains:
            band = _band(chains, self._seen, self.precision)
            self._band = cholesky_banded(band.reshape(-1, 2 * self._size).T, lower=True)
            determinants = float(sum(chain.log_determinant for chain in chains))
            self._log += 2.0 * float(np.sum(np.log(self._band[0]))) - determinants
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
        size = sum(round(process.order + 0.5) * (2 if process.frequency else 1) for process in nulls[0].processes)
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
        weighted = precision[:, None] * self._columns  # [m, k, n]
        inner = weighted @ self._columns.T  # [m, k, k], of the columns with C⁻¹ between them
        if nulls[0].processes:
            alike = zip(*(null.processes for null in nulls), strict=True)
            chains = [_chain(self._steps, *map(np.array, zip(*some, strict=True))) for some in alike]
            size, seen = _places(chains)
            # One null after the other, and nothing between them: each is factorised as if it were alone.
            factor, failed = dpbtrf(_band(chains, seen, precision).reshape(-1, 2 * size).T, lower=1, overwrite_ab=1)
            if failed:
                raise np.linalg.LinAlgError("not positive definite")
            determinants = sum(chain.log_determinant for chain in chains)
            logs += 2.0 * np.sum(np.log(factor[0].reshape(len(nulls), -1)), axis=1) - determinants
            inside = np.zeros((len(self._columns), *precision.shape, size))
            for first in seen:
                inside[..., first] = weighted.swapaxes(0, 1)
            half = dtbtrs(factor, inside.reshape(len(inside), -1).T, uplo="L", overwrite_b=1)[0].T
            half = half.reshape(len(inside), len(nulls), -1).swapaxes(0, 1)
            inner -= half @ half.swapaxes(1, 2)
        return [self._of_one(own, log) for own, log in zip(inner, logs.tolist(), strict=True)]

    def _of_one(self, inner: np.ndarray, log: float) -> float:
        """The log density, from products ``[k, k]`` and determinants without the polynomial."""
        corner, failed = dpotrf(np.eye(len(inner) - 1) + inner[:-1, :-1], lower=1)
        if failed:
            raise np.linalg.LinAlgError("not positive definite")
        log += 2.0 * float(np.sum(np.log(np.diagonal(corner))))
        across = inner[:-1, -1]
        square = float(inner[-1, -1] - across @ dpotrs(corner, across, lower=1)[0])
        return -0.5 * (square + log + len(self._variance) * np.log(2.0 * np.pi))


def _column(values: Any) -> np.ndarray:
    return np.asarray(values)[..., None]


def _polynomial(t: np.ndarray, spread: float, degree: int) -> np.ndarray:
    """The terms of the polynomial ``[n, degree + 1]``, as large as they are a priori."""
    x = 2.0 * (t - t[0]) / (t[-1] - t[0]) - 1.0
    return np.asarray(WIDE * spread * np.polynomial.legendre.legvander(x, degree))


class _Chain(NamedTuple):
    """The precision of a Markov process at rows, of one null or several: its blocks, and its log determinant."""

    here: np.ndarray  # [..., n, d, d], of a row
    next: np.ndarray  # [..., n − 1, d, d], of the next row with it
    log_determinant: Any  # [...]


def _chain(steps: np.ndarray, amplitude: Any, lengthscale: Any, order: Any, frequency: Any) -> _Chain:
    """The precision of the states of a process at times that are ``steps`` apart, of one null or several.

    The state of order 3/2 is the process and its derivative over λ, that of an oscillation has its quadrature beside
    it, all of variance σ². A step of u = λΔ makes of it A z + N(0, σ² Q), and the precision is that of a chain.
    """
    order = float(np.ravel(order)[0])  # processes of the same kind
    u = np.maximum(steps * np.sqrt(2.0 * order) / _column(lengthscale), CLOSEST[order])
    e = np.exp(-u)
    if order == 0.5:
        Q = -np.expm1(-2.0 * u)
        A, inverse, log_Q = [[e]], [[1.0 / Q]], np.sum(np.log(Q), axis=-1)
    else:
        grown, ue = gammainc(3.0, 2.0 * u), u * e
        A = [[e + ue, ue], [-ue, e - ue]]
        corner, last = 2.0 * ue**2, grown + 4.0 * ue * e
        determinant = grown * last - corner**2
        off = -corner / determinant
        inverse, log_Q = [[last / determinant, off], [off, grown / determinant]], np.sum(np.log(determinant), axis=-1)
    # Products of such small matrices are sums of arrays.
    d, variance = len(A), _column(np.square(amplitude))
    across = [[sum(inverse[i][k] * A[k][j] for k in range(d)) for j in range(d)] for i in range(d)]
    here = np.zeros((d, d, *u.shape[:-1], len(steps) + 1))
    here[range(d), range(d), ..., 0] = 1.0
    for i in range(d):
        for j in range(d):
            here[i, j, ..., 1:] += inverse[i][j]
            here[i, j, ..., :-1] += sum(A[k][i] * across[k][j] for k in range(d))
    here, after = here / variance, np.array(across) / -variance
    if np.any(frequency):  # the same twice, and turned: turns cancel where a row meets itself
        turn = 2.0 * np.pi * _column(frequency) * steps
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        here = np.einsum("ij,kl...->ikjl...", np.eye(2), here).reshape(2 * d, 2 * d, *here.shape[2:])
        after = np.einsum("ij...,kl...->ikjl...", rotation, after).reshape(2 * d, 2 * d, *after.shape[2:])
        log_Q = 2.0 * log_Q
    log_determinant = -log_Q - len(here) * (len(steps) + 1) * np.log(np.square(amplitude))
    here, after = (np.moveaxis(part, (0, 1), (-2, -1)) for part in (here, after))
    return _Chain(here, after, log_determinant)


def _places(chains: list[_Chain]) -> tuple[int, list[int]]:
    """Size of the state at a row, and the coordinates of it that outputs are sums of."""
    ends = np.cumsum([0, *(chain.here.shape[-1] for chain in chains)]).tolist()
    return ends[-1], ends[:-1]


def _band(chains: list[_Chain], seen: list[int], precision: np.ndarray) -> np.ndarray:
    """The precision of all states given outputs, row by row, ``[..., n, s, 2s]``: each column from the diagonal on."""
    size, _ = _places(chains)
    band = np.zeros((*precision.shape, size, 2 * size))
    for first, chain in zip(seen, chains, strict=True):
        d = chain.here.shape[-1]
        for i in range(d):
            for j in range(d):
                if j <= i:
                    band[..., first + j, i - j] = chain.here[..., i, j]
                band[..., :-1, first + j, size + i - j] = chain.next[..., i, j]
    for k, first in enumerate(seen):
        for second in seen[: k + 1]:
            band[..., second, first - second] += precision
    return band
