"""Element rules: the value of each core operator at one output index.

A rule is ``rule(low, node, index) -> expression``. Loads that may be out of bounds are placed in
one arm of ``if_then_else`` and evaluated with ``guarded_at``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tvm
from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.axes import concat_axis, permutation
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_one, static_dim
from tvm_disc.relay.kernel_ops import DEQUANTIZE, FUNCTIONS, PACK, REINTERPRET, UNPACK
from tvm_disc.schedules.math import functions
from tvm_disc.schedules.math.device import native_on_device
from tvm_disc.schedules.math.language import bound, is_literal, under
from tvm_disc.schedules.quantized import converted, rounded
from tvm_disc.schedules.reader import ElementReader, Index, Rule
from tvm_disc.schedules.scalars import (
    BINARY,
    UNARY,
    cast,
    is_float,
    maximum,
    minimum,
)
from tvm_disc.tir import integers
from tvm_disc.tir.builder import (
    const,
    dtype_of,
    element_dtype,
    i64,
    lanes_of,
    loaded,
    ramp,
    reads,
    same_lanes,
    storage_dtype,
    stored,
    wide,
    with_lanes,
)
from tvm_disc.tir.index import add, mul, product
from tvm_disc.tir.llvm_ops import difference
from tvm_disc.typing import Expr, Size


def _operands(low: ElementReader, node: Node, index: Index) -> list[Expr]:
    rank = len(node.shape)
    return [low.at(x, low.broadcast(x, rank, index)) for x in node.inputs]


def elementwise(fn: Callable[..., Expr]) -> Rule:
    """Return a rule that applies ``fn`` to the operands at the broadcast index."""

    def rule(low: ElementReader, node: Node, index: Index) -> Expr:
        operands = same_lanes(*_operands(low, node, index))
        return _once(low, fn, operands)

    return rule


def _once(low: ElementReader, fn: Callable[..., Expr], operands: Sequence[Expr]) -> Expr:
    """Return ``fn(*operands)``, with each operand evaluated once even if no statement can bind it.

    Only floating-point operands that ``fn`` reads several times are bound, by a ``Let``. TVM's
    analyzer visits a guard more than once. It fails if a ``Let`` binds a literal, or binds one
    variable to two different values.
    """
    if not low.in_guard:
        return fn(*operands)
    # Integers are not bound, so that TVM can simplify them (most are sizes); LLVM shares their
    # loads.
    names = [tirx.Var(f"a{k}", x.ty) for k, x in enumerate(operands)]
    shape = fn(*names)
    plain = [
        not is_float(dtype_of(x)) or is_literal(x) or reads(shape, name) < 2
        for x, name in zip(operands, names, strict=True)
    ]
    if all(plain):
        return fn(*operands)
    triples = list(zip(plain, operands, names, strict=True))
    result = fn(*(x if known else name for known, x, name in triples))
    bindings = [b for known, x, name in triples if not known for b in bound(name, x)]
    return under(bindings, result)


def _clip(low: ElementReader, node: Node, index: Index) -> Expr:
    x = low.at(node.inputs[0], index)
    x, lo, hi = same_lanes(x, *(cast(_prim(p), node.dtype) for p in node.prims))
    return minimum(maximum(x, lo), hi)


def _prim(value: Expr) -> Expr:
    return i64(value) if isinstance(value, int) else value


def _reinterpret(low: ElementReader, node: Node, index: Index) -> Expr:
    bits = stored(low.at(node.inputs[0], index), node.inputs[0].dtype)
    dtype = with_lanes(storage_dtype(node.dtype), bits)
    if isinstance(bits, tirx.IntImm | tirx.FloatImm) and str(bits.value) in ("0", "0.0"):
        return loaded(const(0, dtype), node.dtype)  # TVM would reinterpret it as a pointer
    return loaded(tirx.reinterpret(dtype, bits), node.dtype)


def _dequantize(low: ElementReader, node: Node, index: Index) -> Expr:
    numbers, *parts = node.inputs
    k, j = index
    value = cast(low.at(numbers, [k, j]), node.dtype)
    group = tirx.floordiv(k, wide(i64(node.attrs["group"]), lanes_of(k))) if parts else k
    scale, *zero = (cast(low.at(x, [group, j]), node.dtype) for x in parts) if parts else (None,)
    for z in zero:
        value = value - z
    return value if scale is None else value * scale


def _reshape(low: ElementReader, node: Node, index: Index) -> Expr:
    source = node.inputs[0]
    return low.at(source, reshape_index(low, source.shape, node.shape, index))


def reshape_index(
    low: ElementReader, src: Sequence[Expr], dst: Sequence[Expr], index: Index
) -> list[Expr]:
    """Return the source index of a reshape.

    Dims are matched in groups of provably equal product, so divisions are needed only inside a
    group that splits a dim.
    """
    groups = low.solver.reshape_groups(list(src), list(dst))
    if groups is None:
        groups = [(tuple(range(len(src))), tuple(range(len(dst))))]
    result: list[Expr] = [i64(0)] * len(src)
    for src_dims, dst_dims in groups:
        if not src_dims:
            continue
        flat = low.space.join([index[j] for j in dst_dims], [dst[j] for j in dst_dims])
        parts = low.space.split(flat, [src[i] for i in src_dims])
        for i, part in zip(src_dims, parts, strict=True):
            result[i] = part
    return result


def _permute(low: ElementReader, node: Node, index: Index) -> Expr:
    axes = permutation(node)
    source: list[Expr] = [i64(0)] * len(axes)
    for position, axis in enumerate(axes):
        source[axis] = index[position]
    return low.at(node.inputs[0], source)


def _broadcast_to(low: ElementReader, node: Node, index: Index) -> Expr:
    source = node.inputs[0]
    offset = len(node.shape) - len(source.shape)
    at: list[Expr] = []
    for axis, dim in enumerate(source.shape):
        i, target = index[offset + axis], node.shape[offset + axis]
        if is_one(dim):
            at.append(i64(0))
        elif low.is_equal_dim(node, axis) or low.solver.known_eq(dim, target):
            at.append(i)
        else:
            at.append(mul(i, tirx.Select(tirx.EQ(i64(dim), i64(1)), i64(0), i64(1))))
    return low.at(source, at)


def _concat(low: ElementReader, node: Node, index: Index) -> Expr:
    axis = concat_axis(node)
    begins: list[Expr] = [i64(0)]
    for x in node.inputs:
        begins.append(add(begins[-1], x.shape[axis]))

    def piece(k: int) -> Expr:
        at = list(index)
        at[axis] = at[axis] - begins[k] if k else at[axis]
        here = index[axis] >= begins[k]
        if k + 1 < len(node.inputs):
            here = tirx.And(here, index[axis] < begins[k + 1])
        return low.guarded_at(node.inputs[k], at, here)

    value = piece(len(node.inputs) - 1)
    for k in reversed(range(len(node.inputs) - 1)):
        value = tirx.if_then_else(index[axis] < begins[k + 1], piece(k), value)
    return value


def slice_bounds(node: Node) -> list[tuple[int, Expr, Expr]]:
    """Return (axis, begin, stride) for each sliced axis of a ``strided_slice``.

    ``begin`` is clamped as in NumPy, unless the operator assumes that it is in bounds.
    """
    axes, begin, _, strides = (*node.prims, None)[:4] if len(node.prims) == 3 else node.prims
    source = node.inputs[0]
    rank = len(source.shape)
    result = []
    for k, axis_expr in enumerate(axes):
        axis = int(axis_expr.value) % rank
        stride = i64(1) if strides is None else strides[k]
        result.append((axis, _begin(node, begin[k], source.shape[axis], stride), stride))
    return result


def _begin(node: Node, begin: Expr, dim: Expr, stride: Expr) -> Expr:
    if node.attrs.get("assume_inbound"):
        return begin
    literal, step = static_dim(begin), static_dim(stride)
    forward = step is None or step > 0
    if literal is not None and literal < 0:
        begin, literal = i64(dim) + literal, None
    if literal == 0 and forward:
        return i64(0)
    if forward:
        return tirx.min(tirx.max(begin, i64(0)), i64(dim))
    return tirx.min(tirx.max(begin, i64(-1)), i64(dim) - 1)


def _strided_slice(low: ElementReader, node: Node, index: Index) -> Expr:
    at = list(index)
    for axis, begin, stride in slice_bounds(node):
        at[axis] = add(begin, mul(at[axis], stride))
    return low.at(node.inputs[0], at)


def packed_row(low: ElementReader, node: Node, item: Expr, position: Expr) -> Expr:
    """Return the row of packed data that holds ``position`` of an item.

    A kernel that computes one item reads only positions inside it. Other kernels may read positions
    after the end of an item; the row returned for these is arbitrary, but in bounds.
    """
    data, offsets = node.inputs
    here = low.item_of(offsets)
    if here is not None:
        return add(here[1], position)
    rows = data.shape[0] if node.op == UNPACK else node.shape[0]
    return tirx.min(*same_lanes(add(low.at(offsets, [item]), position), i64(rows) - 1))


def _unpack(low: ElementReader, node: Node, index: Index) -> Expr:
    row = packed_row(low, node, index[0], index[1])
    return low.at(node.inputs[0], [row, *index[2:]])


def _pack(low: ElementReader, node: Node, index: Index) -> Expr:
    padded, offsets = node.inputs
    here = low.item_of(offsets)
    if here is None:
        raise Unsupported("rows are packed only by the kernel that computes them")
    item, first = here
    return low.at(padded, [item, add(index[0], -first), *index[1:]])


COUNTED = "fast"  # negative positions count from the end; positions out of bounds are clamped


def _clamp(position: Expr, extent: Size, mode: str) -> Expr:
    """Return ``position`` mapped into the axis as ``mode`` defines; an empty axis is never read."""
    position, extent, zero, one = same_lanes(cast(position, "int64"), i64(extent), i64(0), i64(1))
    last = tirx.max(extent, one) - one
    if mode == "wrap":
        return integers.floor_mod(position, extent)
    if mode != "clip":
        position = tirx.Select(position < zero, position + extent, position)
    return tirx.max(tirx.min(position, last), zero)


def _take(low: ElementReader, node: Node, index: Index) -> Expr:
    data, picks = node.inputs
    mode, axis = node.attrs.get("mode") or "clip", node.attrs["axis"]
    picks_rank = len(picks.shape)
    if axis is None:
        flat = _clamp(low.at(picks, list(index)), product(data.shape), mode)
        return low.at(data, low.space.split(_named(low, flat), data.shape))
    axis %= len(data.shape)
    chosen = low.at(picks, list(index)[axis : axis + picks_rank])
    row = _named(low, _clamp(chosen, data.shape[axis], mode))
    return low.at(data, [*index[:axis], row, *index[axis + picks_rank :]])


def _named(low: ElementReader, value: Expr) -> Expr:
    return value if low.in_guard else low.settle("row", value)


def _gather_elements(low: ElementReader, node: Node, index: Index) -> Expr:
    data, picks = node.inputs
    axis = (node.attrs["axis"] or 0) % len(data.shape)
    at = list(index)
    at[axis] = _named(low, _clamp(low.at(picks, list(index)), data.shape[axis], COUNTED))
    return low.at(data, at)


def _gather_nd(low: ElementReader, node: Node, index: Index) -> Expr:
    data, picks = node.inputs
    batch = node.attrs.get("batch_dims") or 0
    lead = len(picks.shape) - 1
    depth = static_dim(picks.shape[-1])
    if depth is None:
        raise Unsupported("gather_nd: the last dim of the indices must be known at compile time")
    head = list(index)[:lead]
    at = list(index)[:batch]
    for k in range(depth):
        position = low.at(picks, [*head, i64(k)])
        at.append(_named(low, _clamp(position, data.shape[batch + k], COUNTED)))
    return low.at(data, [*at, *index[lead:]])


def _arange(low: ElementReader, node: Node, index: Index) -> Expr:
    start, _, step = (_prim(p) for p in node.prims)
    if is_float(node.dtype):
        first, at, by = same_lanes(*(cast(x, node.dtype) for x in (start, index[0], step)))
        return first + at * by
    return cast(add(cast(start, "int64"), mul(index[0], cast(step, "int64"))), node.dtype)


def _full(low: ElementReader, node: Node, index: Index) -> Expr:
    fill = node.inputs[0]
    return cast(low.at(fill, [i64(0)] * len(fill.shape)), node.dtype)


def _shape_to_tensor(low: ElementReader, node: Node, index: Index) -> Expr:
    dims = node.prims[0]
    value = i64(dims[-1])
    for k in reversed(range(len(dims) - 1)):
        value = tirx.Select(tirx.EQ(index[0], i64(k)), i64(dims[k]), value)
    return cast(value, node.dtype)


def _pad(low: ElementReader, node: Node, index: Index) -> Expr:
    widths, source = node.attrs["pad_width"], node.inputs[0]
    mode = node.attrs.get("pad_mode") or "constant"
    if mode != "constant":
        return low.at(source, _mirrored(low, node, index, mode))
    inside: Expr | None = None
    at: list[Expr] = []
    for axis, dim in enumerate(source.shape):
        before, after = widths[2 * axis], widths[2 * axis + 1]
        position = index[axis] - before if before else index[axis]
        at.append(position)
        tests = ([position >= 0] if before else []) + ([position < i64(dim)] if after else [])
        for test in tests:
            inside = test if inside is None else tirx.And(inside, test)
    if inside is None:
        return low.at(source, at)
    fill = const(node.attrs.get("pad_value") or 0, node.dtype)
    return tirx.if_then_else(inside, low.guarded_at(source, at, inside), fill)


def _mirrored(low: ElementReader, node: Node, index: Index, mode: str) -> list[Expr]:
    """Return the source index for a padding mode that copies elements; the index is in bounds."""
    position = _MIRRORS.get(mode)
    if position is None:
        raise Unsupported(f"pad mode {mode!r} is not supported")
    widths, at = node.attrs["pad_width"], list(index)
    for axis, dim in enumerate(node.inputs[0].shape):
        before, after = widths[2 * axis], widths[2 * axis + 1]
        if before or after:
            at[axis] = _named(low, position(index[axis] - before, i64(dim)))
    return at


def _reflect(position: Expr, dim: Expr) -> Expr:
    period = tirx.max((dim - 1) * 2, i64(1))
    step = tirx.floormod(position, period)
    return tirx.min(step, tirx.max(period - step, i64(0)))


def _symmetric(position: Expr, dim: Expr) -> Expr:
    period = tirx.max(dim * 2, i64(1))
    step = tirx.floormod(position, period)
    return tirx.min(step, period - 1 - step)


_MIRRORS: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "replicate": lambda p, dim: tirx.max(tirx.min(p, dim - 1), i64(0)),
    "reflect": _reflect,
    "symmetric": _symmetric,
    "circular": lambda p, dim: tirx.floormod(p, tirx.max(dim, i64(1))),
}


def _flip(low: ElementReader, node: Node, index: Index) -> Expr:
    axis = node.attrs["axis"] % len(node.shape)
    at = list(index)
    at[axis] = i64(node.shape[axis]) - 1 - at[axis]
    return low.at(node.inputs[0], at)


def _tile(low: ElementReader, node: Node, index: Index) -> Expr:
    source = node.inputs[0]
    trailing = list(index)[len(index) - len(source.shape) :]
    at = [
        i64(0) if is_one(d) else i if low.solver.known_eq(d, o) else tirx.floormod(i, i64(d))
        for i, d, o in zip(trailing, source.shape, node.shape[-len(source.shape) :], strict=True)
    ]
    return low.at(source, at)


def _repeat(low: ElementReader, node: Node, index: Index) -> Expr:
    axis, times = node.attrs["axis"], node.attrs["repeats"]
    source = node.inputs[0]
    if axis is None:
        flat = tirx.floordiv(index[0], i64(times))
        return low.at(source, low.space.split(flat, source.shape))
    at = list(index)
    axis %= len(at)
    at[axis] = tirx.floordiv(at[axis], i64(times))
    return low.at(source, at)


def _one_hot(low: ElementReader, node: Node, index: Index) -> Expr:
    axis = node.attrs["axis"] % len(node.shape)
    at = [i for k, i in enumerate(index) if k != axis]
    on, off = (cast(_prim(p), node.dtype) for p in node.prims[:2])
    picked = low.at(node.inputs[0], at)
    return tirx.Select(tirx.EQ(cast(picked, "int64"), index[axis]), on, off)


def _triangle(keep: Callable[[Expr, Expr], Expr]) -> Rule:
    def rule(low: ElementReader, node: Node, index: Index) -> Expr:
        k = _prim(node.prims[0]) if node.prims else i64(0)
        value = low.at(node.inputs[0], index)
        return tirx.Select(keep(index[-1] - index[-2], k), value, const(0, node.dtype))

    return rule


def _power(low: ElementReader, node: Node, index: Index) -> Expr:
    base, exponent = same_lanes(*_operands(low, node, index))
    if is_float(node.dtype):
        return functions.MATH["power"](base, exponent)
    return _integer_power(low, base, exponent)


def _integer_power(low: ElementReader, base: Expr, exponent: Expr) -> Expr:
    """Return an integer power by repeated squaring.

    A result that overflows wraps around. For a negative exponent the result is the power of ``1 /
    base`` rounded towards zero. The steps are statements: in expressions, TVM's analyzer would
    expand each square into its factors.
    """
    if low.in_guard:
        raise Unsupported("an integer power in a conditional expression is not supported")
    base, exponent = low.settle("base", base), low.settle("exponent", exponent)
    block, lanes, dtype = low.block, lanes_of(base), dtype_of(base)
    element = element_dtype(base)
    zero, one = const(0, dtype), const(1, dtype)
    at = ramp(i64(0), lanes) if lanes > 1 else i64(0)
    total, square, rest = (block.alloc(n, lanes, element) for n in ("total", "square", "rest"))
    block.store(total, at, one)
    block.store(square, at, base)
    block.store(rest, at, tirx.max(exponent, zero))
    with block.loop("bit", int(tvm.DataType(element).bits)):
        odd = tirx.NE(tirx.bitwise_and(rest[at], one), zero)
        times = integers.multiply(total[at], square[at])
        block.store(total, at, tirx.Select(odd, times, total[at]))
        block.store(square, at, integers.multiply(square[at], square[at]))
        block.store(rest, at, tirx.shift_right(rest[at], one))
    if element.startswith("u"):
        return total[at]
    unit = tirx.Or(tirx.EQ(base, one), tirx.EQ(base, const(-1, dtype)))
    odd = tirx.NE(tirx.bitwise_and(exponent, one), zero)
    inverse = tirx.Select(unit, tirx.Select(odd, base, one), zero)
    return tirx.Select(exponent < zero, inverse, total[at])


def _exp(low: ElementReader, node: Node, index: Index) -> Expr:
    """Return an exponential, with fewer operations if the operand is known to be at most 0."""
    fn = _EXP_NONPOSITIVE if is_below_maximum(node.inputs[0]) else UNARY["exp"]
    return elementwise(fn)(low, node, index)


def _subtract(low: ElementReader, node: Node, index: Index) -> Expr:
    """Return ``x - y``; ``x - max(x)`` by :func:`difference`, so that no element is positive."""
    x, most = node.inputs
    while most.cls is OpClass.VIEW:
        most = most.inputs[0]
    below = is_float(node.dtype) and most.op == "relax.max" and most.inputs[0] is x
    return elementwise(difference if below else BINARY["subtract"])(low, node, index)


_EXP_NONPOSITIVE = native_on_device("exp", functions.exp_nonpositive)


def is_below_maximum(node: Node) -> bool:
    """Return whether ``node`` is ``x - max(x)`` with the reduced axes kept.

    If so, no element is positive; some elements are NaN if the maximum is NaN or infinite.
    """
    if node.op != "relax.subtract":
        return False
    x, most = node.inputs
    return most.op == "relax.max" and most.inputs[0] is x and len(most.shape) == len(x.shape)


ELEMENTS: Mapping[str, Rule] = {
    **{f"relax.{name}": elementwise(fn) for name, fn in {**BINARY, **UNARY}.items()},
    **{f"disc.{name}": elementwise(UNARY[name]) for name in FUNCTIONS},
    "relax.exp": _exp,
    "relax.round": rounded,
    "relax.subtract": _subtract,
    "relax.power": _power,
    "relax.clip": _clip,
    "relax.astype": converted,
    REINTERPRET: _reinterpret,
    DEQUANTIZE: _dequantize,
    "relax.reshape": _reshape,
    "relax.expand_dims": _reshape,
    "relax.squeeze": _reshape,
    "relax.flatten": _reshape,
    "relax.permute_dims": _permute,
    "relax.broadcast_to": _broadcast_to,
    "relax.concat": _concat,
    UNPACK: _unpack,
    PACK: _pack,
    "relax.strided_slice": _strided_slice,
    "relax.take": _take,
    "relax.gather_elements": _gather_elements,
    "relax.gather_nd": _gather_nd,
    "relax.arange": _arange,
    "relax.full": _full,
    "relax.zeros": lambda low, node, index: const(0, node.dtype),
    "relax.ones": lambda low, node, index: const(1, node.dtype),
    "relax.shape_to_tensor": _shape_to_tensor,
    "relax.nn.pad": _pad,
    "relax.flip": _flip,
    "relax.tile": _tile,
    "relax.repeat": _repeat,
    "relax.one_hot": _one_hot,
    "relax.tril": _triangle(lambda d, k: d <= k),
    "relax.triu": _triangle(lambda d, k: d >= k),
}

__all__ = [
    "ELEMENTS",
    "Rule",
    "cast",
    "elementwise",
    "is_below_maximum",
    "is_float",
    "reshape_index",
    "slice_bounds",
]
