"""What one process of a group does for all, and what must be equal in all of them.

A group is told by the context in which sums are shared: JAX may have several processes for other reasons.
"""

from __future__ import annotations

import hashlib
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from ..core import sharing_rows

_noted = threading.Event()  # a Ctrl-C


def _several() -> bool:
    return sharing_rows() and jax.process_count() > 1


def say(words: str) -> None:
    """A line on stderr, at once."""
    sys.stderr.write(f"spectrogp: {words}\n")
    sys.stderr.flush()


def speaks() -> bool:
    """Whether this process writes files and shows progress: the first of a group, or one that is alone."""
    return not _several() or jax.process_index() == 0


@contextmanager
def interrupts_noted() -> Iterator[None]:
    """Inside, a first Ctrl-C is noted for ``raise_interrupts``; a second one interrupts as ever.

    Processes that stopped at different steps would wait for each other.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go elsewhere
        return
    usual = signal.getsignal(signal.SIGINT)

    def note(*_: Any) -> None:
        _noted.set()
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        _noted.clear()


def raise_interrupts() -> None:
    """Raise ``KeyboardInterrupt`` in all processes of a group if any of them got Ctrl-C; all of them call it."""
    if _several() and np.any(multihost_utils.process_allgather(np.int32(_noted.is_set()))):
        raise KeyboardInterrupt


def require_equal(mark: str, what: str) -> None:
    """Refuse to go on together where processes differ in a ``mark``, such as a checksum; ``what`` has that mark."""
    if not _several():
        return
    digest = np.frombuffer(hashlib.sha256(mark.encode()).digest(), np.uint8)
    every = np.asarray(multihost_utils.process_allgather(digest))
    if np.any(every != every[0]):
        others = [int(k) for k in np.flatnonzero(np.any(every != every[0], axis=1))]
        raise ValueError(f"all processes must have the same {what}, and those of {others} differ from those of 0")


@contextmanager
def first_file(path: Path) -> Iterator[Path | None]:
    """A file as the first process has it, for every process of a group; None where it has none.

    Others get a copy for as long as the block lasts: they may be on machines that do not have it.
    """
    if not _several():
        yield path if path.exists() else None
        return
    content = path.read_bytes() if speaks() and path.exists() else None
    size = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if content is None else len(content))))
    if size < 0:
        yield None
        return
    mine = np.zeros(size, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    received = np.asarray(multihost_utils.broadcast_one_to_all(mine)).tobytes()
    if speaks():
        yield path
        return
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / path.name
        copy.write_bytes(received)
        yield copy
