"""Convolutions of images whose channels are last, against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tests.schedules.conv.channels_last import channels_last
from tests.schedules.conv.layers import IMAGES, LAYERS, RNG, conv, data, image, windows
from tvm_disc import relay
from tvm_disc.schedules.conv.pixels import FilterPanels
from tvm_disc.schedules.conv.plan import plan_pixels
from tvm_disc.schedules.gemm.layouts import PanelsOfB

PASSES = {"before fuse": channels_last}
# Of most of these layers the channel window takes the constant weights.
ASKED_FIRST = tvm_disc.Options(templates=(("conv", plan_pixels),))
MATRICES = {name: layer for name, layer in LAYERS.items() if "depthwise" not in name}
MATRICES |= {
    "7x7 strided": (3, 18, 7, 2, 3, 1, 1),
    "pieces longer than a block of K": (290, 9, 3, 1, 1, 1, 1),
    "grouped 1x1": (12, 18, 1, 1, 0, 3, 1),
    "one column": (5, 1, 3, 1, 1, 1, 1),
}


@pytest.mark.parametrize("layer", MATRICES)
def test_conv2d(layer: str) -> None:
    ic, oc, kernel, stride, padding, groups, dilation = MATRICES[layer]
    w = RNG.standard_normal((oc, ic // groups, kernel, kernel)).astype("float32")
    x = image(ic)
    y = relay.nn.conv2d(
        x, relay.const(w), strides=(stride,) * 2, padding=(padding,) * 2, groups=groups,
        dilation=(dilation,) * 2, channels=oc, kernel_size=(kernel,) * 2,
    )  # fmt: skip
    exe = tvm_disc.build(relay.Function([x], y), passes=PASSES, options=ASKED_FIRST)
    assert "template: plan_pixels" in exe.explain()
    for shape in IMAGES:
        a = data(shape, ic)
        taps = windows(a, kernel, stride, padding, dilation, 0.0)
        if taps is not None:
            expected = conv(a, w, groups, taps)
            np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-4, err_msg=str(shape))


@pytest.mark.parametrize(("batch", "height"), [(2, 9), (None, 9), (2, None)])
def test_static_dims(batch: int | None, height: int | None) -> None:
    dims = [relay.Any() if d is None else d for d in (batch, 6, height)]
    x = relay.var("x", shape=(dims[0], dims[1], dims[2], 11), dtype="float32")
    w = RNG.standard_normal((20, 6, 3, 3)).astype("float32")
    y = relay.nn.conv2d(x, relay.const(w), padding=(1, 0, 2, 1), channels=20, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x], y), passes=PASSES, options=ASKED_FIRST)
    a = RNG.standard_normal((batch or 3, 6, height or 5, 11)).astype("float32")
    wide = np.pad(a, ((0, 0), (0, 0), (1, 2), (0, 1)))
    expected = conv(wide, w, 1, windows(wide, 3, 1, 0, 1, 0.0))
    np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-4)


def test_weights_known_at_run_time_only() -> None:
    x, w = image(24), relay.var("w", shape=(21, 24, 3, 3), dtype="float32")
    y = relay.nn.conv2d(x, w, padding=(1, 1), channels=21, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x, w], y), passes=PASSES)
    weight = RNG.standard_normal((21, 24, 3, 3)).astype("float32")
    for shape in IMAGES:
        a = data(shape, 24)
        expected = conv(a, weight, 1, windows(a, 3, 1, 1, 1, 0.0))
        np.testing.assert_allclose(exe(a, weight), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "result", "tolerance"),
    [("float64", "float64", 1e-12), ("float16", "float16", 1e-3), ("int8", "int32", 0)],
)
def test_dtypes(dtype: str, result: str, tolerance: float) -> None:
    x = relay.var("x", shape=(relay.Any(), 10, relay.Any(), relay.Any()), dtype=dtype)
    draw = RNG.integers(-128, 128, (19, 10, 3, 3)) if dtype == "int8" else None
    w = (RNG.standard_normal((19, 10, 3, 3)) if draw is None else draw).astype(dtype)
    y = relay.nn.conv2d(
        x,
        relay.const(w, dtype),
        padding=(1, 1),
        channels=19,
        kernel_size=(3, 3),
        out_dtype=result,
    )
    exe = tvm_disc.build(relay.Function([x], y), passes=PASSES, options=ASKED_FIRST)
    for shape in IMAGES:
        a = data(shape, 10) * 40
        a = a.astype(dtype)
        expected = conv(a, w, 1, windows(a, 3, 1, 1, 1, 0.0))
        scale = np.abs(expected).max(initial=1.0)
        got = exe(a)
        assert got.dtype == result
        np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=tolerance)


def test_other_templates_say_why_not() -> None:
    x = image(8)
    w = relay.const(RNG.standard_normal((16, 1, 3, 3)).astype("float32"))
    y = relay.nn.conv2d(x, w, channels=16, groups=8, kernel_size=(3, 3))
    text = tvm_disc.build(relay.Function([x], y), passes=PASSES).explain()
    assert "pixel gemm not used: it requires several input channels per group" in text
    assert "implicit gemm not used: it requires channels before the image, as in NCHW" in text
    plain = tvm_disc.build(relay.Function([x], y)).explain()
    assert "pixel gemm not used: it requires channels last" in plain


def test_an_input_is_read_as_it_lies() -> None:
    """A transpose in front is a kernel of its own: panels are filled by vectors."""
    x = image(5)
    w = relay.const(RNG.standard_normal((7, 5, 3, 3)).astype("float32"))
    turned = relay.transpose(x, (0, 1, 3, 2))
    y = relay.nn.conv2d(turned, w, channels=7, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x], y))
    assert len(exe.kernels) == 2
    a = data((2, 9, 14), 5)
    b = np.ascontiguousarray(a.swapaxes(2, 3))
    expected = conv(b, np.asarray(w.data), 1, windows(b, 3, 1, 0, 1, 0.0))
    np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_packed_weights(groups: int) -> None:
    """Panels of each group, K outermost by taps, zeros on the right."""
    w = RNG.standard_normal((6 * groups, 4, 3, 2)).astype("float32")
    form = FilterPanels(PanelsOfB(4, 4), groups)
    shape, dtype = form.form(w.shape, "float32")
    assert (shape, dtype) == ((2 * groups, 24, 4), "float32")
    out = np.zeros(shape, dtype)
    form.write(w, out)
    for g in range(groups):
        for k, (i, j, c) in enumerate(np.ndindex(3, 2, 4)):
            row = np.concatenate(out[2 * g : 2 * g + 2, k])
            np.testing.assert_array_equal(row, [*w[6 * g : 6 * g + 6, c, i, j], 0, 0])
