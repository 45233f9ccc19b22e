"""Regions between dequantize and quantize in integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.transform.fake_quantization_rules import OPTIONAL, RULES

from tvm_disc import relay
from tvm_disc.errors import BadNode, Unsupported

FAKE = relay.transform.FakeQuantizationToInteger
nn = relay.nn


def image(name: str, scale: Any = 0.5, zero: Any = 3, shape: Any = (2, 4, 6, 6), **how: Any) -> Any:
    """A dequantized input."""
    x = relay.var(name, shape=shape, dtype=how.pop("dtype", "int8"))
    scale, zero = np.asarray(scale, "float32"), np.asarray(zero, "int32")
    return relay.qnn.op.dequantize(x, relay.const(scale), relay.const(zero), **how)


def quantized(value: Any, scale: float = 0.5, zero: int = 3, dtype: str = "int8") -> Any:
    return relay.qnn.op.quantize(value, relay.const(scale), relay.const(zero), out_dtype=dtype)


def weight(shape: Any, scale: Any = 0.25, zero: Any = 0, axis: int = 0) -> Any:
    return image("w", scale, zero, shape, axis=axis)


def matrix(scale: float = 0.5, zero: int = 3, name: str = "x") -> Any:
    return image(name, scale, zero, (5, 8))


CHANNELS = [0.25, 0.5, 0.125]
BIAS = relay.const(np.asarray([1.5, -7.25, 30.0], "float32"))

# By operator: a region, and the scale and zero point of its result.
REGIONS: dict[str, tuple[Any, float, int]] = {
    "reshape": (lambda: relay.reshape(matrix(), (8, 5)), 0.5, 3),
    "squeeze": (lambda: relay.squeeze(image("x", shape=(5, 1, 8)), [1]), 0.5, 3),
    "expand_dims": (lambda: relay.expand_dims(matrix(), 1), 0.5, 3),
    "transpose": (lambda: relay.transpose(image("x"), (0, 2, 3, 1)), 0.25, -1),
    "strided_slice": (lambda: relay.strided_slice(matrix(), [1, 0], [4, 8], [1, 3]), 0.5, 3),
    "repeat": (lambda: relay.repeat(matrix(), 2, 1), 0.5, 3),
    "tile": (lambda: relay.tile(matrix(), (2, 1)), 0.5, 3),
    "reverse": (lambda: relay.reverse(matrix(), 1), 0.5, 3),
    "take": (lambda: relay.take(matrix(), relay.const([3, 0]), axis=1), 0.5, 3),
    "split": (lambda: relay.split(matrix(), 2, axis=1)[1], 0.5, 3),
    "topk": (lambda: relay.topk(matrix(), 3, ret_type="values"), 0.5, 3),
    "broadcast_to": (lambda: relay.broadcast_to(image("x", shape=(8,)), (5, 8)), 0.5, 3),
    "nn.batch_flatten": (lambda: nn.batch_flatten(image("x")), 0.5, 3),
    "nn.depth_to_space": (lambda: nn.depth_to_space(image("x"), 2), 0.5, 3),
    "nn.space_to_depth": (lambda: nn.space_to_depth(image("x"), 2), 0.5, 3),
    "nn.max_pool1d": (lambda: nn.max_pool1d(image("x", shape=(2, 4, 9)), 3, 2), 0.5, 3),
    "nn.max_pool2d": (lambda: nn.max_pool2d(image("x"), (3, 3), (2, 2)), 0.5, 3),
    "nn.max_pool3d": (
        lambda: nn.max_pool3d(image("x", shape=(1, 2, 4, 4, 4)), (2, 2, 2), (2, 2, 2)),
        0.5,
        3,
    ),
    "nn.global_max_pool2d": (lambda: nn.global_max_pool2d(image("x")), 0.5, 3),
    "max": (lambda: relay.max(matrix(), 1), 0.5, 3),
    "min": (lambda: relay.min(matrix(), 1), 0.5, 3),
    "nn.relu": (lambda: nn.relu(image("x")), 0.25, -60),
    "nn.relu per channel": (
        lambda: nn.relu(image("x", CHANNELS, [0, 1, -2], (2, 3, 4), axis=1)),
        0.5,
        -3,
    ),
    "clip": (lambda: relay.clip(matrix(), -3.3, 17.9), 0.5, 3),
    "clip per channel": (
        lambda: relay.clip(image("x", CHANNELS, [0, 1, -2], (2, 3, 4), axis=1), 0.0, 6.0),
        0.125,
        -100,
    ),
    "nn.pad": (lambda: nn.pad(image("x"), [(0, 0), (0, 0), (1, 1), (2, 0)], 2.0), 0.5, 3),
    "concatenate": (
        lambda: relay.concatenate([matrix(), matrix(0.25, 7, "y")], axis=1),
        0.4,
        -2,
    ),
    "mean": (lambda: relay.mean(matrix(), 1), 0.1, 3),
    "nn.global_avg_pool2d": (lambda: nn.global_avg_pool2d(image("x")), 0.5, 3),
    "nn.avg_pool2d": (lambda: nn.avg_pool2d(image("x"), (2, 2), (2, 2)), 0.5, 3),
    "nn.adaptive_avg_pool1d": (
        lambda: nn.adaptive_avg_pool1d(image("x", shape=(2, 4, 9)), (1,)),
        0.5,
        3,
    ),
    "nn.adaptive_avg_pool2d": (lambda: nn.adaptive_avg_pool2d(image("x"), (1, 1)), 0.5, 3),
    "nn.dense": (lambda: nn.dense(matrix(), weight((3, 8))), 4.0, 9),
    "nn.dense per channel": (
        lambda: nn.dense(matrix(), weight((3, 8), CHANNELS, [0, 0, 0])),
        4.0,
        9,
    ),
    "nn.bias_add": (lambda: nn.bias_add(nn.dense(matrix(), weight((3, 8))), BIAS), 4.0, 9),
    "nn.batch_matmul": (
        lambda: nn.batch_matmul(image("x", shape=(2, 3, 5)), image("w", 0.1, -1, (2, 4, 5))),
        2.0,
        0,
    ),
    "nn.conv2d": (lambda: nn.conv2d(image("x"), weight((3, 4, 3, 3))), 8.0, 2),
    "nn.conv2d per channel": (
        lambda: nn.conv2d(image("x"), weight((3, 4, 3, 3), CHANNELS, [0, 0, 0])),
        8.0,
        2,
    ),
    "nn.conv2d_transpose": (
        lambda: nn.conv2d_transpose(
            image("x"), weight((4, 3, 3, 3)), kernel_size=(3, 3), channels=3
        ),
        8.0,
        2,
    ),
    "add": (lambda: relay.add(matrix(), matrix(0.25, -4, "y")), 0.6, 1),
    "add constant": (lambda: relay.add(matrix(), relay.const(90.0)), 1.0, -20),
    "add after dense": (lambda: relay.add(nn.dense(matrix(), weight((3, 8))), BIAS), 4.0, 9),
    "subtract": (lambda: relay.subtract(matrix(), matrix(0.25, -4, "y")), 0.6, 1),
    "multiply": (lambda: relay.multiply(matrix(0.1), matrix(0.05, -4, "y")), 0.6, 1),
    "multiply by a large constant": (
        lambda: relay.multiply(matrix(0.01), relay.const(100.0)),
        1.0,
        0,
    ),
    "maximum": (lambda: relay.maximum(matrix(), matrix(0.25, -4, "y")), 0.5, 3),
    "minimum": (lambda: relay.minimum(matrix(), matrix(0.25, -4, "y")), 0.5, 3),
    "nn.leaky_relu": (lambda: nn.leaky_relu(matrix(), 0.1), 0.5, 3),
    "sigmoid": (lambda: relay.sigmoid(matrix(0.05)), 1 / 256, -128),
    "tanh": (lambda: relay.tanh(matrix(0.05)), 1 / 128, 0),
    "erf": (lambda: relay.erf(matrix(0.05)), 1 / 128, 0),
    "exp": (lambda: relay.exp(matrix(0.02)), 0.1, -128),
    "sqrt": (lambda: relay.sqrt(matrix(0.1, -128)), 0.05, -128),
    "rsqrt": (lambda: relay.rsqrt(matrix(0.1, -129)), 0.05, -128),
    "log": (lambda: relay.log(matrix(0.1, -129)), 0.05, 0),
    "abs": (lambda: relay.abs(matrix()), 0.5, -100),
    "image.resize2d": (
        lambda: relay.image.resize2d(image("x"), (12, 12), method="nearest_neighbor"),
        0.5,
        3,
    ),
    "a block": (
        lambda: nn.max_pool2d(
            nn.relu(nn.bias_add(nn.conv2d(image("x"), weight((3, 4, 3, 3))), BIAS)), (2, 2)
        ),
        8.0,
        2,
    ),
}
ROUNDED = 1  # in steps of the result: requantizing rounds twice


def operators(mod: relay.IRModule) -> set[str]:
    return set(relay.testing.count_ops(mod["main"]))


def both(mod: relay.IRModule, made: relay.IRModule) -> tuple[np.ndarray, np.ndarray]:
    """The results of two programs for the same random integers."""
    random = np.random.default_rng(7)
    args = []
    for param in mod["main"].params:
        kind = param.type_annotation
        info = np.iinfo(kind.dtype)
        args.append(random.integers(info.min, info.max + 1, kind.shape).astype(kind.dtype))
    results = [relay.create_executor("vm", m).evaluate()(*args).numpy() for m in (mod, made)]
    return results[0], results[1]


@pytest.mark.parametrize(("make", "scale", "zero"), REGIONS.values(), ids=REGIONS)
def test_a_region_in_integers_gives_the_same(make: Any, scale: float, zero: int) -> None:
    mod = relay.IRModule.from_expr(quantized(make(), scale, zero))
    made = FAKE(hard_fail=True)(mod)
    assert "qnn.dequantize" not in operators(made)
    inner = [n for n in relay.post_order(made["main"]) if isinstance(n, relay.Call)]
    floats = [n for n in inner if str(n.checked_type).endswith("float32]")]
    assert floats == []
    expected, found = both(mod, made)
    assert found.dtype == expected.dtype
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= ROUNDED


@pytest.mark.parametrize("value", [1.25, -0.25, 0.75, -1.25, 6.25])
@pytest.mark.parametrize("kind", ["pad", "clip"])
def test_constants_at_half_a_step_round_as_quantize_does(kind: str, value: float) -> None:
    y = nn.pad(matrix(), [(1, 1), (2, 0)], value)
    if kind == "clip":
        y = relay.clip(matrix(), value, value + 20)
    mod = relay.IRModule.from_expr(quantized(y, 0.5, 3))
    expected, found = both(mod, FAKE(hard_fail=True)(mod))
    np.testing.assert_array_equal(found, expected)


def test_every_rule_has_a_region() -> None:
    assert set(RULES) - {name.split(" ")[0] for name in REGIONS} == set()


def test_parameters_that_are_the_same_cost_nothing() -> None:
    made = FAKE()(relay.IRModule.from_expr(quantized(relay.reshape(matrix(), (40,)))))
    assert operators(made) == {"reshape"}


def test_several_regions_and_what_is_between() -> None:
    middle = quantized(nn.relu(matrix()), 0.25, 0)
    again = relay.qnn.op.dequantize(middle, relay.const(0.25), relay.const(0))
    mod = relay.IRModule.from_expr(quantized(relay.multiply(again, again), 2.0, 1))
    made = FAKE(hard_fail=True)(mod)
    assert operators(made) == {"maximum", "qnn.requantize", "qnn.mul"}
    expected, found = both(mod, made)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= ROUNDED


# Regions that stay, and why.
STAY: dict[str, tuple[Any, str]] = {
    "an operator without a rule": (lambda: relay.cos(matrix()), "cos has no quantization rule"),
    "an optional operator": (lambda: nn.softmax(matrix()), "nn.softmax has no quantization rule"),
    "a range that no quantize tells": (
        lambda: relay.sqrt(relay.exp(matrix(0.02))),
        "exp: the scale and zero point of its result are unknown",
    ),
    "a reshape of channels with scales of their own": (
        lambda: relay.reshape(image("x", CHANNELS, [0, 1, 2], (2, 3, 4), axis=1), (24,)),
        "operand 0 has a scale per channel",
    ),
    "indices": (
        lambda: relay.cast(relay.argmax(matrix(), 1), "float32"),
        "argmax has no quantization rule",
    ),
    "a pool to more than one element": (
        lambda: nn.adaptive_avg_pool2d(image("x"), (2, 2)),
        "expected an output_size of 1 on every axis",
    ),
}


@pytest.mark.parametrize(("make", "message"), STAY.values(), ids=STAY)
def test_a_region_with_no_integer_form_stays(make: Any, message: str) -> None:
    mod = relay.transform.InferType()(relay.IRModule.from_expr(quantized(make())))
    assert relay.structural_equal(FAKE()(mod), mod)
    with pytest.raises(Unsupported, match=message):
        FAKE(hard_fail=True)(mod)


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_operators(name: str) -> None:
    mod = relay.IRModule.from_expr(quantized(nn.softmax(matrix(0.1)), 1 / 256, -128))
    assert f"qnn.{name[3:]}" in operators(FAKE(hard_fail=True, optional_qnn_ops=[name])(mod))
    with pytest.raises(BadNode, match=r"expected names among \['nn.softmax'\], found 'nn.dense'"):
        FAKE(optional_qnn_ops=["nn.dense"])(mod)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.batch_matmul(image("x", shape=(2, 3, 5)), image("w", 0.1, 0, (2, 4, 5))),
        lambda: nn.dense(relay.reshape(matrix(), (5, 8)), weight((3, 8))),
        lambda: nn.relu(relay.transpose(matrix())),
        lambda: nn.conv2d(image("x"), weight((3, 4, 3, 3))),
    ],
    ids=["batch_matmul", "dense of a reshape", "relu of a transpose", "conv2d"],
)
def test_single_operators_before_floats(make: Any) -> None:
    mod = relay.IRModule.from_expr(relay.cos(make()))
    assert operators(FAKE()(mod)) == operators(mod)
    made = FAKE(use_qat=True)(mod)["main"].body
    assert made.args[0].op.name == "qnn.dequantize"
    assert all(a.checked_type.dtype != "float32" for a in made.args[0].args[:1])
    expected, found = both(mod, relay.IRModule.from_expr(made))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_single_operators_over_floats_stay() -> None:
    floats = relay.add(relay.exp(matrix()), relay.const(1.0))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(nn.relu(floats)))
    assert relay.structural_equal(FAKE(use_qat=True)(mod), mod)
