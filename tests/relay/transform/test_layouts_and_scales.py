"""Factors that move into weights, and layouts that are converted: the values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.testing import count_ops
from tvm_disc.relay.transform import ConvertLayout, FoldConstant, FoldScaleAxis, LayoutConfig

from tests.relay.helpers import run
from tests.relay.transform.helpers import optimized
from tvm_disc import relay
from tvm_disc.errors import BadNode

RNG = np.random.default_rng(0)
X = relay.var("x", shape=(2, 4, 8, 8))


def c(*shape: int, low: float = 0.5) -> relay.Constant:
    return relay.const(RNG.uniform(low, 2, shape).astype("float32"))


def conv(y: relay.Expr, **attrs: Any) -> relay.Expr:
    window = {"kernel_size": (3, 3), "padding": (1, 1), "channels": 4}
    return relay.nn.conv2d(y, c(4, 4, 3, 3), **{**window, **attrs})


def depthwise(y: relay.Expr) -> relay.Expr:
    return relay.nn.conv2d(y, c(4, 1, 3, 3), groups=4, channels=4, kernel_size=(3, 3))


def last(y: relay.Expr) -> relay.Expr:
    """A convolution whose channels lie last."""
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    return relay.nn.conv2d(y, c(3, 3, 8, 5), channels=5, kernel_size=(3, 3), **layouts)


def transposed(y: relay.Expr) -> relay.Expr:
    return relay.nn.conv2d_transpose(y, c(4, 4, 3, 3), channels=4, kernel_size=(3, 3))


def rows(y: relay.Expr) -> relay.Expr:
    """A convolution of one spatial axis."""
    return relay.nn.conv1d(y, c(4, 4, 3), channels=4, kernel_size=(3,))


def volumes(y: relay.Expr) -> relay.Expr:
    """A convolution of three spatial axes."""
    return relay.nn.conv3d(y, c(4, 4, 1, 3, 3), channels=4, kernel_size=(1, 3, 3))


def pooled(y: relay.Expr) -> relay.Expr:
    return relay.nn.avg_pool2d(relay.nn.max_pool2d(y, pool_size=(2, 2)), pool_size=(2, 2))


relu, times, plus = relay.nn.relu, relay.multiply, relay.add
S, B = c(4, 1, 1), c(4, 1, 1)
MIXED = relay.const(np.float32([1, -2, 3, 4]).reshape(4, 1, 1))
ZERO = relay.const(np.float32([1, 0, 3, 4]).reshape(4, 1, 1))
DEEP = conv(X)
DEEPER = relay.expand_dims(X, axis=2)

# A program, and the multiplications that are left.
SCALED: dict[str, tuple[relay.Expr, int]] = {
    "back through relu": (times(relu(plus(conv(X), B)), S), 0),
    "back into two": (times(relu(relay.subtract(conv(X), conv(X))), S), 0),
    "back through pooling": (times(pooled(conv(X)), S), 0),
    "back, twice": (times(times(relay.nn.bias_add(conv(X), c(4)), S), c(1, 4, 1, 1)), 0),
    "back, depthwise": (times(depthwise(X), S), 0),
    "back, channels last": (times(relu(last(X)), c(5)), 0),
    "back, signs": (times(conv(X), MIXED), 0),
    "back, signs at relu": (times(relu(conv(X)), MIXED), 1),
    "back, read twice": (plus(times(DEEP, S), DEEP), 1),
    "back, of one of two": (times(plus(conv(X), X), S), 1),
    "forward through relu": (conv(relu(plus(times(X, S), B))), 0),
    "forward, read twice": (plus(conv(times(X, S)), conv(times(X, S))), 0),
    "forward through relu, expanded": (
        conv(relu(times(X, relay.expand_dims(c(4), axis=1, num_newaxis=2)))),
        0,
    ),
    "back through relu, transposed": (times(relu(conv(X)), relay.transpose(c(1, 1, 4))), 0),
    "back, signs at relu, expanded": (
        times(relu(conv(X)), relay.reshape(MIXED, (4, 1, 1))),
        1,
    ),
    "back, transposed": (times(transposed(X), S), 0),
    "forward, rows": (rows(times(relay.reshape(X, (2, 4, 64)), c(4, 1))), 0),
    "forward, volumes": (volumes(times(DEEPER, c(4, 1, 1, 1))), 0),
    "back, volumes": (times(volumes(DEEPER), c(4, 1, 1, 1)), 0),
    "forward, twice": (conv(relay.subtract(B, times(times(X, S), B))), 0),
    "forward, depthwise": (depthwise(times(X, S)), 0),
    "forward, channels last": (last(relu(times(X, c(8)))), 0),
    "forward, signs": (conv(times(X, MIXED)), 0),
    "forward, signs at relu": (conv(relu(times(X, MIXED))), 1),
    "forward, zeros under a bias": (conv(plus(times(X, ZERO), B)), 1),
    "forward, of columns": (conv(times(X, c(8))), 1),
    "forward, a result too": (relay.Tuple([conv(times(X, S)), times(X, S)]), 1),
}


@pytest.mark.parametrize("case", SCALED)
def test_factors_move_into_weights(case: str) -> None:
    expr, left = SCALED[case]
    mod = relay.IRModule.from_expr(relay.Function([X], expr))
    made = optimized(mod, FoldScaleAxis())
    assert count_ops(made["main"]).get("multiply", 0) == left
    _same_values(mod, made)


def _same_values(mod: relay.IRModule, made: relay.IRModule) -> None:
    data = {"x": RNG.standard_normal((2, 4, 8, 8)).astype("float32")}
    found, expected = run(made["main"], data), run(mod["main"], data)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for a, b in pairs:
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)


# A program, and the transforms of layouts that are left when constants are folded.
NORM = relay.nn.batch_norm(conv(X), c(4), c(4), c(4), c(4))[0]
LAID: dict[str, tuple[relay.Expr, int]] = {
    "alone": (conv(X), 2),
    "a chain": (conv(relu(relay.nn.bias_add(conv(X), c(4)))), 2),
    "a sum with what is not converted": (plus(conv(X), times(X, S)), 3),
    "norm and pooling": (relay.nn.max_pool2d(relu(NORM), pool_size=(2, 2)), 2),
    "joined": (relay.concatenate([conv(X), relay.tanh(conv(X)), X], 1), 2),
    "a mean of images": (relay.mean(conv(X), axis=(2, 3)), 1),
    "a mean of channels": (relay.mean(conv(X), axis=(1,), keepdims=True), 2),
    "a sum of rows": (relay.sum(conv(X), axis=(2,)), 2),
    "a reshape": (relay.reshape(relu(conv(X)), (2, -1)), 2),
    "softmax": (relay.nn.softmax(conv(X), axis=1), 2),
    "padding": (relay.nn.pad(conv(X), ((0, 0), (0, 0), (1, 2), (0, 3))), 2),
    "depthwise": (depthwise(conv(X)), 2),
    "to a vector": (relay.nn.batch_flatten(relay.nn.global_avg_pool2d(conv(X))), 2),
    "other sizes": (relay.nn.upsampling(relay.image.resize2d(conv(X), (5, 6)), scale_h=2), 2),
    "parts": (plus(relay.split(conv(X), 2, 1)[0], relay.const(1.0)), 2),
}


@pytest.mark.parametrize("case", LAID)
def test_layouts_are_converted_and_back(case: str) -> None:
    expr, borders = LAID[case]
    mod = relay.IRModule.from_expr(relay.Function([X], expr))
    made = optimized(mod, [ConvertLayout({"nn.conv2d": ["NHWC", "default"]}), FoldConstant()])
    assert count_ops(made["main"])["layout_transform"] == borders
    assert {n.attrs.data_layout for n in relay.post_order(made["main"]) if _is_conv(n)} == {"NHWC"}
    _same_values(mod, made)
    back = [ConvertLayout({"nn.conv2d": ["NCHW", "default"]}), relay.transform.SimplifyExpr()]
    again = optimized(made, [*back, FoldConstant()])
    assert "layout_transform" not in count_ops(again["main"])
    _same_values(mod, again)


BOXES = relay.const(np.float32([[0, 1, 1, 6, 6], [1, 0, 0, 7, 5]]))
ALONE: dict[str, relay.Expr] = {
    "image.resize2d": relay.image.resize2d(X, (5, 6)),
    "nn.upsampling": relay.nn.upsampling(X, scale_h=2, scale_w=3),
    "nn.max_pool2d": relay.nn.max_pool2d(X, (2, 2)),
    "nn.global_avg_pool2d": relay.nn.global_avg_pool2d(X),
    "vision.roi_align": relay.vision.roi_align(X, BOXES, (2, 2), 1.0, sample_ratio=2),
}


@pytest.mark.parametrize("name", ALONE)
def test_operators_without_weights_are_converted(name: str) -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], ALONE[name]))
    made = optimized(mod, ConvertLayout({name: ["NHWC", "default"]}))
    assert count_ops(made["main"]) == {name: 1, "layout_transform": 2}
    _same_values(mod, made)


def _is_conv(node: relay.Expr) -> bool:
    return isinstance(node, relay.Call) and node.op.name == "nn.conv2d"


def test_kernels_and_layers_that_are_asked_for() -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], conv(conv(X))))
    with LayoutConfig(skip_layers=[0]):
        made = optimized(mod, ConvertLayout({"nn.conv2d": ["NHWC", "OHWI"]}))
    kinds = [
        (n.attrs.data_layout, n.attrs.kernel_layout)
        for n in relay.post_order(made["main"])
        if _is_conv(n)
    ]
    assert kinds == [("NCHW", "OIHW"), ("NHWC", "OHWI")]
    _same_values(mod, made)


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        (["NHWC"], "expected a mapping from operators to layouts, found"),
        ({"nn.dense": ["NC"]}, "expected operators among nn.conv1d, .*; found 'nn.dense'"),
        ({"nn.conv2d": ["NHW"]}, "nn.conv2d: expected an order of the axes NCHW, which may"),
        ({"nn.conv2d": ["NHWC", "IOX"]}, "expected an order of the axes OIHW"),
        ({"nn.conv2d": ["NCHW4"]}, "found 'NCHW4'"),
        ({"nn.conv2d": ["NCHW4d"]}, "found 'NCHW4d'"),
        ({"nn.conv2d": ["NCHW4c2c"]}, "found 'NCHW4c2c'"),
        ({"nn.conv2d": ["NCHW0c"]}, "found 'NCHW0c'"),
        ({"nn.conv2d": ["NC4cHW"]}, "found 'NC4cHW'"),
        ({"nn.conv2d": []}, "expected one or two layouts"),
    ],
)
def test_layouts_that_are_none(layouts: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        ConvertLayout(layouts)
