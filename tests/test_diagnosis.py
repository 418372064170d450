"""Diagnostics for people: which reading is not to be trusted, where, and what to do; figures that say so."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

import spectrogp as sg
from spectrogp.inference import diagnose, diagnostics
from spectrogp.models import Data, ExactGP
from spectrogp.parameters import Positive
from spectrogp.posterior import Posterior

pytestmark = pytest.mark.usefixtures("compile_quickly")

X = np.linspace(0.0, 4.0, 12)
DATA = Data(X, np.sin(3.0 * X))


def posterior(frequency, amplitude, **statistics):
    """Draws ``[chains, draws]`` of the frequency (cycles per unit) and the amplitude of a spectral mixture."""
    model = ExactGP(sg.kernels.SpectralMixture([[1.0]], Positive(np.ones((1, 1))), Positive(np.ones(1))), 0.3)
    point = Posterior.at_point(model)
    raw = [np.log(2 * np.pi * frequency)[..., None, None], np.log(amplitude)[..., None]]
    draws = jax.tree.unflatten(jax.tree.structure(point.draws), raw)
    shape = frequency.shape
    given = {"diverging": np.zeros(shape, bool), "energy": np.random.default_rng(9).normal(size=shape), **statistics}
    return Posterior(draws, point.rest, np.random.default_rng(8).normal(size=shape), given)


@pytest.fixture(scope="module")
def draws():
    rng = np.random.default_rng(0)
    return 0.5 * np.exp(0.05 * rng.normal(size=(4, 300))), np.exp(0.1 * rng.normal(size=(4, 300)))


def test_independent_chains_pass(draws):
    found = diagnose(posterior(*draws), DATA, X)
    assert [check.name for check in found.checks] == ["prediction", "frequency 1", "amplitude 1"]
    assert found.passed
    assert found.failed == frozenset()
    assert found.energy > 1.0  # independent energies change by twice their variance
    assert str(found).startswith("4 chains of 300 draws; 0 divergences, energy fraction")
    frequency = found.checks[1]
    values = draws[0]
    assert frequency.rhat == pytest.approx(float(diagnostics.rhat(values)), abs=1e-9)
    assert frequency.bulk == pytest.approx(float(diagnostics.bulk_ess(values)), rel=1e-6)


def test_the_reading_that_failed_is_named_with_a_remedy(draws):
    """One chain has another frequency: frequencies and predictions fail, amplitudes do not."""
    frequency = draws[0] * np.array([1.0, 1.0, 1.0, 1.3])[:, None]
    found = diagnose(posterior(frequency, draws[1]), DATA, X)
    assert found.failed == {"prediction", "frequency"}
    assert not found.passed
    said = "\n".join(found.sentences)
    assert "frequency 1 is not to be trusted near x = 0: R-hat is" in said
    assert "warm up longer, or draw more" in said
    assert "amplitude" not in said
    moved = found.map_places(lambda x: 100.0 + x)
    assert "near x = 100: R-hat" in str(moved)


def test_few_draws_and_poor_chains_are_told(draws):
    short = diagnose(posterior(*(part[:, :60] for part in draws)), DATA, X)
    assert "independent ones, and should be worth 400; draw more" in "\n".join(short.sentences)
    diverging = np.zeros((4, 300), bool)
    diverging[1, 5] = True
    slow = np.cumsum(np.random.default_rng(1).normal(size=(4, 300)), axis=1)
    halvings = np.zeros((4, 300), int)
    halvings[2, 100:] = 2
    found = diagnose(posterior(*draws, diverging=diverging, energy=slow, halvings=halvings), DATA, X)
    said = "\n".join(found.complaints)
    assert found.divergences == 1
    assert "1 trajectories diverged" in said
    assert "the energy changes too little from draw to draw" in said
    assert "a chain ran off and halved its step 2 times after the warm-up" in said
    assert found.failed == frozenset()  # readings as such are well
    assert not found.passed
    three = diagnose(posterior(*(part[:, :3] for part in draws)), DATA, X)
    assert "only 3 draws of each chain were made" in str(three)


def test_draws_of_an_approximation_have_nothing_to_converge(draws):
    plain = posterior(*draws)
    found = diagnose(Posterior(plain.draws, plain.rest, plain.log_joint, {}), DATA, X)
    assert found.passed
    assert str(found) == "1200 independent draws of an approximation: there are no chains to converge"


@pytest.fixture(scope="module")
def fitted():
    t, y, _ = sg.datasets.signal("linear chirp", n=40)
    model = sg.SpectralGPRegressor(
        kernel="convolutional", inference="nuts", approximation="exact", n_starts=1, n_knots=4, max_iter=40, n_draws=16,
        warmup=4, chains=2, random_state=0,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="chains disagree|should be worth"):
        return model.fit(t, y)


def test_the_estimator_says_what_its_draws_are_worth(fitted):
    found = fitted.diagnostics()
    assert (found.chains, found.draws) == (2, 8)
    assert "frequency" in found.failed
    assert "2 chains of 8 draws" in fitted.summary()
    assert "is not to be trusted near x =" in fitted.summary()


def test_figures_mark_bands_that_rest_on_a_failed_check(fitted):
    def marks(report):
        figure = Figure()
        axes = figure.subplots()
        sg.plots.draw_panel("frequency", report, axes)
        return [text.get_text() for text in axes.texts]

    report = fitted.report()
    assert "frequency" in report.doubtful
    assert "frequency" in sg.plots.summary(report)["doubtful"]
    assert marks(report) == ["band not converged: see diagnostics()"]
    assert marks(report._replace(doubtful=frozenset())) == []
    whole = sg.plots.overview(report)
    texts = [text.get_text() for axes in whole.axes for text in axes.texts]
    assert texts.count("band not converged: see diagnostics()") >= 1
