"""Checkpoints of a run: what it takes to go on, bit for bit, in another process."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..files import ModelFileError, read_model, read_notes, save


def fingerprint(tree: PyTree) -> str:
    """SHA-256 of a pytree: its structure, its settings, and its arrays with their values; equal in every process."""
    text = re.sub(r"0x[0-9a-f]+", "", eqx.tree_pformat(tree))
    digest = hashlib.sha256(text.encode())
    for leaf in jax.tree.leaves(tree):
        if eqx.is_array_like(leaf):
            array = _plain(leaf)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def save_checkpoint(path: Path, mark: str, state: PyTree, records: PyTree, done: int) -> None:
    """Write a checkpoint so that a crash at any moment leaves either the last one or this one."""
    leaves = [_plain(leaf) for leaf in jax.tree.leaves(state)]
    save(path, {"done": done, "state": leaves, "records": jax.tree.leaves(records)}, {"fingerprint": mark})


def load_checkpoint(path: Path, mark: str, state: PyTree, records: PyTree, steps: int) -> tuple[Any, Any, int]:
    """State, records and number of steps done, of the run that has this fingerprint.

    A checkpoint is a file of arrays like those of models: damage is found by its SHA-256, and what it holds must be of
    the shapes of this ``state`` and of ``records`` without rows, for at most so many ``steps``.
    """
    try:
        theirs, found = read_notes(path, _no_class).get("fingerprint"), read_model(path, _no_class)
    except ModelFileError as error:
        raise ValueError(f"{path} is not a checkpoint ({error}); remove it, or name another file") from error
    if theirs != mark:
        raise ValueError(
            f"{path} is the checkpoint of another run: the model, the data, the key or the settings differ; go on with "
            "what it was made with, or remove it"
        )
    leaves, structure = jax.tree.flatten(state)
    rows, shape = jax.tree.flatten(records)
    try:
        done = found["done"]
        if type(done) is not int or not 0 <= done <= steps:
            raise ValueError(f"{done!r} of {steps} steps are done")
        saved = _checked(found["state"], [_plain(leaf) for leaf in leaves])
        if any(array.dtype.kind == "f" and np.any(np.isnan(array)) for array in saved):
            raise ValueError("a value of its state is not a number")
        kept = _checked(found["records"], [np.empty((done, *row.shape[1:]), row.dtype) for row in rows])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{path} is not a checkpoint of this run ({error})"
        raise ValueError(f"{reason}; remove it, or name another file") from error
    state = jax.tree.unflatten(structure, [_like(*pair) for pair in zip(leaves, saved, strict=True)])
    return state, jax.tree.unflatten(shape, kept), done


def _no_class(*_: str) -> None:
    """Checkpoints hold arrays and no objects."""


def _checked(arrays: Any, like: list[np.ndarray]) -> list[np.ndarray]:
    """Arrays that were read, if they can stand for others: of their types and shapes."""
    if len(arrays) != len(like):
        raise ValueError(f"expected {len(like)} arrays, got {len(arrays)}")
    for array, other in zip(arrays, like, strict=True):
        if array.dtype != other.dtype or array.shape != other.shape:
            expected = f"{other.dtype} {list(other.shape)}"
            raise ValueError(f"expected {expected}, got {array.dtype} {list(array.shape)}")
    return list(arrays)


def is_key(leaf: Any) -> bool:
    """Whether a leaf is a JAX random key."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def _like(leaf: Any, saved: np.ndarray) -> Array:
    return jax.random.wrap_key_data(jnp.asarray(saved)) if is_key(leaf) else jnp.asarray(saved)
