"""Converters of quantized operators. Rounding is to nearest, ties to even, as in ONNX."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mul
from typing import Any

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Expr, const, is_float, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.convolution import integer_conv
from tvm_disc.frontends.onnx.operators.linear import product
from tvm_disc.frontends.onnx.table import MICROSOFT, Row
from tvm_disc.frontends.onnx.tensors import dtype_of


def laid(n: Calc, x: Expr, like: Expr, axis: int, block: int = 0) -> Expr:
    """Return a scale or zero point in a shape that broadcasts to ``like``.

    ``x`` is a scalar, or has one element for each entry of the axis, or for each ``block`` entries.
    """
    rank = n.rank(like)
    if n.rank(x) == 0 or n.literals(x) == [1]:
        return n.reshape(x, [])
    axis = n.axis(axis, rank)
    if block:
        count = n.size(x, axis)
        wide = n.expand(x, axis + 1)
        sizes = [*n.sizes(x)[: axis + 1], block, *n.sizes(x)[axis + 1 :]]
        dims = n.sizes(x)
        dims[axis] = n.dim("multiply", count, block)
        whole = n.reshape(n.broadcast(wide, sizes), dims)
        return n.slice(whole, axis, 0, n.size(like, axis))
    return n.along(x, axis, rank) if n.rank(x) == 1 else x


def quantize(n: Calc, x: Expr, scale: Expr, zero: Expr | None, dtype: str) -> Expr:
    """Return ``round(x / scale) + zero``, clipped to the range of ``dtype``.

    Scale and zero point broadcast to ``x``.
    """
    real = n.cast(x, "float32") if n.dtype(x) != "float32" else x
    return _stored(n, real / n.cast(scale, "float32"), zero, dtype)


def _stored(n: Calc, x: Expr, zero: Expr | None, dtype: str) -> Expr:
    """Return ``round(x) + zero``, clipped to the range of ``dtype``."""
    whole, kind = n.round_even(x), np.iinfo(dtype)
    if zero is not None:
        whole = whole + n.cast(zero, "float32")
    inside = n.clip(whole, float(kind.min), float(kind.max))
    return n.cast(n.cast(inside, "int32") if kind.bits < 32 else inside, dtype)


def dequantize(n: Calc, x: Expr, scale: Expr, zero: Expr | None) -> Expr:
    """Return ``(x - zero) * scale`` in the type of the scale."""
    dtype = n.dtype(scale)
    if is_float(n.dtype(x)):
        whole = n.cast(x, "float32")
    else:
        wide = n.cast(x, "int32")
        wide = wide if zero is None else wide - n.cast(zero, "int32")
        whole = n.cast(wide, "float32")
    return n.cast(whole * n.cast(scale, "float32"), dtype)


def _quantize_linear(n: OnnxNode) -> Expr:
    x, axis, block = n[0], int(n.attr("axis", 1)), int(n.attr("block_size", 0))
    zero = n.get(2)
    dtype = "uint8" if zero is None else n.dtype(zero)
    if zero is None and n.attr("output_dtype", 0):
        dtype = dtype_of(int(n.attr("output_dtype")))
    zero = None if zero is None else laid(n, zero, x, axis, block)
    return quantize(n, x, laid(n, n[1], x, axis, block), zero, dtype)


def _dequantize_linear(n: OnnxNode) -> Expr:
    x, axis, block = n[0], int(n.attr("axis", 1)), int(n.attr("block_size", 0))
    zero = None if n.get(2) is None else laid(n, n[2], x, axis, block)
    made = dequantize(n, x, laid(n, n[1], x, axis, block), zero)
    wanted = n.attr("output_dtype", 0)
    return n.cast(made, dtype_of(int(wanted))) if wanted else made


def dynamic(n: Calc, x: Expr) -> tuple[Expr, Expr, Expr]:
    """Return ``x`` quantized to uint8, its scale and its zero point.

    The range of uint8 represents the range of the elements, extended to include 0.
    """
    axes = list(range(n.rank(x)))
    low = n.minimum(n.reduce("min", x, axes), 0)
    high = n.maximum(n.reduce("max", x, axes), 0)
    span = high - low
    scale = span / 255.0
    safe = n.where(n.equal(scale, 0), n.like(1, scale), scale)
    origin = n.clip(n.round_even(-low / safe), 0, 255)
    zero = n.cast(n.cast(origin, "int32"), "uint8")
    return quantize(n, x, safe, zero, "uint8"), scale, zero


# -- matmuls -----------------------------------------------------------------------------------


def integer_product(n: Calc, a: Expr, b: Expr, a_zero: object, b_zero: object) -> Expr:
    """Return the int32 matmul of two 8-bit tensors, each minus its zero point."""
    zeros = [_zero(n, z) for z in (a_zero, b_zero)]

    def multiply(a: Expr, b: Expr) -> Expr:
        if all(n.rank(z) == 0 for z in zeros):
            one, plain = const(1.0, "float32"), {"transpose_a": False, "transpose_b": False}
            return op("qnn.batch_matmul", a, b, *zeros, one, one, out_dtype="int32", **plain)
        first = n.expand(zeros[0], 1) if n.rank(zeros[0]) == 1 else zeros[0]
        wide = [n.cast(x, "int32") - z for x, z in ((a, first), (b, zeros[1]))]
        return n.matmul(wide[0], wide[1], "int32")

    return product(n, a, b, multiply)


def _zero(n: Calc, zero: Any) -> Expr:
    return const(0, "int32") if zero is None else n.cast(_scale(n, zero), "int32")


def _rescaled(n: Calc, total: Expr, factor: Expr, zero: Expr) -> Expr:
    """Return int32 sums times ``factor``, quantized to the dtype of the zero point ``zero``."""
    return _stored(n, n.cast(total, "float32") * factor, zero, n.dtype(zero))


def _qlinear_matmul(n: OnnxNode) -> Expr:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (n[k] for k in range(8))
    total = integer_product(n, a, b, a_zero, b_zero)
    scales = [n.cast(_scale(n, s), "float32") for s in (a_scale, b_scale, y_scale)]
    if n.rank(scales[0]) == 1:
        scales[0] = n.expand(scales[0], 1)
    factor = scales[0] * scales[1] / scales[2]
    return _rescaled(n, total, factor, n.reshape(y_zero, []))


def _qgemm(n: OnnxNode) -> Expr:
    """Convert QGemm: an int32 matmul plus a bias, requantized.

    The result is float32 if the node has no scale of the result.
    """
    a, b = (n.swapped(n[k]) if n.attr(f"trans{x}", 0) else n[k] for k, x in ((0, "A"), (3, "B")))
    total = n.plus(integer_product(n, a, b, n[2], n[5]), 6)
    factor = _scale(n, n[1]) * _scale(n, n[4])
    if n.attr("alpha", 1.0) != 1:
        factor = factor * float(n.attr("alpha"))
    if n.get(7) is None:
        return n.cast(total, "float32") * factor
    return _rescaled(n, total, factor / _scale(n, n[7]), n.reshape(n[8], []))


def _scale(n: Calc, x: Expr) -> Expr:
    """Return a scale or zero point; if it is known to have one element, the result has rank 0."""
    return n.reshape(x, []) if n.literals(x) in ([], [1]) else x


def _qlinear_conv(n: OnnxNode) -> Expr:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (n[k] for k in range(8))
    total = n.biased(integer_conv(n, x, w, x_zero, w_zero), 8)
    scales = [_scale(n, s) for s in (x_scale, w_scale, y_scale)]
    if n.rank(scales[1]) == 1:
        scales[1] = n.along(scales[1], 1, n.rank(x))
    factor = scales[0] * scales[1] / scales[2]
    return _rescaled(n, total, factor, n.reshape(y_zero, []))


def _qlinear(function: Callable[[Expr, Expr], Expr]) -> Callable[[OnnxNode], Expr]:
    """Return the converter of a binary operator: dequantize, apply ``function``, quantize."""

    def convert(n: OnnxNode) -> Expr:
        a = dequantize(n, n[0], _scale(n, n[1]), _maybe(n, 2))
        b = dequantize(n, n[3], _scale(n, n[4]), _maybe(n, 5))
        return quantize(n, function(a, b), _scale(n, n[6]), _maybe(n, 7), n.dtype(n[0]))

    return convert


def _maybe(n: OnnxNode, k: int) -> Expr | None:
    return None if n.get(k) is None else _scale(n, n[k])


def _qlinear_unary(n: OnnxNode) -> Expr:
    """Convert a unary operator: dequantize, apply it in floats, quantize."""
    x = dequantize(n, n[0], _scale(n, n[1]), _maybe(n, 2))
    if n.op == "QLinearGlobalAveragePool":
        if n.attr("channels_last", 0):
            raise Unsupported("channels_last: expected 0, found 1")
        y = n.reduce("mean", x, list(range(2, n.rank(x))), True)
    elif n.op == "QLinearLeakyRelu":
        y = op("nn.leaky_relu", x, alpha=float(n.attr("alpha", 0.01)))
    else:
        y = n.sigmoid(x)
    return quantize(n, y, _scale(n, n[3]), _maybe(n, 4), n.dtype(n[0]))


def _qlinear_concat(n: OnnxNode) -> Expr:
    groups = [n.inputs[k : k + 3] for k in range(2, len(n), 3)]
    items = [dequantize(n, x, _scale(n, s), _scale(n, z)) for x, s, z in groups]
    joined = n.concat(items, int(n.required("axis")))
    return quantize(n, joined, _scale(n, n[0]), _maybe(n, 1), n.dtype(groups[0][0]))


def _dynamic_matmul(n: OnnxNode) -> Expr:
    a, scale, zero = dynamic(n, n[0])
    total = integer_product(n, a, n[1], zero, n.get(3))
    return n.plus(n.cast(total, "float32") * (scale * _scale(n, n[2])), 4)


def _matmul_to_float(n: OnnxNode) -> Expr:
    total = integer_product(n, n[0], n[1], n.get(4), n.get(5))
    return n.plus(n.cast(total, "float32") * (_scale(n, n[2]) * _scale(n, n[3])), 6)


ROWS: tuple[Row, ...] = (
    Row("QuantizeLinear", _quantize_linear),
    Row("QuantizeLinear", _quantize_linear, domain=MICROSOFT),
    Row("DequantizeLinear", _dequantize_linear),
    Row("DequantizeLinear", _dequantize_linear, domain=MICROSOFT),
    Row("DynamicQuantizeLinear", lambda n: [*dynamic(n, n[0])]),
    Row("MatMulInteger", lambda n: integer_product(n, n[0], n[1], n.get(2), n.get(3))),
    Row("QLinearMatMul", _qlinear_matmul),
    Row("QLinearConv", _qlinear_conv),
    Row("QGemm", _qgemm, domain=MICROSOFT),
    Row("QLinearAdd", _qlinear(add), domain=MICROSOFT),
    Row("QLinearMul", _qlinear(mul), domain=MICROSOFT),
    Row(
        "QLinearSigmoid QLinearLeakyRelu QLinearGlobalAveragePool", _qlinear_unary, domain=MICROSOFT
    ),
    Row("QLinearConcat", _qlinear_concat, domain=MICROSOFT),
    Row("DynamicQuantizeMatMul", _dynamic_matmul, domain=MICROSOFT),
    Row("MatMulIntegerToFloat", _matmul_to_float, domain=MICROSOFT),
)

__all__ = ["ROWS", "dequantize", "dynamic", "integer_product", "quantize"]
