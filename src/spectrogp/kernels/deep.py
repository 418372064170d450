"""Deep Gaussian processes: functions whose prior is a kernel made of further such functions, to any depth.

A deep model is a model with a deep kernel. There are two kinds, and both are stacks of ``Layer`` s:

    covariance functions   f_l | f_(l−1) ~ GP(0, k_θ), θ = F∘f_(l−1)          ``covariance_layers``
    composition            f_l | f_(l−1) ~ GP(m_l∘f_(l−1), k(f_(l−1)·, f_(l−1)·))   ``compositional_layers``

Shen, Heinonen & Kaski (2020), Eqs. 24–30; Dunlop et al. (2018). The last function is that of the model which takes the
kernel, and is integrated out or not as that model does. Given all functions below, a deep kernel is a kernel like any
other, and has a spectrogram.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..core import Module, at_least, cholesky, inputs
from ..parameters import (
    NUGGET,
    WARPS,
    WAVES,
    AbstractRandom,
    FunctionGroup,
    LogNormal,
    Normal,
    Positive,
    RandomWaves,
    Real,
    Warp,
    around,
    as_inducing,
    as_trend,
    constrain,
    latent,
    realise,
    unwarped,
    with_mean,
)
from .base import AbstractInner, AbstractKernel, Warped
from .chirplet import Chirplet
from .nonstationary import ConvolutionalSpectral, NonstationaryQuadratic
from .stationary import SquaredExponential

Family = Literal["nsq", "convolutional", "chirplet"]


class Layer(AbstractRandom):
    """Functions θ(x) = F(m + s h(x)), h ~ GP(0, k) for any kernel k, whose own parameters may be functions again.

    Like a ``FunctionGroup``, with whitened values v ~ N(0, I) at inducing inputs Z, h(Z) = L v, L Lᵀ = k(Z, Z), for
    every layer in the space of the model's inputs.

    Args:
        kernel: k, the kernel of h; its own parameters may be functions or layers.
        inducing: Inputs Z ``[m, d]`` at which the functions have their values.
        initial: The constant value at which they begin, in the units of the parameter; broadcast to ``shape``.
        shape: ``(a, d)`` for lengthscales and frequencies, ``(a,)`` for amplitudes, ``()`` for one function.
        warp: F: "exp" or "softplus" for positive functions, "identity" for any others.
        amplitude: Median of the log-normal prior on s, before the warp.
        mean_std: Standard deviation of the prior on m, around its initial value; 0 keeps m fixed.
        trend: ``[w, k]`` or None: a linear function of the kernel's warp, that is of the layer below, which is added to
            m (the "monotonic" layers of a composition); the kernel must then be ``Warped``.
    """

    kernel: AbstractKernel
    inducing: Any  # [m, d]
    whitened: Any  # [m, k], k = the product of shape
    mean: Any  # shape, before the warp
    trend: Any  # [w, k] or None
    amplitude: Any  # []
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)

    def __init__(
        self,
        kernel: AbstractKernel,
        inducing: Any,
        initial: Any,
        *,
        shape: tuple[int, ...] = (),
        warp: Warp = "exp",
        amplitude: Any = 0.5,
        mean_std: float = 1.0,
        trend: Any = None,
    ) -> None:
        self.kernel = kernel
        self.inducing = as_inducing(inducing)
        self.whitened = latent((len(self.inducing), int(np.prod(shape))))
        self.mean = around(unwarped(initial, shape, warp), mean_std)
        if trend is not None and not isinstance(kernel, Warped):
            raise TypeError(f"a trend is taken of the kernel's warp: the kernel must be Warped, got {type(kernel)}")
        self.trend = None if trend is None else as_trend(trend, np.shape(trend)[0], self.whitened.raw.shape[1])
        self.amplitude = Positive(amplitude, LogNormal(amplitude, 0.5))
        self.shape = tuple(shape)
        self.warp = warp

    @property
    def places(self) -> Any:
        return self.inducing

    def realise(self, key: Array | None = None, inverse: Array | None = None) -> RealisedLayer:
        """The conditional mean given the whitened values, on that of the layers below; with a key, draws of all.

        A draw has the right mean and variance at every input and is a smooth function of it: h(x) = k(x, Z) L⁻ᵀv +
        s(x) g(x) with s² the conditional variance and g a standard normal process that varies over the distance between
        inducing inputs, as what they leave open does. Draws that are right jointly would need features of k.

        Args:
            key: A JAX random key for a draw; None for the conditional mean.
            inverse: Not used: the covariance depends on the layers below.
        """
        del inverse
        below, own = (None, None) if key is None else jax.random.split(key)
        kernel = realise(self.kernel, below)
        z = kernel.local(jnp.asarray(self.inducing))
        K = AbstractKernel.cross(kernel, z, z)
        K = K + NUGGET * jnp.diag(jnp.diagonal(K))
        root = cholesky(K, "K(Z, Z) of a layer").inverse
        weights = self.amplitude * (root.T @ self.whitened)
        between = None
        if own is not None:
            m, d = self.inducing.shape
            extent = jnp.ptp(jnp.asarray(self.inducing), axis=0)
            spacing = jnp.where(extent > 0, extent, 1.0) / m ** (1 / d)
            waves = RandomWaves.draw(own, WAVES, d, self.whitened.shape[1], spacing)
            between = root, eqx.tree_at(lambda w: w.weights, waves, self.amplitude * waves.weights)
        return RealisedLayer(kernel, z, weights, self.mean, self.trend, between, self.shape, self.warp)

    def __call__(self, X: Array) -> Array:
        """Values ``[n, *shape]`` at inputs ``X [n, d]`` of the functions as they stand (their conditional means)."""
        return constrain(self).realise()(inputs(X))


class RealisedLayer(Module):
    """A layer as a plain function of the input, θ(x) = F(m + k(x, Z) w), plus what is drawn between the Z.

    ``kernel`` k, ``z`` its local parameters at Z, ``weights`` w, ``mean`` m and ``trend``; ``between`` has L⁻¹ and the
    process that is drawn; ``shape`` and ``warp`` are those of the layer.
    """

    kernel: AbstractKernel
    z: PyTree
    weights: Array  # [m, k]
    mean: Array
    trend: Array | None
    between: tuple[Array, RandomWaves] | None  # L⁻¹, and the standard process times the amplitude
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)

    def __call__(self, X: Array) -> Array:
        X = jnp.asarray(X)
        p = self.kernel.local(X)
        # Not the kernel's fast path, which has no forward derivative: spectrograms and chirplets above need one.
        K = AbstractKernel.cross(self.kernel, p, self.z)
        h = K @ self.weights
        if self.between is not None:
            inverse, waves = self.between
            left = self.kernel.diagonal(p) - jnp.sum((K @ inverse.T) ** 2, axis=1)
            h = h + jnp.sqrt(jnp.maximum(left, 1e-12))[:, None] * waves(X)
        below = self.kernel.warp(X) if isinstance(self.kernel, Warped) and self.trend is not None else X
        return WARPS[self.warp](with_mean(h, self.mean, self.trend, below))


class Slot(Module):
    """A place among a kernel's parameters for functions of a layer: F(m + c f), f its columns from ``first`` on.

    ``mean`` m and ``scale`` c are before the ``warp`` F; ``functions`` are put in by the ``Layered`` kernel.
    """

    mean: Any  # the shape of the parameter, before the warp
    scale: float = eqx.field(static=True)
    first: int = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)
    functions: Any = None

    def __call__(self, X: Array) -> Array:
        if self.functions is None:
            raise TypeError("a Slot has no functions of its own: use it inside a Layered kernel")
        h = self.functions(X)[:, self.first : self.first + int(np.prod(jnp.shape(self.mean)))]
        return WARPS[self.warp](with_mean(self.scale * h, self.mean, None, X))


class Layered(AbstractInner):
    """A kernel several of whose parameters (its ``Slot`` s) are functions of one group or layer.

    So the lengthscales and frequencies of a layer share their prior, θ = F∘f with one vector-valued f.
    """

    kernel: AbstractKernel
    functions: Any  # gives [n, k] without a warp

    def local(self, X: Array) -> Any:
        known: list[tuple[Array, Array]] = []

        def functions(at: Array) -> Array:
            # Once for all slots: each would go down all layers again, and the work double with every layer.
            for X, values in known:
                if X is at:
                    return values
            known.append((at, self.functions(at)))
            return known[-1][1]

        def fill(node: Any) -> Any:
            return dataclasses.replace(node, functions=functions) if isinstance(node, Slot) else node

        filled: AbstractKernel = jax.tree.map(fill, self.kernel, is_leaf=lambda node: isinstance(node, Slot))
        return filled.local(X)


def covariance_layers(
    inducing: Any,
    *,
    depth: int,
    family: Family = "convolutional",
    lengthscale: Any = 1.0,
    frequency: Any = 1.0,
    amplitude: Any = 1.0,
    components: int = 1,
    spread: float = 0.5,
) -> AbstractKernel:
    """The kernel of a deep GP of covariance functions: f_l | f_(l−1) ~ GP(0, k_θ), θ = F∘f_(l−1), ``depth`` layers.

    With depth 1 it is stationary. From depth 2 on its lengthscales and frequencies are functions of the layer below,
    whose kernel is of the same family and has one component, and so on.

    Args:
        inducing: Inducing inputs ``[m, d]`` of all layers.
        depth: Number of layers.
        family: "nsq", "convolutional" or "chirplet".
        lengthscale: Where lengthscales begin in every layer, in units of the input: a number or ``[d]``; for the top
            also ``[components, d]``, the others then begin at the mean.
        frequency: Where frequencies begin, *angular*, likewise.
        amplitude: Standard deviation of the top, in units of the output: a number or ``[components]``.
        components: Components of the top.
        spread: Relative size of the variation, θ = m exp(spread f); of frequencies with several input dimensions, whose
            sign matters, ω = m + spread |m| f.
    """
    Z = as_inducing(inducing)
    at_least(1, depth=depth, components=components)
    if family not in _FAMILIES:
        raise ValueError(f"family must be one of {', '.join(_FAMILIES)}, got {family!r}")
    d = Z.shape[1]
    warps: dict[str, Warp] = {"lengthscale": "exp"}
    if family != "nsq":
        warps["frequency"] = "exp" if d == 1 else "identity"
    given = {"lengthscale": lengthscale, "frequency": frequency}

    def level(number: int, a: int, strength: Any) -> AbstractKernel:
        starts = {name: _starts(given[name], a, d) for name in warps}
        if number == 1:
            constants = {name: _parameter(starts[name], warp) for name, warp in warps.items()}
            return _FAMILIES[family](**constants, amplitude=strength)
        slots = {name: _slot(starts[name], warp, i * a * d) for i, (name, warp) in enumerate(warps.items())}
        functions = Layer(
            level(number - 1, 1, 1.0),
            Z,
            0.0,
            shape=(len(warps) * a * d,),
            warp="identity",
            amplitude=spread,
            mean_std=0.0,
        )
        return Layered(_FAMILIES[family](**slots, amplitude=strength), functions)

    return level(depth, components, _parameter(np.broadcast_to(amplitude, (components,)), "exp"))


def compositional_layers(
    inducing: Any,
    *,
    depth: int,
    width: int | None = None,
    lengthscale: Any = 1.0,
    amplitude: Any = 1.0,
    spread: float = 0.5,
    linear_mean: bool = True,
) -> AbstractKernel:
    """The kernel of a deep GP that composes ``depth`` functions, f = f_L ∘ … ∘ f_1, with squared-exponential kernels.

    The inducing inputs of each layer are the images of the given ones under the layers below. Damianou & Lawrence
    (2013); Salimbeni & Deisenroth (2017).

    Args:
        inducing: Inducing inputs ``[m, d]``.
        depth: Number of functions.
        width: Outputs of the inner functions; as many as inputs when left out.
        lengthscale: Where the lengthscales of all layers begin, a number or one for each column.
        amplitude: Standard deviation of the outermost function, in units of the output.
        spread: Prior standard deviation of the inner functions around their mean.
        linear_mean: Whether that mean is the first columns of their input ("monotonic" layers, which keep the prior
            from collapsing to constants), or zero.
    """
    Z = as_inducing(inducing)
    d = Z.shape[1]
    w = d if width is None else width
    at_least(1, depth=depth, width=w)

    def squared_exponential(columns: int, strength: Any) -> SquaredExponential:
        return SquaredExponential(_parameter(np.broadcast_to(lengthscale, (columns,)), "exp"), strength)

    def settings(columns: int) -> dict[str, Any]:
        trend = np.eye(columns, w) if linear_mean else None
        return {"shape": (w,), "warp": "identity", "amplitude": spread, "mean_std": 0.0, "trend": trend}

    strength = _parameter(amplitude, "exp")
    if depth == 1:
        return squared_exponential(d, strength)
    inner: Any = FunctionGroup(Z, 0.0, lengthscale=np.broadcast_to(lengthscale, (d,)), **settings(d))
    for _ in range(depth - 2):
        inner = Layer(Warped(squared_exponential(w, 1.0), inner), Z, 0.0, **settings(w))
    return Warped(squared_exponential(w, strength), inner)


_FAMILIES: dict[Family, Any] = {
    "nsq": NonstationaryQuadratic,
    "convolutional": ConvolutionalSpectral,
    "chirplet": Chirplet,
}


def _starts(value: Any, a: int, d: int) -> Any:
    """Starting values ``[a, d]``; hidden layers, with one component, start at the mean over those of the top."""
    array = np.asarray(value, dtype=np.float64)
    return np.broadcast_to(array.mean(axis=0) if array.ndim == 2 and a == 1 else array, (a, d))


def _parameter(start: Any, warp: Warp) -> Any:
    """A constant with a prior around its start."""
    start = np.array(start, dtype=np.float64)
    return Real(start, Normal(start, _size(start))) if warp == "identity" else Positive.around(start)


def _slot(start: Any, warp: Warp, first: int) -> Slot:
    scale = _size(start) if warp == "identity" else 1.0
    return Slot(around(unwarped(start, start.shape, warp), scale), scale, first, warp)


def _size(start: Any) -> float:
    """The scale of numbers that may be positive or negative: their root mean square, or 1 for zeros."""
    return float(np.sqrt(np.mean(np.square(start)))) or 1.0
