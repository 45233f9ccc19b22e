"""ONNX models that are small as files and large after inlining: refused before work on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from tests.frontends.onnx.helpers import BOOL, F32, I64, build, model, node  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402
from tvm_disc.frontends.onnx.size import node_limit  # noqa: E402
from tvm_disc.support.limits import MOST_DEPTH, MOST_NODES, NODES_PER_NODE, most_nodes  # noqa: E402

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("d", 1)]


def function(name: str, nodes: Sequence[Any]) -> Any:
    return helper.make_function("d", name, ["a"], ["c"], nodes, OPSETS)


def calls(functions: Sequence[Any], last: str) -> Any:
    main = [node(last, ["x"], ["y"], domain="d")]
    return model(main, {"x": (F32, ["n"])}, domains={"d": 1}, functions=functions)


def chain(length: int, times: int) -> Any:
    """Functions that each call the one before several times."""
    made = [function("f0", [node("Neg", ["a"], ["c"])])]
    for k in range(1, length):
        names = ["a", *(f"b{t}" for t in range(times - 1)), "c"]
        body = [node(f"f{k - 1}", [i], [o], domain="d") for i, o in pairwise(names)]
        made.append(function(f"f{k}", body))
    return calls(made, f"f{length - 1}")


def circle(length: int) -> Any:
    """Functions of which the first calls the last."""
    made = [
        function(f"f{k}", [node(f"f{(k - 1) % length}", ["a"], ["c"], domain="d")])
        for k in range(length)
    ]
    return calls(made, "f0")


def through_a_branch() -> Any:
    """A function that calls itself in a branch alone, as recursion that ends would."""
    out = helper.make_tensor_value_info("r", F32, None)
    then = helper.make_graph([node("f", ["a"], ["r"], domain="d")], "t", [], [out])
    other = helper.make_graph([node("Neg", ["a"], ["r"])], "e", [], [out])
    tests = [
        node("ReduceSum", ["a"], ["s"], keepdims=0),
        node("Cast", ["s"], ["b"], to=TensorProto.BOOL),
        node("If", ["b"], ["c"], then_branch=then, else_branch=other),
    ]
    return calls([function("f", tests)], "f")


def nested(depth: int, loop: bool = True) -> Any:
    """Loops, or branches, inside of each other."""
    inner = [node("Neg", ["a0" if loop else "x"], ["r0"])]
    for k in range(depth):
        out = helper.make_tensor_value_info(f"r{k}", F32, None)
        if loop:
            ins = [
                helper.make_tensor_value_info(f"i{k}", I64, []),
                helper.make_tensor_value_info(f"k{k}", BOOL, []),
                helper.make_tensor_value_info(f"a{k}", F32, None),
            ]
            inner.append(node("Identity", [f"k{k}"], [f"kk{k}"]))
            go = helper.make_tensor_value_info(f"kk{k}", BOOL, [])
            body = helper.make_graph(inner, f"g{k}", ins, [go, out])
            inner = [node("Loop", ["t", "", f"a{k + 1}"], [f"r{k + 1}"], body=body)]
        else:
            other = helper.make_graph([node("Abs", ["x"], [f"r{k}"])], f"e{k}", [], [out])
            body = helper.make_graph(inner, f"g{k}", [], [out])
            inner = [node("If", ["c"], [f"r{k + 1}"], then_branch=body, else_branch=other)]
    if loop:
        inner = [node("Identity", ["x"], [f"a{depth}"]), *inner]
    return model(inner, {"x": (F32, ["n"]), "c": (BOOL, []), "t": (I64, [])})


HOSTILE: list[tuple[str, Callable[[], Any], str]] = [
    ("doubling", lambda: chain(31, 2), r"has 62 nodes, and 3221225471 after functions are inlined"),
    ("doubling, few", lambda: chain(15, 2), "at most 13000 .*; one call of function 'd.f14' is "),
    ("tenfold", lambda: chain(6, 10), r"and 211111 after"),
    ("long chain", lambda: chain(300, 1), f"nested more than {MOST_DEPTH} deep at node .* 'f"),
    ("recursion", lambda: circle(1), "cannot call themselves, found 'd.f0' -> 'd.f0'; write a"),
    ("mutual recursion", lambda: circle(3), "'d.f0' -> 'd.f2' -> 'd.f1' -> 'd.f0'"),
    ("much recursion", lambda: circle(5000), "cannot call themselves"),
    ("recursion in a branch", through_a_branch, "cannot call themselves, found 'd.f' -> 'd.f'"),
    ("nested loops", lambda: nested(12), "bodies of loops are converted 3 times; at most"),
    ("nested loops, deep", lambda: nested(25), "nest fewer loops"),
]


@pytest.mark.parametrize(("make", "message"), [h[1:] for h in HOSTILE], ids=[h[0] for h in HOSTILE])
def test_what_grows_without_bound_is_refused_at_once(make: Callable[[], Any], message: str) -> None:
    made = make()
    before = time.process_time()
    with pytest.raises(Unsupported, match=message):
        build(made)
    assert time.process_time() - before < 5


def test_functions_within_the_limit_are_built() -> None:
    x = np.array([1, -2, 3], "float32")
    np.testing.assert_array_equal(build(chain(4, 2))(x), x)  # eight negations


def test_the_limit_grows_with_the_nodes_in_the_file() -> None:
    assert most_nodes(0) == MOST_NODES
    assert most_nodes(7) - most_nodes(6) == NODES_PER_NODE
    assert node_limit(chain(4, 2).graph, {}) == most_nodes(1)


@pytest.mark.parametrize("depth", [1, 2])
def test_nested_loops_are_built(depth: int) -> None:
    x = np.array([1, -2, 3], "float32")
    exe = build(nested(depth))
    for times in (1, 3, 0):
        found = exe(x=x, c=np.array(True), t=np.array(times))
        np.testing.assert_array_equal(found, x * (-1) ** (times**depth) if times else x)


def test_nested_branches_are_built() -> None:
    x = np.array([1, -2, 3], "float32")
    exe = build(nested(6, loop=False))
    np.testing.assert_array_equal(exe(x=x, c=np.array(True), t=np.array(0)), -x)
    np.testing.assert_array_equal(exe(x=x, c=np.array(False), t=np.array(0)), abs(x))


def test_loops_that_are_unrolled_count_each_turn() -> None:
    made = nested(5)
    made.graph.input.remove(made.graph.input[2])
    made.graph.initializer.add().CopyFrom(onnx.numpy_helper.from_array(np.array(8), "t"))
    with pytest.raises(Unsupported, match="nodes have been converted, because the bodies of"):
        build(made)
