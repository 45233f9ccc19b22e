"""Caches and cores of this machine, as the system reports them.

Linux describes the caches of each core in sysfs. If a sandbox hides these files, the C library
still reports sizes, but not which cores share a cache. Other values are those that
:mod:`tvm_disc.target.known` lists for the name of the processor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tvm_disc.target.known import Caches

CORES = Path("/sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LEAST, _MOST = 4 << 10, 4 << 30  # plausible range of cache sizes


def cores_here() -> int:
    """Return the number of cores that this process may run on."""
    return len(_allowed()) or os.cpu_count() or 1


def caches_here(
    default: Caches,
    named: bool = False,
    files: Path = CORES,
    ask: Callable[[str], int] | None = None,
) -> Caches:
    """Return the caches of a core of this process, from ``files`` or from the C library.

    Args:
        default: values that are used if neither source reports them.
        named: whether ``default`` was found by the name of this processor. If so, its last-level
            size is used instead of the C library's value, which is the sum over a socket.
        files: the folder in which Linux describes cores.
        ask: replacement of ``os.sysconf``, for tests.
    """
    levels = _levels(files / f"cpu{min(_allowed(), default=0)}" / "cache")
    if 1 in levels and len(levels) > 1:
        return _from_levels(levels)
    number = ask or _configured
    line = number("SC_LEVEL1_DCACHE_LINESIZE")
    l2 = _believed(number("SC_LEVEL2_CACHE_SIZE")) or default.l2_bytes
    last = 0 if named else _believed(number("SC_LEVEL3_CACHE_SIZE"))
    return replace(
        default,
        l1_bytes=_believed(number("SC_LEVEL1_DCACHE_SIZE")) or default.l1_bytes,
        l2_bytes=l2,
        last_bytes=max(last or default.last_bytes, l2),
        line_bytes=line if 16 <= line <= 1024 else default.line_bytes,
    )


@dataclass(frozen=True)
class _Level:
    size: int
    sharers: int
    line: int


def _from_levels(levels: dict[int, _Level]) -> Caches:
    """Return the caches that sysfs describes.

    Cores are counted by first-level caches, which all hardware threads of a core share.
    """
    first, last = levels[1], levels[max(levels)]
    second = levels.get(2, last)
    return Caches(
        first.size,
        second.size // max(1, second.sharers // first.sharers),
        last.size,
        max(1, last.sharers // first.sharers),
        first.line,
    )


def _levels(folder: Path) -> dict[int, _Level]:
    """Return the data caches, by level, that a core's folder in sysfs describes completely."""
    found: dict[int, _Level] = {}
    for index in sorted(folder.glob("index*")):
        try:
            text = {name: (index / name).read_text().strip() for name in _FILES}
            size = int(text["size"][:-1]) * _UNITS[text["size"][-1]]
            line, level = int(text["coherency_line_size"]), int(text["level"])
            sharers = len(_cores(text["shared_cpu_list"]))
        except (OSError, ValueError, KeyError, IndexError):
            continue
        if text["type"] in ("Data", "Unified") and _believed(size) and line > 0 and sharers:
            found[level] = _Level(size, sharers, line)
    return found


_FILES = ("level", "type", "size", "coherency_line_size", "shared_cpu_list")


def _cores(text: str) -> set[int]:
    """Return the numbers in a list of ranges such as ``0-3,8``."""
    found: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


def _allowed() -> set[int]:
    """Return the cores in this process's affinity mask; empty if the system has none."""
    affinity = getattr(os, "sched_getaffinity", None)
    return set(affinity(0)) if affinity is not None else set()


def _configured(name: str) -> int:
    try:
        return os.sysconf(name)
    except (ValueError, OSError):
        return 0


def _believed(size: int) -> int:
    return size if _LEAST <= size <= _MOST else 0
