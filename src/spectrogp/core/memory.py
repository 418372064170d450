"""Memory that work will need, compared with what there is before it begins; and memory that is kept for reuse."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

import jax

_CGROUPS = (  # limit and use of a container, version 2 and 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)

_TRIM, _MAP = -1, -3  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_MAPPED = 32 * 2**20  # bytes of an array that is mapped for itself: as much as glibc allows
_KEPT = 2 * _MAPPED  # bytes that are free, and not given back: as much as glibc would come to by itself


def keep_freed_memory() -> None:
    """Let arrays of this process reuse memory that was freed, where the environment had it given back at once.

    Workers of Dask run with ``MALLOC_TRIM_THRESHOLD_=65536``: glibc then returns every larger array to the system and
    asks for its pages again, which takes a quarter of the time of a fit. Costs at most 64 MiB of a process. Does
    nothing where memory is not glibc's.
    """
    with contextlib.suppress(OSError, AttributeError):  # other systems, and other libraries of C
        adjust = ctypes.CDLL(None).mallopt
        adjust(_TRIM, _KEPT)
        adjust(_MAP, _MAPPED)


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Refuse work that needs more memory than there is.

    Args:
        needed: Bytes, as estimated.
        what: What needs them, as the beginning of the message.
        remedy: What to do instead.

    Raises:
        MemoryError: Before anything of that size is made.
    """
    available = available_memory()
    if available is not None and needed > available:
        sizes = f"about {_shown(needed)} of memory, and {_shown(available)} are available"
        raise MemoryError(f"{what} would take {sizes}: {remedy}")


def available_memory() -> float | None:
    """Bytes that can still be used by this process on the default device; None where the system does not tell.

    The least of what the machine has, what its container may use, and what a limit of the process (``ulimit -v``)
    leaves; for a device with memory of its own, what is free there.
    """
    with contextlib.suppress(RuntimeError, AttributeError):
        statistics = jax.local_devices()[0].memory_stats()
        if statistics and "bytes_limit" in statistics:
            return float(statistics["bytes_limit"] - statistics.get("bytes_in_use", 0))
    found = [bound for bound in (_of_machine(), _of_container(), _of_process()) if bound is not None]
    return max(min(found), 0.0) if found else None


def _of_machine() -> float | None:
    with contextlib.suppress(OSError, IndexError, ValueError):  # Linux
        return 1024.0 * float(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0])
    with contextlib.suppress(OSError, ValueError, AttributeError):  # others: all that there is
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_container() -> float | None:
    for limit, used in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            return float(Path(limit).read_text()) - float(Path(used).read_text())
    return None


def _of_process() -> float | None:
    with contextlib.suppress(ImportError, OSError, IndexError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return float(limit) - pages * resource.getpagesize()
    return None


def _shown(size: float) -> str:
    """Bytes as a text of three digits."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = min(max(int(size), 1).bit_length() // 10, len(units) - 1)
    return f"{size / 1024.0**power:.3g} {units[power]}"
