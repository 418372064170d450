"""What broke once, each with the tests that show that it is gone: these are run."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .trials import Trials


class Flaw(NamedTuple):
    """What was wrong, what holds now, and the tests of it, as ``FILE::TEST`` under tests."""

    what: str
    holds: str
    tests: tuple[str, ...]


FLAWS = {
    "F1": Flaw(
        "`fit --kernel se` and `nsq` ended in a ZeroDivisionError after the fit",
        "kernels without frequencies have a summary and an overview",
        ("test_cli.py::test_kernels_without_frequencies_have_an_overview",),
    ),
    "F2": Flaw(
        "a refit that failed left an estimator that predicted wrong numbers; a first one could be saved",
        "a failed fit changes nothing: the old one predicts as before, a new one is not fitted",
        ("test_estimator.py::test_a_failed_fit_changes_nothing",),
    ),
    "F3": Flaw(
        "Ctrl-C in `fit` was swallowed",
        "KeyboardInterrupt reaches the caller; with `checkpoint=` the fit goes on from there, bit for bit",
        ("test_estimator.py::test_an_interrupt_stops_a_fit", "test_estimator.py::test_an_interrupted_fit_goes_on"),
    ),
    "F4": Flaw(
        "the lower bounds of dependencies did not work",
        "`make lowest` installs them and calls everything once; every import is declared with a bound",
        ("test_dependencies.py",),
    ),
    "F5": Flaw(
        "exact models of any size were begun, and their compilation grew with the rows",
        "what memory cannot hold is refused before any work, with the alternative; programs do not grow",
        (
            "test_memory.py::test_a_fit_that_is_too_large_is_refused_before_it_begins",
            "test_memory.py::test_models_refuse_too",
            "test_memory.py::test_the_estimates_are_what_is_planned",
            "test_memory.py::test_programs_do_not_grow_with_the_rows",
        ),
    ),
    "F6": Flaw(
        "half-written pictures and JSON files could be seen, and old ones were destroyed first",
        "one writer for every file: whole or not there",
        (
            "test_atomic.py::test_a_killed_writer_leaves_the_old_file_and_the_next_one_tidies_up",
            "test_atomic.py::test_a_failed_write_leaves_the_old_file_and_nothing_else",
            "test_atomic.py::test_nothing_is_written_in_another_way",
        ),
    ),
    "F7": Flaw(
        "a model file with gigabytes of holes was read whole",
        "refused by its header, with less than 20 MB",
        ("test_model_files.py::test_a_file_of_holes_is_refused_before_it_is_read",),
    ),
    "F8": Flaw(
        "wide tables took the square of their columns",
        "time by the width; too many columns are refused with a remedy",
        (
            "test_hostile_tables.py::test_wide_tables_take_time_by_their_width",
            "test_hostile_tables.py::test_inputs_of_a_wide_table_are_to_be_named",
        ),
    ),
    "F9": Flaw(
        "output that is not UTF-8 ended a finished run in a traceback",
        "any encoding: letters that it lacks are spelled",
        ("test_terminal.py::test_any_encoding_will_do",),
    ),
    "F10": Flaw(
        "a user without a home directory saw a traceback",
        "one line that says what to set, and the work goes on",
        ("test_compilation.py::test_without_a_home_directory_the_error_says_what_to_set",),
    ),
    "F11": Flaw(
        "compiled programs that were cut short were broken for ever; the cache had no limit",
        "only whole programs are kept, at most a gibibyte; those that lost their end are made anew once",
        (
            "test_compilation.py::test_programs_that_lost_their_end_are_compiled_once_more",
            "test_compilation.py::test_what_a_process_wrote_by_halves_is_not_kept",
        ),
    ),
    "F12": Flaw(
        "integers beyond 2⁵³ and nanoseconds lost their digits without a word",
        "counted from an origin in integers; floats that have lost theirs are told",
        (
            "test_times.py",
            "test_table_digits.py::test_integers_in_text_keep_their_digits",
            "test_table_digits.py::test_ticks_and_nanoseconds_are_written_and_read_exactly",
        ),
    ),
    "F13": Flaw(
        "dates with a zone at the ends of the calendar ended in a traceback",
        "refused with file, column and row",
        ("test_table_digits.py::test_times_that_nothing_holds_are_refused",),
    ),
    "F14": Flaw(
        "Parquet times out of range became other times",
        "refused with file, column and row",
        (
            "test_table_digits.py::test_parquet_times_outside_the_calendar_are_refused",
            "test_table_digits.py::test_old_times_of_parquet_do_not_wrap_around",
        ),
    ),
    "F15": Flaw(
        "SIGTERM and SIGHUP ended the command without a word",
        "one line; exit code 128 and the number of the signal",
        (
            "test_terminal.py::test_a_signal_is_one_line_and_128_and_its_number",
            "test_terminal.py::test_a_signal_that_was_ignored_stays_ignored",
        ),
    ),
    "F16": Flaw(
        "some damaged checkpoints ended in other errors, and forged ones were accepted",
        "SHA-256, shapes, types, numbers and steps are checked",
        (
            "test_loop.py::test_every_flipped_bit_of_a_checkpoint_is_found",
            "test_loop.py::test_forged_checkpoints_are_refused",
            "test_loop.py::test_foreign_and_broken_checkpoints_are_refused",
        ),
    ),
    "F17": Flaw(
        "errors of a full disk did not name the file; `> /dev/full` and `| head` ended in tracebacks",
        "one line that names it; the work is done",
        (
            "test_atomic.py::test_an_error_names_the_file_and_not_its_part",
            "test_terminal.py::test_a_full_disk_behind_standard_output_is_one_line_and_the_work_goes_on",
            "test_terminal.py::test_a_reader_that_went_away_is_no_failure",
        ),
    ),
    "F18": Flaw(
        "odd CSV files took gigabytes before they were refused",
        "rows are bounded as they are read",
        (
            "test_hostile_tables.py::test_odd_csv",
            "test_hostile_tables.py::test_a_row_is_bounded_whatever_the_limit_of_cells",
            "test_hostile_tables.py::test_too_little_memory_is_said_in_a_line",
        ),
    ),
    "F19": Flaw(
        "two runs into one directory met in one temporary file",
        "every writer has a name of its own; what another one is writing is left alone",
        (
            "test_atomic.py::test_writers_at_the_same_time_do_not_mix",
            "test_atomic.py::test_what_another_process_is_writing_is_left_alone",
        ),
    ),
    "F20": Flaw(
        "names of columns were read as markup, formulas and commands to the terminal",
        "text from data is data",
        (
            "test_terminal.py::test_what_is_shown_of_names",
            "test_terminal.py::test_names_in_figures_are_no_formulas",
            "test_terminal.py::test_names_from_a_table_reach_no_markup",
            "test_hostile_tables.py::test_names_are_keys_as_they_are_and_escaped_in_errors",
        ),
    ),
    "F21": Flaw(
        "`--quick` overwrote the rows of full runs; `reproduce` did not start on Windows; parts stayed",
        "no row replaces another; peak memory is left out where it is not known; parts are removed",
        (
            "test_jobs.py::test_no_row_replaces_another",
            "test_jobs.py::test_peak_memory_is_left_out_where_the_system_does_not_tell",
            "test_atomic.py::test_a_killed_writer_leaves_the_old_file_and_the_next_one_tidies_up",
        ),
    ),
    "F22": Flaw(
        "a fit with neighbours that was stopped went on with those of its start",
        "the checkpoint keeps where the data were renewed; it goes on bit for bit",
        ("test_loop.py::test_a_run_that_renews_its_data_goes_on_with_the_last_ones",),
    ),
}


def section(quick: bool, seed: int, place: Path) -> Iterator[Trials]:
    """The tests of every flaw, all in one process; with ``quick`` those of the files only."""
    del seed
    chosen = {name: flaw for name, flaw in FLAWS.items() if not quick or name in ("F6", "F19")}
    tests = sorted({f"tests/{test}" for flaw in chosen.values() for test in flaw.tests})
    report = place / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", f"--junitxml={report}", *tests]
    subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    results = list(_results(report))
    for name, (what, holds, files) in chosen.items():
        found = [failed for test, failed in results if any(_is_part(test, file) for file in files)]
        missing = [f"{file} was not run" for file in files if not any(_is_part(test, file) for test, _ in results)]
        failures = [failed for failed in found if failed] + missing
        called = ", ".join(f"`{file}`" for file in files)
        yield Trials(f"{name}: {what}", holds, len(found) + len(missing), tuple(failures), called)


def _results(report: Path) -> Iterator[tuple[str, str]]:
    """Every test that ran, as FILE::TEST, and how it failed; empty if it did not."""
    if not report.exists():
        return
    for case in ElementTree.parse(report).getroot().iter("testcase"):  # noqa: S314 (our own file)
        test = f"{case.get('classname', '').split('.')[-1]}.py::{case.get('name')}"
        wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
        yield test, "" if wrong is None else f"{test}: {(wrong.get('message') or '').splitlines()[0][:200]}"


def _is_part(test: str, of: str) -> bool:
    """Whether a test that ran belongs to a file, or to a test with any arguments."""
    return test == of or test.startswith((f"{of}::", f"{of}["))
