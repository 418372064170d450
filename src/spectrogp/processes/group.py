"""A group of processes of ``jax.distributed``, which share the rows of every sum."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax

from ..core import at_least, rows_shared
from .together import interrupts_noted, say

# What ``python -m spectrogp.processes`` tells the processes that it starts.
COORDINATOR, COUNT, INDEX = "SPECTROGP_COORDINATOR", "SPECTROGP_PROCESSES", "SPECTROGP_PROCESS"

LOST = 75  # exit code of a process that lost another one

_HEARTBEAT = 20  # seconds without a sign of life after which JAX ends what waits for a process
_ENDED = re.compile(r"gloo|nccl|coordination service|connection (closed|reset|refused)|socket closed", re.IGNORECASE)


@dataclass(frozen=True)
class Group:
    """This process among all of a group: its number ``index``, from 0, and the ``count`` of them."""

    index: int
    count: int


@contextmanager
def distributed(
    coordinator: str | None = None, processes: int | None = None, index: int | None = None
) -> Iterator[Group]:
    """Share one fit among processes, of one machine or of many: ``with sg.distributed(): …``.

    All processes run the same program, on the same data. Inside the block every sum over rows of ``NeighbourGP``,
    ``VariationalGP`` and ``SparseGP``, with its gradient, is shared among all devices of all processes, and all of them
    make the same steps. Other models are computed by every process as a whole, which gains nothing. Checkpoints are
    written by the first process, and can be resumed by any number of them.

    It is called before anything is computed, once in a process, and changes JAX for the whole process. Without
    arguments, and not started by ``python -m spectrogp.processes``, the process is a group of its own.

    Args:
        coordinator: Address of the first process with a free port, ``"host:port"``; or ``"auto"`` for what Slurm, Open
            MPI or Kubernetes tell JAX.
        processes: How many there are; with an address.
        index: The number of this one, from 0; with an address.

    Raises:
        ConnectionError: As the block ends because another process was lost. Nothing is left to do then but to start all
            of them again; what waits for a process without noticing is ended after 20 seconds, by JAX.

    Example:
        >>> import spectrogp as sg
        >>> with sg.distributed() as group:
        ...     print(group)
        Group(index=0, count=1)
    """
    group = _begin(*_asked(coordinator, processes, index))
    if group.count == 1:
        with rows_shared():
            yield group
        return
    try:
        with rows_shared(), interrupts_noted():
            yield group
        jax.distributed.shutdown()  # type: ignore[no-untyped-call]  # waits for the others: the first must not go while they need it
    except SystemExit as end:
        if end.code:
            atexit.register(_end_at_once, end.code if isinstance(end.code, int) else 1)
        raise
    except BaseException as error:
        lost = _ENDED.search(str(error)) is not None
        atexit.register(_end_at_once, LOST if lost else 1)
        if not lost:
            raise
        words = (
            f"process {group.index} of {group.count} has lost another one, which ended or cannot be reached; start all "
            "of them again: with a checkpoint (Run(checkpoint=…)) they go on where it was written last"
        )
        # At once: where the first process is the one that was lost, JAX is about to end this one.
        say(words)
        raise ConnectionError(words) from error


def _asked(coordinator: str | None, processes: int | None, index: int | None) -> tuple[str | None, int, int]:
    """Address, count and index: as given, or as the environment says."""
    given = {"coordinator": coordinator, "processes": processes, "index": index}
    if coordinator is None and processes is None and index is None and COORDINATOR in os.environ:
        coordinator, processes, index = os.environ[COORDINATOR], int(os.environ[COUNT]), int(os.environ[INDEX])
    elif coordinator != "auto" and None in given.values() and any(value is not None for value in given.values()):
        missing = ", ".join(name for name, value in given.items() if value is None)
        raise ValueError(f"distributed needs coordinator, processes and index together, and {missing} is missing")
    if coordinator is None or coordinator == "auto":
        return coordinator, 1, 0
    assert processes is not None  # noqa: S101  # all three are there
    assert index is not None  # noqa: S101
    at_least(1, processes=processes)
    at_least(0, index=index)
    if index >= processes:
        raise ValueError(f"index counts the processes from 0, so of {processes} it is at most {processes - 1}: {index}")
    if not re.fullmatch(r".+:\d+", coordinator):
        raise ValueError(f"coordinator must be an address with a port, such as 'host:1234', or 'auto'; {coordinator!r}")
    return coordinator, processes, index


def _begin(coordinator: str | None, processes: int, index: int) -> Group:
    if coordinator is None:
        return Group(0, 1)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # type: ignore[no-untyped-call]
    with contextlib.suppress(AttributeError):  # it would keep SIGTERM from ending the process; not in every JAX
        jax.config.update("jax_enable_preemption_service", False)  # type: ignore[no-untyped-call]
    where = {"coordinator_address": coordinator, "num_processes": processes, "process_id": index}
    try:
        jax.distributed.initialize(
            **({} if coordinator == "auto" else where),  # type: ignore[arg-type]
            heartbeat_timeout_seconds=_HEARTBEAT,
        )
    except ValueError as error:
        if coordinator != "auto" or "should be defined" not in str(error):
            raise
        raise ValueError(
            "distributed('auto') found none of the launchers that JAX knows (Slurm, Open MPI, Kubernetes): give each "
            "process the address of the first, how many there are and which it is, distributed('host:1234', 2, 0), or "
            "start them by python -m spectrogp.processes"
        ) from error
    except RuntimeError as error:
        if "before" not in str(error) and "once" not in str(error):
            raise
        raise RuntimeError("distributed comes first, before anything is computed, and once in a process") from error
    if jax.default_backend() == "cpu" and jax.local_device_count() > 1 and jax.process_count() > 1:
        raise RuntimeError(
            f"on CPUs a process has one device, and here are {jax.local_device_count()} (XLA's collectives crash with "
            "more): start more processes instead"
        )
    return Group(jax.process_index(), jax.process_count())


def _end_at_once(code: int) -> None:
    """Without JAX's own end: it waits for the others, which wait for this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
