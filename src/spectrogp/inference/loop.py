"""The one loop that inference runs in: compiled chunks of steps, with checks, progress and checkpoints between them."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

Progress = Callable[[int, int, float], None]  # steps done, steps in all, objective
# state, index, data → state, record. An ``equinox.Module`` whose arrays are leaves and whose settings are static fields
# is compiled once for all runs of equal shapes and settings; a closure is compiled anew in every run.
Step = Callable[[Any, Array, Any], tuple[Any, Any]]

_ADVICE = "a smaller learning rate, more noise, or stronger priors on the lengthscales usually help"


def run_in_chunks(
    step: Step,
    state: Any,
    data: Any,
    *,
    steps: int,
    chunk: int,
    objective: Callable[[Any], np.ndarray] = np.asarray,
    renew: Callable[[Any, int], Any] | None = None,
    progress: Progress | None = None,
    stop: Callable[[np.ndarray], bool] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    save_every: int = 10,
    advice: str = _ADVICE,
) -> tuple[Any, Any, bool]:
    """Run ``state, record = step(state, index, data)`` for a number of steps: the last state, all records, interrupted?

    Records are stacked along a new first axis; ``objective`` picks from them what is shown and must be finite. A value
    that is not finite stops the run with an error that names the step. Ctrl-C ends it after the last whole chunk and
    keeps what there is. ``renew(state, index)`` may replace the data between chunks, and ``stop(objectives so far)``
    end the run early.

    With ``checkpoint`` the state and the records are written to that file every ``save_every`` chunks and at the end,
    and a run that finds the file goes on from there: with the same result, bit for bit, as if it had never stopped.
    """
    state = jax.tree.map(_strong, state)
    records: list[Any] = []
    done = 0
    path, mark = (None, "") if checkpoint is None else (Path(checkpoint), fingerprint((step, state, data, chunk)))
    if path is not None and path.exists():
        state, before, done = _load(path, mark, state, _no_records(step, state, data))
        records.append(before)

    def joined() -> Any:
        parts = records or [_no_records(step, state, data)]
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:done], *parts)

    def save() -> None:
        if path is not None:
            records[:] = [joined()]
            _save(path, mark, state, records[0], done)

    try:
        while done < steps:
            if renew is not None:
                data = renew(state, done)
            count = min(chunk, steps - done)
            reached, part = _run(step, state, jnp.asarray(done), jnp.asarray(done + count), data, chunk)
            part = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], part)  # noqa: B023 (used at once)
            values = np.asarray(objective(part)).reshape(count, -1)
            bad = np.argwhere(~np.isfinite(values))
            if len(bad):
                raise FloatingPointError(
                    f"the objective is {values[tuple(bad[0])]} at step {done + bad[0][0]}: {advice}"
                )
            # In this order an interrupt between two lines loses nothing: records beyond ``done`` are not counted.
            records.append(part)
            state, done = reached, done + count
            if progress is not None:
                progress(done, steps, float(np.mean(values)))
            if stop is not None and stop(objective(joined())):
                break
            if done < steps and (done // chunk) % save_every == 0:
                save()
    except KeyboardInterrupt:
        save()
        return state, joined(), True
    save()
    return state, joined(), False


@eqx.filter_jit
def _run(step: Step, state: Any, start: Array, stop: Array, data: Any, chunk: int) -> tuple[Any, Any]:
    """Steps start … stop − 1 and their records, in arrays of length ``chunk``: one program for chunks of any length."""
    step = eqx.filter_closure_convert(step, state, start, data)  # traced here, once for both of its uses below
    shapes = eqx.filter_eval_shape(step, state, start, data)[1]
    empty = jax.tree.map(lambda leaf: jnp.zeros((chunk, *leaf.shape), leaf.dtype), shapes)

    def body(index: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        state, records = carry
        state, record = step(state, index, data)
        return state, jax.tree.map(lambda rows, row: rows.at[index - start].set(row), records, record)

    return jax.lax.fori_loop(start, stop, body, (state, empty))


def _no_records(step: Step, state: Any, data: Any) -> Any:
    shapes = eqx.filter_eval_shape(step, state, jnp.asarray(0), data)[1]
    return jax.tree.map(lambda leaf: np.empty((0, *leaf.shape), leaf.dtype), shapes)


@contextmanager
def progress_bar(description: str = "fitting") -> Iterator[Progress]:
    """A ``progress`` for any run, on stderr: ``with progress_bar() as progress: maximise(…, progress=progress)``."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    more = (TextColumn("{task.fields[objective]}"), TimeRemainingColumn())
    with Bar(*columns, *more, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=None, objective="")

        def show(done: int, steps: int, objective: float) -> None:
            bar.update(task, completed=done, total=steps, objective=f"{objective:.4g}")

        yield show


# Checkpoints


def fingerprint(tree: Any) -> str:
    """SHA-256 of a pytree: its structure, its settings, and its arrays with their values; equal in every process."""
    text = re.sub(r"0x[0-9a-f]+", "", eqx.tree_pformat(tree))
    digest = hashlib.sha256(text.encode())
    for leaf in jax.tree.leaves(tree):
        if eqx.is_array_like(leaf):
            array = _plain(leaf)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _save(path: Path, mark: str, state: Any, records: Any, done: int) -> None:
    """Write a checkpoint so that a crash at any moment leaves either the last one or this one."""
    arrays = {f"state {i}": _plain(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    arrays |= {f"record {i}": leaf for i, leaf in enumerate(jax.tree.leaves(records))}
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        np.savez(file, fingerprint=np.array(mark), done=np.array(done), **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _load(path: Path, mark: str, state: Any, records: Any) -> tuple[Any, Any, int]:
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


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _strong(leaf: Any) -> Array:
    """The same array of a definite type: a weakly typed one would become strong in the loop, and compile it twice."""
    return leaf if _is_key(leaf) else jax.lax.convert_element_type(jnp.asarray(leaf), jnp.asarray(leaf).dtype)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _like(leaf: Any, saved: np.ndarray) -> Array:
    return jax.random.wrap_key_data(jnp.asarray(saved)) if _is_key(leaf) else jnp.asarray(saved)
