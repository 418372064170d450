"""Outputs as they are or their logarithms: whichever is likelier, where it matters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..models import Data
from .fitting import Fitted
from .settings import Settings
from .units import Units

MARGIN = 10.0  # nats by which logarithms must be likelier: as much as a search asks of other models


def fit_transformed(
    settings: Settings, data: Data, standardise: bool, fitted: Callable[[Units, bool], Fitted]
) -> tuple[Fitted, Units]:
    """A fit with its units: of outputs as they are, or of their logarithms.

    "auto" fits logarithms too where the fit of outputs as they are shows that what goes up and down grows with the
    level, and compares densities of the outputs (Box & Cox 1964): that of a logarithm is that of its output times it.

    Args:
        settings: Parameters of the estimator.
        data: Of one output.
        standardise: Whether inputs and outputs are divided by their deviations.
        fitted: Gives the fit in given units, and is told whether it is the second one.
    """

    def tried(log: bool, *, again: bool = False) -> tuple[Fitted, Units]:
        units = Units.of(data, standardise=standardise, log=log)
        return fitted(units, again), units

    first = tried(settings.target_transform == "log")
    if not first[0].growth:
        return first
    if settings.target_transform == "none":
        return _advised(*first, "target_transform='log' fits logarithms, and 'auto' does where these are likelier")
    if np.min(data.y) <= 0.0:
        zeros = "some are zero and have no logarithm: leave out those that mean that nothing was measured"
        return _advised(*first, zeros)
    other = tried(True, again=True)
    gain = _density(*other, data) - _density(*first, data)
    if not np.isfinite(gain):  # one of them has no optimum
        return _advised(*first, "target_transform='log' fits logarithms")
    for fit, _ in (first, other):
        fit.diagnostics["log_gain"] = gain
    if gain > MARGIN:
        return other
    told = f"likelier by {gain:.3g} nats only" if gain > 0.0 else f"less likely by {-gain:.3g} nats"
    return _advised(*first, f"logarithms were tried, and are {told}; target_transform='log' takes them")


def _density(fit: Fitted, units: Units, data: Data) -> float:
    """Log marginal likelihood in the units of the outputs."""
    y = np.asarray(data.y)
    return fit.evidence + float(np.sum(np.broadcast_to(units.log_jacobian(y), y.shape)))


def _advised(fit: Fitted, units: Units, advice: str) -> tuple[Fitted, Units]:
    return fit._replace(warnings=(*fit.warnings, f"{fit.growth}; {advice}")), units
