"""Converters of sorting, cumulative sums and argmax."""

from __future__ import annotations

from tvm_disc.frontends.calc import Dim, Expr, op, parts
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Convert, Row


def _top(n: OnnxNode, x: Expr, k: Dim) -> list[Expr]:
    axis = n.axis_of(x, -1)
    order: dict[str, object] = {
        "axis": axis,
        "is_ascend": not n.attr("largest", 1),
        "dtype": "int64",
    }
    if isinstance(k, int) and k > 0:
        x = op("assert_nonempty", x, axes=(axis,), what=f"TopK of k = {k}", least=k)
        return parts(op("topk", x, k=k, ret_type="both", **order), 2)
    most = op("add", n.scalar(n.size(x, axis)), n.scalar(1))
    k = op("assert_inside", n.scalar(k), n.scalar(0), most, what="TopK: k", always=True)
    # TopK is a slice of argsort if k may be 0: Relay's topk returns all elements for k = 0.
    places = n.slice(op("argsort", x, **order), axis, 0, k)
    return [op("gather", x, places, axis=axis), places]


def _arg(name: str) -> Convert:
    def convert(n: OnnxNode) -> Expr:
        found = op(
            name,
            n[0],
            axis=(n.axis_of(n[0], 0),),
            keepdims=bool(n.attr("keepdims", 1)),
            select_last_index=bool(n.attr("select_last_index", 0)),
        )
        return n.cast(found, "int64")

    return convert


def _running(name: str) -> Convert:
    """Return the converter of a cumulative operator.

    If the axis is unknown at compile time, the program computes the results for all axes and
    selects one.
    """

    def along(n: OnnxNode, x: Expr, axis: int) -> Expr:
        back = bool(n.attr("reverse", 0))
        x = op("reverse", x, axis=axis) if back else x
        made = op(name, x, axis=axis, dtype=n.dtype(x), exclusive=bool(n.attr("exclusive", 0)))
        return op("reverse", made, axis=axis) if back else made

    def convert(n: OnnxNode) -> Expr:
        x, rank = n[0], n.rank(n[0])
        known = n.known(n[1])
        if known is not None:
            return along(n, x, n.axis(int(known.reshape(-1)[0]), rank))
        at = n.reshape(n.cast(n[1], "int64"), [])
        found = along(n, x, 0)
        for axis in range(1, rank):
            here = n.equal(at, axis) | n.equal(at, axis - rank)
            found = n.where(here, along(n, x, axis), found)
        return found

    return convert


def _unique(n: OnnxNode) -> list[object]:
    x, ordered = n[0], bool(n.attr("sorted", 1))
    axis = n.attr("axis")
    if axis is not None and n.rank(x) > 1:
        return _unique_rows(n, x, n.axis(int(axis), n.rank(x)), ordered)
    made = parts(op("unique", n.reshape(x, [-1]), sorted=ordered, return_counts=True), 5)
    values, first, inverse, _, counts = made
    return [values, *(n.cast(t, "int64") for t in (first, inverse, counts))]


def _unique_rows(n: OnnxNode, x: Expr, axis: int, ordered: bool) -> list[object]:
    """Convert Unique along an axis: compare every slice with every other slice."""
    rank = n.rank(x)
    moved = n.move(x, axis, 0)
    many = n.size(x, axis)
    rows = n.reshape(moved, [many, n.product([n.size(x, a) for a in range(rank) if a != axis])])
    one, other = n.expand(rows, 1), n.expand(rows, 0)
    differ = n.not_equal(one, other)  # [many, many, elements]
    at = n.cast(op("argmax", n.cast(differ, "int8"), axis=(2,), keepdims=True), "int64")
    same = n.equal(n.reduce("sum", n.cast(differ, "int64"), [2]), 0)
    apart = n.cast(other < one, "int8")
    before = n.not_equal(n.squeeze(op("gather", apart, at, axis=2), [2]), 0)
    first = n.cast(op("argmax", n.cast(same, "int8"), axis=(1,)), "int64")
    heads = n.equal(first, n.arange(many))
    kept = n.squeeze(op("argwhere", heads), [1])
    if ordered:
        lower = before & n.expand(heads, 0)
        inverse = n.reduce("sum", n.cast(lower, "int64"), [1])
        kept = n.take(kept, op("argsort", n.take(inverse, kept, 0), axis=0, dtype="int64"), 0)
    else:
        running = op("cumsum", n.cast(heads, "int64"), axis=0, dtype="int64")
        inverse = n.take(running, first, 0) - 1
    counts = n.reduce("sum", n.cast(same, "int64"), [1])
    return [n.take(x, kept, axis), n.cast(kept, "int64"), inverse, n.take(counts, kept, 0)]


ROWS: tuple[Row, ...] = (
    Row("TopK", lambda n: _top(n, n[0], int(n.required("k")))),
    Row("TopK", lambda n: _top(n, n[0], n.length(n[1])), since=10),
    Row("ArgMax", _arg("argmax")),
    Row("ArgMin", _arg("argmin")),
    Row("CumSum", _running("cumsum")),
    Row("CumProd", _running("cumprod")),
    Row("Unique", _unique),
)
