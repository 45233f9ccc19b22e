"""Converters of random numbers; each number is a hash of its position and of the seed.

A node returns the same numbers in every call, as a node with a seed does in ONNX. Without the
attribute, the seed is the name of the node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from zlib import crc32

from tvm_disc.frontends.calc import Dim, Expr, const, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Row
from tvm_disc.frontends.onnx.tensors import dtype_of

U32 = "uint32"
_STEPS = ((16, 0x21F0AAAD), (15, 0x735A2D97))  # shifts and factors of a hash with little bias


def uniform(n: OnnxNode, dims: Sequence[Dim], stream: int = 0) -> Expr:
    """Return float32 numbers, uniform in [0, 1); each ``stream`` is an independent sequence."""
    seed = n.attr("seed")
    text = f"{n.name}" if seed is None else f"{float(seed)!r}"
    start = crc32(f"{text}/{stream}".encode())
    x: Expr = n.cast(n.arange(n.product(dims)), U32)
    x = (x + const(start, U32)) * const(0x9E3779B9, U32)
    for shift, factor in _STEPS:
        x = _mixed(n, x, shift) * const(factor, U32)
    x = op("right_shift", _mixed(n, x, 15), const(8, U32))
    unit = n.cast(n.cast(x, "int32"), "float32") * (2.0**-24)
    return n.reshape(unit, dims)


def _mixed(n: OnnxNode, x: Expr, shift: int) -> Expr:
    return op("bitwise_xor", x, op("right_shift", x, const(shift, U32)))


def normal(n: OnnxNode, dims: Sequence[Dim]) -> Expr:
    """Return normal numbers of mean 0 and variance 1, by the Box-Muller transform."""
    first, second = (uniform(n, dims, k) for k in range(2))
    radius = n.sqrt(n.log(1.0 - first) * -2.0)
    return radius * op("cos", second * (2 * math.pi))


def _dtype(n: OnnxNode, like: Expr | None) -> str:
    given = n.attr("dtype")
    if given:
        return dtype_of(int(given))
    return "float32" if like is None else n.dtype(like)


def _where(n: OnnxNode) -> tuple[list[Dim], str]:
    """Return the shape and the element type of the result."""
    if n.op.endswith("Like"):
        return n.sizes(n[0]), _dtype(n, n[0])
    return [int(d) for d in n.required("shape")], _dtype(n, None)


def _uniform(n: OnnxNode) -> Expr:
    dims, dtype = _where(n)
    low, high = float(n.attr("low", 0.0)), float(n.attr("high", 1.0))
    return n.cast(uniform(n, dims) * (high - low) + low, dtype)


def _normal(n: OnnxNode) -> Expr:
    dims, dtype = _where(n)
    mean, scale = float(n.attr("mean", 0.0)), float(n.attr("scale", 1.0))
    return n.cast(normal(n, dims) * scale + mean, dtype)


def _bernoulli(n: OnnxNode) -> Expr:
    chance = n.cast(n[0], "float32")
    return n.cast(uniform(n, n.sizes(n[0])) < chance, _dtype(n, n[0]))


def _multinomial(n: OnnxNode) -> Expr:
    """Convert Multinomial: return the first class whose cumulative probability exceeds a uniform
    random number.
    """
    dtype = dtype_of(int(n.attr("dtype", 6)))
    chances = n.softmax(n.cast(n[0], "float32"), 1)
    bounds = op("cumsum", chances, axis=1, dtype="float32")
    count = int(n.attr("sample_size", 1))
    drawn = uniform(n, [n.size(n[0], 0), count])
    below = n.expand(bounds, 1) <= n.expand(drawn, 2)
    found = n.reduce("sum", n.cast(below, "int64"), [2])
    last = n.scalar(n.size(n[0], 1)) - 1
    return n.cast(n.minimum(found, last), dtype)


ROWS: tuple[Row, ...] = (
    Row("RandomUniform RandomUniformLike", _uniform),
    Row("RandomNormal RandomNormalLike", _normal),
    Row("Bernoulli", _bernoulli),
    Row("Multinomial", _multinomial),
)
