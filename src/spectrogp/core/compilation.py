"""Compiled programs kept on disk, so that the next process need not compile them again.

JAX writes an entry of its cache in place, and never again once there is a file: one that a kill or a full disk cut
short would be compiled anew for ever, and one that is read while it is written is broken. So every process has a
directory of its own, which begins with links to all programs that are kept; at its end its new ones, if they are whole,
are moved to the others. Their names end in their size, by which a file that lost its end is known. Processes that work
side by side hand them on as they go (``share_compilations``).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import shutil
import stat
import tempfile
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import jax

from ..files import try_lock

LARGEST = 2**30  # bytes of all programs that are kept; the oldest go first


# For programs whose compilation everyone waits for: XLA's older emitters compile loops of small arrays in about half
# the time, and what they make is as fast. From jaxlib 0.11.1 on they are gone, and so is the option.
_OLDER = tuple(int(part) for part in version("jaxlib").split(".")[:3]) < (0, 11, 1)
SOON: dict[str, Any] = {"compiler_options": {"xla_cpu_use_fusion_emitters": False}} if _OLDER else {}


def cache_compilations(directory: str | Path | None = None) -> Path:
    """Keep what JAX compiles in a private directory, and use what is there; gives the directory.

    It changes JAX for the whole process. The command line calls it, and so does the first fit of an estimator, unless
    ``SPECTROGP_CACHE`` is ``off`` or JAX was told of a cache, or of none (``JAX_ENABLE_COMPILATION_CACHE``). Programs
    that a process compiles are there for others once it has ended. What is kept has at most a gibibyte.

    Args:
        directory: Where; ``$XDG_CACHE_HOME/spectrogp`` (``~/.cache/spectrogp``) when left out. Its files are programs
            that will be run: a directory that belongs to somebody else, or that others can write to, is refused.

    Raises:
        OSError: Where there is no such directory, and none can be made.
    """
    path = _default() if directory is None else Path(directory)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    foreign = hasattr(os, "getuid") and status.st_uid != os.getuid()
    if foreign or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        owner = "belongs to another user" if foreign else "can be written to by others"
        raise PermissionError(f"compiled programs are kept in a private directory only, but {path} {owner}")
    jax.config.update("jax_compilation_cache_dir", str(_own(path.resolve())))  # type: ignore[no-untyped-call]
    # XLA's own caches would have the directory in their settings, and so in the name of every program.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # type: ignore[no-untyped-call]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)  # type: ignore[no-untyped-call]
    return path


def share_compilations() -> None:
    """Hand the programs that this process has compiled on to others, and take theirs, before it ends.

    For processes that work side by side for long; nothing happens where no programs are kept.
    """
    for shared, own in _places.items():
        with contextlib.suppress(OSError):  # as at the end
            for new in own.glob("*-cache"):
                content = new.read_bytes() if new.stat().st_nlink == 1 else b""
                if _is_whole(content):
                    with contextlib.suppress(FileExistsError):  # another process was first
                        os.link(new, shared / f"{new.name}.{len(content)}")
        _take(shared, own)


@functools.cache
def cache_by_default() -> None:
    """The same once, unless somebody has said otherwise, and where there is a place for it."""
    asked = os.environ.get("SPECTROGP_CACHE", "on").lower() != "off"
    settings: Any = jax.config
    if asked and settings.jax_enable_compilation_cache and settings.jax_compilation_cache_dir is None:
        with contextlib.suppress(OSError):  # a home that cannot be written to is no reason to stop
            cache_compilations()


def _default() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(base or Path.home() / ".cache") / "spectrogp"
    except RuntimeError as error:  # as of a container that runs as any user
        raise FileNotFoundError(f"this user has no home directory ({error}): set XDG_CACHE_HOME") from error


_places: dict[Path, Path] = {}  # where programs are kept, and the directory of this process


@functools.cache
def _own(shared: Path) -> Path:
    """The directory of this process, with links to what is kept."""
    _remove_abandoned(shared)
    own = Path(tempfile.mkdtemp(prefix="process-", dir=shared))
    lock = (own / "lock").open("wb")
    try_lock(lock)
    _take(shared, own)
    atexit.register(_give_back, shared, own, lock, os.getpid())
    _places[shared] = own
    return own


def _take(shared: Path, own: Path) -> None:
    """Links to what is kept and is not there yet."""
    for entry in _entries(shared):
        with contextlib.suppress(FileNotFoundError):  # another process may remove it
            if not (own / entry.stem).exists():
                _link(entry, own / entry.stem)


def _give_back(shared: Path, own: Path, lock: IO[bytes], process: int) -> None:
    """Move the new programs to the others; the oldest of all make room for them."""
    if os.getpid() != process:  # a fork
        return
    with contextlib.suppress(OSError):  # a full disk, say: nothing here is worth an error
        for new in own.glob("*-cache"):
            content = new.read_bytes() if new.stat().st_nlink == 1 else b""
            if _is_whole(content):
                new.replace(shared / f"{new.name}.{len(content)}")
        total = 0
        for entry in sorted(_entries(shared), key=lambda entry: -entry.stat().st_mtime):
            total += entry.stat().st_size
            if total > LARGEST:
                entry.unlink(missing_ok=True)
    lock.close()
    shutil.rmtree(own, ignore_errors=True)


def _entries(shared: Path) -> list[Path]:
    """The programs that are kept, without those that are not as long as they were, which are removed."""
    whole = []
    for entry in shared.glob("*-cache.*"):
        with contextlib.suppress(OSError):
            if entry.suffix == f".{entry.stat().st_size}":
                whole.append(entry)
            else:
                entry.unlink()
    return whole


def _is_whole(content: bytes) -> bool:
    """Whether the end of compressed data is there."""
    reader, errors = _reader(content)
    with contextlib.suppress(*errors):
        reader.decompress(content)
    return bool(reader.eof)


def _reader(content: bytes) -> tuple[Any, list[type[Exception]]]:
    """What reads compressed data, and the errors that it raises: JAX uses Zstandard where it is installed."""
    if content[:4] == b"\x28\xb5\x2f\xfd":
        with contextlib.suppress(ImportError):  # Python 3.14
            zstd = importlib.import_module("compression.zstd")
            return zstd.ZstdDecompressor(), [zstd.ZstdError]
        with contextlib.suppress(ImportError):
            zstandard = importlib.import_module("zstandard")
            return zstandard.ZstdDecompressor().decompressobj(), [zstandard.ZstdError]
    return zlib.decompressobj(), [zlib.error]


def _link(entry: Path, place: Path) -> None:
    try:
        os.link(entry, place)
    except FileNotFoundError:
        raise
    except OSError:  # a disk without links
        shutil.copyfile(entry, place)


def _remove_abandoned(shared: Path) -> None:
    """Remove directories of processes that were killed: their locks are free."""
    for lock in shared.glob("process-*/lock"):
        with contextlib.suppress(OSError):
            with lock.open("rb") as file:
                alive = not try_lock(file, sure=True)
            if not alive:
                lock.unlink()  # fails where it is open and cannot be locked
                shutil.rmtree(lock.parent, ignore_errors=True)
