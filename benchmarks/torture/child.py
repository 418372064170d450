"""What the campaign runs in processes of its own: ``python -P child.py AIM DIRECTORY COMMAND …``.

COMMAND is ``command``, then arguments of ``spectrogp``, or a run of inference with checkpoints (``adam``, ``nuts``,
``sghmc``) in DIRECTORY. AIM is ``-``, or ``WHAT:EVENT:FILE:COUNT``: what befalls the process at an event in DIRECTORY,
namely a signal (SIGKILL) or an error (ENOSPC). Events are, for files whose names contain FILE,

    sync    before the COUNT-th of them is brought to the disk: it is written
    move    before the COUNT-th of them is moved to its place: it is written and on the disk
    write   at byte COUNT of a file; by the kernel, which knows SIGXFSZ and EFBIG only
"""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any


def aim(text: str, directory: Path) -> None:
    """Let the process meet its fate."""
    if text == "-":
        return
    what, event, file, count = text.split(":")
    directory, left = directory.resolve(), int(count)

    def concerned(path: Any) -> bool:
        path = Path(os.fsdecode(path)).resolve()
        return path.is_relative_to(directory) and file in path.name

    def strike(path: Any) -> None:
        nonlocal left
        if not concerned(path):
            return
        left -= 1
        if left == 0 and what.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, what))
        elif left == 0:
            raise OSError(getattr(errno, what), os.strerror(getattr(errno, what)))

    def watch(name: str, arguments: tuple[Any, ...]) -> None:
        # Both are told before they happen.
        if event == "move" and name == "os.rename":
            strike(arguments[1])
        if event == "write" and name == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            path = arguments[0]  # or the number of a file that is open
            if not isinstance(path, int) and concerned(path):
                resource.setrlimit(resource.RLIMIT_FSIZE, (left, resource.RLIM_INFINITY))

    def fsync(file: Any) -> None:
        number = file if isinstance(file, int) else file.fileno()
        strike(Path(f"/proc/self/fd/{number}").readlink())
        sync(number)

    if what == "SIGXFSZ":  # which Python ignores otherwise
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.addaudithook(watch)
    if event == "sync":
        sync, os.fsync = os.fsync, fsync


def command(arguments: list[str]) -> None:
    """The command line."""
    from spectrogp.cli import main

    sys.argv[:] = ["spectrogp", *arguments]
    print("ready", flush=True)
    main()


def infer(kind: str, directory: Path) -> None:
    """A run of inference that tells every chunk, and at its end the digest of all its numbers."""
    import jax
    import numpy as np

    import spectrogp as sg
    from spectrogp.core import cache_compilations
    from spectrogp.inference import NUTS, SGHMC, Adam, Run, maximise, sample

    cache_compilations()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (20, 1))
    data = sg.Data(X, np.sin(3.0 * X[:, 0]) + 0.2 * rng.normal(size=20))
    kernel = sg.kernels.SquaredExponential(sg.Positive(1.0, sg.LogNormal(1.0, 1.0)))
    model = sg.models.ExactGP(kernel, sg.Positive(0.5, sg.LogNormal(0.5, 1.0)))

    def progress(done: int, *_: Any) -> None:
        print(done, flush=True)
        time.sleep(0.02)  # so that there are moments between chunks

    run = Run(progress, directory / "run.checkpoint", chunk=2, save_every=2)
    if kind == "adam":
        found: Any = maximise(model, data, steps=120, key=0, optimiser=Adam(batch=10), run=run)
        numbers = found.history, found.model
    else:
        sampler: Any = NUTS(warmup=20, chains=2) if kind == "nuts" else SGHMC(warmup=20, chains=2)
        found = sample(sampler, model, data, draws=100, key=0, run=run, warn=False)
        numbers = found.draws, found.log_joint, found.statistics
    if found.interrupted:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(numbers))
    print(f"result {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    _, _aim, _directory, _what, *_arguments = sys.argv
    aim(_aim, Path(_directory))
    command(_arguments) if _what == "command" else infer(_what, Path(_directory))
