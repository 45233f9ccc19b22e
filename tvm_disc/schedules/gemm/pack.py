"""Run-time copies of GEMM operands into the micro-kernel layout, with vector moves.

Sizes and offsets are in elements. The copies never read outside of the source: the tail of a row is
copied in smaller parts; in a transpose, the last square overlaps the previous one, and the last row
is repeated.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, splat, vload, vstore, widened
from tvm_disc.tir.builder import Block, const, i64, prefetch
from tvm_disc.typing import Buffer, Expr, Size


def cast(value: Expr, dtype: str, lanes: int = 1) -> Expr:
    """Return ``value`` converted to elements of ``dtype``."""
    return widened(value, dtype, lanes)


def copy_contiguous(
    b: Block,
    elems: Size,
    lanes: int,
    load: Callable[[Expr, int], Expr],
    dst: tuple[Buffer, Size, str],
    pad: bool = False,
) -> None:
    """Emit ``dst[off + e] = load(e)`` for ``e < elems``: full vectors, then the tail.

    The tail is copied in vectors of half, a quarter and so on of the length if ``elems`` is an int
    and ``pad`` is False, otherwise one element at a time. ``load(e, width)`` returns ``width``
    elements at ``e``. With ``pad``, the last vector of ``dst`` is filled up with zeros.
    """
    buf, off, dtype = dst
    if isinstance(elems, int) and not pad:
        with b.loop("v", elems // lanes) as v:
            vstore(b, buf, off + v * lanes, lanes, cast(load(v * lanes, lanes), dtype, lanes))
        for at, width in parts_of(elems % lanes, elems - elems % lanes):
            vstore(b, buf, off + at, width, cast(load(i64(at), width), dtype, width))
        return
    whole = bind_opaque(b, "whole", tirx.truncdiv(i64(elems), i64(lanes)))
    with b.loop("v", whole) as v:
        vstore(b, buf, off + v * lanes, lanes, cast(load(v * lanes, lanes), dtype, lanes))
    done = bind_opaque(b, "done", whole * lanes)
    if pad:
        with b.when(done < elems):
            vstore(b, buf, off + done, lanes, splat(const(0, dtype), lanes))
    with b.loop("e", elems - done) as e:
        b.store(buf, off + done + e, cast(load(done + e, 1), dtype))


def copy_row(
    b: Block,
    elems: Size,
    lanes: int,
    src: tuple[Buffer, Size],
    dst: tuple[Buffer, Size, str],
    pad: bool = False,
) -> None:
    """Emit :func:`copy_contiguous` of ``elems`` adjacent elements of a buffer, ``src``."""
    buffer, at = src
    copy_contiguous(b, elems, lanes, lambda e, w: vload(buffer, at + e, w), dst, pad)


def parts_of(count: int, begin: int = 0) -> list[tuple[int, int]]:
    """Split ``count`` elements from ``begin`` into parts (first, size), largest first; sizes are
    distinct powers of two.
    """
    parts, at = [], begin
    while count:
        size = 1 << (count.bit_length() - 1)
        parts.append((at, size))
        at, count = at + size, count - size
    return parts


def transpose_into(
    b: Block,
    src: tuple[Buffer, Callable[[Expr], Expr]],
    rows: Size,
    cols: Size,
    dst: tuple[Buffer, Size, Size | int, str],
    lanes: int,
) -> None:
    """Emit ``dst[off + c * stride + r] = src[offset(r) + c]`` for ``r < rows``, ``c < cols``.

    Squares of ``lanes x lanes`` are transposed in registers, while the cache lines of the square
    below are prefetched. ``rows`` is rounded up to full vectors in ``dst``, which must be large
    enough; the extra elements repeat the last row.
    """
    buf, offset = src
    out, off, stride, dtype = dst
    if lanes == 1:
        with b.loop("r", rows) as r, b.loop("c", cols) as c:
            b.store(out, off + c * stride + r, cast(buf[offset(r) + c], dtype))
        return
    # Stack vectors, not bindings, as in micro_kernel(); the last one is a temporary.
    src_dtype = str(buf.dtype)
    square = [b.alloc(f"square_{i}", lanes, src_dtype) for i in range(lanes + 1)]
    groups = bind_opaque(b, "groups", tirx.truncdiv(i64(rows) + (lanes - 1), i64(lanes)))
    below = bind_opaque(b, "below", offset(i64(lanes)) - offset(i64(0)))
    with b.loop("rg", groups) as rg:
        starts = [
            bind_opaque(b, f"row{i}", offset(tirx.min(rg * lanes + i, rows - 1)))
            for i in range(lanes)
        ]
        base = bind_opaque(b, "base", off + rg * lanes)
        with b.when(i64(cols) >= lanes):
            squares = tirx.truncdiv(i64(cols) + (lanes - 1), i64(lanes))
            with b.loop("cg", squares) as cg:
                c0 = bind_opaque(b, "c0", tirx.min(cg * lanes, cols - lanes))
                to = bind_opaque(b, "to", base + c0 * stride)
                for i in range(lanes):
                    b.eval(prefetch(buf, starts[i] + c0 + below, to_write=False))
                for i in range(lanes):
                    vstore(b, square[i], 0, lanes, vload(buf, starts[i] + c0, lanes))
                _transpose_square(b, square, lanes)
                for i in range(lanes):
                    value = cast(vload(square[i], 0, lanes), dtype, lanes)
                    vstore(b, out, to + i * stride, lanes, value)
        with b.otherwise(), b.loop("c", cols) as c:
            for i in range(lanes):
                b.store(out, base + c * stride + i, cast(buf[starts[i] + c], dtype))


def _transpose_square(b: Block, rows: list[Buffer], lanes: int) -> None:
    """Transpose ``lanes`` stack vectors in place by exchanging blocks of halved size."""
    dist = lanes // 2
    while dist:
        low = [c if not c & dist else lanes + c - dist for c in range(lanes)]
        high = [c + dist if not c & dist else lanes + c for c in range(lanes)]
        for r in range(lanes):
            if not r & dist:
                first, second = rows[r], rows[r + dist]
                vstore(b, rows[lanes], 0, lanes, _shuffle(first, second, low, lanes))
                vstore(b, second, 0, lanes, _shuffle(first, second, high, lanes))
                vstore(b, first, 0, lanes, vload(rows[lanes], 0, lanes))
        dist //= 2


def _shuffle(first: Buffer, second: Buffer, picks: list[int], lanes: int) -> Expr:
    vectors = [vload(first, 0, lanes), vload(second, 0, lanes)]
    return tirx.Shuffle(vectors, [tirx.IntImm("int32", lane) for lane in picks])


__all__ = ["cast", "copy_contiguous", "copy_row", "parts_of", "transpose_into"]
