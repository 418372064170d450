"""Have the chains converged, and how much do their draws tell? Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021).

All functions take draws ``[chains, draws, ...]`` and give one number for each of the rest of the axes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike
from scipy.fft import next_fast_len
from scipy.stats import norm, rankdata

from ..parameters import AbstractRandom, random_functions
from ..posterior import Posterior

CONVERGED_RHAT = 1.01  # below which chains agree
WORTH = 100  # independent draws that those of a chain should be worth
_INPUTS = 5  # at which functions are looked at
_NUMBERS = 30  # of one quantity that are looked at
_LEAST_ENERGY = 0.3  # fraction of its variance that the energy changes by in a draw


def rhat(draws: PyTree) -> np.ndarray:
    """Rank-normalised split R̂, the larger of that of the draws and of their distance from the median.

    Near 1 when all chains explore the same distribution; above 1.01 they do not yet.
    """
    return _each(lambda x: max(_rhat(_normal_scores(_split(x))), _rhat(_normal_scores(_folded(_split(x))))), draws)


def bulk_ess(draws: PyTree) -> np.ndarray:
    """Effective number of draws for the centre of the distribution (of rank-normalised draws)."""
    return _each(lambda x: _ess(_normal_scores(_split(x))), draws)


def tail_ess(draws: PyTree) -> np.ndarray:
    """Effective number of draws for the tails: the smaller of those for the 5 % and the 95 % quantile."""
    tails = lambda x: min(_ess(_split(x <= np.quantile(x, q)).astype(float)) for q in (0.05, 0.95))  # noqa: E731
    return _each(tails, draws)


def mean_error(draws: PyTree) -> np.ndarray:
    """Monte-Carlo standard error of the mean of all draws."""
    return _each(lambda x: np.std(x, ddof=1) / np.sqrt(_ess(_split(x))), draws)


def std_error(draws: PyTree) -> np.ndarray:
    """Monte-Carlo standard error of the standard deviation of all draws."""

    def error(x: np.ndarray) -> float:
        square = (x - np.mean(x)) ** 2
        # The delta method: sd(√m) = sd(m) / (2 √m) for m the mean square.
        return float(np.std(square) / np.sqrt(_ess(_split(square))) / (2.0 * np.sqrt(np.mean(square))))

    return _each(error, draws)


def check(posterior: Posterior, function: Callable[[Any], Any] | None = None, *, stacklevel: int = 2) -> list[str]:
    """What is wrong with a posterior's draws, and what to change, also as one warning. Empty when all is well.

    Looked at are the log joint density and ``function(model)``, any arrays; when left out, the values of the model's
    functions at some of their inducing inputs, and the parameters that belong to no function. (Whitened values may be
    unsettled where the functions that they make are not.)

    Args:
        posterior: Draws, as a sampler returns them.
        function: What to look at, or None.
        stacklevel: Which caller the warning is about.
    """
    chains, draws = posterior.log_joint.shape
    if draws < 4:
        found = [f"only {draws} draws were made: too few to say anything of them"]
    else:
        values = _parameters(posterior) if function is None else jax.tree.leaves(posterior.map(function))
        found = list(_complaints([posterior.log_joint, *map(_some, values)], chains, posterior.statistics))
    if found:
        warnings.warn("\n".join(found), stacklevel=stacklevel)
    return found


def _parameters(posterior: Posterior) -> list[Any]:
    """Draws ``[chains, draws, ...]`` of functions at some inducing inputs, and of all parameters outside functions."""

    def is_random(node: Any) -> bool:
        return isinstance(node, AbstractRandom)

    def values(model: Any) -> list[Any]:
        functions = random_functions(model)
        return [f(jnp.asarray(f.places)[_spread(len(f.places), _INPUTS)]) for f in functions]

    others = [node for node in jax.tree.leaves(posterior.draws, is_leaf=is_random) if not is_random(node)]
    functions = posterior.map(values)
    # A function that was not sampled is the same in all draws, and says nothing of them.
    return others + [value for value in functions if np.any(np.ptp(value, axis=(0, 1)) > 0)]


def _some(values: ArrayLike) -> np.ndarray:
    """At most so many of the numbers of a quantity ``[chains, draws, ...]`` that a look at them stays quick."""
    columns = np.asarray(values).reshape(*np.shape(values)[:2], -1)
    return columns[:, :, _spread(columns.shape[2], _NUMBERS)]


def _spread(size: int, count: int) -> np.ndarray:
    """At most ``count`` of 0 … size − 1, evenly spaced, the ends among them."""
    return np.unique(np.linspace(0, size - 1, min(size, count)).round().astype(int))


def _complaints(values: list[np.ndarray], chains: int, statistics: dict[str, np.ndarray]) -> Iterator[str]:
    worst = max(float(np.max(rhat(value))) for value in values)
    bulk, tail = (min(float(np.min(measure(value))) for value in values) for measure in (bulk_ess, tail_ess))
    if not worst < CONVERGED_RHAT:
        yield (
            f"the chains disagree: R-hat is {worst:.3g}, and should be below {CONVERGED_RHAT}; draw more, warm up "
            "longer, or start at the optimum; when it stays high, the posterior has several modes: reduce the number "
            "of components, or give the frequencies stronger priors"
        )
    if not min(bulk, tail) > WORTH * chains:
        yield (
            f"the draws are worth {bulk:.0f} independent ones for means and {tail:.0f} for tails, and should be worth "
            f"{WORTH * chains} ({WORTH} a chain): draw more, or thin less"
        )
    yield from statistics_complaints(statistics)


def statistics_complaints(statistics: dict[str, np.ndarray]) -> Iterator[str]:
    """What is wrong by what samplers say of their draws, ``[chains, draws]`` each."""
    diverging = int(np.sum(statistics.get("diverging", 0)))
    if diverging:
        yield (
            f"{diverging} trajectories diverged: the step is too long somewhere, and the draws may miss that region; "
            "raise acceptance (to 0.95, say), or give the parameters stronger priors"
        )
    accepted = float(np.mean(statistics.get("acceptance_rate", 1.0)))
    if accepted < 0.5:
        yield f"only {accepted:.0%} of the proposals were accepted: the step size had not settled; warm up longer"
    stopped = float(np.mean(statistics.get("reached_max_treedepth", 0.0)))
    if stopped > 0.2:
        yield (
            f"{stopped:.0%} of the trajectories were stopped before they turned around, so that chains move slowly: "
            "raise doublings, or warm up longer"
        )
    if "energy" in statistics and (fraction := energy_fraction(statistics["energy"])) < _LEAST_ENERGY:
        yield (
            f"the energy changes too little from draw to draw (fraction {fraction:.2f}, should be above "
            f"{_LEAST_ENERGY}): the tails are hardly visited; warm up longer, or give the parameters stronger priors"
        )
    halved = int(np.max(np.ptp(statistics.get("halvings", np.zeros((1, 1))), axis=1)))
    if halved:
        yield (
            f"a chain ran off and halved its step {halved} times after the warm-up, so that its draws are of several "
            "samplers: take a smaller step_size, or warm up longer"
        )
    if "kinetic" in statistics:
        kinetic = float(np.mean(statistics["kinetic"]))
        if not 0.45 < kinetic < 0.55:
            yield (
                f"the sampler's temperature is {2.0 * kinetic:.2f} and should be 1: the step is too long for the noise "
                "of the gradient; take a smaller step_size or a larger batch"
            )


def energy_fraction(energy: np.ndarray) -> float:
    """The least, over chains, of the energy fraction E-BFMI: mean squared change by variance. Betancourt (2016).

    Args:
        energy: Of draws, ``[chains, draws]``.
    """
    variance = np.var(energy, axis=1)
    change = np.mean(np.diff(energy, axis=1) ** 2, axis=1)
    return float(np.min(np.where(variance > 0.0, change / np.where(variance > 0.0, variance, 1.0), np.inf)))


def to_arviz(posterior: Posterior) -> Any:
    """The draws as what arviz reads: ``InferenceData`` before its version 1, ``DataTree`` from then on.

    Args:
        posterior: Draws, as a sampler returns them.
    """
    try:
        import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs the package arviz: pip install 'spectrogp[arviz]'") from error
    paths = jax.tree_util.tree_flatten_with_path(posterior.draws)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".raw") for path, _ in paths]
    draws = {name: np.asarray(leaf) for name, (_, leaf) in zip(names, paths, strict=True)}
    groups = {"posterior": draws, "sample_stats": {"lp": posterior.log_joint, **posterior.statistics}}
    from_dict: Any = arviz.from_dict
    return from_dict(**groups) if int(arviz.__version__.split(".")[0]) < 1 else from_dict(groups)


# One quantity, [chains, draws]


def _each(measure: Callable[[np.ndarray], float], draws: PyTree) -> np.ndarray:
    draws = np.asarray(draws, dtype=np.float64)
    if draws.ndim < 2 or draws.shape[1] < 4:
        raise ValueError(f"draws must have shape [chains, draws, ...] with at least 4 draws, got {list(draws.shape)}")
    columns = draws.reshape(*draws.shape[:2], -1)
    values = [measure(columns[:, :, k]) for k in range(columns.shape[2])]
    return np.reshape(np.array(values), draws.shape[2:])


def _split(x: np.ndarray) -> np.ndarray:
    """Each chain as two, its halves, so that a drift within a chain shows as a difference between chains."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _folded(x: np.ndarray) -> np.ndarray:
    return np.abs(x - np.median(x))


def _normal_scores(x: np.ndarray) -> np.ndarray:
    return norm.ppf((rankdata(x).reshape(x.shape) - 0.375) / (x.size + 0.25))


def _rhat(x: np.ndarray) -> float:
    n = x.shape[1]
    within = np.mean(np.var(x, axis=1, ddof=1))
    between = n * np.var(np.mean(x, axis=1), ddof=1)
    # Draws that never move have converged to nothing: they are not a reason for a division by zero.
    return float(np.sqrt(((n - 1) / n * within + between / n) / within)) if within > 0 else float("inf")


def _ess(x: np.ndarray) -> float:
    """Geyer's initial monotone sequence on the autocorrelations of all chains together."""
    m, n = x.shape
    covariance = _autocovariance(x)
    within = np.mean(covariance[:, 0]) * n / (n - 1)
    if within <= 0:
        return float(m * n)
    total = within * (n - 1) / n + (np.var(np.mean(x, axis=1), ddof=1) if m > 1 else 0.0)
    rho = 1.0 - (within - np.mean(covariance, axis=0) * n / (n - 1)) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    # Sums of pairs are positive and fall for a reversible chain; what comes after the first that is not is noise.
    end = int(np.argmax(pairs <= 0)) if np.any(pairs <= 0) else len(pairs)
    end = max(end, 1)
    time = -1.0 + 2.0 * float(np.sum(np.minimum.accumulate(pairs[:end])))
    # The first odd term left out, as in the paper: it tames the bias of anticorrelated chains.
    if end < len(pairs):
        time += max(float(rho[2 * end]), 0.0)
    return float(m * n / max(time, 1.0 / np.log10(m * n)))


def _autocovariance(x: np.ndarray) -> np.ndarray:
    n = x.shape[1]
    length = next_fast_len(2 * n)
    spectrum = np.fft.rfft(x - np.mean(x, axis=1, keepdims=True), length, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, length, axis=1)[:, :n] / n
