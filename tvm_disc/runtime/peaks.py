"""The limits of this machine, against which a profile compares kernels (a roofline).

The compiler measures the limits once per machine with special functions, and stores them in the
cache. Loaded programs read them from the cache.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

from tvm_disc.options import Options
from tvm_disc.support.processor import cores, cpu_name
from tvm_disc.support.store import Store, store_of

LAUNCH_US = 1.5  # in a shorter kernel call, launch and argument reads take most of the time


@dataclass(frozen=True)
class Reads:
    """The bandwidth in GB/s at which one thread, and all threads, read a buffer of ``bytes``."""

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
        all: float32 multiply-adds on all threads, in GFLOP/s.
        reads: bandwidths by size, the smallest first; small sizes are read from caches.
    """

    cpu: str
    cores: int
    one: float
    all: float
    reads: Sequence[Reads]

    def flops(self, threads: int) -> float:
        """Return the GFLOP/s that ``threads`` threads reach."""
        return min(self.all, threads * self.one) if threads > 1 else self.one

    def bandwidth(self, size: float, threads: int) -> float:
        """Return the GB/s at which ``threads`` threads read a buffer of ``size`` bytes."""
        row = next((r for r in self.reads if size <= r.bytes), self.reads[-1])
        return min(row.all, threads * row.one) if threads > 1 else row.one

    def limit(self, flops: float, size: float, threads: int) -> tuple[str, float]:
        """Return ``arithmetic`` or ``memory``, the limit of a kernel call, and the call's minimum
        time in microseconds.
        """
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
    """Return the stored limits of this machine, or None if they were never measured."""
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
