"""Memory that is set, not grown: what a limit leaves for work."""

from __future__ import annotations

import contextlib
from pathlib import Path

_LEAST = 2**26  # bytes: with less, work would be in tiny pieces
_USUAL = 2**30  # bytes for work where no limit is given


def room(memory_limit: int | None, what: str) -> int:
    """Bytes that a limit of resident memory leaves to this process, a third of them kept for what others allocate."""
    left = (_USUAL if memory_limit is None else memory_limit - _resident()) * 2 // 3
    if left < _LEAST:
        raise MemoryError(
            f"{what} within memory_limit={memory_limit} bytes leaves too little: {_resident()} are in use before it "
            f"begins; set it to {_resident() + 2 * _LEAST} or more"
        )
    return left


def _resident() -> int:
    with contextlib.suppress(OSError, IndexError, ValueError):  # Linux
        return 1024 * int(Path("/proc/self/status").read_text(encoding="ascii").split("VmRSS:")[1].split()[0])
    return 2**29  # elsewhere: about what Python with JAX takes
