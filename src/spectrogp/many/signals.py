"""Many signals in one table: ``fit_many``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..choices import UNITS
from ..core import as_level, at_least
from ..estimator import Settings, SpectralGPRegressor
from ..files import Columns, FilePath, TableError, columns_among, kinds_in, name_of, read_groups, refuse_unknown
from .dispatch import Dispatch
from .one import Task, fit_signal
from .pools import DaskPool, LocalPool
from .progress import Pace, shown
from .results import Results, claimed, schema_of


def fit_many(
    table: Any,
    by: str | Sequence[str],
    *,
    x: str | None = None,
    y: str | None = None,
    error: str | None = None,
    estimator: SpectralGPRegressor | None = None,
    out: FilePath | None = None,
    jobs: int | None = None,
    scheduler: Any = None,
    unit: str | None = None,
    level: float = 0.9,
    verbose: bool = False,
) -> Any:
    """Fit a model to each of many signals of one input: the groups of rows of a table.

    Signals are fitted side by side, each on one core, by processes of this machine or by the workers of a Dask cluster.
    Every signal gives one row; one that cannot be fitted gives a row with the reason (``failure``), and the others go
    on. With ``out``, rows are written while they are made, and a run that ended early goes on where it was when it is
    called again in the same way: signals that have a row are not fitted again, whether they failed or not.

    Args:
        table: The path of a file (.csv and other text, .parquet) or of a directory of Parquet files, or columns in
            memory: a data frame of pandas or polars, a table of arrow, or a dictionary of arrays.
        by: The column, or columns, whose values tell signals apart.
        x: The column of inputs, numbers or times; when left out by the rule of ``spectrogp fit``: the column of times,
            or what is called so.
        y: The column of outputs; when left out the one column of numbers that is left.
        error: The column of known standard deviations of the outputs; when left out what is called so, if ``x`` or
            ``y`` are left out too.
        estimator: With the settings of all fits; ``SpectralGPRegressor(random_state=0)`` when left out.
        out: A directory, the Parquet data set of the rows; made if there is none. When left out, none is written.
        jobs: How many processes of this machine; as many as it has cores when left out.
        scheduler: The address of a Dask scheduler, or a ``distributed.Client``, in the place of ``jobs``. Its workers
            need this library, and are best started with one thread each.
        unit: Of frequencies, where inputs are times: "year" (365.25 days), "day", "hour", "minute" or "s"; "day" when
            left out.
        level: Probability of the bands.
        verbose: Whether to show on stderr how it goes.

    Returns:
        A table of arrow (``.to_pandas()``) with a row for each signal, in the order in which they appear: the columns
        of ``by``; ``rows``, and how many of them were left out for missing values; ``failure``, the reason, or null;
        the number of ``components``, and lists with an entry for each of them: the median over the signal of its
        ``frequency`` and of the ends of the band, ``frequency_lower`` and ``frequency_upper``, where the frequency is
        least and most, and likewise its ``amplitude`` (that of a sinusoid; of kernels other than ``"auto"`` σ, the
        standard deviation) and the ends of the band, ``amplitude_lower`` and ``amplitude_upper``; the standard
        deviation of the ``noise``; ``target_transform``, "log" where amplitudes and noise are those of logarithms of
        the outputs, else "none"; of rows that were left out in blocks ``r2`` and the share inside 90 % intervals,
        ``coverage``; ``warnings``, and ``cpu_seconds``. An optimum alone (``inference="map"``) has no bands, null.
    """
    level, size = as_level(level), 1.0
    estimator = SpectralGPRegressor(random_state=0) if estimator is None else estimator
    settings = estimator.get_params(deep=False)
    Settings(**settings)  # refuses what no fit could be made with
    if jobs is not None:
        at_least(1, jobs=jobs)
    if jobs is not None and scheduler is not None:
        raise ValueError("give jobs, for processes of this machine, or a scheduler of Dask; not both")
    by = (by,) if isinstance(by, str) else tuple(by)
    kinds = kinds_in(table)
    columns = choose(kinds, by, x, y, error, name_of(table))
    if unit is not None:
        if kinds[columns.x[0]] != "time":
            raise ValueError(f"unit={unit!r} is for inputs that are times, and these are numbers: leave it out")
        if unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}; got {unit!r}")
        size = UNITS[unit]
    groups = read_groups(table, by, columns.names)
    schema = schema_of(groups.keys)
    keys = list(zip(*(column.to_pylist() for column in groups.keys.columns), strict=True))
    run = {
        "spectrogp": __version__,
        "signals": len(keys),
        "rows": groups.rows,
        "by": list(by),
        "columns": columns.names,
        "settings": {name: _plain(value) for name, value in settings.items()},
        "unit": unit,
        "level": level,
    }
    task = Task(columns, settings | {"verbose": False}, size, level, unit)
    with claimed(out, run):
        results = Results(None if out is None else Path(out), schema, len(by))
        there = results.done()
        todo = [index for index, key in enumerate(keys) if key not in there]
        pace = Pace(len(todo))

        def keep(index: int, row: dict[str, Any]) -> None:
            results.add(dict(zip(by, keys[index], strict=True)) | row)
            pace.count(failed="failure" in row)

        try:
            if todo:
                pool = LocalPool(jobs) if scheduler is None else DaskPool(scheduler)
                with shown(pace, verbose=verbose) as tell:
                    Dispatch(pool, lambda index: (fit_signal, task, groups.read(index)), keep, tell).run(todo)
        finally:
            results.write()  # whatever ended it
        return results.ordered(keys)


def choose(
    kinds: dict[str, str],
    by: Sequence[str],
    x: str | None,
    y: str | None,
    error: str | None,
    where: str,
    option: str = "{}",
) -> Columns:
    """Input, output and error bars among the columns that tell no signals apart."""
    refuse_unknown(by, kinds, where, option.format("by"))
    for choice, name in (("x", x), ("y", y), ("error", error)):
        if name in by:
            raise TableError(f"{option.format(choice)}: {name!r} tells signals apart, and is the same throughout each")
    left = {name: kind for name, kind in kinds.items() if name not in by}
    found = columns_among(left, None if x is None else [x], y, error, where, lambda _: False, option=option)
    if kinds[found.y] == "time":
        raise TableError(f"{where}, column {found.y!r}: outputs are numbers, but these are times")
    return found


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else repr(value)
