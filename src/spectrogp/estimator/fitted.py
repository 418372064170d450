"""What a fitted estimator can be asked, in the units of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core import as_level, as_numbers, at_least, naming
from ..files import FilePath, save
from ..models import Data
from ..parameters import summary
from ..posterior import Band, Posterior, Spectrogram
from .amplitudes import AmplitudesMixin
from .beyond import finite, say_if_far
from .categories import Levels
from .channels import ChannelsMixin, by_channel
from .diagnosing import DiagnosisMixin
from .inside import InsideMixin
from .reporting import averaged_over, oscillations, report, said_of_blocks, said_of_transform
from .settings import DEFAULT_DRAWS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..initialise import InitialValues
    from ..plots import Report
    from .choice import Choice


class FittedMixin(InsideMixin, ChannelsMixin, DiagnosisMixin, AmplitudesMixin):
    """Predictions, frequencies, amplitudes, components, reports and files of a fitted estimator."""

    n_features_in_: int
    n_draws: int | None
    categories_: Levels
    model_: Any
    data_: Any
    posterior_: Posterior
    initial_values_: InitialValues
    choice_: Choice | None
    diagnostics_: dict[str, Any]
    warnings_: list[str]
    X_scale_: np.ndarray
    y_mean_: Any
    y_scale_: Any

    # Prediction

    @by_channel
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noise: bool = True,
        interval: float | None = None,
    ) -> Any:
        """Predict outputs.

        Beyond the data amplitudes, frequencies and lengthscales return to those that are typical, a trend goes on
        as a slope, and the bands grow; farther out than the data are long a warning says so.

        Parameters
        ----------
        X : array or data frame of shape [n, d], or [n] for one input
            Inputs, of the kind that was fitted.
        return_std : bool, default=False
            Whether to give their standard deviations too.
        return_cov : bool, default=False
            Whether to give their joint covariance too (one of the two).
        noise : bool, default=True
            Whether answers are those of new outputs, or of the function behind them. With logarithms
            (``target_transform``) that is the median of outputs, given the function: e to the power of what was fitted.
        interval : float or None
            Probability of a central interval whose ends are given too. They are quantiles of the mixture over all
            draws: 1.645 deviations from the mean are 90 % of a normal distribution only.

        Returns
        -------
        mean : array of shape [n], or [n, c] for c channels
        std : array of the same shape, with ``return_std``; or cov, of shape [n, n] or [n, n, c], with ``return_cov``
        lower, upper : arrays of the same shape, with ``interval``
        """
        if return_std and return_cov:
            raise RuntimeError("ask for return_std or for return_cov, not for both")
        rows, units = self._inputs(X), self._units
        level = None if interval is None else as_level(interval)
        inside = self._inside(rows, level=level, exponent=units.exponent)  # refuses what lies too far for any answer
        # Rows that are conditioned on neighbours are held by their neighbourhoods.
        say_if_far(rows, np.asarray(getattr(self.data_, "data", self.data_).X))
        (shift, factor), moments = units.linear, inside.output if noise else inside.function
        answer = [shift + factor * moments.mean]
        if return_cov:
            draws = averaged_over(self, len(rows))
            covariance = self._predictive.covariance(
                self.data_, rows, noise=noise, exponent=units.exponent, max_draws=draws
            )
            answer.append(factor**2 * finite(covariance))
        if return_std:  # the deviation is scaled, not the variance: that of tiny outputs would be zero
            answer.append(factor * moments.std)
        if inside.bands is not None:
            answer += [units.told(end) for end in inside.bands[int(noise)][1:]]
        return tuple(answer) if len(answer) > 1 else answer[0]

    def log_predictive_density(self, X: Any, y: Any, error: Any = None) -> np.ndarray:
        """log p(y | data) of each output by itself, noise included.

        Parameters
        ----------
        X : array or data frame of shape [n, d], or [n] for one input
            Inputs.
        y : array of shape [n], or [n, c] for c channels
            Outputs.
        error : array of shape [n] or [n, c], number or None
            Known standard deviations of these outputs.

        Returns
        -------
        log_density : array of the shape of y
        """
        check_is_fitted(self)
        if self.n_channels_:
            y = as_numbers(y, "y")
            if y.shape[1:] != (self.n_channels_,):
                raise ValueError(f"y must have shape [n, {self.n_channels_}], got {list(y.shape)}")
            error = np.broadcast_to(0.0 if error is None else np.asarray(error, float), y.shape)
            columns = range(self.n_channels_)
            parts = [self.channel(k).log_predictive_density(X, y[:, k], error[:, k]) for k in columns]
            return np.stack(parts, axis=-1)
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
        draws : array of shape [n, n_samples], or [n, c, n_samples] for c channels
        """
        rows = self._inputs(X)
        at_least(1, n_samples=n_samples)
        with naming("random_state"):
            rng = check_random_state(random_state)
        if self.n_channels_:
            draws = finite(self._draw_channels(rows, int(n_samples), rng))
            if noise:
                parts = [self.channel(k)._inside(rows) for k in range(self.n_channels_)]
                variance = [part.output.variance - part.function.variance for part in parts]
                draws = draws + np.sqrt(np.stack(variance, axis=-1)) * rng.normal(size=draws.shape)
            return np.moveaxis(self._units.told(draws), 0, -1)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        draws = finite(self._predictive.draw(self.data_, rows, key=seed, num_samples=int(n_samples)))
        if noise:
            inside = self._inside(rows)
            draws = draws + np.sqrt(inside.output.variance - inside.function.variance) * rng.normal(size=draws.shape)
        return np.asarray(finite(self._units.told(draws.T)))

    # Frequencies and components

    @by_channel
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
            Mean, lower and upper end, [n, a] each for a components, of which the background (a trend, red noise, their
            sum) is the last if there is one; data frames where X is one; [n, a, c] for c channels. The means add up to
            ``predict(X)`` less the mean of the outputs. With logarithms (``target_transform``) they are
            the factors by which components multiply outputs: geometric means, whose product times exp(``y_mean_``) is
            the geometric mean of the function.
        """
        rows = self._inputs(X)
        band = self._predictive.components(self.data_, rows, as_level(level), max_draws=averaged_over(self, len(rows)))
        return self._labelled(X, band.map(lambda part: self._units.factors(finite(part))))

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
            it is [n, 0]. After ``inference="map"`` there is no interval. Several channels have the same frequencies.
        """
        rows = self._inputs(X)
        unit = self.X_scale_ if len(self.X_scale_) > 1 else self.X_scale_[0]
        band = self.posterior_.local_frequency(rows, as_level(level), max_draws=self.posterior_.log_joint.size)
        count = oscillations(self.model_)
        return self._labelled(X, band.map(lambda part: finite(part)[:, :count] / unit))

    @by_channel
    def spectrogram(self, X: Any, frequency: Any, *, axis: int | None = None, level: float = 0.9) -> Band:
        """The spectrogram: a two-sided density, whose integral over all frequencies is the variance of the function.

        With logarithms (``target_transform``) that of these: relative, and without a unit.

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
            Mean, lower and upper end, [n, m] each, or [n, m, c] for c channels.
        """
        rows, frequency = self._inputs(X), as_numbers(frequency, "frequency")
        scale = self.X_scale_ if axis is None else self.X_scale_[[axis]]
        inside = frequency * (scale if frequency.ndim > 1 else scale[0])
        draws = self.n_draws or DEFAULT_DRAWS  # each holds a value for every pair of row and frequency
        band = self.posterior_.band(Spectrogram(rows, inside, axis), as_level(level), max_draws=draws)
        return band.map(lambda part: finite(part) * self.y_scale_**2 * np.prod(scale))

    # Reports

    def report(
        self,
        X: Any = None,
        y: Any = None,
        error: Any = None,
        *,
        names: Any = None,
        level: float = 0.9,
        unit: str | None = None,
        resolution: int | None = None,
    ) -> Report:
        """Everything that figures and summaries show, evaluated once.

        Parameters
        ----------
        X, y, error : as in ``fit``
            Data to compare with; those of the fit when left out.
        names : tuple of str or None
            What the inputs and then the output are called.
        level : float, default=0.9
            Probability of all credible intervals.
        unit : str or None
            Of inputs that are times, and of their frequencies: "year" (365.25 days), "day", "hour", "minute" or "s";
            by default one that suits the span of the data.
        resolution : int or None
            Number of inputs at which functions are shown; by default as many as the cycles need, 400 to 1200.

        Returns
        -------
        report : Report
            For ``spectrogp.plots.overview`` and ``summary``.
        """
        check_is_fitted(self)
        self._require_one_channel("report")
        return report(self, X, y, error, names, level=level, unit=unit, resolution=resolution)

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
        check_is_fitted(self)
        self._require_one_channel("plot")
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
        """What was found, warnings, scores of rows left out, all parameters (standardised), what draws are worth."""
        check_is_fitted(self)
        told = said_of_transform(self.diagnostics_)
        parts = [*([told] if told else []), self.initial_values_, *([] if self.choice_ is None else [self.choice_])]
        if self.warnings_:
            parts.append("\n".join(f"warning: {sentence}" for sentence in self.warnings_))
        if "block_out" in self.diagnostics_:
            parts.append(said_of_blocks(self.diagnostics_["block_out"]))
        parts.append(summary(self.model_))
        if self.posterior_.statistics:
            parts.append(self.diagnostics())
        if self.diagnostics_.get("predictions") == "optimum" and self.posterior_.log_joint.size > 1:
            over = "those of the optimum" if self.averaged_ is None else "averaged over the last optima of the fit"
            parts.append(f"predictions are {over}; bands of functions are those of the draws")
        return "\n\n".join(map(str, parts))

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
