"""The caches of a machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caches:
    """Sizes in bytes.

    Attributes:
        l1_bytes: the first level of data.
        l2_bytes: the second level, a core's part of it.
        last_bytes: the last level, all of it.
        last_cores: how many cores share that.
        line_bytes: what is moved between them at once.
    """

    l1_bytes: int
    l2_bytes: int
    last_bytes: int
    last_cores: int = 1
    line_bytes: int = 64

    @property
    def share_bytes(self) -> int:
        """A core's part of the last level."""
        return self.last_bytes // self.last_cores
