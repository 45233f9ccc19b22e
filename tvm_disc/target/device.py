"""Descriptions of devices that run kernels beside the processor, for templates and launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_KIB = 1 << 10


@dataclass(frozen=True)
class Device:
    """A GPU, with the vendor's figures for the oldest architecture that code is generated for.

    Attributes:
        kind: selects the templates.
        architectures: compute capabilities in ascending order, such as 80 for ``sm_80``; machine
            code is generated for each, and PTX for newer ones.
        multiprocessors: of a typical card.
        registers: 32-bit registers of a multiprocessor.
        shared_bytes: static shared memory of a thread block.
        warp: threads of a warp.
        block_threads: maximum threads of a block.
        tensor_cores: whether there are tensor cores.
        bandwidth_gbs: memory bandwidth in GB/s.
        f32_gflops: peak of float32 in GFLOP/s, two operations for each multiply-add.
    """

    kind: str
    architectures: tuple[int, ...]
    multiprocessors: int
    registers: int
    shared_bytes: int
    warp: int
    block_threads: int
    tensor_cores: bool
    bandwidth_gbs: float
    f32_gflops: float

    @property
    def name(self) -> str:
        """Return the device as a target string, such as ``cuda sm_80 sm_90``."""
        return " ".join([self.kind, *(f"sm_{a}" for a in self.architectures)])


# (multiprocessors, GB/s, GFLOP/s) of a typical card, from the vendor's data sheets.
CUDA: dict[int, tuple[int, float, float]] = {
    70: (80, 900.0, 15700.0),
    75: (40, 320.0, 8100.0),
    80: (108, 1555.0, 19500.0),
    86: (84, 936.0, 29800.0),
    87: (16, 205.0, 5300.0),
    89: (128, 1008.0, 82600.0),
    90: (132, 3350.0, 67000.0),
    100: (148, 8000.0, 80000.0),
    120: (170, 1792.0, 104800.0),
}
DEFAULT = (80, 90)


def cuda_device(architectures: Sequence[int] = DEFAULT) -> Device:
    """Return the NVIDIA GPU for these architectures, which must be keys of ``CUDA``."""
    ordered = tuple(sorted(set(architectures)))
    first = ordered[0]
    cores, bandwidth, flops = CUDA[first]
    return Device(
        kind="cuda",
        architectures=ordered,
        multiprocessors=cores,
        registers=65536,
        shared_bytes=48 * _KIB,
        warp=32,
        block_threads=1024,
        tensor_cores=True,
        bandwidth_gbs=bandwidth,
        f32_gflops=flops,
    )


__all__ = ["CUDA", "DEFAULT", "Device", "cuda_device"]
