"""What processes of their own do for ``long_use``: ``python -m benchmarks.torture.workers TASK [ARGUMENT …]``.

Each prints one line of JSON for every result, so that those before a crash or a time limit are known.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import multiprocessing
import pickle
import queue
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle  # comes with joblib
import jax
import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import spectrogp as sg

from ..measure import counting_programs, resident_memory

# One component, since their number is part of the shapes; otherwise the data decide on it.
COMMON = {"n_components": 1, "random_state": 0}
QUICK = {**COMMON, "inference": "map", "n_starts": 1, "max_iter": 30}
SETTINGS: dict[str, dict[str, Any]] = {
    "sm": {**QUICK, "kernel": "sm"},
    "default": {**COMMON, "max_iter": 100},  # the default kernel, initial values and posterior
    "dsvi": {**QUICK, "inference": "dsvi", "n_knots": 8, "n_draws": 50},
}
HANG = 60.0  # seconds after which a process that says nothing is taken to hang


def rows(count: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A chirp at irregular times, with noise."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, 1.0, count))
    return t, np.sin(2.0 * np.pi * (4.0 + 2.0 * t) * t) + 0.1 * rng.standard_normal(count)


def estimator(name: str = "sm") -> Any:
    return sg.SpectralGPRegressor(**SETTINGS[name])


def bits(model: Any) -> str:
    """A digest of every bit of the predictions of a fitted estimator."""
    mean, std = model.predict(rows(seed=1)[0], return_std=True)
    return hashlib.sha256(mean.tobytes() + std.tobytes()).hexdigest()


def fitted_bits(model: Any) -> str:
    return bits(model.fit(*rows()))


def say(**result: Any) -> None:
    print(json.dumps(result), flush=True)


# Tasks


def fits(name: str, count: str, lowest: str, highest: str, clear: str = "") -> None:
    """Fit again and again, on so many rows in turn: programs, memory and arrays after each; caches cleared, or not."""
    sizes = range(int(lowest), int(highest) + 1)
    with counting_programs() as built:
        for i in range(int(count)):
            t, y = rows(sizes[i % len(sizes)], seed=i)
            estimator(name).fit(t, y).predict(t, return_std=True)
            if clear:
                jax.clear_caches()
            gc.collect()
            say(programs=len(built), memory=resident_memory(), arrays=len(jax.live_arrays()))


def copies(place: str) -> None:
    """Every way to copy an estimator: does the copy predict the same, every bit of it?"""
    fresh, done = estimator(), estimator()
    right = fitted_bits(done)
    ways: dict[str, Any] = {
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),  # noqa: S301
        "cloudpickle": lambda model: pickle.loads(cloudpickle.dumps(model)),  # noqa: S301
        "deepcopy": copy.deepcopy,
    }
    for name, way in ways.items():
        say(what=f"{name}, fitted", right=bits(way(done)) == right)
        say(what=f"{name}, unfitted", right=fitted_bits(way(fresh)) == right)
    say(what="clone of a fitted one, fitted again", right=fitted_bits(clone(done)) == right)
    Path(place).write_bytes(cloudpickle.dumps({"fitted": done, "unfitted": fresh, "right": right}))


def fresh(place: str) -> None:
    """What another process has pickled, in this one, which has imported it by that alone."""
    found = pickle.loads(Path(place).read_bytes())  # noqa: S301
    say(what="cloudpickle into a fresh process, fitted", right=bits(found["fitted"]) == found["right"])
    say(what="cloudpickle into a fresh process, unfitted", right=fitted_bits(found["unfitted"]) == found["right"])


def parallel() -> None:
    """Predict and fit in the processes of joblib, of multiprocessing, and of a grid search."""
    done = estimator()
    right = fitted_bits(done)
    for name, call, model in (("predict", bits, done), ("fit", fitted_bits, estimator())):
        found = Parallel(n_jobs=2, backend="loky")(delayed(call)(model) for _ in range(2))
        say(what=f"joblib's loky, {name}", right=found == [right, right])
        say(what=f"multiprocessing by spawn, {name}", right=_in_process("spawn", call, model) == right)
        said = _in_process("fork", call, model)
        # The one or the other; a child that says nothing is one that hangs.
        say(what=f"multiprocessing by fork, {name}", right=said == right or "forked after JAX" in said, said=said)
    search = GridSearchCV(estimator(), {"max_iter": [10, 30]}, n_jobs=2, cv=2).fit(*rows())
    alone = GridSearchCV(estimator(), {"max_iter": [10, 30]}, cv=2).fit(*rows())
    same = np.array_equal(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    say(
        what="GridSearchCV(n_jobs=2), scores and predictions",
        right=bool(same) and bits(search.best_estimator_) == bits(alone.best_estimator_),
    )


def _in_process(method: str, call: Any, model: Any) -> str:
    """What a call says in a process started by the method, or what it raises."""
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's own, of forks
        child = context.Process(target=_answer, args=(answers, call, model), daemon=True)
        child.start()
    try:
        return str(answers.get(timeout=HANG))
    except queue.Empty:
        return f"nothing in {HANG:g} seconds"
    finally:
        child.kill()


def _answer(answers: Any, call: Any, model: Any) -> None:
    try:
        answers.put(call(model))
    except Exception as error:
        answers.put(f"{type(error).__name__}: {error}")


def numbers() -> None:
    """The predictions themselves, of two kernels, for comparison with those of other processes."""
    for name in ("sm", "default"):
        mean, std = estimator(name).fit(*rows()).predict(rows(seed=1)[0], return_std=True)
        say(what=name, mean=[value.hex() for value in mean], std=[value.hex() for value in std])


def threads() -> None:
    """The same fit, in 1, 2 and 4 threads at the same time."""
    right = fitted_bits(estimator())
    for count in (1, 2, 4):
        with ThreadPoolExecutor(count) as pool:
            found = list(pool.map(fitted_bits, [estimator() for _ in range(count)]))
        say(what=f"{count} at the same time", right=found == [right] * count)


if __name__ == "__main__":
    # Through the module's own name: what is pickled must not be of "__main__".
    from benchmarks.torture import workers

    getattr(workers, sys.argv[1])(*sys.argv[2:])
