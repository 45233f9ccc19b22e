"""Dense 3x3 convolutions by minimal filtering, against float64 NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.processor import run_on
from tests.schedules.conv.channels_last import channels_last
from tests.schedules.conv.layers import RNG, conv, data, image, windows
from tvm_disc import relay
from tvm_disc.schedules.conv.winograd import plan_winograd

PASSES = {"before fuse": channels_last}
SIDES = (0, 1, 3, 4, 5, 7, 13, 14, 28, 56)
IMAGES = [(n, s, s) for n in (1, 3) for s in SIDES] + [(2, 1, 9), (1, 12, 2), (0, 4, 4)]
LEVELS = ["x86-64-v3", "x86-64-v4"]
# Of the largest result, as docs/conv.md states them.
BOUNDS = {2: 1e-6, 4: 6e-6}


def options(**more: Any) -> tvm_disc.Options:
    """Minimal filtering whatever the sizes."""
    return tvm_disc.Options(templates=(("conv", plan_winograd),), **more)


def layer(ins: int, outs: int, padding: Any = (1, 1), **more: Any) -> tuple[Any, np.ndarray]:
    w = (RNG.standard_normal((outs, ins, 3, 3)) / np.sqrt(9 * ins)).astype("float32")
    y = relay.nn.conv2d(
        x := image(ins), relay.const(w), padding=padding, channels=outs, kernel_size=(3, 3), **more
    )
    return relay.Function([x], y), w


def check(exe: Any, w: np.ndarray, bound: float, images: Any = IMAGES, padding: int = 1) -> None:
    for shape in images:
        a = data(shape, w.shape[1])
        taps = windows(a, 3, 1, padding, 1, 0.0)
        if taps is not None:
            expected = conv(a, w, 1, taps)
            scale = np.abs(expected).max(initial=0.1)
            np.testing.assert_allclose(exe(a) / scale, expected / scale, rtol=0, atol=bound)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("outputs", [2, 4])
def test_every_size_of_image(level: str, outputs: int) -> None:
    function, w = layer(32, 48)
    target = {"kind": "llvm", "mcpu": level}
    exe = tvm_disc.build(function, target=target, passes=PASSES, options=options(winograd=outputs))
    assert f"algorithm: Winograd F({outputs}x{outputs}, 3x3)" in exe.explain()
    run_on(level)
    check(exe, w, BOUNDS[outputs])


@pytest.mark.parametrize(("ins", "outs"), [(16, 16), (64, 112), (256, 32), (16, 272)])
def test_channels(ins: int, outs: int) -> None:
    """Panels that are whole, narrow, or followed by a narrow one."""
    function, w = layer(ins, outs)
    exe = tvm_disc.build(function, passes=PASSES, options=options())
    check(exe, w, BOUNDS[2], IMAGES[:9])


def test_errors_are_those_of_plain_sums() -> None:
    """512 channels: fewer numbers are added one after the other than in a sum over 4608 terms."""
    function, w = layer(512, 64)
    filtered = tvm_disc.build(function, passes=PASSES, options=options())
    direct = tvm_disc.build(function, passes=PASSES, options=tvm_disc.Options(winograd=0))
    assert "template: winograd" not in direct.explain()
    a = data((1, 14, 14), 512)
    expected = conv(a, w, 1, windows(a, 3, 1, 1, 1, 0.0))
    few, many = (
        np.abs(exe(a) - expected).max() / np.abs(expected).max() for exe in (filtered, direct)
    )
    assert few <= BOUNDS[2]
    assert few <= 2 * many


@pytest.mark.parametrize("padding", [0, 2])
def test_padding(padding: int) -> None:
    function, w = layer(16, 16, (padding, padding))
    exe = tvm_disc.build(function, passes=PASSES, options=options())
    check(exe, w, BOUNDS[2], padding=padding)


def test_padding_on_one_side() -> None:
    function, w = layer(16, 16, (0, 1, 2, 0))
    exe = tvm_disc.build(function, passes=PASSES, options=options())
    for shape in ((1, 5, 7), (2, 3, 4), (1, 14, 1)):
        a = data(shape, 16)
        wide = np.pad(a, ((0, 0), (0, 0), (0, 2), (1, 0)))
        taps = windows(wide, 3, 1, 0, 1, 0.0)
        if taps is not None:
            np.testing.assert_allclose(exe(a), conv(wide, w, 1, taps), rtol=0, atol=1e-5)


def test_what_follows_runs_on_the_tile() -> None:
    _, w = layer(32, 32)
    x, bias = image(32), RNG.standard_normal((32, 1, 1)).astype("float32")
    y = relay.nn.conv2d(x, relay.const(w), padding=(1, 1), channels=32, kernel_size=(3, 3))
    y = relay.nn.relu(relay.add(relay.add(y, relay.const(bias)), x))
    exe = tvm_disc.build(relay.Function([x], y), options=tvm_disc.Options(winograd=2))
    for shape in IMAGES[:9]:
        a = data(shape, 32)
        taps = windows(a, 3, 1, 1, 1, 0.0)
        if taps is not None:
            expected = np.maximum(conv(a, w, 1, taps) + bias + a, 0)
            np.testing.assert_allclose(exe(a), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_tiles_or_channels(threads: int) -> None:
    """A megabyte of weights and more is shared by channels."""
    for ins, outs in ((16, 16), (96, 192)):
        function, w = layer(ins, outs)
        exe = tvm_disc.build(function, passes=PASSES, options=options(threads=threads))
        check(exe, w, BOUNDS[2], [(1, 1, 1), (1, 7, 7), (3, 13, 14), (0, 3, 3)])


def test_few_pixels_are_summed_directly() -> None:
    """One kernel holds both ways, and weights in both layouts."""
    function, w = layer(256, 256)
    target = {"kind": "llvm", "mcpu": "x86-64-v4"}
    exe = tvm_disc.build(
        function, target=target, passes=PASSES, options=tvm_disc.Options(threads=1)
    )
    assert "template: winograd, channel window" in exe.explain()
    assert "weights are packed for: winograd and channel window" in exe.explain()
    run_on("x86-64-v4")
    check(exe, w, 2e-6, [(1, 1, 1), (1, 2, 2), (2, 3, 3), (1, 5, 4), (1, 14, 14), (0, 2, 2)])


def test_a_known_size_has_one_layout() -> None:
    x = relay.var("x", shape=(relay.Any(), 32, 14, 14), dtype="float32")
    _, w = layer(32, 32)
    y = relay.nn.conv2d(x, relay.const(w), padding=(1, 1), channels=32, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x], y), passes=PASSES)
    # The costs of the processor choose the template.
    assert "weights are packed for" not in exe.explain()
    check(exe, w, BOUNDS[2], [(n, 14, 14) for n in (0, 1, 2, 7)])


REFUSED = {
    "Winograd requires one group: there are 2": {"groups": 2},
    "Winograd requires stride 1: stride is 2x2": {"strides": (2, 2)},
    "Winograd requires at least 16 channels": {"ins": 8},
    "Options(winograd=0) disables it": {"winograd": 0},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    more = dict(REFUSED[reason])
    ins, wanted, groups = more.pop("ins", 32), more.pop("winograd", 2), more.pop("groups", 1)
    w = RNG.standard_normal((32, ins // groups, 3, 3)).astype("float32")
    x = image(ins)
    y = relay.nn.conv2d(
        x, relay.const(w), padding=(1, 1), groups=groups, channels=32, kernel_size=(3, 3), **more
    )
    exe = tvm_disc.build(relay.Function([x], y), passes=PASSES, options=options(winograd=wanted))
    assert f"winograd not used: {reason}" in exe.explain()
    stride = more.get("strides", (1, 1))[0]
    a = data((2, 5, 6), ins)
    expected = conv(a, w, groups, windows(a, 3, stride, 1, 1, 0.0))
    np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-4)


def test_weights_known_at_run_time_only() -> None:
    w = relay.var("w", shape=(32, 32, 3, 3), dtype="float32")
    y = relay.nn.conv2d(x := image(32), w, padding=(1, 1), channels=32, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x, w], y), passes=PASSES, options=options())
    assert "winograd not used: Winograd requires constant weights" in exe.explain()


def test_sums_of_float64() -> None:
    w = relay.const(RNG.standard_normal((32, 32, 3, 3)), "float64")
    x = relay.var("x", shape=(relay.Any(), 32, relay.Any(), relay.Any()), dtype="float64")
    y = relay.nn.conv2d(x, w, padding=(1, 1), channels=32, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x], y), passes=PASSES, options=options())
    assert (
        "winograd not used: Winograd requires float32: found float64 x float64 -> float64"
        in exe.explain()
    )
