"""The base of the library's classes: modules of equinox whose public methods are entry points, and that show values."""

from __future__ import annotations

from html import escape
from types import FunctionType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import wadler_lindig as wl

from .entry_points import entry_point

_JITTED = type(eqx.filter_jit(lambda: None))
_FEW = 6  # numbers of an array that are shown one by one


class Module(eqx.Module):
    """An ``equinox.Module`` whose public methods and properties compute in the library's precision.

    Whoever writes a subclass need not think of it: methods are wrapped as the class is made, so that the same formula
    is float64 from plain Python and follows the caller's JAX inside ``jit`` (``entry_points``).
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            if name.startswith("_") and name != "__call__":
                continue
            if isinstance(member, FunctionType | _JITTED):
                setattr(cls, name, entry_point(member))
            elif isinstance(member, classmethod):
                setattr(cls, name, classmethod(entry_point(member.__func__)))
            elif isinstance(member, property) and member.fget is not None:
                setattr(cls, name, property(entry_point(member.fget), doc=member.__doc__))

    def __repr__(self) -> str:
        return wl.pformat(self, width=100, custom=_shown, hide_defaults=True)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.3">{escape(repr(self))}</pre>'


def with_fields(module: Any, **fields: Any) -> Any:
    """A copy of a module with other fields, as they are: neither converted nor checked."""
    other = object.__new__(type(module))
    for name, value in (vars(module) | fields).items():
        object.__setattr__(other, name, value)
    return other


def _shown(leaf: Any) -> wl.AbstractDoc | None:
    """Numbers as such: all of a few, of many their shape and range."""
    if not isinstance(leaf, np.ndarray | np.generic | jax.Array):
        return None
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) or isinstance(leaf, jax.core.Tracer):
        return None
    return wl.TextDoc(show_numbers(np.asarray(leaf)))


def show_numbers(values: np.ndarray) -> str:
    """A short text for an array: its few numbers, or its shape and the range of its many.

    >>> show_numbers(np.array([[0.5, 2.0]])), show_numbers(np.linspace(0.0, 1.0, 30))
    ('[[0.5, 2]]', '[30] from 0 to 1')
    """
    if values.ndim == 0:
        return f"{values.item():.4g}" if values.dtype.kind in "fiu" else str(values.item())
    shape, plain = str(list(values.shape)), values.dtype.kind in "fiu" and np.all(np.isfinite(values))
    if values.size <= _FEW and not (plain and values.size > 1 and np.ptp(values) == 0):
        text = np.array2string(values, separator=", ", formatter={"float_kind": lambda value: f"{value:.4g}"})
        return " ".join(text.split())
    if not plain:
        return f"{shape} {values.dtype}"
    low, high = values.min(), values.max()
    return f"{shape} of {low:.4g}" if low == high else f"{shape} from {low:.4g} to {high:.4g}"
