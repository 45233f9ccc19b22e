"""What the register file of a target offers, by the features that LLVM gives its processor."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import tvm


@dataclass(frozen=True)
class Isa:
    """What the register file offers.

    ``lanes_f32``: float32 elements in one vector; ``registers``: vector registers; ``fma``:
    whether a fused multiply-add exists; ``quads``: whether one instruction adds four products of
    bytes to each int32 (VNNI). It says nothing of floats, so machines that differ in it are equal.
    ``device``: whether it is not a processor's: code for one thread of many, in the device's own
    language, which has functions where LLVM's code has arithmetic.
    """

    lanes_f32: int
    registers: int
    fma: bool
    quads: bool = field(default=False, compare=False)
    device: bool = False

    @property
    def vector_bytes(self) -> int:
        """Of one register."""
        return 4 * self.lanes_f32

    @property
    def masks(self) -> bool:
        """Whether there are registers of masks, which loads and stores of any type take."""
        return self.lanes_f32 >= 16


def isa_of(target: Any) -> Isa:
    """Vector width and register count of a TVM ``llvm`` target (its mtriple, mcpu, mattr)."""
    triple = str(target.attrs.get("mtriple", ""))
    if any(part in triple for part in ("aarch64", "arm64")):
        return Isa(lanes_f32=4, registers=32, fma=True)
    features = features_of(target)
    fma = "fma" in features
    if "avx512dq" in features:
        return Isa(lanes_f32=16, registers=32, fma=True, quads="avx512vnni" in features)
    if "avx2" in features:
        return Isa(lanes_f32=8, registers=16, fma=fma)
    return Isa(lanes_f32=4, registers=16, fma=fma)


def features_of(target: Any) -> frozenset[str]:
    """LLVM's names of what a target's processor can do, with its ``mattr``.

    A target without ``mcpu`` is the oldest of its architecture.
    """
    attrs = target.attrs
    mattr = tuple(str(a) for a in attrs.get("mattr", []))
    return _features(str(attrs.get("mtriple", "")), str(attrs.get("mcpu", "generic")), mattr)


# What goes with a feature that is taken away, by the beginning of its name.
_WITHOUT = {"avx": ("avx", "fma"), "avx2": ("avx2", "avx512"), "avx512f": ("avx512",)}


@cache
def _features(triple: str, mcpu: str, mattr: tuple[str, ...]) -> frozenset[str]:
    plain = {"kind": "llvm", "mcpu": mcpu, **({"mtriple": triple} if triple else {})}
    listed = tvm.get_global_func("target.llvm_get_cpu_features")(tvm.target.Target(plain))
    found = {str(name) for name in listed}
    for change in mattr:
        name = change[1:]
        if change.startswith("-"):
            gone = _WITHOUT.get(name, ())
            found = {f for f in found if f != name and not f.startswith(gone)}
        else:
            found.add(name)
    return frozenset(found)
