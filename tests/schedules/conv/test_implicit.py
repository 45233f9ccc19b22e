"""Convolutions and pooling against float64 NumPy, over many batch and image sizes per compile."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tests.schedules.conv.layers import IMAGES, LAYERS, RNG, conv, data, image, windows
from tvm_disc import relay


@pytest.mark.parametrize("layer", LAYERS)
def test_conv2d_with_bias_and_relu(layer: str) -> None:
    ic, oc, kernel, stride, padding, groups, dilation = LAYERS[layer]
    w = RNG.standard_normal((oc, ic // groups, kernel, kernel)).astype("float32")
    bias = RNG.standard_normal(oc).astype("float32")
    x = image(ic)
    y = relay.nn.conv2d(
        x, relay.const(w), strides=(stride,) * 2, padding=(padding,) * 2, groups=groups,
        dilation=(dilation,) * 2, channels=oc, kernel_size=(kernel,) * 2,
    )  # fmt: skip
    plain = len(layer) % 2 == 0  # with and without an epilogue
    out = y if plain else relay.nn.relu(relay.nn.bias_add(y, relay.const(bias)))
    exe = tvm_disc.build(relay.Function([x], out))
    assert len(exe.kernels) == 1
    for shape in IMAGES:
        a = data(shape, ic)
        taps = windows(a, kernel, stride, padding, dilation, 0.0)
        if taps is None:
            continue
        expected = conv(a, w, groups, taps)
        if not plain:
            expected = np.maximum(expected + bias[:, None, None], 0)
        np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-4, err_msg=str(shape))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_known_at_run_time_only(dtype: str) -> None:
    x = relay.var("x", shape=(relay.Any(), 70, relay.Any(), relay.Any()), dtype=dtype)
    w = relay.var("w", shape=(21, 70, 3, 3), dtype=dtype)
    y = relay.nn.conv2d(x, w, padding=(1, 1), channels=21, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x, w], relay.nn.relu(y)))
    weight = RNG.standard_normal((21, 70, 3, 3)).astype(dtype)
    for shape in IMAGES:
        a = data(shape, 70).astype(dtype)
        expected = np.maximum(conv(a, weight, 1, windows(a, 3, 1, 1, 1, 0.0)), 0)
        np.testing.assert_allclose(exe(a, weight), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("dtype", "result", "stride", "constant", "tolerance"),
    [("float16", "float16", 1, True, 1e-3), ("float16", "float32", 2, True, 1e-5),
     ("float16", "float16", 1, False, 1e-3), ("int8", "int32", 1, True, 0),
     ("int8", "int32", 2, False, 0)],
)  # fmt: skip
def test_narrow_operands(
    dtype: str, result: str, stride: int, constant: bool, tolerance: float
) -> None:
    """Sums are float32 and int32. Bytes by constant weights are multiplied channels last."""

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        if dtype == "int8":
            return RNG.integers(-128, 128, shape).astype("int8")
        return RNG.standard_normal(shape).astype(dtype)

    x = relay.var("x", shape=(relay.Any(), 70, relay.Any(), relay.Any()), dtype=dtype)
    w = draw((10, 70, 3, 3))
    weight = relay.const(w) if constant else relay.var("w", shape=w.shape, dtype=dtype)
    y = relay.nn.conv2d(
        x, weight, padding=(1, 1), strides=(stride,) * 2, channels=10, kernel_size=(3, 3),
        out_dtype=result,
    )  # fmt: skip
    inputs = [x] if constant else [x, weight]
    exe = tvm_disc.build(relay.Function(inputs, relay.nn.relu(y)))
    template = "pixel" if dtype == "int8" and constant else "implicit"
    assert f"template: {template} gemm" in exe.explain()
    for batch, height, width in IMAGES:
        a = draw((batch, 70, height, width))
        got = exe(a) if constant else exe(a, w)
        assert got.dtype == result
        expected = np.maximum(conv(a, w, 1, windows(a, 3, stride, 1, 1, 0.0)), 0)
        scale = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=tolerance)


def test_sums_of_int8_in_int8_take_another_template() -> None:
    x = relay.var("x", shape=(relay.Any(), 3, relay.Any(), relay.Any()), dtype="int8")
    w = relay.const(np.ones((4, 3, 3, 3), "int8"))
    y = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3), out_dtype="int8")
    exe = tvm_disc.build(relay.Function([x], y))
    assert "it does not support int8 x int8 -> int8" in exe.explain()
    a = RNG.integers(-1, 2, (2, 3, 6, 9)).astype("int8")
    expected = conv(a, np.ones((4, 3, 3, 3)), 1, windows(a, 3, 1, 0, 1, 0.0))
    np.testing.assert_array_equal(exe(a), expected)


@pytest.mark.parametrize("width", [16, 5])
def test_small_images_of_known_size_share_panels(width: int) -> None:
    x = relay.var("x", shape=(relay.Any(), 6, 3, width), dtype="float32")
    w = RNG.standard_normal((6, 6, 3, 3)).astype("float32")
    y = relay.nn.conv2d(x, relay.const(w), padding=(1, 1), channels=6, kernel_size=(3, 3))
    out = relay.reshape(relay.add(relay.nn.relu(y), x), (-1, 6, 3 * width))
    exe = tvm_disc.build(relay.Function([x], out))
    for batch in (0, 1, 2, 3, 5, 17, 40):
        a = data((batch, 3, width), 6)
        expected = np.maximum(conv(a, w, 1, windows(a, 3, 1, 1, 1, 0.0)), 0) + a
        np.testing.assert_allclose(
            exe(a), expected.reshape(batch, 6, 3 * width), rtol=1e-4, atol=1e-4, err_msg=str(batch)
        )


@pytest.mark.parametrize(
    ("kind", "kernel", "stride", "padding"),
    [("max", 3, 2, 1), ("max", 2, 2, 0), ("max", 3, 1, 1), ("avg", 2, 2, 0), ("avg", 3, 1, 0),
     ("avg", 3, 2, 1)],
)  # fmt: skip
def test_pooling(kind: str, kernel: int, stride: int, padding: int) -> None:
    x = image(3)
    pool = relay.nn.max_pool2d if kind == "max" else relay.nn.avg_pool2d
    y = pool(x, pool_size=(kernel,) * 2, strides=(stride,) * 2, padding=(padding,) * 2)
    exe = tvm_disc.build(relay.Function([x], relay.nn.relu(y)))
    for shape in IMAGES:
        a = data(shape, 3)
        taps = windows(a, kernel, stride, padding, 1, -np.inf if kind == "max" else np.nan)
        if taps is None:
            continue
        expected = taps.max(0) if kind == "max" else np.nanmean(taps, 0)
        got = exe(a)
        np.testing.assert_allclose(got, np.maximum(expected, 0), rtol=1e-5, atol=1e-6)


def test_pooling_to_a_single_column_takes_another_template() -> None:
    x = relay.var("x", shape=(relay.Any(), 3, relay.Any(), 2), dtype="float32")
    y = relay.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2))
    exe = tvm_disc.build(relay.Function([x], relay.nn.relu(y)))
    assert "it requires several outputs per row" in exe.explain()
    for batch, height in ((1, 2), (0, 4), (2, 7), (5, 33), (1, 100)):
        a = data((batch, height, 2), 3)
        expected = np.maximum(windows(a, 2, 2, 0, 1, -np.inf).max(0), 0)
        np.testing.assert_array_equal(exe(a), expected)


def test_max_pooling_keeps_nan() -> None:
    x = image(1)
    exe = tvm_disc.build(
        relay.Function([x], relay.nn.max_pool2d(x, pool_size=(2, 2), strides=(1, 1)))
    )
    a = np.zeros((1, 1, 3, 40), "float32")
    a[0, 0, 1, 21] = np.nan
    where = np.isnan(exe(a))[0, 0]
    assert where.sum() == 4 and where[:, 20:22].all()


def test_conv1d() -> None:
    x = relay.var("x", shape=(relay.Any(), 4, relay.Any()), dtype="float32")
    w = RNG.standard_normal((6, 4, 3)).astype("float32")
    y = relay.nn.conv1d(x, relay.const(w), strides=(2,), padding=(1,), channels=6, kernel_size=(3,))
    exe = tvm_disc.build(relay.Function([x], y))
    for batch, width in ((1, 1), (2, 7), (1, 33), (3, 100)):
        a = RNG.standard_normal((batch, 4, width)).astype("float32")
        wide = np.pad(a.astype("float64"), ((0, 0), (0, 0), (1, 1)))
        size = (width - 1) // 2 + 1
        taps = np.stack([wide[:, :, k : k + 2 * (size - 1) + 1 : 2] for k in range(3)])
        np.testing.assert_allclose(
            exe(a), np.einsum("tncw,oct->now", taps, w), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed(groups: int) -> None:
    x = image(4)
    w = RNG.standard_normal((4, 6 // groups, 3, 3)).astype("float32")
    y = relay.nn.conv2d_transpose(
        x, relay.const(w), channels=6, kernel_size=(3, 3), strides=(2, 2), padding=(1, 1),
        groups=groups,
    )  # fmt: skip
    exe = tvm_disc.build(relay.Function([x], y))
    for shape in ((1, 1, 1), (2, 3, 5), (1, 7, 20)):
        a = data(shape, 4)
        n, _, h, wd = a.shape
        full = np.zeros((n, 6, 2 * h + 1, 2 * wd + 1))
        for g in range(groups):
            ins, outs = slice(g * 4 // groups, (g + 1) * 4 // groups), 6 // groups
            for ky in range(3):
                for kx in range(3):
                    part = np.einsum("nchw,co->nohw", a[:, ins], w[ins, :, ky, kx])
                    full[
                        :, g * outs : (g + 1) * outs, ky : ky + 2 * h : 2, kx : kx + 2 * wd : 2
                    ] += part
        np.testing.assert_allclose(exe(a), full[:, :, 1 : 2 * h, 1 : 2 * wd], rtol=1e-4, atol=1e-4)
