"""The posteriors of a calibration run by importance sampling from the prior, without the library.

``python -m benchmarks.calibration.importance RESULTS.json``, for a file that ``benchmarks.calibration`` wrote. The
fraction of posterior mass below the truth is computed again from weighted prior draws, in NumPy. Ranks that are not
uniform have one of two reasons: the sampler's fraction differs from this one (the sampler is wrong), or it does not
(chance drew the truths so). What is computed here is exact up to its own Monte-Carlo error.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.linalg import solve_triangular

from .simulation import QUANTITIES, Parameters, model, problem, simulate

_COMPARED = ("lengthscale", "frequency", "noise", "log likelihood")
_TAIL = 0.03
_FEWEST = 200  # effective draws: replications with fewer are left out


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the ranks of a calibration run with importance sampling.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--draws", type=int, default=20_000)
    options = parser.parse_args()
    record = json.loads(options.results.read_text(encoding="utf-8"))
    ours = np.stack([record["nuts"]["ranks"][name] for name in _COMPARED], axis=1) / record["settings"]["kept"]
    exact, effective = fractions(record["seed"], len(ours), options.draws)
    kept = effective >= _FEWEST
    console = Console(width=160)
    console.print(f"{np.sum(kept)} of {len(kept)} replications with at least {_FEWEST} effective draws")
    for q, name in enumerate(_COMPARED):
        u, difference = exact[kept, q], (ours - exact)[kept, q]
        error = np.std(difference) / np.sqrt(len(difference))
        console.print(
            f"{name:15s} fraction below the truth, NUTS − exact: {np.mean(difference):+.4f} ± {error:.4f}; above "
            f"{1 - _TAIL:g}: NUTS {np.mean(ours[kept, q] > 1 - _TAIL):.3f}, exact {np.mean(u > 1 - _TAIL):.3f}; below "
            f"{_TAIL:g}: {np.mean(ours[kept, q] < _TAIL):.3f}, {np.mean(u < _TAIL):.3f}"
        )


def fractions(seed: int, replications: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mass below the truth ``[r, q]``, and effective numbers of prior draws ``[r]``."""
    where = problem()
    prior = model(where)
    simulated = [simulate(prior, where, np.random.default_rng([seed, index])) for index in range(replications)]
    truth, Y = (np.array(part) for part in zip(*simulated, strict=True))
    truth = truth[:, [QUANTITIES.index(name) for name in _COMPARED]]
    rng = np.random.default_rng([seed, replications, draws])
    values, log_weights = [], []
    for _ in track(range(draws), "prior draws", console=Console(stderr=True)):
        theta = Parameters.draw(prior, where, rng)
        L = np.linalg.cholesky(theta.covariance(where))
        white = solve_triangular(L, Y.T, lower=True)
        constant = np.sum(np.log(np.diag(L))) + 0.5 * len(L) * np.log(2.0 * np.pi)
        log_weights.append(-0.5 * np.sum(white**2, axis=0) - constant)
        values.append([theta.lengthscale[-1], theta.frequency[-1] / (2.0 * np.pi), theta.noise])
    log_likelihood, theta = np.array(log_weights), np.array(values)
    weights = np.exp(log_likelihood - np.max(log_likelihood, axis=0))
    weights /= np.sum(weights, axis=0)
    below = [np.sum(weights * (theta[:, [q]] < truth[:, q]), axis=0) for q in range(3)]
    below.append(np.sum(weights * (log_likelihood < truth[:, 3]), axis=0))
    return np.stack(below, axis=1), 1.0 / np.sum(weights**2, axis=0)


if __name__ == "__main__":
    main()
