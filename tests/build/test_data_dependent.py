"""Sizes, bounds and counts that only the data knows: read when they exist, one program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.interpreter import interpret
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, TypeMismatch, Unsupported

HEAD = '#[version = "0.0.5"]\n'
ROW = "%x: Tensor[(?), float32]"


def built(text: str) -> tuple[Any, Any]:
    """(module, program)."""
    mod = relay.parse(HEAD + text)
    return mod, tvm_disc.build(mod)


def int_(*items: int) -> np.ndarray:
    return np.array(items[0] if len(items) == 1 else items, "int32")


def vector(n: int) -> np.ndarray:
    return np.arange(n, dtype="float32") * 3 % 7


def matrix(rows: int, width: int) -> np.ndarray:
    return vector(rows * width).reshape(rows, width)


PROGRAMS = {
    "range": (
        """def @main(%a: int32, %b: int32) {
          let %r = arange(%a, add(%b, %a), 2, start=%a, stop=%b, step=2, dtype="int32");
          (%r, sum(%r), concatenate((%r, %r))) }""",
        [(int_(a), int_(b)) for a, b in ((0, 1), (-3, 9), (5, 64), (2, -4), (1, 0))],
    ),
    "range of floats": (
        """def @main(%a: float32, %b: Tensor[(1), float32], %s: float32) {
          let %r = arange(%a, %b, 0.5f, start=%a, stop=%b, step=0.5f, dtype="float32");
          let %t = arange(%a, 9f, %s, start=%a, stop=9f, step=%s, dtype="float32");
          (%r, sum(%r), multiply(%t, 2f), arange(0f, %b, 1f, start=0f, stop=%b, step=1f,
            dtype="int32")) }""",
        [
            (np.float32(a), np.array([b], "float32"), np.float32(s))
            for a, b, s in ((0, 0.5, 9), (-3.25, 9, 0.1), (5, 37, -1), (2, -4, 1e-2), (8.75, 9, 3))
        ],
    ),
    "range of floats to a dim": (
        f"""def @main({ROW}) {{
          let %n = cast(take(shape_of(%x, dtype="int64"), 0, axis=0), dtype="float32");
          multiply(%x, arange(0f, %n, 1f, start=0f, stop=%n, step=1f, dtype="float32")) }}""",
        [(vector(n),) for n in (0, 1, 7, 64, 65)],
    ),
    "slice": (
        f"""def @main({ROW}, %b: Tensor[(1), int64], %e: Tensor[(1), int64]) {{
          let %one = cast(ones(shape=[1], dtype="int32"), dtype="int64");
          let %s = dyn.strided_slice(%x, %b, %e, %one, begin=None, end=None, strides=None,
            slice_mode="end", axes=None);
          (%s, add(%s, 1f), max(concatenate((%s, %x)))) }}""",
        [
            (vector(n), np.array([b], "int64"), np.array([e], "int64"))
            for n, b, e in ((1, 0, 1), (7, 2, 5), (64, -9, -1), (17, 3, 99), (5, 4, 2))
        ],
    ),
    "top k": (
        f"def @main({ROW}, %k: int32) {{ dyn.topk(%x, %k, k=None) }}",
        [(vector(n), int_(k)) for n, k in ((1, 1), (7, 3), (64, 10), (5, 9), (4, 0))],
    ),
    "shapes of new tensors": (
        """def @main(%n: int32, %m: int32) {
          let %shape = stack((add(%n, 1), %m), axis=0);
          (dyn.full(1.5f, %shape, shape=None, dtype="float32"),
           dyn.zeros(%shape, shape=None, dtype="int32")) }""",
        [(int_(a), int_(b)) for a, b in ((0, 1), (2, 3), (6, 64), (4, 0), (1, 17))],
    ),
    "reshape": (
        f"""def @main({ROW}, %n: int32) {{
          let %y = dyn.reshape(%x, stack((%n, 2), axis=0), newshape=None, allowzero=False);
          nn.softmax(%y, axis=-1) }}""",
        [(vector(2 * n), int_(n)) for n in (1, 2, 7, 16, 64)],
    ),
    "repetitions": (
        """def @main(%x: Tensor[(?, ?), float32], %r: Tensor[(2), int32]) {
          add(dyn.tile(%x, %r, reps=None), 1f) }""",
        [(matrix(a, b), int_(c, d)) for a, b, c, d in ((1, 1, 1, 1), (2, 3, 2, 3), (7, 1, 1, 4))],
    ),
    "size counted by a loop": (
        f"""def @main({ROW}, %n: int32) {{
          let %bits = fn (%i: int32, %k: int32) -> int32 {{
            if (less(%i, 1)) {{ %k }} else {{ %bits(divide(%i, 2), add(%k, 1)) }} }};
          let %count = %bits(%n, 0);
          concatenate((%x, cast(arange(0, %count, 1, start=0, stop=%count, step=1, dtype="int32"),
            dtype="float32"))) }}""",
        [(vector(k), int_(n)) for k, n in ((1, 1), (3, 0), (7, 64), (0, 5), (16, 1000))],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_from_data(name: str) -> None:
    text, cases = PROGRAMS[name]
    mod, exe = built(text)
    for case in cases:
        found, wanted = exe(*case), interpret(mod, *case)
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=1e-6)
            assert a.shape == b.shape


def test_a_result_whose_shape_is_read_after_it_is_computed() -> None:
    """The tensor for the caller is made before the kernel writes it, but its dims come later."""
    _, exe = built(
        """def @main(%x: Tensor[(?, 4), float32], %s: Tensor[(2), int64]) {
          let %e = exp(%x);
          let %r = dyn.reshape(%e, %s, newshape=None);
          (%r, tanh(%r), %e) }"""
    )
    for rows, shape in ((3, (2, 6)), (1, (4, 1)), (7, (28, 1)), (64, (16, 16)), (5, (1, 20))):
        x = matrix(rows, 4) + 1
        found = exe(x, np.array(shape))
        for a, b in zip(found, (np.exp(x), np.tanh(np.exp(x)), np.exp(x)), strict=True):
            np.testing.assert_allclose(a.reshape(-1), b.reshape(-1), rtol=1e-6)
        assert [a.shape for a in found] == [shape, shape, x.shape]
    with pytest.raises(GuardFailed, match=r"must equal number \* number_1"):
        exe(matrix(3, 4), np.array([5, 2]))


def test_what_is_read_is_checked() -> None:
    _, exe = built(PROGRAMS["shapes of new tensors"][0])
    with pytest.raises(GuardFailed, match="the shape must be at least 0"):
        exe(int_(3), int_(-1))
    assert exe(int_(3), int_(1))[0].shape == (4, 1)
    _, exe = built(PROGRAMS["reshape"][0])
    with pytest.raises(GuardFailed, match="the new shape must be at least 0"):
        exe(vector(6), int_(-2))
    with pytest.raises(GuardFailed, match="must equal"):
        exe(vector(6), int_(4))
    assert exe(vector(6), int_(3)).shape == (3, 2)
    _, exe = built(PROGRAMS["range of floats"][0])
    one = np.array([1], "float32")
    for start, step in ((0, 0), (np.nan, 1), (-np.inf, 1), (0, 1e-30)):
        with pytest.raises(GuardFailed, match="the length of the range must be at least 0"):
            exe(np.float32(start), one, np.float32(step))
    assert exe(np.float32(0), one, np.float32(3))[2].shape == (3,)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            f"def @main({ROW}, %k: float32) {{ dyn.topk(%x, %k, k=None) }}",
            TypeMismatch,
            "expected integers, found float32",
        ),
        (
            """def @main(%a: float32) {
              arange(%a, 9f, 0f, start=%a, stop=9f, step=0f, dtype="float32") }""",
            Unsupported,
            "expected a step other than 0, found 0",
        ),
        (
            """def @main(%s: Tensor[(?), int32]) {
              dyn.zeros(%s, shape=None, dtype="float32") }""",
            Unsupported,
            "the number of elements of the shape must be known at compile time",
        ),
    ],
)
def test_refusals(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        built(text)
