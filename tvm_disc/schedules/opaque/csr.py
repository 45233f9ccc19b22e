"""Matmuls with a block-sparse (BSR) matrix; a task is a row of ``x`` and a block row."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Expr


def plan_csr_dense(node: Node) -> Plan:
    """Return a plan that computes ``x @ sparse.T`` for ``x[m, k]``, or if ``transposed`` its
    transpose.

    The sparse operand consists of data ``[blocks, rows, columns]``, the block column of each block,
    and the index of the first block of each block row. Invalid indices are clamped, so that no read
    is out of bounds.
    """
    x, data, indices, begins = node.inputs
    _, rows, columns = data.shape
    block_rows = begins.shape[0] - 1
    outer = (x.shape[0], block_rows)

    def emit(body: Body) -> None:
        low, block = body.low, body.block
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            i, row = low.space.split(t, outer)
            low.resolve([i, row])
            across = block.bind(
                "across", tirx.floordiv(i64(x.shape[1]), tirx.max(i64(columns), i64(1)))
            )
            entries = block.bind("entries", tirx.Select(across > 0, i64(data.shape[0]), i64(0)))
            first = low.settle("first", _within(low.at(begins, [row]), entries))
            last = low.settle("last", _within(low.at(begins, [row + 1]), entries))
            with low.loop("r", rows) as r:
                total = block.alloc("total", 1, node.dtype)
                block.store(total, 0, const(0, node.dtype))
                with low.loop("e", last - first, begin=first) as e:
                    picked = _within(low.at(indices, [e]), across - 1)
                    at = low.settle("at", picked * i64(columns))
                    with low.loop("c", columns) as c:
                        value = low.at(data, [e, r, c]) * low.at(x, [i, at + c])
                        block.store(total, 0, total[i64(0)] + value)
                j = row * i64(rows) + r
                index = [j, i] if node.attrs["transposed"] else [i, j]
                place = low.space.join(index, node.shape)
                low.store(body.outputs[0], place, total[i64(0)], node.dtype)

    work: Expr = mul(x.shape[0], product(data.shape))
    return Plan(product(outer), work, emit)


def _within(number: Expr, most: Expr) -> Expr:
    """Return an index that was read from memory, clamped to 0 .. ``most``."""
    return tirx.max(tirx.min(cast(number, "int64"), most), i64(0))
