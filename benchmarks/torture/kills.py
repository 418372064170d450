"""Commands, samplers and tables of models that are killed: at any moment, and in the middle of writing a file.

Kills come in series into one directory; then the same is run to its end.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from .commands import FIT, FITTED, ROW, Ended, child, ended, left_wrong, parts_in, side_by_side, write_tone
from .trials import Trials

# What a command says and gives back when it is ended by a signal that can be caught.
CAUGHT = {"SIGINT": (130, "interrupted"), "SIGTERM": (143, "terminated"), "SIGHUP": (129, "terminated")}
SIGNALS = ("SIGKILL", *CAUGHT)
WHOLE = "what has its final name is whole, and older results stay"
SAID = "exit code 130, 143 or 129, one line and no traceback where the signal can be caught"
GOES_ON = "exit code 0, the result of a run that was never stopped (bit for bit), no parts of files left"

Process: TypeAlias = subprocess.Popen[str]


class Moment(NamedTuple):
    """A signal when a run has come so far: a share of a whole one."""

    signal: str
    share: float


class Series(NamedTuple):
    """Kills in one directory.

    Args:
        what: What is killed, for messages.
        out: The directory.
        start: Starts it with an aim of ``child.py``.
        kills: Such aims, or moments.
        wait: Waits until a process has come so far.
        is_command: Whether it is a command, which says what has ended it; any other script is just ended.
    """

    what: str
    out: Path
    start: Callable[[str], Process]
    kills: list[str | Moment]
    wait: Callable[[Process, float], None]
    is_command: bool = True


def section(quick: bool, seed: int, place: Path) -> Iterator[Trials]:
    """All kills."""
    chance = random.Random(seed)  # noqa: S311
    cache = place / "cache"
    cache.mkdir()
    yield from _fits(quick, chance, place, cache)
    yield from _runs(quick, chance, place, cache)
    if quick:
        return
    if "SPECTROGP_DATA" in os.environ:
        yield from _tables(chance, place, cache)
    else:
        yield Trials("`spectrogp reproduce`", "", 0, note="not tried: SPECTROGP_DATA does not say where the data are")


# What is killed


def _fits(quick: bool, chance: random.Random, place: Path, cache: Path) -> Iterator[Trials]:
    """``spectrogp fit``, into a directory that has an older result."""
    write_tone(place / "tone.csv")

    def fit(out: Path, aim: str = "-", seed: int = 0) -> Process:
        return child(aim, out, "command", "fit", place / "tone.csv", *FIT, "--seed", seed, "--out", out, cache=cache)

    reference, older = place / "fitted", place / "older"
    _whole_run(partial(fit, reference))  # which compiles
    wait = partial(_after_seconds, _whole_run(partial(fit, older, seed=1))[1])

    def series(name: str, *kills: str | Moment) -> Series:
        out = shutil.copytree(older, place / f"fit {name}")
        return Series(f"fit, {name}", out, partial(fit, out), list(kills), wait)

    at_random = [series(name, *_moments(chance, *[name] * 3)) for name in SIGNALS]
    aimed = [
        series("before moves", *(f"SIGKILL:move:{name}:1" for name in FITTED)),
        series("before syncs", *(f"SIGKILL:sync:{name}:1" for name in FITTED)),
        series("at a byte of a file", *(f"SIGXFSZ:write:{name}:300" for name in FITTED)),
        series("signals before moves", *(f"{how}:move:{name}:1" for how, name in zip(CAUGHT, FITTED, strict=True))),
    ]
    if quick:
        at_random = [series("quickly", *_moments(chance, "SIGTERM"))]
        aimed = [series("the picture", "SIGXFSZ:write:.png:300", "SIGKILL:move:.png:1")]
    yield from _killed("`spectrogp fit`", at_random, [_model(reference)] * 4, _model)
    yield from _killed("`spectrogp fit` while it writes", aimed, [_model(reference)] * 4, _model)
    yield _at_once("`spectrogp fit`", fit, place / "fits", 1 if quick else 3, _model(reference), _model)


def _runs(quick: bool, chance: random.Random, place: Path, cache: Path) -> Iterator[Trials]:
    """Scripts that call ``maximise`` and ``sample`` with checkpoints."""
    series, results = [], []
    for kind in ("adam",) if quick else ("adam", "nuts", "sghmc"):

        def start(out: Path, aim: str = "-", kind: str = kind) -> Process:
            out.mkdir(exist_ok=True)
            return child(aim, out, kind, cache=cache)

        results.append(_digest(place / kind, _whole_run(partial(start, place / kind))[0]))
        kills: list[str | Moment] = [
            f"SIGKILL:{event}:.checkpoint:{chance.randint(1, 3)}" for event in ("move", "sync")
        ]
        if not quick:
            kills += [*_moments(chance, *SIGNALS), "SIGXFSZ:write:.checkpoint:300"]
            chance.shuffle(kills)
        out = place / f"{kind} killed"
        series.append(Series(kind, out, partial(start, out), kills, _after_chunks, is_command=False))
    yield from _killed("`maximise` and `sample` with checkpoints", series, results, _digest)


def _tables(chance: random.Random, place: Path, cache: Path) -> Iterator[Trials]:
    """``spectrogp reproduce``, one row of a table of models."""

    def reproduce(out: Path, aim: str = "-") -> Process:
        return child(aim, out, "command", *ROW, "--out", out, cache=cache)

    reference = place / "table"
    _whole_run(partial(reproduce, reference))
    wait = partial(_after_seconds, _whole_run(partial(reproduce, place / "compiled"))[1])
    # In the order in which they are written, so that each run goes on from what the last one has left.
    written = (".clock", ".1.checkpoint", "se-map.npz", "se-map.json", ".png", ".json")
    kills: dict[str, list[str | Moment]] = {
        "any moment": _moments(chance, *SIGNALS),
        "before moves": [f"SIGKILL:move:{name}:1" for name in written],
        "signals before syncs": [f"{how}:sync:{name}:1" for how, name in zip(CAUGHT, written[2:5], strict=True)],
    }
    series = [
        Series(f"reproduce, {name}", place / f"table {name}", partial(reproduce, place / f"table {name}"), these, wait)
        for name, these in kills.items()
    ]
    yield from _killed("`spectrogp reproduce`", series, [_scores(reference)] * 3, _scores)
    yield _at_once("`spectrogp reproduce`", reproduce, place / "tables", 3, _scores(reference), _scores)
    yield _full_rows_stay(reference, place / "full", reproduce)


# Killing


def _moments(chance: random.Random, *signals: str) -> list[str | Moment]:
    return [Moment(name, chance.uniform(0.0, 0.75)) for name in signals]


def _after_seconds(seconds: float, process: Process, share: float) -> None:
    _line(process)  # it has begun
    time.sleep(share * seconds)


def _after_chunks(process: Process, share: float) -> None:
    for _ in range(1 + int(5 * share)):  # few of all: each kill goes on from the last
        _line(process)
    time.sleep(0.04 * share)


def _line(process: Process) -> None:
    assert process.stdout is not None  # noqa: S101
    process.stdout.readline()


def _whole_run(start: Callable[[], Process]) -> tuple[Ended, float]:
    """How a run ends that is not stopped, and the seconds it takes."""
    began = time.perf_counter()
    done = ended(start())
    if done.code:
        raise RuntimeError(f"what is to be killed does not run: {done.err[-2000:]}")
    return done, time.perf_counter() - began


def _killed(
    what: str, series: list[Series], results: list[Any], read: Callable[[Path, Ended], Any]
) -> Iterator[Trials]:
    """Trials of series: of all kills, and of the runs after them, whose results are ``read`` and compared."""
    done = side_by_side(partial(_kill, one) for one in series)
    again = side_by_side(partial(_again, one, result, read) for one, result in zip(series, results, strict=False))
    holds = f"{WHOLE}; {SAID}" if series[0].is_command else WHOLE
    yield Trials(f"{what}: killed", holds, sum(len(one.kills) for one in series), tuple(chain(*done)))
    yield Trials(f"{what}: run again after that", GOES_ON, len(series), tuple(chain(*again)))


def _kill(series: Series) -> list[str]:
    """One line for each kill after which something was wrong."""
    failures = []
    for kill in series.kills:
        name = kill.split(":")[0] if isinstance(kill, str) else kill.signal
        older = _results(series.out)
        done = ended(series.start(kill)) if isinstance(kill, str) else _struck(series, kill)
        code, line = -getattr(signal, name), None
        if name in CAUGHT and (series.is_command or name == "SIGINT"):  # which interrupts inference
            code, line = CAUGHT[name]
        wrong = done.wrong(code, line=line) + left_wrong(series.out, older)
        if line is not None:  # it had the time to clear up
            wrong += [part for part in parts_in(series.out) if f".{done.pid}" in part]
        if wrong:
            how = kill if isinstance(kill, str) else f"{name} at {kill.share:.0%}"
            failures.append(f"{series.what}: {how}: {'; '.join(wrong)}")
    return failures


def _struck(series: Series, moment: Moment) -> Ended:
    """How a run ends that is sent a signal; anew, and sooner, if it was over by then."""
    share = moment.share
    while True:
        process = series.start("-")
        series.wait(process, share)
        if process.poll() is None:
            process.send_signal(getattr(signal, moment.signal))
            return ended(process)
        done = ended(process)
        if share < 0.01:  # it has nothing left to do
            return done
        share *= 0.5


def _again(series: Series, result: Any, read: Callable[[Path, Ended], Any]) -> list[str]:
    """A line if the run after all kills does not end as if there had been none."""
    older = _results(series.out)
    done = ended(series.start("-"))
    wrong = done.wrong(0) + left_wrong(series.out, older) + parts_in(series.out)
    if done.code == 0 and read(series.out, done) != result:
        wrong.append("the result differs from that of a run that was never stopped")
    return [f"{series.what}: {'; '.join(wrong)}"] if wrong else []


def _at_once(
    what: str, start: Callable[[Path], Process], place: Path, count: int, result: Any, read: Callable[..., Any]
) -> Trials:
    """Two processes that write the same files at the same time."""
    failures = []
    for number in range(count):
        out = place.with_name(f"{place.name} {number}")
        both = [ended(process) for process in [start(out), start(out)]]
        wrong = [one for done in both for one in done.wrong(0)] + left_wrong(out) + parts_in(out)
        if not wrong and read(out) != result:
            wrong.append("the result differs from that of one run alone")
        if wrong:
            failures.append("; ".join(wrong))
    return Trials(f"{what}: two at once into one directory", "both exit codes 0, files whole", count, tuple(failures))


def _full_rows_stay(reference: Path, out: Path, start: Callable[[Path], Process]) -> Trials:
    """A row of a full run, which takes hours, beside which ``--quick`` is run."""
    rows = out / "solar.rows"
    rows.mkdir(parents=True)
    for path in reference.glob("*.rows/se-map.*"):
        shutil.copy(path, rows)
    record = json.loads((rows / "se-map.json").read_text(encoding="utf-8")) | {"quick": False}
    record["settings"]["steps"] = 600
    (rows / "se-map.json").write_text(json.dumps(record), encoding="utf-8")
    before = {path: path.read_bytes() for path in rows.iterdir()}
    wrong = ended(start(out)).wrong(0) + left_wrong(out)
    wrong += [f"{path.name} was replaced" for path, content in before.items() if path.read_bytes() != content]
    return Trials("`--quick` beside full rows", "these stay as they are", 1, ("; ".join(wrong),) if wrong else ())


# Results


def _results(out: Path) -> list[str]:
    """Names of the files that are there and must stay: not those that a run keeps only to go on from."""
    kept = (".part", ".checkpoint", ".clock")
    return [str(path.relative_to(out)) for path in out.rglob("*") if path.is_file() and path.suffix not in kept]


def _model(out: Path, _: Any = None) -> bytes:
    return (out / FITTED[0]).read_bytes()


def _scores(out: Path, _: Any = None) -> dict[str, Any]:
    found = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in out.glob("*.rows/*.json")}
    return {name: record["scores"] for name, record in found.items()}


def _digest(_: Path, done: Ended) -> str:
    return done.out.splitlines()[-1]
