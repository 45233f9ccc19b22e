"""Calls and methods of a program, and `load`: what is refused, and what is said."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import ArtifactError, BadInput

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


CALLS = [
    ((memoryview(ONES),), {}, "'x': expected a tensor, found memoryview; numpy.asarray makes one"),
    ((b"abc",), {}, "'x': expected a tensor, found bytes"),
    ((array.array("f", [1.0]),), {}, "'x': expected a tensor, found array"),
    (([[1, 2], [3]],), {}, r"'x': expected float32 numbers in lists of equal lengths, found list"),
    ((["a"],), {}, r"'x': expected float32 numbers .* found list \['a'\]"),
    (("abc",), {}, "'x': expected a tensor, found str"),
    ((None,), {}, "'x': expected a tensor, found NoneType"),
    (([[None] * 4],), {}, "'x': expected float32 numbers"),
    (([[1e300] * 4],), {}, "'x': expected float32 numbers, found list .* which would change"),
    (({"a": 1},), {}, "'x': expected a tensor, found dict"),
    ((MASKED,), {}, r"'x': expected a tensor, found a masked array.*filled"),
    ((), {"x": MASKED}, "'x': expected a tensor, found a masked array"),
    ((ONES.astype("float64"),), {}, "float32.*found x: float64"),
    ((np.ones((3, 5), "float32"),), {}, r"x: float32\[3, 5\]"),
    ((), {}, r"expected 1 inputs \(x\), found 0"),
    ((ONES, ONES), {}, r"expected 1 inputs \(x\), found 2"),
    ((ONES, 12345), {}, r"expected 1 inputs \(x\), found 2"),
    ((ONES,), {"x": ONES}, "repeated input x"),
    ((ONES,), {"y": ONES}, "unknown input y; expected x"),
    ((ONES,), {"out": 5}, "output 0: expected a tensor, found int"),
    ((ONES,), {"out": [None]}, "output 0: expected a tensor, found NoneType"),
    ((ONES,), {"out": (ONES, ONES)}, "out: expected 1 tensors, found 2"),
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
    (lambda e: e.workspace_bytes(5), "shapes: expected a shape by input name, found int 5"),
    (lambda e: e.workspace_bytes({}), r"shape of 'x': expected \[n, 4\], found nothing"),
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
