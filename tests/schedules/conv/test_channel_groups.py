"""Direct convolutions of several input channels, dense and in groups, against float64 NumPy.

The pixel GEMM, which competes with them, is left out: ``options`` names the template.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.schedules.conv.channels_last import channels_last
from tests.schedules.conv.layers import IMAGES, RNG, conv, data, image, windows
from tvm_disc import relay
from tvm_disc.schedules.conv.channel_groups import GroupCut, GroupVectors
from tvm_disc.schedules.conv.channel_window import plan_channel_window
from tvm_disc.schedules.packing import pack_constant

PASSES = {"before fuse": channels_last}
LEVELS = ["x86-64", "x86-64-v3", "x86-64-v4"]
# in, out, kernel, stride, padding, groups, dilation
LAYERS = {
    "a vector": (5, 16, 3, 1, 1, 1, 1),
    "vectors and a rest": (6, 23, 3, 1, 1, 1, 1),
    "7x7 of colours": (3, 32, 7, 2, 3, 1, 1),
    "5x5, stride 3": (4, 16, 5, 3, 2, 1, 1),
    "dilated": (7, 24, 3, 1, 2, 1, 2),
    "windows wholly in the padding": (4, 16, 2, 1, 3, 1, 2),
    "two groups a vector": (48, 48, 3, 1, 1, 6, 1),
    "an odd number of groups": (104, 104, 3, 2, 1, 13, 1),
    "four groups a vector": (32, 32, 3, 1, 1, 8, 1),
    "more outputs than inputs": (12, 48, 3, 1, 1, 3, 1),
    "fewer outputs than inputs": (96, 32, 3, 1, 1, 2, 1),
    "a group of a vector and a half": (48, 48, 3, 1, 1, 2, 1),
    "wide groups": (64, 128, 3, 2, 1, 2, 1),
    "of one tap": (32, 64, 1, 1, 0, 4, 1),
}


def options(**more: Any) -> tvm_disc.Options:
    """Direct sums wherever their template accepts the layer."""
    return tvm_disc.Options(templates=(("conv", plan_channel_window),), **more)


def layer_of(layer: Any, dtype: str = "float32", **extra: Any) -> tuple[Any, np.ndarray]:
    ic, oc, kernel, stride, padding, groups, dilation = layer
    shape = (oc, ic // groups, kernel, kernel)
    drawn = RNG.integers(-9, 9, shape) if "int" in dtype else RNG.standard_normal(shape)
    w = drawn.astype(dtype)
    x = relay.var("x", shape=(relay.Any(), ic, relay.Any(), relay.Any()), dtype=dtype)
    y = relay.nn.conv2d(
        x, relay.const(w, dtype), strides=(stride,) * 2, padding=(padding,) * 2, groups=groups,
        dilation=(dilation,) * 2, channels=oc, kernel_size=(kernel,) * 2, **extra,
    )  # fmt: skip
    return relay.Function([x], y), w


def check(exe: Any, layer: Any, w: np.ndarray, tolerance: float = 1e-4) -> None:
    ic, _, kernel, stride, padding, groups, dilation = layer
    for shape in IMAGES:
        a = (data(shape, ic) * 4).astype(w.dtype)
        taps = windows(a, kernel, stride, padding, dilation, 0.0)
        if taps is not None:
            expected = conv(a, w, groups, taps)
            scale = np.abs(expected).max(initial=1.0)
            got = exe(a) / scale
            np.testing.assert_allclose(got, expected / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer: str) -> None:
    function, w = layer_of(LAYERS[layer])
    exe = tvm_disc.build(function, passes=PASSES, options=options())
    check(exe, LAYERS[layer], w, 1e-6)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layer", ["two groups a vector", "vectors and a rest", "wide groups"])
def test_levels(layer: str, level: str) -> None:
    """One group is a product of pixels but in the longest vectors."""
    function, w = layer_of(LAYERS[layer])
    target = {"kind": "llvm", "mcpu": level}
    exe = tvm_disc.build(function, passes=PASSES, target=target, options=options())
    direct = level == "x86-64-v4" or layer != "vectors and a rest"
    assert ("template: plan_channel_window" in exe.explain()) == direct
    if level == "x86-64":
        check(exe, LAYERS[layer], w, 1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_rows_and_channels(threads: int) -> None:
    """A megabyte of weights: a task is a row and a part of the channels. Sums have 1,152 terms."""
    layer = (256, 256, 3, 1, 1, 2, 1)
    function, w = layer_of(layer)
    exe = tvm_disc.build(function, passes=PASSES, options=options(threads=threads))
    assert "template: plan_channel_window" in exe.explain()
    check(exe, layer, w, 3e-6)


@pytest.mark.parametrize("width", [1, 2, 5, 7, 10, 16])
def test_a_width_that_is_known(width: int) -> None:
    w = RNG.standard_normal((24, 8, 3, 3)).astype("float32")
    x = relay.var("x", shape=(relay.Any(), 16, relay.Any(), width), dtype="float32")
    y = relay.nn.conv2d(
        x, relay.const(w), padding=(1, 1), groups=2, channels=24, kernel_size=(3, 3)
    )
    exe = tvm_disc.build(relay.Function([x], relay.nn.relu(y)), passes=PASSES, options=options())
    for n, height in ((1, 1), (2, 7), (0, 3), (1, 40), (5, 2)):
        a = RNG.standard_normal((n, 16, height, width)).astype("float32")
        expected = np.maximum(conv(a, w, 2, windows(a, 3, 1, 1, 1, 0.0)), 0)
        np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "result", "tolerance"),
    [("float64", "float64", 1e-14), ("int32", "int32", 0), ("int8", "int32", 0)],
)
def test_other_types(dtype: str, result: str, tolerance: float) -> None:
    layer = LAYERS["two groups a vector"]
    function, w = layer_of(layer, dtype, out_dtype=result)
    exe = tvm_disc.build(function, passes=PASSES, options=options())
    assert "template: plan_channel_window" in exe.explain()
    check(exe, layer, w, tolerance)


def test_an_epilogue_and_a_residual() -> None:
    layer = (48, 48, 3, 1, 1, 6, 1)
    _, w = layer_of(layer)
    x, bias = image(48), RNG.standard_normal((48, 1, 1)).astype("float32")
    y = relay.nn.conv2d(
        x, relay.const(w), padding=(1, 1), groups=6, channels=48, kernel_size=(3, 3)
    )
    y = relay.nn.relu(relay.add(relay.add(y, relay.const(bias)), x))
    exe = tvm_disc.build(relay.Function([x], y))
    assert "template: channel window" in exe.explain() or "nn.conv2d" in exe.explain()
    for shape in IMAGES:
        a = data(shape, 48)
        expected = np.maximum(conv(a, w, 6, windows(a, 3, 1, 1, 1, 0.0)) + bias + a, 0)
        np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-4)


def test_lines_and_blocks() -> None:
    """One and three spatial dims."""
    w1 = RNG.standard_normal((16, 4, 3)).astype("float32")
    w3 = RNG.standard_normal((16, 4, 2, 3, 3)).astype("float32")
    x1 = relay.var("x", shape=(relay.Any(), relay.Any(), 8), dtype="float32")
    x3 = relay.var("x", shape=(relay.Any(), relay.Any(), 4, relay.Any(), 8), dtype="float32")
    one = relay.nn.conv1d(
        x1, relay.const(w1.transpose(2, 1, 0)), padding=(1, 1), groups=2, channels=16,
        kernel_size=3, data_layout="NWC", kernel_layout="WIO",
    )  # fmt: skip
    three = relay.nn.conv3d(
        x3, relay.const(w3.transpose(2, 3, 4, 1, 0)), padding=(0, 1, 1, 1, 1, 1), groups=2,
        channels=16, kernel_size=(2, 3, 3), data_layout="NDHWC", kernel_layout="DHWIO",
    )  # fmt: skip
    lines = tvm_disc.build(relay.Function([x1], one))
    blocks = tvm_disc.build(relay.Function([x3], three))
    for n, size in ((1, 1), (2, 9), (0, 3), (3, 20)):
        a = RNG.standard_normal((n, size, 8)).astype("float32")
        wide = np.pad(a.astype("float64"), ((0, 0), (1, 1), (0, 0)))
        wide = wide.reshape(n, size + 2, 2, 4)
        expected: Any = sum(
            np.einsum("nwgi,goi->nwgo", wide[:, k : k + size], w1[:, :, k].reshape(2, 8, 4))
            for k in range(3)
        )
        np.testing.assert_allclose(lines(a), expected.reshape(n, size, 16), rtol=1e-4, atol=1e-4)
        a = RNG.standard_normal((n, size, 4, 6, 8)).astype("float32")
        wide = np.pad(a.astype("float64"), ((0, 0), (0, 1), (1, 1), (1, 1), (0, 0)))
        wide = wide.reshape(*wide.shape[:-1], 2, 4)
        expected = sum(
            np.einsum(
                "ndhwgi,goi->ndhwgo", wide[:, d : d + size, h : h + 4, k : k + 6],
                w3[:, :, d, h, k].reshape(2, 8, 4),
            )
            for d in range(2) for h in range(3) for k in range(3)
        )  # fmt: skip
        np.testing.assert_allclose(
            blocks(a), expected.reshape(n, size, 4, 6, 16), rtol=1e-4, atol=1e-4
        )


# groups, members, outs, lanes; the vectors and how many lanes of each run are filled
CUTS = [
    ((1, 3, 64, 16), 4, [(4, 16)]),
    ((1, 3, 40, 16), 3, [(2, 16), (1, 8)]),
    ((6, 8, 8, 16), 3, [(3, 16)]),
    ((13, 8, 8, 16), 7, [(6, 16), (1, 8)]),
    ((5, 4, 4, 16), 2, [(1, 16), (1, 4)]),
    ((3, 2, 2, 16), 1, [(1, 6)]),
    ((2, 24, 24, 16), 4, [(2, 16), (2, 8)]),
]


@pytest.mark.parametrize(("cut", "vectors", "runs"), CUTS, ids=str)
def test_every_channel_has_a_lane_of_its_own(cut: Any, vectors: int, runs: Any) -> None:
    made = GroupCut(*cut)
    assert made.vectors == vectors
    assert [(r.count, r.filled) for r in made.runs()] == runs
    assert sum(r.count * r.filled for r in made.runs()) == made.groups * made.outs
    channels = made.groups * made.outs
    weights = np.arange(1, channels * made.members * 6 + 1, dtype="float32")
    weights = weights.reshape(channels, made.members, 2, 3)
    packed = pack_constant(GroupVectors(made, "float32"), weights)
    assert packed.shape == (vectors, 2, made.members, 3, made.lanes)
    assert sorted(packed[packed > 0]) == weights.reshape(-1).tolist()


def test_packed_weights() -> None:
    """Two groups of two channels: lines, members, taps, then the channels of both."""
    weights = np.arange(24, dtype="float32").reshape(4, 3, 1, 2)
    packed = pack_constant(GroupVectors(GroupCut(2, 3, 2, 4), "float32"), weights)
    assert packed.shape == (1, 1, 3, 2, 4)
    assert packed[0, 0, 1, 0].tolist() == [2, 8, 14, 20]


REFUSED = {
    "for a 1x1 window without groups, pixel gemm is at least as fast": (
        (8, 16, 1, 1, 0, 1, 1),
        "float32",
    ),
    "for integers without groups, pixel gemm is at least as fast": (
        (8, 16, 3, 1, 1, 1, 1),
        "int8",
    ),
    "6 groups with inputs and outputs of 1 and 2 channels are too narrow": (
        (6, 12, 3, 1, 1, 6, 1),
        "float32",
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    layer, dtype = REFUSED[reason]
    extra = {} if dtype == "float32" else {"out_dtype": "int32"}
    function, w = layer_of(layer, dtype, **extra)
    exe = tvm_disc.build(function, passes=PASSES)
    assert f"channel window not used: {reason}" in exe.explain()
    check(exe, layer, w, 1e-6)
