"""Calls and methods of a program, and `load`: what is refused, and what is said."""

from __future__ import annotations

import array
import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import ArtifactError, BadInput, BadNode

ONES = np.ones((3, 4), "float32")
MASKED = np.ma.array(ONES, mask=ONES > 0)


@pytest.fixture(scope="module")
def exe() -> Any:
    x = rows("n", 4)
    return tvm_disc.build(function(x, relay.exp(x)))


@pytest.fixture(scope="module")
def whole() -> Any:
    """A program of int32 vectors."""
    x = rows("n", dtype="int32")
    return tvm_disc.build(function(x, relay.add(x, x)))


LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


class Hostile:
    """Fails at whatever it is asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Nowhere:
    """A tensor that stands for one to come: shape and type, and no memory."""

    shape, dtype = (3, 4), np.dtype("float32")

    def __dlpack__(self, **_: Any) -> Any:
        return nowhere()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def nowhere() -> Any:
    """A DLPack capsule of float32[3, 4] at address 0."""
    words = (ctypes.c_int64 * 16)()  # DLManagedTensor: data, device, rank, type, shape, ...
    dims = (ctypes.c_int64 * 2)(3, 4)
    words[1] = 1  # CPU 0
    words[2] = 2 | (2 | 32 << 8 | 1 << 16) << 32
    words[3] = ctypes.addressof(dims)
    KEPT.extend((words, dims))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    return make(ctypes.addressof(words), b"dltensor", None)


KEPT: list[Any] = []  # what capsules point to
CALLS = [
    (
        (LOOP,),
        {},
        r"'x': expected float32 numbers in lists of .* found list \[\[...\]\]",
    ),
    ((DEEP,), {}, "'x': expected float32 numbers in lists of equal lengths"),
    (({"a": LOOP},), {}, "'x': expected a tensor, found dict"),
    ((Hostile(),), {}, "'x': expected a tensor, found Hostile"),
    ((np.ndarray,), {}, "'x': expected a tensor, found type"),
    ((Nowhere(),), {}, "'x': expected a tensor with memory, found a null pointer"),
    ((ONES,), {"out": Nowhere()}, "output 0: expected a tensor with memory"),
    ((ONES.astype(">f4"),), {}, "'x': expected dtype float32, found >f4"),
    ((ONES.astype("g"),), {}, "'x': expected dtype float32, found float"),
    ((np.zeros((3, 4), [("a", "f4")]),), {}, "'x': expected dtype float32, found .*'a'"),
    ((ONES,), {"out": LOOP}, "out: expected tensors nested like the results, found deeper nesting"),
    ((ONES,), {"out": Hostile()}, "output 0: expected a tensor, found Hostile"),
    ((ONES,), {"out": np.zeros((3, 4), object)}, "output 0: expected a tensor with DLPack export"),
    ((), {"self": ONES}, "unknown input self; expected x"),
    (
        (memoryview(ONES),),
        {},
        "'x': expected a tensor, found memoryview; convert it with numpy.asarray",
    ),
    ((b"abc",), {}, "'x': expected a tensor, found bytes; convert it with numpy.frombuffer"),
    ((array.array("f", [1.0]),), {}, "'x': expected a tensor, found array"),
    (([[1, 2], [3]],), {}, r"'x': expected float32 numbers in lists of equal lengths, found list"),
    ((["a"],), {}, r"'x': expected float32 numbers .* found list \['a'\]"),
    (("abc",), {}, "'x': expected a tensor, found str"),
    ((None,), {}, "'x': expected a tensor, found NoneType"),
    (([[None] * 4],), {}, "'x': expected float32 numbers"),
    (
        ([[1e300] * 4],),
        {},
        "'x': expected float32 numbers, found list .*: a number does not fit float32",
    ),
    (({"a": 1},), {}, "'x': expected a tensor, found dict"),
    ((MASKED,), {}, r"'x': expected a tensor, found a masked array.*filled"),
    ((), {"x": MASKED}, "'x': expected a tensor, found a masked array"),
    ((ONES.astype("float64"),), {}, "float32.*found x: float64"),
    ((np.ones((3, 5), "float32"),), {}, r"x: float32\[3, 5\]"),
    ((), {}, r"expected 1 input \(x\), found 0"),
    ((ONES, ONES), {}, r"expected 1 input \(x\), found 2"),
    ((ONES, 12345), {}, r"expected 1 input \(x\), found 2"),
    ((ONES,), {"x": ONES}, "repeated input x"),
    ((ONES,), {"y": ONES}, "unknown input y; expected x"),
    ((ONES,), {"out": 5}, "output 0: expected a tensor, found int"),
    ((ONES,), {"out": [None]}, "output 0: expected a tensor, found NoneType"),
    ((ONES,), {"out": (ONES, ONES)}, "out: expected 1 tensor, found 2"),
    ((ONES,), {"out": MASKED.copy()}, "output 0: expected a tensor, found a masked array"),
    ((ONES,), {"out": np.broadcast_to(ONES[:1], (3, 4))}, "output 0: .* read-only"),
    ((ONES,), {"out": np.ones((2, 4), "float32")}, "output 0"),
]


@pytest.mark.parametrize(("args", "kwargs", "message"), CALLS, ids=range(len(CALLS)))
def test_calls(exe: Any, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        exe(*args, **kwargs)
    np.testing.assert_allclose(exe(ONES), np.exp(ONES), rtol=1e-6)


@pytest.mark.parametrize("method", ["bind", "profile"])
def test_calls_by_other_names(exe: Any, method: str) -> None:
    for args, message in (((), "found 0"), ((ONES, 5), "found 2"), ((MASKED,), "masked")):
        with pytest.raises(BadInput, match=message):
            getattr(exe, method)(*args)


@pytest.mark.parametrize(
    "value", [[1.7], [1.0], 1.5, [2**40], [-(2**31) - 1], [10**400], [1 + 2j], [np.float64(2)]]
)
def test_numbers_that_would_change(whole: Any, value: Any) -> None:
    with pytest.raises(BadInput, match="input 'x': expected int32 numbers"):
        whole(value)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [([1, 2], [2, 4]), ([True], [2]), ([2**30], [-(2**31)]), ([np.int64(3)], [6]), ([], [])],
)
def test_numbers_that_fit(whole: Any, value: Any, wanted: Any) -> None:
    assert whole(value).tolist() == wanted


def record(exe: Any, path: str) -> None:
    with exe.record_shapes(path):
        exe(ONES)


METHODS = [
    (lambda e: setattr(e, "threads", 2**64), "threads: expected at most 65536"),
    (lambda e: setattr(e, "threads", 1.5), "threads: expected an integer, found float 1.5"),
    (lambda e: setattr(e, "threads", "2"), "threads: expected an integer, found str '2'"),
    (lambda e: setattr(e, "threads", True), "threads: expected an integer, found bool True"),
    (lambda e: setattr(e, "threads", 0), "threads: expected at least 1, found 0"),
    (lambda e: e.keep_memory("a"), "limit_bytes: expected an integer, found str 'a'"),
    (lambda e: e.keep_memory(1.5), "limit_bytes: expected an integer, found float 1.5"),
    (lambda e: e.keep_memory(-1), "limit_bytes: expected at least 0, found -1"),
    (lambda e: e.keep_memory(2**70), "limit_bytes: expected at most"),
    (lambda e: e.keep_memory(1, "a"), "results_bytes: expected an integer"),
    (
        lambda e: e.workspace_bytes(5),
        "shapes: expected a mapping from input names to shapes, found int 5",
    ),
    (lambda e: e.workspace_bytes({}), r"shape of 'x': expected \[n, 4\], found no shape"),
    (lambda e: e.workspace_bytes({"x": (3,)}), r"shape of 'x': expected \[n, 4\], found \[3\]"),
    (lambda e: e.workspace_bytes({"x": "ab"}), r"shape of 'x': expected \[n, 4\], found str 'ab'"),
    (lambda e: e.workspace_bytes({"x": (-3, 4)}), "shape of 'x', axis 0: expected at least 0"),
    (lambda e: e.workspace_bytes({"x": (1.5, 4)}), "shape of 'x', axis 0: expected an integer"),
    (lambda e: e.workspace_bytes({"x": (3, 5)}), "shape of 'x': expected 4 on axis 1, found 5"),
    (lambda e: e.explain({"x": (3, 4), "y": (1,)}), "shapes: unknown input y; expected x"),
    (lambda e: e.explain(picture=5), "picture: expected a path, found 5"),
    (lambda e: e.explain(picture="x.foo"), r"x\.foo"),
    (lambda e: e.profile(ONES, repeat=0), "repeat: expected at least 1, found 0"),
    (lambda e: e.profile(ONES, repeat=1.5), "repeat: expected an integer"),
    (lambda e: e.source("foo"), "source: expected 'll' or 'asm', found 'foo'"),
    (lambda e: e.source(5), "source: expected 'll' or 'asm', found 5"),
    (lambda e: e.record_shapes(5).__enter__(), "record_shapes: expected a path, found 5"),
    (lambda e: e.record_shapes("/none/x").__enter__(), "record_shapes: /none/x: No such file"),
    (lambda e: e.save(5), "save: expected a path, found 5"),
    (lambda e: e.save("x.so", compiler=5), "compiler: expected the name of a C compiler, found 5"),
    (lambda e: e.save("a\0b"), r"save: expected a valid path, found 'a\\x00b'"),
    (lambda e: e.save("\ud800.so"), "save: expected a valid path"),
    (lambda e: e.explain_html("a\0b"), "explain_html: expected a valid path"),
    (lambda e: e.record_shapes("\0").__enter__(), "record_shapes: expected a valid path"),
    (lambda e: record(e, "/dev/full"), "record_shapes: /dev/full: No space left"),
    (lambda e: tvm_disc.load("a\0b"), "load: expected a valid path"),
    (lambda e: tvm_disc.load(5), "load: expected a path, found 5"),
    (lambda e: tvm_disc.load(None), "load: expected a path, found None"),
    (lambda e: tvm_disc.load(b"x"), "load: expected a path, found b'x'"),
]


@pytest.mark.parametrize(("use", "message"), METHODS, ids=range(len(METHODS)))
def test_methods(exe: Any, use: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        use(exe)


def test_a_file_without_an_ending() -> None:
    with pytest.raises(ArtifactError, match="noext: no such file"):
        tvm_disc.load("noext")


def test_a_name_that_is_too_long(exe: Any, tmp_path: Any) -> None:
    with pytest.raises(ArtifactError, match="cannot be written: File name too long"):
        exe.save(tmp_path / ("x" * 300))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(ArtifactError, match="/proc/self/mem: cannot be read: "):
        tvm_disc.load("/proc/self/mem")


def test_samples_that_no_memory_holds(exe: Any, tmp_path: Any) -> None:
    with pytest.raises(MemoryError, match=r"out of memory for a sample of float32\[\d+, 4\]"):
        exe.explain_html(tmp_path / "page.html", dims={"n": 2**61}, profile=True)


def test_copies_that_no_memory_holds(exe: Any) -> None:
    with pytest.raises(MemoryError, match="out of memory for a copy of x: float32"):
        exe(np.broadcast_to(np.float32(1), (2**50, 4)))


@pytest.mark.parametrize("value", [((1.0,) * 4,), [[1.0] * 4], np.ones((1, 4), "float32")])
def test_numbers_of_python_give_arrays(exe: Any, value: Any) -> None:
    found = exe(value)
    assert type(found) is np.ndarray and found.shape == (1, 4)


@pytest.mark.parametrize("given", [[[1.0] * 4], np.ones((6, 8), "float32")[::2, ::2]])
def test_what_is_bound_is_in_the_program_s_form(exe: Any, given: Any) -> None:
    wanted = np.exp(np.asarray(given, "float32"))
    np.testing.assert_allclose(np.from_dlpack(exe.bind(given)()), wanted, rtol=1e-6)


def test_an_input_may_be_called_self() -> None:
    x = rows("n", name="self")
    named = tvm_disc.build(function(x, relay.exp(x)))
    zeros = {"self": np.zeros(3, "float32")}
    assert named(**zeros).tolist() == [1, 1, 1]
    assert np.from_dlpack(named.bind(**zeros)()).tolist() == [1, 1, 1]
    assert len(named.profile(repeat=1, **zeros).calls) == 1


def test_inputs_of_one_name_are_told_apart() -> None:
    several = [rows("n", name="x") for _ in range(3)]
    sums = relay.Tuple([relay.add(x, relay.const(float(k))) for k, x in enumerate(several)])
    exe = tvm_disc.build(function(*several, sums))
    assert exe.inputs == ["x", "x_1", "x_2"]
    given = {name: np.full(2, 10.0 * k, "float32") for k, name in enumerate(exe.inputs)}
    assert [r.tolist() for r in exe(**given)] == [[0, 0], [11, 11], [22, 22]]
    with pytest.raises(BadInput, match="missing inputs x_1, x_2; expected x, x_1, x_2"):
        exe(x=given["x"])


@pytest.mark.parametrize("name", ["a b", "class", "1", '\x07\U0001f600\\"', "??/", "_t0"])
def test_names_of_dims_and_inputs_are_free(name: str, tmp_path: Any) -> None:
    x = relay.var(name, shape=(relay.Any(name), 3))
    y = relay.var("y", shape=(relay.Any(name), 3))
    built = tvm_disc.build(function(x, y, relay.add(x, y)))
    built.save(tmp_path / "program.so")
    for exe in (built, tvm_disc.load(tmp_path / "program.so")):
        a = np.ones((2, 3), "float32")
        assert exe.inputs == [name, "y"] and exe(a, a).tolist() == [[2, 2, 2]] * 2
        assert exe(**{name: a, "y": a}).shape == (2, 3)
        assert exe.explain({name: (2, 3), "y": (2, 3)}) and exe.explain(dims={"y.0": 2})
        with pytest.raises(BadInput, match="input 'y' axis 0: expected"):
            exe(a, np.ones((5, 3), "float32"))


def test_half_a_character_is_no_name() -> None:
    with pytest.raises(BadNode, match="the name of a variable contains an unpaired surrogate"):
        relay.var("a\ud800", shape=(3,))
