"""Products of quantized values: exact sums of integers, in bytes from one product to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.processor import run_on
from tests.schedules.conv.layers import conv, windows
from tvm_disc import relay
from tvm_disc.frontends.calc import op

RNG = np.random.default_rng(0)
IMAGES = ((0, 5, 5), (1, 1, 1), (1, 7, 7), (2, 8, 9), (3, 14, 15), (1, 33, 31))
ROWS = (0, 1, 2, 7, 8, 9, 16, 33, 129)
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "cascadelake")
ANY = relay.Any()
Array = np.ndarray[Any, Any]


def quantized(x: Any, scale: float, zero: int, dtype: str) -> Any:
    """A value that is quantized and dequantized."""
    scaling = relay.const(np.float32(scale)), relay.const(np.int32(zero))
    q = relay.qnn.op.quantize(x, *scaling, out_dtype=dtype)
    return relay.qnn.op.dequantize(q, *scaling)


def bytes_of(x: Array, scale: float, zero: int, dtype: str) -> Array:
    """The bytes of a quantized value; Relay rounds ties away from 0."""
    kind, real = np.iinfo(dtype), (x / np.float32(scale)).astype("float64")
    whole = np.sign(real) * np.floor(np.abs(real) + 0.5)
    return np.clip(whole + zero, kind.min, kind.max).astype("int64")


def weights(shape: tuple[int, ...], axis: int = 0, low: int = -128) -> tuple[Any, Array, Array]:
    """Weights with a scale for each output channel: an expression, integers and scales."""
    whole = RNG.integers(low, 128, shape).astype("int8")
    scale = RNG.uniform(0.001, 0.01, shape[axis]).astype("float32")
    zero = relay.const(np.zeros(shape[axis], "int32"))
    made = relay.qnn.op.dequantize(relay.const(whole), relay.const(scale), zero, axis=axis)
    return made, whole.astype("int64"), scale


def convolved(x: Array, w: Array, stride: int, pad: int, dilation: int) -> Array:
    """Sums of a convolution of integers, which are exact in float64."""
    taps = windows(x, w.shape[2], stride, pad, dilation, 0)
    return conv(x, w, 1, taps).astype("int64")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("inputs", "outs", "taps", "stride", "pad", "dilation", "zero", "dtype"),
    [
        (64, 64, 1, 1, 0, 1, 0, "uint8"),
        (62, 33, 1, 2, 0, 1, 7, "uint8"),
        (32, 48, 3, 1, 1, 1, 0, "uint8"),
        (31, 20, 3, 1, 1, 1, 255, "uint8"),
        (24, 32, 3, 2, 1, 1, 128, "uint8"),
        (17, 16, 5, 1, 4, 2, 3, "uint8"),
        (3, 64, 7, 2, 3, 1, 114, "uint8"),
        (64, 40, 3, 1, 1, 1, 0, "int8"),
        (30, 40, 3, 2, 1, 1, -5, "int8"),
        (80, 30, 1, 1, 0, 1, 127, "int8"),
        # no byte is the zero point
        (24, 32, 3, 1, 1, 1, 200, "int8"),
        (24, 32, 3, 1, 1, 1, -100, "uint8"),
    ],
)
def test_convolutions(
    inputs: int,
    outs: int,
    taps: int,
    stride: int,
    pad: int,
    dilation: int,
    zero: int,
    dtype: str,
    level: str,
) -> None:
    made, w, t = weights((outs, inputs, taps, taps))
    x = relay.var("x", shape=(ANY, inputs, ANY, ANY))
    window = {"strides": (stride, stride), "padding": (pad, pad), "dilation": (dilation, dilation)}
    y = relay.nn.conv2d(quantized(x, 0.05, zero, dtype), made, **window)
    exe = tvm_disc.build(relay.Function([x], y), target={"kind": "llvm", "mcpu": level})
    text = exe.source("asm")
    bytes_ = np.iinfo(dtype).min <= zero <= np.iinfo(dtype).max
    vnni = level == "cascadelake" and bytes_
    assert ("vpdpbusd" in text) == vnni
    assert ("vpmaddwd" in text) == (level in ("x86-64-v3", "x86-64-v4"))
    assert ("vpdpwssd" in text) == (level == "cascadelake" and not bytes_)  # LLVM adds to the sums
    run_on(level)
    for n, height, width in IMAGES:
        if min(height, width) + 2 * pad < (taps - 1) * dilation + 1:
            continue
        image = (RNG.standard_normal((n, inputs, height, width)) * 4).astype("float32")
        sums = convolved(bytes_of(image, 0.05, zero, dtype) - zero, w, stride, pad, dilation)
        factor = (t * np.float32(0.05)).astype("float32")[:, None, None]
        np.testing.assert_array_equal(exe(image), sums.astype("float32") * factor)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("k", "n", "zero", "dtype"),
    [
        (64, 64, 0, "uint8"),
        (37, 97, 7, "uint8"),
        (2000, 33, 255, "uint8"),
        (768, 96, 0, "int8"),
        (1023, 50, -128, "int8"),
    ],
)
def test_matmuls(k: int, n: int, zero: int, dtype: str, level: str) -> None:
    made, w, t = weights((n, k))
    x = relay.var("x", shape=(ANY, k))
    y = relay.nn.dense(quantized(x, 0.05, zero, dtype), made)
    exe = tvm_disc.build(relay.Function([x], y), target={"kind": "llvm", "mcpu": level})
    run_on(level)
    for m in ROWS:
        rows = (RNG.standard_normal((m, k)) * 4).astype("float32")
        sums = (bytes_of(rows, 0.05, zero, dtype) - zero) @ w.T
        factor = (t * np.float32(0.05)).astype("float32")
        np.testing.assert_array_equal(exe(rows), sums.astype("float32") * factor)


class Residual:
    """A convolution, a bottleneck of three and a shortcut, all quantized, and its reference."""

    scales = (0.5, 0.9, 1.1, 2.0)

    def __init__(self, zeros: tuple[int, ...]) -> None:
        self.zeros = zeros
        sizes = ((64, 3, 5, 5), (32, 64, 1, 1), (32, 32, 3, 3), (64, 32, 1, 1))
        self.layers = [weights(size) for size in sizes]

    def function(self) -> Any:
        x = relay.var("x", shape=(ANY, 3, ANY, ANY))
        value, kept = quantized(x, 0.03, 120, "uint8"), None
        for k, (made, w, _) in enumerate(self.layers):
            pad = w.shape[-1] // 2
            value = relay.nn.conv2d(value, made, padding=(pad, pad))
            value = relay.nn.relu(value) if k < 3 else value
            value = quantized(value, self.scales[k], self.zeros[k], "uint8")
            kept = value if k == 0 else kept
        return relay.Function([x], quantized(relay.add(value, kept), 2.0, 100, "uint8"))

    def of(self, x: Array) -> Array:
        scale, zero = 0.03, 120
        q, kept = bytes_of(x, scale, zero, "uint8"), None
        for k, (_, w, t) in enumerate(self.layers):
            factor = (t * np.float32(scale)).astype("float32")[:, None, None]
            sums = convolved(q - zero, w, 1, w.shape[-1] // 2, 1)
            value = sums.astype("float32") * factor
            scale, zero = self.scales[k], self.zeros[k]
            q = bytes_of(np.maximum(value, 0) if k < 3 else value, scale, zero, "uint8")
            kept = ((q - zero) * scale).astype("float32") if k == 0 else kept
        last = ((q - zero) * scale).astype("float32") + kept
        return (bytes_of(last, 2.0, 100, "uint8") - 100) * 2.0


@pytest.mark.parametrize("zeros", [(0, 0, 0, 128), (3, 250, 9, 0)])
def test_values_between_convolutions_are_bytes(zeros: tuple[int, ...]) -> None:
    """There is a kernel for each convolution, for the input and for the layout of the result."""
    net = Residual(zeros)
    exe = tvm_disc.build(net.function(), options=tvm_disc.Options(verify=True))
    kinds = [name.split("_")[0] for name in exe.kernels]
    assert kinds == ["loop", "conv", "conv", "conv", "conv", "loop"]
    for shape in ((1, 3, 8, 8), (2, 3, 17, 9), (0, 3, 8, 8), (1, 3, 40, 41)):
        image = RNG.standard_normal(shape).astype("float32")
        # The shortcut may be added with one rounding, so that a tie is rounded differently.
        far = np.abs(exe(image) - net.of(image)) / 2.0
        assert far.max(initial=0) < 1.01 and (far > 0.01).mean() < 0.001 if far.size else True


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("shared", [True, False])
def test_several_convolutions_of_one_value(shared: bool, dtype: str) -> None:
    """Convolutions of bytes less one zero point, or less two, each read the bytes."""
    x = relay.var("x", shape=(ANY, 24, ANY, ANY))
    scale = relay.const(np.float32(0.05))
    before, v, u = weights((24, 24, 1, 1))
    y = relay.nn.conv2d(quantized(x, 0.05, 0, dtype), before)
    q = relay.qnn.op.quantize(y, scale, relay.const(np.int32(3)), out_dtype=dtype)
    zeros, layers = (3, 3 if shared else 9), [weights((16, 24, k, k)) for k in (1, 3)]
    parts = []
    for zero, (made, w, _) in zip(zeros, layers, strict=True):
        real = relay.qnn.op.dequantize(q, scale, relay.const(np.int32(zero)))
        pad = w.shape[-1] // 2
        parts.append(relay.nn.conv2d(real, made, padding=(pad, pad)))
    exe = tvm_disc.build(relay.Function([x], relay.concatenate(parts, axis=1)))
    assert sum(name.startswith("conv") for name in exe.kernels) == 3
    for shape in ((1, 24, 1, 1), (2, 24, 9, 7), (0, 24, 4, 4), (1, 24, 33, 17)):
        image = (RNG.standard_normal(shape) * 3).astype("float32")
        sums = convolved(bytes_of(image, 0.05, 0, dtype), v, 1, 0, 1)
        given = sums.astype("float32") * (u * np.float32(0.05))[:, None, None]
        exact = []
        for zero, (_, w, t) in zip(zeros, layers, strict=True):
            sums = convolved(bytes_of(given, 0.05, 3, dtype) - zero, w, 1, w.shape[-1] // 2, 1)
            exact.append(sums.astype("float32") * (t * np.float32(0.05))[:, None, None])
        np.testing.assert_array_equal(exe(image), np.concatenate(exact, 1))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("wide", "the weights minus their zero point must fit int8"),
        ("groups", "expected one group, or one input and one output channel per group"),
        ("inputs", "the scale of the weights differs within an output channel"),
    ],
)
def test_others_stay_float(change: str, reason: str) -> None:
    whole = RNG.integers(0, 256, (32, 64, 3, 3)).astype("uint8")
    axis = 1 if change == "inputs" else 0
    scale = RNG.uniform(0.001, 0.01, whole.shape[axis]).astype("float32")
    zero = np.full(whole.shape[axis], 3 if change == "wide" else 128, "int32")
    data = relay.const(whole), relay.const(scale), relay.const(zero)
    made = relay.qnn.op.dequantize(*data, axis=axis)
    groups = 2 if change == "groups" else 1
    x = relay.var("x", shape=(ANY, 64 * groups, ANY, ANY))
    window = {"padding": (1, 1), "groups": groups}
    y = relay.nn.conv2d(quantized(x, 0.05, 3, "uint8"), made, **window)
    exe = tvm_disc.build(relay.Function([x], y))
    assert reason in exe.explain(full=True)
    image = RNG.standard_normal((2, 64 * groups, 9, 9)).astype("float32")
    laid = (scale[:, None, None, None], scale[:, None, None])[axis]
    real = (whole.astype("float64") - zero[0]) * laid
    q = (bytes_of(image, 0.05, 3, "uint8") - 3) * 0.05
    taps = windows(q, 3, 1, 1, 1, 0)
    exact = conv(q, real, groups, taps)
    np.testing.assert_allclose(exe(image), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("zero", "dtype"), [(0, "uint8"), (7, "uint8"), (-3, "int8")])
def test_bytes_that_no_other_kernel_reads_are_not_made(zero: int, dtype: str) -> None:
    """A value that is quantized and dequantized in one kernel stays a float; NaN stays NaN."""
    kind, scale = np.iinfo(dtype), np.float32(0.05)
    x = relay.var("x", shape=(ANY,))
    whole = op("round_even", x / relay.const(scale)) + relay.const(np.float32(zero))
    inside = relay.cast(relay.clip(whole, float(kind.min), float(kind.max)), "int32")
    wide = relay.cast(relay.cast(inside, dtype), "int32") - relay.const(np.int32(zero))
    func = relay.Function([x], relay.cast(wide, "float32") * relay.const(scale))
    exe = tvm_disc.build(func, target={"kind": "llvm", "mcpu": "cascadelake"})
    assert "vpmovdb" not in exe.source("asm")
    exe = tvm_disc.build(func)
    for size in (0, 1, 15, 16, 17, 1000):
        values = (RNG.standard_normal(size) * 8).astype("float32")
        exact = np.clip(np.rint(values / scale) + zero, kind.min, kind.max) - zero
        np.testing.assert_array_equal(exe(values), exact.astype("float32") * scale)
    most, least = ((end - zero) * scale for end in (kind.max, kind.min))
    ends = exe(np.array([np.inf, -np.inf, np.nan, 1e30], "float32"))
    np.testing.assert_array_equal(ends, np.array([most, least, np.nan, most], "float32"))


def test_a_maximum_over_windows_without_elements_stays_float() -> None:
    """All taps of a dilated window may be in the border, of which bytes have no maximum."""
    x = relay.var("x", shape=(1, 4, relay.Any(), relay.Any()), dtype="uint8")
    whole = relay.subtract(relay.cast(x, "int32"), relay.const(np.int32(3)))
    real = relay.multiply(relay.cast(whole, "float32"), relay.const(np.float32(0.25)))
    w = relay.multiply(
        relay.cast(relay.const(np.ones((4, 4, 1, 1), "int8")), "float32"),
        relay.const(np.float32(0.5)),
    )
    pool = relay.nn.max_pool2d(real, pool_size=(2, 2), padding=(1, 1), dilation=(2, 2))
    outs = relay.Tuple([pool, relay.nn.conv2d(real, w, channels=4, kernel_size=(1, 1))])
    exe = tvm_disc.build(relay.Function([x], outs))
    found, _ = exe(np.full((1, 4, 1, 1), 7, "uint8"))
    assert np.all(found == -np.inf)
