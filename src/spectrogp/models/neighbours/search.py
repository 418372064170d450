"""Orders and neighbour sets of the nearest-neighbour (Vecchia) approximation, found on the CPU with trees.

In an order of the data, the neighbours N(i) of point i are the m nearest among the points before it. Distances are
Euclidean in *features* of the inputs, which come from a kernel: inputs scaled by its lengthscales
(``LengthscaleFeatures``), or features whose distances follow its correlation (``CorrelationFeatures``), so that for a
periodic component the same phase some periods away counts as near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree
from scipy.spatial import cKDTree

from ...core import entry_point, is_new, one_blas_thread, program_threads, side_by_side
from ...kernels import AbstractKernel
from ...spectra import local_spectrum

Metric = Literal["correlation", "lengthscale"]

_CANDIDATES = 3  # candidates that features find for every neighbour to be chosen by correlation
_ROWS, _PAIRS = 2**11, 2**14  # rows, and pairs of them, of one program
_SOME = 500  # inputs that stand for all where a kernel is averaged over them


def features(kernel: AbstractKernel, X: np.ndarray, metric: Metric) -> CorrelationFeatures | LengthscaleFeatures:
    """Features in which near means much correlated under the kernel, or near in its lengthscales."""
    count = min(_SOME, len(X))
    some = X[np.arange(count) * len(X) // count]
    if metric == "correlation":
        return CorrelationFeatures.of(kernel, some)
    if metric == "lengthscale":
        return LengthscaleFeatures.of(kernel, some)
    raise ValueError(f"metric must be 'correlation' or 'lengthscale', got {metric!r}")


def earlier_under(
    kernel: AbstractKernel, X: np.ndarray, order: np.ndarray, m: int, metric: Metric, targets: np.ndarray | None = None
) -> np.ndarray:
    """Neighbours of every input among those before it in the order, under a kernel; −1 fills short sets.

    ``[n, m]``; or those of some targets alone, ``[t, m]`` for row numbers ``[t]``.
    """
    with one_blas_thread():  # its threads would go on waiting, each on a core, while trees are asked
        points = features(kernel, X, metric)(X)
    if metric == "lengthscale":
        return earlier_neighbours(points, order, m, targets)
    candidates = earlier_neighbours(points, order, _CANDIDATES * m, targets)
    return _most_correlated(kernel, X, X if targets is None else X[targets], candidates, m)


def nearest_under(kernel: AbstractKernel, X: np.ndarray, queries: np.ndarray, m: int, metric: Metric) -> np.ndarray:
    """The m inputs of X nearest to each query under a kernel, ``[t, m]``."""
    with one_blas_thread():  # as above
        of = features(kernel, X, metric)
        points, wanted = of(X), of(queries)
    if metric == "lengthscale":
        return nearest(points, wanted, m)
    return _most_correlated(kernel, X, queries, nearest(points, wanted, _CANDIDATES * m), m)


def _most_correlated(
    kernel: AbstractKernel, X: np.ndarray, queries: np.ndarray, candidates: np.ndarray, m: int
) -> np.ndarray:
    """The m candidates of each query with the largest correlation in absolute value, the largest first.

    Features know one average of the kernel's functions; here every pair is judged by the kernel as it is there.
    """
    size = np.abs(_correlations(kernel, X, queries, candidates))
    best = np.argsort(-np.where(candidates >= 0, size, -1.0), axis=1, kind="stable")[:, :m]
    return np.take_along_axis(candidates, best, axis=1)


@entry_point
def _correlations(kernel: AbstractKernel, X: np.ndarray, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """k(x, q)/√k(x, x) of each query q and its candidates x (the variance of q is the same for all of them).

    Rows and pairs are taken in blocks of equal sizes, so that one program serves any number of them.
    """
    p, q = _locals(kernel, np.asarray(X)), _locals(kernel, np.asarray(queries))
    near = np.maximum(candidates, 0).ravel()
    which = np.repeat(np.arange(len(queries)), candidates.shape[1])
    found = np.empty(len(near))
    form = kernel.without_callables()

    def judge(block: np.ndarray) -> None:
        x, y = (
            jax.tree.map(lambda leaf, rows=rows[block]: np.take(leaf, rows, axis=0), side)  # without Python's lock
            for rows, side in ((near, p[0]), (which, q[0]))
        )
        found[block] = np.asarray(form.elementwise(x, y)) / p[1][near[block]]

    _every(judge, list(_blocks(len(near), _PAIRS)), is_new("correlations", form))
    return found.reshape(candidates.shape)


def _locals(kernel: AbstractKernel, X: np.ndarray) -> tuple[PyTree, np.ndarray]:
    """Local parameters of the kernel at inputs ``[n, d]``, and standard deviations ``[n]`` there."""
    blocks = list(_blocks(len(X), _ROWS))

    def local(block: np.ndarray) -> tuple[PyTree, np.ndarray]:
        found: tuple[PyTree, np.ndarray] = jax.tree.map(np.asarray, _local_block(kernel, jnp.asarray(X[block])))
        return found

    each = _every(local, blocks, is_new("local", kernel))

    def joined(*leaves: np.ndarray) -> np.ndarray:
        whole = np.empty((len(X), *leaves[0].shape[1:]), leaves[0].dtype)
        for block, leaf in zip(blocks, leaves, strict=True):
            whole[block] = leaf
        return whole

    found: tuple[PyTree, np.ndarray] = jax.tree.map(joined, *each)
    return found


@eqx.filter_jit
def _local_block(kernel: AbstractKernel, X: Array) -> tuple[PyTree, Array]:
    p = kernel.local(X)
    return p, jnp.sqrt(kernel.diagonal(p))


def _every(function: Callable[[np.ndarray], Any], blocks: list[np.ndarray], compiles: bool) -> list[Any]:
    """``function`` of every block, by as many threads as serve: of the first alone where that compiles a program."""
    alone = [function(block) for block in blocks[:1]] if compiles else []
    return alone + side_by_side(function, blocks[len(alone) :], program_threads())


def _blocks(size: int, block: int) -> Iterator[np.ndarray]:
    """Rows 0 … ``size`` − 1 in blocks of equal size: the last repeats rows of the one before it, or its own."""
    for start in range(0, size, block):
        yield np.minimum(np.arange(start, start + block), size - 1)


class LengthscaleFeatures(NamedTuple):
    """Inputs in units of lengthscales: their geometric mean over components and inputs, by share of the variance."""

    lengthscale: np.ndarray  # [d]

    @classmethod
    def of(cls, kernel: AbstractKernel, X: np.ndarray) -> Self:
        """From the kernel's local spectrum, averaged over inputs (a few hundred will do)."""
        share, curvature, _ = _spectrum(kernel, X)
        squares = np.diagonal(curvature, axis1=-2, axis2=-1)
        return cls(np.exp(-0.5 * np.einsum("na,nad->d", share, np.log(np.maximum(squares, 1e-300)))))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Features ``[n, d]`` of inputs ``[n, d]``."""
        return X / self.lengthscale


@entry_point
def mean_lengthscales(kernel: AbstractKernel, X: np.ndarray) -> np.ndarray:
    """The lengthscale ``[d]`` of each input: its geometric mean over components and inputs ``X [n, d]``.

    Args:
        kernel: A kernel, realised.
        X: Inputs; a few hundred will do.
    """
    return LengthscaleFeatures.of(kernel, np.asarray(X)).lengthscale


class CorrelationFeatures(NamedTuple):
    """Features whose squared distances are about −2 log of a kernel's correlation at short lags.

    A component exp(−½ τᵀΛτ) cos⟨ξ, τ⟩ of weight w adds w(τᵀΛτ + ‖e(x) − e(x′)‖²), e = (cos⟨ξ, x⟩, sin⟨ξ, x⟩): what is
    near in the scaled inputs *and* in the phase of every component is correlated, a period away as well.
    """

    scaling: np.ndarray  # [d, d], a root of the weighted mean of Λ
    rates: np.ndarray  # [a, d], angular frequencies
    weights: np.ndarray  # [a], shares of the variance

    @classmethod
    def of(cls, kernel: AbstractKernel, X: np.ndarray) -> Self:
        """From the kernel's local spectrum, averaged over inputs (a few hundred will do)."""
        share, curvature, frequency = _spectrum(kernel, X)
        each = np.maximum(np.sum(share, axis=0), 1e-12)
        rates = np.einsum("na,nad->ad", share, frequency) / each[:, None]
        moving = np.any(np.abs(rates) > 0, axis=1)
        values, vectors = np.linalg.eigh(np.einsum("na,nade->de", share, curvature))
        return cls(vectors * np.sqrt(np.maximum(values, 0.0)), rates[moving], each[moving])

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Features ``[n, d + 2a]`` of inputs ``[n, d]``."""
        angle, size = X @ self.rates.T, np.sqrt(self.weights)
        return np.concatenate([X @ self.scaling, size * np.cos(angle), size * np.sin(angle)], axis=1)


def _spectrum(kernel: AbstractKernel, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of the variance ``[n, a]`` (summing to one), curvatures Λ ``[n, a, d, d]`` and frequencies ξ."""
    spectrum = local_spectrum(kernel, X)
    weight = np.maximum(np.asarray(spectrum.weight), 0.0)
    return weight / np.sum(weight), np.asarray(spectrum.Lambda), np.asarray(spectrum.xi)


def random_order(size: int, seed: int) -> np.ndarray:
    """A random permutation of 0 … ``size`` − 1, from a ``seed``."""
    return np.random.default_rng(seed).permutation(size)


def maxmin_order(features: np.ndarray, seed: int) -> np.ndarray:
    """An order that covers the inputs coarsely first, then ever more finely.

    Greedy max–min ordering (each point as far as possible from those before it) costs O(N²). This one is within a
    factor of two of it in about O(N log N): for a radius that halves level by level, points are added, in random order,
    until every point lies within the radius of one before it, and those of a level are at least the radius apart.
    """
    waiting = random_order(len(features), seed)
    radius = float(np.linalg.norm(np.ptp(features, axis=0)))
    order = [waiting[:1]]
    waiting = waiting[1:]
    while len(waiting) and radius > 1e-12 * (1.0 + float(np.max(np.abs(features)))):
        radius *= 0.5
        covered = cKDTree(features[np.concatenate(order)]).query(features[waiting], workers=-1)[0] < radius
        open_points = waiting[~covered]
        while len(open_points):
            chosen = _apart(features, open_points, radius)
            order.append(chosen)
            open_points = open_points[cKDTree(features[chosen]).query(features[open_points], workers=-1)[0] >= radius]
        waiting = waiting[~np.isin(waiting, np.concatenate(order))]
    return np.concatenate([*order, waiting])  # what is left are duplicates: their order cannot matter


def _apart(features: np.ndarray, points: np.ndarray, radius: float) -> np.ndarray:
    """Some of the points, at least the radius apart: the first of each cell of a grid, less those in conflict."""
    mixing = np.random.default_rng(0).integers(1, 2**62, features.shape[1], dtype=np.int64) | 1
    with np.errstate(over="ignore"):
        key = np.floor(features[points] / radius).astype(np.int64) @ mixing
    first = np.sort(np.unique(key, return_index=True)[1])
    conflicts = cKDTree(features[points[first]]).query_pairs(radius * (1.0 - 1e-12), output_type="ndarray")
    keep = np.ones(len(first), dtype=bool)
    keep[conflicts.max(axis=1, initial=0) if len(conflicts) else []] = False
    return points[first[keep]]


def earlier_neighbours(
    features: np.ndarray, order: np.ndarray, m: int, targets: np.ndarray | None = None
) -> np.ndarray:
    """Neighbours ``[n, m]`` of every point among those before it in the order; −1 fills the sets of the first points.

    With ``targets [t]``, row numbers, those of these points alone, ``[t, m]``.
    Rows and entries are positions in the original arrays. Points are taken in blocks that double in size, each with a
    tree of all points up to its end: at least half of the tree is earlier than any point of the block, so a few times
    m candidates nearly always hold m earlier ones; where they do not, more are asked for.
    """
    size = len(features)
    m = min(_checked(features, m), size - 1)
    ordered = features[order]
    wanted = np.ones(size, bool) if targets is None else np.isin(order, targets)
    found = np.full((size, m), -1)
    start = 0
    while start < size:
        stop = min(size, max(2 * start, 4 * m + 64))
        todo, ask = start + np.flatnonzero(wanted[start:stop]), min(stop, 2 * m + 16)
        tree = cKDTree(ordered[:stop] if len(todo) else ordered[:1])  # where nobody asks there is nothing to build
        while len(todo):
            candidates = tree.query(ordered[todo], k=ask, workers=-1)[1].reshape(len(todo), -1)
            earlier = candidates < todo[:, None]
            enough = (earlier.sum(axis=1) >= np.minimum(m, todo)) | (ask >= stop)
            ready = np.flatnonzero(enough)
            # A stable sort brings the earlier candidates to the front in order of distance.
            front = np.argsort(~earlier[ready], axis=1, kind="stable")[:, :m]
            taken = np.take_along_axis(candidates[ready], front, axis=1)
            valid = np.take_along_axis(earlier[ready], front, axis=1)
            found[todo[ready], : taken.shape[1]] = np.where(valid, taken, -1)
            todo, ask = todo[~enough], min(stop, 2 * ask)
        start = stop
    neighbours = np.full((size, m), -1)
    neighbours[order] = np.where(found >= 0, order[found], -1)
    return neighbours if targets is None else neighbours[targets]


def nearest(features: np.ndarray, queries: np.ndarray, m: int) -> np.ndarray:
    """The m nearest of the points to each query, ``[t, m]``."""
    m = min(_checked(features, m), len(features))
    return cKDTree(features).query(queries, k=m, workers=-1)[1].reshape(len(queries), m)


def _checked(features: np.ndarray, m: int) -> int:
    if m < 1:
        raise ValueError(f"the number of neighbours must be 1 or more, got {m}")
    if not np.all(np.isfinite(features)):
        raise ValueError("neighbours need finite features; look at the inputs and at the kernel's parameters")
    return m
