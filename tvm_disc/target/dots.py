"""Dot instructions: each lane adds several products of integers to one sum.

Operands are vectors of 32-bit words. A word holds adjacent numbers along K: four bytes (unsigned in
the left operand, signed in the right one), or two numbers of 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

QUAD = 4  # bytes along K in a word


@dataclass(frozen=True)
class Dot:
    """One dot instruction.

    Attributes:
        name: its mnemonic on x86.
        features: alternatives of LLVM features, by the number of int32 lanes. The instruction
            exists for vectors of this length if the target has all features of one alternative.
        intrinsics: LLVM functions, by the number of int32 lanes. With four numbers per word, one
            function ``(total, left, right)`` adds four products to each int32 of ``total``; or two
            functions: ``(left, right)`` returns int16 sums of pairs of products, and the second one
            adds pairs of int16 to an int32. With two numbers per word, the function ``(left,
            right)`` returns int32 sums.
        left_bits: largest number of bits of the left operand's numbers.
        quads: number of words of four bytes whose int16 sums cannot overflow; 0 if there are no
            int16 sums.
        per: numbers in a word, 4 or 2.
    """

    name: str
    features: Mapping[int, tuple[frozenset[str], ...]]
    intrinsics: Mapping[int, tuple[str, ...]]
    left_bits: int = 8
    quads: int = 0
    per: int = QUAD


def _any(*names: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(name.split()) for name in names)


# In order of preference.
DOTS: Mapping[str, Dot] = {
    dot.name: dot
    for dot in (
        Dot(
            "vpdpbusd",
            {16: _any("avx512vnni"), 8: _any("avxvnni", "avx512vnni avx512vl")},
            {16: ("llvm.x86.avx512.vpdpbusd.512",), 8: ("llvm.x86.avx512.vpdpbusd.256",)},
        ),
        # A pair of products is at most 2 * 15 * 128; the sum of eight pairs is less than 2^15.
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
    """Return the names of the dot instructions for vectors of ``lanes`` int32, best first."""
    return tuple(
        name
        for name, dot in DOTS.items()
        if any(needed <= features for needed in dot.features.get(lanes, ()))
    )


__all__ = ["DOTS", "QUAD", "Dot", "dots_of"]
