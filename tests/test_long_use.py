"""A loop of fits, copies of estimators, workers: the short form of ``benchmarks.torture.long_use``."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.measure import counting_programs
from benchmarks.torture import long_use, workers


def test_fits_of_equal_shapes_compile_nothing_after_the_second():
    programs = []
    with counting_programs() as built:
        for seed in range(8):
            t, y = workers.rows(seed=seed)
            mean = workers.estimator().fit(t, y).predict(t)
            assert np.mean((mean - y) ** 2) < np.var(y)  # it has learnt something of these data, not of others
            programs.append(len(built))
    assert programs[0] > 0
    assert programs[1:] == [programs[1]] * 7


def test_what_grows_is_found():
    flat = [{"programs": 9, "arrays": 3, "memory": 500.0 + 0.001 * i} for i in range(20)]
    assert list(long_use._grown(flat)) == []
    grown = [{"programs": 9 + i, "arrays": 3 + i, "memory": 500.0 + 0.1 * i} for i in range(20)]
    assert list(long_use._grown(grown)) == [
        "programs: 9, and 28 after 19 more fits",
        "arrays: 3, and 22 after 19 more fits",
        "memory grows by 0.100 MB a fit",
    ]


def test_what_a_process_says_before_it_fails_is_kept(tmp_path):
    found, wrong = long_use.work(tmp_path, "fresh", tmp_path / "none")
    assert found == []
    assert "FileNotFoundError" in wrong
    judged = long_use._judged("copies", "equal", [{"what": "pickle", "right": False}], wrong)
    assert judged.tried == 2
    assert judged.failures == ("pickle: other bits", wrong)


@pytest.mark.slow
def test_copies_predict_the_same_bits(tmp_path):
    found = long_use.copied(tmp_path)
    assert found.failures == ()
    assert found.tried == 9


@pytest.mark.slow
def test_threads_give_the_same_bits(tmp_path):
    found, _ = long_use.work(tmp_path, "threads")
    assert [row["right"] for row in found] == [True] * 3
