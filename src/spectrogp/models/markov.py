"""The exact Gaussian process of Matérn phase kernels, in linear time."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import Key, as_key, at_least, inputs
from ..kernels import AbstractKernel, MaternPhase, Sum, sincos
from . import filtering
from .base import AbstractModel, as_gaussian
from .data import Data
from .likelihoods import Gaussian
from .memory import require_joint
from .moments import Moments
from .timeline import UNSEEN, Timeline


class System(NamedTuple):
    """What the filter needs of rows ``[l]`` (or of blocks of them, ``[l, ..., b]``), for q oscillators."""

    decay: Array  # [l, q], λΔτ since the row before
    weight: Array  # [l, q], of the oscillators in the function: σ cos φ and σ sin φ
    variance: Array  # [l], of the noise


class MarkovGP(AbstractModel):
    """Exact regression with Matérn phase kernels of one input, by a Kalman filter: O(N).

    A component σ [cos φ u(τ) + sin φ v(τ)] has two oscillators, u and v, that are Markov with their derivatives, and one
    without a phase has one. The filter carries what is known of all of them along the rows; phases and amplitudes are
    how they are seen. Log likelihood and predictions are those of ``ExactGP``, for any times, gaps, repeated times,
    functions and error bars.

    Args:
        kernel: A ``MaternPhase``, or a sum of several, such as oscillations, a trend and low-frequency noise.
        likelihood: The noise: a number, a ``Positive`` parameter, a function of the input, or a ``Gaussian``.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> kernel = sg.kernels.MaternPhase(sg.kernels.WarpedTime(2.0), lambda X: 3.0 * X[:, 0])
        >>> model = sg.models.MarkovGP(kernel, 0.1)
        >>> data = sg.Data([0.0, 1.0], [0.5, -0.5])
        >>> bool(np.isclose(model.log_joint(data), sg.models.ExactGP(kernel, 0.1).log_joint(data)))
        True
    """

    kernel: AbstractKernel
    likelihood: Gaussian = eqx.field(converter=as_gaussian)

    def __check_init__(self) -> None:
        for term in self._terms():
            if not isinstance(term, MaternPhase):
                raise TypeError(
                    f"MarkovGP takes MaternPhase kernels and sums of them, got {type(term).__name__}; ExactGP takes any"
                )

    def log_likelihood(self, data: Data | Timeline, key: Array | None) -> Array:
        del key
        return jnp.sum(self.block_log_likelihoods(data if isinstance(data, Timeline) else Timeline.traced(data)))

    def block_log_likelihoods(self, timeline: Timeline) -> Array:
        """Log likelihoods ``[b]`` of the own rows of each block, given those before them."""
        system = self.systems(timeline)
        return filtering.log_likelihood(
            system.decay, system.weight, timeline.y, system.variance, timeline.weight, self.stationary(), timeline.steps
        )

    def prepare(self, data: Data | Timeline, X: ArrayLike) -> Any:
        if isinstance(data, Timeline):
            return data
        return Timeline.of(data, np.asarray(inputs(X)), **self.blocks(data))

    def blocks(self, data: Data) -> dict[str, int]:
        """How the rows of data are split, as keywords of ``Timeline.of``: such that the filter forgets its start."""
        return {}

    @eqx.filter_jit
    def moments(self, data: Data | Timeline, X: Array) -> Moments:
        timeline, _, weight, mean, covariance = self._smoothed(data, X)
        return Moments(
            jnp.sum(weight * timeline.read(mean), axis=-1),
            jnp.einsum("tq,tqr,tr->t", weight, timeline.read(covariance), weight),
        )

    @eqx.filter_jit
    def joint_covariance(self, data: Data | Timeline, X: Array) -> Array:
        raise NotImplementedError

    # Of a realised model:

    def systems(self, timeline: Timeline) -> System:
        """What the filter needs of the blocks of a timeline."""

        def of_block(t: Array, error: Array, seen: Array) -> System:
            return self.system(t[:, None], error, seen)

        return jax.vmap(of_block, in_axes=1, out_axes=-1)(*(jnp.asarray(p) for p in (timeline.t, timeline.error, timeline.seen)))

    def system(self, X: Array, error: Array, seen: Array) -> System:
        """What the filter needs of rows ``X [l, 1]`` in the order of time."""
        decays, weights = [], []
        for term in self._terms():
            values = term.values_at(X)
            time, amplitude = values["time"], values["amplitude"]
            decay = jnp.diff(time, axis=0, prepend=time[:1]) * (2.0 * term.order) ** 0.5
            waves = (1.0,) if term.phase is None else sincos(values["phase"])[::-1]
            decays += [decay] * len(waves)
            weights += [amplitude * wave for wave in waves]
        variance = self.likelihood.scale_at(X, error) ** 2
        # Rows without outputs are never looked at: no weight of theirs may reach the filter's sums.
        return System(jnp.concatenate(decays, axis=1), jnp.concatenate(weights, axis=1), jnp.where(seen, variance, UNSEEN))

    def stationary(self) -> np.ndarray:
        """Stationary covariances ``[q, d, d]`` of the oscillators' states."""
        one = jnp.zeros((1, 1))
        orders = [(t.order, t.values_at(one)["time"].shape[1], 1 if t.phase is None else 2) for t in self._terms()]
        size = max(len(filtering.STATIONARY[order]) for order, _, _ in orders)
        found = []
        for order, components, repeats in orders:
            P = np.zeros((size, size))
            own = filtering.STATIONARY[order]
            P[: len(own), : len(own)] = own
            found += [P] * (components * repeats)
        return np.stack(found)

    def _terms(self) -> tuple[Any, ...]:
        return self.kernel.terms if isinstance(self.kernel, Sum) else (self.kernel,)
