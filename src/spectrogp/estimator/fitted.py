"""What a fitted estimator can be asked, in the units of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core import as_level, as_numbers, at_least, naming
from ..files import FilePath, save
from ..models import Data
from ..parameters import summary
from ..posterior import Band, Posterior, Prediction, Spectrogram
from .reporting import MAX_DRAWS, oscillations, report
from .times import like, numbers_of
from .units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..initialise import InitialValues
    from ..plots import Report


class FittedMixin:
    """Predictions, frequencies, components, reports and files of a fitted estimator."""

    n_draws: int
    n_features_in_: int
    model_: Any
    data_: Any
    posterior_: Posterior
    initial_values_: InitialValues
    warnings_: list[str]
    times_: np.ndarray
    X_origin_: tuple[Any, ...]
    X_mean_: np.ndarray
    X_scale_: np.ndarray
    y_mean_: np.float64
    y_scale_: np.float64

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
        inside = self._inside(rows)
        mean = self.y_mean_ + self.y_scale_ * inside.function.mean
        if return_cov:
            covariance = self.posterior_.covariance(self.data_, rows, noise=noise, max_draws=MAX_DRAWS)
            return mean, self.y_scale_**2 * _finite(covariance)
        # The deviation is scaled, not the variance: that of tiny outputs would be zero.
        return (mean, self.y_scale_ * (inside.output if noise else inside.function).std) if return_std else mean

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
        if noise:
            inside = self._inside(rows)
            draws = draws + np.sqrt(inside.output.variance - inside.function.variance) * rng.normal(size=draws.shape)
        return np.asarray(self.y_mean_ + self.y_scale_ * draws.T)

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
            Mean, lower and upper end, [n, a] each for a components, those of the background (a trend, red noise) the
            last; data frames where X is one. The means add up to ``predict(X)`` less the mean of the outputs.
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
            Mean, lower and upper end in cycles per unit: [n, a] for one input, with a components (data frames where X
            is one), and wavevectors [n, a, d] for several. A background has none: of data in which nothing oscillates
            it is [n, 0]. After ``inference="map"`` there is no interval.
        """
        rows = self._inputs(X)
        unit = self.X_scale_ if self.n_features_in_ > 1 else self.X_scale_[0]
        band = self.posterior_.local_frequency(rows, as_level(level), max_draws=self.n_draws)
        count = oscillations(self.model_)
        return self._labelled(X, band.map(lambda part: _finite(part)[:, :count] / unit))

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
        check_is_fitted(self)
        return report(self, X, y, error, names)

    def plot(self, panel: str = "overview", *, ax: Axes | None = None) -> Any:
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
        if ax is not None:
            draw_panel(panel, self.report(), ax)
            return ax
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        draw_panel(panel, self.report(), figure.subplots())
        return figure

    def summary(self) -> str:
        """What was found, warnings, and all parameters: values, priors and roles, in standardised units; print it."""
        check_is_fitted(self)
        said = "".join(f"warning: {sentence}\n" for sentence in self.warnings_)
        return f"{self.initial_values_}\n{said}\n{summary(self.model_)}"

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
        X, columns, _ = numbers_of(X, self.X_origin_, single=self.n_features_in_ == 1)
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
        return self._units.prediction(self._inside(rows, error, y))

    def _inside(self, rows: np.ndarray, error: Any = 0.0, y: Any = None) -> Prediction:
        """The same in standardised units."""
        inside = self.posterior_.outputs(
            self.data_,
            rows,
            np.asarray(error) / self.y_scale_,
            y=None if y is None else (np.asarray(y) - self.y_mean_) / self.y_scale_,
            max_draws=MAX_DRAWS,
        )
        _finite(inside.output.variance + inside.output.mean)
        return inside

    def _labelled(self, X: Any, band: Band) -> Band:
        if band.mean.ndim != 2:
            return band
        count = oscillations(self.model_)
        names = ["background" if count is not None and a >= count else "component" for a in range(band.mean.shape[1])]
        names = [f"{name} {a + 1 - (count or 0) * (name == 'background')}" for a, name in enumerate(names)]
        return band.map(lambda part: like(X, part, names))


def _finite(values: Any) -> Any:
    """Values ``[n, ...]`` at n inputs, if the model has them: beyond all measure its formulas overflow."""
    wrong = ~np.isfinite(values)
    if np.any(wrong):
        row = int(np.argwhere(wrong)[0, 0])
        raise FloatingPointError(f"X lies too far from the inputs of fit for a finite answer, at row {row} first")
    return values
