"""Passes of Relay that make no sense here, and programs that a pass cannot take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.transform import REFUSED, recast

from tests.relay.helpers import run
from tests.relay.transform.helpers import optimized, parsed, same
from tvm_disc import relay
from tvm_disc.errors import BadNode, Unsupported

X = relay.var("x", shape=(2, 3))


@pytest.mark.parametrize("name", REFUSED)
def test_each_says_why(name: str) -> None:
    with pytest.raises(Unsupported, match=rf"relay\.transform\.{name}: \w+"):
        getattr(relay.transform, name)()


def test_a_name_of_no_pass() -> None:
    with pytest.raises(AttributeError, match="Relay has no pass 'NoSuch'"):
        relay.transform.NoSuch()


def test_entries_that_are_no_functions() -> None:
    with pytest.raises(BadNode, match=r"expected entries among \['main'\], found 'other'"):
        optimized("def @main() { 1 }", relay.transform.RemoveUnusedFunctions(["other"]))


def conv() -> relay.Call:
    image, kernel = relay.var("i", shape=(1, 3, 8, 8)), relay.var("k", shape=(4, 3, 3, 3))
    return relay.nn.conv2d(image, kernel, kernel_size=(3, 3), channels=4)


def test_recast_a_convolution() -> None:
    made = recast(relay.nn.relu(conv()), "int8", "int32")
    back = made.args[0]  # the next operator reads the type of before
    assert back.op.name == "cast" and back.attrs["dtype"] == "float32"
    assert back.args[0].attrs["out_dtype"] == "int32"
    assert [a.op.name for a in back.args[0].args] == ["cast", "cast"]
    assert all(a.attrs["dtype"] == "int8" for a in back.args[0].args)


@pytest.mark.parametrize(("skip", "left"), [([0], "ii"), ([-1], "oo"), ([0, 1], "")])
def test_recast_leaves_some_layers(skip: list[int], left: str) -> None:
    first = relay.nn.dense(X, X)
    both = relay.nn.dense(first, first)
    made = recast(both, "float16", "float32", ["nn.dense"], skip)
    casts = sum(1 for n in relay.post_order(made) if getattr(n, "attrs", {}).get("dtype"))
    assert casts == (3 if left else 0)


def test_recast_of_a_module_takes_main() -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], relay.add(X, X)))
    made = recast(mod, "float16", "float32", ["add"])
    assert made["main"].body.op.name == "cast" and mod["main"].body.op.name == "add"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X, "int9", "int8"), "recast: expected an element type such as int8, found 'int9'"),
        ((X, "int8", "x"), "recast: expected an element type such as int8, found 'x'"),
        ((3, "int8", "int8"), "recast: expected a Relay expression or module, found 3"),
    ],
)
def test_what_recast_refuses(args: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        recast(*args)


def test_a_lifted_closure_has_a_name_that_is_free() -> None:
    text = "def @lifted_0() { 1 } def @main(%x: float32) { %0 = fn (%y: float32) { %y }; %0(%x) }"
    made = optimized(text, relay.transform.LambdaLift())
    assert {g.name_hint for g in made.functions} == {"lifted_0", "lifted_1", "main"}


ROWS = {
    "dyn.tile": lambda x: relay.dyn.tile(x, relay.const([2, 1])),
    "dyn.broadcast_to": lambda x: relay.dyn.broadcast_to(x, relay.const([4, 2, 3])),
    "dyn.topk": lambda x: relay.TupleGetItem(
        relay.Call(
            relay.op.get("dyn.topk"),
            [x, relay.const(2)],
            {"k": None, "axis": -1, "ret_type": "both", "is_ascend": False, "dtype": "int32"},
        ),
        0,
    ),
    "dyn.reshape": lambda x: relay.dyn.reshape(x, relay.const([3, 2])),
    "dyn.strided_slice": lambda x: relay.dyn.strided_slice(
        x, relay.const([0, 0]), relay.const([2, 2]), relay.const([1, 1])
    ),
    "dyn.full": lambda x: relay.add(x, relay.dyn.full(relay.const(2.0), relay.shape_of(x))),
    "dyn.zeros": lambda x: relay.add(x, relay.dyn.zeros(relay.shape_of(x), dtype="float32")),
    "dyn.ones": lambda x: relay.add(x, relay.dyn.ones(relay.shape_of(x), dtype="float32")),
    "dyn.squeeze": lambda x: relay.dyn.squeeze(relay.expand_dims(x, 0), relay.const([0])),
    "dyn.expand_dims": lambda x: relay.dyn.expand_dims(x, relay.const(1)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_known_shape_becomes_an_attribute_and_values_stay(name: str) -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], ROWS[name](X)))
    made = optimized(mod, relay.transform.DynamicToStatic())
    calls = [n for n in relay.post_order(made["main"]) if isinstance(n, relay.Call)]
    assert not any(c.op.name.startswith("dyn.") for c in calls)
    value = {"x": np.arange(6, dtype="float32").reshape(2, 3)}
    before, after = run(mod["main"], value), run(made["main"], value)
    np.testing.assert_array_equal(np.asarray(after), np.asarray(before))


@pytest.mark.parametrize("make", [relay.transform.FoldConstant, relay.transform.SimplifyExpr])
def test_a_chain_of_three_thousand_calls(make: Any) -> None:
    body: relay.Expr = X
    for _ in range(3000):
        body = relay.tanh(body)
    mod = relay.IRModule.from_expr(relay.Function([X], body))
    assert same(optimized(mod, make()), mod)


def test_constants_of_unknown_meaning_stay() -> None:
    text = "def @main(%f: fn (float32) -> float32) { %f(add(1f, 2f)) }"
    made = optimized(text, relay.transform.FoldConstant())
    assert same(made, parsed("def @main(%f: fn (float32) -> float32) { %f(3f) }"))


def test_one_expression_without_a_module() -> None:
    assert relay.transform.InferTypeLocal(relay.exp(X)) == relay.TensorType((2, 3), "float32")
    assert relay.transform.InferTypeLocal(relay.var("unknown")) is None
    folded = relay.transform.FoldConstantExpr(relay.const(1.0) + relay.const(2.0), None)
    assert folded.data == 3.0
    named = relay.transform.ToANormalFormExpr(relay.exp(X))
    assert isinstance(named, relay.Let) and named.body is named.var
