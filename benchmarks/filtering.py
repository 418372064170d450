"""``taskset -c 0 python -m benchmarks.filtering``: what the filter of oscillators costs on one core.

Processor time, as the machine may be busy. "gradient" is value and gradient together; memory is what the compiled
program takes besides its arguments, results included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spectrogp.models.filtering import log_likelihood
from spectrogp.models.oscillators import stationary
from spectrogp.models.smoothing import smooth

from .measure import Clock

# Oscillators, order, rows of a block, blocks.
CASES = [
    *((Q, order, 400, 256) for order in (0.5, 1.5, 2.5) for Q in (2, 6)),
    *((2, 1.5, 400, B) for B in (1, 8, 32, 64)),
    *((6, 1.5, 400, B) for B in (1, 8, 32, 64)),
    *((Q, 1.5, 3920, 256) for Q in (2, 6)),
]


def main() -> None:
    print("| Q | ν | L | B | program | µs a sample | compilation, s | memory, B a sample |\n" + "|---" * 8 + "|")
    for case in CASES:
        for name, program, arguments in programs(*case):
            clock = Clock()
            compiled = program.lower(*arguments).compile()
            compilation = clock.cpu
            jax.block_until_ready(compiled(*arguments))
            samples = case[2] * case[3]
            memory = compiled.memory_analysis()
            used = (memory.temp_size_in_bytes + memory.output_size_in_bytes) / samples
            best = min(seconds(lambda: jax.block_until_ready(compiled(*arguments))) for _ in range(5))  # noqa: B023
            row = (*case, name, f"{best / samples * 1e6:.3f}", f"{compilation:.2f}", f"{used:.0f}")
            print("|", " | ".join(map(str, row)), "|")


def programs(Q: int, order: float, L: int, B: int) -> list[tuple[str, Any, list[jax.Array]]]:
    rng = np.random.default_rng(0)
    P = stationary((order,) * Q)
    x, h = rng.exponential(0.05, (L, Q, B)), rng.normal(size=(L, Q, B))
    arguments = [jnp.asarray(a) for a in (x, h, rng.normal(size=(L, B)), np.full((L, B), 0.1), np.ones((L, B)), L)]

    def value(x: Any, h: Any, y: Any, r: Any, w: Any, steps: Any) -> jax.Array:
        return jnp.sum(log_likelihood(x, h, y, r, w, P, steps))

    def means(x: Any, h: Any, y: Any, r: Any, w: Any, steps: Any) -> jax.Array:
        del w
        return smooth(x, h, y, r, P, steps, covariance=False)[0]

    gradient = jax.value_and_grad(value, (0, 1, 2, 3))
    both = {"value": value, "gradient": gradient, "smoothed means": means}
    return [(name, jax.jit(function), arguments) for name, function in both.items()]


def seconds(call: Callable[[], Any]) -> float:
    """Seconds of the processor that one call takes, of as many as fill a tenth of a second."""
    clock, calls = Clock(), 0
    while clock.cpu < 0.1:
        call()
        calls += 1
    return clock.cpu / calls


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
