"""All parameters of a model as a table: names, values, units, priors and roles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from ..core import entry_point, show_numbers
from .functions import AbstractRandom
from .priors import LogNormal, Normal
from .values import AbstractParameter


class Entry(NamedTuple):
    """One parameter, as text."""

    name: str
    value: str
    unit: str
    prior: str
    role: str


@entry_point
def summary(model: Any) -> str:
    """A table of all parameters of a kernel, likelihood or model; print it.

    Units are those of the inputs (x) and outputs (y) that the model sees. Of functions the values at their inducing
    inputs are shown.

    Args:
        model: Any object of the library that holds parameters.

    Example:
        >>> import spectrogp as sg
        >>> model = sg.models.ExactGP(sg.kernels.SquaredExponential(sg.Positive.around(0.5)), 0.1)
        >>> print(sg.summary(model))
        name                value  unit  prior              role
        kernel.lengthscale  0.5    x     LogNormal(0.5, 1)  hyperparameter
        kernel.amplitude    1      y     –                  fixed
        likelihood.noise    0.1    y     –                  fixed
    """
    rows = [Entry(*Entry._fields), *_entries(model, "", "")]
    widths = [max(len(row[k]) for row in rows) for k in range(len(Entry._fields))]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


@entry_point
def html_table(model: Any) -> str:
    """The same table for a notebook, under the name of the model's class."""
    cells = "".join(
        f"<tr>{''.join(f'<td style=text-align:left>{escape(text)}</td>' for text in row)}</tr>"
        for row in _entries(model, "", "")
    )
    head = "".join(f"<th style=text-align:left>{name}</th>" for name in Entry._fields)
    return f"<b>{type(model).__name__}</b><table><tr>{head}</tr>{cells}</table>"


def _entries(node: Any, name: str, unit: str) -> Iterator[Entry]:
    if isinstance(node, AbstractParameter):
        yield Entry(name, show_numbers(np.asarray(node.value)), unit or "–", _prior(node.prior), node.role)
    elif isinstance(node, AbstractRandom):
        values = show_numbers(np.asarray(node(node.places)))
        yield Entry(f"{name}(x)", values, unit or "–", "Gaussian process", "function")
        yield from _fields(node, name)
    elif isinstance(node, eqx.Module):
        yield from _fields(node, name)
    elif isinstance(node, tuple | list):
        for i, item in enumerate(node):
            yield from _entries(item, f"{name}[{i}]", unit)
    elif callable(node):
        yield Entry(f"{name}(x)", getattr(node, "__name__", type(node).__name__), unit or "–", "–", "function")
    elif unit and node is not None:
        yield Entry(name, show_numbers(np.asarray(node)), unit, "–", "fixed")


def _fields(owner: Any, name: str) -> Iterator[Entry]:
    for field in dataclasses.fields(owner):
        if not field.metadata.get("static", False):
            path = f"{name}.{field.name}" if name else field.name
            kind = field.metadata.get("kind")
            unit = str(field.metadata.get("unit", "" if kind is None else kind.unit))
            yield from _entries(getattr(owner, field.name), path, unit)


def _prior(prior: Any) -> str:
    match prior:
        case None:
            return "flat"
        case Normal():
            numbers = prior.mean, prior.std
        case LogNormal():
            numbers = prior.median, prior.std
        case _:
            return type(prior).__name__
    return f"{type(prior).__name__}({', '.join(show_numbers(np.asarray(number)) for number in numbers)})"
