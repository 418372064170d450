"""Simulated schedules of many signals and of large fits: what more cores, more rows and lost workers must mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks import schedule
from benchmarks.scale import simulated
from benchmarks.schedule import CORES, COSTS, from_disk, together

NEVER = 1e30


def test_more_cores_are_never_slower_for_many_signals():
    hours = [simulated(4000, cores, 1.0, 20.0, 0.005) for cores in (1, 2, 4, 16, 64)]
    assert hours == sorted(hours, reverse=True)
    assert hours[0] == pytest.approx(4000.0 / 3600.0, rel=0.03)


@pytest.mark.parametrize("cores", [2, 32])
def test_twice_the_signals_take_twice_the_hours(cores):
    one, two = (simulated(signals, cores, 1.0, 0.0, 0.001) for signals in (10_000, 20_000))
    assert two / one == pytest.approx(2.0, rel=0.03)


def test_one_driver_hands_out_signals_no_faster():
    assert simulated(10_000, 512, 1.0, 0.0, 0.1) == pytest.approx(1000.0 / 3600.0, rel=0.01)


def test_more_machines_are_never_slower_for_one_fit():
    """Until losses and the search, which nobody shares, take over."""
    for rows in (1e6, 1e7, 1e8):
        hours = [together(rows, machines, rarely=NEVER) for machines in (1, 16, 256)]
        assert hours == sorted(hours, reverse=True)
    assert from_disk(1e8, 16)[1] < from_disk(1e8, 1)[1]


def test_twice_the_rows_take_twice_the_hours_of_one_fit():
    for machines in (1, 16):
        assert together(2e8, machines, rarely=NEVER) == pytest.approx(
            2.0 * together(1e8, machines, rarely=NEVER), rel=0.01
        )


def test_a_loss_costs_the_time_since_the_checkpoint():
    assert together(1e8, 256) > together(1e8, 256, rarely=NEVER)
    assert together(1e6, 1, runs=1) == together(1e6, 1, rarely=NEVER, runs=1), "it is done before one is lost"


def test_a_fit_that_loses_processes_faster_than_it_saves_never_ends(monkeypatch):
    monkeypatch.setattr(schedule, "HOPELESS", 3.6e5)
    assert together(1e6, 1, rarely=2.0, runs=1) == math.inf


def test_a_fit_of_one_machine_takes_what_its_parts_take():
    plain = COSTS._replace(latency=0.0)
    expected = (plain.search + 200 * plain.step / CORES) * 1e6 / 3600.0
    np.testing.assert_allclose(together(1e6, 1, plain, rarely=NEVER, runs=1), expected)
    np.testing.assert_allclose(from_disk(1e7, 1)[0], (8.4 + 200 * 256 * 105e-6) / 3600.0)
