"""Whole files or none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeAlias

FilePath: TypeAlias = str | os.PathLike[str]


def replace_file(path: FilePath, *parts: bytes | Callable[[IO[bytes]], object]) -> None:
    """Write a file so that a crash at any moment leaves either what was there before or the whole new file.

    Args:
        path: The file to write or replace.
        parts: Bytes, one after the other, or functions that write to the open file themselves.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            for part in parts:
                part(file) if callable(part) else file.write(part)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
