"""``python -m benchmarks.smoke``: what users call, once each on few rows: does it run with the versions installed here?

Whether results are right is for the tests to say. A step that fails is reported, and the next one begins; the exit code
is 1 if any failed. ``make lowest`` runs it with the lowest versions that ``pyproject.toml`` allows.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir
from typing import Any

import spectrogp as sg
from spectrogp.choices import APPROXIMATIONS, INFERENCES, KERNELS, LIKELIHOODS

# Everything else is imported by the steps: an import that fails is a failure of a step, and not of them all.

_ROWS = 48
_FEW: dict[str, Any] = {"inference": "map", "max_iter": 10, "n_starts": 1, "n_components": 1}
_QUICK = "--quick --components 1"
_MAP = f"{_QUICK} --kernel sm --inference map"  # what compiles fastest
_PANELS = ("overview", "fit", "spectrogram", "frequency", "periodogram", "amplitude", "lengthscale")

COMMANDS = (
    "--help",
    *(f"{name} --help" for name in ("fit", "predict", "spectrogram", "demo", "reproduce")),
    *(f"fit data.csv {_QUICK} --inference map --kernel {name} --out {name}" for name in KERNELS),
    # Doubly stochastic inference is of functions, which a spectral mixture has not.
    *(
        f"fit data.csv {_QUICK} --kernel {'nsq' if name == 'dsvi' else 'sm'} --inference {name} --out {name}"
        for name in INFERENCES
    ),
    *(f"fit data.csv {_MAP} --approximation {name} --out {name}" for name in APPROXIMATIONS),
    *(f"fit data.csv {_MAP} --likelihood {name} --out {name}" for name in LIKELIHOODS),
    f"fit plane.csv {_MAP} --x a --x b --y y --error e --out plane",
    "predict phase/model.safetensors data.csv --out prediction.csv",
    "spectrogram phase/model.safetensors --out phase",
    "spectrogram plane/model.safetensors --along b --out plane",
    f"fit times.parquet {_MAP} --x when --y y --out times",
    "predict times/model.safetensors times.parquet --out prediction.parquet",
    "demo --quick --out demo",
    "reproduce fig1 --quick --out figures",
)


# Steps in Python


def tables() -> None:
    """The tables that commands read, as CSV and, where there is pyarrow, as Parquet."""
    import numpy as np

    t, y, _ = sg.datasets.signal("chirp", n=_ROWS)
    when = np.datetime64("2020-01-01") + (86400e6 * t[:, 0]).astype("timedelta64[us]")
    b = np.random.default_rng(0).uniform(size=_ROWS)
    written = {
        "data.csv": {"t": t[:, 0], "y": y},
        "plane.csv": {"a": t[:, 0], "b": b, "y": y, "e": np.full(_ROWS, 0.1)},
        "times.csv": {"when": when, "y": y},
    }
    if _installed("pyarrow"):
        written["times.parquet"] = written["times.csv"]
    for path, table in written.items():
        sg.write_table(path, table)
        for name, column in sg.read_table(path).items():
            np.testing.assert_array_equal(column, table[name])


def kernels_and_spectra() -> None:
    import numpy as np

    k = sg.kernels.ConvolutionalSpectral(0.3, lambda x: 6.0 + x) + 0.5 * sg.kernels.SquaredExponential(0.2)
    x, s = np.linspace(-1.0, 1.0, 20), np.linspace(0.0, 4.0, 10)
    _finite(sg.sample_prior(k, x, key=0), sg.spectrogram(k, x, s), sg.wigner(k, x[:3], s))
    _finite(sg.local_spectrum(k, x).frequency)
    with sg.precision("float32"):
        assert k(x).dtype == np.float32
    assert "lengthscale" in sg.summary(k)


def deep_kernels() -> None:
    import numpy as np

    t, y, _ = sg.datasets.signal("chirp", n=_ROWS)
    Z = np.linspace(-1.5, 1.5, 5)[:, None]
    for kernel in (sg.covariance_layers(Z, depth=2, lengthscale=0.5), sg.compositional_layers(Z, depth=2)):
        _finite(sg.models.ExactGP(kernel, sg.Positive(0.2)).log_joint(sg.Data(t, y)))


def models_optimised_saved_and_loaded() -> None:
    import numpy as np

    from spectrogp.inference import Adam, Run, maximise, maximise_lbfgs, progress_bar

    t, y, _ = sg.datasets.signal("chirp", n=_ROWS)
    data, model = sg.Data(t, y), sg.models.ExactGP(_spectral_mixture(), sg.Positive.around(0.2))
    with progress_bar() as progress:
        run = Run(progress=progress, checkpoint="fit.npz")
        fit = maximise(model, data, steps=5, key=0, optimiser=Adam(learning_rate=0.05), run=run)
    best = maximise_lbfgs(fit.model, data, steps=5).model
    sg.save("gp.safetensors", best, {"of": "a chirp"})
    np.testing.assert_array_equal(sg.load("gp.safetensors").predict(data, t).mean, best.predict(data, t).mean)
    assert sg.load_metadata("gp.safetensors") == {"of": "a chirp"}


def methods_and_panels_of_an_estimator() -> None:
    import numpy as np

    t, y, _ = sg.datasets.signal("chirp", n=_ROWS)
    model = sg.load("laplace/model.safetensors")
    _finite(*model.predict(t, return_std=True), *model.predict(t, return_cov=True), model.sample_y(t))
    _finite(model.log_predictive_density(t, y), *model.decompose(t), *model.instantaneous_frequency(t))
    _finite(*model.spectrogram(t, np.linspace(0.0, 4.0, 10)))
    for panel in _PANELS:
        model.plot(panel).savefig(f"{panel}.png")
    assert "component" in model.summary()
    assert "SpectralGPRegressor" in model._repr_html_()


def estimator_with_a_kernel_object() -> None:
    t, y, _ = sg.datasets.signal("chirp", n=_ROWS)
    model = sg.SpectralGPRegressor(_spectral_mixture(), random_state=0, **_FEW).fit(t, y, 0.1)
    _finite(model.predict(t))


def estimator_in_a_grid_search() -> None:
    from sklearn.model_selection import GridSearchCV

    t, y, _ = sg.datasets.signal("chirp", n=_ROWS)
    estimator = sg.SpectralGPRegressor("se", random_state=0, **_FEW)
    search = GridSearchCV(estimator, {"learning_rate": [0.01, 0.1]}, cv=2, error_score="raise").fit(t, y)
    assert set(search.best_params_) == {"learning_rate"}


def estimator_with_data_frames() -> None:
    import pandas as pd

    t, y, _ = sg.datasets.signal("chirp", n=_ROWS)
    frame = pd.DataFrame({"when": pd.Timestamp("2020-03-01", tz="UTC") + pd.to_timedelta(t[:, 0], unit="D")})
    model = sg.SpectralGPRegressor("sm", random_state=0, **_FEW).fit(frame, pd.Series(y, name="y"))
    assert model.instantaneous_frequency(frame).mean.index.equals(frame.index)


def posterior_and_diagnostics() -> None:
    from spectrogp.inference import check

    model = sg.load("nuts/model.safetensors")
    data, posterior, x = model.data_, model.posterior_, model.data_.X
    _finite(*posterior.predict_output(data, x), posterior.quantiles_output(data, x, (0.05, 0.95)))
    _finite(posterior.draw(data, x, key=0), *posterior.local_frequency(x))
    assert check(posterior)  # of forty draws there is always something to say


def draws_in_arviz() -> None:
    import arviz

    from spectrogp.inference import to_arviz

    assert "mean" in arviz.summary(to_arviz(sg.load("nuts/model.safetensors").posterior_))


def many_signals(out: str = "signals", **where: Any) -> None:
    import numpy as np

    t = np.linspace(0.0, 4.0, _ROWS)
    table = {"station": ["a"] * _ROWS + ["b"] * 2, "t": np.append(t, t[:2]), "y": np.append(np.cos(6.0 * t), t[:2])}
    where = where or {"jobs": 1}
    rows = sg.fit_many(table, by="station", estimator=sg.SpectralGPRegressor("sm", **_FEW), out=out, **where)
    assert [reason is None for reason in rows["failure"].to_pylist()] == [True, False]


def many_signals_by_dask() -> None:
    import distributed

    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        many_signals("signals-by-dask", scheduler=client)


def _spectral_mixture() -> sg.kernels.SpectralMixture:
    return sg.kernels.SpectralMixture(sg.Positive.around(1.0), sg.Positive.around(6.0))


def _finite(*values: Any) -> None:
    import numpy as np

    for value in values:
        assert np.all(np.isfinite(value))


def run(line: str) -> None:
    """One command line."""
    from typer.testing import CliRunner

    from spectrogp.cli import app

    done = CliRunner().invoke(app, shlex.split(line))
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    if done.exit_code:
        raise RuntimeError(done.output)


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


STEPS: dict[str, Callable[[], None]] = {
    "tables": tables,  # first, since commands read them
    **{f"spectrogp {line}": functools.partial(run, line) for line in COMMANDS},
    "kernels and spectra": kernels_and_spectra,
    "deep kernels": deep_kernels,
    "models, optimised, saved and loaded": models_optimised_saved_and_loaded,
    "methods and panels of an estimator": methods_and_panels_of_an_estimator,
    "estimator with a kernel object": estimator_with_a_kernel_object,
    "estimator in a grid search": estimator_in_a_grid_search,
    "estimator with data frames": estimator_with_data_frames,
    "posterior and diagnostics": posterior_and_diagnostics,
    "draws in arviz": draws_in_arviz,
    "many signals, from parquet by processes": many_signals,
    "many signals, from parquet by dask": many_signals_by_dask,
}
NEEDS = {
    "arviz": "arviz",
    "dask": "distributed",
    "frames": "pandas",
    "parquet": "pyarrow",
}  # a word in the name of a step, an extra


def outcome(name: str, step: Callable[[], None]) -> str:
    """What became of a step: "ok", "left out: …", or "FAILED: …" with the last line of the error."""
    missing = [package for word, package in NEEDS.items() if word in name and not _installed(package)]
    if missing:
        return f"left out: needs {missing[0]}"
    try:
        step()
    except Exception as error:
        lines = str(error).split("\n")
        return f"FAILED: {type(error).__name__}: {next(filter(str.strip, reversed(lines)), '')}"
    return "ok"


def main() -> None:
    outcomes = []
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # nearly all of the time is compilation; read when JAX starts
    with tempfile.TemporaryDirectory() as place, chdir(place):
        os.environ["XDG_CACHE_HOME"] = place  # programs compiled by other versions stay out, and these do not stay
        for name, step in STEPS.items():
            start = time.perf_counter()
            outcomes.append(outcome(name, step))
            print(f"{time.perf_counter() - start:5.1f} s  {name}: {outcomes[-1]}", flush=True)
    failed, left_out = (sum(outcome.startswith(word) for outcome in outcomes) for word in ("FAILED", "left out"))
    versions = " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("jax", "equinox", "numpy"))
    print(f"{len(outcomes) - failed - left_out} steps passed, {failed} failed, {left_out} left out ({versions})")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
