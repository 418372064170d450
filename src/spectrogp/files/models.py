"""Model files.

A model file is one safetensors file. Its metadata hold the structure of what was saved as JSON, its tensors the arrays:

    8 bytes   length of the header
    header    {"__metadata__": {"spectrogp": "{format, sha256, library, metadata, tree}"}, "0": {dtype, shape, …}, …}
    tensors   the bytes of the arrays

Nothing in a file is ever run. A class is named together with the subpackage of the library that exports it, and only
such classes exist; their fields are set one by one, without constructors. SHA-256 goes over every byte of the file
(with zeros in place of itself) and is compared before anything is parsed. It finds damage, but does not prove who wrote
a file: a forged one can hold a wrong model, though never code.

This module imports no other part of the library. Who loads a file (``spectrogp.loading``) says where its classes are;
they are imported when a file names them, so a file that is refused costs neither the time nor the memory of JAX.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import safetensors.numpy

from .. import __version__
from .atomic import FilePath, replace_file

# The class that a subpackage of the library exports under a name, or None.
Find: TypeAlias = Callable[[str, str], type | None]

_FORMAT = 2
_NO_DIGEST = b"0" * 64
_PREFACE = re.compile(
    rb'\{"__metadata__":\{"spectrogp":"\{\\"format\\":(?P<format>\d{1,9}),\\"sha256\\":\\"(?P<digest>[0-9a-f]{64})\\",'
)
_TENSOR_END = re.compile(rb'"data_offsets":\[\d{1,18},(\d{1,18})\]')  # in strings there are backslashes before quotes
_LEAD = 256  # bytes that hold the preface
# What is parsed is small: the largest header in bytes, and of its JSON the most values and the deepest brackets.
_HEADER = 2**22
_VALUES = 100_000
_DEPTH = 256

# Arrays that safetensors holds as they are; complex numbers are stored as pairs, and times as integers.
_PLAIN = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)")
_PAIRS = {"complex64": "float32", "complex128": "float64"}
_TIME = re.compile(r"(datetime64|timedelta64)\[(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]")


class ModelFileError(ValueError):
    """A file that is not a model file of this library, or no longer one."""


def save(path: FilePath, tree: Any, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a model, a posterior, or any tree of the library's objects, plain values and arrays to one file.

    Values are numbers, strings, None, tuples, lists and dictionaries with strings as keys; ``metadata`` is such a
    dictionary, for notes of one's own. Kernels and functions that a user wrote are code, and cannot be saved. A save
    that is interrupted leaves the file that was there before.

    Args:
        path: The file to write.
        tree: What to save: a kernel, model, posterior or fitted estimator, or a list, tuple or dictionary of such.
        metadata: Notes to keep beside it, read by ``load_metadata``.
    """
    encoder = _Encoder()
    try:
        record = {
            "format": _FORMAT,
            "sha256": _NO_DIGEST.decode(),
            "library": __version__,
            "metadata": encoder.encode(dict(metadata or {}), "metadata"),
            "tree": encoder.encode(tree, type(tree).__name__),
        }
        text = json.dumps(record, separators=(",", ":"), allow_nan=False)
    except RecursionError as error:
        raise ValueError(f"{type(tree).__name__} cannot be saved: it is nested too deeply, or holds itself") from error
    content = safetensors.numpy.save(encoder.tensors, {"spectrogp": text})
    start, end = _preface(content).span("digest")
    _header(content)
    replace_file(path, content[:start], _digest(content, start, end), memoryview(content)[end:])


def read_model(path: FilePath, find: Find) -> Any:
    """What ``save`` wrote to a file; ``find(subpackage, name)`` gives the classes that it may hold."""
    return _read_part(path, "tree", find)


def read_notes(path: FilePath, find: Find) -> dict[str, Any]:
    """The notes that were saved along with a model."""
    return _read_part(path, "metadata", find)


def is_storable(cls: Any) -> bool:
    """Whether instances are known by fields (modules, dataclasses, named tuples) or, if it says so, attributes."""
    if not isinstance(cls, type) or cls.__name__.startswith("Abstract"):  # these have no instances
        return False
    return _field_names(cls) is not None or bool(getattr(cls, "_stores_attributes", False))


def _read_part(path: FilePath, part: str, find: Find) -> Any:
    path = Path(path)
    try:
        record, tensors = _parse(_read(path))
        return _Decoder(tensors, record["library"], find).decode(record[part])
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}") from error.__cause__


# Saving


class _Encoder:
    """Turns objects into JSON, and collects their arrays."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}
        self._known: dict[int, dict[str, Any]] = {}  # an array that appears twice is stored once

    def encode(self, value: Any, path: str) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is list:
            return [self.encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.encode(item, f"{path}[{i}]") for i, item in enumerate(value)]}
        if type(value) is dict:
            if wrong := [key for key in value if type(key) is not str]:
                raise TypeError(f"{path} cannot be saved: its keys must be strings, got {wrong[0]!r}")
            return {"dict": {key: self.encode(item, f"{path}[{key!r}]") for key, item in value.items()}}
        if (home := _home(type(value))) is not None:
            fields = {name: self.encode(item, f"{path}.{name}") for name, item in _fields_of(value).items()}
            return {"class": type(value).__name__, "from": home, "fields": fields}
        if _is_array(value):
            return self._array(value, path)
        raise TypeError(f"{path} cannot be saved: {_reason(value)}")

    def _array(self, value: Any, path: str) -> dict[str, Any]:
        if id(value) in self._known:
            return self._known[id(value)]
        kind = value.dtype.name
        if kind == "object" and value.ndim == 1 and all(isinstance(item, str) for item in value):
            return {"names": [str(item) for item in value]}
        plain = _PLAIN.fullmatch(kind)
        if not plain and kind not in _PAIRS and not _TIME.fullmatch(kind):
            raise TypeError(f"{path} cannot be saved: an array of {kind} holds neither numbers nor times nor names")
        node: dict[str, Any] = {"array": str(len(self.tensors))}
        array = np.asarray(value)
        if isinstance(value, np.generic):
            node["scalar"] = True
        if not plain:
            node["view"] = kind
            array = np.stack([array.real, array.imag], axis=-1) if kind in _PAIRS else array.astype(np.int64)
        self.tensors[node["array"]] = np.asarray(array, array.dtype.newbyteorder("="), order="C")
        return self._known.setdefault(id(value), node)


def _is_array(value: Any) -> bool:
    import jax

    # Other kinds of NumPy arrays mean more than their numbers: a masked one, say.
    return type(value) is np.ndarray or isinstance(value, np.generic | jax.Array)


def _reason(value: Any) -> str:
    kind = type(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return (
            f"{value.__qualname__} is Python code, and model files hold no code; "
            "use a number, an array or a FunctionGroup in its place"
        )
    return f"{kind.__module__}.{kind.__qualname__} is not a class that model files know"


def _fields_of(value: Any) -> dict[str, Any]:
    names = _field_names(type(value))
    return dict(vars(value)) if names is None else {name: getattr(value, name) for name in names}


def _field_names(cls: type) -> tuple[str, ...] | None:
    """The fields of a module, dataclass or named tuple; None for another class, which has any attributes."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return getattr(cls, "_fields", None)


def _home(cls: type) -> str | None:
    """The subpackage of the library that exports a class, which is imported already; None for any other class."""
    library, home, *_ = [*cls.__module__.split("."), ""]
    face = sys.modules.get(f"{library}.{home}")
    exported = library == __package__.split(".")[0] and cls.__name__ in getattr(face, "__all__", ())
    return home if exported and getattr(face, cls.__name__) is cls and is_storable(cls) else None


def _digest(content: bytes, start: int, end: int) -> bytes:
    """SHA-256 of a file, with zeros from start to end, where it is stored itself."""
    digest = hashlib.sha256(content[:start])
    digest.update(_NO_DIGEST)
    digest.update(memoryview(content)[end:])
    return digest.hexdigest().encode()


# Loading


def _read(path: Path) -> bytes:
    """The bytes of a model file, found to be what was written."""
    if path.exists() and not path.is_file():
        raise ModelFileError("it is not a file")
    with path.open("rb") as file:
        lead = file.read(_LEAD)
        _preface(lead)  # a foreign file is not read any further
        size = _header_size(lead)
        file.seek(8)
        expected, found = 8 + size + _tensor_bytes(file.read(size)), os.fstat(file.fileno()).st_size
        if expected != found:
            raise ModelFileError(f"it has {found} bytes, but its header tells of {expected}: damaged or incomplete")
        file.seek(0)
        try:
            content = file.read()
        except MemoryError as error:
            raise ModelFileError(f"it has {found} bytes, more than there is memory for") from error
    preface = _preface(content)
    if _digest(content, *preface.span("digest")) != preface["digest"]:
        raise ModelFileError("its contents are not what was saved (SHA-256 differs): the file is damaged or incomplete")
    return content


def _preface(content: bytes) -> re.Match[bytes]:
    """The start of the header, which tells the format and the digest."""
    found = _PREFACE.match(content, 8, _LEAD)
    if found is None:
        raise ModelFileError("it is not a spectrogp model file")
    if int(found["format"]) != _FORMAT:
        raise ModelFileError(
            f"it has format {int(found['format'])}, but spectrogp {__version__} reads format {_FORMAT}: "
            "use the version that wrote it, or a newer one"
        )
    return found


def _header_size(content: bytes) -> int:
    """How long the header says that it is, if that is not too long to be parsed."""
    size = int.from_bytes(content[:8], "little")
    if size > _HEADER:
        raise ModelFileError(f"its structure takes {size} bytes, more than the {_HEADER} that may be")
    return size


def _tensor_bytes(header: bytes) -> int:
    """Where the last tensor ends, as far as the header can be trusted before the digest is known to be right."""
    return max((int(end) for end in _TENSOR_END.findall(header)), default=0)


def _header(content: bytes) -> bytes:
    """The header, if it is small enough to be parsed."""
    header = content[8 : 8 + _header_size(content)]
    # Commas and brackets inside strings count too: these are bounds that need no parser.
    letters = np.frombuffer(header, np.uint8)
    opened, closed = ((letters == ord(one)) | (letters == ord(two)) for one, two in ("[{", "]}"))
    if header.count(b",") + np.count_nonzero(opened) > _VALUES:
        raise ModelFileError(f"its structure has more than {_VALUES} values; large arrays must be NumPy arrays")
    if np.max(np.cumsum(opened.astype(np.int8) - closed, dtype=np.int32), initial=0) > _DEPTH:
        raise ModelFileError(f"its structure is nested more than {_DEPTH} deep")
    return header


def _parse(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header = _header(content)
    try:
        record = json.loads(json.loads(header.decode("ascii"))["__metadata__"]["spectrogp"], parse_constant=_constant)
        tensors = safetensors.numpy.load(content)
    except (ValueError, KeyError, TypeError, RecursionError, safetensors.SafetensorError) as error:
        raise ModelFileError(f"its structure is wrong ({type(error).__name__}: {error})") from error
    match record:
        case {"library": str(), "metadata": {"dict": dict()}, "tree": _}:
            return record, tensors
    raise ModelFileError("its structure is wrong: parts are missing")


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Decoder:
    """Turns JSON and arrays into objects: the inverse of ``_Encoder``, but it trusts nothing."""

    def __init__(self, tensors: dict[str, np.ndarray], library: str, find: Find) -> None:
        self._tensors = tensors
        self._library = library
        self._find = find

    def decode(self, node: Any) -> Any:
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [self.decode(item) for item in node]
            case {"tuple": list(items), **other} if not other:
                return tuple(self.decode(item) for item in items)
            case {"dict": dict(items), **other} if not other:
                return {key: self.decode(item) for key, item in items.items()}
            case {"float": "inf" | "-inf" | "nan" as text, **other} if not other:
                return float(text)
            case {"names": list(items), **other} if not other and all(isinstance(item, str) for item in items):
                return np.array(items, dtype=object)
            case {"array": str(name), **how} if name in self._tensors and set(how) <= {"view", "scalar"}:
                return _restored(self._tensors[name], how.get("view"), how.get("scalar", False))
            case {"class": str(name), "from": str(home), "fields": dict(fields), **other} if not other:
                if wrong := [key for key in fields if not key.isidentifier() or key.startswith("__")]:
                    raise ModelFileError(f"it names {wrong[0][:100]!r}, which is not a field")
                # The fields come first: nothing is imported for an object whose parts are refused.
                return self._instance(home, name, {key: self.decode(value) for key, value in fields.items()})
        raise ModelFileError(f"its structure is wrong: nothing is saved as {str(node)[:100]}")

    def _instance(self, home: str, name: str, values: dict[str, Any]) -> Any:
        cls = self._find(home, name)
        if cls is None or not is_storable(cls):
            raise ModelFileError(f"it names {home[:100]}.{name[:100]}, which is not a class that model files know")
        expected = _field_names(cls)
        # Attributes of other classes may have any names but those of the class itself, such as its methods.
        own = {key for key in values if hasattr(cls, key)}
        if wrong := own if expected is None else set(expected) ^ set(values):
            raise ModelFileError(
                f"{name} has other fields in spectrogp {__version__} than in {self._library[:20]}, which wrote this "
                f"({', '.join(sorted(wrong))[:100]}): use the version that wrote it"
            )
        if issubclass(cls, tuple):
            return tuple.__new__(cls, [values[key] for key in expected or ()])
        instance = object.__new__(cls)
        if expected is None:  # parameters that there were not yet when the file was written
            parameters = inspect.signature(cls).parameters.items()
            values = {key: own.default for key, own in parameters if own.default is not own.empty} | values
        for key, value in values.items():
            object.__setattr__(instance, key, value)
        return instance


def _restored(array: np.ndarray, view: Any, scalar: Any) -> Any:
    """An array as it was before it was stored as pairs or integers, or a number of NumPy's."""
    match view:
        case None:
            pass
        case str() if _PAIRS.get(view) == array.dtype.name and array.shape[-1:] == (2,):
            array = array.view(view)[..., 0]
        case str() if _TIME.fullmatch(view) and array.dtype == np.int64:
            array = array.view(view)
        case _:
            raise ModelFileError(f"its structure is wrong: {array.dtype} {array.shape} does not hold {str(view)[:20]}")
    if scalar is False:
        return array
    if array.ndim:
        raise ModelFileError(f"its structure is wrong: an array {array.shape} is not a number")
    return array[()]
