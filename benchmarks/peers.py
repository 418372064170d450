"""What other libraries need for one step, value and gradient, of their nearest equivalent: a callable for each.

All in float64, on the same data, with lengthscales per dimension where the library has them. Imports are inside, so
that a library that is not installed costs a row of the table and nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Sizes = dict[str, int]
Step = Callable[[], Any]


def regression(sizes: Sizes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, outputs, and some of the inputs as inducing points."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sizes["batch"], sizes["dimensions"]))
    return X, np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=len(X)), X[: sizes["inducing"]].copy()


def gpytorch_svgp_sm(sizes: Sizes) -> Step:
    import gpytorch

    return _svgp(sizes, gpytorch.kernels.SpectralMixtureKernel(sizes["components"], ard_num_dims=sizes["dimensions"]))


def gpytorch_svgp_rbf(sizes: Sizes) -> Step:
    return _svgp(sizes, _rbf(sizes))


def gpytorch_vnngp_rbf(sizes: Sizes) -> Step:
    """Variational nearest neighbours: every row is an inducing point, given its neighbours among those before it."""
    import gpytorch
    import torch

    _prepare_torch()
    X, y, _ = map(torch.from_numpy, regression(sizes))
    q = gpytorch.variational.MeanFieldVariationalDistribution(len(X))

    def strategy(model: Any) -> Any:
        return gpytorch.variational.NNVariationalStrategy(
            model, X, q, k=sizes["neighbours"], training_batch_size=len(X)
        )

    model = approximate(strategy, _rbf(sizes))
    return _torch_step(model, lambda: model(None), y)


def gpjax_svgp_rbf(sizes: Sizes) -> Step:
    import gpjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    import equinox as eqx

    X, y, Z = map(jnp.asarray, regression(sizes))
    kernel = gpjax.kernels.RBF(lengthscale=jnp.ones(sizes["dimensions"]))
    prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=kernel)
    likelihood = gpjax.likelihoods.Gaussian(obs_stddev=jnp.asarray(0.3))
    q = gpjax.variational_families.WhitenedVariationalGaussian(model=prior * likelihood, inducing_inputs=Z)
    data = gpjax.Dataset(X=X, y=y[:, None])
    step = eqx.filter_jit(eqx.filter_value_and_grad(gpjax.objectives.elbo))
    return lambda: jax.block_until_ready(step(q, data))


def gpboost_vecchia_rbf(sizes: Sizes) -> Step:
    """GPBoost does not give its gradient: the time is that of one iteration of its gradient descent, without setup.

    The steps are too short to be halved, so that an iteration is one likelihood and one gradient.
    """
    import gpboost

    X, y, _ = regression(sizes)

    def fit(iterations: int) -> float:
        model = gpboost.GPModel(
            gp_coords=X,
            cov_function="gaussian",
            gp_approx="vecchia",
            num_neighbors=sizes["neighbours"],
            num_parallel_threads=int(os.environ["OMP_NUM_THREADS"]),
            likelihood="gaussian",
        )
        options = {
            "optimizer_cov": "gradient_descent",
            "lr_cov": 1e-3,
            "use_nesterov_acc": False,
            "maxit": iterations,
            "delta_rel_conv": 1e-300,
            "init_cov_pars": np.array([0.1, 1.0, 1.0]),
        }
        start = time.perf_counter()
        model.fit(y=y, params=options)
        return time.perf_counter() - start

    return lambda: (fit(6) - fit(1)) / 5


def tinygp_exact_rbf(sizes: Sizes) -> Step:
    import jax
    import jax.numpy as jnp
    import tinygp

    jax.config.update("jax_enable_x64", True)
    X, y, _ = map(jnp.asarray, regression(sizes))

    @jax.jit
    @jax.value_and_grad
    def step(raw: dict[str, Any]) -> Any:
        amplitude, scale, noise = (jnp.exp(raw[name]) for name in ("amplitude", "scale", "noise"))
        kernel = amplitude**2 * tinygp.transforms.Linear(1.0 / scale, tinygp.kernels.ExpSquared())
        return tinygp.GaussianProcess(kernel, X, diag=noise**2).log_probability(y)

    raw = {"amplitude": jnp.zeros(()), "scale": jnp.zeros(sizes["dimensions"]), "noise": jnp.asarray(np.log(0.3))}
    return lambda: jax.block_until_ready(step(raw))


def scikit_learn_exact_rbf(sizes: Sizes) -> Step:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    X, y, _ = regression(sizes)
    kernel = ConstantKernel(1.0) * RBF(np.ones(sizes["dimensions"])) + WhiteKernel(0.3**2)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    return lambda: model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)


def lapack_exact(sizes: Sizes) -> Step:
    """What no exact step can avoid: Cholesky factor, α, one triangle of the inverse, ½(ααᵀ − K⁻¹), and one product."""
    from scipy.linalg import lapack

    X, y, _ = regression(sizes)
    distance = ((X[:, None] - X) ** 2).sum(-1)
    K = np.asfortranarray(np.exp(-0.5 * distance) + 0.3**2 * np.eye(len(X)))

    def step() -> tuple[float, float]:
        L, _ = lapack.dpotrf(K, lower=1)
        alpha, _ = lapack.dpotrs(L, y, lower=1)
        inverse, _ = lapack.dpotri(L, lower=1)  # its lower triangle
        value = -0.5 * y @ alpha - np.log(np.diagonal(L)).sum()
        slope = np.multiply.outer(alpha, alpha)
        slope -= inverse.T  # transposed, like K below: in the order of memory
        return value, 0.5 * np.vdot(slope, K.T)

    return step


def _prepare_torch() -> None:
    import torch

    torch.set_default_dtype(torch.float64)
    torch.set_flush_denormal(True)  # short lengthscales are several times slower without
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _rbf(sizes: Sizes) -> Any:
    import gpytorch

    return gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=sizes["dimensions"]))


def _svgp(sizes: Sizes, kernel: Any) -> Step:
    import gpytorch
    import torch

    _prepare_torch()
    X, y, Z = map(torch.from_numpy, regression(sizes))
    q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
    model = approximate(lambda model: gpytorch.variational.VariationalStrategy(model, Z, q), kernel.double())
    return _torch_step(model, lambda: model(X), y)


def approximate(strategy: Callable[[Any], Any], kernel: Any) -> Any:
    import gpytorch

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(strategy(self))
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = kernel

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    return Model().double().train()


def _torch_step(model: Any, output: Callable[[], Any], y: Any) -> Step:
    import gpytorch

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))

    def step() -> float:
        model.zero_grad()
        loss = -objective(output(), y)
        loss.backward()
        return loss.item()

    return step
