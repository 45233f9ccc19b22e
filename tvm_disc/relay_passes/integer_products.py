"""``IntegerProducts``: compute products and maxima of quantized operands on integers.

    before  y = conv((cast(q: u8) - z) * s, (cast(w: i8)) * t)            # float32
    after   y = cast(conv(cast(q) - z, w: i8): i32) * (s * t)

``q`` is a run-time value with one scale and one zero point; ``w`` is a literal with one scale per
output channel. The integer sums are exact, while float32 rounds sums above 2^24. The scaling is an
element-wise operator after the product. Fusion joins it with the quantization that follows, so that
values between two products are stored in one byte per element.

After a matmul, a literal vector is subtracted for the zero point: ``z`` times the sums of the
columns of ``w``. A convolution subtracts ``z`` from its operand instead, because the padding of an
image is 0 in the model; its kernels read bytes and pad with z.

A max pooling of dequantized bytes becomes the dequantized max pooling of the bytes.

needs: a float32 ``matmul``, or a ``conv2d`` of one group or with one channel per group. The first
operand is a quantized value, and the second is computed from integer literals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import tvm
from tvm.relax import op as R

from tvm_disc.errors import WhyNot
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import BYTES, CENTRED, Node, rounded_quotient, scalar_of
from tvm_disc.relay.call_attrs import with_fields
from tvm_disc.relay_passes.layout_rules import is_dense_or_depthwise
from tvm_disc.relay_passes.module_facts import solver_of
from tvm_disc.relay_passes.narrow_weights import COMPUTED, evaluate, literals_of
from tvm_disc.relay_passes.rewrite import (
    Sequence_,
    drop_dead,
    map_functions,
    operand_expr,
    rewrite_function,
)
from tvm_disc.shape import Solver
from tvm_disc.support.literals import as_literal
from tvm_disc.typing import PassContext, TVMFunction, TVMModule

if TYPE_CHECKING:
    from tvm.transform import Pass

SUMS = "int32"
_LAYOUTS = (("NCHW", "OIHW"), ("NHWC", "OIHW"))
_LONGEST = (2**31 - 1) // (255 * 128)  # most products of bytes whose sum fits int32


def IntegerProducts(solver: Solver | None = None) -> Pass:
    """Return a module pass; ``refused`` lists the products that the last run kept, with reasons."""
    refused: list[WhyNot] = []

    def convert(mod: TVMModule, ctx: PassContext) -> object:
        refused.clear()
        known = solver_of(mod, solver)

        def changed(func: TVMFunction) -> object:
            rule = _Products(refused)
            made = rewrite_function(
                func, known, [rule, _maximum_of_bytes, _same_bytes], [drop_dead]
            )
            return made if rule.found else func

        return map_functions(mod, changed)

    result = tvm.transform.module_pass(convert, opt_level=0, name="IntegerProducts")
    result.refused = refused
    return cast("Pass", result)


@dataclass(frozen=True)
class _Quantized:
    """``(numbers - zero) * scale`` with bytes ``numbers``."""

    numbers: Node
    zero: int
    scale: float


class _Products:
    """product(quantized, literals) -> cast(product of integers) * scales."""

    def __init__(self, refused: list[WhyNot]) -> None:
        self.refused, self.found = refused, False

    def __call__(self, out: Sequence_, node: Node) -> Node | None:
        if node.dtype != COMPUTED or not (node.cls is OpClass.DOT or node.weighted):
            return None
        data = _quantized(node.inputs[0])
        weight = node.inputs[1]
        if data is None or weight.op == "const" or literals_of(weight) is None:
            return None
        weights = unsuitable(node) or _weights(node)
        if isinstance(weights, str):
            self.refused.append(WhyNot(f"{node.label} in integers", weights))
            return None
        self.found = True
        numbers, scale = weights
        sums = self._sums(out, node, data, numbers)
        real = out.emit(R.astype(operand_expr(sums), COMPUTED), node.shape, COMPUTED, node)
        factor = (scale * np.float32(data.scale)).astype(COMPUTED)
        return out.emit(
            R.multiply(operand_expr(real), as_literal(factor, COMPUTED)),
            node.shape,
            COMPUTED,
            node,
        )

    def _sums(self, out: Sequence_, node: Node, data: _Quantized, numbers: np.ndarray) -> Node:
        literal = as_literal(np.ascontiguousarray(numbers), "int8")
        if node.weighted:
            operand = _centred(out, data)
            attrs = with_fields(node.expr.attrs, out_dtype=SUMS)
            call = tvm.ir.Call(node.expr.op, [operand_expr(operand), literal], attrs)
            return out.emit(call, node.shape, SUMS, node)
        call = R.matmul(operand_expr(data.numbers), literal, out_dtype=SUMS)
        sums = out.emit(call, node.shape, SUMS, node)
        if not data.zero:
            return sums
        origin = (numbers.sum(0, dtype="int64") * data.zero).astype(SUMS)
        less = R.subtract(operand_expr(sums), as_literal(origin, SUMS))
        return out.emit(less, node.shape, SUMS, node)


def _maximum_of_bytes(out: Sequence_, node: Node) -> Node | None:
    """max_pool((q - z) * s) -> (max_pool(q) - z) * s."""
    if node.op not in _MAXIMA or node.dtype != COMPUTED or not _has_elements(node):
        return None
    data = _quantized(node.inputs[0])
    if data is None or not 0 < data.scale < math.inf:
        return None
    q = data.numbers
    call = tvm.ir.Call(node.expr.op, [operand_expr(q)], node.expr.attrs)
    made = out.emit(call, node.shape, q.dtype, node)
    if data.zero:
        made = out.emit(R.astype(operand_expr(made), SUMS), node.shape, SUMS, node)
        zero = as_literal(np.array(data.zero, SUMS), SUMS)
        made = out.emit(R.subtract(operand_expr(made), zero), node.shape, SUMS, node)
    real = out.emit(R.astype(operand_expr(made), COMPUTED), node.shape, COMPUTED, node)
    scale = as_literal(np.array(data.scale, COMPUTED), COMPUTED)
    return out.emit(R.multiply(operand_expr(real), scale), node.shape, COMPUTED, node)


def _has_elements(node: Node) -> bool:
    """Return whether every window contains an element: a byte type has no -inf for an empty
    window.
    """
    rank = len(node.shape) - 2
    size, pads = node.attrs["pool_size"], node.attrs["padding"]
    sizes = [size] * rank if isinstance(size, int) else [int(x) for x in size]
    pads = [pads] if isinstance(pads, int) else [int(x) for x in pads]
    apart = node.attrs.get("dilation", 1)
    dense = {1} == ({apart} if isinstance(apart, int) else set(map(int, apart)))
    return dense and not node.attrs.get("ceil_mode") and max(pads) < min(sizes)


def _same_bytes(out: Sequence_, node: Node) -> Node | None:
    """quantize(dequantize(q)) -> q, if both have the same scale and zero point.

    ``(q - z) * s / s`` differs from ``q - z`` by less than 0.5, so that rounding returns ``q - z``.
    """
    source = node.inputs[0] if node.op == "relax.astype" and node.dtype in BYTES else None
    if source is not None and source.op == "relax.astype" and source.dtype == SUMS:
        source = source.inputs[0]
    parts = None if source is None else rounded_quotient(source)
    data = None if parts is None else _quantized(parts.x)
    if parts is None or data is None or data.numbers.dtype != node.dtype:
        return None
    kind, (least, most) = np.iinfo(node.dtype), _SCALES
    ends = (parts.least, parts.most, parts.low, parts.high)
    whole = ends == (kind.min, kind.max, -math.inf, math.inf)
    same = (parts.divisor, parts.shift) == (data.scale, data.zero) and least <= data.scale <= most
    return data.numbers if whole and same else None


_SCALES = 2.0**-60, 2.0**60
_MAXIMA = tuple(f"relax.nn.max_pool{rank}d" for rank in (1, 2, 3))


def _centred(out: Sequence_, data: _Quantized) -> Node:
    """Return ``numbers - zero``."""
    q = data.numbers
    if not data.zero:
        return q
    wide = out.emit(R.astype(operand_expr(q), CENTRED), q.shape, CENTRED, q)
    zero = as_literal(np.array(data.zero, CENTRED), CENTRED)
    return out.emit(R.subtract(operand_expr(wide), zero), q.shape, CENTRED, q)


def _quantized(node: Node) -> _Quantized | None:
    """Return a value as bytes with a scale and a zero point, or None."""
    if node.row is None or not node.row.scales:
        return None
    pairs = (node.inputs, node.inputs[::-1])
    found = next(((x, s) for x, s in pairs if s.is_scalar_const and not x.is_scalar_const), None)
    if found is None or len(found[0].shape) != len(node.shape):
        return None
    x, scale = found[0], scalar_of(found[1])
    while x.op == "relax.astype" and x.dtype in (COMPUTED, SUMS):
        x = x.inputs[0]
    zero = 0
    if x.row is not None and x.row.shifts < 0 and x.dtype == SUMS and x.inputs[1].is_scalar_const:
        zero, x = int(scalar_of(x.inputs[1])), x.inputs[0]
        while x.op == "relax.astype" and x.dtype == SUMS:
            x = x.inputs[0]
    if x.dtype not in BYTES or x.op == "const" or not -128 <= zero <= 255:
        return None
    return _Quantized(x, zero, scale)


def unsuitable(node: Node) -> str:
    """Return why the operator or the layout of a product rules out integers, or ""."""
    if node.weighted:
        layout = node.attrs["data_layout"], node.attrs["kernel_layout"]
        if node.op != "relax.nn.conv2d" or layout not in _LAYOUTS:
            return "only conv2d of data in NCHW or NHWC with weights in OIHW has integer kernels"
        if not is_dense_or_depthwise(node):
            return "expected one group, or one input and one output channel per group"
    elif len(node.inputs[1].shape) != 2:
        return "the weights are not a matrix"
    return ""


def _weights(node: Node) -> tuple[np.ndarray, np.ndarray] | str:
    """Return int8 weights and a scale that broadcasts to the result, or why this is impossible."""
    found = evaluate(node.inputs[1])
    if isinstance(found, str):
        return found
    found = found.expanded()
    if found.stored.dtype.kind not in "iu" or found.stored.size == 0:
        return "the weights must be integers"
    whole = found.stored.astype("int64")
    if found.zero is not None:
        zero = np.rint(found.zero).astype("int64")
        if not np.array_equal(zero, found.zero):
            return "the zero points of the weights must be integers"
        whole = whole - zero
    if whole.min() < -128 or whole.max() > 127:
        return "the weights minus their zero point must fit int8"
    outs = 0 if node.weighted else 1
    taps = math.prod(whole.shape) // max(1, whole.shape[outs])
    if taps > _LONGEST:
        return f"a sum of {taps} products may overflow int32"
    scale = _by_channel(found.scale, outs)
    if scale is None:
        return "the scale of the weights differs within an output channel"
    first = node.weighted and node.attrs["data_layout"] == "NCHW"
    return whole.astype("int8"), scale.reshape(-1, 1, 1) if first else scale


def _by_channel(scale: np.ndarray | None, axis: int) -> np.ndarray | None:
    """Return one scale per entry of an axis; None if a scale differs along another axis."""
    if scale is None:
        return np.ones(1, COMPUTED)
    rows = np.moveaxis(scale, axis, 0).reshape(scale.shape[axis], -1)
    return rows[:, 0] if (rows == rows[:, :1]).all() else None


__all__ = ["IntegerProducts", "unsuitable"]
