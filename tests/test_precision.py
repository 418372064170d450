"""From plain Python every public method computes in float64 and hands back NumPy arrays, whatever JAX is set to."""

from __future__ import annotations

import importlib
import inspect
import warnings
from functools import cache, partial
from types import FunctionType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
import zoo
from spectrogp import inference, kernels, models, parameters, posterior, spectra
from spectrogp.parameters import constrain, partition

pytestmark = pytest.mark.usefixtures("compile_quickly")

ROOMS = (parameters, kernels, spectra, models, posterior, inference)

KEY = jax.random.key(0)
READING_CHECK = inference.ReadingCheck("frequency", 1, np.zeros(1), 1.2, 80.0, 60.0, 2)
X = np.linspace(-1.0, 1.0, 5)[:, None]
Z = X[::2]
ONES, LEVELS = np.ones(5), np.linspace(0.5, 1.5, 5)
MOMENTS = models.Moments(np.sin(LEVELS), LEVELS)
DATA = models.Data(X, np.sin(3 * X[:, 0]), 0.1)
FREQUENCY = np.linspace(0.0, 2.0, 4)


def wave(X):
    return 1.0 + 0.3 * jnp.sin(X)


def group(**settings):
    return constrain(parameters.FunctionGroup(Z, 0.5, **settings))


def mixture():
    return kernels.SpectralMixture(parameters.Positive(0.8), 3.0)


def with_functions():
    return kernels.ConvolutionalSpectral(
        parameters.FunctionGroup(Z, 0.5, shape=(1, 1)), parameters.FunctionGroup(Z, 3.0, shape=(1, 1))
    )


@cache
def near():
    return models.Refresh(DATA, 2)(models.NeighbourGP(mixture(), 0.3))


def on_grid(**settings):
    return parameters.GridFunctionGroup((-1.0, 1.0), 0.5, **settings)


def markov():
    kernel = kernels.MaternPhase(
        kernels.WarpedTime(parameters.Positive(0.8)),
        kernels.IntegratedPhase(on_grid(shape=(1, 1), lengthscale_std=0.0)),
    )
    return models.MarkovGP(kernel, parameters.Positive(0.3), parameters.Real(0.1, parameters.Normal()))


def channels():
    return models.ChannelGP(markov().kernel, [parameters.Positive(0.8), 0.5], [parameters.Positive(0.3), 0.2])


@cache
def lanes():
    return models.Lanes(markov(), models.Timeline.of(DATA))


def prepared(model):
    return model.prepare(data_of(model), X) if isinstance(model, models.AbstractNeighbourModel) else DATA


def data_of(model):
    return near() if isinstance(model, models.AbstractNeighbourModel) else DATA


def draws():
    """A posterior of two draws."""
    free, rest = partition(models.ExactGP(mixture(), parameters.Positive(0.3)), "hyperparameter")
    free = jax.tree.map(lambda leaf: np.asarray(leaf) + np.array([[0.0, 0.1]]), free)
    return posterior.Posterior(free, rest, np.array([[0.0, 0.5]]), {})


def local_functions():
    return draws().read(posterior.LocalFunctions(X))


def target():
    """What a sampler is given: the rest of a model, and its parameters."""
    free, rest = partition(models.ExactGP(mixture(), parameters.Positive(0.3)), "hyperparameter")
    return inference.Target(rest, KEY, KEY), free


def begun(sampler):
    chains, free = target()
    return sampler.begin(chains, sampler.starts(chains, free, DATA, KEY), DATA)


def moved(sampler):
    return sampler.move(target()[0], begun(sampler), np.array(3), DATA)


def pair(kernel):
    p = kernel.local(X)
    return kernel.pair(*(jax.tree.map(lambda leaf, i=i: leaf[i], p) for i in (0, 3)))


def basis(kernel):
    return kernel.basis(jax.tree.map(lambda leaf: leaf[1], kernel.local(X)), X[2])


# How to make one of each class.
INSTANCES = {
    parameters.FunctionGroup: group,
    parameters.GridFunctionGroup: lambda: constrain(on_grid()),
    parameters.LogNormal: lambda: parameters.LogNormal(0.5, 0.7),
    parameters.Normal: lambda: parameters.Normal(0.5, 0.7),
    parameters.OnGrid: lambda: constrain(on_grid()).realise(),
    parameters.Positive: lambda: parameters.Positive.around(LEVELS),
    parameters.RandomWaves: lambda: parameters.RandomWaves.draw(KEY, 8, 1, 2, np.array(0.5)),
    parameters.Real: lambda: parameters.Real(LEVELS, parameters.Normal()),
    parameters.Realised: lambda: group().realise(),
    kernels.Characteristic: lambda: kernels.Characteristic(LEVELS, LEVELS, LEVELS),
    kernels.IntegratedPhase: lambda: kernels.IntegratedPhase(lambda X: wave(X)[:, None], X[:, 0]),
    kernels.Layer: lambda: constrain(kernels.Layer(kernels.SquaredExponential(0.5), Z, 0.5)),
    kernels.Layered: lambda: constrain(sg.covariance_layers(Z, depth=2)),
    kernels.Local: lambda: kernels.Local(x=X),
    kernels.PlanePhase: lambda: kernels.PlanePhase(np.ones((1, 1)), wave),
    kernels.RealisedLayer: lambda: INSTANCES[kernels.Layer]().realise(KEY),
    kernels.Slot: lambda: kernels.Slot(np.array(0.1), 0.5, 0, "exp", wave),
    kernels.WarpedTime: lambda: kernels.WarpedTime(LEVELS),
    spectra.LocalSpectrum: lambda: sg.local_spectrum(kernels.SpectralMixture(0.5, 2.0), X),
    models.Bernoulli: models.Bernoulli,
    models.ChannelGP: channels,
    models.CollapsedGP: lambda: models.CollapsedGP(mixture(), 0.3, Z).realise(),
    models.Data: lambda: DATA,
    models.DoublyStochasticGP: lambda: models.DoublyStochasticGP(models.SparseGP(mixture(), 0.3, Z)),
    models.ExactGP: lambda: models.ExactGP(mixture(), wave_noise).realise(),
    models.FullScaleGP: lambda: models.FullScaleGP(mixture(), 0.3, Z).realise(),
    models.Gaussian: lambda: models.Gaussian(0.3),
    models.Lanes: lanes,
    models.LinearRegression: lambda: models.LinearRegression(1.5, 0.3),
    models.MarkovGP: lambda: markov().realise(),
    models.Moments: lambda: models.Moments(X, X**2 + 1.0),
    models.NeighbourGP: lambda: models.NeighbourGP(mixture(), 0.3).realise(),
    models.Neighbourhoods: near,
    models.Refresh: lambda: models.Refresh(DATA, 2),
    models.SparseGP: lambda: models.SparseGP(mixture(), 0.3, Z).realise(),
    models.StudentT: lambda: models.StudentT(0.3),
    models.HeavyTailed: lambda: models.HeavyTailed(0.3),
    models.OnlineGP: lambda: models.OnlineGP(markov()),
    models.Recent: lambda: models.Recent.of(markov(), -1.0, None).with_rows(X[:, 0], LEVELS, 0.1 * ONES),
    models.AnchoredPhase: lambda: models.AnchoredPhase(wave, 0.2, np.array([0.3])),
    models.Timeline: lambda: models.Timeline.of(DATA, X),
    models.VariationalGP: lambda: models.VariationalGP(mixture(), 0.3, Z),
    posterior.Band: lambda: posterior.Band(LEVELS, LEVELS - 1.0, LEVELS + 1.0),
    posterior.Components: lambda: posterior.Components(DATA, X),
    posterior.Envelopes: lambda: posterior.Envelopes(DATA, X),
    posterior.JointOutputs: lambda: posterior.JointOutputs(DATA, X),
    posterior.LatentFunctions: lambda: posterior.LatentFunctions(X),
    posterior.LocalDraws: lambda: posterior.LocalDraws.of(local_functions()),
    posterior.LocalFrequency: lambda: posterior.LocalFrequency(X),
    posterior.LocalFunctions: lambda: posterior.LocalFunctions(X),
    posterior.Outputs: lambda: posterior.Outputs(DATA, X, ONES, LEVELS),
    posterior.Posterior: draws,
    posterior.Prediction: lambda: posterior.Prediction(MOMENTS, MOMENTS, LEVELS[:, None]),
    posterior.Spectrogram: lambda: posterior.Spectrogram(X, FREQUENCY),
    inference.NUTS: lambda: inference.NUTS(warmup=20, chains=2, leapfrogs=2),
    inference.SGHMC: lambda: inference.SGHMC(warmup=20, chains=2, thin=2),
    inference.Arrow: lambda: arrow(),
    inference.Curvature: lambda: inference.newton(lanes(), lanes().join(markov()), steps=2).curvature,
    inference.Optimum: lambda: inference.newton(lanes(), lanes().join(markov()), steps=2),
    inference.Target: lambda: target()[0],
    inference.ReadingCheck: lambda: READING_CHECK,
    inference.Diagnosis: lambda: inference.Diagnosis(2, 8, (READING_CHECK,), 0, 0.9, ("words",)),
}

# Kernels that are not above: as their rows of the zoo make them.
for _case in zoo.KERNELS:
    INSTANCES.setdefault(type(_case.kernel(1)), partial(_case.kernel, 1))


def arrow():
    at = inference.newton(lanes(), lanes().join(markov()), steps=2)
    return inference.Arrow.of(lanes(), at.curvature.H, lanes().log_prior(at.numbers)[2])


def wave_noise(X):
    return wave(X)[:, 0]


# How to call each method, by the class that has it or a base of that class. Properties are read without being told.
READING = {"__call__": lambda reading: reading(models.ExactGP(mixture(), 0.3))}
CALLS = {
    inference.Arrow: {
        "of": lambda factor: arrow(),
        "solve": lambda factor: factor.solve(np.ones(len(factor.order) + len(factor.corner))),
        "draw": lambda factor: factor.draw(np.random.default_rng(0), 3, border=True),
    },
    inference.Curvature: {"stretched": lambda known: known.stretched(2.0 * np.ones(known.seen.shape))},
    parameters.AbstractRandom: {
        "__call__": lambda functions: functions(X),
        "realise": lambda functions: (functions.realise(), functions.realise(KEY)),
    },
    parameters.FunctionGroup: {
        "conditional": lambda group: group.conditional(X),
        "draw_marginals": lambda group: group.draw_marginals(X, KEY),
        "fitted_to": lambda _: parameters.FunctionGroup(Z, 0.5).fitted_to(X, LEVELS, 0.1),
        "inverse": lambda group: group.inverse(),
    },
    parameters.GridFunctionGroup: {
        "fitted_to": lambda _: on_grid().fitted_to(X, LEVELS, 0.1),
        "knots_between": lambda _: on_grid().knots_between([-0.5], [0.5]),
        "knots_felt": lambda _: on_grid().knots_felt(np.array([0]), 9, np.array([-0.5]), np.array([0.5])),
        "stretch": lambda _: on_grid().stretch(1, 9),
        "unwarped": lambda _: on_grid().unwarped(X),
    },
    parameters.OnGrid: {
        "__call__": lambda functions: functions(X),
        "integral": lambda functions: (functions.integral(X), functions.integral(X, -1)),
    },
    parameters.LogNormal: {"log_density": lambda prior: prior.log_density(LEVELS)},
    parameters.Normal: {"log_density": lambda prior: prior.log_density(LEVELS)},
    parameters.Parametrised: {
        "field_at": lambda owner: owner.field_at(next(iter(owner.values_at(X))), X),
        "values_at": lambda owner: owner.values_at(X),
    },
    parameters.Positive: {"around": lambda _: parameters.Positive.around(0.3, 0.5)},
    parameters.RandomWaves: {
        "__call__": lambda waves: waves(X),
        "draw": lambda _: parameters.RandomWaves.draw(KEY, 8, 1, 2, 0.5),
    },
    parameters.Realised: {"__call__": lambda function: function(X)},
    kernels.MaternPhase: {"waves": lambda kernel: kernel.waves(kernel.values_at(X))},
    kernels.AbstractKernel: {
        "__call__": lambda kernel: (kernel(X), kernel(X, Z)),
        "cross": lambda kernel: kernel.cross(kernel.local(X), kernel.local(Z)),
        "diagonal": lambda kernel: kernel.diagonal(kernel.local(X)),
        "elementwise": lambda kernel: kernel.elementwise(kernel.local(X), kernel.local(X[::-1])),
        "gram": lambda kernel: kernel.gram(kernel.local(X)),
        "line_freedom": lambda kernel: kernel.line_freedom(kernel.local(X)),
        "local": lambda kernel: kernel.local(X),
        "pair": pair,
        "without_callables": lambda kernel: kernel.without_callables(),
    },
    kernels.Chirplet: {"basis": basis},
    kernels.ConvolutionalSpectral: {"basis": basis},
    kernels.IntegratedPhase: {"__call__": lambda phase: phase(X)},
    kernels.Local: {"replace": lambda local: local.replace(x=2.0 * X)},
    kernels.MaternPhase: {"waves": lambda kernel: kernel.waves(kernel.values_at(X))},
    kernels.PlanePhase: {"__call__": lambda phase: phase(X)},
    kernels.RealisedLayer: {"__call__": lambda function: function(X)},
    kernels.Slot: {"__call__": lambda slot: slot(X)},
    kernels.WarpedTime: {"__call__": lambda time: time(X)},
    models.AbstractLikelihood: {
        "expected_log_density": lambda noise: noise.expected_log_density(ONES, MOMENTS, LEVELS),
        "log_density": lambda noise: noise.log_density(ONES, LEVELS, LEVELS),
        "log_predictive_density": lambda noise: noise.log_predictive_density(ONES, MOMENTS, LEVELS),
        "output": lambda noise: noise.output(MOMENTS, LEVELS),
        "scale_at": lambda noise: noise.scale_at(X, 0.1 * ONES),
    },
    models.Gaussian: {"variance": lambda noise: noise.variance(DATA)},
    models.AbstractObjective: {
        "log_joint": lambda model: model.log_joint(data_of(model), KEY),
        "pairs": lambda model: model.pairs(data_of(model)),
    },
    models.AbstractModel: {
        "component_moments": lambda model: model.component_moments(prepared(model), X, 0),
        "count_components": lambda model: model.count_components(X),
        "covariance": lambda model: model.covariance(data_of(model), X),
        "draw": lambda model: model.draw(data_of(model), X, key=0, num_samples=2),
        "every_component": lambda model: model.every_component(prepared(model), X),
        "joint_covariance": lambda model: model.realise().joint_covariance(data_of(model), X),
        "log_likelihood": lambda model: model.realise().log_likelihood(data_of(model), None),
        "log_predictive_density": lambda model: model.log_predictive_density(data_of(model), X, LEVELS, 0.1),
        "moments": lambda model: model.realise().moments(data_of(model), X),
        "noise_at": lambda model: model.noise_at(X, 0.1),
        "predict": lambda model: model.predict(data_of(model), X),
        "predict_output": lambda model: model.predict_output(data_of(model), X, 0.1),
        "prepare": lambda model: model.prepare(data_of(model), X),
        "realise": lambda _: models.ExactGP(with_functions(), parameters.Positive(0.3)).realise(),
        "side_by_side": lambda model: model.side_by_side(100),
    },
    models.ExactGP: {"leave_one_out": lambda model: model.leave_one_out(DATA)},
    models.AbstractNeighbourModel: {
        "conditionals": lambda model: model.conditionals(near()),
        "neighbours": lambda model: model.neighbours(near(), X),
    },
    models.Lanes: {
        "at": lambda found: found.at(found.join(markov())),
        "evaluate": lambda found: found.evaluate(np.zeros(2, int), np.stack([found.join(markov())] * 2)),
        "join": lambda found: found.join(markov()),
        "information": lambda found: found.information(found.join(markov())),
        "log_likelihoods": lambda found: found.log_likelihoods(found.join(markov())),
        "log_prior": lambda found: found.log_prior(found.join(markov())),
        "number_of": lambda found: found.number_of(lambda m: m.offset.raw),
        "total": lambda found: found.total(*found.log_likelihoods(found.join(markov())), found.join(markov())),
    },
    models.ChannelGP: {
        "channel": lambda model: model.channel(1),
        "log_joint": lambda model: model.log_joint((DATA, DATA)),
        "predict": lambda model: model.predict((DATA, DATA), X),
        "realise": lambda model: model.realise(),
    },
    models.MarkovGP: {
        "block_log_likelihoods": lambda model: model.block_log_likelihoods(models.Timeline.of(DATA)),
        "envelope": lambda model: model.envelope(DATA, X),
        "orders": lambda model: model.orders(),
        "owners": lambda model: model.owners(),
        "parts": lambda model: model.parts(DATA, X),
        "stationary": lambda model: model.stationary(),
        "system": lambda model: model.system(X, DATA.error, np.ones(5, bool)),
        "systems": lambda model: model.systems(models.Timeline.of(DATA)),
        "timeline": lambda model: model.timeline(DATA),
        "warm_up": lambda model: model.warm_up(DATA),
    },
    models.OnlineGP: {"update": lambda online: online.update([0.0, 0.1], [0.2, 0.3])},
    models.Recent: {
        "advanced": lambda recent: recent.advanced(3),
        "anchored": lambda recent: recent.anchored(-0.4),
        "of": lambda _: models.Recent.of(markov(), 0.2, None),
        "refined": lambda recent: recent.refined(1),
        "with_rows": lambda recent: recent.with_rows(np.array([1.1]), np.array([0.2]), np.array([0.1])),
    },
    models.AnchoredPhase: {"__call__": lambda phase: phase(X)},
    models.Timeline: {
        "of": lambda _: models.Timeline.of(DATA, X, own=2, warm_up=1),
        "side_by_side": lambda _: models.Timeline.side_by_side([models.Timeline.of(DATA)] * 2),
        "read": lambda timeline: timeline.read(timeline.t[:, None]),
        "traced": lambda _: models.Timeline.traced(DATA, X),
    },
    models.VariationalGP: {
        "natural_step": lambda model: model.natural_step(DATA, 0.5),
        "with_optimal_posterior": lambda model: model.with_optimal_posterior(DATA),
        "with_posterior_of": lambda model: model.with_posterior_of(model.natural_step(DATA, 0.5)),
    },
    models.DoublyStochasticGP: {"sampled": lambda bound: bound.sampled(0)},
    models.Data: {
        "minibatch": lambda data: data.minibatch(KEY, 2),
        "rows": lambda data: data.rows(np.array([0, 2])),
        "unchecked": lambda _: models.Data.unchecked(X, LEVELS),
        "with_column": lambda data: data.with_column(1.0),
    },
    models.Moments: {"mixed": lambda moments: moments.mixed(), "exponential": lambda moments: moments.exponential(0.5)},
    models.Neighbourhoods: {
        "minibatch": lambda data: data.minibatch(KEY, 2),
        "of": lambda _: models.Neighbourhoods.of(DATA, X, np.arange(5), 2),
        "under": lambda _: models.Neighbourhoods.under(
            kernels.SquaredExponential(0.5), DATA, np.arange(5), 2, "correlation"
        ),
        "with_column": lambda data: data.with_column(1.0),
    },
    models.Refresh: {"__call__": lambda refresh: refresh(models.NeighbourGP(mixture(), 0.3))},
    posterior.Band: {
        "covers": lambda band: band.covers(ONES),
        "map": lambda band: band.map(np.exp),
        "normal": lambda _: posterior.Band.normal(LEVELS, ONES, 0.9),
        "over": lambda _: posterior.Band.over(X, 0.9),
    },
    posterior.Components: READING,
    posterior.Envelopes: {"__call__": lambda reading: reading(markov())},
    posterior.JointOutputs: READING,
    posterior.LatentFunctions: READING,
    posterior.LocalDraws: {
        "density": lambda found: found.density(FREQUENCY),
        "in_units": lambda found: found.in_units(np.array([2.0]), 3.0),
        "of": lambda _: posterior.LocalDraws.of(local_functions()),
    },
    posterior.LocalFrequency: READING,
    posterior.LocalFunctions: READING,
    posterior.Outputs: READING,
    posterior.Posterior: {
        "at": lambda found: found.at(0, 1),
        "at_point": lambda _: posterior.Posterior.at_point(models.ExactGP(mixture(), 0.3)),
        "band": lambda found: found.band(width),
        "channel": lambda _: posterior.Posterior.at_point(channels()).channel(1),
        "components": lambda found: found.components(DATA, X),
        "covariance": lambda found: found.covariance(DATA, X, noise=True),
        "draw": lambda found: found.draw(DATA, X, key=0, num_samples=2),
        "local_frequency": lambda found: found.local_frequency(X),
        "local_functions": lambda found: found.local_functions(X),
        "log_predictive_density": lambda found: found.log_predictive_density(DATA, X, LEVELS),
        "map": lambda found: found.map(width),
        "most_probable": lambda found: found.most_probable(),
        "outputs": lambda found: found.outputs(DATA, X, 0.1, y=LEVELS),
        "predict": lambda found: found.predict(DATA, X),
        "predict_output": lambda found: found.predict_output(DATA, X),
        "quantiles": lambda found: found.quantiles(DATA, X),
        "quantiles_output": lambda found: found.quantiles_output(DATA, X),
        "read": lambda found: found.read(width),
        "relabelled": lambda found: found.relabelled(X),
        "spectrogram": lambda found: found.spectrogram(X, FREQUENCY),
        "thinned": lambda found: found.thinned(1),
    },
    posterior.Prediction: {"mixed": lambda found: found.mixed()},
    posterior.Spectrogram: READING,
    inference.Diagnosis: {"map_places": lambda found: found.map_places(lambda place: 2.0 * place)},
    inference.AbstractSampler: {
        "begin": begun,
        "independent": lambda sampler: sampler.independent(),
        "finish": lambda sampler: sampler.finish(begun(sampler), target()[0].rest),
        "move": moved,
        "optimised": lambda sampler: sampler.optimised(),
        "starts": lambda sampler: sampler.starts(*target(), DATA, KEY),
    },
    inference.Target: {"log_joint": lambda one: one.log_joint(target()[1], DATA)},
}

# Parts of other classes, which have nothing to call alone.
BASES = (parameters.Parametrised, kernels.AbstractInner, kernels.AbstractMixture)


def width(model):
    return model.realise().kernel.lengthscale


def public(cls):
    """Names of the methods and properties of a class and its bases, each with the class that defines it."""
    for name in dir(cls):
        if name.startswith("_") and name != "__call__":
            continue
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if owner is None or not owner.__module__.startswith("spectrogp"):
            continue
        member = inspect.getattr_static(cls, name)
        if isinstance(member, property | FunctionType | classmethod | staticmethod):
            yield name, owner, isinstance(member, property)


def cases():
    """Every class with those of its members that no class before it has: what is inherited is one function."""
    seen = set()
    for room in ROOMS:
        for name in room.__all__:
            cls = getattr(room, name)
            if isinstance(cls, type) and not inspect.isabstract(cls) and cls not in BASES:
                members = [(name, is_property) for name, owner, is_property in public(cls) if (owner, name) not in seen]
                seen |= {(owner, name) for name, owner, _ in public(cls)}
                yield pytest.param(cls, members, id=f"{room.__name__.removeprefix('spectrogp.')}.{cls.__name__}")


def call_of(cls, name, is_property):
    if is_property:
        return lambda instance: getattr(instance, name)
    found = next((CALLS[base][name] for base in cls.__mro__ if name in CALLS.get(base, {})), None)
    assert found is not None, (
        f"nobody says how to call {cls.__name__}.{name}: add it to CALLS of tests/test_precision.py, "
        f"under {cls.__name__} or a base of it"
    )
    return found


def numbers(result, where):
    """The floating arrays of a result, which must be NumPy's, of double precision."""
    found = []
    for leaf in jax.tree.leaves(result):
        if isinstance(leaf, jax.Array):
            assert jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key), f"{where} gives a JAX array, {leaf.dtype}"
        elif isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "fc":
            assert leaf.dtype in (np.float64, np.complex128), f"{where} gives {leaf.dtype}"
            found.append(leaf)
    return found


@pytest.mark.parametrize(("cls", "members"), list(cases()))
def test_methods_compute_in_double_precision(cls, members):
    assert not jax.config.jax_enable_x64
    if not members:
        return
    assert cls in INSTANCES, f"nobody says how to make a {cls.__name__}: add it to INSTANCES of tests/test_precision.py"
    for name, is_property in members:
        where, call = f"{cls.__name__}.{name}", call_of(cls, name, is_property)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # JAX warns where it makes float32 of what should be float64
            found = numbers(call(INSTANCES[cls]()), where)
        # Nor was something in between of single precision: it is the same where all of JAX is of double precision.
        with jax.enable_x64(True):
            double = [leaf for leaf in jax.tree.leaves(call(INSTANCES[cls]())) if eqx.is_inexact_array_like(leaf)]
        double = [leaf for leaf in double if eqx.is_array(leaf) or isinstance(leaf, np.generic)]
        for one, other in zip(found, double, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=where)


def test_no_row_is_left_of_what_is_gone():
    """So that the table stays one of what there is."""
    for cls, calls in CALLS.items():
        for name in calls:
            assert any(name in dir(kind) for kind in INSTANCES if issubclass(kind, cls)), f"{cls.__name__}.{name}"
    exported = {getattr(room, name) for room in ROOMS for name in room.__all__ if isinstance(getattr(room, name), type)}
    assert set(INSTANCES) <= exported


def test_single_precision_is_for_who_asks():
    kernel, model = kernels.SquaredExponential(0.5), models.ExactGP(mixture(), 0.3)
    with sg.precision("float32"):
        found = kernel(X), kernel.gram(kernel.local(X)), model.predict(DATA, X), model.log_joint(DATA)
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype(np.float32)}
    assert kernel(X).dtype == np.float64


def test_inside_the_callers_jit_all_follows_the_callers_jax():
    kernel = kernels.SquaredExponential(0.5)
    assert jax.jit(lambda X: kernel.gram(kernel.local(X)))(jnp.asarray(X)).dtype == np.float32
    assert importlib.import_module("spectrogp") is sg  # importing the library switches nothing
    assert jnp.zeros(()).dtype == np.float32
