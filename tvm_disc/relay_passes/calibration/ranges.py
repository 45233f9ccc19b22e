"""Static quantization of float products to int8: measure the ranges of operands, and apply them.

    before     y = conv(x, w)                                       # float32, w literal
    observed   y = conv(x, w); result (y, min x, max x)
    quantized  y = conv((cast(q) - z) * s, cast(w': i8) * t)        q = u8(clip(round(x / s) + z))

    measured   result (y, sum (quantized y - y)^2, sum y^2)         # x and y in float32

``ObserveRanges`` makes a program return the least and the greatest element of the first operand of
each product. ``QuantizeOperands`` rounds these operands to bytes, and the weights to int8 with a
scale per output channel. ``IntegerProducts`` then converts the products to integer arithmetic.
``MeasureErrors`` makes a float program also compute each quantized product, from the float operand,
and return its difference from the float product. Source: Jacob et al., *Quantization and Training
of Neural Networks for Efficient Integer-Arithmetic-Only Inference*, 2018.

The passes visit the products of ``main`` outside of branches and loops, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

import numpy as np
import tvm
from tvm.relax import op as R

from tvm_disc.errors import WhyNot
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.relay_passes.integer_products import unsuitable
from tvm_disc.relay_passes.module_facts import solver_of
from tvm_disc.relay_passes.narrow_weights import COMPUTED, evaluate, literals_of
from tvm_disc.relay_passes.quantize_weights import WeightFormat, quantized
from tvm_disc.relay_passes.rewrite import (
    Sequence_,
    drop_dead,
    operand_expr,
    returning,
    rewrite_function,
    with_main,
)
from tvm_disc.support.literals import as_literal
from tvm_disc.typing import Array, Expr, TVMFunction, TVMModule, Var

# Receives a product and its weights; returns the replacement of the product, or None.
Act: TypeAlias = Callable[[Sequence_, Node, Array], "Node | None"]
Range: TypeAlias = tuple[float, float]  # least and greatest element
FEWEST = 512  # number of weights; quantizing smaller products gains nothing
BYTE = np.iinfo("uint8")
# A positive scale per output channel.
INT8 = WeightFormat(bits=8, group=0, positive=True)


class ObserveRanges:
    """Pass that adds the least and greatest elements of operands to the results of ``main``.

    Attributes:
        count: the number of results that were added, two for each operand.
        ranges: (least, greatest element) of each operand over all calls of :meth:`add`;
            (inf, -inf) before the first call.
    """

    def __init__(self) -> None:
        self.count = 0
        self.ranges: list[Range] = []
        self._places: list[int] = []  # for each product the index of its operand in ``ranges``

    def __call__(self, mod: TVMModule) -> TVMModule:
        """Return a module whose ``main`` returns ``(result, low 0, high 0, low 1, ...)``."""
        main = mod["main"]
        shown: list[Var] = []
        operands: dict[Var, int] = {}
        self._places = []

        def observe(out: Sequence_, node: Node, weights: Array) -> None:
            x = node.inputs[0]
            if x.var not in operands:
                operands[x.var] = len(operands)
                for reduce in (R.min, R.max):
                    shown.append(out.emit(reduce(operand_expr(x)), (), COMPUTED, x).var)
            self._places.append(operands[x.var])

        rule = _TopProducts(main, observe)
        changed = rewrite_function(main, solver_of(mod, None), [rule])
        self.count = len(shown)
        self.ranges = [(np.inf, -np.inf)] * len(operands)
        return with_main(mod, returning(changed, shown))

    def add(self, values: Sequence[Array]) -> None:
        """Extend the ranges by ``values``, the results of a call that this pass added."""
        numbers = [float(v) for v in values]
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        self.ranges = [
            (min(old[0], low), max(old[1], high))
            for old, (low, high) in zip(self.ranges, pairs, strict=True)
        ]

    def of_products(self) -> list[Range]:
        """Return the range of the operand of each product."""
        return [self.ranges[place] for place in self._places]


class MeasureErrors:
    """Pass that adds the errors of quantized products to the results of ``main``.

    A product and its quantized form have the same float32 operand: the errors of earlier products
    are not included.

    Attributes:
        count: the number of results that were added, two for each quantized product.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges = list(ranges)
        self._measured: list[bool] = []  # for each product whether it is quantized
        self.count = 0
        self._sums = np.zeros((0, 2))

    def __call__(self, mod: TVMModule) -> TVMModule:
        """Return a module whose ``main`` returns ``(result, wrong 0, total 0, wrong 1, ...)``.

        ``wrong`` is the sum of squared differences of a product, and ``total`` the sum of squares
        of the float32 product.
        """
        main, form = mod["main"], _Quantization(self._ranges)
        shown: list[Var] = []
        self._measured = []

        def measure(out: Sequence_, node: Node, weights: Array) -> Node | None:
            made = form(out, node, weights)
            self._measured.append(made is not None)
            if made is None:
                return None
            real = _with_operands(out, node, *node.inputs)
            values = operand_expr(real)
            difference = R.subtract(operand_expr(made.node), values)
            wrong = operand_expr(out.emit(difference, node.shape, node.dtype, node))
            for value in (wrong, values):
                square = out.emit(R.multiply(value, value), node.shape, node.dtype, node)
                shown.append(out.emit(R.sum(operand_expr(square)), (), COMPUTED, node).var)
            return real

        changed = rewrite_function(main, solver_of(mod, None), [_TopProducts(main, measure)])
        self.count = len(shown)
        self._sums = np.zeros((self.count // 2, 2))
        return with_main(mod, returning(changed, shown))

    def add(self, values: Sequence[Array]) -> None:
        """Add ``values``, the results of a call that this pass added.

        Sums that are NaN or infinite are left out.
        """
        sums = np.asarray([float(v) for v in values]).reshape(-1, 2)
        self._sums += np.where(np.isfinite(sums).all(1, keepdims=True), sums, 0.0)

    def of_products(self) -> list[float | None]:
        """Return the error of each product over all calls; None if it is not quantized.

        The error is the root mean square of the differences, divided by the root mean square of
        the float32 product.
        """
        errors = iter([sqrt(w / t) if t else 0.0 for w, t in self._sums])
        return [next(errors) if measured else None for measured in self._measured]


class QuantizeOperands:
    """Pass that quantizes the products of ``main`` whose operands have known ranges.

    Attributes:
        quantized: a line for each product: the error of its weights, its operand's range, and the
            error of its result.
        refused: the products that stay float32, with reasons.
    """

    def __init__(self, ranges: Iterable[Range], errors: Iterable[float | None]) -> None:
        self._ranges, self._errors = list(ranges), list(errors)
        self.quantized: list[str] = []
        self.refused: list[WhyNot] = []

    def __call__(self, mod: TVMModule) -> TVMModule:
        """Return the module with quantized products."""
        main, self.quantized, self.refused = mod["main"], [], []
        form, errors = _Quantization(self._ranges), iter(self._errors)

        def quantize(out: Sequence_, node: Node, weights: Array) -> Node | None:
            made, error = form(out, node, weights), next(errors)
            if made is None:
                reason = (
                    "its operand was infinite in a calibration input, or empty or NaN in all of "
                    "them"
                )
                self.refused.append(WhyNot(f"{node.label} in int8", reason))
                return None
            sizes = " x ".join(map(str, weights.shape))
            low, high = made.ends
            self.quantized.append(
                f"{node.label}: weights {sizes}: int8, relative error {made.weights_error:.2g}, "
                f"operand in {low:.4g} .. {high:.4g}, relative error of the result {error:.2g}"
            )
            return made.node

        rule = _TopProducts(main, quantize)
        changed = rewrite_function(main, solver_of(mod, None), [rule], [drop_dead])
        return with_main(mod, changed)


@dataclass(frozen=True)
class _QuantizedProduct:
    """A product of quantized values, the error of its weights, and the range of its operand."""

    node: Node
    weights_error: float
    ends: Range


class _Quantization:
    """Emits the quantized form of each product of a function, in order.

    Products of one operand share its quantization.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges = iter(ranges)
        self._made: dict[Var, Node] = {}

    def __call__(self, out: Sequence_, node: Node, weights: Array) -> _QuantizedProduct | None:
        """Return the quantized form of the next product; None if its operand has no range."""
        low, high = next(self._ranges)
        if not (np.isfinite(low) and np.isfinite(high)):
            return None
        x = node.inputs[0]
        if x.var not in self._made:
            self._made[x.var] = _as_bytes(out, x, *_scale_and_zero(low, high))
        literal, error = _as_int8(out, node, weights)
        made = _with_operands(out, node, self._made[x.var], literal)
        return _QuantizedProduct(made, error, (low, high))


def _with_operands(out: Sequence_, node: Node, *operands: Node) -> Node:
    """Emit the product ``node`` with other operands."""
    args = [operand_expr(x) for x in operands]
    call = tvm.ir.Call(node.expr.op, args, node.expr.attrs, node.expr.ty_args)
    return out.emit(call, node.shape, node.dtype, node)


class _TopProducts:
    """Rule that applies ``act`` to the float32 products that are bound in the body of ``main``.

    Products in branches are left out, and products whose weights are not at least ``FEWEST``
    finite float32 literals.
    """

    def __init__(self, main: TVMFunction, act: Act) -> None:
        self._top = {b.var for block in main.body.blocks for b in block.bindings}
        self._act = act

    def __call__(self, out: Sequence_, node: Node) -> Node | None:
        if node.var not in self._top or node.dtype != COMPUTED:
            return None
        if not (node.cls is OpClass.DOT or node.weighted) or node.inputs[0].dtype != COMPUTED:
            return None
        weight = node.inputs[1]
        if node.inputs[0].var is None or literals_of(weight) is None or unsuitable(node):
            return None
        found = evaluate(weight)
        if isinstance(found, str) or found.scale is not None or found.zero is not None:
            return None
        weights = found.stored
        if weights.dtype != COMPUTED or weights.size < FEWEST or not np.isfinite(weights).all():
            return None
        return self._act(out, node, weights)


def _scale_and_zero(low: float, high: float) -> tuple[np.float32, int]:
    """Return the scale and the zero point of a range, which is extended to contain 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / BYTE.max)
    if not np.isfinite(scale) or scale < np.finfo("float32").tiny:
        return np.float32(1.0), 0
    return scale, int(np.clip(np.rint(-low / scale), BYTE.min, BYTE.max))


def _as_bytes(out: Sequence_, x: Node, scale: np.float32, zero: int) -> Node:
    """Emit ``(cast(q) - zero) * scale`` of ``q = u8(clip(round(x / scale) + zero))``."""

    def emit(call: Expr, dtype: str = COMPUTED) -> Expr:
        return operand_expr(out.emit(call, x.shape, dtype, x))

    by = as_literal(np.asarray(scale), COMPUTED)
    number = emit(R.round(emit(R.divide(operand_expr(x), by))))
    number = emit(R.add(number, as_literal(np.asarray(float(zero)), COMPUTED)))
    number = emit(R.clip(number, float(BYTE.min), float(BYTE.max)))
    q = emit(R.astype(emit(R.astype(number, "int32"), "int32"), "uint8"), "uint8")
    wide = emit(R.astype(q, "int32"), "int32")
    if zero:
        wide = emit(R.subtract(wide, as_literal(np.asarray(zero), "int32")), "int32")
    real = emit(R.astype(wide, COMPUTED))
    return out.emit(R.multiply(real, by), x.shape, COMPUTED, x)


def _as_int8(out: Sequence_, node: Node, weights: Array) -> tuple[Node, float]:
    """Emit weights as ``cast(int8) * scale`` per output channel; return them and their error.

    The error is relative to the weights.
    """
    shape = node.inputs[1].shape
    if node.weighted:  # the output channels are the first axis
        found = quantized(weights.reshape(len(weights), -1).T, INT8)
        numbers = found.numbers.T.reshape(weights.shape)
        scale = found.scale.reshape(-1, *(1 for _ in weights.shape[1:]))
    else:
        found = quantized(weights, INT8)
        numbers, scale = found.numbers, found.scale
    wide = out.emit(R.astype(as_literal(numbers, "int8"), COMPUTED), shape, COMPUTED, node)
    call = R.multiply(operand_expr(wide), as_literal(scale, COMPUTED))
    return out.emit(call, shape, COMPUTED, node), found.error


__all__ = ["MeasureErrors", "ObserveRanges", "QuantizeOperands"]
