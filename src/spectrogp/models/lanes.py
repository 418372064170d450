"""Many short likelihoods at once: blocks of a timeline, each with its own copy of the numbers that it depends on.

A block of time depends on the knots of its functions that are near it, and on the few numbers that everything shares.
Given copies of both of their own, blocks are independent: one evaluation of all blocks' gradients, with the k-th number
of every copy changed, is the k-th column of every block's Hessian. Trials that begin elsewhere, too, are copies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from ..core import SOON, entry_point, program_threads, side_by_side
from ..parameters import GridFunctionGroup, log_prior, partition
from .channels import ChannelGP
from .information import information, innovations
from .markov import MarkovGP
from .timeline import Timeline

# Lanes that are walked at once: more where blocks are many and short, and have few oscillators. Those that are not
# needed cost as others do.
WIDTHS, SHORT, MANY, FEW = (32, 256), 1024, 64, 4
OVERHEAD = 2  # oscillators that a lane costs beside those that it has
# Numbers of knots of a block are multiples of this, so that programs are shared; of fewer where blocks are many: they
# have a program of their own, and Hessians that grow with the square.
STRETCH = 32, 8
_HALF_LOG = 0.5 * np.log(2.0 * np.pi)


class Lanes:
    """The log likelihood of a Markov model as a sum over blocks, each a function of a few of the model's numbers.

    All free numbers of the model are one vector: the whitened values of its functions on grids, knot by knot, and then
    the others (``border``). Every block depends on these, or, of several channels, on those of its own and on what all
    share. Blocks of all channels have the same shape, so that they are walked side by side too.

    Args:
        model: The model; its numbers are where copies begin.
        timeline: Blocks of its data, those of several channels by ``Timeline.side_by_side``.
    """

    def __init__(self, model: MarkovGP | ChannelGP, timeline: Timeline) -> None:
        self.model, self.timeline, self._free = model, timeline, _free_leaves(model)
        self._compiled = False
        channels = model.channels
        self.count = timeline.t.shape[1]
        self.whole = self.count == len(channels)  # whether all data of a channel are one block
        self.oscillators = len(channels[0].owners())
        wide = self.count > MANY and len(timeline.t) <= SHORT and self.oscillators <= FEW
        self.width = WIDTHS[wide and not self.whole]
        # Whether what rows tell costs much less than differences, which grow with the square of the oscillators.
        self.informed = self.whole or self.oscillators > FEW
        self.work = 0.0  # so far, in rows of lanes times squares of oscillators
        low, high = np.min(timeline.t, axis=0), np.max(timeline.t, axis=0)
        groups = grid_groups(channels[0])
        # A single block has all knots, whatever its functions need: programs then are shared by many fits.
        stretches = [
            (np.zeros(self.count, int), len(group.whitened.raw))
            if self.whole
            else group.knots_between(low, high, STRETCH[wide])
            for group in groups
        ]
        templates = channels if self.whole else [_stretched(one, [count for _, count in stretches]) for one in channels]
        self._template, (self._places, held) = templates[0], _held_apart(templates)
        channel = np.zeros(self.count, int) if timeline.channel is None else timeline.channel
        self._own = tuple(values[channel] for values in held)  # of each block
        self._origins = np.array(
            [group.origin + group.spacing * first for group, (first, _) in zip(groups, stretches, strict=True)]
        ).reshape(len(groups), self.count)
        members, offset = [], 0
        for group, (first, count) in zip(groups, stretches, strict=True):
            rows, functions = group.whitened.raw.shape
            local = (first[:, None] + np.arange(count))[..., None] * functions + np.arange(functions)
            members.append(offset + local.reshape(self.count, -1))
            offset += rows * functions
        places = [np.repeat(group.places[:, 0], group.whitened.raw.shape[1]) for group in grid_groups(model)]
        self.places = np.concatenate(places) if places else np.zeros(0)  # of the knots, by which the Hessian is banded
        self.knots = len(self.places)
        everything = self.join(model)
        self.border = everything.size - self.knots
        self._centre = everything[self.knots :]
        value, slope, bend = _border_prior(model, self._centre)  # as NumPy has it: double precision
        self._prior = float(value), np.asarray(slope), np.asarray(bend)
        # A model of places in the vector of all numbers tells which of these each channel has.
        numbered = self.at(np.arange(float(everything.size))).channels
        where = np.stack([_numbers(one) for one in numbered]).astype(int)
        shared = np.broadcast_to(np.arange(offset, where.shape[1]), (self.count, where.shape[1] - offset))
        # [b, p], of the vector of all numbers.
        self.members = where[channel[:, None], np.concatenate([*members, shared], axis=1)]
        felt = [
            np.repeat(group.knots_felt(first, count, low, high, whole=self.whole), group.whitened.raw.shape[1], axis=1)
            for group, (first, count) in zip(groups, stretches, strict=True)
        ]
        # Which numbers of its copy a block depends on, [b, p].
        self.felt = np.concatenate([*felt, np.ones(shared.shape, bool)], axis=1)
        self._rows = tuple(
            np.asarray(part) for part in (timeline.t, timeline.y, timeline.error, timeline.seen, timeline.weight)
        )

    # The vector of all free numbers

    def join(self, model: MarkovGP | ChannelGP) -> np.ndarray:
        """The numbers of a model like this one."""
        return _numbers(model)

    def at(self, numbers: np.ndarray) -> Any:
        """The model with other numbers ``[n]``; with ``[s, n]`` a stack of models, as far as it has these numbers."""
        leaves, structure = jax.tree.flatten(self.model)
        numbers, start = np.asarray(numbers, float), 0
        for k in self._free:
            shape = np.shape(leaves[k])
            end = start + int(np.prod(shape))
            leaves[k], start = numbers[..., start:end].reshape((*numbers.shape[:-1], *shape)), end
        return jax.tree.unflatten(structure, leaves)

    def number_of(self, where: Callable[[Any], Any]) -> int:
        """The place of a single number of the model in the vector, such as ``lambda m: m.likelihood.noise.raw``."""
        marked = eqx.tree_at(where, jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), self.model), np.ones(()))
        return int(np.argmax(self.join(marked)))

    # Likelihood, prior

    @entry_point
    def evaluate(self, lanes: np.ndarray, copies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log likelihoods ``[m]`` of blocks and their gradients ``[m, p]``.

        Args:
            lanes: Numbers ``[m]`` of the blocks, each as often as it is wanted.
            copies: Where, ``[m, p]``.
        """

        def some(start: int) -> tuple[np.ndarray, np.ndarray]:
            return self._evaluate(lanes, copies, start)

        starts = range(0, len(lanes), self.width)
        self.work += len(starts) * self.width * float(self.timeline.steps) * (self.oscillators + OVERHEAD) ** 2
        # A program of short loops uses one core: others run beside it. The very first, alone, compiles for all.
        alone = [] if self._compiled else [some(starts[0])]
        self._compiled = True
        parts = alone + side_by_side(some, starts[len(alone) :], program_threads())
        values, slopes = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(slopes)

    def _evaluate(self, lanes: np.ndarray, copies: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        """The same of as many as are walked at once, from number ``start`` on."""
        part = np.minimum(np.arange(start, start + self.width), len(lanes) - 1)
        chosen = lanes[part] if self.count > 1 else np.zeros(1, int)
        rows = tuple(array[:, chosen] for array in self._rows)
        own = tuple(values[chosen] for values in self._own)
        value, slope = _evaluate(
            self._template, self._places, own, rows, self._origins[:, chosen], copies[part], self.timeline.steps
        )
        count = min(self.width, len(lanes) - start)
        return np.asarray(value)[:count], np.asarray(slope)[:count]

    def log_likelihoods(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log likelihoods ``[b]`` of all blocks at one vector of numbers, and their gradients ``[b, p]``."""
        return self.evaluate(np.arange(self.count), numbers[self.members])

    @entry_point
    def information(self, numbers: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """What the rows of blocks tell of their numbers, ``[m, p, p]``: nearly minus the Hessian, for little.

        Its cost grows with all the rows of a block times all its numbers.

        Args:
            numbers: Where, ``[n]``.
            chosen: Which blocks, ``[m]``; all when left out.
        """
        chosen = np.arange(self.count) if chosen is None else chosen
        self.work += len(chosen) * self._rows[0].shape[0] * self.members.shape[1] * (self.oscillators + OVERHEAD)

        def of_one(b: int) -> np.ndarray:
            own, rows = tuple(values[b] for values in self._own), tuple(array[:, b] for array in self._rows)
            copy = numbers[self.members[b]]
            parts = _innovations(self._template, self._places, own, rows, self._origins[:, b], copy)
            felt, found, own_rows = self.felt[b], np.zeros(2 * copy.shape), self.timeline.weight[:, b] > 0
            W, phases, noise = (np.asarray(part)[own_rows] for part in parts)
            found[np.ix_(felt, felt)] = information(W[:, felt], phases, noise)
            return found

        # The first, alone, compiles for all.
        return np.stack([of_one(chosen[0]), *side_by_side(of_one, chosen[1:], program_threads())])

    def log_prior(self, numbers: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Log prior density, gradient, and minus the Hessian ``[q, q]`` of the border (that of the knots is one)."""
        knots, move = numbers[: self.knots], numbers[self.knots :] - self._centre
        value, slope, curvature = self._prior
        # All priors are normal in raw numbers, or flat.
        value = value + float(slope @ move) + 0.5 * float(move @ curvature @ move) - 0.5 * float(knots @ knots)
        return value - _HALF_LOG * self.knots, np.append(-knots, slope + curvature @ move), -curvature

    def total(self, values: np.ndarray, slopes: np.ndarray, numbers: np.ndarray) -> tuple[float, np.ndarray]:
        """Log joint density and its gradient, from those of the blocks."""
        prior, gradient, _ = self.log_prior(numbers)
        gradient = gradient + np.bincount(self.members.ravel(), slopes.ravel(), len(numbers))
        return float(np.sum(values)) + prior, gradient


def grid_groups(model: Any) -> list[GridFunctionGroup]:
    """The groups of functions on grids in a model."""
    return [node for node in jax.tree.leaves(model, is_leaf=_is_group) if _is_group(node)]


def _knots_of(model: Any) -> list[Any]:
    return [group.whitened.raw for group in grid_groups(model)]


def _is_group(node: Any) -> bool:
    return isinstance(node, GridFunctionGroup)


def with_groups(model: Any, groups: list[GridFunctionGroup]) -> Any:
    nodes, structure = jax.tree.flatten(model, is_leaf=_is_group)
    others = iter(groups)
    return jax.tree.unflatten(structure, [next(others) if _is_group(node) else node for node in nodes])


def _split(model: Any) -> tuple[list[Any], Any, Any]:
    """Whitened values of the groups on grids, all other free numbers, and the rest."""
    knots = _knots_of(model)
    bare = eqx.tree_at(_knots_of, model, replace_fn=lambda raw: raw[:0]) if knots else model
    border, rest = partition(bare, "latent", "hyperparameter")
    held = [raw for raw in _held(border) if raw is not None]
    if held:
        places = [k for k, raw in enumerate(_held(border)) if raw is not None]
        rest = eqx.tree_at(lambda m: [_held(m)[k] for k in places], rest, held, is_leaf=lambda leaf: leaf is None)
        border = eqx.tree_at(lambda m: [_held(m)[k] for k in places], border, replace_fn=lambda _: None)
    return knots, border, rest


def _free_leaves(model: Any) -> list[int]:
    """Which leaves of a model are the vector of its free numbers, in its order: to split a model takes long."""
    leaves, structure = jax.tree.flatten(model)
    return _free_of(structure, tuple(np.shape(leaf) for leaf in leaves))


@functools.lru_cache(maxsize=256)
def _free_of(structure: Any, shapes: tuple[tuple[int, ...], ...]) -> list[int]:
    marked = jax.tree.unflatten(structure, [np.full(shape, k) for k, shape in enumerate(shapes)])
    knots, border, _ = _split(marked)
    return [int(np.ravel(leaf)[0]) for leaf in jax.tree.leaves((knots, border)) if np.size(leaf)]


def _numbers(model: Any) -> np.ndarray:
    """The vector of the free numbers of a model."""
    leaves = jax.tree.leaves(model)
    return ravel([leaves[k] for k in _free_leaves(model)])


def _held(model: Any) -> list[Any]:
    """Amplitudes and lengthscales of the groups on grids, which belong to the prior of the knots."""
    return [raw for group in grid_groups(model) for raw in (group.amplitude.raw, group.lengthscale.raw)]


def ravel(tree: PyTree) -> np.ndarray:
    leaves = [np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(leaves) if leaves else np.zeros(0)


def _parted(model: Any, numbers: Any) -> list[Any]:
    """Free numbers ``[..., n]`` of a model as arrays ``[..., n_k]``, one for each of its leaves."""
    ends = np.cumsum([np.size(leaf) for leaf in jax.tree.leaves(_split(model)[:2])])[:-1]
    return list((jnp if isinstance(numbers, jax.Array) else np).split(numbers, ends, axis=-1))


def _filled(model: Any, numbers: Any) -> Any:
    """The model with other free numbers: ``[..., n]``, or as ``_parted`` has them."""
    knots, border, rest = _split(model)
    leaves, structure = jax.tree.flatten((knots, border))
    parts = numbers if isinstance(numbers, list) else _parted(model, numbers)
    shaped = [part.reshape((*part.shape[:-1], *np.shape(leaf))) for part, leaf in zip(parts, leaves, strict=True)]
    knots, border = jax.tree.unflatten(structure, shaped)
    bare = eqx.combine(border, rest)
    return eqx.tree_at(_knots_of, bare, knots) if knots else bare


def _stretched(model: MarkovGP, counts: list[int]) -> MarkovGP:
    """With so many of the knots of each group on a grid."""
    groups = zip(grid_groups(model), counts, strict=True)
    return with_groups(model, [group.stretch(0, count) for group, count in groups])


def _held_apart(templates: Sequence[Any]) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """Which leaves differ between models of channels beside their free numbers, and their values ``[c, ...]``."""
    if len(templates) == 1:
        return (), []
    blank = [jax.tree.flatten(_filled(one, 0.0 * ravel(_split(one)[:2]))) for one in templates]
    if len({structure for _, structure in blank}) > 1:
        raise ValueError("channels must differ in numbers alone, not in what their amplitudes and noise are")
    places, values = [], []
    for k, leaves in enumerate(zip(*(leaves for leaves, _ in blank), strict=True)):
        if any(callable(leaf) for leaf in leaves):  # those of the kernel, which are the same
            continue
        if any(np.shape(leaf) != np.shape(leaves[0]) for leaf in leaves):
            raise ValueError("functions of all channels must have as many knots")
        if any(not np.array_equal(leaf, leaves[0]) for leaf in leaves):
            places.append(k)
            values.append(np.stack([np.asarray(leaf) for leaf in leaves]))
    return tuple(places), values


def _system(
    template: Any,
    places: tuple[int, ...],
    own: tuple[Array, ...],
    numbers: Any,
    origins: Array,
    t: Array,
    error: Array,
    seen: Array,
) -> Any:
    """What the filter needs of the rows ``[l]`` of a block, with its copy of the numbers."""
    leaves, structure = jax.tree.flatten(template)
    those = dict(zip(places, own, strict=True))
    model = _filled(jax.tree.unflatten(structure, [those.get(k, leaf) for k, leaf in enumerate(leaves)]), numbers)
    groups = [
        eqx.tree_at(lambda g: g.origin, group, origin)
        for group, origin in zip(grid_groups(model), origins, strict=True)
    ]
    return with_groups(model, groups).realise().system(t[:, None], error, seen)


@eqx.filter_jit(**SOON)
def _innovations(
    template: Any, places: tuple[int, ...], own: tuple[Array, ...], rows: tuple[Array, ...], origins: Array, copy: Array
) -> tuple[Array, Array, Array]:
    t, y, error, seen, _ = rows
    plain, parts, groups = template.realise(), _parted(template, copy), len(grid_groups(template))
    ends = np.cumsum([part.size for part in parts[groups:]])[:-1]

    def system(parts: list[Any]) -> Any:
        every = [*parts[:groups], *jnp.split(parts[groups], ends)]
        return _system(template, places, own, every, origins, t, error, seen)

    # The border is few numbers: every array takes a trace of the model.
    parts = [*parts[:groups], jnp.concatenate([copy[:0], *parts[groups:]])]
    return innovations(system, parts, y, plain.stationary(), plain.owners())


@eqx.filter_jit(**SOON)
def _evaluate(
    template: Any,
    places: tuple[int, ...],
    own: tuple[Array, ...],
    rows: tuple[Array, ...],
    origins: Array,
    copies: Array,
    steps: Array,
) -> tuple[Array, Array]:
    t, y, error, seen, weight = rows
    system = functools.partial(_system, template, places)

    def total(copies: Array) -> tuple[Array, Array]:
        columns = origins, t, error, seen
        if t.shape[1] == 1:  # copies of a single block: their rows are read once for all
            systems = jax.vmap(lambda numbers: system(own, numbers, *(c[:, 0] for c in columns)), out_axes=-1)(copies)
        else:
            systems = jax.vmap(system, in_axes=(0, 0, 1, 1, 1, 1), out_axes=-1)(own, copies, *columns)
        outputs = (jnp.broadcast_to(part, (len(t), len(copies))) for part in (y, weight))
        values = systems.log_likelihoods(*outputs, template.realise().stationary(), steps)
        return jnp.sum(values), values

    (_, values), slopes = jax.value_and_grad(total, has_aux=True)(copies)
    return values, slopes


@entry_point
@eqx.filter_jit
def _border_prior(model: Any, border: Any) -> tuple[Array, Array, Array]:
    _, free, rest = _split(model)
    _, unravel = ravel_pytree(free)

    def density(numbers: Array) -> Array:
        return log_prior(eqx.combine(unravel(numbers), rest), "latent", "hyperparameter")

    # Priors are normal in raw numbers, or flat: differences of slopes are exact, and compile in half the time.
    steps = jnp.concatenate([jnp.zeros((1, border.size)), jnp.eye(border.size)])
    values, slopes = jax.vmap(jax.value_and_grad(density))(border + steps)
    return values[0], slopes[0], slopes[1:] - slopes[0]
