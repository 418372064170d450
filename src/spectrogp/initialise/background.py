"""What a record is without any oscillation: a trend, red noise and white noise, fitted by their exact likelihood.

The null of every search in one dimension is

    y = polynomial + g + noise,    g a Matérn process of order ½ or 3/2,

with known error bars beside the white noise. Its likelihood takes linear time (``covariance``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import minimize

from .covariance import DEGREE, Likelihoods, Null, Process

LONGEST = 3.0  # lengthscale of red noise, in spans; longer ones are a trend
ROWS = 4096  # that the numbers of the null are fitted to, at most
ORDERS = (0.5, 1.5)
NOISE = 1e-3, 3.0  # in spreads: less of it than a thousandth says nothing more, and costs digits
TRIED, CLOSE = 17, 2e-3  # noises at once, where there is nothing else, until so much is between their logarithms
STEP = 1e-5  # of differences of logarithms: much shorter ones have the rounding of the likelihood in them

Kinds: TypeAlias = tuple[tuple[float, bool], ...]  # order of each process, and whether it oscillates


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
    best = search.fitted([], ())
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


def _kinds(processes: Sequence[Process]) -> Kinds:
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

    def null(self, x: np.ndarray, kinds: Kinds) -> Null:
        """The null with logarithms of the noise, and of the two or three numbers of each process."""
        noise, *rest = np.exp(x).tolist()
        values = iter(rest)
        processes = tuple(
            Process(self.spread * next(values), next(values), order, next(values) if oscillates else 0.0)
            for order, oscillates in kinds
        )
        return Null(self.spread * noise, processes)

    def fitted(self, starts: list[list[float]], kinds: Kinds) -> tuple[Null, float]:
        """The best null from the best of several starts, and its log likelihood less what its numbers cost.

        That is ½ log n for each number of a process, with n how often the record shows it anew: once in a lengthscale.
        """
        rows = tuple(part.tobytes() for part in (self.t, self.y, self.error))
        return _fitted(*rows, self.degree, self.limits, tuple(map(tuple, starts)), kinds)

    def white(self) -> tuple[Null, float]:
        """The best null without processes, which costs nothing: of noises anywhere, then of those around the best."""
        likelihoods = Likelihoods(self.t, self.y, self.error, self.spread, self.degree)
        low, high = np.log(NOISE).tolist()
        while True:
            nulls = [Null(self.spread * noise) for noise in np.exp(np.linspace(low, high, TRIED)).tolist()]
            values = likelihoods(nulls)
            best, apart = int(np.argmax(values)), (high - low) / (TRIED - 1)
            if apart < CLOSE:
                return nulls[best], float(values[best])
            low, high = max(low + (best - 1) * apart, low), min(low + (best + 1) * apart, high)

    def fitted_anew(self, starts: Sequence[Sequence[float]], kinds: Kinds) -> tuple[Null, float]:
        """The same, whether or not these rows have been fitted before."""
        likelihoods = Likelihoods(self.t, self.y, self.error, self.spread, self.degree)

        def losses(points: Sequence[np.ndarray]) -> np.ndarray:
            return np.minimum(-likelihoods([self.null(x, kinds) for x in points]), 1e300)

        limits = [NOISE]
        for _, oscillates in kinds:
            limits += [(1e-3, 30.0), (self.closest, LONGEST * self.span)]
            limits += [self.limits] if oscillates else []
        bounds = np.log(limits)

        def with_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
            beside = x + np.where(x + STEP > bounds[:, 1], -STEP, STEP)
            values = losses([x, *np.where(np.eye(len(x)) > 0, beside, x)])
            return float(values[0]), (values[1:] - values[0]) / (beside - x)

        begin = [np.clip(np.log(start), *bounds.T) for start in starts]
        best = begin[0] if len(begin) == 1 else begin[int(np.argmin(losses(begin)))]
        options = {"maxiter": 40, "ftol": 1e-2 / max(len(self.y), 100)}
        found = minimize(with_slope, best, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
        null = self.null(found.x, kinds)
        seen = [min(max(self.span / process.lengthscale, 1.0), len(self.y)) for process in null.processes]
        cost = sum((1.0 + 0.5 * oscillates) * np.log(n) for n, (_, oscillates) in zip(seen, kinds, strict=True))
        # A frequency is one of as many as can be told apart up to it: nearly a line pays nearly the price of a line.
        apart = [np.sqrt(2.0 * np.pi) * process.frequency * process.lengthscale for process in null.processes]
        cost += sum(np.log(max(count, 1.0)) for count in apart)
        return null, -float(found.fun) - float(cost)


@lru_cache(maxsize=64)
def _fitted(
    t: bytes, y: bytes, error: bytes, degree: int, limits: tuple[float, float], starts: tuple[Any, ...], kinds: Kinds
) -> tuple[Null, float]:
    """The fit of rows that are the same: one search asks for some of its fits several times."""
    search = _Search.of(np.frombuffer(t), np.frombuffer(y), np.frombuffer(error), degree)
    return search._replace(limits=limits).fitted_anew(starts, kinds) if kinds else search.white()


def _some(count: int) -> np.ndarray:
    """Rows that are looked at: all, or some that lie close together and some that lie far apart."""
    if count <= ROWS:
        return np.arange(count)
    stretch = ROWS // 8
    starts = np.linspace(0, count - stretch, 4).astype(int)
    close = (starts[:, None] + np.arange(stretch)).ravel()
    return np.unique(np.concatenate([close, np.linspace(0, count - 1, ROWS // 2).astype(int)]))
