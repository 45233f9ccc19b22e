"""The caches of a machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caches:
    """Sizes in bytes.

    Attributes:
        l1_bytes: first-level data cache.
        l2_bytes: second level, the share of one core.
        last_bytes: last level, in total.
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
        """Return the share of one core in the last level."""
        return self.last_bytes // self.last_cores
