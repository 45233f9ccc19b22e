"""Functions that scripts register for operators, and the passes that apply them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tvm
from tvm_disc.contrib import graph_executor
from tvm_disc.relay.testing import count_ops
from tvm_disc.relay.testing.temp_op_attr import TempOpAttr

from tests.relay.helpers import run
from tests.relay.transform.helpers import optimized
from tvm_disc import relay
from tvm_disc.errors import BadNode, Unsupported

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
OWN: Passes = partial(relay.transform.Legalize, "FTVMOwn")


def clipped(attrs: Any, x: Any, types: Any) -> Any:
    """A replacement of an operator."""
    return relay.clip(x[0], 0.0, 9.0)


# operator, attribute, its function | pass, program, operators that are left
CASES: dict[str, tuple[str, str, Any, Passes, relay.Expr, str]] = {
    "replaced": ("nn.relu", KEY, clipped, LEGALIZE, relay.nn.relu(X), "clip 1"),
    "each call": ("nn.relu", KEY, clipped, LEGALIZE, relay.nn.relu(relay.nn.relu(X)), "clip 2"),
    "others stay": ("nn.relu", KEY, clipped, LEGALIZE, relay.exp(X), "exp 1"),
    "None keeps": ("nn.relu", KEY, lambda *_: None, LEGALIZE, relay.nn.relu(X), "nn.relu 1"),
    "another attribute": ("nn.relu", "FTVMOwn", clipped, LEGALIZE, relay.nn.relu(X), "nn.relu 1"),
    "its own attribute": ("nn.relu", "FTVMOwn", clipped, OWN, relay.nn.relu(X), "clip 1"),
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


def test_builds_apply_registered_functions() -> None:
    """A user's operator, which has no kernel, is built if its function returns others."""
    data = np.arange(6, dtype="float32").reshape(2, 3)
    relay.op.op.register("tests.doubled")
    try:
        op = relay.op.get("tests.doubled")
        op.set_num_inputs(1)
        op.add_type_rel("Identity")
        func = relay.Function([X], relay.exp(relay.Call(op, [X])))
        with TempOpAttr("tests.doubled", KEY, lambda attrs, x, types: relay.add(x[0], x[0])):
            for kind in ("graph", "vm"):
                found = relay.create_executor(kind).evaluate(func)(data)
                np.testing.assert_allclose(found.numpy(), np.exp(2 * data), rtol=1e-5)
        with pytest.raises(Unsupported, match=r"tests\.doubled"):
            relay.create_executor("graph").evaluate(func)(data)
    finally:
        relay.op.op.unregister("tests.doubled")


@pytest.mark.parametrize(("level", "left"), [(2, False), (3, True)])
def test_layouts_are_altered_from_level_3(level: int, left: bool) -> None:
    seen: list[int] = []
    image = relay.var("x", shape=(1, 4, 3, 3))
    func = relay.Function([image], relay.nn.max_pool2d(image, (2, 2)))

    def rule(attrs: Any, inputs: Any, types: Any, result: Any) -> relay.Expr:
        seen.append(level)
        return relay.nn.max_pool2d(*inputs, **{**attrs, "layout": "NCHW4c"})

    context = relay.transform.PassContext(opt_level=level)
    with TempOpAttr("nn.max_pool2d", "FTVMAlterOpLayout", rule), context:
        lib = relay.build(func, "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    data = np.arange(36, dtype="float32").reshape(1, 4, 3, 3)
    module.run(x=data)
    np.testing.assert_array_equal(module.get_output(0).numpy()[0, :, 1, 1], data[0, :, 2, 2])
    assert bool(seen) == left
