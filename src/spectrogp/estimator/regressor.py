"""The estimator: everything from rows of data to a fitted model, in scikit-learn's interface and the data's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core import as_level, as_numbers, at_least, naming
from ..files import FilePath, save
from ..kernels import AbstractKernel
from ..models import Data
from ..posterior import Band, LocalFrequency, Prediction, Spectrogram
from .fitting import Settings, fit
from .times import like, numbers_of, outputs_of
from .units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..plots import Report

MAX_DRAWS = 50  # that predictions average over: each costs as much as a prediction at the optimum


class SpectralGPRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian-process regression that learns how the frequency content of a signal changes over its inputs.

    Inputs and outputs are standardised inside; all that comes out is in the units that went in. Columns of times count
    in days since 1970 (UTC), so that frequencies are in cycles per day.

    Parameters
    ----------
    kernel : str or kernel object, default="auto"
        A name of ``spectrogp.choices.KERNELS``, started from what is found in the data: "se", "nsq", "sm", "gsm",
        "hmk", "convolutional", "chirplet" or "phase"; "auto" is "phase" for one input and "convolutional" for several.
        Or a kernel object, in the units of the data: then inputs stay as they are, and outputs are centred only.
    n_components : int or None, default=None
        How many components; None for as many as are significant, at most 4. Stationary kernels have at most so many.
    inference : str, default="laplace"
        All begin with the optimum of the log joint density. "map" ends there. "laplace" is a normal approximation of
        the posterior of all functions around it, at the hyperparameters of the optimum; it takes at most 300 gradients.
        "nuts" and "sghmc" (samplers) and "dsvi" (variational) take longer, and the samplers are the most exact.
        Predictions average over the posterior.
    approximation : str, default="auto"
        "exact", "sgpr", "svgp" (inducing points), "neighbours", or "full-scale" (both). "auto" is exact up to 2000 rows
        and neighbours with minibatches beyond; for a likelihood other than "gaussian" it is "svgp".
    random_state : int, RandomState or None, default=None
        Seed of everything random; the same integer gives the same result.
    likelihood : str, default="gaussian"
        "gaussian", or "student" for noise with outliers (Student-t with four degrees of freedom).
    max_iter : int, default=500
        Steps of Adam towards the optimum ("dsvi" takes three times as many for its bound).
    learning_rate : float, default=0.03
        Learning rate of Adam: the largest step, in logarithms of positive parameters.
    n_starts : int, default=8
        Initial values that are compared, at most, by the marginal likelihood after a few steps on at most 400 rows: what
        was found in the data, the same with smoother frequencies, with sudden changes, with components that cross where
        they seemed to turn, and, for the phase kernel where the data show little, what a chirplet kernel makes of it.
    n_knots : int, default=30
        Number of inducing inputs of each function of the kernel: how finely a function can change.
    n_inducing : int, default=100
        Number of inducing inputs of "sgpr", "svgp" and "full-scale".
    n_neighbours : int, default=20
        Number of neighbours of each row, of "neighbours" and "full-scale".
    n_draws : int, default=400
        Draws of the posterior, of all chains together.
    warmup : int, default=300
        Draws of each chain of a sampler before the first that is kept.
    chains : int, default=4
        Chains of a sampler.
    highest_frequency : float, array of shape [d] or None, default=None
        Where the search in the data ends, in cycles per unit; by default at the Nyquist frequency of the average spacing.
    verbose : bool, default=False
        Whether to show progress bars on stderr.

    Attributes
    ----------
    model_ : model
        The model at the optimum, in standardised units.
    data_ : Data or Neighbourhoods
        What it was fitted to, in standardised units.
    posterior_ : Posterior
        Draws of the model; after "map" a single one, the optimum.
    initial_values_ : InitialValues
        What was found in the data before the fit, in the units of the data; print it for a report.
    history_ : array of shape [n_iter_]
        The objective at every step to the optimum; ``n_iter_`` is their number.
    X_mean_, X_scale_, y_mean_, y_scale_ : arrays and numbers
        What inputs and outputs were standardised with.
    times_ : bool array of shape [d]
        Which columns of X held times.

    Examples
    --------
    >>> import spectrogp as sg
    >>> t, y, true = sg.datasets.signal("linear chirp", n=60)
    >>> model = sg.SpectralGPRegressor(inference="map", n_starts=1, n_knots=8, max_iter=100, random_state=0).fit(t, y)
    >>> mean, std = model.predict(t, return_std=True)
    >>> frequency = model.instantaneous_frequency(t).mean    # cycles per unit of t
    >>> frequency.shape
    (60, 1)
    """

    _stores_attributes = True  # so do model files

    def __init__(
        self,
        kernel: Any = "auto",
        n_components: int | None = None,
        inference: str = "laplace",
        approximation: str = "auto",
        random_state: Any = None,
        *,
        likelihood: str = "gaussian",
        max_iter: int = 500,
        learning_rate: float = 0.03,
        n_starts: int = 8,
        n_knots: int = 30,
        n_inducing: int = 100,
        n_neighbours: int = 20,
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
        self.likelihood = likelihood
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.n_starts = n_starts
        self.n_knots = n_knots
        self.n_inducing = n_inducing
        self.n_neighbours = n_neighbours
        self.n_draws = n_draws
        self.warmup = warmup
        self.chains = chains
        self.highest_frequency = highest_frequency
        self.verbose = verbose

    # Fitting

    def fit(self, X: Any, y: Any, error: Any = None) -> Self:
        """Fit to data.

        Parameters
        ----------
        X : array, data frame or list of shape [n, d], or [n] for one input
            Inputs: numbers or times.
        y : array of shape [n]
            Outputs.
        error : array of shape [n], number or None
            Known standard deviations of the outputs; the fitted noise is what there is beside them.

        Returns
        -------
        self
        """
        settings = Settings(**self.get_params(deep=False))
        numbers, times = numbers_of(X)
        with naming("X"):
            seen = type(self)()
            numbers = validate_data(seen, numbers, dtype=np.float64, ensure_min_samples=2)
        given = Data(numbers, outputs_of(y), error)
        units = Units.of(given, standardise=not isinstance(self.kernel, AbstractKernel))
        with naming("random_state"):
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        found = fit(settings, units.data(given), seed, units.X_scale)
        # Only now: a fit that fails leaves the estimator as it was.
        vars(self).pop("feature_names_in_", None)
        vars(self).update({name: value for name, value in vars(seen).items() if name.endswith("_in_")})
        self.times_ = np.isin(np.arange(numbers.shape[1]), times)
        self.X_mean_, self.X_scale_, self.y_mean_, self.y_scale_ = units
        self.model_, self.data_, self.posterior_, initial, self.history_ = found
        self.initial_values_ = initial.in_units(units.X_mean, units.X_scale, float(units.y_scale))
        self.n_iter_ = len(self.history_)
        return self

    # Prediction

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, *, noise: bool = True) -> Any:
        """Predict outputs.

        Parameters
        ----------
        X : array or data frame of shape [n, d], or [n] for one input
            Inputs, of the kind that was fitted.
        return_std : bool, default=False
            Whether to give their standard deviations too.
        return_cov : bool, default=False
            Whether to give their joint covariance too (one of the two).
        noise : bool, default=True
            Whether deviations and covariances are those of new outputs, or of the function behind them.

        Returns
        -------
        mean : array of shape [n]
        std : array of shape [n], with ``return_std``; or cov, of shape [n, n], with ``return_cov``
        """
        if return_std and return_cov:
            raise RuntimeError("ask for return_std or for return_cov, not for both")
        rows = self._inputs(X)
        prediction = self._predicted(rows)
        moments = prediction.output if noise else prediction.function
        mean = prediction.function.mean
        if return_cov:
            inside = self.posterior_.covariance(self.data_, rows, noise=noise, max_draws=MAX_DRAWS)
            return mean, self.y_scale_**2 * _finite(inside)
        return (mean, moments.std) if return_std else mean

    def log_predictive_density(self, X: Any, y: Any, error: Any = None) -> np.ndarray:
        """log p(y | data) of each output by itself, noise included.

        Parameters
        ----------
        X : array or data frame of shape [n, d], or [n] for one input
            Inputs.
        y : array of shape [n]
            Outputs.
        error : array of shape [n], number or None
            Known standard deviations of these outputs.

        Returns
        -------
        log_density : array of shape [n]
        """
        rows = self._inputs(X)
        new = Data(rows, y, error)
        return np.asarray(self._predicted(rows, new.error, new.y).log_density)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, noise: bool = True) -> np.ndarray:
        """Draw outputs, jointly over the inputs.

        Parameters
        ----------
        X : array or data frame of shape [n, d], or [n] for one input
            Inputs.
        n_samples : int, default=1
            How many draws.
        random_state : int, RandomState or None, default=0
            Seed.
        noise : bool, default=True
            Whether to draw outputs, or the function behind them.

        Returns
        -------
        draws : array of shape [n, n_samples]
        """
        rows = self._inputs(X)
        at_least(1, n_samples=n_samples)
        with naming("random_state"):
            rng = check_random_state(random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        draws = _finite(self.posterior_.draw(self.data_, rows, key=seed, num_samples=int(n_samples)))
        draws = self.y_mean_ + self.y_scale_ * draws
        if noise:
            output, function = self._predicted(rows).output, self._predicted(rows).function
            draws = draws + np.sqrt(output.variance - function.variance) * rng.normal(size=draws.shape)
        return np.asarray(draws.T)

    # Frequencies and components

    def decompose(self, X: Any, level: float = 0.9) -> Band:
        """The part of the prediction that belongs to each component.

        Parameters
        ----------
        X : array or data frame of shape [n, d], or [n] for one input
            Inputs.
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        band : Band
            Mean, lower and upper end, [n, a] each for a components; data frames where X is one. The means add up to
            ``predict(X)`` less the mean of the outputs.
        """
        rows = self._inputs(X)
        band = self.posterior_.components(self.data_, rows, as_level(level), max_draws=MAX_DRAWS)
        return self._labelled(X, band.map(lambda part: self.y_scale_ * _finite(part)))

    def instantaneous_frequency(self, X: Any, level: float = 0.9) -> Band:
        """The local frequency of every component.

        Parameters
        ----------
        X : array or data frame of shape [n, d], or [n] for one input
            Inputs.
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        band : Band
            Mean, lower and upper end in cycles per unit: [n, a] for one input, with a components (data frames where X is
            one), and wavevectors [n, a, d] for several. After ``inference="map"`` there is no interval.
        """
        rows = self._inputs(X)
        unit = self.X_scale_ if self.n_features_in_ > 1 else self.X_scale_[0]
        band = self.posterior_.band(LocalFrequency(rows), as_level(level), max_draws=self.n_draws)
        return self._labelled(X, band.map(lambda part: _finite(part) / unit))

    def spectrogram(self, X: Any, frequency: Any, *, axis: int | None = None, level: float = 0.9) -> Band:
        """The spectrogram: a two-sided density, whose integral over all frequencies is the variance of the function.

        Parameters
        ----------
        X : array or data frame of shape [n, d], or [n] for one input
            Inputs.
        frequency : array of shape [m], or wavevectors [m, d] for several inputs
            Frequencies in cycles per unit.
        axis : int or None
            With ``frequency`` [m], for several inputs: the marginal along this one.
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        band : Band
            Mean, lower and upper end, [n, m] each.
        """
        rows, frequency = self._inputs(X), as_numbers(frequency, "frequency")
        scale = self.X_scale_ if axis is None else self.X_scale_[[axis]]
        inside = frequency * (scale if frequency.ndim > 1 else scale[0])
        band = self.posterior_.band(Spectrogram(rows, inside, axis), as_level(level), max_draws=self.n_draws)
        return band.map(lambda part: _finite(part) * self.y_scale_**2 * np.prod(scale))

    # Reports

    def report(self, X: Any = None, y: Any = None, error: Any = None, *, names: Any = None) -> Report:
        """Everything that figures and summaries show, evaluated once.

        Parameters
        ----------
        X, y, error : as in ``fit``
            Data to compare with; those of the fit when left out.
        names : tuple of str or None
            What the inputs and then the output are called.

        Returns
        -------
        report : Report
            For ``spectrogp.plots.overview`` and ``summary``.
        """
        from .reporting import report

        check_is_fitted(self)
        return report(self, X, y, error, names)

    def plot(self, panel: str = "overview", *, ax: Axes | None = None) -> Figure | Axes:
        """Draw the fit.

        Parameters
        ----------
        panel : str, default="overview"
            "overview" for one figure of everything; or one of "fit", "spectrogram", "frequency", "periodogram",
            "amplitude" and "lengthscale".
        ax : matplotlib axes or None
            Where a panel is drawn; in a figure of its own when left out.

        Returns
        -------
        figure or axes
        """
        from matplotlib.figure import Figure

        from ..plots import draw_panel, overview

        if panel == "overview":
            if ax is not None:
                raise ValueError("an overview is a figure of its own: name a panel to be drawn into ax")
            return overview(self.report())
        axes = Figure(figsize=(5.0, 3.2), layout="constrained").subplots() if ax is None else ax
        draw_panel(panel, self.report(), axes)
        return axes.figure if ax is None else axes

    def summary(self) -> str:
        """The fitted parameters: names, values, priors and roles, in standardised units; print it."""
        from ..parameters import summary

        check_is_fitted(self)
        return f"{self.initial_values_}\n\n{summary(self.model_)}"

    # Files

    def save(self, path: FilePath) -> None:
        """Write the fitted estimator to a file that ``spectrogp.load`` reads; no code, no pickle.

        Parameters
        ----------
        path : str or path
            The file to write.
        """
        check_is_fitted(self)
        save(path, self)

    # Inside

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def _units(self) -> Units:
        return Units(self.X_mean_, self.X_scale_, self.y_mean_, self.y_scale_)

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
        return self._units.inputs(X)

    def _predicted(self, rows: np.ndarray, error: Any = 0.0, y: Any = None) -> Prediction:
        """Predictions at standardised inputs, in the units of the data; ``error`` and ``y`` are in these too."""
        inside = self.posterior_.outputs(
            self.data_,
            rows,
            np.asarray(error) / self.y_scale_,
            y=None if y is None else (np.asarray(y) - self.y_mean_) / self.y_scale_,
            max_draws=MAX_DRAWS,
        )
        _finite(inside.output.variance + inside.output.mean)
        return self._units.prediction(inside)

    def _labelled(self, X: Any, band: Band) -> Band:
        if band.mean.ndim != 2:
            return band
        names = [f"component {a + 1}" for a in range(band.mean.shape[1])]
        return band.map(lambda part: like(X, part, names))


def _finite(values: Any) -> Any:
    """Values ``[n, ...]`` at n inputs, if the model has them: beyond all measure its formulas overflow."""
    wrong = ~np.isfinite(values)
    if np.any(wrong):
        row = int(np.argwhere(wrong)[0, 0])
        raise FloatingPointError(f"X lies too far from the inputs of fit for a finite answer, at row {row} first")
    return values
