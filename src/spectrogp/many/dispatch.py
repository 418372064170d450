"""Signals are handed to a pool, and what comes back is handed on; what is lost on the way is handed out again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from .pools import AT_ONCE, AbstractPool

DEATHS = 2  # of processes that had nothing to do but one signal, before it is blamed for them


class _Lost(Exception):  # noqa: N818
    """The pool was lost."""


class Dispatch:
    """Fits signals by a pool, each once.

    A local pool is lost with any of its processes. Which of the signals under way was the reason nobody knows, so they
    are fitted once more one by one; one whose process dies twice although it was alone is given up.

    Args:
        pool: Where they are fitted.
        start: Begins the fit of the signal of this index: the function and its arguments.
        keep: Called with the index of a signal and its row, as they come.
        tell: Called about every second.
    """

    def __init__(
        self,
        pool: AbstractPool,
        start: Callable[[int], tuple[Any, ...]],
        keep: Callable[[int, dict[str, Any]], None],
        tell: Callable[[], None],
    ) -> None:
        self._pool, self._start, self._keep, self._tell = pool, start, keep, tell
        self._flying: dict[Future[Any], int] = {}
        self._again: deque[int] = deque()  # lost with the pool
        self._suspects: deque[int] = deque()  # likewise, and one of them may have been the reason
        self._deaths: Counter[int] = Counter()

    def run(self, signals: Iterable[int]) -> None:
        """Fit these signals."""
        left = iter(signals)
        self._pool.open()
        ended = False
        try:
            while True:
                try:
                    self._fill(left)
                    if not self._flying:
                        break
                    self._gather()
                except _Lost:
                    self._give_back()
                    self._pool.open()
                self._tell()
            ended = True
        finally:
            self._pool.close(now=not ended)

    def _fill(self, left: Iterator[int]) -> None:
        """Hand out as many signals as the pool can use."""
        while len(self._flying) < self._room():
            queue = next(filter(None, (self._suspects, self._again)), None)
            index = next(left, None) if queue is None else queue.popleft()
            if index is None:
                return
            try:
                call = self._start(index)
            except ValueError as error:  # it cannot be read
                self._keep(index, {"failure": " ".join(str(error).split())})
                continue
            try:
                self._flying[self._pool.submit(*call)] = index
            except Exception as error:
                if not isinstance(error, (*self._pool.lost, RuntimeError)):  # the latter of a pool that was closed
                    raise
                self._again.append(index)
                raise _Lost from error

    def _room(self) -> int:
        alone = self._suspects or any(index in self._deaths for index in self._flying.values())
        return 1 if alone else max(AT_ONCE * self._pool.workers(), 1)

    def _gather(self) -> None:
        """Rows of the signals that are done by now, or in a second."""
        done, _ = wait(self._flying, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in done:
            try:
                row = future.result()
            except self._pool.lost as error:
                raise _Lost from error
            except Exception as error:  # not of the fit, whose errors are rows
                reason = self._pool.reason(error)
                if reason is None:
                    raise
                row = {"failure": reason}
            self._keep(self._flying.pop(future), row)

    def _give_back(self) -> None:
        """What was under way is to be done again; what ended in the meantime is kept."""
        lost = []
        for future, index in self._flying.items():
            future.cancel()
            try:
                self._keep(index, future.result(timeout=0.0))
            except Exception:
                lost.append(index)
        self._flying = {}
        if not self._pool.blamed:
            self._again.extend(lost)
            return
        if len(lost) == 1:
            self._deaths[lost[0]] += 1
        for index in lost:
            if self._deaths[index] >= DEATHS:
                self._keep(index, {"failure": "its process was killed, twice: was there memory enough for it?"})
            else:
                self._deaths.setdefault(index, 0)
                self._suspects.append(index)
