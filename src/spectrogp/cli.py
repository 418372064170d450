"""The command line: ``spectrogp demo`` and ``spectrogp reproduce NAME``.

Heavy imports stay inside the commands, so that ``spectrogp --help`` answers at once.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Learn how the frequency content of a signal changes: convolutional spectral kernels and their spectrograms.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Experiment(StrEnum):
    """What can be reproduced (the same names as ``experiments.NAMES``)."""

    FIG1 = "fig1"
    FIG2 = "fig2"
    FIG3 = "fig3"
    FIG4 = "fig4"
    TABLE1 = "table1"
    SOLAR = "solar"
    TAXI = "taxi"


Out = Annotated[Path, typer.Option(help="Directory for what is made; created if missing.")]
Quick = Annotated[bool, typer.Option("--quick", help="A coarser version for a first look.")]
Rows = Annotated[list[str] | None, typer.Option("--row", help="Of a table of models only this row; may be repeated.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random; the same seed gives the same result.", min=0)]


@app.callback()
def commands() -> None:
    """Learn how the frequency content of a signal changes: convolutional spectral kernels and their spectrograms."""


@app.command()
def demo(out: Out = Path("out/demo"), quick: Quick = False, seed: Seed = 0) -> None:
    """Draws, kernel matrix and spectrogram of every kernel (the overview figure), offline."""
    _reproduce(Experiment.FIG2, out, quick, seed)


@app.command()
def reproduce(
    name: Annotated[Experiment, typer.Argument(help="Which figure or table of the paper.")],
    out: Out = Path("out"),
    quick: Quick = False,
    seed: Seed = 0,
    row: Rows = None,
) -> None:
    """Make a figure or table of the paper: a PNG, and a JSON with its numbers."""
    _reproduce(name, out, quick, seed, row)


def _reproduce(name: Experiment, out: Path, quick: bool, seed: int, rows: list[str] | None = None) -> None:
    from contextlib import nullcontext

    from rich.console import Console

    from . import cache_compilations, experiments
    from .experiments.rows import UnknownRowError

    console = Console()
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file, not a directory", param_hint="--out")
    try:
        cache_compilations()
    except OSError as error:  # a read-only home is no reason to stop
        console.print(f"compiled programs are not kept: {error}", style="yellow", highlight=False)
    # Tables of models show their own progress.
    table = name.value in experiments.TABLES
    with nullcontext() if table else Console(stderr=True).status(f"making {name.value} …"):
        try:
            paths, numbers = experiments.reproduce(name.value, out, quick=quick, seed=seed, rows=rows or None)
        except UnknownRowError as error:
            raise typer.BadParameter(str(error), param_hint="--row") from error
    _print_numbers(console, numbers)
    for path in paths:
        console.print(f"wrote {path}", soft_wrap=True, highlight=False)


def _print_numbers(console: Any, numbers: dict[str, Any]) -> None:
    """A table of the numbers: one row for each entry when there are several, else one for each scalar."""
    from rich.table import Table

    nested = {key: value for key, value in numbers.items() if isinstance(value, dict)}
    columns = list(dict.fromkeys(name for entry in nested.values() for name in entry)) or ["value"]
    lines = nested or {key: {"value": value} for key, value in numbers.items() if isinstance(value, int | float)}
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right", overflow="fold")
    for key, entry in lines.items():
        table.add_row(key, *(f"{entry[column]:.3g}" if column in entry else "–" for column in columns))
    console.print(table)


def main() -> None:
    """Entry point of the ``spectrogp`` command."""
    try:
        app()
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from what was kept", file=sys.stderr)  # noqa: T201
        sys.exit(130)


if __name__ == "__main__":
    main()
