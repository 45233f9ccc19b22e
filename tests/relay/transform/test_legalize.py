"""Functions that scripts register for operators, and the passes that apply them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.testing import count_ops
from tvm_disc.relay.testing.temp_op_attr import TempOpAttr

from tests.relay.helpers import run
from tests.relay.transform.helpers import optimized
from tvm_disc import relay
from tvm_disc.errors import BadNode

X = relay.var("x", shape=(2, 3))
Y = relay.var("y", shape=(2, 4))
I8 = relay.var("i", shape=(2, 3), dtype="int8")
KEY = "FTVMLegalize"


def requantized(x: relay.Expr) -> relay.Expr:
    ones = [relay.const(1.0), relay.const(0), relay.const(1.0), relay.const(0)]
    return relay.qnn.op.requantize(x, *ones, out_dtype="int8")


def copied(_attrs: Any, inputs: Any, _types: Any) -> relay.Expr:
    return relay.copy(inputs[0])


Passes = Callable[[], Any]
LEGALIZE: Passes = relay.transform.Legalize
QNN: Passes = relay.qnn.transform.Legalize
CANONICALIZE: Passes = relay.qnn.transform.CanonicalizeOps
OWN: Passes = lambda: relay.transform.Legalize("FTVMOwn")  # noqa: E731
CLIPPED = lambda attrs, x, types: relay.clip(x[0], 0.0, 9.0)  # noqa: E731

# operator, attribute, its function | pass, program, operators that are left
CASES: dict[str, tuple[str, str, Any, Passes, relay.Expr, str]] = {
    "replaced": ("nn.relu", KEY, CLIPPED, LEGALIZE, relay.nn.relu(X), "clip 1"),
    "each call": ("nn.relu", KEY, CLIPPED, LEGALIZE, relay.nn.relu(relay.nn.relu(X)), "clip 2"),
    "others stay": ("nn.relu", KEY, CLIPPED, LEGALIZE, relay.exp(X), "exp 1"),
    "None keeps": ("nn.relu", KEY, lambda *_: None, LEGALIZE, relay.nn.relu(X), "nn.relu 1"),
    "another attribute": ("nn.relu", "FTVMOwn", CLIPPED, LEGALIZE, relay.nn.relu(X), "nn.relu 1"),
    "its own attribute": ("nn.relu", "FTVMOwn", CLIPPED, OWN, relay.nn.relu(X), "clip 1"),
    "attributes": (
        "nn.leaky_relu",
        KEY,
        lambda attrs, x, _: relay.maximum(x[0], x[0] * relay.const(attrs.alpha)),
        LEGALIZE,
        relay.nn.leaky_relu(X, 0.5),
        "maximum 1 multiply 1",
    ),
    "a result of the same operator": (
        "nn.softmax",
        KEY,
        lambda attrs, x, _: relay.nn.softmax(relay.negative(x[0]), **attrs),
        LEGALIZE,
        relay.nn.softmax(X),
        "negative 1 nn.softmax 1",
    ),
    "several results": (
        "split",
        KEY,
        lambda attrs, x, _: relay.split(relay.abs(x[0]), **attrs),
        LEGALIZE,
        relay.split(X, 3, 1)[0],
        "abs 1 split 1",
    ),
    "quantized": ("qnn.requantize", "FTVMQnnLegalize", copied, QNN, requantized(I8), "copy 1"),
    "quantized, canonical": (
        "qnn.requantize",
        "FTVMQnnCanonicalize",
        copied,
        CANONICALIZE,
        requantized(I8),
        "copy 1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_registered_functions_replace_calls(case: str) -> None:
    name, key, rule, make, expr, left = CASES[case]
    mod = relay.IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr))
    with TempOpAttr(name, key, rule):
        made = optimized(mod, make())
    found = count_ops(made["main"])
    assert " ".join(f"{n} {found[n]}" for n in sorted(found)) == left


def test_a_function_sees_the_types_of_operands_and_result() -> None:
    seen: list[Any] = []

    def rule(attrs: Any, inputs: Any, types: Any) -> relay.Expr:
        seen.append((attrs["axis"], len(inputs), types))
        return relay.concatenate([inputs[0].fields[1], inputs[0].fields[0]], axis=1)

    expr = relay.concatenate([X, Y], axis=1)
    with TempOpAttr("concatenate", KEY, rule):
        made = optimized(relay.IRModule.from_expr(relay.Function([X, Y], expr)), LEGALIZE())
    parts = relay.TupleType([relay.TensorType((2, 3)), relay.TensorType((2, 4))])
    assert seen == [(1, 1, [parts, relay.TensorType((2, 7))])]
    x, y = np.zeros((2, 3), "float32"), np.ones((2, 4), "float32")
    found = np.asarray(run(made["main"], {"x": x, "y": y}))
    np.testing.assert_array_equal(found, np.concatenate([y, x], 1))


@pytest.mark.parametrize(
    ("register", "make"),
    [
        (relay.op.register_legalize, LEGALIZE),
        (relay.qnn.op.register_qnn_legalize, QNN),
    ],
)
def test_decorators(register: Any, make: Passes) -> None:
    key = "FTVMLegalize" if make is LEGALIZE else "FTVMQnnLegalize"

    @register("floor", level=11)
    def _rule(attrs: Any, inputs: Any, types: Any) -> relay.Expr:
        return relay.ceil(inputs[0])

    try:
        made = optimized(relay.IRModule.from_expr(relay.Function([X], relay.floor(X))), make())
    finally:
        relay.op.get("floor").reset_attr(key)
    assert count_ops(made["main"]) == {"ceil": 1}


def test_what_a_function_must_return() -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], relay.exp(X)))
    message = "exp: FTVMLegalize: expected an expression or None from the registered function"
    with TempOpAttr("exp", KEY, lambda *_: 3), pytest.raises(BadNode, match=message):
        optimized(mod, LEGALIZE())
