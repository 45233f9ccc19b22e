"""Rows of A rounded to int8 by blocks along K.

Each block of a row has one scale: its largest magnitude is 127. Rounding is to nearest even.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm import tirx

from tvm_disc.tir.builder import Block, const, i64, ramp
from tvm_disc.typing import Buffer, Expr, Size

WORDS = 3  # numbers per block: scale, offset of the sums, sum
LARGEST = 127
_TINY = 1e-30  # a block whose numbers are all smaller is rounded to zeros
# Adding it rounds a float32 of less than 2^22 to an integer, in its lowest bits.
_MAGIC = 1.5 * 2**23
_MAGIC_BITS = 0x4B400000
_MAGNITUDE, _INFINITY = 0x7FFFFFFF, 0x7F800000


@dataclass(frozen=True)
class Bytes:
    """Where the words of a rounded row are described.

    Attributes:
        at: index in the scratch of ``WORDS`` numbers for each block: its scale, ``-offset`` times
            the sum of its bytes as int32, and the sum of its bytes.
        offset: what is added to each number of B.
    """

    at: Size
    offset: int


def round_row(
    b: Block, buffer: Buffer, at: Size, sizes: tuple[Size, Size], chunk: int, form: Bytes | None
) -> None:
    """Emit the rounding of one row in place: ``sizes`` elements and elements per block.

    With ``form``, the row becomes words of four bytes, otherwise the rounded float32 values. Sizes
    are multiples of ``chunk``, the number of elements of a vector. A block with an infinity or NaN
    becomes NaN.
    """
    depth, block = sizes
    i32 = f"int32x{chunk}"

    def splat(value: float | int | Expr, dtype: str = "float32") -> Expr:
        value = const(value, dtype) if isinstance(value, float | int) else value
        return tirx.Broadcast(value, chunk)

    peak, total = (b.alloc(name, chunk, "int32") for name in ("peak", "total"))
    whole = ramp(i64(0), chunk)
    with b.loop("block", tirx.truncdiv(i64(depth) + (i64(block) - 1), i64(block))) as part:
        begin = b.bind("begin", at + part * block)
        count = tirx.truncdiv(tirx.min(i64(block), i64(depth) - part * block), i64(chunk))
        count = b.bind("chunks", count)
        for sums in (peak, total):
            b.store(sums, whole, const(0, i32))
        with b.loop("c", count) as c:
            # The bits of magnitudes have the order of the magnitudes; NaN is the largest.
            bits = tirx.reinterpret(i32, buffer[ramp(begin + c * chunk, chunk)])
            size = b.bind("size", bits & const(_MAGNITUDE, i32))
            b.store(peak, whole, tirx.max(peak[whole], size))
        most = b.bind("most", _reduced("smax", peak[whole]))
        largest = b.bind("largest", tirx.reinterpret("float32", most))
        finite = most < const(_INFINITY, "int32")
        size = tirx.Select(finite, largest / _float(LARGEST), _float(math.nan))
        scale = b.bind("scale", size)
        times = tirx.Select(largest > _float(_TINY), _float(LARGEST) / largest, _float(0.0))
        inverse = b.bind("inverse", times)
        with b.loop("c", count) as c:
            place = b.bind("place", c * chunk)
            x = buffer[ramp(begin + place, chunk)]
            near = b.bind("near", x * splat(inverse) + splat(_MAGIC))
            if form is None:
                value = (near - splat(_MAGIC)) * splat(scale)
                b.store(buffer, ramp(begin + place, chunk), value)
            else:
                number = b.bind("number", tirx.reinterpret(i32, near) - splat(_MAGIC_BITS, "int32"))
                b.store(total, whole, total[whole] + number)
                bytes_ = tirx.Cast(f"int8x{chunk}", number)
                words = tirx.reinterpret(f"float32x{chunk // 4}", bytes_)
                to = at + tirx.truncdiv(part * block + place, i64(4))
                b.store(buffer, ramp(to, chunk // 4), words)
        if form is not None:
            found = b.bind("found", _reduced("add", total[whole]))
            here = b.bind("here", form.at + part * WORDS)
            offset = tirx.reinterpret("float32", found * const(-form.offset, "int32"))
            for n, value in enumerate((scale, offset, tirx.Cast("float32", found))):
                b.store(buffer, here + n, value)


def _float(value: float) -> Expr:
    return const(float(value), "float32")


def _reduced(name: str, vector: Expr) -> Expr:
    return tirx.call_llvm_pure_intrin("int32", f"llvm.vector.reduce.{name}", vector)


def chunk_of(k: int, block: int) -> int:
    """Return the elements of a vector that divides rows of ``k`` elements and their blocks."""
    return 32 if k % 32 == 0 and block % 32 == 0 else 8


__all__ = ["WORDS", "Bytes", "chunk_of", "round_row"]
