"""Draws of the normal approximations at the rungs of a ladder, as one posterior."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..core import with_fields
from ..models import ChannelGP, grid_groups, with_groups
from ..parameters import partition
from ..posterior import Posterior
from .rungs import Rung, Work, noise_places


def mixture(rungs: list[Rung], draws: int, work: Work, inside: tuple[float, ...] = ()) -> Posterior:
    """Draws of the normal approximations at all rungs, each as often as its evidence says: nested Laplace.

    To every draw there is another one on the other side of its optimum: what is odd in them is in no mean. One is as
    many places after the other as there are pairs, so that those that are evenly spaced have their others with them.

    Args:
        rungs: At their optima, the best first.
        draws: How many.
        work: Whose random numbers they are made of.
        inside: Of fits to means of rows, what these hide (``for_single_rows``).
    """
    # Without an optimum there is no evidence, and the first stands alone.
    rungs = rungs if np.isfinite(rungs[0].evidence) else rungs[:1]
    weight = np.ones(1) if len(rungs) == 1 else np.exp([rung.evidence - rungs[0].evidence for rung in rungs])
    pairs = (draws + 1) // 2
    counts = np.diff(np.round(pairs * np.append(0.0, np.cumsum(weight)) / weight.sum()).astype(int))
    sides, densities = [], []
    for rung, count in zip(rungs, counts, strict=True):
        if count:
            move = rung.optimum.factor.draw(work.rng, int(count), border=True)
            numbers = (for_single_rows(rung, rung.optimum.numbers + side, inside) for side in (move, -move))
            sides.append([_stack(rung, each) for each in numbers])
            densities += [rung.optimum.log_joint] * count
    order = work.rng.permutation(pairs)
    # Numbers that a rung has fewer of are drawn, for each side its own.
    halves = (jax.tree.map(lambda *of: _joined(of, work.rng)[order], *side) for side in zip(*sides, strict=True))
    joined = jax.tree.map(lambda *both: np.concatenate(both)[None, :draws], *halves)
    log_joint = np.tile(np.asarray(densities)[order], 2)[None, :draws]
    return Posterior(joined, _moving(without_offset(rungs[0].model))[1], log_joint, {})


def for_single_rows(rung: Rung, numbers: np.ndarray, inside: tuple[float, ...]) -> np.ndarray:
    """Numbers ``[..., n]`` of fits to means of rows as those of single rows, whose noise has in it what the means hide.

    Every draw has it by itself: of noise that is next to none hardly anything is known, but of what is hidden all.

    Args:
        rung: Whose numbers they are.
        numbers: One vector, or several.
        inside: Variance that is hidden, of each channel; nothing where rows were fitted to one by one.
    """
    numbers = numbers.copy()
    for place, hidden in zip(noise_places(rung.lanes), inside, strict=False):
        if hidden:
            numbers[..., place] = 0.5 * np.log(np.exp(2.0 * numbers[..., place]) + hidden)
    return numbers


def _joined(leaves: tuple[np.ndarray, ...], rng: np.random.Generator) -> np.ndarray:
    """Draws ``[s, ...]`` of several rungs, one after the other.

    Those of a shorter lengthscale may have more knots. The others get as many, beyond the data, where the posterior is
    the prior.
    """
    most = max(leaf.shape[1:2] for leaf in leaves)
    more = [(leaf.shape[0], *np.subtract(most, leaf.shape[1:2]), *leaf.shape[2:]) for leaf in leaves]
    padded = [
        np.concatenate([leaf, rng.normal(size=shape)], axis=1) if leaf.shape[1:2] < most else leaf
        for leaf, shape in zip(leaves, more, strict=True)
    ]
    return np.concatenate(padded)


def _stack(rung: Rung, numbers: np.ndarray) -> Any:
    """What differs between draws, for ``numbers [s, n]`` of them: leaves ``[s, ...]``."""
    one, many = (_moving(without_offset(model))[0] for model in (rung.model, rung.lanes.at(numbers)))

    def stacked(leaf: Any, plain: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        return leaf if leaf.ndim > np.ndim(plain) else np.broadcast_to(leaf, (len(numbers), *leaf.shape))

    return jax.tree.map(stacked, many, one)


def _moving(model: Any) -> tuple[Any, Any]:
    """What differs between draws, and the rest: all free numbers, and the grids and priors of functions."""
    free, rest = partition(model, "latent", "hyperparameter")
    grids = grid_groups(model)
    if not grids:
        return free, rest
    moving, still = grid_groups(free), grid_groups(rest)
    free = with_groups(free, [_with_grid(group, own) for group, own in zip(moving, grids, strict=True)])
    return free, with_groups(rest, [_with_grid(group, None) for group in still])


def _with_grid(group: Any, own: Any) -> Any:
    """A group with the grid and the lengthscale of another one, or without any."""
    raw = None if own is None else own.lengthscale.raw
    grid = {name: getattr(own, name, None) for name in ("origin", "spacing")}
    return with_fields(group, **grid, lengthscale=with_fields(group.lengthscale, raw=raw))


def without_offset(model: Any) -> Any:
    """The same for outputs from which the offset was subtracted."""
    zero = np.zeros(())
    if isinstance(model, ChannelGP):
        return with_fields(model, offsets=(zero,) * len(model.channels))
    return with_fields(model, offset=zero)
