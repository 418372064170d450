"""The one loop that inference runs in: compiled chunks of steps, with checks and progress between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Progress = Callable[[int, int, float], None]  # steps done, steps in all, objective
Step = Callable[[Any, Array, Any], tuple[Any, Array]]


def run_in_chunks(
    step: Step,
    state: Any,
    data: Any,
    *,
    steps: int,
    chunk: int,
    renew: Callable[[Any, int], Any] | None = None,
    progress: Progress | None = None,
) -> tuple[Any, np.ndarray, bool]:
    """Run ``state, value = step(state, index, data)`` for a number of steps: the last state, all values, interrupted?

    A value that is not finite stops the run with an error that names the step. Ctrl-C ends it after the last whole
    chunk and keeps what there is. ``renew(state, index)`` may replace the data between chunks.
    """

    @eqx.filter_jit
    def run(state: Any, indices: Array, data: Any) -> tuple[Any, Array]:
        return jax.lax.scan(lambda carry, index: step(carry, index, data), state, indices)

    values: list[np.ndarray] = []
    done = 0
    try:
        while done < steps:
            if renew is not None:
                data = renew(state, done)
            count = min(chunk, steps - done)
            state, part = run(state, jnp.arange(done, done + count), data)
            values.append(np.asarray(part))
            bad = np.flatnonzero(~np.isfinite(values[-1]))
            if len(bad):
                raise FloatingPointError(
                    f"the objective is {values[-1][bad[0]]} at step {done + bad[0]}: a smaller learning rate, more "
                    "noise, or stronger priors on the lengthscales usually help"
                )
            done += count
            if progress is not None:
                progress(done, steps, float(np.mean(values[-1])))
    except KeyboardInterrupt:
        return state, np.concatenate([*values, np.empty(0)]), True
    return state, np.concatenate([*values, np.empty(0)]), False
