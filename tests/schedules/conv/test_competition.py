"""Channels-last convolutions that several templates accept: which one runs where, and results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.processor import run_on
from tests.schedules.conv.layers import RNG, conv, data, windows
from tvm_disc import relay
from tvm_disc.errors import WhyNot
from tvm_disc.schedules.conv.channel_window import plan_channel_window

# in, out, kernel, stride, groups; and what the kernel keeps on AVX-512, for every size of image
CHOSEN = {
    "few input channels": ((3, 64, 7, 2, 1), "channel window"),
    "few input channels, 3x3": ((3, 32, 3, 2, 1), "channel window"),
    "strided": ((128, 128, 3, 2, 1), "pixel gemm"),
    "of one tap": ((64, 48, 1, 1, 1), "pixel gemm"),
    "of one tap, strided": ((64, 48, 1, 2, 1), "pixel gemm"),
    "narrow groups": ((64, 64, 3, 1, 16), "channel window"),
    "wide groups": ((256, 256, 3, 1, 2), "pixel gemm"),
    "3x3": ((128, 128, 3, 1, 1), "winograd, channel window"),
}
LEVEL = {"kind": "llvm", "mcpu": "x86-64-v4"}
IMAGES = [(n, h, w) for n in (1, 3) for h, w in ((1, 1), (2, 1), (1, 5), (3, 3), (7, 8), (13, 29))]
IMAGES += [(0, 4, 4), (1, 56, 3), (1, 2, 61)]


def layer(shape: Any, *dims: Any) -> tuple[Any, np.ndarray]:
    ins, outs, kernel, stride, groups = shape
    w = RNG.standard_normal((outs, ins // groups, kernel, kernel)).astype("float32")
    w /= np.sqrt(ins // groups * kernel**2)
    sizes = dims or (relay.Any(), relay.Any(), relay.Any())
    x = relay.var("x", shape=(*sizes, ins), dtype="float32")
    y = relay.nn.conv2d(
        x, relay.const(w), strides=(stride,) * 2, padding=(kernel // 2,) * 2, groups=groups,
        channels=outs, kernel_size=(kernel,) * 2, data_layout="NHWC", kernel_layout="OIHW",
    )  # fmt: skip
    return relay.Function([x], y), w


def check(exe: Any, shape: Any, w: np.ndarray, images: Any = IMAGES, bound: float = 2e-6) -> None:
    ins, _, kernel, stride, groups = shape
    for size in images:
        a = data(size, ins)
        taps = windows(a, kernel, stride, kernel // 2, 1, 0.0)
        expected = conv(a, w, groups, taps).transpose(0, 2, 3, 1)
        scale = np.abs(expected).max(initial=0.1)
        got = exe(np.ascontiguousarray(a.transpose(0, 2, 3, 1)))
        np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=bound, err_msg=size)


def variants(exe: Any) -> str:
    """The lines of the tree, without knobs."""
    text = exe.explain()
    lines = re.findall(
        r"^ *(.*?) +(winograd|channel window|pixel gemm)(?:\(.*\))?, serial", text, re.M
    )
    return "; ".join(f"{where}: {family}" for where, family in lines)


@pytest.mark.parametrize("name", CHOSEN)
def test_who_runs(name: str) -> None:
    shape, families = CHOSEN[name]
    function, w = layer(shape)
    exe = tvm_disc.build(function, target=LEVEL, options=tvm_disc.Options(threads=1))
    assert f"template: {families}\n" in exe.explain()
    run_on("x86-64-v4")
    check(exe, shape, w)


def test_a_tree_over_two_templates() -> None:
    """Images of one row have two thirds of the taps in the padding, which minimal filtering
    computes.
    """
    function, _ = layer((128, 128, 3, 1, 1))
    exe = tvm_disc.build(function, target=LEVEL, options=tvm_disc.Options(threads=1))
    assert variants(exe) == "x_1 < 2: channel window; other sizes: winograd"
    assert "weights are packed for: winograd and channel window" in exe.explain()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_two_layouts_on_threads(threads: int) -> None:
    function, w = layer((32, 48, 3, 1, 1))
    exe = tvm_disc.build(function, options=tvm_disc.Options(threads=threads))
    check(exe, (32, 48, 3, 1, 1), w)


@pytest.mark.parametrize(
    ("side", "family"), [(1, "channel window"), (2, "winograd"), (14, "winograd")]
)
def test_a_known_image_has_one_template(side: int, family: str) -> None:
    """At two rows the number of images, which is not known, decides little."""
    function, w = layer((128, 128, 3, 1, 1), relay.Any(), side, side)
    exe = tvm_disc.build(function, target=LEVEL, options=tvm_disc.Options(threads=1))
    assert f"template: {family}\n" in exe.explain()
    assert "weights are packed for" not in exe.explain()
    run_on("x86-64-v4")
    check(exe, (128, 128, 3, 1, 1), w, [(n, side, side) for n in (0, 1, 2, 5)])


@pytest.mark.parametrize("dims", [(1, 9, 11), (2, None, 7), (None, 5, None)])
def test_known_dims(dims: Any) -> None:
    shape = (48, 64, 3, 1, 1)
    function, w = layer(shape, *(relay.Any() if d is None else d for d in dims))
    exe = tvm_disc.build(function)
    images = [tuple(d or k for d in dims) for k in (1, 2, 3, 8, 31)]
    check(exe, shape, w, images)


def given(path: Path, tree: Any) -> tvm_disc.Options:
    """Options with trees that a file holds."""
    path.write_text(json.dumps(tree), encoding="utf-8")
    return tvm_disc.Options(threads=1, dispatch=path)


def test_a_tree_of_both_is_read_again(tmp_path: Path) -> None:
    shape = (128, 128, 3, 1, 1)
    function, w = layer(shape)
    first = tvm_disc.build(function, options=tvm_disc.Options(threads=1))
    again = tvm_disc.build(function, options=given(tmp_path / "trees.json", first.dispatch))
    assert variants(again) == variants(first)
    check(again, shape, w, IMAGES[:8])


def test_measured_times_choose_among_templates(tmp_path: Path) -> None:
    """Inside of the measured sizes by times, outside by the model, from the same two layouts."""
    shape, records = (64, 64, 3, 1, 1), tmp_path / "times.jsonl"
    function, w = layer(shape)
    sizes = {"x.0": [1, 2], "x.1": [1, 9], "x.2": [9]}
    tvm_disc.tune(function, records=records, shapes=sizes)
    families = {json.loads(line)["variant"]["family"] for line in records.open(encoding="utf-8")}
    assert {"pixel gemm", "winograd"} <= families
    exe = tvm_disc.build(function, options=tvm_disc.Options(threads=1, records=records))
    check(exe, shape, w)


def test_a_given_tree_mixes_direct_sums_and_panels(tmp_path: Path) -> None:
    """The kernel then has a second copy of the weights, of any size."""
    shape = (128, 128, 3, 2, 1)
    function, w = layer(shape)
    exe = tvm_disc.build(function, target=LEVEL, options=tvm_disc.Options(threads=1))
    [(group, pixels)] = exe.dispatch.items()
    window = {"run": {"family": "channel window", "knobs": {}, "parts": 1}}
    tree = {"if": "x_1", "below": 5, "then": window, "else": pixels}
    options = given(tmp_path / "trees.json", {group: tree})
    mixed = tvm_disc.build(function, target=LEVEL, options=options)
    text = mixed.explain()
    assert "channel window" in text and "pixel gemm" in text
    run_on("x86-64-v4")
    check(mixed, shape, w, [(0, 4, 9), (1, 4, 4), (2, 5, 5), (1, 3, 31), (1, 31, 3)])


def test_a_template_of_ones_own_never_competes() -> None:
    """What it accepts is its own, whatever the others would cost."""
    shape = (128, 128, 3, 1, 1)
    own = tvm_disc.Options(threads=1, templates=(("conv", plan_channel_window),))
    function, _ = layer(shape)
    exe = tvm_disc.build(function, target=LEVEL, options=own)
    assert "template: plan_channel_window\n" in exe.explain()
    assert "winograd" not in exe.explain()


def never(group: Any, solver: Any, machine: Any) -> WhyNot:
    """Accept nothing."""
    return WhyNot("never", "it accepts nothing")


def test_what_it_refuses_is_left_to_those_that_compete() -> None:
    own = tvm_disc.Options(threads=1, templates=(("conv", never),))
    exe = tvm_disc.build(layer((128, 128, 3, 1, 1))[0], target=LEVEL, options=own)
    assert "never not used: it accepts nothing" in exe.explain()
    assert variants(exe) == "x_1 < 2: channel window; other sizes: winograd"
