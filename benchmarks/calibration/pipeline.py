"""Whether bands of the default call hold the truth as often as they say: signals drawn from a prior, and fitted.

``python -m benchmarks.calibration.pipeline --out DIR`` writes its part of ``calibration.md``, a picture, numbers.

A signal is σ(t) [cos φ(t) u(t) + sin φ(t) v(t)] plus normal noise, with functions as the default model has them: the
logarithm of φ′ is a Matérn process of order 11/2, that of the amplitude σ a squared exponential, and u and v, the
envelope, are Matérn processes of order 3/2 that hardly change within the record. Lengthscales, sizes and noise differ
from signal to signal. The frequency is that at which the signal turns, φ′ less the little by which the envelope does:
what this could explain belongs to the frequency (decision 0024). The simulation shares no code with the library, and
the estimator is told nothing.

Of each quantity the share of the posterior below the truth is noted at places all over the record, in its gaps too. A
central band holds the truth where that share is inside of it.
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

import spectrogp as sg
from spectrogp.files import write_json
from spectrogp.plots import COLOURS, STYLE
from spectrogp.posterior import Envelopes, Outputs, moduli

from ..measure import Clock, processor
from .page import write_part

QUANTITIES = ("frequency", "amplitude", "function", "output")
LEVELS = (0.5, 0.8, 0.9, 0.95)
SIGNALS, QUICK = 500, 6
EVERY = 50  # fits after which what there is is written
PLACES = 40
SPAN, STD = 10.0, 10.0 / np.sqrt(12.0)  # of a record, and the standard deviation of times all over it
LEAST = 0.3  # size of an envelope, whose typical one is √2: where it comes near zero there is no frequency
GRID = 400  # places between which functions are interpolated


class Drawn(NamedTuple):
    """A signal, and what is true of it at the places."""

    t: np.ndarray  # [n]
    y: np.ndarray
    places: np.ndarray  # [q]
    truth: np.ndarray  # [quantities, q]
    about: dict[str, float]


def draw(seed: int, number: int) -> Drawn:
    """A signal from the prior.

    It is drawn again where rows at these times could not tell it from a slower one, or its envelope comes near zero.
    """
    rng = np.random.default_rng([seed, number])
    while True:
        drawn = _draw(rng)
        if drawn is not None:
            return drawn


def _draw(rng: np.random.Generator) -> Drawn | None:
    rows = int(np.exp(rng.uniform(np.log(100.0), np.log(400.0))))
    even, gap = bool(rng.uniform() < 0.5), bool(rng.uniform() < 0.25)
    t = np.linspace(0.0, SPAN, rows) if even else np.sort(rng.uniform(0.0, SPAN, rows))
    if gap:
        width = rng.uniform(0.1, 0.25) * SPAN
        start = rng.uniform(0.1 * SPAN, 0.9 * SPAN - width)
        t = t[(t < start) | (t > start + width)]
    cycles = np.exp(rng.uniform(np.log(6.0), np.log(min(60.0, rows / 5.0))))
    smoothness = np.exp(rng.uniform(np.log(max(0.15 * STD, SPAN / cycles)), np.log(2.0 * STD)))
    varies, swells, coherent = np.array([0.15, 0.5, 20.0 * STD]) * np.exp(0.5 * rng.normal(size=3))
    grid = np.linspace(0.0, SPAN, GRID)
    log_frequency = varies * _process(rng, grid, smoothness, eleven_halves)
    log_amplitude = swells * _process(rng, grid, 0.5 * STD, squared_exponential)
    u, v = (_process(rng, grid, coherent, three_halves) for _ in range(2))
    if np.min(np.hypot(u, v)) < LEAST:
        return None
    fine = np.linspace(0.0, SPAN, 20 * GRID)
    frequency = cycles / SPAN * np.exp(CubicSpline(grid, log_frequency)(fine))
    if even and np.max(frequency) > 0.4 * rows / SPAN:
        return None
    phase = 2.0 * np.pi * cumulative_trapezoid(frequency, fine, initial=0.0)
    turn = np.gradient(np.unwrap(np.arctan2(v, u)), grid) / (2.0 * np.pi)  # σ|e| cos(φ − arg e), e = u + iv

    def at(x: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.interp(x, fine, values)

    def function(x: np.ndarray) -> np.ndarray:
        envelope = [np.interp(x, grid, part) for part in (u, v)]
        own = np.exp(CubicSpline(grid, log_amplitude)(x))
        return own * (np.cos(at(x, phase)) * envelope[0] + np.sin(at(x, phase)) * envelope[1])

    size = float(np.sqrt(np.mean(function(fine) ** 2)))
    noise = size * float(np.exp(rng.uniform(np.log(0.05), np.log(0.5))))
    places = np.sort(rng.uniform(0.0, SPAN, PLACES))
    f = function(places)
    truth = np.stack(
        [
            at(places, frequency) - np.interp(places, grid, turn),
            np.exp(CubicSpline(grid, log_amplitude)(places)) * np.hypot(*(np.interp(places, grid, w) for w in (u, v))),
            f,
            f + noise * rng.normal(size=PLACES),
        ]
    )
    about = {
        "rows": len(t),
        "even": float(even),
        "gap": float(gap),
        "cycles": float(cycles),
        "lengthscale": float(smoothness / STD),
        "varies": float(varies),
        "noise": noise / size,
    }
    return Drawn(t, function(t) + noise * rng.normal(size=len(t)), places, truth, about)


def _process(rng: np.random.Generator, x: np.ndarray, lengthscale: float, alike: Any) -> np.ndarray:
    """A draw of a process of variance one, from the eigenvectors of its covariance."""
    values, vectors = np.linalg.eigh(alike(np.abs(x[:, None] - x) / lengthscale))
    return np.asarray(vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(x))))


def squared_exponential(r: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * r**2))


def three_halves(r: np.ndarray) -> np.ndarray:
    """A Matérn correlation of order 3/2."""
    s = np.sqrt(3.0) * r
    return np.asarray((1.0 + s) * np.exp(-s))


def eleven_halves(r: np.ndarray) -> np.ndarray:
    """A Matérn correlation of order 11/2."""
    s = np.sqrt(11.0) * r
    return np.asarray((1.0 + s + 4 / 9 * s**2 + s**3 / 9 + s**4 / 63 + s**5 / 945) * np.exp(-s))


# The fit


def below(drawn: Drawn) -> np.ndarray:
    """The share ``[quantities, q]`` of the posterior of the default call that is below the truth.

    Of several components the strongest counts; where none was found, frequency and amplitude have no share (NaN).
    """
    model = sg.SpectralGPRegressor(random_state=0).fit(drawn.t, drawn.y)
    X = (drawn.places[:, None] - model.X_mean_) / model.X_scale_
    prepared = model.model_.prepare(model.data_, X)
    predicted = model.posterior_.map(Outputs(prepared, X, 0.0))
    shares = np.full((len(QUANTITIES), PLACES), np.nan)
    count = np.count_nonzero(model.initial_values_.found)
    if count:
        found = model.posterior_.local_functions(X, max_draws=model.posterior_.log_joint.size)
        strongest = int(np.argmax(np.mean(found.weight[..., :count], axis=(0, 1))))
        frequency = found.frequency[:, :, strongest, 0] / model.X_scale_[0]
        envelopes = model.posterior_.read(Envelopes(prepared, X))
        amplitude = moduli(*(part[:, :, strongest] for part in envelopes)) * model.y_scale_
        shares[:2] = np.mean(frequency < drawn.truth[0], axis=0), np.mean(amplitude < drawn.truth[1], axis=0)
    inside = (drawn.truth[2:] - model.y_mean_) / model.y_scale_
    for k, moments in enumerate((predicted.function, predicted.output)):
        mean, std = (np.reshape(part, (-1, PLACES)) for part in (moments.mean, np.sqrt(moments.variance)))
        shares[2 + k] = np.mean(ndtr((inside[k] - mean) / std), axis=0)
    return shares


class Coverage(NamedTuple):
    """Share of truths inside central bands ``[levels, quantities]``, and its standard errors over signals."""

    share: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, shares: np.ndarray) -> Coverage:
        """From the shares below the truth, ``[signals, quantities, q]``; what has none is outside of all bands."""
        off = np.where(np.isnan(shares), 1.0, np.abs(2.0 * shares - 1.0))
        each = np.stack([np.mean(off <= level, axis=2) for level in LEVELS])  # [levels, signals, quantities]
        return cls(each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(each.shape[1]))


# What it says


def table(found: Coverage) -> list[str]:
    head = ["band", *QUANTITIES]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for level, share, error in zip(LEVELS, found.share, found.error, strict=True):
        cells = [f"{100 * s:.1f} ± {100 * e:.1f} %" for s, e in zip(share, error, strict=True)]
        lines.append(f"| {level:.0%} | {' | '.join(cells)} |")
    return lines


def picture(shares: np.ndarray) -> Figure:
    """How often bands of every level hold the truth, less the level; shaded: two standard errors."""
    figure = Figure(figsize=(10.0, 2.6), layout="constrained")
    levels = np.linspace(0.0, 1.0, 101)
    off = np.where(np.isnan(shares), 1.0, np.abs(2.0 * shares - 1.0))
    for q, axes in enumerate(figure.subplots(1, len(QUANTITIES), sharey=True)):
        each = np.stack([np.mean(off[:, q] <= level, axis=1) for level in levels], axis=1)  # [signals, levels]
        middle, error = each.mean(axis=0) - levels, each.std(axis=0, ddof=1) / np.sqrt(len(each))
        axes.axhline(0.0, color="0.4", linewidth=0.6, linestyle=":")
        axes.fill_between(levels, middle - 2 * error, middle + 2 * error, color=COLOURS[0], alpha=0.25, linewidth=0)
        axes.plot(levels, middle, color=COLOURS[0], linewidth=1.2)
        axes.set(title=QUANTITIES[q], xlabel="level of the band", xlim=(0.0, 1.0))
        if q == 0:
            axes.set_ylabel("share inside, less the level")
    return figure


def report(shares: np.ndarray, seconds: np.ndarray, signals: list[Drawn], seed: int) -> str:
    """The part of the page."""
    missed = int(np.sum(np.isnan(shares[:, 0, 0])))
    lines = [
        "# Calibration of the default call",
        "",
        f"Made by `python -m benchmarks.calibration.pipeline --seed {seed} --signals {len(shares)} --out docs`.",
        "",
        f"{len(shares)} signals of one component in noise: the logarithm of the frequency is a Matérn process of order",
        "11/2, that of the amplitude a squared exponential, the envelope hardly changes; 100 to 400 rows at even or",
        "random times, a quarter of them with a gap of a tenth to a quarter of the record. From signal to signal",
        "differ the number of cycles (6 to 60), lengthscales, how much the functions vary, and the noise (0.05 to",
        "0.5 of the signal).",
        "Each is fitted by `SpectralGPRegressor(random_state=0).fit(t, y)`, which is told nothing of this.",
        "",
        f"The share of truths inside central bands, at {PLACES} places of each record, in gaps too, with standard",
        "errors over signals. *Frequency*: that at which the signal turns. *Amplitude*: that which it has there, the",
        "modulus of its complex envelope. *Output*: a new noisy value.",
        "",
        *table(Coverage.of(shares)),
        "",
        "![Share inside bands of every level, less the level](images/pipeline.png)",
        "",
        "*Shaded: two standard errors. Below zero bands are too narrow.*",
        "",
        "The 90 % band by kind of signal:",
        "",
        *_by_kind(shares, signals),
        "",
        f"In {missed} of them no oscillation was found (counted as outside of all bands of frequency and amplitude). A",
        f"fit with all readings took {np.median(seconds):.2f} CPU seconds (median, {processor()}; a busy machine), "
        f"spectrogp {sg.__version__}.",
    ]
    return "\n".join(lines) + "\n"


def _by_kind(shares: np.ndarray, signals: list[Drawn]) -> list[str]:
    def cut(name: str, *edges: float) -> np.ndarray:
        return np.digitize([signal.about[name] for signal in signals], edges)

    kinds = {
        "even times": cut("even", 0.5) == 1,
        "random times": cut("even", 0.5) == 0,
        "with a gap": cut("gap", 0.5) == 1,
        "frequency varies by less than 0.1": cut("varies", 0.1) == 0,
        "by more than 0.25": cut("varies", 0.25) == 1,
        "its lengthscale is below a third of the standard deviation of the times": cut("lengthscale", 1 / 3) == 0,
        "above this": cut("lengthscale", 1.0) == 1,
        "noise below 0.1": cut("noise", 0.1) == 0,
        "above 0.3": cut("noise", 0.3) == 1,
    }
    lines = [f"| signals | | {' | '.join(QUANTITIES)} |", "|---" * (2 + len(QUANTITIES)) + "|"]
    for kind, chosen in kinds.items():
        if np.sum(chosen) > 1:
            found, level = Coverage.of(shares[chosen]), LEVELS.index(0.9)
            cells = [
                f"{100 * s:.0f} ± {100 * e:.0f} %" for s, e in zip(found.share[level], found.error[level], strict=True)
            ]
            lines.append(f"| {kind} | {np.sum(chosen)} | {' | '.join(cells)} |")
    return lines


def write(out: Path, seed: int, signals: list[Drawn], shares: np.ndarray, seconds: np.ndarray) -> None:
    """The part of the page, its picture and its numbers, at their places below ``out``."""
    for directory in (out / "images", out / "results" / "calibration"):
        directory.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        picture(shares).savefig(out / "images" / "pipeline.png")
    write_part(out / "calibration.md", "default call", report(shares, seconds, signals, seed))
    found = Coverage.of(shares)
    off = np.where(np.isnan(shares), 1.0, np.abs(2.0 * shares - 1.0))
    inside = {name: np.mean(off[:, q] <= 0.9, axis=1).round(3).tolist() for q, name in enumerate(QUANTITIES)}
    content = {
        "seed": seed,
        "python": platform.python_version(),
        "spectrogp": sg.__version__,
        "processor": processor(),
        "quantities": QUANTITIES,
        "levels": LEVELS,
        "share": found.share.round(4).tolist(),
        "error": found.error.round(4).tolist(),
        "signals": [signal.about for signal in signals],
        "inside_90": inside,
        "seconds": seconds.round(2).tolist(),
    }
    write_json(out / "results" / "calibration" / "pipeline.json", content)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Coverage of the bands of the default call.")
    parser.add_argument("--out", type=Path, default=Path("out/sbc"), help="directory for the page")
    parser.add_argument("--quick", action="store_true", help="few signals: shows that it runs, proves nothing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--signals", type=int, default=None, help=f"how many, {SIGNALS} by default")
    options = parser.parse_args(arguments)
    count = options.signals or (QUICK if options.quick else SIGNALS)
    sg.cache_compilations()
    signals, shares, seconds = [draw(options.seed, number) for number in range(count)], [], []
    for done, signal in enumerate(track(signals, "fits"), start=1):
        clock = Clock()
        shares.append(below(signal))
        seconds.append(clock.cpu)
        if done % EVERY == 0 or done == count:  # what there is of a run that is stopped is written
            write(options.out, options.seed, signals[:done], np.stack(shares), np.array(seconds))
    sys.stdout.write("\n".join(table(Coverage.of(np.stack(shares)))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
