"""A Markov model that is told its data as they come."""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..core import Module, as_numbers, at_least, with_fields
from .data import Data
from .filtering import State
from .markov import MarkovGP
from .moments import Moments
from .recent import Recent, advance, span_of

STEPS = 3  # of Newton's method, at most, each time that the recent past is refined
AHEAD = 0.25  # of the recent past that rows may lie ahead of what was refined


class OnlineGP(Module):
    """What a ``MarkovGP`` knows after the rows so far: ``update`` goes on from there, whatever their number.

    Without ``refine`` the functions of the model stay as they were fitted, and return to their typical values beyond
    the data of the fit; all is as if the filter had walked along all rows at once. With it the functions on grids are
    fitted to the recent past again and again, a dozen of the frequency's lengthscales long, while all that is older
    stays as it was: so a frequency that moves on is followed, with hyperparameters as they were. ``model`` then has
    functions around the last rows only.

    Args:
        model: The model.
        time: Of the last row, or minus infinity before the first.
        state: Of the filter after it, or None.
        log_likelihood: Of all rows so far, each given those before it.
        refine: Rows after which the recent past is refined; None for never. A frequency is followed if it changes by
            less than a quarter of a cycle meanwhile, beyond what its smoothness tells.
        recent: Rows that are refined, or None before the first.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> kernel = sg.kernels.MaternPhase(sg.kernels.WarpedTime(2.0), lambda X: 3.0 * X[:, 0])
        >>> online, predicted = sg.models.OnlineGP(sg.models.MarkovGP(kernel, 0.1)).update([0.0, 0.1], [0.5, 0.4])
        >>> online, predicted = online.update([0.2], [0.3])
        >>> predicted.mean.shape, float(online.time)
        ((1,), 0.2)
    """

    model: MarkovGP
    time: Any = -np.inf
    state: State | None = None
    log_likelihood: Any = 0.0
    refine: int | None = eqx.field(static=True, default=None)
    recent: Recent | None = None

    def __check_init__(self) -> None:
        if self.refine is not None:
            at_least(1, refine=self.refine)
            span_of(self.model)

    def update(self, t: ArrayLike, y: ArrayLike, error: ArrayLike = 0.0) -> tuple[Self, Moments]:
        """This after further rows, and what f was predicted to be at each from those before it.

        Args:
            t: Times ``[n]``, increasing, and not before the last.
            y: Outputs ``[n]``.
            error: Known standard deviations of the outputs, ``[n]`` or one number.
        """
        data = Data(as_numbers(t, "t"), y, error)
        times, outputs, errors = np.asarray(data.X)[:, 0], np.asarray(data.y), np.asarray(data.error)
        if np.any(np.diff(times) < 0) or times[0] < self.time:
            raise ValueError(
                f"t must not decrease, nor begin before the last time {float(self.time):g}; sort the rows, or fit anew"
            )
        if self.refine is None:
            state, gain, predicted = advance(self.model, self.state, float(self.time), times, outputs, errors)
            return self._after(times[-1], state, gain, self.model, None), predicted
        online, parts = self, []
        while len(times):
            count = online._ahead(times, self.refine)
            online, predicted = online._followed(times[:count], outputs[:count], errors[:count], self.refine)
            parts.append(predicted)
            times, outputs, errors = (part[count:] for part in (times, outputs, errors))
        mean, variance = (jnp.concatenate(values) for values in zip(*parts, strict=True))
        return online, Moments(mean, variance)

    def _after(self, time: Any, state: State, gain: Any, model: MarkovGP, recent: Recent | None) -> Self:
        return with_fields(
            self, model=model, time=time, state=state, log_likelihood=self.log_likelihood + gain, recent=recent
        )

    def _ahead(self, times: np.ndarray, refine: int) -> int:
        """How many of the rows to come are taken before the recent past is refined: one at least."""
        begin = times[0] if np.isinf(self.time) else float(self.time)
        near = int(np.searchsorted(times, begin + AHEAD * span_of(self.model), side="right"))
        fresh = 0 if self.recent is None else self.recent.fresh
        return max(min(refine - fresh, near), 1)

    def _followed(self, t: np.ndarray, y: np.ndarray, error: np.ndarray, refine: int) -> tuple[Self, Moments]:
        """This after rows that lie so near that they need one refinement at most."""
        recent = self.recent
        if recent is None:
            recent = Recent.of(self.model, float(t[0]) if np.isinf(self.time) else float(self.time), self.state)
        # Functions reach half as far again as the recent past is long.
        if t[-1] - recent.anchor > (1.0 + AHEAD) * recent.span:
            far = t[-1] - self.time > AHEAD * recent.span
            recent = recent.anchored(float(self.time) if far else float(t[-1]) - recent.span)
        state, gain, predicted = advance(recent.model, self.state, float(self.time), t, y, error)
        recent = recent.with_rows(t, y, error)
        if recent.fresh >= refine:
            recent = recent.refined(STEPS)
            state = recent.advanced(len(recent.t))[0]
        return self._after(t[-1], state, gain, recent.model, recent), predicted
