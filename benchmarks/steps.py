"""One optimisation step, value and gradient, of models and of their peers in other libraries; and how it grows.

Every contender runs in a process of its own, so that its peak memory is its own, with the same number of threads. Sizes
are those of the paper's taxi experiment: batch 10,000, 100 inducing points, 5 dimensions, 4 components. With neighbours
there are fewer rows, and 20 neighbours: peers that take all rows in every step need minutes for 10,000.
"""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

from . import peers
from .measure import peak_memory, seconds_of
from .peers import Sizes, Step, regression

SIZES = {"batch": 10_000, "inducing": 100, "dimensions": 5, "components": 4, "neighbours": 20}
ROWS = 2000  # of a step with neighbours
EXACT = {"batch": 400, "inducing": 30, "dimensions": 1, "components": 1}
# Multiples of the sizes above, for the growth of a step.
SPARSE_GROWTH = {"batch": (0.25, 1, 4), "inducing": (0.5, 1, 2), "dimensions": (1, 2), "components": (0.5, 1, 2)}
NEIGHBOUR_GROWTH = {"neighbours": (0.5, 1, 2), "batch": (1, 4)}


def sparse(threads: int, sizes: Sizes) -> list[dict[str, Any]]:
    """SVGP; the ratio is to GPyTorch's stationary spectral mixture."""
    names = ("spectrogp SVGP CSK", "spectrogp SVGP SM", "GPyTorch SVGP SM")
    if threads == 1:
        names = (*names, "spectrogp SVGP SE", "GPyTorch SVGP RBF", "GPJax SVGP RBF")
    return with_ratios([isolated(name, sizes, threads) for name in names], "GPyTorch SVGP SM")


def neighbours(threads: int, sizes: Sizes) -> list[dict[str, Any]]:
    """Nearest neighbours, all rows; the ratio is to GPBoost's Vecchia approximation."""
    names = ("spectrogp neighbours CSK", "spectrogp neighbours SE", "GPBoost Vecchia RBF", "GPyTorch VNNGP RBF")
    sizes = sizes | {"batch": min(ROWS, sizes["batch"])}
    rows = with_ratios([isolated(name, sizes, threads) for name in names], "GPBoost Vecchia RBF")
    shown = {"rows": sizes["batch"], "neighbours": sizes["neighbours"]}
    return [{"contender": row["contender"]} | shown | row for row in rows]


def growth(sizes: Sizes, sparse: dict[str, Any], near: dict[str, Any]) -> list[dict[str, Any]]:
    """The CSK steps as one size at a time grows, on one thread; time ~ size^exponent since the row before."""
    few = sizes | {"batch": min(ROWS, sizes["batch"])}
    return [*_growth("spectrogp SVGP CSK", sizes, sparse), *_growth("spectrogp neighbours CSK", few, near)]


def _growth(contender: str, sizes: Sizes, factors: dict[str, tuple[float, ...]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, multiples in factors.items():
        last = None
        for multiple in multiples:
            size = round(multiple * sizes[name])
            row = isolated(contender, sizes | {name: size}, 1)
            times = {column: row[column] for column in ("step ms", "compile s", "peak MB")}
            exponent = math.log(row["step ms"] / last[1], size / last[0]) if last else "–"
            rows.append({"contender": contender, "size": name, "value": size} | times | {"exponent": exponent})
            last = size, row["step ms"]
    return rows


def isolated(name: str, sizes: Sizes, threads: int) -> dict[str, Any]:
    """The row of one contender, measured once in a process of its own on as many cores as threads."""
    return {"contender": name, "threads": threads} | _isolated(name, json.dumps(sizes), threads)


def environment(threads: int) -> dict[str, str]:
    return {
        "OMP_NUM_THREADS": str(threads),
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}",
    }


@functools.cache
def _isolated(name: str, sizes: str, threads: int) -> dict[str, Any]:
    print(f"{time.strftime('%H:%M:%S')} {name}, threads {threads}, {sizes}", file=sys.stderr, flush=True)
    pinned = ["taskset", "-c", ",".join(map(str, range(threads)))]
    command = [*pinned, sys.executable, "-m", "benchmarks.steps", name, sizes]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, env=os.environ | environment(threads)
    )
    empty = {"step ms": "–", "compile s": "–", "peak MB": "–", "note": ""}
    if done.returncode and name.startswith("spectrogp"):
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")
    if done.returncode:
        measured = {"note": f"failed: {done.stderr.strip().splitlines()[-1][:80]}"}
    else:
        measured = json.loads(done.stdout.splitlines()[-1])
    return empty | measured


def with_ratios(rows: list[dict[str, Any]], peer: str) -> list[dict[str, Any]]:
    base = next(row["step ms"] for row in rows if row["contender"] == peer)

    def ratio(row: dict[str, Any]) -> Any:
        return row["step ms"] / base if isinstance(base, float) and isinstance(row["step ms"], float) else "–"

    return [{k: v for k, v in row.items() if k != "note"} | {"ratio": ratio(row), "note": row["note"]} for row in rows]


def _kernel(name: str, sizes: Sizes, Z: np.ndarray) -> Any:
    import spectrogp as sg
    from spectrogp.parameters import FunctionGroup, Positive, Real

    P, D = sizes["components"], sizes["dimensions"]
    omega = np.random.default_rng(1).normal(size=(P, D))
    if name == "SE":
        return sg.kernels.SquaredExponential(Positive(np.ones(D)), Positive(1.0))
    if name == "SM":
        return sg.kernels.SpectralMixture(Positive(np.ones((P, D))), Real(omega), Positive(np.ones(P)))
    return sg.kernels.ConvolutionalSpectral(
        FunctionGroup(Z, np.ones((P, D)), shape=(P, D)),
        FunctionGroup(Z, omega, shape=(P, D), warp="identity"),
        FunctionGroup(Z, np.ones(P), shape=(P,)),
    )


def _spectrogp(model_name: str, kernel_name: str, sizes: Sizes) -> Step:
    import equinox as eqx
    import jax

    jax.config.update("jax_enable_x64", True)
    from spectrogp.models import Data, ExactGP, NeighbourGP, Neighbourhoods, VariationalGP
    from spectrogp.parameters import Positive, partition

    X, y, Z = regression(sizes)
    kernel, noise = _kernel(kernel_name, sizes, Z), Positive(0.3)
    data: Any = jax.tree.map(jax.numpy.asarray, Data(X, y))
    if model_name == "SVGP":
        model: Any = VariationalGP(kernel, noise, Z)
    elif model_name == "exact":
        model = ExactGP(kernel, noise)
    else:
        model = NeighbourGP(kernel, noise)
        data = Neighbourhoods.of(data, X, np.random.default_rng(2).permutation(len(X)), sizes["neighbours"])
    free, rest = partition(model, "latent", "hyperparameter", "variational")

    @eqx.filter_jit
    def step(free: Any, data: Any) -> Any:
        return jax.value_and_grad(lambda free: eqx.combine(free, rest).log_joint(data))(free)

    free = jax.tree.map(jax.numpy.asarray, free)
    return lambda: jax.block_until_ready(step(free, data))


PEERS = {
    "GPyTorch SVGP SM": peers.gpytorch_svgp_sm,
    "GPyTorch SVGP RBF": peers.gpytorch_svgp_rbf,
    "GPJax SVGP RBF": peers.gpjax_svgp_rbf,
    "GPyTorch VNNGP RBF": peers.gpytorch_vnngp_rbf,
    "GPBoost Vecchia RBF": peers.gpboost_vecchia_rbf,
    "tinygp exact RBF": peers.tinygp_exact_rbf,
    "scikit-learn exact RBF": peers.scikit_learn_exact_rbf,
}


def _measure(name: str, sizes: Sizes) -> dict[str, Any]:
    if name in PEERS:
        try:
            step = PEERS[name](sizes)
        except ImportError as error:
            return {"note": f"not installed: {error}"}
    else:
        _, model, kernel = name.split()
        step = _spectrogp(model, kernel, sizes)
    # LAPACK takes turns with an exact step, so that both see the same machine.
    reference = peers.lapack_exact(sizes) if " exact " in name else None
    times: list[float] = []
    others: list[float] = []
    while len(times) < 4 or (len(times) < 100 and sum(times[1:]) < 2.0):
        # GPBoost's step is the difference of two fits, which it times itself.
        times.append(step() if "GPBoost" in name else seconds_of(step))
        if reference:
            others.append(seconds_of(reference))
    best = min(times[1:])
    row = {"step ms": 1e3 * best, "compile s": max(times[0] - best, 0.0), "peak MB": peak_memory()}
    return row | ({"LAPACK ms": 1e3 * min(others[1:])} if reference else {})


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], json.loads(sys.argv[2]))))
