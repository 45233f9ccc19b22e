"""Models of QuantizeLinear and DequantizeLinear whose products are sums of integers.

All scales are powers of two, so that every number is exact in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx.numpy_helper import from_array

import tvm_disc
from tests.processor import run_on

from .helpers import F32, model, node

RNG = np.random.default_rng(0)
LEVELS = ("x86-64-v3", "cascadelake")
IMAGES = ((1, 1, 1), (2, 7, 5), (1, 8, 9), (3, 14, 15), (1, 33, 31))
Array = np.ndarray[Any, Any]


def quantization(x: str, y: str, zero: str) -> list[Any]:
    """The nodes that quantize and dequantize a value, with the scale ``s``."""
    given = ["s", zero]
    return [
        node("QuantizeLinear", [x, *given], [f"{y}_q"]),
        node("DequantizeLinear", [f"{y}_q", *given], [y]),
    ]


def convolution(shape: tuple[int, ...], groups: int, stride: int, pad: int, zero: Array) -> Any:
    """A quantized convolution with a bias and ReLU, its weights and its bias.

    The identity follows a depthwise convolution: a dense one, whose image is channels last.
    """
    w = RNG.integers(-128, 128, shape).astype("int8")
    bias = RNG.integers(-300, 300, shape[0]).astype("float32")
    attrs = {"strides": [stride] * 2, "pads": [pad] * 4, "group": groups}
    nodes = [
        *quantization("x", "v", "z"),
        node("DequantizeLinear", ["wq", "ws"], ["w"], axis=0),
        node("Conv", ["v", "w", "b"], ["c"], kernel_shape=list(shape[2:]), **attrs),
        node("Relu", ["c"], ["r"]),
        *quantization("r", "y", "z"),
    ]
    scales = 2.0 ** RNG.integers(-8, -5, shape[0])
    values = {"s": np.float32(0.25), "z": zero, "wq": w, "ws": scales.astype("float32")}
    results = ["y"]
    if groups == shape[0]:
        nodes.append(node("DequantizeLinear", ["eq", "es"], ["e"], axis=0))
        nodes.append(node("Conv", ["y", "e"], ["same"], kernel_shape=[1, 1]))
        values["eq"] = np.eye(groups, dtype="int8")[:, :, None, None]
        values["es"], results = np.ones(groups, "float32"), ["same"]
    given = {"x": (F32, ["n", shape[1] * groups, "h", "w"])}
    made = model(nodes, given, results=results, **values, b=bias / 64)
    return made, w * scales[:, None, None, None], bias / 64


def bytes_of(x: Array, zero: Array) -> Array:
    """The dequantized bytes of a value."""
    kind = np.iinfo(zero.dtype)
    return (np.clip(np.rint(x / 0.25) + zero, kind.min, kind.max) - zero) * 0.25


def convolved(x: Array, w: Array, groups: int, stride: int, pad: int) -> Array:
    """A convolution in float64."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    wins = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    wins = wins[:, :, ::stride, ::stride]
    n, _, height, width = wins.shape[:4]
    wins = wins.reshape(n, groups, -1, height, width, *w.shape[2:])
    split = w.reshape(groups, -1, *w.shape[1:])
    return np.einsum("ngchwij,gocij->ngohw", wins, split).reshape(n, -1, height, width)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("shape", "groups", "stride", "pad", "zero"),
    [
        ((24, 16, 1, 1), 1, 1, 0, np.uint8(0)),
        ((7, 12, 1, 1), 1, 1, 0, np.uint8(131)),
        ((37, 10, 1, 1), 1, 1, 0, np.int8(-3)),
        ((31, 96, 1, 1), 1, 2, 0, np.uint8(7)),
        ((9, 3, 3, 3), 1, 2, 1, np.uint8(114)),
    ],
)
def test_small_convolutions(
    shape: tuple[int, ...], groups: int, stride: int, pad: int, zero: Array, level: str
) -> None:
    made, w, bias = convolution(shape, groups, stride, pad, zero)
    exe = tvm_disc.build(made, target={"kind": "llvm", "mcpu": level})
    assert ("vpdpbusd" if level == "cascadelake" else "vpmaddwd") in exe.source("asm")
    run_on(level)
    for n, height, width in IMAGES:
        x = RNG.standard_normal((n, shape[1] * groups, height, width)).astype("float32") * 8
        real = convolved(bytes_of(x, zero), w, groups, stride, pad) + bias[:, None, None]
        np.testing.assert_array_equal(exe(x), bytes_of(np.maximum(real, 0), zero))


@pytest.mark.parametrize("level", ["x86-64-v2", *LEVELS])
@pytest.mark.parametrize(
    ("channels", "taps", "stride", "pad", "zero"),
    [
        (40, 3, 1, 1, np.uint8(0)),
        (24, 3, 2, 1, np.uint8(131)),
        (19, 5, 1, 2, np.int8(-3)),
        (32, 2, 3, 0, np.uint8(255)),
        (16, 7, 2, 3, np.int8(0)),
    ],
)
def test_depthwise_convolutions(
    channels: int, taps: int, stride: int, pad: int, zero: Array, level: str
) -> None:
    made, w, bias = convolution((channels, 1, taps, taps), channels, stride, pad, zero)
    exe = tvm_disc.build(made, target={"kind": "llvm", "mcpu": level})
    text = exe.explain(full=True)
    assert "template: channel window" in text
    assert "in integers" not in text
    if level != "x86-64-v2":
        assert ("vpdpbusd" if level == "cascadelake" else "vpmaddwd") in exe.source("asm")
    run_on(level)
    for n, height, width in IMAGES:
        if min(height, width) + 2 * pad < taps:
            continue
        x = RNG.standard_normal((n, channels, height, width)).astype("float32") * 8
        real = convolved(bytes_of(x, zero), w, channels, stride, pad) + bias[:, None, None]
        np.testing.assert_array_equal(exe(x), bytes_of(np.maximum(real, 0), zero))


@pytest.mark.parametrize(
    ("shape", "groups", "stride", "zero"),
    [
        ((19, 1, 5, 5), 19, 1, np.int8(-3)),
        ((24, 1, 3, 3), 24, 2, np.uint8(131)),
        ((37, 12, 1, 1), 1, 1, np.uint8(3)),
    ],
)
def test_dot_instructions_of_eight_lanes(
    shape: tuple[int, ...], groups: int, stride: int, zero: Array
) -> None:
    """Without masks for bytes, channels beyond whole vectors are computed one by one."""
    pad = shape[2] // 2
    made, w, bias = convolution(shape, groups, stride, pad, zero)
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "mattr": ["+avxvnni"]})
    exe = tvm_disc.build(made, target=target)
    assert "vpdpbusd" in exe.source("asm")
    run_on(target)
    for n, height, width in IMAGES:
        x = RNG.standard_normal((n, shape[1] * groups, height, width)).astype("float32") * 8
        real = convolved(bytes_of(x, zero), w, groups, stride, pad) + bias[:, None, None]
        np.testing.assert_array_equal(exe(x), bytes_of(np.maximum(real, 0), zero))


def test_several_channels_a_group_stay_float() -> None:
    made, w, bias = convolution((16, 2, 3, 3), 4, 1, 1, np.uint8(3))
    exe = tvm_disc.build(made)
    assert "expected one group, or one input and one output channel per group" in exe.explain(
        full=True
    )
    for n, height, width in IMAGES:
        x = RNG.standard_normal((n, 8, height, width)).astype("float32") * 8
        real = convolved(bytes_of(x, np.uint8(3)), w, 4, 1, 1) + bias[:, None, None]
        np.testing.assert_array_equal(exe(x), bytes_of(np.maximum(real, 0), np.uint8(3)))


@pytest.mark.parametrize(
    ("channels", "zero", "after", "ceil"),
    [
        (24, np.uint8(0), "s", 0),
        (96, np.int8(-9), "s", 0),
        (64, np.uint8(140), "t", 0),
        (24, np.uint8(3), "s", 1),
    ],
)
@pytest.mark.parametrize("level", LEVELS)
def test_maxima_are_of_bytes(channels: int, zero: Array, after: str, ceil: int, level: str) -> None:
    """With another scale after it a maximum is quantized again; windows may be empty with
    ``ceil_mode``, so that these stay float.
    """
    made, w, bias = convolution((channels, 16, 1, 1), 1, 1, 0, zero)
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": ceil}
    made.graph.node.extend(
        [
            node("MaxPool", ["y"], ["p"], **pool),
            node("QuantizeLinear", ["p", after, "z"], ["last"]),
        ]
    )
    made.graph.initializer.append(from_array(np.float32(0.5), "t"))
    made.graph.output[0].name = "last"
    made.graph.output[0].type.tensor_type.elem_type = from_array(zero).data_type
    exe = tvm_disc.build(made, target={"kind": "llvm", "mcpu": level})
    kernel = exe.explain(full=True).partition("nn.max_pool2d")[2].partition("template")[0]
    assert ("round" in kernel) == (after == "t" or bool(ceil))
    run_on(level)
    scale, kind = {"s": 0.25, "t": 0.5}[after], np.iinfo(zero.dtype)
    for n, height, width in IMAGES:
        x = RNG.standard_normal((n, 16, height, width)).astype("float32") * 8
        real = convolved(bytes_of(x, zero), w, 1, 1, 0) + bias[:, None, None]
        real = bytes_of(np.maximum(real, 0), zero)
        extra = ((0, 0), (0, 0), (1, 2), (1, 2))
        wide = np.pad(real, extra, constant_values=-np.inf)
        wins = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3)).max((4, 5))
        sizes = [(size - 1 + ceil * (size % 2 == 0)) // 2 + 1 for size in (height, width)]
        most = wins[:, :, ::2, ::2][:, :, : sizes[0], : sizes[1]]
        exact = np.clip(np.rint(most / scale) + zero, kind.min, kind.max).astype(zero.dtype)
        np.testing.assert_array_equal(exe(x), exact)
