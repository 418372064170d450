"""The amplitudes of the oscillations of a fitted estimator, in the units of its outputs."""

from __future__ import annotations

from typing import Any

from ..models import MarkovGP
from ..posterior import Band
from .channels import by_channel
from .reporting import amplitudes_at


class AmplitudesMixin:
    """What a fitted estimator says of amplitudes."""

    _inputs: Any
    _labelled: Any
    model_: Any

    @by_channel
    def instantaneous_amplitude(self, X: Any, level: float = 0.9) -> Band:
        """The amplitude that every component has at inputs: half the height from its troughs to its crests.

        It is the modulus of the component's complex envelope: a sinusoid of amplitude A has A. The σ of the kernel, in
        ``report().local.amplitude``, is the standard deviation of a process of which the data show one draw.

        Parameters
        ----------
        X : array or data frame of shape [n, 1], or [n]
            Inputs.
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        band : Band
            Mean, lower and upper end in the units of y: [n, a] for a components (data frames where X is one), or
            [n, a, c] for c channels. A background has none: of data in which nothing oscillates it is [n, 0]. After
            ``inference="map"`` there is no interval. With logarithms (``target_transform``) they are shares of the
            level.
        """
        rows = self._inputs(X)
        if not isinstance(self.model_, MarkovGP):
            raise TypeError(
                f"components of a {type(self.model_).__name__} have no envelope, from which amplitudes are read: fit "
                "one input with kernel='auto' or 'matern'; the σ of other kernels is in report().local.amplitude"
            )
        band: Band = self._labelled(X, amplitudes_at(self, rows, level))
        return band
