"""Maximising a model's log joint density over its raw parameters by L-BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree
from scipy.optimize import minimize

from ..core import Key, as_key, entry_point, sharing_rows
from ..parameters import Role, partition
from ..processes import raise_interrupts, require_equal
from .checkpoints import fingerprint
from .dividing import Divided, parts_of
from .loop import Progress
from .optimise import OPTIMISED, Fit, Model

_TOLERANCE = 1e-9  # relative change of the objective at which a run ends


@entry_point
def maximise_lbfgs(
    model: Model,
    data: Any,
    *,
    steps: int = 500,
    restarts: int = 0,
    spread: float = 0.5,
    key: Key = 0,
    roles: tuple[Role, ...] = OPTIMISED,
    progress: Progress | None = None,
) -> Fit:
    """L-BFGS on the log joint density of all data: for models small enough that a full gradient is cheap.

    The best of all runs is kept. Ctrl-C ends with the best so far.

    Args:
        model: Any model; the first run starts at the values that its parameters have.
        data: All data.
        steps: How many iterations, at most.
        restarts: Further runs, from those values plus noise.
        spread: Standard deviation of that noise, in raw numbers.
        key: An integer seed or a JAX random key, for the restarts.
        roles: Which parameters move.
        progress: Called after every iteration as ``progress(done, steps, objective)``.
    """
    key = as_key(key)
    free, rest = partition(model, *roles)
    free = jax.tree.map(jnp.asarray, free)
    start, unravel = ravel_pytree(free)
    if sharing_rows():
        require_equal(fingerprint((free, rest, data)), "model and data")

    parts = parts_of(model, data, None, None)
    found = _at_once if parts == 1 else Divided(_slope, parts)
    data = data if parts == 1 else jax.tree.map(jnp.asarray, data)

    def slope(raw: Array) -> tuple[Array, Array]:
        return found(raw, free, rest, data)

    ends: list[_End] = []
    while len(ends) <= restarts and not any(end.interrupted for end in ends):
        noise = jnp.zeros_like(start)
        if ends:
            noise = spread * jax.random.normal(jax.random.fold_in(key, len(ends)), start.shape)
        ends.append(_lbfgs(slope, np.asarray(start + noise), steps, progress))
    best = min(ends, key=lambda end: end.value)
    if not math.isfinite(best.value):
        raise FloatingPointError("the log joint density is not finite at the start; look at the starting parameters")
    fitted = eqx.combine(unravel(jnp.asarray(best.raw, start.dtype)), rest)
    return Fit(fitted, np.array(best.history), ends[-1].interrupted)


def _slope(raw: Array, free: PyTree, rest: PyTree, data: Any) -> tuple[Array, Array]:
    """The negative log joint density of each row at raw numbers ``[p]`` in the place of ``free``, and its gradient."""
    unravel = ravel_pytree(free)[1]
    return jax.value_and_grad(lambda raw: -eqx.combine(unravel(raw), rest).log_joint(data) / data.size)(raw)


# At the top, with all arrays as arguments: what is jitted inside a call is compiled anew by every call, and kept.
_at_once = eqx.filter_jit(_slope)


class _End(NamedTuple):
    """The smallest value that a run met, where, the objective at every step, and whether it was stopped."""

    value: float
    raw: np.ndarray
    history: list[float]
    interrupted: bool


def _lbfgs(
    slope: Callable[[Array], tuple[Array, Array]],
    start: np.ndarray,
    steps: int,
    progress: Progress | None,
) -> _End:
    history: list[float] = []
    value, best = math.inf, start

    def evaluate(raw: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal value, best
        raise_interrupts()
        here, gradient = (np.asarray(part, np.float64) for part in slope(jnp.asarray(raw)))
        if not (np.isfinite(here) and np.all(np.isfinite(gradient))):
            return 1e10, np.zeros(len(raw))  # the line search steps back from where a factorisation failed
        if here < value:
            value, best = float(here), raw.copy()
        return float(here), gradient

    def record(intermediate_result: Any) -> None:
        history.append(-float(intermediate_result.fun))
        if progress is not None:
            progress(len(history), steps, history[-1])

    options = {"maxiter": steps, "maxcor": 20, "ftol": _TOLERANCE, "gtol": 1e-7}
    interrupted = False
    try:
        minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=record, options=options)
    except KeyboardInterrupt:
        interrupted = True
    return _End(value, best, history, interrupted)
