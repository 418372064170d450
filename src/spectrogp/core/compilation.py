"""Compiled programs kept on disk, so that the next process need not compile them again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import jax


def cache_compilations(directory: str | Path | None = None) -> Path:
    """Keep what JAX compiles in a private directory, and use what is there; gives the directory.

    Off unless called, since it changes JAX for the whole process; the command line calls it. The directory is the
    argument, or ``$XDG_CACHE_HOME/spectrogp`` (``~/.cache/spectrogp``). Its files are programs that will be run: a
    directory that belongs to somebody else, or that others can write to, is refused.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(directory) if directory is not None else base / "spectrogp"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    foreign = hasattr(os, "getuid") and status.st_uid != os.getuid()
    if foreign or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        owner = "belongs to another user" if foreign else "can be written to by others"
        raise PermissionError(f"compiled programs are kept in a private directory only, but {path} {owner}")
    jax.config.update("jax_compilation_cache_dir", str(path))  # type: ignore[no-untyped-call]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)  # type: ignore[no-untyped-call]
    return path
