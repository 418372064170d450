"""The command line: ``spectrogp fit | predict | spectrogram | demo | reproduce``.

Heavy imports stay inside the commands, so that ``spectrogp --help`` answers at once. What is wrong with the input is
said in one line on stderr. Exit codes: 0 done; 2 something is wrong with the arguments, the data or the disk; 128 and
its number for a signal (130 Ctrl-C, 143 SIGTERM, 129 SIGHUP), after which no half-written file is left; 1 a mistake of
this library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..choices import (
    APPROXIMATIONS,
    EXPERIMENTS,
    FORMATS,
    INFERENCES,
    KERNELS,
    LIKELIHOODS,
    SCALINGS,
    TABLES,
    TRANSFORMS,
    UNITS,
)
from . import terminal
from .printing import print_found, print_numbers, print_paths, print_summary, print_warnings

BAD_INPUT = 2


class _Commands(TyperGroup):
    """The commands, with one line for a wrong argument where typer draws a box."""

    def main(self, *args: Any, **settings: Any) -> Any:
        try:
            status = super().main(*args, **settings | {"standalone_mode": False})
        except (typer.Abort, KeyboardInterrupt):
            status = terminal.interrupted()
        except OSError as error:  # those of the work are caught around it: this is the help, which nobody reads
            status = terminal.unheard(error)
        except Exception as error:
            if not hasattr(error, "format_message"):  # not typer's own
                raise
            status = _refuse(error.format_message())
        sys.exit(terminal.finish(status if isinstance(status, int) else 0))


app = typer.Typer(cls=_Commands, pretty_exceptions_enable=False, add_completion=False)


Experiment = StrEnum("Experiment", {name.upper(): name for name in EXPERIMENTS})  # type: ignore[misc]
Unit = StrEnum("Unit", {name.upper(): name for name in UNITS})  # type: ignore[misc]
Scaling = StrEnum("Scaling", {name.upper(): name for name in SCALINGS})  # type: ignore[misc]
Format = StrEnum("Format", {name.upper(): name for name in FORMATS})  # type: ignore[misc]
RECORD, PNG = Scaling("record"), Format("png")
Out = Annotated[Path, typer.Option(help="Directory for what is made; created if missing.")]
Quick = Annotated[bool, typer.Option("--quick", help="A coarser version for a first look.")]
Rows = Annotated[list[str] | None, typer.Option("--row", help="Of a table of models only this row; may be repeated.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random; the same seed gives the same result.", min=0)]
Table = Annotated[
    Path,
    typer.Argument(
        help="A table: text with names in the first row (.csv, .tsv, .txt, .dat, also .gz), .parquet, or a sound file "
        "(.wav); - for standard input."
    ),
]
Model = Annotated[Path, typer.Argument(help="A model file, as fit writes it.")]
Kernel = Annotated[
    str | None,
    typer.Option(help=f"One of {', '.join(KERNELS)}.", show_default="auto"),
]
Inference = Annotated[
    str | None,
    typer.Option(help=f"How to infer the functions: one of {', '.join(INFERENCES)}.", show_default="laplace"),
]
Approximation = Annotated[
    str | None, typer.Option(help=f"One of {', '.join(APPROXIMATIONS)}.", show_default="by the number of rows")
]
Likelihood = Annotated[
    str | None, typer.Option(help=f"The noise: one of {', '.join(LIKELIHOODS)}.", show_default="gaussian")
]
TimeUnit = Annotated[
    Unit | None,
    typer.Option(help="Of times, and their frequencies (year is 365.25 days, s is Hz).", show_default="by their span"),
]
Period = Annotated[bool, typer.Option("--period", help="Report periods, not frequencies.")]
Level = Annotated[float, typer.Option(help="Probability of credible bands and intervals.")]
Resolution = Annotated[
    int | None,
    typer.Option(help="Inputs at which functions are shown.", min=2, show_default="400 to 1200, by the cycles"),
]
Scale = Annotated[
    Scaling,
    typer.Option(help="Colours of the spectrogram: decibels below its maximum (record), or that at each input."),
]
DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--day-first/--month-first", help="What dates such as 05/06/2001 begin with.", show_default="what a row tells"
    ),
]
Figures = Annotated[Format, typer.Option("--format", help="Of the figure.")]


@app.callback(invoke_without_command=True)
def spectrogp(context: typer.Context) -> None:
    """Learn how the frequency content of a signal changes: convolutional spectral kernels and their spectrograms."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def fit(
    data: Table,
    x: Annotated[
        list[str] | None,
        typer.Option("--x", help="Column of inputs; repeat for several.", show_default="times, or what is called so"),
    ] = None,
    y: Annotated[
        str | None, typer.Option("--y", help="Column of outputs.", show_default="the other column of numbers")
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            help="Column of known standard deviations of the outputs.",
            show_default="what is called so; none with --x and --y",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Column whose values tell signals apart, each of which is fitted: a row for each into OUT/signals, a "
            "Parquet data set. Repeat for several. The table may be a directory of Parquet files."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="With --by: processes of this machine.", min=1, show_default="its cores")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="With --by: the address of a Dask scheduler, whose workers fit them.")
    ] = None,
    kernel: Kernel = None,
    components: Annotated[
        int | None, typer.Option(help="How many components.", min=1, show_default="as many as are significant")
    ] = None,
    inference: Inference = None,
    approximation: Approximation = None,
    likelihood: Likelihood = None,
    transform: Annotated[
        str | None,
        typer.Option(help=f"Of the outputs: one of {', '.join(TRANSFORMS)}.", show_default="auto: log if likelier"),
    ] = None,
    highest_frequency: Annotated[
        float | None,
        typer.Option(help="Where the search ends, in cycles per unit.", show_default="where the times tell no more"),
    ] = None,
    starts: Annotated[
        int | None, typer.Option(help="Initial values that are compared, at most.", min=1, show_default="8")
    ] = None,
    unit: TimeUnit = None,
    period: Period = False,
    level: Level = 0.9,
    resolution: Resolution = None,
    scaling: Scale = RECORD,
    figures: Figures = PNG,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a table with missing values; else such rows are left out.")
    ] = False,
    day_first: DayFirst = None,
    quick: Quick = False,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="What files begin with from which the same fit, once stopped, goes on.")
    ] = None,
    out: Out = Path("out/fit"),
) -> None:
    """Fit to a table: writes model.safetensors, summary.json and overview.png; or with --by, to each of its signals."""
    with _plainly():
        alone = {"period": period, "strict": strict, "checkpoint": checkpoint, "day-first": day_first is not None}
        _refuse_together(by, jobs=jobs, scheduler=scheduler, **alone)
        from . import tables, work

        chosen: dict[str, Any] = {"kernel": kernel, "n_components": components, "inference": inference}
        chosen |= {"approximation": approximation, "likelihood": likelihood, "target_transform": transform}
        chosen |= {"n_starts": starts, "highest_frequency": highest_frequency}
        settings = {name: value for name, value in chosen.items() if value is not None}
        _prepare(out)
        if by:
            from .signals import fit_signals

            options: dict[str, Any] = {"jobs": jobs, "scheduler": scheduler, "unit": unit and unit.value}
            options |= {"level": level, "quick": quick, "seed": seed}
            print_paths([fit_signals(data, by, (x, y, error), out, **options, **settings)])
            return
        looks = work.Looks(unit and unit.value, period, level, resolution, scaling.value, figures.value)
        with tables.at_hand(data) as path:
            given = tables.read_rows(path, x, y, error, strict=strict, day_first=day_first)
            shown = work.shown_for(given, looks)
            by_position = "" if given.named else " (the table has no names: by their positions)"
            terminal.say(f"{given.rows} rows: {given.columns}{by_position}")
            if given.left_out:
                terminal.say(f"{given.left_out} of {given.rows + given.left_out} rows have missing values: left out")
            fitted = work.fit_table(
                path, given, shown, print_found, quick=quick, seed=seed, checkpoint=checkpoint, **settings
            )
        report = work.report(fitted, looks)
        summary = work.summary(fitted, report)
        paths = work.write(fitted, report, summary, out, looks)
    print_summary(summary, shown)
    print_paths(paths)


@app.command()
def predict(
    model: Model,
    data: Table,
    level: Level = 0.9,
    day_first: DayFirst = None,
    out: Annotated[Path, typer.Option(help="The table to write, .csv or .parquet.")] = Path("prediction.csv"),
) -> None:
    """Predict outputs at the inputs in a table: mean, standard deviation and interval of new outputs."""
    with _plainly():
        from . import tables, work

        _prepare(out.parent)
        with tables.at_hand(data) as path:
            said = work.predict_table(model, path, out, level, day_first=day_first)
    print_warnings(said)
    print_paths([out])


@app.command()
def spectrogram(
    model: Model,
    along: Annotated[
        str | None, typer.Option(help="Column to go along; others stay at their middle.", show_default="the first one")
    ] = None,
    unit: TimeUnit = None,
    period: Period = False,
    level: Level = 0.9,
    resolution: Resolution = None,
    scaling: Scale = RECORD,
    figures: Figures = PNG,
    out: Out = Path("out/spectrogram"),
) -> None:
    """Local frequencies of a fitted model with their bands (frequency.csv), and spectrogram.png."""
    with _plainly():
        from . import work

        _prepare(out)
        looks = work.Looks(unit and unit.value, period, level, resolution, scaling.value, figures.value)
        paths = work.spectrogram_table(model, along, out, looks)
    print_paths(paths)


@app.command()
def demo(out: Out = Path("out/demo"), quick: Quick = False, seed: Seed = 0) -> None:
    """The paper's chirp, end to end and offline: data, initial values, fit, and its frequency against the truth."""
    with _plainly():
        from .demo import demo as run

        _prepare(out)
        numbers, summary, shown, paths = run(out, quick=quick, seed=seed)
    print_summary(summary, shown)
    print_numbers(numbers)
    print_paths(paths)


@app.command()
def reproduce(
    name: Annotated[Experiment, typer.Argument(help="Which figure or table of the paper.")],
    out: Out = Path("out"),
    quick: Quick = False,
    seed: Seed = 0,
    row: Rows = None,
) -> None:
    """Make a figure or table of the paper: a PNG, and a JSON with its numbers."""
    with _plainly():
        from contextlib import nullcontext

        from rich.console import Console

        from .. import experiments

        _prepare(out)
        # Tables of models show their own progress.
        table = name.value in TABLES
        with nullcontext() if table else Console(stderr=True).status(f"making {name.value} …"):
            paths, numbers = experiments.reproduce(name.value, out, quick=quick, seed=seed, rows=row or None)
    print_numbers(numbers)
    print_paths(paths)


# Around the work


def _prepare(out: Path) -> None:
    """A directory for what is made, a process of our own, and compiled programs from earlier runs."""
    from ..core import cache_compilations, compute_in_callers

    if out.exists() and not out.is_dir():
        raise ValueError(f"--out: {out} is a file, not a directory")
    out.mkdir(parents=True, exist_ok=True)
    compute_in_callers()
    try:
        cache_compilations()
    except OSError as error:  # a read-only home is no reason to stop
        terminal.complain(f"compiled programs are not kept: {error}")


def _refuse_together(by: list[str] | None, **options: Any) -> None:
    """Refuse options of many signals without --by, and those of one signal with it."""
    for name, value in options.items():
        if value and (name in ("jobs", "scheduler")) != bool(by):
            why = (
                "is for one signal: leave it out, or --by" if by else "is for many signals: give --by, or leave it out"
            )
            raise ValueError(f"--{name} {why}")


@contextmanager
def _plainly() -> Iterator[None]:
    """Errors that the input is to blame for, and signals, end the command with one line and its exit code."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise typer.Exit(terminal.interrupted()) from error
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        raise typer.Exit(_refuse(f"{error.filename}: {error.strerror}" if named else str(error))) from error
    except (ValueError, TypeError, ImportError, FloatingPointError, MemoryError) as error:
        raise typer.Exit(_refuse(str(error) or type(error).__name__)) from error


def _refuse(message: str) -> int:
    terminal.complain(message)
    return BAD_INPUT


def main() -> None:
    """Entry point of the ``spectrogp`` command."""
    terminal.prepare()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(terminal.interrupted())


if __name__ == "__main__":
    main()
