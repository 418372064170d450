"""Other libraries on tables of several inputs, as they are usually set: GPBoost, and GPyTorch's SVGP and VNNGP.

All have a squared exponential with a lengthscale for each input. A peer gives the mean and the variance of the output
at test rows, noise included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spectrogp.models.neighbours.search import earlier_neighbours, random_order

from .peers import approximate

NEIGHBOURS = 20  # as the estimator has
INDUCING = 500
STEPS, BATCH, RATE = 1000, 1024, 0.02  # of Adam: of the table in 25 to 70 passes


class Moments(NamedTuple):
    """Mean and variance ``[t]`` of outputs."""

    mean: np.ndarray
    variance: np.ndarray


def gpboost(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Moments:
    """GPBoost's Vecchia approximation, with its own optimiser and as many neighbours as the estimator has."""
    import gpboost as peer

    live = np.ptp(X, axis=0) > 0  # a constant input has no lengthscale
    model = peer.GPModel(
        gp_coords=X[:, live],
        cov_function="gaussian_ard",
        gp_approx="vecchia",
        num_neighbors=NEIGHBOURS,
        likelihood="gaussian",
        seed=0,
    )
    model.fit(y=y)
    model.set_prediction_data(num_neighbors_pred=NEIGHBOURS, vecchia_pred_type="order_obs_first_cond_obs_only")
    found = model.predict(gp_coords_pred=X_test[:, live], predict_var=True, predict_response=True)
    return Moments(found["mu"], found["var"])


def svgp(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Moments:
    """GPyTorch's sparse variational model: steps of Adam on minibatches, from the usual start."""
    import gpytorch as peer
    import torch

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    rows, outputs, tests = (torch.from_numpy(np.ascontiguousarray(part)) for part in (X, y, X_test))
    Z = rows[torch.randperm(len(rows))[:INDUCING]]
    kernel = peer.kernels.ScaleKernel(peer.kernels.RBFKernel(ard_num_dims=X.shape[1]))
    kernel.base_kernel.lengthscale = float(np.sqrt(X.shape[1]))  # the typical distance of two rows

    def strategy(model: Any) -> Any:
        q = peer.variational.CholeskyVariationalDistribution(len(Z))
        return peer.variational.VariationalStrategy(model, Z, q, learn_inducing_locations=True)

    model = approximate(strategy, kernel)

    def batch() -> tuple[Any, Any]:
        chosen = torch.randint(len(rows), (min(BATCH, len(rows)),))
        return model(rows[chosen]), outputs[chosen]

    return _after_steps(model, batch, len(y), tests)


def vnngp(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Moments:
    """GPyTorch's variational nearest neighbours: every row is an inducing point, given its neighbours before it.

    Its own search for these makes a tree for every row, hours for tens of thousands; the same rows are found here as
    ``earlier_neighbours`` finds them. It needs inputs of similar spread, which standardised ones are.
    """
    import gpytorch as peer
    import torch

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    order = random_order(len(X), 0)
    rows, outputs, tests = (torch.from_numpy(np.ascontiguousarray(part)) for part in (X[order], y[order], X_test))
    kernel = peer.kernels.ScaleKernel(peer.kernels.RBFKernel(ard_num_dims=X.shape[1]))
    kernel.base_kernel.lengthscale = float(np.sqrt(X.shape[1]))
    before = earlier_neighbours(X[order], np.arange(len(X)), NEIGHBOURS)[NEIGHBOURS:]

    class Strategy(peer.variational.NNVariationalStrategy):  # type: ignore[misc]
        def _compute_nn(self) -> Any:
            self.nn_util.set_nn_idx(self.inducing_points.float())
            self.nn_xinduce_idx = torch.from_numpy(before)
            return self

    def strategy(model: Any) -> Any:
        q = peer.variational.MeanFieldVariationalDistribution(len(rows))
        return Strategy(model, rows, q, k=NEIGHBOURS, training_batch_size=BATCH)

    model = approximate(strategy, kernel)

    def batch() -> tuple[Any, Any]:
        found = model(None)
        return found, outputs[model.variational_strategy.current_training_indices]

    return _after_steps(model, batch, len(y), tests)


def _after_steps(model: Any, batch: Callable[[], tuple[Any, Any]], size: int, tests: Any) -> Moments:
    """Predictions after steps of Adam on batches: what the model says of some rows, and their outputs."""
    import gpytorch as peer
    import torch

    likelihood = peer.likelihoods.GaussianLikelihood()
    objective = peer.mlls.VariationalELBO(likelihood, model, num_data=size)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    for _ in range(STEPS):
        adam.zero_grad()
        loss = -objective(*batch())
        loss.backward()
        adam.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        parts = [likelihood(model(some)) for some in torch.split(tests, BATCH)]
    return Moments(*(np.concatenate([getattr(part, name).numpy() for part in parts]) for name in ("mean", "variance")))
