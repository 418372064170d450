"""The nearest-neighbour model: ``python -m benchmarks.neighbours`` and ``python -m benchmarks.neighbours million``.

The first prints the time of one step (value and gradient of the log joint density on a minibatch) by batch, against the
same work in NumPy: kernel matrices of all neighbourhoods at once, batched Cholesky factors and solves, and the gradient
by hand down to the weights of the functions. The second fits a million synthetic points and says what every part took.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import spectrogp as sg
from spectrogp.inference import Adam, maximise
from spectrogp.models import Data, NeighbourGP, Neighbourhoods, Refresh
from spectrogp.models.neighbours.search import random_order
from spectrogp.parameters import FunctionGroup, Positive, Realised, partition

from .measure import Clock, first_and_best, peak_memory

COMPONENTS = 3


def run(
    *,
    cases: tuple[tuple[str, int], ...] = (("CSK", 20), ("CSK", 30), ("SE", 20)),
    batches: tuple[int, ...] = (1024, 4096),
    size: int = 20_000,
    dimensions: int = 3,
    inducing: int = 60,
) -> list[dict[str, Any]]:
    """One row per case, that is a kernel and a number of neighbours, and batch."""
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (size, dimensions))
    data = Data(X, np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=size))
    rows = []
    for name, m in cases:
        model = NeighbourGP(_kernel(name, X[:inducing], rng), Positive(0.1))
        near = Neighbourhoods.of(data, X, random_order(size, 0), m)
        for batch in batches:
            some = Neighbourhoods(jax.tree.map(jnp.asarray, data), jnp.asarray(near.members[-batch:]))
            rows.append({"kernel": name, "m": m, "batch": batch} | _row(model, some))
    return rows


def _row(model: NeighbourGP, data: Neighbourhoods) -> dict[str, float]:
    batch = data.members.shape[0]
    free, rest = partition(model, "latent", "hyperparameter")
    free = jax.tree.map(jnp.asarray, free)

    @eqx.filter_jit
    def step(free: Any, data: Neighbourhoods) -> Any:
        return jax.value_and_grad(lambda free: eqx.combine(free, rest).log_joint(data))(free)

    first, ours = first_and_best(lambda: jax.block_until_ready(step(free, data)))
    realised = jax.tree.map(np.asarray, model.realise())
    arrays = Neighbourhoods(jax.tree.map(np.asarray, data.data), np.asarray(data.members))
    work = _numpy_csk if isinstance(model.kernel, sg.kernels.ConvolutionalSpectral) else _numpy_se
    value = model.realise().log_likelihood(data, None) / data.scale
    np.testing.assert_allclose(work(realised, arrays)[0], value, rtol=1e-8)
    _, numpy = first_and_best(lambda: work(realised, arrays), repeats=3)
    return {
        "step ms": 1e3 * ours,
        "µs/point": 1e6 * ours / batch,
        "compile s": first - ours,
        "NumPy µs/point": 1e6 * numpy / batch,
        "ratio": ours / numpy,
    }


def _kernel(name: str, Z: np.ndarray, rng: np.random.Generator, lengthscale: float = 0.5) -> Any:
    D, P = Z.shape[1], COMPONENTS
    if name == "SE":
        return sg.kernels.SquaredExponential(Positive(np.full(D, lengthscale)), Positive(1.0))
    return sg.kernels.ConvolutionalSpectral(
        FunctionGroup(Z, np.full((P, D), lengthscale), shape=(P, D)),
        FunctionGroup(Z, rng.normal(size=(P, D)), shape=(P, D), warp="identity"),
        FunctionGroup(Z, 0.6, shape=(P,)),
    )


# The same work in NumPy. All pairs of a neighbourhood at once, in blocks of targets that stay in cache.


def _numpy_se(model: Any, data: Neighbourhoods) -> tuple[float, Any]:
    """Value, and gradient in lengthscales, amplitude and noise."""
    value, slope = 0.0, np.zeros(data.data.X.shape[1] + 2)
    for members in _blocks(data):
        x, y, present = _gathered(data, members)
        lengthscale = np.broadcast_to(model.kernel.lengthscale, x.shape[-1:])
        tau = (x[:, :, None] - x[:, None]) / lengthscale
        K = model.kernel.amplitude**2 * np.exp(-0.5 * np.sum(tau**2, axis=-1))
        part, G, noise = _numpy_conditionals(y, K, model.likelihood.noise, present)
        GK = G * K
        rest = [2.0 * np.sum(GK) / model.kernel.amplitude, noise]
        value, slope = value + part, slope + np.array([*(np.einsum("nij,nijd->d", GK, tau**2) / lengthscale), *rest])
    return value, slope


def _numpy_csk(model: Any, data: Neighbourhoods) -> tuple[float, Any]:
    """Value, and gradients in weights, means and lengthscales of the functions and in the noise."""
    kernel = model.kernel
    groups = (kernel.lengthscale, kernel.frequency, kernel.amplitude)
    value, slopes = 0.0, [0.0] * 10
    for members in _blocks(data):
        x, y, present = _gathered(data, members)
        n, s, D = x.shape
        flat = [_numpy_function(group, x.reshape(-1, D)) for group in groups]
        ell, w, h = (theta.reshape(n, s, *theta.shape[1:]) for theta, _, _ in flat)
        a = ell**2
        tau = (x[:, :, None] - x[:, None])[:, :, :, None]  # [n, i, j, 1, d]
        A, B, V, W = a[:, :, None], a[:, None], w[:, :, None], w[:, None]
        r, delta, c = 1.0 / (A + B), V - W, A * V + B * W
        E = np.sum((tau**2 + delta**2 * A * B) * r, axis=-1)
        U = np.sum(tau * c * r, axis=-1)
        rho = np.sqrt(np.prod(2.0 * ell[:, :, None] * ell[:, None] * r, axis=-1))
        modulus = h[:, :, None] * h[:, None] * rho * np.exp(-0.5 * E)
        C = modulus * np.cos(U)
        part, G, noise = _numpy_conditionals(y, C.sum(axis=-1), model.likelihood.noise, present)
        # G is symmetric, so the two sides of a pair give the same: the row sums, twice.
        GC, GS = G[..., None] * C, G[..., None] * modulus * np.sin(U)
        gc, gs, bd = GC[..., None], GS[..., None], B * delta
        da = 0.5 * r * (r * ((tau**2 - bd**2) * gc - 2.0 * tau * bd * gs) - gc)
        dell = 2.0 * (2.0 * ell * da.sum(axis=2) + 0.5 * GC.sum(axis=2)[..., None] / ell)
        dw = -2.0 * a * np.sum(r * (bd * gc + tau * gs), axis=2)
        dh = 2.0 * GC.sum(axis=2) / h
        value, new = value + part, [noise]
        for group, (theta, k, square), d in zip(groups, flat, (dell, dw, dh), strict=True):
            d = d.reshape(n * s, -1) * (theta.reshape(n * s, -1) if group.warp == "exp" else 1.0)
            dk = (d @ group.weights.T) * k
            new += [k.T @ d, d.sum(axis=0), np.sum(dk * square) / group.lengthscale]
        slopes = [old + one for old, one in zip(slopes, new, strict=True)]
    return value, slopes


def _blocks(data: Neighbourhoods, block: int = 32) -> list[np.ndarray]:
    return [data.members[start : start + block] for start in range(0, len(data.members), block)]


def _gathered(data: Neighbourhoods, members: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    present = members >= 0
    return data.data.X[members], np.where(present, data.data.y[members], 0.0), present


def _numpy_function(group: Realised, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    square = sum((X[:, d, None] - group.inducing[:, d]) ** 2 for d in range(X.shape[1])) / group.lengthscale**2
    k = np.exp(-0.5 * square)
    h = group.mean + (k @ group.weights).reshape(len(X), *group.shape)
    return np.exp(h) if group.warp == "exp" else h, k, square


def _numpy_conditionals(
    y: np.ndarray, K: np.ndarray, noise: float, present: np.ndarray
) -> tuple[float, np.ndarray, float]:
    """Σ log p(y_last | y_others), its gradient in each K, and in the noise."""
    eye = np.eye(K.shape[-1])
    both = present[:, :, None] & present[:, None]
    L = np.linalg.cholesky(np.where(both, K + noise**2 * eye, eye))
    sides = np.stack([L[:, -1, :-1], np.zeros_like(y[:, :-1])], axis=-1)
    sides[..., 1] = np.linalg.solve(L[:, :-1, :-1], y[:, :-1, None])[..., 0]
    back = np.linalg.solve(L[:, :-1, :-1].swapaxes(1, 2), sides)
    v, e = L[:, -1, -1] ** 2, y[:, -1] - np.einsum("ni,ni->n", sides[..., 0], sides[..., 1])
    w = np.concatenate([-back[..., 0], np.ones((len(y), 1))], axis=1)
    alpha = np.concatenate([back[..., 1], np.zeros((len(y), 1))], axis=1)
    G = (0.5 * (e**2 / v - 1.0) / v)[:, None, None] * w[:, :, None] * w[:, None]
    cross = (0.5 * e / v)[:, None, None] * alpha[:, :, None] * w[:, None]
    G = np.where(both, G + cross + cross.swapaxes(1, 2), 0.0)
    value = -0.5 * np.sum(np.log(2.0 * np.pi * v) + e**2 / v)
    return value, G, 2.0 * noise * float(np.einsum("nii->", G))


def million(size: int, dimensions: int, steps: int, batch: int, m: int) -> list[dict[str, Any]]:
    """Seconds of every part of a fit to a known function with noise 0.3, and how well it is found."""
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (size, dimensions))

    def truth(X: np.ndarray) -> np.ndarray:
        # The frequency grows along the first input.
        return np.sin((20.0 + 15.0 * X[:, 0]) * X[:, 0]) * np.prod(np.cos(3.0 * X[:, 1:]), axis=1)

    noise, tests = 0.3, rng.uniform(-1.0, 1.0, (10_000, dimensions))
    data = Data(X, truth(X) + noise * rng.normal(size=size))
    Z = rng.uniform(-1.0, 1.0, (30, dimensions))
    model = NeighbourGP(_kernel("CSK", Z, rng, lengthscale=0.3), Positive(0.5))
    clock = Clock()
    marks = [("start", 0.0, 0.0)]

    def mark(name: str) -> None:
        marks.append((name, clock.wall, clock.cpu))

    refresh = Refresh(data, m, every=steps, metric="lengthscale")
    mark("order")
    near = refresh(model)
    mark("neighbour search")
    fit = maximise(model, near, steps=steps, key=0, optimiser=Adam(0.05, batch))
    mark(f"{steps} Adam steps of {batch}")
    realised = fit.model.realise()
    mean, variance = realised.predict(near, jnp.asarray(tests))
    mark("prediction at 10,000")
    rows = [
        {"part": name, "value": f"{wall - before:.1f} s ({cpu - used:.1f} s of CPU)"}
        for (_, before, used), (name, wall, cpu) in itertools.pairwise(marks)
    ]
    total = np.asarray(variance) + np.asarray(realised.likelihood.noise) ** 2
    residual = truth(tests) + noise * rng.normal(size=len(tests)) - np.asarray(mean)
    density = np.mean(-0.5 * (np.log(2.0 * np.pi * total) + residual**2 / total))
    best = -0.5 * (np.log(2.0 * np.pi * noise**2) + 1.0)
    return [
        *rows,
        {"part": "in all", "value": f"{marks[-1][1]:.1f} s"},
        {"part": "peak memory", "value": f"{peak_memory() / 1024.0:.2f} GiB"},
        {"part": "test log density", "value": f"{density:.4f} (the truth has {best:.4f} on average)"},
        {"part": "MSE to the truth", "value": f"{np.mean((np.asarray(mean) - truth(tests)) ** 2):.2e}"},
        {"part": "noise", "value": f"{float(realised.likelihood.noise):.4f} (true {noise})"},
    ]


def _show(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("part", "value") else "right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the nearest-neighbour model.")
    parser.add_argument("what", nargs="?", choices=("steps", "million"), default="steps")
    parser.add_argument("--size", type=int, help="number of data")
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 1024, 4096], help="batches to time")
    parser.add_argument("--neighbours", type=int, nargs="+", default=[20, 30])
    parser.add_argument("--steps", type=int, default=200, help="steps of the fit to a million points")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 3], help="inputs of the million points")
    options = parser.parse_args()
    if options.what == "steps":
        cases = tuple((kernel, m) for kernel in ("CSK", "SE") for m in options.neighbours)
        _show("One step", run(cases=cases, batches=tuple(options.batches), size=options.size or 20_000))
        return
    for dimensions in options.dimensions:
        size = options.size or 1_000_000
        _show(f"{size:,} points, {dimensions}-D", million(size, dimensions, options.steps, 1024, options.neighbours[0]))


if __name__ == "__main__":
    main()
