"""One optimisation step of sparse models against GPyTorch: value and gradient on a batch, in separate processes.

Every contender runs in a process of its own, so that its peak memory is its own, with the same number of threads. Sizes
are those of the paper's taxi experiment: batch 10,000, 100 inducing points, 5 dimensions, 4 components.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"batch": 10_000, "inducing": 100, "dimensions": 5, "components": 4}
CONTENDERS = ("spectrogp CSK", "spectrogp SM", "GPyTorch SM", "GPyTorch RBF")


def run(*, threads: int = 1, sizes: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """One row per contender: step and compile time, peak memory, and the ratio of its step to GPyTorch's SM."""
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}",
    }
    pinned = ["taskset", "-c", ",".join(map(str, range(threads)))]
    rows = []
    for name in CONTENDERS:
        command = [*pinned, sys.executable, "-m", "benchmarks.steps", name, json.dumps(SIZES | (sizes or {}))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")
        rows.append({"contender": name, "threads": threads} | json.loads(done.stdout.splitlines()[-1]))
    peer = next(row["step ms"] for row in rows if row["contender"] == "GPyTorch SM")
    return [row | {"ratio": row["step ms"] / peer} for row in rows]


def _data(sizes: dict[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sizes["batch"], sizes["dimensions"]))
    return X, np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=len(X)), X[: sizes["inducing"]].copy()


def _spectrogp(kernel_name: str, sizes: dict[str, int]) -> Callable[[], Any]:
    import equinox as eqx
    import jax

    jax.config.update("jax_enable_x64", True)
    import spectrogp as sg
    from spectrogp.data import Data
    from spectrogp.models import VariationalGP
    from spectrogp.parameters import Positive, Real, partition
    from spectrogp.processes import FunctionGroup

    X, y, Z = _data(sizes)
    P, D = sizes["components"], sizes["dimensions"]
    omega = np.random.default_rng(1).normal(size=(P, D))
    if kernel_name == "CSK":
        kernel = sg.kernels.ConvolutionalSpectral(
            FunctionGroup(Z, np.ones((P, D)), shape=(P, D)),
            FunctionGroup(Z, omega, shape=(P, D), warp="identity"),
            FunctionGroup(Z, np.ones(P), shape=(P,)),
        )
    else:
        kernel = sg.kernels.SpectralMixture(Positive(np.ones((P, D))), Real(omega), Positive(np.ones(P)))
    model = VariationalGP(kernel, Positive(0.3), Z)
    free, rest = partition(model, "latent", "hyperparameter", "variational")

    @eqx.filter_jit
    def step(free: Any, data: Data) -> Any:
        return jax.value_and_grad(lambda free: eqx.combine(free, rest).log_joint(data))(free)

    free = jax.tree.map(jax.numpy.asarray, free)
    data = Data(jax.numpy.asarray(X), jax.numpy.asarray(y))
    return lambda: jax.block_until_ready(step(free, data))


def _gpytorch(kernel_name: str, sizes: dict[str, int]) -> Callable[[], Any]:
    import gpytorch
    import torch

    torch.set_default_dtype(torch.float64)
    torch.set_flush_denormal(True)  # short lengthscales are several times slower without
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    X, y, Z = map(torch.from_numpy, _data(sizes))

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            super().__init__(gpytorch.variational.VariationalStrategy(self, Z, q))
            self.mean_module = gpytorch.means.ZeroMean()
            if kernel_name == "SM":
                kernel = gpytorch.kernels.SpectralMixtureKernel(sizes["components"], ard_num_dims=sizes["dimensions"])
            else:
                kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=sizes["dimensions"]))
            self.covar_module = kernel

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model(), gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))

    def step() -> float:
        model.zero_grad()
        loss = -objective(model(X), y)
        loss.backward()
        return float(loss)

    return step


def _measure(name: str, sizes: dict[str, int], repeats: int = 7) -> dict[str, float]:
    library, kernel = name.split()
    step = (_spectrogp if library == "spectrogp" else _gpytorch)(kernel, sizes)
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    best = min(times[1:])
    return {"step ms": 1e3 * best, "compile s": times[0] - best, "peak MB": _peak_memory()}


def _peak_memory() -> float:
    """Peak resident memory of this program in MB (``getrusage`` would count the parent's, from before the start)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.split("VmHWM:")[1].split()[0]) / 1024.0


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], json.loads(sys.argv[2]))))  # noqa: T201
