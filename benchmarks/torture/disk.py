"""Disks that are full, small or read-only, homes that are missing, and terminals that know few letters."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import spectrogp as sg

from .commands import CHILD, FIT, FITTED, LIMIT, ROW, Ended, left_wrong, parts_in, side_by_side, write_tone
from .trials import Trials

NAMED = "exit code 2, one line that names the file, no traceback; older files whole, no part left"
# A user who has neither a name nor a home, and may write nowhere: root may anywhere, whatever the permissions are.
# Reading is allowed everywhere, since Python itself may be in somebody's home.
NOBODY = 12345
_READS = "-all,+dac_read_search"
SOMEBODY = [
    *("/usr/bin/env", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *(f"--inh-caps={_READS}", f"--ambient-caps={_READS}"),
]
# Encodings that do not know all letters that are printed.
POOR = {
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


def section(quick: bool, seed: int, place: Path) -> Iterator[Trials]:
    """All kinds of outputs that cannot be written to."""
    place.chmod(0o755)  # another user reads there
    (place / "cache").mkdir()
    write_tone(place / "tone.csv")
    fitted = place / "fitted"
    done = _command(place, "fit", place / "tone.csv", *FIT, "--seed", seed, "--out", fitted)
    if done.code:
        raise RuntimeError(f"nothing can be fitted: {done.err[-2000:]}")
    for name in ("prediction.csv", "prediction.parquet"):
        _command(place, "predict", fitted / FITTED[0], place / "tone.csv", "--out", fitted / name)
    _command(place, "spectrogram", fitted / FITTED[0], "--out", fitted)
    yield _refused("files beyond a limit of size, and errors at the end of writing", _injected(quick, place))
    yield _full(quick, place)
    if _knows_somebody():
        yield _refused("read-only directories", _read_only(quick, place))
        yield _homeless(quick, place)
    else:
        yield Trials(
            "read-only directories, no home", NAMED, 0, note="not tried: only root can be another user, by setpriv"
        )
    yield _outputs(quick, place)
    yield _encodings(quick, place)
    if not quick:
        yield _device(place)


# Commands


def _command(
    place: Path,
    *arguments: Any,
    aim: str = "-",
    out: Path | None = None,
    output: Any = subprocess.PIPE,
    variables: dict[str, str | None] | None = None,
    user: list[str] | None = None,
) -> Ended:
    """How a command ends: with an aim of ``child.py`` at what it writes to ``out``, other variables, as a user."""
    changed = {"COLUMNS": "200", "XDG_CACHE_HOME": str(place / "cache")} | (variables or {})
    environment = {name: value for name, value in (os.environ | changed).items() if value is not None}
    program = ["-m", "spectrogp.cli"] if aim == "-" else [CHILD, aim, out, "command"]
    command = [*(user or []), sys.executable, "-P", *map(str, [*program, *arguments])]
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, env=environment)  # noqa: S603
    try:
        written, said = (part and part.decode("utf-8", "replace") for part in process.communicate(timeout=LIMIT))
    finally:
        process.kill()
    return Ended(process.returncode, written or "", said or "", process.pid)


def _commands(place: Path, out: Path) -> dict[str, tuple[Any, ...]]:
    """Every kind of command that writes into a directory."""
    model, table = place / "fitted" / FITTED[0], place / "tone.csv"
    commands: dict[str, tuple[Any, ...]] = {
        "predict csv": ("predict", model, table, "--out", out / "prediction.csv"),
        "predict parquet": ("predict", model, table, "--out", out / "prediction.parquet"),
        "spectrogram": ("spectrogram", model, "--out", out),
        "fit": ("fit", table, *FIT, "--out", out),
        "fig1": ("reproduce", "fig1", "--quick", "--out", out),
    }
    if "SPECTROGP_DATA" in os.environ:
        commands["solar"] = (*ROW, "--out", out)
    return commands


def _trial(name: str, place: Path, out: Path, command: str, **more: Any) -> str | None:
    """What is wrong, if anything, after a command that cannot write all it should to a directory of older results."""
    older = {path.name for path in out.iterdir()}
    done = _command(place, *_commands(place, out)[command], out=out, **more)
    wrong = done.wrong(2, line=re.escape(f"{out}/")) + left_wrong(out, older) + parts_in(out)
    return f"{name}: {'; '.join(wrong)}" if wrong else None


def _refused(what: str, trials: list[Callable[[], str | None]]) -> Trials:
    found = side_by_side(trials)
    return Trials(what, NAMED, len(found), tuple(failure for failure in found if failure))


# Kinds of trials


def _injected(quick: bool, place: Path) -> list[Callable[[], str | None]]:
    """Small limits of the size of files, and errors that a disk reports late."""
    cases = [("predict csv", "EFBIG:write:.csv:200"), ("predict parquet", "ENOSPC:sync:.parquet:1")]
    if not quick:
        cases += [
            ("predict csv", "EROFS:move:.csv:1"),
            ("predict parquet", "EDQUOT:sync:.parquet:1"),
            ("spectrogram", "EFBIG:write:.csv:200"),
            ("spectrogram", "EFBIG:write:.png:20000"),
            ("spectrogram", "EIO:sync:.png:1"),
            ("fit", "EFBIG:write:.safetensors:2000"),
            ("fit", "ENOSPC:sync:.json:1"),
            ("fit", "EFBIG:write:.png:100000"),
            ("fig1", "EFBIG:write:.png:20000"),
            ("fig1", "EFBIG:write:.json:100"),
        ]
    if not quick and "SPECTROGP_DATA" in os.environ:
        cases += [
            ("solar", "ENOSPC:sync:.clock:1"),
            ("solar", "ENOSPC:sync:.checkpoint:1"),
            ("solar", "EFBIG:write:.npz:20000"),
            ("solar", "ENOSPC:move:se-map.json:1"),
        ]
    trials: list[Callable[[], str | None]] = []
    for command, aim in cases:
        out = shutil.copytree(place / "fitted", place / f"{command} {aim}")
        trials.append(partial(_trial, f"{command}, {aim}", place, out, command, aim=aim))
    return trials


def _full(quick: bool, place: Path) -> Trials:
    """Disks in memory that have room for the older results and some bytes more."""
    what, size = "full disks", sum(-(-path.stat().st_size // 4096) for path in (place / "fitted").iterdir())
    cases = [("predict csv", 0)]
    if not quick:
        cases += [(command, 0) for command in list(_commands(place, place))[1:]]
        cases += [("fit", 5), ("fit", 40), ("spectrogram", 5), ("fig1", 5)]
        cases += [("solar", room) for room in (2, 20) if "SPECTROGP_DATA" in os.environ]
    if os.geteuid() != 0:
        return Trials(what, NAMED, 0, note="not tried: only root can mount a small disk")

    def trial(number: int, command: str, room: int) -> str | None:
        with _mounted(place / f"disk {number}", size + room + 1) as out:  # one more for the directory
            for path in (place / "fitted").iterdir():
                shutil.copy(path, out)
            return _trial(f"{command}, {room} pages free", place, out, command)

    return _refused(what, [partial(trial, number, *case) for number, case in enumerate(cases)])


@contextmanager
def _mounted(path: Path, pages: int) -> Iterator[Path]:
    path.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={4096 * pages},mode=755", "tmpfs", str(path)]
    subprocess.run(["/usr/bin/env", "mount", *options], check=True)  # noqa: S603
    try:
        yield path
    finally:
        subprocess.run(["/usr/bin/env", "umount", str(path)], check=True)  # noqa: S603


def _knows_somebody() -> bool:
    """Whether such a user can run the library."""
    command = [*SOMEBODY, sys.executable, "-P", "-c", "import spectrogp"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603
    except FileNotFoundError:
        return False


def _read_only(quick: bool, place: Path) -> list[Callable[[], str | None]]:
    trials: list[Callable[[], str | None]] = []
    for command in list(_commands(place, place))[: 1 if quick else None]:
        out = shutil.copytree(place / "fitted", place / f"read-only {command}")
        out.chmod(0o555)
        # Compiled programs of another user are not used, and that is said: not here, where one line is expected.
        home = place / f"home of {command}"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        variables = {"HOME": str(home), "XDG_CACHE_HOME": str(home)}
        trials.append(partial(_trial, command, place, out, command, variables=variables, user=SOMEBODY))
    return trials


def _homeless(quick: bool, place: Path) -> Trials:
    """A user without a home: in a container, say."""
    what, holds = "users without a home", "exit code 0, all files whole, no traceback"

    def trial(name: str, home: str | None) -> str | None:
        out = place / f"homeless {name}"
        out.mkdir()
        os.chown(out, NOBODY, NOBODY)
        variables = {"HOME": home, "XDG_CACHE_HOME": None}
        done = _command(place, *_commands(place, out)[name.split(",")[0]], variables=variables, user=SOMEBODY)
        wrong = done.wrong(0) + left_wrong(out) + parts_in(out)
        return f"{name}: {'; '.join(wrong)}" if wrong else None

    cases = {"predict csv, no HOME": None}
    if not quick:
        cases |= {"fit, no HOME": None, "fit, HOME that is not there": "/nonexistent", "spectrogram, HOME of root": "/"}
    found = side_by_side(partial(trial, *case) for case in cases.items())
    return Trials(what, holds, len(found), tuple(failure for failure in found if failure))


def _outputs(quick: bool, place: Path) -> Trials:
    """Terminals that are gone: /dev/full, and a reader who has seen enough."""

    def full(name: str, out: Path) -> str | None:
        arguments = _commands(place, out).get(name, (name,))
        with Path("/dev/full").open("wb") as nowhere:
            done = _command(place, *arguments, output=nowhere)
        wrong = done.wrong(2, line="No space left on device") + left_wrong(out) + parts_in(out)
        return f"{name} > /dev/full: {'; '.join(wrong)}" if wrong else None

    def head(name: str, out: Path) -> str | None:
        arguments = _commands(place, out).get(name, (name,))
        reader, writer = os.pipe()
        os.close(reader)  # as after ``head -0``, before anything is said
        with os.fdopen(writer, "wb") as gone:
            done = _command(place, *arguments, output=gone)
        wrong = done.wrong(0, 1, 141, -13) + left_wrong(out) + parts_in(out)
        wrong += [f"said {line}" for line in done.said]
        return f"{name} | head: {'; '.join(wrong)}" if wrong else None

    names = ["predict csv", "--help"] if quick else ["predict csv", "spectrogram", "fit", "fig1", "--help"]
    trials = []
    for name in names:
        for kind in (full, head):
            out = place / f"{kind.__name__} {name}"
            out.mkdir()
            trials.append(partial(kind, name, out))
    found = side_by_side(trials)
    holds = "one line and exit code 2 for /dev/full, nothing said to who reads no more; no traceback, files whole"
    return Trials("output to /dev/full and `| head`", holds, len(found), tuple(failure for failure in found if failure))


def _encodings(quick: bool, place: Path) -> Trials:
    """Output in encodings that lack letters which are printed, and input with such letters in its names."""
    table = place / "Ränder σ.csv"
    tone = sg.read_table(place / "tone.csv")
    sg.write_table(table, {"t ±": tone["t"], "σ²": tone["y"]})

    def trial(encoding: str, name: str) -> str | None:
        out = place / f"{encoding} {name} ×"
        code, arguments = {
            "fit": (0, ("fit", table, *FIT, "--out", out)),
            "demo": (0, ("demo", "--quick", "--out", out)),
            "help": (0, ("fit", "--help")),
            "missing": (2, ("predict", out / "ö.safetensors", table)),
            "column": (2, ("fit", table, "--y", "ζ")),
        }[name]
        out.mkdir()
        done = _command(place, *arguments, variables=POOR[encoding])
        wrong = done.wrong(code, line=None if code == 0 else "^spectrogp: ") + left_wrong(out)
        return f"{name}, {encoding}: {'; '.join(wrong)}" if wrong else None

    names = ("help", "missing") if quick else ("fit", "help", "missing", "column")
    cases = [(encoding, name) for encoding in POOR for name in names] + ([] if quick else [("ascii", "demo")])
    found = side_by_side(partial(trial, *case) for case in cases)
    holds = "exit code 0, or 2 and one line for wrong input; no traceback, files whole"
    return Trials("cp1252, ascii and LC_ALL=C", holds, len(found), tuple(failure for failure in found if failure))


def _device(place: Path) -> Trials:
    """A file that is a link to a device: the system's own would be gone if it were replaced."""
    what, holds = (
        "a link to a full device",
        "the device stays; exit code 2 and one line, or a file in place of the link",
    )
    device, link = place / "devices" / "full", place / "prediction.csv"
    device.parent.mkdir()
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        return Trials(what, holds, 0, note="not tried: only root can make a device")
    link.symlink_to(device)
    done = _command(place, "predict", place / "fitted" / FITTED[0], place / "tone.csv", "--out", link)
    wrong = [] if device.is_char_device() else ["the device was replaced by a file"]
    if link.is_symlink() and not wrong:
        wrong += done.wrong(2, line=re.escape(link.name))
    else:
        wrong += done.wrong(0)
    wrong += parts_in(place)
    return Trials(what, holds, 1, ("; ".join(wrong),) if wrong else ())
