"""Converters of operators that rearrange or select elements."""

from __future__ import annotations

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Convert, Row
from tvm_disc.typing import Array


def _blocks(name: str) -> Convert:
    return lambda n: op(
        name, n[0], block_size=int(n.required("blocksize")), mode=str(n.attr("mode", "DCR"))
    )


def _reverse_sequence(n: OnnxNode) -> Expr:
    axes = {"seq_axis": int(n.attr("time_axis", 0)), "batch_axis": int(n.attr("batch_axis", 1))}
    return op("reverse_sequence", n[0], n.cast(n[1], "int64"), **axes)


def _trilu(n: OnnxNode) -> Expr:
    """Convert Trilu. If the diagonal is unknown at compile time or the dtype is bool, a mask
    selects the elements.
    """
    x, upper = n[0], bool(n.attr("upper", 1))
    k: int | Array | None = 0 if n.get(1) is None else n.known(n[1])
    if k is not None and n.dtype(x) != "bool":
        number = int(k if isinstance(k, int) else k.reshape(-1)[0])
        return op("trilu", x, n.scalar(max(-(1 << 31), min(number, 1 << 31))), upper=upper)
    place = n.scalar(0) if n.get(1) is None else n.reshape(n.cast(n[1], "int64"), [])
    rows, columns = (n.arange(n.size(x, a)) for a in (-2, -1))
    ahead = columns - n.expand(rows, 1)
    inside = ahead >= place if upper else ahead <= place
    return n.where(inside, x, n.like(0, x))


def _center_crop_pad(n: OnnxNode) -> Expr:
    """Convert CenterCropPad: crop or pad each axis equally on both sides.

    If the difference is odd, one element more is cropped or padded at the end.
    """
    x, axes = n[0], n.axes_of(n[0])
    wanted = n.sizes_in(n.of_length(n[1], len(axes), "the shape"), "the shape")
    for axis, size in zip(axes, wanted, strict=True):
        x = _centred(n, x, axis, size)
    return x


def _centred(n: OnnxNode, x: Expr, axis: int, wanted: Dim) -> Expr:
    """Return ``x`` with one axis cropped or padded to length ``wanted``.

    Element i is input element i + shift, or 0 if there is no such element.
    """
    size = n.scalar(n.size(x, axis))
    more = size - n.scalar(wanted)
    cut, added = n.maximum(more, 0), n.maximum(-more, 0)
    shift = cut // 2 - added // 2
    place = n.arange(wanted) + shift
    inside = (place >= 0) & (place < size)
    read = n.take(x, n.where(inside, place, 0), axis)
    return n.where(n.along(inside, axis, n.rank(x)), read, n.like(0, x))


def _compress(n: OnnxNode) -> Expr:
    """Convert Compress; elements beyond the condition are dropped.

    A condition longer than the axis is cut to the axis, as in ONNX Runtime.
    """
    x, cond = n[0], n[1]
    axis = n.attr("axis")
    if axis is None:
        x, axis = n.reshape(x, [-1]), 0
    axis = n.axis(int(axis), n.rank(x))
    length, size = n.formulas(cond)[0], n.formulas(x)[axis]
    short = isinstance(length, int) and isinstance(size, int) and length <= size
    if not (short or n.same(length, size)):
        cond = n.slice(cond, 0, 0, n.size(x, axis))
    found = n.squeeze(op("argwhere", cond), [1])
    return n.take(x, found, axis)


def _non_zero(n: OnnxNode) -> Expr:
    """Convert NonZero: return the indices of nonzero elements, ``[rank, count]``."""
    x = n[0]
    if n.rank(x) == 0:
        raise Unsupported("expected rank 1 or more, found a tensor of rank 0")
    return n.cast(n.transpose(op("argwhere", x), [1, 0]), "int64")


ROWS: tuple[Row, ...] = (
    Row("DepthToSpace", _blocks("nn.depth_to_space")),
    Row("SpaceToDepth", _blocks("nn.space_to_depth")),
    Row("ReverseSequence", _reverse_sequence),
    Row("Trilu", _trilu),
    Row("CenterCropPad", _center_crop_pad),
    Row("Compress", _compress),
    Row("NonZero", _non_zero),
)
