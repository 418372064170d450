"""Diagnostics: against what is known of autoregressive chains, and against arviz."""

from __future__ import annotations

import warnings

import equinox as eqx
import jax
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.inference import check, diagnostics, to_arviz
from spectrogp.parameters import FunctionGroup, Real, partition
from spectrogp.posterior import Posterior

pytestmark = pytest.mark.usefixtures("compile_quickly")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # announcements of its next version
    import arviz


def autoregressive(phi, *, chains=4, draws=2000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros((chains, draws))
    x[:, 0] = rng.normal(size=chains) / np.sqrt(1.0 - phi**2)
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + rng.normal(size=chains)
    return x


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.6, 0.9])
def test_effective_sizes_of_autoregressive_chains(phi):
    """ESS = n (1 − φ)/(1 + φ); ranks of a Gaussian keep it for the bulk."""
    x = autoregressive(phi, draws=10000)
    expected = x.size * (1.0 - phi) / (1.0 + phi)
    np.testing.assert_allclose(diagnostics.bulk_ess(x), expected, rtol=0.1)
    deviation = 1.0 / np.sqrt(1.0 - phi**2)
    np.testing.assert_allclose(diagnostics.mean_error(x), deviation / np.sqrt(expected), rtol=0.06)
    # The square of an AR(1) is correlated by φ²: its standard deviation has the error σ sqrt((1 + φ²)/(1 − φ²)/2n).
    error = deviation * np.sqrt((1.0 + phi**2) / (1.0 - phi**2) / (2.0 * x.size))
    np.testing.assert_allclose(diagnostics.std_error(x), error, rtol=0.06)
    assert diagnostics.rhat(x) < 1.01


@pytest.mark.parametrize("phi", [-0.3, 0.0, 0.9])
def test_agrees_with_arviz(phi):
    x = np.exp(autoregressive(phi)[..., None] * np.array([1.0, 0.3])) + np.array([0.0, 1.0])
    for k in range(2):
        np.testing.assert_allclose(diagnostics.rhat(x)[k], arviz.rhat(x[..., k]), rtol=1e-10)
        np.testing.assert_allclose(diagnostics.bulk_ess(x)[k], arviz.ess(x[..., k]), rtol=0.02)
        np.testing.assert_allclose(diagnostics.tail_ess(x)[k], arviz.ess(x[..., k], method="tail"), rtol=0.02)
        np.testing.assert_allclose(diagnostics.mean_error(x)[k], arviz.mcse(x[..., k]), rtol=0.02)


def test_rhat_sees_shifts_drifts_and_scales():
    x = autoregressive(0.0)
    shifted = x + np.array([0.0, 0.0, 0.0, 0.5])[:, None]
    drifting = x + np.linspace(0.0, 1.0, x.shape[1])
    wider = x * np.array([1.0, 1.0, 1.0, 2.0])[:, None]
    for wrong in (shifted, drifting, wider):
        assert diagnostics.rhat(wrong) > 1.02
    assert diagnostics.rhat(np.ones((2, 10))) == np.inf


def test_shape_is_checked():
    with pytest.raises(ValueError, match=r"\[chains, draws, ...\] with at least 4 draws, got \[3\]"):
        diagnostics.rhat(np.zeros(3))


class Tiny(eqx.Module):
    level: Real


def posterior(draws, **statistics):
    statistics = {name: np.broadcast_to(value, draws.shape) for name, value in statistics.items()}
    return Posterior(Tiny(Real(draws)), Tiny(Real(np.zeros(()))), draws**2, statistics, False)


def test_advice_names_the_remedy():
    good = autoregressive(0.0)
    assert check(posterior(good, diverging=False, kinetic=0.5)) == []
    bad = {
        "worth .* draw more, or thin less": posterior(good[:, :50]),
        "8000 trajectories diverged: .* raise acceptance": posterior(good, diverging=True),
        "temperature is 1.40 .* smaller step_size or a larger batch": posterior(good, kinetic=0.7),
        "only 2 draws": posterior(good[:, :2]),
        "only 30% of the proposals were accepted: .* warm up longer": posterior(good, acceptance_rate=0.3),
        "100% of the trajectories were stopped .* raise doublings": posterior(good, reached_max_treedepth=True),
    }
    for text, draws in bad.items():
        with pytest.warns(UserWarning, match=text):
            check(draws)


def test_all_that_is_wrong_is_one_warning():
    with pytest.warns(UserWarning, match="R-hat is .* draw more, warm up longer") as caught:
        found = check(posterior(autoregressive(0.0) + 3.0 * np.arange(4)[:, None]))
    assert [str(warning.message) for warning in caught] == ["\n".join(found)]
    assert len(found) == 2


def test_what_is_looked_at_can_be_chosen():
    """Two chains that differ in sign only agree on the square, and on the log joint density, which is a square too."""
    signs = np.array([1.0, -1.0, 1.0, -1.0])[:, None]
    draws = posterior(signs * np.exp(autoregressive(0.0)))
    assert check(draws, lambda model: model.level.raw**2) == []
    with pytest.warns(UserWarning, match="R-hat"):
        check(draws)


def test_functions_are_looked_at_rather_than_their_whitened_values():
    """Far more inducing inputs than a lengthscale needs: a shift of the last whitened value changes no function."""
    group = FunctionGroup(np.linspace(0.0, 1.0, 12)[:, None], 1.0)
    rng = np.random.default_rng(0)
    white = rng.normal(size=(4, 600, 12, 1))
    white[0, :, -1] += 5.0
    free, rest = partition(group, "latent")
    free = eqx.tree_at(lambda g: g.whitened.raw, free, white)
    draws = Posterior(free, rest, rng.normal(size=(4, 600)), {}, False)
    assert np.max(diagnostics.rhat(white)) > 1.5
    assert check(draws) == []
    white[0, :, 0] += 5.0
    with pytest.warns(UserWarning, match="R-hat"):
        check(eqx.tree_at(lambda p: p.draws.whitened.raw, draws, white))


def test_deep_models_are_looked_at_by_their_functions():
    """Layers in the priors of layers, each with more inducing inputs than it needs: as for functions above."""
    kernel = sg.covariance_layers(np.linspace(0.0, 1.0, 12)[:, None], depth=3, lengthscale=0.8)
    free, rest = partition(kernel, "latent")
    rng = np.random.default_rng(0)
    lower, upper = (rng.normal(size=(4, 600, *np.shape(leaf))) for leaf in jax.tree.leaves(free))

    def of(lower, upper):
        """Both layers' whitened values, [chains, draws, m, k]."""
        draws = jax.tree.unflatten(jax.tree.structure(free), [lower, upper])
        return Posterior(draws, rest, np.random.default_rng(1).normal(size=(4, 600)), {}, False)

    for layer in (lower, upper):
        layer[0, :, -1] += 5.0  # the last whitened value, which the functions hardly depend on
        assert np.max(diagnostics.rhat(layer)) > 1.5
    assert check(of(lower, upper)) == []
    first = np.zeros_like(lower)
    first[0, :, 0] = 5.0  # the first, which all of a function depends on
    for shifted in (of(lower + first, upper), of(lower, upper + first)):
        with pytest.warns(UserWarning, match="R-hat"):
            check(shifted)


def test_export_to_arviz():
    x = autoregressive(0.5)
    exported = to_arviz(posterior(x, diverging=False))
    np.testing.assert_array_equal(exported.posterior["level"].values, x)
    np.testing.assert_array_equal(exported.sample_stats["lp"].values, x**2)
    assert exported.sample_stats["diverging"].values.sum() == 0
