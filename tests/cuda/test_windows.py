"""Strips of pixels: pooling and depthwise convolution, channels first and last."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import tvm_disc
from tests.cuda.forced import check_all, made, only_strips
from tests.cuda.helpers import noise
from tests.models import function, rows
from tvm_disc import relay

IMAGES = ((1, 3, 3), (2, 9, 7), (1, 33, 20), (1, 5, 8))


def depthwise(x: Any, last: bool, **attrs: Any) -> Any:
    """A convolution of each of eight channels by itself."""
    weight = relay.const(noise(3, 3, 8, 1) if last else noise(8, 1, 3, 3))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWOI"} if last else {}
    shape = {"groups": 8, "channels": 8, "kernel_size": (3, 3)}
    return relay.nn.relu(relay.nn.conv2d(x, weight, **shape, **layouts, **attrs))


def test_channels_first(gpu: ctypes.CDLL) -> None:
    x = rows("n", 8, "h", "w")
    results = [
        depthwise(x, False, padding=(1, 1), strides=(1, 2)),
        relay.nn.max_pool2d(x, (3, 2), (2, 1), padding=(1, 0, 1, 1)),
        relay.nn.avg_pool2d(x, (3, 3), (2, 2), padding=(1, 1), count_include_pad=False),
        relay.nn.max_pool2d(x, (3, 3), (2, 2), ceil_mode=True),
    ]
    source = function(x, relay.Tuple(results))
    with only_strips():
        program, code = made(source)
    assert "window(strip=4" in str(program.explain())
    assert all("pixels_ptr" in text for text in code.values())
    plain = tvm_disc.build(source)
    for n, h, w in IMAGES:
        a = noise(n, 8, h, w)
        check_all(gpu, program, [a], plain(a))


def test_channels_last(gpu: ctypes.CDLL) -> None:
    x = rows("n", "h", "w", 8)
    source = function(x, depthwise(x, True, padding=(1, 1), dilation=(1, 2)))
    with only_strips():
        program, code = made(source)
    assert ["float4" in text for text in code.values()] == [False, True]
    plain = tvm_disc.build(source)
    for n, h, w in IMAGES:
        a = noise(n, h, w, 8)
        check_all(gpu, program, [a], [plain(a)])


@pytest.mark.parametrize(
    ("size", "why"),
    [(40, "pixels of a row in registers"), (3, None)],
)
def test_windows_that_are_too_wide(gpu: ctypes.CDLL, size: int, why: str | None) -> None:
    x = rows("n", 2, "h", "w")
    text = str(made(function(x, relay.nn.max_pool2d(x, (1, size), (1, 1))))[0].explain())
    assert (why is None) == ("window(" in text or "template: window" in text)
    assert why is None or why in text
