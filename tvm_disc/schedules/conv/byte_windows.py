"""Depthwise convolutions of bytes: layout of the weights, and the sums of one line of taps.

A vector of int32 has one channel per lane. With ``vpdpbusd``, a lane holds the bytes of four
adjacent columns: one instruction adds four taps. To move to the next column, the lane is shifted by
one byte, and the new column becomes its highest byte. Processors without this instruction multiply
one column by one weight (``vpmaddwd``, whose second product is 0).

The zero point is not subtracted from the input. Instead, elements outside of the image get its
value, and the sums start at ``-zero * sum of the weights`` of the rows of taps inside the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import tirx

from tvm_disc.graph.nodes import BYTES, Node, zero_point
from tvm_disc.schedules.conv.contraction import columns_read, contraction, geometry
from tvm_disc.schedules.conv.window_tile import literal_taps
from tvm_disc.schedules.gemm.integer import NumbersOfA, add_products
from tvm_disc.schedules.gemm.micro_kernel import vload, vstore
from tvm_disc.schedules.group import Group
from tvm_disc.schedules.packing import Array, Form
from tvm_disc.target.dots import DOTS, QUAD
from tvm_disc.tir.builder import Block, const
from tvm_disc.typing import Buffer, Expr

SUMS = "int32"


@dataclass(frozen=True)
class ByteTaps:
    """Layout of weights ``w[channels, 1, rows, columns]`` as ``[vector of channels, rows * words +
    rows + 1, lane]`` of int32, and the instruction that multiplies them.

    Attributes:
        dot: the dot instruction, or "" for a multiplication.
        numbers: the element type of the input.
        zero: the zero point of the input.
        taps: rows and columns of the window.

    A word holds the weights of ``per`` columns, four or one. The first word of a row may start with
    zeros. The last ``rows + 1`` vectors are the initial sums for the first 0, 1 ... rows of taps.
    """

    dot: str
    numbers: str
    zero: int
    taps: tuple[int, int]
    lanes: int

    @property
    def per(self) -> int:
        """Return the number of taps in a word."""
        return QUAD if self.dot and DOTS[self.dot].per == QUAD else 1

    @property
    def words(self) -> int:
        """Return the number of words in a row of taps."""
        return -(-self.taps[1] // self.per)

    @property
    def ahead(self) -> int:
        """Return the number of zeros before the weights of the first word of a row."""
        return self.words * self.per - self.taps[1]

    @property
    def vectors(self) -> int:
        """Return the number of packed vectors for each vector of channels."""
        return self.taps[0] * self.words + self.taps[0] + 1

    @property
    def added(self) -> int:
        """Return the number that is added to each input element, so that bytes are unsigned."""
        return NumbersOfA(self.numbers, self.per).added

    @property
    def outside(self) -> int:
        """Return the value of elements outside of the image: the zero point plus ``added``."""
        return self.zero + self.added

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of packed weights."""
        del dtype
        return (-(-shape[0] // self.lanes), self.vectors, self.lanes), SUMS

    def write(self, array: Array, out: Array) -> None:
        """Pack weights into ``out``, which is zero-initialized."""
        channels, (rows, columns) = len(array), self.taps
        whole = np.zeros((out.shape[0] * self.lanes, rows, self.words * self.per), np.int8)
        whole[:channels, :, self.ahead :] = array.reshape(channels, rows, columns)
        words = whole.view(np.int32) if self.per == QUAD else whole.astype(np.int32)
        if self.dot and self.per != QUAD:
            words &= 0xFFFF  # the second number of the pair is 0
        sums = np.cumsum(whole.sum(2, dtype=np.int32), 1, dtype=np.int32)
        first = np.zeros((len(whole), rows + 1), np.int32)
        first[:, 1:] = -self.outside * sums
        lines = np.concatenate([words.reshape(len(whole), -1), first], 1)
        out[:] = lines.reshape(out.shape[0], self.lanes, -1).swapaxes(1, 2)

    def weight(self, word: Expr, tap: int) -> Expr:
        """Return one weight of a scalar word as int32."""
        if self.per == 1:
            return tirx.Cast(SUMS, tirx.Cast("int16", word))
        moved = tirx.shift_right(word, const(8 * ((self.ahead + tap) % QUAD), SUMS))
        return tirx.Cast(SUMS, tirx.Cast("int8", moved))

    def number(self, value: Expr, lanes: int) -> Expr:
        """Return loaded bytes plus ``added``, as int32."""
        if self.per == QUAD:
            value = NumbersOfA(self.numbers, QUAD).of(value, lanes)
        return tirx.Cast(SUMS if lanes == 1 else f"{SUMS}x{lanes}", value)


def bytes_read(group: Group, node: Node) -> tuple[Node, int]:
    """Return the operand that a window reads from memory, and its zero point (0 without one)."""
    data = node.inputs[0]
    found = zero_point(data) if data in group.nodes else None
    return found or (data, 0)


def byte_taps(group: Group, node: Node, lanes: int, dots: Sequence[str]) -> ByteTaps | None:
    """Return the layout of a depthwise convolution of bytes; None for other windows."""
    taps = literal_taps(node)
    if not node.weighted or taps is None or len(taps) != 2 or contraction(node).dtype != SUMS:
        return None
    numbers, zero = bytes_read(group, node)
    weight = node.inputs[1]
    shape = [getattr(d, "value", d) for d in weight.shape[:2]]
    if numbers.dtype not in BYTES or weight.dtype != "int8" or shape != [node.attrs["groups"], 1]:
        return None
    close = geometry(node, 2).dilation[-1] == 1
    fits = (n for n in dots if DOTS[n].left_bits >= 8 and (close or DOTS[n].per != QUAD))
    return ByteTaps(next(fits, ""), numbers.dtype, zero, (taps[0], taps[1]), lanes)


def emit_line(
    b: Block,
    form: ByteTaps,
    steps: tuple[int, int, int],
    words: Sequence[Expr],
    load: Callable[[int], Expr],
    sums: Sequence[Buffer],
) -> None:
    """Emit the sums of one line of taps.

    Args:
        steps: (columns of the tile, stride, dilation).
        words: the words of weights of the line.
        load: returns the elements of an input column, which may be outside of the image.
        sums: one buffer for each column of the tile.
    """
    columns, stride, gap = steps
    lanes = int(str(words[0].ty.dtype).partition("x")[2] or 1)
    rolling = form.per == QUAD and lanes > 1
    window = b.alloc("window", lanes, "uint32") if rolling else None
    if window is not None:
        vstore(b, window, 0, lanes, const(0, f"uint32x{lanes}"))
    for column, uses in columns_read(columns, form.taps[1], stride, gap):
        x = load(column)
        if window is not None:
            kind = f"uint32x{lanes}"
            top = tirx.shift_left(tirx.reinterpret(kind, x), const(24, kind))
            rest = tirx.shift_right(vload(window, 0, lanes), const(8, kind))
            vstore(b, window, 0, lanes, tirx.bitwise_or(rest, top))
            x = tirx.reinterpret(f"{SUMS}x{lanes}", vload(window, 0, lanes))
        for t, k in uses:
            word, place = divmod(form.ahead + k, form.per)
            if rolling and place != QUAD - 1:
                continue  # the product is added at the last column of the word
            total = vload(sums[t], 0, lanes)
            if lanes == 1:
                total = total + x * form.weight(words[word], k)
            elif form.dot:
                total = add_products(DOTS[form.dot], lanes, total, x, words[word])
            else:
                total = total + x * words[word]
            vstore(b, sums[t], 0, lanes, total)


__all__ = ["ByteTaps", "byte_taps", "bytes_read", "emit_line"]
