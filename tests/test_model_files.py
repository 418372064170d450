"""Model files: what comes back is what was saved; what is damaged or made to do harm is refused, and nothing runs."""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import json
import os
import pickle
import random
import subprocess
import sys
import zipfile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import spectrogp as sg
from spectrogp import parameters
from spectrogp.files import ModelFileError, save
from spectrogp.files.models import is_storable
from spectrogp.loading import HOMES, load, load_metadata
from spectrogp.models import (
    Bernoulli,
    ChannelGP,
    CollapsedGP,
    DoublyStochasticGP,
    ExactGP,
    Moments,
    NeighbourGP,
    Neighbourhoods,
    Refresh,
    SparseGP,
    StudentT,
    VariationalGP,
)

Z = np.linspace(-1.0, 1.0, 4)[:, None]
X = np.linspace(-1.0, 1.0, 12)[:, None]
DATA = sg.Data(X, np.sin(5.0 * X[:, 0]), 0.1)


def functions(shape, initial=0.5, warp="exp"):
    return sg.FunctionGroup(Z, initial, shape=shape, warp=warp)


def convolutional():
    frequency = sg.Real(np.full((1, 1), 3.0), sg.Normal(3.0, 1.0))
    return sg.kernels.ConvolutionalSpectral(functions((1, 1)), frequency, functions((1,)))


def random_functions(model):
    """The same model with latent values that are not zero."""
    rng = np.random.default_rng(0)
    free, rest = parameters.partition(model, "latent")
    return eqx.combine(jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), free), rest)


def exact():
    return random_functions(ExactGP(convolutional(), sg.Positive(0.1, sg.LogNormal(0.1, 1.0))))


def posterior():
    rng = np.random.default_rng(1)
    draws, rest = parameters.partition(exact(), "latent", "hyperparameter")
    draws = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1 * rng.normal(size=(2, 3, *leaf.shape)), draws)
    statistics = {"diverging": np.zeros((2, 3), dtype=bool), "n_steps": np.full((2, 3), 7, dtype=np.int32)}
    return sg.Posterior(draws, rest, rng.normal(size=(2, 3)), statistics, interrupted=True)


def kernels():
    """Every kernel class, with every kind of parameter among them."""
    k = sg.kernels
    lengthscale, frequency = functions((2, 1)), functions((2, 1), 2.0)
    se = k.SquaredExponential(0.3)
    weight = np.random.default_rng(2).normal(size=(2, 1, 2, 2)).view(np.complex128)[..., 0]
    return [
        se,
        k.SpectralMixture([[0.2], [0.4]], sg.Positive([[1.0], [2.0]], role="fixed"), [1.0, 0.5]),
        k.NonstationaryQuadratic(lengthscale),
        k.GeneralizedSpectralMixture(lengthscale, frequency),
        convolutional(),
        k.FullConvolutionalSpectral(np.eye(1), frequency),
        k.Chirplet(lengthscale, frequency, chirp=functions((2, 1), 0.0, "identity")),
        k.Phase(lengthscale, functions((2,), 0.0, "identity")),
        k.GeneralizedSpectral(0.5, 1.0, 2.0, smoothness=2.5),
        k.GeneralizedSpectral(0.5, 1.0, jnp.float32(2.0)),
        k.HarmonizableMixture([[0.0], [1.0]], [[[1.0]], [[3.0]]], 0.5, weight=weight),
        2.0 * (se + convolutional() + se) * se,
        k.Warped(se, functions((1,), 0.0, "identity")),
    ]


def assert_same(one, other):
    """Equal in type, structure and every bit; JAX arrays come back as NumPy arrays."""
    if isinstance(one, jax.Array):
        one = np.asarray(one)
    assert type(one) is type(other)
    if isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert list(one) == list(other) if one.dtype == object else one.tobytes() == other.tobytes()
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert_same(list(one.values()), list(other.values()))
    elif hasattr(one, "__dict__"):
        # JAX puts static fields last, wherever they stood.
        assert_same(dict(sorted(vars(one).items())), dict(sorted(vars(other).items())))
    else:
        assert repr(one) == repr(other)


# What comes back is what was saved


@pytest.mark.parametrize(
    "value",
    [
        None,
        [True, 0, -(2**70), 1.5, -0.0, 0.1 + 0.2, float("inf"), float("-inf"), float("nan"), "", "Ω\ud800\n\"'[[["],
        {"a": (1, (2,), []), "": {}, "class": {"tuple": [1]}, "é": ()},
        [np.arange(6).reshape(2, 3).astype(kind) for kind in "?bhilBHILefdFD"],
        [np.array(2.5), np.float32(2.5), np.int8(-3), np.bool_(True), np.complex128(1 + 2j)],
        [np.zeros((0, 3)), np.zeros((2, 0), complex), np.asfortranarray(np.eye(3)[:, :2]), np.arange(9)[::-2]],
        [np.array(["2001-05-30T12:00", "NaT"], kind) for kind in ("datetime64[us]", "datetime64[D]", "datetime64[ns]")],
        [np.datetime64("1610-01-01", "s"), np.timedelta64(3, "h")],
        [np.array([1.0, -0.0, np.nan, np.inf, 5e-324])],
        [np.array(["time", "Ω"], dtype=object), np.array([], dtype=object)],
        [jnp.arange(3), jnp.ones((2, 2), jnp.float32), jnp.asarray(1.0)],
    ],
)
def test_plain_values_and_arrays(tmp_path, value):
    save(tmp_path / "file", value, {"note": value})
    assert_same(value, load(tmp_path / "file"))
    assert_same({"note": value}, load_metadata(tmp_path / "file"))


def test_other_byte_orders_become_the_machine_s(tmp_path):
    save(tmp_path / "file", np.array([1.0, 2.0], ">f8"))
    assert_same(np.array([1.0, 2.0]), load(tmp_path / "file"))


def test_objects_of_the_library(tmp_path):
    sparse = SparseGP(convolutional(), StudentT(0.1, 5.0), Z)
    values = [
        *kernels(),
        exact(),
        posterior(),
        ChannelGP(sg.kernels.MaternPhase(sg.kernels.WarpedTime(2.0)), [functions((1,)), sg.Positive(0.5)], [0.1, 0.2]),
        CollapsedGP(convolutional(), functions(()), Z),
        VariationalGP(convolutional(), Bernoulli(), sg.Real(Z)),
        DoublyStochasticGP(sparse),
        sg.inference.Fit(sparse, np.arange(3.0), False),
        Moments(np.zeros(2), np.ones(2)),
        NeighbourGP(convolutional(), 0.1),
        Refresh(DATA, 3),
        Neighbourhoods.of(DATA, X, np.arange(12), 3),
    ]
    save(tmp_path / "file", values)
    assert_same(values, load(tmp_path / "file"))


@pytest.mark.slow
def test_a_fresh_process_predicts_the_same_bits(tmp_path):
    save(tmp_path / "file", {"model": exact(), "posterior": posterior(), "data": DATA})
    code = """if True:
        import sys, numpy as np, spectrogp as sg
        def predictions(model, posterior, data):
            X = np.linspace(-1.5, 1.5, 7)[:, None]
            return [*model.predict(data, X), *posterior.at(1, 2).predict(data, X), *posterior.statistics.values()]
        """
    scope: dict = {}
    exec(code, scope)  # noqa: S102
    here = scope["predictions"](exact(), posterior(), DATA)
    code += "\n        np.savez(sys.argv[2], *predictions(**sg.load(sys.argv[1])))"
    python(code, tmp_path / "file", tmp_path / "there.npz")
    with np.load(tmp_path / "there.npz") as there:
        for name, value in zip(there.files, here, strict=True):
            assert value.tobytes() == there[name].tobytes()
            assert np.all(np.isfinite(value))


def python(code, *arguments):
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file_is_plain_safetensors_the_same_every_time_and_holds_each_array_once(tmp_path):
    assert DATA.X is X
    save(tmp_path / "one", [X, X, DATA])
    save(tmp_path / "two", [X, X, DATA])
    content = (tmp_path / "one").read_bytes()
    assert content == (tmp_path / "two").read_bytes()
    tensors = safetensors.numpy.load(content)
    assert sorted(tensors) == ["0", "1", "2"]  # X, y and error
    np.testing.assert_array_equal(tensors["0"], X)
    one, two, _ = load(tmp_path / "one")
    assert one is two


# What cannot be saved


class Sum(eqx.Module):
    """A user's class with the name of one of the library's."""

    terms: tuple = ()


class Mine(sg.kernels.SquaredExponential):
    pass


HOLDS_ITSELF: list = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (sg.kernels.Chirplet(lambda X: X, 1.0), TypeError, r"^Chirplet\.lengthscale .*<lambda> is Python code"),
        (
            sg.kernels.Scaled(sg.kernels.Warped(Mine(1.0), jnp.sin), 1.0),
            TypeError,
            r"^Scaled\.kernel\.kernel .*\.Mine ",
        ),
        ([Sum()], TypeError, r"^list\[0\] .*\.Sum is not a class that model files know"),
        ({"a": (1, {2: 3})}, TypeError, r"^dict\['a'\]\[1\] .* keys must be strings, got 2"),
        ((os.system,), TypeError, r"^tuple\[0\] .* system is Python code"),
        (os, TypeError, r"^module cannot be saved: builtins\.module is not a class"),
        ({1}, TypeError, r"builtins\.set is not"),
        (np.array([[1], "a"], dtype=object), TypeError, "array of object"),
        (np.array(["a"]), TypeError, "array of str32"),
        (np.zeros(2, "i4,f8"), TypeError, "array of void96"),
        (np.ma.masked_array([1.0], [True]), TypeError, "MaskedArray is not"),
        (jnp.zeros(2, jnp.bfloat16), TypeError, "array of bfloat16"),
        (jax.random.key(0), TypeError, "array of key<fry>"),
        (HOLDS_ITSELF, ValueError, "^list cannot be saved: it is nested too deeply, or holds itself"),
        (eval("[" * 90 + "(1,)" + "]" * 90), None, ""),  # noqa: S307
        (eval("[" * 190 + "]" * 190 + "," + "[" * 190 + "]" * 190), None, ""),  # noqa: S307
        (["[" * 300], ValueError, "nested more than 256 deep"),
        (["a" * 2**22], ValueError, "takes 4194.* bytes"),
        ([0] * 10**5, ValueError, "more than 100000 values; large arrays must be NumPy arrays"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, value, error, message):
    path = tmp_path / "file"
    if error is None:
        save(path, value)
        assert load(path) == value
        return
    with pytest.raises(error, match=message):
        save(path, value)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_save_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    save(tmp_path / "file", "old")

    def fail(handle):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save(tmp_path / "file", "new")
    assert load(tmp_path / "file") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "file")


# Which classes a file may hold

# Exported classes of which no instance is ever saved, each with its reason.
NOT_STORED = {
    "Lanes": "work in progress: a model and its data, of which models are stored",
    "Local": "values at inputs, made anew from the kernel whenever they are needed",
}


def exported_classes():
    """Classes by their room and name."""
    for home in HOMES:
        face = importlib.import_module(f"spectrogp.{home}")
        yield from ((home, name, getattr(face, name)) for name in face.__all__ if inspect.isclass(getattr(face, name)))


def test_every_final_class_that_is_exported_can_be_saved():
    """Who adds a class writes a dataclass, a module or a named tuple, or gives the reason why not above."""
    final = {(home, name): cls for home, name, cls in exported_classes() if not name.startswith("Abstract")}
    assert len(final) > 50
    assert {name for (_, name), cls in final.items() if not is_storable(cls)} == set(NOT_STORED)
    for (home, name), cls in final.items():
        assert not inspect.isabstract(cls), name
        assert (cls.__name__, cls.__module__.split(".")[1]) == (name, home)  # where files look for it


def test_abstract_classes_cannot_be_saved():
    abstract = [cls for _, name, cls in exported_classes() if name.startswith("Abstract")]
    assert len(abstract) > 5
    assert not any(map(is_storable, abstract))


# Damage


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "file"
    save(path, exact(), {"note": "é"})
    return path.read_bytes()


def refused(path, content, reason=""):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=f"^{path} cannot be loaded: .*{reason}"):
        load(path)


def test_truncated_files_are_refused(tmp_path, content):
    for length in np.linspace(0, len(content) - 1, 200).astype(int):
        refused(tmp_path / "file", content[:length])
    refused(tmp_path / "file", content + b"\0", "damaged")


def test_flipped_bits_are_refused(tmp_path, content):
    for bit in random.Random(0).sample(range(8 * len(content)), 500):  # noqa: S311
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        refused(tmp_path / "file", bytes(damaged))


# Forgery: files whose digest is right


def sealed(content):
    """The same file with the right digest, as who makes it on purpose would."""
    start = content.index(b"sha256") + len(rb"sha256\":\"")
    empty = content[:start] + b"0" * 64 + content[start + 64 :]
    return content[:start] + hashlib.sha256(empty).hexdigest().encode() + content[start + 64 :]


def framed(header, tensors=b""):
    """A file with any header."""
    return sealed(len(header).to_bytes(8, "little") + header + tensors)


def record(tree, version=2, library="0.1.0", metadata=None):
    record = {"format": version, "sha256": "0" * 64, "library": library, "metadata": metadata or {"dict": {}}}
    return json.dumps(record | {"tree": tree}, separators=(",", ":"))


def forged(tree, tensors=None, **others):
    """A file with any structure."""
    return sealed(safetensors.numpy.save(tensors or {}, {"spectrogp": record(tree, **others)}))


def written(tree):
    """A file with any structure, given as text."""
    return sealed(safetensors.numpy.save({}, {"spectrogp": record("TREE").replace('"TREE"', tree)}))


def with_header(entries, tensors=b""):
    """A file of one array with any entries in the header."""
    header = {"__metadata__": {"spectrogp": record({"array": "0"})}} | entries
    return framed(json.dumps(header, separators=(",", ":")).encode(), tensors)


def with_two_records():
    header = json.dumps({"__metadata__": {"spectrogp": record(1)}}, separators=(",", ":"))
    return framed((header[:-1] + ',"__metadata__":{"spectrogp":"[1]"}}').encode())


class Bomb:
    def __reduce__(self):
        return os.system, ("touch executed",)


def instance(name, home, **fields):
    return {"class": name, "from": home, "fields": fields}


def real(**changes):
    return instance("Real", "parameters", **{"raw": {"array": "0"}, "prior": None, "role": "latent"} | changes)


ONE = {"0": np.ones((2, 2))}
F64 = {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}
PAYLOAD = instance("system", "os", command="touch executed")
MALICIOUS = {
    # Files of other kinds
    "empty": lambda: b"",
    "pickle": lambda: pickle.dumps(Bomb()),
    "pickle behind a length": lambda: (2**10).to_bytes(8, "little") + pickle.dumps(Bomb()),
    "object array": lambda: b"\x93NUMPY" + pickle.dumps(Bomb()),
    "zip": lambda: b"PK\x03\x04" + bytes(100),
    "json": lambda: json.dumps(PAYLOAD).encode(),
    "foreign safetensors": lambda: safetensors.numpy.save(ONE, {"format": "pt"}),
    "zeros": lambda: bytes(2**20),
    # Lengths and depths
    "huge header length": lambda: (2**63).to_bytes(8, "little") + forged(None)[8:],
    "huge header length, sealed": lambda: sealed((2**63).to_bytes(8, "little") + forged(None)[8:]),
    "header longer than the file": lambda: sealed((10**6).to_bytes(8, "little") + forged(None)[8:]),
    "huge header": lambda: forged("a" * 2**22),
    "deep lists": lambda: written("[" * 10**6 + "]" * 10**6),
    "deep lists, hidden": lambda: written("[" * 250 + '{"tuple":' * 250 + "1" + "}" * 250 + "]" * 250),
    "deep header": lambda: with_header({"0": json.loads("[" * 300 + "]" * 300)}),
    "many lists": lambda: written("[" + "[]," * 10**6 + "{}]"),
    "many lists, fewer": lambda: written("[" + "[]," * 49_000 + "{}]"),
    "long string": lambda: written('["' + "a" * (2**22 - 300) + '\\\\ud83d",{}]'),
    "long number": lambda: written("1" * 10**6),
    # Foreign code
    "os.system": lambda: forged(PAYLOAD),
    "os.system inside": lambda: forged(real(prior=PAYLOAD), ONE),
    "os.system as metadata": lambda: forged(1, metadata=PAYLOAD),
    "no room": lambda: forged({"class": "os.system", "fields": {"command": "touch executed"}}),
    "class of equinox": lambda: forged(instance("Module", "equinox")),
    "class of a private room": lambda: forged(instance("Module", "core")),
    "class of the module that loads": lambda: forged(instance("Any", "loading")),
    "module of a room": lambda: forged(instance("Sum", "kernels.base", terms={"tuple": []})),
    "absolute room": lambda: forged(instance("Sum", "spectrogp.kernels", terms={"tuple": []})),
    "parent of the library": lambda: forged(instance("system", ".os")),
    "path traversal": lambda: forged(instance("system", "../../os")),
    "path traversal by array": lambda: forged({"array": "../../etc/passwd"}, {"../../etc/passwdx": np.ones(1)}),
    "dunder fields": lambda: forged(real(__class__="os.system"), ONE),
    "reduce": lambda: forged(instance("Refresh", "models", __reduce__=1)),
    "no name": lambda: forged(instance("Refresh", "models", **{"../m": 1})),
    # Structures that are none
    "fields a list": lambda: forged(instance("Real", "parameters") | {"fields": []}),
    "class a list": lambda: forged(instance(["Real"], "parameters")),
    "room a list": lambda: forged(instance("Real", ["parameters"])),
    "more than a class": lambda: forged(real() | {"more": 1}, ONE),
    "unknown kind": lambda: forged({"set": [1]}),
    "two kinds": lambda: forged({"tuple": [], "dict": {}}),
    "tuple of nothing": lambda: forged({"tuple": 1}),
    "float": lambda: forged({"float": "1e5"}),
    "names": lambda: forged({"names": [1, "a"]}),
    "infinity": lambda: written("Infinity"),
    "no tree": lambda: sealed(written("1").replace(b"tree", b"tram")),
    "two records": with_two_records,
    "library a list": lambda: forged(1, library=[1]),
    "format of the past": lambda: forged(1, version=1),
    "format of the future": lambda: forged(1, version=3),
    # Arrays that are none
    "missing array": lambda: forged({"array": "1"}, ONE),
    "array a list": lambda: forged({"array": ["0"]}, ONE),
    "view as objects": lambda: forged({"array": "0", "view": "object"}, {"0": np.ones(2, np.int64)}),
    "view as times": lambda: forged({"array": "0", "view": "datetime64[us]"}, ONE),
    "view as complex": lambda: forged({"array": "0", "view": "complex128"}, {"0": np.ones((2, 3))}),
    "view a list": lambda: forged({"array": "0", "view": ["object"]}, ONE),
    "scalar of many": lambda: forged({"array": "0", "scalar": True}, ONE),
    "shape too large": lambda: with_header({"0": F64 | {"shape": [2**40]}}, bytes(16)),
    "shape overflows": lambda: with_header({"0": F64 | {"shape": [2**62, 2**62]}}, bytes(16)),
    "shape negative": lambda: with_header({"0": F64 | {"shape": [-2]}}, bytes(16)),
    "offsets beyond the file": lambda: with_header({"0": F64 | {"data_offsets": [0, 2**40]}}, bytes(16)),
    "offsets overlap": lambda: with_header({"0": F64, "1": F64}, bytes(16)),
    "data unused": lambda: with_header({"0": F64}, bytes(32)),
    "dtype unknown": lambda: with_header({"0": F64 | {"dtype": "O"}}, bytes(16)),
    "dtype of another size": lambda: with_header({"0": F64 | {"dtype": "F32"}}, bytes(16)),
    "dtype for machine learning": lambda: with_header({"0": F64 | {"dtype": "F8_E4M3", "shape": [16]}}, bytes(16)),
}
# These are found out only when their room is known, and so cost its import.
MALICIOUS_CLASSES = {
    "class of another room": lambda: forged(instance("Sum", "models", terms={"tuple": []})),
    "class that is not exported": lambda: forged(instance("Factored", "kernels")),
    "class imported from elsewhere": lambda: forged(instance("Array", "kernels")),
    "module": lambda: forged(instance("base", "kernels")),
    "dotted name": lambda: forged(instance("base.Sum", "kernels", terms={"tuple": []})),
    "function": lambda: forged(instance("sample_prior", "kernels")),
    "dunder": lambda: forged(instance("__all__", "kernels")),
    "abstract class": lambda: forged(instance("AbstractKernel", "kernels")),
    "abstract class without abstract methods": lambda: forged(instance("AbstractInner", "kernels")),
    "class that is not stored": lambda: forged(instance("Local", "kernels")),
    "a method of the class as an attribute": lambda: forged(instance("SpectralGPRegressor", "estimator", fit=1)),
    "missing field": lambda: forged(instance("Real", "parameters", raw=1)),
    "unknown field": lambda: forged(real(more=1), ONE),
    "field of a tuple": lambda: forged(instance("Moments", "models", mean=1, count=2)),
    "a property": lambda: forged(real(value=1), ONE),
}


@pytest.fixture(scope="module")
def malicious(tmp_path_factory):
    directory = tmp_path_factory.mktemp("malicious")
    for name, make in MALICIOUS.items():
        (directory / name).write_bytes(make())
    np.save(directory / "objects.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(directory / "archive", "w") as archive:
        archive.writestr("../../executed", "")
    (directory / "directory").mkdir()
    late = tmp_path_factory.mktemp("classes")
    for name, make in MALICIOUS_CLASSES.items():
        (late / name).write_bytes(make())
    return directory, late


@pytest.mark.parametrize("version", [1, 3])
def test_a_file_of_another_format_says_what_to_do(tmp_path, version):
    refused(
        tmp_path / "file",
        forged(1, version=version),
        f"it has format {version}, but spectrogp .* reads format 2: use the version that wrote it, or a newer one",
    )


@pytest.mark.parametrize("name", [name for name in MALICIOUS_CLASSES if "field" not in name])
def test_what_is_no_class_of_a_room_is_named(tmp_path, name):
    if name in ("a method of the class as an attribute", "a property"):
        refused(tmp_path / "file", MALICIOUS_CLASSES[name](), "has other fields")
    else:
        refused(tmp_path / "file", MALICIOUS_CLASSES[name](), r"it names .*\..*, which is not a class that model files")


def test_forged_files_are_what_they_pretend(tmp_path):
    """The same ways of forging give a file that loads when nothing is wrong with it."""
    (tmp_path / "file").write_bytes(forged(real(), ONE))
    assert_same(sg.Real(np.ones((2, 2)), role="latent"), load(tmp_path / "file"))
    (tmp_path / "file").write_bytes(with_header({"0": F64}, np.arange(2.0).tobytes()))
    assert_same(np.arange(2.0), load(tmp_path / "file"))
    (tmp_path / "file").write_bytes(written("[" * 200 + "]" * 200))
    load(tmp_path / "file")


WATCHED = """if True:
    import sys, pathlib
    dangerous = "os.system os.exec os.posix_spawn os.fork os.mkdir os.remove os.rename os.link".split()
    seen = []
    def watch(event, arguments):
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if writes or event in dangerous or event.split(".")[0] in ("subprocess", "socket", "shutil", "pickle"):
            seen.append((event, str(arguments)))
    def peak():
        return next(float(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
    def refuse(directory):
        for path in sorted(pathlib.Path(directory).iterdir()):
            try:
                load(path)
                print("loaded", path.name)
            except ModelFileError as error:
                assert len(str(error)) < 1000, path
    from spectrogp.files import ModelFileError
    from spectrogp.loading import HOMES, load
    sys.addaudithook(watch)
    refuse(sys.argv[1])
    print("jax" in sys.modules, peak() < 150.0, seen, peak())
    for home in HOMES:
        __import__(f"spectrogp.{home}")
    before = peak()
    del seen[:]
    refuse(sys.argv[2])
    print(peak() < before + 20.0, seen, before, peak())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_malicious_files_are_refused_execute_nothing_and_stay_small(malicious, tmp_path, monkeypatch):
    """In megabytes: below 150 in all where a file is refused before its classes are imported, and 20 beyond these."""
    monkeypatch.chdir(tmp_path)
    first, second = python(WATCHED, *malicious).splitlines()
    assert first.startswith("False True [] "), first
    assert second.startswith("True [] "), second
    assert not list(tmp_path.iterdir())


def test_mutated_structures_load_or_are_refused(tmp_path):
    """Junk in any place of a structure gives an object or the one error, never another."""
    save(tmp_path / "file", [exact(), DATA, np.datetime64(1, "s"), {"a": (1.0, float("inf"))}])
    content = (tmp_path / "file").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    tree = json.loads(header["__metadata__"]["spectrogp"])["tree"]
    tensors = safetensors.numpy.load(content)
    chance = random.Random(0)  # noqa: S311
    junk = [None, True, -1, 1e9, "", "0", "os.system", [], [[]], {}, {"array": "3"}, instance("Sum", "kernels")]

    def places(node):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, item in list(items):
            yield node, key
            if isinstance(item, dict | list):
                yield from places(item)

    outcomes = []
    for _ in range(300):
        changed = copy.deepcopy(tree)
        node, key = chance.choice(list(places(changed)))
        if isinstance(node, dict) and chance.random() < 0.3:
            node[chance.choice(["class", "from", "view", "scalar", "tuple", "x"])] = node.pop(key)
        else:
            node[key] = chance.choice(junk)
        (tmp_path / "file").write_bytes(forged(changed, tensors))
        try:
            load(tmp_path / "file")
            outcomes.append("loaded")
        except ModelFileError:
            outcomes.append("refused")
    assert min(outcomes.count("loaded"), outcomes.count("refused")) > 30


GROWS = """
import resource, sys
from spectrogp.files import ModelFileError
from spectrogp.loading import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load(sys.argv[1])
except ModelFileError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_file_of_holes_is_refused_before_it_is_read(tmp_path):
    """Six gibibytes behind a good start: the header tells how long the file must be."""
    path = tmp_path / "big"
    save(path, {"a": np.arange(3.0)})
    size = path.stat().st_size
    os.truncate(path, 6 * 2**30)
    done = subprocess.run([sys.executable, "-c", GROWS, path], capture_output=True, text=True, check=True)  # noqa: S603
    message, grown = done.stdout.splitlines()
    assert f"it has {6 * 2**30} bytes, but its header tells of {size}" in message
    assert int(grown) < 20_000  # kB
