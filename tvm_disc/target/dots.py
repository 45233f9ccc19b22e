"""Dot instructions: each lane adds several products of integers to one sum.

One row describes one instruction. Operands are words of adjacent numbers along K: four bytes
(unsigned in the left operand, signed in the right one), or two numbers of 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

QUAD = 4  # bytes along K of a word


@dataclass(frozen=True)
class Dot:
    """One dot instruction.

    Attributes:
        name: its mnemonic on x86.
        features: LLVM features by lanes of int32; the instruction exists for vectors of so many
            lanes if the target has all features of one alternative.
        intrinsics: LLVM functions by lanes. ``(total, left, right)`` adds four products to each
            int32 of ``total``. If there is a second function, the first one is ``(left, right)``,
            which adds pairs of products as int16, and the second adds pairs of int16 to an int32.
        left_bits: bits of the left operand beyond which sums of ``quads`` words may overflow.
        quads: words of four after which pairs of sums are added to int32; 0 if there are none.
        per: numbers of a word, 4 or 2.
    """

    name: str
    features: Mapping[int, tuple[frozenset[str], ...]]
    intrinsics: Mapping[int, tuple[str, ...]]
    left_bits: int = 8
    quads: int = 0
    per: int = QUAD


def _any(*names: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(name.split()) for name in names)


# The first row that a target has is preferred.
DOTS: Mapping[str, Dot] = {
    dot.name: dot
    for dot in (
        Dot(
            "vpdpbusd",
            {16: _any("avx512vnni"), 8: _any("avxvnni", "avx512vnni avx512vl")},
            {16: ("llvm.x86.avx512.vpdpbusd.512",), 8: ("llvm.x86.avx512.vpdpbusd.256",)},
        ),
        # Eight sums of pairs of 15 x 127 are less than 2^15.
        Dot(
            "vpmaddubsw",
            {16: _any("avx512bw"), 8: _any("avx2")},
            {
                16: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
                8: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
            },
            left_bits=4,
            quads=8,
        ),
        Dot(
            "vpmaddwd",
            {16: _any("avx512bw"), 8: _any("avx2")},
            {16: ("llvm.x86.avx512.pmaddw.d.512",), 8: ("llvm.x86.avx2.pmadd.wd",)},
            left_bits=16,
            per=2,
        ),
    )
}


def dots_of(features: frozenset[str], lanes: int) -> tuple[str, ...]:
    """Return the names of the dot instructions of a target for ``lanes`` of int32, best first."""
    return tuple(
        name
        for name, dot in DOTS.items()
        if any(needed <= features for needed in dot.features.get(lanes, ()))
    )


__all__ = ["DOTS", "QUAD", "Dot", "dots_of"]
