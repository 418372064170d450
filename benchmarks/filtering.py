"""``taskset -c 0 python -m benchmarks.filtering``: what the filter of oscillators costs on one core.

Processor time, as the machine may be busy. "gradient" is value and gradient together; memory is what the compiled
program takes besides its arguments, results included. ``--peers`` compares stationary models with tinygp's and
celerite2's instead: likelihoods of the same rows, and gradients in all hyperparameters, where these are to be had.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import spectrogp as sg
from spectrogp.models.filtering import log_likelihood, warm_up
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

ROWS, NOISE = 100_000, 0.3  # of the stationary models
BLOCKS = None, 1000  # rows of their own that blocks have; None for a single one
WAVES = ((1.0, 20.0, 0.5), (0.7, 5.0, 0.21), (0.5, 10.0, 0.77))  # amplitude, lengthscale and frequency of components

Likelihoods = dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]]  # values, and these with gradients


def main() -> None:
    parser = argparse.ArgumentParser(description="What the filter of oscillators costs.")
    parser.add_argument("--peers", action="store_true", help="stationary models, beside tinygp and celerite2")
    if parser.parse_args().peers:
        beside_peers()
        return
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


def beside_peers() -> None:
    """Stationary models, whose values must be the same."""
    rng = np.random.default_rng(0)
    t, y = np.sort(rng.uniform(0.0, ROWS / 10.0, ROWS)), rng.normal(size=ROWS)
    print("| components | ν | package | value, µs a sample | with gradient | log likelihood |\n" + "|---" * 6 + "|")
    for order in (0.5, 1.5):
        for count in (1, len(WAVES)):
            likelihoods = ours(t, y, order, count) | tinygp_s(t, y, order, count)
            if order == 0.5:
                likelihoods |= celerite_s(t, y, count)
            first = None
            for name, (value, gradient) in likelihoods.items():
                found = float(value())  # compiles
                first = found if first is None else first
                if abs(found - first) > 1e-8 * abs(first):
                    raise ValueError(f"{name} has {found!r} where ours is {first!r}")
                each = [f"{seconds(value) / ROWS * 1e6:.3f}", "-"]
                if gradient is not None:
                    gradient()
                    each[1] = f"{seconds(gradient) / ROWS * 1e6:.3f}"
                print("|", " | ".join([str(count), f"{order:g}", name, *each, f"{found:.6f}"]), "|")


def ours(t: np.ndarray, y: np.ndarray, order: float, count: int) -> Likelihoods:
    """All rows in one block; and in blocks that warm up so long that together they are wrong by 1e-6 nats."""

    def density(waves: jax.Array, timeline: Any) -> jax.Array:
        size, length, frequency = waves.T
        phase = sg.kernels.PlanePhase(2.0 * jnp.pi * frequency[:, None], jnp.zeros_like)
        kernel = sg.kernels.MaternPhase(sg.kernels.WarpedTime(length), phase, size, order)
        return sg.models.MarkovGP(kernel, NOISE).log_likelihood(timeline, None)

    waves, data = np.array(WAVES[:count]), sg.Data(t, y)
    size, length, frequency = waves.T
    step = np.sqrt(2.0 * order) * float(np.mean(np.diff(t))) / length
    turn = 2.0 * np.pi * frequency * float(np.mean(np.diff(t)))
    rows = warm_up(step, (size / NOISE) ** 2, [order] * count, turn, 1e-6 * BLOCKS[1] / ROWS)[0]
    each: Likelihoods = {}
    for own in BLOCKS:
        timeline = sg.models.Timeline.of(data, own=own, warm_up=0 if own is None else rows)
        name = "spectrogp, one block" if own is None else f"spectrogp, blocks of {own} rows after {rows}"
        each[name] = _timed(density, waves, jax.tree.map(jnp.asarray, timeline))
    return each


def tinygp_s(t: np.ndarray, y: np.ndarray, order: float, count: int) -> Likelihoods:
    import tinygp
    from tinygp.kernels import quasisep

    def density(waves: jax.Array, t: jax.Array, y: jax.Array) -> jax.Array:
        def term(size: Any, length: Any, frequency: Any) -> Any:
            if order == 0.5:
                return quasisep.Celerite(size**2, 0.0, 1.0 / length, 2.0 * jnp.pi * frequency)
            return quasisep.Matern32(length, size) * quasisep.Cosine(1.0 / frequency)

        kernel = sum((term(*wave) for wave in waves[1:]), term(*waves[0]))
        return tinygp.GaussianProcess(kernel, t, diag=jnp.full(t.shape, NOISE**2)).log_probability(y)

    return {"tinygp": _timed(density, np.array(WAVES[:count]), jnp.asarray(t), jnp.asarray(y))}


def celerite_s(t: np.ndarray, y: np.ndarray, count: int) -> Likelihoods:
    """Of order one half alone, and in NumPy without gradients."""
    import celerite2

    def value() -> float:
        terms = [
            celerite2.terms.ComplexTerm(a=size**2, b=0.0, c=1.0 / length, d=2.0 * np.pi * frequency)
            for size, length, frequency in WAVES[:count]
        ]
        process = celerite2.GaussianProcess(sum(terms[1:], terms[0]))
        process.compute(t, diag=np.full(len(t), NOISE**2))
        return float(process.log_likelihood(y))

    return {"celerite2": (value, None)}


def _timed(density: Callable[..., jax.Array], *arguments: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    value, gradient = jax.jit(density), jax.jit(jax.value_and_grad(density))
    return lambda: value(*arguments).block_until_ready(), lambda: jax.block_until_ready(gradient(*arguments))


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
