"""A fitted estimator in standardised units, in which its model lives."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import naming
from ..posterior import Band, Posterior, Prediction
from .beyond import finite
from .categories import checked_as_fitted, numbers_as_fitted
from .reporting import averaged_over, oscillations
from .times import like
from .units import Units


class InsideMixin:
    """Inputs, outputs and predictions in standardised units, and from them."""

    n_features_in_: int
    model_: Any
    data_: Any
    posterior_: Posterior
    averaged_: Posterior | None
    diagnostics_: dict[str, Any]
    times_: np.ndarray
    X_origin_: tuple[Any, ...]
    X_mean_: np.ndarray
    X_scale_: np.ndarray
    y_mean_: Any
    y_scale_: Any

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def _predictive(self) -> Posterior:
        """What predictions mix over: the draws, or the optimum, of several fits if there are some."""
        if self.diagnostics_.get("predictions") != "optimum":
            return self.posterior_
        return Posterior.at_point(self.model_) if self.averaged_ is None else self.averaged_

    @property
    def _units(self) -> Units:
        log = self.diagnostics_.get("target_transform") == "log"
        return Units(self.X_mean_, self.X_scale_, self.y_mean_, self.y_scale_, log)

    def _inputs(self, X: Any) -> np.ndarray:
        """Standardised inputs."""
        check_is_fitted(self)
        X, columns, _ = numbers_as_fitted(self, X)
        with naming("X"):
            X = checked_as_fitted(self, X)
        times = np.isin(np.arange(X.shape[1]), columns)
        if np.any(times != self.times_):
            column = int(np.argmax(times != self.times_))
            kinds = ("times", "numbers") if self.times_[column] else ("numbers", "times")
            raise ValueError(f"column {column} of X held {kinds[0]} in fit, but holds {kinds[1]} now")
        return self._units.inputs(X)

    def _predicted(self, rows: np.ndarray, error: Any = 0.0, y: Any = None, level: float | None = None) -> Prediction:
        """Predictions at standardised inputs, in the units of the data; ``error`` and ``y`` are in these too."""
        units = self._units
        return units.prediction(self._inside(rows, error, y, level, units.exponent), y)

    def _inside(
        self,
        rows: np.ndarray,
        error: Any = 0.0,
        y: Any = None,
        level: float | None = None,
        exponent: float | None = None,
    ) -> Prediction:
        """The same in standardised units; with the ``exponent`` of units moments are as their ``linear`` takes them."""
        y = None if y is None else np.asarray(y)
        inside = self._predictive.outputs(
            self.data_,
            rows,
            self._units.errors(np.asarray(error), y),
            y=None if y is None else self._units.outputs(y),
            level=level,
            exponent=exponent,
            max_draws=averaged_over(self, len(rows)),
        )
        finite(inside.output.variance + inside.output.mean)
        return inside

    def _labelled(self, X: Any, band: Band) -> Band:
        if band.mean.ndim != 2:
            return band
        count = oscillations(self.model_)
        names = ["background" if a == count else f"component {a + 1}" for a in range(band.mean.shape[1])]
        return band.map(lambda part: like(X, part, names))
