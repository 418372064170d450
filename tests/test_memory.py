"""What memory cannot hold is refused before any work, and the estimates are those of the compiled programs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spectrogp as sg
from spectrogp.core import available_memory, linalg, memory
from spectrogp.estimator import fitting
from spectrogp.models import CollapsedGP, Data, ExactGP
from spectrogp.models import memory as of_models
from spectrogp.parameters import partition
from spectrogp.posterior import Posterior

KERNEL = sg.kernels.SquaredExponential(sg.Positive(1.0, sg.LogNormal(1.0, 1.0)))
NOISE = sg.Positive(0.1, sg.LogNormal(0.1, 1.0))


@pytest.fixture
def little(monkeypatch):
    """Eight gibibytes."""
    monkeypatch.setattr(memory, "available_memory", lambda: 8.0 * 2**30)


def rows(count):
    X = np.linspace(0.0, 1.0, count)[:, None]
    return Data(X, X[:, 0])


def test_a_limit_of_the_process_counts():
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35)); \
from spectrogp.core import available_memory; print(available_memory() < 2**35)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "True\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems tell less")
def test_what_is_available_is_less_than_there_is():
    assert 2**28 < available_memory() < 2**50


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"approximation": "exact"},
            "an exact model of 200000 rows would take about 1.75 TiB of memory, and 8 GiB are",
        ),
        (
            {"approximation": "sgpr", "n_inducing": 2000},
            "2000 inducing points for 200000 rows at once .* use minibatches",
        ),
        (
            {"approximation": "neighbours", "n_neighbours": 2000},
            "the search for 2000 neighbours of 200000 rows .* use inducing points",
        ),
    ],
)
def test_a_fit_that_is_too_large_is_refused_before_it_begins(monkeypatch, settings, message):
    monkeypatch.setattr(fitting, "find_initial_values", lambda *_, **__: pytest.fail("it began"))
    data = rows(200_000)
    with pytest.raises(MemoryError, match=message):
        sg.SpectralGPRegressor(**settings).fit(data.X, data.y)


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(
    "call",
    [
        lambda data: ExactGP(KERNEL, NOISE).log_joint(data),
        lambda data: ExactGP(KERNEL, NOISE).predict(data, data.X[:3]),
        lambda data: ExactGP(KERNEL, NOISE).draw(rows(3), data.X, key=0),
        lambda data: ExactGP(KERNEL, NOISE).covariance(rows(3), data.X),
        lambda data: Posterior.at_point(ExactGP(KERNEL, NOISE)).covariance(rows(3), data.X),
        lambda data: CollapsedGP(KERNEL, NOISE, data.X[:1000]).log_joint(data),
        lambda data: sg.inference.maximise(ExactGP(KERNEL, NOISE), data, steps=1, key=0),
        lambda data: KERNEL(data.X),
    ],
)
def test_models_refuse_too(call):
    with pytest.raises(MemoryError, match=r"would take about .* of memory, and 8 GiB are available: \w+"):
        call(rows(100_000))


@pytest.mark.usefixtures("little")
def test_what_fits_is_done():
    assert np.isfinite(ExactGP(KERNEL, NOISE).log_joint(rows(10)))


def planned(model, data):
    """Bytes that XLA plans for a gradient of the log joint density, beside its arguments."""
    free, rest = partition(model, "latent", "hyperparameter")
    with jax.enable_x64(True):
        slope = jax.jit(jax.value_and_grad(lambda free: eqx.combine(free, rest).log_joint(data)))
        return slope.lower(jax.tree.map(jnp.asarray, free)).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("count", [700, 1400])
def test_the_estimates_are_what_is_planned(count):
    """From above, and by no more than half."""
    exact = of_models._EXACT * count**2 * 8.0
    assert 0.5 * exact < planned(ExactGP(KERNEL, NOISE), rows(count)) < exact
    inducing = np.linspace(0.0, 1.0, 100)[:, None]
    collapsed = of_models._COLLAPSED * count * 100 * 8.0
    assert 0.3 * collapsed < planned(CollapsedGP(KERNEL, NOISE, inducing), rows(count)) < collapsed


def parts(count):
    """Operations in the program of a density of so many rows, wherever they are nested."""

    def counted(jaxpr):
        inner = [value for equation in jaxpr.eqns for value in jax.tree.leaves(equation.params, is_leaf=is_program)]
        return len(jaxpr.eqns) + sum(counted(getattr(part, "jaxpr", part)) for part in inner if is_program(part))

    def is_program(value):
        return isinstance(value, jax.extend.core.ClosedJaxpr | jax.extend.core.Jaxpr)

    slope = jax.value_and_grad(linalg.gaussian_log_density, argnums=1)
    y, K = jax.ShapeDtypeStruct((count,), jnp.float32), jax.ShapeDtypeStruct((count, count), jnp.float32)
    return counted(jax.make_jaxpr(slope)(y, K).jaxpr)


def test_programs_do_not_grow_with_the_rows():
    assert parts(2_048) == parts(20_000) == parts(200_000)


SEARCH = """
import numpy as np
import spectrogp as sg
from benchmarks.measure import peak_memory
rng, m = np.random.default_rng(0), 20
model = sg.models.NeighbourGP(sg.kernels.SquaredExponential(sg.Positive(np.array([0.3, 0.3]))), 0.1)

def peak(count):
    X = rng.uniform(size=(count, 2))
    sg.models.Refresh(sg.Data(X, X[:, 0]), m)(model)
    return peak_memory() * 2**20  # that of getrusage would have the parent's in it

small = peak(500)
print((peak(50_000) - small) / (50_000 * (m + 1) * 8))
"""


@pytest.mark.slow
def test_the_estimate_of_neighbours_is_what_their_search_takes():
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", SEARCH], capture_output=True, text=True, check=True, cwd=root)  # noqa: S603
    assert 0.5 * of_models._NEIGHBOURS < float(done.stdout) < 1.3 * of_models._NEIGHBOURS


@pytest.mark.skipif("glibc" not in platform.libc_ver()[0], reason="memory of glibc")
def test_a_worker_reuses_the_memory_that_dask_would_have_given_back():
    """A hundred arrays of a megabyte, one after the other, need their 256 pages once and not a hundred times."""
    code = """
import resource, sys
import numpy as np
from spectrogp.core import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
np.ones(2**17)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    np.ones(2**17)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}

    def faults(how):
        words = [sys.executable, "-c", code, how]
        return int(subprocess.run(words, env=environment, capture_output=True, check=True).stdout)  # noqa: S603

    assert faults("given back") > 100 * 200
    assert faults("kept") < 2 * 256
