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

from ..choices import APPROXIMATIONS, EXPERIMENTS, INFERENCES, KERNELS, LIKELIHOODS, TABLES
from ..files import printable
from . import terminal

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
Out = Annotated[Path, typer.Option(help="Directory for what is made; created if missing.")]
Quick = Annotated[bool, typer.Option("--quick", help="A coarser version for a first look.")]
Rows = Annotated[list[str] | None, typer.Option("--row", help="Of a table of models only this row; may be repeated.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random; the same seed gives the same result.", min=0)]
Table = Annotated[Path, typer.Argument(help="A table, .csv (names in the first row) or .parquet.")]
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


@app.callback(invoke_without_command=True)
def spectrogp(context: typer.Context) -> None:
    """Learn how the frequency content of a signal changes: convolutional spectral kernels and their spectrograms."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def fit(
    data: Table,
    x: Annotated[
        list[str] | None, typer.Option("--x", help="Column of inputs; repeat for several.", show_default="all others")
    ] = None,
    y: Annotated[str | None, typer.Option("--y", help="Column of outputs.", show_default="the last one")] = None,
    error: Annotated[str | None, typer.Option(help="Column of known standard deviations of the outputs.")] = None,
    kernel: Kernel = None,
    components: Annotated[
        int | None, typer.Option(help="How many components.", min=1, show_default="as many as are significant")
    ] = None,
    inference: Inference = None,
    approximation: Approximation = None,
    likelihood: Likelihood = None,
    quick: Quick = False,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="What files begin with from which the same fit, once stopped, goes on.")
    ] = None,
    out: Out = Path("out/fit"),
) -> None:
    """Fit to a table: writes model.safetensors, summary.json and overview.png."""
    with _plainly():
        from . import work

        _prepare(out)
        chosen = {"kernel": kernel, "n_components": components, "inference": inference}
        chosen |= {"approximation": approximation, "likelihood": likelihood}
        settings = {name: value for name, value in chosen.items() if value is not None}
        fitted = work.fit_table(data, x, y, error, quick=quick, seed=seed, checkpoint=checkpoint, **settings)
        report = work.report(fitted)
        summary = work.summary(fitted, report)
        paths = work.write(fitted, report, summary, out)
    _print_summary(summary)
    _print_paths(paths)


@app.command()
def predict(
    model: Model,
    data: Table,
    out: Annotated[Path, typer.Option(help="The table to write, .csv or .parquet.")] = Path("prediction.csv"),
) -> None:
    """Predict outputs at the inputs in a table: mean, standard deviation and 90 % interval of new outputs."""
    with _plainly():
        from . import work

        _prepare(out.parent)
        work.predict_table(model, data, out)
    _print_paths([out])


@app.command()
def spectrogram(
    model: Model,
    along: Annotated[
        str | None, typer.Option(help="Column to go along; others stay at their middle.", show_default="the first one")
    ] = None,
    out: Out = Path("out/spectrogram"),
) -> None:
    """Local frequencies of a fitted model with their 90 % bands (frequency.csv), and spectrogram.png."""
    with _plainly():
        from . import work

        _prepare(out)
        paths = work.spectrogram_table(model, along, out)
    _print_paths(paths)


@app.command()
def demo(out: Out = Path("out/demo"), quick: Quick = False, seed: Seed = 0) -> None:
    """The paper's chirp, end to end and offline: data, initial values, fit, and its frequency against the truth."""
    with _plainly():
        from .demo import demo as run

        _prepare(out)
        numbers, summary, paths = run(out, quick=quick, seed=seed, say=terminal.say)
    _print_summary(summary)
    _print_numbers(numbers)
    _print_paths(paths)


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
    _print_numbers(numbers)
    _print_paths(paths)


# Around the work


def _prepare(out: Path) -> None:
    """A directory for what is made, and compiled programs from earlier runs."""
    from ..core import cache_compilations

    if out.exists() and not out.is_dir():
        raise ValueError(f"--out: {out} is a file, not a directory")
    out.mkdir(parents=True, exist_ok=True)
    try:
        cache_compilations()
    except OSError as error:  # a read-only home is no reason to stop
        terminal.complain(f"compiled programs are not kept: {error}")


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


def _print_summary(summary: dict[str, Any]) -> None:
    """The components, and the quality of the fit."""
    import numpy as np

    from ..initialise import show_range

    head = ["component", f"frequency ({summary['unit']})", "median 90 % band", f"amplitude σ ({summary['data']['y']})"]
    rows = []
    for number, entry in enumerate(summary["components"], 1):
        frequency = show_range(np.array(entry["frequency"]))
        band = "–" if entry["band"] is None else " × ".join(f"± {width:.2g}" for width in entry["band"])
        rows.append([str(number), frequency, band, show_range(np.array(entry["amplitude"])[:, None])])
    terminal.say_table(head, rows)
    quality = summary["fit"]
    terminal.say(
        f"noise {summary['noise']:.3g}; of the {summary['data']['rows']} rows fitted to: R² {quality['r2']:.4f}, "
        f"mean log density {quality['mean_log_density']:.3f}, {quality['coverage']:.1%} inside 90 % intervals; "
        f"{summary['seconds']:.0f} s"
    )
    told = summary["diagnostics"]
    for failure in told["starts_failed"]:
        terminal.say(f"a start failed: {printable(failure)}")
    if told["jitter"] > 0:
        terminal.say(f"covariances needed jitter of {told['jitter']:.1g} of their variance")
    for stage in told["cut_short"]:
        terminal.say(f"cut short: {stage}")
    for warning in summary["warnings"]:
        terminal.say(f"warning: {printable(warning)}")


def _print_numbers(numbers: dict[str, Any]) -> None:
    """A table of the numbers: one row for each entry when there are several, else one for each scalar."""
    nested = {key: value for key, value in numbers.items() if isinstance(value, dict)}
    columns = list(dict.fromkeys(name for entry in nested.values() for name in entry)) or ["value"]
    lines = nested or {key: {"value": value} for key, value in numbers.items() if isinstance(value, int | float)}
    rows = [
        [key, *(f"{entry[column]:.3g}" if column in entry else "–" for column in columns)]
        for key, entry in lines.items()
    ]
    terminal.say_table(["", *(column.replace("_", " ") for column in columns)], rows)


def _print_paths(paths: list[Path]) -> None:
    for path in paths:
        terminal.say(f"wrote {printable(str(path))}")


def main() -> None:
    """Entry point of the ``spectrogp`` command."""
    terminal.prepare()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(terminal.interrupted())


if __name__ == "__main__":
    main()
