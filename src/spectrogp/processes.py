"""Functions with Gaussian-process priors: the functional hyperparameters of kernels and of the noise.

θ(x) = F(m + h(x)), h ~ GP(0, k) with a squared-exponential k, represented by whitened values v ~ N(0, I) at inducing
inputs Z: h(Z) = L v with L Lᵀ = k(Z, Z). Shen, Heinonen & Kaski (2020), Eq. 14 and §4. All functions of a group (the
lengthscales of all components and dimensions, say) share Z and k, so one matrix k(X, Z) and one solve serve them all.

Between the inducing inputs h is uncertain even when v is known. There are three ways to use it: its conditional mean,
independent draws from its marginals (``draw_marginals``), and draws of whole functions (``draw``), which are smooth and
can be evaluated anywhere, so matrices made from one of them belong together.
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

from .functions import inputs
from .linalg import cholesky
from .numerics import entry_point
from .parameters import LogNormal, Normal, Positive, Real, constrain, latent

Tree = TypeVar("Tree")
Warp = Literal["exp", "softplus", "identity"]

NUGGET = 1e-8  # variance of h at an inducing input beyond its prior's, relative to it

WARPS: dict[Warp, Callable[[Array], Array]] = {"exp": jnp.exp, "softplus": jax.nn.softplus, "identity": lambda h: h}
_UNWARPS: dict[Warp, Callable[[Any], Any]] = {
    "exp": np.log,
    "softplus": lambda value: value + np.log(-np.expm1(-value)),
    "identity": np.asarray,
}


class AbstractRandom(eqx.Module):
    """A part of a model that stands for something random, and is turned into something plain inside the model."""

    @abstractmethod
    def plain(self, key: Array | None) -> Any:
        """The same without randomness, of constrained parts: its conditional mean, or with a key a draw."""


class FunctionGroup(AbstractRandom):
    """A group of functions θ(x) = F(m + h(x)) with a shared Gaussian-process prior on h; values ``[n, *shape]``.

    ``shape`` is ``(a, d)`` for lengthscales and frequencies, ``(a,)`` for amplitudes and phases, ``()`` for the noise.
    Use it as a kernel's parameter: inside a model it is ``realise`` d, that is turned into its conditional mean given
    the whitened values, a plain function of the input.
    """

    inducing: Any  # [m, d]
    whitened: Any  # [m, k], k = the product of shape
    mean: Any  # shape, before the warp
    trend: Any  # [d, k] or None
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
        trend: Any = None,
    ) -> None:
        """``start`` (broadcast to ``shape``) is the constant value at which the functions start.

        ``lengthscale`` and ``amplitude`` are the medians of log-normal priors on those of h (in units of the input, and
        of the function before the warp); ``mean_deviation`` is the prior standard deviation of m around its start (0:
        m is fixed). ``trend [d, k]`` adds a linear function of the input to m.
        """
        centre = unwarped(start, shape, warp)
        inducing = as_inducing(inducing)
        lengthscale = np.asarray(lengthscale, dtype=np.float64)
        if lengthscale.shape not in ((), (inducing.shape[1],)):
            shape_of_all = f"[] or [{inducing.shape[1]}], one for each input dimension"
            raise ValueError(f"lengthscale must have shape {shape_of_all}, got {list(lengthscale.shape)}")
        self.inducing = inducing
        self.whitened = latent((len(inducing), int(np.prod(shape))))
        self.mean = around(centre, mean_deviation)
        self.trend = as_trend(trend, inducing.shape[1], self.whitened.raw.shape[1])
        self.lengthscale = Positive(lengthscale, LogNormal(lengthscale, 0.3))
        self.amplitude = Positive(amplitude, LogNormal(amplitude, 0.5))
        self.shape = tuple(shape)
        self.warp = warp

    @entry_point
    def following(self, X: Any, values: Any, deviation: Any) -> Self:
        """The same group with whitened values such that the functions follow ``values [n, *shape]`` at ``X [n, d]``.

        ``deviation`` (broadcast to ``[n, *shape]``) says how closely, before the warp: the posterior mode of v when the
        values are seen with normal errors of that size.
        """
        seen = jnp.asarray(_UNWARPS[self.warp](np.asarray(values, np.float64)))
        near = jnp.broadcast_to(jnp.asarray(deviation, float), seen.shape) ** -2
        return eqx.tree_at(lambda group: group.whitened.raw, self, _mode(self, inputs(X), seen, near))

    # Of a constrained group, as ``realise`` meets it inside a model:

    def realise(self, inverse: Array | None = None) -> Realised:
        """The conditional mean of h given the whitened values: k(x, Z) L⁻ᵀ v, as a function of the input.

        ``inverse`` is L⁻¹, for who has it already.
        """
        inverse = self.inverse() if inverse is None else inverse
        weights = inverse.T @ self.whitened
        return self._realised(self.amplitude * weights)

    def draw(self, key: Array, waves: int = 512, inverse: Array | None = None) -> Realised:
        """A draw of the whole functions given the whitened values: a smooth function of the input.

        Matheron's rule: h(x) = g(x) + k(x, Z) k(Z, Z)⁻¹ (h(Z) − g(Z)) for a draw g of the prior, here a sum of random
        waves whose covariance is k on average over draws. Wilson et al. (2020).
        """
        prior = RandomWaves.draw(key, waves, self.inducing.shape[1], self.whitened.shape[1], self.lengthscale)
        inverse = self.inverse() if inverse is None else inverse
        weights = self.amplitude * (inverse.T @ (self.whitened - inverse @ prior(self.inducing)))
        prior = eqx.tree_at(lambda waves: waves.weights, prior, self.amplitude * prior.weights)
        return self._realised(weights, prior)

    def plain(self, key: Array | None) -> Realised:
        return self.realise() if key is None else self.draw(key)

    def conditional(self, X: Array) -> tuple[Array, Array]:
        """Mean ``[n, *shape]`` and standard deviation ``[n]`` of m + h(x) (no warp yet) given the whitened values."""
        A = self.inverse() @ _squared_exponential(self.inducing, X, self.lengthscale)
        h = self.amplitude * (A.T @ self.whitened)
        mean = with_mean(h, self.mean, self.trend, X)
        return mean, self.amplitude * jnp.sqrt(jnp.maximum(1.0 - jnp.sum(A**2, axis=0), 1e-16))

    def draw_marginals(self, X: Array, key: Array) -> Array:
        """Values ``[n, *shape]`` drawn at each input independently, given the whitened values."""
        mean, deviation = self.conditional(X)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        return WARPS[self.warp](mean + deviation.reshape(-1, *(1 for _ in self.shape)) * noise)

    def inverse(self) -> Array:
        """L⁻¹ with L Lᵀ = k(Z, Z) of unit amplitude."""
        return _inverse(jnp.asarray(self.inducing), jnp.asarray(self.lengthscale))

    def _realised(self, weights: Array, waves: RandomWaves | None = None) -> Realised:
        return Realised(self.inducing, weights, self.mean, self.trend, self.lengthscale, waves, self.shape, self.warp)

    @entry_point
    def __call__(self, X: Array) -> Array:
        """Values at inputs: of the functions as they stand (their conditional mean)."""
        return constrain(self).realise()(X)


@eqx.filter_jit  # one program instead of dozens of small ones
def _mode(group: FunctionGroup, X: Array, seen: Array, near: Array) -> Array:
    """Whitened values given m + h ``[n, *shape]`` seen at X with precisions ``near``."""
    m, k = group.whitened.raw.shape
    group = constrain(group)
    seen = seen - with_mean(jnp.zeros((X.shape[0], k)), group.mean, group.trend, X)
    A = group.amplitude * group.inverse() @ _squared_exponential(group.inducing, X, group.lengthscale)

    def mode(near: Array, seen: Array) -> Array:
        return jnp.linalg.solve((A * near) @ A.T + jnp.eye(m), A @ (near * seen))

    return jax.vmap(mode, in_axes=1, out_axes=1)(near.reshape(-1, k), seen.reshape(-1, k))


class RandomWaves(eqx.Module):
    """Σ_f w_f √(2/F) cos(⟨r_f, x⟩ + b_f): draws from a squared-exponential prior. Rahimi & Recht (2007)."""

    rates: Array  # [F, d]
    offsets: Array  # [F]
    weights: Array  # [F, k]

    @classmethod
    def draw(cls, key: Array, waves: int, dimensions: int, functions: int, lengthscale: Array) -> Self:
        of_rates, of_offsets, of_weights = jax.random.split(key, 3)
        return cls(
            jax.random.normal(of_rates, (waves, dimensions)) / lengthscale,
            jax.random.uniform(of_offsets, (waves,), maxval=2.0 * jnp.pi),
            jnp.sqrt(2.0 / waves) * jax.random.normal(of_weights, (waves, functions)),
        )

    def __call__(self, X: Array) -> Array:
        return jnp.cos(X @ self.rates.T + self.offsets) @ self.weights


class Realised(eqx.Module):
    """A function group as a plain function of the input, θ(x) = F(m + k(x, Z) w), plus random waves when drawn."""

    inducing: Array
    weights: Array
    mean: Array
    trend: Array | None
    lengthscale: Array
    waves: RandomWaves | None
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)

    @entry_point
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
        if not isinstance(nodes[i], FunctionGroup):
            nodes[i] = nodes[i].plain(one)
        elif one is None:
            nodes[i] = nodes[i].realise(next(inverses))
        else:
            nodes[i] = nodes[i].draw(one, inverse=next(inverses))
    return jax.tree.unflatten(structure, nodes)


def _is_random(node: Any) -> bool:
    return isinstance(node, AbstractRandom)


# Shared by all functions with Gaussian-process priors:


def unwarped(start: Any, shape: tuple[int, ...], warp: Warp) -> Any:
    """The value before the warp, ``shape``, of functions that start at a constant."""
    if warp not in WARPS:
        raise ValueError(f"warp must be one of {', '.join(WARPS)}, got {warp!r}")
    centre = _UNWARPS[warp](np.broadcast_to(np.asarray(start, dtype=np.float64), shape))
    if not np.all(np.isfinite(centre)):
        raise ValueError(f"start must be positive for the warp {warp!r}, got {start!r}")
    return centre


def as_inducing(value: Any) -> Any:
    inducing = np.asarray(value, dtype=np.float64)
    if inducing.ndim != 2:
        raise ValueError(f"inducing must have shape [m, d], got {list(inducing.shape)}")
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


def around(centre: Any, deviation: float) -> Any:
    """A parameter with a normal prior around its start, or with no deviation a fixed number."""
    return Real(centre, Normal(centre, deviation)) if deviation else centre


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
        found |= zip(same, jax.vmap(_inverse)(Z, lengthscale), strict=True)
    return (found[i] for i in range(len(groups)))


def _inverse(Z: Array, lengthscale: Array) -> Array:
    # Inducing inputs closer than the lengthscale make k(Z, Z) singular to rounding, and what its factor then makes of
    # whitened values carries noise, on which NUTS stalls: its steps shrink to nothing. A fixed nugget keeps it smooth.
    K = _squared_exponential(Z, Z, lengthscale) + NUGGET * jnp.eye(Z.shape[0], dtype=Z.dtype)
    return cholesky(K, "k(Z, Z) of a latent function").inverse


def _squared_exponential(X: Array, Z: Array, lengthscale: Array) -> Array:
    # One dimension after the other: an array [n, m, d] and its sum over the last axis would be several times slower.
    # The lengthscale enters last, so that its gradient is a sum over the matrix and none is taken to the inputs.
    squares = [(x[:, None] - z) ** 2 for x, z in zip(X.T, Z.T, strict=True)]
    if jnp.ndim(lengthscale):
        squares = [square * narrow for square, narrow in zip(squares, lengthscale**-2, strict=True)]
        return jnp.exp(-0.5 * functools.reduce(jnp.add, squares))
    return jnp.exp(-0.5 * lengthscale**-2 * functools.reduce(jnp.add, squares))
