"""The code base in numbers: long files and functions, arguments, ``Any``, and docstrings that name their arguments.

    python -m benchmarks.codebase [--source src/spectrogp]

Counts of the text are of any tree; those of docstrings are of the package that is installed.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

FACES = ("", "kernels", "likelihoods", "models", "posterior", "inference", "datasets", "plots", "initialise")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path("src/spectrogp"))
    source: Path = parser.parse_args().source
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    lengths = {path: text.count("\n") for path, text in texts.items()}
    functions = [(path, node) for path, text in texts.items() for node in functions_of(text)]
    longest = max(functions, key=lambda pair: length(pair[1]))
    many = [(path, node) for path, node in functions if arguments(node) > 8]
    print(f"files: {len(texts)}, lines: {sum(lengths.values())}")
    over = ", ".join(f"{path.relative_to(source)} {lines}" for path, lines in lengths.items() if lines > 400)
    print(f"files over 400 lines: {over or 'none'}")
    print(f"longest function: {longest[1].name} ({longest[0].relative_to(source)}), {length(longest[1])} lines of code")
    print(f"functions with more than 8 arguments: {len(many)}")
    for path, node in many:
        print(f"    {path.relative_to(source)} {node.name}: {arguments(node)}")
    loose = sum(len(re.findall(r"(?<![.\w])Any(?!\w)", text)) for text in texts.values())
    print(f"Any: {loose} times")
    exports = dict(exported())
    named = {name: names_all(value) for name, value in exports.items()}
    known = {name: value for name, value in named.items() if value is not None}
    print(f"exports: {len(exports)}; with arguments: {len(known)}, all of them named: {sum(known.values())}")
    print(f"    not all named: {', '.join(sorted(name for name, value in known.items() if not value))}")


def functions_of(text: str) -> Iterator[Any]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: Any) -> int:
    """Lines without the signature and the docstring."""
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return int(node.end_lineno - body[0].lineno + 1)


def arguments(node: Any) -> int:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([argument for argument in every if argument.arg not in ("self", "cls")])


def exported() -> Iterator[tuple[str, Any]]:
    """Public names of the package and of its public subpackages, once each."""
    seen: set[int] = set()
    package = importlib.import_module("spectrogp")
    for face in FACES:
        module = getattr(package, face, None) if face else package
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if callable(value) and not isinstance(value, ModuleType) and id(value) not in seen:
                seen.add(id(value))
                yield f"{face}.{name}".lstrip("."), value


def names_all(value: Any) -> bool | None:
    """Whether the docstring of a class or function names every argument; None where there are none."""
    try:
        names = [name for name in inspect.signature(value).parameters if name not in ("self", "args", "kwargs")]
    except (TypeError, ValueError):
        return None
    text = (value.__doc__ or "") + ((value.__init__.__doc__ or "") if inspect.isclass(value) else "")
    return all(re.search(rf"\b{re.escape(name)}\b", text) for name in names) if names else None


if __name__ == "__main__":
    main()
