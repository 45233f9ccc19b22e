"""Knobs of one GEMM variant, and the layouts of operands that are packed at compile time.

The register tile follows Goto & van de Geijn (2008): ``m_r x n_r`` accumulators stay in vector
registers while one column of A (broadcast) and one row of a B panel (vectors) stream by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_VECTOR_BYTES = 64  # cache line; a packed row of A starts on one
_ALIAS_BYTES = 4096  # rows this far apart fall in one set of a first-level cache

_AVX512_CPUS = ("skylake-avx512", "cascadelake", "cooperlake", "icelake", "cannonlake",
                "tigerlake", "rocketlake", "sapphirerapids", "emeraldrapids", "graniterapids",
                "x86-64-v4", "znver4", "znver5", "knl", "knm")  # fmt: skip
_AVX2_CPUS = ("haswell", "broadwell", "skylake", "x86-64-v3", "znver1", "znver2", "znver3",
              "alderlake", "raptorlake", "meteorlake", "core-avx2", "arrowlake")  # fmt: skip


@dataclass(frozen=True)
class Isa:
    """What the register file offers.

    ``lanes_f32``: float32 elements in one vector; ``registers``: vector registers; ``fma``:
    whether a fused multiply-add exists.
    """

    lanes_f32: int
    registers: int
    fma: bool


def isa_of(target: Any) -> Isa:
    """Vector width and register count of a TVM ``llvm`` target (its mtriple, mcpu, mattr)."""
    attrs: Mapping[str, Any] = target.attrs
    mcpu = str(attrs.get("mcpu", ""))
    mattr = {str(a) for a in attrs.get("mattr", [])}
    triple = str(attrs.get("mtriple", ""))
    if any(part in triple for part in ("aarch64", "arm64")):
        return Isa(lanes_f32=4, registers=32, fma=True)
    if mcpu.startswith(_AVX512_CPUS) or "+avx512f" in mattr:
        return Isa(lanes_f32=16, registers=32, fma=True)
    if mcpu.startswith(_AVX2_CPUS) or "+avx2" in mattr:
        return Isa(lanes_f32=8, registers=16, fma=True)
    return Isa(lanes_f32=4, registers=16, fma=False)


@dataclass(frozen=True)
class GemmTile:
    """Knobs of one GEMM variant; sizes are in elements.

    ``m_r`` rows and ``n_r`` columns form the register tile, ``lanes`` columns one vector.
    ``k_unroll`` steps of K are written out per loop turn. ``kc`` bounds the K range of one
    micro-kernel call (0: whole K). A task covers up to ``m_blocks`` register tiles of rows and
    ``n_panels`` panels of columns. ``prefetch`` is how many K steps ahead B is fetched (0: not).
    ``pack_rows`` is the number of rows from which a strided B is packed instead of read in place.
    """

    m_r: int
    n_r: int
    lanes: int
    k_unroll: int = 2
    kc: int = 1024
    m_blocks: int = 16
    n_panels: int = 2
    prefetch: int = 8
    pack_rows: int = 24

    def __post_init__(self) -> None:
        if self.n_r % self.lanes or min(self.m_r, self.n_r, self.lanes) < 1:
            raise ValueError(f"n_r={self.n_r} must be a positive multiple of lanes={self.lanes}")
        if self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes={self.lanes} must be a power of two")

    @property
    def vectors(self) -> int:
        """Vectors across the register tile."""
        return self.n_r // self.lanes

    def to_json(self) -> dict[str, int]:
        """The knobs as plain numbers."""
        return asdict(self)

    @staticmethod
    def from_json(knobs: Mapping[str, int]) -> GemmTile:
        """The inverse of :meth:`to_json`."""
        return GemmTile(**knobs)


def default_tile(isa: Isa, dtype: str = "float32") -> GemmTile:
    """A good tile for accumulators of ``dtype``, derived from the register file.

    One eighth of the registers hold a row of B, two hold A, the rest are accumulators: 6 x 4
    vectors with 32 registers, 6 x 2 with 16. Few loads per multiply-add keep the load ports
    free for the B panel, which streams from the second-level cache.
    """
    lanes = max(1, isa.lanes_f32 * 4 // np.dtype(dtype).itemsize)
    vectors = max(1, isa.registers // 8)
    rows = max(1, (isa.registers - vectors - 2) // vectors)
    return GemmTile(m_r=rows, n_r=vectors * lanes, lanes=lanes)


def packed_row_elems(k: int, itemsize: int) -> int:
    """Distance in elements between rows of a packed A: whole cache lines, never a page apart."""
    line = max(1, _VECTOR_BYTES // itemsize)
    elems = math.ceil(max(k, 1) / line) * line
    # An odd number of lines visits every set before it repeats one.
    return elems + line if (elems // line) % 2 == 0 else elems


def pack_a_constant(a: npt.NDArray[Any], tile: GemmTile) -> npt.NDArray[Any]:
    """``a[M, K]`` as ``[M, packed_row_elems(K)]``, zero padded.

    Rows stay contiguous along K: the micro-kernel broadcasts from ``m_r`` rows at once, so all a
    packed A must ensure is that those rows do not compete for the same cache set.
    """
    del tile
    m, k = a.shape
    out = np.zeros((m, packed_row_elems(k, a.dtype.itemsize)), a.dtype)
    out[:, :k] = a
    return out


def pack_b_constant(b: npt.NDArray[Any], tile: GemmTile) -> npt.NDArray[Any]:
    """``b[K, N]`` as panels ``[ceil(N / n_r), K, n_r]``, zero padded on the right."""
    k, n = b.shape
    panels = -(-n // tile.n_r)
    out = np.zeros((panels, k, tile.n_r), b.dtype)
    for p in range(panels):
        cols = b[:, p * tile.n_r : (p + 1) * tile.n_r]
        out[p, :, : cols.shape[1]] = cols
    return out


def bad_row_stride_bytes() -> int:
    """Row distances that are a multiple of this many bytes collide in a first-level cache."""
    return _ALIAS_BYTES // 4
