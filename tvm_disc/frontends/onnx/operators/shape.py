"""Converters of shapes, reshapes, broadcasts, concatenation, splits and creation of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.frontends.calc import Calc, Dim, Expr, const, is_float, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Row
from tvm_disc.frontends.onnx.tensors import array_of, dense_of, dtype_of
from tvm_disc.relay import expr as ast

FAR = 1 << 40  # longer than any axis


def _constant(n: OnnxNode) -> Expr:
    folder = n.graph.model.folder
    if "value" in n.attrs:
        return const(array_of(n.attrs["value"], folder))
    if "sparse_value" in n.attrs:
        return const(dense_of(n.attrs["sparse_value"], folder))
    for name, dtype in (("value_float", "float32"), ("value_int", "int64")):
        for attr in (name, f"{name}s"):
            if attr in n.attrs:
                return const(n.attrs[attr], dtype)
    raise Unsupported(
        "expected a constant of a tensor, numbers or one number, found "
        f"{', '.join(n.attrs) or 'no attribute'}"
    )


def _shape_part(n: OnnxNode) -> Expr:
    rank = n.rank(n[0])
    first, last, _ = slice(n.attr("start", 0), n.attr("end")).indices(rank)
    if (first, last) == (0, rank):
        return n.shape(n[0])
    return n.slice(n.shape(n[0]), 0, first, max(first, last))


# -- reshape -----------------------------------------------------------------------------------


def _reshape_by_attribute(n: OnnxNode) -> Expr:
    if n.get(1) is None:
        return op("reshape", n[0], newshape=tuple(n.required("shape")), allowzero=False)
    return reshaped(n)


def reshaped(n: OnnxNode) -> Expr:
    """Return input 0 reshaped to input 1, in which 0 copies a dim (unless ``allowzero`` is set) and
    -1 is inferred.
    """
    x, shape, zero = n[0], n.entries(n[1], "the new shape"), bool(n.attr("allowzero", 0))
    count = n.count(shape, "the new shape")
    if n.infer.is_formula(shape):
        codes = n.known(shape)
        if codes is not None:
            return op("reshape", x, newshape=tuple(int(c) for c in codes), allowzero=zero)
        return op("dyn.reshape", x, shape, newshape=(), allowzero=zero)
    return n.reshape(x, _decoded(n, x, n.cast(shape, "int64"), count, zero))


def _decoded(n: OnnxNode, x: Expr, codes: Expr, count: int, zero: bool) -> list[Dim]:
    """Return the new dims of Reshape, for a shape operand ``codes`` unknown at compile time.

    In it, 0 copies a dim (unless ``zero``), and -1 is inferred from the number of elements.
    """
    if not zero:
        own = n.concat([n.shape(x), const(np.full(count, -2), "int64")], 0)
        codes = n.where(n.equal(codes, 0), n.slice(own, 0, 0, count), codes)
    inferred = n.equal(codes, -1)  # numbers below -1 remain, and are refused as negative sizes
    given = n.where(inferred, 1, codes)
    rest = n.scalar(n.total(x)) // n.maximum(n.reduce("prod", given, [0]), 1)
    found = n.where(inferred, rest, codes)
    return n.lengths([n.item(found, k) for k in range(count)])


def _flatten(n: OnnxNode) -> Expr:
    sizes = n.sizes(n[0])
    axis = int(n.attr("axis", 1))
    axis = axis + len(sizes) if axis < 0 else axis
    return n.reshape(n[0], [n.product(sizes[:axis]), n.product(sizes[axis:])])


def axes_of(n: OnnxNode) -> list[int] | None:
    """Return the axes of a node, or None if they are omitted.

    They are input 1 from opset 13 on, and an attribute in earlier opsets.

    Raises:
        Unsupported: the axes are unknown at compile time.
    """
    given = n.get(1) if n.opset >= 13 else None
    found = n.attr("axes") if given is None else n.numbers(given, "the axes")
    return None if found is None else [int(a) for a in found]


def _unsqueeze(n: OnnxNode) -> Expr:
    x = n[0]
    if n.opset >= 13 and n.known(n[1]) is None:
        return _unsqueezed_at(n, x, n.entries(n[1], "the axes", lambda rank: rank - n.rank(x)))
    axes = axes_of(n) or []
    rank = n.rank(x) + len(axes)
    found = sorted(n.axis(a, rank, "the result") for a in axes)
    if len(set(found)) < len(found):
        raise TypeMismatch(f"axes {axes}: an axis occurs twice")
    for a in found:
        x = n.expand(x, a)
    return x


def flags_of(n: Calc, axes: Expr, rank: int) -> Expr:
    """Return a bool vector ``[rank]`` that is true for ``axes``, which are unknown until a call."""
    places = n.arange(rank)
    wide = n.cast(axes, "int64")
    wide = n.where(wide < 0, wide + rank, wide)
    hits = n.equal(n.expand(n.reshape(wide, [-1]), 1), places)
    return n.reduce("sum", n.cast(hits, "int64"), [0]) > 0


def _unsqueezed_at(n: OnnxNode, x: Expr, axes: Expr) -> Expr:
    rank = n.rank(x) + n.count(axes, "the axes")
    new = flags_of(n, axes, rank)
    before = op("cumsum", n.cast(new, "int64"), axis=0, dtype="int64")
    own = n.concat([n.shape(x), const([1], "int64")], 0)
    place = n.clip(n.arange(rank) - before, 0, n.rank(x))
    dims = n.where(new, 1, n.take(own, place, 0))
    return n.reshape(x, n.lengths([n.item(dims, k) for k in range(rank)]))


def _squeeze(n: OnnxNode) -> Expr:
    x = n[0]
    if n.opset >= 13 and n.get(1) is not None and n.known(n[1]) is None:
        return n.reshape(x, kept_dims(n, x, dropped(n, x, n[1])))
    axes = axes_of(n)
    if axes is None:
        # Only dims that are known to be 1 are removed. In ONNX the rank could change from call to
        # call, as an unknown dim may be 1.
        return op("squeeze", x, axis=None)
    return n.squeeze(x, [n.axis(a, n.rank(x)) for a in axes])


def dropped(n: OnnxNode, x: Expr, axes: Expr) -> Expr:
    """Return the axes that Squeeze removes; if their number is unknown, it follows from the
    declared rank.
    """
    return n.entries(axes, "the axes", lambda rank: n.rank(x) - rank)


def kept_dims(n: Calc, x: Expr, axes: Expr) -> list[Dim]:
    """Return the dims of ``x`` except those of ``axes``, which are unknown at compile time."""
    rank = n.rank(x)
    left = rank - n.count(axes, "the axes")
    gone = flags_of(n, axes, rank)
    places = n.where(gone, const(FAR, "int64"), n.arange(rank))
    order = op("sort", places, axis=0, is_ascend=True, dtype="int64")
    dims = n.take(n.shape(x), n.slice(order, 0, 0, left), 0)
    return n.lengths([n.item(dims, k) for k in range(left)])


# -- broadcast, concatenation, split ------------------------------------------------------------


def _expand(n: OnnxNode) -> Expr:
    """Convert Expand, which broadcasts both shapes: a requested dim of 1 keeps the input's dim."""
    x = n[0]
    wanted = n.sizes_in(_target(n, x, n[1]), "the shape")
    have: list[Dim] = n.sizes(x)
    rank = max(len(wanted), len(have))
    ones: list[Dim] = [1] * rank
    wanted = ones[: rank - len(wanted)] + wanted
    have = ones[: rank - len(have)] + have
    return n.broadcast(x, [both_ways(n, d, w) for d, w in zip(have, wanted, strict=True)])


def _target(n: OnnxNode, x: Expr, shape: Expr) -> Expr:
    """Return the shape to which Expand broadcasts.

    If the length of ``shape`` is unknown and the declared rank of the result is that of ``x``, ones
    are prepended up to this rank.
    """
    if n.literals(shape) != [None] or n.declared() != n.rank(x):
        return n.entries(shape, "the shape")
    rank, count = n.rank(x), n.size(shape, 0)
    given = n.reshape(n.slice(shape, 0, 0, rank), [count])  # refuses a longer shape at run time
    missing = n.dim("subtract", rank, count)
    return n.concat([n.full(1, [missing], n.dtype(shape)), given], 0)


def both_ways(n: Calc, dim: Dim, wanted: Dim) -> Dim:
    """Return the dim to which ``dim`` and the requested dim ``wanted`` broadcast."""
    for one, other in ((dim, wanted), (wanted, dim)):
        if isinstance(one, int):
            if one == 1:
                return other
            if not isinstance(other, int) or other == 1:
                return one
    if isinstance(dim, int) and isinstance(wanted, int):
        if dim != wanted:
            raise TypeMismatch(f"a dim of {dim} cannot be broadcast to {wanted}")
        return dim
    more = n.scalar(dim) - n.scalar(wanted)
    if n.infer.is_natural(more) and not n.infer.is_natural(-more):
        # `wanted` is at most `dim`. The maximum would accept every such size, but only 1 and `dim`
        # are valid.
        return n.where(n.equal(n.scalar(wanted), 1), n.scalar(dim), n.scalar(wanted))
    return n.dim("maximum", dim, wanted)


def _transpose(n: OnnxNode) -> Expr:
    rank = n.rank(n[0])
    order = list(n.attr("perm", range(rank)[::-1]))
    if len(order) != rank:
        raise TypeMismatch(f"perm: expected {counted(rank, 'axis', 'axes')}, found {order}")
    return n.transpose(n[0], order)


def _concat(n: OnnxNode) -> Expr:
    axis = int(n.attr("axis", 1) if n.opset < 4 else n.required("axis"))
    return n.concat([n[k] for k in range(len(n))], axis)


def _split(n: OnnxNode) -> list[Expr]:
    x = n[0]
    axis = n.axis_of(x, 0)
    if n.get(1) is not None:
        lengths = n.reshape(n[1], [len(n.outputs)])
        return _exact_parts(n, x, n.sizes_in(lengths, "the lengths"), axis)
    if n.attr("split"):
        return _exact_parts(n, x, n.ints("split"), axis)
    return equal_parts(n, x, axis, int(n.attr("num_outputs", len(n.outputs))), n.opset >= 18)


def _exact_parts(n: OnnxNode, x: Expr, sizes: Sequence[Dim], axis: int) -> list[Expr]:
    """Return slices of the given lengths; the program checks that their sum is the axis' length."""
    cuts: list[Dim] = [0]
    for size in sizes:
        cuts.append(n.dim("add", cuts[-1], size))
    whole = n.scalar(n.size(x, axis))
    limits = whole, op("add", whole, n.scalar(1))
    what = "Split: the sum of the lengths"
    cuts[-1] = op("assert_inside", n.scalar(cuts[-1]), *limits, what=what, always=True)
    return [n.slice(x, axis, a, b) for a, b in pairwise(cuts)]


def equal_parts(n: Calc, x: Expr, axis: int, count: int, rest: bool) -> list[Expr]:
    """Return ``count`` slices of equal length; with ``rest`` the last one may be shorter.

    The program refuses a length for which the last slice would begin after the end, as ONNX
    Runtime does.
    """
    if count == 1:
        return [x]
    size = n.size(x, axis)
    if not rest or (isinstance(size, int) and size % count == 0):
        made = op("split", x, indices_or_sections=count, axis=axis)
        return [ast.TupleGetItem(made, k) for k in range(count)]
    part = n.dim("floor_divide", n.dim("add", size, count - 1), count)
    limits = n.scalar(0), op("add", n.scalar(size), n.scalar(1))
    last = n.scalar(n.dim("multiply", part, count - 1))
    what = "Split: the start of the last part"
    cuts: list[Dim] = [n.dim("multiply", part, k) for k in range(count - 1)]
    cuts += [op("assert_inside", last, *limits, what=what, always=True), size]
    return [n.slice(x, axis, a, b) for a, b in pairwise(cuts)]


def _tile(n: OnnxNode) -> Expr:
    x = n[0]
    times = n.of_length(n[1], n.rank(x), "repeats")
    known = n.known(times)
    if known is not None:
        return op("tile", x, reps=tuple(int(k) for k in known))
    return op("dyn.tile", x, n.cast(times, "int64"), reps=None)


# -- creation ----------------------------------------------------------------------------------


def _constant_of_shape(n: OnnxNode) -> Expr:
    given = n.attr("value")
    value = np.zeros(1, "float32") if given is None else array_of(given, n.graph.model.folder)
    dims = n.sizes_in(n.entries(n[0], "the shape"), "the shape")
    return n.full(value.reshape(-1)[0].item(), dims, str(value.dtype))


def _range(n: OnnxNode) -> Expr:
    dtype = n.dtype(n[0])
    bounds = [n.reshape(n[k], []) for k in range(3)]
    step = n.known(bounds[2])
    if not is_float(dtype) and (step is None or not step.any()):
        bounds = [n.cast(b, "float64") for b in bounds]
    return op("arange", *bounds, dtype=dtype)


def _eye_like(n: OnnxNode) -> Expr:
    x = n[0]
    dtype = dtype_of(int(n.attr("dtype"))) if n.attr("dtype") else n.dtype(x)
    rows, columns = (n.arange(n.size(x, a)) for a in range(2))
    ahead = n.expand(rows, 1) + int(n.attr("k", 0))
    return n.cast(n.equal(ahead, columns), dtype)


def spread(
    n: Calc, values: Sequence[object], axes: Sequence[int], rank: int, default: object
) -> list[Any]:
    """Return a list of ``rank`` values: ``values[i]`` for axis ``axes[i]``, else ``default``."""
    found = dict(zip((n.axis(a, rank) for a in axes), values, strict=True))
    return [found.get(a, default) for a in range(rank)]


ROWS: tuple[Row, ...] = (
    Row("Constant", _constant),
    Row("Shape", lambda n: n.shape(n[0])),
    Row("Shape", _shape_part, since=15),
    Row("Size", lambda n: n.scalar(n.total(n[0]))),
    Row("Reshape", _reshape_by_attribute),
    Row("Reshape", reshaped, since=5),
    Row("Flatten", _flatten),
    Row("Unsqueeze", _unsqueeze),
    Row("Squeeze", _squeeze),
    Row("Expand", _expand),
    Row("Transpose", _transpose),
    Row("Concat", _concat),
    Row("Split", _split),
    Row("Tile", _tile),
    Row("ConstantOfShape", _constant_of_shape),
    Row("Range", _range),
    Row("EyeLike", _eye_like),
)

__all__ = [
    "ROWS",
    "axes_of",
    "both_ways",
    "dropped",
    "equal_parts",
    "flags_of",
    "kept_dims",
    "spread",
]
