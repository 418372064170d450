"""Functions of the input: what a kernel needs to know of its parameters.

A parameter of a kernel is a number, an array, or any callable of inputs ``[n, d]``. This module turns each into values
of one shape, ``[n, a, ...]`` (n inputs, a components), and rejects what does not fit with an error that names the
argument. Components are an array axis, so a mixture costs no more code than a single component.

=====================  ==========================  =================================
parameter              constant                    values of a callable
=====================  ==========================  =================================
vector (lengthscale)   ``[]``, ``[d]``, ``[a, d]``  ``[n]``, ``[n, d]``, ``[n, a, d]``
scalar (amplitude)     ``[]``, ``[a]``             ``[n]``, ``[n, a]``
matrix (covariance)    ``[d, d]``, ``[a, d, d]``   ``[n, d, d]``, ``[n, a, d, d]``
=====================  ==========================  =================================

A last axis of length 1 stands for every input dimension. Callables must be pure (the same inputs give the same values)
and pointwise (row i of the values depends on row i of the inputs alone); to be differentiated, as a spectrogram needs,
they must be written with ``jax.numpy``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from .numerics import traced
from .parameters import AbstractParameter

Function: TypeAlias = Callable[[Array], Array]
Parameter: TypeAlias = ArrayLike | Array | Function
Kind: TypeAlias = Callable[[Parameter, Array, str], Array]


def parameter(value: Any, name: str, *, finite: bool = True) -> Any:
    """What a kernel stores: a callable, parameter or JAX array as it is, anything else as a float64 NumPy array."""
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


# Converters of kernel fields: what is known to be wrong is refused when the kernel is made, not when it is used.


def _checked(value: Any, name: str, check: Callable[[Any, str], Any]) -> Any:
    stored = parameter(value, name)
    # Functions and trainable parameters have values only later: they are checked where they are evaluated.
    return stored if callable(stored) or isinstance(stored, AbstractParameter) else check(stored, name)


def as_lengthscale(value: Any) -> Any:
    return _checked(value, "lengthscale", positive)


def as_frequency(value: Any) -> Any:
    return parameter(value, "frequency")


def as_amplitude(value: Any) -> Any:
    return _checked(value, "amplitude", nonnegative)


def as_noise(value: Any) -> Any:
    return _checked(value, "noise", nonnegative)


def as_mean(value: Any) -> Any:
    return parameter(value, "mean")


def as_chirp(value: Any) -> Any:
    return parameter(value, "chirp")


def as_covariance(value: Any) -> Any:
    return parameter(value, "covariance")


def optional(converter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same converter for a field that may be None."""
    return lambda value: None if value is None else converter(value)


def as_constant(name: str) -> Callable[..., Any]:
    """Converter of a field that may not vary over the inputs."""

    def convert(value: Any, *, finite: bool = True) -> Any:
        if callable(value):
            raise TypeError(
                f"{name} must be constant here, got a callable: with varying functions this kernel is not positive "
                "definite; NonstationaryQuadratic, ConvolutionalSpectral, Chirplet and Phase take functions"
            )
        return parameter(value, name, finite=finite)

    return convert


def as_constant_lengthscale(value: Any) -> Any:
    return as_lengthscale(as_constant("lengthscale")(value))


as_constant_frequency = as_constant("frequency")


def inputs(X: Any, name: str = "X") -> Array:
    """Check inputs: a finite array ``[n, d]``."""
    try:
        # Inside the caller's jit a float32 input stays float32; from plain Python the library's precision decides.
        array = jnp.asarray(X, dtype=X.dtype if traced(X) and jnp.issubdtype(X.dtype, jnp.floating) else float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers [n, d], got {type(X).__name__}: {error}") from error
    if array.ndim != 2 or 0 in array.shape:
        remedy = "; for one input dimension pass X[:, None]" if array.ndim == 1 else ""
        raise ValueError(
            f"{name} must have shape [n, d] with at least one row and one column, got {array.shape}{remedy}"
        )
    require(jnp.isfinite(array), array, name, "finite")
    return array


def evaluate(owner: Any, X: Array, **kinds: Kind) -> dict[str, Array]:
    """Values ``[n, a, ...]`` of the named fields of ``owner`` at inputs ``X``, all with the same components a.

    ``kinds`` says of each field what its values are: ``lengthscale``, ``frequency``, ``amplitude``, ``covariance``.
    """
    kernel = type(owner).__name__
    values = {name: kind(getattr(owner, name), X, f"{kernel}.{name}") for name, kind in kinds.items()}
    components = max(value.shape[1] for value in values.values())
    for name, value in values.items():
        if value.shape[1] not in (1, components):
            raise ValueError(
                f"{kernel}.{name} must have 1 or {components} components, as the other parameters have; "
                f"got {value.shape[1]}"
            )
    return {name: jnp.broadcast_to(v, (v.shape[0], components, *v.shape[2:])) for name, v in values.items()}


def lengthscale(value: Parameter, X: Array, name: str) -> Array:
    """Values ``[n, a, d]``, positive."""
    return positive(_values(value, X, name, (X.shape[1],)), name)


def frequency(value: Parameter, X: Array, name: str) -> Array:
    """Values ``[n, a, d]``."""
    return _values(value, X, name, (X.shape[1],))


def amplitude(value: Parameter, X: Array, name: str) -> Array:
    """Values ``[n, a]``, not negative."""
    return nonnegative(_values(value, X, name, ()), name)


def phase(value: Parameter, X: Array, name: str) -> Array:
    """Values ``[n, a]``."""
    return _values(value, X, name, ())


def covariance(value: Parameter, X: Array, name: str) -> Array:
    """Values ``[n, a, d, d]``, symmetric positive definite."""
    return positive_definite(_values(value, X, name, (X.shape[1], X.shape[1])), name)


def positive(values: Array, name: str) -> Array:
    """Check that values are positive, where they are known (not traced)."""
    require(values > 0, values, name, "positive")
    return values


def nonnegative(values: Array, name: str) -> Array:
    """Check that values are not negative, where they are known (not traced)."""
    require(values >= 0, values, name, "zero or positive")
    return values


def positive_definite(values: Array, name: str) -> Array:
    """Check that matrices ``[..., d, d]`` are symmetric and positive definite, where they are known (not traced)."""
    if not traced(values):
        scale = jnp.max(jnp.abs(values), axis=(-1, -2), keepdims=True)
        require(jnp.abs(values - jnp.swapaxes(values, -1, -2)) <= 1e-6 * scale, values, name, "symmetric")
        smallest = jnp.linalg.eigvalsh(values)[..., 0]
        require(smallest > 0, smallest, f"the smallest eigenvalue of {name}", "positive")
    return values


def require(accepted: Array | np.ndarray, values: Array | np.ndarray, name: str, expected: str) -> None:
    """Raise unless every value is accepted; names the argument, the first bad value and its place.

    Traced values are unknown and pass: inside ``jit`` the caller answers for them.
    """
    if traced(accepted) or bool(np.all(accepted)):
        return
    place = tuple(int(i) for i in np.argwhere(~np.asarray(accepted))[0])
    raise ValueError(f"{name} must be {expected}, got {float(values[place]):g} at index {list(place)}")


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
