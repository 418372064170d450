"""Reference posteriors of small data sets, and every way of inference against them.

``python -m benchmarks.posteriors --out DIR`` writes ``*.json`` and ``methods.md`` into ``results/posteriors`` below it.

The reference is a long run of NUTS. An independent method must agree with it: tempered sequential Monte Carlo, from the
prior to the posterior, written here in a few lines, with Hamiltonian moves of its own. Compared are readings: the
frequency, the amplitude and the prediction at some inputs, and the noise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from threadpoolctl import threadpool_limits

import spectrogp as sg
from spectrogp.files import replace_file, write_json
from spectrogp.inference import (
    NUTS,
    SGHMC,
    Adam,
    Run,
    bulk_ess,
    maximise,
    mean_error,
    rhat,
    sample,
    sample_laplace,
    sample_variational,
)
from spectrogp.models import Data, DoublyStochasticGP, ExactGP
from spectrogp.parameters import FunctionGroup, Positive, log_prior, partition
from spectrogp.posterior import Outputs, Posterior

from .measure import Clock


class Effort(NamedTuple):
    """How long everything runs."""

    rows: int = 40
    steps: int = 400  # of Adam, to the optimum
    warmup: int = 1000
    draws: int = 6000  # of each of four chains of the reference
    particles: int = 3000
    moves: int = 6  # of every particle at each temperature
    short: int = 250  # draws of each chain of the methods


QUICK = Effort(rows=12, steps=10, warmup=12, draws=12, particles=40, moves=1, short=8)
PLACES = np.array([-0.8, -0.3, 0.2, 0.7])
BAND = 0.05, 0.95
OF_FUNCTIONS = ("Laplace, functions", "DS-VI")  # ways that approximate functions, and need some
LEAPS = 8  # of a Hamiltonian move of a particle, at most


class Problem(NamedTuple):
    """Data, the model of them, and what they are."""

    data: Data
    model: ExactGP
    about: str


def problems(rows: int) -> dict[str, Problem]:
    """A chirp, two tones, and a pulse whose noise grows, as the motorcycle data have it."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1.0, 1.0, rows))
    Z, e = np.linspace(-1.0, 1.0, 4)[:, None], rng.normal(size=(3, rows))

    def group(initial: Any, shape: tuple[int, ...], **settings: Any) -> FunctionGroup:
        return FunctionGroup(Z, initial, shape=shape, lengthscale=0.8, mean_std=0.3, **settings)

    chirp = sg.kernels.ConvolutionalSpectral(
        group(0.6, (1, 1), amplitude=0.3), group(2 * np.pi * 1.6, (1, 1), amplitude=0.3), group([1.0], (1,))
    )
    tones = sg.kernels.SpectralMixture(
        Positive.around(np.array([[1.0], [1.0]])),
        Positive.around(2 * np.pi * np.array([[1.0], [2.6]]), 0.3),
        Positive.around(np.array([0.7, 0.5])),
    )
    pulse = sg.kernels.SquaredExponential(Positive.around(0.3), Positive.around(1.0))
    signals = {
        "chirp": (np.cos(2 * np.pi * (1.5 * x + 0.4 * x**2)) + 0.2 * e[0], chirp, Positive.around(0.2)),
        "two tones": (
            np.cos(2 * np.pi * 1.1 * x) + 0.6 * np.cos(2 * np.pi * 2.5 * x + 1.0) + 0.2 * e[1],
            tones,
            Positive.around(0.2),
        ),
        "pulse": (
            -1.5 * np.exp(-8.0 * x**2) + np.exp(-8.0 * (x - 0.5) ** 2) + 0.1 * np.exp(1.5 * x) * e[2],
            pulse,
            group(0.15, ()),
        ),
    }
    about = {
        "chirp": "one component whose lengthscale, frequency and amplitude are functions (four inducing values each)",
        "two tones": "a spectral mixture of two components",
        "pulse": "a squared exponential with noise that is a function",
    }
    return {name: Problem(Data(x, y), ExactGP(k, noise), about[name]) for name, (y, k, noise) in signals.items()}


class Readings(eqx.Module):
    """Logarithms of frequency, amplitude and noise, and the prediction, at the places: ``[q]``."""

    data: Data
    X: Any

    def __call__(self, model: Any) -> Array:
        model = model.realise()
        seen = sg.local_spectrum(model.kernel, self.X)
        frequency = jnp.abs(seen.frequency[..., 0])
        predicted = Outputs(self.data, self.X, 0.0)(model)
        parts = [0.5 * jnp.log(seen.weight).ravel(), predicted.function.mean]
        if not isinstance(model.kernel, sg.kernels.SquaredExponential):
            parts.append(jnp.log(frequency).ravel())
        return jnp.concatenate([*parts, 0.5 * jnp.log(predicted.output.variance - predicted.function.variance)])


def read(posterior: Posterior, data: Data) -> np.ndarray:
    """``[chains, draws, q]``."""
    return np.asarray(posterior.map(Readings(data, PLACES[:, None])))


# Tempered sequential Monte Carlo


class Tempered(NamedTuple):
    """Particles ``[n, p]`` of the posterior, the temperatures that led there, and the share of accepted moves."""

    particles: np.ndarray
    temperatures: list[float]
    accepted: float


def tempered(model: Any, data: Data, effort: Effort, seed: int) -> Tempered:
    """Particles from the prior, weighted, resampled and moved at rising powers of the likelihood.

    Every power is the highest at which the weights are worth half of the particles. Moves are Hamiltonian, in the
    covariance that the particles have, with a step that is halved or lengthened by the share of accepted moves.
    """
    free, rest = partition(model, "latent", "hyperparameter")
    start, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))
    prior = lambda raw: log_prior(eqx.combine(unravel(raw), rest))  # noqa: E731
    joint = lambda raw: eqx.combine(unravel(raw), rest).log_joint(data, None)  # noqa: E731
    likelihood = jax.jit(lambda raws: jax.lax.map(lambda raw: joint(raw) - prior(raw), raws))
    rng = np.random.default_rng(seed)
    # All priors are normal in raw numbers: one gradient and one curvature tell them.
    slope, precision = jax.grad(prior)(start), -jnp.diagonal(jax.hessian(prior)(start))
    particles = np.asarray(start + slope / precision) + rng.normal(size=(effort.particles, len(start))) / np.sqrt(
        precision
    )

    @jax.jit
    def move(key: Array, raws: Array, power: Array, root: Array, step: Array) -> tuple[Array, Array]:
        density = lambda raw: power * joint(raw) + (1.0 - power) * prior(raw)  # noqa: E731
        value_and_slope = jax.value_and_grad(density)

        def one(pair: tuple[Array, Array]) -> tuple[Array, Array]:
            key, raw = pair
            of_momentum, of_length, of_choice = jax.random.split(key, 3)
            z = jax.random.normal(of_momentum, raw.shape, raw.dtype)
            value, gradient = value_and_slope(raw)

            def leap(_: Array, at: tuple[Array, ...]) -> tuple[Array, ...]:
                raw, z, _, gradient = at
                z = z + 0.5 * step * root.T @ gradient
                raw = raw + step * root @ z
                value, gradient = value_and_slope(raw)
                return raw, z + 0.5 * step * root.T @ gradient, value, gradient

            length = jax.random.randint(of_length, (), 1, LEAPS + 1)
            new, w, reached, _ = jax.lax.fori_loop(0, length, leap, (raw, z, value, gradient))
            gain = reached - 0.5 * w @ w - value + 0.5 * z @ z
            accepted = jnp.log(jax.random.uniform(of_choice)) < gain  # not where it is NaN
            return jnp.where(accepted, new, raw), accepted

        moved, accepted = jax.lax.map(one, (jax.random.split(key, len(raws)), raws))
        return moved, jnp.mean(accepted)

    powers, step, share = [0.0], 0.5, 0.0
    while powers[-1] < 1.0:
        values = np.asarray(likelihood(jnp.asarray(particles)))
        values = np.where(np.isfinite(values), values, -1e300)
        power = _next_power(values, powers[-1])
        weights = np.exp((power - powers[-1]) * (values - np.max(values)))
        chosen = np.searchsorted(
            np.cumsum(weights / np.sum(weights)), (rng.uniform() + np.arange(len(values))) / len(values)
        )
        particles = particles[np.minimum(chosen, len(values) - 1)]
        powers.append(power)
        root = jnp.asarray(np.linalg.cholesky(np.cov(particles.T) + 1e-8 * np.eye(len(start))))
        for _ in range(effort.moves * (3 if power == 1.0 else 1)):
            key = jax.random.key(int(rng.integers(2**31)))
            moved, accepted = move(key, jnp.asarray(particles), jnp.asarray(power), root, jnp.asarray(step))
            particles, share = np.asarray(moved), float(accepted)
            step = float(np.clip(step * (1.15 if share > 0.8 else 0.8 if share < 0.65 else 1.0), 1e-3, 1.5))
    return Tempered(particles, powers, share)


def _next_power(values: np.ndarray, power: float) -> float:
    """The highest at which the weights are worth half of the particles, by bisection."""

    def worth(new: float) -> float:
        weights = np.exp((new - power) * (values - np.max(values)))
        return float(np.sum(weights) ** 2 / np.sum(weights**2))

    low, high = power, 1.0
    if worth(1.0) >= 0.5 * len(values):
        return 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if worth(middle) >= 0.5 * len(values) else (low, middle)
    return high


def read_particles(model: Any, data: Data, particles: np.ndarray) -> np.ndarray:
    free, rest = partition(model, "latent", "hyperparameter")
    _, unravel = ravel_pytree(jax.tree.map(jnp.asarray, free))
    draws = jax.tree.map(np.asarray, jax.vmap(unravel)(jnp.asarray(particles)))
    posterior = Posterior(jax.tree.map(lambda leaf: leaf[None], draws), rest, np.zeros((1, len(particles))), {})
    return read(posterior, data)


# Methods


def methods(effort: Effort) -> dict[str, Callable[[Any, Data], Posterior]]:
    """Ways from a model at its optimum to draws."""
    run, each = Run(chunk=50), effort.short

    def variational(model: Any, data: Data) -> Posterior:
        fit = maximise(DoublyStochasticGP(model), data, steps=3 * effort.steps, key=1, optimiser=Adam(0.03), run=run)
        return sample_variational(fit.model, data, draws=4 * each, key=2)

    def nuts(metric: Any) -> Callable[[Any, Data], Posterior]:
        sampler = NUTS(warmup=each, metric=metric)
        return lambda model, data: sample(sampler, model, data, draws=each, key=5, run=run, warn=False)

    return {
        "Laplace, functions": lambda model, data: sample_laplace(model, data, draws=4 * each, key=3, roles=("latent",)),
        "Laplace, all": lambda model, data: sample_laplace(
            model, data, draws=4 * each, key=3, roles=("latent", "hyperparameter")
        ),
        "DS-VI": variational,
        "SG-HMC": lambda model, data: sample(SGHMC(), model, data, draws=each, key=4, run=run, warn=False),
        "NUTS, diagonal": nuts("diagonal"),
        "NUTS": nuts("dense"),
    }


def compared(values: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Of draws ``[..., q]`` against those of the reference: bias of means, widths, and what bands hold of it."""
    mine, theirs = (part.reshape(-1, part.shape[-1]) for part in (values, reference))
    mean, std = theirs.mean(axis=0), theirs.std(axis=0)
    low, high = np.quantile(mine, BAND, axis=0)
    bias, ratio = np.abs(mine.mean(axis=0) - mean) / std, mine.std(axis=0) / std
    return {
        "bias_median": float(np.median(bias)),
        "bias_largest": float(np.max(bias)),
        "width_median": float(np.median(ratio)),
        "width_smallest": float(np.min(ratio)),
        "width_largest": float(np.max(ratio)),
        "coverage": float(np.mean((theirs >= low) & (theirs <= high))),
    }


def one(name: str, problem: Problem, effort: Effort) -> dict[str, Any]:
    """The reference of one problem, the independent check of it, and all methods."""
    data = problem.data
    best = maximise(problem.model, data, steps=effort.steps, key=0, optimiser=Adam(0.03)).model
    clock = Clock()
    sampler = NUTS(warmup=effort.warmup, acceptance=0.9)
    long = sample(sampler, best, data, draws=effort.draws, key=0, run=Run(chunk=100), warn=False)
    reference, seconds = read(long, data), clock.cpu
    clock = Clock()
    with threadpool_limits(1, "blas"), jax.enable_x64(True):
        found = tempered(best, data, effort, seed=1)
    independent, tempering = read_particles(best, data, found.particles), clock.cpu
    result: dict[str, Any] = {
        "problem": name,
        "about": problem.about,
        "numbers": int(sum(map(np.size, jax.tree.leaves(partition(best, "latent", "hyperparameter")[0])))),
        "effort": effort._asdict(),
        "reference": {
            "mean": reference.mean(axis=(0, 1)).tolist(),
            "std": reference.std(axis=(0, 1)).tolist(),
            "largest_rhat": float(np.max(rhat(reference))),
            "least_ess": float(np.min(bulk_ess(reference))),
            "largest_error_in_std": float(np.max(mean_error(reference) / reference.std(axis=(0, 1)))),
            "divergences": int(np.sum(long.statistics["diverging"])),
            "gradients_a_draw": float(np.mean(long.statistics["n_steps"])),
            "cpu_seconds": seconds,
        },
        "tempered": {
            **compared(independent, reference),
            "temperatures": len(found.temperatures),
            "accepted": found.accepted,
            "cpu_seconds": tempering,
        },
    }
    functions = bool(jax.tree.leaves(partition(best, "latent")[0]))
    for method, way in methods(effort).items():
        if method in OF_FUNCTIONS and not functions:
            continue
        clock = Clock()
        posterior = way(best, data)
        result[method] = {**compared(read(posterior, data), reference), "cpu_seconds": clock.cpu}
        if "n_steps" in posterior.statistics:
            worth, gradients = np.min(bulk_ess(read(posterior, data))), np.sum(posterior.statistics["n_steps"])
            result[method]["ess_per_1000_gradients"] = float(1000.0 * worth / gradients)
    return result


def table(results: list[dict[str, Any]]) -> str:
    """The page of all problems."""
    lines = [
        "# Ways of inference against reference posteriors",
        "",
        "Made by `python -m benchmarks.posteriors --out docs`; the numbers are in the files beside this page.",
        "",
        "The reference is a long run of NUTS (four chains). Tempered sequential Monte Carlo, an independent method",
        "that goes from the prior to the posterior, must agree with it. Readings are logarithms of frequency,",
        "amplitude and noise, and the prediction, at four inputs. *Bias*: distance of the means in posterior standard",
        "deviations, median and largest over readings. *Width*: ratio of standard deviations, least, median and",
        "largest. *Coverage*: share of the reference inside the 90 % band. CPU seconds include compilation.",
    ]
    for each in results:
        r, t = each["reference"], each["tempered"]
        lines += [
            "",
            f"## {each['problem']}",
            "",
            f"{each['about'].capitalize()}; {each['effort']['rows']} rows, {each['numbers']} numbers are sampled.",
            f"Reference: largest R-hat {r['largest_rhat']:.3f}, least effective draws {r['least_ess']:.0f}, "
            f"{r['divergences']} divergences, {r['gradients_a_draw']:.0f} gradients a draw, {r['cpu_seconds']:.0f} s.",
            f"Tempered: {each['effort']['particles']} particles, {t['temperatures']} temperatures, "
            f"{t['accepted']:.0%} of the last moves accepted.",
            "",
            "| way | bias: median, largest | width: least, median, largest | coverage | CPU s | ESS / 1000 gradients |",
            "|---|---|---|---|---|---|",
        ]
        for name in ("tempered", *methods(Effort())):
            if name not in each:
                continue
            m = each[name]
            worth = f"{m['ess_per_1000_gradients']:.2f}" if "ess_per_1000_gradients" in m else ""
            lines.append(
                f"| {name} | {m['bias_median']:.2f}, {m['bias_largest']:.2f} | {m['width_smallest']:.2f}, "
                f"{m['width_median']:.2f}, {m['width_largest']:.2f} | {m['coverage']:.0%} | {m['cpu_seconds']:.0f} | "
                f"{worth} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Ways of inference against reference posteriors.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/posteriors"), help="directory for the page and the numbers"
    )
    parser.add_argument("--quick", action="store_true", help="shows that it runs, proves nothing")
    parser.add_argument("--only", nargs="*", default=None, help="problems to run")
    options = parser.parse_args(arguments)
    effort, results = QUICK if options.quick else Effort(), []
    directory = options.out / "results" / "posteriors"
    directory.mkdir(parents=True, exist_ok=True)
    for name, problem in problems(effort.rows).items():
        if options.only is not None and name not in options.only:
            continue
        results.append(one(name, problem, effort))
        write_json(directory / f"{name.replace(' ', '-')}.json", results[-1])
        sys.stdout.write(f"{name}: {results[-1]['reference']}, {results[-1]['tempered']}\n")
    replace_file(directory / "methods.md", table(results).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
