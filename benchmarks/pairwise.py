"""The fast ``cross`` against the generic one, made from ``pair``, and scikit-learn: values, gradients, compile times.

``python -m benchmarks.pairwise``; for one thread, ``taskset -c 0`` before it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.gaussian_process.kernels import RBF

import spectrogp as sg
from spectrogp.kernels import Local, base

from .measure import Clock, first_and_best

k = sg.kernels


def run(
    inducing: int = 100, batch: int = 10_000, dimensions: int = 5, components: int = 4, square: int = 1500
) -> list[dict[str, Any]]:
    """One row per matrix: our time, that of the same work on the generic path or by a peer, and our compile time.

    A CSK between inducing points and a batch of data, in value and with all gradients; then square matrices of every
    kernel in three dimensions with two components (the squared exponential with one, as its peer).
    """
    with jax.enable_x64(True):
        kernel = k.ConvolutionalSpectral(1.0, 1.0)
        p, q = (_local(kernel, n, dimensions, components) for n in (inducing, batch))
        rows = [_against_generic(kernel, p, q, gradient) for gradient in (False, True)]

        se = k.SquaredExponential(1.0)
        p = _local(se, square, 3, 1)
        rows.append(_row(se, p, p, "value", *_compiled(se.cross, p, p), "scikit-learn RBF", lambda: RBF()(p.x)))
        for kernel in (
            se,
            k.SpectralMixture(1.0, 1.0),
            k.NonstationaryQuadratic(1.0),
            k.GeneralizedSpectralMixture(1.0, 1.0),
            k.ConvolutionalSpectral(1.0, 1.0),
            k.Phase(1.0, lambda X: X[:, 0]),
            k.Chirplet(1.0, 1.0),
        ):
            p = _local(kernel, square, 3, 1 if kernel is se else 2)
            rows.append(_against_generic(kernel, p, p, gradient=False))
            # The generic gradient of a large square matrix fills gigabytes: ours alone.
            rows.append(_row(kernel, p, p, "value, gradient", *_compiled(_with_gradient(kernel.cross), p, p)))
    return rows


def _local(kernel: Any, n: int, d: int, a: int) -> Any:
    """Random local parameters of a kernel for n inputs."""
    rng = np.random.default_rng(n)
    X = jnp.asarray(rng.normal(size=(n, d)))
    values = {
        "x": X,
        "lengthscale": jnp.asarray(np.exp(0.3 * rng.normal(size=(n, a, d)))),
        "frequency": jnp.asarray(2.0 * rng.normal(size=(n, a, d))),
        "chirp": jnp.asarray(rng.normal(size=(n, a, d))),
        "phase": jnp.asarray(5.0 * rng.normal(size=(n, a))),
        "amplitude": jnp.asarray(rng.uniform(0.5, 1.5, (n, a))),
    }
    if isinstance(kernel, k.SquaredExponential):  # as its peer
        values["lengthscale"], values["amplitude"] = jnp.ones((n, a, d)), jnp.ones((n, a))
    return Local(**{name: values[name] for name in vars(kernel.local(X[:1]))})


def _with_gradient(cross: Callable[..., Any]) -> Callable[..., Any]:
    """The matrix and the gradient of Σ G K in every local parameter, with G = K."""

    def both(p: Any, q: Any) -> Any:
        K, pull = jax.vjp(cross, p, q)
        return K, pull(K)

    return both


def _against_generic(kernel: Any, p: Any, q: Any, gradient: bool) -> dict[str, Any]:
    def generic(p: Any, q: Any) -> Any:
        return base._cross(kernel.without_callables(), p, q)

    wrapped = _with_gradient if gradient else lambda cross: cross
    theirs, _ = _compiled(wrapped(generic), p, q)
    ours, seconds = _compiled(wrapped(kernel.cross), p, q)
    jax.tree.map(_check, ours(), theirs())
    return _row(kernel, p, q, "value, gradient" if gradient else "value", ours, seconds, "generic path", theirs)


def _row(
    kernel: Any,
    p: Any,
    q: Any,
    what: str,
    ours: Callable[[], Any],
    seconds: float,
    peer: str = "–",
    theirs: Callable[[], Any] | None = None,
) -> dict[str, Any]:
    mine = first_and_best(ours, 20, 4.0)[1]
    other = first_and_best(theirs, 20, 4.0)[1] if theirs else None
    return {
        "kernel": type(kernel).__name__,
        "matrix": f"{len(p.x)} × {len(q.x)}, d = {p.x.shape[1]}, a = {p.amplitude.shape[1]}",
        "pass": what,
        "compile s": seconds,
        "ms": 1e3 * mine,
        "peer": peer,
        "peer ms": 1e3 * other if other else "–",
        "ratio": mine / other if other else "–",
    }


def _compiled(function: Callable[..., Any], *arguments: Any) -> tuple[Callable[[], Any], float]:
    clock = Clock()
    compiled = jax.jit(lambda *args: function(*args)).lower(*arguments).compile()
    seconds = clock.wall
    return lambda: jax.block_until_ready(compiled(*arguments)), seconds


def _check(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9 * max(float(np.max(np.abs(expected))), 1e-300))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the fast covariance matrices and their gradients.")
    parser.add_argument("--quick", action="store_true", help="small matrices, for a first look")
    sizes = {"batch": 1000, "square": 300} if parser.parse_args().quick else {}
    rows = run(**sizes)
    table = Table(title="Pairwise kernels: one evaluation, and its ratio to the peer in the same run")
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("kernel", "matrix", "pass", "peer") else "right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
