"""``python -m spectrogp.processes 2 script.py …``: so many processes of this machine run a script together.

In the script, ``with spectrogp.distributed():`` makes them one group. When one of them fails, the others are ended.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import time

from ..core import cores
from .group import COORDINATOR, COUNT, INDEX, LOST
from .together import say

_THREADS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_GRACE = 25.0  # seconds in which the others say themselves what they miss, before they are ended


def launch(count: int, words: list[str]) -> int:
    """Run Python with these ``words`` in so many processes that know of each other; gives the exit code."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    share = str(max(1, cores() // count))
    threads = {name: os.environ.get(name, share) for name in _THREADS}
    group = os.environ | threads | {COORDINATOR: address, COUNT: str(count)}
    running = [subprocess.Popen([sys.executable, *words], env=group | {INDEX: str(k)}) for k in range(count)]  # noqa: S603
    try:
        return _watch(running)
    except KeyboardInterrupt:  # which they got as well
        for process in running:
            process.wait()
        return 130
    finally:
        for process in running:
            process.kill()
            process.wait()


def _watch(running: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all processes, or for the first that fails and a while for the others; gives the exit code."""
    end = math.inf
    while time.monotonic() < end and None in (codes := [process.poll() for process in running]):
        if any(codes):
            end = min(end, time.monotonic() + _GRACE)
        time.sleep(0.1)
    failed = {k: code for k, code in enumerate(codes) if code}
    if not failed:
        return 0
    # Those that lost another one are not the reason, unless there is no other: neither one that failed, nor one that
    # still runs and gives no sign of life.
    reasons = {k: code for k, code in failed.items() if code not in (LOST, -signal.SIGABRT)}
    silent = [] if reasons else [k for k, code in enumerate(codes) if code is None]
    for k in silent:
        say(f"process {k} of {len(running)} still runs, and the others have lost it: it fell silent")
    if not reasons and not silent:
        reasons = failed
    for k, code in reasons.items():
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
        say(f"process {k} of {len(running)} {how}")
    say("all processes have ended; start them again, and a checkpoint goes on")
    code = next(iter(reasons.values()), LOST)
    return code if code > 0 else 128 - code


def main() -> None:
    """The command."""
    if len(sys.argv) < 3 or not sys.argv[1].isdigit() or int(sys.argv[1]) < 1:
        sys.exit("usage: python -m spectrogp.processes COUNT script.py [arguments]")
    sys.exit(launch(int(sys.argv[1]), sys.argv[2:]))


if __name__ == "__main__":
    main()
