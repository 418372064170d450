"""Newton's method on blocks: gradients, curvature, the arrow's algebra, and what it all ends in."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import spectrogp as sg
from spectrogp.inference import Curvature, bends, newton
from spectrogp.inference.arrow import not_positive
from spectrogp.inference.bends import Bends, Place, curvature
from spectrogp.inference.newton import Arrow, _bent_moves
from spectrogp.kernels import IntegratedPhase, MaternPhase, WarpedTime
from spectrogp.models import Data, Lanes, MarkovGP, Timeline
from spectrogp.models import lanes as home
from spectrogp.models.lanes import _filled
from spectrogp.parameters import GridFunctionGroup, Positive, log_prior, partition
from zoo import double

pytestmark = pytest.mark.usefixtures("compile_quickly")

EXTENT = (0.0, 12.0)


def model_of(extent=EXTENT, lengthscale=3.0):
    group = lambda initial, **options: GridFunctionGroup(  # noqa: E731
        extent, initial, lengthscale_std=0.0, mean_std=0.5, **{"lengthscale": lengthscale, **options}
    )
    x = np.linspace(*extent, 100)[:, None]
    frequency = group([[5.0]], shape=(1, 1), amplitude=0.2).fitted_to(x, 5.0 + 0.6 * np.cos(0.4 * x)[..., None], 0.1)
    kernel = MaternPhase(
        WarpedTime(Positive.around(5.0, 0.5)),
        IntegratedPhase(frequency),
        group([1.0], shape=(1,), lengthscale=2.0 * lengthscale),
    )
    return MarkovGP(kernel, Positive.around(0.2, 0.5), sg.Real(0.1, sg.Normal()))


def data_of(extent=EXTENT, n=120):
    rng = np.random.default_rng(0)
    # Not in the first cell of the grids, where a stretch has no node before (tests/test_grid_functions.py).
    t = np.sort(rng.uniform(extent[0] + 1.5, extent[1], n))
    return Data(t, np.cos(5.0 * t + 2.0 * np.sin(0.4 * t)) + 0.2 * rng.normal(size=n))


@pytest.fixture(scope="module")
def single():
    """All rows in one block."""
    model, data = model_of(), data_of()
    return Lanes(model, Timeline.of(data)), model, data


@pytest.fixture(scope="module")
def several():
    """Blocks with a warm-up, each of which depends on some of the knots."""
    extent = (0.0, 150.0)
    model, data = model_of(extent), data_of(extent, 1200)
    return Lanes(model, Timeline.of(data, own=150, warm_up=150)), model, data


def numbers_of(lanes, model, seed=0, size=0.1):
    numbers = lanes.join(model)
    return numbers + size * np.random.default_rng(seed).normal(size=numbers.shape)


def by_autodiff(model, data):
    """The log joint density of all free numbers, but those that ``Lanes`` holds, as JAX has it."""
    with double():

        @jax.jit
        @jax.value_and_grad
        def density(numbers):
            # Priors of what is fixed are constants that ``Lanes`` leaves out.
            return _filled(model, numbers).log_joint(data) - log_prior(model, "fixed")

        return density


# --- blocks ---


def test_numbers_are_those_of_the_model(single):
    lanes, model, _ = single
    numbers = lanes.join(model)
    free, _ = partition(model, "latent", "hyperparameter")
    assert numbers.size == lanes.knots + lanes.border
    # Amplitudes of the two groups on grids belong to the prior of the knots and are held; lengthscales are fixed.
    assert numbers.size == ravel_pytree(free)[0].size - 2
    moved = numbers_of(lanes, model)
    np.testing.assert_array_equal(lanes.join(lanes.at(moved)), moved)
    stack = lanes.at(np.stack([numbers, moved]))
    assert stack.kernel.phase.frequency.whitened.raw.shape[0] == 2


def test_log_likelihoods_and_gradients_equal_autodiff(single):
    lanes, model, data = single
    numbers = numbers_of(lanes, model)
    found = lanes.total(*lanes.log_likelihoods(numbers), numbers)
    with double():
        value, slope = by_autodiff(model, data)(jnp.asarray(numbers))
    assert found[0] == pytest.approx(float(value), rel=1e-10)
    np.testing.assert_allclose(found[1], slope, atol=1e-8 * np.max(np.abs(slope)))


def test_several_blocks_equal_one(several):
    lanes, model, data = several
    assert lanes.count > 2
    assert lanes.members.shape[1] < lanes.knots + lanes.border
    numbers = numbers_of(lanes, model)
    value, gradient = lanes.total(*lanes.log_likelihoods(numbers), numbers)
    with double():
        expected, slope = by_autodiff(model, data)(jnp.asarray(numbers))
    assert value == pytest.approx(float(expected), abs=1e-3)
    np.testing.assert_allclose(gradient, slope, atol=2e-3 * np.max(np.abs(slope)))


def test_the_log_prior_is_that_of_the_model(single):
    lanes, model, _ = single
    for seed in range(2):
        numbers = numbers_of(lanes, model, seed, 0.5)
        value, gradient, bend = lanes.log_prior(numbers)
        with double():
            density = jax.jit(lambda numbers: log_prior(_filled(model, numbers), "latent", "hyperparameter"))
            at = jnp.asarray(numbers)
            np.testing.assert_allclose(value, density(at), rtol=1e-10)
            np.testing.assert_allclose(gradient, jax.grad(density)(at), atol=1e-10)
            H = -jax.hessian(density)(at)
        np.testing.assert_allclose(bend, H[lanes.knots :, lanes.knots :], atol=1e-10)
        np.testing.assert_allclose(H[: lanes.knots, : lanes.knots], np.eye(lanes.knots), atol=1e-10)
        np.testing.assert_allclose(H[: lanes.knots, lanes.knots :], 0.0, atol=1e-10)


def test_copies_are_evaluated_by_themselves(several):
    lanes, model, _ = several
    numbers = numbers_of(lanes, model)
    values, slopes = lanes.log_likelihoods(numbers)
    copies = numbers[lanes.members][[2, 0, 2]]
    copies[0] += 0.3
    other, other_slopes = lanes.evaluate(np.array([2, 0, 2]), copies)
    np.testing.assert_allclose(other[1:], values[[0, 2]], rtol=1e-12)
    np.testing.assert_allclose(other_slopes[1:], slopes[[0, 2]], rtol=1e-9, atol=1e-9)
    assert abs(other[0] - values[2]) > 1.0


# --- curvature ---


def test_curvature_equals_the_hessian(single):
    lanes, model, data = single
    numbers = numbers_of(lanes, model)
    H = curvature(lanes, numbers, lanes.log_likelihoods(numbers)[1])
    assert H.shape == (1, numbers.size, numbers.size)
    with double():
        likelihood = lambda numbers: _filled(model, numbers).realise().log_likelihood(data, None)  # noqa: E731
        # By differences of JAX's own gradients, central ones: the filter has no second derivatives.
        slope, h = jax.jit(jax.grad(likelihood)), 1e-4
        columns = [
            (slope(jnp.asarray(numbers + h * e)) - slope(jnp.asarray(numbers - h * e))) / (2 * h)
            for e in np.eye(numbers.size)
        ]
    member, felt = lanes.members[0], np.outer(lanes.felt[0], lanes.felt[0])
    expected = -np.stack(columns)[np.ix_(member, member)]
    np.testing.assert_allclose(H[0][felt], expected[felt], atol=2e-5 * np.max(np.abs(expected)))
    # What is left out are knots whose windows are below a hundredth where the rows are.
    np.testing.assert_array_equal(H[0][~felt], 0.0)
    assert np.max(np.abs(expected[~felt])) < 1e-2 * np.max(np.abs(expected))


def test_differences_are_small_beside_each_width(monkeypatch):
    """Of a record of many cycles widths differ by 1e5, and a log determinant is to be right to a tenth of one."""
    extent, fine = (0.0, 100.0), bends.FINE
    model = model_of(extent)
    lanes = Lanes(model, Timeline.of(data_of(extent, 600)))
    numbers = newton(lanes, lanes.join(model)).numbers
    slopes, prior = lanes.log_likelihoods(numbers)[1], lanes.log_prior(numbers)[2]
    known = lanes.information(numbers)
    assert np.max(np.diagonal(known, axis1=1, axis2=2)) > 1e6

    def size(known):
        return 0.5 * np.linalg.slogdet(dense(lanes, curvature(lanes, numbers, slopes, None, known), prior))[1]

    found = size(known)
    for other in (0.3 * fine, 3.0 * fine):
        monkeypatch.setattr(bends, "FINE", other)
        assert size(known) == pytest.approx(found, abs=0.02)


def test_curvature_of_some_blocks_is_theirs(several):
    lanes, model, _ = several
    numbers = numbers_of(lanes, model)
    slopes = lanes.log_likelihoods(numbers)[1]
    every, some = curvature(lanes, numbers, slopes), curvature(lanes, numbers, slopes[[2, 0]], np.array([2, 0]))
    np.testing.assert_allclose(some, every[[2, 0]], atol=1e-6 * np.max(np.abs(every)))
    np.testing.assert_allclose(every, np.swapaxes(every, 1, 2))


# --- the arrow ---


def dense(lanes, blocks, prior):
    H = np.zeros((lanes.knots + lanes.border,) * 2)
    H[: lanes.knots, : lanes.knots] += np.eye(lanes.knots)
    H[lanes.knots :, lanes.knots :] += prior
    for member, block in zip(lanes.members, blocks, strict=True):
        H[np.ix_(member, member)] += block
    return H


def random_blocks(lanes, seed=0):
    rng = np.random.default_rng(seed)
    size = lanes.members.shape[1]
    root = rng.normal(size=(lanes.count, size, size)) / np.sqrt(size) * lanes.felt[..., None]
    return root @ np.swapaxes(root, 1, 2)


@pytest.mark.parametrize("kind", ["single", "several"])
def test_arrows_are_dense_algebra(kind, request):
    lanes = request.getfixturevalue(kind)[0]
    blocks, prior = random_blocks(lanes), np.diag(np.linspace(1.0, 4.0, lanes.border))
    H, arrow = dense(lanes, blocks, prior), Arrow.of(lanes, blocks, prior)
    right = np.random.default_rng(1).normal(size=len(H))
    np.testing.assert_allclose(arrow.solve(right), np.linalg.solve(H, right), rtol=1e-8, atol=1e-10)
    shifted = np.linalg.solve(H + 3.0 * np.eye(len(H)), right)
    np.testing.assert_allclose(Arrow.of(lanes, blocks, prior, 3.0).solve(right), shifted, rtol=1e-8, atol=1e-10)
    assert arrow.log_determinant == pytest.approx(np.linalg.slogdet(H)[1], rel=1e-10)
    if kind == "several":
        assert arrow.band.shape[0] < lanes.knots  # it is a band
    count = 20_000
    for border in (True, False):
        C = np.linalg.inv(H)
        if not border:
            C = np.zeros_like(H)
            C[: lanes.knots, : lanes.knots] = np.linalg.inv(H[: lanes.knots, : lanes.knots])
        draws = arrow.draw(np.random.default_rng(2), count, border=border)
        error = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / count)
        assert np.max(np.abs(draws.T @ draws / count - C) - 5.5 * error) <= 0.0


def test_what_is_not_positive_is_refused(single):
    lanes = single[0]
    blocks = -3.0 * np.eye(lanes.members.shape[1])[None]
    with pytest.raises(np.linalg.LinAlgError):
        Arrow.of(lanes, blocks, np.eye(lanes.border))


# --- optima ---


@pytest.mark.parametrize("kind", ["single", "several"])
def test_newton_ends_where_the_gradient_vanishes(kind, request):
    lanes, model, _ = request.getfixturevalue(kind)
    found = newton(lanes, lanes.join(model))
    assert found.decrement < 0.02
    assert found.history == sorted(found.history)
    assert found.history[-1] == found.log_joint > found.history[0] + 5.0
    value, gradient = lanes.total(*lanes.log_likelihoods(found.numbers), found.numbers)
    assert value == pytest.approx(found.log_joint, rel=1e-12)
    # In standard deviations of the posterior hardly anything is left to go.
    slopes = lanes.log_likelihoods(found.numbers)[1]
    H = dense(lanes, curvature(lanes, found.numbers, slopes), lanes.log_prior(found.numbers)[2])
    step = np.linalg.solve(H, gradient)
    assert 0.5 * gradient @ step < 0.03
    assert np.max(np.abs(step) / np.sqrt(np.diag(np.linalg.inv(H)))) < 0.3
    # Laplace's approximation, by dense algebra; on the way the curvature of blocks that hardly move is kept.
    evidence = found.log_joint + 0.5 * len(H) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(H)[1]
    assert found.evidence == pytest.approx(evidence, abs=1.0)
    again = newton(lanes, found.numbers)
    assert again.log_joint == found.log_joint
    if lanes.whole:  # differences whose steps suit what the rows tell
        values = lanes.log_likelihoods(found.numbers)[0]
        known = Bends(lanes, Place(found.numbers, values, slopes, found.log_joint, gradient), None).H
        H = dense(lanes, curvature(lanes, found.numbers, slopes, None, known), lanes.log_prior(found.numbers)[2])
        evidence = found.log_joint + 0.5 * len(H) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(H)[1]
    assert again.evidence == pytest.approx(evidence, abs=1e-6)


def test_information_that_misleads_is_left(single, monkeypatch):
    """Steps that gain nearly nothing of what they promise: differences serve instead, to the same optimum.

    First of the numbers that all blocks share, and where the search makes no way of all.
    """
    lanes, model, _ = single
    found = newton(lanes, lanes.join(model))
    asked = []
    told = Lanes.information
    monkeypatch.setattr(Lanes, "information", lambda *given: 0.01 * (asked.append(given[1]), told(*given))[1])
    other = newton(lanes, lanes.join(model))
    assert 2 < len(asked) < len(other.history)
    assert other.decrement < 0.02
    assert other.log_joint == pytest.approx(found.log_joint, abs=0.05)
    assert other.evidence == pytest.approx(found.evidence, abs=1.0)  # differences that are kept for the last steps


@pytest.mark.parametrize("kind", ["single", "several"])
def test_no_search_goes_on_from_where_a_gradient_overflowed(kind, request, monkeypatch):
    """Far out a density may be a number, and a large one beside a poor start, where its gradient is none."""
    lanes, model, _ = request.getfixturevalue(kind)
    start, evaluate, calls = lanes.join(model), Lanes.evaluate, []
    found, bends = newton(lanes, start), curvature(lanes, start, lanes.log_likelihoods(start)[1])
    known = Curvature(bends, start[lanes.members], np.ones(lanes.count, bool))

    def overflowing(self, blocks, copies):
        values, slopes = evaluate(self, blocks, copies)
        calls.append(len(values))
        if len(calls) == 2:  # the first step that is tried
            values, slopes = values + 1e3, np.full_like(slopes, np.nan)
        return values, slopes

    monkeypatch.setattr(Lanes, "evaluate", overflowing)
    other = newton(lanes, start, known=known)
    assert len(calls) > 2
    assert other.log_joint == pytest.approx(found.log_joint, abs=0.05)


def test_a_flat_prior_of_what_information_does_not_see(single):
    """How long an envelope lasts, without a prior: the matrix is singular on the way, and not at the end."""
    lanes, model, _ = single
    flat = eqx.tree_at(lambda m: m.kernel.time.lengthscale, model, Positive(5.0), is_leaf=lambda node: node is None)
    own = Lanes(flat, lanes.timeline)
    found = newton(own, own.join(flat))
    assert found.decrement < 0.02
    assert np.isfinite(found.evidence)
    assert found.history == sorted(found.history)


@pytest.mark.parametrize("kind", ["single", "several"])
def test_curvature_of_another_search_serves_where_it_was_near(kind, request, monkeypatch):
    """It is not computed again at the optimum; where a block begins elsewhere that block's is, and no other's."""
    lanes, model, _ = request.getfixturevalue(kind)
    found = newton(lanes, lanes.join(model))
    computed, informed = [], []
    monkeypatch.setattr(bends, "curvature", lambda *given: (computed.append(given[3]), curvature(*given))[1])
    information = Lanes.information
    monkeypatch.setattr(Lanes, "information", lambda *given: (informed.append(given[1]), information(*given))[1])
    again = newton(lanes, found.numbers, known=found.curvature, exact=False)
    assert not computed
    assert not informed
    assert again.log_joint == found.log_joint
    knots = lanes.members[-1][lanes.felt[-1] & (lanes.members[-1] < lanes.knots)]
    alone = np.setdiff1d(knots, lanes.members[:-1][lanes.felt[:-1]])
    assert len(alone) > 2
    off = found.numbers.copy()
    off[alone] += 0.1  # in reach of the same optimum
    back = newton(lanes, off, known=found.curvature)
    if kind == "single":  # on the way what the rows tell serves, and at the end differences
        np.testing.assert_array_equal(informed[0], off)
    np.testing.assert_array_equal(computed[0], [lanes.count - 1])
    assert back.log_joint == pytest.approx(found.log_joint, abs=0.05)
    assert back.evidence == pytest.approx(newton(lanes, off).evidence, abs=0.1)


def test_blocks_in_which_a_matrix_is_not_positive_are_those_of_its_parts(several):
    lanes = several[0]
    blocks, prior = random_blocks(lanes), np.eye(lanes.border)
    assert not np.any(not_positive(lanes, blocks, prior))
    felt = np.flatnonzero(lanes.felt[3])[:3]
    blocks[3, felt, felt] -= 40.0
    whole = dense(lanes, blocks, prior)
    lowest = [np.linalg.eigvalsh(whole[np.ix_(member, member)])[0] for member in lanes.members]
    found = not_positive(lanes, blocks, prior)
    np.testing.assert_array_equal(found, np.array(lowest) < 0.0)
    assert found[3]
    assert not np.all(found)


@pytest.mark.parametrize("everywhere", [True, False])
def test_curvature_that_is_reconsidered_is_where_all_together_is_indefinite(several, everywhere):
    """And of blocks that are so alone, unless a search makes no way; never where it was computed."""
    lanes, model, _ = several
    numbers = newton(lanes, lanes.join(model)).numbers
    places = [
        Place(at, *lanes.log_likelihoods(at), *lanes.total(*lanes.log_likelihoods(at), at))
        for at in (numbers, numbers + 1e-3)
    ]
    prior = lanes.log_prior(numbers)[2]
    bends = Bends(lanes, places[0], None)
    right = bends.H.copy()
    assert not np.any(not_positive(lanes, right, prior))
    assert np.any(np.linalg.eigvalsh(right)[:, 0] < -1.0)  # blocks that are indefinite alone are not at fault
    felt = np.flatnonzero(lanes.felt[3])[:3]
    bends.H[3, felt, felt] -= 2.0 * np.max(np.abs(right[3]))
    wrong = not_positive(lanes, bends.H, prior)
    assert not bends.reconsider(places[0], prior, everywhere)
    expected = wrong if everywhere else wrong & (np.linalg.eigvalsh(bends.H)[:, 0] < -1.0)
    assert expected[3]
    assert not np.all(expected)
    known = bends.H.copy()
    assert bends.reconsider(places[1], prior, everywhere)
    np.testing.assert_array_equal(np.any(bends.seen != numbers[lanes.members], axis=1), expected)
    true = curvature(lanes, places[1].numbers, places[1].slopes, None, known)
    np.testing.assert_array_equal(bends.H, np.where(expected[:, None, None], true, known))
    # Where it is so in no block alone, it is all of them, or none on the way.
    assert not np.any(not_positive(lanes, bends.H, prior))
    assert bends.reconsider(places[1], prior, everywhere) == everywhere
    if everywhere:
        np.testing.assert_array_equal(bends.seen, places[1].numbers[lanes.members])


def test_blocks_of_fewer_knots_are_the_same(several, monkeypatch):
    """Where blocks are many their knots are multiples of a smaller number."""
    lanes, model, _ = several
    monkeypatch.setattr(home, "MANY", 0)
    few = Lanes(model, lanes.timeline)
    assert few.members.shape[1] < lanes.members.shape[1]
    assert np.all(np.sum(few.felt, axis=1) == np.sum(lanes.felt, axis=1))
    numbers = numbers_of(lanes, model)
    found, expected = (one.total(*one.log_likelihoods(numbers), numbers) for one in (few, lanes))
    assert found[0] == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-9 * np.max(np.abs(expected[1])))


def test_differences_of_blocks_follow_their_widths_once_these_are_known(several, monkeypatch):
    """Of long blocks widths differ as those of a whole record do: their Hessians were indefinite at optima."""
    lanes, model, _ = several
    numbers = numbers_of(lanes, model)
    here = Place(numbers, *lanes.log_likelihoods(numbers), *lanes.total(*lanes.log_likelihoods(numbers), numbers))
    known = []
    monkeypatch.setattr(bends, "curvature", lambda *given: (known.append(given[4]), curvature(*given))[1])
    found = Bends(lanes, here, None)
    coarse = found.H.copy()
    found.sure[:] = True
    found.seen += 1e6  # far away
    assert found.ensure(here)
    assert known[0] is None
    np.testing.assert_array_equal(known[1], coarse)
    np.testing.assert_allclose(found.H, coarse, atol=1e-5 * np.max(np.abs(coarse)))


def test_curvature_in_other_units_is_that_of_stretched_numbers(several):
    """Half the amplitude of a function a priori: its knots are twice as large, and the likelihood is the same."""
    lanes, model, _ = several
    numbers = lanes.join(model)
    sizes = np.ones(len(numbers))
    group = model.kernel.phase.frequency
    sizes[: group.whitened.raw.size] = 0.5
    where = lambda m: m.kernel.phase.frequency.amplitude.raw  # noqa: E731
    less = eqx.tree_at(where, lanes.at(numbers / sizes), where(model) - np.log(2.0))
    other = Lanes(less, lanes.timeline)
    H, again = (
        curvature(one, at, one.log_likelihoods(at)[1]) for one, at in ((lanes, numbers), (other, numbers / sizes))
    )
    told = Curvature(H, numbers[lanes.members], np.ones(lanes.count, bool)).stretched(sizes[lanes.members])
    np.testing.assert_allclose(told.H, again, atol=1e-5 * np.max(np.abs(again)))  # by differences of gradients
    np.testing.assert_allclose(told.seen, (numbers / sizes)[other.members])


def test_a_search_that_cannot_reach_what_it_must_ends(several):
    lanes, model, _ = several
    whole = newton(lanes, lanes.join(model))
    early = newton(lanes, lanes.join(model), least=whole.log_joint + 1e4)
    assert len(early.history) == 4 < len(whole.history)
    assert early.history == whole.history[:4]
    assert newton(lanes, lanes.join(model), least=whole.log_joint - 1.0).log_joint == whole.log_joint


def test_ways_off_a_saddle_are_those_of_the_most_negative_curvature(several):
    lanes = several[0]
    blocks, prior = random_blocks(lanes), np.eye(lanes.border)
    felt = np.flatnonzero(lanes.felt[3])[:3]
    blocks[3, felt, felt] -= 40.0
    size = lanes.knots + lanes.border
    here = Place(np.zeros(size), np.zeros(lanes.count), np.zeros(lanes.members.shape), 0.0, np.zeros(size))
    step = np.linspace(0.0, 1e-3, size)
    moves = _bent_moves(lanes, here, blocks, prior, step)
    values, vectors = np.linalg.eigh(dense(lanes, blocks, prior))
    lowest = int(np.sum(values < 0))
    assert lowest == 3
    assert moves.shape == (1 + 4 * lowest, size)
    np.testing.assert_array_equal(moves[0], step)
    bent = moves[1:] - step
    np.testing.assert_allclose(np.linalg.norm(bent, axis=1), np.repeat([0.3, 0.3, 1.0, 1.0], lowest), rtol=1e-6)
    outside = bent - (bent @ vectors[:, :lowest]) @ vectors[:, :lowest].T
    assert np.max(np.linalg.norm(outside, axis=1)) < 0.05  # of unit directions, to the tolerance of the iteration


def test_evidence_of_a_normal_model_is_its_marginal_likelihood():
    """With a free offset alone the posterior is normal, and Laplace's approximation exact."""
    data = data_of(n=30)
    kernel = MaternPhase(WarpedTime(5.0), lambda X: 5.0 * X[:, 0], 0.7)
    model = MarkovGP(kernel, 0.3, sg.Real(0.0, sg.Normal(0.0, 2.0)))
    lanes = Lanes(model, Timeline.of(data))
    assert (lanes.knots, lanes.border) == (0, 1)
    found = newton(lanes, lanes.join(model) + 1.0)
    C = np.asarray(kernel(data.X)) + 0.09 * np.eye(30) + 4.0
    expected = -0.5 * (data.y @ np.linalg.solve(C, data.y) + np.linalg.slogdet(2 * np.pi * C)[1])
    assert found.evidence == pytest.approx(expected, abs=2e-2)


def test_models_keep_what_is_held(single):
    """Amplitudes of functions on grids stay where they were."""
    lanes, model, _ = single
    moved = lanes.at(numbers_of(lanes, model))
    amplitude = lambda m: m.kernel.phase.frequency.amplitude.raw  # noqa: E731
    np.testing.assert_array_equal(amplitude(moved), amplitude(model))
    assert eqx.tree_equal(jax.tree.map(np.shape, moved), jax.tree.map(np.shape, model))
