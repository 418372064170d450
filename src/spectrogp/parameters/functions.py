"""Functions with Gaussian-process priors: the functional hyperparameters of kernels and of the noise.

θ(x) = F(m + h(x)), h ~ GP(0, k) with a squared-exponential k, represented by whitened values v ~ N(0, I) at inducing
inputs Z: h(Z) = L v with L Lᵀ = k(Z, Z). Shen, Heinonen & Kaski (2020), Eq. 14 and §4. All functions of a group (the
lengthscales of all components and dimensions, say) share Z and k, so one matrix k(X, Z) and one solve serve them all.

Between the inducing inputs h is uncertain even when v is known. There are three ways to use it: its conditional mean,
independent draws from its marginals (``draw_marginals``), and draws of whole functions (``realise`` with a key), which
are smooth and can be evaluated anywhere, so matrices made from one of them belong together.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from ..core import Module, cholesky, inputs
from .priors import LogNormal, Normal
from .values import AbstractParameter, Positive, Real, constrain, latent

Tree = TypeVar("Tree")
Warp = Literal["exp", "softplus", "identity"]

WAVES = 512  # random waves of a draw from a prior
NUGGET = 1e-8  # variance of h at an inducing input beyond its prior's, relative to it

WARPS: dict[Warp, Callable[[Array], Array]] = {"exp": jnp.exp, "softplus": jax.nn.softplus, "identity": lambda h: h}
UNWARPS: dict[Warp, Callable[[Any], Any]] = {
    "exp": np.log,
    "softplus": lambda value: value + np.log(-np.expm1(-value)),
    "identity": np.asarray,
}


class AbstractRandom(Module):
    """Functions with a prior: inside a model they are ``realise`` d, turned into plain functions of the input."""

    @property
    @abstractmethod
    def places(self) -> Any:
        """Inputs ``[m, d]`` at which they have their values."""

    @abstractmethod
    def realise(self, key: Array | None = None, inverse: Array | None = None) -> Any:
        """Plain functions, from constrained parameters: the conditional means, or with a key a draw.

        Args:
            key: A JAX random key for a draw of the whole functions; None for their conditional means.
            inverse: L⁻¹ with L Lᵀ the covariance of the inducing values, where it is known already.
        """

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """Values at inputs ``X [n, d]`` of the functions as they stand, that is of their conditional means."""


class FunctionGroup(AbstractRandom):
    """A group of functions θ(x) = F(m + h(x)) with a shared Gaussian-process prior on h; values ``[n, *shape]``.

    Use it as a parameter of a kernel or as the noise of a likelihood: inside a model it is its conditional mean given
    the whitened values, a plain function of the input.

    Args:
        inducing: Inputs Z ``[m, d]`` at which the functions have their values.
        initial: The constant value at which they begin, in the units of the parameter; broadcast to ``shape``.
        shape: ``(a, d)`` for lengthscales and frequencies, ``(a,)`` for amplitudes and phases, ``()`` for the noise.
        warp: F: "exp" or "softplus" for positive functions, "identity" for any others.
        lengthscale: Median of the log-normal prior on the lengthscale of h, in units of the input: a number or ``[d]``.
        amplitude: Median of the log-normal prior on the standard deviation of h, which is before the warp (for "exp",
            that of the logarithm of the function).
        mean_std: Standard deviation of the prior on m, around its initial value; 0 keeps m fixed.
        trend: ``[d, k]``, a linear function of the input that is added to m, for each of the k functions; or None.
        lengthscale_std: Standard deviation of the logarithm of the lengthscale of h, a priori.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> Z = np.linspace(0.0, 1.0, 5)[:, None]
        >>> frequency = sg.FunctionGroup(Z, initial=2 * np.pi, shape=(1, 1))
        >>> frequency(np.array([[0.5]])).round(4)
        array([[[6.2832]]])
    """

    inducing: Any  # [m, d]
    whitened: Any  # [m, k], k = the product of shape
    mean: Any  # shape, before the warp
    trend: Any  # [d, k] or None
    lengthscale: Any = eqx.field(metadata={"unit": "x"})  # [d] or []
    amplitude: Any  # []
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)

    def __init__(
        self,
        inducing: Any,
        initial: Any,
        *,
        shape: tuple[int, ...] = (),
        warp: Warp = "exp",
        lengthscale: Any = 1.0,
        amplitude: Any = 0.5,
        mean_std: float = 1.0,
        trend: Any = None,
        lengthscale_std: float = 0.3,
    ) -> None:
        centre = unwarped(initial, shape, warp)
        inducing = as_inducing(inducing)
        lengthscale = np.asarray(lengthscale, dtype=np.float64)
        if lengthscale.shape not in ((), (inducing.shape[1],)):
            shape_of_all = f"[] or [{inducing.shape[1]}], one for each input dimension"
            raise ValueError(f"lengthscale must have shape {shape_of_all}, got {list(lengthscale.shape)}")
        self.inducing = inducing
        self.whitened = latent((len(inducing), int(np.prod(shape))))
        self.mean = around(centre, mean_std)
        self.trend = as_trend(trend, inducing.shape[1], self.whitened.raw.shape[1])
        self.lengthscale = Positive(lengthscale, LogNormal(lengthscale, lengthscale_std))
        self.amplitude = Positive(amplitude, LogNormal(amplitude, 0.5))
        self.shape = tuple(shape)
        self.warp = warp

    @property
    def places(self) -> Any:
        return self.inducing

    def fitted_to(self, X: ArrayLike, values: ArrayLike, std: Any) -> Self:
        """The same group with whitened values such that the functions follow values at inputs.

        Args:
            X: Inputs ``[n, d]``.
            values: What the functions should be there, ``[n, *shape]``, after the warp.
            std: How closely, before the warp (broadcast to ``[n, *shape]``): the result is the posterior mode of v when
                the values are seen with normal errors of this standard deviation.
        """
        seen = jnp.asarray(UNWARPS[self.warp](np.asarray(values, np.float64)))
        precision = jnp.broadcast_to(jnp.asarray(std, float), seen.shape) ** -2
        return eqx.tree_at(lambda group: group.whitened.raw, self, _mode(self, inputs(X), seen, precision))

    # Of a constrained group, as ``realise`` meets it inside a model:

    def realise(self, key: Array | None = None, inverse: Array | None = None) -> Realised:
        """The conditional mean of h given the whitened values, k(x, Z) L⁻ᵀ v, or with a key a draw of whole functions.

        Draws are by Matheron's rule, h(x) = g(x) + k(x, Z) k(Z, Z)⁻¹ (h(Z) − g(Z)) for a draw g of the prior, here a
        sum of random waves whose covariance is k on average over draws: a smooth function of the input. Wilson et al.
        (2020).

        Args:
            key: A JAX random key for a draw; None for the conditional mean.
            inverse: L⁻¹ with L Lᵀ = k(Z, Z), where it is known already.
        """
        inverse = self.inverse() if inverse is None else inverse
        if key is None:
            return self._realised(self.amplitude * (inverse.T @ self.whitened))
        prior = RandomWaves.draw(key, WAVES, self.inducing.shape[1], self.whitened.shape[1], self.lengthscale)
        weights = self.amplitude * (inverse.T @ (self.whitened - inverse @ prior(self.inducing)))
        prior = eqx.tree_at(lambda waves: waves.weights, prior, self.amplitude * prior.weights)
        return self._realised(weights, prior)

    def conditional(self, X: Array) -> tuple[Array, Array]:
        """Mean ``[n, *shape]`` and std ``[n]`` of m + h at ``X [n, d]``, before the warp, given whitened values."""
        A = self.inverse() @ _squared_exponential(self.inducing, X, self.lengthscale)
        h = self.amplitude * (A.T @ self.whitened)
        mean = with_mean(h, self.mean, self.trend, X)
        return mean, self.amplitude * jnp.sqrt(jnp.maximum(1.0 - jnp.sum(A**2, axis=0), 1e-16))

    def draw_marginals(self, X: Array, key: Array) -> Array:
        """Values ``[n, *shape]`` drawn with a ``key`` at each of ``X [n, d]`` independently, given whitened values."""
        mean, std = self.conditional(X)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        return WARPS[self.warp](mean + std.reshape(-1, *(1 for _ in self.shape)) * noise)

    def inverse(self) -> Array:
        """L⁻¹ with L Lᵀ = k(Z, Z) of unit amplitude."""
        return _inverse(jnp.asarray(self.inducing), jnp.asarray(self.lengthscale))

    def _realised(self, weights: Array, waves: RandomWaves | None = None) -> Realised:
        return Realised(self.inducing, weights, self.mean, self.trend, self.lengthscale, waves, self.shape, self.warp)

    def __call__(self, X: Array) -> Array:
        """Values ``[n, *shape]`` at inputs ``X [n, d]`` of the functions as they stand (their conditional means)."""
        return constrain(self).realise()(inputs(X))


@eqx.filter_jit  # one program instead of dozens of small ones
def _mode(group: FunctionGroup, X: Array, seen: Array, precision: Array) -> Array:
    """Whitened values given m + h ``[n, *shape]`` seen at X with these precisions."""
    m, k = group.whitened.raw.shape
    group = constrain(group)
    seen = seen - with_mean(jnp.zeros((X.shape[0], k)), group.mean, group.trend, X)
    A = group.amplitude * group.inverse() @ _squared_exponential(group.inducing, X, group.lengthscale)

    def mode(precision: Array, seen: Array) -> Array:
        return jnp.linalg.solve((A * precision) @ A.T + jnp.eye(m), A @ (precision * seen))

    return jax.vmap(mode, in_axes=1, out_axes=1)(precision.reshape(-1, k), seen.reshape(-1, k))


class RandomWaves(Module):
    """Σ_f w_f √(2/F) cos(⟨r_f, x⟩ + b_f): draws from a squared-exponential prior. Rahimi & Recht (2007)."""

    rates: Array  # [F, d]
    offsets: Array  # [F]
    weights: Array  # [F, k]

    @classmethod
    def draw(cls, key: Array, waves: int, dimensions: int, functions: int, lengthscale: Array) -> Self:
        """Random functions of a prior of unit variance.

        Args:
            key: A JAX random key.
            waves: Number of waves F.
            dimensions: Number of inputs d.
            functions: Number of functions k.
            lengthscale: Of the prior, a number or ``[d]``.
        """
        of_rates, of_offsets, of_weights = jax.random.split(key, 3)
        return cls(
            jax.random.normal(of_rates, (waves, dimensions)) / lengthscale,
            jax.random.uniform(of_offsets, (waves,), maxval=2.0 * jnp.pi),
            jnp.sqrt(2.0 / waves) * jax.random.normal(of_weights, (waves, functions)),
        )

    def __call__(self, X: Array) -> Array:
        return jnp.cos(X @ self.rates.T + self.offsets) @ self.weights


class Realised(Module):
    """A function group as a plain function of the input, θ(x) = F(m + k(x, Z) w), plus random waves when drawn."""

    inducing: Array
    weights: Array
    mean: Array
    trend: Array | None
    lengthscale: Array
    waves: RandomWaves | None
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)

    def __call__(self, X: Array) -> Array:
        X = jnp.asarray(X)
        h = _squared_exponential(X, jnp.asarray(self.inducing, X.dtype), self.lengthscale) @ self.weights
        if self.waves is not None:
            h = h + self.waves(X)
        return WARPS[self.warp](with_mean(h, self.mean, self.trend, X))


def realise(tree: Tree, key: Array | None = None) -> Tree:
    """The same (constrained) tree with every random part turned into a plain one, as function groups into functions.

    Without a key these are the conditional means given the whitened values; with a key they are draws.
    """
    nodes, structure = jax.tree.flatten(tree, is_leaf=_is_random)
    places = [i for i, node in enumerate(nodes) if _is_random(node)]
    keys = [None] * len(places) if key is None else jax.random.split(key, len(places))
    inverses = _inverses([nodes[i] for i in places if isinstance(nodes[i], FunctionGroup)])
    for i, one in zip(places, keys, strict=True):
        nodes[i] = nodes[i].realise(one, next(inverses) if isinstance(nodes[i], FunctionGroup) else None)
    return jax.tree.unflatten(structure, nodes)


def _is_random(node: Any) -> bool:
    return isinstance(node, AbstractRandom)


def random_functions(tree: PyTree) -> list[AbstractRandom]:
    """All functions with priors in a tree, those inside the priors of others too."""
    found = [node for node in jax.tree.leaves(tree, is_leaf=_is_random) if _is_random(node)]
    return found + [inner for node in found for inner in random_functions(list(vars(node).values()))]


# Shared by all functions with Gaussian-process priors:


def unwarped(initial: Any, shape: tuple[int, ...], warp: Warp) -> Any:
    """The value before the warp, ``shape``, of functions that begin at a constant."""
    if warp not in WARPS:
        raise ValueError(f"warp must be one of {', '.join(WARPS)}, got {warp!r}")
    centre = UNWARPS[warp](np.broadcast_to(np.asarray(initial, dtype=np.float64), shape))
    if not np.all(np.isfinite(centre)):
        raise ValueError(f"initial must be positive for the warp {warp!r}, got {initial!r}")
    return centre


def as_inducing(value: Any) -> Any:
    """Inducing inputs ``[m, d]``, from ``[m]`` for one input dimension too; a parameter stays as it is."""
    if isinstance(value, AbstractParameter | jax.Array):
        return value
    inducing = np.asarray(value, dtype=np.float64)
    inducing = inducing[:, None] if inducing.ndim == 1 else inducing
    if inducing.ndim != 2:
        raise ValueError(f"inducing must have shape [m, d], or [m] for one input, got {list(inducing.shape)}")
    return inducing


def as_trend(value: Any, dimensions: int, functions: int) -> Any:
    if value is None:
        return None
    trend = np.asarray(value, dtype=np.float64)
    if trend.shape != (dimensions, functions):
        raise ValueError(
            f"trend must have shape [{dimensions}, {functions}], inputs by functions; got {list(trend.shape)}"
        )
    return trend


def around(centre: Any, std: float) -> Any:
    """A parameter with a normal prior around its initial value, or with a standard deviation of 0 a fixed number."""
    return Real(centre, Normal(centre, std)) if std else centre


def with_mean(h: Array, mean: Array, trend: Array | None, X: Array) -> Array:
    """m + Xᵀ trend + h ``[n, *shape]`` for h ``[n, k]``."""
    if trend is not None:
        h = h + X @ trend
    return mean + h.reshape(X.shape[0], *jnp.shape(mean))


def _inverses(groups: list[FunctionGroup]) -> Iterator[Array]:
    """L⁻¹ of every group; those of equal shapes in one batch, which is compiled once for all of them."""
    found: dict[int, Array] = {}
    shapes = [(np.shape(group.inducing), np.shape(group.lengthscale)) for group in groups]
    for shape in dict.fromkeys(shapes):
        same = [i for i, other in enumerate(shapes) if other == shape]
        Z, lengthscale = (
            jnp.stack([jnp.asarray(getattr(groups[i], name)) for i in same]) for name in ("inducing", "lengthscale")
        )
        found |= zip(same, _each_inverse(Z, lengthscale), strict=True)
    return (found[i] for i in range(len(groups)))


def _inverse(Z: Array, lengthscale: Array) -> Array:
    # Inducing inputs closer than the lengthscale make k(Z, Z) singular to rounding, and what its factor then makes of
    # whitened values carries noise, on which NUTS stalls: its steps shrink to nothing. A fixed nugget keeps it smooth.
    K = _squared_exponential(Z, Z, lengthscale) + NUGGET * jnp.eye(Z.shape[0], dtype=Z.dtype)
    return cholesky(K, "k(Z, Z) of a latent function").inverse


# A program: models that are realised outside of one, as for every prediction, would compile its loops anew each time.
_each_inverse = jax.jit(jax.vmap(_inverse))


def _squared_exponential(X: Array, Z: Array, lengthscale: Array) -> Array:
    # One dimension after the other: an array [n, m, d] and its sum over the last axis would be several times slower.
    # The lengthscale enters last, so that its gradient is a sum over the matrix and none is taken to the inputs.
    squares = [(x[:, None] - z) ** 2 for x, z in zip(X.T, Z.T, strict=True)]
    if jnp.ndim(lengthscale):
        squares = [square * narrow for square, narrow in zip(squares, lengthscale**-2, strict=True)]
        return jnp.exp(-0.5 * functools.reduce(jnp.add, squares))
    return jnp.exp(-0.5 * lengthscale**-2 * functools.reduce(jnp.add, squares))
