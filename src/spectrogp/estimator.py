"""The estimator: everything from rows of data to a fitted model, in the interface of scikit-learn and in own units."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any, Literal, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from . import models
from .data import Data, as_numbers, naming, refuse_masked
from .inference import Posterior, maximise, progress_bar, sample_laplace, sample_nuts, sample_sghmc
from .inference.loop import Progress
from .initialise import Kind, Spectrum, Start, best_start, find_start, inducing_inputs, kernel_from, noise_from
from .io import FilePath, save
from .kernels import AbstractKernel
from .likelihoods import Moments
from .models.base import BLOCK
from .models.neighbour import AbstractNeighbourModel
from .numerics import entry_point
from .parameters import partition
from .parts import count_parts, part_moments
from .sampling import as_count
from .spectra import local_spectrum, spectrogram

Inference = Literal["laplace", "map", "nuts", "sghmc", "dsvi"]
Approximation = Literal["auto", "exact", "sgpr", "svgp", "neighbours", "full-scale"]

KERNELS = ("auto", "se", "nsq", "sm", "gsm", "hmk", "convolutional", "chirplet", "phase")
INFERENCES = ("laplace", "map", "nuts", "sghmc", "dsvi")
APPROXIMATIONS = ("auto", "exact", "sgpr", "svgp", "neighbours", "full-scale")
EXACT = 2000  # rows up to which ``approximation="auto"`` is exact
BATCH = 1024  # rows of a step on larger data, of the models that take minibatches
COMPONENTS = 4  # at most, when their number is chosen from the data
THIN = 10  # steps of SG-HMC for each draw
MIXED = 50  # draws that predictions average over: each costs as much as a prediction at the optimum
TRIAL = 100  # steps by which starts are compared
COMPARED = 400  # rows, at most, that starts are compared on
WEAK = 0.5  # share of the centres at which the data must show a frequency, for the ridge to be trusted alone
DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")


class Band(NamedTuple):
    """Posterior mean, and the ends of a central credible interval (None where no posterior was inferred)."""

    mean: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None

    @classmethod
    def over(cls, values: np.ndarray, level: float) -> Band:
        """Over draws ``[s, ...]``; one draw has no interval."""
        if len(values) == 1:
            return cls(values[0], None, None)
        lower, upper = np.quantile(values, (0.5 - 0.5 * level, 0.5 + 0.5 * level), axis=0)
        return cls(np.mean(values, axis=0), lower, upper)

    def times(self, factor: Any) -> Band:
        """In other units."""
        if self.lower is None or self.upper is None:
            return Band(self.mean * factor, None, None)
        return Band(self.mean * factor, self.lower * factor, self.upper * factor)


class SpectralGPRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian-process regression that learns how the frequency content of a signal changes over its inputs.

        model = SpectralGPRegressor().fit(t, y)                     # t [n, 1], y [n]
        mean, deviation = model.predict(t_new, return_std=True)
        frequency = model.instantaneous_frequency(t_new).mean       # cycles per unit of t

    Inputs and outputs are standardised inside; all that comes out is in the units that went in. Columns of times count
    in days since 1970 (UTC), so that frequencies are in cycles per day.

    Parameters
    ----------
    kernel
        "se", "nsq", "sm", "gsm", "hmk", "convolutional", "chirplet" or "phase", started from what is found in the data;
        "auto" is "phase" for one input and "convolutional" for several. Or a kernel object, in the units of the data:
        then inputs stay as they are, and outputs are centred only.
    n_components
        How many oscillations (None: as many as are significant, at most 4). Stationary kernels have at most so many.
    inference
        All begin with the optimum of the log joint density. "map" ends there. "laplace" is a normal approximation of
        the posterior of all functions around it, at the hyperparameters of the optimum; it takes at most 300 gradients.
        "nuts" and "sghmc" (samplers) and "dsvi" (variational) take longer, and the samplers are the most exact.
        Predictions average over the posterior.
    approximation
        "exact", "sgpr", "svgp" (inducing points), "neighbours", or "full-scale" (both). "auto" is exact up to 2000 rows
        and neighbours with minibatches beyond.
    random_state
        Seed, generator or None; the same integer gives the same result.
    max_iter
        Steps of Adam towards the optimum ("dsvi" takes three times as many for its bound).
    learning_rate
        Of Adam.
    n_starts
        Starts that are compared, at most, by their evidence after a few steps on at most 400 rows: what was found in
        the data, the same with smoother frequencies, with sudden changes, with components that cross where they seemed
        to turn, and, for the phase kernel where the data show little, what a chirplet kernel makes of it.
    resolution
        Number of inputs at which each function of the kernel has its values.
    n_inducing, n_neighbors
        Size of the approximations.
    n_draws, warmup, chains
        Of the posterior: draws in all, steps before the first one (of SG-HMC 10 times as many), chains of a sampler.
    highest_frequency
        Where the search in the data ends, cycles per unit; by default at the Nyquist frequency of the average spacing.
    verbose
        Whether to show the progress.

    Attributes
    ----------
    model_
        The model at the optimum, in standardised units; ``data_`` is what it was fitted to.
    posterior_
        Draws of it, or None after "map".
    start_
        What was found in the data before the fit, in own units; print it for a report.
    history_, n_iter_
        The objective at every step to the optimum, and their number.
    X_mean_, X_scale_, y_mean_, y_scale_
        What inputs and outputs were standardised with.
    times_
        Which columns of X held times.
    """

    def __init__(
        self,
        kernel: Any = "auto",
        n_components: int | None = None,
        inference: Inference = "laplace",
        approximation: Approximation = "auto",
        random_state: Any = None,
        *,
        max_iter: int = 500,
        learning_rate: float = 0.03,
        n_starts: int = 8,
        resolution: int = 30,
        n_inducing: int = 100,
        n_neighbors: int = 20,
        n_draws: int = 400,
        warmup: int = 300,
        chains: int = 4,
        highest_frequency: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.inference = inference
        self.approximation = approximation
        self.random_state = random_state
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.n_starts = n_starts
        self.resolution = resolution
        self.n_inducing = n_inducing
        self.n_neighbors = n_neighbors
        self.n_draws = n_draws
        self.warmup = warmup
        self.chains = chains
        self.highest_frequency = highest_frequency
        self.verbose = verbose

    # Fitting

    def fit(self, X: Any, y: Any, error: Any = None) -> Self:
        """Fit to inputs ``X [n, d]`` and outputs ``y [n]``, with known standard deviations ``error`` (``[n]`` or one).

        The fitted noise is what there is beside the known errors. X may be a data frame; columns may hold times.
        """
        self._check_parameters()
        X, times = numbers_of(X)
        with naming("X"):
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self.times_ = np.isin(np.arange(X.shape[1]), times)
        given = Data.checked(X, _column_of(y), error)
        self.X_mean_, self.X_scale_ = _standard(X, "X")
        self.y_mean_, self.y_scale_ = _standard(np.asarray(given.y), "y")
        if isinstance(self.kernel, AbstractKernel):  # its units are those of the data
            self.X_mean_, self.X_scale_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
            self.y_scale_ = np.float64(1.0)
        data = Data(self._inside(X), (given.y - self.y_mean_) / self.y_scale_, given.error / self.y_scale_)
        with np.errstate(over="ignore"):
            if not np.all(np.isfinite(data.error**2)):
                raise ValueError("error has values too large beside the spread of y: leave these rows out")

        with naming("random_state"):
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        of_optimum, of_posterior = jax.random.split(jax.random.key(seed))
        start = self._start(data, seed)
        self.start_ = _in_own_units(start, self.X_mean_, self.X_scale_, float(self.y_scale_))
        model = self._build(*self._begin(start, data, seed, of_optimum), data, seed)
        with self._progress("optimum") as progress:
            self._to_optimum(model, data, of_optimum, progress)
        self.posterior_ = None
        if self.inference != "map":
            with self._progress("posterior") as progress:
                self.posterior_ = self._infer(of_posterior, progress)
        return self

    def _check_parameters(self) -> None:
        named = isinstance(self.kernel, str) and self.kernel in KERNELS
        if not named and not isinstance(self.kernel, AbstractKernel):
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, or a kernel object; got {self.kernel!r}")
        for name, known in (("inference", INFERENCES), ("approximation", APPROXIMATIONS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}")
        least = {"max_iter": 1, "resolution": 2, "n_inducing": 1, "n_neighbors": 1, "n_draws": 1, "warmup": 1}
        least |= {"chains": 1, "n_starts": 1} | ({} if self.n_components is None else {"n_components": 1})
        for name, bound in least.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < bound:
                raise ValueError(f"{name} must be an integer of at least {bound}, got {value!r}")
        for name in ("learning_rate", *(() if self.highest_frequency is None else ("highest_frequency",))):
            values = as_numbers(getattr(self, name), name)
            if not np.all(values > 0):
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")

    def _start(self, data: Data, seed: int) -> Start:
        highest = None
        if self.highest_frequency is not None:
            highest = as_numbers(self.highest_frequency, "highest_frequency", self.X_scale_.shape) * self.X_scale_
        components = self.n_components
        # Where they have no meaning of their own, as in a kernel object, a few tell enough about the noise.
        most = COMPONENTS if components is None else components
        return find_start(
            data.X, data.y, data.error, components=components, most=most, highest_frequency=highest, seed=seed
        )

    def _build(self, kernel: AbstractKernel, noise: Any, data: Data, seed: int) -> Any:
        """The model of these data."""
        match self._approximation(data.size):
            case "exact":
                return models.ExactGP(kernel, noise)
            case "neighbours":
                return models.NeighbourGP(kernel, noise)
        Z = inducing_inputs(np.asarray(data.X), min(self.n_inducing, data.size), np.random.default_rng(seed))
        match self.approximation:
            case "sgpr":
                return models.CollapsedGP(kernel, noise, Z)
            case "full-scale":
                return models.FullScaleGP(kernel, noise, Z)
        # Samplers draw the inducing values, and variational inference has a distribution over them.
        return (models.SparseGP if self.inference in ("nuts", "sghmc") else models.VariationalGP)(kernel, noise, Z)

    def _approximation(self, rows: int) -> Approximation:
        if self.approximation != "auto":
            return self.approximation
        return "exact" if rows <= EXACT else "neighbours"

    def _batch(self, rows: int) -> int | None:
        minibatches = self._approximation(rows) in ("neighbours", "svgp")
        return BATCH if minibatches and rows > BATCH else None

    def _begin(self, start: Start, data: Data, seed: int, key: Array) -> tuple[Any, Any]:
        """The kernel and the noise to begin with: at the best of several starts, by their evidence on some rows."""
        if isinstance(self.kernel, AbstractKernel):
            return self.kernel, noise_from(start)
        kind: Kind = self.kernel
        if self.kernel == "auto":
            kind = "convolutional" if data.X.shape[1] > 1 else "phase"

        def built(start: Start, kind: Kind) -> Any:
            return models.ExactGP(kernel_from(start, kind, inducing=self.resolution, seed=seed), noise_from(start))

        first = built(start, kind)
        if self.n_starts == 1 or not jax.tree.leaves(partition(first, "latent")[0]):  # other starts are other ridges
            return first.kernel, first.likelihood
        some = np.sort(np.random.default_rng(seed).permutation(data.size)[:COMPARED])
        X, y, error = (np.asarray(part)[some] for part in (data.X, data.y, data.error))
        rows = Data(X, y, error)
        with self._progress("starts") as progress:
            settings: dict[str, Any] = {"key": key, "learning_rate": self.learning_rate, "progress": progress}
            starts = start.alternatives()
            if kind == "phase" and np.mean(start.worth > 0) < WEAK:
                # The phase kernel finds a frequency only from near it, the chirplet kernel from further away.
                fit = maximise(built(start, "chirplet"), rows, steps=TRIAL, **settings)
                starts.insert(1, start.following(fit.model.kernel))
            if len(starts) == 1:
                return first.kernel, first.likelihood
            candidates = [first, *(built(other, kind) for other in starts[1 : self.n_starts])]
            best = best_start(candidates, rows, steps=TRIAL, **settings).model
        return best.kernel, best.likelihood

    def _training(self, model: Any, data: Data, key: Array) -> dict[str, Any]:
        """What ``maximise`` needs besides a model and its steps."""
        settings = {"key": key, "batch": self._batch(data.size), "learning_rate": self.learning_rate}
        if not isinstance(model, AbstractNeighbourModel):
            return settings | {"data": data}
        refresh = models.Refresh(data, min(self.n_neighbors, data.size - 1))
        return settings | {"data": refresh(model), "refresh": refresh}

    def _to_optimum(self, model: Any, data: Data, key: Array, progress: Progress | None) -> None:
        training = self._training(model, data, key)
        fit = maximise(model, steps=self.max_iter, progress=progress, **training)
        self.model_, self.history_, self.n_iter_ = fit.model, fit.history, len(fit.history)
        self.data_ = training["refresh"](fit.model) if "refresh" in training else data

    def _infer(self, key: Array, progress: Progress | None) -> Posterior:
        """Draws around the optimum."""
        batch, each = self._batch(self.data_.size), -(-self.n_draws // self.chains)
        settings: dict[str, Any] = {"key": key, "progress": progress}
        if self.inference == "laplace":
            # Functions at fixed hyperparameters: the posterior of both together is far from normal.
            roles: Any = ("latent",) if jax.tree.leaves(partition(self.model_, "latent")[0]) else ("hyperparameter",)
            return sample_laplace(self.model_, self.data_, draws=self.n_draws, batch=batch, roles=roles, **settings)
        if self.inference == "dsvi":
            bound = models.DoublyStochasticGP(self.model_)
            fit = maximise(
                bound, self.data_, steps=3 * self.max_iter, batch=batch, learning_rate=self.learning_rate, **settings
            )
            return Posterior.of_variational(fit.model, self.data_, draws=self.n_draws, key=key)
        settings |= {"chains": self.chains, "roles": ("latent", "hyperparameter")}
        if self.inference == "nuts":
            return sample_nuts(self.model_, self.data_, draws=each, warmup=self.warmup, **settings)
        settings |= {"steps": THIN * each, "burn_in": THIN * self.warmup, "thin": THIN}
        return sample_sghmc(self.model_, self.data_, batch=batch, **settings)

    @contextmanager
    def _progress(self, description: str) -> Iterator[Progress | None]:
        if not self.verbose:
            yield None
            return
        with progress_bar(description) as progress:
            yield progress

    # Prediction

    def predict(self, X: Any, return_std: bool = False, noise: bool = True) -> Any:
        """Mean ``[n]`` of the outputs at inputs ``X [n, d]``; with ``return_std`` also their standard deviation.

        The deviation is that of a new output; without ``noise``, that of the function behind it.
        """
        f = self._at(self._inputs(X))
        mean = self.y_mean_ + self.y_scale_ * np.mean(f.mean, axis=0)
        if not return_std:
            return mean
        # Of all draws together: the law of total variance.
        variance = np.mean(f.variance + noise * f.noise, axis=0) + np.var(f.mean, axis=0)
        return mean, self.y_scale_ * np.sqrt(variance)

    def log_predictive_density(self, X: Any, y: Any, error: Any = None) -> np.ndarray:
        """log p(y | data) of each output ``y [n]`` at inputs ``X [n, d]``, noise and known errors included."""
        f = self._at(self._inputs(X))
        new = Data.checked(np.zeros((f.mean.shape[1], 1)), y, error)
        z, s = (np.asarray(part) / self.y_scale_ for part in (new.y - self.y_mean_, new.error))
        densities = norm.logpdf(z, f.mean, np.sqrt(f.variance + f.noise + s**2))
        return np.asarray(logsumexp(densities, axis=0) - np.log(len(densities)) - np.log(self.y_scale_))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, noise: bool = True) -> np.ndarray:
        """Draws ``[n, n_samples]`` of outputs at inputs ``X [n, d]``, jointly; without ``noise``, of the function."""
        rows, count = self._inputs(X), as_count(n_samples)
        with naming("random_state"):
            rng = check_random_state(random_state)
        key = jax.random.key(int(rng.randint(np.iinfo(np.int32).max)))
        functions = [
            model.draw(self.data_, rows, key=jax.random.fold_in(key, i), num_samples=number)
            for i, (model, number) in enumerate(self._drawn_models(rng, count))
        ]
        draws = _finite(np.concatenate(functions))
        if noise:
            draws = draws + np.sqrt(np.mean(self._at(rows).noise, axis=0)) * rng.normal(size=draws.shape)
        return np.asarray(self.y_mean_ + self.y_scale_ * draws.T)

    def _drawn_models(self, rng: np.random.RandomState, count: int) -> Iterator[tuple[Any, int]]:
        """Models drawn from the posterior, and how many draws of the function each gives."""
        if self.posterior_ is None:
            yield self.model_, count
            return
        chains, length = self.posterior_.log_joint.shape
        places, numbers = np.unique(rng.randint(chains * length, size=count), return_counts=True)
        for place, number in zip(places, numbers, strict=True):
            yield self.posterior_.at(*divmod(int(place), length)), int(number)

    def decompose(self, X: Any, level: float = 0.9) -> Band:
        """The part ``[n, a]`` of the prediction that belongs to each of the a components, with a credible interval.

        The means add up to ``predict(X)`` less the mean of the outputs.
        """
        rows = self._inputs(X)
        function = _Parts(self.model_.ready(self.data_, rows), rows)
        f = self._of(function, MIXED)
        mean, deviation = np.mean(f.mean, axis=0), np.sqrt(np.mean(f.variance, axis=0) + np.var(f.mean, axis=0))
        reach = norm.ppf(0.5 + 0.5 * _checked(level)) * deviation
        return Band(*(part.T for part in (mean, mean - reach, mean + reach))).times(self.y_scale_)

    # Frequencies

    def instantaneous_frequency(self, X: Any, level: float = 0.9) -> Band:
        """The local frequency of every component at inputs ``X [n, d]``, in cycles per unit, with a credible interval.

        ``[n, a]`` for one input, with a components, and wavevectors ``[n, a, d]`` for several.
        """
        band = self._band(_Frequency(self._inputs(X)), level)
        return band.times(1.0 / (self.X_scale_ if self.n_features_in_ > 1 else self.X_scale_[0]))

    def spectrogram(self, X: Any, frequency: Any, *, axis: int | None = None, level: float = 0.9) -> Band:
        """The spectrogram ``[n, m]`` at inputs ``X [n, d]`` and frequencies in cycles per unit, with its interval.

        ``frequency`` is ``[m]`` for one input and wavevectors ``[m, d]`` for several, or ``[m]`` with an ``axis`` for
        the marginal along it. A two-sided density: its integral over all frequencies is the variance of the function.
        """
        rows, frequency = self._inputs(X), as_numbers(frequency, "frequency")
        scale = self.X_scale_ if axis is None else self.X_scale_[[axis]]
        inside = frequency * (scale if frequency.ndim > 1 else scale[0])
        return self._band(_Spectrogram(rows, inside, axis), level).times(self.y_scale_**2 * np.prod(scale))

    def _band(self, function: Any, level: float) -> Band:
        return Band.over(self._of(function, self.n_draws), _checked(level))

    # Files

    def save(self, path: FilePath) -> None:
        """Write the fitted estimator to a file that ``spectrogp.load`` reads; no code, no pickle."""
        check_is_fitted(self)
        save(path, self)

    # Inside

    def _inside(self, X: np.ndarray) -> np.ndarray:
        return (X - self.X_mean_) / self.X_scale_

    def _inputs(self, X: Any) -> np.ndarray:
        """Standardised inputs."""
        check_is_fitted(self)
        X, columns = numbers_of(X)
        with naming("X"):
            X = validate_data(self, X, dtype=np.float64, reset=False)
        times = np.isin(np.arange(X.shape[1]), columns)
        if np.any(times != self.times_):
            column = int(np.argmax(times != self.times_))
            kinds = ("times", "numbers") if self.times_[column] else ("numbers", "times")
            raise ValueError(f"column {column} of X held {kinds[0]} in fit, but holds {kinds[1]} now")
        return self._inside(X)

    def _at(self, X: np.ndarray) -> _Prediction:
        """What the model, or each draw of it, says at standardised inputs: ``[s, t]``.

        Programs are compiled for a number of rows, so inputs are filled up to one of few numbers.
        """
        rows = X[np.minimum(np.arange(_rounded(len(X))), len(X) - 1)]
        # What is found outside compiled programs, as neighbours are, is that of the optimum for all draws.
        values = self._of(_Predict(self.model_.ready(self.data_, rows), rows), MIXED)
        return jax.tree.map(lambda leaf: leaf[:, : len(X)], values)

    def _of(self, function: Any, most: int) -> Any:
        """``function(model)`` at so many draws, or at the optimum alone: ``[s, ...]``."""
        return jax.tree.map(_finite, at_draws(function, self.model_, self.posterior_, most))


# Functions of a model with raw parameters, as modules: calls of equal shapes share one compiled program.


class _Prediction(NamedTuple):
    """Mean and variance of the function, and the variance of the noise, ``[t]``."""

    mean: Array
    variance: Array
    noise: Array


class _Predict(eqx.Module):
    data: Any
    X: Any

    def __call__(self, model: Any) -> _Prediction:
        model, X = model.enter(), jnp.asarray(self.X)
        f = model.moments(self.data, X)
        scale = model.likelihood.scale_at(X, jnp.zeros(len(X)))
        return _Prediction(f.mean, f.variance, jnp.broadcast_to(scale**2, f.mean.shape))


class _Parts(eqx.Module):
    """Moments of every component's function, ``[a, t]``."""

    data: Any
    X: Any

    def __call__(self, model: Any) -> Moments:
        model, X = model.enter(), jnp.asarray(self.X)
        parts = jnp.arange(count_parts(model.kernel, X))
        moments: Moments = jax.lax.map(lambda a: part_moments(model, self.data, X, a), parts)
        return moments


class _Frequency(eqx.Module):
    X: Any

    def __call__(self, model: Any) -> Array:
        frequency = local_spectrum(model.enter().kernel, self.X).frequency
        # With one input the sign of a frequency says nothing.
        return frequency if self.X.shape[1] > 1 else jnp.abs(frequency[..., 0])


class _Spectrogram(eqx.Module):
    X: Any
    frequency: Any
    axis: int | None = eqx.field(static=True)

    def __call__(self, model: Any) -> Array:
        return spectrogram(model.enter().kernel, self.X, self.frequency, axis=self.axis)


def at_draws(function: Any, model: Any, posterior: Posterior | None, most: int) -> Any:
    """``function(model)`` at so many draws of a posterior, or at the model alone: ``[s, ...]``."""
    if posterior is None:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[None], _call(function, model))
    values = posterior.thinned(most).map(function)
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:]), values)


@entry_point
def _call(function: Any, model: Any) -> Any:
    return function(model)


def _checked(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return level


def _finite(values: np.ndarray) -> np.ndarray:
    """Values ``[s, n, ...]`` at n inputs, if the model has them: beyond all measure its formulas overflow."""
    wrong = ~np.isfinite(values)
    if np.any(wrong):
        row = int(np.argwhere(wrong)[0, 1])
        raise FloatingPointError(f"X lies too far from the inputs of fit for a finite answer, at row {row} first")
    return values


def _rounded(rows: int) -> int:
    """A power of two from 16 to the rows that models predict at once, or a multiple of these."""
    return max(16, 2 ** (rows - 1).bit_length()) if rows <= BLOCK else -(-rows // BLOCK) * BLOCK


# Units


def _standard(values: np.ndarray, name: str) -> tuple[Any, Any]:
    """Mean and standard deviation of every column; those of a constant one are its value and 1."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        # By its range, since rounding gives a constant column a tiny deviation, and a tiny one a deviation of zero.
        width = np.ptp(values, axis=0)
        deviation = np.where(width > 0, width * ((values - values[0]) / width).std(axis=0), 1.0)
        mean = np.where(width > 0, values.mean(axis=0), values[0])
        if not np.all(np.isfinite(mean) & np.isfinite(deviation**2)):
            raise ValueError(f"{name} has values too large for their variance to be a float64: scale them")
        if not np.all(np.isfinite(1.0 / deviation)):
            raise ValueError(f"{name} has values too close together for what lies between them: scale them")
    return mean[()], deviation[()]


def _in_own_units(start: Start, mean: np.ndarray, scale: np.ndarray, output: float) -> Start:
    """What was found in standardised data, for data of this mean and scale of the inputs and scale of the outputs."""
    spectrum = Spectrum(
        start.spectrum.frequency / scale, start.spectrum.bandwidth / scale, start.spectrum.amplitude * output
    )
    return dataclasses.replace(
        start,
        centres=mean + start.centres * scale,
        extent=mean + start.extent * scale,
        frequency=start.frequency / scale,
        band=start.band / scale,
        lengthscale=start.lengthscale * scale,
        smooth_lengthscale=start.smooth_lengthscale * scale,
        scale=start.scale * scale,
        amplitude=start.amplitude * output,
        noise=start.noise * output,
        spread=start.spread * output,
        spectrum=spectrum,
    )


# Data from the outside


def numbers_of(X: Any) -> tuple[Any, list[int]]:
    """X with its times as days since 1970, and in which columns these are."""
    refuse_masked(X, "X")
    if hasattr(X, "isetitem"):  # a data frame of pandas
        columns = [X.iloc[:, i] for i in range(X.shape[1])]
        times = [i for i, column in enumerate(columns) if _holds_times(column.dtype, column)]
        if times:
            X = X.copy()
            for i in times:
                X.isetitem(i, _days(columns[i].to_numpy("datetime64[us]")))
        return X, times
    if not isinstance(X, np.ndarray | list | tuple):
        return X, []
    with naming("X"):
        array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "MmO":
        return X, []
    times = [i for i, column in enumerate(array.T) if _holds_times(array.dtype, column)]
    if not times:
        return X, []
    columns = [_days(column.astype("datetime64[us]")) if i in times else column for i, column in enumerate(array.T)]
    return np.column_stack(columns), times


def _column_of(y: Any) -> np.ndarray:
    """Outputs as ``[n]``; a single column is flattened, with scikit-learn's warning."""
    refuse_masked(y, "y")
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    with naming("y"):
        numbers = check_array(y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="y")
        return np.asarray(column_or_1d(numbers, warn=True))


def _holds_times(dtype: Any, column: Any) -> bool:
    kind = getattr(dtype, "kind", "")
    if kind == "m":
        raise ValueError("X holds lengths of time: divide them by their unit, such as numpy.timedelta64(1, 'D')")
    return kind == "M" or (kind == "O" and len(column) > 0 and all(isinstance(value, date) for value in column))


def _days(times: np.ndarray) -> np.ndarray:
    """Days since 1970; a missing time is not a number."""
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / DAY)
