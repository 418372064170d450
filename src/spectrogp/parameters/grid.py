"""Functions of one input on an even grid of any length: white noise at knots, smoothed by a window.

θ(x) = F(m + h(x)), h(x) = a Σ_j g(x − z_j) v_j with v ~ N(0, I) at knots z_j that are δ apart, and

    g(t) = (δ/ℓ · √(2/π))^½ exp(−t²/ℓ²)

is a process convolution (Higdon 2002). Its covariance is a² exp(−Δ²/2ℓ²) up to 2 exp(−π²ℓ²/2δ²) of it, by Poisson's
summation: the squared exponential of ``FunctionGroup``, to 3e-4 at δ = 0.75 ℓ. There is no matrix to factor, a value
needs the few knots around it, and the number of knots can grow with the signal.

The window of a Matérn covariance of order 11/2, whose spectral density falls as ω⁻¹² and not as exp(−½ω²ℓ²), is

    g(t) = (2δλ/7)^½ (1 + r + r²/3) exp(−r),    r = λ|t|,    λ = √11/ℓ,

the Matérn correlation of order 5/2: its transform is the square root of that density. The variance is that of the
process but for a ripple, twice the transform of g² at 2π/δ: 0.3 % of it at δ = 0.5 ℓ.

Values are computed at nodes, four to a knot, and between them by a cubic; integrals, which phases and warped times
need, are exact for the cubic through four nodes. So everything is linear in the number of inputs and of knots.
"""

from __future__ import annotations

import math
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.linalg import solveh_banded

from ..core import Module, inputs, with_fields
from .functions import UNWARPS, WARPS, AbstractRandom, Warp, around, unwarped
from .priors import LogNormal
from .values import Positive, Role, constrain, latent

SQUARED_EXPONENTIAL, ELEVEN_HALVES = math.inf, 5.5  # orders: how many derivatives functions have, nearly
# Of both: distance of knots, in the shortest lengthscale that they can follow; lengthscales after which g counts as
# zero, where it is 2e-4 and 1e-3; and those after which it has fallen below a hundredth. What a posterior can follow
# is finer than the covariance tells: an error of ε in it is one of √ε in the functions.
DENSITY = {SQUARED_EXPONENTIAL: 0.75, ELEVEN_HALVES: 0.5}
SUPPORT = {SQUARED_EXPONENTIAL: 2.9, ELEVEN_HALVES: 3.3}
NEAR = {SQUARED_EXPONENTIAL: 2.2, ELEVEN_HALVES: 2.42}
RANGE = (0.6, 1.8)  # shortest and longest lengthscales that knots and taps are made for, as factors of its median
OVER = 4  # nodes to a knot


class GridFunctionGroup(AbstractRandom):
    """A group of functions of one input θ(x) = F(m + h(x)) with knots on an even grid; values ``[n, *shape]``.

    The prior of h is that of a ``FunctionGroup``, a squared exponential, and so is its use; but costs are linear in the
    number of knots, and given the knots the functions are known everywhere. Of order 11/2 it is a Matérn process: what
    changes at several rates, or suddenly, is less of a surprise to it. Outside the grid h returns to zero, and the
    functions to their typical value F(m).

    Args:
        extent: Smallest and largest input.
        initial: The constant value at which they begin, in the units of the parameter; broadcast to ``shape``.
        shape: ``(a, 1)`` for lengthscales and frequencies, ``(a,)`` for amplitudes, ``()`` for the noise.
        warp: F: "exp" or "softplus" for positive functions, "identity" for any others.
        lengthscale: Median of the log-normal prior on the lengthscale of h, in units of the input.
        amplitude: Median of the log-normal prior on the standard deviation of h, which is before the warp.
        mean_std: Standard deviation of the prior on m, around its initial value; 0 keeps m fixed.
        lengthscale_std: Standard deviation of the logarithm of the lengthscale a priori; 0 keeps it fixed, and takes
            fewer knots.
        knots: How many there are, if not as many as are needed; more reach further beyond the extent, and let groups of
            different lengthscales share compiled programs.
        order: That of the covariance of h: infinite for a squared exponential, or 5.5 for a Matérn one.
        shared: Whether there is one h for all functions, which differ by their means m alone: with an exponential for F
            by constant factors.

    Example:
        >>> import numpy as np
        >>> import spectrogp as sg
        >>> frequency = sg.GridFunctionGroup((0.0, 1.0), initial=2 * np.pi, shape=(1, 1), lengthscale=0.2)
        >>> frequency(np.array([[0.5]])).round(4)
        array([[[6.2832]]])
    """

    origin: Any  # [], the first knot
    spacing: Any  # []
    whitened: Any  # [r, k], k = the product of shape, or one for all
    mean: Any  # shape, before the warp
    lengthscale: Any = eqx.field(metadata={"unit": "x"})  # []
    amplitude: Any  # []
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)
    reach: int = eqx.field(static=True)  # knots on each side that a value depends on
    order: float = eqx.field(static=True)
    whole: bool = eqx.field(static=True)  # False for a stretch of a longer grid, whose functions go on beyond it

    def __init__(
        self,
        extent: tuple[float, float],
        initial: Any,
        *,
        shape: tuple[int, ...] = (),
        warp: Warp = "exp",
        lengthscale: float = 1.0,
        amplitude: float = 0.5,
        mean_std: float = 1.0,
        lengthscale_std: float = 0.3,
        knots: int | None = None,
        order: float = SQUARED_EXPONENTIAL,
        shared: bool = False,
    ) -> None:
        low, high = (float(end) for end in extent)
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"extent must be two increasing numbers, got {extent!r}")
        if not lengthscale > 0:
            raise ValueError(f"lengthscale must be positive, got {lengthscale!r}")
        if order not in DENSITY:
            raise ValueError(f"order must be {' or '.join(map(str, DENSITY))}, got {order!r}")
        spacing, self.reach = _spacing(float(lengthscale), order, *(RANGE if lengthscale_std else (1.0, 1.0)))
        count = math.ceil((high - low) / spacing) + 2 * self.reach + 1
        if knots is not None and knots < count:
            raise ValueError(f"this extent and lengthscale need at least {count} knots, got {knots}")
        self.origin = np.asarray(low - self.reach * spacing)
        self.spacing = np.asarray(spacing)
        self.whitened = latent((count if knots is None else knots, 1 if shared else int(np.prod(shape))))
        self.mean = around(unwarped(initial, shape, warp), mean_std)
        role: Role = "hyperparameter" if lengthscale_std else "fixed"
        self.lengthscale = Positive(lengthscale, LogNormal(lengthscale, lengthscale_std or 1.0), role)
        self.amplitude = Positive(amplitude, LogNormal(amplitude, 0.5))
        self.shape = tuple(shape)
        self.warp = warp
        self.order = order
        self.whole = True

    @property
    def near(self) -> float:
        """How far from a knot, in units of the input, its window is above a hundredth."""
        return NEAR[self.order] * float(_number(self.lengthscale))

    @property
    def places(self) -> Any:
        """The knots ``[r, 1]``."""
        count = (self.whitened.raw if hasattr(self.whitened, "raw") else self.whitened).shape[0]
        return (self.origin + self.spacing * np.arange(count))[:, None]

    def fitted_to(self, X: ArrayLike, values: ArrayLike, std: Any) -> Self:
        """The same group with whitened values such that the functions follow values at inputs.

        Args:
            X: Inputs ``[n, 1]``.
            values: What the functions should be there, ``[n, *shape]``, after the warp.
            std: How closely, before the warp (broadcast to ``[n, *shape]``): the result is the posterior mode of v when
                the values are seen with normal errors of this standard deviation.
        """
        seen = UNWARPS[self.warp](np.asarray(values, np.float64)) - _number(self.mean)
        precision = np.broadcast_to(np.asarray(std, float), seen.shape) ** -2.0
        count, functions = self.whitened.raw.shape
        first, weights = self._taps(np.asarray(X, float)[:, 0])
        # Values [n, h, k] of functions [k], each seen h times: what shares one h is seen as often as there are means.
        means = seen.size // max(len(first) * functions, 1)
        products, precision = (part.reshape(len(first), means, functions) for part in (precision * seen, precision))
        columns = [
            _banded_mode(first, weights, count, z, w)
            for z, w in zip(np.sum(products, axis=1).T, np.sum(precision, axis=1).T, strict=True)
        ]
        return with_fields(self, whitened=with_fields(self.whitened, raw=np.column_stack(columns)))

    def stretch(self, first: Any, count: int) -> Self:
        """The same functions around some of the knots only: ``count`` of them from number ``first`` on.

        They are the same where all knots that a value depends on are there.
        """
        rows = jnp.asarray(first) + jnp.arange(count)
        part = object.__new__(type(self))
        for name, value in (vars(self) | {"whole": False}).items():
            object.__setattr__(part, name, value)
        return eqx.tree_at(
            lambda group: (group.whitened.raw, group.origin),
            part,
            (jnp.asarray(self.whitened.raw)[rows], self.origin + self.spacing * jnp.asarray(first)),
        )

    def knots_between(self, low: Any, high: Any, multiple: int = 1) -> tuple[np.ndarray, int]:
        """The first knots ``[b]`` of stretches that serve inputs, and how many each has so that all are served.

        Args:
            low: Smallest inputs ``[b]`` of the stretches.
            high: Largest ones.
            multiple: What their number of knots is a multiple of, if there are enough.
        """
        count = self.whitened.raw.shape[0]
        # One knot more on either side: the cubic between nodes looks at one node beyond the cell.
        first = np.floor((np.asarray(low) - self.origin) / self.spacing).astype(int) - self.reach - 1
        last = np.ceil((np.asarray(high) - self.origin) / self.spacing).astype(int) + self.reach + 1
        most = multiple * math.ceil((int(np.max(last - first)) + 1) / multiple)
        return np.clip(first, 0, max(count - most, 0)), min(most, count)

    def knots_felt(self, first: np.ndarray, count: int, low: Any, high: Any, *, whole: bool = False) -> np.ndarray:
        """Which knots ``[b, count]`` of stretches count there: those by which values change more than a hundredth.

        Beyond the ends of all stretches, and between them, there are knots that are so near to none. What changes
        little may still turn a phase by much: stretches that such a knot reaches feel it, too, or else nothing but the
        prior says how far a step may move it. What is whole has all knots in one place, where a step is damped in all.

        Args:
            first: The first knots ``[b]`` of the stretches.
            count: How many knots each has.
            low: Smallest inputs ``[b]`` of the stretches.
            high: Largest ones.
            whole: Whether each stretch is all there is.
        """
        knots = first[:, None] + np.arange(count)
        places = np.asarray(self.origin) + np.asarray(self.spacing) * knots

        def within(distance: Any) -> np.ndarray:
            return np.asarray((places > low[:, None] - distance) & (places < high[:, None] + distance))

        near = within(self.near)
        if whole:
            return near
        alone = np.ones(np.max(knots) + 1, bool)
        alone[knots[near]] = False
        return near | (within(self.reach * np.asarray(self.spacing)) & alone[knots])

    # Of a constrained group, as ``realise`` meets it inside a model:

    def realise(self, key: Array | None = None, inverse: Array | None = None) -> OnGrid:
        """Plain functions; given the knots nothing about them is uncertain, so that a draw is the same.

        Args:
            key: Not needed.
            inverse: Not needed.
        """
        del key, inverse
        v, reach = jnp.asarray(self.whitened), self.reach
        before = 2 * reach + 2 if self.whole else 0
        if (
            self.whole
        ):  # white noise that is not there: h goes back to zero, and the first and last cells have nothing else
            v = jnp.pad(v, ((before, before - 1), (0, 0)))
        offsets = (np.arange(OVER)[:, None] / OVER - np.arange(-reach, reach + 1)) * self.spacing  # [over, taps]
        stencil = self.amplitude * _window(offsets, self.spacing, self.lengthscale, self.order, jnp)
        cells = v.shape[0] - 2 * reach
        # A product of matrices: XLA would compute a sum of the taps again for each use of a node.
        taps = jnp.stack([v[tap : tap + cells] for tap in range(2 * reach + 1)], axis=1)
        h = jnp.einsum("ot,ctk->cok", stencil, taps).reshape(cells * OVER, -1)
        start = self.origin + self.spacing * (reach - before)
        return OnGrid(start, self.spacing / OVER, h + jnp.ravel(self.mean), self.shape, self.warp)

    def __call__(self, X: Any) -> Array:
        """Values ``[n, *shape]`` at inputs ``X [n, 1]``."""
        return constrain(self).realise()(inputs(X))

    def unwarped(self, X: ArrayLike) -> np.ndarray:
        """m + h ``[n, *shape]`` at inputs ``X [n, 1]`` of the extent, in NumPy: nothing is compiled."""
        first, weights = self._taps(np.asarray(X, float)[:, 0])
        knots = np.asarray(self.whitened.raw)[first[:, None] + np.arange(weights.shape[1])]
        h = np.einsum("nt,ntk->nk", weights, knots)
        return (h + np.ravel(_number(self.mean))).reshape(-1, *self.shape)

    def _taps(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first knot ``[n]`` that each of x ``[n]`` depends on, and weights ``[n, taps]`` of that and others."""
        place = (x - float(self.origin)) / float(self.spacing)
        taps = 2 * self.reach + 1
        first = np.clip(np.floor(place).astype(int) - self.reach, 0, self.whitened.raw.shape[0] - taps)
        offsets = (place[:, None] - first[:, None] - np.arange(taps)) * float(self.spacing)
        window = _window(offsets, float(self.spacing), float(_number(self.lengthscale)), self.order, np)
        return first, float(_number(self.amplitude)) * window


def knots_needed(extent: tuple[float, float], lengthscale: float, order: float = SQUARED_EXPONENTIAL) -> int:
    """How many knots a ``GridFunctionGroup`` of a fixed lengthscale needs.

    Args:
        extent: Smallest and largest input.
        lengthscale: Of its functions.
        order: Of their covariance.
    """
    spacing, reach = _spacing(lengthscale, order)
    return math.ceil((extent[1] - extent[0]) / spacing) + 2 * reach + 1


def _spacing(lengthscale: float, order: float, shortest: float = 1.0, longest: float = 1.0) -> tuple[float, int]:
    """Distance of knots, and how many on each side a value depends on."""
    spacing = DENSITY[order] * shortest * lengthscale
    return spacing, math.ceil(SUPPORT[order] * longest * lengthscale / spacing)


class OnGrid(Module):
    """Functions of one input by their values at even nodes, before the warp; and their integrals.

    Args:
        origin: The first node.
        step: Distance of nodes.
        nodes: m + h there, ``[g, k]``.
        shape: Of the values of the functions, with k the product.
        warp: What makes values of m + h.
    """

    origin: Any
    step: Any
    nodes: Array
    shape: tuple[int, ...] = eqx.field(static=True)
    warp: Warp = eqx.field(static=True)

    def __call__(self, X: Array) -> Array:
        """Values ``[n, *shape]`` at inputs ``X [n, 1]``; beyond the nodes those of the last."""
        a, b, c, d = self.nodes[:-3], self.nodes[1:-2], self.nodes[2:-1], self.nodes[3:]
        # The cubic through four nodes, in the place u in the cell between the two in the middle.
        cubic = (b, c - a / 3 - b / 2 - d / 6, (a + c) / 2 - b, (d - a) / 6 + (b - c) / 2)
        h, _, _ = self._read(cubic, X)
        return WARPS[self.warp](h).reshape(X.shape[0], *self.shape)

    def integral(self, X: Array, power: int = 1) -> Array:
        """∫ θ^power from the second node to inputs ``X [n, 1]``, ``[n, *shape]``; linear beyond the nodes."""
        values = self.step * WARPS[self.warp](self.nodes) ** power
        a, b, c, d = values[:-3], values[1:-2], values[2:-1], values[3:]
        # The cubic through the nodes around a cell, integrated over it; between nodes the one with these values and
        # slopes at both ends.
        rise = (13.0 * (b + c) - a - d) / 24.0
        start = jnp.cumsum(rise, axis=0) - rise
        total, slope, beyond = self._read((start, b, 3.0 * rise - 2.0 * b - c, b + c - 2.0 * rise), X)
        return (total + slope * beyond).reshape(X.shape[0], *self.shape)

    def _read(self, cubic: tuple[Array, ...], X: Array) -> tuple[Array, Array, Array]:
        """A cubic of each cell at inputs: values and slopes ``[n, k]`` inside the nodes, and how far beyond they are.

        That of the first cell reaches to the first node and that of the last to the last. All coefficients of a cell
        lie side by side: one place in memory to read for each input, and, in the gradient, one to add to.
        """
        place = (X[:, 0] - self.origin) / self.step - 1.0
        cell = jnp.clip(jnp.floor(place), 0, self.nodes.shape[0] - 4).astype(int)
        full = place - cell
        u = jnp.clip(full, -1.0, 2.0)  # inside 0 and 1 but for those two
        k0, k1, k2, k3 = jnp.split(jnp.concatenate(cubic, axis=1)[cell], 4, axis=1)
        v = u[:, None]
        return k0 + v * (k1 + v * (k2 + v * k3)), k1 + v * (2.0 * k2 + 3.0 * v * k3), (full - u)[:, None]


def _number(value: Any) -> np.ndarray:
    """A parameter's value in NumPy: nothing is compiled."""
    raw = np.asarray(getattr(value, "raw", value), float)
    return np.exp(raw) if isinstance(value, Positive) else raw


def _window(t: Any, spacing: Any, lengthscale: Any, order: float, xp: Any) -> Any:
    """g(t) without the amplitude."""
    if order == ELEVEN_HALVES:
        rate = math.sqrt(11.0) / lengthscale
        r = rate * xp.abs(t)
        return xp.sqrt(2.0 / 7.0 * rate * spacing) * (1.0 + r + r**2 / 3.0) * xp.exp(-r)
    return xp.sqrt(math.sqrt(2.0 / math.pi) * spacing / lengthscale) * xp.exp(-((t / lengthscale) ** 2))


def _banded_mode(
    first: np.ndarray, weights: np.ndarray, count: int, products: np.ndarray, precision: np.ndarray
) -> Any:
    """v ``[count]`` of largest density for v ~ N(0, I) and values ``[n]`` = W v seen with errors of given precisions.

    ``products`` are those of values and precisions.
    """
    taps = weights.shape[1]
    bands = np.zeros((min(taps, count), count))
    bands[0] = 1.0
    right = np.zeros(count)
    for i in range(taps):
        right += np.bincount(first + i, weights[:, i] * products, count)
        for j in range(i, taps):
            product = np.bincount(first + i, weights[:, i] * weights[:, j] * precision, count)
            bands[j - i] += product
    return solveh_banded(bands, right, lower=True)
