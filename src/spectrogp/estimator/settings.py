"""The parameters of the estimator, checked, and what follows from them for given data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..choices import APPROXIMATIONS, INFERENCES, KERNELS, LIKELIHOODS, TRANSFORMS
from ..core import as_numbers, at_least
from ..inference import Progress, progress_bar
from ..initialise import kernel_name
from ..kernels import AbstractKernel

EXACT = 2000  # rows up to which ``approximation="auto"`` is exact
LINEAR_TIME = ("laplace", "map", "nuts")  # what the Markov model of one input can be inferred by
COMPARABLE = 100  # rows from which on a fifth of them tells models apart
LADDER = ("auto", "exact", "neighbours")  # approximations of the models that a ladder chooses from
BATCH = 1024  # rows of a step on larger data, of the models that take minibatches
DEFAULT_DRAWS = 400  # of the posterior
# Draws of Markov models that predictions average over: each costs as much as a prediction at the optimum. More of them
# where that is little, as in linear time of few rows: forecasts by few differ from seed to seed by what a reader can
# see. Fewer where it is much: the functions of long records are known so well there that draws differ by little beside
# the noise.
MANY_DRAWS, FEW_DRAWS, FEWEST_DRAWS = 1600, 50, 6
ROWS_READ, MOST_ROWS_READ = 600_000, 2_000_000


def draws_read(rows: int) -> int:
    """Draws that predictions of a Markov model average over: half as many for twice the rows: few programs serve."""
    draws = MANY_DRAWS
    for least, most in ((FEW_DRAWS, ROWS_READ), (FEWEST_DRAWS, MOST_ROWS_READ)):
        while draws > least and draws * rows > most:
            draws //= 2
    return draws


@dataclass(frozen=True)
class Settings:
    """The parameters of the estimator, checked."""

    kernel: Any
    n_components: int | None
    inference: str
    approximation: str
    likelihood: str
    random_state: Any
    max_iter: int
    learning_rate: float
    n_starts: int
    n_knots: int
    n_inducing: int
    n_neighbours: int
    n_draws: int | None
    warmup: int
    chains: int
    highest_frequency: Any
    target_transform: str
    verbose: bool

    def __post_init__(self) -> None:
        named = isinstance(self.kernel, str) and self.kernel in KERNELS
        if not named and not isinstance(self.kernel, AbstractKernel):
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, or a kernel object; got {self.kernel!r}")
        closed = {"inference": INFERENCES, "approximation": APPROXIMATIONS, "likelihood": LIKELIHOODS}
        closed["target_transform"] = TRANSFORMS
        for name, known in closed.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}")
        if self.approximation == "markov" and self.kernel not in ("auto", "matern"):
            raise ValueError(
                f"approximation='markov' is for the kernel 'matern' of one input, got kernel={self.kernel!r}; "
                "leave the approximation at 'auto'"
            )
        if self.kernel == "matern":
            able = {"likelihood": ("gaussian",), "inference": LINEAR_TIME, "approximation": ("auto", "markov")}
            for name, taken in able.items():
                if getattr(self, name) not in taken:
                    shown = f"{name}={' or '.join(map(repr, taken))}, got {getattr(self, name)!r}"
                    raise ValueError(f"the kernel 'matern' takes {shown}; the kernel 'phase' takes others")
        if self.likelihood != "gaussian" and self.approximation not in ("auto", "svgp"):
            raise ValueError(
                f"approximation={self.approximation!r} needs Gaussian noise; with likelihood={self.likelihood!r} "
                "leave it at 'auto', or use 'svgp'"
            )
        if self.target_transform == "log" and self.likelihood != "gaussian":
            raise ValueError(
                f"target_transform='log' needs Gaussian noise, got likelihood={self.likelihood!r}: the mean of e to "
                "the power of noise with heavy tails is infinite"
            )
        counts = ("max_iter", "n_inducing", "n_neighbours", "warmup", "chains", "n_starts")
        at_least(1, **{name: getattr(self, name) for name in counts})
        at_least(2, n_knots=self.n_knots)
        for name in ("n_components", "n_draws"):
            if getattr(self, name) is not None:
                at_least(1, **{name: getattr(self, name)})
        for name in ("learning_rate", *(() if self.highest_frequency is None else ("highest_frequency",))):
            if not np.all(as_numbers(getattr(self, name), name) > 0):
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")

    def require_channels(self) -> None:
        """Refuse what several channels cannot be fitted with."""
        able = {
            "kernel": ("auto", "matern"),
            "approximation": ("auto", "markov"),
            "inference": ("laplace", "map"),
            "likelihood": ("gaussian",),
            "target_transform": ("auto", "none"),
        }
        for name, taken in able.items():
            if getattr(self, name) not in taken:
                raise ValueError(
                    f"several channels, y [n, c], take {name}={' or '.join(map(repr, taken))}, "
                    f"got {getattr(self, name)!r}; fit them one by one"
                )

    def require_logarithms(self, y: np.ndarray, dimensions: int) -> None:
        """Refuse logarithms of outputs, where they are asked for and there are none."""
        if self.target_transform != "log":
            return
        if dimensions > 1:
            raise ValueError(
                f"target_transform='log' is for one input, got {dimensions}: give the logarithms of the outputs as y"
            )
        low = int(np.argmin(y))
        if y[low] <= 0.0:
            raise ValueError(
                f"target_transform='log' needs outputs above zero, and row {low} has {y[low]:.6g}: leave out rows that "
                "mean that nothing was measured, or take 'none'"
            )

    def kernel_for(self, dimensions: int) -> Any:
        """The kernel that is used for so many inputs: its name, or itself."""
        if not isinstance(self.kernel, str):
            return self.kernel
        # What the Markov model cannot do is done by the exact one of the other phase kernel.
        able = self.likelihood == "gaussian" and self.inference in LINEAR_TIME
        if self.kernel == "auto" and dimensions == 1 and able and self.approximation in ("auto", "markov"):
            return "matern"
        if dimensions > 1 and (self.kernel == "matern" or self.approximation == "markov"):
            raise ValueError(
                f"the kernel 'matern' and approximation='markov' are for one input, got {dimensions}; "
                "leave both at 'auto'"
            )
        return kernel_name(self.kernel, dimensions)

    def climbs(self, rows: int, dimensions: int) -> bool:
        """Whether the model is chosen by a ladder: of several inputs and enough rows, where nothing else is asked."""
        able = self.likelihood == "gaussian" and self.inference in ("laplace", "map")
        asked = self.kernel != "auto" or self.approximation not in LADDER
        return dimensions > 1 and rows >= COMPARABLE and able and not asked

    def approximation_for(self, rows: int, dimensions: int) -> str:
        """The approximation that is used for so many rows and inputs."""
        if self.approximation != "auto":
            return self.approximation
        if self.kernel_for(dimensions) == "matern":
            return "markov"
        if self.likelihood != "gaussian":
            return "svgp"
        return "exact" if rows <= EXACT else "neighbours"

    def predictions_for(self, rows: int, dimensions: int) -> str:
        """Whether predictions mix over the "draws" of the posterior, or are those of the "optimum".

        Of many rows with neighbours, a prediction costs as much as thousands of pairs for every draw, and the posterior
        is narrow: few draws would only add their own noise.
        """
        large = self.approximation_for(rows, dimensions) == "neighbours" and rows > EXACT
        return "optimum" if self.inference == "map" or (large and self.inference == "laplace") else "draws"

    def batch_for(self, rows: int, dimensions: int) -> int | None:
        """Rows of a minibatch, or None for all."""
        minibatches = self.approximation_for(rows, dimensions) in ("neighbours", "svgp")
        return BATCH if minibatches and rows > BATCH else None

    def draws_for(self, rows: int, dimensions: int) -> int:
        """Draws of the posterior: more of them where each costs little, so that seeds tell less."""
        if self.n_draws is not None:
            return self.n_draws
        along = self.approximation_for(rows, dimensions) == "markov" and self.inference == "laplace"
        return max(DEFAULT_DRAWS, draws_read(rows)) if along else DEFAULT_DRAWS

    @contextmanager
    def progress(self, description: str) -> Iterator[Progress | None]:
        """A progress bar, if they are wanted."""
        if not self.verbose:
            yield None
            return
        with progress_bar(description) as progress:
            yield progress
