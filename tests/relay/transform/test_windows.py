"""Padding that moves into the windows after it: the values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.testing import count_ops
from tvm_disc.relay.transform import FoldExplicitPadding

from tests.relay.helpers import run
from tests.relay.transform.helpers import optimized
from tvm_disc import relay

LEAST = float(np.finfo("float32").min)
nn = relay.nn


def padded(rank: int, fill: Any = 0.0, dtype: str = "float32") -> relay.Expr:
    """An image with two channels that is padded by 1 and 2 at each axis."""
    x = relay.var("x", shape=(1, 2, *(6,) * rank), dtype=dtype)
    return nn.pad(x, ((0, 0), (0, 0), *((1, 2),) * rank), fill)


def quantized(fill: int, zero: int) -> relay.Expr:
    weight = relay.const(np.ones((2, 2, 3, 3), "int8"))
    consts = [relay.const(zero), relay.const(0), relay.const(1.0), relay.const(1.0)]
    window = {"kernel_size": (3, 3), "channels": 2, "padding": (0, 0)}
    image = padded(2, relay.const(fill, "int8"), "int8")
    return relay.qnn.op.conv2d(image, weight, *consts, **window)


# an operator on padded data, and whether the padding moves into it
CASES: dict[str, tuple[relay.Expr, bool]] = {
    "mean": (nn.avg_pool2d(padded(2), (3, 3)), True),
    "mean that counts": (nn.avg_pool2d(padded(2), (3, 3), count_include_pad=True), True),
    "mean that counts, with padding": (
        nn.avg_pool2d(padded(2), (3, 3), padding=(1, 1), count_include_pad=True),
        True,
    ),
    "mean that does not count its padding": (
        nn.avg_pool2d(padded(2), (3, 3), padding=(1, 1)),
        False,
    ),
    "mean of ones": (nn.avg_pool2d(padded(2, 1.0), (3, 3)), False),
    "mean of rows": (nn.avg_pool1d(padded(1), (3,), strides=(2,)), True),
    "mean of volumes": (nn.avg_pool3d(padded(3), (3, 3, 3)), True),
    "largest": (nn.max_pool2d(padded(2, LEAST), (3, 3)), True),
    "largest, with infinity": (nn.max_pool2d(padded(2, -np.inf), (3, 3)), True),
    "largest, with zeros": (nn.max_pool2d(padded(2), (3, 3)), False),
    "largest of integers": (nn.max_pool2d(padded(2, -128, "int8"), (3, 3)), True),
    "largest of rows": (nn.max_pool1d(padded(1, LEAST), (4,)), True),
    "largest of volumes": (nn.max_pool3d(padded(3, LEAST), (3, 3, 3)), True),
    "quantized": (quantized(0, 0), True),
    "quantized, zero point": (quantized(5, 5), True),
    "quantized, another number": (quantized(0, 5), False),
}


@pytest.mark.parametrize("case", CASES)
def test_padding_that_a_window_does_itself(case: str) -> None:
    expr, moves = CASES[case]
    mod = relay.IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr))
    made = optimized(mod, FoldExplicitPadding())
    assert ("nn.pad" not in count_ops(made["main"])) == moves
    image = mod["main"].params[0].type_annotation
    data = np.random.default_rng(0).integers(-9, 9, image.shape).astype(image.dtype)
    before, after = run(mod["main"], {"x": data}), run(made["main"], {"x": data})
    np.testing.assert_allclose(np.asarray(after), np.asarray(before), rtol=1e-5)
