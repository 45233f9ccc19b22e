"""What is computed before a branch or a loop, and read in it and behind it: computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.interpreter import interpret
from tvm_disc import relay

BRANCH = """#[version = "0.0.5"]
def @main(%x: Tensor[{shape}, float32], %c: bool) {{
  %0 = sinh(%x);
  %1 = if (%c) {{ %x }} else {{ {inner} }};
  {tail}
}}
"""
LOOP = """#[version = "0.0.5"]
def @main(%x: Tensor[{shape}, float32], %n: int32) {{
  %0 = sinh(%x);
  %1 = (
    let %loop = fn (%i: int32, %a: Tensor[{shape}, float32]) {{
      if (less(%i, %n)) {{ %loop(add(%i, 1), add(%a, {inner})) }} else {{ %a }}
    }};
    %loop
  );
  %2 = %1(0, %0);
  {tail}
}}
"""
# By what is read in the branch: rows, a sum along columns, a product, a transpose of it.
INNER = {
    "row": "nn.softmax(%0)",
    "row of a loop": "nn.softmax(multiply(%0, %0))",
    "norm": "nn.l2_normalize(%0, eps=1e-06f, axis=[1])",
    "columns": "subtract(%0, sum(%0, axis=[0], keepdims=True))",
    "product": "nn.matmul(nn.matmul(%0, %0, units=None, transpose_b=True), %0, units=None)",
    "transpose": "transpose(transpose(%0, axes=[1, 0]), axes=[1, 0])",
}
SHAPES = {"dynamic": "(?, ?)", "rows": "(?, 7)", "static": "(3, 7)"}


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, relay.ConstructorValue):
        value = tuple(value.fields)
    return [x for v in value for x in leaves(v)] if isinstance(value, tuple) else [value]


def check(text: str, given: Callable[[np.ndarray], Any], shape: str) -> Any:
    module = relay.parse(text)
    exe = tvm_disc.build(module)
    rng = np.random.default_rng(0)
    for rows in (3,) if shape == "static" else (0, 1, 5, 64):
        x = rng.standard_normal((rows, 7)).astype("float32")
        for value in given(x):
            found, wanted = exe(x, value), interpret(module, x, value)
            for f, w in zip(leaves(found), leaves(wanted), strict=True):
                np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-4)
    return exe


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tail", ["subtract(%0, %1)", "(negative(%1), %0)", "(%0, %1)"])
@pytest.mark.parametrize("inner", INNER)
def test_a_branch(inner: str, tail: str, shape: str) -> None:
    text = BRANCH.format(shape=SHAPES[shape], inner=INNER[inner], tail=tail)
    check(text, lambda x: (np.array(True), np.array(False)), shape)


def test_it_is_computed_once() -> None:
    """One kernel before the branch, one in it for the row, one behind it."""
    text = BRANCH.format(shape="(?, ?)", inner=INNER["row"], tail="subtract(%0, %1)")
    exe = tvm_disc.build(text)
    assert exe.launches == ["loop_sinh_0", "row_max_1", "loop_subtract_2"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tail", ["subtract(%0, %2)", "(negative(%2), %0)", "(%0, %2)"])
@pytest.mark.parametrize("inner", INNER)
def test_a_loop(inner: str, tail: str, shape: str) -> None:
    text = LOOP.format(shape=SHAPES[shape], inner=INNER[inner], tail=tail)
    check(text, lambda x: [np.array(n, "int32") for n in range(4)], shape)


@pytest.mark.parametrize("inner", INNER)
def test_a_branch_in_a_branch(inner: str) -> None:
    text = BRANCH.format(
        shape="(?, ?)",
        inner=f"if (less(sum(%x), 0f)) {{ {INNER[inner]} }} else {{ negative(%0) }}",
        tail="(%1, add(%0, %1))",
    )
    check(text, lambda x: (np.array(True), np.array(False)), "dynamic")


@pytest.mark.parametrize("inner", INNER)
def test_a_branch_that_gives_a_list(inner: str) -> None:
    text = BRANCH.format(
        shape="(?, ?)", inner=f"Cons({INNER[inner]}, Cons(%0, Nil))", tail="(%0, %1, negative(%0))"
    )
    text = text.replace("{ %x }", "{ Cons(%0, Nil) }")
    text = text.replace("def @main", "type List[A] { Cons(A, List[A]), Nil, }\ndef @main")
    check(text, lambda x: (np.array(True), np.array(False)), "dynamic")


@pytest.mark.parametrize("inner", INNER)
def test_a_loop_that_grows_a_list(inner: str) -> None:
    text = LOOP.format(shape="(?, ?)", inner=f"head({INNER[inner]})", tail="(%0, %2, negative(%0))")
    text = text.replace("%a: Tensor[(?, ?), float32]", "%a: List[Tensor[(?, ?), float32]]")
    text = text.replace(f"add(%a, head({INNER[inner]}))", f"Cons({INNER[inner]}, %a)")
    text = text.replace("%1(0, %0)", "%1(0, Nil)")
    text = text.replace("def @main", "type List[A] { Cons(A, List[A]), Nil, }\ndef @main")
    check(text, lambda x: [np.array(n, "int32") for n in range(4)], "dynamic")
