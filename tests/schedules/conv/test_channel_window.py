"""Depthwise convolution and pooling of images whose channels are last, against float64 NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tvm_disc
from tests.relay_passes.propagate_helpers import module
from tvm_disc.schedules.conv.channel_window import ChannelVectors
from tvm_disc.schedules.packing import pack_constant

RNG = np.random.default_rng(0)
# One pixel, smaller than a window, a tile less one, a tile, primes, tiles and a rest, no image.
IMAGES = [
    (1, 1, 1),
    (2, 2, 3),
    (1, 3, 6),
    (1, 5, 7),
    (1, 4, 8),
    (3, 11, 13),
    (1, 15, 37),
    (0, 4, 4),
]


def build(
    channels: Any, body: Any, dtypes: tuple[str, ...] = (), *more: Any, **options: Any
) -> Any:
    mod = module([("n", "h", "w", channels), *more], body, dtypes)
    exe = tvm_disc.build(mod, **options)
    assert len(exe.kernels) == 1
    return exe


def draw(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    if "int" in dtype:
        low = 0 if dtype.startswith("u") else -100
        return RNG.integers(low, 100, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def taps(
    x: np.ndarray,
    size: tuple[int, int],
    stride: int,
    pads: tuple[int, ...],
    gap: int,
    fill: float,
    ceil: bool = False,
) -> Any:
    """[taps, n, oh, ow, c] of the input, float64; None if no window fits."""
    reach = [gap * (k - 1) + 1 for k in size]
    out = []
    for d in range(2):
        room = x.shape[1 + d] + pads[d] + pads[2 + d] - reach[d]
        out.append((room + (stride - 1 if ceil else 0)) // stride + 1)
    if min(out) < 1:
        return None
    more = [stride if ceil else 0] * 2
    wide = np.pad(
        x.astype("float64"),
        ((0, 0), *((pads[d], pads[2 + d] + more[d]) for d in range(2)), (0, 0)),
        constant_values=fill,
    )
    found = []
    for i, j in itertools.product(range(size[0]), range(size[1])):
        rows = slice(i * gap, i * gap + (out[0] - 1) * stride + 1, stride)
        cols = slice(j * gap, j * gap + (out[1] - 1) * stride + 1, stride)
        found.append(wide[:, rows, cols])
    return np.stack(found)


def depthwise(w: np.ndarray, stride: int, pads: tuple[int, ...], gap: int, **extra: Any) -> Any:
    def conv(x: Any) -> Any:
        return relax.op.nn.conv2d(
            x, relax.const(w, str(w.dtype)), strides=(stride,) * 2, padding=pads,
            dilation=(gap,) * 2, groups=w.shape[0], data_layout="NHWC", kernel_layout="OIHW",
            **extra,
        )  # fmt: skip

    return conv


# channels, kernel, stride, padding (top, left, bottom, right), dilation
LAYERS = [
    (8, (3, 3), 1, (1, 1, 1, 1), 1),
    (8, (3, 3), 2, (1, 1, 1, 1), 1),
    (16, (3, 3), 2, (0, 0, 1, 1), 1),
    (33, (3, 3), 1, (1, 1, 1, 1), 1),
    (33, (5, 5), 2, (2, 2, 2, 2), 1),
    (7, (5, 5), 1, (2, 2, 2, 2), 1),
    (16, (7, 7), 1, (3, 3, 3, 3), 1),
    (9, (7, 7), 2, (3, 2, 1, 0), 1),
    (3, (3, 3), 3, (1, 0, 0, 2), 1),
    (1, (2, 2), 1, (0, 1, 1, 0), 1),
    (64, (3, 3), 1, (2, 2, 2, 2), 2),
    (12, (3, 3), 2, (2, 2, 2, 2), 2),
    (24, (1, 1), 1, (0, 0, 0, 0), 1),
    (17, (1, 1), 2, (0, 0, 0, 0), 1),
    (8, (5, 1), 1, (2, 0, 2, 0), 1),
    (8, (1, 5), 1, (0, 2, 0, 2), 3),
    (8, (2, 3), 3, (5, 5, 5, 5), 1),  # windows wholly in the padding
]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_depthwise(layer: Any) -> None:
    channels, size, stride, pads, gap = layer
    w, bias = draw((channels, 1, *size)), draw((channels,))
    conv = depthwise(w, stride, pads, gap)
    plain = stride == 3  # with and without an epilogue

    def body(bb: Any, symbols: Any, x: Any) -> Any:
        y = bb.emit(conv(x))
        return (
            y
            if plain
            else bb.emit(relax.op.clip(bb.emit(relax.op.add(y, relax.const(bias))), 0, 6))
        )

    exe = build(channels, body)
    assert "template: channel window" in exe.explain()
    for n, height, width in IMAGES:
        x = draw((n, height, width, channels))
        found = taps(x, size, stride, pads, gap, 0.0)
        if found is None:
            continue
        expected = np.einsum("tnhwc,ct->nhwc", found, w.reshape(channels, -1).astype("float64"))
        if not plain:
            expected = np.clip(expected + bias, 0, 6)
        np.testing.assert_allclose(
            exe(x), expected, rtol=1e-4, atol=1e-4, err_msg=str((n, height, width))
        )


@pytest.mark.parametrize("width", [1, 2, 5, 7, 10, 16])
def test_a_width_that_is_known(width: int) -> None:
    w = draw((40, 1, 3, 3))
    mod = module(
        [("n", "h", width, 40)], lambda bb, s, x: bb.emit(depthwise(w, 1, (1, 1, 1, 1), 1)(x))
    )
    exe = tvm_disc.build(mod)
    for n, height in ((1, 1), (2, 7), (0, 3), (1, 40), (5, 2)):
        x = draw((n, height, width, 40))
        found = taps(x, (3, 3), 1, (1, 1, 1, 1), 1, 0.0)
        expected = np.einsum("tnhwc,ct->nhwc", found, w.reshape(40, -1).astype("float64"))
        np.testing.assert_allclose(exe(x), expected, rtol=1e-4, atol=1e-4)


def test_epilogues_along_other_axes() -> None:
    """A residual, a gate of one number per image and channel, one per pixel; on two threads."""
    w = draw((20, 1, 3, 3))

    def body(bb: Any, symbols: Any, x: Any, gate: Any, pixel: Any) -> Any:
        y = bb.emit(depthwise(w, 1, (1, 1, 1, 1), 1)(x))
        y = bb.emit(relax.op.multiply(y, bb.emit(relax.op.sigmoid(y))))
        y = bb.emit(relax.op.multiply(y, gate))
        y = bb.emit(relax.op.add(y, x))
        return bb.emit(relax.op.multiply(y, pixel))

    more = (("n", 1, 1, 20), ("n", "h", "w", 1))
    exe = build(20, body, (), *more, options=tvm_disc.Options(threads=2))
    assert "template: channel window" in exe.explain()
    for n, height, width in [*IMAGES, (4, 40, 30)]:
        x, gate, pixel = (
            draw((n, height, width, 20)),
            draw((n, 1, 1, 20)),
            draw((n, height, width, 1)),
        )
        y = np.einsum(
            "tnhwc,ct->nhwc", taps(x, (3, 3), 1, (1, 1, 1, 1), 1, 0.0),
            w.reshape(20, -1).astype("float64"),
        )  # fmt: skip
        y = (y / (1 + np.exp(-y)) * gate + x) * pixel
        np.testing.assert_allclose(exe(x, gate, pixel), y, rtol=1e-4, atol=1e-4)


# kind, kernel, stride, padding, dilation, ceil_mode, count_include_pad
POOLS = [
    ("max", (3, 3), 2, (1, 1, 1, 1), 1, False, False),
    ("max", (3, 3), 2, (0, 0, 0, 0), 1, True, False),
    ("max", (2, 2), 2, (0, 0, 0, 0), 1, False, False),
    ("max", (5, 5), 1, (2, 2, 2, 2), 1, False, False),
    ("max", (3, 2), 3, (0, 1, 1, 0), 2, False, False),
    ("avg", (3, 3), 1, (1, 1, 1, 1), 1, False, False),
    ("avg", (3, 3), 2, (1, 1, 1, 1), 1, False, True),
    ("avg", (2, 2), 2, (0, 0, 0, 0), 1, False, False),
    ("avg", (3, 3), 2, (0, 0, 0, 0), 1, True, False),
    ("avg", (7, 7), 1, (0, 0, 0, 0), 1, False, False),
]


def pool_of(case: Any) -> Any:
    kind, size, stride, pads, gap, ceil, include = case
    operator = relax.op.nn.max_pool2d if kind == "max" else relax.op.nn.avg_pool2d
    return lambda x: operator(
        x, pool_size=size, strides=(stride,) * 2, padding=pads, dilation=(gap,) * 2, ceil_mode=ceil,
        count_include_pad=include, layout="NHWC",
    )  # fmt: skip


def pooled(x: np.ndarray, case: Any) -> Any:
    kind, size, stride, pads, gap, ceil, include = case
    fill = 0.0 if include else np.nan
    found = taps(x, size, stride, pads, gap, fill, ceil)
    if found is None:
        return None
    if kind == "max":
        return np.nanmax(found, 0)
    return found.mean(0) if include else np.nanmean(found, 0)


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pooling(case: Any) -> None:
    """The number of channels is a dim as others are."""
    exe = build("c", lambda bb, s, x: bb.emit(relax.op.nn.relu(bb.emit(pool_of(case)(x)))))
    assert "template: channel window" in exe.explain()
    for (n, height, width), channels in zip(IMAGES, (1, 3, 8, 7, 19, 16, 33, 9), strict=True):
        if case[5] and min(height, width) < 3:
            continue
        x = draw((n, height, width, channels))
        expected = pooled(x, case)
        if expected is not None:
            np.testing.assert_allclose(exe(x), np.maximum(expected, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "int8", "uint8"])
def test_maxima_of_other_types(dtype: str) -> None:
    case = POOLS[0]
    exe = build(21, lambda bb, s, x: bb.emit(pool_of(case)(x)), (dtype,))
    assert "template: channel window" in exe.explain()
    for shape in IMAGES:
        x = draw((*shape, 21), dtype)
        np.testing.assert_array_equal(exe(x), pooled(x, case))


def test_maxima_keep_nan() -> None:
    exe = build(20, lambda bb, s, x: bb.emit(pool_of(POOLS[2])(x)))
    x = np.zeros((1, 4, 40, 20), "float32")
    x[0, 1, 21, 17] = np.nan
    assert np.argwhere(np.isnan(exe(x))).tolist() == [[0, 0, 10, 17]]


@pytest.mark.parametrize(
    ("dtype", "result"), [("float64", "float64"), ("int8", "int32"), ("int32", "int32")]
)
def test_sums_of_other_types(dtype: str, result: str) -> None:
    w = draw((11, 1, 3, 3), dtype)
    conv = depthwise(w, 1, (1, 1, 1, 1), 1, out_dtype=result)
    exe = build(11, lambda bb, s, x: bb.emit(conv(x)), (dtype,))
    assert "template: channel window" in exe.explain()
    for shape in IMAGES:
        x = draw((*shape, 11), dtype)
        found = taps(x, (3, 3), 1, (1, 1, 1, 1), 1, 0.0)
        expected = np.einsum("tnhwc,ct->nhwc", found, w.reshape(11, -1).astype("float64"))
        np.testing.assert_allclose(exe(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mcpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_every_width_of_vectors_compiles(mcpu: str) -> None:
    """Without masks the channels behind the last whole vector are single."""
    w = draw((19, 1, 3, 3))
    target = {"kind": "llvm", "mcpu": mcpu}
    mod = module([("n", "h", "w", 19)], lambda bb, s, x: bb.emit(depthwise(w, 1, (1,) * 4, 1)(x)))
    exe = tvm_disc.build(mod, target=target)
    lanes = {"x86-64": 4, "x86-64-v3": 8, "x86-64-v4": 16}[mcpu]
    assert f"7 columns of {lanes} channels" in exe.explain()
    if mcpu == "x86-64":
        x = draw((2, 5, 9, 19))
        found = taps(x, (3, 3), 1, (1, 1, 1, 1), 1, 0.0)
        expected = np.einsum("tnhwc,ct->nhwc", found, w.reshape(19, -1).astype("float64"))
        np.testing.assert_allclose(exe(x), expected, rtol=1e-4, atol=1e-4)


def test_one_and_three_spatial_dims() -> None:
    w1, w3 = draw((13, 1, 3)), draw((13, 1, 2, 3, 3))

    def line(bb: Any, symbols: Any, x: Any) -> Any:
        return bb.emit(relax.op.nn.conv1d(
            x, relax.const(w1), padding=(1, 1), groups=13, data_layout="NWC", kernel_layout="OIW"
        ))  # fmt: skip

    def block(bb: Any, symbols: Any, x: Any) -> Any:
        return bb.emit(relax.op.nn.conv3d(
            x, relax.const(w3), padding=(0, 1, 1, 1, 1, 1), groups=13, data_layout="NDHWC",
            kernel_layout="OIDHW",
        ))  # fmt: skip

    one = tvm_disc.build(module([("n", "w", 13)], line))
    three = tvm_disc.build(module([("n", "d", "h", "w", 13)], block))
    for exe in (one, three):
        assert "template: channel window" in exe.explain()
    for n, depth, height, width in ((1, 1, 1, 1), (2, 3, 5, 9), (1, 4, 4, 20), (0, 2, 2, 2)):
        x = draw((n, width, 13))
        wide = np.pad(x.astype("float64"), ((0, 0), (1, 1), (0, 0)))
        expected: Any = sum(wide[:, k : k + width] * w1[:, 0, k] for k in range(3))
        np.testing.assert_allclose(one(x), expected, rtol=1e-4, atol=1e-4)
        x = draw((n, depth, height, width, 13))
        wide = np.pad(x.astype("float64"), ((0, 0), (0, 1), (1, 1), (1, 1), (0, 0)))
        expected = sum(
            wide[:, a : a + depth, b : b + height, c : c + width] * w3[:, 0, a, b, c]
            for a in range(2) for b in range(3) for c in range(3)
        )  # fmt: skip
        np.testing.assert_allclose(three(x), expected, rtol=1e-4, atol=1e-4)


def test_packed_weights() -> None:
    packed = pack_constant(
        ChannelVectors(4, "float32"), np.arange(30, dtype="int8").reshape(5, 1, 2, 3)
    )
    assert packed.dtype == "float32" and packed.shape == (2, 6, 4)
    assert packed[0, 1].tolist() == [1, 7, 13, 19]
    assert packed[1, 5].tolist() == [29, 0, 0, 0]


def refusal(exe: Any) -> str:
    lines = str(exe.explain()).splitlines()
    return next(line.strip() for line in lines if "channel window not used" in line)


def check_refused(text: str, body: Any, *shapes: Any, dtypes: tuple[str, ...] = ()) -> Any:
    exe = tvm_disc.build(module(shapes, body, dtypes))
    assert refusal(exe).startswith("channel window not used: ") and text in refusal(exe)
    return exe


IMAGE = ("n", "h", "w", 6)


def test_refuses_channels_that_are_not_last() -> None:
    pool = lambda bb, s, x: bb.emit(relax.op.nn.max_pool2d(x, (3, 3)))  # noqa: E731
    check_refused(
        "it requires channels last",
        pool,
        ("n", 6, "h", "w"),
    )


def test_refuses_weights_known_at_run_time_only() -> None:
    conv = lambda bb, s, x, w: bb.emit(relax.op.nn.conv2d(  # noqa: E731
        x, w, groups=6, data_layout="NHWC", kernel_layout="OIHW"))  # fmt: skip
    exe = check_refused("it requires constant weights", conv, IMAGE, (6, 1, 3, 3))
    x, w = draw((1, 5, 6, 6)), draw((6, 1, 3, 3))
    expected = np.einsum("tnhwc,ct->nhwc", taps(x, (3, 3), 1, (0,) * 4, 1, 0.0), w.reshape(6, -1))
    np.testing.assert_allclose(exe(x, w), expected, rtol=1e-4, atol=1e-4)


def test_refuses_windows_too_wide() -> None:
    pool = lambda bb, s, x: bb.emit(relax.op.nn.max_pool2d(x, (1, 17), layout="NHWC"))  # noqa: E731
    exe = check_refused("it requires a window of at most", pool, IMAGE)
    x = draw((1, 2, 20, 6))
    np.testing.assert_array_equal(exe(x), taps(x, (1, 17), 1, (0,) * 4, 1, 0.0).max(0))


def test_refuses_types_without_vectors() -> None:
    pool = lambda bb, s, x: bb.emit(relax.op.nn.max_pool2d(x, (2, 2), layout="NHWC"))  # noqa: E731
    check_refused("it does not support maxima of float16", pool, IMAGE, dtypes=("float16",))


def test_refuses_an_epilogue_that_moves_elements() -> None:
    def body(bb: Any, symbols: Any, x: Any, z: Any) -> Any:
        y = bb.emit(relax.op.nn.max_pool2d(x, (3, 3), layout="NHWC"))
        y = bb.emit(relax.op.reshape(y, (symbols["n"], (symbols["h"] - 2) * 24)))
        return bb.emit(relax.op.multiply(y, z))

    shapes = (("n", "h", 6, 6), ("n", 1))
    exe = check_refused("this one reorders elements", body, *shapes)
    x, z = draw((2, 5, 6, 6)), draw((2, 1))
    expected = taps(x, (3, 3), 1, (0,) * 4, 1, 0.0).max(0).reshape(2, -1) * z
    np.testing.assert_allclose(exe(x, z), expected, rtol=1e-6)
