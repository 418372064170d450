"""Whether the bands of a fitted estimator can be believed: what its draws are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..inference import Diagnosis, diagnose
from ..posterior import Posterior

PLACES = 25  # inputs at which readings are looked at


def places(data: Any) -> np.ndarray:
    """Some of the inputs that a model was fitted to, ``[n, d]``: evenly spaced in the order of the first one."""
    X = np.asarray(getattr(data, "data", data).X)  # that of neighbourhoods
    rows = np.argsort(X[:, 0], kind="stable")
    return X[rows[np.unique(np.linspace(0, len(X) - 1, min(len(X), PLACES)).astype(int))]]


class DiagnosisMixin:
    """The look at the draws of a fitted estimator."""

    data_: Any
    posterior_: Posterior
    X_mean_: np.ndarray
    X_scale_: np.ndarray

    def diagnostics(self) -> Diagnosis:
        """What the draws are worth for predictions, frequencies, amplitudes and lengthscales; print it.

        For ``inference="nuts"`` and ``"sghmc"``: R-hat and effective draws of each at inputs of the data, where it is
        worst, divergences and energy, in words with a remedy. The draws of other ways are independent, and there is
        nothing to converge.

        Returns
        -------
        diagnosis : Diagnosis
            ``passed`` where nothing is wrong; places are in the units of X, counted from ``X_origin_``.
        """
        check_is_fitted(self)
        if not self.posterior_.statistics:
            return diagnose(self.posterior_, None, np.zeros((1, 1)))
        found = diagnose(self.posterior_, self.data_, places(self.data_))
        return found.map_places(lambda place: np.asarray(self.X_mean_ + self.X_scale_ * place))
