"""Whole files or none: the one way in which anything is written."""

from __future__ import annotations

import contextlib
import errno
import importlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

fcntl: Any = None  # on Windows, where a file that is open can be neither moved nor removed
with contextlib.suppress(ImportError):
    fcntl = importlib.import_module("fcntl")

FilePath: TypeAlias = str | os.PathLike[str]

_written = itertools.count()  # two threads of a process write under different names


def replace_file(path: FilePath, *parts: bytes | memoryview | Callable[[IO[bytes]], object]) -> None:
    """Write a file so that a crash at any moment leaves either what was there before or the whole new file.

    It is written beside its place under a name of its own (``NAME.PROCESS-COUNT.part``), brought to the disk, and
    moved. What a process that died has left of an earlier attempt is removed; what another one is writing is not.

    Args:
        path: The file to write or replace; the file behind it where it is a link.
        parts: Bytes, one after the other, or functions that write to the open file themselves.

    Raises:
        OSError: Naming ``path``, where it cannot be written.
    """
    path = Path(path)
    try:
        place = path.resolve()
        if place.exists() and not place.is_file():  # a directory, or a device that a file would take the place of
            raise OSError(errno.EINVAL, "this is no file that could be replaced")
        _remove_abandoned(place)
        with _part_of(place) as file:
            for part in parts:
                part(file) if callable(part) else file.write(part)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()
            Path(file.name).replace(place)  # while it is locked, where it can be: nobody takes it for abandoned
        _sync_directory(place.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def write_json(path: FilePath, content: Any) -> None:
    """Write plain values as JSON, as ``replace_file`` does.

    Args:
        path: The file to write or replace.
        content: Dictionaries, lists, strings and numbers.
    """
    replace_file(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


@contextlib.contextmanager
def _part_of(path: Path) -> Iterator[IO[bytes]]:
    """A new file beside ``path``, locked as long as it is open, and gone afterwards unless it was moved."""
    while True:
        part = path.with_name(f"{path.name}.{os.getpid()}-{next(_written)}.part")
        try:
            with part.open("xb") as file:
                if try_lock(file) and part.exists():  # else another took it for abandoned before it was locked
                    yield file
                    return
        finally:
            part.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Remove parts of a file whose writers are no more: a lock ends with its process, however that ended."""
    name = re.compile(re.escape(path.name) + r"\.\d+-\d+\.part")
    with os.scandir(path.parent) as entries:
        parts = [Path(entry) for entry in entries if name.fullmatch(entry.name)]
    for part in parts:
        with contextlib.suppress(OSError):  # another may have removed it
            if fcntl is None:
                part.unlink()
                continue
            with part.open("rb") as file:
                if try_lock(file, sure=True):
                    part.unlink()


def try_lock(file: IO[bytes], *, sure: bool = False) -> bool:
    """Whether an open file is now locked by us; where there are no locks, True unless we must be ``sure``."""
    if fcntl is None:
        return True  # an open file cannot be removed: no lock is needed
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks
        return not sure
    return True


def _sync_directory(directory: Path) -> None:
    """Bring the new name to the disk too, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
