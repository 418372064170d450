"""Checkpoints of a run: what it takes to go on, bit for bit, in another process."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree

from ..files import replace_file


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
    arrays = {f"state {i}": _plain(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    arrays |= {f"record {i}": leaf for i, leaf in enumerate(jax.tree.leaves(records))}
    head = {"fingerprint": np.array(mark), "done": np.array(done)}
    replace_file(path, lambda file: np.savez(file, **head, **arrays))  # type: ignore[arg-type]


def load_checkpoint(path: Path, mark: str, state: PyTree, records: PyTree) -> tuple[Any, Any, int]:
    """State, records and number of steps done, of the run that has this fingerprint."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        theirs, done = str(found["fingerprint"]), int(found["done"])
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a checkpoint ({error}); remove it, or name another file") from error
    if theirs != mark:
        raise ValueError(
            f"{path} is the checkpoint of another run: the model, the data, the key or the settings differ; go on with "
            "what it was made with, or remove it"
        )
    leaves, structure = jax.tree.flatten(state)
    saved = [_like(leaf, found[f"state {i}"]) for i, leaf in enumerate(leaves)]
    rows, shape = jax.tree.flatten(records)
    return (
        jax.tree.unflatten(structure, saved),
        jax.tree.unflatten(shape, [found[f"record {i}"] for i in range(len(rows))]),
        done,
    )


def is_key(leaf: Any) -> bool:
    """Whether a leaf is a JAX random key."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def _like(leaf: Any, saved: np.ndarray) -> Array:
    return jax.random.wrap_key_data(jnp.asarray(saved)) if is_key(leaf) else jnp.asarray(saved)
