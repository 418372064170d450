"""The recent past of a record that grows: rows since an anchor, where the filter's state stands for all before.

Functions on grids are kept around these rows alone, so that costs do not grow with the record. Knots after the anchor
are free, and Newton's method moves them to where the rows since then are most likely; phases stay as they are at the
anchor. All that is older stays as it was.
"""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core import Module, entry_point, with_fields
from ..parameters import GridFunctionGroup
from .filtering import State, filter_from, initial_state, log_likelihood
from .lanes import grid_groups, with_groups
from .markov import MarkovGP
from .moments import Moments

SPAN = 8.0  # lengthscales of the frequency that the recent past is long
SERVED = 1.5  # times as far functions reach from the anchor
SHORTEST, REFINED = 64, 256  # rows are filled up to a power of two from here on, so that programs are shared
LANES = 8  # numbers of copies are multiples of this
STEP = 1e-6  # of the differences of gradients
ENOUGH = 0.01  # nats that a step gains at least, else it was the last
DAMPINGS = np.array([0.0, 0.3, 1.0, 3.0, 10.0, 100.0, 1e3, 1e4])  # tried side by side


class AnchoredPhase(Module):
    """A phase that has a given value at an anchor, whatever is integrated before it.

    Args:
        phase: A callable of inputs with values ``[n, a]``.
        anchor: The input at which it is given.
        value: The phase ``[a]`` there, in radians.
    """

    phase: Any
    anchor: Any
    value: Any

    def __call__(self, X: Array) -> Array:
        return self.phase(X) - self.phase(jnp.reshape(self.anchor, (1, 1))) + self.value


class Recent(Module):
    """Rows since an anchor, and a model whose functions reach from there to what comes next.

    Args:
        model: With functions around the rows.
        anchor: Its time.
        before: State of the filter there, or None before the first row of all.
        t: Times ``[n]`` of the rows, increasing.
        y: Outputs.
        error: Known standard deviations of the outputs.
        fresh: How many of the rows came after the functions were refined.
    """

    model: MarkovGP
    anchor: Any
    before: State | None
    t: Any
    y: Any
    error: Any
    fresh: int = eqx.field(static=True, default=0)

    @classmethod
    def of(cls, model: MarkovGP, time: float, state: State | None) -> Recent:
        """No rows after a ``time`` and what is known then."""
        empty = np.zeros(0)
        return cls(around(model, time), time, state, empty, empty, empty)

    @property
    def span(self) -> float:
        """How long the recent past is."""
        return span_of(self.model)

    def advanced(self, count: int) -> tuple[State, Array, Moments]:
        """State after the first ``count`` rows, their log density, and what f was predicted to be at each."""
        return advance(self.model, self.before, self.anchor, self.t[:count], self.y[:count], self.error[:count])

    def with_rows(self, t: np.ndarray, y: np.ndarray, error: np.ndarray) -> Self:
        """This with further rows."""
        longer = {name: np.append(getattr(self, name), new) for name, new in (("t", t), ("y", y), ("error", error))}
        return with_fields(self, **longer, fresh=self.fresh + len(t))

    def anchored(self, time: float) -> Recent:
        """The same with its anchor at the last row up to a ``time``, or else at the first of all.

        Functions further on are there then.
        """
        if not len(self.t):
            return self
        count = max(int(np.searchsorted(self.t, time, side="right")), 1)
        state = self.advanced(count)[0]
        last = float(self.t[count - 1])
        t, y, error = (part[count:] for part in (self.t, self.y, self.error))
        return Recent(around(self.model, last), last, state, t, y, error, self.fresh)

    def refined(self, steps: int) -> Recent:
        """The same with free knots nearer to the optimum, by at most so many steps of Newton's method."""
        free, numbers = _free(self.model), _numbers(self.model)
        rows = _rows(self.anchor, self.t, self.y, self.error, REFINED)
        current = numbers[free]

        def evaluate(moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Log joint densities ``[m]`` and gradients ``[m, k]`` at copies of the free knots."""
            copies = np.repeat(numbers[None], LANES * -(-len(moves) // LANES), axis=0)
            copies[: len(moves), free] = moves
            values, slopes = _evaluate(self.model, self.before, rows, copies)
            value, slope = (np.asarray(part)[: len(moves)] for part in (values, slopes))
            return value - 0.5 * np.sum(moves**2, axis=1), slope[:, free] - moves

        values, slopes = evaluate(np.concatenate([current[None], current + STEP * np.eye(len(current))]))
        value, slope = values[0], slopes[0]
        H = (slope - slopes[1:]) / STEP
        eigenvalues, vectors = np.linalg.eigh(0.5 * (H + H.T))
        size = np.maximum(np.abs(eigenvalues), 1e-3)
        for _ in range(steps):  # with one Hessian: it costs as much as all trials
            trials = current + (vectors.T @ slope / (size + DAMPINGS[:, None])) @ vectors.T
            values, slopes = evaluate(trials)
            best = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
            gained = values[best] - value
            if not gained > 0:
                break
            current, value, slope = trials[best], values[best], slopes[best]
            if gained < ENOUGH:
                break
        numbers[free] = current
        return with_fields(self, model=_filled(self.model, numbers), fresh=0)


@entry_point
def advance(
    model: MarkovGP, state: State | None, before: float, t: np.ndarray, y: np.ndarray, error: np.ndarray
) -> tuple[State, Array, Moments]:
    """Go on with the filter from a state at a time ``before`` the rows, as ``Recent.advanced``."""
    count = len(t)
    X, outputs, errors, steps = _rows(before, t, y, error)
    after, gain, mean, variance = _advance(model, state, X, outputs, errors, steps)
    return after, gain[0], Moments(mean[:count, 0], variance[:count, 0])


def span_of(model: MarkovGP) -> float:
    """How long the recent past of a model is: some lengthscales of its fastest frequency, or else function."""
    phases = [group for term in model.terms for group in grid_groups(term.phase)]
    groups = phases or grid_groups(model)
    if not groups:
        raise ValueError("refine is for models with functions on grids (GridFunctionGroup), and this has none")
    return SPAN * min(float(np.exp(group.lengthscale.raw)) for group in groups)


def around(model: MarkovGP, time: float) -> MarkovGP:
    """The model with its functions from a ``time`` on, for as long as the recent past and half as much again."""
    span = SERVED * span_of(model)
    groups = [_around(group, time, span) for group in grid_groups(model)]
    moved: MarkovGP = with_groups(model, groups)
    terms = [
        with_fields(term, phase=AnchoredPhase(_bare(term.phase), np.asarray(time), _phase(old, time)))
        if grid_groups(term.phase)
        else term
        for term, old in zip(moved.terms, model.realise().terms, strict=True)
    ]
    kernel = with_fields(moved.kernel, terms=tuple(terms)) if len(terms) > 1 else terms[0]
    return with_fields(moved, kernel=kernel)


def _around(group: GridFunctionGroup, time: float, span: float) -> GridFunctionGroup:
    """As many knots as serve inputs from a time on, those that are not there zero: so functions go to their typical."""
    spacing, reach = float(group.spacing), group.reach
    first = int(np.floor((time - float(group.origin)) / spacing)) - reach - 2
    count = int(np.ceil(span / spacing)) + 2 * reach + 6
    raw = np.asarray(group.whitened.raw)
    kept = np.zeros((count, raw.shape[1]))
    low, high = max(first, 0), min(first + count, len(raw))
    if low < high:
        kept[low - first : high - first] = raw[low:high]
    return with_fields(
        group,
        whitened=with_fields(group.whitened, raw=kept),
        origin=np.asarray(float(group.origin) + spacing * first),
        whole=False,
    )


def _free(model: MarkovGP) -> np.ndarray:
    """Numbers of the knots after the anchor, which lies after the first ``reach + 2``."""
    free, before = [], 0
    for group in grid_groups(model):
        rows, functions = group.whitened.raw.shape
        free.append(before + np.arange(functions * (group.reach + 3), functions * rows))
        before += functions * rows
    return np.concatenate(free)


def _phase(term: Any, time: float) -> np.ndarray:
    """The phase ``[a]`` of a realised term at a time, of the fundamental where it has harmonics."""
    return np.asarray(term.phase(np.array([[time]]))).reshape(-1)


def _bare(phase: Any) -> Any:
    return phase.phase if isinstance(phase, AnchoredPhase) else phase


def _numbers(model: MarkovGP) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(group.whitened.raw, float)) for group in grid_groups(model)])


def _filled(model: MarkovGP, numbers: Any) -> MarkovGP:
    groups, before = [], 0
    for group in grid_groups(model):
        shape = group.whitened.raw.shape
        after = before + shape[0] * shape[1]
        raw = numbers[before:after].reshape(shape)
        groups.append(with_fields(group, whitened=with_fields(group.whitened, raw=raw)))
        before = after
    return with_groups(model, groups)


def _rows(before: float, t: np.ndarray, y: np.ndarray, error: np.ndarray, least: int = SHORTEST) -> tuple[Any, ...]:
    """Times with the one before them, outputs, error bars, filled up; and how many there are."""
    count = len(t)
    rows = np.minimum(np.arange(max(least, 1 << (count - 1).bit_length())), count - 1)
    # The row before says how long ago it was; the first of all has none.
    start = t[0] if np.isinf(before) else before
    return np.append(start, t[rows])[:, None], y[rows], error[rows], np.asarray(count)


@eqx.filter_jit
def _advance(
    model: MarkovGP, state: State | None, X: Any, y: Any, error: Any, steps: Any
) -> tuple[State, Array, Array, Array]:
    model = model.realise()
    P = model.stationary()
    decay, weight, variance, mean = _system(model, X, error)
    decay, weight, variance, mean = (part[..., None] for part in (decay, weight, variance, mean))
    start = initial_state(decay, P) if state is None else state
    after, gain, predicted, spread = filter_from(start, decay, weight, y[:, None] - mean, variance, P, steps)
    return after, gain, predicted + mean, spread


def _system(model: MarkovGP, X: Any, error: Any) -> tuple[Array, ...]:
    """What the filter needs of all rows but the first, which only says how long ago it was."""
    padded = jnp.append(jnp.zeros(1), error)
    system = model.system(X, padded, jnp.ones(X.shape[0], bool))
    return tuple(part[1:] for part in (system.decay, system.weight, system.variance, system.mean))


@entry_point
@eqx.filter_jit
def _evaluate(model: MarkovGP, state: State | None, rows: tuple[Any, ...], copies: Any) -> tuple[Array, Array]:
    """Log likelihoods ``[m]`` of the rows and their gradients ``[m, k]`` at copies of all knots."""
    X, y, error, steps = rows
    P, count = model.realise().stationary(), copies.shape[0]
    wide = None if state is None else jax.tree.map(lambda leaf: jnp.repeat(leaf, count, axis=-1), state)

    def total(copies: Array) -> tuple[Array, Array]:
        decay, weight, variance, mean = jax.vmap(
            lambda numbers: _system(_filled(model, numbers).realise(), X, error), out_axes=-1
        )(copies)
        outputs = jnp.asarray(y)[:, None] - mean
        values = log_likelihood(decay, weight, outputs, variance, jnp.ones_like(outputs), P, steps, wide)
        return jnp.sum(values), values

    (_, values), slopes = jax.value_and_grad(total, has_aux=True)(copies)
    return values, slopes
