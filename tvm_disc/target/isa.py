"""Vector registers of a target, derived from the features that LLVM lists for its processor."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import tvm

from tvm_disc.target.dots import dots_of
from tvm_disc.typing import Target


@dataclass(frozen=True)
class Isa:
    """Vector registers and instructions.

    Attributes:
        lanes_f32: float32 elements of one vector register.
        registers: number of vector registers.
        fma: whether there is a fused multiply-add.
        dots: names of the dot instructions, best first (:mod:`.dots`). Excluded from comparison,
            because measured constants apply to processors with and without dot instructions, and
            the description of a kernel contains the one that it uses.
        device: whether the code is for one thread of a GPU. It is then source code, in which some
            operations are functions of the language rather than LLVM instructions.
    """

    lanes_f32: int
    registers: int
    fma: bool
    dots: tuple[str, ...] = field(default=(), compare=False)
    device: bool = False

    @property
    def vector_bytes(self) -> int:
        """Return the bytes of one vector register."""
        return 4 * self.lanes_f32

    @property
    def masks(self) -> bool:
        """Return whether there are mask registers for loads and stores of any type."""
        return self.lanes_f32 >= 16


def isa_of(target: Target) -> Isa:
    """Return the vector registers and instructions of a TVM ``llvm`` target.

    The target's mtriple, mcpu and mattr are read.
    """
    triple = str(target.attrs.get("mtriple", ""))
    if any(part in triple for part in ("aarch64", "arm64")):
        return Isa(lanes_f32=4, registers=32, fma=True)
    features = features_of(target)
    fma = "fma" in features
    if "avx512dq" in features:
        return Isa(lanes_f32=16, registers=32, fma=True, dots=dots_of(features, 16))
    if "avx2" in features:
        return Isa(lanes_f32=8, registers=16, fma=fma, dots=dots_of(features, 8))
    return Isa(lanes_f32=4, registers=16, fma=fma)


def features_of(target: Target) -> frozenset[str]:
    """Return LLVM's feature names of a target's processor, with its ``mattr`` applied.

    A target without ``mcpu`` is the baseline of its architecture.
    """
    attrs = target.attrs
    mattr = tuple(str(a) for a in attrs.get("mattr", []))
    return _features(str(attrs.get("mtriple", "")), str(attrs.get("mcpu", "generic")), mattr)


# Prefixes of the features that are removed together with a feature.
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
