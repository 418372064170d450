"""Do samplers leave the posterior where it is? Geweke's joint-distribution test of every sampler of the library.

Parameters θ and data y have one joint distribution, and there are two ways to draw from it. The marginal-conditional
simulator draws θ from the prior and y from the model, independently each time. The successive-conditional simulator
goes on from where it is: one draw of the sampler given y, then new data given θ. If, and only if, the sampler leaves
p(θ | y) as it is, both have the same moments. Geweke (2004), "Getting it right".

The successive simulator starts with a draw of the first one, so there is no burn-in: each of its steps has the joint
distribution. It runs in independent replicates, and the standard error of a moment is that of the means of these, which
needs no estimate of the autocorrelation; the effective number of draws, which says how much the test can see, is the
variance of a single draw divided by the square of it.

What is tested is ``AbstractSampler.move`` as ``sample`` calls it after the warm-up: with a fixed step size and a fixed
metric, the same for all. Data are drawn by the covariance matrix of the kernel, so this says nothing of the kernel;
``benchmarks.calibration`` does.

SG-HMC never rejects, and its step leaves an error. Its splitting has the exact variance of a normal distribution at any
step (``inference/sghmc.py``). In units of the metric, where the curvature is 1 on average, what is left are terms of
order h² from a curvature that is not constant, with coefficients of 1/8 and less, and heat of ½h²/(1 − c²)/thin =
0.26 h², since half of the last kick that the momentum holds came from the data before. So a difference of h² standard
deviations of a single draw is allowed, which was fixed before the first run, and two step sizes are tried: that of the
estimator, and half of it. Samplers that reject are allowed nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree
from scipy.stats import t as student

from spectrogp.inference import NUTS, SGHMC, AbstractSampler
from spectrogp.inference.nuts import Start
from spectrogp.inference.sampler import Target
from spectrogp.kernels import ConvolutionalSpectral
from spectrogp.models import Data, ExactGP
from spectrogp.parameters import FunctionGroup, LogNormal, Positive, Real, partition

from ..calibration.simulation import without_jacobian
from .trials import Trials

ROLES: Any = ("latent", "hyperparameter")
LEVEL = 1e-3  # probability that a right sampler fails, all moments together (Bonferroni)
X = np.linspace(-1.0, 1.0, 9)[:, None] + 0.04 * np.sin(29.0 * np.arange(9))[:, None]


class Size(NamedTuple):
    """How much is simulated."""

    replicates: int  # of the successive simulator
    steps: int  # of each
    independent: int  # draws of the marginal simulator


FULL, QUICK = Size(100, 1000, 100_000), Size(40, 150, 20_000)


def model() -> ExactGP:
    """A varying frequency, an unknown lengthscale and unknown noise: eight numbers, each with a proper prior.

    The frequency is linear in its values where they are large. As their exponential, the prior would now and then draw
    a curvature of a thousand times the average, where no fixed step is stable.
    """
    Z = np.linspace(-1.0, 1.0, 3)[:, None]
    frequency = FunctionGroup(Z, 3.0, shape=(1, 1), warp="softplus", lengthscale=0.8, amplitude=0.5, mean_std=0.5)
    lengthscale = Positive(0.6, LogNormal(0.6, 0.3))
    noise = Positive(0.5, LogNormal(0.5, 0.25))
    return ExactGP(ConvolutionalSpectral(lengthscale, frequency), noise)


# The joint distribution


def parameters(scores: Array, right: ExactGP) -> Any:
    """Raw parameters from standard normal ``scores [p]``, which make a draw of the prior.

    From the numbers in the priors alone: neither a density nor a Jacobian is used.
    """
    free = partition(right, *ROLES)[0]
    centre, std = _prior(right)
    return _like(free, centre + std * scores)


def _prior(right: ExactGP) -> tuple[Array, Array]:
    """Means and standard deviations ``[p]`` of the raw numbers, which are all normal."""
    nodes = jax.tree.leaves(right, is_leaf=lambda node: isinstance(node, Real | Positive))
    nodes = [node for node in nodes if isinstance(node, Real | Positive)]
    centres = [jnp.log(node.prior.median) if isinstance(node, Positive) else node.prior.mean for node in nodes]
    return _flat(nodes, centres), _flat(nodes, [node.prior.std for node in nodes])


def _flat(nodes: list[Any], values: list[Any]) -> Array:
    shaped = [jnp.broadcast_to(value, jnp.shape(node.raw)) for node, value in zip(nodes, values, strict=True)]
    return ravel_pytree(shaped)[0]


def _like(tree: PyTree, numbers: Array) -> Any:
    """The numbers ``[p]`` in the shapes of a tree."""
    return ravel_pytree(tree)[1](numbers)


def outputs(key: Array, free: PyTree, rest: PyTree, noise: Any = 1.0) -> Data:
    """Data given parameters; ``noise`` other than 1 is a fault, for a control."""
    realised = eqx.combine(free, rest).realise()
    data = Data.unchecked(jnp.asarray(X), jnp.zeros(len(X)))
    K = realised.kernel.gram(realised.kernel.local(data.X)) + jnp.diag(noise**2 * realised.likelihood.variance(data))
    return Data.unchecked(data.X, jnp.linalg.cholesky(K) @ jax.random.normal(key, (len(X),)))


class Moments(eqx.Module):
    """What is compared, ``[q]``.

    Of every raw number, in units of its prior, the first two moments; of the data their mean, square and lagged
    product; of both together the square of the data times the log noise, and the log joint density.
    """

    right: ExactGP

    def __call__(self, free: PyTree, data: Data) -> Array:
        whole = eqx.combine(free, partition(self.right, *ROLES)[1])
        centre, std = _prior(self.right)
        scores, y = (ravel_pytree(free)[0] - centre) / std, data.y
        of_data = [jnp.mean(y), jnp.mean(y**2), jnp.mean(y[1:] * y[:-1]), jnp.mean(y**2) * whole.likelihood.noise.raw]
        return jnp.concatenate([scores, scores**2, jnp.stack([*of_data, whole.log_joint(data)])])

    def names(self) -> list[str]:
        free = partition(self.right, *ROLES)[0]
        names = [
            jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".raw") + (f"[{i}]" * (leaf.size > 1))
            for path, leaf in jax.tree_util.tree_flatten_with_path(free)[0]
            for i in range(leaf.size)
        ]
        of_data = ["mean of y", "mean of y²", "mean of y(i) y(i+1)", "mean of y² times log noise", "log joint"]
        return [*names, *(f"{name}²" for name in names), *of_data]


@eqx.filter_jit
def independent(key: Array, right: ExactGP, count: int) -> tuple[Array, Array]:
    """Moments ``[count, q]`` by the marginal-conditional simulator, and the mean squared gradient ``[p]`` as a metric.

    The mean of the squared gradient over the joint distribution is that of the curvature of p(θ | y).
    """
    rest, numbers = partition(right, *ROLES)[1], len(_prior(right)[0])
    target, moments = Target(rest, key, key), Moments(right)

    def one(key: Array) -> tuple[Array, Array]:
        of_parameters, of_outputs = jax.random.split(key)
        free = parameters(jax.random.normal(of_parameters, (numbers,)), right)
        data = outputs(of_outputs, free, rest)
        slope = jax.grad(lambda free: target.log_joint(free, data))(free)
        return moments(free, data), ravel_pytree(slope)[0] ** 2

    values, squares = jax.lax.map(one, jax.random.split(key, count), batch_size=500)
    return values, jnp.mean(squares, axis=0)


# How each sampler is held still: with a fixed metric, with what goes on from draw to draw, and with nothing else


class AbstractHeld(eqx.Module):
    """A sampler with one chain, since each replicate has data of its own, and with its settings fixed."""

    sampler: eqx.AbstractVar[AbstractSampler]

    @abstractmethod
    def bias(self) -> float:
        """The difference that is allowed, in standard deviations of a single draw."""

    @abstractmethod
    def momentum(self, key: Array, position: PyTree) -> Any:
        """What goes on beside the position, at the start."""

    @abstractmethod
    def start(self, position: PyTree, curvature: Array) -> Any:
        """What ``begin`` takes."""

    @abstractmethod
    def hold(self, begun: Any, curvature: Array, momentum: PyTree) -> Any:
        """The state that ``begin`` gave, with the metric that the warm-up would find and the momentum of before."""

    @abstractmethod
    def kept(self, state: PyTree) -> Any:
        """What goes on beside the position."""


class HeldNUTS(AbstractHeld):
    """NUTS, or Hamiltonian Monte Carlo: nothing but the position goes on, and nothing is allowed."""

    sampler: NUTS
    step_size: Array = eqx.field(converter=jnp.asarray)

    def bias(self) -> float:
        return 0.0

    def momentum(self, key: Array, position: PyTree) -> Any:
        del key, position

    def start(self, position: PyTree, curvature: Array) -> Any:
        return Start(position, curvature[None] ** -0.5)

    def hold(self, begun: Any, curvature: Array, momentum: PyTree) -> Any:
        del curvature, momentum
        return begun._replace(step_size=jnp.broadcast_to(self.step_size, begun.step_size.shape))

    def kept(self, state: PyTree) -> Any:
        del state


class HeldSGHMC(AbstractHeld):
    """SG-HMC; ``noise`` is the part of the squared gradient that is taken for noise: other than 0 it is a fault."""

    sampler: SGHMC
    noise: Array = eqx.field(default=0.0, converter=jnp.asarray)

    def bias(self) -> float:
        return float(self.sampler.step_size) ** 2

    def momentum(self, key: Array, position: PyTree) -> Any:
        return _like(position, jax.random.normal(key, ravel_pytree(position)[0].shape))

    def start(self, position: PyTree, curvature: Array) -> Any:
        del curvature
        return position

    def hold(self, begun: Any, curvature: Array, momentum: PyTree) -> Any:
        chains, learned = begun
        square = _like(chains.position, curvature)
        tuning = chains.tuning._replace(square=square, noise=jax.tree.map(lambda v: self.noise * v, square))
        return chains._replace(momentum=momentum, tuning=tuning), learned

    def kept(self, state: PyTree) -> Any:
        return state[0].momentum


def held() -> dict[str, AbstractHeld]:
    """All samplers; a step of 1 would be long for a curvature of 1."""
    return {
        "NUTS": HeldNUTS(NUTS(warmup=1, chains=1, doublings=5), 0.6),
        "HMC of five leapfrogs": HeldNUTS(NUTS(warmup=1, chains=1, leapfrogs=5), 0.5),
        "SG-HMC, step 0.1": HeldSGHMC(SGHMC(warmup=1, chains=1, step_size=0.1)),
        "SG-HMC, step 0.05": HeldSGHMC(SGHMC(warmup=1, chains=1, step_size=0.05)),
    }


class Joint(eqx.Module):
    """The successive-conditional simulator.

    Args:
        held: The sampler.
        right: The model that data come from.
        sampled: The model that the sampler is given: the right one, unless a wrong one is to be found out.
        curvature: The metric ``[p]``.
        noise: What the noise of new data is multiplied by: 1, unless the fault is to be found out.
    """

    held: AbstractHeld
    right: ExactGP
    sampled: ExactGP
    curvature: Array
    noise: Array = eqx.field(default=1.0, converter=jnp.asarray)

    @eqx.filter_jit
    def run(self, key: Array, size: Size) -> Array:
        """Moments ``[replicates, steps, q]``."""
        return jax.vmap(lambda key: self._walk(key, size.steps))(jax.random.split(key, size.replicates))

    def _walk(self, key: Array, steps: int) -> Array:
        of_parameters, of_outputs, of_momentum, of_target = jax.random.split(key, 4)
        rest, moments = partition(self.right, *ROLES)[1], Moments(self.right)
        target = Target(partition(self.sampled, *ROLES)[1], of_target, of_target)
        sampler = self.held.sampler

        def step(carry: tuple[Any, Any], index: Array) -> tuple[tuple[Any, Any], Array]:
            position, momentum = carry
            data = outputs(jax.random.fold_in(of_outputs, index), _first(position), rest, self.noise)
            begun = sampler.begin(target, self.held.start(position, self.curvature), data)
            state = self.held.hold(begun, self.curvature, momentum)
            state, draw = sampler.move(target, state, index, data)  # from 1 on: the warm-up, of one draw, is over
            # The same data as before the move: (θ, y) has the joint distribution now as well.
            return (draw.position, self.held.kept(state)), moments(_first(draw.position), data)

        scores = jax.random.normal(of_parameters, self.curvature.shape)
        position = jax.tree.map(lambda leaf: leaf[None], parameters(scores, self.right))
        start = position, self.held.momentum(of_momentum, position)
        return jax.lax.scan(step, start, 1 + jnp.arange(steps))[1]


def _first(chains: PyTree) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], chains)


# The comparison


class Comparison(NamedTuple):
    """Of every moment: its score, its p-value, and the effective number of draws of the successive simulator."""

    score: np.ndarray
    p: np.ndarray
    ess: np.ndarray

    def beyond(self) -> list[int]:
        """Numbers of the moments that differ."""
        return [i for i, p in enumerate(self.p) if not p * len(self.p) > LEVEL]  # so does one that is not a number


def compare(marginal: np.ndarray, joint: np.ndarray, bias: float) -> Comparison:
    """Are means of ``marginal [n, q]`` and of ``joint [replicates, steps, q]`` equal but for ``bias`` deviations?"""
    means, deviation = np.mean(joint, axis=1), np.std(marginal, axis=0)
    of_joint = np.std(means, axis=0, ddof=1) / np.sqrt(len(means))
    error = np.hypot(of_joint, deviation / np.sqrt(len(marginal)))
    difference = np.mean(means, axis=0) - np.mean(marginal, axis=0)
    score = np.sign(difference) * np.maximum(np.abs(difference) - bias * deviation, 0.0) / error
    return Comparison(score, 2.0 * student.sf(np.abs(score), len(means) - 1), (deviation / of_joint) ** 2)


def section(quick: bool, seed: int, place: Path) -> Iterator[Trials]:
    """The joint-distribution test of every sampler, and of faults that it must see."""
    del place
    size = QUICK if quick else FULL
    with jax.enable_x64(True):
        right = jax.tree.map(jnp.asarray, model())
        of_marginal, *keys = jax.random.split(jax.random.key(seed), 8)
        marginal, curvature = independent(of_marginal, right, size.independent)
        names = Moments(right).names()

        def compared(held: AbstractHeld, sampled: ExactGP = right, noise: float = 1.0) -> Comparison:
            joint = Joint(held, right, sampled, curvature, noise).run(keys.pop(), size)
            return compare(np.asarray(marginal), np.asarray(joint), held.bias())

        samplers = held()
        for name, one in samplers.items():
            found = compared(one)
            yield Trials(
                f"joint-distribution test (Geweke 2004) of {name}",
                "moments of parameters and data agree"
                + f", but for {one.bias():g} standard deviations" * (one.bias() > 0),
                len(names),
                tuple(f"{names[i]} differs by {found.score[i]:+.1f} standard errors" for i in found.beyond()),
                f"scores from {np.min(found.score):+.1f} to {np.max(found.score):+.1f}; worth {np.min(found.ess):.0f} "
                f"to {np.max(found.ess):.0f} independent draws",
            )
        # The random kicks have the variance 1 − c² − ((1 + c)/2)² h² noise, which is a tenth less than 1 − c².
        cold = eqx.tree_at(lambda one: one.noise, samplers["SG-HMC, step 0.1"], jnp.asarray(0.1 * 0.19 / 0.095**2))
        faults = {
            "a density without the Jacobian of the noise": (samplers["NUTS"], without_jacobian(right), 1.0),
            "data with 10 % more noise": (samplers["NUTS"], right, 1.1),
            "SG-HMC with kicks of 10 % less variance": (cold, right, 1.0),
        }
        for name, arguments in faults.items():
            found = compared(*arguments)
            worst = int(np.argmax(np.abs(found.score)))
            seen = f"{names[worst]} differs by {found.score[worst]:+.1f} standard errors"
            missed = () if found.beyond() else (f"not seen: {seen}, the most",)
            yield Trials(f"the same test with a fault: {name}", "the test sees it", 1, missed, seen)
