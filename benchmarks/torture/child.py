"""What the campaign runs in processes of its own: ``python -P child.py AIM DIRECTORY COMMAND …``.

COMMAND is ``command``, then arguments of ``spectrogp``; or a run of inference with checkpoints (``adam``, ``nuts``,
``sghmc``) in DIRECTORY; or ``refuse``, which reads all files of DIRECTORY. AIM is ``-``, or ``WHAT:EVENT:FILE:COUNT``:
what befalls the process at an event in DIRECTORY, namely a signal (SIGKILL) or an error (ENOSPC). Events are, for files
whose names contain FILE,

    sync    before the COUNT-th of them is brought to the disk: it is written
    move    before the COUNT-th of them is moved to its place: it is written and on the disk
    write   at byte COUNT of a file; by the kernel, which knows SIGXFSZ and EFBIG only
"""

from __future__ import annotations

import errno
import functools
import hashlib
import importlib
import json
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
        return path.is_relative_to(directory) and file in path.name and not path.is_dir()  # these are synced too

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


def walk(checkpoint: Path) -> bytes:
    """All numbers of a run that has little to do, of all kinds that checkpoints hold: a key, a state and records."""
    import jax
    import numpy as np

    from spectrogp.inference import Run, run_in_chunks

    state = jax.random.key(0), np.zeros(3), np.array(0)
    done = run_in_chunks(_step(), state, np.ones(3), steps=12, run=Run(None, checkpoint, chunk=4))
    (_, *state), records, _ = done
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((state, records)))


@functools.cache
def _step() -> Any:
    import jax

    from spectrogp.inference import AbstractStep

    class Walk(AbstractStep):
        def __call__(self, state: Any, index: Any, data: Any) -> Any:
            key, position, count = state
            position = position + data * jax.random.normal(jax.random.fold_in(key, index), (3,))
            return (key, position, count + 1), {"objective": -(position**2).sum(), "position": position}

        def objective(self, records: Any) -> Any:
            return records["objective"]

    return Walk()


def refuse(directory: Path) -> None:
    """Read all files, each of which is to be refused; tells of each by what error, how soon, and the memory taken.

    Files whose names begin with "checkpoint" are read as such, others as models.
    """
    import spectrogp as sg
    from spectrogp.loading import HOMES

    for home in HOMES:  # so that no file is blamed for the time of an import
        importlib.import_module(f"spectrogp.{home}")
    walk(directory.with_name("none"))
    own = _memory("VmSize") + 2**30
    resource.setrlimit(resource.RLIMIT_AS, (own, own))
    for path in sorted(directory.iterdir()):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        before, began = _memory("VmRSS"), time.perf_counter()
        try:
            walk(path) if path.name.startswith("checkpoint") else sg.load(path)
            error, message = "nothing", ""
        except BaseException as caught:
            error, message = type(caught).__name__, str(caught)
        found = time.perf_counter() - began, (_memory("VmHWM") - before) / 1e6, error, message[:300]
        print(json.dumps([path.name, *found]), flush=True)


def _memory(name: str) -> int:
    """Bytes that the system says this process takes."""
    return 1024 * int(Path("/proc/self/status").read_text(encoding="ascii").split(f"{name}:")[1].split()[0])


if __name__ == "__main__":
    # The campaign may itself run in the background, or under nohup, and what it ignores its children would ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for _name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(_name, signal.SIG_DFL)
    _, _aim, _directory, _what, *_arguments = sys.argv
    aim(_aim, Path(_directory))
    match _what:
        case "command":
            command(_arguments)
        case "refuse":
            refuse(Path(_directory))
        case _:
            infer(_what, Path(_directory))
