"""What processes of a group run in ``test_processes.py``: ``fit_together.py what out [checkpoint]``."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import spectrogp as sg
from spectrogp.inference import Adam, Run, maximise, maximise_lbfgs

ROWS = 301  # which two processes cannot share evenly
FEW = Adam(0.05, batch=51)


def models():
    """A neighbour model and a variational one, with data."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(ROWS, 2))
    data = sg.Data(X, np.sin(6.0 * X[:, 0]) * np.cos(4.0 * X[:, 1]) + 0.1 * rng.normal(size=ROWS))
    kernel = sg.kernels.SquaredExponential(sg.Positive.around(np.array([0.3, 0.3])))
    neighbours = sg.models.NeighbourGP(kernel, sg.Positive.around(0.2))
    refresh = sg.models.Refresh(data, m=8, every=20)
    return neighbours, refresh, sg.models.VariationalGP(kernel, sg.Positive.around(0.2), X[:15]), data


def optima():
    """Optima by L-BFGS with all rows, and by Adam with minibatches."""
    neighbours, refresh, variational, data = models()
    near = refresh(neighbours)
    fits = {
        "lbfgs": maximise_lbfgs(neighbours, near),
        "adam": maximise(neighbours, near, steps=30, key=0, optimiser=FEW, refresh=refresh, run=Run(chunk=10)),
        "variational": maximise(variational, data, steps=30, key=0, optimiser=FEW, run=Run(chunk=10)),
    }
    return {name: [*fit.history[-5:], *fit.model.kernel.lengthscale.raw] for name, fit in fits.items()}


def checkpointed(group, checkpoint, then=None):
    """A fit that is kept after every chunk; after three of six chunks something happens to one process."""
    neighbours, refresh, _, _ = models()

    def progress(done, steps, objective):
        if done == 30 and group.index == int(os.environ.get("VICTIM", "-1")):
            then()

    run = Run(chunk=10, save_every=1, checkpoint=checkpoint, progress=progress)
    fit = maximise(neighbours, refresh(neighbours), steps=60, key=0, optimiser=FEW, refresh=refresh, run=run)
    return {"history": list(fit.history), "interrupted": fit.interrupted}


def fail():
    """An error of one process alone."""
    raise ZeroDivisionError("only here")


def main():
    what, out, *rest = sys.argv[1:]
    checkpoint = rest[0] if rest else None
    with sg.distributed() as group:
        if group.index:
            checkpoint = None if checkpoint is None else f"{checkpoint}-of-{group.index}"  # another machine's disk
        began = time.perf_counter()
        if what == "optima":
            result = optima()
        elif what == "different":
            neighbours, _, _, data = models()
            other = sg.Data(data.X + 1e-9 * group.index, data.y)
            result = maximise_lbfgs(neighbours, sg.models.Refresh(other, m=8)(neighbours))
        else:
            then = {
                "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
                "failed": fail,
                "interrupted": lambda: os.kill(os.getpid(), signal.SIGINT),
            }
            result = checkpointed(group, checkpoint, lambda: (Path(f"{out}-when").touch(), then[what]()))
        result |= {"seconds": time.perf_counter() - began, "count": group.count}
        Path(f"{out}-{group.index}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
