"""Files made to do harm: what they say of themselves is right, what they hold is not."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

import spectrogp as sg

HOLES = 6 * 2**30
F64 = {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}


class Bomb:
    """What unpickling would run."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.canary}'",)


# Model files with the right SHA-256


def sealed(content: bytes) -> bytes:
    """The same file with the right digest, as who makes it on purpose would."""
    start = content.index(b"sha256") + len(rb"sha256\":\"")
    empty = content[:start] + b"0" * 64 + content[start + 64 :]
    return content[:start] + hashlib.sha256(empty).hexdigest().encode() + content[start + 64 :]


def record(tree: Any, **others: Any) -> str:
    """The structure of a file as JSON; a text is taken as it is."""
    found = {"format": 2, "sha256": "0" * 64, "library": "0.1.0", "metadata": {"dict": {}}} | others | {"tree": "TREE"}
    return json.dumps(found, separators=(",", ":")).replace(
        '"TREE"', tree if isinstance(tree, str) else json.dumps(tree)
    )


def forged(tree: Any, tensors: dict[str, np.ndarray] | None = None, **others: Any) -> bytes:
    """A file with any structure."""
    return sealed(safetensors.numpy.save(tensors or {}, {"spectrogp": record(tree, **others)}))


def with_header(entries: Any, data: bytes = bytes(16), size: int | None = None) -> bytes:
    """A file of one array, with any entries in the header; ``size`` is what it says of its own length."""
    header = json.dumps({"__metadata__": {"spectrogp": record({"array": "0"})}} | entries, separators=(",", ":"))
    return sealed((size or len(header)).to_bytes(8, "little") + header.encode() + data)


def instance(name: Any, home: Any, **fields: Any) -> dict[str, Any]:
    return {"class": name, "from": home, "fields": fields}


def real(**changes: Any) -> dict[str, Any]:
    return instance("Real", "parameters", **{"raw": {"array": "0"}, "prior": None, "role": "latent"} | changes)


def models(canary: Path) -> Iterator[tuple[str, bytes]]:
    """Model files, with names that say what is wrong."""
    run = f"touch '{canary}'"
    one, payload = {"0": np.ones((2, 2))}, instance("system", "os", command=run)
    yield "empty", b""
    yield "pickle", pickle.dumps(Bomb(canary))
    yield "pickle behind a length", (2**10).to_bytes(8, "little") + pickle.dumps(Bomb(canary))
    yield "array of objects", npy(np.array([Bomb(canary)], dtype=object))
    yield "foreign safetensors", safetensors.numpy.save(one, {"format": "pt"})
    yield "system", forged(payload)
    yield "system inside", forged(real(prior=payload), one)
    yield "system as notes", forged(1, metadata=payload)
    yield "eval", forged(instance("eval", "builtins", source=f"__import__('os').system({run!r})"))
    yield "Popen", forged(instance("Popen", "subprocess", args=run))
    yield "class of equinox", forged(instance("Module", "equinox"))
    yield "class of a private room", forged(instance("Module", "core"))
    yield "class of a module", forged(instance("Sum", "kernels.base", terms={"tuple": []}))
    yield "class that is a function", forged(instance("sample_prior", "kernels"))
    yield "class that is abstract", forged(instance("AbstractKernel", "kernels"))
    yield "class with a dot", forged(instance("base.Sum", "kernels", terms={"tuple": []}))
    yield "class a list", forged(instance(["Real"], ["parameters"]))
    yield "room above", forged(instance("system", "../../os"))
    yield "dunder class", forged(instance("__all__", "kernels"))
    yield "dunder field", forged(real(__class__="os.system"), one)
    yield "dunder reduce", forged(instance("Refresh", "models", __reduce__=1))
    yield "method as an attribute", forged(instance("SpectralGPRegressor", "estimator", fit=1))
    yield "property as a field", forged(real(value=1), one)
    yield "field missing", forged(instance("Real", "parameters", raw=1))
    yield "two kinds", forged({"tuple": [], "dict": {}})
    yield "refers to itself", forged({"array": {"array": "0"}}, one)
    yield "cycle of names", forged({"ref": "tree"})
    yield "array that is not there", forged({"array": "1"}, one)
    yield "array elsewhere", forged({"array": "../../etc/passwd"}, {"../../etc/passwdx": np.ones(1)})
    yield "deep lists", forged("[" * 10**6 + "]" * 10**6)
    yield "deep tuples", forged('{"tuple":[' * 300 + "1" + "]}" * 300)
    yield "deep header", with_header({"0": json.loads("[" * 300 + "]" * 300)})
    yield "many values", forged("[" + "1," * 10**6 + "1]")
    yield "long number", forged("1" * 10**6)
    yield "not a number", forged("NaN")
    yield "huge header", forged(json.dumps("a" * 2**23))
    yield "header beyond the file", with_header({"0": F64}, size=2**40)
    yield "header of all bits", with_header({"0": F64}, size=2**64 - 1)
    yield "tensors overlap", with_header({"0": F64, "1": F64})
    yield "tensor inside another", with_header({"0": F64, "1": F64 | {"shape": [1], "data_offsets": [8, 16]}})
    yield "tensor beyond the file", with_header({"0": F64 | {"data_offsets": [0, 2**40]}})
    yield "tensor backwards", with_header({"0": F64 | {"data_offsets": [16, 0]}})
    yield "tensor of 2^124 numbers", with_header({"0": F64 | {"shape": [2**62, 2**62]}})
    yield "tensor of negative shape", with_header({"0": F64 | {"shape": [-2]}})
    yield "tensor of objects", with_header({"0": F64 | {"dtype": "O"}})
    yield "tensor of another type", with_header({"0": F64 | {"dtype": "F32"}})
    yield "tensor of eight bits", with_header({"0": F64 | {"dtype": "F8_E4M3", "shape": [16]}})
    yield "view as objects", forged({"array": "0", "view": "object"}, {"0": np.ones(2, np.int64)})
    yield "view as complex", forged({"array": "0", "view": "complex128"}, {"0": np.ones((2, 3))})
    yield "bytes after the end", forged(real(), one) + bytes(8)
    yield "bytes after the end, sealed", sealed(forged(real(), one) + bytes(8))


def holes(directory: Path) -> Iterator[Path]:
    """Files of 6 GiB that take no room on the disk."""
    told = {"0": {"dtype": "U8", "shape": [HOLES], "data_offsets": [0, HOLES]}}
    for name, content in {
        "holes alone": b"",
        "holes behind a model": forged(real(), {"0": np.ones((2, 2))}),
        "holes as the header": with_header({"0": F64}, size=HOLES),
        "holes as a tensor": with_header(told, b""),
        "checkpoint of holes": b"",
        "checkpoint of holes behind a model": forged(1),
        "checkpoint of holes as a tensor": with_header(told, b""),
    }.items():
        path = directory / name
        path.write_bytes(content)
        os.truncate(path, len(content) + HOLES)
        yield path


# Checkpoints


def npy(array: np.ndarray) -> bytes:
    """A NumPy file."""
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def npz(**arrays: Any) -> bytes:
    """An archive of NumPy files, compressed."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def checkpoints(good: Path, directory: Path, canary: Path) -> Iterator[Path]:
    """Checkpoints that differ from a good one, with names that say how."""
    notes = sg.load_metadata(good)

    def changed(name: str, **others: Any) -> Path:
        path = directory / f"checkpoint, {name}"
        sg.save(path, sg.load(good) | others, notes)
        return path

    def arrays(part: str, change: Callable[[np.ndarray], Any]) -> dict[str, Any]:
        return {part: [change(array) for array in sg.load(good)[part]]}

    def spoilt(array: np.ndarray) -> np.ndarray:
        return np.where(np.arange(array.size).reshape(array.shape) == 0, np.nan, array).astype(array.dtype)

    def spoilt_floats(array: np.ndarray) -> np.ndarray:
        return spoilt(array) if array.dtype.kind == "f" else array

    for done in (10**9, -3, 2.0, None, "4", [4]):
        yield changed(f"done {done}", done=done)
    for part in ("state", "records"):
        yield changed(f"{part} NaN", **arrays(part, spoilt_floats))
        yield changed(f"{part} one row more", **arrays(part, lambda array: np.concatenate([array[None], array[None]])))
        yield changed(f"{part} flat", **arrays(part, lambda array: array.reshape(-1)[:1]))
        yield changed(f"{part} float16", **arrays(part, lambda array: array.astype(np.float16)))
        yield changed(f"{part} complex", **arrays(part, lambda array: array.astype(complex)))
        yield changed(f"{part} times", **arrays(part, lambda array: array.astype(np.int64).astype("datetime64[s]")))
        yield changed(f"{part} numbers", **arrays(part, lambda _: 1.0))
        yield changed(f"{part} names", **arrays(part, lambda _: np.array(["a"], dtype=object)))
        yield changed(f"{part} fewer", **{part: sg.load(good)[part][:-1]})
        yield changed(f"{part} none", **{part: None})
        yield changed(f"{part} a dictionary", **{part: {"0": 1}})
    others: dict[str, bytes] = {
        "empty": b"",
        "text": b"done = 4\n",
        "pickle": pickle.dumps(Bomb(canary)),
        "objects": npy(np.array([Bomb(canary)], dtype=object)),
        "objects in an archive": npz(done=np.array([Bomb(canary)], dtype=object)),
        "bomb": npz(done=4, fingerprint=notes["fingerprint"], bomb=np.zeros(2**28, np.uint8)),
        "names above": _archive("../../done", "/etc/done.npy"),
        "model": forged(real(), {"0": np.ones((2, 2))}),
        "os.system": forged(instance("system", "os", command=f"touch '{canary}'")),
        "list": forged([1, 2], metadata={"dict": notes}),
    }
    for name, content in others.items():
        path = directory / f"checkpoint, {name}"
        path.write_bytes(content)
        yield path


def _archive(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, b"4")
    return content.getvalue()
