"""Layouts whose axes are split into blocks: by name, and of calls that functions return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.testing import count_ops
from tvm_disc.relay.testing.temp_op_attr import TempOpAttr
from tvm_disc.relay.transform import AlterOpLayout, ConvertLayout, FoldConstant

from tests.relay.transform.helpers import optimized, same
from tvm_disc import relay
from tvm_disc.errors import BadNode

RNG = np.random.default_rng(0)
X = relay.var("x", shape=(2, 8, 6, 6))
KEY = "FTVMAlterOpLayout"


def c(*shape: int) -> relay.Constant:
    return relay.const(RNG.uniform(0.5, 2, shape).astype("float32"))


def conv(y: relay.Expr, outer: int = 8, inner: int = 8) -> relay.Expr:
    weight = c(outer, inner, 3, 3)
    return relay.nn.conv2d(y, weight, kernel_size=(3, 3), padding=(1, 1), channels=outer)


relu, plus = relay.nn.relu, relay.add
SHARED = relu(conv(X))

# A program, and the layout_transforms that are left when constants are folded.
CASES: dict[str, tuple[relay.Expr, int]] = {
    "alone": (conv(X), 2),
    "a chain": (conv(relu(conv(X))), 2),
    "a factor of channels": (conv(relay.multiply(conv(X), c(8, 1, 1))), 2),
    "a number": (conv(plus(conv(X), relay.const(1.0))), 2),
    "one number in four axes": (conv(plus(conv(X), c(1, 1, 1, 1))), 2),
    "a factor of rows": (conv(plus(conv(X), c(6, 1))), 2),
    "read twice": (plus(conv(SHARED), SHARED), 2),
    "a sum with the input": (plus(conv(X), X), 2),
    "a bias": (relay.nn.bias_add(conv(X), c(8)), 2),
    "a bias between": (conv(relay.nn.bias_add(conv(X), c(8))), 4),
    "pooling": (relay.nn.max_pool2d(conv(X), (2, 2)), 2),
    "a mean of images": (relay.nn.global_avg_pool2d(conv(X)), 2),
    "joined": (relay.concatenate([conv(X), relu(conv(X))], 1), 2),
    "padding": (relay.nn.pad(conv(X), ((0, 0), (0, 0), (1, 2), (0, 3))), 2),
    "padding of channels": (relay.nn.pad(conv(X), ((0, 0), (1, 3), (0, 0), (0, 0))), 2),
    "softmax of channels": (relay.nn.softmax(conv(X), axis=1), 2),
    "softmax of columns": (conv(relay.nn.softmax(conv(X), axis=3)), 2),
    "a sum of columns": (conv(relay.sum(conv(X), axis=(3,), keepdims=True)), 2),
    "a sum of channels": (relay.sum(conv(X), axis=(1,), keepdims=True), 2),
    "parts": (relay.split(conv(X), 2, 1)[0], 2),
    "channels that are not in blocks": (conv(X, 6), 0),
    "channels that are not in blocks, between": (conv(conv(X, 6), 8, 6), 0),
}


def blocked(attrs: Any, inputs: Any, types: Any, result: Any) -> relay.Expr:
    layouts = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o"}
    return relay.nn.conv2d(*inputs, **{**attrs, **layouts})


def altered(
    mod: relay.IRModule, rule: Callable[..., Any], name: str = "nn.conv2d"
) -> relay.IRModule:
    with TempOpAttr(name, KEY, rule):
        return optimized(mod, [AlterOpLayout(), FoldConstant()])


def module(expr: relay.Expr) -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function([X], expr))


def value(mod: relay.IRModule) -> np.ndarray:
    data = np.random.default_rng(1).standard_normal((2, 8, 6, 6)).astype("float32")
    found = relay.create_executor("graph", mod=mod).evaluate()(data)
    return np.asarray(found.numpy())


@pytest.mark.parametrize("case", CASES)
def test_blocks_by_name_and_of_a_function(case: str) -> None:
    expr, borders = CASES[case]
    mod = module(expr)
    convert = ConvertLayout({"nn.conv2d": ["NCHW4c", "OIHW4i4o"]})
    by_name = optimized(mod, [convert, FoldConstant()])
    assert count_ops(by_name["main"]).get("layout_transform", 0) == borders
    assert same(altered(mod, blocked), by_name)
    np.testing.assert_allclose(value(by_name), value(mod), rtol=1e-3, atol=1e-3)


def doubled(attrs: Any, inputs: Any, types: Any, result: Any) -> relay.Expr:
    image, weight = inputs
    twice = relay.multiply(weight, relay.const(2.0))
    return blocked(attrs, [image, twice], types, result)


def wider(attrs: Any, inputs: Any, types: Any, result: Any) -> relay.Expr:
    """A convolution that reads whole channels and writes blocks."""
    return relay.nn.conv2d(*inputs, **{**attrs, "out_layout": "NCHW4c"})


def in_blocks(attrs: Any, inputs: Any, types: Any, result: Any) -> relay.Expr:
    return relay.nn.max_pool2d(*inputs, **{**attrs, "layout": "NCHW8c"})


POOLED = relay.nn.max_pool2d(relu(relay.nn.max_pool2d(X, (2, 2))), (2, 2))
# operator, function | program, operators that are left, by how much values grow
FUNCTIONS: dict[str, tuple[str, Callable[..., Any], relay.Expr, str, float]] = {
    "a new weight": ("nn.conv2d", doubled, conv(X), "layout_transform 2 nn.conv2d 1", 2.0),
    "the result's layout": ("nn.conv2d", wider, relu(conv(X)), "layout_transform 1", 1.0),
    "pooling": ("nn.max_pool2d", in_blocks, POOLED, "layout_transform 2 nn.max_pool2d 2", 1.0),
    "none": ("nn.conv2d", lambda *_: None, conv(X), "nn.conv2d 1", 1.0),
    "another operator": (
        "nn.relu",
        lambda attrs, inputs, types, result: relay.clip(*inputs, 0.0, 1e9),
        relu(X),
        "clip 1",
        1.0,
    ),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_what_functions_return(case: str) -> None:
    name, rule, expr, left, factor = FUNCTIONS[case]
    mod = module(expr)
    made = altered(mod, rule, name)
    found = count_ops(made["main"])
    assert left in " ".join(f"{n} {found[n]}" for n in sorted(found))
    np.testing.assert_allclose(value(made), factor * value(mod), rtol=1e-3, atol=1e-3)


def test_a_function_sees_types_and_must_return_a_call() -> None:
    def rule(attrs: Any, inputs: Any, types: Any, result: Any) -> int:
        assert [t.shape for t in types] == [(2, 8, 6, 6), (8, 8, 3, 3)]
        assert result.dtype == "float32" and attrs.channels == 8
        return 3

    with pytest.raises(BadNode, match=r"nn.conv2d: FTVMAlterOpLayout: expected a call or None"):
        altered(module(conv(X)), rule)


def test_the_decorator() -> None:
    relay.op.register_alter_op_layout("nn.conv2d", level=115)(blocked)
    try:
        made = optimized(module(conv(X)), AlterOpLayout())
    finally:
        relay.op.get("nn.conv2d").reset_attr(KEY)
    assert count_ops(made["main"])["layout_transform"] == 3


def test_a_network_has_blocks_from_its_first_convolution_to_its_last() -> None:
    mod, params = relay.testing.resnet.get_workload(1, 10, 8, (3, 16, 16))
    whole = relay.build_module.bind_params_by_name(mod["main"], params)
    inferred = [relay.transform.SimplifyInference(), relay.transform.CanonicalizeOps()]
    plain = optimized(relay.IRModule.from_expr(whole), [*inferred, FoldConstant()])

    def rule(attrs: Any, inputs: Any, types: Any, result: Any) -> relay.Expr | None:
        return None if types[0].shape[1] % 4 else blocked(attrs, inputs, types, result)

    made = altered(plain, rule)
    assert count_ops(made["main"])["layout_transform"] == 2
    data = np.random.default_rng(2).standard_normal((1, 3, 16, 16)).astype("float32")
    runs = [relay.create_executor("graph", mod=m).evaluate()(data) for m in (plain, made)]
    np.testing.assert_allclose(runs[1].numpy(), runs[0].numpy(), rtol=1e-3, atol=1e-4)
