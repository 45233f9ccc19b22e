"""Convolutions and pooling along the ragged axis.

An element of the result reads the rows of a window in its item, and a neutral element outside of
the item:

    y[j, out] = concat(tap 0, tap 1, tap 2)[j, 3 * in] @ weight[3 * in, out]
    tap k     = row begin[item] + stride * position + k * dilation - padding

If the convolution or pooling changes the length, the result has a derived dim (``derived.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.nodes import Node, const_node, static_dim
from tvm_disc.relay_passes.ragged.derived import length_reason
from tvm_disc.relay_passes.ragged.forms import Dense, Form, Packed, RaggedDim
from tvm_disc.relay_passes.ragged.items import lengths, starts
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import operand_expr
from tvm_disc.support.literals import as_literal
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr


@dataclass(frozen=True)
class _Window:
    """The rows that each element of a result reads, one per tap.

    Attributes:
        form: the data.
        dim: the dim of the result.
        size: the number of taps.
        stride: the distance between the windows of adjacent results, in elements.
        before: the padding before an item, in elements.
        apart: the dilation: the distance between adjacent taps.
    """

    form: Packed
    dim: RaggedDim
    size: int
    stride: int
    before: int
    apart: int

    def offset(self, k: int) -> int:
        """Return the position of tap k relative to stride * position of the result."""
        return k * self.apart - self.before


def convolution(values: Values, node: Node, forms: Sequence[Form]) -> Form | str:
    """Return the form of a convolution along the ragged axis, or why it cannot be ragged."""
    form, weight = forms
    kernel, size = node.inputs[1], static_dim(node.inputs[1].shape[2])
    plain = (node.attrs["data_layout"], node.attrs["kernel_layout"]) == ("NCW", "OIW")
    if not isinstance(form, Packed) or form.at != (0, 2) or not isinstance(weight, Dense):
        return "only its data may be ragged, along the axis of the window"
    if not plain or size is None or int(node.attrs["groups"]) != 1:
        return "expected one group, the layouts NCW and OIW, and a window of known size"
    window = _window(values, node, form, size)
    if isinstance(window, str):
        return window
    taps = [_tap(values, window, k, 0) for k in range(size)]
    columns, rows = i64(size) * form.node.shape[1], window.dim.rows
    wide = R.concat([operand_expr(t) for t in taps], 1)
    joined = values.emit(wide, [rows, columns], form.node)
    if kernel.value is not None:
        turned = np.ascontiguousarray(kernel.value.transpose(2, 1, 0))
        matrix = const_node(as_literal(turned.reshape(-1, len(kernel.value)), kernel.dtype))
    else:
        shape = [columns, node.shape[1]]
        matrix = values.shaped(values.permuted(weight.node, [2, 1, 0]), shape)
    call = R.matmul(operand_expr(joined), operand_expr(matrix))
    return Packed(values.emit(call, [rows, node.shape[1]], node), window.dim, form.at)


def pooling(values: Values, node: Node, forms: Sequence[Form]) -> Form | str:
    """Return the form of a max or average pooling of ragged data, or why it cannot be ragged."""
    [form] = forms
    if not isinstance(form, Packed) or form.at != (0, 2) or node.attrs["layout"] != "NCW":
        return "only its data may be ragged, along the axis of the window, in the layout NCW"
    largest, dtype = node.op == "relax.nn.max_pool1d", node.dtype
    if "float" not in dtype:
        return f"it pools {dtype}; only floats are supported"
    [size] = _numbers(node.attrs["pool_size"])
    window = _window(values, node, form, size)
    if isinstance(window, str):
        return window
    shape = [window.dim.rows, *form.node.shape[1:]]
    taps = [_tap(values, window, k, -np.inf if largest else 0) for k in range(size)]

    def joined(a: Node, b: Node) -> Node:
        build = R.maximum if largest else R.add
        return values.emit(build(operand_expr(a), operand_expr(b)), shape, node)

    found = reduce(joined, taps)
    if not largest:
        count = _count(values, node, window)
        mean = R.divide(operand_expr(found), count)
        found = values.emit(mean, shape, node)
    return Packed(found, window.dim, form.at)


def _count(values: Values, node: Node, window: _Window) -> Expr:
    """Return the divisor of average pooling: the number of elements of a window, or of those that
    are in the item, at least 1.

    ``count_include_pad`` selects which elements are counted.
    """
    dtype = node.dtype
    if node.attrs["count_include_pad"]:
        return relax.const(np.asarray(window.size, dtype), dtype)
    shape = [window.dim.rows, i64(1)]

    def emit(call: Expr, kind: str) -> Node:
        return values.out.emit(call, shape, kind)

    inside = [_source(values, window, k)[1] for k in range(window.size)]
    ones = [emit(R.astype(operand_expr(x), "int64"), "int64") for x in inside]
    total = reduce(lambda a, b: emit(R.add(operand_expr(a), operand_expr(b)), "int64"), ones)
    least = emit(R.maximum(operand_expr(total), relax.const(1, "int64")), "int64")
    return operand_expr(emit(R.astype(operand_expr(least), dtype), dtype))


def _window(values: Values, node: Node, form: Packed, size: int) -> _Window | str:
    reason = length_reason(values, node)
    if reason is not None:
        return reason
    dim = values.dims.of(node.shape[2])
    if dim is None or (dim.root or dim) is not (form.dim.root or form.dim):
        return "the length of its result is not computed from that of its operand"
    [stride], [apart] = (_numbers(node.attrs[name]) for name in ("strides", "dilation"))
    return _Window(form, dim, size, stride, _numbers(node.attrs["padding"])[0], apart)


def _numbers(value: int | Sequence[int]) -> list[int]:
    return [value] if isinstance(value, int) else [int(x) for x in value]


def _tap(values: Values, window: _Window, k: int, fill: float) -> Node:
    """Return for every row of the result the row of tap k, or ``fill`` outside of the item."""
    data, same = window.form.node, window.dim is window.form.dim and window.stride == 1
    if same and window.offset(k) == 0:
        return data
    picks, inside = _source(values, window, k)
    shape = [window.dim.rows, *data.shape[1:]]
    found = values.emit(R.take(operand_expr(data), operand_expr(picks), 0, "clip"), shape, data)
    empty = relax.const(np.asarray(fill, data.dtype), data.dtype)
    return values.emit(R.where(operand_expr(inside), operand_expr(found), empty), shape, data)


def _source(values: Values, window: _Window, k: int) -> tuple[Node, Node]:
    """Return for every row of the result the row of tap k, and whether it is in the item.

    The shapes are int64 ``[t]`` and bool ``[t, 1]``.
    """
    dim, source, by = window.dim, window.form.dim, window.offset(k)
    known = values.taps.get((dim, source, window.stride, by))
    if known is not None:
        return known
    rows = [dim.rows]
    item = operand_expr(values.items(dim))

    def emit(call: Expr, dtype: str = "int64") -> Expr:
        return operand_expr(values.out.emit(call, rows, dtype))

    place = operand_expr(values.positions(dim))
    if window.stride != 1:
        place = emit(R.multiply(place, relax.const(window.stride, "int64")))
    place = emit(R.add(place, relax.const(by, "int64")))
    size = emit(R.take(operand_expr(lengths(values, source)), item, 0))
    low = emit(R.greater_equal(place, relax.const(0, "int64")), "bool")
    inside = values.out.emit(R.logical_and(low, emit(R.less(place, size), "bool")), rows, "bool")
    first = emit(R.take(starts(values, source), item, 0))
    picks = values.out.emit(R.add(first, place), rows, "int64")
    found = picks, values.shaped(inside, [dim.rows, i64(1)])
    values.taps[dim, source, window.stride, by] = found
    return found


__all__ = ["convolution", "pooling"]
