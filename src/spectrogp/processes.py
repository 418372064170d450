"""Functions with Gaussian-process priors: the functional hyperparameters of kernels and of the noise.

θ(x) = F(m + h(x)), h ~ GP(0, k) with a squared-exponential k, represented by whitened values v ~ N(0, I) at inducing
inputs Z: h(Z) = L v with L Lᵀ = k(Z, Z). Shen, Heinonen & Kaski (2020), Eq. 14 and §4. All functions of a group (the
lengthscales of all components and dimensions, say) share Z and k, so one matrix k(X, Z) and one solve serve them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .linalg import cholesky
from .parameters import LogNormal, Normal, Positive, Real, constrain, latent

Tree = TypeVar("Tree")
Warp = Literal["exp", "softplus", "identity"]

_WARPS: dict[Warp, Callable[[Array], Array]] = {"exp": jnp.exp, "softplus": jax.nn.softplus, "identity": lambda h: h}
_UNWARPS: dict[Warp, Callable[[Any], Any]] = {
    "exp": np.log,
    "softplus": lambda value: value + np.log(-np.expm1(-value)),
    "identity": np.asarray,
}


class FunctionGroup(eqx.Module):
    """A group of functions θ(x) = F(m + h(x)) with a shared Gaussian-process prior on h; values ``[n, *shape]``.

    ``shape`` is ``(a, d)`` for lengthscales and frequencies, ``(a,)`` for amplitudes and phases, ``()`` for the noise.
    Use it as a kernel's parameter: inside a model it is ``realise`` d, that is turned into its conditional mean given
    the whitened values, a plain function of the input.
    """

    inducing: Any  # [m, d]
    whitened: Any  # [m, k], k = the product of shape
    mean: Any  # shape, before the warp
    lengthscale: Any  # [d] or []
    amplitude: Any  # []
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)

    def __init__(
        self,
        inducing: Any,
        start: Any,
        *,
        shape: tuple[int, ...] = (),
        warp: Warp = "exp",
        lengthscale: Any = 1.0,
        amplitude: Any = 0.5,
        mean_deviation: float = 1.0,
    ) -> None:
        """``start`` (broadcast to ``shape``) is the constant value at which the functions start.

        ``lengthscale`` and ``amplitude`` are the medians of log-normal priors on those of h (in units of the input, and
        of the function before the warp); ``mean_deviation`` is the prior standard deviation of m around its start.
        """
        if warp not in _WARPS:
            raise ValueError(f"warp must be one of {', '.join(_WARPS)}, got {warp!r}")
        centre = _UNWARPS[warp](np.broadcast_to(np.asarray(start, dtype=np.float64), shape))
        if not np.all(np.isfinite(centre)):
            raise ValueError(f"start must be positive for the warp {warp!r}, got {start!r}")
        inducing = np.asarray(inducing, dtype=np.float64)
        if inducing.ndim != 2:
            raise ValueError(f"inducing must have shape [m, d], got {list(inducing.shape)}")
        self.inducing = inducing
        self.whitened = latent((len(inducing), int(np.prod(shape))))
        self.mean = Real(centre, Normal(centre, mean_deviation))
        self.lengthscale = Positive(lengthscale, LogNormal(lengthscale, 0.3))
        self.amplitude = Positive(amplitude, LogNormal(amplitude, 0.5))
        self.shape = tuple(shape)
        self.warp = warp

    def realise(self) -> Realised:
        """The conditional mean of h given the whitened values: k(x, Z) L⁻ᵀ v, as a function of the input."""
        factor = cholesky(
            _squared_exponential(self.inducing, self.inducing, self.lengthscale), "k(Z, Z) of a latent function"
        )
        weights = factor.inverse.T @ self.whitened
        return Realised(self.inducing, self.amplitude * weights, self.mean, self.lengthscale, self.shape, self.warp)

    def __call__(self, X: Array) -> Array:
        """Values at inputs: of the functions as they stand."""
        return constrain(self).realise()(X)


class Realised(eqx.Module):
    """A function group fixed at its conditional mean: θ(x) = F(m + k(x, Z) w)."""

    inducing: Array
    weights: Array
    mean: Array
    lengthscale: Array
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)

    def __call__(self, X: Array) -> Array:
        h = _squared_exponential(X, jnp.asarray(self.inducing, X.dtype), self.lengthscale) @ self.weights
        return _WARPS[self.warp](self.mean + h.reshape(X.shape[0], *self.shape))


def realise(tree: Tree) -> Tree:
    """The same (constrained) tree with every function group turned into a plain function of the input."""

    def is_group(node: Any) -> bool:
        return isinstance(node, FunctionGroup)

    return jax.tree.map(lambda node: node.realise() if is_group(node) else node, tree, is_leaf=is_group)


def _squared_exponential(X: Array, Z: Array, lengthscale: Array) -> Array:
    difference = (X[:, None, :] - Z[None, :, :]) / lengthscale
    return jnp.exp(-0.5 * jnp.sum(difference**2, axis=-1))
