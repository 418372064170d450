"""Accuracy on the paper's real data: test log-likelihood and mean squared error, with the seconds they took.

``python -m benchmarks.accuracy NAME``, NAME one of air, taxi and svgp (ours), and gpytorch, gpytorch-sm, gpytorch-deep
and sklearn (others), with the data in the directory that SPECTROGP_DATA names. All units are standardised by the
training rows, and the log-likelihood is the mean log predictive density of y, with its noise.
``--validate`` holds out a fifth of the training rows and scores those: for trying settings, without a look at the test.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

import spectrogp as sg
from spectrogp import datasets
from spectrogp.datasets import Split
from spectrogp.experiments import jobs
from spectrogp.experiments.air import models as air_table
from spectrogp.experiments.taxi import table as taxi_table
from spectrogp.inference import Adam, Run, maximise
from spectrogp.initialise import cluster_centres
from spectrogp.models import AbstractLikelihood, Data, Gaussian, Moments, VariationalGP
from spectrogp.parameters import Positive, Real

from .measure import Clock
from .peers import approximate

console = Console(highlight=False)


def of_table(
    name: str, table: Callable[..., dict[str, jobs.Row]], default: str, split: Split, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Rows of ``spectrogp reproduce NAME``, by default the model with neighbours."""
    names = options.rows or [default]
    with TemporaryDirectory() as out:
        done = jobs.run(
            name, table(split, quick=options.quick), Path(out), quick=options.quick, seed=options.seed, only=names
        )
    return [
        {
            "model": row,
            "log-likelihood": each.scores["log_likelihood"],
            "MSE": each.scores["mse"],
            "seconds": each.record["cost"]["seconds"],
            "CPU seconds": each.record["cost"]["cpu_seconds"],
        }
        for row, each in done.items()
    ]


air = partial(of_table, "air", air_table, "CSK, neighbours")
taxi = partial(of_table, "taxi", taxi_table, "SM, neighbours")


def svgp(split: Split, options: argparse.Namespace, *, lengthscale: list[float]) -> list[dict[str, Any]]:
    """The usual sparse variational model with a squared exponential, for comparison with other libraries."""
    return [_svgp(split, options, lengthscale, m) for m in options.inducing]


def _svgp(split: Split, options: argparse.Namespace, lengthscale: list[float], m: int) -> dict[str, Any]:
    clock = Clock()
    data = Data(split.X, split.y)
    kernel = sg.kernels.SquaredExponential(Positive(lengthscale), Positive(0.8))
    model = VariationalGP(kernel, Positive(0.8), Real(cluster_centres(split.X, m, options.seed)))
    model = model.with_optimal_posterior(data)
    adam, run = Adam(0.1, 1024), Run(progress(clock), chunk=50)
    fit = maximise(model, data, steps=options.steps, key=options.seed, optimiser=adam, run=run)
    # Adam leaves q a little off its best; with Gaussian noise that is known in closed form.
    model = fit.model.with_optimal_posterior(data)
    moments = model.predict(data, split.X_test)
    return result(f"SVGP, SE, {m} inducing points", model.realise().likelihood, split, moments, clock)


def gpytorch(split: Split, options: argparse.Namespace, *, lengthscale: list[float]) -> list[dict[str, Any]]:
    """GPyTorch's sparse variational model with an RBF kernel: same start, inducing inputs, batches and steps."""
    import gpytorch as peer
    import torch

    def kernel() -> Any:
        made = peer.kernels.ScaleKernel(peer.kernels.RBFKernel(ard_num_dims=len(lengthscale)))
        made.base_kernel.lengthscale, made.outputscale = torch.tensor(lengthscale), 0.64
        return made

    return [_gpytorch(split, options, kernel, f"RBF, {m} inducing points", m) for m in options.inducing]


def gpytorch_sm(split: Split, options: argparse.Namespace) -> list[dict[str, Any]]:
    """GPyTorch's spectral mixture with four components, from its own random start.

    It multiplies over input dimensions after it has summed components: not the usual mixture when there are several.
    """
    import gpytorch as peer

    def kernel() -> Any:
        return peer.kernels.SpectralMixtureKernel(4, ard_num_dims=split.X.shape[1])

    return [
        _gpytorch(split, options, kernel, f"SM with 4 components, {m} inducing points", m) for m in options.inducing
    ]


def _gpytorch(split: Split, options: argparse.Namespace, kernel: Any, name: str, m: int) -> dict[str, Any]:
    import gpytorch as peer
    import torch

    X, y, X_test = _torch(split, options)
    clock = Clock()
    Z = torch.from_numpy(cluster_centres(split.X, m, options.seed))
    q = peer.variational.CholeskyVariationalDistribution(m)
    model = approximate(lambda model: peer.variational.VariationalStrategy(model, Z, q), kernel())
    likelihood = peer.likelihoods.GaussianLikelihood()
    likelihood.noise = 0.64
    objective = peer.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    _climb(objective, [model, likelihood], X, y, options, clock)
    model.eval()
    with torch.no_grad():
        f = model(X_test)
    moments = Moments(jnp.asarray(f.mean.numpy()), jnp.asarray(f.variance.numpy()))
    noise = Gaussian(float(likelihood.noise.detach()) ** 0.5)
    return result(f"GPyTorch SVGP, {name}", noise, split, moments, clock)


def gpytorch_deep(split: Split, options: argparse.Namespace) -> list[dict[str, Any]]:
    """GPyTorch's deep GP of two layers, as wide as the inputs: an identity for mean, and a sure q, of the inner one."""
    import gpytorch as peer
    import torch
    from gpytorch.models.deep_gps import DeepGP, DeepGPLayer

    X, y, X_test = _torch(split, options)
    clock = Clock()
    d, m = X.shape[1], options.inducing[0]
    Z = torch.from_numpy(cluster_centres(split.X, m, options.seed))

    class Layer(DeepGPLayer):  # type: ignore[misc]
        def __init__(self, outputs: int | None) -> None:
            shape = torch.Size([] if outputs is None else [outputs])
            deviation = 0.1 if outputs else 1.0
            q = peer.variational.CholeskyVariationalDistribution(m, shape, mean_init_std=1e-3)
            with torch.no_grad():
                q.chol_variational_covar.mul_(deviation)
            strategy = peer.variational.VariationalStrategy(self, Z.expand(*shape, m, d).clone(), q)
            # The strategy would otherwise put q at the prior when it is first used.
            strategy.variational_params_initialized.fill_(1)
            super().__init__(strategy, d, outputs)
            self.mean_module: Any = peer.means.ConstantMean(batch_shape=shape)
            if outputs is not None:
                self.mean_module = peer.means.LinearMean(d, batch_shape=shape)
                with torch.no_grad():
                    self.mean_module.weights.copy_(torch.eye(d)[:, :, None])
                    self.mean_module.bias.zero_()
            inner = peer.kernels.RBFKernel(batch_shape=shape, ard_num_dims=d)
            self.covar_module = peer.kernels.ScaleKernel(inner, batch_shape=shape)

        def forward(self, x: Any) -> Any:
            return peer.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    class Deep(DeepGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = Layer(d), Layer(None)
            self.likelihood = peer.likelihoods.GaussianLikelihood()
            self.likelihood.noise = 0.4

        def forward(self, x: Any) -> Any:
            return self.outer(self.inner(x))

    model = Deep()
    objective = peer.mlls.DeepApproximateMLL(peer.mlls.VariationalELBO(model.likelihood, model, num_data=len(y)))
    with peer.settings.num_likelihood_samples(5):
        _climb(objective, [model], X, y, options, clock)
    model.eval()
    with torch.no_grad(), peer.settings.num_likelihood_samples(50):
        parts = [model.likelihood(model(part)) for part in X_test.split(2000)]
    moments = (torch.cat([getattr(part, name) for part in parts], dim=1).numpy() for name in ("mean", "variance"))
    return [_row("GPyTorch deep GP, 2 layers", jobs.scores(Moments(*moments), split.y_test), clock)]


def _torch(split: Split, options: argparse.Namespace) -> Any:
    """Torch as peers are run with it, and training inputs, outputs and test inputs as its arrays."""
    import torch

    torch.set_default_dtype(torch.float64)
    torch.set_flush_denormal(True)  # short lengthscales are several times slower without
    torch.manual_seed(options.seed)
    return map(torch.from_numpy, (split.X, split.y, split.X_test))


def _climb(objective: Any, modules: list[Any], X: Any, y: Any, options: argparse.Namespace, clock: Clock) -> None:
    import torch

    optimiser = torch.optim.Adam([p for module in modules for p in module.parameters()], lr=0.01)
    for step in range(options.steps):
        rows = torch.randperm(len(y))[:1024]
        optimiser.zero_grad()
        loss = -objective(modules[0](X[rows]), y[rows])
        loss.backward()
        optimiser.step()
        if (step + 1) % 100 == 0:
            progress(clock)(step + 1, options.steps, -loss.item())


def sklearn(split: Split, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Bayesian ridge regression, and gradient boosting, which has no density."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import BayesianRidge

    clock = Clock()
    mean, std = BayesianRidge().fit(split.X, split.y).predict(split.X_test, return_std=True)
    ridge = _row("scikit-learn, Bayesian ridge", jobs.scores(Moments(mean[None], std[None] ** 2), split.y_test), clock)
    clock = Clock()
    trees = HistGradientBoostingRegressor(max_iter=options.steps, random_state=options.seed).fit(split.X, split.y)
    error = float(np.mean((trees.predict(split.X_test) - split.y_test) ** 2))
    return [ridge, _row("scikit-learn, gradient boosting", {"log_likelihood": "–", "mse": error}, clock)]


def result(name: str, likelihood: AbstractLikelihood, split: Split, moments: Any, clock: Clock) -> dict[str, Any]:
    """The row of a table: mean log predictive density and mean squared error of the test rows."""
    y = jnp.asarray(split.y_test)
    scale = likelihood.scale_at(jnp.asarray(split.X_test), jnp.zeros_like(y))
    density = likelihood.log_predictive_density(y, moments, scale)
    found = {"log_likelihood": float(jnp.mean(density)), "mse": float(jnp.mean((y - moments.mean) ** 2))}
    return _row(name, found, clock)


def _row(name: str, found: dict[str, Any], clock: Clock) -> dict[str, Any]:
    return {
        "model": name,
        "log-likelihood": found["log_likelihood"],
        "MSE": found["mse"],
        "seconds": clock.wall,
        "CPU seconds": clock.cpu,
    }


def progress(clock: Clock) -> Callable[[int, int, float], None]:
    def show(done: int, steps: int, value: float) -> None:
        console.print(f"  step {done} of {steps}: {value:.4f} a point, {clock.wall:.0f} s")

    return show


# Started at longer lengthscales in time, the sparse fit to the air data stays in a poor optimum.
SPARSE = {datasets.air: [0.3, 0.3, 0.1], datasets.taxi: [1.0] * 5}
MODELS: dict[str, list[tuple[Any, Any]]] = {
    "air": [(datasets.air, air)],
    "taxi": [(datasets.taxi, taxi)],
    "svgp": [(load, partial(svgp, lengthscale=start)) for load, start in SPARSE.items()],
    "gpytorch": [(load, partial(gpytorch, lengthscale=start)) for load, start in SPARSE.items()],
    "gpytorch-sm": [(datasets.taxi, gpytorch_sm)],
    "gpytorch-deep": [(datasets.taxi, gpytorch_deep)],
    "sklearn": [(load, sklearn) for load in SPARSE],
}
# Of Adam, or of boosting.
STEPS = {"air": 350, "taxi": 500, "svgp": 1500, "gpytorch": 3000, "gpytorch-sm": 1000, "gpytorch-deep": 600}
STEPS["sklearn"] = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="Test log-likelihood and MSE on real data.")
    parser.add_argument("what", choices=MODELS)
    parser.add_argument("--inducing", type=int, nargs="*", default=[100], help="inducing points of the SVGP")
    parser.add_argument("--rows", nargs="*", help="rows of the air or taxi table")
    parser.add_argument("--steps", type=int, help="steps of Adam")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="2000 rows and 50 steps, to see that it runs")
    parser.add_argument("--validate", action="store_true", help="score a held-out fifth of the training rows instead")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    options.steps = options.steps or (50 if options.quick else STEPS[options.what])
    jax.config.update("jax_enable_x64", True)

    found = []
    for load, run in MODELS[options.what]:
        split = load()
        if options.quick:
            split = split.first(2000)
        if options.validate:
            split = split.held_out(options.seed)
        for row in run(split, options):
            found.append({"data": load.__name__} | row | {"steps": options.steps})
            console.print(
                " | ".join(f"{k}: {v:.4g}" if isinstance(v, float) else f"{k}: {v}" for k, v in found[-1].items())
            )
    if options.out:
        versions = {"python": platform.python_version(), "jax": jax.__version__, "spectrogp": sg.__version__}
        record = {"command": " ".join(sys.argv), "options": vars(options) | {"out": str(options.out)}}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record | {"versions": versions, "results": found}, indent=2) + "\n"
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
