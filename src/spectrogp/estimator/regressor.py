"""The estimator: everything from rows of data to a fitted model, in scikit-learn's interface and the data's units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ..core import cache_by_default, naming
from ..files import FilePath
from ..initialise import InitialValues
from ..kernels import AbstractKernel
from ..models import channels_of
from .categories import Levels, categories_of, names_with_levels, with_zeros_and_ones
from .fitted import FittedMixin
from .fitting import Fitted, fit, fit_channels
from .rows import complete_rows, names_for, separated
from .settings import Settings
from .times import numbers_of, outputs_of, warn_of_rounding
from .transforming import fit_transformed
from .units import Shown, Units, shown_along, standard


class SpectralGPRegressor(FittedMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian-process regression that learns how the frequency content of a signal changes over its inputs.

    Inputs and outputs are standardised inside; all that comes out is in the units that went in. Columns of times count
    in days since 1970 (UTC), so that frequencies are in cycles per day; reports and figures choose a unit that suits
    the span. Integers beyond 2⁵³ and times that are close together, which would lose digits as floats, are counted from
    their first (``X_origin_``).

    Parameters
    ----------
    kernel : str or kernel object, default="auto"
        A name of ``spectrogp.choices.KERNELS``, started from what is found in the data, as "phase" or "sm"; "auto" is
        "matern" for one input ("phase", if the likelihood or inference is one that it has not). For several inputs
        it climbs a ladder, each rung kept only if it predicts held-out training rows better beyond a standard error:
        a squared exponential, cycles along single inputs, noise that is a function of the input, lengthscales,
        frequencies and amplitudes that are (``choice_``). It is "convolutional" for fewer than 100 rows, and for other
        likelihoods, inferences and approximations than Gaussian, "laplace" or "map", exact or neighbours.
        Or a kernel object, in the units of the data: then inputs stay as they are, and outputs are centred only.
    n_components : int or None, default=None
        How many components; None for as many as are significant, at most 4, or none: then the model is a background of
        trend, red noise and white noise. Stationary kernels have at most so many.
    inference : str, default="laplace"
        All begin with the optimum of the log joint density. "map" ends there. "laplace" is a normal approximation of
        the posterior of all functions around it, at the hyperparameters of the optimum: by its curvature, with at most
        300 gradients, or for several inputs and for neighbours by the Fisher information of the rows. Predictions of
        more than 2000 rows with neighbours are those of the optimum, or averaged over those of the last stages of the
        fit (``averaged_``) where the model is chosen from the data; bands of functions are always those of the draws.
        "nuts" and "sghmc" (samplers) and "dsvi" (variational) take longer, and the samplers are the most exact.
        Predictions average over the posterior.
    approximation : str, default="auto"
        "exact", "sgpr", "svgp" (inducing points), "neighbours", "full-scale" (both), or "markov", exact for the kernel
        "matern" of one input in time that grows as the number of rows. "auto" is that for this kernel; for others it
        is exact up to 2000 rows and neighbours with minibatches beyond; for a likelihood other than "gaussian" it is
        "svgp".
    random_state : int, RandomState or None, default=None
        Seed of everything random; the same integer gives the same result.
    likelihood : str, default="gaussian"
        "gaussian", or "student" for noise with outliers (Student-t with four degrees of freedom).
    max_iter : int, default=500
        Steps of Adam towards the optimum, at most, of each rung of a ladder; these end once held-out rows are
        predicted no better. "dsvi" takes three times as many for its bound. "markov" takes few steps of
        Newton's method instead, until one promises nothing more.
    learning_rate : float, default=0.03
        Learning rate of Adam: the largest step, in logarithms of positive parameters.
    n_starts : int, default=8
        Initial values that are compared, at most, by the marginal likelihood after a few steps on at most 400 rows:
        what was found in the data, the same with smoother frequencies, with sudden changes, with components that cross
        where they seemed to turn, and, for the phase kernel where the data show little, what a chirplet kernel makes of
        it. "markov" compares them on all rows; those of long records are what windows of other widths found.
    n_knots : int, default=30
        Number of inducing inputs of each function of the kernel: how finely a function can change. "markov" has as many
        as its functions, whose smoothness it chooses, need; a ladder of several inputs up to 100, where rows are many
        and inputs few.
    n_inducing : int, default=100
        Number of inducing inputs of "sgpr", "svgp" and "full-scale".
    n_neighbours : int, default=20
        Number of neighbours of each row, of "neighbours" and "full-scale". A ladder takes up to four times as many for
        predictions, if that predicts held-out rows better.
    n_draws : int or None, default=None
        Draws of the posterior, of all chains together: 400 when left out, and up to 1,600 for few rows of one input,
        where each costs little.
    warmup : int, default=300
        Draws of each chain of a sampler before the first that is kept.
    chains : int, default=4
        Chains of a sampler.
    highest_frequency : float, array of shape [d] or None, default=None
        Where the search in the data ends, in cycles per unit; by default at the Nyquist frequency of the inputs. That
        of uneven ones lies far above that of their closer spacings: ten times as high is looked.
    target_transform : str, default="auto"
        "none" fits outputs as they are, "log" their logarithms: what goes up and down is then a share of the level, as
        of sales or passengers that grow, and components multiply. "auto" takes logarithms of positive outputs along one
        input where what goes up and down grows with the level, and the density of the outputs is larger by ten nats.
        Predictions, scores and figures are in the units of the outputs in any case; amplitudes, noise and
        spectrograms are those of the logarithms: shares of the level. Error bars of logarithms are relative ones.
    verbose : bool, default=False
        Whether to show progress bars on stderr.

    Attributes
    ----------
    model_ : model
        The model at the optimum, in standardised units.
    data_ : Data or Neighbourhoods
        What it was fitted to, in standardised units; of several channels a tuple of these.
    posterior_ : Posterior
        Draws of the model; after "map" a single one, the optimum.
    averaged_ : Posterior or None
        Optima of the last stages of a fit to more than 2000 rows of several inputs, which predictions are averaged over
        where they are not averaged over the draws.
    initial_values_ : InitialValues
        What was found in the data before the fit, in the units of the data; print it for a report.
    history_ : array of shape [n_iter_]
        The objective at every step to the optimum; ``n_iter_`` is their number.
    choice_ : Choice or None
        What a ladder of models tried for several inputs: scores of held-out rows, seconds, what was kept, the cycles
        that were found; None where there was no ladder.
    diagnostics_ : dict
        What happened on the way: the approximation used, whether predictions mix over draws or are those of the
        optimum, rows fitted to and compared on, why starts failed ("starts_failed"), the jitter that covariances needed
        as a share of their variance, which stages ended before they were done ("cut_short"), and how many rows were
        left out for missing values ("rows_left_out"). For "markov", how rows are predicted that were left out in blocks
        ("block_out"): the share inside 90 % intervals, and R², as it is and as the model expects it. "target_transform"
        is "log" where logarithms of the outputs were fitted, else "none"; where both were tried "log_gain" is by how
        many nats the logarithms are likelier.
    warnings_ : list of str
        What a referee would ask about this fit, with a remedy: nothing significant, an ambiguity of aliases, a line
        that is left over, a component that explains nothing or is hardly known, poor predictions of blocks that were
        left out. Empty where there is nothing to say, and for approximations other than "markov".
    names_ : tuple of str, of length d + 1
        What the inputs and the output are called in figures: as a data frame or series has it, or plainly.
    categories_ : tuple
        The words of each column of a data frame that holds categories, None for the others; empty where none does.
        Each word is a column of zeros and ones, to be counted in d and called "column=word" in ``names_``. Words that
        are not among them are zero in all columns when they are predicted, with a warning.
    X_mean_, X_scale_, y_mean_, y_scale_ : arrays and numbers
        What inputs and outputs were standardised with; for "markov" ``y_mean_`` is the fitted offset of the signal.
        Of several channels ``y_mean_`` and ``y_scale_`` have one number for each; of logarithms they are theirs.
    times_ : bool array of shape [d]
        Which columns of X held times.
    X_origin_ : tuple of int or datetime64, of length d
        What was subtracted from each column before it became a float, where digits would have been lost; else 0.
        ``X_mean_`` and the places in ``initial_values_`` count from there.

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
        n_draws: int | None = None,
        warmup: int = 300,
        chains: int = 4,
        highest_frequency: Any = None,
        target_transform: str = "auto",
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
        self.target_transform = target_transform
        self.verbose = verbose

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        error: Any = None,
        *,
        names: Sequence[str] | None = None,
        unit: str | None = None,
        checkpoint: FilePath | None = None,
        on_found: Callable[[InitialValues], Any] | None = None,
    ) -> Self:
        """Fit to data; rows with missing values (NaN, NaT, masked) are left out, with a warning.

        Parameters
        ----------
        X : array, data frame or list of shape [n, d], or [n] for one input
            Inputs: numbers or times; in a data frame also categories (words, or the type "category"), which become a
            column of zeros and ones for each of their words, up to 50 (``categories_``). Without ``y``, a series of
            pandas or an array of xarray with one dimension: its index is the input, and its values are the outputs.
        y : array of shape [n], or [n, c] for c channels along one input, or None
            Outputs. Channels have frequencies and lengthscales of their envelopes in common, and amplitudes, phases,
            noise and offsets of their own; one has no output where its value is not a number.
        error : array of shape [n] or [n, c], number or None
            Known standard deviations of the outputs; the fitted noise is what there is beside them.
        names : sequence of str or None
            What the inputs and then the output are called; by default as their containers say.
        unit : str or None
            In which warnings tell frequencies along inputs that are times: "year" (365.25 days), "day", "hour",
            "minute" or "s"; by default one that suits the span of the data.
        checkpoint : str, path or None
            What files begin with (NAME.optimum, NAME.posterior) from which an interrupted fit, called again with the
            same data, settings and integer ``random_state``, goes on, with the same result bit for bit; they are
            removed when it is done. The Laplace approximation has none: it takes less than what comes before it; nor
            has a ladder of models, which begins again.
        on_found : callable or None
            Called with what was found in the data, as ``initial_values_`` has it, before the long part of the fit; not
            again where logarithms of the outputs are tried after it.

        Returns
        -------
        self
        """
        settings = Settings(**self.get_params(deep=False))
        given_X, y, *called = separated(X, y)
        categories = categories_of(given_X)
        numbers, times, origins = numbers_of(with_zeros_and_ones(given_X, categories))
        if any(origins) and isinstance(self.kernel, AbstractKernel):
            raise ValueError(
                "X has integers or times that lose digits as floats, and the kernel counts them from zero: subtract a "
                "reference from X, and from the inputs inside the kernel"
            )
        with naming("X"):
            seen = type(self)()
            numbers = validate_data(
                seen, numbers, dtype=np.float64, ensure_min_samples=2, ensure_all_finite="allow-nan"
            )
            known_as = _names_of(seen, called, names, categories)
            if categories:  # of which the columns are counted that were given
                validate_data(seen, given_X, skip_check_array=True)
        numbers, outputs, error, left_out = complete_rows(numbers, outputs_of(y), error)
        several = outputs.ndim == 2
        if several:
            settings.require_channels()
        given = channels_of(numbers, outputs, error)
        if not several:
            settings.require_logarithms(outputs, numbers.shape[1])
        standard(numbers, "X")  # what lies too close together for a variance is refused, and not warned of
        warn_of_rounding(numbers, np.ptp(numbers, axis=0) / (len(numbers) - 1), "X")
        for part in given:
            warn_of_rounding(np.asarray(part.y), 0.25 * np.ptp(part.y), "y")
        with naming("random_state"):
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

        cache_by_default()
        # Inputs without a name are counted in units.
        named = names is not None or known_as[0] not in ("x", "x1")
        span = float(np.ptp(numbers[:, 0]))

        def shown_in(units: Units) -> Shown:
            name, asked = known_as[0] if named else "unit", unit if 0 in times or not times else None
            return shown_along(name, 0 in times, span, units, asked)

        def announce(units: Units, *, again: bool = False) -> Callable[[InitialValues], None]:
            def say(initial: InitialValues) -> None:
                if on_found is not None and not again:
                    on_found(initial.in_units(units.X_mean, units.X_scale, units.y_scale))

            return say

        if several:
            units = Units.of_channels(numbers, given)
            bars = np.full(outputs.shape, np.nan)
            for k, part in enumerate(given):
                bars[np.isfinite(outputs[:, k]), k] = units.channel(k).data(part).error
            inside = (outputs - units.y_mean) / units.y_scale
            shown = shown_in(units)
            found = fit_channels(
                settings, units.inputs(numbers), inside, bars, seed, units.X_scale, shown, announce(units)
            )
        else:

            def fitted(units: Units, again: bool) -> Fitted:
                place = f"{checkpoint}.log" if again and checkpoint is not None else checkpoint
                inside, say = units.data(given[0]), announce(units, again=again)
                return fit(settings, inside, seed, units.X_scale, shown_in(units), place, say)

            found, units = fit_transformed(settings, given[0], not isinstance(self.kernel, AbstractKernel), fitted)
        # Only now: a fit that fails leaves the estimator as it was.
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(seen, name):
                setattr(self, name, getattr(seen, name))
        self.times_ = np.isin(np.arange(numbers.shape[1]), times)
        self.categories_ = categories
        self.X_origin_ = origins or (0,) * numbers.shape[1]
        self.X_mean_, self.X_scale_, self.y_mean_, self.y_scale_ = units[:4]
        self.model_, self.data_, self.posterior_, initial, self.history_, self.diagnostics_ = found[:6]
        offset, choice, said, self.averaged_ = found[6:10]
        self.warnings_ = list(said)
        self.y_mean_ = (self.y_mean_ + self.y_scale_ * offset)[()]
        self.initial_values_ = initial.in_units(units.X_mean, units.X_scale, units.y_scale)
        self.choice_ = None if choice is None else choice.in_units(units.X_scale, known_as[:-1])
        self.n_iter_ = len(self.history_)
        self.diagnostics_ |= {"rows_left_out": left_out, "target_transform": "log" if units.log else "none"}
        self.names_ = known_as
        return self


def _names_of(
    seen: Any, called: Sequence[str | None], names: Sequence[str] | None, categories: Levels
) -> tuple[str, ...]:
    """What inputs and output are called, in ``names`` or by those who gave them, of an estimator that has seen them."""
    count = seen.n_features_in_
    if names is None:
        return names_for(count, getattr(seen, "feature_names_in_", None), called)
    given = len(categories) or count
    if len(names) != given + 1:
        raise ValueError(f"names must be those of {given} inputs and of the output, got {len(names)}: {list(names)}")
    *inputs, output = map(str, names)
    return (*names_with_levels(tuple(inputs), categories), output)
