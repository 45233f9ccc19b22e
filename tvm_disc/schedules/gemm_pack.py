"""Copies that bring GEMM operands in micro-kernel layout at run time, with vector moves.

Sizes and offsets are in elements. Nothing outside the source is read: ragged edges are met by
overlapping the last vector or by repeating the last row, both of which stay inside.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from tvm_disc.schedules.emit import Block, Buffer, Expr, const, dtype_of, i64
from tvm_disc.schedules.gemm_micro import splat, vload, vstore


def cast(value: Expr, dtype: str, lanes: int = 1) -> Expr:
    """``value`` with elements of ``dtype``."""
    wanted = dtype if lanes == 1 else f"{dtype}x{lanes}"
    return value if dtype_of(value) == wanted else tirx.Cast(wanted, value)


def copy_contiguous(
    b: Block,
    elems: Expr,
    lanes: int,
    load: Callable[[Block, Expr, int], Expr],
    dst: tuple[Buffer, Expr, str],
    pad: bool = False,
) -> None:
    """``dst[off + e] = load(e)`` for ``e < elems``: whole vectors, then single elements.

    ``load(block, e, width)`` gives ``width`` elements from ``e``. With ``pad`` the last, partial
    vector of ``dst`` is filled with zeros.
    """
    buf, off, dtype = dst
    whole = b.bind("whole", tirx.truncdiv(i64(elems), i64(lanes)))
    with b.loop("v", whole) as v:
        vstore(b, buf, off + v * lanes, lanes, cast(load(b, v * lanes, lanes), dtype, lanes))
    done = b.bind("done", whole * lanes)
    if pad:
        with b.when(done < elems):
            vstore(b, buf, off + done, lanes, splat(const(0, dtype), lanes))
    with b.loop("e", elems - done) as e:
        b.store(buf, off + done + e, cast(load(b, done + e, 1), dtype))


def transpose_into(
    b: Block,
    src: tuple[Buffer, Callable[[Expr], Expr]],
    rows: Expr,
    cols: Expr,
    dst: tuple[Buffer, Expr, Expr | int, str],
    lanes: int,
) -> None:
    """``dst[off + c * stride + r] = src[offset(r) + c]`` for ``r < rows``, ``c < cols``.

    Squares of ``lanes x lanes`` are transposed in registers. ``rows`` is rounded up to whole
    vectors in ``dst`` (there must be room); the extra places repeat the last row.
    """
    buf, offset = src
    out, off, stride, dtype = dst
    if lanes == 1:
        with b.loop("r", rows) as r, b.loop("c", cols) as c:
            b.store(out, off + c * stride + r, cast(buf[offset(r) + c], dtype))
        return
    groups = b.bind("groups", tirx.truncdiv(i64(rows) + (lanes - 1), i64(lanes)))
    with b.loop("rg", groups) as rg:
        starts = [
            b.bind(f"row{i}", offset(tirx.min(rg * lanes + i, rows - 1))) for i in range(lanes)
        ]
        base = b.bind("base", off + rg * lanes)
        with b.when(i64(cols) >= lanes):
            squares = tirx.truncdiv(i64(cols) + (lanes - 1), i64(lanes))
            with b.loop("cg", squares) as cg:
                c0 = b.bind("c0", tirx.min(cg * lanes, cols - lanes))
                square = [b.bind(f"x{i}", vload(buf, starts[i] + c0, lanes)) for i in range(lanes)]
                for i, value in enumerate(_transposed(b, square, lanes)):
                    vstore(b, out, base + (c0 + i) * stride, lanes, cast(value, dtype, lanes))
        with b.otherwise(), b.loop("c", cols) as c:
            for i in range(lanes):
                b.store(out, base + c * stride + i, cast(buf[starts[i] + c], dtype))


def _transposed(b: Block, rows: list[Expr], lanes: int) -> list[Expr]:
    """The columns of a ``lanes x lanes`` square by exchanging ever smaller blocks."""
    rows = list(rows)
    dist = lanes // 2
    while dist:
        low = [c if not c & dist else lanes + c - dist for c in range(lanes)]
        high = [c + dist if not c & dist else lanes + c for c in range(lanes)]
        for r in range(lanes):
            if not r & dist:
                pair = [rows[r], rows[r + dist]]
                rows[r] = b.bind(f"t{dist}_{r}", _shuffle(pair, low))
                rows[r + dist] = b.bind(f"t{dist}_{r + dist}", _shuffle(pair, high))
        dist //= 2
    return rows


def _shuffle(vectors: list[Expr], lanes: list[int]) -> Expr:
    return tirx.Shuffle(vectors, [tirx.IntImm("int32", lane) for lane in lanes])


__all__ = ["cast", "copy_contiguous", "transpose_into"]
