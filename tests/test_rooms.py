"""Modules import only from layers to their left, and the package itself loads quickly."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import spectrogp as sg

SOURCE = Path(sg.__file__).parent

# From left to right, which is from top to bottom here: a module may import from rows above its own, and from no other.
# A package stands below its modules; ``spectrogp`` itself only names things, and loads them when they are used.
LAYERS = [
    "numerics compilation ridges",
    "linalg parameters data chunking",
    "functions",
    "likelihoods",
    "kernels.pairwise",
    "kernels.base",
    "kernels.stationary kernels.harmonizable",
    "kernels.nonstationary",
    "kernels.chirplet kernels.phase",
    "kernels",
    "spectra sampling conditioning processes",
    "layers",
    "neighbours",
    "models.base",
    "models.exact models.collapsed models.linear models.variational models.neighbour models.stochastic",
    "models",
    "inference.loop inference.posterior",
    "inference.diagnostics",
    "inference.laplace inference.optimise inference.sghmc inference.nuts",
    "inference parts",
    "initialise",
    "io",
    "tables estimator",
    "plots datasets",
    "reports",
    "commands",
    "experiments.gallery experiments.rows",
    "experiments.fig1 experiments.fig2 experiments.fig3 experiments.fig4",
    "experiments.table1 experiments.chirp experiments.solar experiments.air experiments.taxi",
    "experiments",
    "cli",
]
RANK = {module: rank for rank, row in enumerate(LAYERS) for module in row.split()}


def module_name(path):
    """``kernels/base.py`` is ``kernels.base``, ``kernels/__init__.py`` is ``kernels``, the package itself is ''."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(module, path):
    """The modules of this package that a module imports, anywhere in its text."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "spectrogp"]
            names = [name.partition(".")[2] for name in names]
        elif isinstance(node, ast.ImportFrom):
            start = (node.module or "").split(".") if node.module else []
            if node.level:
                start = [*package[: len(package) - node.level + 1], *start]
            elif start[0] != "spectrogp":
                continue
            else:
                start = start[1:]
            # ``from . import base`` imports a module, ``from .base import Sum`` a name of one.
            names = [".".join([*start, alias.name]) for alias in node.names]
            names = [name if name in PATHS else ".".join(start) for name in names]
        found.update(names)
    return found - {""}


def test_every_module_has_a_layer():
    assert set(PATHS) - {""} <= set(RANK), "put new modules into LAYERS, where their imports go upwards only"


@pytest.mark.parametrize("module", [module for module in PATHS if module])
def test_imports_go_one_way(module):
    wrong = {other for other in imported(module, PATHS[module]) if not RANK[other] < RANK[module]}
    assert not wrong, f"{module} imports {sorted(wrong)}, which are not to its left"


def test_the_check_of_imports_sees_them(tmp_path):
    """All ways to write an import are found."""
    path = tmp_path / "phase.py"
    path.write_text(
        "import numpy, spectrogp.linalg\n"
        "from . import base\n"
        "from .. import __version__, functions as fn\n"
        "from .nonstationary import overlap\n"
        "from ..spectra import wigner\n"
        "from spectrogp.plots import STYLE\n"
        "from spectrogp import cli\n"
        "def late():\n    from ..sampling import sample_prior\n"
    )
    expected = {"linalg", "kernels.base", "functions", "kernels.nonstationary", "spectra", "plots", "cli", "sampling"}
    assert imported("kernels.phase", path) == expected
    package = tmp_path / "__init__.py"
    package.write_text("from .base import Sum\nfrom ..functions import inputs\n")
    assert imported("kernels", package) == {"kernels.base", "functions"}


def test_importing_the_package_loads_nothing_heavy():
    heavy = "jax jaxlib equinox scipy matplotlib typer rich"
    code = f"import sys, spectrogp; print([name for name in {heavy.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_public_names_are_found_and_hidden_by_no_module():
    assert set(sg.__all__) == set(sg._HOME)
    modules = {name.split(".")[0] for name in PATHS if name}
    public_modules = {name for name, home in sg._HOME.items() if name == home}
    assert {name for name in sg._HOME if name in modules} == public_modules
    for name, home in sg._HOME.items():
        assert home in PATHS
        value = getattr(sg, name)
        assert value.__name__ == (f"spectrogp.{name}" if name in public_modules else name)
