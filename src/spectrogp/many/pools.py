"""Where signals are fitted: processes of this machine (joblib's loky), or the workers of a Dask cluster.

A pool takes calls and gives futures. It says how many calls it can use at once, so that no more signals are read than
are worked on, and it can be opened anew when it is lost: a process that was killed takes all calls of a local pool with
it, a scheduler those of a cluster. (Of a worker that was killed Dask itself gives the calls to others.)
"""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

BACK = 60.0  # seconds that a scheduler which is gone may take to come back
AT_ONCE = 2  # calls for each process: one that runs, and one that is there when it ends
LOOK = 5.0  # seconds after which workers are counted again

# A signal is too small to be worth several threads: that is what the processes are for.
ONE_THREAD = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class AbstractPool(ABC):
    """What calls are given to."""

    lost: tuple[type[BaseException], ...]  # errors of calls that are lost with the pool, whatever they were doing
    blamed: bool  # whether one of these calls may have been the reason

    @abstractmethod
    def open(self) -> None:
        """Begin, or begin anew after the pool was lost."""

    @abstractmethod
    def workers(self) -> int:
        """How many calls run at a time."""

    @abstractmethod
    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """The future of a call."""

    @abstractmethod
    def reason(self, error: Exception) -> str | None:
        """Why a signal failed, if an error that a call did not raise itself is to blame on it; else None."""

    @abstractmethod
    def close(self, *, now: bool) -> None:
        """End; ``now``, without waiting for calls that run."""


class LocalPool(AbstractPool):
    """Processes of this machine, started afresh: JAX cannot be used in forks.

    Args:
        jobs: How many, or None for as many as there are cores for this process.
    """

    lost = (BrokenProcessPool,)
    blamed = True

    def __init__(self, jobs: int | None) -> None:
        from joblib import cpu_count

        self._jobs = cpu_count() if jobs is None else jobs
        self._executor: Executor | None = None

    def open(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        if self._executor is not None:
            self._executor.shutdown(kill_workers=True)  # type: ignore[call-arg]
        env = {name: os.environ.get(name, one) for name, one in ONE_THREAD.items()}
        self._executor = ProcessPoolExecutor(self._jobs, initializer=_ignore_interrupts, env=env)

    def workers(self) -> int:
        return self._jobs

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        assert self._executor is not None  # noqa: S101  # opened
        return self._executor.submit(call, *arguments)

    def reason(self, error: Exception) -> str | None:
        del error  # those of calls are raised by the calls, and those of processes are losses
        return None

    def close(self, *, now: bool) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=now)  # type: ignore[call-arg]


class DaskPool(AbstractPool):
    """The workers of a Dask cluster.

    Args:
        scheduler: The address of its scheduler, or a ``distributed.Client``, which stays open.
    """

    lost = (CancelledError,)
    blamed = False

    def __init__(self, scheduler: Any) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ImportError("a scheduler needs Dask: pip install 'spectrogp[dask]', or leave it out") from error
        self._connect: Any = distributed.Client
        self._killed = distributed.KilledWorker
        self._given = scheduler if isinstance(scheduler, distributed.Client) else None
        self._address = str(scheduler.scheduler.address if self._given is not None else scheduler)
        self._client: Any = None
        self._executor: Any = None
        self._counted, self._looked = 0, 0.0

    def open(self) -> None:
        wait = 10.0 if self._client is None else BACK  # at first nobody expects it to be away
        if self._given is not None and self._client is None:
            self._client = self._given
        else:
            self._leave()
            try:
                self._client = self._connect(self._address, timeout=wait, set_as_default=False)
            except (OSError, ValueError) as error:
                raise ConnectionError(
                    f"no scheduler of Dask answers at {self._address}: {error}; rows that are done are kept, and the "
                    "same call goes on with the others"
                ) from error
        self._executor = self._client.get_executor(pure=False)
        self._looked = 0.0

    def workers(self) -> int:
        if time.monotonic() - self._looked > LOOK and self._client.status == "running":
            self._counted = sum(self._client.nthreads().values())
            self._looked = time.monotonic()
        return self._counted

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = self._executor.submit(call, *arguments)
        return future

    def reason(self, error: Exception) -> str | None:
        if isinstance(error, self._killed):
            return "the workers that fitted it were killed, one after the other: was there memory enough for it?"
        return None

    def close(self, *, now: bool) -> None:
        del now  # calls whose futures are forgotten are not begun, and those that run end by themselves
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        self._leave()

    def _leave(self) -> None:
        if self._client is not None and self._client is not self._given:
            self._client.close(timeout=5)


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the one that has started the others ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
