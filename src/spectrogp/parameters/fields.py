"""Fields of kernels and likelihoods: what a parameter may be, and its values at inputs.

A parameter is a number, an array, or any callable of inputs ``[n, d]``. A class says of each of its fields what it is:

    lengthscale: Parameter = vector(positive=True)
    amplitude: Parameter = scalar(nonnegative=True, default=1.0)

and ``values_at`` turns all of them into values of one shape, ``[n, a, ...]`` (n inputs, a components). What does not
fit is refused with an error that names the field: numbers when the object is made, values of callables when it is used.
Components are an array axis, so a mixture costs no more code than a single component.

=======================  ===========================  =================================
field                    constant                     values of a callable
=======================  ===========================  =================================
vector (lengthscale)     ``[]``, ``[d]``, ``[a, d]``  ``[n]``, ``[n, d]``, ``[n, a, d]``
scalar (amplitude)       ``[]``, ``[a]``              ``[n]``, ``[n, a]``
matrix (covariance)      ``[d, d]``, ``[a, d, d]``    ``[n, d, d]``, ``[n, a, d, d]``
=======================  ===========================  =================================

A last axis of length 1 stands for every input dimension. Callables must be pure (the same inputs give the same values)
and pointwise (row i of the values depends on row i of the inputs alone); to be differentiated, as a spectrogram needs,
they must be written with ``jax.numpy``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ..core import Module, require, traced
from .listing import html_table
from .values import AbstractParameter

Function: TypeAlias = Callable[[Array], Array]
Parameter: TypeAlias = ArrayLike | Array | Function | AbstractParameter


class Parametrised(Module):
    """An object some of whose fields are parameters, made by ``vector``, ``scalar`` or ``matrix``."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in vars(cls).items():
            if isinstance(member, dataclasses.Field) and "kind" in member.metadata:
                member.metadata["kind"].name = name

    def _repr_html_(self) -> str:
        return html_table(self)

    def values_at(self, X: Array) -> dict[str, Array]:
        """Values ``[n, a, ...]`` of all parameters (but those that are None) at inputs ``X [n, d]``, by their names.

        All have the same components a: those of one component stand for every other number.
        """
        owner = type(self).__name__
        given = [name for name in _kinds(type(self)) if getattr(self, name) is not None]
        values = {name: self.field_at(name, X) for name in given}
        components = max(value.shape[1] for value in values.values())
        for name, value in values.items():
            if value.shape[1] not in (1, components):
                raise ValueError(
                    f"{owner}.{name} must have 1 or {components} components, as the other parameters have; "
                    f"got {value.shape[1]}"
                )
        return {name: jnp.broadcast_to(v, (v.shape[0], components, *v.shape[2:])) for name, v in values.items()}

    def field_at(self, name: str, X: Array) -> Array:
        """Values ``[n, a, ...]`` of one parameter, by its name, at inputs ``X [n, d]``."""
        return _kinds(type(self))[name].values(getattr(self, name), X, f"{type(self).__name__}.{name}")


def _kinds(cls: type[Any]) -> dict[str, _Kind]:
    """What the fields of a class are that have values at inputs."""
    kinds = {field.name: field.metadata.get("kind") for field in dataclasses.fields(cls)}
    return {name: kind for name, kind in kinds.items() if kind is not None and kind.axes is not None}


def scalar(
    *,
    positive: bool = False,
    nonnegative: bool = False,
    constant: bool = False,
    varying: bool = False,
    unit: str = "1",
    **options: Any,
) -> Any:
    """A field with one number for each component, such as an amplitude.

    Args:
        positive: Whether values must be above zero.
        nonnegative: Whether values must be zero or above.
        constant: Whether callables are refused.
        varying: Whether nothing but a callable is taken.
        unit: The unit, with x for that of the inputs and y for that of the outputs.
        options: Those of ``equinox.field``; a field whose ``default`` is None may be None.
    """
    sign = positive_values if positive else nonnegative_values if nonnegative else None
    return _field(_Kind(0, sign, constant, varying, unit), options)


def vector(*, positive: bool = False, constant: bool = False, unit: str = "1", **options: Any) -> Any:
    """A field with one number for each component and input dimension, such as a lengthscale or a frequency."""
    return _field(_Kind(1, positive_values if positive else None, constant, unit=unit), options)


def matrix(*, unit: str = "1", **options: Any) -> Any:
    """A field with a symmetric positive definite matrix ``[d, d]`` for each component."""
    return _field(_Kind(2, positive_definite, False, unit=unit), options)


def constants(
    *, check: Callable[[Any, str], Any] | None = None, finite: bool = True, unit: str = "1", **options: Any
) -> Any:
    """A field with a constant array of a shape of its own.

    Args:
        check: ``check(values, name)`` gives the values if they are right, or raises an error that names the field.
        finite: Whether values must be finite.
        unit: The unit, with x for that of the inputs and y for that of the outputs.
        options: Those of ``equinox.field``.
    """
    return _field(_Kind(None, check, True, unit=unit, finite=finite), options)


def _field(kind: _Kind, options: dict[str, Any]) -> Any:
    optional = "default" in options and options["default"] is None

    def convert(value: Any) -> Any:
        return None if optional and value is None else kind.stored(value)

    return eqx.field(converter=convert, metadata={"kind": kind}, **options)


@dataclasses.dataclass
class _Kind:
    """What a field is: its axes beyond inputs and components, what its values must be, and whether they may vary."""

    axes: int | None  # None: a constant that is not evaluated at inputs
    check: Callable[[Any, str], Any] | None
    constant: bool
    varying: bool = False
    unit: str = "1"
    finite: bool = True
    name: str = "the parameter"  # as the class has it

    def stored(self, value: Any) -> Any:
        """What an object stores: a callable, parameter or JAX array as it is, anything else as a float64 array."""
        if self.constant and callable(value):
            raise TypeError(
                f"{self.name} must be constant here, got a callable: with varying functions this kernel is not "
                "positive definite; non-stationary kernels, such as ConvolutionalSpectral, take functions"
            )
        if self.varying and not callable(value):
            raise TypeError(f"{self.name} must be a callable of inputs [n, d], got {type(value).__name__}")
        stored = as_parameter(value, self.name, finite=self.finite)
        # Functions and trainable parameters have values only later: they are checked where they are evaluated.
        late = self.check is None or self.axes == 2 or callable(stored) or isinstance(stored, AbstractParameter)
        return stored if late or self.check is None else self.check(stored, self.name)

    def values(self, value: Parameter, X: Array, name: str) -> Array:
        """Values ``[n, a, ...]`` at inputs."""
        found = _values(value, X, name, (X.shape[1],) * (self.axes or 0))
        return found if self.check is None else self.check(found, name)


def as_parameter(value: Any, name: str, *, finite: bool = True) -> Any:
    """A callable, parameter or JAX array as it is, anything else as a float64 NumPy array."""
    if callable(value) or isinstance(value, jax.Array | AbstractParameter):
        return value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be a number, an array of numbers, or a callable of inputs [n, d]; got {value!r}"
        ) from error
    if finite:
        require(np.isfinite(array), array, name, "finite")
    return array


def positive_values(values: Array, name: str) -> Any:
    """Check that values are positive, where they are known (not traced)."""
    require(values > 0, values, name, "positive")
    return values


def nonnegative_values(values: Array, name: str) -> Any:
    """Check that values are not negative, where they are known (not traced)."""
    require(values >= 0, values, name, "zero or positive")
    return values


def positive_definite(values: Array, name: str) -> Any:
    """Check that matrices ``[..., d, d]`` are symmetric and positive definite, where they are known (not traced)."""
    if not traced(values):
        scale = jnp.max(jnp.abs(values), axis=(-1, -2), keepdims=True)
        require(jnp.abs(values - jnp.swapaxes(values, -1, -2)) <= 1e-6 * scale, values, name, "symmetric")
        smallest = jnp.linalg.eigvalsh(values)[..., 0]
        require(smallest > 0, smallest, f"the smallest eigenvalue of {name}", "positive")
    return values


def _values(value: Parameter, X: Array, name: str, trailing: tuple[int, ...]) -> Array:
    n = X.shape[0]
    if callable(value):
        array = jnp.asarray(value(X), dtype=X.dtype)
        own = array.shape[1:]
        if array.shape[:1] != (n,):
            _reject(array.shape, name, trailing, n)
        require(jnp.isfinite(array), array, name, "finite")
    else:
        array = jnp.asarray(value, dtype=X.dtype)[None]
        own = array.shape[1:]
    if len(own) == len(trailing):
        array = array[:, None]
    elif not own and len(trailing) == 1:
        array = array[:, None, None]
    elif len(own) != len(trailing) + 1:
        _reject(array.shape, name, trailing, n if callable(value) else None)
    if any(size not in (1, d) for size, d in zip(array.shape[2:], trailing, strict=True)) or array.shape[1] == 0:
        _reject((array.shape[0], *own), name, trailing, n if callable(value) else None)
    return jnp.broadcast_to(array, (n, array.shape[1], *trailing))


def _reject(shape: tuple[int, ...], name: str, trailing: tuple[int, ...], n: int | None) -> None:
    axes = ["d"] * len(trailing)
    shapes = [axes, ["a", *axes]] if len(trailing) != 1 else [[], axes, ["a", *axes]]
    lead = [] if n is None else ["n"]
    expected = " or ".join("[" + ", ".join([*lead, *tail]) + "]" for tail in shapes)
    sizes = ", ".join([f"n = {n}"] * (n is not None) + [f"d = {d}" for d in trailing[:1]])
    where = f" with {sizes}" if sizes else ""
    got = list(shape) if n is not None else list(shape[1:])
    kind = "callable gave" if n is not None else "got"
    raise ValueError(f"{name} must have shape {expected}{where} (a = components); {kind} {got}")
