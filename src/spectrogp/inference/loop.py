"""The one loop that inference runs in: compiled chunks of steps, with checks, progress and checkpoints between them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PyTree
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ..core import at_least, sharing_rows
from ..files import FilePath
from ..processes import first_file, raise_interrupts, require_equal, speaks
from .checkpoints import Checkpoint, fingerprint, is_key, load_checkpoint, save_checkpoint

Progress = Callable[[int, int, float], None]  # steps done, steps in all, objective


@dataclass(frozen=True)
class Run:
    """How a run of inference is shown, kept, and cut into chunks.

    Args:
        progress: Called after every chunk as ``progress(done, steps, objective)``; ``progress_bar`` makes one.
        checkpoint: A file that state and records are written to as the run goes on, and from which a run that finds it
            goes on: with the same result, bit for bit, as if it had never stopped. Of several processes
            (``distributed``) the first writes it, and any number of them can go on.
        chunk: Steps that one compiled program makes, between which the run can be shown, kept and interrupted.
        save_every: Chunks between two checkpoints.
        workers: Threads that chains are shared among, at most, or the rows of steps with many of them; None for one on
            every core. Draws are the same, bit for bit, for any number of them; steps are, but for rounding.
    """

    progress: Progress | None = None
    checkpoint: FilePath | None = None
    chunk: int = 25
    save_every: int = 10
    workers: int | None = None

    def __post_init__(self) -> None:
        at_least(1, chunk=self.chunk, save_every=self.save_every)
        if self.workers is not None:
            at_least(1, workers=self.workers)


class AbstractStep(eqx.Module):
    """One step of a run: ``state, record = step(state, index, data)``.

    Its arrays are leaves and its settings static fields, so that runs of equal shapes and settings share a compiled
    program. Random numbers of a step come from ``jax.random.fold_in(key, index)``: then a run that was stopped goes on
    as if it had not been.
    """

    advice: ClassVar[str] = "a smaller learning rate, more noise, or stronger priors on the lengthscales usually help"

    @abstractmethod
    def __call__(self, state: PyTree, index: Array, data: Any) -> tuple[Any, Any]:
        """The next state, and what is to be kept of this step."""

    def objective(self, records: PyTree) -> Any:
        """What is shown of records, and must be finite."""
        return np.asarray(records)

    def advance(
        self, state: PyTree, start: int, stop: int, data: Any, chunk: int, workers: int | None
    ) -> tuple[Any, Any]:
        """The state after steps start … stop − 1, and their records in arrays of length ``chunk``.

        One compiled program does it; steps that consist of independent parts share them among ``workers``.
        """
        del workers
        return _run(self, state, jnp.asarray(start), jnp.asarray(stop), data, chunk)


def run_in_chunks(
    step: AbstractStep,
    state: PyTree,
    data: Any,
    *,
    steps: int,
    run: Run,
    renew: Callable[[Any, int, Any], Any] | None = None,
    stop: Callable[[np.ndarray], bool] | None = None,
) -> tuple[Any, Any, bool]:
    """Run a number of steps: the last state, all records stacked along a new first axis, and whether Ctrl-C ended it.

    An objective that is not finite stops the run with an error that names the step. Ctrl-C ends it after the last whole
    chunk and keeps what there is. ``renew(state, index, data)`` may replace the data between chunks (by what these
    arguments alone decide: a run that goes on asks once more), and
    ``stop(objectives so far)`` end the run early.
    """
    state = jax.tree.map(_strong, state)
    records: list[Any] = []
    done, chunk, renewed = 0, run.chunk, None
    path = None if run.checkpoint is None else Path(run.checkpoint)
    mark = fingerprint((step, state, data, chunk)) if path is not None or sharing_rows() else ""
    require_equal(mark, "model, data, key and settings")
    found = None if path is None else _found(path, mark, state, _no_records(step, state, data), steps)
    if found is not None:
        state, before, done, renewed = found
        try:
            _finite(step, before, 0)
        except FloatingPointError as error:
            raise ValueError(f"{path} is not a checkpoint of this run ({error}); remove it") from error
        records.append(before)
        if renew is not None and renewed is not None:  # the data are those of the last time
            data = renew(renewed[1], renewed[0], data)

    def joined() -> Any:
        parts = records or [_no_records(step, state, data)]
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:done], *parts)

    def save() -> None:
        if path is not None and speaks():
            records[:] = [joined()]
            save_checkpoint(path, mark, Checkpoint(state, records[0], done, renewed))

    try:
        while done < steps:
            if renew is not None and (new := renew(state, done, data)) is not data:
                data, renewed = new, (done, state)
            count = min(chunk, steps - done)
            reached, part = step.advance(state, done, done + count, data, chunk, run.workers)
            part = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], part)  # noqa: B023 (used at once)
            values = _finite(step, part, done)
            # In this order an interrupt between two lines loses nothing: records beyond ``done`` are not counted.
            records.append(part)
            state, done = reached, done + count
            if run.progress is not None:
                run.progress(done, steps, float(np.mean(values)))
            raise_interrupts()
            if stop is not None and stop(step.objective(joined())):
                break
            if done < steps and (done // chunk) % run.save_every == 0:
                save()
    except KeyboardInterrupt:
        save()
        return state, joined(), True
    save()
    return state, joined(), False


def whole(result: Any) -> Any:
    """The result of inference, a fit or a posterior, unless Ctrl-C ended it early: then the interrupt goes on."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def _found(path: Path, mark: str, state: PyTree, records: PyTree, steps: int) -> Checkpoint | None:
    """What the checkpoint of this run holds, where there is one."""
    with first_file(path) as there:
        return None if there is None else load_checkpoint(there, mark, state, records, steps)


def _finite(step: AbstractStep, records: PyTree, done: int) -> np.ndarray:
    """The objectives ``[count, …]`` of records, if they are finite; ``done`` is the number of the first."""
    values = np.asarray(step.objective(records))
    values = values.reshape(len(values), int(np.prod(values.shape[1:])))
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise FloatingPointError(f"the objective is {values[tuple(bad[0])]} at step {done + bad[0][0]}: {step.advice}")
    return values


@eqx.filter_jit
def _run(step: AbstractStep, state: PyTree, start: Array, stop: Array, data: Any, chunk: int) -> tuple[Any, Any]:
    """Steps start … stop − 1 and their records, in arrays of length ``chunk``: one program for chunks of any length."""
    move = eqx.filter_closure_convert(step, state, start, data)  # traced here, once for both of its uses below
    shapes = eqx.filter_eval_shape(move, state, start, data)[1]
    empty = jax.tree.map(lambda leaf: jnp.zeros((chunk, *leaf.shape), leaf.dtype), shapes)

    def body(index: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        state, records = carry
        state, record = move(state, index, data)
        return state, jax.tree.map(lambda rows, row: rows.at[index - start].set(row), records, record)

    return jax.lax.fori_loop(start, stop, body, (state, empty))


def _no_records(step: AbstractStep, state: PyTree, data: Any) -> Any:
    shapes = eqx.filter_eval_shape(step, state, jnp.asarray(0), data)[1]
    return jax.tree.map(lambda leaf: np.empty((0, *leaf.shape), leaf.dtype), shapes)


def _strong(leaf: Any) -> Array:
    """The same array of a definite type: a weakly typed one would become strong in the loop, and compile it twice."""
    return leaf if is_key(leaf) else jax.lax.convert_element_type(jnp.asarray(leaf), jnp.asarray(leaf).dtype)


@contextmanager
def progress_bar(description: str = "fitting") -> Iterator[Progress]:
    """A progress bar on stderr: ``with progress_bar() as progress: maximise(…, run=Run(progress=progress))``.

    Args:
        description: What stands before the bar.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    more = (TextColumn("{task.fields[objective]}"), TimeRemainingColumn())
    with Bar(*columns, *more, console=Console(stderr=True), disable=not speaks()) as bar:
        task = bar.add_task(description, total=None, objective="")

        def show(done: int, steps: int, objective: float) -> None:
            bar.update(task, completed=done, total=steps, objective=f"{objective:.4g}")

        yield show
