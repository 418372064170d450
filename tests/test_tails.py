"""Tails of new outputs: what is found from rows held out, and what a likelihood with them predicts."""

import numpy as np
import pytest
from scipy import stats

from spectrogp.estimator.tails import find_tails
from spectrogp.models import Gaussian, HeavyTailed, Moments

N = 4000


def test_tails_are_found_and_gain_what_they_are_worth():
    """Of 4,000 rows the standard error of log freedom is about a tenth, and the grid has factors of 1.37."""
    true = stats.t(5.0)
    apart = true.rvs(N, random_state=0) / true.std()
    tails, rung = find_tails(apart, np.full(N, 0.3))
    assert rung.kept
    assert 3.5 < tails.freedom < 7.0
    assert tails.stretch < 1.11  # two steps of its grid
    # Less than the best that can be gained by no more than what two numbers cost.
    best = np.mean(stats.t.logpdf(apart * true.std(), 5.0) + np.log(true.std()) - stats.norm.logpdf(apart))
    assert rung.gain == pytest.approx(best, abs=0.005)
    assert rung.density == pytest.approx(np.mean(stats.norm.logpdf(apart)) - np.log(0.3) + rung.gain)


def test_normal_outputs_gain_nothing():
    apart = np.random.default_rng(0).normal(size=N)
    tails, rung = find_tails(apart, np.ones(N))
    assert tails.freedom > 20.0
    assert abs(rung.gain) < 0.002  # two numbers cost a nat in all


def test_little_evidence_is_enough_where_it_is_asked_so():
    apart = 1.1 * np.random.default_rng(1).normal(size=60)
    gain = find_tails(apart, np.ones(60))[1]
    assert -gain.error < gain.gain < gain.error
    assert not gain.kept
    assert find_tails(apart, np.ones(60), least=-1.0)[1].kept


def test_predictions_that_are_too_sure_are_stretched():
    tails, rung = find_tails(1.5 * np.random.default_rng(0).normal(size=N), np.ones(N))
    assert rung.kept
    assert tails.stretch == pytest.approx(1.5, rel=0.05)  # a step of the grid


def test_new_outputs_are_student_and_rows_normal():
    f, scale, y = Moments(np.array([0.5]), np.array([0.04])), np.array([0.3]), np.array([2.0])
    heavy = HeavyTailed(0.3, freedom=5.0, stretch=1.2)
    std = 1.2 * np.sqrt(0.04 + 0.09)
    expected = stats.t.logpdf(y, 5.0, 0.5, std * np.sqrt(3.0 / 5.0))
    np.testing.assert_allclose(heavy.log_predictive_density(y, f, scale), expected, rtol=1e-10)
    np.testing.assert_allclose(heavy.output(f, scale).variance, std**2, rtol=1e-12)
    np.testing.assert_array_equal(heavy.log_density(y, f.mean, scale), Gaussian(0.3).log_density(y, f.mean, scale))


@pytest.mark.parametrize("wrong", [{"freedom": 2.0}, {"stretch": 0.9}])
def test_tails_without_a_variance_are_refused(wrong):
    with pytest.raises(ValueError, match="freedom must be above 2"):
        HeavyTailed(0.3, **wrong)
