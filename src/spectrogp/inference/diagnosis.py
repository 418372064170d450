"""What the draws of chains are worth for each thing that is read off them: predictions and functions at inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core import entry_point, plain_inputs
from ..posterior import Outputs, Posterior
from .diagnostics import CONVERGED_RHAT, WORTH, bulk_ess, energy_fraction, rhat, statistics_complaints, tail_ess

_READINGS = ("frequency", "amplitude", "lengthscale")  # of ``LocalDraws``


class ReadingCheck(NamedTuple):
    """One reading, at the input where it is worst.

    Args:
        reading: "prediction", "frequency", "amplitude" or "lengthscale".
        component: Its number, from 1 on; None for predictions.
        place: The input ``[d]`` where R-hat is largest.
        rhat: The largest R-hat over inputs.
        bulk: The least number of independent draws that these are worth for means.
        tail: The same for the ends of bands.
        chains: Number of chains.
    """

    reading: str
    component: int | None
    place: np.ndarray
    rhat: float
    bulk: float
    tail: float
    chains: int

    @property
    def passed(self) -> bool:
        """Whether chains agree, and the draws are worth 100 a chain."""
        return self.rhat < CONVERGED_RHAT and min(self.bulk, self.tail) > WORTH * self.chains

    @property
    def name(self) -> str:
        return self.reading if self.component is None else f"{self.reading} {self.component}"

    def __str__(self) -> str:
        if self.passed:
            return f"{self.name}: R-hat {self.rhat:.3f}, worth {min(self.bulk, self.tail):.0f} independent draws"
        place = ", ".join(f"{x:.4g}" for x in np.atleast_1d(self.place))
        said = f"{self.name} is not to be trusted near x = {place}: R-hat is {self.rhat:.3g}"
        if not self.rhat < CONVERGED_RHAT:
            return f"{said}, and should be below {CONVERGED_RHAT}; warm up longer, or draw more"
        return (
            f"{said}, but the draws are worth {min(self.bulk, self.tail):.0f} independent ones, and should be worth "
            f"{WORTH * self.chains}; draw more"
        )


class Diagnosis(NamedTuple):
    """What the draws of a posterior are worth; print it.

    Args:
        chains: Number of chains; 0 where the draws are independent, or a single one, and there is nothing to converge.
        draws: Draws of each chain.
        checks: Of every reading; none where there are no chains.
        divergences: Trajectories that diverged.
        energy: The least, over chains, of the energy fraction (E-BFMI); None for a sampler that has none.
        complaints: What is wrong with the chains as such, each with a remedy.
    """

    chains: int
    draws: int
    checks: tuple[ReadingCheck, ...]
    divergences: int
    energy: float | None
    complaints: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is wrong, each with a remedy."""
        return (*(str(check) for check in self.checks if not check.passed), *self.complaints)

    @property
    def passed(self) -> bool:
        """Whether there is nothing wrong."""
        return not self.sentences

    @property
    def failed(self) -> frozenset[str]:
        """Readings whose bands rest on a failed check."""
        return frozenset(check.reading for check in self.checks if not check.passed)

    def map_places(self, function: Callable[[np.ndarray], np.ndarray]) -> Diagnosis:
        """The same with inputs in other units."""
        return self._replace(checks=tuple(check._replace(place=function(check.place)) for check in self.checks))

    def __str__(self) -> str:
        if not self.chains:
            return f"{self.draws} independent draws of an approximation: there are no chains to converge"
        energy = "" if self.energy is None else f", energy fraction {self.energy:.2f}"
        head = f"{self.chains} chains of {self.draws} draws; {self.divergences} divergences{energy}"
        rows = [f"  {check}" for check in self.checks if check.passed]
        wrong = [f"  warning: {sentence}" for sentence in self.sentences]
        return "\n".join([head, *rows, *wrong])


@entry_point
def diagnose(posterior: Posterior, data: Any, X: ArrayLike) -> Diagnosis:
    """R-hat and effective draws of predictions and of the kernel's functions at inputs; divergences, energy.

    Components are put in a common order first. Each reading is judged where it is worst.

    Args:
        posterior: Draws, as a sampler or an approximation gives them.
        data: What the model was fitted to.
        X: Inputs ``[n, d]``, or ``[n]`` for one input dimension: some are enough.
    """
    chains, draws = posterior.log_joint.shape
    if not posterior.statistics:
        return Diagnosis(0, chains * draws, (), 0, None, ())
    if draws < 4:
        sentence = f"only {draws} draws of each chain were made: too few to say anything of them"
        return Diagnosis(chains, draws, (), 0, None, (sentence,))
    X = plain_inputs(X)
    statistics = posterior.statistics
    return Diagnosis(
        chains,
        draws,
        tuple(_checks(posterior, data, X)),
        int(np.sum(statistics.get("diverging", 0))),
        energy_fraction(statistics["energy"]) if "energy" in statistics else None,
        tuple(statistics_complaints(statistics)),
    )


def _checks(posterior: Posterior, data: Any, X: np.ndarray) -> Iterator[ReadingCheck]:
    chains, draws = posterior.log_joint.shape
    prepared = posterior.most_probable().prepare(data, X)
    mean = np.asarray(posterior.map(Outputs(prepared, X, 0.0)).function.mean)
    yield from _check("prediction", None, mean[..., None], X)
    local = posterior.relabelled(X).local_functions(X, max_draws=chains * draws)
    for reading in _READINGS:
        values = getattr(local, reading)
        if values is None:
            continue
        values = np.reshape(values, (chains, draws, *values.shape[1:4], -1))  # [chains, draws, n, a, d]
        for component in range(values.shape[3]):
            yield from _check(reading, component + 1, values[:, :, :, component], X)


def _check(reading: str, component: int | None, values: np.ndarray, X: np.ndarray) -> Iterator[ReadingCheck]:
    """Of values ``[chains, draws, n, d]``; nothing of a reading that is the same in all draws."""
    moving = np.ptp(values, axis=(0, 1)) > 0.0
    if not np.any(moving):
        return
    measures = [np.where(moving, measure(values), neutral) for measure, neutral in _MEASURES]
    place = X[int(np.argmax(np.max(measures[0], axis=-1)))]
    worst = float(np.max(measures[0])), float(np.min(measures[1])), float(np.min(measures[2]))
    yield ReadingCheck(reading, component, place, *worst, chains=len(values))


_MEASURES: tuple[tuple[Callable[[Any], np.ndarray], float], ...] = (
    (rhat, 1.0),
    (bulk_ess, np.inf),
    (tail_ess, np.inf),
)
