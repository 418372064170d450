"""What a record is without any oscillation: a trend, red noise and white noise, fitted by their exact likelihood.

The null of every search in one dimension is

    y = polynomial + g + noise,    g a Matérn process of order ½ or 3/2,

with known error bars beside the white noise. A Matérn process is Markov: with its derivative, of order 3/2, it has a
precision matrix Λ of few diagonals at any times, and with R the variances of the noise C⁻¹ = R⁻¹ − R⁻¹ H (Λ + HᵀR⁻¹H)⁻¹
HᵀR⁻¹. So solutions and determinants of the covariance C are those of banded matrices, in linear time (Rue & Held 2005).
The polynomial has a wide normal prior, and is integrated over. NumPy and SciPy, no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cho_solve_banded, cholesky, cholesky_banded
from scipy.optimize import minimize
from scipy.special import gammainc

DEGREE = 2  # of the polynomial
WIDE = 10.0  # standard deviation of its coefficients, in that of the outputs
LONGEST = 3.0  # lengthscale of red noise, in spans; longer ones are a trend
CLOSEST = {0.5: 1e-9, 1.5: 2e-4}  # steps, in lengthscales over √2ν, that count as these: shorter ones cost digits
ROWS = 4096  # that the numbers of the null are fitted to, at most
ORDERS = (0.5, 1.5)


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
        chains = [_chain(t, process) for process in null.processes]
        sizes = [chain.here.shape[-1] for chain in chains]
        self._size = sum(sizes)  # of the state at a row
        self._seen = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, int)  # coordinates that outputs are sums of
        if chains:
            band = _band(chains, len(t))
            for first in self._seen:
                for second in self._seen[self._seen <= first]:
                    band[first - second, second :: self._size] += self.precision
            self._band = cholesky_banded(band, lower=True)
            self._log += 2.0 * float(np.sum(np.log(self._band[0]))) - sum(chain.log_determinant for chain in chains)
        x = 2.0 * (t - t[0]) / (t[-1] - t[0]) - 1.0
        self.design = WIDE * spread * np.polynomial.legendre.legvander(x, degree)
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

    def log_likelihood(self, y: np.ndarray) -> float:
        """Log density of outputs ``[n]``."""
        return -0.5 * (float(y @ self.solve(y)) + self._log + len(y) * np.log(2.0 * np.pi))


class _Chain(NamedTuple):
    """The precision of a Markov process at rows: its blocks, and its log determinant."""

    here: np.ndarray  # [n, d, d], of a row
    next: np.ndarray  # [n − 1, d, d], of the next row with it
    log_determinant: float


def _chain(t: np.ndarray, process: Process) -> _Chain:
    """The precision of the states of a process at times.

    The state of order 3/2 is the process and its derivative over λ, that of an oscillation has its quadrature beside
    it, all of variance σ². A step of u = λΔ makes of it A z + N(0, σ² Q), and the precision is that of a chain.
    """
    u = np.maximum(np.diff(t) * np.sqrt(2.0 * process.order) / process.lengthscale, CLOSEST[process.order])
    e = np.exp(-u)
    if process.order == 0.5:
        A, Q = e[None, None], -np.expm1(-2.0 * u)
        inverse, log_Q = 1.0 / Q[None, None], float(np.sum(np.log(Q)))
    else:
        grown = gammainc(3.0, 2.0 * u)
        A = e * np.array([[1.0 + u, u], [-u, 1.0 - u]])
        corner, last = 2.0 * (u * e) ** 2, grown + 4.0 * u * e**2
        determinant = grown * last - corner**2
        inverse = np.array([[last, -corner], [-corner, grown]]) / determinant
        log_Q = float(np.sum(np.log(determinant)))
    A, inverse = np.moveaxis(A, -1, 0), np.moveaxis(inverse, -1, 0)
    if process.frequency:  # the same twice, and turned
        turn = 2.0 * np.pi * process.frequency * np.diff(t)
        rotation = np.moveaxis(np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]), -1, 0)
        d = 2 * A.shape[1]
        A = np.einsum("nij,nkl->nikjl", rotation, A).reshape(-1, d, d)
        inverse = np.einsum("ij,nkl->nikjl", np.eye(2), inverse).reshape(-1, d, d)
        log_Q *= 2.0
    across = inverse @ A
    here = np.zeros((len(t), *A.shape[1:]))
    here[0] = np.eye(A.shape[1])
    here[1:] = inverse
    here[:-1] += np.swapaxes(A, 1, 2) @ across
    variance = process.amplitude**2
    return _Chain(here / variance, -across / variance, -log_Q - here.shape[0] * here.shape[1] * np.log(variance))


def _band(chains: list[_Chain], rows: int) -> np.ndarray:
    """The precision of all states together, row by row, in lower band form."""
    size, first = sum(chain.here.shape[-1] for chain in chains), 0
    band = np.zeros((2 * size, size * rows))
    for chain in chains:
        d = chain.here.shape[-1]
        for i in range(d):
            for j in range(d):
                if j <= i:
                    band[i - j, first + j :: size] = chain.here[:, i, j]
                band[size + i - j, first + j : size * (rows - 1) : size] = chain.next[:, i, j]
        first += d
    return band


def fit_null(
    t: np.ndarray, y: np.ndarray, error: np.ndarray, degree: int = DEGREE, near: Null | None = None
) -> tuple[Null, float]:
    """The null of largest likelihood of a record, and its log likelihood less what its numbers cost (Schwarz 1978).

    Larger records are seen through some of their rows, half of them next to each other and half of them far apart: the
    likelihood of any rows is that of the same numbers.

    Args:
        t: Times ``[n]``, sorted.
        y: Outputs ``[n]``.
        error: Known standard deviations ``[n]``.
        degree: Of the polynomial.
        near: Numbers of a null like it, to begin with; only processes of its orders are tried then.
    """
    search = _Search.of(t, y, error, degree)
    best = min((search.fitted([[share]]) for share in (0.03, 0.7)), key=lambda found: -found[1])
    red = [process for process in near.processes if not process.frequency] if near is not None else []
    if near is not None and red:
        found = search.fitted([search.numbers(near.noise, red), search.numbers(near.noise, red, 0.5, 0.3)], _kinds(red))
        return max(best, found, key=lambda pair: pair[1])
    lengths = np.geomspace(3.0 * search.closest, search.span, 5)
    starts = [[noise, 0.8, length] for noise in (0.03, 0.5) for length in lengths]
    every = [best, *(search.fitted(starts, ((order, False),)) for order in ORDERS)]
    return max(every, key=lambda pair: pair[1])


def fit_slow(t: np.ndarray, y: np.ndarray, error: np.ndarray, near: Null, frequency: float) -> tuple[Null, float]:
    """The same with a slow process beside the red noise, without any frequency.

    Args:
        t: Times ``[n]``, sorted.
        y: Outputs ``[n]``.
        error: Known standard deviations ``[n]``.
        near: The null without it.
        frequency: Of the oscillation that it is tried instead of.
    """
    search = _Search.of(t, y, error, DEGREE)
    red = [process for process in near.processes if not process.frequency][:1]
    slow = [[0.6, share / frequency] for share in (0.15, 0.5)]
    starts = [search.numbers(near.noise, red, share) + more for share in (0.3, 0.8) for more in slow]
    return search.fitted(starts, (*_kinds(red), (1.5, False)))


def fit_band(
    t: np.ndarray, y: np.ndarray, error: np.ndarray, near: Null, frequency: float, limits: tuple[float, float]
) -> tuple[Null, float]:
    """The same with a process that oscillates about a frequency beside the red noise: one that has a band, not a line.

    Args:
        t: Times ``[n]``, sorted.
        y: Outputs ``[n]``.
        error: Known standard deviations ``[n]``.
        near: The null without it.
        frequency: Where it begins.
        limits: Between which frequencies it stays.
    """
    search = _Search.of(t, y, error, DEGREE)._replace(limits=limits)
    own = [[0.6, length / frequency, frequency] for length in (0.7, 3.0)]
    found = [search.fitted([[near.noise / search.spread, *more] for more in own], ((1.5, True),))]
    red = [process for process in near.processes if not process.frequency]
    if red:
        starts = [search.numbers(near.noise, red, share) + more for share in (0.3, 0.8) for more in own]
        found.append(search.fitted(starts, (*_kinds(red), (1.5, True))))
    return max(found, key=lambda pair: pair[1])


def _kinds(processes: Sequence[Process]) -> tuple[tuple[float, bool], ...]:
    """Order of each process, and whether it oscillates."""
    return tuple((process.order, process.frequency > 0) for process in processes)


class _Search(NamedTuple):
    """Rows that the numbers of a null are fitted to."""

    t: np.ndarray
    y: np.ndarray
    error: np.ndarray
    degree: int
    spread: float
    limits: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of(cls, t: np.ndarray, y: np.ndarray, error: np.ndarray, degree: int) -> _Search:
        rows = _some(len(t))
        return cls(t[rows], y[rows], error[rows], degree, max(float(np.std(y[rows])), 1e-12))

    @property
    def span(self) -> float:
        return float(self.t[-1] - self.t[0])

    @property
    def closest(self) -> float:
        return self.span / len(self.t)

    def numbers(
        self, noise: float, processes: Sequence[Process], share: float = 1.0, shorter: float = 1.0
    ) -> list[float]:
        """Numbers of a null without oscillations, its processes with a share of their amplitudes and lengthscales."""
        both = [(share * process.amplitude / self.spread, shorter * process.lengthscale) for process in processes]
        return [noise / self.spread, *(number for pair in both for number in pair)]

    def null(self, x: np.ndarray, kinds: tuple[tuple[float, bool], ...]) -> Null:
        """The null with logarithms of the noise, and of the two or three numbers of each process."""
        noise, *rest = np.exp(x).tolist()
        values = iter(rest)
        processes = tuple(
            Process(self.spread * next(values), next(values), order, next(values) if oscillates else 0.0)
            for order, oscillates in kinds
        )
        return Null(self.spread * noise, processes)

    def fitted(self, starts: list[list[float]], kinds: tuple[tuple[float, bool], ...] = ()) -> tuple[Null, float]:
        """The best null from the best of several starts, and its log likelihood less what its numbers cost.

        That is ½ log n for each number of a process, with n how often the record shows it anew: once in a lengthscale.
        """

        def objective(x: np.ndarray) -> float:
            try:
                null = self.null(x, kinds)
                return -Covariance(self.t, self.error, self.spread, null, self.degree).log_likelihood(self.y)
            except np.linalg.LinAlgError:  # so little noise that rounding is more
                return 1e300

        # Noise from a thousandth of the spread on: less of it says nothing more, and costs digits.
        limits = [(1e-3, 3.0)]
        for _, oscillates in kinds:
            limits += [(1e-3, 30.0), (self.closest, LONGEST * self.span)]
            limits += [self.limits] if oscillates else []
        bounds = np.log(limits)
        begin = [np.clip(np.log(start), *bounds.T) for start in starts]
        best = begin[0] if len(begin) == 1 else min(begin, key=objective)
        options = {"maxiter": 40, "ftol": 1e-2 / max(len(self.y), 100)}
        found = minimize(objective, best, method="L-BFGS-B", bounds=bounds, options=options)
        null = self.null(found.x, kinds)
        seen = [min(max(self.span / process.lengthscale, 1.0), len(self.y)) for process in null.processes]
        cost = sum((1.0 + 0.5 * oscillates) * np.log(n) for n, (_, oscillates) in zip(seen, kinds, strict=True))
        return null, -float(found.fun) - float(cost)


def _some(count: int) -> np.ndarray:
    """Rows that are looked at: all, or some that lie close together and some that lie far apart."""
    if count <= ROWS:
        return np.arange(count)
    stretch = ROWS // 8
    starts = np.linspace(0, count - stretch, 4).astype(int)
    close = (starts[:, None] + np.arange(stretch)).ravel()
    return np.unique(np.concatenate([close, np.linspace(0, count - 1, ROWS // 2).astype(int)]))
