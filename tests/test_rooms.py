"""The package is a row of rooms: imports go one way, through a room's face; and the package itself loads quickly."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import spectrogp as sg
from spectrogp import loading

SOURCE = Path(sg.__file__).parent

# A file may import from rooms to the left of its own, and from their faces (``core``, not ``core.linalg``) alone.
# ``spectrogp`` itself only names things, and loads them when they are used.
ROOMS = [
    "choices",
    "files",
    "core",
    "processes",
    "parameters",
    "kernels",
    "spectra",
    "models",
    "posterior",
    "inference",
    "large",
    "initialise",
    "plots",
    "datasets",
    "estimator",
    "loading",
    "many",
    "experiments",
    "cli",
]
LONGEST = 400  # lines of a file


def module_name(path, source=SOURCE):
    """``kernels/base.py`` is ``kernels.base``, ``kernels/__init__.py`` is ``kernels``, the package itself is ''."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
every_module = pytest.mark.parametrize("module", [module for module in PATHS if module])


def room(module):
    return module.split(".")[0]


def listed(module):
    """The names in ``__all__`` of a room, read without importing it."""
    nodes = ast.parse(PATHS[module].read_text()).body if module in PATHS else []
    lists = [node.value for node in nodes if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    return ast.literal_eval(lists[0]) if module and lists else []


class Imported(NamedTuple):
    """A module of this package that is imported, and the name that is taken from it ('' for the module itself)."""

    module: str
    name: str


def imports(module, path, modules=frozenset(PATHS)):
    """What a module imports from this package, anywhere in its text: inside functions too."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".") for alias in node.names]
            found |= {Imported(rest, "") for first, _, rest in names if first == "spectrogp"}
        elif isinstance(node, ast.ImportFrom):
            start = (node.module or "").split(".") if node.module else []
            if node.level:
                start = [*package[: len(package) - node.level + 1], *start]
            elif start[0] != "spectrogp":
                continue
            else:
                start = start[1:]
            for alias in node.names:
                # ``from . import base`` imports a module, ``from .base import Sum`` a name of one.
                face, whole = ".".join(start), ".".join([*start, alias.name])
                # ``from ..plots import overview`` is the function that the face exports, not the file it is in.
                exported = room(face) != room(module) and alias.name in listed(face)
                found.add(Imported(whole, "") if whole in modules and not exported else Imported(face, alias.name))
    return found


def wrong(module, found):
    """Why what a module imports from other rooms is wrong, in words."""
    own = ROOMS.index(room(module))
    for other, name in sorted(found):
        if other == "":
            if name != "__version__":
                yield f"{name or 'the package'}: import it from its room, since the package's own names load everything"
        elif room(other) == room(module):
            continue
        elif other not in ROOMS:
            yield f"{other}: import from {room(other)}, the face of that room"
        elif name.startswith("_"):
            yield f"{other}.{name} is private"
        elif ROOMS.index(other) >= own:
            yield f"{other} is not to the left of {room(module)}"
        elif room(module) == "files":
            yield f"{other}: files stands alone"


def cycle(graph):
    """A cycle in a graph of names, or None."""
    done = set()

    def walk(node, trail):
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in done:
            return None
        found = next(filter(None, (walk(other, [*trail, node]) for other in sorted(graph.get(node, ())))), None)
        done.add(node)
        return found

    return next(filter(None, (walk(node, []) for node in sorted(graph))), None)


def graph_of(name):
    """Which files of a room import which others; the face imports them all, and may be imported by none."""
    files = [module for module in PATHS if room(module) == name]
    return {file: {other for other, _ in imports(file, PATHS[file]) if room(other) == name} for file in files}


def test_every_module_is_in_a_room():
    assert {room(module) for module in PATHS if module} == set(ROOMS), "put a new room into ROOMS, in its place"


@every_module
def test_imports_go_one_way_and_through_faces(module):
    assert list(wrong(module, imports(module, PATHS[module]))) == []


@pytest.mark.parametrize("name", ROOMS)
def test_no_room_has_a_cycle_of_imports(name):
    assert cycle(graph_of(name)) is None


def test_files_imports_nothing_of_the_library_but_the_version():
    for module, path in PATHS.items():
        if room(module) == "files":
            others = {found for found in imports(module, path) if room(found.module) != "files"}
            assert others <= {Imported("", "__version__")}


def test_rooms_that_are_imported_by_name_are_to_the_left():
    left = ROOMS[: ROOMS.index("loading")]
    assert set(loading.HOMES) <= set(left)


@every_module
def test_files_are_short(module):
    lines = len(PATHS[module].read_text().splitlines())
    assert lines <= LONGEST, f"{lines} lines: usually two ideas, and so two files"


# --- faces ---


@pytest.mark.parametrize("name", [name for name in ROOMS if PATHS[name].name == "__init__.py"])
def test_a_face_lists_what_it_exports(name):
    face = importlib.import_module(f"spectrogp.{name}")
    public = {
        found.name or found.module.split(".")[-1] for found in imports(name, PATHS[name]) if room(found.module) == name
    }
    defined = {
        key
        for key, value in vars(face).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == face.__name__
    }
    names = listed(name)
    assert len(set(names)) == len(names)
    assert names == sorted(names, key=_as_ruff_sorts)
    assert names == list(face.__all__)
    assert public | defined <= set(names)
    for exported in names:
        assert getattr(face, exported, None) is not None, f"{name} has no {exported}"


def _as_ruff_sorts(name):
    """CONSTANTS, then Classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


# --- the checks see what they should ---


def test_the_finder_of_imports_sees_them(tmp_path):
    """All ways to write an import are found."""
    path = tmp_path / "phase.py"
    path.write_text(
        "import numpy, spectrogp.core.linalg\n"
        "from . import base\n"
        "from .. import __version__, plots as pictures\n"
        "from .nonstationary import overlap\n"
        "from ..spectra import wigner\n"
        "from spectrogp.plots import STYLE\n"
        "from spectrogp import cli\n"
        "def late():\n    from ..parameters.fields import vector\n"
    )
    assert imports("kernels.phase", path) == {
        ("core.linalg", ""),
        ("kernels.base", ""),
        ("", "__version__"),
        ("plots", ""),
        ("kernels.nonstationary", "overlap"),
        ("spectra", "wigner"),
        ("plots", "STYLE"),
        ("cli", ""),
        ("parameters.fields", "vector"),
    }
    package = tmp_path / "__init__.py"
    package.write_text("from .base import Sum\nfrom ..parameters import vector\n")
    assert imports("kernels", package) == {("kernels.base", "Sum"), ("parameters", "vector")}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("from ..core.linalg import cholesky", "core.linalg: import from core, the face of that room"),
        ("import spectrogp.core.linalg", "core.linalg: import from core, the face of that room"),
        ("from ..core import _BLOCK", "core._BLOCK is private"),
        ("from ..spectra import wigner", "spectra is not to the left of kernels"),
        ("from spectrogp import cli", "cli is not to the left of kernels"),
        ("from .. import Data", "Data: import it from its room, since the package's own names load everything"),
        ("def late():\n    from ..models import Data", "models is not to the left of kernels"),
    ],
)
def test_wrong_imports_are_found(line, reason, tmp_path):
    path = tmp_path / "phase.py"
    path.write_text(f"from .base import Sum\nfrom ..core import inputs\n{line}\n")
    assert list(wrong("kernels.phase", imports("kernels.phase", path))) == [reason]


def test_cycles_are_found():
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"a"}}) == ["a", "a"]


# --- the package ---


def test_importing_the_package_loads_nothing_heavy():
    heavy = "numpy jax jaxlib equinox scipy sklearn matplotlib pandas pyarrow typer rich"
    code = f"import sys, spectrogp; print([name for name in {heavy.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_public_names_are_found_and_listed():
    listed = set(dir(sg))
    assert set(sg.__all__) <= listed
    assert {"plots", "kernels", "likelihoods", "Band", "TableError", "ModelFileError", "load", "save"} <= listed
    for name in sg.__all__:
        value = getattr(sg, name)
        assert value.__name__.split(".")[-1] == name


def test_no_public_function_has_the_name_of_a_module():
    """Importing the module would hide the function."""
    modules = {module for module in PATHS if module and "." not in module}
    for name in sg.__all__:
        assert isinstance(getattr(sg, name), ModuleType) == (name in modules | {"likelihoods"})
    for name in ROOMS:
        face = importlib.import_module(f"spectrogp.{name}")
        assert not {exported for exported in getattr(face, "__all__", ()) if exported in modules}
