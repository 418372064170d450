"""What the package imports is what ``pyproject.toml`` asks for, with bounds and their reasons."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from benchmarks import smoke

from spectrogp import choices

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(TEXT)["project"]
EXTRAS = PROJECT["optional-dependencies"]
NAMED = ("arviz", "dask", "data", "pandas")
OF_USERS = [*PROJECT["dependencies"], *(requirement for name in NAMED for requirement in EXTRAS[name])]
REQUIREMENT = re.compile(r"(?P<name>[a-z0-9-]+)(?P<bounds>([<>=!~]=?[0-9.]+,?)*)")
DISTRIBUTIONS = {"lazy_loader": "lazy-loader", "sklearn": "scikit-learn", "wadler_lindig": "wadler-lindig"}


def imported(path):
    """The first names of all that a file imports from outside, anywhere in its text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def split(requirement):
    found = REQUIREMENT.fullmatch(requirement)
    assert found, f"{requirement}: neither a name nor bounds"
    return found["name"], [bound for bound in found["bounds"].split(",") if bound]


def without_reason(text):
    """Requirements in a file that forbid newer versions, on lines that have no comment and none above them."""
    above = ""
    for line in text.splitlines():
        for requirement in re.findall(r'"([a-z0-9-]+[<>=!~][^"]*)"', line):
            if any(not bound.startswith(">") for bound in split(requirement)[1]) and "#" not in above + line:
                yield requirement
        above = line if line.lstrip().startswith("#") else ""


def test_everything_imported_is_asked_for():
    modules = {name for path in (ROOT / "src").rglob("*.py") for name in imported(path)}
    needed = {DISTRIBUTIONS.get(name, name) for name in modules - set(sys.stdlib_module_names) - {"spectrogp"}}
    assert {split(requirement)[0] for requirement in OF_USERS} == needed


@pytest.mark.parametrize("requirement", OF_USERS)
def test_every_requirement_has_a_lower_bound(requirement):
    name, bounds = split(requirement)
    assert [bound for bound in bounds if bound.startswith(">=")], f"{name} may be of any age"


def test_upper_bounds_have_a_reason():
    assert list(without_reason(TEXT)) == []
    lines = '"a>=1",\n"b<2",\n"c>=1,<2",  # 2 has no f\n# as d 3 has no f\n"d==2",\n"e~=2.0",'
    assert list(without_reason(lines)) == ["b<2", "e~=2.0"]


def test_developers_have_the_extras_of_users():
    assert {requirement for name in NAMED for requirement in EXTRAS[name]} <= set(EXTRAS["dev"])


def test_versions_of_python_are_named():
    named = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert named == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_smoke_test_names_every_choice():
    words = {word for line in smoke.COMMANDS for word in line.split()}
    lists = (choices.KERNELS, choices.INFERENCES, choices.APPROXIMATIONS, choices.LIKELIHOODS)
    assert set().union(*lists) <= words
    assert set(smoke.NEEDS.values()) == {split(requirement)[0] for name in NAMED for requirement in EXTRAS[name]}


def test_the_smoke_test_tells_what_failed():
    def fails():
        raise RuntimeError("usage\nno such option\n")

    assert smoke.outcome("a step", fails) == "FAILED: RuntimeError: no such option"
    assert smoke.outcome("a step", lambda: None) == "ok"
    assert smoke.outcome("no command", lambda: smoke.run("nonsense")).startswith("FAILED: RuntimeError: spectrogp: ")
