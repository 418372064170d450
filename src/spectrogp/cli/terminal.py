"""What the command says, in whatever way it can be said: any encoding, a pipe that closed, a full disk.

Names of columns come from data. Nothing here reads them as markup, and control characters are shown, not sent.
"""

from __future__ import annotations

import _thread
import codecs
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from ..files import printable

# For terminals and files that have no such letters.
_PLAIN = {"σ": "sigma", "ω": "omega", "ℓ": "ell", "π": "pi", "±": "+-", "×": "x", "²": "^2", "³": "^3", "–": "-"}
_PLAIN |= {"…": "...", "→": "->", "₂": "2"}

_STOPPED = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "terminated: the terminal was closed"}

_AGAIN = 0.05  # seconds after which a signal that nobody heard is sent once more

_received: list[int] = []  # signals
_told: list[int] = []  # those of them that were spoken of
_lost: list[OSError] = []  # what could not be said


def prepare() -> None:
    """Make standard output and error take any letter, and signals end the work in an orderly way."""
    codecs.register_error("spectrogp", _in_plain_letters)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="spectrogp")
    for name in _STOPPED:
        number = getattr(signal, name, None)  # Windows knows no SIGHUP
        # What whoever started this ignores (nohup, a job in the background) stays ignored.
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    sys.unraisablehook = _hear


def say(text: str = "") -> None:
    """A line on standard output; if nobody reads it any more, the work goes on without."""
    _write(sys.stdout, text)


def complain(text: str) -> None:
    """One line on standard error."""
    _write(sys.stderr, f"spectrogp: {printable(' '.join(text.split()))}")


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table with the first column on the left and numbers on the right."""
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(head):
        table.add_column(printable(name), justify="right" if number else "left", no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    console = Console(markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        console.print(table)
    say(capture.get().rstrip("\n"))


def interrupted() -> int:
    """Say which signal ended the work; gives the exit code, 128 and its number, as shells have it."""
    _ignore_signals()
    number = _received[-1] if _received else signal.SIGINT
    _told.append(number)
    complain(_STOPPED[signal.Signals(number).name])
    return 128 + number


def unheard(error: OSError) -> int:
    """What could not be printed; gives the exit code of a command that had nothing else to do."""
    _give_up(sys.stdout, error)
    return 0


def finish(status: int) -> int:
    """The exit code, once all has been said."""
    if _received and not _told:
        return interrupted()
    _ignore_signals()  # it ends in a moment
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError as error:
            _give_up(sys.stdout, error)
    if _lost and status == 0:
        complain(f"standard output: {_lost[0].strerror}; the work itself is done")
        return 2
    return status


def _write(stream: TextIO | None, text: str) -> None:
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        _give_up(stream, error)


def _give_up(stream: TextIO | None, error: OSError) -> None:
    """Send what is still to come nowhere, as Python would fail once more when it flushes the stream at its end."""
    if not isinstance(error, BrokenPipeError):  # who stopped reading has what was wanted
        _lost.append(error)
    if stream is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _stop(number: int, _: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt  # loops keep what they have; then it ends the command


def _hear(ignored: Any) -> None:
    """Python cannot raise an error out of a callback, and would only print it: a signal is sent to us once more."""
    if _received and issubclass(ignored.exc_type, KeyboardInterrupt):
        threading.Timer(_AGAIN, _send, [_received[-1]]).start()
    else:
        sys.__unraisablehook__(ignored)


def _send(number: int) -> None:
    if hasattr(signal, "pthread_kill"):  # wakes a thread that sleeps
        signal.pthread_kill(threading.main_thread().ident or 0, number)
        return
    _thread.interrupt_main(signal.Signals(number))


def _ignore_signals() -> None:
    for name in _STOPPED:
        number = getattr(signal, name, None)
        if (
            number is not None and signal.getsignal(number) is _stop
        ):  # whoever calls the command inside Python has others
            signal.signal(number, signal.SIG_IGN)


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, ascii(letter)[1:-1]) for letter in letters), error.end
