"""Cache sizes of processors by LLVM's names, from manuals; for cross-compilation.

If a last-level cache is divided into slices, a typical number of slices is used. If processors of
one name differ, the smaller sizes are used.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_disc.target.isa import Isa


@dataclass(frozen=True)
class Caches:
    """The caches of a machine; sizes are in bytes.

    Attributes:
        l1_bytes: first-level data cache of a core.
        l2_bytes: share of one core in the second-level cache.
        last_bytes: last-level cache, in total.
        last_cores: number of cores that share the last level.
        line_bytes: size of a cache line.
    """

    l1_bytes: int
    l2_bytes: int
    last_bytes: int
    last_cores: int = 1
    line_bytes: int = 64

    @property
    def share_bytes(self) -> int:
        """Return the share of one core in the last-level cache, in bytes."""
        return self.last_bytes // self.last_cores


_K, _M = 1 << 10, 1 << 20
# (prefixes of names, caches); the first match is used.
_KNOWN: tuple[tuple[tuple[str, ...], Caches], ...] = (
    (("znver1",), Caches(32 * _K, 512 * _K, 8 * _M, 4)),
    (("znver2",), Caches(32 * _K, 512 * _K, 16 * _M, 4)),
    (("znver3",), Caches(32 * _K, 512 * _K, 32 * _M, 8)),
    (("znver4",), Caches(32 * _K, 1 * _M, 32 * _M, 8)),
    (("znver5",), Caches(48 * _K, 1 * _M, 32 * _M, 8)),
    (("haswell", "broadwell", "core-avx2"), Caches(32 * _K, 256 * _K, 20 * _M, 8)),
    (("skylake-avx512", "skylake_avx512", "skx", "cascadelake", "cooperlake"),
     Caches(32 * _K, 1 * _M, 33 * _M, 24)),
    (("skylake",), Caches(32 * _K, 256 * _K, 8 * _M, 4)),
    (("icelake-server",), Caches(48 * _K, 1280 * _K, 48 * _M, 32)),
    (("icelake", "rocketlake"), Caches(48 * _K, 512 * _K, 8 * _M, 4)),
    (("tigerlake",), Caches(48 * _K, 1280 * _K, 12 * _M, 4)),
    (("alderlake",), Caches(48 * _K, 1280 * _K, 24 * _M, 8)),
    (("raptorlake", "meteorlake", "arrowlake"), Caches(48 * _K, 2 * _M, 24 * _M, 8)),
    (("sapphirerapids",), Caches(48 * _K, 2 * _M, 60 * _M, 32)),
    (("emeraldrapids", "graniterapids"), Caches(48 * _K, 2 * _M, 160 * _M, 32)),
    (("neoverse-n1", "neoverse-v1", "neoverse-n2"), Caches(64 * _K, 1 * _M, 32 * _M, 64)),
    (("neoverse-v2",), Caches(64 * _K, 1 * _M, 64 * _M, 64)),
    (("cortex-a76",), Caches(64 * _K, 512 * _K, 2 * _M, 4)),
)  # fmt: skip


def known_caches(name: str) -> Caches | None:
    """Return the caches of a processor, or None if the table lacks its name."""
    return next((c for names, c in _KNOWN if name and name.startswith(names)), None)


def caches_of_level(isa: Isa) -> Caches:
    """Return the caches of a typical server with the vector registers of ``isa``."""
    if isa.masks:
        return Caches(32 * _K, 1 * _M, 32 * _M, 8)
    return Caches(32 * _K, 512 * _K, 16 * _M, 4)
