"""What the Kalman filter needs of rows: how oscillators decay between them, and how they are seen."""

from __future__ import annotations

from typing import NamedTuple

from jax import Array
from jax.typing import ArrayLike

from . import filtering


class System(NamedTuple):
    """What the filter needs of rows ``[l]`` (or of blocks of them, ``[l, ..., b]``), for q oscillators."""

    decay: Array  # [l, q], λΔτ since the row before
    weight: Array  # [l, q], of the oscillators in the function: σ cos φ and σ sin φ
    variance: Array  # [l], of the noise
    mean: Array  # [l], of the outputs a priori

    def log_likelihoods(self, y: Array, weight: Array, P: ArrayLike, steps: ArrayLike) -> Array:
        """Those ``[b]`` of blocks: of outputs ``y [l, b]`` whose log densities have a ``weight [l, b]``.

        Args:
            y: Outputs.
            weight: Weights of the rows.
            P: Stationary covariances of the oscillators' states.
            steps: How many rows there are.
        """
        return filtering.log_likelihood(self.decay, self.weight, y - self.mean, self.variance, weight, P, steps)
