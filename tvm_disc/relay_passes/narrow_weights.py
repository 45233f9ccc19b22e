"""``NarrowWeights``: keep the weights of matmuls in the narrow types of the model.

    before  w = permute((cast(q: i8[N, K]) - z) * s);  y = matmul(x, w)
    after   w = dequantize(q': i8[K, N], s': f32[G, N], z': f32[G, N]);  y = matmul(x, w)

A program that reads all its weights for a few rows, such as a decoder step, is bound by memory
bandwidth, and int8 has a quarter of the bytes of float32. Constant folding in ``Simplify`` would
expand the weights to float32. This pass evaluates the expression between a literal and a matmul
as integers with a zero point and a scale, through any casts, moves and arithmetic, and determines
how many rows of the matrix share one scale. A zero point is subtracted from the integers if the
differences fit their type. bfloat16 weights have no zero point and no scale.

With :class:`Narrowing`, float32 weights are quantized (:mod:`.quantize_weights`), and the other
operand is rounded to int8 (``x' = round_rows(x)``), so that kernels can multiply bytes.

needs: a float32 matmul whose second operand is a matrix computed from literals alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np
import tvm

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import permutation
from tvm_disc.graph.core_ops import BFLOAT16, OpClass
from tvm_disc.graph.nodes import BYTES, Node, const_node, static_dim
from tvm_disc.relay.kernel_ops import NIBBLES, ROUND_ROWS, dequantize_call, kernel_call
from tvm_disc.relay_passes.module_facts import solver_of
from tvm_disc.relay_passes.quantize_weights import Array, WeightFormat, quantized
from tvm_disc.relay_passes.rewrite import (
    Sequence_,
    drop_dead,
    map_functions,
    operand_expr,
    rewrite_function,
)
from tvm_disc.shape import Solver
from tvm_disc.support.late import Late
from tvm_disc.support.literals import ALIGNMENT, aligned, as_literal
from tvm_disc.typing import PassContext, TVMFunction, TVMModule

# Narrow storage types, and the type of the arithmetic.
NARROW = (*BYTES, BFLOAT16)
COMPUTED = "float32"
# A matrix with fewer elements stays in the cache in any type.
FEWEST = 1 << 16
# Smaller groups of rows, or fewer columns, do not justify a separate layout.
LEAST_GROUP = 8
LEAST_COLUMNS = 16
# Limits of the number of elements of a row that are rounded with one scale. Longer blocks would
# lose accuracy; with shorter blocks, scaling takes longer than the products.
LEAST_BLOCK, MOST_BLOCK = 32, 256

_release_pages = Late("tvm_disc.support.spilled:release_pages")


@dataclass(frozen=True)
class Numbers:
    """``(stored - zero) * scale``.

    Attributes:
        zero, scale: None, or arrays of the shape of ``stored``, but with one row for every
            ``period`` rows of ``stored``.
    """

    stored: Array
    zero: Array | None = None
    scale: Array | None = None
    period: int = 1

    def expanded(self) -> Numbers:
        """Return the numbers with a row of ``zero`` and ``scale`` for each row."""
        if self.period == 1:
            return self
        parts = [None if x is None else x.repeat(self.period, 0) for x in (self.zero, self.scale)]
        return Numbers(self.stored, parts[0], parts[1])

    def moved(self, move: Callable[[Array], Array]) -> Numbers:
        """Return the numbers after a rearrangement of elements."""
        given = self.expanded()
        parts = [None if x is None else move(x) for x in (given.zero, given.scale)]
        return Numbers(move(given.stored), parts[0], parts[1])

    def joined(self, shape: Sequence[int]) -> Numbers:
        """Return the numbers in another shape.

        If the first two axes of three are joined, and zero and scale are broadcast along the
        second, one row of them is kept for all rows along that axis: float32 elements for all
        numbers would take four times the memory of int8 numbers.
        """
        parts = [x for x in (self.zero, self.scale) if x is not None]
        rows = [x.ndim == 3 and x.shape[1] > 1 and x.strides[1] == 0 for x in parts]
        if not parts or not all(rows) or list(shape[1:]) != [*self.stored.shape[2:]]:
            return self.moved(lambda x: x.reshape(shape))
        firsts = [None if x is None else x[:, 0] for x in (self.zero, self.scale)]
        return Numbers(self.stored.reshape(shape), firsts[0], firsts[1], self.stored.shape[1])

    def real(self) -> Array:
        """Return the values ``(stored - zero) * scale``."""
        if self.period != 1:
            return self.expanded().real()
        value = self.stored
        if self.zero is not None:
            value = value.astype(self.zero.dtype) - self.zero
        if self.scale is not None:
            value = value.astype(COMPUTED) * self.scale
        return value


@dataclass(frozen=True)
class Narrowing:
    """Options of :func:`NarrowWeights` that change results.

    Attributes:
        rounds: round the other operand to int8, by blocks along K that share a scale.
        form: quantize float32 weights to this format; None keeps them float32.
    """

    rounds: bool = False
    form: WeightFormat | None = None


def NarrowWeights(solver: Solver | None = None, narrowing: Narrowing | None = None) -> object:
    """Return a module pass.

    Its attribute ``refused`` lists the weights that the last run did not narrow, with reasons, and
    ``quantized`` has a line for each matrix that the last run quantized.
    """
    refused: list[WhyNot] = []
    lines: list[str] = []

    def narrow(mod: TVMModule, ctx: PassContext) -> object:
        refused.clear()
        lines.clear()
        known = solver_of(mod, solver)

        def changed(func: TVMFunction) -> object:
            rule = _Products(refused, lines, narrowing or Narrowing())
            made = rewrite_function(func, known, [rule], [drop_dead])
            return made if rule.found else func

        return map_functions(mod, changed)

    result = tvm.transform.module_pass(narrow, opt_level=0, name="NarrowWeights")
    result.refused, result.quantized = refused, lines
    return result


class _Products:
    """matmul(x, expression of narrow literals) -> matmul(x, dequantize(literals))."""

    def __init__(self, refused: list[WhyNot], lines: list[str], narrowing: Narrowing) -> None:
        self.refused, self.lines, self.narrowing, self.found = refused, lines, narrowing, False
        self.made: dict[Node, tuple[Node, int | None]] = {}
        self.rounded: dict[tuple[Node, int], Node] = {}

    def __call__(self, out: Sequence_, node: Node) -> Node | None:
        if node.cls is not OpClass.DOT:
            return None
        weight = node.inputs[1]
        if not (comes_from_narrow(weight) or (self.narrowing.form and literals_of(weight))):
            return None
        weights = self._weights(out, node)
        if isinstance(weights, WhyNot):
            self.refused.append(weights)
            return None
        self.found = True
        made, block = weights
        rows = operand_expr(node.inputs[0])
        if block is not None:
            rows = self._rows(out, node.inputs[0], block).var
        call = tvm.ir.Call(node.expr.op, [rows, made.var], node.expr.attrs, node.expr.ty_args)
        return out.emit(call, node.shape, node.dtype, node)

    def _weights(self, out: Sequence_, product: Node) -> tuple[Node, int | None] | WhyNot:
        """Return the dequantized weights, and the length of the blocks along K in which the other
        operand is rounded to int8; None if the operand is not rounded.

        Returns a `WhyNot` if the weights cannot be narrow.
        """
        weight = product.inputs[1]
        if weight in self.made and out.lookup.get(self.made[weight][0].var) is not None:
            return self.made[weight]
        found = self._narrow(product)
        if isinstance(found, WhyNot):
            return found
        arrays, group = found
        block = None
        if self.narrowing.rounds and arrays[0].dtype == np.int8:
            block = _block(len(arrays[0]), group)
            if block is None:
                reason = (
                    f"expected a multiple of {NIBBLES} rows of weights, found {len(arrays[0])}, "
                    f"and a multiple of {NIBBLES} from {LEAST_BLOCK} to {MOST_BLOCK} that divides "
                    f"the number of rows that share a scale, {group}"
                )
                self.refused.append(WhyNot(f"int8 rows of {product.label}", reason))
            else:
                arrays, group = _by_blocks(arrays, group, block), block
        self.made[weight] = _emitted(out, weight, arrays, group), block
        return self.made[weight]

    def _narrow(self, product: Node) -> tuple[tuple[Array, ...], int] | WhyNot:
        """Return the literals of the weights of a product, and the number of rows per scale.

        Returns a `WhyNot` if the weights cannot be narrow.
        """
        reason = _unsuitable(product)
        numbers = reason or evaluate(product.inputs[1])
        if isinstance(numbers, str):
            return WhyNot(f"{product.label} over narrow weights", numbers)
        form, matrix = self.narrowing.form, numbers.stored
        whole = numbers.scale is None and numbers.zero is None and matrix.dtype == COMPUTED
        if form is None or not whole:
            parts = grouped(numbers)
            why = f"{product.label} over narrow weights"
            return WhyNot(why, parts) if isinstance(parts, str) else parts
        if not np.isfinite(matrix).all():
            return WhyNot(f"{product.label} over quantized weights", "a weight is NaN or infinite")
        made = quantized(matrix, form)
        k, n = matrix.shape
        error = f"relative error {made.error:.2g}"
        self.lines.append(f"{product.label}: weights {k} x {n}: {form}: {error}")
        return (made.numbers, made.scale), form.group or k

    def _rows(self, out: Sequence_, rows: Node, block: int) -> Node:
        """Return rows rounded to int8, with one scale per block of elements along K."""
        key = rows, block
        if key not in self.rounded or out.lookup.get(self.rounded[key].var) is None:
            args = [operand_expr(rows)]
            call = kernel_call(ROUND_ROWS, args, rows.shape, rows.dtype, block=block)
            self.rounded[key] = out.emit(call, rows.shape, rows.dtype, rows)
        return self.rounded[key]


def literals_of(node: Node) -> list[Node] | None:
    """Return the literals from which a value is computed, or None if it has other operands."""
    found, work, seen = [], [node], set()
    while work:
        n = work.pop()
        if n.op == "const":
            found.append(n)
        elif n.row is None or not n.inputs:
            return None
        elif n not in seen:
            seen.add(n)
            work.extend(n.inputs)
    return found


def comes_from_narrow(node: Node) -> bool:
    """Return whether a value is computed from literals alone, at least one of them narrow."""
    leaves = None if node.op == "const" else literals_of(node)
    return any(n.dtype in NARROW and not n.is_scalar_const for n in leaves or ())


def _unsuitable(product: Node) -> str:
    """Return why the types or the shape of a product rule out narrow weights, or ""."""
    if any(x.dtype != COMPUTED for x in (*product.inputs, product)):
        return f"only products of {COMPUTED} can dequantize weights"
    dims = [d for d in map(static_dim, product.inputs[1].shape) if d is not None]
    if len(dims) != 2:
        return "the weights are not a matrix of known shape"
    if dims[0] * dims[1] < FEWEST:
        return f"the weights have fewer than {FEWEST} elements"
    if dims[1] < LEAST_COLUMNS:
        return f"the weights have fewer than {LEAST_COLUMNS} columns"
    return ""


def _emitted(out: Sequence_, weight: Node, arrays: Sequence[Array], group: int) -> Node:
    """Emit the dequantization of literals; scales and zeros are float16 if this is exact."""
    numbers, *parts = arrays
    halves = ("float16" if _are_halves(x) else COMPUTED for x in parts)
    dtypes = (numbers.dtype.name, *halves)
    literals = [
        const_node(_literal(a.astype(d, copy=False))).expr
        for a, d in zip(arrays, dtypes, strict=True)
    ]
    call = dequantize_call(literals, weight.shape, group, _bits(numbers, group))
    _release_pages()
    return out.emit(call, weight.shape, COMPUTED, weight)


def _literal(array: Array) -> tvm.relax.Constant:
    """Return a literal that shares the memory of the array, or of an aligned copy if necessary."""
    shared = array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0
    return as_literal(array if shared else aligned(array), array.dtype.name)


def _are_halves(values: Array) -> bool:
    """Return whether all values are exact in float16."""
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    return bool(np.array_equal(halves.astype(COMPUTED), values))


def _block(k: int, group: int) -> int | None:
    """Return the length of the blocks along K in which the other operand is rounded.

    The length divides `group`, the number of rows of the weights that share a scale. Returns None
    if no length is suitable.
    """
    fits = range(min(group, MOST_BLOCK), LEAST_BLOCK - 1, -1)
    whole = k % NIBBLES == 0
    return next((n for n in fits if whole and group % n == 0 and n % NIBBLES == 0), None)


def _by_blocks(arrays: Sequence[Array], group: int, block: int) -> tuple[Array, ...]:
    """Return (numbers, scale, zero) with a row of ``scale`` and ``zero`` for each block."""
    numbers, *parts = arrays
    k, n = numbers.shape
    parts = parts or [np.ones((-(-k // group), n), COMPUTED)]
    return (numbers, *(np.repeat(x, group // block, 0)[: -(-k // block)] for x in parts))


# -- evaluation of literal expressions ------------------------------------------------------------


def evaluate(node: Node) -> Numbers | str:
    """Return a value as numbers with a zero point and a scale, or why this is impossible."""
    if node.value is not None:
        return Numbers(node.value)
    found = [evaluate(x) for x in node.inputs]
    for x in found:
        if isinstance(x, str):
            return x
    return _applied(node, [x for x in found if isinstance(x, Numbers)])


def _applied(node: Node, given: Sequence[Numbers]) -> Numbers | str:
    row = node.row
    assert row is not None
    refused = (
        f"{node.label} is not a cast, a transpose, a reshape, the subtraction of a zero point or "
        "the product with a scale"
    )
    if len(given) == 1:
        if node.cls is OpClass.VIEW and (shape := _static(node)) is not None:
            return given[0].joined(shape)
        move = _move(node)
        if move is not None:
            return given[0].moved(move)
        return _cast(node, given[0]) if node.op == "relax.astype" else refused
    if len(given) != 2 or not (row.shifts or row.scales):
        return refused
    first, second = (x.expanded() for x in given)
    # The larger operand is the weights. If sizes are equal, the narrower type is, then the first.
    if (row.scales or row.shifts > 0) and _rank(second) > _rank(first):
        first, second = second, first
    shape = [d for d in map(static_dim, node.shape) if d is not None]
    if list(first.stored.shape) != shape:
        return f"{node.label} broadcasts the weights"
    other = np.broadcast_to(second.real(), shape)
    return _scaled(node, first, other) if row.scales else _shifted(node, first, other)


def _rank(x: Numbers) -> tuple[int, int]:
    return x.stored.size, -x.stored.dtype.itemsize


def _move(node: Node) -> Any:
    """Return a function that moves an array's elements as a node does, or None if it is not a
    move.
    """
    shape = _static(node)
    if shape is None:
        return None
    if node.op == "relax.permute_dims":
        return lambda x: x.transpose(permutation(node))
    if node.op == "relax.broadcast_to":
        return lambda x: np.broadcast_to(x, shape)
    return _slice(node) if node.op == "relax.strided_slice" else None


def _static(node: Node) -> list[int] | None:
    """Return the shape of a value, or None if a dim is not known."""
    shape = [d for d in map(static_dim, node.shape) if d is not None]
    return shape if len(shape) == len(node.shape) else None


def _slice(node: Node) -> object:
    """Return a slice with literal bounds as a function, or None."""
    bounds = [[static_dim(x) for x in p] for p in node.prims]
    if len(bounds) not in (3, 4) or any(x is None for p in bounds for x in p):
        return None
    axes, begin, end = bounds[:3]
    steps = bounds[3] if len(bounds) == 4 else [1] * len(axes)
    at = [slice(None)] * len(node.inputs[0].shape)
    for axis, lo, hi, step in zip(axes, begin, end, steps, strict=True):
        if lo is None or hi is None or step is None or min(lo, hi) < 0 or step < 1:
            return None
        at[axis or 0] = slice(lo, hi, step)
    return lambda x: x[tuple(at)]


def _cast(node: Node, given: Numbers) -> Numbers | str:
    """Return the numbers after a lossless cast, or why the cast is not lossless."""
    held = given.stored.dtype.name
    if given.scale is not None or given.zero is not None:
        exact = node.dtype == COMPUTED
    else:
        wider = ("int32", "int64", COMPUTED) if held in NARROW else (COMPUTED,)
        exact = node.dtype in (held, *wider)
    if not exact:
        return f"{node.label} casts to {node.dtype}, expected {COMPUTED}"
    # Literals of other types are small, such as scales, and are converted at once.
    small = held not in NARROW and given.scale is None and given.zero is None
    return replace(given, stored=given.stored.astype(node.dtype)) if small else given


def _scaled(node: Node, first: Numbers, factor: Array) -> Numbers | str:
    if node.dtype != COMPUTED:
        return f"{node.label} multiplies by the scale in {node.dtype}, expected {COMPUTED}"
    factor = factor.astype(COMPUTED, copy=False)
    return replace(first, scale=factor if first.scale is None else first.scale * factor)


def _shifted(node: Node, first: Numbers, by: Array) -> Numbers | str:
    if first.scale is not None:
        return f"{node.label} adds to the weights after the product with the scale"
    if node.dtype not in ("int16", "int32", "int64", COMPUTED):
        return (
            f"{node.label} subtracts the zero point in {node.dtype}, expected int32 or {COMPUTED}"
        )
    assert node.row is not None
    by = by.astype(node.dtype) * -node.row.shifts
    if first.zero is not None:
        by = first.zero + by
    return replace(first, zero=by)


# -- kernel layout --------------------------------------------------------------------------------


def grouped(given: Numbers) -> tuple[tuple[Array, ...], int] | str:
    """Return ((numbers, scale, zero), rows per scale), or the reason why this is impossible.

    Scale and zero are omitted if they are trivial.
    """
    stored, zero, scale = given.stored, given.zero, given.scale
    if stored.dtype.name not in NARROW:
        return "the weights are not stored as int8, uint8 or bfloat16"
    k, n = stored.shape
    parts = [x for x in (scale, zero) if x is not None]
    period = given.period
    group = gcd(*(_period(x) * period for x in parts)) if parts else k
    if stored.dtype.name not in BYTES:
        return (
            ((stored,), k) if not parts else "bfloat16 weights cannot have a scale or a zero point"
        )
    if group < min(LEAST_GROUP, k):
        return f"expected at least {LEAST_GROUP} rows of the matrix per scale, found {group}"
    zero = np.zeros((1, n), "int32") if zero is None else zero[:: group // period]
    numbers, rest = _centred(stored, zero, group)
    rows = -(-k // group)
    if scale is None and rest is None:
        return (numbers,), k
    ones = np.ones((rows, n), COMPUTED)
    factors = ones if scale is None else scale[:: group // period].astype(COMPUTED)
    last = () if rest is None else (np.broadcast_to(rest, (rows, n)).astype(COMPUTED),)
    return (numbers, factors, *last), group


def _bits(numbers: Array, group: int) -> int:
    """Return the bits per number: 4 if all numbers fit and each group fills complete words, or
    8.
    """
    words = numbers.dtype == np.int8 and _in_words(len(numbers), group)
    return 4 if words and numbers.min() >= -8 and numbers.max() <= 7 else 8


def _in_words(k: int, group: int) -> bool:
    """Return whether the rows and each group of rows fill complete words of 4-bit numbers."""
    return k % NIBBLES == 0 and group % NIBBLES == 0


def _period(x: Array) -> int:
    """Return the largest number such that the rows of `x` change only at multiples of it."""
    if x.strides[0] == 0 or len(x) < 2:
        return len(x)
    changes = np.flatnonzero((x[1:] != x[:-1]).any(1)) + 1
    return gcd(*changes.tolist()) if len(changes) else len(x)


def _centred(stored: Array, zero: Array, group: int) -> tuple[Array, Array | None]:
    """Return int8 numbers, and the zero point that remains to be subtracted, or None."""
    if not zero.any() and stored.dtype == np.int8:
        return stored, None
    least, most = int(stored.min()), int(stored.max())
    if most - least < 16 and _in_words(len(stored), group):
        same = int(zero.flat[0]) if (zero == zero.flat[0]).all() and zero.flat[0] % 1 == 0 else 0
        shift = next((s for s in (same, 0) if s - 8 <= least and most < s + 8), least + 8)
        rest = zero - shift
        return (stored.astype("int16") - shift).astype("int8"), rest if rest.any() else None
    if (zero == np.rint(zero)).all() and np.abs(zero).max(initial=0) <= 255:
        whole = zero.astype("int16")
        each = np.repeat(whole, group, 0)[: len(stored)] if len(whole) > 1 else whole
        moved = stored.astype("int16") - each
        if moved.min() >= -128 and moved.max() <= 127:
            return moved.astype("int8"), None
    if stored.dtype == np.int8:
        return stored, zero
    return (stored.astype("int16") - 128).astype("int8"), zero.astype(COMPUTED) - 128


__all__ = [
    "NARROW",
    "NarrowWeights",
    "Narrowing",
    "Numbers",
    "comes_from_narrow",
    "evaluate",
    "grouped",
]
