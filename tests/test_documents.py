"""Documents: their code runs, the examples of docstrings are right, and what they name and link to exists."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import sys
import textwrap
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from unittest import mock

import matplotlib
import pytest

import spectrogp as sg
from spectrogp.cli.work import QUICK
from spectrogp.initialise import kernels as builders

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERY = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SLOW = {"README.md", "CONTRIBUTING.md", "tutorial.md", "regression.md", "posterior.md", "scale.md"}

BLOCK = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
SKIPPED = re.compile(r"<!-- not run: (?P<reason>\S.*) -->\s*$")
LINK = re.compile(r"\]\((?!https?://|mailto:)(?P<path>[^)#\s]*)(#(?P<anchor>[^)\s]+))?\)")
HOMES = [f".{path.name}" for path in sorted((SOURCE / "spectrogp").iterdir()) if (path / "__init__.py").exists()]
TEST = re.compile(r"(?P<file>test_\w+\.py)(::(?P<name>test_\w+))?")

pytestmark = pytest.mark.usefixtures("compile_quickly")


def name_of(path):
    return str(path.relative_to(ROOT))


class Block(NamedTuple):
    """Python in a document: the number of its first line, the code, and why it is not run (or None)."""

    line: int
    code: str
    reason: str | None


def blocks(text):
    """All blocks of Python in a document."""
    found = []
    for match in BLOCK.finditer(text):
        above = text[: match.start()].rsplit("\n", 2)[-2] if "\n" in text[: match.start()] else ""
        skipped = SKIPPED.search(above)
        line = text.count("\n", 0, match.start("code")) + 1
        found.append(Block(line, textwrap.dedent(match["code"]), skipped and skipped["reason"]))
    return found


# Code


@pytest.fixture
def as_documents_find_it():
    """Defaults of the estimator that take few steps (it is the code that is tested); kernels of guides go again."""
    defaults = sg.SpectralGPRegressor.__init__.__kwdefaults__
    quick = mock.patch.dict(defaults, QUICK | {"max_iter": 20})
    with quick, mock.patch.dict(sg.choices.KERNELS), mock.patch.dict(builders._BUILDERS):
        yield


def with_code():
    """Pages with Python in them, those that take long marked so."""
    for path in PAGES:
        if blocks(path.read_text()):
            yield pytest.param(path, id=name_of(path), marks=[pytest.mark.slow] if path.name in SLOW else [])


@pytest.mark.parametrize("path", list(with_code()))
def test_the_code_of_a_document_runs(path, tmp_path, monkeypatch, as_documents_find_it):
    """Blocks of one document share their names, in order; a block that is not run says why."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType(path.stem)
    monkeypatch.setitem(sys.modules, path.stem, module)  # where classes look for the names in their annotations
    with matplotlib.rc_context({"backend": "agg"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the chains disagree|the draws are worth|only .* draws")  # of short runs
        for block in blocks(path.read_text()):
            if block.reason is None:
                # Empty lines first, so that errors name the line of the document.
                code = compile("\n" * (block.line - 1) + block.code, name_of(path), "exec", dont_inherit=True)
                exec(code, vars(module))  # noqa: S102


@pytest.mark.parametrize("path", EVERY, ids=name_of)
def test_what_is_not_run_says_why_and_stands_above_python(path):
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.strip().startswith("<!-- not run"):
            assert SKIPPED.search(line), f"line {number + 1}: expected <!-- not run: reason -->"
            assert lines[number + 1].strip() == "```python", f"line {number + 1}: no python block below"


def test_blocks_are_found_with_their_reasons():
    text = "a\n\n```python\nx = 1\n```\n\n<!-- not run: too long -->\n```python\ny\n```\n"
    text += "\n- b\n\n  ```python\n  z = 2\n  ```\n"
    assert blocks(text) == [Block(4, "x = 1\n", None), Block(9, "y\n", "too long"), Block(15, "z = 2\n", None)]


def modules_with_examples():
    for path in sorted((SOURCE / "spectrogp").rglob("*.py")):
        if ">>> " in path.read_text():
            yield ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_the_examples_of_docstrings_are_right(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=report.append)
    assert runner.tries, "no example was found"
    assert not runner.failures, "".join(report)


# Names


@cache
def functions_in(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def has_test(file, name):
    path = ROOT / "tests" / file
    return path.exists() and (not name or name in functions_in(path))


def has_file(name):
    return any((place / name).exists() for place in (ROOT, SOURCE / "spectrogp", ROOT / "tests", ROOT / "docs"))


def has_module(name):
    place = ROOT.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").exists()


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_tests_files_and_commands_that_a_document_names_exist(path):
    text = path.read_text()
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert not [match[0] for match in TEST.finditer(text) if not has_test(match["file"], match["name"])]
    assert not [name for name in re.findall(r"`([\w/]+\.(?:py|pyi|md|bib|toml))`", text) if not has_file(name)]
    assert not [name for name in re.findall(r"python -m (benchmarks[\w.]*)", text) if not has_module(name)]
    assert not set(re.findall(r"spectrogp reproduce (\w+)", text)) - {*sg.choices.EXPERIMENTS, "NAME"}
    assert not set(re.findall(r"`make ([a-z-]+)", text)) - targets


# What documents call the package, and an object of a class.
EXAMPLES = {"sg": [], "spectrogp": [], "kernel": ["AbstractKernel"], "model": ["AbstractModel"], "data": ["Data"]}


def resolves(dotted):
    """Whether a name is one of the library, or of a subpackage that it may stand in."""
    first, *others = dotted.split(".")
    names = [*EXAMPLES.get(first, [first]), *others]
    return any(_reaches(importlib.import_module(f"spectrogp{home}"), names) for home in ("", *HOMES))


def _reaches(value, names):
    if not names:
        return True
    first, *others = names
    if isinstance(value, type) and any(first in vars(cls).get("__annotations__", ()) for cls in value.__mro__):
        return not others  # a field
    return hasattr(value, first) and _reaches(getattr(value, first), others)


def code_column(text):
    """What stands in backticks in the columns "in the code" of the tables of a document."""
    column = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            column = None
        elif "in the code" in cells:
            column = cells.index("in the code")
        elif column is not None:
            yield from re.findall(r"`([^`]+)`", cells[column])


@pytest.mark.parametrize("name", ["equations.md", "notation.md"])
def test_names_in_the_code_column_exist(name):
    found = list(code_column((ROOT / "docs" / name).read_text()))
    names = [match[0] for item in found if (match := re.match(r"[A-Za-z_][\w.]*", item))]
    names = [name for name in names if re.fullmatch(r"([a-z_]+\.)?[A-Z]\w+(\.\w+)*|[a-z]{2,}\.[a-z_]+", name)]
    assert len(names) > 10
    assert not [name for name in names if not name.endswith(".py") and not resolves(name)]


def test_kernels_with_a_name_are_in_the_table_of_kernels():
    table = (ROOT / "docs" / "equations.md").read_text().split("## The one form")[0]
    assert set(re.findall(r"^\| `[^|]+\| `(\w+)` \|", table, re.MULTILINE)) == set(sg.choices.KERNELS) - {"auto"}


# Links


def anchors(path):
    """The anchors of the headings of a document, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", EVERY, ids=name_of)
def test_links_lead_somewhere(path):
    broken = []
    for match in LINK.finditer(path.read_text()):
        target = (path.parent / match["path"]).resolve() if match["path"] else path
        if not target.exists() or (match["anchor"] and match["anchor"] not in anchors(target)):
            broken.append(match[0])
    assert not broken
