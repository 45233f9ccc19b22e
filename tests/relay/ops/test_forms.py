"""Layouts, weights and paddings that Relay takes beside the plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, ShapeConflict, Unsupported
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.ops.table import OPS

ANY = relay.Any()


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def var(name: str, *shape: Any) -> relay.Var:
    return relay.var(name, shape=shape)


def meaning(name: str, *arrays: np.ndarray, **attrs: Any) -> Any:
    """What the operator's reference says."""
    row = OPS[name]
    assert row.reference is not None
    return row.reference(*arrays, **complete_attrs(row, attrs))


SIZES = [(1, 3, 3), (2, 6, 5), (0, 4, 4), (3, 7, 3), (1, 9, 8)]


def test_one_kernel_per_channel_with_the_multiplier_behind() -> None:
    x, w, v = var("x", ANY, 4, ANY, ANY), var("w", 4, 2, 3, 3), var("v", 3, 3, 4, 2)
    attrs = {"groups": 4, "channels": 8, "kernel_size": (3, 3)}
    turned = relay.transpose(x, (0, 2, 3, 1))
    last = relay.nn.conv2d(turned, v, data_layout="NHWC", kernel_layout="HWOI", **attrs)
    both = relay.Tuple([relay.nn.conv2d(x, w, **attrs), last])
    exe = tvm_disc.build(relay.Function([x, w, v], both))
    kernel = values(0, 4, 2, 3, 3)
    for n, h, width in SIZES:
        data = values(1, n, 4, h, width)
        want = meaning("nn.conv2d", data, kernel.reshape(8, 1, 3, 3), groups=4)
        first, last = exe(data, kernel, np.ascontiguousarray(kernel.transpose(2, 3, 0, 1)))
        np.testing.assert_allclose(first, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(last, want.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)


def blocked(x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(n, c // 4, 4, h, w).transpose(0, 1, 3, 4, 2))


def test_pooling_of_channels_in_blocks() -> None:
    x = var("x", ANY, ANY, ANY, ANY, 4)
    window: dict[str, Any] = {"pool_size": (2, 2), "strides": (2, 2)}
    results = [
        relay.nn.max_pool2d(x, **window, layout="NCHW4c"),
        relay.nn.avg_pool2d(x, **window, layout="NCHW4c"),
        relay.nn.global_max_pool2d(x, layout="NCHW4c"),
        relay.nn.adaptive_avg_pool2d(x, (1, 1), layout="NCHW4c"),
        relay.nn.max_pool2d(x, **window, layout="NCHW4c", out_layout="NHWC"),
    ]
    exe = tvm_disc.build(relay.Function([x], relay.Tuple(results)))
    for n, h, w in SIZES:
        data = values(n, n, 8, h, w)
        most = meaning("nn.max_pool2d", data, **window)
        mean = meaning("nn.avg_pool2d", data, **window)
        wanted = [
            blocked(most),
            blocked(mean),
            blocked(data.max((2, 3), keepdims=True)),
            blocked(data.mean((2, 3), keepdims=True)),
            most.transpose(0, 2, 3, 1),
        ]
        for found, want in zip(exe(blocked(data)), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_padding_that_takes_away() -> None:
    x, widths = var("x", ANY, ANY), relay.var("w", shape=(2, 2), dtype="int64")
    both = [relay.nn.pad(x, ((-1, 1), (0, -2)), 5.0), relay.nn.pad(x, widths, 5.0)]
    exe = tvm_disc.build(relay.Function([x, widths], relay.Tuple(both)))
    for shape in [(1, 2), (4, 6), (2, 3), (7, 2), (1, 9)]:
        data = values(0, *shape)
        want = np.pad(data[1:, :-2], ((0, 1), (0, 0)), constant_values=5)
        for found in exe(data, np.array([[-1, 1], [0, -2]])):
            np.testing.assert_allclose(found, want)
        wide = np.pad(data, ((2, 0), (1, 3)), constant_values=5)
        np.testing.assert_allclose(exe(data, np.array([[2, 0], [1, 3]]))[1], wide)
    with pytest.raises(GuardFailed, match="axis 0 is shorter than the negative padding"):
        exe(values(0, 1, 3), np.array([[-1, 0], [0, 0]]) * 2)
    image, kernel = var("x", ANY, 2, ANY, ANY), var("k", 3, 2, 2, 2)
    call = relay.nn.conv2d(image, kernel, padding=(-1, 0, 0, 1))
    conv = tvm_disc.build(relay.Function([image, kernel], call))
    data, weights = values(1, 2, 2, 5, 4), values(2, 3, 2, 2, 2)
    cut = np.pad(data[:, :, 1:], ((0, 0), (0, 0), (0, 0), (0, 1)))
    np.testing.assert_allclose(
        conv(data, weights), meaning("nn.conv2d", cut, weights), rtol=1e-4, atol=1e-5
    )


def test_sums_to_a_shape_that_is_known_later() -> None:
    x, like = var("x", ANY, ANY, ANY), var("l", ANY, ANY)
    shape = relay.var("s", shape=(2,), dtype="int64")
    results = [
        relay.collapse_sum_like(x, like),
        relay.collapse_sum_to(x, shape),
        relay.collapse_sum_to(x, (1, 1)),
    ]
    exe = tvm_disc.build(relay.Function([x, like, shape], relay.Tuple(results)))
    data = values(0, 2, 3, 4)
    for to in [(3, 4), (1, 4), (3, 1), (1, 1)]:
        want = data.sum(0)
        for axis in range(2):
            want = want.sum(axis, keepdims=True) if to[axis] == 1 else want
        first, second, third = exe(data, values(1, *to), np.array(to))
        np.testing.assert_allclose(first, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(second, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(third, data.sum().reshape(1, 1), rtol=1e-4, atol=1e-5)
    empty = values(0, 2, 0, 4)
    found = exe(empty, values(1, 0, 4), np.array([1, 4]))
    assert found[0].shape == (0, 4) and (found[1] == 0).all() and found[1].shape == (1, 4)
    with pytest.raises(GuardFailed, match=r"l_0 == 1 must hold .*input 'l' axis 0"):
        exe(data, values(1, 2, 4), np.array([3, 4]))


@pytest.mark.parametrize("groups", [2, 4])
def test_gradient_of_grouped_weights(groups: int) -> None:
    grad, x = var("g", ANY, 8, ANY, ANY), var("x", ANY, 4, ANY, ANY)
    call = relay.nn.conv2d_backward_weight(grad, x, groups=groups, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([grad, x], call))
    for n, h, w in [(1, 3, 3), (2, 5, 4), (3, 8, 3), (1, 4, 7), (5, 3, 6)]:
        given, data = values(0, n, 8, h - 2, w - 2), values(1, n, 4, h, w)
        parts = [
            meaning(
                "nn.conv2d_backward_weight",
                given[:, k * 8 // groups : (k + 1) * 8 // groups],
                data[:, k * 4 // groups : (k + 1) * 4 // groups],
                kernel_size=(3, 3),
            )
            for k in range(groups)
        ]
        np.testing.assert_allclose(exe(given, data), np.concatenate(parts), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (
            lambda: relay.nn.max_pool2d(var("x", 1, 2, 4, 4, 4), layout="NCHW8c"),
            ShapeConflict,
            "size of block 8c: 4 must equal 8",
        ),
        (
            lambda: relay.nn.max_pool2d(var("x", 1, 6, 4, 4), out_layout="NCHW4c"),
            ShapeConflict,
            "axis C has blocks 4c: 6 must be a multiple of 4",
        ),
        (
            lambda: relay.nn.avg_pool2d(var("x", 1, 6, 4, 4), layout="NCHW4c"),
            Unsupported,
            "data layout: expected one axis per dim, found NCHW4c for rank 4",
        ),
        (
            lambda: relay.nn.conv2d(var("x", 1, 4, 5, 5), var("w", 4, 2, 3, 3), groups=2),
            None,
            "",
        ),
        (
            lambda: relay.nn.pad(var("x", 2, 3), ((-2, -1), (0, 0))),
            ShapeConflict,
            "axis 0 is shorter than the negative padding",
        ),
    ],
)
def test_refusals(build: Any, kind: type[Exception] | None, message: str) -> None:
    call = build()
    func = relay.Function(relay.free_vars(call), call)
    if kind is None:  # an ordinary grouped convolution
        assert tvm_disc.build(func)(values(0, 1, 4, 5, 5), values(1, 4, 2, 3, 3)).shape[1] == 4
        return
    with pytest.raises(kind, match=message):
        tvm_disc.build(func)
