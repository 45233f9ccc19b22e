"""Converters of operators on complex numbers, which are pairs of real tensors during conversion.

Inputs and results of a program are real. For sums and for operators that only move elements, the
converter for real numbers is applied to the real parts and to the imaginary parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Expr, op
from tvm_disc.frontends.stablehlo.node import StableHLONode, direction
from tvm_disc.frontends.stablehlo.operators.elementwise import angle
from tvm_disc.frontends.stablehlo.operators.fourier import fourier
from tvm_disc.frontends.stablehlo.operators.reducers import monoid
from tvm_disc.frontends.stablehlo.pairs import ComplexPair
from tvm_disc.frontends.stablehlo.table import Convert, OperationRow

Pair: TypeAlias = tuple[Expr, Expr]

# Operators that pass complex values on without reading their parts.
PASSED = frozenset("call func.call composite optimization_barrier".split())
_BY_PARTS = frozenset(
    "add subtract negate select reshape dynamic_reshape transpose broadcast broadcast_in_dim "
    "dynamic_broadcast_in_dim slice real_dynamic_slice dynamic_slice dynamic_update_slice "
    "concatenate reverse pad dynamic_pad gather dynamic_gather reduce".split()
)


def converted(n: StableHLONode, real: Convert | None) -> object:
    """Return the result of an operation with complex operands or results.

    Args:
        real: the converter of the operator on real numbers.

    Raises:
        Unsupported: there is no converter for complex numbers.
    """
    row = _ROWS.get(n.name)
    if row is not None:
        return row(n)
    if real is not None and n.name in ("dot_general", "dot"):
        return _contraction(n, real)
    if n.name == "reduce" and (len(n) > 2 or monoid(n.block()) != "add"):
        raise Unsupported("complex numbers can only be reduced by a sum of one operand")
    if real is None or n.name not in _BY_PARTS:
        raise Unsupported("the operator has no converter for complex numbers")
    return _made(*(real(_part(n, k)) for k in range(2)))


def _part(n: StableHLONode, *parts: int) -> StableHLONode:
    """Return the operation on one part of each complex operand: 0 is real, 1 imaginary.

    ``parts`` is one number for all operands, or one for each.
    """
    each = list(parts) * len(n) if len(parts) == 1 else list(parts)
    inputs = [
        x.fields[k] if isinstance(x, ComplexPair) else x
        for x, k in zip(n.inputs, each, strict=True)
    ]
    return StableHLONode(n.infer, n.op, inputs, n.walk)


def _pair(n: StableHLONode, k: int) -> Pair:
    x = n[k]
    if isinstance(x, ComplexPair):
        return x.fields[0], x.fields[1]
    return x, n.full(0.0, n.sizes(x), n.dtype(x))


def _made(real: Expr, imag: Expr) -> ComplexPair:
    return ComplexPair((real, imag))


def _convert(n: StableHLONode) -> Expr:
    """Convert a cast to a complex type, from real numbers or from another precision."""
    dtype = n.out_dtype()
    if isinstance(n[0], ComplexPair):
        return _made(*(n.cast(p, dtype) for p in n[0].fields))
    return _made(n.cast(n[0], dtype), n.full(0.0, n.sizes(n[0]), dtype))


def product(x: Pair, y: Pair) -> Pair:
    """Return the product of two complex numbers."""
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def _divide(n: StableHLONode) -> Expr:
    """Return the quotient; the divisor is scaled first, because its square may overflow."""
    (a, b), (c, d) = _pair(n, 0), _pair(n, 1)
    most = n.maximum(n.abs(c), n.abs(d))
    c, d = c / most, d / most
    size = (c * c + d * d) * most
    return _made((a * c + b * d) / size, (b * c - a * d) / size)


def _size(n: StableHLONode, a: Expr, b: Expr) -> Expr:
    """Return the absolute value of ``a + i b`` without overflow of the squares."""
    a, b = n.abs(a), n.abs(b)
    most, least = n.maximum(a, b), n.minimum(a, b)
    ratio = least / n.where(n.equal(most, 0), n.like(1, most), most)
    return n.where(n.isinf(most), most, most * n.sqrt(ratio * ratio + 1))


def _exponential(n: StableHLONode) -> Expr:
    a, b = _pair(n, 0)
    return _made(n.exp(a) * op("cos", b), n.exp(a) * op("sin", b))


def _log(n: StableHLONode) -> Expr:
    a, b = _pair(n, 0)
    return _made(n.log(_size(n, a, b)), angle(n, b, a))


def _sqrt(n: StableHLONode) -> Expr:
    """Return the square root with a nonnegative real part."""
    a, b = _pair(n, 0)
    large = n.sqrt((_size(n, a, b) + n.abs(a)) * 0.5)
    small = n.abs(b) / n.where(n.equal(large, 0), n.like(1, large), large * 2)
    right = a >= 0
    imag = n.where(right, small, large)
    return _made(n.where(right, large, small), n.where(b < 0, -imag, imag))


def _sign(n: StableHLONode) -> Expr:
    a, b = _pair(n, 0)
    size = _size(n, a, b)
    size = n.where(n.equal(size, 0), n.like(1, size), size)
    return _made(a / size, b / size)


def _compare(n: StableHLONode) -> Expr:
    (a, b), (c, d) = _pair(n, 0), _pair(n, 1)
    if direction(n.op) == "EQ":
        return n.equal(a, c) & n.equal(b, d)
    return n.not_equal(a, c) | n.not_equal(b, d)


def _contraction(n: StableHLONode, real: Convert) -> Expr:
    """Return the result of a complex contraction, as four real contractions."""
    parts = {(i, k): real(_part(n, i, k)) for i in range(2) for k in range(2)}
    return _made(parts[0, 0] - parts[1, 1], parts[0, 1] + parts[1, 0])


def _fourier(n: StableHLONode) -> Expr:
    """Convert a Fourier transform of the last axes."""
    kind = str(n.op.attributes["fft_type"]).split()[-1].rstrip(">")
    x = _pair(n, 0) if isinstance(n[0], ComplexPair) else (n[0], None)
    real, imag = fourier(n, kind, x, n.ints("fft_length"))
    return real if kind == "IRFFT" else _made(real, imag)


_ROWS: Mapping[str, Callable[[StableHLONode], object]] = {
    "complex": lambda n: _made(n[0], n[1]),
    "real": lambda n: _pair(n, 0)[0],
    "imag": lambda n: _pair(n, 0)[1],
    "abs": lambda n: _size(n, *_pair(n, 0)),
    "compare": _compare,
    "convert": _convert,
    "divide": _divide,
    "exponential": _exponential,
    "fft": _fourier,
    "log": _log,
    "multiply": lambda n: _made(*product(_pair(n, 0), _pair(n, 1))),
    "sign": _sign,
    "sqrt": _sqrt,
    "get_dimension_size": lambda n: n.scalar(
        n.size(_pair(n, 0)[0], int(n.attr("dimension"))), n.out_dtype()
    ),
}


ROWS: tuple[OperationRow, ...] = tuple(
    OperationRow(name, _ROWS[name]) for name in ("complex", "fft", "imag", "real")
)
