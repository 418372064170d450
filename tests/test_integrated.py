"""Bands by default: how much frequencies vary and over what lengths, integrated out."""

from __future__ import annotations

import equinox as eqx
import numpy as np
import pytest

from spectrogp.estimator import integrated, mixture, rungs
from spectrogp.inference import Arrow
from spectrogp.initialise import find_initial_values, markov_from
from spectrogp.models import Data, Lanes, Timeline, grid_groups
from spectrogp.parameters import LogNormal, Positive


@pytest.fixture(scope="module")
def work():
    return rungs.Work(np.random.default_rng(0), None)


@pytest.fixture(scope="module")
def data():
    """A chirp with a gap, in which the prior decides."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 10.0, 130))
    t = t[(t < 4.0) | (t > 6.0)]
    return Data(t, np.cos(2.0 * np.pi * (2.0 * t + 0.5 * np.sin(t))) + 0.2 * rng.normal(size=len(t)))


@pytest.fixture(scope="module")
def rung(data, work):
    initial = find_initial_values(data.X, data.y)
    model = markov_from(initial, 0.5 * float(initial.scale[0]))
    return rungs.settled(work, rungs.climb(work, Lanes(model, Timeline.of(data)), model, 25))


def amplitude(rung):
    return float(grid_groups(rung.model)[rungs.frequency_groups(rung.model)[0]].amplitude.raw)


def test_sizes_are_what_searches_find(rung, work):
    """Each is where a search with its prior ends, and has that evidence, but for what is no parabola.

    That is of third order: a tenth of the evidence that a size loses to the rung, at most.
    """
    found = integrated.with_sizes(rung)
    assert found[0] is rung
    assert len(found) >= 3
    apart = np.sort([amplitude(one) for one in found])
    np.testing.assert_allclose(np.diff(apart), integrated.STEP, rtol=1e-9)
    for one in found[1:]:
        searched = rungs.climb(work, one.lanes, one.model, 25)
        assert amplitude(searched) == amplitude(one)
        away = one.optimum.numbers - searched.optimum.numbers
        spread = np.std(searched.optimum.factor.draw(np.random.default_rng(0), 400, border=True), axis=0)
        assert np.sqrt(np.mean((away / spread) ** 2)) < 0.3  # standard deviations
        assert one.evidence == pytest.approx(searched.evidence, abs=0.1 * (rung.evidence - one.evidence))
        assert one.evidence > rung.evidence - integrated.NEGLIGIBLE


def test_the_size_of_the_largest_evidence_is_among_them(rung):
    """Evidence falls to both sides, to what is left out: a size further out would add nothing."""
    found = sorted(integrated.with_sizes(rung), key=amplitude)
    evidence = np.array([one.evidence for one in found])
    top = int(np.argmax(evidence))
    assert np.all(np.diff(evidence[: top + 1]) > 0.0)
    assert np.all(np.diff(evidence[top:]) < 0.0)


def test_sizes_are_drawn_as_often_as_their_evidence_says(rung, work):
    found = integrated.with_sizes(rung)
    drawn = grid_groups(mixture.mixture(found, 4000, work).draws)[rungs.frequency_groups(rung.model)[0]].amplitude.raw
    weight = np.exp([one.evidence - rung.evidence for one in found])
    for one, share in zip(found, weight / weight.sum(), strict=True):
        assert np.mean(np.isclose(drawn, amplitude(one))) == pytest.approx(share, abs=1e-3)  # of 2000 pairs


def test_without_an_optimum_or_with_many_blocks_a_rung_stays_alone(rung, data, work):
    lost = rung._replace(optimum=rung.optimum._replace(decrement=np.inf))
    assert integrated.with_sizes(lost) == [lost]
    lanes = Lanes(rung.model, Timeline.of(data, own=40, warm_up=40))
    blocks = rungs.climb(work, lanes, rung.model, 3)
    assert not lanes.whole
    assert len(integrated.with_sizes(blocks)) == 1


def test_a_ladder_goes_on_while_rungs_are_nearly_as_likely(rung, work):
    """Rungs whose evidence falls slowly: the climb ends behind the best, and those that count are added."""
    fall = {k: -0.7 * abs(k - 5) for k in range(11)}

    class Stub(rungs.Rung):
        @property
        def evidence(self):
            return fall[self.optimum]

    def other(model, k):
        return None, k

    def found(work, lanes, model, beaten=-np.inf, known=None):
        return Stub(None, model)

    def stay(work, rung):
        return rung

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rungs, "at_optimum", found)
        patched.setattr(rungs, "settled", stay)
        patched.setattr(Stub, "model", property(lambda self: self.optimum))
        climbed = rungs.along_ladder(Stub(None, 5), 5, 11, other, work)
        assert sorted(climbed) == [4, 5, 6]
        # Two more on either side, of as many as there are.
        assert sorted(rungs.further_along(climbed, 11, other, work)) == list(range(2, 9))
        assert sorted(rungs.further_along(climbed, 8, other, work)) == list(range(2, 8))
        # A rung 2.1 nats below still has a neighbour that is looked at; that one, 2.8 below, has none.
        patched.setattr(rungs, "FURTHER", 9)
        assert sorted(rungs.further_along(climbed, 11, other, work)) == list(range(1, 10))


def test_noise_is_that_of_the_largest_evidence(rung, work):
    """Fits in which it is held, and the functions integrated out: their evidence is highest where draws have it."""
    place = rungs.noise_places(rung.lanes)[0]
    begun = rung.optimum.numbers[place]
    moved = integrated.with_likeliest_noise(rung, work.rng).optimum
    move = moved.numbers[place] - begun

    def evidence(more):
        held = Positive(float(np.exp(begun + more)), LogNormal(float(np.exp(begun + more)), 1e-3))
        model = eqx.tree_at(lambda m: m.likelihood.noise, rung.model, held)
        return rungs.climb(work, Lanes(model, rung.lanes.timeline), model, 25).evidence

    steps = move * np.array([0.0, 1.0, 2.0])
    bend, slope, _ = np.polyfit(steps, [evidence(step) for step in steps], 2)
    assert bend < 0.0
    assert move == pytest.approx(-0.5 * slope / bend, rel=0.3)
    # Half of the share of directions that are narrower than the prior. And these tell less by as much.
    knots = rung.lanes.knots
    spread = rung.optimum.factor.draw(np.random.default_rng(0), 4000, border=False)[:, :knots]
    told = knots - np.sum(np.var(spread, axis=0))
    assert move == pytest.approx(0.5 * told / rung.lanes.timeline.weight.sum(), rel=0.2)
    fallen = rung.optimum.factor.log_determinant - moved.factor.log_determinant
    assert fallen == pytest.approx(2.0 * move * told, rel=0.2)


def test_noise_beside_large_errors_stays(data, rung, work):
    """Where known errors are most of what outputs are off by, functions say nothing of the rest."""
    errors = Data(data.X, data.y, np.full(data.size, 0.5))
    other = rungs.climb(work, Lanes(rung.model, Timeline.of(errors)), rung.model, 25)
    place = rungs.noise_places(other.lanes)[0]
    moved = integrated.with_likeliest_noise(other, work.rng).optimum.numbers[place] - other.optimum.numbers[place]
    assert abs(moved) < 0.1


def test_noise_does_not_leave_what_is_likely(rung, work):
    """Where the likelihood is flat at the optimum and falls farther off, a step to its parabola's end is far too long.

    So it is beside a process that changes from row to row, which could be the noise.
    """
    lanes, optimum = rung.lanes, rung.optimum
    place = rungs.noise_places(lanes)[0]
    H = optimum.curvature.H.copy()
    own = lanes.members[0] == place
    H[0, own] *= 0.1
    H[0][:, own] *= 0.1
    flat = optimum._replace(
        curvature=optimum.curvature._replace(H=H), factor=Arrow.of(lanes, H, lanes.log_prior(optimum.numbers)[2])
    )
    begun = rung._replace(optimum=flat)
    plain = integrated.with_likeliest_noise(rung, work.rng).optimum.numbers[place] - optimum.numbers[place]
    found = integrated.with_likeliest_noise(begun, work.rng).optimum
    assert found.evidence > flat.evidence
    assert found.log_joint == pytest.approx(lanes.total(*lanes.log_likelihoods(found.numbers), found.numbers)[0])
    # Its parabola's end is at a hundred times the step; the evidence falls from twice the step on.
    assert 0.0 < found.numbers[place] - optimum.numbers[place] < 3.0 * plain


def test_what_means_hide_is_in_the_noise_of_every_draw(rung):
    """Added to the middle of draws of a noise that is hardly known it would be known as little."""

    def noises(*inside):
        drawn = mixture.mixture([rung], 50, rungs.Work(np.random.default_rng(0), None), *inside)
        return np.exp(2.0 * drawn.draws.likelihood.noise.raw)

    plain = noises()
    np.testing.assert_allclose(noises((0.5,)), plain + 0.5, rtol=1e-10)
    np.testing.assert_array_equal(noises((0.0,)), plain)
