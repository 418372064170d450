"""A Markov model that is told its data as they come."""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import Module, as_numbers
from .data import Data
from .filtering import State, filter_from, initial_state
from .markov import MarkovGP
from .moments import Moments

SHORTEST = 64  # rows are filled up to a power of two from here on, so that programs are shared


class OnlineGP(Module):
    """What a ``MarkovGP`` knows after the rows so far: ``update`` goes on from there, whatever their number.

    The functions of the model are as they were fitted, and return to their typical values beyond the data of the fit.

    Args:
        model: The model.
        time: Of the last row, or minus infinity before the first.
        state: Of the filter after it, or None.
        log_likelihood: Of all rows so far.

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

    def update(self, t: ArrayLike, y: ArrayLike, error: ArrayLike = 0.0) -> tuple[Self, Moments]:
        """This after further rows, and what f was predicted to be at each from those before it.

        Args:
            t: Times ``[n]``, increasing, and not before the last.
            y: Outputs ``[n]``.
            error: Known standard deviations of the outputs, ``[n]`` or one number.
        """
        data = Data(as_numbers(t, "t"), y, error)
        times = np.asarray(data.X)[:, 0]
        if np.any(np.diff(times) < 0) or times[0] < self.time:
            raise ValueError(
                f"t must not decrease, nor begin before the last time {float(self.time):g}; sort the rows, or fit anew"
            )
        count = len(times)
        rows = np.minimum(np.arange(max(SHORTEST, 1 << (count - 1).bit_length())), count - 1)
        # The row before says how long ago it was; the first of all has none.
        before = times[0] if np.isinf(self.time) else float(self.time)
        X = np.append(before, times[rows])[:, None]
        outputs, errors = (np.asarray(part)[rows] for part in (data.y, data.error))
        state, gain, mean, variance = _advance(self.model, self.state, X, outputs, errors, np.asarray(count))
        after = type(self)(self.model, times[-1], state, self.log_likelihood + gain[0])
        return after, Moments(mean[:count, 0], variance[:count, 0])


@eqx.filter_jit
def _advance(
    model: MarkovGP, state: State | None, X: Any, y: Any, error: Any, steps: Any
) -> tuple[State, Array, Array, Array]:
    model = model.realise()
    P = model.stationary()
    padded = jnp.append(jnp.zeros(1), error)
    system = model.system(X, padded, jnp.ones(X.shape[0], bool))
    decay, weight = (part[1:, :, None] for part in (system.decay, system.weight))
    variance, mean = (part[1:, None] for part in (system.variance, system.mean))
    start = initial_state(decay, P) if state is None else state
    after, gain, predicted, spread = filter_from(start, decay, weight, y[:, None] - mean, variance, P, steps)
    return after, gain, predicted + mean, spread
