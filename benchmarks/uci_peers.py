"""Other libraries on tables of several inputs, as they are usually set: GPBoost, and GPyTorch's SVGP.

Both have a squared exponential with a lengthscale for each input. A peer gives the mean and the variance of the output
at test rows, noise included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

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
    likelihood = peer.likelihoods.GaussianLikelihood()
    objective = peer.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    for _ in range(STEPS):
        adam.zero_grad()
        chosen = torch.randint(len(rows), (min(BATCH, len(rows)),))
        loss = -objective(model(rows[chosen]), outputs[chosen])
        loss.backward()
        adam.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        parts = [likelihood(model(some)) for some in torch.split(tests, BATCH)]
    return Moments(*(np.concatenate([getattr(part, name).numpy() for part in parts]) for name in ("mean", "variance")))
