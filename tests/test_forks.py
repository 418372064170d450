"""In a process that was forked after JAX had started, nothing waits for ever: an error says what to do instead."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import pytest

PROGRAM = """
import multiprocessing, sys, warnings
import numpy as np
import spectrogp as sg

def work(answers, call):
    try:
        answers.put(str(call()))
    except RuntimeError as error:
        answers.put(str(error))

def in_child(call):
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's own, of forks
        child = context.Process(target=work, args=(answers, call), daemon=True)
        child.start()
    print(answers.get(timeout=100))

k, x = sg.kernels.SquaredExponential(1.0), np.zeros((1, 1))
regressor = sg.SpectralGPRegressor("sm")
in_child(lambda: k(x))  # all is imported, but nothing has been computed yet: the child can
k(x)
in_child(lambda: k(x))
in_child(lambda: regressor.fit([0.0, 1.0, 2.0], [0.0, 1.0, 0.0]))
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no processes can be forked")
def test_a_process_forked_too_late_says_so():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)  # noqa: S603
    before, after, fit = done.stdout.splitlines()
    assert before == "[[1.]]"
    assert "forked after JAX had started its threads" in after
    assert "multiprocessing.get_context('spawn')" in after
    assert fit == after
