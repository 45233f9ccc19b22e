"""Converters of shapes: reshapes, broadcasts, slices, padding, concatenation, ranges."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_disc.frontends.calc import Dim, Expr, op
from tvm_disc.frontends.stablehlo.node import StableHLONode
from tvm_disc.frontends.stablehlo.table import OperationRow


def result_dims(n: StableHLONode, shape: int) -> list[Dim]:
    """Return the dims of the result; dynamic ones are read from operand ``shape``."""
    return n.completed(n.out_dims(), n.entries(shape, "a shape"))


def broadcast_to(n: StableHLONode, x: Expr, axes: Sequence[int], dims: Sequence[Dim]) -> Expr:
    """Return ``x`` broadcast to the shape ``dims``; its axis i becomes axis ``axes[i]``."""
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    x = n.transpose(x, order)
    own = dict(zip(sorted(axes), n.sizes(x), strict=True))
    if sorted(axes) != list(range(len(dims) - len(own), len(dims))):
        x = n.reshape(x, [own.get(a, 1) for a in range(len(dims))])
    return n.broadcast(x, dims)


def _broadcast_in_dim(n: StableHLONode, dims: Sequence[Dim]) -> Expr:
    return broadcast_to(n, n[0], n.ints("broadcast_dimensions"), dims)


def _broadcast(n: StableHLONode) -> Expr:
    """Convert broadcast, which prepends axes."""
    dims = [*n.ints("broadcast_sizes"), *n.sizes(n[0])]
    first = len(dims) - n.rank(n[0])
    return broadcast_to(n, n[0], range(first, len(dims)), dims)


def _slice(n: StableHLONode) -> Expr:
    x = n[0]
    ends = zip(n.ints("start_indices"), n.ints("limit_indices"), n.ints("strides"), strict=True)
    for axis, (begin, end, step) in enumerate(ends):
        if (begin, step) != (0, 1) or end != n.literals(x)[axis]:
            x = n.slice(x, axis, begin, end, step)
    return x


def _real_dynamic_slice(n: StableHLONode) -> Expr:
    """Convert a slice whose limits are operands.

    If a dim of the result is static, the slice has this length, and the end is not read.
    """
    x, want = n[0], n.out_dims()
    begins, ends, steps = (n.entries(k, "the limits of a slice") for k in (1, 2, 3))
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        size = n.size(x, axis)
        if step == 1 and begin == 0 and n.equal_dims(end, size):
            continue
        known, static = want[axis], isinstance(begin, int) and isinstance(end, int)
        if isinstance(step, int) and (known is None or (static and step > 0)):
            x = n.slice(x, axis, begin, end, step)
        else:
            count = _count(n, begin, end, step) if known is None else known
            x = n.take(x, _places(n, begin, count, step), axis)
    return x


def _count(n: StableHLONode, begin: Dim, end: Dim, step: Dim) -> Dim:
    """Return the number of elements of the slice ``begin:end:step``."""
    step = n.dim("maximum", step, 1)
    last = n.dim("add", n.dim("subtract", end, begin), n.dim("subtract", step, 1))
    return n.length(n.scalar(n.dim("maximum", n.dim("floor_divide", last, step), 0)))


def _places(n: StableHLONode, begin: Dim, count: Dim, step: Dim = 1) -> Expr:
    """Return the indices begin, begin + step, ..., ``count`` in all."""
    made = n.arange(count)
    if not (isinstance(step, int) and step == 1):
        made = made * n.scalar(step)
    return made + n.scalar(begin)


def starts(n: StableHLONode, first: int, x: Expr, sizes: Sequence[Dim]) -> list[Dim]:
    """Return the start indices of a slice of ``sizes``, clipped so that it is inside ``x``.

    The operands from ``first`` on are the start indices.
    """
    found: list[Dim] = []
    for axis, size in enumerate(sizes):
        start = n.cast(n[first + axis], "int64")
        last = n.dim("subtract", n.size(x, axis), size)
        known = n.known(start)
        if (known is not None and known.item() <= 0) or (isinstance(last, int) and last == 0):
            found.append(0)
        else:
            found.append(n.maximum(n.minimum(start, n.scalar(last)), n.like(0, start)))
    return found


def _dynamic_slice(n: StableHLONode) -> Expr:
    x, sizes = n[0], n.ints("slice_sizes")
    for axis, (begin, size) in enumerate(zip(starts(n, 1, x, sizes), sizes, strict=True)):
        if n.literals(x)[axis] != size:
            x = n.take(x, _places(n, begin, size), axis)
    return x


def _update_slice(n: StableHLONode) -> Expr:
    """Convert dynamic_update_slice to a select between the update and the operand."""
    x, update = n[0], n[1]
    if n.walk.stacks:
        row: Expr | None = n.walk.stacks[-1].write(x, update, n.inputs[2:])
        if row is not None:
            return row
    sizes = n.sizes(update)
    begins = starts(n, 2, x, sizes)
    dims = zip(n.formulas(x), n.formulas(update), strict=True)
    places = [axis for axis, (a, b) in enumerate(dims) if not n.same(a, b)]
    if not places:
        return update
    if 0 in sizes:
        return x
    inside, new = None, update
    for a in places:
        at = n.along(n.arange(n.size(x, a)), a, n.rank(x))
        here = at - n.scalar(begins[a])
        hit = (here >= 0) & (here < n.scalar(sizes[a]))
        inside = hit if inside is None else inside & hit
        last = n.dim("maximum", n.dim("subtract", sizes[a], 1), 0)
        flat = n.arange(n.size(x, a)) - n.scalar(begins[a])
        limited = n.maximum(n.minimum(flat, n.scalar(last)), n.like(0, flat))
        update = n.take(update, limited, a)
    assert inside is not None
    first = n.reshape(n.vector([begins[a] for a in places]), [1, len(places)])
    return n.written(n.where(inside, update, x), (x, new, first), places)


def padded(
    n: StableHLONode,
    x: Expr,
    fill: Expr,
    low: Sequence[Dim],
    high: Sequence[Dim],
    inner: Sequence[Dim],
) -> Expr:
    """Return ``x`` padded with ``fill``; negative widths ``low`` and ``high`` crop.

    ``inner`` is the number of fills between adjacent elements, for each axis.
    """
    for axis, gap in enumerate(inner):
        if not (isinstance(gap, int) and gap == 0):
            x = _spread(n, x, fill, axis, gap)
    cut, pads = [], []
    for a, b in zip(low, high, strict=True):
        cut.append((_negative(n, a), _negative(n, b)))
        pads.append((_positive(n, a), _positive(n, b)))
    for axis, (begin, end) in enumerate(cut):
        if not (begin == 0 and end == 0 and isinstance(begin, int) and isinstance(end, int)):
            size = n.size(x, axis)
            x = n.slice(x, axis, begin, n.dim("subtract", size, end))
    return n.pad(x, pads, fill)


def _negative(n: StableHLONode, width: Dim) -> Dim:
    """Return the number of elements that a padding width crops: max(-width, 0)."""
    return n.dim("maximum", n.dim("subtract", 0, width), 0)


def _positive(n: StableHLONode, width: Dim) -> Dim:
    if not isinstance(width, int) and n.infer.is_natural(n.vector([width])):
        return width
    return n.dim("maximum", width, 0)


def _spread(n: StableHLONode, x: Expr, fill: Expr, axis: int, gap: Dim) -> Expr:
    """Return ``x`` with ``gap`` fills between adjacent elements of an axis."""
    size = n.size(x, axis)
    wide = n.expand(x, axis + 1)
    widths: list[tuple[Dim, Dim]] = [(0, 0)] * n.rank(wide)
    widths[axis + 1] = (0, gap)
    wide = n.pad(wide, widths, fill)
    dims = n.sizes(x)
    dims[axis] = n.dim("multiply", size, n.dim("add", gap, 1))
    last = n.dim("maximum", n.dim("subtract", dims[axis], gap), 0)
    return n.slice(n.reshape(wide, dims), axis, 0, last)


def _iota(n: StableHLONode, dims: Sequence[Dim]) -> Expr:
    axis = int(n.attr("iota_dimension"))
    line = n.arange(dims[axis], n.out_dtype())
    return broadcast_to(n, line, [axis], dims)


def _reverse(n: StableHLONode) -> Expr:
    x = n[0]
    for axis in n.ints("dimensions"):
        x = op("reverse", x, axis=axis)
    return x


def _set_size(n: StableHLONode) -> Expr:
    """Convert set_dimension_size to a slice, because programs have no padded dims."""
    return n.slice(n[0], int(n.attr("dimension")), 0, n.length(n[1]))


_PADS = ("edge_padding_low", "edge_padding_high", "interior_padding")

ROWS: tuple[OperationRow, ...] = (
    OperationRow("reshape", lambda n: n.reshape(n[0], n.static_dims())),
    OperationRow("dynamic_reshape", lambda n: n.reshape(n[0], result_dims(n, 1))),
    OperationRow("broadcast_in_dim", lambda n: _broadcast_in_dim(n, n.static_dims())),
    OperationRow("dynamic_broadcast_in_dim", lambda n: _broadcast_in_dim(n, result_dims(n, 1))),
    OperationRow("broadcast", _broadcast),
    OperationRow("transpose", lambda n: n.transpose(n[0], n.ints("permutation"))),
    OperationRow("concatenate", lambda n: n.concat(n.inputs, int(n.attr("dimension")))),
    OperationRow("slice", _slice),
    OperationRow("real_dynamic_slice", _real_dynamic_slice),
    OperationRow("dynamic_slice", _dynamic_slice),
    OperationRow("dynamic_update_slice", _update_slice),
    OperationRow("pad", lambda n: padded(n, n[0], n[1], *map(n.ints, _PADS))),
    OperationRow(
        "dynamic_pad",
        lambda n: padded(n, n[0], n[1], *(n.entries(k, "padding") for k in (2, 3, 4))),
    ),
    OperationRow("reverse", _reverse),
    OperationRow("iota", lambda n: _iota(n, n.static_dims())),
    OperationRow("dynamic_iota", lambda n: _iota(n, result_dims(n, 0))),
    OperationRow(
        "get_dimension_size", lambda n: n.scalar(n.size(n[0], int(n.attr("dimension"))), "int32")
    ),
    OperationRow("set_dimension_size", _set_size),
)

__all__ = ["ROWS", "broadcast_to", "padded", "result_dims", "starts"]
