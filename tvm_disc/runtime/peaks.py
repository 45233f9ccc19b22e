"""The limits of this machine, against which a profile compares kernels (a roofline).

The compiler measures them once, with functions for this purpose, and stores them in the cache;
programs that were loaded read them there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

from tvm_disc.options import Options
from tvm_disc.support.processor import cores, cpu_name
from tvm_disc.support.store import Store, store_of

LAUNCH_US = 1.5  # a shorter kernel call consists mostly of its launch and of reading its arguments


@dataclass(frozen=True)
class Reads:
    """The bandwidth of reads from so many bytes, in GB/s, on one thread and on all."""

    bytes: int
    one: float
    all: float


@dataclass(frozen=True)
class Peaks:
    """The limits of a machine.

    Attributes:
        cpu: the processor.
        cores: the number of threads in ``all``.
        one: float32 multiply-adds on one thread, in GFLOP/s.
        all: likewise on all threads.
        reads: bandwidths by size, the smallest first; small sizes are read from caches.
    """

    cpu: str
    cores: int
    one: float
    all: float
    reads: Sequence[Reads]

    def flops(self, threads: int) -> float:
        """Return the GFLOP/s of so many threads."""
        return min(self.all, threads * self.one) if threads > 1 else self.one

    def bandwidth(self, size: float, threads: int) -> float:
        """Return the GB/s at which so many threads read ``size`` bytes."""
        row = next((r for r in self.reads if size <= r.bytes), self.reads[-1])
        return min(row.all, threads * row.one) if threads > 1 else row.one

    def limit(self, flops: float, size: float, threads: int) -> tuple[str, float]:
        """Return what limits a kernel call, and the microseconds that it takes at least."""
        arithmetic = flops / self.flops(threads) / 1e3
        memory = size / self.bandwidth(size, threads) / 1e3
        return ("arithmetic", arithmetic) if arithmetic > memory else ("memory", memory)

    def __str__(self) -> str:
        flops = f"float32 multiply-adds {self.one:.0f} GFLOP/s on one thread"
        last = self.reads[-1]
        reads = f"reads of memory {last.one:.1f} GB/s on one thread"
        if self.cores > 1:
            flops += f", {self.all:.0f} on {self.cores}"
            reads += f", {last.all:.1f} on {self.cores}"
        near = ", ".join(f"{r.all:.0f} GB/s from {r.bytes >> 10} KiB" for r in self.reads[:-1])
        return f"{self.cpu}: {flops}; {reads}; caches {near}"


def key_of_machine() -> str:
    """Return the key of this machine's limits in the cache."""
    return sha256(f"peaks 1; {cpu_name()}; {cores()}".encode()).hexdigest()


def stored_peaks(store: Store | None = None) -> Peaks | None:
    """Return the limits of this machine that an earlier measurement stored, or None."""
    store = store or store_of(Options.from_env())
    data = None if store is None else store.get(key_of_machine())
    return None if data is None else _read(data)


def store_peaks(peaks: Peaks, store: Store) -> None:
    """Store the limits of this machine."""
    store.put(key_of_machine(), json.dumps(asdict(peaks)).encode())


def _read(data: bytes) -> Peaks | None:
    try:
        fields = json.loads(data)
        reads = [Reads(**row) for row in fields.pop("reads")]
        return Peaks(**fields, reads=reads) if reads else None
    except (ValueError, TypeError, KeyError):
        return None
