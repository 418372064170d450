"""How far a run of many signals is: how many are done, how many in a minute, and how long the others will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

RECENT = 200  # signals that tell how fast it goes: the first ones wait for programs to be compiled
EVERY = 60.0  # seconds between lines, where no bar can be shown


class Pace:
    """Counts signals.

    Args:
        total: How many there are, those of earlier runs left out.
    """

    def __init__(self, total: int) -> None:
        self.total, self.done, self.failed = total, 0, 0
        self._times = deque([time.monotonic()], RECENT + 1)

    def count(self, *, failed: bool) -> None:
        """One more is done."""
        self.done += 1
        self.failed += failed
        self._times.append(time.monotonic())

    @property
    def per_minute(self) -> float:
        """Signals in a minute, of late."""
        took = self._times[-1] - self._times[0]
        return 60.0 * (len(self._times) - 1) / took if took > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds until the end, at this pace; None before anyone can tell."""
        pace = self.per_minute
        return 60.0 * (self.total - self.done) / pace if pace > 0 else None

    def __str__(self) -> str:
        left = "" if self.left is None else f", {_clock(self.left)} left"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.per_minute:.3g} signals per minute{left}{failed}"


@contextmanager
def shown(pace: Pace, *, verbose: bool) -> Iterator[Callable[[], None]]:
    """Shows on stderr how it goes, whenever it is called: a bar on a terminal, else a line now and then."""
    console = Console(stderr=True)
    if not verbose:
        yield lambda: None
    elif console.is_terminal:
        text, count = TextColumn("signals"), TextColumn("{task.completed:.0f}/{task.total:.0f}")
        note = TextColumn("{task.fields[note]}", markup=False)
        with Progress(text, BarColumn(), count, note, console=console) as bar:
            task = bar.add_task("", total=pace.total, note="")
            yield lambda: bar.update(task, completed=pace.done, note=str(pace))
    else:
        last = [time.monotonic()]

        def tell() -> None:
            if time.monotonic() - last[0] >= EVERY:
                last[0] = time.monotonic()
                console.print(f"{pace.done} of {pace.total} signals, {pace}", markup=False, highlight=False)

        yield tell


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
